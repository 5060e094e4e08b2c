"""The plan of inference: which solver answers which components, as planned and as executed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lapis.results.result import Columns, Result
from lapis.runtime.views import View, new_view

# gave up: the step has no answer, and other steps follow. replaced: another step answered it.
Status = Literal["planned", "answered", "gave up", "replaced"]
MEMORY_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One step of a plan."""

    solvers: tuple[str, ...]  # methods that may answer, the first choice first
    reason: str
    num_atoms: int = 0  # 0 if they are not listed
    num_components: int = 0
    largest: int = 0  # atoms of the largest component
    width: int | None = None  # variables of the largest table minus 1; a lower bound if sampled
    num_bytes: float = 0.0  # of tables, or of kept samples
    seconds: float | None = None  # an estimate, if there is one
    world: str = ""
    status: Status = "planned"
    revised: bool = False  # added during execution
    methods: tuple[str, ...] = ()  # that answered
    measured: float | None = None  # seconds

    def document(self) -> dict[str, Any]:
        return {
            "world": self.world,
            "solvers": list(self.solvers),
            "atoms": self.num_atoms,
            "components": self.num_components,
            "largest_component": self.largest,
            "width": self.width,
            "bytes": round(self.num_bytes),
            "guessed_seconds": self.seconds,
            "reason": self.reason,
            "status": self.status,
            "revised": self.revised,
            "methods": list(self.methods),
            "measured_seconds": self.measured,
        }


@dataclass(frozen=True, repr=False)
class PlanReport(Result):
    """The steps of inference in order; times that were not measured are estimates."""

    rows: tuple[PlanRow, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_carried_out(self) -> bool:
        return any(row.status != "planned" for row in self.rows)

    def columns(self) -> Columns:
        found = [row.document() for row in self.rows]
        texts = ("solvers", "methods")
        return {
            name: ["+".join(each[name]) if name in texts else each[name] for each in found]
            for name in (found[0] if found else {})
        }

    def document(self) -> dict[str, Any]:
        return {"steps": [row.document() for row in self.rows]}

    def views(self) -> list[View]:
        several = len({row.world for row in self.rows}) > 1
        done = self.is_carried_out
        headings = ["solver", "atoms", "components", "largest", "width", "memory", "guess"]
        numbers = headings[1:]
        if done:
            headings += ["took", "outcome"]
        headings.append("reason")
        rows = []
        for row in self.rows:
            sizes = (row.num_atoms, row.num_components, row.largest)
            cells = [
                " or ".join(row.solvers),
                *(f"{size:,}" if size else "" for size in sizes),
                "" if row.width is None else str(row.width),
                describe_memory(row.num_bytes),
                describe_seconds(row.seconds),
            ]
            if done:
                cells += [describe_seconds(row.measured), describe_outcome(row)]
            rows.append([*([row.world] if several else []), *cells, row.reason])
        return [
            new_view(
                [*(["world"] if several else []), *headings],
                rows,
                numbers=[*numbers, "took"],
            )
        ]

    def summary(self) -> str:
        guessed = [row.seconds for row in self.rows if not row.revised and row.seconds is not None]
        text = f"{len(self.rows)} step{'' if len(self.rows) == 1 else 's'}"
        if guessed:
            text += f", about {describe_seconds(sum(guessed))} (a guess)"
        if self.is_carried_out:
            text += f", took {describe_seconds(sum(row.measured or 0.0 for row in self.rows))}"
        return text

    def remarks(self) -> list[str]:
        found = []
        if not self.is_carried_out and any("gibbs" in row.solvers for row in self.rows):
            found.append(
                "pilots choose between the samplers of a step; modes in which chains stay apart "
                "are weighed"
            )
        revised = sum(row.revised for row in self.rows)
        if revised:
            found.append(f"{revised} step{'' if revised == 1 else 's'} added on the way")
        return found


def join_plans(plans: Sequence[PlanReport | None]) -> PlanReport | None:
    """Join the plans of several worlds; None if there are none."""
    rows = [row for plan in plans if plan is not None for row in plan.rows]
    return PlanReport(tuple(rows)) if rows else None


def describe_outcome(row: PlanRow) -> str:
    text = "+".join(row.methods) if row.status == "answered" else row.status
    return f"{text} (added)" if row.revised else text


def describe_seconds(seconds: float | None) -> str:
    """Format a time.

    >>> describe_seconds(0.0004), describe_seconds(3.21), describe_seconds(4000)
    ('< 0.01 s', '3.2 s', '4,000 s')
    """
    if seconds is None:
        return ""
    if seconds < 0.01:
        return "< 0.01 s"
    return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:,.{1 if seconds < 100 else 0}f} s"


def describe_memory(num_bytes: float) -> str:
    """Format an amount of memory.

    >>> describe_memory(0), describe_memory(2_500_000)
    ('', '2.5 MB')
    """
    if not num_bytes:
        return ""
    power = min(int(math.log10(num_bytes)) // 3, len(MEMORY_UNITS) - 1)
    return f"{num_bytes / 1000**power:.3g} {MEMORY_UNITS[power]}"

"""`LearnedRules`, the result of structure learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from lapis.data.atomic_write import write_whole
from lapis.language.model import Model
from lapis.language.printer import print_model
from lapis.results.result import Columns, Result
from lapis.runtime.views import View, new_view
from lapis.structure.pricing import HeldOut


class LearnedRule(NamedTuple):
    """One learned clause."""

    text: str
    weight: float
    gain: float | None  # in WPLL over unit clauses; None for a unit clause
    support: int | None  # groundings in which all its atoms are true
    true: int  # groundings
    groundings: int
    words: str = ""  # the rule as a sentence
    examples: tuple[str, ...] = ()  # groundings in the data that satisfy it
    counterexamples: tuple[str, ...] = ()


# The columns of a rule in frames and JSON, and its fields.
SHOWN = {"formula": "text"} | {n: n for n in ("weight", "gain", "support", "true", "groundings")}
PSEUDO = "weighted pseudo-log-likelihood"
CONDITIONAL = "log-likelihood of predicates given the others, a mean for each"


class Penalty(NamedTuple):
    """The price of a literal of a rule that explains a predicate."""

    nats: float  # of log-likelihood of the predicate's atoms
    score: float  # the same in units of the measure
    coupling_nats: float  # for rules with two atoms of a target


@dataclass(frozen=True, repr=False)
class LearnedRules(Result):
    """Learned clauses, heaviest first, then unit clauses."""

    method: str
    rules: tuple[LearnedRule, ...]
    model: Model
    value: float  # the measure of the model on the data, without penalties
    unit_value: float  # of unit clauses alone
    interrupted: bool
    seconds: float
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    measure: str = PSEUDO  # of value and gains
    penalties: Mapping[str, Penalty] = field(default_factory=dict)  # by predicate, if chosen
    held_out: HeldOut | None = None  # gains in held-out parts, if there are any

    @cached_property
    def text(self) -> str:
        """The model as text, with gain and support of each clause as a comment."""
        title = (
            f"rules learned by {self.method}: {self.measure} {self.value:.4f}, "
            f"{self.unit_value:.4f} with unit clauses alone"
        )
        if self.held_out is not None:
            title += f"\n{self._describe_held_out()}"
        if self.interrupted:
            title += "\nstopped before the end: the rules so far"
        notes = [[describe_learned_rule(rule)] for rule in self.rules]
        return print_model(self.model, title=title, notes=notes)

    def _describe_held_out(self) -> str:
        assert self.held_out is not None
        own = self.held_out
        by = "worlds" if own.split_by == "worlds" else f"constants of type {own.split_by}"
        return (
            f"gain in parts held out: {own.gain:.4f}, {own.training_gain:.4f} where the same rules "
            f"were learned ({own.num_folds} parts, by {by})"
        )

    def save(self, path: str | Path) -> None:
        write_whole(path, self.text)

    def columns(self) -> Columns:
        return {name: [getattr(rule, own) for rule in self.rules] for name, own in SHOWN.items()}

    def views(self) -> list[View]:
        rows = [
            (
                f"{rule.weight:.4f}",
                rule.text,
                "" if rule.gain is None else f"{rule.gain:.4f}",
                "" if rule.support is None else f"{rule.support:,}",
            )
            for rule in self.rules
        ]
        numbers = ["weight", "gain", "support"]
        return [new_view(["weight", "formula", "gain", "support"], rows, numbers=numbers)]

    def explain(self) -> str:
        """Describe each rule in words, with examples and counterexamples from the data."""
        lines = []
        for rule in self.rules:
            if rule.gain is None:
                continue
            lines.append(f"{rule.weight:9.3f}  {rule.words}")
            lines += [f"{'':11}as in  {text}" for text in rule.examples]
            lines += [f"{'':11}but    {text}" for text in rule.counterexamples]
        return "\n".join(lines)

    def summary(self) -> str:
        found = sum(rule.gain is not None for rule in self.rules)
        return (
            f"{found} rules by {self.method} in {self.seconds:.1f} s, {self.measure} "
            f"{self.unit_value:.4f} → {self.value:.4f}"
        )

    def remarks(self) -> list[str]:
        stopped = ["stopped before the end: these are the rules so far"] if self.interrupted else []
        held_out = [] if self.held_out is None else [self._describe_held_out()]
        return [*stopped, *held_out, *self.warnings]

    def document(self) -> dict[str, Any]:
        names = ("method", "measure", "value", "unit_value", "interrupted", "seconds")
        return {
            **{name: getattr(self, name) for name in names},
            "rules": [
                {name: getattr(rule, own) for name, own in SHOWN.items()} for rule in self.rules
            ],
            "penalties": {name: own._asdict() for name, own in self.penalties.items()},
            "held_out": None if self.held_out is None else held_out_document(self.held_out),
            "warnings": list(self.warnings),
            **self.details,
        }


def held_out_document(held: HeldOut) -> dict[str, Any]:
    return {
        "split_by": held.split_by,
        "folds": held.num_folds,
        "gain": held.gain,
        "training_gain": held.training_gain,
        "predicates": {name: own._asdict() for name, own in held.predicates.items()},
    }


def describe_learned_rule(rule: LearnedRule) -> str:
    if rule.gain is None:
        return ""
    return f"gain {rule.gain:.4f}, {rule.support:,} in support, {rule.true:,}/{rule.groundings:,}"

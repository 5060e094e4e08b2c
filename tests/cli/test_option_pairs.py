"""Every two options of a command together: the answer of the definition, or a refusal in words.

No option is ignored in silence and nothing ends in a traceback. A new option needs a line in
`TYPED`, or the sweep says so.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import lapis
import oracle
from cli_run import Run
from lapis.cli.command_line import COMMANDS
from lapis.registry.option_field import options_of
from oracle import Facts, OracleAnswer

MODEL = """\
person = {Anna, Bob}
Friends(person, person)
Smokes(person)
Cancer(person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.4 Cancer(x)
"""
WORLDS = {
    "one.db": Facts((("Friends", ("Anna", "Bob")), ("Cancer", ("Anna",))), (("Smokes", ("Bob",)),)),
    "two.db": Facts((("Friends", ("Bob", "Chris")), ("Cancer", ("Anna",)))),
}
BELIEF = 0.7  # in Smokes(Anna)

# What is typed for each option; None where another place of the tests has it.
TYPED: Mapping[str, tuple[str, ...] | None] = {
    "query": ("-q Smokes", "-q Smokes,Cancer"),
    "open_predicates": ("--open Friends",),
    "evidence": ("--evidence Friends(Bob,Anna)",),
    "soft_as": ("--soft-as posterior",),
    "soft_evidence": (f"--soft-evidence Smokes(Anna)={BELIEF}",),
    "method": ("--method enumerate", "--method lifted", "--method bp"),
    "precision": ("--precision 0.05",),
    "time_limit": ("--time-limit 50",),
    "max_samples": ("--max-samples 500",),
    "num_chains": ("--num-chains 2",),
    "max_memory": ("--max-memory 1GB",),
    "ibound": ("--ibound 3",),
    "ijgp_iterations": ("--ijgp-iterations 4",),
    "ijgp_tolerance": ("--ijgp-tolerance 0.01",),
    "ijgp_damping": ("--ijgp-damping 0.2",),
    "bounds": ("--bounds",),
    "plan": ("--plan",),
    "relax": ("--relax",),
    "engine": ("--engine duckdb",),
    "tables": None,  # tests/relational
    "output": ("-o out.parquet", "-o out.json"),
    "cache": ("--cache kept",),
    "jobs": ("--jobs 1",),
    "counts": ("--counts ijgp",),
    "measure_error": ("--measure-error",),
    "explain": ("--explain",),
    "unobserved": None,  # tests/evaluation
    "posterior": None,  # tests/learning/test_averaging.py
    "num_draws": None,
    "only_listed": None,
    "likelihood": ("--no-likelihood",),
    "cnf": ("--cnf",),
    "missing": ("--missing skip",),
    "why": None,  # tests/explanation
    "change_to": None,
    "facts": None,
    "fit": None,
    "draw": None,
    "merge": ("--merge",),
    "strict": ("--strict",),
    "random_state": ("--seed 3",),
    "as_json": ("",),  # always
}
SWEPT = (
    "check", "count", "ground", "infer",
    *(pytest.param(command, marks=pytest.mark.slow) for command in ("map", "score")),
)  # fmt: skip


@dataclass(frozen=True)
class Typed:
    """A command with two of its options."""

    command: str
    flags: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        found = [word for flag in self.flags for word in flag.split()]
        asked = ["-q", "Smokes,Cancer"] * (self.command in ("ground", "infer", "map"))
        return [*found, *(asked if "-q" not in found else []), "--json"]

    def has(self, flag: str) -> bool:
        return flag in self.words

    @property
    def query(self) -> list[str]:
        return self.words[self.words.index("-q") + 1].split(",") if self.has("-q") else []

    def expected(self) -> dict[str, OracleAnswer]:
        """What the definition says of each world."""
        opened = frozenset({*self.query, *(["Friends"] if self.has("--open") else [])})
        worlds = merged() if self.has("--merge") else WORLDS
        if self.has("--evidence"):
            extra = ("Friends", ("Bob", "Anna"))
            worlds = {n: replace(facts, true=(*facts.true, extra)) for n, facts in worlds.items()}
        return {name: answer(self.model(facts, opened), facts, opened)
                for name, facts in worlds.items()}  # fmt: skip

    def model(self, facts: Facts, opened: frozenset[str]) -> str:
        """The model of a world: a belief is a unit rule, fitted if it is a posterior."""
        if not self.has("--soft-evidence"):
            return MODEL
        weight = math.log(BELIEF / (1 - BELIEF))
        if self.has("--soft-as"):
            weight -= answer(MODEL, facts, opened).log_odds["Smokes(Anna)"]
        return f"{MODEL}{weight!r} Smokes(Anna)\n"


def merged() -> dict[str, Facts]:
    first, second = WORLDS.values()
    true = tuple(dict.fromkeys(first.true + second.true))
    return {"one.db + two.db": Facts(true, first.false + second.false)}


@cache
def answer(model: str, facts: Facts, opened: frozenset[str]) -> OracleAnswer:
    return oracle.infer(lapis.parse(model), facts, opened)


@cache
def counts(is_merged: bool) -> list[tuple[int, ...]]:
    """True groundings and groundings of each formula, in all worlds."""
    worlds = (merged() if is_merged else WORLDS).values()
    counted = [oracle.count_true(lapis.parse(MODEL), facts).values() for facts in worlds]
    return [tuple(map(sum, zip(*row, strict=True))) for row in zip(*counted, strict=True)]


@cache
def likelihoods(is_merged: bool) -> tuple[float, float]:
    """Log-likelihood and pseudo-log-likelihood of all worlds."""
    model, worlds = lapis.parse(MODEL), (merged() if is_merged else WORLDS).values()
    return (
        sum(oracle.log_likelihood(model, facts) for facts in worlds),
        sum(oracle.pseudo_log_likelihood(model, facts) for facts in worlds),
    )


def pairs(command: str) -> Iterator[tuple[str, ...]]:
    names = [option.name for option in options_of(COMMANDS[command].options)]
    for one, other in itertools.combinations(names, 2):
        yield from itertools.product(TYPED[one] or (), TYPED[other] or ())


@pytest.mark.parametrize("command", SWEPT)
def test_every_option_is_swept(command: str) -> None:
    assert {option.name for option in options_of(COMMANDS[command].options)} <= TYPED.keys()


@pytest.mark.parametrize("command", SWEPT)
def test_two_options_are_answered_or_refused(command: str, run: Run) -> None:
    run.write("m.mln", MODEL)
    predicates = lapis.parse(MODEL).predicates
    for name, facts in WORLDS.items():
        run.write(name, oracle.render_database(predicates, facts))
    for flags in pairs(command):
        typed = Typed(command, flags)
        for place in ("out.parquet", "out.json"):
            (run.folder / place).unlink(missing_ok=True)
        code, out, err = run(command, "m.mln", *WORLDS, *typed.words)
        if code:
            assert (code, out) == (1, ""), flags
            assert err.startswith(("error: ", "one.db", "two.db")), (flags, err)
            assert refused(typed), (flags, err)
            continue
        assert not refused(typed), flags
        check(typed, json.loads(out, parse_constant=pytest.fail), run.folder)


ENGINE_ONLY = ("--jobs", "-o")
ESTIMATING = (
    "--ibound", "--ijgp-iterations", "--ijgp-tolerance", "--ijgp-damping", "--measure-error",
)  # fmt: skip
SAMPLERS = ("--precision", "--max-samples", "--num-chains")


def refused(typed: Typed) -> bool:
    """Whether the two options, or one of them here, have no meaning together."""
    method = typed.words[typed.words.index("--method") + 1] if typed.has("--method") else "auto"
    on_engine = typed.has("--engine")
    match typed.command:
        case "check":
            return False
        case "count":
            estimated = typed.has("--counts")
            return (
                typed.has("--explain")  # which prints no JSON
                or (estimated and on_engine)
                or (not estimated and any(map(typed.has, ESTIMATING)))
            )
        case "ground":
            return not typed.has("--merge") or typed.has("out.parquet")
        case "map":
            wrong_engine = on_engine and typed.has("--relax")
        case "infer":
            wrong_engine = on_engine and any(
                (typed.has("--relax"), typed.has("--bounds"), method == "lifted")
            )
        case _:
            wrong_engine = False
    if typed.command == "map" and method not in ("auto", "exact", "enumerate"):
        return True  # methods of infer
    if typed.command == "score" and not typed.query:
        # Both are about predictions, and nothing is predicted.
        return method != "auto" or typed.has("--precision")
    left = typed.has("-o") and (typed.has("out.json") or not typed.has("--merge"))
    unread = {
        "enumerate": (*SAMPLERS, "--bounds"),
        "lifted": (*SAMPLERS, "--bounds", "--relax"),
        "bp": SAMPLERS,
        "auto": (),
    }[method if typed.command != "map" else "auto"]
    return (
        wrong_engine
        or typed.has("--ibound")  # of count-gibbs
        or (not on_engine and any(map(typed.has, ENGINE_ONLY)))
        or (on_engine and left)
        or any(map(typed.has, unread))
    )


def check(typed: Typed, found: dict[str, Any], folder: Path) -> None:
    """Hold an answer against the definition."""
    match typed.command:
        case "infer":
            check_marginals(typed, found)
        case "map":
            best = sum(answer.map_score for answer in typed.expected().values())
            assert (found["optimal"], found["score"]) == (True, pytest.approx(best)), typed
        case "ground":
            unknown = sum(len(answer.unknown) for answer in typed.expected().values())
            assert found["atoms"] == unknown, typed
            assert (folder / "out.json").exists() == typed.has("out.json")
        case "count":
            rows = found["formulas"]
            if all(row["exact"] for row in rows):
                shown = [(row["true"], row["groundings"]) for row in rows]
                assert shown == counts(typed.has("--merge")), typed
        case "score":
            whole, pseudo = likelihoods(typed.has("--merge"))
            assert found["pseudo_log_likelihood"] == pytest.approx(pseudo), typed
            wanted = None if typed.has("--no-likelihood") else pytest.approx(whole)
            assert found["log_likelihood"] == wanted, typed
            assert (found["cll"] is None) == (not typed.query), typed


def check_marginals(typed: Typed, found: dict[str, Any]) -> None:
    expected = typed.expected()
    if found["exact"]:
        total = sum(answer.log_partition for answer in expected.values())
        each = [list(answer.expected_counts.values())[:3] for answer in expected.values()]
        assert found["log_partition"] == pytest.approx(total), typed
        assert found["expected_counts"] == pytest.approx([sum(n) for n in zip(*each, strict=True)])
    else:
        assert typed.has("bp"), typed
        assert typed.has("--open"), typed  # which makes cycles
    for row in found.get("atoms", []):
        if not found["exact"]:
            assert (row["method"], row["stderr"]) == ("bp", None)  # it claims nothing
            continue
        wanted = expected[row.get("world", "one.db + two.db")].marginals[row["atom"]]
        assert row["probability"] == pytest.approx(wanted, abs=1e-9), (typed, row)

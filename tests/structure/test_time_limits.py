"""A time limit ends a search with short rules, marked as interrupted, or with an error."""

from __future__ import annotations

import math
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lapis
from cli_run import Run
from lapis.errors import TooLarge
from lapis.methods import methods_of
from lapis.operations import learn_structure
from lapis.registry.options import StructureOptions
from lapis.runtime import progress
from lapis.runtime.limits import LimitExceeded
from lapis.structure import select
from lapis.structure.clause_scores import Scorer
from lapis.structure.ensemble import Ensemble
from lapis.structure.learned_rules import LearnedRules

MODEL = lapis.parse("r(a, b)\ns(b, c)\nt(a, c)\nu(a)")
PLANTED = "r(a, b) ^ s(b, c) => t(a, c)"
METHODS = sorted({*methods_of("structure")} - {"lift-graph"})  # which learns clusters
OPTIONS: dict[str, dict[str, Any]] = {
    "lapis": {"penalty": 0.01, "max_literals": 4},
    "lhl": {"lifting": "ground", "min_support": 2, "max_literals": 4, "max_examples": 10},
}
LIMITS = [*(round(2**power) for power in np.arange(3, 17, 0.5)), 10**7]  # looks at the clock


def planted_world(seed: int, size: int = 10) -> lapis.Database:
    """Return facts of the rule r(x,y) ^ s(y,z) => t(x,z), without noise."""
    generator = np.random.default_rng(seed)
    r, s = (generator.random((size, size)) < 0.12 for _ in "rs")
    t = r.astype(int) @ s.astype(int) > 0
    names = {"r": ("A", "B", r), "s": ("B", "C", s), "t": ("A", "C", t)}
    facts = [
        f"{'' if value else '!'}{name}({left}{i},{right}{j})"
        for name, (left, right, table) in names.items()
        for (i, j), value in np.ndenumerate(table)
    ]
    facts += [f"u(A{i})" for i in range(0, size, 2)]
    return lapis.Database.parse(" ".join(facts))


DATA = planted_world(1)


def search_rules(
    method: str, time_limit: float | None = None, data: Any = DATA, **changed: Any
) -> LearnedRules:
    given = {"max_literals": 3, "max_variables": 3, **OPTIONS.get(method, {}), **changed}
    options = StructureOptions(method=method, jobs=1, time_limit=time_limit, **given)
    return learn_structure(MODEL, data, options)


def search_or_none(method: str, time_limit: float, **changed: Any) -> LearnedRules | None:
    """Return the rules, or None if the time limit ended the search without a rule."""
    try:
        return search_rules(method, time_limit, **changed)
    except TooLarge as error:
        if error.code != progress.STOPPED or "no rule was learned" not in error.message:
            raise
        return None


def texts(found: LearnedRules) -> list[str]:
    return [rule.text for rule in found.rules if rule.gain is not None]


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits count looks at the clock."""
    ticks = count()
    monkeypatch.setattr(progress, "work_clock", lambda: float(next(ticks)))


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("method", METHODS)
def test_any_limit_gives_sensible_rules_or_an_error(method: str) -> None:
    """With more time there are rules, then the planted one, then those of the whole search.

    A search that is not marked as interrupted is the whole search.
    """
    whole = search_rules(method)
    assert not whole.interrupted
    outcomes = []
    for limit in LIMITS:
        found = search_or_none(method, limit)
        if found is None:
            outcomes.append("nothing")
            continue
        if not found.interrupted:
            assert (found.rules, found.value) == (whole.rules, whole.value)
            outcomes.append("whole")
            continue
        assert found.value >= found.unit_value
        assert all(rule.gain > 0 for rule in found.rules if rule.gain is not None)
        score = lapis.score(found.model, DATA, likelihood=False)
        assert score.weighted_pseudo_log_likelihood == pytest.approx(found.value, abs=1e-8)
        outcomes.append("planted" if PLANTED in texts(found) else "others")
    order = ("nothing", "others", "planted", "whole")
    assert [order.index(each) for each in outcomes] == sorted(map(order.index, outcomes))
    assert outcomes[0] == "nothing"
    assert "planted" in outcomes
    assert outcomes[-1] == "whole"


@pytest.mark.parametrize("method", ["lapis", "lhl"])
@pytest.mark.parametrize("error", [LimitExceeded(), progress.out_of_time("scoring")])
def test_what_was_scored_before_the_limit_is_selected_from(
    method: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the time ends at the first path of four literals, the rules are those of three."""
    short = search_rules(method, max_literals=3)
    score = Scorer.score

    def score_short(self: Scorer, path: Any, *others: Any) -> Any:
        if len(path) > 3:
            raise error
        return score(self, path, *others)

    monkeypatch.setattr(Scorer, "score", score_short)
    found = search_rules(method, max_literals=4)
    assert found.interrupted
    assert PLANTED in texts(found)
    assert found.rules == short.rules


@pytest.mark.parametrize("final", ["lazy", "greedy", "l1"])
@pytest.mark.parametrize("call", ["add", "refit", "gain_of"])
def test_a_limit_keeps_the_rules_selected_so_far(
    final: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = search_rules("lapis", penalty=0.001, max_literals=3, final=final)
    method, calls = getattr(Ensemble, call), count()

    def limited(self: Ensemble, *args: Any, **kwargs: Any) -> Any:
        if next(calls) == at:
            raise LimitExceeded
        return method(self, *args, **kwargs)

    monkeypatch.setattr(Ensemble, call, limited)
    numbers = []
    for at in range(1, 4):
        calls = count()
        try:
            found = search_rules("lapis", penalty=0.001, max_literals=3, final=final)
        except TooLarge:
            assert final == "l1"  # its clauses have no weights before they are fitted together
            continue
        assert found.interrupted == (next(calls) > at)
        numbers.append(len(texts(found)))
        assert found.interrupted or found.rules == whole.rules
        score = lapis.score(found.model, DATA, likelihood=False)
        assert score.weighted_pseudo_log_likelihood == pytest.approx(found.value, abs=1e-8)
    assert final == "l1" or (numbers[0] >= 1 and numbers == sorted(numbers))


def test_a_memory_limit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def score(*_: object) -> None:
        raise LimitExceeded("memory limit")

    monkeypatch.setattr(Scorer, "score", score)
    with pytest.raises(LimitExceeded):
        search_rules("lapis")


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("method", METHODS)
def test_limited_searches_are_resumed(method: str, tmp_path: Path) -> None:
    """The log of a limited search is a prefix of the whole one's."""
    ask = {"max_literals": 3, "max_clauses": 3}
    whole = search_rules(method, checkpoint=tmp_path / "whole", **ask)
    for limit in (200, 1000, 3000, 10_000):
        search_or_none(method, limit, checkpoint=tmp_path / "run", **ask)
    found = search_rules(method, checkpoint=tmp_path / "run", **ask)
    assert (found.rules, found.value) == (whole.rules, whole.value)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "run").read_bytes()


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("worlds", [1, 2])
def test_the_choice_of_dangling_leaves_time_for_the_search(worlds: int) -> None:
    data = [planted_world(seed) for seed in range(worlds)]
    ask: dict[str, Any] = {"conditioning": "atoms", "dangling": "best", "max_literals": 3}
    found = [
        search_rules("lapis", limit, data=data, **ask) for limit in (600, 1200, 2400, math.inf)
    ]
    were_cut = [each.interrupted for each in found]
    assert were_cut == sorted(were_cut, reverse=True)
    assert were_cut[0]
    assert not were_cut[-1]
    assert all(texts(each) for each in found)
    assert PLANTED in texts(found[-1])


def test_a_limit_keeps_the_best_weights_of_coupled_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a point of the likelihood of the groups, the clauses that couple atoms leave."""
    ask: dict[str, Any] = {
        "conditioning": "predicates", "joint_targets": "P,Q", "max_literals": 3, "max_clauses": 4,
        "jobs": 1, "penalty": 0.001,
    }  # fmt: skip
    model = lapis.parse("P(a)\nQ(a)\nR(a, b)\nT(b)")
    generator = np.random.default_rng(4)
    worlds = []
    for _ in range(2):
        p, q = generator.random((2, 8)) < 0.5
        noise = generator.random((8, 3)) < 0.05
        r = (p & q)[:, None] ^ noise
        truths = {f"P(A{i})": p[i] for i in range(8)} | {f"Q(A{i})": q[i] for i in range(8)}
        truths |= {f"R(A{i},B{j})": r[i, j] for i in range(8) for j in range(3)}
        truths |= {f"T(B{j})": j == 1 for j in range(3)}
        worlds.append(truths)
    data = [write_world(truths) for truths in worlds]
    whole = lapis.learn_structure(model, data, **ask)
    coupling = [text for text in texts(whole) if {"P", "Q"} <= set(text)]
    assert coupling
    evaluate, calls = select.CoupledGroup.at, count()

    def limited(self: Any, weights: np.ndarray) -> Any:
        if next(calls) == at:
            raise LimitExceeded
        return evaluate(self, weights)

    monkeypatch.setattr(select.CoupledGroup, "at", limited)
    for at in (0, 1, 3):
        calls = count()
        found = lapis.learn_structure(model, data, **ask)
        assert found.interrupted
        kept = set(texts(found))  # listed by weight, and the weights differ
        assert kept == set(texts(whole)) or (not at and not set(coupling) & kept)
        assert found.value == pytest.approx(conditional_value(found, worlds), abs=1e-8)


def write_world(truths: dict[str, bool], left_out: str = "") -> lapis.Database:
    """Return the facts of predicates, whose names have a letter, outside `left_out`."""
    kept = {atom: value for atom, value in truths.items() if atom[0] not in left_out}
    return lapis.Database.parse(" ".join(f"{'!' * (not v)}{atom}" for atom, v in kept.items()))


def conditional_value(found: LearnedRules, worlds: list[dict[str, bool]]) -> float:
    """Sum the log-likelihoods of P and Q, R, and T given the others, means over their atoms."""
    total = 0.0
    for group, truths in product(("PQ", "R", "T"), worlds):
        rows = lapis.count(found.model, write_world(truths)).rows
        score = sum(row.true * rule.weight for row, rule in zip(rows, found.rules, strict=True))
        given = write_world(truths, left_out=group)
        answer = lapis.infer(found.model, given, query=list(group), method="exact")
        atoms = sum(atom[0] in group for atom in truths) * len(worlds)
        total += len(group) / atoms * (score - answer.log_partition)
    return total


def test_the_command_writes_no_file_without_a_rule(run: Run, tmp_path: Path) -> None:
    (tmp_path / "m.mln").write_text("r(p, p)\na(p)\n")
    (tmp_path / "d.db").write_text(" ".join(f"r(P{i},P{(i + 1) % 8}) a(P{i})" for i in range(8)))
    words = f"structure {tmp_path}/m.mln {tmp_path}/d.db -o {tmp_path}/out.mln --max-literals 8"
    code, _, err = run(*words.split(), "--time-limit", "0.000001", "--jobs", "1")
    assert code == 3
    assert "time limit" in err
    assert not (tmp_path / "out.mln").exists()

"""Every engine on random plans, against trying all assignments; one suite for all of them."""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapis.errors import TooLarge
from lapis.relational.engines import (
    AutoEngine,
    Comparison,
    DuckDBEngine,
    Engine,
    JoinPlan,
    MemoryEngine,
    Source,
)
from lapis.relational.engines import engine as engine_choice

SIZES = {"w": 3, "x": 3, "y": 3, "z": 3, "e": 0}
ARITIES = {"N": 0, "U": 1, "R": 2, "S": 2, "T": 3}
VALUES = np.array([2.0, np.nan, 1.0])
COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}

Relations = dict[str, set[tuple[int, ...]]]


ENGINES = [MemoryEngine, DuckDBEngine, AutoEngine]


@st.composite
def relations(draw: st.DrawFn) -> Relations:
    return {
        name: draw(st.sets(st.tuples(*[st.integers(0, 2)] * arity), max_size=6))
        for name, arity in ARITIES.items()
    }


@st.composite
def sources(draw: st.DrawFn) -> Source:
    name = draw(st.sampled_from(sorted(ARITIES)))
    column = st.sampled_from(["w", "x", "y", "z", 0, 1])
    return Source(name, tuple(draw(column) for _ in range(ARITIES[name])))


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    variable = st.sampled_from("wxyz")
    sign, left, right = draw(st.sampled_from(sorted(COMPARE))), draw(variable), draw(variable)
    if draw(st.booleans()):
        offset = draw(st.sampled_from([0.0, 1.0, -1.0]))
        return Comparison(sign, left, right, offset, "V", "V", draw(st.booleans()))
    return Comparison(sign, left, right, holds=draw(st.booleans()))


@st.composite
def plans(draw: st.DrawFn) -> JoinPlan:
    used = ["w", "x", "y", "z"] + (["e"] if draw(st.integers(0, 9)) == 0 else [])
    return JoinPlan(
        tuple((name, SIZES[name]) for name in used),
        tuple(draw(st.lists(sources(), max_size=3))),
        tuple(draw(st.lists(sources(), max_size=2))),
        tuple(draw(st.lists(comparisons(), max_size=2))),
        tuple(draw(st.permutations(used))[: draw(st.integers(0, len(used)))]),
    )


def try_all(plan: JoinPlan, stored: Relations) -> list[tuple[tuple[int, ...], int]]:
    names = [name for name, _ in plan.variables]
    found: Counter[tuple[int, ...]] = Counter()
    for codes in itertools.product(*(range(size) for _, size in plan.variables)):
        value = dict(zip(names, codes, strict=True))

        def matches(source: Source, value: dict[str, int] = value) -> bool:
            row = tuple(value[c] if isinstance(c, str) else c for c in source.columns)
            return row in stored[source.relation]

        def passes(test: Comparison, value: dict[str, int] = value) -> bool:
            left: float = value[test.left]
            right: float = value[test.right]
            if test.left_values is not None:
                left, right = VALUES[value[test.left]], VALUES[value[test.right]]
            numbers = left == left and right == right
            return (numbers and COMPARE[test.operator](left, right + test.offset)) == test.holds

        if (
            all(map(matches, plan.joins))
            and not any(map(matches, plan.antis))
            and all(map(passes, plan.comparisons))
        ):
            found[tuple(value[name] for name in plan.outputs)] += 1
    return sorted(found.items())


def filled(make: Callable[[], Engine], stored: Relations) -> Engine:
    engine = make()
    for name, rows in stored.items():
        listed = np.array(sorted(rows), np.int32).reshape(len(rows), ARITIES[name])
        engine.create_relation(name, listed)
    engine.create_values("V", VALUES)
    return engine


@pytest.mark.parametrize("make", ENGINES)
@given(plan=plans(), stored=relations())
@settings(max_examples=80, deadline=None)
def test_answers_are_sorted_and_exact(
    make: Callable[[], Engine], plan: JoinPlan, stored: Relations
) -> None:
    engine = filled(make, stored)
    answer = engine.fetch(plan)
    columns = [answer.columns[name].tolist() for name in plan.outputs]
    rows = list(zip(*columns, strict=True)) if columns else [()] * len(answer)
    assert list(zip(rows, answer.count.tolist(), strict=True)) == try_all(plan, stored)
    assert all(column.dtype == np.int32 for column in answer.columns.values())
    engine.close()


@pytest.mark.parametrize("make", ENGINES)
def test_a_path_is_counted_not_listed(make: Callable[[], Engine]) -> None:
    steps = np.array(list(itertools.product(range(30), repeat=2)), np.int32)
    engine = make()
    engine.create_relation("Step", steps)
    names = [f"v{i}" for i in range(5)]
    plan = JoinPlan(
        tuple((name, 30) for name in names),
        tuple(Source("Step", pair) for pair in itertools.pairwise(names)),
        outputs=("v0", "v4"),
    )
    answer = engine.fetch(plan)
    assert len(answer) == 900
    assert set(answer.count.tolist()) == {30.0**3}
    engine.close()


def test_auto_gives_large_joins_to_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = np.unique(rng.integers(0, 50, (400, 2)).astype(np.int32), axis=0)
    plan = JoinPlan(
        (("x", 50), ("y", 50), ("z", 50)),
        (Source("R", ("x", "y")), Source("R", ("y", "z"))),
        (Source("R", ("x", "z")),),
        outputs=("x", "z"),
    )
    ran = []
    original = DuckDBEngine.fetch_component
    monkeypatch.setattr(
        DuckDBEngine,
        "fetch_component",
        lambda self, part: ran.append(part) or original(self, part),
    )
    answers = []
    for limit in (engine_choice.MEMORY_ROWS, 10):
        monkeypatch.setattr(engine_choice, "MEMORY_ROWS", limit)
        engine = AutoEngine()
        engine.create_relation("R", rows)
        answers.append(engine.fetch(plan))
        engine.close()
    assert ran == [plan]
    for name in plan.outputs:
        assert np.array_equal(answers[0].columns[name], answers[1].columns[name])
    assert np.array_equal(answers[0].count, answers[1].count)


def test_a_join_beyond_the_limit_is_refused() -> None:
    engine = MemoryEngine(max_rows=1000)
    engine.create_relation("R", np.array([[i, 0] for i in range(100)], np.int32))
    plan = JoinPlan(
        (("x", 100), ("y", 100), ("z", 1)),
        (Source("R", ("x", "z")), Source("R", ("y", "z"))),
        outputs=("x", "y"),
    )
    with pytest.raises(TooLarge, match="10,000 rows"):
        engine.fetch(plan)


def test_estimates_follow_the_joins() -> None:
    engine = MemoryEngine()
    engine.create_relation("R", np.array([[i, i % 10] for i in range(100)], np.int32))
    both = (Source("R", ("x", "z")), Source("R", ("y", "z")))
    variables = (("x", 100), ("y", 100), ("z", 10))
    assert engine.estimate_rows(JoinPlan(variables, both, outputs=("x", "y", "z"))) == 1000
    assert engine.estimate_rows(JoinPlan(variables, both, outputs=("z",))) == 10
    assert engine.estimate_rows(JoinPlan(variables, outputs=("x", "y"))) == 10_000


def test_a_name_is_used_once() -> None:
    engine = AutoEngine()
    engine.create_relation("R", np.empty((0, 2), np.int32))
    with pytest.raises(ValueError, match="exists already"):
        engine.create_relation("R", np.empty((0, 2), np.int32))


def test_duckdb_keeps_to_the_memory_given() -> None:
    """A skewed join of 36 million rows that the estimate takes for 24,000."""
    people = 6000
    rows = [[i, 0] for i in range(people)] + [[0, i] for i in range(1, people)]
    engine = DuckDBEngine(max_memory=2**26)
    engine.create_relation("R", np.array(rows, np.int32))
    plan = JoinPlan(
        (("x", people), ("y", people), ("z", people)),
        (Source("R", ("x", "y")), Source("R", ("z", "y"))),
        outputs=("x", "z"),
    )
    assert engine.estimate_rows(plan) < 10**5
    with pytest.raises(TooLarge, match="does not fit"):
        engine.fetch(plan)
    engine.close()
    # The limit is set anew by the next engine on the connection.
    roomy = DuckDBEngine(max_memory=2**31)
    roomy.create_relation("R", np.array(rows, np.int32))
    counted = JoinPlan(plan.variables, plan.joins, outputs=())
    assert roomy.fetch(counted).count.tolist() == [people**2 + people - 1]
    roomy.close()

"""Classes with huge domains, huge counts and samples, and the limits that are refused."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counting.small_worlds import build
from lapis.counting.differences import argument_classes, atom_classes, block_classes
from lapis.counting.differences.argument_classes import Function, count_signatures
from lapis.counting.differences.atom_classes import find_difference_classes, pseudo_log_likelihood
from lapis.counting.differences.atom_differences import open_differences
from lapis.counting.differences.block_classes import find_block_classes
from lapis.counting.flipping_world import FlippingWorld
from lapis.errors import LapisError, TooLarge
from lapis.language.model import Predicate
from lapis.language.syntax import Variable
from lapis.logic.clauses import Clause, Condition, Cube, Definition, Feature, Literal
from lapis.problem.problem import Evidence
from lapis.relational import factor

PEOPLE = 100_000
NAMES = tuple(f"P{number}" for number in range(PEOPLE))
SMOKES = Predicate("Smokes", ("p",))
FRIENDS = Predicate("Friends", ("p", "p"))


def literal(predicate: str, *names: str, positive: bool = True) -> Literal:
    return Literal(predicate, tuple(map(Variable, names)), positive)


def feature(*literals: Literal, variables: str, rule: int = 0, **options: object) -> Feature:
    typed = tuple((name, "p") for name in variables)
    return Feature(rule, typed, (), (Clause(literals),), 0, bool(options.get("hard", False)))


INFLUENCE = feature(
    literal("Friends", "x", "y", positive=False),
    literal("Smokes", "x", positive=False),
    literal("Smokes", "y"),
    variables="xy",
)


@st.composite
def functions(draw: st.DrawFn) -> tuple[list[Function], list[int]]:
    sizes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    found = []
    for _ in range(draw(st.integers(0, 4))):
        axes = tuple(sorted(draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1))))
        points = list(itertools.product(*(range(sizes[axis]) for axis in axes)))
        values = [draw(st.integers(0, 2)) for _ in points]
        rows = [point for point, value in zip(points, values, strict=True) if value]
        table = np.array(rows, np.int32).reshape(len(rows), len(axes))
        found.append(Function(axes, table, np.array([v for v in values if v], np.int64)))
    return found, sizes


@given(functions())
def test_signatures_match_enumeration(drawn: tuple[list[Function], list[int]]) -> None:
    found, sizes = drawn
    tables = [
        dict(zip(map(tuple, function.rows.tolist()), function.value.tolist(), strict=True))
        for function in found
    ]
    expected: Counter[tuple[int, ...]] = Counter()
    for point in itertools.product(*map(range, sizes)):
        signature = (
            table.get(tuple(point[axis] for axis in function.axes), 0)
            for function, table in zip(found, tables, strict=True)
        )
        expected[tuple(signature)] += 1
    counted = count_signatures(found, sizes)
    rows = map(tuple, counted.value.tolist())
    assert dict(zip(rows, counted.multiplicity.tolist(), strict=True)) == expected


def test_multiplicities_and_differences_beyond_64_bits() -> None:
    """10^20 atoms of Wide; each atom of Smokes in 10^20 groundings."""
    wide = Predicate("Wide", ("p",) * 4)
    many = feature(literal("Smokes", "x"), variables="xabcd")
    once = feature(literal("Wide", "a", "b", "c", "d"), variables="abcd", rule=1)
    true = {("Wide", (1, 2, 3, 4)), ("Smokes", (5,))}
    problem = build({"p": NAMES}, (SMOKES, wide), (many, once), true).problem
    smokes = find_difference_classes(problem, "Smokes")
    assert smokes.difference.tolist() == [PEOPLE**4] * 2
    assert sorted(smokes.multiplicity.tolist()) == [1, PEOPLE - 1]
    atoms = find_difference_classes(problem, "Wide")
    assert sorted(atoms.multiplicity.tolist()) == [1, PEOPLE**4 - 1]
    assert atoms.difference.tolist() == [1, 1]
    world = FlippingWorld(problem)
    assert world.counts.tolist() == [PEOPLE**4, 1]
    world.flip("Smokes", [6])
    assert world.counts.tolist() == [2 * PEOPLE**4, 1]


def test_ten_billion_atoms_fall_into_few_classes() -> None:
    smokers = {("Smokes", (number,)) for number in range(0, PEOPLE, 4)}
    friends = {("Friends", (number, number + 1)) for number in range(0, PEOPLE - 1, 2)}
    problem = build({"p": NAMES}, (SMOKES, FRIENDS), (INFLUENCE,), smokers | friends).problem
    found = find_difference_classes(problem, "Friends")
    # A friendship matters where x smokes and y does not.
    smoking, others = PEOPLE // 4, PEOPLE - PEOPLE // 4
    told = {
        (tuple(found.vectors.take(np.array([number])).value.tolist()), bool(truth)): int(count)
        for number, (truth, count) in enumerate(zip(found.truth, found.multiplicity, strict=True))
    }
    assert told == {
        ((-1,), True): PEOPLE // 4,  # from each smoker 4k to 4k + 1
        ((), True): PEOPLE // 4,
        ((-1,), False): smoking * others - PEOPLE // 4,
        ((), False): PEOPLE**2 - smoking * others - PEOPLE // 4,
    }


def test_another_world_takes_the_place_of_the_data() -> None:
    problem = build({"p": NAMES[:3]}, (SMOKES, FRIENDS), (INFLUENCE,), set()).problem
    world = {"Smokes": np.array([[2], [0]]), "Friends": np.array([[2, 1]])}
    vectors, truth = open_differences(problem, "Smokes", world).at_rows(np.array([[0], [1], [2]]))
    # Smokes(P2) breaks Friends(P2,P1), Smokes(P1) mends it, P0 has no friend.
    values = [tuple(vectors.take(np.array([each])).value) for each in range(3)]
    assert (values, truth.tolist()) == ([(), (1,), (-1,)], [True, False, True])
    assert FlippingWorld(problem, world=world).counts.tolist() == [8]


def test_data_that_breaks_a_hard_rule_is_named() -> None:
    symmetric = feature(
        literal("Friends", "x", "y", positive=False),
        literal("Friends", "y", "x"),
        variables="xy",
        rule=1,
        hard=True,
    )
    problem = build(
        {"p": NAMES[:3]}, (SMOKES, FRIENDS), (INFLUENCE, symmetric), {("Friends", (0, 1))}
    ).problem
    found = find_difference_classes(problem, "Smokes")
    assert found.violated_rules == (1,)
    assert pseudo_log_likelihood(found, np.zeros(1)).value == -np.inf
    assert FlippingWorld(problem).violated_rules == (1,)


def test_unknown_atoms_are_refused() -> None:
    problem = build({"p": NAMES[:2]}, (SMOKES, FRIENDS), (INFLUENCE,), set()).problem
    none = np.empty((0, 1), np.int32)
    problem.evidence["Smokes"] = Evidence(SMOKES, True, none, none, none)  # type: ignore[index]
    with pytest.raises(LapisError) as caught:
        find_difference_classes(problem, "Friends")
    assert caught.value.code == "incomplete-world"


def test_too_many_classes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    friends = {("Friends", (x, y)) for x in range(9) for y in range(x)}
    common = feature(
        literal("Friends", "x", "y"),
        literal("Friends", "x", "z", positive=False),
        literal("Friends", "y", "u", positive=False),
        variables="xyzu",
    )
    problem = build({"p": NAMES[:9]}, (SMOKES, FRIENDS), (common,), friends).problem
    assert len(find_difference_classes(problem, "Friends")) > 20
    monkeypatch.setattr(argument_classes, "MAX_SIGNATURES", 20)
    with pytest.raises(TooLarge) as caught:
        find_difference_classes(problem, "Friends")
    assert caught.value.code == "too-many-classes"


def test_listing_atoms_and_blocks_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    somebody = Definition(
        Predicate("Somebody", ()),
        (),
        (("x", "p"), ("y", "p"), ("z", "p")),
        (Cube((literal("Friends", "x", "y"), literal("Friends", "y", "z"))),),
    )
    chained = feature(literal("Somebody"), variables="")
    marked = Predicate("Friends", ("p", "p"), block=(1,))
    problem = build({"p": NAMES[:5]}, (marked,), (chained,), set(), [somebody]).problem
    assert find_difference_classes(problem, "Friends").multiplicity.tolist() == [20, 5]
    monkeypatch.setattr(atom_classes, "MAX_LISTED", 24)
    monkeypatch.setattr(block_classes, "MAX_LISTED", 24)
    for find in (find_difference_classes, find_block_classes):
        with pytest.raises(TooLarge) as caught:
            find(problem, "Friends")
        assert caught.value.code == "too-many-atoms"

    plain = build({"p": NAMES[:5]}, (marked,), (), set()).problem
    monkeypatch.setattr(block_classes, "MAX_BLOCKS", 4)
    with pytest.raises(TooLarge) as caught:
        find_block_classes(plain, "Friends")
    assert caught.value.code == "too-many-blocks"


def test_joins_beyond_the_limit_are_run_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    later = Feature(
        0,
        (("x", "p"), ("y", "p")),
        (),
        (Clause((literal("Smokes", "x"),), (Condition("<", Variable("x"), Variable("y")),)),),
        0,
        False,
    )
    problem = build({"p": NAMES[:5]}, (SMOKES, FRIENDS), (later,), set()).problem
    whole = find_difference_classes(problem, "Smokes")
    monkeypatch.setattr(factor, "MAX_PAIRS", 4)
    sliced = find_difference_classes(problem, "Smokes")
    for name in ("class_start", "difference", "truth", "multiplicity"):
        np.testing.assert_array_equal(getattr(sliced, name), getattr(whole, name))


def test_a_quantifier_that_nearly_always_holds_is_not_listed() -> None:
    """All 10^10 pairs are apart: their complement is listed, and the differences are classes."""
    nobody = Definition(
        Predicate("Apart", ("p", "p")),
        (("x", "p"), ("y", "p")),
        (),
        (Cube((literal("Friends", "x", "y", positive=False),)),),
    )
    apart = feature(literal("Apart", "x", "y"), literal("Smokes", "x"), variables="xy")
    facts = {("Friends", (0, 1))}
    problem = build({"p": NAMES}, (SMOKES, FRIENDS), (apart,), facts, [nobody]).problem
    found = find_difference_classes(problem, "Smokes")
    # Only P0 has a pair that is not apart, which its smoking makes true.
    assert found.multiplicity.tolist() == [PEOPLE - 1, 1]

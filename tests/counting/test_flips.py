"""Visit many atoms in one call: compare each step with the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
from counting.small_worlds import PREDICATES, Atom, Small, all_atoms, count_true, small_problems
from lapis.counting.flipping_world import FlippingWorld, Parts


def as_parts(atoms: list[Atom]) -> Parts:
    return [(name, np.array([row], np.int32).reshape(1, len(row))) for name, row in atoms]


def step(small: Small, true: frozenset[Atom], atom: Atom) -> tuple[np.ndarray, int]:
    """d and that of hard groundings which hold, by counting all groundings twice."""
    more, bad = count_true(small.problem, true | {atom})
    fewer, worse = count_true(small.problem, true - {atom})
    return np.subtract(more, fewer), worse - bad


@given(small_problems(quantifiers=True), st.integers(0, 2**32 - 1), st.booleans())
def test_a_chain_is_that_of_the_definition(small: Small, seed: int, wide: bool) -> None:
    rng = np.random.default_rng(seed)
    every = [(p.name, row) for p in PREDICATES for row in all_atoms(small.problem, p)]
    atoms = [every[at] for at in rng.integers(len(every), size=12).tolist()]
    world = FlippingWorld(small.problem)
    if wide:
        world._relations.widen()
    weights = rng.normal(size=len(world.counts))
    noise = rng.logistic(size=len(atoms))
    found = world.draw(as_parts(atoms), weights, noise, noted=True)
    true = frozenset(small.true)
    for number, atom in enumerate(atoms):
        d, hard = step(small, true, atom)
        entries = slice(found.start[number], found.start[number + 1])
        noted = np.zeros(len(d) + 1, np.int64)
        noted[found.column[entries]] = found.value[entries]
        assert noted.tolist() == [*d.tolist(), hard]
        assert found.truth[number] == (atom in true)
        score = float(weights @ d)
        chance = float(hard > 0) if hard else 1.0 / (1.0 + math.exp(-score))
        assert found.probability[number] == pytest.approx(chance, abs=1e-12)
        value = hard > 0 if hard else score + noise[number] > 0
        assert found.flipped[number] == (value != (atom in true))
        true = true | {atom} if value else true - {atom}
    assert (world.counts.tolist(), world.violations) == count_true(small.problem, true)
    for predicate in PREDICATES:
        rows = {(predicate.name, tuple(row)) for row in world.true_rows(predicate.name).tolist()}
        assert rows == {atom for atom in true if atom[0] == predicate.name}


@given(small_problems(quantifiers=True), st.integers(0, 2**32 - 1), st.booleans())
def test_blocks_are_drawn_as_defined(small: Small, seed: int, wide: bool) -> None:
    """Any atoms of a predicate make a block; some have two values at first, and one comes twice."""
    rng = np.random.default_rng(seed)
    have_atoms = [each for each in PREDICATES if list(all_atoms(small.problem, each))]
    predicate = have_atoms[int(rng.integers(len(have_atoms)))]
    rows = np.array(list(all_atoms(small.problem, predicate)), np.int32)
    rows = rows.reshape(len(rows), predicate.arity)
    cuts = np.sort(rng.choice(np.arange(1, len(rows)), min(2, len(rows) - 1), replace=False))
    parts = np.split(rows[rng.permutation(len(rows))], cuts)
    parts = [parts[at] for at in rng.integers(len(parts), size=5).tolist()]
    start = np.cumsum([0, *map(len, parts)])
    is_exact = rng.random(len(parts)) < 0.5
    world = FlippingWorld(small.problem)
    if wide:
        world._relations.widen()
    weights = rng.normal(size=len(world.counts))
    noise = rng.gumbel(size=start[-1] + len(parts))
    visits, blocks = world.draw_blocks(
        predicate.name, np.concatenate(parts), start, is_exact, weights, noise, noted=True
    )
    true = frozenset(small.true)
    for number, part in enumerate(parts):
        atoms = [(predicate.name, tuple(row)) for row in part.tolist()]
        seen = visits.truth[start[number] : start[number + 1]].tolist()
        assert seen == [atom in true for atom in atoms]
        true -= frozenset(atoms)
        empty, bad = count_true(small.problem, true)
        values = []  # score, hard groundings that hold more than without
        for place, atom in enumerate(atoms, start[number]):
            counts, worse = count_true(small.problem, true | {atom})
            noted = np.zeros(len(counts) + 1, np.int64)
            entries = slice(visits.start[place], visits.start[place + 1])
            noted[visits.column[entries]] = visits.value[entries]
            assert noted.tolist() == [*np.subtract(counts, empty).tolist(), bad - worse]
            values.append((float(weights @ np.subtract(counts, empty)), bad - worse))
        if not is_exact[number]:
            values.append((0.0, 0))
        most = max(hard for _, hard in values)
        own = slice(start[number] + number, start[number + 1] + number + 1)
        score = [value if hard == most else -math.inf for value, hard in values]
        score += [-math.inf] * bool(is_exact[number])
        np.testing.assert_allclose(blocks.score[own], score, atol=1e-12)
        assert blocks.taken[number] == np.argmax(score + noise[own])
        true |= frozenset(atoms[blocks.taken[number] : blocks.taken[number] + 1])
    assert (world.counts.tolist(), world.violations) == count_true(small.problem, true)


def test_a_world_grows_while_blocks_are_drawn() -> None:
    """From no atom to one in each of 400 blocks, with witnesses that follow: room runs short."""
    size = 400
    model = (
        f"t = {{1, ..., {size}}}\nc = {{1, ..., 5}}\nF(t, c!)\nS(t)\nF(x,+y) ^ S(x)\nEXIST y F(x,y)"
    )
    problem = lapis.build_problem(lapis.parse(model), lapis.Database.parse("S(3)"))
    world = FlippingWorld(problem)
    rows = np.stack(np.divmod(np.arange(5 * size), 5), axis=1).astype(np.int32)
    start, noise = 5 * np.arange(size + 1), np.random.default_rng(0).gumbel(size=6 * size)
    weights = np.linspace(-1.0, 1.0, len(world.counts))
    for _ in range(2):
        given = "F", rows, start, np.ones(size, bool), weights, noise
        visits, blocks = world.draw_blocks(*given, noted=True)
        true = rows[start[:-1] + blocks.taken]
        assert sorted(world.true_rows("F").tolist()) == true.tolist()
        anew = FlippingWorld(problem, world={"F": true, "S": np.array([[2]], np.int32)})
        assert world.counts.tolist() == anew.counts.tolist()
        assert len(visits.start) == 5 * size + 1


def test_a_world_grows_and_shrinks() -> None:
    """A thousand atoms come, go and come back; at the end all is counted anew."""
    text = """
    F(t, t)
    S(t)
    F(x,y) ^ F(y,z) => F(x,z)
    F(x,y) ^ S(x) => S(+y)
    EXIST y (F(x,y) ^ S(y))
    """
    names = ", ".join(map(str, range(40)))
    problem = lapis.build_problem(lapis.parse(f"t = {{{names}}}\n{text}"), lapis.Database.parse(""))
    world = FlippingWorld(problem)
    rng = np.random.default_rng(1)
    true: dict[str, set[tuple[int, ...]]] = {"F": set(), "S": set()}
    for name, arity, size in (("F", 2, 900), ("S", 1, 30), ("F", 2, 900), ("S", 1, 30)):
        rows = rng.integers(40, size=(size, arity)).astype(np.int32)
        world.flip_all([(name, rows)])
        for row in map(tuple, rows.tolist()):
            true[name] ^= {row}
        tables = {
            key: np.array(sorted(own), np.int32).reshape(
                len(own), problem.model.predicates[key].arity
            )
            for key, own in true.items()
        }
        anew = FlippingWorld(problem, world=tables)
        assert world.counts.tolist() == anew.counts.tolist()
        rows = rng.integers(40, size=(50, arity)).astype(np.int32)
        one, other = world.look([(name, rows)]), anew.look([(name, rows)])
        assert (one.start.tolist(), one.column.tolist(), one.value.tolist()) == (
            other.start.tolist(),
            other.column.tolist(),
            other.value.tolist(),
        )


@pytest.mark.parametrize("variables", [3, 5, 6])
def test_counts_beyond_64_bits(variables: int) -> None:
    """Some x₁ … x_k is in S: n = N^k − (N − |S|)^k. Changes of k = 6 pass 64 bits, counts of 5."""
    size = 20_000
    rule = " v ".join(f"S(x{number})" for number in range(variables))
    problem = lapis.build_problem(
        lapis.parse(f"t = {{1, ..., {size}}}\nS(t)\n{rule}"), lapis.Database.parse("S(7)")
    )
    world = FlippingWorld(problem)
    inside = 1
    for constant in (3, 6, 9, 3):  # constant 7 has code 6
        turn = -1 if world.is_true("S", [constant]) else 1
        change = (size - inside) ** variables - (size - inside - turn) ** variables
        assert world.delta("S", [constant]).difference == (change,)
        assert world.flip("S", [constant]).difference == (change,)
        inside += turn
        assert world.counts.tolist() == [size**variables - (size - inside) ** variables]


def test_atoms_beyond_64_bits() -> None:
    size = 20_000
    model = f"t = {{1, ..., {size}}}\nP(t,t,t,t,t)\nS(t)\nP(a,b,c,d,a) ^ S(d) => S(a)"
    data = lapis.Database.parse("P(1,2,3,4,1) P(1,2,3,5,1) P(1,2,3,5,2) P(20000,1,1,4,20000) S(4)")
    world = FlippingWorld(lapis.build_problem(lapis.parse(model), data))
    full = size**4
    assert world.counts.tolist() == [full - 2]
    assert world.flip("S", [4]).difference == (-1,)  # S(5): P(1,2,3,5,1) is violated too
    assert world.flip("S", [0]).difference == (2,)
    assert world.flip("P", [1, 1, 1, 4, 1]).difference == (-1,)
    assert world.counts.tolist() == [full - 2]


def test_witnesses_beyond_64_bits() -> None:
    """EXIST over five variables of 20,000 constants has more than 2^63 witnesses."""
    text = "S(t)\nR(t)\nR(x) => (EXIST a, b, c, d, e (S(a) ^ !R(b) ^ !R(c) ^ !R(d) ^ !R(e)))"
    model = lapis.parse(f"t = {{1, ..., 20000}}\n{text}")
    world = FlippingWorld(lapis.build_problem(model, lapis.Database.parse("R(1) R(2)")))
    assert world.counts.tolist() == [20_000 - 2]
    assert world.flip("S", [0]).difference == (2,)
    assert world.flip("R", [4]).difference == ()
    assert world.flip("S", [0]).difference == (-3,)


@pytest.mark.parametrize("rules", ["", "1 P(A) => P(A)", "1 P(x)", "1 EXIST x P(x)"])
def test_predicates_that_no_rule_mentions_flip_too(rules: str) -> None:
    """Kernels have slots for the arguments of every atom, also if rules have fewer variables."""
    model = lapis.parse(f"t = {{A, B}}\nP(t)\nQ(t, t, t, t)\n{rules}")
    world = FlippingWorld(lapis.build_problem(model, lapis.Database({}, {})))
    before = world.counts.tolist()
    for row in ([1, 0, 1, 1], [0, 0, 0, 1]):
        assert world.delta("Q", row) == world.flip("Q", row) == ((), (), 0)
        assert world.is_true("Q", row)
    assert world.counts.tolist() == before

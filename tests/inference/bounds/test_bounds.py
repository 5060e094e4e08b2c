"""Test certified bounds against all worlds of small networks, without a single violation.

The reference sums all worlds in extended precision, so that the rounding of the bounds is tested;
its own error is below `REFERENCE`.
"""

from __future__ import annotations

import numpy as np
import pytest

import lapis
from exact_networks import make_network, random_literals, random_network, scored_worlds
from lapis.inference.bounds import certified, self_avoiding
from lapis.inference.bounds.certified import MarginalBounds, bound_network, list_planes
from lapis.inference.bounds.forests import bound_by_forests, find_tables
from lapis.inference.bounds.mean_field import find_mean_field
from lapis.inference.bounds.self_avoiding import (
    bound_by_conditionals,
    bound_log_odds,
    build_walks,
)
from lapis.inference.bounds.terms import collect_terms
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.network.network import Network
from sampled_networks import HARD_TO_SAMPLE, agreement, coupled_pairs, equivalence

REFERENCE = 1e-15


Exact = tuple[np.longdouble, np.ndarray, np.ndarray]


def exact_answer(network: Network) -> Exact | None:
    """Return log Z and the probabilities of true and false base atoms, in extended precision.

    None without a world.
    """
    worlds, _ = scored_worlds(network)
    if not len(worlds):
        return None
    counts = np.array([network.counts(world) for world in worlds]).astype(np.longdouble)
    score = counts @ network.weights.astype(np.longdouble)
    weight = np.exp(score - score.max())
    value = worlds[:, : network.num_base_atoms]
    true, false = ((weight[:, None] * side).sum(axis=0) / weight.sum() for side in (value, ~value))
    return score.max() + np.log(weight.sum()), true, false


def check_bounds(exact: Exact | None, bounds: MarginalBounds) -> None:
    assert exact is not None
    log_partition, marginal, _ = exact
    low, high = bounds.log_partition
    assert (bounds.lower <= marginal + REFERENCE).all()
    assert (bounds.upper >= marginal - REFERENCE).all()
    assert low <= log_partition + REFERENCE * (1 + abs(log_partition))
    assert high >= log_partition - REFERENCE * (1 + abs(log_partition))
    assert (bounds.lower >= 0).all()
    assert (bounds.upper <= 1).all()


def draw(seed: int) -> Network:
    """Draw clauses of all kinds and sizes, hard or soft, blocks, definitions, coupled pairs."""
    rng = np.random.default_rng(seed)
    match seed % 5:
        case 0:
            return coupled_pairs(int(rng.integers(2, 8)), rng.uniform(0.1, 3.0), rng)
        case 1:
            return agreement(int(rng.integers(2, 8)), rng.uniform(0.0, 1.0), rng.normal())
        case 2:
            return random_network(rng, num_base=7, num_clauses=20, max_length=6, hard=0.0)
        case kind:
            size = int(rng.integers(1, 8))
            return random_network(rng, num_base=size, hard=0.1 if kind == 3 else 0.4)


def sweep(monkeypatch: pytest.MonkeyPatch, seeds: range) -> None:
    for seed in seeds:
        network = draw(seed)
        if (exact := exact_answer(network)) is None:
            continue
        monkeypatch.setattr(self_avoiding, "MAX_DEPTH", (64, 1, 2, 3)[seed // 5 % 4])
        monkeypatch.setattr(self_avoiding, "MOST_STEPS", 4_000)
        check_bounds(exact, bound_network(network))


def test_bounds_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(monkeypatch, range(80))


@pytest.mark.slow
def test_bounds_hold_at_length(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(monkeypatch, range(80, 5_000))


@pytest.mark.parametrize("name", HARD_TO_SAMPLE)
def test_bounds_of_networks_that_are_hard_to_sample(name: str) -> None:
    check_bounds(exact_answer(HARD_TO_SAMPLE[name]), bound_network(HARD_TO_SAMPLE[name]))


@pytest.mark.parametrize("seed", range(40))
def test_each_part_holds_by_itself(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Test each bound alone, without elimination."""
    monkeypatch.setattr(self_avoiding, "MAX_DEPTH", 1 + seed % 4)
    network = draw(seed)
    exact = exact_answer(network)
    if exact is None:
        return
    log_partition, marginal, false = exact
    log_partition -= np.longdouble(network.constant_score)
    worlds, _ = scored_worlds(network)
    world = worlds[np.random.default_rng(seed).integers(len(worlds))]
    terms = collect_terms(network, np.zeros(network.num_clauses))
    base = terms.constant - network.constant_score
    graph, boxes = build_walks(terms)
    bound_log_odds(graph, boxes, np.arange(network.num_atoms), None)
    own = slice(0, network.num_base_atoms)
    open_ = np.flatnonzero((marginal > 1e-6) & (marginal < 1 - 1e-6))
    odds = np.log(marginal[open_]) - np.log(false[open_])
    assert (boxes.low[open_] <= odds + 1e-12).all()
    assert (boxes.high[open_] >= odds - 1e-12).all()

    component, count = network.component, int(network.component.max(initial=-1)) + 1
    below = find_mean_field(graph, component, count, world).value.sum() + base
    assert below <= log_partition + terms.error + 1e-12
    least, most = bound_by_conditionals(graph, component, count, world)
    assert least.sum() + base <= log_partition + terms.error + 1e-12
    assert most.sum() + base >= log_partition - terms.error - 1e-12
    above = bound_by_forests(terms, component, count, None)
    assert above is not None
    assert above.value.sum() + base >= log_partition - terms.error - 1e-12
    for chance, clamped in ((marginal, above.true), (false, above.false)):
        with np.errstate(divide="ignore"):
            wanted = np.log(chance) + log_partition - base
        rest = above.value.sum()  # of all components, which is more than their own
        assert (clamped[own] + rest >= wanted - 1e-9).all()


def test_walks_to_the_end_are_exact() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        clauses = [(random_literals(rng, 6, 4), number, 1.0) for number in range(7)]
        network = make_network(6, clauses)
        if seed % 2:
            network = coupled_pairs(6, 1.0, rng)
        terms = collect_terms(network, np.zeros(network.num_clauses))
        graph, boxes = build_walks(terms)
        walk = self_avoiding.allocate_walk(graph)
        everything = np.arange(network.num_atoms)
        self_avoiding.bound_roots(graph, walk, everything, 10**7, 0.0, *boxes)
        assert (boxes.high - boxes.low <= 1e-8 * (1 + np.abs(boxes.low))).all()


def test_terms_are_the_score() -> None:
    for seed in range(100):
        network = draw(seed)
        worlds, scores = scored_worlds(network)
        terms = collect_terms(network, np.zeros(network.num_clauses))
        field = np.where(np.isinf(terms.field), 0.0, terms.field)
        for world, score in zip(worlds[:20], scores[:20], strict=True):
            true = world[np.abs(terms.literal) - 1] == (terms.literal > 0)
            holds = np.array([part.any() for part in np.split(true, terms.start[1:-1])], bool)
            holds = holds[: len(terms.weight)]
            assert holds[np.isinf(terms.weight)].all()
            soft = holds & np.isfinite(terms.weight)
            found = terms.constant + field @ world + terms.weight[soft].sum()
            assert found == pytest.approx(score, abs=1e-9)


def test_tables_hold_every_clause_once() -> None:
    """Nested scopes are one table: a triangle of pairs within a clause of three is no cycle."""
    clauses = [([1, 2, 3], 0, 1.0), ([-1, -2], 1, 1.0), ([2, 3], 2, 1.0), ([1, -3], 3, 1.0)]
    network = make_network(3, clauses, [0.5, 1.0, -2.0, 0.25])
    tables = find_tables(collect_terms(network, np.zeros(4)))
    assert tables.scope.tolist() == [0, 1, 2]
    assert len(tables.left_out) == 0


def test_planes_find_the_optimum_of_the_linear_program() -> None:
    from scipy.optimize import linprog

    rng = np.random.default_rng(0)
    corner, inverse, start = list_planes()
    for _ in range(60):
        width = int(rng.integers(1, 4))
        height = rng.random(8)
        box = np.sort(rng.random((3, 2)), axis=1)
        known = np.ones(8, bool)
        under, over = certified.best_planes(height, known, box, width, corner, inverse, start)
        bit = (np.arange(1 << width)[:, None] >> np.arange(width - 1, -1, -1)) & 1
        rows = np.concatenate((bit.T, -bit.T)).astype(float)
        limits = np.concatenate((box[:width, 1], -box[:width, 0]))
        for sign, bound in ((1, under), (-1, over)):
            best = linprog(sign * height[: 1 << width], rows, limits, np.ones((1, 1 << width)), [1])
            assert bound == pytest.approx(sign * best.fun, abs=1e-9)


def test_bounds_of_an_answer() -> None:
    """Exact atoms have equal bounds, sampled ones lie between their bounds."""
    crowd = [f"P{i}" for i in range(16)]
    friends = " ".join(f"Friends({a},{b})" for a in crowd for b in crowd if a < b)
    data = lapis.Database.parse(f"{friends} Friends(Q1,Q2) Smokes(Q1)")
    own = "\n".join(f"{0.01 * i} Smokes({name})" for i, name in enumerate(crowd))
    model = lapis.parse(
        "Friends(p, p)\nSmokes(p)\nCancer(p)\n0.1 Friends(x, y) ^ Smokes(x) => Smokes(y)\n"
        f"1 Smokes(x) => Cancer(x)\n{own}"
    )
    asked = ["Smokes", "Cancer"]
    exact = lapis.infer(model, data, asked, method="exact")
    answer = lapis.infer(model, data, asked, bounds=True, max_memory=1 << 16)
    assert not answer.exact
    assert answer.lower is not None
    assert answer.upper is not None
    assert (answer.lower <= answer.probability).all()
    assert (answer.probability <= answer.upper).all()
    assert (answer.lower <= exact.probability + 1e-12).all()
    assert (exact.probability <= answer.upper + 1e-12).all()
    width = answer.upper - answer.lower
    assert width.max() < 0.01
    assert width[answer.asked.find("Smokes(Q2)")] == 0
    low, high = answer.diagnostics["log_partition_bounds"]
    assert exact.log_partition is not None
    assert low <= exact.log_partition + 1e-9
    assert high >= exact.log_partition - 1e-9
    assert high - low < 0.1
    assert {"lower", "upper"} <= next(iter(answer.document()["atoms"])).keys()
    assert "between" in str(answer)
    certain = lapis.infer(model, data, "Smokes(Q2)", bounds=True)
    assert certain.lower is not None
    assert certain.lower.tolist() == certain.probability.tolist()


def test_large_blocks_are_left_open() -> None:
    """Seventy atoms of which one is true, coupled to four others that are coupled pairwise."""
    clauses: list[tuple[list[int], int, float]] = [
        ([atom, 71 + atom % 4], 0, 1.0) for atom in range(1, 71)
    ]
    clauses += [([-a, b], 1, 1.0) for a in range(71, 75) for b in range(71, 75) if a < b]
    network = make_network(74, clauses, [2.0, 0.5], [(list(range(70)), True)])
    exact = enumerate_worlds(network)
    bounds = bound_network(network)
    assert (bounds.lower <= exact.marginal + 1e-12).all()
    assert (bounds.upper >= exact.marginal - 1e-12).all()
    assert bounds.log_partition[0] <= exact.log_partition <= bounds.log_partition[1]


def test_equivalences_stay_possible() -> None:
    check_bounds(exact_answer(equivalence(4, 0.6)), bound_network(equivalence(4, 0.6)))

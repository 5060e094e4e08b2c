"""AC² against enumeration: its objective, its gradient, its parameters, its samples."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
from circuits.random_factors import all_rows, enumerate_marginals, random_graph
from lapis.circuits import infer as circuit_inference
from lapis.circuits.approximation import approximate as approximating
from lapis.circuits.approximation.approximate import (
    find_structure,
    fit_structure,
    match_samples,
    thin_structure,
)
from lapis.circuits.approximation.family import condition_circuit, family_circuit
from lapis.circuits.approximation.importance import importance_sample
from lapis.circuits.approximation.samples import (
    GibbsSamples,
    sample_exactly,
    sample_forward,
    sample_gibbs,
)
from lapis.circuits.approximation.variational import (
    FLOOR,
    ShareObjective,
    build_terms,
    fit_best,
    fit_variational,
    table_marginals,
)
from lapis.circuits.circuit import SUM, Circuit, find_properties
from lapis.circuits.compilation.compile_model import compile_factors
from lapis.circuits.compilation.partition import cheap_partition
from lapis.circuits.evaluation import log_partition, log_values, no_evidence, posteriors
from lapis.circuits.factor_files import parse_bif
from lapis.circuits.factor_graph import FactorGraph, graph_of_tables
from lapis.errors import TooLarge
from lapis.runtime.progress import Stop


def positive_graph(rng: np.random.Generator, num_variables: int = 5) -> FactorGraph:
    """Return a random product without zeros."""
    graph = random_graph(rng, num_variables)
    tables = [
        (graph.variables_of(f).tolist(), rng.normal(size=graph.table(f).shape))
        for f in range(graph.num_factors)
    ]
    return graph_of_tables(graph.names, graph.states, tables)


def other_parameters(graph: FactorGraph, rng: np.random.Generator) -> Circuit:
    """Return the structure of a compiled model with random parameters."""
    circuit = compile_factors(graph).circuit
    return circuit.with_parameters(rng.normal(size=circuit.num_parameters))


def some_evidence(graph: FactorGraph, rng: np.random.Generator) -> np.ndarray:
    row = np.full(graph.num_variables, -1, np.int32)
    for v in rng.permutation(graph.num_variables)[: rng.integers(0, 3)]:
        row[v] = rng.integers(graph.size[v])
    return row


def agree(rows: np.ndarray, row: np.ndarray) -> np.ndarray:
    found: np.ndarray = ((rows == row) | (row < 0)).all(axis=1)
    return found


@given(st.integers(0, 2**32))
def test_a_family_is_the_conditioned_circuit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = positive_graph(rng)
    circuit, row = other_parameters(graph, rng), some_evidence(graph, rng)
    found = family_circuit(condition_circuit(circuit, row), circuit, row)
    assert find_properties(found) == (True, True, True)
    rows = all_rows(graph)
    expected = np.where(agree(rows, row), log_values(circuit, rows), -np.inf)
    expected -= np.logaddexp.reduce(expected)
    np.testing.assert_allclose(log_values(found, rows), expected, atol=1e-10)


@given(st.integers(0, 2**32))
def test_the_bound_and_its_gradient(seed: int) -> None:
    """Compare J with enumeration of Q, and natural gradients with finite differences."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng)
    circuit = other_parameters(
        graph_of_tables(graph.names, graph.states, [
            (graph.variables_of(f).tolist(), np.zeros(graph.table(f).shape) + rng.normal(size=1))
            for f in range(graph.num_factors)
        ]), rng,
    )  # fmt: skip
    row = some_evidence(graph, rng)
    family = condition_circuit(circuit, row)
    rows = all_rows(graph)
    rows = rows[agree(rows, row)]
    floored = graph_of_tables(
        graph.names, graph.states,
        [(graph.variables_of(f).tolist(), np.maximum(graph.table(f), FLOOR))
         for f in range(graph.num_factors)],
    )  # fmt: skip
    score = floored.log_score(rows)

    def bound(log_share: np.ndarray) -> float:
        member = family_circuit(family._replace(log_share=log_share), circuit, row)
        log_q = log_values(member, rows)
        log_q = log_q - np.logaddexp.reduce(log_q)
        return float(np.exp(log_q) @ (score - log_q))

    climb = ShareObjective(family, build_terms(graph, row))
    found, target = climb.evaluate(family.log_share)
    assert found == pytest.approx(bound(family.log_share), abs=1e-10 * (1 + abs(found)))
    sums = np.flatnonzero(family.kind == SUM)
    if len(sums) == 0:
        return
    # Along log π the derivative at a sum is p(n) π (A − log π − their mean).
    node = int(rng.choice(sums))
    edges = slice(family.start[node], family.start[node + 1])
    reach = np.zeros(len(family.kind))
    reach[-1] = 1.0
    for n in range(len(family.kind) - 1, -1, -1):
        for e in range(family.start[n], family.start[n + 1]):
            share = np.exp(family.log_share[e]) if family.kind[n] == SUM else 1.0
            reach[family.child[e]] += reach[n] * share
    share = np.exp(family.log_share[edges])
    ascent = target[edges] - family.log_share[edges]
    expected = reach[node] * share * (ascent - share @ ascent)
    for place, edge in enumerate(range(edges.start, edges.stop)):
        moved = [family.log_share.copy() for _ in range(2)]
        for log_share, step in zip(moved, (1e-5, -1e-5), strict=True):
            log_share[edge] += step
            log_share[edges] -= np.logaddexp.reduce(log_share[edges])
        slope = (bound(moved[0]) - bound(moved[1])) / 2e-5
        assert slope == pytest.approx(expected[place], rel=1e-4, abs=1e-5)


@given(st.integers(0, 2**32))
def test_v_finds_the_model_where_the_family_has_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = positive_graph(rng)
    circuit, row = other_parameters(graph, rng), some_evidence(graph, rng)
    given_graph = graph.condition({int(v): int(row[v]) for v in np.flatnonzero(row >= 0)})
    log_z, marginal = enumerate_marginals(given_graph)
    fitted = fit_variational(condition_circuit(circuit, row), build_terms(graph, row), 500)
    assert fitted.converged
    assert fitted.bound <= log_z + 1e-9
    assert fitted.bound == pytest.approx(log_z, abs=1e-4)
    found = family_circuit(fitted.family, circuit, row)
    np.testing.assert_allclose(posteriors(found, no_evidence(found))[1][0], marginal, atol=0.01)
    # Worlds of a family that is the model all weigh the same.
    weighed = importance_sample(fitted.family, fitted.family, graph, row, 0, 200)
    assert weighed.effective == pytest.approx(1.0, abs=1e-3)
    assert weighed.log_partition == pytest.approx(log_z, abs=0.01)


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_marginals_of_tables(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = positive_graph(rng)
    circuit = other_parameters(graph, rng)
    family = condition_circuit(circuit, no_evidence(circuit)[0])
    rows = all_rows(graph)
    probability = np.exp(log_values(circuit, rows) - log_partition(circuit))
    found = table_marginals(family, graph)
    for factor in range(graph.num_factors):
        expected = np.zeros(graph.table(factor).shape)
        for world, p in zip(rows[:, graph.variables_of(factor)].tolist(), probability, strict=True):
            expected[tuple(world)] += p
        start, end = graph.table_start[factor : factor + 2]
        np.testing.assert_allclose(found[start:end], expected.ravel(), atol=1e-10)


def test_matched_shares_are_those_of_the_worlds() -> None:
    """With the states of worlds as conditionals, matching is maximum likelihood."""
    rng = np.random.default_rng(3)
    graph = positive_graph(rng, 4)
    circuit = other_parameters(graph, rng)
    family = condition_circuit(circuit, no_evidence(circuit)[0])
    rows = all_rows(graph)
    rows = rows[rng.integers(0, len(rows), 20_000)]
    first = np.cumsum([0, *graph.size])
    drawn = np.zeros((len(rows), first[-1]))
    for v in range(graph.num_variables):
        drawn[np.arange(len(rows)), first[v] + rows[:, v]] = 1.0
    found = match_samples(family, GibbsSamples(rows, drawn))
    member = family_circuit(found, circuit, no_evidence(circuit)[0])
    frequency = drawn.mean(axis=0)
    np.testing.assert_allclose(posteriors(member, no_evidence(member))[1][0], frequency, atol=3e-3)


ALARM = """variable burglary { type discrete [ 2 ] { yes, no }; }
variable quake { type discrete [ 3 ] { none, small, large }; }
variable alarm { type discrete [ 2 ] { on, off }; }
variable john { type discrete [ 2 ] { calls, silent }; }
variable mary { type discrete [ 2 ] { calls, silent }; }
probability ( burglary ) { table 0.1, 0.9; }
probability ( quake ) { table 0.7, 0.2, 0.1; }
probability ( alarm | burglary, quake ) {
  (yes, none) 0.9, 0.1; (yes, small) 0.92, 0.08; (yes, large) 0.95, 0.05;
  (no, none) 0.01, 0.99; (no, small) 0.3, 0.7; (no, large) 0.7, 0.3;
}
probability ( john | alarm ) { (on) 0.9, 0.1; (off) 0.05, 0.95; }
probability ( mary | alarm ) { (on) 0.7, 0.3; (off) 0.01, 0.99; }
"""


def drawn_exactly(graph: FactorGraph, num_samples: int) -> np.ndarray:
    found = sample_exactly(graph, num_samples, 1)
    assert found is not None
    assert found.log_partition == pytest.approx(0.0, abs=1e-12)
    return found.rows


@pytest.mark.parametrize("how", ["forward", "exactly", "one sweep later", "gibbs"])
def test_samples_have_the_model_s_frequencies(how: str) -> None:
    graph = parse_bif(ALARM)
    nothing = np.full(5, -1, np.int32)
    size = 20_000
    rows = {
        "forward": lambda: sample_forward(graph, size, 1),
        "exactly": lambda: drawn_exactly(graph, size),
        "one sweep later": lambda: (
            sample_gibbs(graph, nothing, size, 1, drawn_exactly(graph, size)).rows
        ),
        "gibbs": lambda: sample_gibbs(graph, nothing, size, 1, None, 4).rows,
    }[how]()
    _, marginal = enumerate_marginals(graph)
    first = np.cumsum([0, *graph.size])
    for v in range(5):
        found = np.bincount(rows[:, v], minlength=graph.size[v]) / size
        expected = marginal[first[v] : first[v + 1]]
        slack = 3.0 if how == "gibbs" else 1.0  # worlds of a chain resemble each other
        error = np.sqrt(expected * (1 - expected) / size)
        assert (np.abs(found - expected) <= 5 * slack * error).all()


@pytest.mark.parametrize(("looks", "each"), [(1, 7), (3, 21), (1_000, 50)])
@pytest.mark.parametrize("begun", [False, True])
def test_chains_look_at_the_clock(
    looks: int, each: int, begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven worlds of each chain between two checks of `stop`; they equal those of a full run."""
    graph = parse_bif(ALARM)
    nothing = np.full(5, -1, np.int32)
    start = drawn_exactly(graph, 200) if begun else None
    whole = sample_gibbs(graph, nothing, 200, 1, start)
    asked = itertools.count(1)
    monkeypatch.setattr("lapis.circuits.approximation.samples.CHUNK", 7 * 5)
    stop = Stop(lambda: next(asked) >= looks)
    found = sample_gibbs(graph, nothing, 200, 1, start, stop=stop)
    for part, all_of_it in zip(found, whole, strict=True):
        chains = all_of_it.reshape(4, 50, -1)[:, :each]
        assert np.array_equal(part, chains.reshape(len(part), -1))
    bare = sample_gibbs(graph, nothing, 200, 1, start, with_conditional=False)
    assert np.array_equal(bare.rows, whole.rows)
    assert bare.conditional.shape == (200, 0)


@pytest.mark.parametrize("parameters", ["F", "G", "V", "VI", "E", "P"])
def test_an_approximation_given_evidence(parameters: str) -> None:
    graph = parse_bif(ALARM)
    structure = find_structure(graph, np.full(5, -1, np.int32), max_edges=150)
    assert structure.num_edges <= 150
    assert structure.properties.deterministic
    row = np.array([-1, -1, -1, 0, -1], np.int32)  # John calls
    found = fit_structure(graph, structure, row, parameters)
    log_z, marginal = enumerate_marginals(graph.condition({3: 0}))
    if found.bound is not None:
        assert found.bound <= log_z + 1e-9
    if found.log_partition is not None:
        assert found.log_partition_stderr is not None
        assert abs(found.log_partition - log_z) <= 5 * found.log_partition_stderr + 1e-3
    error = np.abs(posteriors(found.circuit, no_evidence(found.circuit))[1][0] - marginal)
    assert error.max() < 0.03
    if found.state_stderr is not None:
        assert (error <= 5 * found.state_stderr + 2e-3).all()


def test_worlds_of_f_find_the_mode_that_v_leaves() -> None:
    """Two variables must differ, and the structure makes them independent."""
    table = np.array([[-np.inf, 0.0], [0.0, -np.inf]])
    graph = graph_of_tables(["a", "b"], [["0", "1"]] * 2, [([0, 1], table)])
    independent = graph_of_tables(["a", "b"], [["0", "1"]] * 2, [])
    structure = compile_factors(independent).circuit
    row = np.full(2, -1, np.int32)
    nudged = np.log([0.6, 0.4, 0.45, 0.55])
    family = condition_circuit(structure, row)
    of_sum = np.repeat(family.kind == SUM, np.diff(family.start))
    log_share = family.log_share.copy()
    log_share[of_sum] = nudged
    family = family._replace(log_share=log_share)
    fitted = fit_variational(family, build_terms(graph, row))
    assert fitted.bound == pytest.approx(0.0, abs=1e-6)  # one of two worlds
    weighed = importance_sample(fitted.family, family, graph, row, 0, 20_000)
    assert abs(weighed.log_partition - np.log(2)) <= 5 * weighed.stderr
    assert weighed.effective < 0.9
    member = family_circuit(weighed.family, structure, row)
    np.testing.assert_allclose(posteriors(member, no_evidence(member))[1][0], 0.5, atol=0.05)


def noisy_parities(rng: np.random.Generator) -> FactorGraph:
    """Return parities of three among ten variables, which pairs do not show."""
    even = np.indices((2, 2, 2)).sum(axis=0) % 2 == 0
    table = np.log(np.where(even, 0.98, 0.02))
    tables = [(rng.permutation(10)[:3].tolist(), table) for _ in range(10)]
    tables += [([v], np.array([0.0, rng.normal(0, 0.3)])) for v in range(10)]
    return graph_of_tables([f"v{v}" for v in range(10)], [["0", "1"]] * 10, tables)


def test_worlds_drawn_exactly_know_all_modes() -> None:
    """Belief propagation and Gibbs sampling fail here; the default does not."""
    graph = noisy_parities(np.random.default_rng(0))
    row = np.full(10, -1, np.int32)
    structure = find_structure(graph, row, 300, 20_000)
    log_z, marginal = enumerate_marginals(graph)
    found = fit_structure(graph, structure, row)
    assert found.parameters == "E"
    assert found.log_partition == pytest.approx(log_z, abs=1e-9)
    assert found.state_stderr is not None
    error = np.abs(posteriors(found.circuit, row[None])[1][0] - marginal)
    assert (error <= 5 * found.state_stderr + 1e-3).all()
    with pytest.raises(TooLarge, match="cannot be drawn exactly"):
        fit_structure(wide_grid(), compile_factors(no_tables(wide_grid())).circuit, row, "E")


def wide_grid() -> FactorGraph:
    """Return ten variables of a hundred states, all pairs coupled."""
    table = np.random.default_rng(0).normal(size=(100, 100))
    states = [[str(s) for s in range(100)]] * 10
    pairs = [(list(pair), table) for pair in itertools.combinations(range(10), 2)]
    return graph_of_tables([f"v{v}" for v in range(10)], states, pairs)


def no_tables(graph: FactorGraph) -> FactorGraph:
    return graph_of_tables(graph.names, graph.states, [])


@pytest.mark.parametrize("seed", range(3))
def test_the_strongest_tables_make_a_structure(seed: int) -> None:
    graph = noisy_parities(np.random.default_rng(seed))
    log_z, _ = enumerate_marginals(graph)
    terms = build_terms(graph, np.full(10, -1, np.int32))
    bounds = []
    for max_edges in (100, 300, 100_000):
        structure = thin_structure(graph, max_edges, 0)
        assert structure is not None
        assert structure.num_edges <= max_edges
        family = condition_circuit(structure, no_evidence(structure)[0])
        best = fit_best(family, terms).bound
        assert best >= fit_variational(family, terms).bound
        assert best <= log_z + 1e-9
        bounds.append(best)
    assert bounds[0] < bounds[2]
    assert bounds[2] == pytest.approx(log_z, abs=1e-8)  # the model itself


DENSE = """person = {A, B, C, D, E}
Friends(person, person)
Smokes(person)
0.4 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.3 Smokes(x)
0.2 Friends(x, y) <=> Friends(y, x)
"""


@pytest.mark.parametrize("seed", range(4))
def test_whenever_it_is_stopped_there_is_a_circuit(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop at the n-th check: later stages are skipped, and the bound holds.

    Without a junction tree, so that `auto` goes through V, VI and P.
    """
    monkeypatch.setattr(approximating, "sample_exactly", lambda *_: None)
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 7) if seed % 2 else positive_graph(rng, 7)
    row = some_evidence(graph, rng)
    possible = agree(rows := all_rows(graph), row)
    log_z = np.logaddexp.reduce(graph.log_score(rows)[possible])
    if log_z == -np.inf:
        row[:] = -1
        log_z = enumerate_marginals(graph)[0]
    found_by, looks = set(), 0
    for strikes in [*range(12), *range(12, 120, 12), 10**6]:
        clock = itertools.count()
        stop = Stop(lambda clock=clock, strikes=strikes: next(clock) >= strikes)  # type: ignore[misc]
        structure = find_structure(graph, row, 60, 200, seed, stop)
        found = fit_structure(graph, structure, row, "auto", seed, stop)
        assert log_partition(found.circuit) == pytest.approx(0.0, abs=1e-9)
        assert found.bound is None or found.bound <= log_z + 1e-9
        if found.log_partition is not None:
            assert found.log_partition_stderr is not None
            assert cheap_partition(graph, stop) is None or not stop()
        found_by.add(found.parameters)
        looks = max(looks, next(clock))
    assert "V" in found_by
    assert found_by & {"VI", "P"}
    assert looks < 10**6


def test_infer_says_whether_it_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    model = lapis.parse(DENSE)
    exact = lapis.infer(model, query=["Smokes", "Friends"], method="exact")
    compiled = lapis.infer(model, query=["Smokes", "Friends"], method="circuit")
    assert compiled.exact
    assert compiled.log_partition == pytest.approx(exact.log_partition, abs=1e-8)
    np.testing.assert_allclose(compiled.expected_counts, exact.expected_counts, atol=1e-8)
    for atom, probability in exact.marginals.items():
        assert compiled[atom] == pytest.approx(probability, abs=1e-10)
    monkeypatch.setattr(circuit_inference, "COMPILED_EDGES", 50)
    monkeypatch.setattr(circuit_inference, "MAX_EDGES", 400)
    guess = lapis.infer(model, query=["Smokes", "Friends"], method="circuit")
    assert not guess.exact
    assert guess.log_partition is None
    assert guess.errors is not None
    for (atom, probability), error in zip(guess.marginals.items(), guess.errors, strict=True):
        assert abs(probability - exact[atom]) <= 5 * error + 0.01, atom
    assert guess.diagnostics["log_partition_bound"] <= exact.log_partition
    np.testing.assert_allclose(guess.expected_counts, exact.expected_counts, rtol=0.05)


def test_long_clauses_are_linked() -> None:
    """A clause has more variables than a table may have; samples include the link variables."""
    names = ", ".join(f"C{i}" for i in range(12))
    model = lapis.parse(
        f"t = {{{names}}}\nP(t)\nQ(t)\n1.5 EXIST x P(x)\n-0.7 P(x)\n0.3 P(x) v Q(x)"
    )
    exact = lapis.infer(model, query=["P", "Q"], method="exact")
    found = lapis.infer(model, query=["P", "Q"], method="circuit")
    assert found.exact
    assert found.log_partition == pytest.approx(exact.log_partition, abs=1e-9)
    np.testing.assert_allclose(found.expected_counts, exact.expected_counts, atol=1e-9)


def test_rows_of_worlds_satisfy_the_links() -> None:
    from lapis.circuits.ground_factors import ground_factors
    from lapis.grounding.bottom_up import ground
    from lapis.problem.task import build_task

    names = ", ".join(f"C{i}" for i in range(12))
    model = lapis.parse(f"t = {{{names}}}\nP(t)\n1.5 EXIST x P(x)\n-0.7 P(x)")
    network = ground(build_task(model, None, ["P"]).worlds[0].problem)
    factors = ground_factors(network)
    worlds = np.array(list(itertools.product([False, True], repeat=12)))
    worlds = np.array([network.complete(world) for world in worlds])
    rows = circuit_inference.rows_of_worlds(factors, worlds)
    expected = [network.score(world) for world in worlds]
    np.testing.assert_allclose(factors.graph.log_score(rows), expected, atol=1e-10)

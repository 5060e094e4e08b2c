"""Mini-bucket elimination against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuits.random_factors import all_rows, enumerate_marginals, random_graph
from lapis.circuits.approximation.approximate import (
    find_structure,
    fit_structure,
    sample_training_worlds,
)
from lapis.circuits.approximation.samples import sample_particles
from lapis.circuits.compilation import mini_buckets
from lapis.circuits.compilation.mini_buckets import draw_particles, estimate_partition, fill_buckets
from lapis.circuits.factor_graph import FactorGraph, graph_of_tables, make_consistent


def consistent(seed: int) -> FactorGraph | None:
    found = make_consistent(random_graph(np.random.default_rng(seed)))
    return None if found is None else found.graph


@given(st.integers(0, 2**32))
def test_without_splits_it_is_elimination(seed: int) -> None:
    graph = consistent(seed)
    if graph is None:
        return
    score = graph.log_score(all_rows(graph))
    found = estimate_partition(graph, seed, 50)
    assert found.exact
    if not np.isfinite(score).any():
        assert found.log_partition == -np.inf
        return
    assert found.log_partition == pytest.approx(np.logaddexp.reduce(score), abs=1e-9)
    assert np.isfinite(graph.log_score(found.rows)).all()


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_with_splits_it_bounds_and_estimates(seed: int, largest: int) -> None:
    """The bound always holds; the mean of the unbiased estimate over runs is close."""
    graph = consistent(seed)
    if graph is None:
        return
    score = graph.log_score(all_rows(graph))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mini_buckets, "LARGEST", largest)
        buckets = fill_buckets(graph)
    if not np.isfinite(score).any():
        assert draw_particles(buckets, 0, 100).log_mean == -np.inf
        return
    log_z = float(np.logaddexp.reduce(score))
    assert buckets.log_bound >= log_z - 1e-9
    runs = [draw_particles(buckets, run, 400) for run in range(30)]
    ratio = np.exp(np.array([run.log_mean for run in runs]) - log_z)
    assert abs(ratio.mean() - 1.0) <= 6 * ratio.std(ddof=1) / np.sqrt(30) + 0.02
    for run in runs[:3]:
        alive = run.rows[run.weight > 0]
        assert np.isfinite(graph.log_score(alive)).all()
        assert run.weight.sum() == pytest.approx(1.0) or run.log_mean == -np.inf


def hard_grid(side: int, seed: int) -> FactorGraph:
    """Return a colouring with four colours and fields, on which Gibbs chains get stuck."""
    rng = np.random.default_rng(seed)
    differ = np.where(np.eye(4, dtype=bool), -np.inf, 0.0)
    number = np.arange(side * side).reshape(side, side)
    pairs = [*zip(number[:, :-1].flat, number[:, 1:].flat, strict=True)]
    pairs += [*zip(number[:-1].flat, number[1:].flat, strict=True)]
    tables = [([int(a), int(b)], differ) for a, b in pairs]
    tables += [([v], rng.normal(0, 0.5, 4)) for v in range(side * side)]
    names = [f"x{v}" for v in range(side * side)]
    return graph_of_tables(names, [list("rgby")] * (side * side), tables)


def test_particles_of_a_hard_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = hard_grid(5, 1)
    exact = sample_particles(graph, 0)
    assert exact is not None
    assert exact.stderr == 0.0
    assert exact.upper == pytest.approx(exact.log_partition)
    monkeypatch.setattr(mini_buckets, "LARGEST", 64)
    found = sample_particles(graph, 0)
    assert found is not None
    assert found.upper > exact.log_partition
    assert abs(found.log_partition - exact.log_partition) <= 5 * found.stderr + 0.01
    assert np.isfinite(graph.log_score(found.rows)).all()


def test_worlds_of_hard_models_are_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """No junction tree fits, and the worlds of V are impossible."""
    from lapis.circuits.approximation import approximate as module
    from lapis.circuits.approximation import samples

    graph = hard_grid(5, 2)
    exact = sample_particles(graph, 0)
    assert exact is not None
    monkeypatch.setattr(samples, "MAX_ENTRIES", 10)
    monkeypatch.setattr(mini_buckets, "LARGEST", 256)
    monkeypatch.setattr(module, "MIN_EFFECTIVE", 1.1)
    row = np.full(graph.num_variables, -1, np.int32)
    row[3] = 2
    worlds = sample_training_worlds(graph, row, 500, 0)
    assert np.isfinite(graph.log_score(worlds)).all()
    assert (worlds[:, 3] == 2).all()
    row[3] = -1
    structure = find_structure(graph, row, 1500, 2000)
    found = fit_structure(graph, structure, row)
    assert found.parameters == "P"
    assert found.log_partition is not None
    assert found.log_partition_stderr is not None
    assert found.upper is not None
    assert abs(found.log_partition - exact.log_partition) <= 5 * found.log_partition_stderr + 0.02
    assert found.upper >= exact.log_partition
    assert found.bound is None or found.bound <= exact.log_partition


@given(st.integers(0, 2**32))
def test_the_lower_bound_counts_no_impossible_world(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed))
    if not np.isfinite(graph.log_score(all_rows(graph))).any():
        return
    log_z, _ = enumerate_marginals(graph)
    row = np.full(graph.num_variables, -1, np.int32)
    nothing = graph_of_tables(graph.names, graph.states, [])
    structure = find_structure(nothing, row, 1000, 10)
    found = fit_structure(graph, structure, row, "V")
    assert found.bound is None or found.bound <= log_z + 1e-9

"""Test components that are sampled separately: methods of atoms, and no lost atoms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from exact_networks import make_network
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.marginals import InferenceOptions, Marginals
from lapis.inference.plan import (
    InferencePlan,
    candidate_samplers,
    divide_components,
    rest_step,
)
from lapis.inference.reduction.eliminate import Reduction, reduce
from lapis.inference.solve import run_plan, sample_core
from lapis.network.network import Network
from lapis.runtime.progress import Stop
from sampled_networks import agreement


def sample_all(network: Network, options: InferenceOptions) -> Marginals:
    """Sample a whole network, as if no part of it could be summed exactly."""
    rest = rest_step(network, np.arange(network.num_atoms), "")
    plan = InferencePlan(options=options, network=network, steps=[rest], rest="sample")
    return run_plan(plan).answer()[1]


def two_kinds(crowd: int = 9, ring: int = 8) -> Network:
    """Return a group of atoms coupled to be equal, and a dense ring of hard alternatives."""
    clauses: list[tuple[list[int], int, float]] = []
    for one in range(1, crowd + 1):
        clauses.append(([one], 1, 1.0))
        clauses += [([-one, other], 0, 1.0) for other in range(1, crowd + 1) if one != other]
    first = crowd + 1
    atom = [first + place for place in range(ring)]
    for place in range(ring):
        for step in (1, 2, 3):
            clauses.append(([-atom[place], -atom[(place + step) % ring]], -1, 1.0))
        clauses.append(([atom[place]], 2, 1.0 + place / 10))
    return make_network(crowd + ring, clauses, [0.7, 0.05, 0.9])


def test_each_kind_is_sampled_by_itself() -> None:
    network = two_kinds()
    exact = enumerate_worlds(network)
    found = sample_all(network, InferenceOptions(seed=2))
    parts = found.diagnostics["parts"]
    assert sorted(part["atoms"] for part in parts) == [8, 9]
    assert found.stderr is not None
    assert (np.abs(found.marginal - exact.marginal) <= 5 * found.stderr + 1e-12).all()
    errors = np.array(found.diagnostics["expected_counts_stderr"])
    assert (np.abs(found.expected_count - exact.expected_count) <= 5 * errors + 1e-9).all()
    assert found.diagnostics["converged"]
    assert found.diagnostics["rhat"] == max(part["rhat"] for part in parts if "rhat" in part)


def test_one_part_is_sampled_as_it_is() -> None:
    network = agreement(8, 0.3, 0.1)
    assert len(np.unique(divide_components(network))) == 1
    reduction, options = reduce(network), InferenceOptions(seed=1)
    one = sample_all(network, options)
    two = sample_core(reduction, tuple(candidate_samplers(reduction.core)), options, weigh=True)
    assert one.methods == two.methods
    np.testing.assert_allclose(one.expected_count, two.expected_count)
    assert "parts" not in one.diagnostics
    assert [row.num_atoms for row in one.steps] == [8]


def stub(name: str, size: int, value: float, **notes: object) -> Marginals:
    return Marginals.by(
        name,
        exact=False,
        marginal=np.full(size, value),
        log_odds=np.zeros(size),
        stderr=np.full(size, 0.01),
        expected_count=np.zeros(3),
        diagnostics={
            "core_atoms": size,
            "samples": 4,
            "expected_counts_stderr": [0.0] * 3,
            "rhat": 1.0,
            "converged": True,
            "interrupted": False,
            **notes,
        },
    )


def test_every_atom_says_which_sampler_answered_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samplers with distinguishable answers: the method ids of atoms follow them."""

    def sample_stub(
        part: Reduction, names: tuple[str, ...], options: InferenceOptions, **_: Any
    ) -> Marginals:
        size = part.network.num_base_atoms
        return stub("gibbs", 9, 0.25) if size == 9 else stub("mcsat", 8, 0.75)

    monkeypatch.setattr("lapis.inference.solve.sample_core", sample_stub)
    found = sample_all(two_kinds(), InferenceOptions())
    assert [found.methods[i] for i in found.method_id] == ["gibbs"] * 9 + ["mcsat"] * 8
    assert (found.marginal == np.repeat([0.25, 0.75], [9, 8])).all()
    assert sorted(found.method.split("+")) == ["gibbs", "mcsat"]
    assert not found.is_exact.any()


def test_large_components_stand_alone() -> None:
    rings = [([-(i + 1), (i + 1) % 150 + 1], 0, 1.0) for i in range(150)]
    small = [([-(150 + i), 151 + i], 0, 1.0) for i in range(1, 10)]
    other = [([-(i + 1), (i - 160 + 1) % 120 + 161], 0, 1.0) for i in range(160, 280)]
    network = make_network(280, [*rings, *small, *other], [0.5])
    part = divide_components(network)[network.component]
    assert len({part[0], part[155], part[200]}) == 3


def test_time_and_stops_reach_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float | None] = []

    def sample_stub(
        part: Reduction, names: tuple[str, ...], options: InferenceOptions, **_: Any
    ) -> Marginals:
        limits.append(options.time_limit)
        return stub("gibbs", part.network.num_base_atoms, 0.5, interrupted=True)

    monkeypatch.setattr("lapis.inference.solve.sample_core", sample_stub)
    stop = Stop()
    found = sample_all(two_kinds(), InferenceOptions(time_limit=17.0, stop=stop))
    assert found.diagnostics["interrupted"]
    assert stop()
    first, last = limits
    assert first is not None
    assert last is not None
    assert first < 10  # its share; the other part gets unused time
    assert first < last <= 17

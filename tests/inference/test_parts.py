"""Components that are sampled apart: who answers what, and that nothing is lost between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from exact_networks import make_network
from sampled_networks import agreement

from lapis.inference.by_parts import divide_components, sample_by_parts
from lapis.inference.by_samplers import by_best_sampler, by_pilots
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.marginals import Marginals, Options
from lapis.inference.reduction.eliminate import Reduction, reduce
from lapis.network.network import Network
from lapis.progress import Stop


def two_kinds(crowd: int = 9, ring: int = 8) -> Network:
    """A crowd in which everybody wants to agree, and a dense ring of hard alternatives."""
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
    found = by_best_sampler(reduce(network), Options(seed=2))
    parts = found.diagnostics["parts"]
    assert sorted(part["atoms"] for part in parts) == [8, 9]
    assert found.stderr is not None
    assert (np.abs(found.marginal - exact.marginal) <= 5 * found.stderr + 1e-12).all()
    errors = np.array(found.diagnostics["expected_counts_stderr"])
    assert (np.abs(found.expected_count - exact.expected_count) <= 5 * errors + 1e-9).all()
    assert found.diagnostics["converged"]
    assert found.diagnostics["rhat"] == max(part["rhat"] for part in parts if "rhat" in part)


def test_one_part_is_sampled_as_ever() -> None:
    network = agreement(8, 0.3, 0.1)
    assert len(np.unique(divide_components(network))) == 1
    reduction = reduce(network)
    one, two = (how(reduction, Options(seed=1)) for how in (by_best_sampler, by_pilots))
    assert (one.marginal == two.marginal).all()
    assert one.method == two.method
    assert "parts" not in one.diagnostics


def test_every_atom_says_which_sampler_answered_it() -> None:
    """Samplers that are told apart by their answers: the ids of atoms follow them."""
    network = two_kinds()

    def sample(part: Reduction, options: Options) -> Marginals:
        size = part.network.num_base_atoms
        name = "gibbs" if size == 9 else "mcsat"
        value = np.full(size, 0.25 if name == "gibbs" else 0.75)
        notes = {"expected_counts_stderr": [0.0] * 3, "rhat": 1.0, "converged": True}
        return Marginals(
            name, False, None, value, np.zeros(size), np.full(size, 0.01), np.zeros(3),
            np.ones(size, bool), notes,
        )  # fmt: skip

    found = sample_by_parts(reduce(network), Options(), sample)
    names, ids = found.method.split("+"), found.method_ids
    assert ids is not None
    assert [names[i] for i in ids] == ["gibbs"] * 9 + ["mcsat"] * 8
    assert (found.marginal == np.where(ids == names.index("gibbs"), 0.25, 0.75)).all()
    beside = replace(found, method=f"exact+{found.method}").method_ids
    assert beside is not None
    assert (beside == ids + 1).all()


def test_large_components_stand_alone() -> None:
    rings = [([-(i + 1), (i + 1) % 150 + 1], 0, 1.0) for i in range(150)]
    small = [([-(150 + i), 151 + i], 0, 1.0) for i in range(1, 10)]
    other = [([-(i + 1), (i - 160 + 1) % 120 + 161], 0, 1.0) for i in range(160, 280)]
    network = make_network(280, [*rings, *small, *other], [0.5])
    part = divide_components(network)[network.component]
    assert len({part[0], part[155], part[200]}) == 3


def test_time_and_stops_reach_all_parts() -> None:
    network = two_kinds()
    limits: list[float | None] = []

    def sample(part: Reduction, options: Options) -> Marginals:
        limits.append(options.time_limit)
        size = part.network.num_base_atoms
        notes = {"expected_counts_stderr": [0.0] * 3, "interrupted": True}
        return Marginals(
            "gibbs", False, None, np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(3),
            np.ones(size, bool), notes,
        )  # fmt: skip

    stop = Stop()
    found = sample_by_parts(reduce(network), Options(time_limit=17.0, stop=stop), sample)
    assert found.diagnostics["interrupted"]
    assert stop()
    first, last = limits
    assert first is not None
    assert last is not None
    assert first < 10  # its share; what it does not use is for the other
    assert first < last <= 17

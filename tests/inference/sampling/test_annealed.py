"""Annealed importance sampling: log Z within its standard errors, hard clauses and blocks too."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import lapis
from exact_networks import make_network
from lapis.inference.exact.by_components import exact
from lapis.inference.marginals import InferenceOptions
from lapis.inference.sampling.annealed import anneal, weighted_mean
from lapis.network.network import Network


def tangle(seed: int, hard: int = 0, size: int = 9) -> Network:
    """Dense random clauses, so that elimination leaves a core, with a block of three."""
    rng = np.random.default_rng(seed)
    clauses: list[tuple[list[int], int, float]] = []
    for number, (a, b) in enumerate(permutations(range(1, size + 1), 2)):
        if rng.random() < 0.5:
            weight = -1 if number < hard else int(rng.integers(0, 5))
            signs = (1, 1) if weight < 0 else rng.choice([-1, 1], 2).tolist()
            clauses.append(([signs[0] * a, signs[1] * b], weight, 1.0))
    block = [size, size + 1, size + 2]
    clauses += [([-(size + 1), a], 5, 1.0) for a in range(1, size + 1)]
    clauses += [([-(size + 2), -a], 6, 1.0) for a in range(1, size + 1)]
    weights = (*rng.normal(size=5), 0.4, 0.6)
    return make_network(size + 3, clauses, weights, blocks=[(block, bool(seed % 2))])


@pytest.mark.parametrize("hard", [0, 12])
@pytest.mark.parametrize("seed", range(6))
def test_log_partition_is_within_its_standard_errors(seed: int, hard: int) -> None:
    network = tangle(seed, hard)
    expected, found = exact(network), anneal(network, InferenceOptions(precision=0.02, seed=seed))
    assert found.num_core_atoms > 0
    assert found.converged
    assert 0.0 < found.stderr <= 0.02
    assert abs(found.log_partition - expected.log_partition) <= 5 * found.stderr
    assert (np.abs(found.marginal - expected.marginal) <= 5 * found.marginal_stderr).all()
    error = np.abs(found.expected_count - expected.expected_count)
    assert (error <= 5 * found.expected_stderr).all()


def test_few_sweeps_say_that_they_do_not_suffice() -> None:
    network = make_network(
        14, [([-a, b], 0, 1.0) for a, b in permutations(range(1, 15), 2)] + [([1], 1, 1.0)],
        weights=(1.0, 2.0),
    )  # fmt: skip
    expected = exact(network)
    found = anneal(network, InferenceOptions(max_samples=64 * 50))
    assert not found.converged
    assert abs(found.log_partition - expected.log_partition) <= 5 * found.stderr


def test_the_same_seed_gives_the_same_estimate() -> None:
    first, again, other = (
        anneal(tangle(0), InferenceOptions(max_samples=5000, seed=seed)) for seed in (1, 1, 2)
    )
    assert first.log_partition == again.log_partition != other.log_partition


def test_a_part_that_fits_is_exact_and_the_rest_annealed() -> None:
    people = [f"P{i}" for i in range(17)]
    own = "".join(f"{0.01 * i} Smokes({name})\n" for i, name in enumerate(people))
    model = lapis.parse(
        "Friends(person, person)\nSmokes(person)\n"
        f"0.1 Friends(x, y) ^ Smokes(x) => Smokes(y)\n{own}"
    )
    facts = " ".join(f"Friends({a},{b})" for a in people for b in people) + " Friends(X,Y)"
    data = lapis.Database.parse(facts)
    expected = lapis.infer(model, data, "Smokes", method="exact")
    answer = lapis.infer(model, data, "Smokes", method="ais", max_memory=1 << 18)
    assert (answer.exact, answer.method) == (False, "exact+ais")
    error = answer.diagnostics["log_partition_stderr"]
    assert answer.log_partition == pytest.approx(expected.log_partition, abs=5 * error)
    assert np.abs(answer.probability - expected.probability).max() < 0.2
    assert answer["Smokes(X)"] == pytest.approx(expected["Smokes(X)"], abs=1e-9)


def test_a_mean_lies_between_what_it_is_the_mean_of() -> None:
    """If all groups agree on 0 or 1, rounding of the shares does not change the mean."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        share = rng.random(7) ** 4
        mean, error = weighted_mean(np.ones((7, 5)), share / share.sum())
        assert (mean == 1.0).all()
        assert (error == 0.0).all()

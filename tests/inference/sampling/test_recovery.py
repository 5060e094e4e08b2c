"""Eliminated atoms recovered from all pieces of chains together equal those of single pieces."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lapis
from exact_networks import possible_worlds, random_network
from lapis.errors import LapisError
from lapis.inference.exact.by_components import exact
from lapis.inference.reduction import tree_answers
from lapis.inference.reduction.eliminate import Reduction, reduce
from lapis.inference.reduction.tree_answers import SampleSpan, join_spans, share_true, tree_runs
from lapis.inference.sampling import recovery
from lapis.inference.sampling.chains import Derived
from lapis.inference.sampling.diagnostics import (
    WarmUp,
    count_ranges,
    raise_island_errors,
    summarize,
)
from lapis.inference.sampling.recovery import (
    BATCHES,
    average_batches,
    list_eliminated,
    piece_tally,
    recover_eliminated,
    sampled_components,
    split_chains,
)
from lapis.inference.sampling.tally import Worlds
from lapis.network import csr

seeds = st.integers(0, 2**32 - 1)


def pack(samples: np.ndarray, rng: np.random.Generator) -> Worlds:
    """Samples as a chain keeps them, with unused room."""
    rows = -(-len(samples) // 64) + int(rng.integers(0, 2))
    padded = np.zeros((64 * rows, samples.shape[1]), np.uint64)
    padded[: len(samples)] = samples
    shifts = np.arange(64, dtype=np.uint64)[:, None]
    bits = np.array([(block << shifts).sum(axis=0) for block in np.split(padded, rows)])
    return Worlds(bits.astype(np.uint64), np.array([len(samples)]))


@given(seeds, st.integers(1, 200), st.integers(0, 199), st.integers(1, 200))
def test_samples_are_cut_anywhere(seed: int, size: int, begin: int, length: int) -> None:
    assume(begin < size)
    end = min(begin + length, size)
    rng = np.random.default_rng(seed)
    samples = rng.random((2, size, 3)) < 0.5
    one, other = (SampleSpan(pack(chain, rng).bits, begin, end) for chain in samples)
    pieces = join_spans([[one], [other, one._replace(begin=0)]])
    np.testing.assert_array_equal(pieces.size, [end - begin, 2 * end - begin])
    shares = samples[0, begin:end], np.concatenate((samples[1, begin:end], samples[0, :end]))
    np.testing.assert_allclose(share_true(pieces), [share.mean(axis=0) for share in shares])


def test_chains_are_cut_without_a_second_copy() -> None:
    rng = np.random.default_rng(0)
    chains = [Worlds(rng.integers(1 << 60, size=(7, 9000), dtype=np.uint64), np.array([400]))] * 4
    tracemalloc.start()
    cut = split_chains(chains, [[chain] for chain in chains])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * cut.pieces.bits.nbytes


def piece_by_piece(
    reduction: Reduction, chains: list[np.ndarray], before: list[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """Means and errors with one recovery for each piece, and one for each warm-up."""
    gone, base = list_eliminated(reduction), reduction.network.num_base_atoms
    samples = len(chains[0])
    length = max(1, samples // BATCHES)
    tallies, totals = [], []
    for chain in chains:
        parts = [chain[first : first + length] for first in range(0, samples, length)]
        total = np.array([reduction.recover(p).marginal[gone] * len(p) for p in parts])
        tallies.append(piece_tally(total, total.sum(axis=0), length, samples))
        totals.append(np.mean([reduction.recover(chain).expected_count], axis=0))
    warmed = len(before[0])
    warm = np.array([reduction.recover(part).marginal[gone] * warmed for part in before])
    found = summarize(tallies, warm_up=WarmUp(warm, warmed))
    found = raise_island_errors(found, reduction.network.component[gone], len(chains), None)
    mean, stderr = np.zeros((2, base))
    mean[gone], stderr[gone] = found.mean, found.stderr
    return mean, stderr, np.array(found.worst_rhat), np.mean(totals, axis=0)


@given(seeds, st.integers(2, 150))
def test_all_pieces_at_once_are_each_by_itself(seed: int, samples: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, num_base=int(rng.integers(2, 9)), num_clauses=10)
    try:
        exact(network)
    except LapisError:
        assume(False)
    reduction = reduce(network, max_scope=int(rng.integers(1, 4)))
    worlds, _ = possible_worlds(network)
    core = worlds[:, reduction.core_atom]
    chains = [core[rng.choice(len(core), samples)] for _ in range(3)]
    cut = int(rng.integers(1, 80))
    before = [core[rng.choice(len(core), cut + 5)] for _ in range(3)]

    def recovered(cores: int) -> Derived:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recovery, "num_cores", lambda: cores)
            patch.setattr(tree_answers, "RUN_CLIQUES", 2)
            patch.setattr(tree_answers, "RUN_CLAUSES", 3)
            return recover_eliminated(
                reduction,
                [pack(chain, rng) for chain in chains],
                [[pack(part[:cut], rng), pack(part[cut:], rng)] for part in before],
                None,
            )

    found, others = recovered(1), recovered(3)
    mean, stderr, rhat, counts = piece_by_piece(reduction, chains, before)
    np.testing.assert_allclose(found.atoms.mean, mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.atoms.stderr, stderr, rtol=1e-6, atol=1e-7)
    assert found.atoms.worst_rhat == pytest.approx(float(rhat), rel=1e-6)
    np.testing.assert_allclose(found.counts.mean, counts, rtol=0, atol=1e-9)
    for one, other in zip(
        (*found.atoms, *found.counts), (*others.atoms, *others.counts), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@given(seeds)
def test_trees_are_in_one_place(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, num_base=12, num_clauses=14)
    try:
        tree = reduce(network).tree
    except LapisError:
        assume(False)
    tops = np.flatnonzero(tree.parent < 0)
    tree_of = np.searchsorted(tops, np.arange(len(tree.order)))
    inside = tree.parent >= 0
    np.testing.assert_array_equal(tree_of[tree.parent[inside]], tree_of[inside])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_answers, "RUN_CLIQUES", 1)
        runs = tree_runs(tree)
    assert [last for _, last in runs] == (tops + 1).tolist()


@given(seeds)
def test_counts_of_clauses_are_taken_in_pieces(seed: int) -> None:
    """Batches of any size contain each clause exactly once."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, num_base=9, num_clauses=12)
    try:
        reduction = reduce(network)
    except LapisError:
        assume(False)
    sampled = sampled_components(reduction)
    span, jump, most = np.zeros((3, len(network.weights)))
    most += network.constant_count
    for clause, (weight, size) in enumerate(
        zip(network.weight_id.tolist(), network.coefficient.tolist(), strict=True)
    ):
        first_atom = abs(int(network.literal[network.clause_start[clause]])) - 1
        if weight >= 0:
            most[weight] += size
        if weight >= 0 and sampled[network.component[first_atom]]:
            span[weight] += abs(size)
            jump[weight] = max(jump[weight], abs(size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csr, "CHUNK", 5)
        found = count_ranges(network, sampled)
        np.testing.assert_allclose(reduction.all_true, most, atol=1e-12)
    np.testing.assert_allclose(found, (span, jump), atol=1e-12)


OPEN = """\
person = {1,...,60}
Friends(person, person)
Smokes(person)
Cancer(person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
"""


def test_chains_that_never_move_are_told() -> None:
    """All smoke or none does; single flips do not change that."""
    answer = lapis.infer(
        lapis.parse(OPEN),
        None,
        "Smokes",
        open_predicates=["Friends"],
        method="gibbs",
        max_samples=2_000,
    )
    assert answer.diagnostics["stuck_atoms"] == 60
    assert not answer.diagnostics["converged"]
    assert answer.remarks() == [
        "not converged: the chains do not move (60 sampled atoms keep the values that a chain "
        "started with), so these probabilities depend on the starting points; try --method auto or "
        "tempering, more samples will not help",
        "Cancer has no fact in the data: every Cancer atom is taken as false",
    ]


def test_open_relations_are_recovered() -> None:
    """A chain that mixes, against the answer by counts."""
    query = ["Smokes", "Cancer", "Friends"]
    model = lapis.parse(OPEN.replace("60", "12").replace("1.1", "0.2"))
    truth = lapis.infer(model, None, query, method="exact")
    answer = lapis.infer(model, None, query, method="gibbs", random_state=3)
    assert answer.diagnostics["stuck_atoms"] == 0
    assert answer.diagnostics["converged"]
    assert (np.abs(answer.probability - truth.probability) <= 5 * answer.errors).all()


@pytest.mark.parametrize("num_batches", [2, 3, 5, 40])
def test_the_standard_error_of_batches_is_that_of_a_sample(num_batches: int) -> None:
    """Equal shares: the deviation of a sample (n − 1), divided by the root of n."""
    estimates = np.random.default_rng(num_batches).normal(size=(num_batches, 4))
    mean, error = average_batches(estimates, np.full(num_batches, 1 / num_batches))
    np.testing.assert_allclose(mean, estimates.mean(axis=0))
    np.testing.assert_allclose(error, estimates.std(axis=0, ddof=1) / np.sqrt(num_batches))

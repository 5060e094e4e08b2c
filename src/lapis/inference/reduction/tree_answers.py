"""Marginals of eliminated atoms from samples of the core.

The cliques of eliminated variables form trees; the top of each tree has a scope S in the core.
Given S, a tree is independent of all else, so with P(a | s) for each state s of S,

    P(a) = Σ_s P(a | s) · P(S = s)

and only P(S = s), a few numbers a tree, depends on the samples. So answers for many pieces of the
chains cost little more than for one. States in no sample are skipped.

Trees are answered in runs of some thousand atoms, so that the pieces of a million atoms are never
in memory together, and runs are divided between cores. Neither the runs nor the sums depend on the
number of cores.

Samples are bits: an atom's truth in all samples is a row of words, and a joint state or a false
clause is counted 64 samples at a time by `and` and popcount. A piece is some bits of some words.
Pieces with words of their own took six times the memory, because a piece may be seven samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.inference.exact.elimination_order import popcount
from lapis.inference.exact.junction_tree import (
    JunctionTree,
    collect_messages,
    longest_row,
    work_space,
)
from lapis.inference.exact.junction_tree_kernel import fill_belief, number_axes, visit_cube
from lapis.network.csr import row_starts, take_rows
from lapis.network.cubes import Cubes, Variables, cube_penalties, falsifying_cubes, plain_cubes
from lapis.network.network import Network
from lapis.runtime.kernels import entry, inner

if TYPE_CHECKING:
    from lapis.inference.reduction.eliminate import Reduction


RUN_CLIQUES = 3000  # least cliques of a run
RUN_CLAUSES = 30_000


class CliqueFactors(NamedTuple):
    """The cubes of cliques, and their scores, float64[num_cubes].

    Those of a plain network are made for some cliques at a time, since its clauses hold the same
    information in a quarter of the memory.
    """

    network: Network
    variables: Variables
    whole: tuple[Cubes, np.ndarray] | None  # None: a plain network

    def of_all(self) -> tuple[Cubes, np.ndarray]:
        """Return all cubes and scores."""
        if self.whole is not None:
            return self.whole
        clauses = np.arange(self.network.num_clauses)
        cubes = falsifying_cubes(self.network, self.variables, clauses)
        return cubes, cube_penalties(self.network, cubes, self.network.weights)

    def of_run(self, run: JunctionTree) -> tuple[JunctionTree, Cubes, np.ndarray]:
        """Return a run with its own numbers of cubes, the cubes, and their scores."""
        if self.whole is not None:
            return run, *self.whole
        cubes = plain_cubes(self.network, self.variables, run.cube)
        penalty = cube_penalties(self.network, cubes, self.network.weights)
        return run._replace(cube=np.arange(len(penalty), dtype=np.int32)), cubes, penalty


class Answers(NamedTuple):
    """Marginals of some atoms, and expected false groundings of their clauses."""

    atoms: np.ndarray  # int32[num_values]
    probability: np.ndarray  # float64[num_values, num_pieces]
    weights: np.ndarray  # int32[num_weights of the run], ids, each once
    false: np.ndarray  # float64[num_weights of the run, num_pieces], E[Σ coefficient·1[false]]


class WorkSpace(NamedTuple):
    """The arrays of one worker."""

    axis: np.ndarray  # int32[num_variables]
    axes: np.ndarray  # int64[8, longest scope + 1], sizes, strides and digits of axes
    scope_belief: np.ndarray  # float64[longest message]
    agree: np.ndarray  # uint64[num_words], the samples in which a scope is in some state
    share: np.ndarray  # float64[num_pieces], of all samples
    size: np.ndarray  # float64[num_pieces], the samples of each piece
    left: np.ndarray  # int64[num_pieces], samples in none of the states so far
    row: np.ndarray  # int64[longest list of a scope's atoms], of the core
    flip: np.ndarray  # uint64[...], all ones if the atom must be false


def allocate_work(reduction: Reduction, pieces: SamplePieces) -> WorkSpace:
    """Allocate the arrays of a worker."""
    tree, size = reduction.tree, reduction.variables.size
    listed = longest_row(tree.scope_start) * int(size.max(initial=2))
    return WorkSpace(
        *work_space(tree, size),
        np.empty(longest_row(tree.message_start)),
        np.empty(pieces.bits.shape[1], np.uint64),
        np.empty(len(pieces.size)),
        pieces.size.astype(np.float64),
        np.empty_like(pieces.size),
        np.empty(listed, np.int64),
        np.empty(listed, np.uint64),
    )


def tree_runs(tree: JunctionTree, length: int | None = None) -> list[tuple[int, int]]:
    """Return the first and last clique of each run of whole trees, which are contiguous."""
    length = length or RUN_CLIQUES
    ends = np.flatnonzero(tree.parent < 0) + 1
    targets = np.arange(length, len(tree.order), length)
    cuts = ends[np.searchsorted(ends, targets)] if len(targets) else targets
    return list(pairwise(np.unique([0, *cuts.tolist(), len(tree.order)]).tolist()))


def clause_runs(clauses: np.ndarray) -> Iterator[np.ndarray]:
    """Return clauses in runs."""
    for first in range(0, len(clauses), RUN_CLAUSES):
        yield clauses[first : first + RUN_CLAUSES]


def answer_trees(
    reduction: Reduction, pieces: SamplePieces, first: int, last: int, work: WorkSpace
) -> Answers:
    """Answer the atoms of cliques `first` to `last`, and the clauses that entered these."""
    variables = reduction.variables
    part, cubes, penalty = reduction.factors.of_run(cut_tree(reduction.tree, first, last))
    potentials = collect_messages(part, cubes, penalty, work=(work.axis, work.axes))
    start, atoms = take_rows(variables.state_start, variables.state_atom, part.order)
    clause = cubes.clause[part.cube]
    weights, own, coefficient = local_weights(reduction.network, clause)
    value_start = row_starts(np.add.reduceat(atoms >= 0, start[:-1]))
    probability = np.zeros((int(value_start[-1]), len(pieces.size)))
    false = np.zeros((len(weights), len(pieces.size)))
    _answer_trees(
        part, cubes, potentials.table, potentials.message,
        variables.state_start, variables.state_atom, reduction.core_row, pieces, work,
        np.zeros(int(part.message_start[-1])), np.empty(int(part.table_start[-1])),
        value_start, own, coefficient, probability, false,
    )  # fmt: skip
    return Answers(atoms[atoms >= 0], probability, weights, false)


def answer_clauses(reduction: Reduction, pieces: SamplePieces, clauses: np.ndarray) -> Answers:
    """Count how often clauses over core atoms, int64[...], are false."""
    network = reduction.network
    weights, own, coefficient = local_weights(network, clauses)
    false = np.zeros((len(weights), len(pieces.size)))
    _answer_clauses(
        network.clause_start, network.literal, clauses, reduction.core_row, pieces,
        own, coefficient, false,
    )  # fmt: skip
    return Answers(np.empty(0, np.int32), np.empty((0, len(pieces.size))), weights, false)


def local_weights(
    network: Network, clause: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct weights of clauses, each clause's index (−1: hard), and coefficients."""
    weights, own = np.unique(network.weight_id[clause], return_inverse=True)
    hard = int(len(weights) > 0 and weights[0] < 0)
    return weights[hard:], own.astype(np.int32) - np.int32(hard), network.coefficient[clause]


def cut_tree(tree: JunctionTree, first: int, last: int) -> JunctionTree:
    """Return the cliques `first` to `last`, whole trees, as a separate tree."""

    def cut(start: np.ndarray) -> np.ndarray:
        return start[first : last + 1] - start[first]

    parent = tree.parent[first:last]
    return JunctionTree(
        tree.order[first:last],
        cut(tree.scope_start),
        tree.scope_variable[slice(*tree.scope_start[[first, last]])],
        np.where(parent >= 0, parent - first, parent).astype(np.int32),
        cut(tree.cube_start),
        tree.cube[slice(*tree.cube_start[[first, last]])],
        cut(tree.table_start),
        cut(tree.message_start),
    )


@entry
def _answer_trees(  # type: ignore[no-untyped-def]
    tree, cubes, table, message, state_start, state_atom, core_row, pieces, work,
    outside, belief, value_start, own, coefficient, probability, false,
):  # fmt: skip
    """Answer tree after tree; the top of each is its last clique. `outside` starts as zeros."""
    size, first = cubes.size, 0
    for top in range(len(tree.order)):
        if tree.parent[top] >= 0:
            continue
        begin = tree.message_start[top]
        for piece in range(len(pieces.size)):
            work.left[piece] = pieces.size[piece]
        num_left = 1
        for state in range(tree.message_start[top + 1] - begin):
            if num_left == 0:
                break
            length = _list_scope(tree, size, top, state, state_start, state_atom, core_row, work)
            num_seen, num_left = _count_state(pieces, length, work)
            if num_seen == 0:
                continue
            outside[begin + state] = 1.0
            for i in range(top, first - 1, -1):
                fill_belief(
                    tree, size, i, table, message, outside, belief, work.axis, work.axes,
                    work.scope_belief,
                )  # fmt: skip
                _add_clique(
                    tree, cubes, i, belief, state_start, state_atom, work,
                    value_start, own, coefficient, probability, false,
                )  # fmt: skip
            outside[begin + state] = 0.0
        first = top + 1


@inner
def _list_scope(tree, size, i, state, state_start, state_atom, core_row, work):  # type: ignore[no-untyped-def]
    """List the true and false atoms of a scope's state; return their number."""
    length = 0
    for at in range(tree.scope_start[i + 1] - 1, tree.scope_start[i] - 1, -1):
        v = tree.scope_variable[at]
        atom = state_atom[state_start[v] + state % size[v]]
        state //= size[v]
        # In a state without an atom (false, or none of a block) no atom of the variable is true.
        for place in range(state_start[v], state_start[v + 1]):
            other = state_atom[place]
            if other >= 0 and (atom < 0 or other == atom):
                work.row[length] = core_row[other]
                work.flip[length] = ~np.uint64(0) if atom < 0 else np.uint64(0)
                length += 1
    return length


@inner
def _count_state(pieces, length, work):  # type: ignore[no-untyped-def]
    """Fill the share of each piece's samples in which the atoms have the listed values.

    Return the number of these samples, and of the samples in none of the states so far.
    """
    agree, share, left = work.agree, work.share, work.left
    for word in range(len(agree)):
        agree[word] = ~np.uint64(0)
    for at in range(length):
        row, flip = pieces.bits[work.row[at]], work.flip[at]
        for word in range(len(agree)):
            agree[word] &= row[word] ^ flip
    num_seen, num_left = 0, 0
    for piece in range(len(share)):
        count = 0
        for part in range(pieces.start[piece], pieces.start[piece + 1]):
            count += popcount(agree[pieces.word[part]] & pieces.mask[part])
        share[piece] = count
        left[piece] -= count
        num_seen += count
        num_left += left[piece]
    for piece in range(len(share)):
        share[piece] /= work.size[piece]
    return num_seen, num_left


@inner
def _add_clique(  # type: ignore[no-untyped-def]
    tree, cubes, i, belief, state_start, state_atom, work,
    value_start, own, coefficient, probability, false,
):  # fmt: skip
    """Add a clique's belief, times the share of samples of its state."""
    v, value = tree.order[i], value_start[i]
    states = cubes.size[v]
    for s in range(states):
        if state_atom[state_start[v] + s] < 0:
            continue
        sum_of_state = 0.0
        for at in range(tree.table_start[i] + s, tree.table_start[i + 1], states):
            sum_of_state += belief[at]
        for piece in range(len(work.share)):
            probability[value, piece] += sum_of_state * work.share[piece]
        value += 1
    axes = number_axes(tree, cubes.size, i, work.axis, work.axes)
    for j in range(tree.cube_start[i], tree.cube_start[i + 1]):
        if own[j] < 0:
            continue
        inside = visit_cube(
            belief, tree.table_start[i], cubes, tree.cube[j], work.axis, axes, work.axes, 0.0
        )
        for piece in range(len(work.share)):
            false[own[j], piece] += coefficient[j] * inside * work.share[piece]


@entry
def _answer_clauses(  # type: ignore[no-untyped-def]
    clause_start, literal, clauses, core_row, pieces, own, coefficient, false
):
    """Add the false clauses of each piece."""
    for index in range(len(clauses)):
        if own[index] < 0:
            continue
        begin, end = clause_start[clauses[index]], clause_start[clauses[index] + 1]
        for piece in range(len(pieces.size)):
            count = 0
            for part in range(pieces.start[piece], pieces.start[piece + 1]):
                agree = pieces.mask[part]
                for at in range(begin, end):
                    held = pieces.bits[core_row[abs(literal[at]) - 1], pieces.word[part]]
                    agree &= ~held if literal[at] > 0 else held
                count += popcount(agree)
            false[own[index], piece] += coefficient[index] * count / pieces.size[piece]


class SamplePieces(NamedTuple):
    """Samples of the core as bits, cut into pieces."""

    bits: np.ndarray  # uint64[core.num_atoms, num_words], those of all chains
    word: np.ndarray  # int64[num_parts], the words that a piece has bits of, piece after piece
    mask: np.ndarray  # uint64[num_parts], ones at these bits
    start: np.ndarray  # int64[num_pieces + 1], the first of each piece's parts
    size: np.ndarray  # int64[num_pieces], its samples


class SampleSpan(NamedTuple):
    """Samples `begin` to `end` of a chain; sample s is bit s mod 64 of row s div 64."""

    bits: np.ndarray  # uint64[num_words, num_atoms]
    begin: int
    end: int


def pack_samples(samples: np.ndarray) -> SamplePieces:
    """Return one piece of bool[num_samples, num_atoms]."""
    padded = np.zeros((samples.shape[1], -(-len(samples) // 64) * 64), bool)
    padded[:, : len(samples)] = samples.T
    packed = np.packbits(padded, axis=1, bitorder="little").view(np.dtype("<u8"))
    return join_spans([[SampleSpan(packed.astype(np.uint64, copy=False).T, 0, len(samples))]])


def join_spans(pieces: Sequence[Sequence[SampleSpan]]) -> SamplePieces:
    """Return pieces, each of one or more spans."""
    chains = {id(span.bits): span.bits for piece in pieces for span in piece}
    first = row_starts(np.array([*map(len, chains.values())]))
    bits = np.empty((len(next(iter(chains.values())).T), int(first[-1])), np.uint64)
    np.concatenate([chain.T for chain in chains.values()], axis=1, out=bits)
    first_of = dict(zip(chains, first.tolist(), strict=False))
    parts = [
        [
            (first_of[id(span.bits)] + row, span.begin - 64 * row, span.end - 64 * row)
            for span in piece
            for row in range(span.begin // 64, -(-span.end // 64))
        ]
        for piece in pieces
    ]
    word, begin, end = np.array([part for piece in parts for part in piece], np.int64).T
    return SamplePieces(
        bits,
        word.copy(),
        lowest_bits(np.minimum(end, 64)) & ~lowest_bits(np.maximum(begin, 0)),
        row_starts(np.array([*map(len, parts)])),
        np.array([sum(span.end - span.begin for span in piece) for piece in pieces], np.int64),
    )


def lowest_bits(number: np.ndarray) -> np.ndarray:
    """Return words with the given number of low bits set, 0 to 64, uint64[...]."""
    some: np.ndarray = np.right_shift(~np.uint64(0), ((64 - number) % 64).astype(np.uint64))
    some[number == 0] = 0
    return some


def share_true(pieces: SamplePieces) -> np.ndarray:
    """Return in which share of samples each atom is true, float64[num_pieces, num_atoms]."""
    counts = np.zeros((len(pieces.size), len(pieces.bits)))
    _count_true(pieces, counts)
    return counts / pieces.size[:, None]


@entry
def _count_true(pieces, counts):  # type: ignore[no-untyped-def]
    """Count the samples of each piece in which each atom is true."""
    for atom in range(len(pieces.bits)):
        for piece in range(len(pieces.size)):
            for part in range(pieces.start[piece], pieces.start[piece + 1]):
                held = pieces.bits[atom, pieces.word[part]] & pieces.mask[part]
                counts[piece, atom] += popcount(held)

"""Differences of estimated counts: equation 5 of Sarkhel et al. 2016 as the paper has it.

    P(g = s | rest) ∝ exp Σ_j w_j M_j(rest, g = s),      d(g) = M(g = 1) − M(g = 0)

M_j is the count of a formula as IJGP(i) estimates it on the constraint network of the whole
formula. A counter holds the messages of the world at hand. M in the world in which g is flipped
starts from these messages: the networks of two such worlds differ in a few entries, and the
residual schedule of `propagation` recomputes only the messages that change. If g does flip, the
flipped world's messages are those that the next atom starts from.

`differences` substitutes the atom into the formula instead, which estimates only the groundings
that can change, and often breaks the formula's cycles. Here the errors of two estimates of all
groundings enter d, as far as they do not cancel. `benchmarks/ijgp_differences.py` compares: for
transitivity substitution is exact at i = 1, and subtraction is wrong by as much as d; for a square
of four literals at i = 1 subtraction is the better one. Both are exact where i exceeds the
treewidth.

A block's values exclude each other: d is what a value adds to its block left empty.

Messages that have not converged, or that have several fixed points, depend on the worlds on the
way. `settle` of a world by counts (`inference.sampling.counted_world`) starts from messages of the
world alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.counting.ijgp.counter import IjgpCounter, new_cube_counter, num_weights
from lapis.counting.ijgp.delta import depending
from lapis.counting.ijgp.differences import complete, refuse_hard_rules
from lapis.counting.ijgp.propagation import IjgpSettings
from lapis.problem.problem import Problem

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class EstimatedFlip(NamedTuple):
    """d(g) of one atom, and the counter of the world in which it is flipped."""

    weight_id: np.ndarray  # int64[k]
    value: np.ndarray  # float64[k]
    flipped: IjgpCounter


def estimate_flip(
    counter: IjgpCounter, predicate: str, row: tuple[int, ...], truth: bool
) -> EstimatedFlip:
    """Estimate M(g = 1) − M(g = 0) for one ground atom g.

    Parameters
    ----------
    counter
        Of the world at hand; it stays as it is.
    predicate, row
        The atom: a predicate of the model and the codes of its arguments.
    truth
        Of the atom in the counter's world.

    Returns
    -------
    EstimatedFlip
        The weights whose counts differ, the differences, and a counter of the world in which the
        atom is flipped, whose messages started from those of `counter`.
    """
    flipped = counter.branch()
    flipped.assign(predicate, row, not truth)
    weight, change = flipped.change_since(counter)
    return EstimatedFlip(weight, -change if truth else change, flipped)


def new_counter(problem: Problem, settings: IjgpSettings) -> IjgpCounter:
    """A counter of a problem's formulas; refuses hard rules."""
    refuse_hard_rules(problem)
    return IjgpCounter(problem.normal_form, problem.model, problem.domains, settings)


class SubtractedDifferences:
    """Differences of atoms in one world, each from two estimated counts."""

    def __init__(self, problem: Problem, settings: IjgpSettings) -> None:
        self.problem = problem
        self._counter = new_counter(problem, settings)

    def differences(
        self, predicate: str, rows: np.ndarray, truth: np.ndarray, world: Mapping[str, np.ndarray]
    ) -> csr_matrix:
        """Estimate d of many atoms in one world.

        Parameters
        ----------
        predicate, rows
            The atoms, int32[num_rows, arity].
        truth
            bool[num_rows], the value of each in the world.
        world
            The true tuples of each predicate, int32[num_true, arity].

        Returns
        -------
        csr_matrix
            float64[num_rows, num_weights]. For a predicate with blocks, what each value adds to
            its block left empty.
        """
        from scipy.sparse import csr_matrix

        self._counter.count(world)
        block = self.problem.model.predicates[predicate].block
        start, weight, value = [0], [np.empty(0, np.int64)], [np.empty(0)]
        for row, is_true in zip(map(tuple, rows.tolist()), truth.tolist(), strict=True):
            counter, holds = self._counter, is_true
            if block:
                counter, holds = self._empty_block(predicate, row, world[predicate]), False
            found = estimate_flip(counter, predicate, row, holds)
            weight.append(found.weight_id)
            value.append(found.value)
            start.append(start[-1] + len(found.weight_id))
        features, domains = self.problem.normal_form.features, self.problem.domains
        shape = (len(rows), sum(num_weights(each, domains) for each in features))
        entries = np.concatenate(value), np.concatenate(weight), np.array(start)
        return csr_matrix(entries, shape=shape)

    def _empty_block(self, predicate: str, row: tuple[int, ...], true: np.ndarray) -> IjgpCounter:
        """The counter of the world without the value that the block of an atom has."""
        key = [
            n for n in range(len(row)) if n not in self.problem.model.predicates[predicate].block
        ]
        counter = self._counter.branch()
        for own in true[(true[:, key] == np.array(row)[key]).all(axis=1)].tolist():
            counter.assign(predicate, own, False)
        return counter


def counts_exactly(problem: Problem, predicate: str, settings: IjgpSettings) -> bool:
    """Whether i exceeds the treewidth of every clause, so that counts are no estimates."""
    if depending(problem.normal_form, predicate):
        return False
    nothing = {name: known.true[:0] for name, known in problem.evidence.items()}
    world = complete(problem, nothing)
    return all(
        new_cube_counter(feature, clause, world, settings).graph.is_tree
        for feature in problem.normal_form.features
        for clause in feature.clauses
    )

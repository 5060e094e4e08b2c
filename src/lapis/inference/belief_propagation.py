"""Loopy belief propagation: the cheap estimate, exact where the factor graph is a forest.

Sum–product (Pearl 1988; Yedidia, Freeman and Weiss 2005 for the Bethe free energy) on clauses. A
clause sees each of its variables through one question only: does it make the clause true? Let
p_j be the chance that variable j does, by its message to the clause, and q the product of 1 − p_j
over the others. Then the message back is the single number

    λ = log f(makes it true) − log f(does not) = −log(1 − q + q exp(−w)),

so a clause of k literals costs O(k), not 2^k, for any weight, +∞ (hard) included. A block is one
variable with a state for each atom; several literals of one block in a clause are one question
(`kernels_belief_propagation`). An auxiliary atom a ⇔ l₁ ∨ … ∨ l_k is one factor, which to its
members is a clause whose weight is the log odds that the rest gives a; its defining clauses,
which would add loops, are left out.

On a forest the messages settle in one pass from the leaves and one back, which is elimination:
`by_components` does it in logarithms, exact whatever the weights, and finds contradictions. Only
forests with tables too large for it (blocks of thousands of atoms) go on here, and are called
exact if no message met the limit that stands for certainty.

Schedule: a factor waits with the change its neighbours have made since it was last looked at,
and a pass updates those that wait with at least a tenth of the largest (residual scheduling;
Elidan, McGraw and Koller 2006; without the priority queue: scanning the factors is cheaper than
a heap on networks this sparse). Messages are damped in log space.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.inference.belief_propagation_kernel import (
    MessageFactors,
    Messages,
    bethe_log_partition,
    fill_groups,
    pass_messages,
    read_beliefs,
)
from lapis.inference.exact.by_components import DEFAULT_MEMORY, ExactPlan, plan_exact
from lapis.inference.sampling.clause_graph import build_graph
from lapis.inference.sampling.gibbs_units import group_blocks
from lapis.network.csr import row_starts
from lapis.network.network import Network

DAMPING = 0.2  # of the old message in the new one; a forest is solved without
TOLERANCE = 1e-10  # the largest change of a log message at the end


@dataclass(frozen=True)
class BeliefPropagation:
    """What the messages say when they stop."""

    marginal: np.ndarray  # float64[num_base_atoms]
    log_odds: np.ndarray  # float64[num_base_atoms]
    expected_count: np.ndarray  # float64[num_weights]
    log_partition: float  # Bethe approximation
    exact: bool  # the factor graph is a forest, and nothing was cut off
    converged: bool
    num_passes: int
    residual: float  # the largest change still waiting


def propagate_beliefs(
    network: Network, *, max_passes: int = 2_000, max_memory: int = DEFAULT_MEMORY
) -> BeliefPropagation:
    """Marginals, expected counts and log Z by loopy belief propagation.

    Raises LapisError "unsatisfiable" where the hard formulas of a forest leave no world.
    `max_memory` is for the tables of a forest.
    """
    factors, decided = build_factors(network)
    num_factors = len(factors.weight)
    forest = is_forest(factors)
    if forest and (plan := plan_exact(network, max_memory)).is_complete:
        return by_elimination(plan)
    messages = Messages(
        np.zeros(len(factors.question_start) - 1),
        np.zeros(num_factors),
        np.zeros(network.num_atoms),
        np.full(num_factors, np.inf),
    )
    widest = int(np.diff(factors.factor_start).max(initial=1))
    damping = 0.0 if forest else DAMPING
    passes, residual = pass_messages(
        factors, messages, damping, TOLERANCE, max_passes, np.zeros((3, widest))
    )
    log_odds, truth = np.zeros(network.num_atoms), np.zeros(num_factors)
    read_beliefs(factors, messages, log_odds, truth)
    log_odds = log_odds[: network.num_base_atoms]
    soft = factors.weight_id >= 0
    expected = np.bincount(
        factors.weight_id[soft],
        weights=(truth * factors.coefficient)[soft],
        minlength=len(network.weights),
    )
    constant = network.constant_count + decided
    converged = bool(residual <= TOLERANCE)
    heard = np.concatenate((messages.question, messages.own))
    cut_off = bool((np.abs(heard) >= factors.limit).any())
    return BeliefPropagation(
        np.exp(-np.logaddexp(0.0, -log_odds)),
        log_odds,
        constant + expected,
        float(network.weights @ constant + bethe_log_partition(factors, messages)),
        forest and converged and not cut_off,
        converged,
        int(passes),
        float(residual),
    )


def by_elimination(plan: ExactPlan) -> BeliefPropagation:
    found = plan.solve(log_odds=True)
    assert found.log_odds is not None
    beliefs = found.marginal, found.log_odds, found.expected_count, found.log_partition
    return BeliefPropagation(*beliefs, exact=True, converged=True, num_passes=2, residual=0.0)


class DisjunctionRows(NamedTuple):
    """Clauses, then definitions, as disjunctions."""

    start: np.ndarray  # int64[num_rows + 1]
    literal: np.ndarray  # int32[...]
    weight: np.ndarray  # float64[num_rows]
    own: np.ndarray  # int64[num_rows], the auxiliary atom a definition is of, or −1
    weight_id: np.ndarray  # int32[num_rows]
    coefficient: np.ndarray  # float64[num_rows]


class MessageVariables(NamedTuple):
    of_atom: np.ndarray  # int32[num_atoms]
    start: np.ndarray  # int64[num_variables + 1]
    atom: np.ndarray  # int32[num_atoms]
    is_block: np.ndarray  # bool[num_variables]
    may_be_empty: np.ndarray  # bool[num_variables]


def build_factors(network: Network) -> tuple[MessageFactors, np.ndarray]:
    """The factor graph, and float64[num_weights] counts of the clauses that blocks make true."""
    rows, variables = disjunction_rows(network), list_variables(network)
    asked = group_literals(rows, variables)
    decided = asked.always_true & (rows.weight_id >= 0)
    count = np.bincount(
        rows.weight_id[decided],
        weights=rows.coefficient[decided],
        minlength=len(network.weights),
    )
    if asked.always_true.any():
        rows = drop_true_rows(rows, asked.always_true)
        asked = group_literals(rows, variables)
    variable, factor = list_edges(asked, rows.own, variables.of_atom)
    near = np.argsort(variable, kind="stable")
    near_start = np.searchsorted(variable[near], np.arange(len(variables.start)))
    factors = MessageFactors(
        asked.factor_start, asked.question_start, asked.question_literal, rows.weight, rows.own,
        rows.weight_id, rows.coefficient, variables.start, variables.atom, variables.of_atom,
        variables.is_block, variables.may_be_empty, near_start.astype(np.int64),
        factor[near].astype(np.int32), message_limit(rows, variable, factor),
    )  # fmt: skip
    return factors, count


def message_limit(rows: DisjunctionRows, variable: np.ndarray, factor: np.ndarray) -> float:
    """A log message that outweighs all that soft clauses can say of a variable, by e^50."""
    loudness = np.where(np.isinf(rows.weight), 0.0, np.abs(rows.weight))[factor]
    return 50.0 + float(np.bincount(variable, weights=loudness).max(initial=0.0))


def disjunction_rows(network: Network) -> DisjunctionRows:
    graph = build_graph(network)
    num_auxiliary = len(network.definition_start) - 1
    first = network.num_base_atoms
    return DisjunctionRows(
        np.concatenate((graph.clause_start, network.definition_start[1:] + graph.clause_start[-1])),
        np.concatenate((graph.literal, network.definition_literal)),
        np.concatenate((graph.weight, np.zeros(num_auxiliary))),
        np.concatenate((np.full(len(graph.weight), -1), np.arange(first, first + num_auxiliary))),
        np.concatenate((graph.weight_id, np.full(num_auxiliary, -1, np.int32))),
        np.concatenate((graph.coefficient, np.zeros(num_auxiliary))),
    )


def drop_true_rows(rows: DisjunctionRows, always_true: np.ndarray) -> DisjunctionRows:
    """Drop clauses that are always true; an atom defined by one becomes a hard fact."""
    fact = always_true & (rows.own >= 0)
    length = np.where(fact, 1, np.where(always_true, 0, np.diff(rows.start)))
    # A fact's only literal stands where its definition began.
    literal = rows.literal.copy()
    literal[rows.start[:-1][fact]] = rows.own[fact] + 1
    at = np.repeat(rows.start[:-1] - np.cumsum(length) + length, length) + np.arange(length.sum())
    kept = ~always_true | fact
    return DisjunctionRows(
        row_starts(length[kept]),
        literal[at],
        np.where(fact, np.inf, rows.weight)[kept],
        np.where(fact, -1, rows.own)[kept],
        rows.weight_id[kept],
        rows.coefficient[kept],
    )


def list_variables(network: Network) -> MessageVariables:
    of_atom, start, atom = group_blocks(network, network.num_atoms)
    is_block, may_be_empty = np.zeros(len(start) - 1, bool), np.zeros(len(start) - 1, bool)
    first = network.block_atom[network.block_start[:-1]]
    is_block[of_atom[first]] = True
    may_be_empty[of_atom[first[~network.block_exact]]] = True
    return MessageVariables(of_atom, start, atom, is_block, may_be_empty)


class LiteralGroups(NamedTuple):
    factor_start: np.ndarray  # int64[num_rows + 1]
    question_start: np.ndarray  # int64[num_questions + 1]
    question_literal: np.ndarray  # int32[...]
    always_true: np.ndarray  # bool[num_rows]


def group_literals(rows: DisjunctionRows, variables: MessageVariables) -> LiteralGroups:
    num_rows, num_literals = len(rows.weight), len(rows.literal)
    factor_start = np.zeros(num_rows + 1, np.int64)
    question_start = np.zeros(num_literals + 1, np.int64)
    question_literal = np.zeros(num_literals, np.int32)
    always_true = np.zeros(num_rows, bool)
    questions, literals = fill_groups(
        rows.start, rows.literal, variables.of_atom, variables.start, variables.is_block,
        variables.is_block & ~variables.may_be_empty, np.full(len(variables.start), -1, np.int64),
        factor_start, question_start, question_literal, always_true,
    )  # fmt: skip
    start = question_start[: questions + 1].copy()
    return LiteralGroups(factor_start, start, question_literal[:literals].copy(), always_true)


def list_edges(
    asked: LiteralGroups, own: np.ndarray, variable_of_atom: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(variable, factor) of every question, and of every definition and its atom."""
    first = np.abs(asked.question_literal[asked.question_start[:-1]]) - 1
    factor = np.repeat(np.arange(len(own)), np.diff(asked.factor_start))
    definitions = np.flatnonzero(own >= 0)
    return (
        np.concatenate((variable_of_atom[first], variable_of_atom[own[definitions]])),
        np.concatenate((factor, definitions)),
    )


def is_forest(factors: MessageFactors) -> bool:
    """No cycle among variables and factors: as many edges as nodes less trees."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    num_variables, num_factors = len(factors.is_block), len(factors.weight)
    variable = np.repeat(np.arange(num_variables), np.diff(factors.near_start))
    nodes = num_variables + num_factors
    graph = coo_array(
        (np.ones(len(variable), np.int8), (variable, num_variables + factors.near)), (nodes, nodes)
    )
    trees = connected_components(graph, directed=False, return_labels=False)
    return bool(len(variable) == nodes - trees)

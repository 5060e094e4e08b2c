"""Loopy belief propagation: a cheap estimate, exact if the factor graph is a forest.

Sum–product (Pearl 1988; Bethe free energy: Yedidia, Freeman and Weiss 2005) on clauses. A clause
depends on a variable only through whether the variable's state makes the clause true. Let p_j be
the probability of that under the message of variable j, and q = Π (1 − p_j) over the other
variables. The message back is one number,

    λ = log f(makes it true) − log f(does not) = −log(1 − q + q exp(−w)),

so a clause of k literals costs O(k), not 2^k, for any weight, +∞ (hard) included. A block is one
variable with a state for each atom; its literals in a clause form one group. An auxiliary atom
a ⇔ l₁ ∨ … ∨ l_k is one factor. To its members it is a clause whose weight is the log-odds of a from
the other factors. Its defining clauses would add loops and are left out.

On a forest two passes suffice, which is elimination: `by_components` does it in logarithms and
finds contradictions. Only forests whose tables are too large (blocks of thousands of atoms) are
propagated here; they are exact if no message reached the limit that stands for certainty.

Schedule: each factor sums the changes of its neighbours since its last update, and a pass updates
the factors with at least a tenth of the largest sum (residual scheduling; Elidan, McGraw and Koller
2006). There is no priority queue: scanning the factors of sparse networks is cheaper than a heap.
Messages are damped in log space.
"""

from __future__ import annotations

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
from lapis.inference.exact.by_components import DEFAULT_MEMORY, plan_exact
from lapis.inference.marginals import InferenceOptions, Marginals
from lapis.inference.sampling.clause_graph import build_graph
from lapis.inference.sampling.gibbs_units import group_blocks
from lapis.network.csr import row_starts
from lapis.network.network import Network

DAMPING = 0.2  # share of the old message in the new one; 0 on forests
TOLERANCE = 1e-10  # the largest change of a log message at the end


def infer_by_belief_propagation(network: Network, options: InferenceOptions) -> Marginals:
    """Answer by the method `bp`: no standard errors; exact only if the factor graph is a forest."""
    return propagate_beliefs(network, max_memory=options.max_memory or DEFAULT_MEMORY)


def propagate_beliefs(
    network: Network, *, max_passes: int = 2_000, max_memory: int = DEFAULT_MEMORY
) -> Marginals:
    """Estimate marginals, expected counts and log Z by loopy belief propagation.

    Raise LapisError "unsatisfiable" if the hard formulas of a forest allow no world. `max_memory`
    limits the tables of a forest.
    """
    factors, decided = build_factors(network)
    num_factors = len(factors.weight)
    forest = is_forest(factors)
    if forest and (plan := plan_exact(network, max_memory)).is_complete:
        found = plan.solve(log_odds=True)
        assert found.log_odds is not None
        beliefs = found.marginal, found.log_odds, found.expected_count, found.log_partition
        return describe_beliefs(*beliefs, exact=True, converged=True, num_passes=2, residual=0.0)
    messages = Messages(
        np.zeros(len(factors.group_start) - 1),
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
    values = np.concatenate((messages.group, messages.own))
    cut_off = bool((np.abs(values) >= factors.limit).any())
    return describe_beliefs(
        np.exp(-np.logaddexp(0.0, -log_odds)),
        log_odds,
        constant + expected,
        float(network.weights @ constant + bethe_log_partition(factors, messages)),
        exact=forest and converged and not cut_off,
        converged=converged,
        num_passes=int(passes),
        residual=float(residual),
    )


def describe_beliefs(
    marginal: np.ndarray,
    log_odds: np.ndarray,
    expected_count: np.ndarray,
    log_partition: float,
    *,
    exact: bool,
    converged: bool,
    num_passes: int,
    residual: float,
) -> Marginals:
    """Return beliefs as an answer; `residual` is the largest pending change."""
    return Marginals.by(
        "bp",
        exact=exact,
        log_partition=log_partition if exact else None,
        marginal=marginal,
        log_odds=log_odds,
        expected_count=expected_count,
        diagnostics={
            "converged": converged,
            "passes": num_passes,
            "residual": residual,
            "bethe_log_partition": log_partition,
        },
    )


class DisjunctionRows(NamedTuple):
    """Clauses, then definitions of auxiliary atoms, as disjunctions."""

    start: np.ndarray  # int64[num_rows + 1]
    literal: np.ndarray  # int32[...]
    weight: np.ndarray  # float64[num_rows]
    own: np.ndarray  # int64[num_rows], the auxiliary atom that is defined, or −1
    weight_id: np.ndarray  # int32[num_rows]
    coefficient: np.ndarray  # float64[num_rows]


class MessageVariables(NamedTuple):
    """The variables of a network: blocks, and atoms outside blocks."""

    of_atom: np.ndarray  # int32[num_atoms]
    start: np.ndarray  # int64[num_variables + 1]
    atom: np.ndarray  # int32[num_atoms]
    is_block: np.ndarray  # bool[num_variables]
    may_be_empty: np.ndarray  # bool[num_variables]


def build_factors(network: Network) -> tuple[MessageFactors, np.ndarray]:
    """Return the factor graph and float64[num_weights], counts of clauses that blocks decide."""
    rows, variables = disjunction_rows(network), list_variables(network)
    grouped = group_literals(rows, variables)
    decided = grouped.always_true & (rows.weight_id >= 0)
    count = np.bincount(
        rows.weight_id[decided],
        weights=rows.coefficient[decided],
        minlength=len(network.weights),
    )
    if grouped.always_true.any():
        rows = drop_true_rows(rows, grouped.always_true)
        grouped = group_literals(rows, variables)
    variable, factor = list_edges(grouped, rows.own, variables.of_atom)
    near = np.argsort(variable, kind="stable")
    near_start = np.searchsorted(variable[near], np.arange(len(variables.start)))
    factors = MessageFactors(
        grouped.factor_start, grouped.group_start, grouped.group_literal, rows.weight, rows.own,
        rows.weight_id, rows.coefficient, variables.start, variables.atom, variables.of_atom,
        variables.is_block, variables.may_be_empty, near_start.astype(np.int64),
        factor[near].astype(np.int32), message_limit(rows, variable, factor),
    )  # fmt: skip
    return factors, count


def message_limit(rows: DisjunctionRows, variable: np.ndarray, factor: np.ndarray) -> float:
    """Return a log message that exceeds all soft clauses of any variable together by 50."""
    size = np.where(np.isinf(rows.weight), 0.0, np.abs(rows.weight))[factor]
    return 50.0 + float(np.bincount(variable, weights=size).max(initial=0.0))


def disjunction_rows(network: Network) -> DisjunctionRows:
    """List the clauses and definitions of a network."""
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
    # A fact's only literal replaces the first literal of its definition.
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
    """List the blocks, and the atoms outside blocks."""
    of_atom, start, atom = group_blocks(network, network.num_atoms)
    is_block, may_be_empty = np.zeros(len(start) - 1, bool), np.zeros(len(start) - 1, bool)
    first = network.block_atom[network.block_start[:-1]]
    is_block[of_atom[first]] = True
    may_be_empty[of_atom[first[~network.block_exact]]] = True
    return MessageVariables(of_atom, start, atom, is_block, may_be_empty)


class LiteralGroups(NamedTuple):
    """The literals of each row, grouped by variable."""

    factor_start: np.ndarray  # int64[num_rows + 1]
    group_start: np.ndarray  # int64[num_groups + 1]
    group_literal: np.ndarray  # int32[...]
    always_true: np.ndarray  # bool[num_rows]


def group_literals(rows: DisjunctionRows, variables: MessageVariables) -> LiteralGroups:
    """Group the literals of each row by variable."""
    num_rows, num_literals = len(rows.weight), len(rows.literal)
    factor_start = np.zeros(num_rows + 1, np.int64)
    group_start = np.zeros(num_literals + 1, np.int64)
    group_literal = np.zeros(num_literals, np.int32)
    always_true = np.zeros(num_rows, bool)
    groups, literals = fill_groups(
        rows.start, rows.literal, variables.of_atom, variables.start, variables.is_block,
        variables.is_block & ~variables.may_be_empty, np.full(len(variables.start), -1, np.int64),
        factor_start, group_start, group_literal, always_true,
    )  # fmt: skip
    start = group_start[: groups + 1].copy()
    return LiteralGroups(factor_start, start, group_literal[:literals].copy(), always_true)


def list_edges(
    grouped: LiteralGroups, own: np.ndarray, variable_of_atom: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (variable, factor) of every group, and of every definition and its atom."""
    first = np.abs(grouped.group_literal[grouped.group_start[:-1]]) - 1
    factor = np.repeat(np.arange(len(own)), np.diff(grouped.factor_start))
    definitions = np.flatnonzero(own >= 0)
    return (
        np.concatenate((variable_of_atom[first], variable_of_atom[own[definitions]])),
        np.concatenate((factor, definitions)),
    )


def is_forest(factors: MessageFactors) -> bool:
    """Return whether variables and factors form no cycle: edges = nodes − trees."""
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

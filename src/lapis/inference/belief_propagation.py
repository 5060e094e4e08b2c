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

Schedule: a factor waits with the change its neighbours have made since it was last looked at,
and a pass updates those that wait with at least a tenth of the largest (residual scheduling, Elidan,
McGraw and Koller 2006, without the priority queue: scanning the factors is cheaper than a heap
on networks this sparse). Messages are damped in log space.

What did not work: no damping on networks with strong attractive loops (messages alternate);
messages as probabilities (with weights of ±20 the digits are gone).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lapis.grounding.network import Network
from lapis.grounding.incidence import index_atoms
from lapis.inference.gibbs_units import group_blocks
from lapis.inference.kernels_belief_propagation import (
    Factors,
    Messages,
    bethe_log_partition,
    pass_messages,
    read_beliefs,
)
from lapis.inference.kernels_compile import entry
from lapis.inference.kernels_graph import build_graph
from lapis.inference.kernels_questions import ask_questions


@dataclass(frozen=True)
class BeliefPropagation:
    """What the messages say when they stop."""

    marginal: np.ndarray  # float64[num_base_atoms]
    expected_count: np.ndarray  # float64[num_weights]
    log_partition: float  # Bethe approximation
    exact: bool  # the factor graph is a forest, and the messages have converged
    converged: bool
    num_passes: int
    residual: float  # the largest change still waiting


def propagate_beliefs(
    network: Network,
    *,
    damping: float = 0.2,
    tolerance: float = 1e-10,
    max_passes: int = 2_000,
) -> BeliefPropagation:
    """Marginals, expected counts and log Z by loopy belief propagation.

    `tolerance` bounds the change of any log message at the end. Damping 0 ≤ d < 1 mixes d of the
    old message into the new; a forest is solved without.
    """
    factors, decided = build_factors(network)
    num_factors = len(factors.weight)
    is_forest = bool(_is_forest(factors))
    messages = Messages(
        np.zeros(len(factors.question_start) - 1),
        np.zeros(num_factors),
        np.zeros(network.num_atoms),
        np.full(num_factors, np.inf),
    )
    widest = int(np.diff(factors.factor_start).max(initial=1))
    passes, residual = pass_messages(
        factors, messages, 0.0 if is_forest else damping, tolerance, max_passes, np.zeros(widest)
    )
    marginal, truth = np.zeros(network.num_atoms), np.zeros(num_factors)
    read_beliefs(factors, messages, marginal, truth)
    soft = factors.weight_id >= 0
    expected = np.bincount(
        factors.weight_id[soft],
        weights=(truth * factors.coefficient)[soft],
        minlength=len(network.weights),
    )
    constant = network.constant_count + decided
    converged = bool(residual <= tolerance)
    return BeliefPropagation(
        marginal[: network.num_base_atoms],
        constant + expected,
        float(network.weights @ constant + bethe_log_partition(factors, messages)),
        is_forest and converged,
        converged,
        int(passes),
        float(residual),
    )


def build_factors(network: Network) -> tuple[Factors, np.ndarray]:
    """The factor graph, and float64[num_weights] counts of the clauses that blocks make true."""
    graph = build_graph(network)
    variable_of_atom, variable_start, variable_atom = group_blocks(network, network.num_atoms)
    num_variables = len(variable_start) - 1
    is_block, may_be_empty = np.zeros(num_variables, bool), np.zeros(num_variables, bool)
    first_atom = network.block_atom[network.block_start[:-1]]
    is_block[variable_of_atom[first_atom]] = True
    may_be_empty[variable_of_atom[first_atom[~network.block_exact]]] = True

    num_clauses, num_auxiliary = len(graph.weight), len(network.definition_start) - 1
    row_start = np.concatenate(
        (graph.clause_start, network.definition_start[1:] + graph.clause_start[-1])
    )
    literal = np.concatenate((graph.literal, network.definition_literal))
    num_rows = num_clauses + num_auxiliary
    factor_start = np.zeros(num_rows + 1, np.int64)
    question_start = np.zeros(len(literal) + 1, np.int64)
    question_literal = np.zeros(len(literal), np.int32)
    always_true = np.zeros(num_rows, bool)
    questions, literals = ask_questions(
        row_start, literal, variable_of_atom, variable_start, is_block, is_block & ~may_be_empty,
        np.full(num_variables, -1, np.int64), factor_start, question_start, question_literal,
        always_true,
    )  # fmt: skip
    nothing = np.full(num_auxiliary, -1, np.int32)
    weight_id = np.concatenate((graph.weight_id, nothing))
    coefficient = np.concatenate((graph.coefficient, np.zeros(num_auxiliary)))
    auxiliary = network.num_base_atoms + np.arange(num_auxiliary)
    own = np.concatenate((np.full(num_clauses, -1, np.int64), auxiliary))
    decided = np.bincount(
        weight_id[always_true & (weight_id >= 0)],
        weights=coefficient[always_true & (weight_id >= 0)],
        minlength=len(network.weights),
    )
    near_start, near = _near(factor_start, question_start, question_literal, own, variable_of_atom)
    factors = Factors(
        factor_start, question_start[: questions + 1].copy(), question_literal[:literals].copy(),
        np.concatenate((graph.weight, np.zeros(num_auxiliary))), own, weight_id, coefficient,
        variable_start, variable_atom, variable_of_atom, is_block, may_be_empty, near_start, near,
    )  # fmt: skip
    return factors, decided

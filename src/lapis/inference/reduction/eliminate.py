"""Sum out first: exact elimination of easy atoms before any other method.

An atom or block with at most `max_scope` neighbours, of at most `max_table` joint states, is summed
out (or maximised over) and leaves a table over its neighbours. The rest is the *core*. Tables
become clauses again (`message_clauses`), so the core is a `Network` with

    log Z(core) = log Z(network)         (the best score instead of log Z by maximum)

and samplers and optimisers run on it unchanged. The eliminated atoms are recovered in closed form:
E[1[a]] = E[P(a | scope)], with less variance than if they had been sampled (Rao–Blackwell).

With at most three neighbours, an elimination in a network of pairs removes three clauses and adds
at most four; from four neighbours on it adds more than it removes. A million open `Friends(x, y)`,
each in one clause with `Smokes(x)` and `Smokes(y)`, leave the thousand `Smokes` atoms.

The core's weights are the network's and one more of value 1, whose clauses have their strength as
coefficient. So untouched clauses keep their tied weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from lapis.inference.exact.elimination_order import low_degree_order
from lapis.inference.exact.junction_tree import (
    CORE,
    ROOT,
    JunctionTree,
    Potentials,
    build_tree,
    collect_messages,
    distribute_beliefs,
    maximise_states,
    work_space,
)
from lapis.inference.reduction.message_clauses import expand_messages, product_clauses
from lapis.inference.reduction.tree_answers import (
    CliqueFactors,
    allocate_work,
    answer_clauses,
    answer_trees,
    clause_runs,
    cut_tree,
    pack_samples,
    share_true,
    tree_runs,
)
from lapis.network.components import ComponentClauses, build_part, clause_rows
from lapis.network.csr import row_chunks, row_starts
from lapis.network.cubes import (
    Cubes,
    Variables,
    cube_penalties,
    falsifying_cubes,
    find_variables,
    has_plain_clauses,
    sum_by_weight,
)
from lapis.network.network import Network
from lapis.network.satisfiability import contradiction_error
from lapis.runtime.processes import trim_heap

Semiring = Literal["sum", "max"]
MAX_SCOPE = 3
MAX_TABLE = 64
RUN_CLIQUES = 1 << 18  # whose tables are made together


class Recovered(NamedTuple):
    """Answers about the whole network, from the core."""

    marginal: np.ndarray  # float64[num_atoms], auxiliary atoms too
    expected_count: np.ndarray  # float64[num_weights]


@dataclass(frozen=True)
class Reduction:
    """A network, its core, and the tables of the eliminated variables."""

    network: Network
    core: Network
    core_atom: np.ndarray  # int64[core.num_atoms], the network's atom of each atom of the core
    semiring: Semiring
    kept_clause: np.ndarray  # int32[...], the clauses that are clauses of the core too
    factors: CliqueFactors
    tree: JunctionTree

    @property
    def variables(self) -> Variables:
        return self.factors.variables

    @property
    def cubes(self) -> Cubes:
        return self.all_factors[0]

    @cached_property
    def all_factors(self) -> tuple[Cubes, np.ndarray]:
        """All cubes and their scores."""
        return self.factors.of_all()

    @cached_property
    def potentials(self) -> Potentials:
        """The tables of all eliminated variables, computed on first use for their memory."""
        return collect_messages(self.tree, *self.all_factors, maximise=self.semiring == "max")

    @property
    def is_eliminated(self) -> np.ndarray:
        """bool[num_atoms], the eliminated atoms."""
        gone = np.ones(self.network.num_atoms, bool)
        gone[self.core_atom] = False
        return gone

    def recover(self, samples: np.ndarray) -> Recovered:
        """Return marginals and expected counts from samples of the core.

        `samples` is bool[num_samples, core.num_atoms], or core.num_base_atoms wide if the core has
        no auxiliary atoms. For standard errors, call it for each chain separately. Without core
        atoms the result is exact, whatever the number of samples.
        """
        if self.semiring != "sum":
            raise ValueError("marginals need a reduction by sums")
        pieces = pack_samples(samples)
        work = allocate_work(self, pieces)
        marginal = np.empty(self.network.num_atoms)
        false = np.zeros(len(self.network.weights))
        for first, last in tree_runs(self.tree):
            found = answer_trees(self, pieces, first, last, work)
            marginal[found.atoms] = found.probability[:, 0]
            false[found.weights] += found.false[:, 0]
        for clauses in clause_runs(self.kept_clause):
            found = answer_clauses(self, pieces, clauses)
            false[found.weights] += found.false[:, 0]
        marginal[self.core_atom] = share_true(pieces)[0]
        return Recovered(np.clip(marginal, 0.0, 1.0), self.all_true - false)

    @cached_property
    def core_row(self) -> np.ndarray:
        """int32[num_atoms], the atom of the core for each atom; −1 if eliminated."""
        row = np.full(self.network.num_atoms, -1, np.int32)
        row[self.core_atom] = np.arange(len(self.core_atom))
        return row

    def recover_joint(
        self,
        joint: np.ndarray,
        core_marginal: np.ndarray,
        core_false: np.ndarray,
        potentials: Potentials | None = None,
    ) -> Recovered:
        """Return marginals and expected counts from probabilities in the core.

        `joint`, float64[tree.message_start[-1]], holds the joint distribution over the scope of
        each clique whose parent is CORE, at the place of its message; `core_marginal` the
        probability of each core atom; `core_false` the probability that each kept clause is false;
        `potentials` the tables at other weights than those of the network.
        """
        if self.semiring != "sum":
            raise ValueError("marginals need a reduction by sums")
        network = self.network
        beliefs = distribute_beliefs(self.tree, self.cubes, potentials or self.potentials, joint)
        marginal = np.empty(network.num_atoms)
        atoms, place = self.variables.place_of_atoms()
        marginal[atoms] = beliefs.state[place]
        marginal[self.core_atom] = core_marginal
        entered = self.tree.cube
        clause = np.concatenate((self.kept_clause, self.cubes.clause[entered]))
        false = np.concatenate((core_false, beliefs.cube[entered]))
        expected = self.all_true - sum_by_weight(network, clause, false)
        return Recovered(np.clip(marginal, 0.0, 1.0), expected)

    def complete_map(self, core_world: np.ndarray) -> np.ndarray:
        """Return the best eliminated atoms given a world of the core, bool[num_atoms]."""
        if self.semiring != "max":
            raise ValueError("the best completion needs a reduction by maximum")
        state = self._core_states(core_world)
        maximise_states(self.tree, self.variables.size, self.potentials, state)
        return self._world(state)

    @cached_property
    def all_true(self) -> np.ndarray:
        """float64[num_weights], the counts if every clause were true."""
        network, total = self.network, self.network.constant_count.astype(np.float64)
        for rows in row_chunks(network.num_clauses):
            clauses = np.arange(rows.start, rows.stop)
            total += sum_by_weight(network, clauses, np.ones(len(clauses)))
        return total

    def _core_states(self, core_world: np.ndarray) -> np.ndarray:
        """Return the states of core variables, int32[num_variables]; 0 elsewhere."""
        if len(core_world) < self.core.num_atoms:
            core_world = self.core.complete(core_world)
        variables = self.variables
        # A variable without a true atom is in its state without an atom: false, or none.
        silent = variables.state_atom < 0
        state = np.zeros(len(variables.size), np.int32)
        owner = np.repeat(np.arange(len(variables.size)), variables.size)[silent]
        state[owner] = (np.flatnonzero(silent) - variables.state_start[owner]).astype(np.int32)
        true = self.core_atom[core_world]
        state[variables.atom_variable[true]] = variables.atom_state[true]
        return state

    def _world(self, state: np.ndarray) -> np.ndarray:
        world = np.zeros(self.network.num_atoms, bool)
        true = self.variables.state_atom[self.variables.state_start[:-1] + state]
        world[true[true >= 0]] = True
        return world


def reduce(
    network: Network,
    max_scope: int = MAX_SCOPE,
    max_table: int = MAX_TABLE,
    semiring: Semiring = "sum",
    keep: np.ndarray | None = None,
) -> Reduction:
    """Eliminate variables with at most `max_scope` neighbours of at most `max_table` joint states.

    `keep`, bool[num_atoms], marks atoms that stay in the core. Raise LapisError "unsatisfiable" if
    the eliminated part allows no world.
    """
    trim_heap(network.literal.nbytes)
    variables = find_variables(network, np.ones(network.num_atoms, bool))
    factors, cubes = list_factors(network, variables)
    eligible = np.ones(len(cubes.size), bool)
    if keep is not None:
        eligible[variables.atom_variable[keep]] = False
    tree = gather_trees(
        cubes, build_tree(cubes, low_degree_order(cubes, eligible, max_scope, max_table))
    )
    entered = np.zeros(len(cubes.clause), bool)
    entered[tree.cube] = True
    kept_clause = cubes.clause[~entered]
    del cubes
    fresh, constant = leaving_clauses(factors, tree, semiring)
    counted = network.weight_id >= 0
    counted[kept_clause] = False
    constant += float(network.weights[network.weight_id[counted]] @ network.coefficient[counted])
    in_core = np.ones(len(variables.size), bool)
    in_core[tree.order] = False
    rows = join_clauses(clause_rows(network, kept_clause), fresh)
    core, core_atom = build_part(network, in_core[variables.atom_variable], rows)
    core = replace(
        core,
        weights=np.append(network.weights, 1.0),
        constant_count=np.append(network.constant_count, constant),
    )
    trim_heap(network.literal.nbytes)
    return Reduction(network, core, core_atom, semiring, kept_clause, factors, tree)


def list_factors(network: Network, variables: Variables) -> tuple[CliqueFactors, Cubes]:
    """Return the factors of a network, and their cubes (without states if plain)."""
    clause = np.arange(network.num_clauses, dtype=np.int32)
    if has_plain_clauses(network):
        member = variables.atom_variable[np.abs(network.literal) - 1]
        nothing = np.empty(0, np.int64), np.empty(0, np.int32)
        cubes = Cubes(variables.size, network.clause_start, member, *nothing, clause)
        return CliqueFactors(network, variables, None), cubes
    cubes = falsifying_cubes(network, variables, clause)
    whole = cubes, cube_penalties(network, cubes, network.weights)
    return CliqueFactors(network, variables, whole), cubes


def leaving_clauses(
    factors: CliqueFactors, tree: JunctionTree, semiring: Semiring
) -> tuple[ComponentClauses, float]:
    """Return clauses and a constant equivalent to all messages into the core.

    Tables are made for a run of trees at a time: all of them would take most of the memory.
    """
    network, variables = factors.network, factors.variables
    unit, work = np.zeros(network.num_atoms), work_space(tree, variables.size)
    parts = []
    for first, last in tree_runs(tree, RUN_CLIQUES):
        run, cubes, penalty = factors.of_run(cut_tree(tree, first, last))
        potentials = collect_messages(run, cubes, penalty, semiring == "max", work=work)
        message = potentials.message
        roots, values = potentials.root_values(run)
        message[run.message_start[roots]] = values
        require_feasible(network, variables, run, message)
        parts.append(expand_messages(run, message, variables, unit))
    return product_clauses(parts, unit, len(network.weights))


def gather_trees(cubes: Cubes, tree: JunctionTree) -> JunctionTree:
    """Order the cliques so that each tree is contiguous, its top last; trees in order of tops."""
    top = np.where(tree.parent >= 0, tree.parent, np.arange(len(tree.parent), dtype=np.int32))
    while not np.array_equal(above := top[top], top):
        top = above
    if (top[1:] >= top[:-1]).all():
        return tree
    return build_tree(cubes, tree.order[np.argsort(top, kind="stable")])


def join_clauses(one: ComponentClauses, other: ComponentClauses) -> ComponentClauses:
    """Join two lists of clauses."""
    return ComponentClauses(
        row_starts(np.concatenate((np.diff(one.start), np.diff(other.start)))),
        np.concatenate((one.literal, other.literal)),
        np.concatenate((one.weight_id, other.weight_id)),
        np.concatenate((one.coefficient, other.coefficient)),
    )


def require_feasible(
    network: Network, variables: Variables, tree: JunctionTree, message: np.ndarray
) -> None:
    """Raise LapisError if a message that leaves the tables forbids every state."""
    leaving = np.flatnonzero((tree.parent == ROOT) | (tree.parent == CORE))
    if len(leaving) == 0:
        return
    possible = row_starts(message > -np.inf)
    ends = tree.message_start[leaving + 1], tree.message_start[leaving]
    for clique in leaving[possible[ends[0]] == possible[ends[1]]][:1]:
        raise contradiction_error(network, int(variables.component[tree.order[clique]]))

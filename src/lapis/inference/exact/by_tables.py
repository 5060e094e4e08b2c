"""Exact inference on the tables of a network, without grounding it.

A network that is given by tables alone, such as a Bayesian network, is summed by a junction tree
over its variables (`table_tree`). Evidence is cut out of the tables, and variables that cannot
matter are left out:

- A variable with one possible state is fixed.
- A barren variable is in one table alone, whose sum over it is a constant: a leaf of a Bayesian
  network that is neither observed nor asked (Shachter, Evaluating influence diagrams, 1986). It is
  summed out, which may make its parents barren.

Rules, soft evidence and formulas as queries are ground instead, and so are networks whose tree is
too large: impossible entries of tables may leave the clauses a smaller one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lapis.inference.exact.table_tree import (
    Table,
    TableTree,
    Underflow,
    find_tree,
    reduce_to_rows,
    solve_tree,
)
from lapis.inference.marginals import EXACT, InferenceOptions, Marginals, state_log_odds
from lapis.network.csr import row_starts
from lapis.network.network import AtomTable, Network, network_of_atoms
from lapis.problem.problem import Problem
from lapis.results.plan_report import PlanRow

SAME = 1e-12  # relative difference of sums that are taken as equal
BYTES = 3 * 8  # of an entry: its clique, its part of messages, and products on the way


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The tree of a network without what cannot matter."""

    problem: Problem
    asked: tuple[int, ...]  # variables whose states are answered, ascending
    possible: tuple[np.ndarray, ...]  # for each variable int64[...], the states left by evidence
    tables: tuple[Table, ...]  # over the possible states of variables with several
    tree: TableTree
    log_scale: float  # of all entries

    @property
    def num_bytes(self) -> float:
        return BYTES * self.tree.num_entries

    def row(self, seconds_per_entry: float) -> PlanRow:
        """Return the row of the plan."""
        return PlanRow(
            solvers=(EXACT,),
            reason="a junction tree of the tables fits the memory",
            num_atoms=sum(len(self.possible[v]) for v in self.asked if len(self.possible[v]) > 1),
            num_components=sum(clique.parent < 0 for clique in self.tree.cliques),
            width=self.tree.width,
            num_bytes=self.num_bytes,
            seconds=seconds_per_entry * self.tree.num_entries,
        )

    def solve(self, options: InferenceOptions) -> tuple[Network, Marginals] | None:
        """Return the marginals of the asked variables; None if the network must be ground."""
        open_variables = [v for v in self.asked if len(self.possible[v]) > 1]
        inside = [v for v in open_variables if self.tree.place[v] >= 0]
        try:
            found = solve_tree(self.tree, self.tables, inside, options.exact_stop)
        except Underflow:
            return None
        even = {v: np.full((1, n), 1 / n) for v in open_variables if (n := len(self.possible[v]))}
        values = [(even | dict(found.marginal))[v][0] for v in open_variables]
        marginal = np.concatenate([*values, np.empty(0)])
        with np.errstate(divide="ignore"):
            odds = state_log_odds(np.log(marginal), row_starts([len(each) for each in values]))
        network = self.atoms_of(open_variables)
        answer = Marginals.by(
            EXACT,
            exact=True,
            log_partition=float(found.log_partition[0]) + self.log_scale,
            marginal=marginal,
            log_odds=odds,
            expected_count=np.full(len(network.weights), np.nan),  # of tables, which no result has
            diagnostics={"width": self.tree.width},
        )
        return network, answer

    def atoms_of(self, variables: Sequence[int]) -> Network:
        """Return the possible states of variables as a network without clauses."""
        names = list(self.problem.model.predicates)
        states = [self.possible[v].astype(np.int32).reshape(-1, 1) for v in variables]
        atoms = AtomTable(
            tuple(names[v] for v in variables),
            row_starts([len(each) for each in states]),
            tuple(states),
        )
        weights = self.problem.weight_table.value
        return network_of_atoms(
            atoms, weights, np.zeros(len(weights)), self.problem.domains,
            self.problem.model.predicates,
        )  # fmt: skip


def plan_tables(problem: Problem, max_bytes: float) -> TablePlan | None:
    """Plan the sums of a problem that is given by tables alone; None if it must be ground."""
    model = problem.model
    if not model.tables or problem.normal_form.features or model.constraints:
        return None
    names = list(model.predicates)
    if not all(predicate.variable for predicate in model.predicates.values()):
        return None
    possible = possible_states(problem)
    if possible is None:
        return None
    number = {name: v for v, name in enumerate(names)}
    asked = tuple(sorted({number[name] for name in problem.query}) or range(len(names)))
    cut = [
        cut_table([number[name] for name in each.variables], each.log_value, possible)
        for each in model.tables
    ]
    decided = [float(table.value.item()) for table in cut if not table.scope]
    if not all(value > 0.0 for value in decided):
        return None
    tables, summed, factors = drop_barren(cut, set(asked))
    sizes = [len(states) for states in possible]
    tree = find_tree(sizes, [table.scope for table in tables], max_bytes / BYTES)
    if tree is None:
        return None
    free = [v for v in np.flatnonzero(tree.place < 0).tolist() if v not in summed]
    parts = [*decided, *(sizes[v] for v in free)]
    log_scale = float(factors[0] + np.log(parts).sum())
    log_scale += sum(table.log_scale for table in model.tables)
    return TablePlan(problem, asked, tuple(possible), tuple(tables), tree, log_scale)


def possible_states(problem: Problem) -> list[np.ndarray] | None:
    """Return the states that evidence leaves to each variable; None if one has none."""
    found = []
    for name in problem.model.predicates:
        evidence = problem.evidence[name]
        if not evidence.open:
            return None
        size = len(problem.domains[evidence.predicate.types[0]])
        states = np.arange(size)
        if len(evidence.false):
            states = np.setdiff1d(states, evidence.false[:, 0])
        if len(evidence.true):
            states = np.intersect1d(states, evidence.true[:, 0])
        if len(states) == 0 or len(evidence.true) > 1:
            return None
        found.append(states)
    return found


def cut_table(scope: Sequence[int], log_value: np.ndarray, possible: Sequence[np.ndarray]) -> Table:
    """Restrict a table to possible states, and drop its variables with one state."""
    for axis, v in enumerate(scope):
        if len(possible[v]) < log_value.shape[axis]:
            log_value = log_value.take(possible[v], axis)
    left = [v for v in scope if len(possible[v]) > 1]
    shape = [1, *(len(possible[v]) for v in left)]
    return Table(tuple(left), np.exp(log_value).reshape(shape))


def drop_barren(
    tables: Sequence[Table], asked: set[int]
) -> tuple[list[Table], set[int], np.ndarray]:
    """Sum out barren variables; return the other tables, the variables, and log factors of rows."""
    tables_of: dict[int, set[int]] = {}
    for number, table in enumerate(tables):
        for v in table.scope:
            tables_of.setdefault(v, set()).add(number)
    waiting = {number for number, table in enumerate(tables) if table.scope}
    left, summed, log_scale = set(waiting), set(), np.zeros(1)
    while waiting:
        number = waiting.pop()
        table = tables[number]
        alone = [v for v in table.scope if len(tables_of[v]) == 1 and v not in asked]
        sums = ((v, constant_sums(table, v)) for v in alone)
        found = next(((v, constant) for v, constant in sums if constant is not None), None)
        if found is None:
            continue
        left.remove(number)
        summed.add(found[0])
        log_scale = log_scale + np.log(found[1])
        for v in table.scope:
            tables_of[v].remove(number)
            waiting |= tables_of[v]
    return [tables[number] for number in sorted(left)], summed, log_scale


def constant_sums(table: Table, variable: int) -> np.ndarray | None:
    """Return the sums of a table over a variable, float64[num_rows]; None if they differ in a row.

    Sums of 0 are left to the tree, which refuses them.
    """
    sums = table.value.sum(axis=1 + table.scope.index(variable))
    low, high = reduce_to_rows(sums, np.minimum), reduce_to_rows(sums, np.maximum)
    return high if ((low > 0.0) & (high <= low * (1 + SAME))).all() else None

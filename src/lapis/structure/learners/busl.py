"""BUSL: "Bottom-up learning of Markov logic network structure" (Mihalkova & Mooney 2007).

For each predicate P, template nodes are P's own atom and short paths from it: one literal that
shares a variable with P, or two literals chained through a new variable. A node is true for a
ground atom of P if some binding of its other variables makes it true. Grow–Shrink with χ² tests
finds the Markov blanket of each node. The literals of each clique that contains P form clauses, in
all sign patterns, which are scored by WPLL and added greedily.

Clauses with |weight| < minWeight are dropped: alone, and after the greedy step, which is then
repeated without them. BUSL samples ground atoms; here nodes are counted over all atoms, in classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations, product

import numpy as np

from lapis.registry.options import StructureOptions
from lapis.relational.factor import indicator_factor
from lapis.structure.candidates import Path, PathAtom, canonicalize_clause, is_connected
from lapis.structure.clause_scores import ClauseScore
from lapis.structure.path_differences import PathColumn, count_values
from lapis.structure.rule_search import FINDING, SCORING, RuleSearch
from lapis.structure.select import Criteria, Selection, learner_options, select_clauses

Node = tuple[PathAtom, ...]
MAX_BLANKET = 6  # beyond, strata are too thin for χ²


@dataclass(frozen=True)
class BuslOptions(Criteria):
    significance: float = 0.001
    min_weight: float = 0.0  # minWeight
    max_nodes: int = 30  # template nodes of a predicate, those with the strongest dependence


def learn_busl(search: RuleSearch, given: StructureOptions) -> Selection:
    """Learn rules by BUSL."""
    options = learner_options(BuslOptions, given)
    found = search.collect(FINDING, partial(list_clique_paths, options=options))
    paths = sorted(filter(options.allows, dict.fromkeys(found)), key=len)
    scores = search.collect(SCORING, lambda own: chain.from_iterable(own.score_paths(paths)))
    return select_heavy(search, scores, options)


def list_clique_paths(search: RuleSearch, options: BuslOptions) -> Iterator[Path]:
    """Yield the paths of the cliques of each predicate; a path may occur several times."""
    names = [n for n, p in search.data.predicates.items() if p.arity and search.data.num_atoms[n]]
    num_paths = 0
    for done, name in enumerate(names, 1):
        for path in clique_paths(search, name, options):
            if search.stop.is_over():
                return
            num_paths += 1
            yield path
        search.report("template nodes", done, len(names), paths=num_paths)


def select_heavy(
    search: RuleSearch, scores: Sequence[ClauseScore], options: BuslOptions
) -> Selection:
    """Select clauses whose |weight| is at least minWeight, alone and in the model."""
    heavy = [score for score in scores if abs(score.weight) >= options.min_weight]
    while True:
        found = select_clauses(search, heavy, options)
        light = {c.candidate for c in found.clauses if abs(c.weight) < options.min_weight}
        if not light:
            return found
        heavy = [score for score in heavy if score.candidate not in light]


def clique_paths(search: RuleSearch, name: str, options: BuslOptions) -> Iterator[Path]:
    """Yield the paths of the literals in each clique that contains a predicate's atom."""
    arity = search.data.predicates[name].arity
    head = (PathAtom(name, tuple(range(arity))),)
    nodes = [head, *template_nodes(search, name)]
    table, share = tabulate_nodes(search, name, nodes)
    test = Independence(table, share * search.data.num_atoms[name], options.significance)
    strength = [test.statistic(0, at, ()) for at in range(1, len(nodes))]
    order = sorted(range(1, len(nodes)), key=lambda at: -strength[at - 1])[: options.max_nodes]
    kept = [0, *order]
    blankets = {at: test.blanket(at, kept) for at in kept}
    linked = {at: {b for b in kept if b in blankets[at] and at in blankets[b]} for at in kept}
    for clique in cliques_of_first(linked):
        atoms = list(dict.fromkeys(atom for at in clique for atom in nodes[at]))
        for size in range(1, options.max_literals):
            for others in combinations([a for a in atoms if a != head[0]], size):
                path = (head[0], *others)
                variables = {v for atom in path for v in atom.variables}
                is_within = not options.max_variables or len(variables) <= options.max_variables
                if is_within and is_connected(path):
                    yield canonicalize_clause(path).path


def template_nodes(search: RuleSearch, name: str) -> list[Node]:
    """Return literals with P's variables, and chains of two; each type has one new variable."""
    types = search.data.predicates[name].types
    new = {t: len(types) + at for at, t in enumerate(search.data.offset)}
    singles: list[PathAtom] = []
    for other, predicate in search.data.predicates.items():
        choices = [
            [*(at for at, own in enumerate(types) if own == t), new[t]] for t in predicate.types
        ]
        for variables in product(*choices):
            fresh = [v for v in variables if v >= len(types)]
            if any(v < len(types) for v in variables) and len(set(fresh)) == len(fresh):
                atom = PathAtom(other, tuple(variables))
                if atom != PathAtom(name, tuple(range(len(types)))):
                    singles.append(atom)
    chains: dict[Node, None] = {(atom,): None for atom in singles}
    for first, second in combinations(singles, 2):
        shared = set(first.variables) & set(second.variables)
        if any(v >= len(types) for v in shared):
            chains[first, second] = None
    return list(chains)


def tabulate_nodes(
    search: RuleSearch, name: str, nodes: Sequence[Node]
) -> tuple[np.ndarray, np.ndarray]:
    """Return bool[num_classes, num_nodes], and each class's share of P's atoms."""
    data, sums = search.data, search.scorer.sums
    columns = []
    for node in nodes:
        inside = {v for atom in node for v in atom.variables}
        axes = tuple(at for at in range(data.predicates[name].arity) if at in inside)
        found = sums.column(node, axes)
        columns.append(PathColumn(axes, indicator_factor(found.variables, found.rows)))
    parts = [
        count_values(data, name, columns, world)
        for world in range(data.num_worlds)
        if 0 not in data.sizes(name, world)
    ]
    value, count = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return value > 0, count / count.sum()


class Independence:
    """χ² tests on weighted Boolean rows, and Markov blankets by Grow–Shrink."""

    def __init__(self, table: np.ndarray, count: np.ndarray, significance: float) -> None:
        from scipy.stats import chi2

        self.table, self.count = table, count
        self.critical = [0.0, *(float(chi2.isf(significance, d)) for d in range(1, 300))]

    def statistic(self, left: int, right: int, given: Sequence[int]) -> float:
        """Return χ² of two nodes over the strata of the others, minus its critical value."""
        strata = np.zeros(len(self.count), np.int64)
        for node in given:
            strata = strata * 2 + self.table[:, node]
        _, stratum = np.unique(strata, return_inverse=True)
        cell = stratum * 4 + self.table[:, left] * 2 + self.table[:, right]
        seen = np.bincount(cell, self.count, minlength=4 * (int(stratum.max()) + 1))
        seen = seen.reshape(-1, 2, 2)
        total = seen.sum(axis=(1, 2))
        expected = seen.sum(axis=2)[:, :, None] * seen.sum(axis=1)[:, None, :]
        expected /= np.maximum(total, 1e-300)[:, None, None]
        usable = (expected > 0).all(axis=(1, 2))
        if not usable.any():
            return 0.0
        parts = (seen[usable] - expected[usable]) ** 2 / expected[usable]
        freedom = min(int(usable.sum()), len(self.critical) - 1)
        return float(parts.sum()) - self.critical[freedom]

    def blanket(self, node: int, nodes: Sequence[int]) -> set[int]:
        """Return a node's Markov blanket: add dependent nodes, then drop independent ones."""
        found: list[int] = []
        others = [other for other in nodes if other != node]
        others.sort(key=lambda other: -self.statistic(node, other, ()))
        for other in others:
            if len(found) < MAX_BLANKET and self.statistic(node, other, found) > 0:
                found.append(other)
        for other in list(found):
            rest = [each for each in found if each != other]
            if self.statistic(node, other, rest) <= 0:
                found = rest
        return set(found)


def cliques_of_first(linked: dict[int, set[int]]) -> Iterator[list[int]]:
    """Yield the maximal cliques that contain node 0 (Bron–Kerbosch)."""

    def grow(clique: list[int], open_: set[int], done: set[int]) -> Iterator[list[int]]:
        if not open_ and not done:
            yield clique
        for each in sorted(open_):
            yield from grow([*clique, each], open_ & linked[each], done & linked[each])
            open_, done = open_ - {each}, done | {each}

    yield from grow([0], set(linked[0]), set())

"""LHL-LiftGraph: clusters of constants as a model of their own (Kok & Domingos 2009, section 4.2).

LiftGraph's clusters say that the truth of an atom depends on the clusters of its arguments alone:
in a combination K of clusters with t of n atoms true, P(r) = p_K = (t + ½)/(n + 1). The model has
a predicate of clusters for each type, hidden, with one cluster for each constant, and

    log(size of C / all)                 in_t(x, C)
    logit p_0                            r(x, y)
    logit p_K − logit p_0                in_t(x, C) ^ in_u(y, D) ^ r(x, y)        for K = (C, D)
    log(1 − p_K) − log(1 − p_0)          in_t(x, C) ^ in_u(y, D)

where p_0 is of atoms in no combination with a true one. Constants that the data has not seen are
put into clusters by inference, from what is known of them.

Two deviations. The paper's default rule, "in none of these combinations", is a unit clause that
each combination corrects: as one formula it blew up Alchemy's memory on Cora. And the last kind of
rule is not in the paper: it makes the joint distribution P(clusters) Π P(r | clusters), so that
unknown constants are weighed by likelihoods; without it, combinations with many true atoms draw
constants to themselves whatever is known. The prior on the number of combinations, which chose
the clusters, is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log, prod
from typing import NamedTuple

import numpy as np

from lapis.registry.options import StructureOptions
from lapis.structure.candidates import Search
from lapis.structure.explain import constant_names
from lapis.structure.learned_rules import Rule
from lapis.structure.lift_graph import PRIOR, LiftedGraph, lift_graph
from lapis.structure.scores import fit_unit
from lapis.structure.training_data import TrainingData

NOBODY = 0  # the cluster of constants of which nothing is true
MAX_NAMES = 3  # members of a cluster that are named


class ClusterModel(NamedTuple):
    """Declarations beside those of the data, rules, and how well they explain the data."""

    declarations: str
    rules: tuple[Rule, ...]
    value: float  # WPLL given the clusters
    unit_value: float
    is_whole: bool  # no stop cut it short
    members: dict[str, dict[str, list[str]]]  # by type: cluster → constants


def learn_clusters(search: Search, options: StructureOptions) -> ClusterModel:
    """The lifted hypergraph as a model."""
    search.tell("lifting", 0, None)
    prior = PRIOR if options.cluster_prior is None else options.cluster_prior
    graph = lift_graph(search.data, prior, search.stop)
    return write_model(search.data, graph, not search.stop.is_over())


def write_model(data: TrainingData, graph: LiftedGraph, is_whole: bool) -> ClusterModel:
    """The rules of combinations by weight, then those of predicates and of clusters."""
    clusters: dict[str, list[int]] = {name: [] for name in data.offset}
    for node in sorted(graph.members, key=lambda node: (-len(graph.members[node]), node)):
        clusters[graph.members[node][0][0]].append(node)
    number = {node: at for own in clusters.values() for at, node in enumerate(own, NOBODY + 1)}
    rules: list[Rule] = []
    others: list[Rule] = []
    value = unit_value = of_defaults = 0.0
    for name in data.targets:
        if data.num_atoms[name]:
            alone, by_default, found = write_predicate(data, graph, number, name)
            rules += (rule for rule in found if rule.gain is not None)
            others += (rule for rule in found if rule.gain is None)
            unit_value += alone
            of_defaults += by_default
            value += alone + sum(rule.gain or 0.0 for rule in found)
    value += of_defaults
    declared: list[str] = []
    for name, nodes in clusters.items():
        sizes = [len(graph.members[node]) for node in nodes]
        every = int(data.offset[name][-1])
        sizes.insert(NOBODY, every - sum(sizes))
        words = [cluster_name(name, at) for at in range(len(sizes))]
        declared.append(f"{name}_cluster = {{{', '.join(words)}}}")
        declared.append(f"in_{name}({name}, {name}_cluster!)")
        for word, size in zip(words, sizes, strict=True):
            weight = log((size + 0.5) / (every + len(sizes) / 2))
            others.append(Rule(f"in_{name}(x0, {word})", weight, None, None, size, every))
    rules.sort(key=lambda rule: -abs(rule.weight))
    members = {
        name: {cluster_name(name, number[n]): spell(data, graph.members[n]) for n in nodes}
        for name, nodes in clusters.items()
    }
    return ClusterModel(
        "\n".join(declared) + "\n", (*rules, *others), value, unit_value, is_whole, members
    )


def write_predicate(
    data: TrainingData, graph: LiftedGraph, number: Mapping[int, int], name: str
) -> tuple[float, float, list[Rule]]:
    """A predicate's part of the WPLL of unit clauses, what its default rule gains on atoms in no
    combination with a true one, and its rules."""
    num_atoms, types = data.num_atoms[name], data.predicates[name].types
    edges = [(edge.nodes, true) for edge, true in graph.edges.items() if edge.predicate == name]
    total_of = {nodes: prod(len(graph.members[n]) for n in nodes) for nodes, _ in edges}
    rest = num_atoms - sum(total_of.values())
    odds, alone = fit_unit(sum(true for _, true in edges) / num_atoms)
    by_default = log_likelihood(0, rest, logit(0, rest)) - log_likelihood(0, rest, odds)
    atom = f"{name}({', '.join(f'x{place}' for place in range(len(types)))})"
    rules = [Rule(atom, logit(0, rest), None, None, len(data.tuples[name]), num_atoms)]
    for nodes, true in edges:
        total = total_of[nodes]
        gain = log_likelihood(true, total, logit(true, total)) - log_likelihood(true, total, odds)
        inside = " ^ ".join(
            f"in_{t}(x{place}, {cluster_name(t, number[node])})"
            for place, (t, node) in enumerate(zip(types, nodes, strict=True))
        )
        weight = logit(true, total) - logit(0, rest)
        words = say(data, atom, [graph.members[node] for node in nodes], true, total)
        rules.append(
            Rule(f"{inside} ^ {atom}", weight, gain / num_atoms, true, true, num_atoms, words)
        )
        norm = log_chance(False, logit(true, total)) - log_chance(False, logit(0, rest))
        rules.append(Rule(inside, norm, None, None, total, num_atoms))
    return alone, by_default / num_atoms, rules


def cluster_name(type_name: str, number: int) -> str:
    """Capital, as constants are."""
    return f"{type_name[0].upper()}{type_name[1:]}{number}"


def logit(true: int, total: int) -> float:
    """log p/(1 − p), p = (t + ½)/(n + 1).

    >>> logit(3, 6)
    0.0
    """
    return log(true + 0.5) - log(total - true + 0.5)


def log_chance(truth: bool, odds: float) -> float:
    """log P(truth) at log-odds."""
    return float(-np.logaddexp(0.0, -odds if truth else odds))


def log_likelihood(true: int, total: int, odds: float) -> float:
    return true * log_chance(True, odds) + (total - true) * log_chance(False, odds)


def spell(data: TrainingData, members: tuple[tuple[str, int], ...]) -> list[str]:
    numbers = np.array([constant for _, constant in members])
    return constant_names(data, [name for name, _ in members], numbers)


def say(
    data: TrainingData,
    atom: str,
    members: list[tuple[tuple[str, int], ...]],
    true: int,
    total: int,
) -> str:
    """Which atoms the rule is about."""
    parts = []
    for place, own in enumerate(members):
        more = f" and {len(own) - MAX_NAMES} more" if len(own) > MAX_NAMES else ""
        parts.append(f"x{place} like {', '.join(spell(data, own[:MAX_NAMES]))}{more}")
    return f"{true:,} of {total:,} {atom}, {'; '.join(parts)}"

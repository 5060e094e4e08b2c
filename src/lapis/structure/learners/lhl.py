"""LHL: learning rules via hypergraph lifting (Kok & Domingos 2009).

LiftGraph clusters the constants, FindPaths finds what is connected in the lifted graph, CreateMLN
scores the clauses of each path and adds the good ones. Deviations: scores are exact on all atoms
unless `sigma` asks for a sample, because classes of atoms cost the same for few and for many; paths
are found by what they variabilise to (`find_paths`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from lapis.data.tuples import contains
from lapis.errors import Warning, announce
from lapis.structure.candidates import Search
from lapis.structure.clauses import Path, sign_patterns
from lapis.structure.lift_graph import PRIOR, LiftedGraph, ground_graph, lift_graph
from lapis.structure.paths.find_paths import FoundPath, find_paths
from lapis.structure.scores import AtomSample
from lapis.structure.select import Criteria, Selection, select


@dataclass(frozen=True)
class LhlOptions(Criteria):
    """The paper's parameters; the penalty is π."""

    max_length: int = 5  # ω, literals
    max_variables: int = 6
    dangling: str = "drop"
    cluster_prior: float = PRIOR  # λ, the price of a cluster combination
    min_support: int = 50  # μ, true atoms per literal of a path; 0: no such pruning
    max_atoms: int = 500  # ν, atoms of a path on which its clauses are tried first; 0: none
    first_penalty: float = 0.001  # π′, in the first trial
    flips: int | None = None  # positive literals at most; None: all sign patterns
    lifting: str = "lifted"  # "ground": FindPaths alone
    seed: int = 0


def learn_lhl(search: Search, **own: Any) -> Selection:
    """Rules by LHL."""
    options = LhlOptions(**own)
    data = search.data
    search.tell("lifting", 0, None)
    graph = (
        lift_graph(data, options.cluster_prior, search.stop)
        if options.lifting == "lifted"
        else ground_graph(data)
    )
    found = find_paths(
        graph,
        options.max_length,
        max_variables=options.max_variables,
        progress=search.progress,
        stop=search.stop,
    )
    paths: list[Path] = []
    for done, each in enumerate(found, 1):
        if search.stop.is_over():
            break
        if options.allows(each.path):
            generator = np.random.default_rng((options.seed, done))
            if search.tape.ask(
                each.path, partial(try_path, search, graph, each, options, generator)
            ) == [1.0]:
                paths.append(each.path)
        search.tell("trying paths", done, len(found), kept=len(paths))
    if not paths and options.min_support and not search.stop.is_over():
        warn_of_support(search, [each.path for each in found], options.min_support)
    scores = search.score_paths(paths, options.flips)
    return select(search, chain.from_iterable(scores), options)


def try_path(
    search: Search,
    graph: LiftedGraph,
    found: FoundPath,
    options: LhlOptions,
    generator: np.random.Generator,
) -> list[float]:
    """[1.0] if both heuristics let the path pass."""
    passes = has_support(search, found.path, options.min_support) and (
        not options.max_atoms or is_promising(search, graph, found, options, generator)
    )
    return [float(passes)]


def warn_of_support(search: Search, paths: Sequence[Path], least: int) -> None:
    """Say that small data have no path with so many true atoms, if that is why none is left."""
    if any(has_support(search, path, least) for path in paths):
        return
    announce(
        [
            Warning(
                f"none of the {len(paths)} paths has {least} true atoms for each of its literals, "
                "so no rule is tried",
                "no-support",
                hint="--support N asks for fewer, 0 for none",
            )
        ]
    )


def has_support(search: Search, path: Path, least: int) -> bool:
    """Whether enough true atoms lie on true groundings of the path (heuristic μ)."""
    if not least:
        return True
    total = 0
    for atom in path:
        kept = list(dict.fromkeys(atom.variables))
        total += len(search.scorer.sums.column(path, kept))
        if total >= least * len(path):
            return True
    return False


def is_promising(
    search: Search,
    graph: LiftedGraph,
    found: FoundPath,
    options: LhlOptions,
    generator: np.random.Generator,
) -> bool:
    """Whether a clause of the path helps on a few of the path's own atoms (heuristic ν).

    Combinations of single constants have true atoms only, in which nothing is to be explained:
    a path of such atoms passes.
    """
    data = search.data
    chosen: dict[str, list[tuple[int, ...]]] = {atom.predicate: [] for atom in found.path}
    edges = sorted(found.edges)
    for number in generator.integers(len(edges), size=options.max_atoms).tolist():
        predicate, nodes = edges[number]
        members = [graph.members[node] for node in nodes]
        row = tuple(each[generator.integers(len(each))][1] for each in members)
        chosen[predicate].append(row)
    sample = {}
    for name, drawn in chosen.items():
        rows = np.array(sorted(set(drawn)), np.int32).reshape(-1, data.predicates[name].arity)
        first = data.offset[data.predicates[name].types[0]]
        world = np.searchsorted(first, rows[:, 0], side="right") - 1
        sample[name] = AtomSample(rows, world)
    if all(contains(data.tuples[name], own.rows).all() for name, own in sample.items()):
        return True
    scores = search.scorer.score(found.path, sign_patterns(found.path, options.flips), sample)
    return any(score.gain > options.first_penalty * len(found.path) for score in scores)

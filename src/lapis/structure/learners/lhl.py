"""LHL: learning rules via hypergraph lifting (Kok & Domingos 2009).

LiftGraph clusters the constants, FindPaths finds paths of the lifted hypergraph, CreateMLN scores
the clauses of each path and adds the good ones. Two heuristics of the paper's section 3.3 save
time. A path and the clauses that it gives are discarded unless its hyperedges contain μ true ground
atoms each on average. And a clause is discarded unless it scores above the empty clause, with the
smaller penalty π′, on ν ground atoms drawn from these hyperedges. Several paths of the hypergraph
may variabilise alike. Both heuristics then take the hyperedges of all of them: in LHL-FindPaths,
which the paper runs with μ = 50, a hyperedge contains one true atom only.

Deviations:

- Scores are of all atoms unless `sample_share` (σ) gives a share, because classes of atoms cost the
  same for few and for many.
- A clause must also score above the empty clause on the database. Algorithm 4 compares it with its
  sub-clauses there and leaves the rest to the greedy step.
- The model starts from unit clauses, as in BUSL and MSL; the paper says "initially empty".
- Worlds are lifted side by side: a constant that two worlds name is a node in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lapis.data.tuples import contains
from lapis.errors import Warning, announce
from lapis.structure.candidates import Search
from lapis.structure.clauses import Candidate, Path, sign_patterns
from lapis.structure.lift_graph import PRIOR, LiftedGraph, ground_graph, lift_graph
from lapis.structure.paths.find_paths import MAX_EXAMPLES, MAX_VARIABLES, FoundPath, find_paths
from lapis.structure.scores import AtomSample, ClauseScore, Sample, fit_unit
from lapis.structure.select import Criteria, Selection, select
from lapis.structure.training_data import TrainingData


@dataclass(frozen=True)
class LhlOptions(Criteria):
    """The paper's parameters; the penalty is π."""

    max_length: int = 5  # ω, literals
    max_variables: int = MAX_VARIABLES  # of a path; 0: no limit
    max_examples: int = MAX_EXAMPLES  # ground paths that a path is extended from; 0: all
    dangling: str = "drop"
    cluster_prior: float = PRIOR  # λ, the price of a cluster combination
    min_support: int = 50  # μ, true atoms per hyperedge of a path; 0: no such pruning
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
        max_examples=options.max_examples,
        keeps_dangling=options.dangling == "keep",
        progress=search.progress,
        stop=search.stop,
    )
    supported = [each for each in found if has_support(graph, each, options.min_support)]
    if found and not supported and not search.stop.is_over():
        warn_of_support(len(found), options.min_support)
    passing: dict[Path, set[Candidate]] = {}
    for done, each in enumerate(supported, 1):
        if search.stop.is_over():
            break
        generator = np.random.default_rng((options.seed, done))
        trial = partial(try_clauses, search, graph, each, options, generator)
        signs = set(search.tape.ask(each.path, trial))
        patterns = sign_patterns(each.path, options.flips)
        if signs:
            passing[each.path] = {c for c, positive in patterns.items() if positive in signs}
        search.tell("trying paths", done, len(supported), kept=len(passing))
    return select(search, score_passing(search, passing, options.flips), options)


def has_support(graph: LiftedGraph, found: FoundPath, least: int) -> bool:
    """Whether the hyperedges contain μ true ground atoms for each literal (heuristic 1)."""
    return sum(graph.edges[edge] for edge in found.edges) >= least * len(found.path)


def warn_of_support(num_paths: int, least: int) -> None:
    """Warn that small data have no path with so many true atoms."""
    announce(
        [
            Warning(
                f"none of the {num_paths} paths has {least} true atoms for each of its literals, "
                "so no rule is tried",
                "no-support",
                hint="--support N asks for fewer, 0 for none",
            )
        ]
    )


def try_clauses(
    search: Search,
    graph: LiftedGraph,
    found: FoundPath,
    options: LhlOptions,
    generator: np.random.Generator,
) -> list[float]:
    """Signs of the clauses that score above the empty one on a few atoms (heuristic 2).

    Hyperedges contain mostly true atoms, those between single constants true ones only. Where a
    clause that explains all of the sample would not score above the empty one, the sample cannot
    tell good clauses from bad ones, and all pass.
    """
    patterns = sign_patterns(found.path, options.flips)
    every = [float(positive) for positive in patterns.values()]
    if not options.max_atoms:
        return every
    data = search.data
    sample = draw_path_atoms(data, graph, found, options.max_atoms, generator)
    most = -sum(
        fit_unit(float(contains(data.tuples[name], own.rows).mean()))[1]
        for name, own in sample.items()
        if len(own.rows) and name in data.targets
    )
    price = options.first_penalty * len(found.path)
    if most <= price:
        return every
    scores = search.scorer.score(found.path, patterns, sample)
    return [float(patterns[score.candidate]) for score in scores if score.gain > price]


def draw_path_atoms(
    data: TrainingData,
    graph: LiftedGraph,
    found: FoundPath,
    number: int,
    generator: np.random.Generator,
) -> Sample:
    """Ground atoms, true and false, drawn uniformly from those that the hyperedges contain."""
    edges = sorted(found.edges)
    ends = np.cumsum([graph.num_atoms(edge) for edge in edges])
    total = int(ends[-1])
    drawn = np.sort(generator.choice(total, min(number, total), replace=False))
    chosen: dict[str, list[tuple[int, ...]]] = {atom.predicate: [] for atom in found.path}
    for at, edge_number in zip(drawn, np.searchsorted(ends, drawn, side="right"), strict=True):
        edge = edges[edge_number]
        members = [graph.members[node] for node in edge.nodes]
        inside = int(at - ends[edge_number]) + graph.num_atoms(edge)
        places = np.unravel_index(inside, [len(own) for own in members])
        row = tuple(own[place][1] for own, place in zip(members, places, strict=True))
        chosen[edge.predicate].append(row)
    sample = {}
    for name, listed in chosen.items():
        rows = np.array(sorted(listed), np.int32).reshape(-1, data.predicates[name].arity)
        first = data.offset[data.predicates[name].types[0]]
        world = np.searchsorted(first, rows[:, 0], side="right") - 1
        sample[name] = AtomSample(rows, world)
    return sample


def score_passing(
    search: Search, passing: Mapping[Path, set[Candidate]], flips: int | None
) -> Iterator[ClauseScore]:
    """Scores on the database of the clauses that passed the first trial."""
    paths = list(passing)
    for path, scores in zip(paths, search.score_paths(paths, flips), strict=False):
        yield from (score for score in scores if score.candidate in passing[path])

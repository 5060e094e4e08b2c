"""LHL: "Learning Markov logic network structure via hypergraph lifting" (Kok & Domingos 2009).

LiftGraph clusters the constants, FindPaths finds paths of the lifted hypergraph, CreateMLN scores
the clauses of each path and adds the good ones. Two heuristics of the paper's section 3.3 save
time. A path is discarded if its hyperedges contain fewer than μ true ground atoms on average. It is
also discarded if no clause scores above the empty one on ν ground atoms drawn from the hyperedges,
with the smaller penalty π′. If several paths of the hypergraph have the same path with variables,
both heuristics use the hyperedges of all of them: in LHL-FindPaths, which the paper runs with
μ = 50, a hyperedge contains only one true atom.

Deviations:

- All atoms are scored unless `sample_share` (σ) is less than 1: classes of atoms cost the same for
  few atoms and for many.
- The first trial is of a path. If one of its clauses passes, all are scored on the database,
because
  the clauses of a path are counted together. The paper discards clauses one by one.
- A clause must also score above the empty clause on the database. Algorithm 4 compares it with its
  sub-clauses only.
- The model starts with unit clauses, as in BUSL and MSL; in the paper it is "initially empty".
- Worlds have disjoint nodes: a constant of two worlds is a node in each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from lapis.data.keys import contains
from lapis.errors import Warning, issue_warnings
from lapis.registry.options import StructureOptions
from lapis.structure.candidates import Path, sign_patterns
from lapis.structure.clause_scores import AtomSample, ClauseScore, Sample, fit_unit
from lapis.structure.learners.find_paths import FoundPath, find_paths
from lapis.structure.learners.lift_graph import PRIOR, LiftedGraph, ground_graph, lift_graph
from lapis.structure.rule_search import FINDING, SCORING, RuleSearch
from lapis.structure.select import Criteria, Selection, learner_options, select_clauses
from lapis.structure.training_data import TrainingData

GROUND_EXAMPLES = 1000


@dataclass(frozen=True)
class LhlOptions(Criteria):
    """The paper's parameters; the penalty is π."""

    max_literals: int = 5  # ω
    max_variables: int = 0  # of a path; 0: no limit
    max_examples: int | None = None  # ground paths that a path is extended from; 0: all
    dangling: str = "drop"
    cluster_prior: float = PRIOR  # λ, the price of a cluster combination
    min_support: int = 50  # μ, true atoms per hyperedge of a path; 0: no pruning
    max_atoms: int = 500  # ν, atoms of the first trial of a path; 0: no trial
    first_penalty: float = 0.001  # π′, in the first trial
    flips: int | None = None  # positive literals at most; None: all sign patterns
    lifting: str = "lifted"  # "ground": FindPaths alone
    seed: int = 0

    @property
    def num_examples(self) -> int:
        """0 (all) on the lifted hypergraph, as in the paper; the ground one has too many paths."""
        if self.max_examples is None:
            return 0 if self.lifting == "lifted" else GROUND_EXAMPLES
        return self.max_examples


def learn_lhl(search: RuleSearch, given: StructureOptions) -> Selection:
    """Learn rules by LHL."""
    options = learner_options(LhlOptions, given)
    data = search.data
    search.report("lifting", 0, None)
    finding = search.stop.within(FINDING * search.stop.seconds_left())
    graph = (
        lift_graph(data, options.cluster_prior, finding)
        if options.lifting == "lifted"
        else ground_graph(data)
    )
    scores = search.collect(SCORING, partial(score_lifted_paths, graph=graph, options=options))
    return select_clauses(search, scores, options)


def score_lifted_paths(
    search: RuleSearch, graph: LiftedGraph, options: LhlOptions
) -> Iterator[ClauseScore]:
    """Yield the scores of clauses of the paths that pass both heuristics, shortest first."""
    num_found = num_supported = 0
    for found in find_paths(
        graph,
        options.max_literals,
        max_variables=options.max_variables,
        max_examples=options.num_examples,
        keeps_dangling=options.dangling == "keep",
        progress=search.progress,
        stop=search.stop,
    ):
        supported = [each for each in found if has_support(graph, each, options.min_support)]
        paths: list[Path] = []
        for done, each in enumerate(supported, 1):
            if search.stop.is_over():
                break
            generator = np.random.default_rng((options.seed, num_supported + done))
            trial = partial(try_path, search, graph, each, options, generator)
            if search.log.call(each.path, trial) == [1.0]:
                paths.append(each.path)
            search.report("trying paths", done, len(supported), kept=len(paths))
        num_found, num_supported = num_found + len(found), num_supported + len(supported)
        yield from chain.from_iterable(search.score_paths(paths, options.flips))
    if num_found and not num_supported and not search.stop.is_over():
        warn_of_support(num_found, options.min_support)


def has_support(graph: LiftedGraph, found: FoundPath, least: int) -> bool:
    """Return whether the hyperedges contain μ true ground atoms per literal (heuristic 1)."""
    return sum(graph.edges[edge] for edge in found.edges) >= least * len(found.path)


def warn_of_support(num_paths: int, least: int) -> None:
    """Warn that no path has the minimum number of true atoms."""
    issue_warnings(
        [
            Warning(
                f"none of the {num_paths} paths has {least} true atoms for each of its literals, "
                "so no rule is tried",
                "no-support",
                hint="use a smaller --min-support, or 0 for no minimum",
            )
        ]
    )


def try_path(
    search: RuleSearch,
    graph: LiftedGraph,
    found: FoundPath,
    options: LhlOptions,
    generator: np.random.Generator,
) -> list[float]:
    """Return [1.0] if a clause scores above the empty one on a few atoms (heuristic 2), or [0.0].

    Hyperedges contain mostly true atoms; those between single constants contain only true ones. If
    even a clause that explains the whole sample would not score above the empty one, the sample
    cannot separate good clauses from bad ones, and the path passes.
    """
    if not options.max_atoms:
        return [1.0]
    data = search.data
    sample = draw_path_atoms(data, graph, found, options.max_atoms, generator)
    most = -sum(
        fit_unit(float(contains(data.tuples[name], own.rows).mean()))[1]
        for name, own in sample.items()
        if len(own.rows) and name in data.targets
    )
    price = options.first_penalty * len(found.path)
    if most <= price:
        return [1.0]
    scores = search.scorer.score(found.path, sign_patterns(found.path, options.flips), sample)
    return [float(any(score.gain > price for score in scores))]


def draw_path_atoms(
    data: TrainingData,
    graph: LiftedGraph,
    found: FoundPath,
    number: int,
    generator: np.random.Generator,
) -> Sample:
    """Draw ground atoms, true and false, uniformly from those that the hyperedges contain."""
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

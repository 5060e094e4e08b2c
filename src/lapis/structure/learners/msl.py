"""MSL: beam search over clauses (Kok & Domingos 2005).

The model starts with unit clauses. Each round searches for the clause with the largest gain in
WPLL: first all clauses of two literals, then those of a beam with a literal added, a literal
deleted or a sign flipped, as long as the beam improves. A clause may stay in the beam although it
gains less than its penalty: r(x,y) ^ s(y,z) => t(x,z) may gain much although none of its pairs
does. The best clause is added, all weights are fitted again, and the next round starts. The search
ends when no clause gains more than its penalty.

The gain of a clause nearly always shrinks as the model grows, so its last known gain is used as a
bound: a round evaluates clauses by decreasing bound until the beam cannot change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product

from lapis.registry.options import StructureOptions
from lapis.runtime.progress import check_time
from lapis.structure.candidates import (
    Candidate,
    Path,
    PathAtom,
    canonicalize_clause,
    is_connected,
    variable_types,
)
from lapis.structure.clause_scores import ClauseScore
from lapis.structure.ensemble import Ensemble
from lapis.structure.rule_search import SELECTING, RuleSearch
from lapis.structure.select import Criteria, Selection, build_selection, learner_options


@dataclass(frozen=True)
class MslOptions(Criteria):
    beam: int = 5


class GainBounds:
    """Bounds on the gains of clauses: their gains in an earlier, smaller model."""

    def __init__(self, options: MslOptions) -> None:
        self.options = options
        self.alone: dict[Candidate, ClauseScore] = {}
        self.bound: dict[Candidate, float] = {}
        self.scored: set[Path] = set()

    def price(self, candidate: Candidate) -> float:
        return self.options.penalty * len(candidate)

    def prepare(self, search: RuleSearch, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Score new candidates alone; return those with a bound."""
        found = list(dict.fromkeys(candidates))
        new = dict.fromkeys(canonicalize_clause(c.path).path for c in found)
        paths = [path for path in new if path not in self.scored]
        for path, scores in zip(paths, search.score_paths(paths), strict=False):  # or a stop
            self.scored.add(path)
            for score in scores:
                self.alone[score.candidate] = score
                self.bound[score.candidate] = score.gain
        return [c for c in found if c in self.bound]

    def best(
        self, search: RuleSearch, ensemble: Ensemble, candidates: Sequence[Candidate]
    ) -> list[tuple[float, Candidate]]:
        """Return the beam: the candidates with the largest net gains in the current model."""
        order = sorted(candidates, key=lambda c: (self.price(c) - self.bound[c], c))
        beam: list[tuple[float, Candidate]] = []
        for candidate in order:
            if search.stop.is_over():
                break
            most = self.bound[candidate] - self.price(candidate)
            if len(beam) == self.options.beam and beam[-1][0] >= most:
                break
            gain = self.bound[candidate]
            if ensemble.clauses:
                gain = search.gain_of(ensemble, candidate)
            self.bound[candidate] = gain
            beam.append((gain - self.price(candidate), candidate))
            beam.sort(key=lambda each: (-each[0], each[1]))
            del beam[self.options.beam :]
        return beam


def learn_msl(search: RuleSearch, given: StructureOptions) -> Selection:
    """Learn rules by beam search."""
    options = learner_options(MslOptions, given)
    ensemble = Ensemble(search.data, search.scorer.joins)
    unit_value = ensemble.value
    bounds = GainBounds(options)
    while not search.stop.is_over() and len(ensemble.clauses) != options.max_clauses:
        improving = partial(search_clause, ensemble=ensemble, bounds=bounds, options=options)
        found = search.collect(SELECTING, improving)
        if not found:
            break
        with search.stage(SELECTING) as own:
            ensemble.add(found[-1])
            own.refit(ensemble, l2=options.shrinkage)
        search.report("beam search", len(ensemble.clauses), None, wpll=ensemble.value)
        if search.stop.is_cut:
            break
    return build_selection(search, ensemble, list(bounds.alone.values()), unit_value)


def search_clause(
    search: RuleSearch, ensemble: Ensemble, bounds: GainBounds, options: MslOptions
) -> Iterator[Candidate]:
    """Yield the clauses that the beam search finds, each better than the one before."""
    known = set(ensemble.clauses)
    beam = bounds.best(
        search,
        ensemble,
        bounds.prepare(search, (c for c in list_pair_clauses(search, options) if c not in known)),
    )
    best = choose_clause(beam, options)
    if best is not None:
        yield best[1]
    while beam and not search.stop.is_over():
        near = {c for _, own in beam for c in neighbour_clauses(search, own, options)} - known
        longer = bounds.prepare(search, sorted(near | {c for _, c in beam}))
        improved = bounds.best(search, ensemble, longer)
        if improved == beam:
            break
        beam = improved
        found = choose_clause(beam, options)
        if found is not None and (best is None or found[0] > best[0]):
            best = found
            yield found[1]
        elif all(len(c) >= options.max_literals for _, c in beam):
            break


def choose_clause(
    beam: Sequence[tuple[float, Candidate]], options: MslOptions
) -> tuple[float, Candidate] | None:
    """Return the best clause of the beam that gains more than its penalty and is allowed."""
    for net, candidate in beam:
        if net > 0 and options.allows(candidate.path):
            return net, candidate
    return None


def list_pair_clauses(search: RuleSearch, options: MslOptions) -> Iterator[Candidate]:
    """Yield all connected clauses of two literals."""
    for path in chain.from_iterable(list_connected_paths(search, 2, options.max_variables)):
        for positive in range(4):
            yield canonicalize_clause(path, positive)


def list_connected_paths(
    search: RuleSearch, max_literals: int, max_variables: int
) -> Iterator[list[Path]]:
    """Yield all connected paths of 2, 3, … max_literals atoms in the language."""
    level = {
        canonicalize_clause((PathAtom(name, tuple(range(predicate.arity))),)).path: None
        for name, predicate in search.data.predicates.items()
    }
    for _ in range(max_literals - 1):
        level = {
            canonicalize_clause(longer).path: None
            for path in level
            for longer in extend_path(search, path, max_variables)
        }
        yield list(level)


def neighbour_clauses(
    search: RuleSearch, clause: Candidate, options: MslOptions
) -> Iterator[Candidate]:
    """Yield the clauses with one literal more or less, or with one sign flipped."""
    size = len(clause)
    for bit in range(size):
        yield canonicalize_clause(clause.path, clause.positive ^ 1 << bit)
    if size > 2:
        for bit in range(size):
            path = clause.path[:bit] + clause.path[bit + 1 :]
            low = clause.positive & (1 << bit) - 1
            if is_connected(path):
                yield canonicalize_clause(path, low | clause.positive >> bit + 1 << bit)
    if size < options.max_literals:
        for path in extend_path(search, clause.path, options.max_variables):
            for sign in (0, 1):
                yield canonicalize_clause(path, clause.positive | sign << size)


def extend_path(search: RuleSearch, path: Path, max_variables: int) -> Iterator[Path]:
    """Yield the paths with one more atom, which shares a variable or has no variables."""
    check_time("listing clauses")
    types = variable_types(path, search.data.predicates)
    fresh = max(types, default=-1) + 1
    for name, predicate in search.data.predicates.items():
        choices = [
            [*(v for v, own in types.items() if own == t), fresh + at]
            for at, t in enumerate(predicate.types)
        ]
        for variables in product(*choices):
            if types and variables and all(v >= fresh for v in variables):
                continue
            atom = PathAtom(name, tuple(variables))
            is_within = not max_variables or len(types.keys() | set(variables)) <= max_variables
            if atom not in path and is_within:
                yield (*path, atom)

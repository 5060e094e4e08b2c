"""The last step of every learner: from scored candidates to clauses with weights.

Candidates are looked at from short to long; one is retained if it scores above all of its retained
sub-clauses (LHL, section 3.3). The retained ones then enter the model together:

    greedy   one at a time by decreasing score, kept if the joint WPLL rises by more than the
             penalty of its length
    lazy     the one that adds most to what is there, again and again (`grow`). Gains shrink as the
             model grows, so the largest known gain is looked at first, and taken when it still
             leads
    l1       all at once; an L1 penalty sets the weights of most to zero
    l2       all at once, with small weights for what does not help
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import NamedTuple, TypeVar

from lapis.registry.options import StructureOptions
from lapis.structure.candidates import Search
from lapis.structure.clauses import Candidate, Path, has_dangling, sub_clauses
from lapis.structure.coupled_groups import is_summable, refit_groups
from lapis.structure.ensemble import SHRINKAGE, Ensemble
from lapis.structure.pricing import HeldOut, Prices
from lapis.structure.scores import ClauseScore
from lapis.structure.training_data import TrainingData

ZERO = 1e-8  # weights below are none
L1 = 1e-3  # price of a weight where the final model is thinned by it


@dataclass(frozen=True)
class Criteria:
    """What every learner's options say about clauses and the final model."""

    max_literals: int = 4  # literals
    max_variables: int = 4
    penalty: float = 0.01  # for each literal
    dangling: str = "keep"
    final: str = "greedy"
    max_clauses: int | None = None
    shrinkage: float | None = SHRINKAGE  # None: the prior of the pricing

    def allows(self, path: Path) -> bool:
        return self.dangling == "keep" or not has_dangling(path)


OptionsType = TypeVar("OptionsType", bound=Criteria)


def own_options(kind: type[OptionsType], options: StructureOptions) -> OptionsType:
    """The options of one learner: its own defaults where none is set."""
    given = {own.name: getattr(options, own.name, None) for own in fields(kind)}
    return kind(**{name: value for name, value in given.items() if value is not None})


class LearnedClause(NamedTuple):
    """A clause of the model, what it brought by itself and when it entered."""

    candidate: Candidate
    weight: float
    gain: float


class Selection(NamedTuple):
    """The model's clauses, unit weights by predicate, and the joint WPLL."""

    clauses: tuple[LearnedClause, ...]
    units: dict[str, float]
    value: float
    unit_value: float  # of unit clauses alone
    is_whole: bool  # no stop cut it short
    prices: Prices | None = None  # where they were not given
    held_out: HeldOut | None = None


def rank(score: ClauseScore, penalty: float, data: TrainingData) -> tuple[object, ...]:
    """Best first; of equals, what is likely said rather than what is unlikely, and rules first.

    Of those that couple atoms, the one that does so at true atoms of the others: they are few.
    """
    candidate = score.candidate
    net = score.worth - penalty * len(candidate)
    coupled = data.couples_any(candidate.path)
    num_positive = candidate.positive.bit_count()
    return -round(net, 9), coupled * num_positive, score.weight < 0, num_positive != 1, candidate


def retain(scores: Iterable[ClauseScore], penalty: float) -> list[ClauseScore]:
    """Candidates with a positive score that beat all their retained sub-clauses."""
    best: dict[Candidate, ClauseScore] = {}
    for score in scores:
        if score.worth - penalty * len(score.candidate) > 0:
            best.setdefault(score.candidate, score)
    kept: dict[Candidate, float] = {}
    found = []
    for score in sorted(best.values(), key=lambda s: (len(s.candidate), s.candidate)):
        own = score.worth - penalty * len(score.candidate)
        if all(own >= kept[sub] for sub in sub_clauses(score.candidate) if sub in kept):
            kept[score.candidate] = own
            found.append(score)
    return found


def select(search: Search, scores: Iterable[ClauseScore], criteria: Criteria) -> Selection:
    """The final model from the candidates that are retained."""
    penalty, l2 = criteria.penalty, criteria.shrinkage
    kept = retain(scores, penalty)
    ensemble = new_ensemble(search)
    unit_value = ensemble.value
    usable = [score for score in kept if criteria.allows(score.candidate.path)]
    usable.sort(key=lambda s: rank(s, penalty, search.data))
    match criteria.final:
        case "greedy":
            add_in_order(search, ensemble, usable, criteria)
        case "lazy":
            enters = partial(is_summable, search, ensemble)
            limit = criteria.max_clauses
            for _ in grow(search, ensemble, usable, (penalty,), l2, limit, enters):
                pass
        case _:
            for score in usable[: criteria.max_clauses]:
                if is_summable(search, ensemble, score.candidate):
                    ensemble.add(score.candidate)
            search.refit(ensemble, l1=L1 if criteria.final == "l1" else 0.0, l2=l2)
    refit_groups(search, ensemble, l2)
    return finish_selection(search, ensemble, usable, unit_value)


def new_ensemble(search: Search) -> Ensemble:
    """Unit clauses alone."""
    return Ensemble(search.data, search.scorer.joins, pricing=search.scorer.pricing)


def finish_selection(
    search: Search, ensemble: Ensemble, scores: Sequence[ClauseScore], unit_value: float
) -> Selection:
    """The ensemble's clauses, heaviest first, with what they bring alone."""
    gains = {s.candidate: s.gain for s in scores}
    clauses = [
        LearnedClause(candidate, float(weight), gains[candidate])
        for candidate, weight in zip(ensemble.clauses, ensemble.weights, strict=True)
        if abs(weight) > ZERO
    ]
    clauses.sort(key=lambda clause: -abs(clause.weight))
    units = {t.predicate: float(u) for t, u in zip(ensemble.targets, ensemble.units, strict=True)}
    return Selection(tuple(clauses), units, ensemble.value, unit_value, not search.stop.is_over())


def add_in_order(
    search: Search, ensemble: Ensemble, scores: Sequence[ClauseScore], criteria: Criteria
) -> None:
    for done, score in enumerate(scores):
        if search.stop.is_over() or len(ensemble.clauses) == criteria.max_clauses:
            return
        before, worth = ensemble.value, ensemble.worth()
        adds = search.gain_of(ensemble, score.candidate) > 0
        if adds and is_summable(search, ensemble, score.candidate):
            weights, units = ensemble.weights.copy(), ensemble.units.copy()
            ensemble.add(score.candidate)
            search.refit(ensemble, l2=criteria.shrinkage)
            if ensemble.worth() - worth <= criteria.penalty * len(score.candidate):
                ensemble.remove_last()
                ensemble.weights, ensemble.units, ensemble.value = weights, units, before
        search.tell(
            "selecting", done + 1, len(scores), clauses=len(ensemble.clauses), wpll=ensemble.value
        )


def grow(
    search: Search,
    ensemble: Ensemble,
    scores: Sequence[ClauseScore],
    penalties: Iterable[float],
    l2: float | None,
    max_clauses: int | None,
    may_enter: Callable[[Candidate], bool],
) -> Iterator[float]:
    """Add the clause that adds most, less its penalty, until none pays for its literals.

    Yields each penalty when the ensemble is the one for it; the next one goes on from there.
    """
    known = {number: (score.worth, -1) for number, score in enumerate(scores)}
    for penalty in penalties:
        price = [penalty * len(score.candidate) for score in scores]
        heap = [(round(price[number] - worth, 9), number) for number, (worth, _) in known.items()]
        heapq.heapify(heap)
        while heap and not search.stop.is_over() and len(ensemble.clauses) != max_clauses:
            negative, number = heapq.heappop(heap)
            if negative >= 0:
                break
            candidate = scores[number].candidate
            if known[number][1] < len(ensemble.clauses):
                worth = search.gain_of(ensemble, candidate)
                known[number] = worth, len(ensemble.clauses)
                heapq.heappush(heap, (round(price[number] - worth, 9), number))
                continue
            del known[number]
            if may_enter(candidate):
                ensemble.add(candidate)
                search.refit(ensemble, l2=l2)
                search.tell("selecting", len(ensemble.clauses), None, wpll=ensemble.value)
        yield penalty

"""Select clauses from scored candidates and fit their weights: the last step of every learner.

A candidate is retained if it scores above all of its retained sub-clauses (LHL, section 3.3). The
retained candidates then enter the model in one of these ways:

    greedy   one at a time by decreasing score, kept if the joint WPLL rises by more than the
             penalty of its length
    lazy     the clause with the largest gain in the current model, repeatedly (`grow_ensemble`).
             Gains shrink as the model grows, so the clause with the largest known gain is evaluated
             first, and added if its gain is still the largest
    l1       all together; an L1 penalty sets most weights to zero
    l2       all together; clauses that do not help get small weights

If rules condition on predicates, all atoms of a group G of targets are unknown together, and the
measure is the likelihood of the group given all other predicates,

    log P(X_G | X_rest) = w·n − log Z(X_rest).

If no clause has two atoms of G, the atoms are independent given the rest, and this is the
pseudo-likelihood of G. If a clause has two, it couples them, and the pseudo-likelihood is
optimistic: it conditions an atom on others that are unknown at prediction. So a clause is scored
only for predicates of which it has one unknown atom. If the network of a group that it couples
cannot be summed exactly, the clause is left out of that network, and explains its other predicates
alone. Finally all weights maximise the sum over groups of these likelihoods, each divided by the
number of its atoms.

What did not work: refusing such clauses (on IMDB only the movies that two people share predict who
worked under whom); keeping the weights of their scores (movies were predicted with overconfidence);
the prior of other clauses for them (see `fit_groups`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import compress
from typing import NamedTuple, TypeVar

import numpy as np

from lapis.errors import TooLarge
from lapis.language.printer import print_model
from lapis.language.resolve import parse_model
from lapis.learning.examples import build_examples
from lapis.learning.objectives.conditional import ConditionalObjective, conditional_objective
from lapis.learning.parameters import share_parameters
from lapis.registry.options import StructureOptions
from lapis.runtime.limits import is_time_limit
from lapis.runtime.progress import check_time
from lapis.structure.candidates import (
    Candidate,
    Path,
    has_dangling,
    sub_clauses,
    write_clause,
    write_unit,
)
from lapis.structure.clause_scores import ClauseScore
from lapis.structure.ensemble import SHRINKAGE, Ensemble
from lapis.structure.pricing import WIDTH, HeldOut, Prices
from lapis.structure.rule_search import RETAINING, SELECTING, RuleSearch
from lapis.structure.training_data import TrainingData

ZERO = 1e-8  # smaller weights are dropped
L1 = 1e-3  # λ₁ of the final model `l1`


@dataclass(frozen=True)
class Criteria:
    """Options of every learner for clauses and the final model."""

    max_literals: int = 4
    max_variables: int = 4
    penalty: float = 0.01  # for each literal
    dangling: str = "keep"
    final: str = "greedy"
    max_clauses: int | None = None
    shrinkage: float | None = SHRINKAGE  # None: the prior of the pricing

    def allows(self, path: Path) -> bool:
        return self.dangling == "keep" or not has_dangling(path)


OptionsType = TypeVar("OptionsType", bound=Criteria)


def learner_options(kind: type[OptionsType], options: StructureOptions) -> OptionsType:
    """Return the options of one learner, with its own defaults for those not given."""
    given = {own.name: getattr(options, own.name, None) for own in fields(kind)}
    return kind(**{name: value for name, value in given.items() if value is not None})


class LearnedClause(NamedTuple):
    """A clause of the model."""

    candidate: Candidate
    weight: float
    gain: float  # of the clause alone


class Selection(NamedTuple):
    """The model's clauses, unit weights by predicate, and the joint WPLL."""

    clauses: tuple[LearnedClause, ...]
    units: dict[str, float]
    value: float
    unit_value: float  # of unit clauses alone
    is_whole: bool  # False if it was interrupted
    prices: Prices | None = None  # if they were chosen
    held_out: HeldOut | None = None


def rank_score(score: ClauseScore, penalty: float, data: TrainingData) -> tuple[object, ...]:
    """Return a sort key: best first.

    Of equal scores, first clauses of positive weight, then those with one positive literal. Of
    clauses that couple atoms, first those with few positive literals: they couple fewer groundings.
    """
    candidate = score.candidate
    net = score.worth - penalty * len(candidate)
    coupled = data.couples_any(candidate.path)
    num_positive = candidate.positive.bit_count()
    return -round(net, 9), coupled * num_positive, score.weight < 0, num_positive != 1, candidate


def retain_candidates(scores: Iterable[ClauseScore], penalty: float) -> Iterator[ClauseScore]:
    """Yield the candidates with a positive score that beat all their retained sub-clauses.

    Shorter ones come first.
    """
    best: dict[Candidate, ClauseScore] = {}
    for score in scores:
        if score.worth - penalty * len(score.candidate) > 0:
            best.setdefault(score.candidate, score)
    kept: dict[Candidate, float] = {}
    for score in sorted(best.values(), key=lambda s: (len(s.candidate), s.candidate)):
        check_time("selecting rules")
        own = score.worth - penalty * len(score.candidate)
        if all(own >= kept[sub] for sub in sub_clauses(score.candidate) if sub in kept):
            kept[score.candidate] = own
            yield score


def select_clauses(
    search: RuleSearch, scores: Sequence[ClauseScore], criteria: Criteria
) -> Selection:
    """Build the final model from the retained candidates."""
    penalty = criteria.penalty
    kept = search.collect(RETAINING, lambda _: retain_candidates(scores, penalty))
    ensemble = new_ensemble(search)
    unit_value = ensemble.value
    usable = [score for score in kept if criteria.allows(score.candidate.path)]
    usable.sort(key=lambda s: rank_score(s, penalty, search.data))
    with search.stage(SELECTING) as own:
        add_selected(own, ensemble, usable, criteria)
    refit_groups(search, ensemble, criteria.shrinkage)
    return build_selection(search, ensemble, usable, unit_value)


def add_selected(
    search: RuleSearch, ensemble: Ensemble, usable: Sequence[ClauseScore], criteria: Criteria
) -> None:
    """Add clauses, best first, and fit their weights."""
    penalty, l2 = criteria.penalty, criteria.shrinkage
    match criteria.final:
        case "greedy":
            add_greedily(search, ensemble, usable, criteria)
        case "lazy":
            enters = partial(fits_networks, search, ensemble)
            limit = criteria.max_clauses
            for _ in grow_ensemble(search, ensemble, usable, (penalty,), l2, limit, enters):
                pass
        case _:
            for score in usable[: criteria.max_clauses]:
                if fits_networks(search, ensemble, score.candidate):
                    ensemble.add(score.candidate)
            search.refit(ensemble, l1=L1 if criteria.final == "l1" else 0.0, l2=l2)


def new_ensemble(search: RuleSearch) -> Ensemble:
    """Return an ensemble of unit clauses."""
    return Ensemble(search.data, search.scorer.joins, pricing=search.scorer.pricing)


def build_selection(
    search: RuleSearch, ensemble: Ensemble, scores: Sequence[ClauseScore], unit_value: float
) -> Selection:
    """Return the ensemble's clauses, heaviest first, with their gains alone."""
    gains = {s.candidate: s.gain for s in scores}
    clauses = [
        LearnedClause(candidate, float(weight), gains[candidate])
        for candidate, weight in zip(ensemble.clauses, ensemble.weights, strict=True)
        if abs(weight) > ZERO
    ]
    clauses.sort(key=lambda clause: -abs(clause.weight))
    units = {t.predicate: float(u) for t, u in zip(ensemble.targets, ensemble.units, strict=True)}
    return Selection(tuple(clauses), units, ensemble.value, unit_value, search.is_whole)


def add_greedily(
    search: RuleSearch, ensemble: Ensemble, scores: Sequence[ClauseScore], criteria: Criteria
) -> None:
    for done, score in enumerate(scores):
        if search.stop.is_over() or len(ensemble.clauses) == criteria.max_clauses:
            return
        before, worth = ensemble.value, ensemble.worth()
        adds = search.gain_of(ensemble, score.candidate) > 0
        if adds and fits_networks(search, ensemble, score.candidate):
            weights, units = ensemble.weights.copy(), ensemble.units.copy()
            ensemble.add(score.candidate)
            search.refit(ensemble, l2=criteria.shrinkage)
            if ensemble.worth() - worth <= criteria.penalty * len(score.candidate):
                ensemble.remove_last()
                ensemble.weights, ensemble.units, ensemble.value = weights, units, before
        search.report(
            "selecting", done + 1, len(scores), clauses=len(ensemble.clauses), wpll=ensemble.value
        )


def grow_ensemble(
    search: RuleSearch,
    ensemble: Ensemble,
    scores: Sequence[ClauseScore],
    penalties: Iterable[float],
    l2: float | None,
    max_clauses: int | None,
    may_enter: Callable[[Candidate], bool],
) -> Iterator[float]:
    """Add the clause with the largest gain minus penalty, until none gains more than its penalty.

    Yields each penalty when the ensemble for it is complete; the next penalty continues from it.
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
                search.report("selecting", len(ensemble.clauses), None, wpll=ensemble.value)
        yield penalty


MAX_TABLES = 1 << 24  # bytes, of a group in one world
TOLERANCE = 1e-7  # of the gradient


class CoupledGroup(NamedTuple):
    """The likelihood of a group as a function of the weights of clauses, then units."""

    predicates: tuple[str, ...]
    objective: ConditionalObjective
    share: float  # of one atom
    chosen: np.ndarray  # bool[num_clauses + num_units], the weights of the networks

    def at(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and its gradient."""
        point = self.objective.evaluate(weights[self.chosen])
        assert point.value is not None
        gradient = np.zeros(len(weights))
        gradient[self.chosen] = self.share * point.gradient
        return self.share * point.value, gradient


def find_coupled_groups(ensemble: Ensemble, clauses: Sequence[Candidate]) -> list[tuple[str, ...]]:
    """Return the groups that some clause couples in their networks."""
    found = {group for clause in clauses for group in ensemble.coupled_groups(clause)}
    return [group for group in ensemble.data.groups if group in found]


def ground_group(
    search: RuleSearch, ensemble: Ensemble, clauses: Sequence[Candidate], group: tuple[str, ...]
) -> CoupledGroup:
    """Ground the networks of a group. Raises TooLarge if they cannot be summed exactly."""
    data = search.data
    units = [target.predicate for target in ensemble.targets]
    enters = [(group, clause) not in ensemble.left_out for clause in clauses]
    chosen = np.array([*enters, *[True] * len(units)])
    lines = [f"1 {write_clause(clause, data.predicates)}" for clause in compress(clauses, enters)]
    lines += [f"1 {write_unit(data.predicates[name])}" for name in units]
    model = parse_model(print_model(search.model) + "\n".join(lines) + "\n")
    examples = build_examples(model, search.databases, group)
    parameters = share_parameters(model, [example.complete for example in examples])
    objective = conditional_objective(
        examples, parameters, expectation="exact", max_memory=MAX_TABLES
    )
    return CoupledGroup(group, objective, data.atom_share[group[0]], chosen)


def fits_networks(search: RuleSearch, ensemble: Ensemble, candidate: Candidate) -> bool:
    """Return whether `refit_groups` can sum all coupled groups exactly if a clause is added.

    A clause is left out of the network of a group that it couples, if the network could not be
    summed with it.
    """
    clauses = [*ensemble.clauses, candidate]
    mentioned = {atom.predicate for atom in candidate.path}
    for group in find_coupled_groups(ensemble, clauses):
        if mentioned.isdisjoint(group):
            continue
        try:
            ground_group(search, ensemble, clauses, group)
        except TooLarge as error:
            if is_time_limit(error):
                raise
            if group not in ensemble.coupled_groups(candidate):
                return False
            ensemble.left_out.add((group, candidate))
    return True


class GroupFit(NamedTuple):
    """Weights of clauses, then units, and the value of the ensemble with them."""

    loss: float
    weights: np.ndarray  # float64[num_clauses + num_units]
    value: float


def refit_groups(search: RuleSearch, ensemble: Ensemble, l2: float | None) -> None:
    """Fit weights and value of the ensemble by the likelihoods of all groups.

    If the time ends, the best weights so far are used; without any, the clauses that couple atoms
    leave the ensemble.
    """
    coupled = find_coupled_groups(ensemble, ensemble.clauses)
    if not coupled:
        return
    best: list[GroupFit] = []  # of the points so far, at most one
    with search.stage(1.0):
        best = [fit_groups(search, ensemble, coupled, l2, best)]
    if not best:
        ensemble.keep([not ensemble.coupled_groups(clause) for clause in ensemble.clauses])
        return
    _, weights, ensemble.value = best[0]
    size = len(ensemble.clauses)
    ensemble.weights, ensemble.units = weights[:size], weights[size:]


def fit_groups(
    search: RuleSearch,
    ensemble: Ensemble,
    coupled: Sequence[tuple[str, ...]],
    l2: float | None,
    best: list[GroupFit],
) -> GroupFit:
    """Maximise the likelihoods of all groups; `best` gets the best point so far.

    Atoms that a clause couples depend on each other, so a world is one observation of such a
    clause, not one for each atom. Its prior has the same width as that of other clauses.
    """
    from scipy.optimize import minimize

    groups = [ground_group(search, ensemble, ensemble.clauses, group) for group in coupled]
    left_out = {name for group in groups for name in group.predicates}
    scale, ridge = ensemble.scales(l2)
    if l2 is None:
        couples = [bool(ensemble.coupled_groups(clause)) for clause in ensemble.clauses]
        ridge[: len(couples)][couples] = 1 / (search.data.num_worlds * WIDTH**2)

    def value_at(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = ensemble.value_at(point, left_out)
        for group in groups:
            own, slope = group.at(point)
            value, gradient = value + own, gradient + slope
        return value, gradient

    def loss(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_at(scaled / scale)
        total = float(ridge @ scaled**2) / 2 - value
        if not best or total < best[0].loss:
            best[:] = [GroupFit(total, scaled / scale, value)]
        return total, ridge * scaled - gradient / scale

    start = np.concatenate([ensemble.weights, ensemble.units]) * scale
    options = {"maxiter": 500, "gtol": TOLERANCE, "ftol": 0.0}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    return GroupFit(float(found.fun), found.x / scale, value_at(found.x / scale)[0])

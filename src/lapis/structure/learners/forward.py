"""Exhaustive forward selection over connected clauses, at penalties chosen on held-out data.

Counting makes scores cheap, so candidates need no clustering. They are all connected clauses of two
and three literals in the language (where MSL starts), and longer ones along paths in the data
(found as in LHL, on the ground hypergraph). All are scored exactly; a candidate must beat its
sub-clauses. Two kinds of redundant clauses are left out unless `redundant` is "keep":

- A clause that is equivalent to a shorter one (`is_condensed`). r(a, b) ^ r(a, c) ^ s(b) => t(a)
  may fit better than r(a, b) ^ s(b) => t(a), but only because its counts differ.
- A clause whose differences grow with the domains (`is_range_restricted`). Its counts are those of
  two other clauses and the number of constants, so its weight fits worlds of one size only.

The model then grows by the clause with the largest gain (`grow_ensemble`), so that a second clause
with the same meaning does not enter. Prices are chosen on held-out parts (`penalty_choice`) unless
a penalty is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import inf

from lapis.registry.options import StructureOptions
from lapis.structure.candidates import Path, is_condensed, is_range_restricted
from lapis.structure.clause_scores import ClauseScore
from lapis.structure.learners.find_paths import find_paths
from lapis.structure.learners.lift_graph import ground_graph
from lapis.structure.learners.msl import list_connected_paths
from lapis.structure.penalty_choice import (
    LEVELS,
    PenaltyCandidates,
    choose_prices,
    default_prices,
    grow_model,
    hold_out,
    repeats_target,
)
from lapis.structure.pricing import WIDTH, HeldOut, Prices, Pricing, flat_pricing, nat_pricing
from lapis.structure.rule_search import PRICING, RETAINING, SCORING, SELECTING, RuleSearch
from lapis.structure.select import (
    Criteria,
    Selection,
    build_selection,
    fits_networks,
    learner_options,
    new_ensemble,
    rank_score,
    refit_groups,
    retain_candidates,
    select_clauses,
)


@dataclass(frozen=True)
class ForwardOptions(Criteria):
    final: str = "lazy"
    redundant: str = "drop"
    shrinkage: float | None = None
    seed: int = 0


def learn_forward(search: RuleSearch, given: StructureOptions) -> Selection:
    """Learn rules by exact scores and forward selection."""
    options = learner_options(ForwardOptions, given)
    width = WIDTH if options.shrinkage is None else inf
    if given.penalty is not None or options.final != "lazy":
        priced = search.with_pricing(Pricing(flat_pricing(search.data).worth, width))
        scores = priced.collect(SCORING, partial(score_candidates, options=options))
        return select_clauses(priced, scores, options)
    search = search.with_pricing(nat_pricing(search.data, width=width))
    scores = search.collect(SCORING, partial(score_candidates, options=options))
    kept = search.collect(RETAINING, lambda _: retain_candidates(scores, LEVELS[-1]))
    candidates = divide_candidates(search, kept)
    prices, held = choose_in_time(search, options)
    ensemble = new_ensemble(search)
    unit_value = ensemble.value
    with search.stage(SELECTING) as own:
        grow_model(
            own, ensemble, candidates, prices, options.shrinkage, options.max_clauses,
            partial(fits_networks, own, ensemble),
        )  # fmt: skip
    refit_groups(search, ensemble, options.shrinkage)
    usable = [*candidates.plain, *candidates.coupling]
    return build_selection(search, ensemble, usable, unit_value)._replace(
        prices=prices, held_out=held
    )


def choose_in_time(search: RuleSearch, options: ForwardOptions) -> tuple[Prices, HeldOut | None]:
    """Choose prices on held-out parts; the default if there are none, or the time is too short."""
    found: tuple[Prices, HeldOut] | None = None
    parts = hold_out(search.data, options.seed) if search.is_whole else None
    if parts is not None:
        find = partial(find_candidates, options=options)
        with search.stage(PRICING) as own:
            found = choose_prices(own, parts, find, options.shrinkage)
    return (default_prices(search.data), None) if found is None else found


def find_candidates(search: RuleSearch, options: ForwardOptions) -> PenaltyCandidates:
    """Return the candidates that beat their sub-clauses at the lowest price."""
    return divide_candidates(
        search, retain_candidates(score_candidates(search, options), LEVELS[-1])
    )


def divide_candidates(search: RuleSearch, scores: Iterable[ClauseScore]) -> PenaltyCandidates:
    """Return the clauses, best first, in two lists."""
    kept = sorted(scores, key=lambda score: rank_score(score, LEVELS[-1], search.data))
    coupling = [repeats_target(search.data, score.candidate.path) for score in kept]
    return PenaltyCandidates(
        [score for score, own in zip(kept, coupling, strict=True) if not own],
        [score for score, own in zip(kept, coupling, strict=True) if own],
    )


def score_candidates(search: RuleSearch, options: ForwardOptions) -> Iterator[ClauseScore]:
    """Yield the scores of the paths' clauses, shortest first, without the redundant ones."""
    targets = search.data.targets
    for paths in list_new_paths(search, options):
        for score in chain.from_iterable(search.score_paths(paths)):
            if options.redundant == "keep" or (
                is_condensed(score.candidate) and is_range_restricted(score.candidate, targets)
            ):
                yield score
        if search.stop.is_over():
            return


def list_new_paths(search: RuleSearch, options: ForwardOptions) -> Iterator[list[Path]]:
    """Yield by length all connected paths of up to three literals, and longer ones in the data."""
    listed: set[Path] = set()
    for paths in list_connected_paths(search, min(3, options.max_literals), options.max_variables):
        listed.update(paths)
        yield [path for path in paths if options.allows(path)]
    if options.max_literals > 3:
        for found in find_paths(
            ground_graph(search.data), options.max_literals, max_variables=options.max_variables,
            progress=search.progress, stop=search.stop,
        ):  # fmt: skip
            new = [each.path for each in found if each.path not in listed]
            yield [path for path in new if options.allows(path)]

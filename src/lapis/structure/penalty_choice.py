"""The price of a literal in nats, chosen on held-out parts of the training data.

On each fold the model grows on the training part at prices that are halved from level to level
(`grow`, warm from one level to the next). At each level the log-likelihood of each predicate's
atoms in the held-out part is taken. Each predicate gets the price at which its sum over folds is
largest, the highest of equals. A price in nats hardly depends on the amount of data, so a price
from a part serves the whole.

In the held-out part rules are calibrated first: the unit weight and a common factor of the weights
are fitted there (`Ensemble.calibrated`). The share of true atoms and the largest counts differ from
world to world, and a shift of either would hide whether the rules order the atoms well. The gain
that is reported (`HeldOut`) is that of the weights as learned.

Clauses with two atoms of one target ("coupling") enter after all others, at prices of their own.
The pseudo-likelihood credits them with what other atoms of the same predicate say: where each
student has one adviser, the student's other pairs determine each pair, and rules about who advises
whom would gain nothing. Now these rules enter first, and serve where no adviser is known. Coupling
clauses are judged without calibration, because a new unit weight would adapt counts of the
predicate's own atoms to any world. They get the highest price within one standard error of the best
(Breiman et al. 1984): one that does not carry over does much harm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from lapis.structure.candidates import Search
from lapis.structure.clauses import Candidate, Path
from lapis.structure.ensemble import Ensemble
from lapis.structure.held_out import Parts
from lapis.structure.paths.path_differences import PartSums
from lapis.structure.pricing import HeldOut, PredicateGain, Prices, nat_pricing
from lapis.structure.scores import ClauseScore, Scorer
from lapis.structure.select import grow, new_ensemble
from lapis.structure.training_data import TrainingData

LEVELS = tuple(2.0**power for power in range(7, -2, -1))  # nats for each literal
USUAL = 4.0  # where nothing is held out


class Candidates(NamedTuple):
    """Scored clauses, in nats, best first."""

    plain: Sequence[ClauseScore]
    coupling: Sequence[ClauseScore]


class Run(NamedTuple):
    """A fold with its candidates."""

    search: Search
    candidates: Candidates
    test: TrainingData
    test_joins: PartSums


def usual_prices(data: TrainingData) -> Prices:
    return Prices(*(dict.fromkeys(data.targets, USUAL) for _ in range(2)))


def repeats_target(data: TrainingData, path: Path) -> bool:
    """Whether two atoms of the path are of one target, or unknown at once."""
    names = [atom.predicate for atom in path if atom.predicate in data.targets]
    return len(set(names)) < len(names) or data.couples_any(path)


def grow_model(
    search: Search,
    ensemble: Ensemble,
    candidates: Candidates,
    prices: Prices,
    l2: float | None,
    max_clauses: int | None = None,
    may_enter: Callable[[Candidate], bool] = lambda _: True,
) -> None:
    """Add what pays: first clauses in which no target occurs twice, then the others."""
    width = ensemble.pricing.width
    for scores, own in zip(candidates, prices, strict=True):
        ensemble.pricing = nat_pricing(search.data, own, width)
        least = min(own.values())
        bounds = [score._replace(worth=score.worth / least) for score in scores]
        levels = [level / least for level in LEVELS if level >= least]
        for _ in grow(search, ensemble, bounds, levels, l2, max_clauses, may_enter):
            pass


def choose_prices(
    search: Search,
    parts: Parts,
    find: Callable[[Search], Candidates],
    l2: float | None,
) -> tuple[Prices, HeldOut] | None:
    """Prices by held-out likelihood, and how far gains carry; None where the search is stopped.

    `find` gives the candidates for the training data of a search.
    """
    width = search.scorer.pricing.width
    runs = []
    for train, test in parts.folds:
        own = search._replace(scorer=Scorer(train, pricing=nat_pricing(train, width=width)))
        runs.append(Run(own, find(own), test, PartSums(test)))
    prices = usual_prices(search.data)
    for stage in Prices._fields:
        curves = [follow_levels(run, stage, prices, l2) for run in runs]
        if search.stop.is_over():
            return None
        chosen = best_levels(
            search.data.targets, parts.judged, np.array(curves), float(stage == "coupling")
        )
        prices = prices._replace(**{stage: chosen})
    held = judge(search, parts, runs, prices, l2)
    return None if search.stop.is_over() else (prices, held)


def follow_levels(run: Run, stage: str, prices: Prices, l2: float | None) -> np.ndarray:
    """float64[num_levels, num_targets], nats of the held-out atoms as the price falls.

    The second stage goes on from the model of the first at the prices chosen for it.
    """
    none = Candidates((), ())
    start = run.candidates._replace(coupling=()) if stage == "coupling" else none
    ensemble = new_ensemble(run.search)
    grow_model(run.search, ensemble, start, prices, l2)
    ensemble.pricing = run.search.scorer.pricing
    scores = getattr(run.candidates, stage)
    test = Ensemble(run.test, run.test_joins)
    return np.array(
        [
            held_out_nats(ensemble, test, calibrates=stage == "plain")
            for _ in grow(run.search, ensemble, scores, LEVELS, l2, None, lambda _: True)
        ]
    )


def held_out_nats(ensemble: Ensemble, test: Ensemble, *, calibrates: bool = False) -> np.ndarray:
    """float64[num_targets], the log-likelihood of each target's atoms; `test` gets the clauses."""
    for clause in ensemble.clauses[len(test.clauses) :]:
        test.add(clause)
    units = {t.predicate: u for t, u in zip(ensemble.targets, ensemble.units, strict=True)}
    test.weights = ensemble.weights
    test.units = np.array([units.get(target.predicate, 0.0) for target in test.targets])
    return nats(test, test.calibrated() if calibrates else test.values())


def nats(ensemble: Ensemble, values: np.ndarray) -> np.ndarray:
    """float64[num_targets], the log-likelihood of each target's atoms, from their means."""
    found = dict.fromkeys(ensemble.data.targets, 0.0)
    for target, value in zip(ensemble.targets, values, strict=True):
        found[target.predicate] = value / ensemble.data.atom_share[target.predicate]
    return np.array(list(found.values()))


def best_levels(
    targets: Sequence[str], judged: Sequence[str], curves: np.ndarray, num_errors: float
) -> dict[str, float]:
    """The price of each target; the usual one if it was not judged.

    Curves are float64[num_folds, num_levels, num_targets].
    """
    return {
        name: LEVELS[choose_level(curves[:, :, at], num_errors)] if name in judged else USUAL
        for at, name in enumerate(targets)
    }


def choose_level(nats: np.ndarray, num_errors: float) -> int:
    """The first level within `num_errors` standard errors of the best one.

    `nats` are float64[num_folds, num_levels]; the best level has the largest sum over folds, and
    the error is that of its lead, fold by fold.
    """
    lead = nats[:, [np.argmax(nats.sum(axis=0))]] - nats
    error = np.sqrt(len(nats)) * lead.std(axis=0, ddof=1)
    return int(np.argmax(lead.sum(axis=0) <= num_errors * error + 1e-6))


def judge(
    search: Search, parts: Parts, runs: Sequence[Run], prices: Prices, l2: float | None
) -> HeldOut:
    """What the models at these prices gain in the parts that they were not learned from."""
    held, training, num_held, num_learned = np.zeros((4, len(search.data.targets)))
    for run in runs:
        ensemble = new_ensemble(run.search)
        test = Ensemble(run.test, run.test_joins)
        before = held_out_nats(ensemble, test), nats(ensemble, ensemble.values())
        grow_model(run.search, ensemble, run.candidates, prices, l2)
        held += held_out_nats(ensemble, test) - before[0]
        training += nats(ensemble, ensemble.values()) - before[1]
        num_held += [run.test.num_atoms[name] for name in search.data.targets]
        num_learned += [run.search.data.num_atoms[name] for name in search.data.targets]
    means = zip(held / np.maximum(1, num_held), training / np.maximum(1, num_learned), strict=True)
    gains = dict(zip(search.data.targets, means, strict=True))
    return HeldOut(
        parts.split_by,
        len(runs),
        {name: PredicateGain(*map(float, gains[name])) for name in parts.judged},
    )

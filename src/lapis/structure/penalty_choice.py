"""The price of a literal in nats, chosen on held-out parts of the training data.

On each fold the model grows on the training part at prices that are halved from level to level
(`grow_ensemble`, which continues from the level before). At each level the log-likelihood of each
predicate's atoms in the held-out part is taken. Each predicate gets the price at which its sum over
folds is largest, the highest of equals. A price in nats hardly depends on the amount of data, so a
price from a part serves the whole.

In the held-out part rules are calibrated first: the unit weight and a common factor of the weights
are fitted there (`Ensemble.calibrated`). The share of true atoms and the largest counts differ from
world to world, and a shift of either would hide whether the rules rank the atoms well. The reported
gain (`HeldOut`) is that of the weights as learned.

Clauses with two atoms of one target ("coupling") enter after all others, at their own prices. The
pseudo-likelihood conditions on the other atoms of the same predicate: if each student has one
adviser, the student's other pairs determine each pair, and rules that predict advisers from other
predicates would gain nothing. So these rules enter first, and can be used when no adviser is known.
Coupling clauses are evaluated without calibration, because a new unit weight would adapt counts of
the predicate's own atoms to any world. They get the highest price within one standard error of the
best (Breiman et al. 1984, "Classification and regression trees"), because a coupling clause that
does not generalise does much harm.

**Held-out parts.** Several worlds are divided into parts. A single world is split by the constants
of one type, the type that occurs in most targets. A part is the world over the part's constants and
all constants of other types, with the true atoms among them. Atoms with constants of two parts are
in neither. If true atoms link the constants into several components, each component stays in one
part; if a component is larger than the smaller part, constants are assigned one by one. The parts
have one and two thirds of the constants, because other worlds have other sizes.

Holding out single atoms of a world does not work, because counts over the other atoms determine
them. If 24 of 48 people are tall, a person with 23 other tall people is tall. That is true of every
atom of this world, held out or not, and of no other world. Parts have other counts.

A predicate without an argument of the split type is the same in all parts, so it is not evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lapis.data.database import Domain
from lapis.relational.interpretation import Extension, Interpretation
from lapis.structure.candidates import Candidate, Path
from lapis.structure.clause_scores import ClauseScore, Scorer
from lapis.structure.ensemble import Ensemble
from lapis.structure.path_differences import PartSums
from lapis.structure.pricing import HeldOut, PredicateGain, Prices, nat_pricing
from lapis.structure.rule_search import RuleSearch
from lapis.structure.select import grow_ensemble, new_ensemble
from lapis.structure.training_data import TrainingData, join_interpretations

LEVELS = tuple(2.0**power for power in range(7, -2, -1))  # nats for each literal
DEFAULT_PRICE = 4.0  # if nothing is held out


class PenaltyCandidates(NamedTuple):
    """Scored clauses, in nats, best first."""

    plain: Sequence[ClauseScore]
    coupling: Sequence[ClauseScore]


class FoldRun(NamedTuple):
    """A fold with its candidates."""

    search: RuleSearch
    candidates: PenaltyCandidates
    test: TrainingData
    test_joins: PartSums


def default_prices(data: TrainingData) -> Prices:
    return Prices(*(dict.fromkeys(data.targets, DEFAULT_PRICE) for _ in range(2)))


def repeats_target(data: TrainingData, path: Path) -> bool:
    """Return whether two atoms of the path are of one target, or of one group."""
    names = [atom.predicate for atom in path if atom.predicate in data.targets]
    return len(set(names)) < len(names) or data.couples_any(path)


def grow_model(
    search: RuleSearch,
    ensemble: Ensemble,
    candidates: PenaltyCandidates,
    prices: Prices,
    l2: float | None,
    max_clauses: int | None = None,
    may_enter: Callable[[Candidate], bool] = lambda _: True,
) -> None:
    """Grow the ensemble at the prices: first without coupling clauses, then with them."""
    width = ensemble.pricing.width
    for scores, own in zip(candidates, prices, strict=True):
        ensemble.pricing = nat_pricing(search.data, own, width)
        least = min(own.values())
        bounds = [score._replace(worth=score.worth / least) for score in scores]
        levels = [level / least for level in LEVELS if level >= least]
        for _ in grow_ensemble(search, ensemble, bounds, levels, l2, max_clauses, may_enter):
            pass


def choose_prices(
    search: RuleSearch,
    parts: Parts,
    find: Callable[[RuleSearch], PenaltyCandidates],
    l2: float | None,
) -> tuple[Prices, HeldOut] | None:
    """Choose prices by held-out likelihood; return them and held-out gains; None if interrupted.

    `find` returns the candidates for the training data of a search.
    """
    width = search.scorer.pricing.width
    runs = []
    for train, test in parts.folds:
        own = search._replace(scorer=Scorer(train, pricing=nat_pricing(train, width=width)))
        runs.append(FoldRun(own, find(own), test, PartSums(test)))
    prices = default_prices(search.data)
    for stage in Prices._fields:
        curves = [measure_levels(run, stage, prices, l2) for run in runs]
        if search.stop.is_over():
            return None
        chosen = choose_levels(
            search.data.targets, parts.evaluated, np.array(curves), float(stage == "coupling")
        )
        prices = prices._replace(**{stage: chosen})
    held = measure_held_out(search, parts, runs, prices, l2)
    return None if search.stop.is_over() else (prices, held)


def measure_levels(run: FoldRun, stage: str, prices: Prices, l2: float | None) -> np.ndarray:
    """Return float64[num_levels, num_targets], nats of the held-out atoms at each price.

    The second stage continues from the model of the first at the prices chosen for it.
    """
    none = PenaltyCandidates((), ())
    start = run.candidates._replace(coupling=()) if stage == "coupling" else none
    ensemble = new_ensemble(run.search)
    grow_model(run.search, ensemble, start, prices, l2)
    ensemble.pricing = run.search.scorer.pricing
    scores = getattr(run.candidates, stage)
    test = Ensemble(run.test, run.test_joins)
    return np.array(
        [
            held_out_nats(ensemble, test, calibrates=stage == "plain")
            for _ in grow_ensemble(run.search, ensemble, scores, LEVELS, l2, None, lambda _: True)
        ]
    )


def held_out_nats(ensemble: Ensemble, test: Ensemble, *, calibrates: bool = False) -> np.ndarray:
    """Return float64[num_targets], nats of the atoms in `test`, which gets the clauses."""
    for clause in ensemble.clauses[len(test.clauses) :]:
        test.add(clause)
    units = {t.predicate: u for t, u in zip(ensemble.targets, ensemble.units, strict=True)}
    test.weights = ensemble.weights
    test.units = np.array([units.get(target.predicate, 0.0) for target in test.targets])
    return convert_to_nats(test, test.calibrated() if calibrates else test.values())


def convert_to_nats(ensemble: Ensemble, values: np.ndarray) -> np.ndarray:
    """Return float64[num_targets], the log-likelihood of each target's atoms, from their means."""
    found = dict.fromkeys(ensemble.data.targets, 0.0)
    for target, value in zip(ensemble.targets, values, strict=True):
        found[target.predicate] = value / ensemble.data.atom_share[target.predicate]
    return np.array(list(found.values()))


def choose_levels(
    targets: Sequence[str], evaluated: Sequence[str], curves: np.ndarray, num_errors: float
) -> dict[str, float]:
    """Return the price of each target; the default if it was not evaluated.

    Curves are float64[num_folds, num_levels, num_targets].
    """
    return {
        name: LEVELS[choose_level(curves[:, :, at], num_errors)]
        if name in evaluated
        else DEFAULT_PRICE
        for at, name in enumerate(targets)
    }


def choose_level(nats: np.ndarray, num_errors: float) -> int:
    """Return the first level within `num_errors` standard errors of the best one.

    `nats` are float64[num_folds, num_levels]; the best level has the largest sum over folds, and
    the error is that of its lead, fold by fold.
    """
    lead = nats[:, [np.argmax(nats.sum(axis=0))]] - nats
    error = np.sqrt(len(nats)) * lead.std(axis=0, ddof=1)
    return int(np.argmax(lead.sum(axis=0) <= num_errors * error + 1e-6))


def measure_held_out(
    search: RuleSearch, parts: Parts, runs: Sequence[FoldRun], prices: Prices, l2: float | None
) -> HeldOut:
    """Measure the gain of models at these prices in the parts that they were not learned from."""
    held, training, num_held, num_learned = np.zeros((4, len(search.data.targets)))
    for run in runs:
        ensemble = new_ensemble(run.search)
        test = Ensemble(run.test, run.test_joins)
        before = held_out_nats(ensemble, test), convert_to_nats(ensemble, ensemble.values())
        grow_model(run.search, ensemble, run.candidates, prices, l2)
        held += held_out_nats(ensemble, test) - before[0]
        training += convert_to_nats(ensemble, ensemble.values()) - before[1]
        num_held += [run.test.num_atoms[name] for name in search.data.targets]
        num_learned += [run.search.data.num_atoms[name] for name in search.data.targets]
    means = zip(held / np.maximum(1, num_held), training / np.maximum(1, num_learned), strict=True)
    gains = dict(zip(search.data.targets, means, strict=True))
    return HeldOut(
        parts.split_by,
        len(runs),
        {name: PredicateGain(*map(float, gains[name])) for name in parts.evaluated},
    )


MAX_PARTS = 4
SHARES = np.array([1, 2]) / 3  # of a single world's constants
NUM_SPLITS = 2  # of a single world's constants
MIN_CONSTANTS = 8  # constants of a part


class TrainingFold(NamedTuple):
    """Training data, and the part that was held out."""

    train: TrainingData
    test: TrainingData


class Parts(NamedTuple):
    """The folds of the training data."""

    folds: tuple[TrainingFold, ...]
    split_by: str  # "worlds", or the type whose constants are split
    evaluated: tuple[str, ...]  # the targets that differ between parts


def hold_out(data: TrainingData, seed: int) -> Parts | None:
    """Split the data into folds, each part once the test; None if they are too small."""
    generator = np.random.default_rng(seed)
    if data.num_worlds > 1:
        order = generator.permutation(data.num_worlds)
        number = min(MAX_PARTS, data.num_worlds)
        parts = [[data.worlds[w] for w in sorted(order[at::number])] for at in range(number)]
        return Parts(build_training_folds(data, parts), "worlds", data.targets)
    type_name = choose_split_type(data)
    if type_name is None:
        return None
    folds: list[TrainingFold] = []
    for _ in range(NUM_SPLITS):
        part_of = assign_constants(data, type_name, generator)
        kept = [part_of == part for part in range(len(SHARES))]
        parts = [[restrict_world(data.worlds[0], type_name, own)] for own in kept]
        folds += build_training_folds(data, parts)
    evaluated = tuple(n for n in data.targets if type_name in data.predicates[n].types)
    return Parts(tuple(folds), type_name, evaluated)


def build_training_folds(
    data: TrainingData, parts: Sequence[Sequence[Interpretation]]
) -> tuple[TrainingFold, ...]:
    """Return a fold for each part: the others are the training data."""
    folds = []
    for held in range(len(parts)):
        rest = [world for number, part in enumerate(parts) if number != held for world in part]
        folds.append(
            TrainingFold(*(join_interpretations(data, worlds) for worlds in (rest, parts[held])))
        )
    return tuple(folds)


def choose_split_type(data: TrainingData) -> str | None:
    """Choose the type that occurs in most targets, of equals the largest; None if all are small."""
    large = [t for t in data.offset if data.worlds[0].size(t) * SHARES.min() >= MIN_CONSTANTS]
    targets = [data.predicates[name] for name in data.targets]
    found = [(sum(t in p.types for p in targets), data.worlds[0].size(t), t) for t in large]
    best = max(found, default=(0, 0, ""))
    return best[2] if best[0] else None


def assign_constants(
    data: TrainingData, type_name: str, generator: np.random.Generator
) -> np.ndarray:
    """Return int64[size], the part of each constant; components stay whole if they fit."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = data.worlds[0].size(type_name)
    links = [np.zeros((0, 2), np.int32)]
    for predicate in data.predicates.values():
        own = [at for at, t in enumerate(predicate.types) if t == type_name]
        links += [data.tuples[predicate.name][:, pair] for pair in map(list, pairwise(own))]
    left, right = np.concatenate(links).T
    graph = coo_array((np.ones(len(left)), (left, right)), shape=(size, size))
    label = connected_components(graph, directed=False)[1]
    if np.bincount(label).max() > size * SHARES.min():
        label = np.arange(size)
    kinds, unit = np.unique(label, return_inverse=True)
    weight = np.bincount(unit)
    part_of_unit = np.zeros(len(kinds), np.int64)
    filled = np.zeros(len(SHARES))
    shuffled = generator.permutation(len(kinds))
    for number in shuffled[np.argsort(-weight[shuffled], kind="stable")]:
        part = np.argmin((filled + weight[number]) / SHARES)
        part_of_unit[number] = part
        filled[part] += weight[number]
    return part_of_unit[unit]


def restrict_world(world: Interpretation, type_name: str, kept: np.ndarray) -> Interpretation:
    """Restrict a world to the kept constants, bool[size], of one type."""
    number = np.cumsum(kept) - 1
    constants = np.asarray(world.domains[type_name].constants, object)[kept]
    domains = {**world.domains, type_name: Domain(type_name, tuple(constants.tolist()))}
    relations = {}
    for name, extension in world.relations.items():
        rows = extension.tuples
        own = [at for at, t in enumerate(extension.types) if t == type_name]
        rows = rows[kept[rows[:, own]].all(axis=1)]
        rows[:, own] = number[rows[:, own]]
        relations[name] = Extension(extension.types, rows)
    return Interpretation(domains, relations)

"""The fit of a run: its weights, their standard errors, and what is doubtful about them.

**Weights without a bound.** Where the data never contradicts a formula, a larger weight always fits
better, and without a prior the best one is infinite. For a pseudo-likelihood this is found before
the run, by linear programming (`separability`). For other objectives a weight that has become large
is tried at a far place: an exact objective is concave, so one that is no smaller there has not
fallen on the way, and would not be smaller anywhere beyond. Weights that grow together (one up, one
down) are tried together, along what of them lies where the objective is nearly flat. What is flat
everywhere, because no count changes, does not grow.

**Standard errors.** Near the maximum the posterior is about Gaussian with covariance C⁻¹, C the
curvature (prior included), so the standard error of weight i is √(C⁻¹)_ii. Where a combination of
weights has no curvature the data does not determine it, and the weights in it get none. Weights
that an L1 prior holds at its corner do not move when the data changes a little: they have no error,
and C is the curvature among the others. For a pseudo-likelihood this treats atoms as independent
given the others; the errors are then a guide, not a promise. With more than `MAX_FULL` weights that
move, or a curvature from a few samples, the diagonal alone is used: 1/√C_ii, what the error would
be if all other weights were known, a lower bound.

How much likelihood approximate counts can cost: Lemma 1 and Theorem 1 of Sarkhel et al. 2016.

Let M_i(ω) stand in for the true counts N_i(ω), with |M_i(ω) − N_i(ω)| ≤ ε_i in every world ω; ℓ is
the log-likelihood with N, ℓ̂ with M. The score of a world is off by at most Σ |w_i| ε_i, and so is
log Z; hence

    |ℓ(w) − ℓ̂(w)| ≤ 2 Σ |w_i| ε_i                       (Lemma 1)

and if α maximises ℓ and β maximises ℓ̂,

    ℓ(α) − ℓ(β) ≤ ℓ̂(α) − ℓ̂(β) + 2 Σ (|α_i| + |β_i|) ε_i ≤ 2 Σ (|α_i| + |β_i|) ε_i   (Theorem 1).

The paper has one ε for all formulas and positive weights; an error for each parameter and absolute
values need nothing else in the proof and are tighter. Several worlds add up their errors, as they
add up their likelihoods.

The ε of the theorem is over *all* worlds. `measure_errors` compares the counts in the data only.
With these, what is computed is an indication of the size of the loss, not a bound: `Bound.words`
says so to the user. It is that of the lemma: the weights of exact counts are not known.

Whether chains of a ground network know more than the worlds that they started near.

They start in the data and outlive the weights. Where they do not leave it (Gibbs in a ferromagnet,
atoms that hard clauses tie together) the weights explain the data among worlds near it only, and
the gradient reads zero. So, as with chains by counts (`count_based`), other chains start
far away once weights are learned: with all atoms false, all true, or tossed. Where their counts
come to others than those of the chains that learned, and stay there, the weights are doubtful.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lapis.counting.ijgp import IjgpSettings, count_ijgp
from lapis.errors import LapisError
from lapis.inference.moments.sampled import PersistentChain, SampledComponents, SampledMoments
from lapis.inference.random_numbers import random_states
from lapis.learning.examples import Example
from lapis.learning.fit import FARTHEST, Fit, UnboundedWeight, name_some
from lapis.learning.learning_run import (
    BEST_WORLD,
    BY_WORLD,
    CUTTING_PLANE,
    LearningRun,
    ijgp_settings,
)
from lapis.learning.objectives.count_based import Seen, disagreement
from lapis.learning.objectives.priors import Prior
from lapis.learning.parameters import Parameters
from lapis.optimisation.objective import PenalizedObjective, Point

if TYPE_CHECKING:
    from lapis.counting.ijgp import IjgpSettings
    from lapis.learning.max_margin import Margin
    from lapis.learning.objectives.pseudo import PseudoObjective
    from lapis.optimisation.history import Trajectory
    from lapis.optimisation.objective import Objective
if TYPE_CHECKING:
    from lapis.learning.objectives.conditional import ConditionalObjective


MAX_FULL = 400  # weights that move, for which the whole curvature is inverted
NO_CURVATURE = 1e-10  # of the largest curvature, after scaling: no information
FAR = 25.0  # where a weight known to be without bound is stopped at the latest
SUSPECT = 5.0  # a weight that may be on its way to infinity
MAX_SUSPECTS = 100
LEVEL = 1e-9  # of the value: no fall
STRIDE = 10.0  # how far weights that may grow together are tried
FLAT = 1e-2  # curvature: a standard error of ten
CONSTANT = 1e-9  # curvature at weights zero, relative to the largest: counts that never change
TRACE = 1e-3  # of the largest component: rounding
ADVICE = "it was stopped where the fit hardly changes; give a prior, or make the rule hard"


def build_fit(
    run: LearningRun,
    trajectory: Trajectory,
    posterior: PenalizedObjective,
    optimizer: str,
    prior: Prior,
    unbounded: Sequence[UnboundedWeight],
) -> Fit:
    """The fit at the end of a trajectory, whose weights are the free ones."""
    objective, options, notes = posterior.objective, run.options, run.notes
    weights = posterior.all_weights(trajectory.weights)
    pseudo = as_pseudo(run, objective)
    if pseudo is None:  # of a pseudo-likelihood they were found before
        unbounded = still_growing(posterior, run.parameters, trajectory, prior)
    errors = None
    # Standard errors come from the curvature of a likelihood.
    if run.objective != "weighted-pseudo" and run.expectation not in BY_WORLD:
        with notes.phase("standard errors"):
            errors, method = find_errors(posterior, run.parameters, trajectory, unbounded)
        notes.details["standard_errors"] = method
    by_chains = not (objective.is_exact or run.is_pseudo or run.expectation in BEST_WORLD)
    if by_chains and not trajectory.interrupted:
        with notes.phase("mixing of chains"):
            trajectory = doubt_chains(run, trajectory, posterior)
    if options.counts == "ijgp" and options.measure_error:
        with notes.phase("error of counts"):
            bound = measure_bound(run.examples, run.parameters, ijgp_settings(options), weights)
        notes.details["count_error"] = bound.largest_error
        notes.details["bound"] = {"value": bound.value, "holds": False}
        notes.warnings.append(bound.words)
    if pseudo is not None:
        notes.warnings.extend(pseudo.notes)
    trajectory = refuse_unbounded(trajectory, weights, prior, run.parameters.fixed, unbounded)
    exact = objective.is_exact and options.counts == "exact"
    log_prior = posterior.log_prior(trajectory.weights)
    return make_fit(run, trajectory, weights, optimizer, prior, log_prior, exact, errors, unbounded)


def as_pseudo(run: LearningRun, objective: Objective) -> PseudoObjective | None:
    """The objective of a run if it is a pseudo-likelihood."""
    if not run.is_pseudo:
        return None
    from lapis.learning.objectives.pseudo import PseudoObjective

    return objective if isinstance(objective, PseudoObjective) else None


def refuse_unbounded(
    trajectory: Trajectory,
    weights: np.ndarray,
    prior: Prior,
    fixed: np.ndarray,
    unbounded: Sequence[UnboundedWeight],
) -> Trajectory:
    """A trajectory that has not converged where the objective has no maximum.

    Weights float64[num_parameters] at the bound that stops all weights have none either.
    """
    loose = ~fixed & ~prior.holds(len(weights)) & (np.abs(weights) >= FARTHEST)
    loose[[weight.parameter for weight in unbounded]] = True
    number = int(loose.sum())
    if not (number and trajectory.converged):
        return trajectory
    reason = f"{number:,} weight{' has' if number == 1 else 's have'} no finite maximum"
    return trajectory._replace(converged=False, reason=reason)


def doubt_chains(
    run: LearningRun, trajectory: Trajectory, posterior: PenalizedObjective
) -> Trajectory:
    """A trajectory that has not converged where its chains know but the worlds they began near."""
    from lapis.learning.objectives import count_based
    from lapis.learning.objectives.conditional import ConditionalObjective

    objective, notes = posterior.objective, run.notes
    goes_back = isinstance(objective, count_based.CountObjective) and not objective.persistent
    if goes_back:
        notes.warnings.append(
            "chains go back to the data before they have gone round: the weights are near those "
            "of --objective pseudo, not of a likelihood"
        )
    if not trajectory.converged and run.options.time_limit is not None:
        return trajectory  # which has said so, and has no time
    weights = posterior.all_weights(trajectory.weights)
    if isinstance(objective, count_based.CountObjective):
        doubtful = count_based.doubtful_weights(objective, weights)
    else:
        assert isinstance(objective, ConditionalObjective)
        doubtful = doubtful_weights(objective, weights)
    notes.details["chains_mix"] = None if goes_back else not len(doubtful)
    if not len(doubtful):
        return trajectory
    names = run.parameters.names()
    shown = name_some([names[number] for number in doubtful.tolist()])
    notes.warnings.append(
        f"chains do not mix: elsewhere they stay at other counts of {shown} than near the data, "
        "so that the weights explain the worlds near the data among others near them only; "
        f"a stronger prior{', or --expectation mcsat,' if run.expectation != 'mcsat' else ''} "
        "may help"
    )
    if run.expectation != "count-map":
        notes.details["standard_errors_note"] = "those of the worlds near the data"
    reason = "chains that begin elsewhere see other counts"
    return (
        trajectory._replace(converged=False, reason=reason) if trajectory.converged else trajectory
    )


def build_margin_fit(run: LearningRun, found: Margin, prior: Prior) -> Fit:
    """The value is the margin's share of the objective, not a likelihood."""
    trajectory, parameters = found.trajectory, run.parameters
    run.notes.details.update(gap=found.gap, proven=found.proven, cuts=found.num_cuts)
    free, size = ~parameters.fixed, len(parameters)
    away = trajectory.weights - prior.means(size)
    log_prior = -0.5 * float(prior.precision(size)[free] @ away[free] ** 2)
    return make_fit(
        run, trajectory, trajectory.weights, CUTTING_PLANE, prior, log_prior, found.proven
    )


def make_fit(
    run: LearningRun,
    trajectory: Trajectory,
    weights: np.ndarray,
    optimizer: str,
    prior: Prior,
    log_prior: float,
    exact: bool,
    errors: np.ndarray | None = None,
    unbounded: Sequence[UnboundedWeight] = (),
) -> Fit:
    """The fit. The trajectory's values include the prior; arrays float64[num_parameters]."""
    return Fit(
        run.objective,
        optimizer,
        str(prior),
        None if trajectory.value is None else trajectory.value - log_prior,
        log_prior,
        exact,
        trajectory.converged,
        trajectory.interrupted,
        trajectory.reason,
        trajectory.iterations,
        trajectory.gradient_norm,
        run.parameters,
        weights,
        errors,
        trajectory.curve,
        run.notes.seconds,
        tuple(unbounded),
        tuple(run.notes.warnings),
        run.notes.details,
    )


def find_unbounded(
    run: LearningRun, posterior: PenalizedObjective, prior: Prior
) -> list[UnboundedWeight]:
    """The weights of a pseudo-likelihood that would be infinite; warns of those without effect."""
    objective, parameters = as_pseudo(run, posterior.objective), run.parameters
    loose = ~parameters.fixed & ~prior.holds(len(parameters))
    if not loose.any() or objective is None:
        return []
    from lapis.learning.separability import unbounded_parameters

    found = unbounded_parameters(objective, loose)
    names = parameters.names() if len(found.parameter) or len(found.idle) else []
    if len(found.idle):
        shown = name_some([names[i] for i in found.idle.tolist()])
        run.notes.warnings.append(
            f"the data does not determine the weights of {shown}: no atom depends on them"
        )
    rows = zip(found.parameter.tolist(), found.sign.tolist(), found.reason, strict=True)
    return [
        UnboundedWeight(i, names[i], int(sign), f"{reason}; {ADVICE}") for i, sign, reason in rows
    ]


def still_growing(
    posterior: PenalizedObjective, parameters: Parameters, trajectory: Trajectory, prior: Prior
) -> list[UnboundedWeight]:
    """The weights that neither data nor prior has stopped."""
    weights, loose = trajectory.weights, ~prior.holds(len(parameters))[posterior.free]
    suspects = np.flatnonzero(loose & (np.abs(weights) >= SUSPECT))[:MAX_SUSPECTS].tolist()
    if not suspects:
        return []
    # Without the penalty of an l1 prior, which does not change where only loose weights move.
    here = None if trajectory.value is None else posterior.evaluate_smooth(weights).value
    constant = constant_space(posterior)
    moves = 1.0 - (constant**2).sum(axis=1) > CONSTANT  # some count changes with the weight
    sign = np.zeros(len(weights), np.int64)
    for i in suspects:
        away = weights.copy()
        away[i] = np.copysign(FARTHEST, away[i])
        if moves[i] and (abs(weights[i]) >= FARTHEST or never_falls(posterior, here, away)):
            sign[i] = np.sign(weights[i])
    together = growing_together(posterior, weights, here, constant, loose)
    grown = np.flatnonzero((sign != 0) | (together != 0)).tolist()
    names = parameters.names() if grown else []
    found = []
    for i, number in zip(grown, posterior.free[grown].tolist(), strict=True):
        others = [names[posterior.free[k]] for k in np.flatnonzero(together).tolist() if k != i]
        joint = f"together with {name_some(others)}, " if others and not sign[i] else ""
        reason = f"{joint}nothing in the data keeps its weight from growing; {ADVICE}"
        found.append(UnboundedWeight(number, names[number], int(sign[i] or together[i]), reason))
    return found


def never_falls(posterior: PenalizedObjective, here: float | None, away: np.ndarray) -> bool:
    """Whether the objective, if it has a value here, is no smaller at weights far away."""
    if here is None:
        return False
    there = posterior.evaluate_smooth(away).value
    return there is not None and there >= here - LEVEL * abs(here)


def growing_together(
    posterior: PenalizedObjective,
    weights: np.ndarray,
    here: float | None,
    constant: np.ndarray,
    loose: np.ndarray,
) -> np.ndarray:
    """int64[num_free], where each weight goes along a direction that never falls; 0: nowhere."""
    nowhere = np.zeros(len(weights), np.int64)
    if here is None or not is_explored(posterior):
        return nowhere
    flat = flat_space(curvature_matrix(posterior.evaluate_smooth(weights)), FLAT)
    direction = flat @ (flat.T @ weights)
    direction -= constant @ (constant.T @ direction)
    direction[~loose] = 0.0
    largest = np.abs(direction).max(initial=0.0)
    if largest < SUSPECT / 2:
        return nowhere
    direction = np.where(np.abs(direction) < TRACE * largest, 0.0, direction / largest)
    away = weights + STRIDE * direction
    return np.sign(direction).astype(np.int64) if never_falls(posterior, here, away) else nowhere


def constant_space(posterior: PenalizedObjective) -> np.ndarray:
    """float64[num_free, k], orthonormal combinations of weights whose count never changes.

    At weights zero every world is possible, so that what does not vary there varies nowhere.
    """
    if not is_explored(posterior):
        return np.empty((posterior.num_parameters, 0))
    curvature = curvature_matrix(posterior.evaluate_smooth(np.zeros(posterior.num_parameters)))
    return flat_space(curvature, CONSTANT * np.abs(curvature).max(initial=0.0))


def is_explored(posterior: PenalizedObjective) -> bool:
    """Whether the whole curvature is exact and small enough to look at."""
    return posterior.is_fixed and posterior.num_parameters <= MAX_FULL


def flat_space(curvature: np.ndarray, least: float) -> np.ndarray:
    """float64[num_free, k], orthonormal directions whose curvature is at most `least`."""
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    flat: np.ndarray = vectors[:, values <= least]
    return flat


def find_errors(
    posterior: PenalizedObjective,
    parameters: Parameters,
    trajectory: Trajectory,
    unbounded: Sequence[UnboundedWeight],
) -> tuple[np.ndarray, str]:
    """float64[num_parameters], NaN for weights that are fixed, infinite or held by L1."""
    point = posterior.evaluate_smooth(trajectory.weights)
    held = None if posterior.l1 is None else (trajectory.weights == 0) & (posterior.l1 > 0)
    own, method = standard_errors(point, full=posterior.is_fixed, held=held)
    errors = np.full(len(parameters), np.nan)
    errors[posterior.free] = own
    errors[[weight.parameter for weight in unbounded]] = np.nan
    return errors, method


def measure_bound(
    examples: Sequence[Example],
    parameters: Parameters,
    settings: IjgpSettings,
    weights: np.ndarray,
) -> Bound:
    """What estimated counts may cost, by counting exactly too."""

    return likelihood_bound(weights, measure_errors(examples, parameters, settings))


def standard_errors(
    point: Point, *, full: bool, held: np.ndarray | None = None
) -> tuple[np.ndarray, str]:
    """float64[num_parameters], NaN where the data says nothing; and "full" or "diagonal".

    `held`, bool[num_parameters], are weights that stay where they are.
    """
    diagonal = point.curvature_diagonal()
    errors = np.full(len(point.weights), np.nan)
    curved = np.flatnonzero(diagonal > 0 if held is None else (diagonal > 0) & ~held)
    if not full or len(curved) > MAX_FULL:
        errors[curved] = 1.0 / np.sqrt(diagonal[curved])
        return errors, "diagonal"
    if len(curved):
        errors[curved] = errors_of(curvature_matrix(point, curved))
    return errors, "full"


def curvature_matrix(point: Point, chosen: np.ndarray | None = None) -> np.ndarray:
    """float64[n, n], the curvature among the chosen parameters int64[n]; all where not given."""
    unit = np.eye(len(point.weights))
    if chosen is None:
        chosen = np.arange(len(unit))
    rows = [point.curvature_product(unit[i])[chosen] for i in chosen.tolist()]
    return np.array(rows).reshape(len(chosen), len(chosen))


def errors_of(curvature: np.ndarray) -> np.ndarray:
    """√ of the diagonal of the inverse, NaN for weights in directions without curvature."""
    scale = np.sqrt(np.diag(curvature))
    correlation = curvature / np.outer(scale, scale)
    values, vectors = np.linalg.eigh((correlation + correlation.T) / 2)
    flat = values <= NO_CURVATURE * max(1.0, float(values[-1]))
    kept = vectors[:, ~flat]
    variance = (kept**2 / values[~flat]).sum(axis=1)
    variance[(vectors[:, flat] ** 2).sum(axis=1) > NO_CURVATURE] = np.nan
    return np.sqrt(variance) / scale


@dataclass(frozen=True)
class Bound:
    """2 Σ |w_i| ε_i, as far as ε is that of all worlds."""

    value: float  # in nats, of the whole data
    largest_error: float  # max ε_i

    @property
    def words(self) -> str:
        return (
            f"the log-likelihood by approximate counts is off by at most {self.value:.4g}, if no "
            "world's counts are off by more than those of the data "
            f"(at most {self.largest_error:.4g}); other worlds were not measured"
        )


def likelihood_bound(weights: np.ndarray, errors: np.ndarray) -> Bound:
    """Lemma 1 for `weights` and the ε_i, float64[num_parameters].

    >>> likelihood_bound(np.array([1.0, -2.0]), np.array([0.5, 0.25])).value
    2.0
    """
    return Bound(2.0 * float(np.abs(weights) @ errors), float(errors.max(initial=0.0)))


def measure_errors(
    examples: Sequence[Example], parameters: Parameters, settings: IjgpSettings
) -> np.ndarray:
    """float64[num_parameters], |M_i − N_i| in the data, added up over the examples."""
    errors = np.zeros(len(parameters))
    for number, example in enumerate(examples):
        problem = example.complete
        world = {name: known.true for name, known in problem.evidence.items()}
        found = count_ijgp(
            problem.normal_form, problem.model, problem.domains, world, settings, measure_error=True
        )
        assert found.error is not None
        exact = np.array([float(count) for count in found.error.exact])
        errors += parameters.to_parameters(number, np.abs(found.count - exact))
    return errors


SAMPLES = 25  # of a chain in each of three looks
SMALL = 10_000  # literals of a network that is looked at from all starts
STARTS = (2, 0, 1, 3, 4, 5, 6, 7)  # numbers of chains: 0 all false, 1 all true, others coins


def doubtful_weights(objective: ConditionalObjective, weights: np.ndarray) -> np.ndarray:
    """int64[k], parameters whose counts depend on where a chain began, most doubtful first.

    The chains are not put back.
    """
    doubt = np.zeros(len(weights))
    for side in (*objective.free, *objective.clamped):
        natural = side.statistics.natural(weights)
        for part in side.sources:
            if isinstance(part, SampledComponents):
                doubt = np.maximum(doubt, doubts_of(part, natural))
    found = np.argsort(-doubt, kind="stable")
    return found[: np.count_nonzero(doubt)]


def doubts_of(part: SampledComponents, natural: np.ndarray) -> np.ndarray:
    """float64[num_parameters], how far other chains stay from those of the part; 0: they come."""
    before = seen(replace(part, num_samples=SAMPLES).moments(natural))
    doubt = np.zeros(len(before.moved))
    starts = STARTS if len(part.network.literal) <= SMALL else STARTS[:1]
    streams = random_states(int(part.chains[0].rng[0]), len(starts))
    for number, stream in zip(starts, streams, strict=True):
        try:
            other = PersistentChain(part.chains[0].sampler, part.network, None, number, stream)
        except LapisError:  # no world but the data's was found to start from
            continue
        away = replace(part, chains=(other,), num_samples=SAMPLES)
        first, second = seen(away.moments(natural)), seen(away.moments(natural))
        doubt = np.maximum(doubt, disagreement(before, first, second))
    return doubt


def seen(moments: SampledMoments) -> Seen:
    """What chains have seen of the counts, by parameters."""
    statistics = moments.source.statistics
    return Seen(
        statistics.to_parameters(moments.mean), moments.mean_variance(), moments.count_variance()
    )

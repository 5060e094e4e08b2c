"""The posterior Pr(w | data) ∝ Pr(data | w) Pr(w) of the weights, by Laplace or by NUTS.

Optimisers find the mode of the posterior; this module finds its mean and draws. Both methods start
at the mode ŵ, with C = −∇² log Pr(w | data) there:

    laplace   Pr(w | data) ≈ N(ŵ, C⁻¹); the mean is the mode
    nuts      draws by the no-U-turn sampler (Hoffman & Gelman 2014; Betancourt 2017) of nutpie,
              from the values and gradients that the optimiser used

NUTS samples z with w = ŵ + A z and A Aᵀ = C⁻¹. In z a Gaussian posterior is isotropic, so that
nutpie adapts only a step size, and `WARM_UP` draws suffice. Its chains start at z ~ N(0, I).

The mean of the draws is corrected by their gradients g (zero-variance control variates, Mira, Solgi
& Imparato 2013): E[g] = 0 under the posterior, so z̄ − B ḡ, with B the regression of z on g, has the
same expectation as z̄. For a Gaussian g = −z, and no error is left; on ten atoms and one weight the
standard error is a ninth of that of z̄.

C differs from the optimiser's curvature in three cases. With hidden atoms the objective has the
curvature of the M-step, which is too large; here C is the central difference of exact gradients. A
Laplace prior (l1) has a corner: `laplace` refuses it, NUTS takes the one-sided slope, and C uses a
Gaussian of the same variance, 2/λ². Beyond `MAX_FULL` weights C is diagonal.

Laplace is checked by importance weights r = Pr(w | data) / N(w; ŵ, C⁻¹) of some draws: the share
(Σ r)² / (n Σ r²) is 1 if the posterior is Gaussian and falls towards 1/n if it is not. Draws are
not resampled by r: with dozens of weights few would remain.

A flat prior is refused if the likelihood does not fall in some direction, since the posterior then
has no mean. If it falls in all directions and is log-concave, as without hidden atoms, the
posterior is proper.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.learning.fit import Fit, name_some
from lapis.learning.learning_run import BY_COUNTS, LearningRun
from lapis.learning.objectives.priors import Prior, expand_prior
from lapis.learning.reliability import MAX_FULL, curvature_matrix
from lapis.learning.weight_posterior import WeightPosterior
from lapis.optimisation.objective import PenalizedObjective
from lapis.registry.method_table import find_method
from lapis.runtime.progress import (
    Progress,
    Report,
    Stop,
    report_progress,
    stop_on_interrupt,
    work_clock,
)

WARM_UP = 200  # draws of each chain that are dropped
STEP = 1e-4  # step of finite differences, in standard deviations
CHECKED = 200  # draws of laplace with importance weights
POOR_FIT = 0.5  # share of effective draws below which the posterior is not Gaussian
MIN_REGRESSED = 10  # draws for each weight that the control variates need
FLAT = 1e-10  # curvature, relative to the largest, of a direction that nothing determines
POLL_SECONDS = 0.05  # between two checks of the sampler
PSEUDO = (
    "the pseudo-likelihood replaces the likelihood: it counts every atom once for each atom that "
    "depends on it, so that the intervals of this pseudo-posterior are usually too narrow"
)


class Sampling(NamedTuple):
    """The settings of the methods."""

    num_chains: int
    num_draws: int  # of each chain
    seed: int
    stop: Stop
    progress: Report | None


class WeightDraws(NamedTuple):
    """The draws of a method, of the free weights."""

    values: np.ndarray  # float64[num_chains, num_draws, num_free]
    mean: np.ndarray  # float64[num_free]
    deviation: np.ndarray  # float64[num_free]
    interrupted: bool
    details: dict[str, Any]
    caveats: tuple[str, ...]


@dataclass(frozen=True)
class LogPosterior:
    """log Pr(w | data) up to a constant, around its mode."""

    posterior: PenalizedObjective
    mode: np.ndarray  # float64[num_free]
    spread: np.ndarray  # float64[num_free, num_free] A, or its diagonal float64[num_free]

    @property
    def is_full(self) -> bool:
        return self.spread.ndim == 2

    @property
    def deviation(self) -> np.ndarray:
        """float64[num_free], √(C⁻¹)_ii."""
        found: np.ndarray = np.sqrt((self.spread**2).sum(axis=1)) if self.is_full else self.spread
        return found

    def weights(self, place: np.ndarray) -> np.ndarray:
        """Return w = ŵ + A z for z float64[..., num_free]."""
        moved: np.ndarray = place @ self.spread.T if self.is_full else place * self.spread
        return self.mode + moved

    def evaluate(self, place: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log Pr(w | data) and its gradient by z; −∞ if it is not finite."""
        weights = self.weights(place)
        point = self.posterior.evaluate_smooth(weights)
        value, gradient = point.value, point.gradient
        if self.posterior.l1 is not None and value is not None:
            value -= float(self.posterior.l1 @ np.abs(weights))
            gradient = gradient - self.posterior.l1 * np.sign(weights)
        if value is None or not (np.isfinite(value) and np.isfinite(gradient).all()):
            return -np.inf, np.zeros(len(place))
        return value, self.spread.T @ gradient if self.is_full else self.spread * gradient


def require_likelihood(run: LearningRun) -> None:
    """Refuse to estimate the mean of an objective without exact values."""
    exact = "use --objective pseudo, or a (conditional) likelihood with --expectation exact"
    reasons = {
        "max-margin": "the margin of the data's world is no probability of the data",
        "weighted-pseudo": "a pseudo-likelihood weighted by predicates is a mean over atoms, "
        "which grows no sharper with more data",
    }
    reason = reasons.get(run.objective, "")
    if run.options.counts == "ijgp" or run.expectation in BY_COUNTS:
        reason = "counts that are estimated, or taken from chains, give no exact value"
    elif run.expectation in ("mcsat", "gibbs"):
        reason = f"expectation {run.expectation!r} samples gradients and has no value"
    elif run.expectation == "map":
        reason = "expectation 'map' (voted perceptron) has no value, only the counts of one world"
    elif run.is_pseudo and run.has_hidden:
        reason = "the pseudo-likelihood completes hidden atoms by sampling and has no exact value"
        exact = "use --objective likelihood, or conditional, which sum over hidden atoms"
    if reason:
        raise LapisError(f"there is no posterior mean: {reason}", code="no-posterior", hint=exact)


def too_large_to_sum(error: TooLarge) -> TooLarge:
    """Return the error for a likelihood whose exact value is too expensive."""
    return TooLarge(
        f"there is no posterior mean without exact values: {error.message}",
        code=error.code,
        hint="raise --max-memory, or use --objective pseudo, which gives a pseudo-posterior",
    )


def estimate_mean(run: LearningRun, posterior: PenalizedObjective, prior: Prior, fit: Fit) -> Fit:
    """Build the fit at the posterior mean; `fit` is the one at the mode.

    If learning was stopped before there were draws, the fit at the mode is returned as not
    converged. Raises LapisError if the posterior is improper, or the method does not support its
    prior.
    """
    options, notes = run.options, run.notes
    assert posterior.is_exact  # ensured by `require_likelihood` and `LearningRun.expectation`
    stop = run.stop or Stop()
    if options.time_limit is not None:
        stop = stop.within(max(0.0, options.time_limit - notes.seconds.get("optimisation", 0.0)))
    if fit.interrupted or stop.is_over():
        return without_draws(fit)
    require_proper(run, prior, fit)
    if not posterior.num_parameters:
        raise LapisError(
            "there is no posterior: every rule is hard or @fixed", code="no-posterior",
            hint="leave out --estimate",
        )  # fmt: skip
    with notes.phase("posterior"):
        mode = posterior.free_weights(fit.weights)
        target = LogPosterior(posterior, mode, find_spread(run, posterior, mode))
        sampling = Sampling(options.num_chains, options.num_draws, options.seed, stop, run.progress)
        draws = find_method("posterior", options.posterior_method).load()(target, sampling)
    if draws is None:
        return without_draws(fit)
    found = fit_at_mean(run, posterior, fit, draws)
    return replace(found, interrupted=found.interrupted or (draws.interrupted and stop()))


def require_proper(run: LearningRun, prior: Prior, fit: Fit) -> None:
    """Refuse a posterior whose integral is infinite, or may be."""
    parameters = run.parameters
    loose = ~parameters.fixed & ~expand_prior(prior, len(parameters)).holds
    if not loose.any():
        return
    names, why = parameters.names(), ""
    unsure = np.zeros(len(parameters), bool)
    if fit.standard_errors is not None:
        unsure = loose & ~np.isfinite(fit.standard_errors)
    open_ended = np.flatnonzero((~fit.bounded & loose) | unsure).tolist()
    if open_ended:
        shown = name_some([names[number] for number in open_ended])
        why = f"the data sets no bound to the weight of {shown}"
    elif run.has_hidden:
        why = "with hidden atoms the likelihood need not fall far from its maximum"
    if why:
        raise LapisError(
            f"without a prior the posterior has no mean: {why}",
            code="improper-posterior",
            hint="give a prior, as in --prior gaussian:2",
        )


def find_spread(run: LearningRun, posterior: PenalizedObjective, mode: np.ndarray) -> np.ndarray:
    """float64[num_free, num_free], A with A Aᵀ = C⁻¹; beyond `MAX_FULL` weights its diagonal.

    Raises LapisError if the posterior does not fall in all directions from the mode.
    """
    prior = np.zeros(len(mode)) if posterior.l1 is None else 0.5 * posterior.l1**2
    point = posterior.evaluate_smooth(mode)
    diagonal = point.curvature_diagonal() + prior
    if len(mode) > MAX_FULL:
        return 1.0 / np.sqrt(np.maximum(diagonal, FLAT * diagonal.max()))
    if run.has_hidden:
        curvature = differenced_curvature(posterior, mode, 1.0 / np.sqrt(diagonal))
    else:
        curvature = curvature_matrix(point)
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2 + np.diag(prior))
    if values[0] <= FLAT * values[-1]:
        raise LapisError(
            "the posterior does not fall in all directions from the weights found",
            code="no-posterior",
            hint="try a narrower --prior, or another --seed if atoms are hidden",
        )
    found: np.ndarray = vectors / np.sqrt(values)
    return found


def differenced_curvature(
    posterior: PenalizedObjective, weights: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """float64[n, n], −∇² by central differences of the gradient, with steps of each scale."""
    rows = []
    for number, step in enumerate((STEP * scale).tolist()):
        unit = np.zeros(len(weights))
        unit[number] = step
        up, down = (
            posterior.evaluate_smooth(weights + unit),
            posterior.evaluate_smooth(weights - unit),
        )
        rows.append((down.gradient - up.gradient) / (2.0 * step))
    return np.array(rows)


def draw_laplace(target: LogPosterior, sampling: Sampling) -> WeightDraws:
    """Draw independently from N(ŵ, C⁻¹)."""
    if target.posterior.l1 is not None:
        raise LapisError(
            "an l1 prior has a corner at its mean, which a Gaussian cannot approximate",
            code="no-posterior",
            hint="choose --posterior-method nuts, or a Gaussian prior",
        )
    rng = np.random.default_rng(sampling.seed)
    shape = sampling.num_chains, sampling.num_draws, len(target.mode)
    place = rng.standard_normal(shape)
    share = effective_share(target, place.reshape(-1, shape[2])[:CHECKED], sampling)
    details: dict[str, Any] = {"effective_share": share}
    caveats = ["the posterior is approximated by a Gaussian at the mode, which is also its mean"]
    if share is not None and share < POOR_FIT:
        caveats.append(
            f"the posterior is not Gaussian: importance weights leave {share:.0%} of the draws "
            "effective; use --posterior-method nuts"
        )
    if not target.is_full:
        caveats.append(
            f"with more than {MAX_FULL} weights only the diagonal of the curvature is used: "
            "intervals are as if the other weights were known, and too narrow"
        )
    return WeightDraws(
        target.weights(place), target.mode, target.deviation, False, details, tuple(caveats)
    )


def effective_share(target: LogPosterior, places: np.ndarray, sampling: Sampling) -> float | None:
    """Compute (Σ r)² / (n Σ r²) of importance weights r; None if stopped before ten draws."""
    logs: list[float] = []
    began = work_clock()
    for number, place in enumerate(places):
        if sampling.stop.is_over():
            break
        logs.append(target.evaluate(place)[0] + 0.5 * float(place @ place))
        seconds = work_clock() - began
        report_progress(
            sampling.progress, Progress("checking laplace", number + 1, len(places), seconds)
        )
    if len(logs) < 10:
        return None
    ratio = np.exp(np.array(logs) - max(logs))
    return float(ratio.sum() ** 2 / (len(ratio) * (ratio**2).sum()))


def sample_nuts(target: LogPosterior, sampling: Sampling) -> WeightDraws | None:
    """Draw by nutpie; return None if it was stopped before the first draw.

    Chains run in threads that take turns, so that a time limit leaves draws of all of them.
    """
    nutpie = require_nutpie()
    watched = WatchedDensity(target, sampling)
    model = nutpie.compiled_pyfunc.from_pyfunc(
        len(target.mode), watched.make_density, watched.make_expand, [np.dtype(np.float64)],
        [(len(target.mode),)], ["place"], make_initial_point_fn=watched.start,
    )  # fmt: skip
    began = work_clock()
    with stop_on_interrupt(sampling.stop), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of arviz, about few draws
        sampler = nutpie.sample(
            model, draws=sampling.num_draws, tune=WARM_UP, chains=sampling.num_chains,
            cores=sampling.num_chains, seed=sampling.seed, progress_bar=False, blocking=False,
            store_gradient=True,
        )  # fmt: skip
        trace = None
        while trace is None:
            try:
                trace = sampler.wait(timeout=POLL_SECONDS)
            except TimeoutError:
                watched.report(work_clock() - began)
                if watched.failure is not None or sampling.stop.is_over():
                    trace = sampler.abort()
    if watched.failure is not None:
        raise watched.failure
    place = np.asarray(trace.posterior["place"].values)
    lengths = np.isfinite(place[:, :, 0]).sum(axis=1)  # shorter chains are padded with NaN
    kept = lengths >= max(1, lengths.max() // 2)  # short chains are left out
    if not (lengths > 0).any():
        return None
    length = int(lengths[kept].min())
    values = target.weights(place[kept, :length])
    statistics = trace.sample_stats
    gradient = statistics["gradient"].values[kept, :length]
    mean = target.weights(corrected_mean(place[kept, :length], gradient))
    divergences = int(statistics["diverging"].values[kept, :length].sum())
    details = {
        "evaluations": watched.num_evaluations,
        "divergences": divergences,
        "steps_a_draw": float(statistics["n_steps"].values[kept, :length].mean()),
        "step_size": statistics["step_size_bar"].values[kept, length - 1].tolist(),
    }
    caveats = []
    if divergences:
        caveats.append(
            f"{divergences:,} draws ended in a divergence: regions of high curvature may be "
            "missing; a narrower prior helps"
        )
    interrupted = length < sampling.num_draws or not kept.all()
    flat = values.reshape(-1, values.shape[2])
    return WeightDraws(
        values, mean, flat.std(axis=0, ddof=1) if len(flat) > 1 else 0.0 * flat[0],
        interrupted, details, tuple(caveats),
    )  # fmt: skip


def corrected_mean(places: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """float64[n], z̄ − B ḡ of draws and gradients float64[num_chains, num_draws, n].

    The plain mean if there are too few draws for the regression.
    """
    size = places.shape[2]
    place, gradient = places.reshape(-1, size), gradients.reshape(-1, size)
    mean, slope = place.mean(axis=0), gradient.mean(axis=0)
    if len(place) < MIN_REGRESSED * (size + 1):
        return mean
    regression, *_ = np.linalg.lstsq(gradient - slope, place - mean, rcond=None)
    corrected: np.ndarray = mean - slope @ regression
    return corrected


class WatchedDensity:
    """The density that nutpie's threads call, one at a time, with counts for progress events."""

    def __init__(self, target: LogPosterior, sampling: Sampling) -> None:
        self.target, self.sampling = target, sampling
        self.lock = threading.Lock()
        self.num_evaluations = 0
        self.num_drawn = 0  # by all chains, warm-up included
        self.failure: BaseException | None = None

    def make_density(self) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        def density(place: np.ndarray) -> tuple[float, np.ndarray]:
            with self.lock:
                self.num_evaluations += 1
                try:
                    return self.target.evaluate(place)
                except BaseException as error:  # raised again in the waiting thread
                    self.failure = error
                    return -np.inf, np.zeros_like(place)

        return density

    def make_expand(self, *_: int) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
        """Make the function that is called with every draw."""

        def expand(place: np.ndarray) -> dict[str, np.ndarray]:
            with self.lock:
                self.num_drawn += 1
            return {"place": np.array(place)}

        return expand

    def start(self, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).standard_normal(len(self.target.mode))

    def report(self, seconds: float) -> None:
        total = self.sampling.num_chains * (WARM_UP + self.sampling.num_draws)
        figures = {"evaluations": float(self.num_evaluations)}
        event = Progress("posterior", self.num_drawn, total, seconds, figures)
        report_progress(self.sampling.progress, event)


def require_nutpie() -> ModuleType:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of arviz, about its next version
            import nutpie
            import nutpie.compiled_pyfunc
    except ImportError:
        raise LapisError(
            "posterior method 'nuts' needs nutpie, which is not installed",
            code="missing-package",
            hint="pip install 'lapis-mln[bayes]', or choose --posterior-method laplace",
        ) from None
    return nutpie


def without_draws(fit: Fit) -> Fit:
    """Return the fit at the mode of a run that was stopped before there was a posterior."""
    reason = "stopped before the posterior was found: the weights are those of the mode so far"
    return replace(fit, converged=False, reason=reason)


def fit_at_mean(
    run: LearningRun, posterior: PenalizedObjective, fit: Fit, draws: WeightDraws
) -> Fit:
    """Build the fit at the mean of draws, with standard deviations as standard errors."""
    parameters, options = run.parameters, run.options
    caveats = [*draws.caveats]
    if run.is_pseudo:
        caveats.append(PSEUDO)
    if run.has_hidden:
        caveats.append(
            "with hidden atoms the posterior may have several modes, and the chains may be in one "
            "of them: compare other seeds"
        )
    if fit.prior == "none":
        caveats.append("the prior is flat: all weights are equally likely before the data")
    mean = posterior.all_weights(draws.mean)
    deviation = np.zeros(len(parameters))
    deviation[posterior.free] = draws.deviation
    everywhere = np.broadcast_to(posterior.base, (*draws.values.shape[:2], len(parameters))).copy()
    everywhere[:, :, posterior.free] = draws.values + posterior.origin
    found = WeightPosterior(
        options.posterior_method, fit.objective, fit.prior, replace(fit, weights=mean).model,
        tuple(parameters.keys()), tuple(parameters.names()), parameters.fixed, fit.weights, mean,
        deviation, everywhere, options.level, draws.interrupted, tuple(caveats), draws.details,
    )  # fmt: skip
    details = {name: fact for name, fact in fit.details.items() if name != "standard_errors_note"}
    value = posterior.objective.evaluate(mean).value
    by_laplace = options.posterior_method == "laplace"
    converged = found.converged and (fit.converged or not by_laplace)
    reason = found.reason or (fit.reason if by_laplace else "chains agree")
    return replace(
        fit,
        weights=mean,
        value=value,
        log_prior=posterior.log_prior(draws.mean),
        converged=converged,
        reason=reason,
        standard_errors=np.where(parameters.fixed, np.nan, deviation),
        details={**details, "standard_errors": "posterior"},
        posterior=found,
    )

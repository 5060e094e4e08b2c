"""Annealed importance sampling: an estimate of log Z with its standard error.

Neal (2001, "Annealed importance sampling"). A run starts from independent uniform atoms and blocks,
whose Z₀ = Π sizes is known, and moves to the model by Gibbs sweeps at β from 0 to 1. Its weight

    w = Z₀ · Π_t exp((β_t − β_{t−1}) · score(x_{t−1})),        E[w] = Z,

is an unbiased estimate of Z, even if the sweeps mix badly. The answer is the mean over runs.
Marginals come from the last worlds, resampled in proportion to the weights.

Hard clauses have the finite weight `HARD_WEIGHT` at β = 1 during a run. A run that ends with a
violated hard clause has weight 0, which keeps the mean unbiased. Exact elimination comes first, so
that only the core is annealed.

Temperatures: the first round has few, evenly spaced. Each later round has twice as many, placed
such that the score's standard deviation in the previous round times the step is constant
(thermodynamic length; Grosse, Maddison and Salakhutdinov 2013, "Annealing between distributions by
averaging moments"). Rounds end when the standard error is below the precision or the samples are
used. If log weights have a large variance s², few runs dominate the mean, and the empirical
variance is too small. So the standard error is at least that of log-normal weights, √((exp s² −
1)/runs).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.marginals import InferenceOptions
from lapis.inference.random_numbers import random_states
from lapis.inference.reduction.eliminate import Reduction, reduce
from lapis.inference.sampling.diagnostics import count_ranges
from lapis.inference.sampling.gibbs import HARD_WEIGHT, Gibbs, GibbsPlan, soften_hard_clauses
from lapis.inference.sampling.gibbs_kernel import run_annealing
from lapis.inference.sampling.recovery import sampled_components
from lapis.network.cubes import Variables, find_variables
from lapis.network.network import Network
from lapis.runtime.processes import ThreadPool, num_cores
from lapis.runtime.progress import Progress, limit_within_call, work_clock

NUM_RUNS = 64
FIRST_SWEEPS = 50
GROUPS = 16  # of runs, for standard errors of marginals
RESAMPLED = 64  # worlds of each group


class Annealed(NamedTuple):
    """Estimates of log Z, marginals and counts."""

    log_partition: float  # −∞ if all runs violated hard clauses
    stderr: float  # of log Z
    marginal: np.ndarray  # float64[num_base_atoms]
    marginal_stderr: np.ndarray  # float64[num_base_atoms]
    expected_count: np.ndarray  # float64[num_weights]
    expected_stderr: np.ndarray  # float64[num_weights]
    sweeps: int  # of each run in the last round
    ess: float  # effective number of runs
    converged: bool
    interrupted: bool
    num_core_atoms: int


class AnnealingRound(NamedTuple):
    """Runs with the same temperatures."""

    beta: np.ndarray  # float64[num_sweeps + 1]
    log_weight: np.ndarray  # float64[num_runs], of Z without constants; −∞ if infeasible
    worlds: np.ndarray  # bool[num_runs, core.num_atoms]
    trail: np.ndarray  # float64[num_runs, num_sweeps], scores before each sweep


def anneal(network: Network, options: InferenceOptions) -> Annealed:
    """Estimate log Z; `max_samples` limits the total number of sweeps."""
    precision, max_samples, seed = options.precision, options.max_samples, options.seed
    reduction = reduce(network)
    core = reduction.core
    constant = float(core.weights @ core.constant_count)
    if not core.num_atoms:
        found = reduction.recover(np.zeros((1, 0), bool))
        base, none = network.num_base_atoms, np.zeros(len(found.expected_count))
        return Annealed(
            constant, 0.0, found.marginal[:base], np.zeros(base), found.expected_count, none,
            0, float(NUM_RUNS), True, False, 0,
        )  # fmt: skip
    plan = soften_hard_clauses(Gibbs().prepare(core))
    began, limit = work_clock(), limit_within_call(options.time_limit)
    beta = np.linspace(0.0, 1.0, FIRST_SWEEPS + 1)
    streams = random_states(seed, NUM_RUNS)
    used, interrupted = 0, False
    best: AnnealingRound | None = None
    while True:
        rng = np.random.default_rng((seed, len(beta)))
        now = run_round(plan, core, beta, streams, rng)
        used += NUM_RUNS * (len(beta) - 1)
        if (
            best is None
            or estimate_log_mean(now.log_weight)[1] <= estimate_log_mean(best.log_weight)[1]
        ):
            best = now
        _, error, _ = estimate_log_mean(best.log_weight)
        if options.progress is not None:
            event = Progress("annealing", used, max_samples, text=f"log Z ± {error:.3g}")
            options.progress(event)
        interrupted = options.stop is not None and options.stop()
        spent = 3 * (work_clock() - began)
        late = limit is not None and spent > limit
        more = 2 * (len(beta) - 1)
        if error <= precision or interrupted or late or used + NUM_RUNS * more > max_samples:
            return summarize_round(reduction, best, constant, precision, interrupted)
        beta = place_temperatures(now, more)


def run_round(
    plan: GibbsPlan, core: Network, beta: np.ndarray, streams: np.ndarray, rng: np.random.Generator
) -> AnnealingRound:
    """Make all runs on all cores; each has its own random stream."""
    is_base = np.arange(core.num_atoms) < core.num_base_atoms
    variables = find_variables(core, is_base)
    starts = draw_start_worlds(variables, len(streams), core.num_atoms, rng)
    weights = plan.network.weights
    num_hard = float((plan.graph.weight_id == len(weights) - 1).sum())
    trail = np.zeros((len(streams), len(beta) - 1))
    worlds = np.zeros((len(streams), core.num_atoms), bool)
    log_weight = np.full(len(streams), float(np.log(variables.size).sum()))

    def run(number: int) -> None:
        state = Gibbs().init(plan, starts[number], streams[number])
        log_weight[number] += run_annealing(
            plan.graph, plan.units, weights, beta, state.world, state.order, state.estimate,
            state.rng, state.score, state.digit, trail[number],
        )  # fmt: skip
        worlds[number] = state.world.value
        if state.world.count[-1] < num_hard:
            log_weight[number] = -np.inf
        else:
            log_weight[number] -= HARD_WEIGHT * num_hard

    with ThreadPool(num_cores()) as pool:
        list(pool.map(run, range(len(streams))))
    return AnnealingRound(beta, log_weight, worlds, trail)


def draw_start_worlds(
    variables: Variables, num_worlds: int, num_atoms: int, rng: np.random.Generator
) -> np.ndarray:
    """Return bool[num_worlds, num_atoms], with a random state of every variable."""
    state = (rng.random((num_worlds, len(variables.size))) * variables.size).astype(np.int64)
    true = variables.state_atom[variables.state_start[:-1] + state]
    worlds = np.zeros((num_worlds, num_atoms), bool)
    world, variable = np.nonzero(true >= 0)
    worlds[world, true[world, variable]] = True
    return worlds


def estimate_log_mean(log_weight: np.ndarray) -> tuple[float, float, float]:
    """Return the log of the mean weight, its standard error and the effective number of runs."""
    runs = len(log_weight)
    peak = float(log_weight.max())
    if peak == -np.inf:
        return -np.inf, np.inf, 0.0
    weight = np.exp(log_weight - peak)
    mean = float(weight.mean())
    seen = float(weight.std(ddof=1)) / mean / np.sqrt(runs)
    feasible = log_weight[log_weight > -np.inf]
    wide = float(feasible.var(ddof=1)) if len(feasible) > 1 else np.inf
    tail = np.sqrt(np.expm1(min(wide, 30.0)) / runs)
    error = max(float(seen), min(float(tail), wide / 2 + float(np.sqrt(wide))))
    return peak + float(np.log(mean)), error, float(weight.sum() ** 2 / (weight**2).sum())


def place_temperatures(before: AnnealingRound, sweeps: int) -> np.ndarray:
    """Return float64[sweeps + 1] from 0 to 1, dense where the score varies most."""
    deviation = before.trail.std(axis=0)
    deviation = np.maximum(deviation, 0.05 * deviation.max(initial=0.0)) + 1e-12
    length = np.concatenate(([0.0], np.cumsum(deviation * np.diff(before.beta))))
    placed: np.ndarray = np.interp(np.linspace(0.0, length[-1], sweeps + 1), length, before.beta)
    placed[0], placed[-1] = 0.0, 1.0
    return placed


def summarize_round(
    reduction: Reduction,
    found: AnnealingRound,
    constant: float,
    precision: float,
    interrupted: bool,
) -> Annealed:
    """Estimate marginals and counts from the last worlds, resampled by weight in groups."""
    network, base = reduction.network, reduction.network.num_base_atoms
    log_mean, error, ess = estimate_log_mean(found.log_weight)
    groups = np.array_split(np.arange(len(found.log_weight)), GROUPS)
    share, estimates = [], []
    for group in groups:
        weight = np.exp(found.log_weight[group] - log_mean) if ess else np.ones(len(group))
        total = float(weight.sum())
        share.append(total)
        if not total:
            estimates.append((np.zeros(base), np.zeros(len(network.weights))))
            continue
        place = (np.arange(RESAMPLED) + 0.5) / RESAMPLED * total
        chosen = group[np.minimum(np.searchsorted(np.cumsum(weight), place), len(group) - 1)]
        recovered = reduction.recover(found.worlds[chosen])
        estimates.append((recovered.marginal[:base], recovered.expected_count))
    part = np.array(share) / sum(share)
    marginal, marginal_error = weighted_mean(np.array([m for m, _ in estimates]), part)
    count, count_error = weighted_mean(np.array([c for _, c in estimates]), part)
    # The errors of atoms on which all worlds agree are bounded by the number of worlds.
    likely = (marginal * ess + 1.0) / (ess + 2.0)
    marginal_error = np.maximum(marginal_error, np.sqrt(likely * (1.0 - likely) / (ess + 1.0)))
    span, _ = count_ranges(network, sampled_components(reduction))
    count_error = np.maximum(count_error, span / (ess + 1.0))
    return Annealed(
        constant + log_mean, error, marginal, marginal_error, count, count_error,
        len(found.beta) - 1, ess, error <= precision, interrupted,
        reduction.core.num_base_atoms,
    )  # fmt: skip


def weighted_mean(estimates: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of groups and its standard error √Σ share²·(estimate − mean)²."""
    # By rounding, shares may sum to more than one; clipping keeps the mean within the estimates.
    mean = np.clip(share @ estimates, estimates.min(axis=0), estimates.max(axis=0))
    bessel = len(share) / max(1, len(share) - 1)
    return mean, np.sqrt(bessel * (share**2) @ (estimates - mean) ** 2)

"""Marginals of a network by the method asked for; `auto` is exact where that is affordable.

`auto` counts the atoms of dense components that can change places, solves every other component
exactly that fits the memory, and samples what is left: with MC-SAT
where hard or nearly hard clauses could cut a Gibbs chain's worlds into islands, with Gibbs
otherwise, and by tempering where chains from different starts stay apart. Each atom says which
method answered it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.errors import LapisError
from lapis.inference.log_odds import sampled_log_odds
from lapis.methods import find_method
from lapis.network.network import Network
from lapis.problem.problem import Problem
from lapis.progress import Progress, Report, Stop

if TYPE_CHECKING:
    from lapis.inference.exact.by_components import ExactPlan
    from lapis.inference.sampling.chains import SampleResult

TINY_ATOMS, TINY_COMPONENT = 200, 12
TRIAL_SHARE = 200  # of the samples: enough to see whether chains agree
REACH = 10  # times the pilot
MAX_RHAT = 1.05
RELAX_SECONDS = 60.0
MANY_GROUNDINGS = 1_000_000  # of formulas: lifting is tried before these are made
MAX_ELEMENTS = 6  # constants told apart, where nobody asked for lifting
NEARLY_HARD = 5.0  # a weight beyond which a Gibbs chain rarely crosses


@dataclass(frozen=True)
class Options:
    """How far to go. `precision` is the standard error wanted on every marginal."""

    precision: float = 0.01
    max_samples: int = 400_000
    num_chains: int = 4
    time_limit: float | None = None
    seed: int = 0
    max_memory: int | None = None  # bytes, for the network and for exact inference's tables
    ibound: int | None = None  # count-gibbs: estimate counts by IJGP with this bound
    progress: Report | None = None
    stop: Stop | None = None
    relax: bool = False  # break the fewest hard formulas where they contradict
    max_elements: int | None = None  # lifted: constants that may be told apart
    instead: Callable[[], Answered | None] | None = None  # `auto` asks it before it samples


@dataclass(frozen=True)
class ChainTrace:
    """What the slowest atoms did in each chain, for plots."""

    atoms: np.ndarray  # int64[num_traced], of the network
    values: np.ndarray  # float32[num_chains, num_draws, num_traced]
    stride: int  # samples from one draw to the next


@dataclass(frozen=True)
class Marginals:
    method: str
    exact: bool
    log_partition: float | None  # where exact; an estimate by ais
    marginal: np.ndarray  # float64[num_base_atoms]
    log_odds: np.ndarray  # float64[num_base_atoms]; of sampled atoms no more than samples can say
    stderr: np.ndarray | None  # float64[num_base_atoms]; None where all is exact
    expected_count: np.ndarray  # float64[num_weights]
    sampled: np.ndarray | None = None  # bool[num_base_atoms], answered by sampling
    diagnostics: dict[str, Any] = field(default_factory=dict)
    trace: ChainTrace | None = None


Answered = tuple[Network, Marginals]


class AnsweredWhole(Exception):
    """Part of a network was to be sampled, but there is an exact answer about all of it."""

    def __init__(self, answered: Answered) -> None:
        super().__init__()
        self.answered = answered


def infer_network(
    network: Network, method: str = "auto", options: Options | None = None
) -> Marginals:
    """Marginals and expected counts of all atoms of a network."""
    chosen, options = find_method("infer", method), options or Options()
    if chosen.takes == "problem":
        raise ValueError(f"{method} starts from a problem, not from a network")
    if chosen.takes == "sampler":
        return by_sampling(network, method, options)
    found: Marginals = chosen.load()(network, options)
    return found


def infer_problem(
    problem: Problem, method: str = "auto", options: Options | None = None
) -> tuple[Network, Marginals]:
    """Marginals of a problem, and the network (for count-gibbs: the atoms) they are about."""
    chosen, options = find_method("infer", method), options or Options()
    if chosen.takes == "problem":
        from lapis.grounding.hard_formulas import refuse_relaxing

        refuse_relaxing(method, options.relax)
        answered: tuple[Network, Marginals] = chosen.load()(problem, options)
        return answered
    if method == "auto" and not options.relax:
        lift = partial(try_lifting, problem, options)
        if num_groundings(problem) <= MANY_GROUNDINGS:
            options = replace(options, instead=lift)
        elif (lifted := lift()) is not None:
            return lifted
    from lapis.grounding.bottom_up import ground
    from lapis.grounding.hard_formulas import CONTRADICTIONS

    try:
        network = ground(problem, max_memory=options.max_memory, progress=options.progress)
    except LapisError as error:
        if not options.relax or error.code not in CONTRADICTIONS:
            raise
        return infer_relaxed(problem, method, options)
    if options.progress is not None:
        options.progress(Progress("inferring", 0, text=f"{network.num_base_atoms:,} atoms"))
    try:
        return network, infer_network(network, method, options)
    except AnsweredWhole as found:
        return found.answered


def num_groundings(problem: Problem) -> int:
    return sum(problem.num_groundings(rule.variables) for rule in problem.model.rules)


def try_lifting(problem: Problem, options: Options) -> Answered | None:
    """The answer of a first-order circuit, if there is one with few constants told apart."""
    lift = find_method("infer", "lifted").load()
    try:
        answered: Answered = lift(problem, replace(options, max_elements=MAX_ELEMENTS))
    except LapisError:  # whatever is wrong, the ground network tells better
        return None
    return answered


def infer_relaxed(problem: Problem, method: str, options: Options) -> tuple[Network, Marginals]:
    """Marginals without the hard ground formulas that a most likely world has to break."""
    from lapis.inference.relaxation import relax

    half = None if options.time_limit is None else options.time_limit / 2
    found = relax(
        problem,
        time_limit=half or RELAX_SECONDS,
        seed=options.seed,
        max_memory=options.max_memory,
        progress=options.progress,
        should_stop=options.stop,
    )
    answer = infer_network(found.network, method, replace(options, time_limit=half))
    return found.network, replace(answer, diagnostics=answer.diagnostics | found.diagnostics)


def by_counts(problem: Problem, options: Options) -> tuple[Network, Marginals]:
    from lapis.inference.sampling.chains import run_chains
    from lapis.inference.sampling.count_gibbs import CountGibbs, unknown_atoms

    atoms = unknown_atoms(problem)
    found = run_chains(
        atoms,
        CountGibbs(problem, options.ibound),
        precision=options.precision,
        max_samples=options.max_samples,
        num_chains=options.num_chains,
        time_limit=options.time_limit,
        seed=options.seed,
        progress=options.progress,
        should_stop=options.stop,
    )
    broken = found.events["broken"]
    if broken and broken == found.num_samples:
        raise LapisError(
            "no world that keeps the hard formulas was found by changing one atom at a time",
            code="unsatisfiable",
            hint="method 'exact' or 'mcsat' says whether there is one",
        )
    notes = describe_chains(found) | {
        "counts": "exact" if options.ibound is None else f"ijgp({options.ibound})",
        "converged": found.converged and not broken,
    }
    return atoms, sampled_marginals("count-gibbs", found, notes)


def sampled_marginals(method: str, found: SampleResult, notes: dict[str, Any]) -> Marginals:
    """What chains over all atoms found."""
    trace = ChainTrace(found.trace.atoms, found.trace.values, found.trace.stride)
    return Marginals(
        method, False, None, found.marginal,
        sampled_log_odds(found.marginal, found.num_samples), found.stderr, found.expected_count,
        np.ones(len(found.marginal), bool), notes, trace,
    )  # fmt: skip


def describe_chains(found: SampleResult) -> dict[str, Any]:
    """How far sampled answers can be trusted, for `diagnostics`."""
    return {
        "samples": found.num_samples,
        "chains": found.num_chains,
        "rhat": found.worst_rhat,
        "ess": found.worst_ess,
        "warmup_error": found.worst_missed,
        "converged": found.converged,
        "interrupted": found.interrupted,
        "ergodic": found.ergodic,
        "seconds": found.seconds,
        "events": dict(found.events),
        "expected_counts_stderr": found.expected_count_stderr.tolist(),
    }


def is_tiny(network: Network) -> bool:
    """Whether enumeration answers at once, so that no kernel needs to be loaded or compiled."""
    if network.num_atoms > TINY_ATOMS:
        return False
    sizes = np.bincount(network.component[: network.num_base_atoms], minlength=1)
    return int(sizes.max(initial=0)) <= TINY_COMPONENT


def by_best_method(network: Network, options: Options) -> Marginals:
    """Exact where it fits, the rest sampled."""
    if is_tiny(network):
        return by_enumeration(network, options)
    from lapis.inference.symmetry.answer import counts_first

    return counts_first(network, options, by_parts)


def by_enumeration(network: Network, options: Options) -> Marginals:
    from lapis.inference.exact.enumerate import enumerate_worlds

    found = enumerate_worlds(network)
    notes = {"components": found.num_components, "largest_states": found.largest_states}
    return Marginals(
        "enumerate", True, found.log_partition, found.marginal, found.log_odds, None,
        found.expected_count, diagnostics=notes,
    )  # fmt: skip


def by_belief_propagation(network: Network, options: Options) -> Marginals:
    """The cheap estimate: no standard error, exact only where the factor graph is a forest."""
    from lapis.inference.propagation.belief_propagation import propagate_beliefs

    found = propagate_beliefs(network)
    notes = {
        "converged": found.converged,
        "passes": found.num_passes,
        "residual": found.residual,
        "bethe_log_partition": found.log_partition,
    }
    log_partition = found.log_partition if found.exact else None
    return Marginals(
        "bp", found.exact, log_partition, found.marginal, found.log_odds, None,
        found.expected_count, diagnostics=notes,
    )  # fmt: skip


def by_components(network: Network, options: Options) -> Marginals:
    """Exact; what does not fit the memory is refused."""
    from lapis.inference.symmetry.answer import counts_first

    return counts_first(network, options, by_junction_trees)


def by_junction_trees(network: Network, options: Options) -> Marginals:
    from lapis.inference.exact.by_components import DEFAULT_MEMORY, plan_exact

    plan = plan_exact(network, options.max_memory or DEFAULT_MEMORY, random_state=options.seed)
    plan.require_complete()
    return solve_all(plan)


def solve_all(plan: ExactPlan) -> Marginals:
    solved = plan.solve(log_odds=True)
    assert solved.log_odds is not None
    return Marginals(
        "exact", True, solved.log_partition, solved.marginal, solved.log_odds, None,
        solved.expected_count, diagnostics={"width": solved.width},
    )  # fmt: skip


def by_parts(network: Network, options: Options) -> Marginals:
    """Exact where it fits, by the same rule as learning's moments; the rest is sampled."""
    return divide(network, options, sample_alike)


def sample_alike(network: Network, options: Options) -> Marginals:
    from lapis.inference.symmetry.answer import average_alike

    return average_alike(network, by_best_sampler(network, options))


def by_annealing(network: Network, options: Options) -> Marginals:
    """Exact where it fits, and an estimate of log Z by annealed importance sampling elsewhere."""
    from lapis.inference.symmetry.answer import counts_first

    return counts_first(network, options, partial(divide, sample=anneal_rest))


def anneal_rest(network: Network, options: Options) -> Marginals:
    from lapis.inference.sampling.annealed import NUM_RUNS, anneal

    found = anneal(
        network,
        precision=options.precision,
        max_samples=options.max_samples,
        time_limit=options.time_limit,
        seed=options.seed,
        progress=options.progress,
        should_stop=options.stop,
    )
    if found.log_partition == -np.inf:
        raise LapisError(
            "no world that keeps the hard formulas was found by annealing",
            code="unsatisfiable",
            hint="method 'exact' or 'mcsat' says whether there is one",
        )
    notes: dict[str, Any] = {
        "log_partition_stderr": found.stderr,
        "runs": NUM_RUNS,
        "sweeps": found.sweeps,
        "ess": found.ess,
        "converged": found.converged,
        "interrupted": found.interrupted,
        "core_atoms": found.num_core_atoms,
        "expected_counts_stderr": found.expected_stderr.tolist(),
    }
    return Marginals(
        "ais", False, found.log_partition, found.marginal,
        sampled_log_odds(found.marginal, NUM_RUNS), found.marginal_stderr, found.expected_count,
        np.ones(network.num_base_atoms, bool), notes,
    )  # fmt: skip


def divide(
    network: Network, options: Options, sample: Callable[[Network, Options], Marginals]
) -> Marginals:
    """Junction trees for the components that fit, `sample` for the others."""
    from lapis.inference.exact.by_components import DEFAULT_MEMORY
    from lapis.inference.moments.planning import divide_network

    division = divide_network(network, options.max_memory or DEFAULT_MEMORY, options.seed)
    plan, (rest, rest_atom) = division.plan, division.rest
    if not rest.num_atoms:
        return solve_all(plan)
    solved = plan.solve(log_odds=True)
    assert solved.log_odds is not None
    # What evidence decides is counted once.
    part = sample(replace(rest, constant_count=np.zeros(len(rest.weights))), options)
    expected = solved.expected_count + part.expected_count
    if plan.network is not network:
        expected = expected + network.constant_count
    marginal, log_odds, stderr = np.zeros((3, network.num_base_atoms))
    planned = division.planned_atom[: plan.network.num_base_atoms]
    marginal[planned], log_odds[planned] = solved.marginal, solved.log_odds
    own = rest_atom[: rest.num_base_atoms]
    marginal[own], log_odds[own] = part.marginal, part.log_odds
    if part.stderr is not None:
        stderr[own] = part.stderr
    sampled = np.zeros(network.num_base_atoms, bool)
    sampled[own] = not part.exact
    notes: dict[str, Any] = {"width": solved.width}
    notes |= part.diagnostics | {"sampled_atoms": int(sampled.sum())}
    name = part.method if sampled.all() else f"exact+{part.method}"
    trace = part.trace and replace(part.trace, atoms=rest_atom[part.trace.atoms])
    log_partition = part.log_partition
    if log_partition is not None:
        log_partition += solved.log_partition
        if plan.network is not network:
            log_partition += float(network.weights @ network.constant_count)
    return Marginals(
        name, False, log_partition, marginal, log_odds, stderr, expected, sampled, notes, trace
    )


def by_best_sampler(network: Network, options: Options) -> Marginals:
    """The sampler suited to the clauses; tempering where its chains do not come to agree.

    A pilot shows which. Chains that disagreed in warm-up and agree now may have lost a mode: they
    go on only if `REACH` times the pilot would show that it is small enough not to matter.
    """
    whole = None if options.instead is None else options.instead()
    if whole is not None:
        raise AnsweredWhole(whole)
    half = None if options.time_limit is None else options.time_limit / 2
    trial = replace(options, max_samples=options.max_samples // TRIAL_SHARE, time_limit=half)
    found = by_sampling(network, best_sampler(network), trial)
    if not is_settled(found) and chains_agree(found, REACH * options.precision):
        found = by_sampling(network, found.method, options)
    if is_settled(found) or chains_agree(found, options.precision):
        return found
    second = by_sampling(network, "tempering", replace(options, time_limit=half))
    return min(found, second, key=worst_error)


def is_settled(found: Marginals) -> bool:
    """Whether there is nothing to gain by another sampler, or no wish for it."""
    return found.exact or found.diagnostics["converged"] or found.diagnostics["interrupted"]


def chains_agree(found: Marginals, error: float) -> bool:
    """Whether chains agree now, and what they left in warm-up makes no larger error."""
    notes = found.diagnostics
    return bool(notes["rhat"] <= MAX_RHAT and notes["warmup_error"] <= error)


def worst_error(found: Marginals) -> float:
    return 0.0 if found.stderr is None else float(found.stderr.max(initial=0.0))


def best_sampler(network: Network) -> str:
    """MC-SAT for (nearly) hard clauses, Gibbs otherwise."""
    if (network.weight_id < 0).any():
        return "mcsat"
    effective = np.abs(network.weights[network.weight_id] * network.coefficient)
    return "mcsat" if float(effective.max(initial=0.0)) > NEARLY_HARD else "gibbs"


def by_sampling(network: Network, method: str, options: Options) -> Marginals:
    from lapis.inference.sampling.recovery import sample_reduced

    found = sample_reduced(
        network,
        find_method("infer", method).make(),
        precision=options.precision,
        max_samples=options.max_samples,
        num_chains=options.num_chains,
        time_limit=options.time_limit,
        seed=options.seed,
        progress=options.progress,
        should_stop=options.stop,
    )
    notes: dict[str, Any] = {"core_atoms": found.num_core_atoms}
    if found.core is not None:
        notes |= describe_chains(found.core)
        notes["expected_counts_stderr"] = found.expected_stderr.tolist()
    trace = None
    if found.core is not None and found.traced is not None:
        trace = ChainTrace(found.traced, found.core.trace.values, found.core.trace.stride)
    if found.exact:
        log_odds = exact_log_odds(network)
    else:
        log_odds = sampled_log_odds(found.marginal, notes["samples"])
    sampled = np.full(network.num_base_atoms, not found.exact)
    return Marginals(
        method, found.exact, None, found.marginal, log_odds, found.stderr, found.expected_count,
        sampled, notes, trace,
    )  # fmt: skip


def exact_log_odds(network: Network) -> np.ndarray:
    """float64[num_base_atoms], of a network that elimination leaves no core of."""
    from lapis.inference.exact.by_components import exact

    found = exact(network).log_odds
    assert found is not None
    return found

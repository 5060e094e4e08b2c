"""Marginals of a network by the method asked for; `auto` is exact where that is affordable.

`auto` counts the atoms of dense components that can change places, solves every other component
exactly that fits the memory, and samples what is left: by Gibbs, by cluster moves where atoms are
coupled in pairs, by MC-SAT where hard or nearly hard clauses could cut a Gibbs chain's worlds into
islands, as pilots say, and by tempering where chains from different starts stay apart. Each
atom says which method answered it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.freed_memory import give_back
from lapis.inference.log_odds import sampled_log_odds
from lapis.logic.passes import counts_elements
from lapis.network.network import Network
from lapis.problem.problem import Problem
from lapis.progress import STOPPED, Progress, Report, Stop, tell, work_clock
from lapis.registry.method import find_method

if TYPE_CHECKING:
    from lapis.inference.exact.by_components import ExactPlan
    from lapis.inference.sampling.chains import SampleResult
    from lapis.inference.sampling.diagnostics import Trace

TINY_ATOMS, TINY_COMPONENT = 200, 12
MAP_SECONDS = 60.0  # for a most likely world, where nothing is said
MANY_GROUNDINGS = 1_000_000  # of formulas: lifting is tried before these are made
MAX_ELEMENTS = 6  # constants told apart, where nobody asked for lifting


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
    bounds: bool = False  # certified bounds of what is not exact
    max_elements: int | None = None  # lifted: constants that may be told apart
    instead: Callable[[], Answered | None] | None = None  # `auto` asks it before it samples
    exact_until: float = math.inf  # of the work clock: exact work that is not done then gives up

    @property
    def of_chains(self) -> dict[str, Any]:
        """What chains are told, as keywords of `run_chains`."""
        return {
            "precision": self.precision,
            "max_samples": self.max_samples,
            "num_chains": self.num_chains,
            "time_limit": self.time_limit,
            "seed": self.seed,
            "progress": self.progress,
            "should_stop": self.stop,
        }

    @property
    def exact_stop(self) -> Stop:
        """What exact work asks whether to go on."""
        return Stop(self.stop, self.exact_until)

    def begin_map(self) -> Stop:
        """What the search for a most likely world asks, from now on."""
        limit = MAP_SECONDS if self.time_limit is None else self.time_limit
        return Stop(self.stop, work_clock() + limit)

    def begin_exact(self, share: float = 1.0) -> Options:
        """The same options, with so much of the time from now on for exact work."""
        if self.time_limit is None:
            return self
        return replace(self, exact_until=work_clock() + share * self.time_limit)


@dataclass(frozen=True)
class Marginals:
    method: str
    exact: bool
    log_partition: float | None  # where exact; an estimate by ais
    marginal: np.ndarray  # float64[num_base_atoms]
    log_odds: np.ndarray  # float64[num_base_atoms]; of sampled atoms no more than samples can say
    stderr: np.ndarray | None  # float64[num_base_atoms]; None where all is exact, and by bp
    expected_count: np.ndarray  # float64[num_weights]
    sampled: np.ndarray | None = None  # bool[num_base_atoms], answered by sampling
    diagnostics: dict[str, Any] = field(default_factory=dict)
    trace: Trace | None = None  # of the slowest atoms, as the network numbers them
    solved_log_partition: float | None = None  # of what is exact where the rest is sampled
    chosen: np.ndarray | None = None  # int8[num_base_atoms], which of several samplers answered

    @property
    def errors(self) -> np.ndarray:
        """float64[num_base_atoms], standard errors: 0 where exact, NaN where nobody knows them."""
        if self.stderr is not None:
            return self.stderr
        return np.full(len(self.marginal), 0.0 if self.exact else np.nan)

    @property
    def method_ids(self) -> np.ndarray | None:
        """int8[num_base_atoms], of the names that + joins in `method`; None where it is one."""
        names = self.method.split("+")
        if self.sampled is None or len(names) == 1:
            return None
        if self.chosen is None:
            return self.sampled.astype(np.int8)
        first = 1 if names[0] == "exact" else 0
        return np.where(self.sampled, self.chosen + first, 0).astype(np.int8)


Answered = tuple[Network, Marginals]
Solve = Callable[[Network, Options], Marginals]


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
        from lapis.inference.by_samplers import by_sampling

        return by_sampling(network, method, options)
    return chosen.load()(network, options.begin_exact())


def infer_problem(
    problem: Problem, method: str = "auto", options: Options | None = None
) -> tuple[Network, Marginals]:
    """Marginals of a problem, and the network (for count-gibbs: the atoms) they are about."""
    chosen, options = find_method("infer", method), options or Options()
    if chosen.takes == "problem":
        from lapis.grounding.hard_formulas import refuse_relaxing

        refuse_relaxing(method, options.relax)
        return chosen.load()(problem, options.begin_exact())
    lift = partial(try_lifting, problem, options)
    may_lift = method == "auto" and not options.relax
    if may_lift and is_long(problem):
        if (lifted := lift()) is not None:
            return lifted
        may_lift = False
    if may_lift:
        options = replace(options, instead=lift)
    from lapis.grounding.bottom_up import ground
    from lapis.grounding.hard_formulas import CONTRADICTIONS

    try:
        network = ground(problem, max_memory=options.max_memory, progress=options.progress)
    except LapisError as error:
        if may_lift and isinstance(error, TooLarge) and (lifted := lift()) is not None:
            return lifted
        if not options.relax or error.code not in CONTRADICTIONS:
            raise
        return infer_relaxed(problem, method, options)
    tell(options.progress, Progress("inferring", 0, text=f"{network.num_base_atoms:,} atoms"))
    try:
        return network, infer_network(network, method, options)
    except AnsweredWhole as found:
        return found.answered


def is_long(problem: Problem) -> bool:
    """Whether lifting is tried first: formulas have many groundings, or count elements."""
    rules = problem.model.rules
    number = sum(problem.num_groundings(rule.variables) for rule in rules)
    return number > MANY_GROUNDINGS or any(counts_elements(rule.formula) for rule in rules)


def try_lifting(problem: Problem, options: Options) -> Answered | None:
    """The lifted answer, if there is one with few constants told apart."""
    lift = find_method("infer", "lifted").load()
    try:
        limited = replace(options.begin_exact(share=0.5), max_elements=MAX_ELEMENTS)
        answered: Answered = lift(problem, limited)
    except LapisError:  # whatever is wrong, the ground network tells better
        return None
    return answered


def infer_relaxed(problem: Problem, method: str, options: Options) -> tuple[Network, Marginals]:
    """Marginals without the hard ground formulas that a most likely world has to break."""
    from lapis.inference.relaxation import relax

    half = None if options.time_limit is None else options.time_limit / 2
    options = replace(options, time_limit=half)
    found = relax(problem, "auto", options)
    answer = infer_network(found.network, method, options)
    return found.network, replace(answer, diagnostics=answer.diagnostics | found.diagnostics)


def by_counts(problem: Problem, options: Options) -> tuple[Network, Marginals]:
    from lapis.counting.ijgp import IjgpSettings
    from lapis.inference.sampling.chains import run_chains
    from lapis.inference.sampling.count_gibbs import CountGibbs, unknown_atoms

    atoms = unknown_atoms(problem, options.max_memory)
    ijgp = None if options.ibound is None else IjgpSettings(options.ibound)
    found = run_chains(atoms, CountGibbs(problem, ijgp), **options.of_chains)
    counts = "exact" if options.ibound is None else f"ijgp({options.ibound})"
    notes = describe_chains(found) | {"counts": counts}
    return atoms, sampled_marginals("count-gibbs", found, notes)


def sampled_marginals(method: str, found: SampleResult, notes: dict[str, Any]) -> Marginals:
    """What chains over all atoms found."""
    return Marginals(
        method, False, None, found.marginal,
        sampled_log_odds(found.marginal, found.num_samples), found.stderr, found.expected_count,
        np.ones(len(found.marginal), bool), notes, found.trace,
    )  # fmt: skip


def describe_chains(found: SampleResult) -> dict[str, Any]:
    """How far sampled answers can be trusted, for `diagnostics`."""
    return {
        "samples": found.num_samples,
        "chains": found.num_chains,
        "rhat": found.worst_rhat,
        "ess": found.worst_ess,
        "ess_bulk": found.size.bulk,
        "ess_tail": found.size.tail,
        "warmup_error": found.worst_missed,
        "stuck_atoms": found.num_stuck,
        "converged": found.converged,
        "interrupted": found.interrupted,
        "ergodic": found.ergodic,
        "seconds": found.seconds,
        "seconds_left": found.seconds_left,
        "pilots": dict(found.pilots),
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
    """Exact where it fits, the rest sampled; all of it if exact work takes half of the time."""
    if is_tiny(network):  # done before there is anything to ask about time
        return by_enumeration(network, replace(options, stop=None, exact_until=math.inf))
    return exact_first(network, options, sample_alike)


def exact_first(network: Network, options: Options, sample: Solve) -> Marginals:
    """Counts and junction trees where they fit, `sample` for the rest: for all of the network if
    exact work is not done after half of the time."""
    from lapis.inference.symmetry.answer import counts_first

    try:
        half = options.begin_exact(share=0.5)
        return counts_first(network, half, partial(divide, sample=sample))
    except TooLarge as error:
        if error.code != STOPPED:
            raise
    left = None if options.time_limit is None else options.time_limit / 2
    return sample(network, replace(options, time_limit=left))


def by_enumeration(network: Network, options: Options) -> Marginals:
    from lapis.inference.exact.enumerate import enumerate_worlds

    found = enumerate_worlds(network, options.exact_stop)
    notes = {"components": found.num_components, "largest_states": found.largest_states}
    return Marginals(
        "enumerate", True, found.log_partition, found.marginal, found.log_odds, None,
        found.expected_count, diagnostics=notes,
    )  # fmt: skip


def by_belief_propagation(network: Network, options: Options) -> Marginals:
    """The cheap estimate: no standard error, exact only where the factor graph is a forest."""
    from lapis.inference.exact.by_components import DEFAULT_MEMORY
    from lapis.inference.propagation.belief_propagation import propagate_beliefs

    found = propagate_beliefs(network, max_memory=options.max_memory or DEFAULT_MEMORY)
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

    memory, stop = options.max_memory or DEFAULT_MEMORY, options.exact_stop
    plan = plan_exact(network, memory, random_state=options.seed, stop=stop)
    plan.require_complete()
    return solve_all(plan, stop)


def solve_all(plan: ExactPlan, stop: Stop) -> Marginals:
    solved = plan.solve(log_odds=True, stop=stop)
    assert solved.log_odds is not None
    return Marginals(
        "exact", True, solved.log_partition, solved.marginal, solved.log_odds, None,
        solved.expected_count, diagnostics={"width": solved.width},
    )  # fmt: skip


def sample_alike(network: Network, options: Options) -> Marginals:
    """The best sampler, with one estimate for atoms that can change places."""
    from lapis.inference.by_samplers import by_best_sampler
    from lapis.inference.reduction.eliminate import reduce
    from lapis.inference.symmetry.answer import average_alike
    from lapis.inference.symmetry.by_counts import atom_classes

    whole = None if options.instead is None else options.instead()
    if whole is not None:
        raise AnsweredWhole(whole)
    reduction = reduce(network)
    classes = atom_classes(reduction)  # before there are samples, which need memory too
    give_back(network.literal.nbytes)
    return average_alike(by_best_sampler(reduction, options), classes)


def by_annealing(network: Network, options: Options) -> Marginals:
    """Exact where it fits, and an estimate of log Z by annealed importance sampling elsewhere."""
    return exact_first(network, options, anneal_rest)


def anneal_rest(network: Network, options: Options) -> Marginals:
    from lapis.inference.sampling.annealed import NUM_RUNS, anneal

    found = anneal(network, options)
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


def divide(network: Network, options: Options, sample: Solve) -> Marginals:
    """Junction trees for the components that fit, by the same rule as learning's moments;
    `sample` for the others."""
    from lapis.inference.exact.by_components import DEFAULT_MEMORY
    from lapis.inference.moments.planning import divide_network

    memory, stop = options.max_memory or DEFAULT_MEMORY, options.exact_stop
    division = divide_network(network, memory, options.seed, stop)
    plan, (rest, rest_atom) = division.plan, division.rest
    if not rest.num_atoms:
        return solve_all(plan, stop)
    solved = plan.solve(log_odds=True, stop=stop)
    assert solved.log_odds is not None
    is_part, planned = plan.network is not network, division.planned_atom[: len(solved.marginal)]
    del division, plan
    # What evidence decides is counted once.
    part = sample(replace(rest, constant_count=np.zeros(len(rest.weights))), options)
    expected = solved.expected_count + part.expected_count
    if is_part:
        expected = expected + network.constant_count
    marginal, log_odds, stderr = np.zeros((3, network.num_base_atoms))
    marginal[planned], log_odds[planned] = solved.marginal, solved.log_odds
    own = rest_atom[: rest.num_base_atoms]
    marginal[own], log_odds[own] = part.marginal, part.log_odds
    stderr[own] = part.errors
    sampled = np.zeros(network.num_base_atoms, bool)
    sampled[own] = not part.exact
    notes: dict[str, Any] = {"width": solved.width}
    notes |= part.diagnostics | {"sampled_atoms": int(sampled.sum())}
    name = part.method if sampled.all() else f"exact+{part.method}"
    trace = part.trace and part.trace._replace(atoms=rest_atom[part.trace.atoms])
    chosen = place(part.chosen, own, network.num_base_atoms)
    known = solved.log_partition
    if is_part:
        known += network.constant_score
    log_partition = None if part.log_partition is None else known + part.log_partition
    return Marginals(
        name, False, log_partition, marginal, log_odds, stderr, expected, sampled, notes, trace,
        known, chosen,
    )  # fmt: skip


def place(values: np.ndarray | None, atoms: np.ndarray, size: int) -> np.ndarray | None:
    """What is known of some of so many atoms, 0 of the others; None of what nobody knows."""
    if values is None:
        return None
    whole = np.zeros(size, values.dtype)
    whole[atoms] = values
    return whole

"""The plan of inference: a list of steps, each some components and the solver for them.

`auto` sums exactly what fits the memory and samples the rest:

    enumerate   a tiny network
    counts      dense components of interchangeable atoms, summed over numbers of true atoms
    exact       components whose junction trees fit the memory
    lifted      the whole problem without its network: before sampling, or before grounding if
                there are very many groundings
    samplers    the rest: large components alone, the others grouped by kind. Pilot runs choose
                between Gibbs, cluster moves (pairs of atoms) and MC-SAT (hard or nearly hard
                clauses). Modes in which chains stay apart are weighed

A step keeps the work done to plan it: elimination orders, count tables, reductions. Two kinds of
steps are planned in detail only when they are reached: `GroundStep` and `RestStep`. `solve` runs a
plan and revises it. A method requested by name is a plan of one step; `exact` and `ais` use the
exact steps of `auto`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.inference.marginals import COUNTS, EXACT, InferenceOptions
from lapis.logic.passes import counts_elements
from lapis.network.components import Subnetwork, keep_part, select_components
from lapis.network.network import Network
from lapis.problem.problem import Problem
from lapis.registry.method_table import find_method
from lapis.results.plan_report import PlanReport, PlanRow
from lapis.runtime.progress import STOPPED, Progress, Stop, report_progress, work_clock

if TYPE_CHECKING:
    from lapis.inference.exact.by_components import ExactPlan
    from lapis.inference.exact.by_tables import TablePlan
    from lapis.inference.reduction.eliminate import Reduction
    from lapis.inference.symmetry.by_counts import CountPlan

TINY_ATOMS, TINY_COMPONENT = 200, 12
MANY_GROUNDINGS = 1_000_000  # beyond this, lifting is tried before grounding
MAX_ELEMENTS = 6  # constants with evidence of their own, unless lifting is requested by name
LARGE, SHARE = 100, 0.02  # least atoms, and least share of all, of a component sampled alone
MAX_ALONE = 6
NEARLY_HARD = 5.0  # weight beyond which a Gibbs chain rarely moves
BY_NAME = "requested by name"

# Estimated seconds for a unit of work on one core of a server, kernels compiled.
SECONDS = {
    "enumerate": 5e-8,  # joint states × clauses
    "entry": 3e-8,  # table entries of exact and counts
    "atom": 5e-7,  # atoms summed exactly
    "bp": 4e-6,  # literals
    "ais": 3e-3,  # literals
    "gibbs": 2e-8,  # literals × samples, as for the next three
    "cluster": 2e-8,
    "mcsat": 2e-7,
    "tempering": 3e-7,
}
CORRELATED = 3  # assumed samples for each independent one

# How components that are not summed exactly are answered; "leave": by the caller.
Rest = Literal["sample", "ais", "leave", "refuse"]


@dataclass(frozen=True, kw_only=True)
class PlanStep:
    """Some components of a network and the solver for them."""

    network: Network  # these components; with constant counts only if it is the whole network
    atoms: np.ndarray | None  # int64[...], atoms of the whole, base atoms first; None: all
    row: PlanRow


@dataclass(frozen=True, kw_only=True)
class CountStep(PlanStep):
    plan: CountPlan


@dataclass(frozen=True, kw_only=True)
class ExactStep(PlanStep):
    plan: ExactPlan


@dataclass(frozen=True, kw_only=True)
class SampleStep(PlanStep):
    """Chains on the core that elimination leaves."""

    reduction: Reduction
    candidates: tuple[str, ...]  # samplers that pilot runs choose from
    seed: int
    classes: np.ndarray | None = None  # int32[num_base_atoms], averaged where equal; −1: none


@dataclass(frozen=True, kw_only=True)
class MethodStep(PlanStep):
    """A method of the registry that takes a network."""

    method: str


@dataclass(frozen=True, kw_only=True)
class RestStep(PlanStep):
    """Components that are not summed exactly; planned in detail when reached."""


@dataclass(frozen=True, kw_only=True)
class ProblemStep:
    """A method of the registry that answers a whole problem without its network."""

    problem: Problem
    method: str
    row: PlanRow
    may_refuse: bool  # the following steps answer if it refuses


@dataclass(frozen=True, kw_only=True)
class TableStep(ProblemStep):
    """The tables of a network, summed without grounding."""

    plan: TablePlan


@dataclass(frozen=True, kw_only=True)
class GroundStep:
    """A problem that is grounded when the step is reached."""

    problem: Problem
    row: PlanRow
    method: str = "auto"


Step = PlanStep | ProblemStep | GroundStep


@dataclass(kw_only=True)
class InferencePlan:
    """The steps to run; each is removed when it runs, so that its memory is freed."""

    options: InferenceOptions  # with the deadline of exact work
    network: Network | None = None  # None: not grounded
    steps: list[Step] = field(default_factory=list)
    rest: Rest = "refuse"
    liftable: Problem | None = None  # lifted as a whole, if possible, before sampling
    refusal: LapisError | None = None  # raised if no step answers
    notes: dict[str, Any] = field(default_factory=dict)  # diagnostics of relaxed formulas
    rows: list[PlanRow] = field(default_factory=list)  # of finished steps

    def report(self, world: str = "") -> PlanReport:
        """Return the plan as a table, with all steps planned that need no further grounding."""
        place = 0
        while place < len(self.steps):
            step = self.steps[place]
            if isinstance(step, RestStep):
                self.steps[place : place + 1] = plan_rest(step, self)
            else:
                place += 1
        rows = [*self.rows, *(step.row for step in self.steps)]
        return PlanReport(tuple(replace(row, world=world) for row in rows))


def plan_inference(
    problem: Problem, method: str = "auto", options: InferenceOptions | None = None
) -> InferencePlan:
    """Plan the inference of all unknown atoms of a problem; ground it unless it is lifted first.

    Raise LapisError if the hard formulas contradict each other or the data (unless they may be
    relaxed). Raise TooLarge if the network does not fit the memory and the problem may not be
    lifted, or if the requested method cannot answer.
    """
    chosen, options = find_method("infer", method), options or InferenceOptions()
    if chosen.takes == "problem":
        from lapis.grounding.hard_formulas import refuse_relaxing

        refuse_relaxing(method, options.relax)
        names = ("lifted", "cells", "ground") if method == "lifted" else (method,)
        row = PlanRow(solvers=names, reason=BY_NAME)
        step = ProblemStep(problem=problem, method=method, row=row, may_refuse=False)
        return InferencePlan(options=options.begin_exact(), steps=[step])
    if method in ("auto", EXACT) and (found := plan_table_steps(problem, method, options)):
        return found
    may_lift = method == "auto" and not options.relax and not problem.model.tables
    if may_lift and (reason := reason_to_lift_first(problem)):
        row = PlanRow(solvers=("ground",), reason="if lifting refuses; then by components")
        ground_step = GroundStep(problem=problem, row=row)
        return InferencePlan(options=options, steps=[lifted_step(problem, reason), ground_step])
    return plan_ground(problem, method, options, may_lift=may_lift)


def plan_table_steps(
    problem: Problem, method: str, options: InferenceOptions
) -> InferencePlan | None:
    """Plan the sums of a network's tables; None if it must be ground."""
    from lapis.inference.exact.by_tables import plan_tables

    found = plan_tables(problem, exact_memory(options))
    if found is None:
        return None
    tables = TableStep(
        problem=problem, method=EXACT, row=found.row(SECONDS["entry"]), may_refuse=True, plan=found
    )
    row = PlanRow(solvers=("ground",), reason="if numbers underflow; then by components")
    ground_step = GroundStep(problem=problem, row=row, method=method)
    return InferencePlan(options=options.begin_exact(), steps=[tables, ground_step])


def plan_ground(
    problem: Problem, method: str, options: InferenceOptions, *, may_lift: bool
) -> InferencePlan:
    """Ground a problem and plan its network."""
    from lapis.grounding.bottom_up import ground
    from lapis.grounding.hard_formulas import CONTRADICTIONS

    began, notes = work_clock(), {}
    try:
        network = ground(problem, max_memory=options.max_memory, progress=options.progress)
    except LapisError as error:
        if may_lift and isinstance(error, TooLarge):
            step = lifted_step(problem, "the network does not fit the memory")
            return InferencePlan(options=options, steps=[step], refusal=error)
        if not options.relax or error.code not in CONTRADICTIONS:
            raise
        from lapis.inference.relaxation import relax

        half = None if options.time_limit is None else options.time_limit / 2
        options = replace(options, time_limit=half)
        relaxed = relax(problem, "auto", options)
        network, notes = relaxed.network, relaxed.diagnostics
    report_progress(
        options.progress, Progress("inferring", 0, text=f"{network.num_base_atoms:,} atoms")
    )
    row = replace(
        network_row(network, ("ground",), f"{network.num_clauses:,} clauses"),
        num_bytes=network_bytes(network), seconds=work_clock() - began,
    )  # fmt: skip
    plan = plan_network(network, method, options, problem if may_lift else None)
    plan.notes, plan.rows = notes, [row]
    return plan


def plan_network(
    network: Network,
    method: str = "auto",
    options: InferenceOptions | None = None,
    liftable: Problem | None = None,
    *,
    may_be_tiny: bool = True,
) -> InferencePlan:
    """Plan the inference of all atoms of a network.

    `liftable` is the problem of the network if lifting may answer it as a whole. A part of a
    network is not `may_be_tiny` if the whole is not, so that both are solved in the same way.
    """
    chosen, options = find_method("infer", method), options or InferenceOptions()
    if chosen.takes == "problem":
        raise ValueError(f"method {method!r} takes a problem, not a network")
    if method == "auto" and may_be_tiny and is_tiny(network):  # immediate: no time limit applies
        unlimited = replace(options, stop=None, exact_until=math.inf)
        tiny = method_step(network, "enumerate", "tiny: all joint states")
        return InferencePlan(options=unlimited, network=network, steps=[tiny])
    if method in ("auto", "ais"):
        rest: Rest = "sample" if method == "auto" else "ais"
        return plan_parts(network, options.begin_exact(share=0.5), rest, liftable)
    options = options.begin_exact()
    if method == EXACT:
        return plan_parts(network, options, "refuse")
    if chosen.takes == "sampler":
        step: Step = named_sampler_step(network, method, options)
    else:
        step = method_step(network, method, BY_NAME)
    return InferencePlan(options=options, network=network, steps=[step])


def plan_parts(
    network: Network, options: InferenceOptions, rest: Rest, liftable: Problem | None = None
) -> InferencePlan:
    """Plan exact steps for components that fit the memory, and `rest` for the others."""
    plan = InferencePlan(options=options, network=network, rest=rest, liftable=liftable)
    memory, stop = exact_memory(options), options.exact_stop
    try:
        found = plan_exact_parts(
            network, memory, options.seed, stop, require_complete=rest == "refuse"
        )
    except TooLarge as error:
        if error.code != STOPPED or rest == "refuse":
            raise
        half = None if options.time_limit is None else options.time_limit / 2
        plan.options = replace(options, time_limit=half)
        atoms = np.arange(network.num_atoms)
        plan.steps.append(rest_step(network, atoms, "planning exact sums took half of the time"))
        return plan
    plan.steps += exact_steps(network, found)
    if found.rest.network.num_atoms and rest != "leave":
        reason = f"too wide for exact: a table over at least {found.width + 1} variables"
        plan.steps.append(rest_step(found.rest.network, found.rest.atom, reason, found.width))
    return plan


class ExactParts(NamedTuple):
    """The components of a network that are summed exactly; atoms numbered as in the whole."""

    counts: list[tuple[CountPlan, np.ndarray]]  # with int64[plan.network.num_atoms]
    exact: ExactPlan  # of the components that may fit; it may refuse some of them
    exact_atom: np.ndarray  # int64[exact.network.num_atoms]
    rest: Subnetwork  # the components that are not summed
    width: int = 0  # lower bound of the rest's width


def plan_exact_parts(
    network: Network,
    max_memory: int,
    seed: int = 0,
    stop: Stop | None = None,
    *,
    require_complete: bool = False,
    counted_at: Network | None = None,
    table_memory: int | None = None,
) -> ExactParts:
    """Divide a network into dense components summed by counts, junction trees, and the rest.

    Inference and learning both plan here, so they sum the same components exactly. Learning passes
    `counted_at`, the network at random weights: atoms interchangeable there are so at all weights.
    It may also allow junction trees less memory than counts. Raise TooLarge if the time is up, or
    if components are left and `require_complete` is set.
    """
    from lapis.inference.exact.by_components import plan_exact
    from lapis.inference.exact.treewidth_bounds import divide_network, least_degree
    from lapis.inference.symmetry.by_counts import plan_components

    memory = table_memory or max_memory
    counts = list(plan_components(counted_at or network, max_memory, seed, stop))
    left = Subnetwork(network, np.arange(network.num_atoms))
    if counts:
        is_left = np.ones(network.num_atoms, bool)
        is_left[np.concatenate([atom for _, atom in counts])] = False
        left = keep_part(network, is_left)
    if require_complete:
        plan = plan_exact(left.network, memory, random_state=seed, stop=stop)
        plan.require_complete()
        return ExactParts(counts, plan, left.atom, plan.rest())
    plan, planned, rest = divide_network(left.network, memory, seed, stop)
    width = max((refusal.width for refusal in plan.refused), default=0)
    if rest.network.num_atoms > sum(refusal.num_atoms for refusal in plan.refused):
        width = max(width, least_degree(memory))  # refused without a search for an order
    rest = Subnetwork(rest.network, left.atom[rest.atom])
    return ExactParts(counts, plan, left.atom[planned], rest, width)


def drop_costly_tables(network: Network, found: ExactParts, entries: float) -> ExactParts:
    """Move components whose junction trees have over `entries` entries a literal to the rest."""
    from lapis.inference.exact.by_components import plan_exact

    plan = found.exact
    part = plan.network
    size = np.zeros(len(plan.duplicates.first))
    for forest in plan.forests:
        np.add.at(size, forest.component[forest.tree.order], np.diff(forest.tree.table_start))
    literals = np.bincount(part.component[part.first_atom], np.diff(part.clause_start), len(size))
    is_costly = (size > entries * literals)[plan.duplicates.first[part.component]]
    kept = plan.affordable & ~is_costly
    atom = found.exact_atom[kept]
    left = np.ones(network.num_atoms, bool)
    for summed in (atom, *(counted for _, counted in found.counts)):
        left[summed] = False
    worthy = plan_exact(select_components(part, kept).network, plan.max_memory)
    return found._replace(exact=worthy, exact_atom=atom, rest=select_components(network, left))


def exact_steps(network: Network, found: ExactParts) -> list[Step]:
    """Return the steps of the components that are summed exactly."""
    steps: list[Step] = []
    for plan, atom in found.counts:
        row = replace(
            network_row(
                plan.network, (COUNTS,), f"{sum(plan.class_sizes):,} interchangeable atoms"
            ),
            width=int(np.diff(plan.tree.scope_start).max(initial=0)),
            num_bytes=plan.tree.num_bytes + plan.reduction.tree.num_bytes,
            seconds=exact_seconds(plan.num_entries, plan.network.num_atoms),
        )
        steps.append(CountStep(network=plan.network, atoms=atom, row=row, plan=plan))
    exact = found.exact
    if not exact.affordable.any() and network.num_atoms:
        return steps
    if exact.network is network and exact.is_complete:
        return [ExactStep(network=network, atoms=None, row=exact_row(exact), plan=exact)]
    exact = replace(exact, network=drop_constant_counts(exact.network))
    atoms = found.exact_atom[exact.affordable]
    row = exact_row(exact)
    return [*steps, ExactStep(network=exact.network, atoms=atoms, row=row, plan=exact)]


def exact_row(plan: ExactPlan) -> PlanRow:
    solved = plan.affordable
    sizes = np.bincount(plan.network.component[solved], minlength=1)
    return PlanRow(
        solvers=(EXACT,),
        reason="junction trees fit the memory",
        num_atoms=int(solved[: plan.network.num_base_atoms].sum()),
        num_components=int(np.count_nonzero(sizes)),
        largest=int(sizes.max()),
        width=plan.width,
        num_bytes=float(sum(forest.tree.num_bytes for forest in plan.forests)),
        seconds=exact_seconds(plan.num_entries, int(solved.sum())),
    )


def exact_seconds(entries: int, atoms: int) -> float:
    return SECONDS["entry"] * entries + SECONDS["atom"] * atoms


def rest_step(
    network: Network, atoms: np.ndarray, reason: str, width: int | None = None
) -> RestStep:
    """Return the step of components left to chains."""
    row = replace(network_row(network, (), reason), width=width)
    return RestStep(network=drop_constant_counts(network), atoms=atoms, row=row)


def plan_rest(step: RestStep, plan: InferencePlan) -> list[Step]:
    """Return the steps of a rest: chains, after an attempt to lift the whole problem."""
    if plan.rest == "leave":
        return []
    if plan.rest == "ais":
        seconds = SECONDS["ais"] * len(step.network.literal)
        row = replace(step.row, solvers=("ais",), seconds=seconds)
        return [MethodStep(network=step.network, atoms=step.atoms, row=row, method="ais")]
    steps: list[Step] = []
    if plan.liftable is not None:
        steps.append(lifted_step(plan.liftable, "before anything is sampled"))
        plan.liftable = None
    return [*steps, *sample_steps(step, plan.options)]


def sample_steps(step: RestStep, options: InferenceOptions) -> list[SampleStep]:
    """Return a step for each large component and for each kind of the others."""
    from lapis.inference.reduction.eliminate import reduce
    from lapis.inference.symmetry.by_counts import atom_classes
    from lapis.runtime.processes import trim_heap

    assert step.atoms is not None
    network = step.network
    part_of = divide_components(network)
    labels = np.unique(part_of).tolist()
    steps = []
    for number, label in enumerate(labels):
        part = Subnetwork(network, np.arange(network.num_atoms))
        if len(labels) > 1:
            part = keep_part(network, part_of[network.component] == label)
        reduction = reduce(part.network)
        candidates = candidate_samplers(reduction.core)
        steps.append(
            SampleStep(
                network=part.network,
                atoms=step.atoms[part.atom],
                row=sampling_row(reduction, candidates, step.row, options),
                reduction=reduction,
                candidates=tuple(candidates),
                seed=options.seed + number,
                classes=atom_classes(reduction),  # now, before samples take memory
            )
        )
    trim_heap(network.literal.nbytes)
    return steps


def named_sampler_step(network: Network, method: str, options: InferenceOptions) -> SampleStep:
    """Return the step of one sampler on a whole network."""
    from lapis.inference.reduction.eliminate import reduce

    reduction = reduce(network)
    row = sampling_row(reduction, [method], PlanRow(solvers=(method,), reason=BY_NAME), options)
    return SampleStep(
        network=network, atoms=None, row=row, reduction=reduction, candidates=(method,),
        seed=options.seed,
    )  # fmt: skip


def sample_instead(step: CountStep | ExactStep) -> RestStep:
    """Return the step that samples the components of an exact step that ran out of time."""
    reason = f"{step.row.solvers[0]} was not done at half of the time"
    atoms = np.arange(step.network.num_atoms) if step.atoms is None else step.atoms
    network = step.network
    if isinstance(step, ExactStep) and not step.plan.affordable.all():
        network = keep_part(network, step.plan.affordable).network
    found = rest_step(network, atoms, reason, step.row.width)
    return replace(found, row=replace(found.row, revised=True))


def lifted_step(problem: Problem, reason: str) -> ProblemStep:
    """Return an attempt to answer a whole problem by lifting."""
    row = PlanRow(solvers=("lifted", "cells"), reason=reason)
    return ProblemStep(problem=problem, method="lifted", row=row, may_refuse=True)


def method_step(network: Network, method: str, reason: str) -> MethodStep:
    """Return the step of a method of the registry on a whole network."""
    seconds = None
    if method in SECONDS:
        work = enumeration_work(network) if method == "enumerate" else len(network.literal)
        seconds = SECONDS[method] * work
    row = replace(network_row(network, (method,), reason), seconds=seconds)
    return MethodStep(network=network, atoms=None, row=row, method=method)


def is_tiny(network: Network) -> bool:
    """Return whether enumeration is immediate, so that no kernel is loaded or compiled."""
    if network.num_atoms > TINY_ATOMS:
        return False
    sizes = np.bincount(network.component[: network.num_base_atoms], minlength=1)
    return int(sizes.max(initial=0)) <= TINY_COMPONENT


def reason_to_lift_first(problem: Problem) -> str:
    """Return why lifting precedes grounding; empty if it does not."""
    rules = problem.model.rules
    number = sum(problem.num_groundings(rule.variables) for rule in rules)
    if number > MANY_GROUNDINGS:
        return f"before grounding: {number:,} groundings"
    if problem.model.constraints:
        return "before grounding: cardinality constraints"
    if any(counts_elements(rule.formula) for rule in rules):
        return "before grounding: formulas count"
    return ""


def divide_components(network: Network) -> np.ndarray:
    """Return the part in which each component is sampled, int64[num_components].

    The best sampler differs between components, and components whose chains converge early should
    not wait for others. The largest components are parts of their own. The others are grouped by
    the samplers that may suit them.
    """
    from lapis.inference.sampling.clause_graph import clause_weights

    component, count = network.component, network.num_components
    size = np.bincount(component, minlength=count)
    weight = clause_weights(network.weights, network.weight_id, network.coefficient)
    length = np.diff(network.clause_start)
    owner = component[network.first_atom]
    stiff, pairs = np.zeros(count, bool), np.zeros(count, bool)
    stiff[owner[(length > 1) & (np.abs(weight) > NEARLY_HARD)]] = True
    pairs[owner[(length == 2) & np.isfinite(weight)]] = True
    part = stiff + 2 * pairs
    alone = np.argsort(-size, kind="stable")[:MAX_ALONE]
    alone = alone[size[alone] >= max(LARGE, SHARE * network.num_atoms)]
    part[alone] = 4 + np.arange(len(alone))
    return part


def candidate_samplers(core: Network) -> list[str]:
    """Return the samplers to try: MC-SAT for (nearly) hard clauses, cluster moves for pairs."""
    length = np.diff(core.clause_start)
    hard = core.weight_id < 0
    size = np.abs(np.append(core.weights, 0.0)[core.weight_id] * core.coefficient)
    names = ["gibbs"]
    if (~hard & (length == 2)).any():
        names.append("cluster")
    if (hard | ((size > NEARLY_HARD) & (length > 1))).any():
        names.insert(0, "mcsat")
    return names


def exact_memory(options: InferenceOptions) -> int:
    """Return the bytes allowed for tables of exact inference."""
    from lapis.inference.exact.by_components import DEFAULT_MEMORY

    return options.max_memory or DEFAULT_MEMORY


def drop_constant_counts(network: Network) -> Network:
    """Return the network without the counts that evidence decides."""
    if not network.constant_count.any():
        return network
    return replace(network, constant_count=np.zeros(len(network.weights)))


def network_row(network: Network, solvers: Sequence[str], reason: str) -> PlanRow:
    """Return the row of a step on a network."""
    sizes = np.bincount(network.component) if network.num_atoms else np.zeros(1, np.int64)
    return PlanRow(
        solvers=tuple(solvers),
        reason=reason,
        num_atoms=network.num_base_atoms,
        num_components=network.num_components if network.num_atoms else 0,
        largest=int(sizes.max()),
    )


def sampling_row(
    reduction: Reduction, candidates: Sequence[str], rest: PlanRow, options: InferenceOptions
) -> PlanRow:
    """Return the row of chains on a core."""
    core = reduction.core
    row = network_row(reduction.network, candidates, rest.reason)
    row = replace(row, width=rest.width, revised=rest.revised)
    if not core.num_atoms:
        reason = f"{rest.reason}; elimination leaves no core"
        return replace(row, solvers=(EXACT,), reason=reason, seconds=0.0)
    fits = {"mcsat": "(nearly) hard clauses: mcsat may fit", "cluster": "pairs: cluster may fit"}
    if len(candidates) > 1:
        reasons = [rest.reason, *(fits[name] for name in candidates if name in fits)]
        row = replace(row, reason="; ".join(reasons))
    samples = min(options.max_samples, CORRELATED * 0.25 / max(options.precision, 1e-6) ** 2)
    slowest = max(SECONDS.get(name, 0.0) for name in candidates)
    return replace(
        row,
        num_bytes=samples * core.num_atoms / 8,
        seconds=slowest * samples * (len(core.literal) + core.num_atoms),
    )


def enumeration_work(network: Network) -> float:
    """Return Σ joint states × (1 + clauses) over the components."""
    sizes = np.bincount(network.component, minlength=1).astype(float)
    clauses = np.bincount(network.component[network.first_atom], minlength=len(sizes))
    return float(np.exp2(np.minimum(sizes, 60.0)) @ (1.0 + clauses))


def network_bytes(network: Network) -> float:
    """Return the memory of a network's clauses and atoms."""
    arrays = [
        network.clause_start, network.literal, network.weight_id, network.coefficient,
        network.component, *network.atoms.tuples,
    ]  # fmt: skip
    return float(sum(array.nbytes for array in arrays))

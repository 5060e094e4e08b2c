"""Run a plan of inference: one loop, which revises the plan after each step.

    exact work is not done at half of the time    → its components are sampled
    lifting answers the whole problem             → it replaces all other steps
    lifting refuses                               → the following steps, or grounding

The same seed gives the same numbers unless time or the user ends a step. `Marginals.method_id`
holds the method of each atom, `Marginals.steps` the plan as it was run.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.inference.marginals import (
    COUNTS,
    EXACT,
    Answered,
    InferenceOptions,
    Marginals,
    PartialAnswer,
    average_alike,
    chain_diagnostics,
    sampled_log_odds,
    sampled_marginals,
)
from lapis.inference.plan import (
    MAX_ELEMENTS,
    CountStep,
    ExactStep,
    GroundStep,
    InferencePlan,
    MethodStep,
    PlanStep,
    ProblemStep,
    RestStep,
    SampleStep,
    TableStep,
    plan_ground,
    plan_inference,
    plan_network,
    plan_rest,
    sample_instead,
)
from lapis.network.components import Subnetwork, keep_part
from lapis.network.network import Network
from lapis.problem.problem import Problem, refuse_network, refuse_unsupported
from lapis.registry.method_table import find_method
from lapis.results.plan_report import PlanRow
from lapis.runtime.progress import STOPPED, deadline_in, limit_within_call, work_clock

if TYPE_CHECKING:
    from lapis.inference.reduction.eliminate import Reduction


def infer_problem(
    problem: Problem, method: str = "auto", options: InferenceOptions | None = None
) -> Answered:
    """Return the marginals of a problem and their network (only atoms if not grounded)."""
    return run_plan(plan_inference(problem, method, options)).answer()


def infer_network(
    network: Network, method: str = "auto", options: InferenceOptions | None = None
) -> Marginals:
    """Return marginals and expected counts of all atoms of a network."""
    return run_plan(plan_network(network, method, options)).answer()[1]


class PlanResult(NamedTuple):
    """The answers of the steps of a plan, and the outcome of each step."""

    network: Network
    parts: list[PartialAnswer]
    rows: list[PlanRow]
    notes: dict[str, Any]

    def rest(self) -> Subnetwork:
        """Return the components that no step answered."""
        left = np.ones(self.network.num_atoms, bool)
        for atoms, _ in self.parts:
            left[slice(None) if atoms is None else atoms] = False
        return keep_part(self.network, left)

    def answer(self) -> Answered:
        """Join the answers of all steps."""
        found = Marginals.join(self.network, self.parts)
        notes = found.diagnostics | self.notes
        return self.network, replace(found, diagnostics=notes, steps=tuple(self.rows))


def run_plan(plan: InferencePlan) -> PlanResult:
    """Run the steps in order: keep each answer, or revise the plan."""
    parts: list[PartialAnswer] = []
    rows = [answered_row(row) for row in plan.rows]
    time = SamplingTime(plan.options.time_limit)
    while plan.steps:
        step, began = plan.steps.pop(0), work_clock()
        if isinstance(step, GroundStep):
            plan = plan_ground(step.problem, step.method, plan.options, may_lift=False)
            rows += [answered_row(row) for row in plan.rows]
            time = SamplingTime(plan.options.time_limit)
            continue
        if isinstance(step, RestStep):
            plan.steps[:0] = plan_rest(step, plan)
            continue
        found = run_step(step, plan, time)
        row = replace(step.row, measured=work_clock() - began)
        if found is None:  # exact work ran out of time, or lifting refused
            rows.append(replace(row, status="gave up"))
            if isinstance(step, CountStep | ExactStep):
                plan.steps.append(sample_instead(step))
                time.halve()
        elif isinstance(step, ProblemStep):  # it answers the whole problem
            others = [*rows, *(each.row for each in plan.steps)]
            rows = [
                *(replace(each, status="replaced") for each in others),
                answered_row(row, *found),
            ]
            return PlanResult(found[0], [PartialAnswer(None, found[1])], rows, plan.notes)
        else:
            rows.append(answered_row(row, *found))
            parts.append(PartialAnswer(step.atoms, found[1]))
    if plan.network is None or (plan.refusal is not None and not parts):
        assert plan.refusal is not None
        raise plan.refusal
    return PlanResult(plan.network, parts, rows, plan.notes)


class SamplingTime:
    """The time for sampling steps: starts with the first of them, shared in proportion to atoms."""

    def __init__(self, seconds: float | None) -> None:
        limit = limit_within_call(seconds)
        self.seconds = self.all_seconds = math.inf if limit is None else limit
        self.ends: float | None = None

    def halve(self) -> None:
        """Give half of the time to exact work."""
        self.seconds = self.all_seconds / 2

    def limit(self, step: PlanStep, plan: InferencePlan) -> InferenceOptions:
        """Return the plan's options with the step's share of the remaining time."""
        if self.seconds == math.inf:
            return plan.options
        if self.ends is None:
            self.ends = deadline_in(self.seconds)
        others = [each for each in plan.steps if isinstance(each, PlanStep)]
        atoms = step.network.num_atoms + sum(each.network.num_atoms for each in others)
        left = max(0.0, self.ends - work_clock())
        return replace(plan.options, time_limit=left * step.network.num_atoms / max(1, atoms))


def run_step(
    step: PlanStep | ProblemStep, plan: InferencePlan, time: SamplingTime
) -> Answered | None:
    """Return the answer of a step's solver and its network; None if it has no answer."""
    if isinstance(step, ProblemStep):
        return solve_problem(step, plan.options)
    assert plan.network is not None
    if isinstance(step, CountStep | ExactStep):
        found = solve_exactly(step, plan)
        return None if found is None else (plan.network, found)
    options = time.limit(step, plan)
    if isinstance(step, SampleStep):
        found = solve_by_chains(step, options)
    else:
        assert isinstance(step, MethodStep)
        found = find_method("infer", step.method).load()(step.network, options)
    if found.diagnostics.get("interrupted") and options.stop is not None:
        options.stop.request()  # also ends the following steps
    if step.atoms is not None and not found.exact:
        notes = found.diagnostics | {"sampled_atoms": len(found.marginal)}
        found = replace(found, diagnostics=notes)
    return plan.network, found


def answered_row(
    row: PlanRow, network: Network | None = None, found: Marginals | None = None
) -> PlanRow:
    """Return the row of a step that answered; grounding has no method and was measured earlier."""
    if network is None or found is None:
        return replace(row, status="answered", measured=row.seconds)
    num_atoms = row.num_atoms or network.num_base_atoms
    methods = tuple(dict.fromkeys(found.methods))
    return replace(row, status="answered", methods=methods, num_atoms=num_atoms)


def solve_problem(step: ProblemStep, options: InferenceOptions) -> Answered | None:
    """Answer a whole problem without its network; None if an optional attempt is refused."""
    if isinstance(step, TableStep):
        return step.plan.solve(options)
    refuse_network(step.problem.model)
    solver = find_method("infer", step.method).load()
    if not step.may_refuse:
        answered: Answered = solver(step.problem, options)
        return answered
    limited = replace(options, exact_until=math.inf).begin_exact(share=0.5)
    try:
        answered = solver(step.problem, replace(limited, max_elements=MAX_ELEMENTS))
    except LapisError:  # grounding reports the same error in more detail
        return None
    return answered


def solve_exactly(step: CountStep | ExactStep, plan: InferencePlan) -> Marginals | None:
    """Sum over counts or junction trees; None if the time is up and sampling may follow."""
    try:
        solved = step.plan.solve(log_odds=True, stop=plan.options.exact_stop)
    except TooLarge as error:
        if error.code != STOPPED or plan.rest == "refuse":
            raise
        return None
    assert solved.log_odds is not None
    is_solved = solved.solved
    notes: dict[str, Any] = {"width": solved.width}
    if isinstance(step, CountStep):
        sizes = sorted(step.plan.class_sizes, reverse=True)
        notes = {"counted_atoms": len(is_solved), "class_sizes": sizes}
    return Marginals.by(
        COUNTS if isinstance(step, CountStep) else EXACT,
        exact=True,
        log_partition=solved.log_partition,
        marginal=solved.marginal[is_solved],
        log_odds=solved.log_odds[is_solved],
        expected_count=solved.expected_count,
        diagnostics=notes,
    )


def solve_by_chains(step: SampleStep, options: InferenceOptions) -> Marginals:
    """Run the sampler that pilots choose; a sampler requested by name weighs no modes."""
    options = replace(options, seed=step.seed)
    found = continue_chains(step, options)
    if found.exact:  # elimination left no core
        return found
    if step.classes is None:
        return found.named(step.candidates[0])
    return average_alike(found, step.classes)


def continue_chains(step: SampleStep, options: InferenceOptions) -> Marginals:
    """Run chains from the worlds of an earlier run, if there was one, and remember where they end.

    They continue with its sampler, so no pilots run. Chains of several modes are not remembered.
    """
    memory, core = options.memory, step.reduction.core_atom
    atoms = core if step.atoms is None else step.atoms[core]
    candidates, starts = step.candidates, None
    if memory is not None and memory.sampler in candidates and len(atoms):
        starts = memory.worlds(atoms)
        candidates = candidates if starts is None else (memory.sampler,)
    weigh = step.classes is not None
    found = sample_core(step.reduction, candidates, options, weigh=weigh, starts=starts)
    if memory is None:
        return found
    if found.chain_worlds is not None:
        memory.keep(atoms, found.chain_worlds, found.methods[0])
        notes = found.diagnostics | {"continued_chains": 0 if starts is None else len(starts)}
        return replace(found, diagnostics=notes, chain_worlds=None)
    memory.sampler = ""
    return found


def sample_core(
    reduction: Reduction,
    candidates: tuple[str, ...],
    options: InferenceOptions,
    *,
    weigh: bool,
    starts: np.ndarray | None = None,
) -> Marginals:
    """Run chains of the best candidate; weigh the modes between which they do not move."""
    from lapis.inference.exact.by_components import exact
    from lapis.inference.sampling.recovery import sample_reduced

    names = candidates if reduction.core.num_atoms else ()
    samplers = [find_method("infer", name).make() for name in names]
    found = sample_reduced(reduction, samplers, options, weigh=weigh, starts=starts)
    if found.core is None:
        solved = exact(reduction.network)
        assert solved.log_odds is not None
        return Marginals.by(
            EXACT,
            exact=True,
            log_partition=solved.log_partition,
            marginal=found.marginal,
            log_odds=solved.log_odds,
            stderr=found.stderr,
            expected_count=found.expected_count,
            diagnostics={"core_atoms": 0},
        )
    notes = {"core_atoms": found.num_core_atoms, **chain_diagnostics(found.core)}
    notes["expected_counts_stderr"] = found.expected_stderr.tolist()
    return Marginals.by(
        found.core.method,
        exact=False,
        marginal=found.marginal,
        log_odds=sampled_log_odds(found.marginal, notes["samples"]),
        stderr=found.stderr,
        expected_count=found.expected_count,
        diagnostics=notes,
        trace=found.trace,
        chain_worlds=found.core.worlds,
        modes=found.modes,
    )


def infer_by_enumeration(network: Network, options: InferenceOptions) -> Marginals:
    """Answer by the method `enumerate`."""
    from lapis.inference.exact.enumerate import enumerate_worlds

    found = enumerate_worlds(network, options.exact_stop)
    return Marginals.by(
        "enumerate",
        exact=True,
        log_partition=found.log_partition,
        marginal=found.marginal,
        log_odds=found.log_odds,
        expected_count=found.expected_count,
        diagnostics={"components": found.num_components, "largest_states": found.largest_states},
    )


def infer_by_annealing(network: Network, options: InferenceOptions) -> Marginals:
    """Answer by annealed importance sampling, the method `ais` where exact sums do not fit."""
    from lapis.inference.sampling.annealed import NUM_RUNS, anneal

    found = anneal(network, options)
    if found.log_partition == -np.inf:
        raise LapisError(
            "annealing found no world that satisfies the hard formulas",
            code="unsatisfiable",
            hint="use method 'exact' or 'mcsat' to find out whether there is one",
        )
    return Marginals.by(
        "ais",
        exact=False,
        log_partition=found.log_partition,
        marginal=found.marginal,
        log_odds=sampled_log_odds(found.marginal, NUM_RUNS),
        stderr=found.marginal_stderr,
        expected_count=found.expected_count,
        diagnostics={
            "log_partition_stderr": found.stderr,
            "runs": NUM_RUNS,
            "sweeps": found.sweeps,
            "ess": found.ess,
            "converged": found.converged,
            "interrupted": found.interrupted,
            "core_atoms": found.num_core_atoms,
            "expected_counts_stderr": found.expected_stderr.tolist(),
        },
    )


def infer_by_count_gibbs(problem: Problem, options: InferenceOptions) -> Answered:
    """Answer by the method `count-gibbs`: chains that count without grounding."""
    from lapis.counting.ijgp import IjgpSettings
    from lapis.inference.sampling.chains import run_chains
    from lapis.inference.sampling.count_gibbs import CountGibbs, unknown_atoms

    refuse_unsupported(problem.model)
    atoms = unknown_atoms(problem, options.max_memory)
    ijgp = None if options.ibound is None else IjgpSettings(options.ibound)
    found = run_chains(atoms, CountGibbs(problem, ijgp), **options.chain_options)
    counts = "exact" if options.ibound is None else f"ijgp({options.ibound})"
    notes = chain_diagnostics(found) | {"counts": counts}
    return atoms, sampled_marginals("count-gibbs", found, notes)

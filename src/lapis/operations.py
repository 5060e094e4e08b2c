"""The operations behind `lapis.api` and the commands, on options that were checked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from lapis.errors import LapisError, issue_warnings
from lapis.explanation.answered_task import AnsweredTask
from lapis.language.model import Model
from lapis.language.resolve import read_model
from lapis.model_files import open_network
from lapis.problem.problem import Problem, refuse_network
from lapis.problem.query import query_predicates
from lapis.problem.state_names import list_states
from lapis.problem.task import (
    DataLike,
    Inputs,
    ModelLike,
    Task,
    build_task,
    first_warnings,
    has_lazy_facts,
    list_worlds,
    open_inputs,
)
from lapis.registry.options import (
    CountOptions,
    ExplainOptions,
    GroundOptions,
    InferOptions,
    LearnOptions,
    LiftOptions,
    MapOptions,
    MissingOptions,
    PlanOptions,
    ScoreOptions,
    StructureOptions,
)
from lapis.runtime.progress import Report, Stop, StopCallback, deadline_in

if TYPE_CHECKING:
    import numpy as np

    from lapis.data.database import Database
    from lapis.evaluation.score import Score
    from lapis.inference.marginals import InferenceOptions
    from lapis.learning.fit import Fit
    from lapis.learning.weight_posterior import WeightPosterior
    from lapis.lifted.lifted_answer import Lifted
    from lapis.problem.state_names import EvidenceRows
    from lapis.results.answer import Answer, Counts, MostLikelyWorld, WorldValues
    from lapis.results.atom_groups import Key
    from lapis.results.explanation import Explanation
    from lapis.results.plan_report import PlanReport
    from lapis.results.result import Figures
    from lapis.stores.store import Store
    from lapis.stores.stored_answer import StoredAnswer
    from lapis.structure.learned_rules import LearnedRules

EVIDENCE = ".evid"  # suffix of the states that are observed in a network
T = TypeVar("T")
StopLike = StopCallback | threading.Event | None


def infer(
    model: ModelLike | WeightPosterior,
    data: DataLike,
    options: InferOptions,
    progress: Report | None = None,
    stop: StopLike = None,
) -> Answer:
    """Infer marginals in this process or on a store; average them over a posterior's draws."""
    limits = inference_limits(options, progress, stop)
    if not isinstance(model, Model | str | Path):
        from lapis.learning.averaging import check_average_options, infer_average
        from lapis.learning.weight_posterior import WeightPosterior

        if isinstance(model, WeightPosterior):
            check_average_options(options)
            task = open_task(open_model(model.model, options), data, options)
            refuse_constraints(task, "a posterior has many sets of weights")
            return infer_average(model, task, options.method, limits, options.num_draws)
    refuse_draws(options)

    def solve(task: Task) -> Answer:
        from lapis.inference.worlds import infer_task

        found = infer_task(task, options.method, limits)
        return replace(found, source=AnsweredTask(task, options.seed))

    def solve_on_store(task: Task, engine: str | None) -> Answer:
        from lapis.stores.components.component_answers import infer_on_store
        from lapis.stores.components.packing import StoreLimits

        return infer_on_store(task, engine, options.method, limits, StoreLimits(jobs=options.jobs))

    return solve_task(model, data, options, solve, solve_on_store)


def infer_rows(
    model: ModelLike | WeightPosterior,
    data: DataLike,
    rows: EvidenceRows,
    options: InferOptions,
    progress: Report | None = None,
    stop: StopLike = None,
) -> Answer:
    """Infer the marginals of a network given each row of evidence; rows are worlds."""
    from lapis.circuits.inputs import read_evidence_rows
    from lapis.inference.evidence_rows import solve_rows
    from lapis.inference.plan import exact_memory
    from lapis.inference.worlds import infer_task

    network = open_network(model) if isinstance(model, Model | str | Path) else None
    if not isinstance(network, Model) or not network.tables or network.rules:
        raise LapisError(
            "rows of evidence are for networks",
            code="option-value",
            hint="give other models a database for each row, as a list: each is a world",
        )
    if data is not None and list_worlds(data):
        raise LapisError("rows of evidence take the place of data", code="option-value")
    states = read_evidence_rows(network, rows)
    limits = inference_limits(options, progress, stop)
    names = list(network.predicates)
    query = [options.query] if isinstance(options.query, str) else list(options.query)
    if not states.size:
        raise LapisError("there is no row of evidence", code="no-data")
    if options.method in ("auto", "exact") and set(query) <= set(names) and not options.bounds:
        asked = [names.index(name) for name in dict.fromkeys(query)]
        until = limits.begin_exact().exact_stop
        found = solve_rows(network, states, asked, exact_memory(limits), until)
        if found is not None:
            return found
    return infer_task(row_task(network, states, options), options.method, limits)


def row_task(network: Model, states: np.ndarray, options: InferOptions) -> Task:
    """Return a task with a world for each row of states, int32[num_rows, num_variables]."""
    tasks = []
    for row in states.tolist():
        named = zip(network.predicates, row, strict=True)
        given = {name: network.types[name][state] for name, state in named if state >= 0}
        tasks.append(open_task(network, None, replace(options, evidence=list_states(given))))
    worlds = [task.worlds[0]._replace(name=str(n)) for n, task in enumerate(tasks, 1)]
    return replace(tasks[0], worlds=tuple(worlds))


def plan(
    model: ModelLike, data: DataLike, options: PlanOptions, progress: Report | None = None
) -> PlanReport:
    from lapis.inference.worlds import plan_task

    task = open_task(open_model(model, options), data, options)
    if has_lazy_facts(task):
        raise LapisError(
            "only inference in memory is planned, and the data is on an engine",
            code="engine-plan",
            hint="read it from files",
        )
    return plan_task(task, options.method, inference_limits(options, progress, None))


def map(
    model: ModelLike,
    data: DataLike,
    options: MapOptions,
    progress: Report | None = None,
    stop: StopLike = None,
) -> MostLikelyWorld:
    limits = inference_limits(options, progress, stop)

    def solve(task: Task) -> MostLikelyWorld:
        from lapis.inference.worlds import map_task

        found = map_task(task, options.method, limits)
        return replace(found, source=AnsweredTask(task, options.seed))

    def solve_on_store(task: Task, engine: str | None) -> MostLikelyWorld:
        from lapis.stores.components.component_answers import map_on_store
        from lapis.stores.components.packing import StoreLimits

        return map_on_store(task, engine, options.method, limits, StoreLimits(jobs=options.jobs))

    return solve_task(model, data, options, solve, solve_on_store)


def explain(
    model: ModelLike,
    data: DataLike,
    atom: Key,
    options: ExplainOptions | InferOptions,
    world: WorldValues | None = None,
    fit: Fit | None = None,
) -> Explanation:
    """Explain an atom or ground formula; only what is near it is inferred."""
    task = open_task(model, data, options)
    request = {
        "world": world, "change_to": options.change_to, "facts": options.facts, "fit": fit
    }  # fmt: skip
    source = AnsweredTask(task, options.seed)
    found = source.explain(atom, None, request)
    if found.whole:
        return found
    from lapis.inference.marginals import InferenceOptions
    from lapis.inference.worlds import infer_task

    # The component is too large to be explained alone: its boundary needs an answer.
    limits = InferenceOptions(time_limit=options.time_limit, seed=options.seed)
    return source.explain(atom, infer_task(task, "auto", limits), request)


def infer_to_store(
    model: ModelLike,
    data: DataLike,
    options: InferOptions,
    output: str,
    progress: Report | None = None,
    stop: StopLike = None,
) -> StoredAnswer:
    refuse_draws(options)
    limits = inference_limits(options, progress, stop)
    return leave_on_store("infer", model, data, options, limits, output)


def map_to_store(
    model: ModelLike,
    data: DataLike,
    options: MapOptions,
    output: str,
    progress: Report | None = None,
    stop: StopLike = None,
) -> StoredAnswer:
    limits = inference_limits(options, progress, stop)
    return leave_on_store("map", model, data, options, limits, output)


def leave_on_store(
    command: Literal["infer", "map"],
    model: ModelLike,
    data: DataLike,
    options: InferOptions | MapOptions,
    limits: InferenceOptions,
    output: str,
) -> StoredAnswer:
    """Leave the answer of a command in a table of the store, or write it to files from there."""

    def solve(task: Task) -> StoredAnswer:
        raise needs_engine("output")

    def solve_on_store(task: Task, engine: str | None) -> StoredAnswer:
        from lapis.stores.components.component_answers import answer_to_store
        from lapis.stores.components.packing import StoreLimits

        jobs = StoreLimits(jobs=options.jobs)
        return answer_to_store(command, task, engine, options.method, limits, output, jobs)

    return solve_task(model, data, options, solve, solve_on_store)


def solve_task(
    model: ModelLike,
    data: DataLike,
    options: InferOptions | MapOptions,
    solve: Callable[[Task], T],
    solve_on_store: Callable[[Task, str | None], T],
) -> T:
    """Build the task and solve it in this process, or on the store that has the data."""

    def build_and_solve(model: ModelLike, data: DataLike, engine: str | None) -> T:
        task = open_task(model, data, options)
        if engine is not None or has_lazy_facts(task):
            refuse_constraints(task, "an engine solves each component once")
            refuse_network(task.model)
            return solve_on_store(task, engine)
        if options.jobs is not None:
            raise needs_engine("jobs")
        return solve(task)

    model = open_model(model, options)
    if options.engine is None and options.tables is None:
        return build_and_solve(model, data, None)
    from lapis.stores.mapped_tables import call_on_engine

    return call_on_engine(
        build_and_solve, model, data, options.engine, options.tables, options.max_memory
    )


def open_task(
    model: ModelLike,
    data: DataLike,
    options: InferOptions | MapOptions | PlanOptions | ExplainOptions,
) -> Task:
    """Read the model and its data, with the query and the evidence of the options."""
    model, data, observed = open_evidence(model, data)
    given = options.evidence
    return build_task(
        model,
        data,
        options.query,
        open_predicates=options.open_predicates,
        only_listed=options.only_listed,
        soft_evidence=options.soft_evidence,
        soft_as=options.soft_as,
        evidence=[*observed, *([given] if isinstance(given, str) else given)],
        strict=options.strict,
        fits=True,
        constraints=True,
    )


def open_model(model: ModelLike, options: object) -> ModelLike:
    """Read a model if it is a network, or if missing numbers are to be skipped."""
    opened = open_network(model)
    missing = options.missing if isinstance(options, MissingOptions) else "error"
    if missing == "error" or not isinstance(opened, Model | str | Path):
        return opened
    if not isinstance(opened, Model):
        opened = read_model(opened)
        issue_warnings(first_warnings(opened))
    return replace(opened, missing=missing)


def open_evidence(model: ModelLike, data: DataLike) -> tuple[ModelLike, DataLike, list[str]]:
    """Read a network and the states in its .evid files; return other models as they are."""
    opened = open_network(model)
    worlds = list_worlds(data)
    evid = [w for w in worlds if isinstance(w, str | Path) and str(w).lower().endswith(EVIDENCE)]
    if not evid or not isinstance(opened, Model) or not opened.tables:
        return opened, data, []
    from lapis.circuits.inputs import read_observed

    observed = read_observed(opened, evid)
    return opened, [world for world in worlds if world not in evid] or None, observed


def inference_limits(
    options: InferOptions | MapOptions | PlanOptions | ScoreOptions,
    progress: Report | None,
    stop: StopLike,
) -> InferenceOptions:
    """Return the limits of inference that the options of a command give."""
    from lapis.inference.marginals import InferenceOptions

    names = {field.name for field in fields(InferenceOptions)} & vars(options).keys()
    given = {name: getattr(options, name) for name in names}
    return InferenceOptions(**given, seed=options.seed, progress=progress, stop=Stop(stop))


def needs_engine(name: str) -> LapisError:
    return LapisError(
        f"{name} requires an engine",
        code="no-engine",
        hint="name one, as in engine='duckdb' (--engine duckdb)",
    )


def refuse_constraints(task: Task, reason: str) -> None:
    """Raise if weights of the task are to be fitted to probabilities."""
    stated = [constraint for world in task.worlds for constraint in world.constraints]
    if stated:
        raise LapisError(
            f"the probability stated for {stated[0].name} cannot be fitted here: {reason}",
            code="stated-probability",
            span=stated[0].span,
            hint="infer in this process with a single set of weights, or read soft evidence as "
            "virtual",
        )


def refuse_draws(options: InferOptions) -> None:
    if options.num_draws != InferOptions.num_draws:
        raise LapisError(
            "num_draws needs a posterior; a model has one set of weights",
            code="unread-option",
            hint="give a posterior (fit.posterior, --posterior FILE), or leave out num_draws",
        )


def lift(model: ModelLike, data: DataLike, options: LiftOptions) -> Lifted:
    from lapis.lifted.lifted_answer import lift_worlds

    inputs = open_inputs(
        open_model(model, options), data, strict=options.strict, probabilities=False
    )
    return lift_worlds(
        inputs.model,
        inputs.databases,
        query_predicates(options.query, inputs.model),
        method=options.method,
        sizes=options.sizes or {},
        classes=options.classes,
    )


def count(
    model: ModelLike, data: DataLike, options: CountOptions, progress: Report | None = None
) -> Counts:
    from lapis.counting.ijgp import IjgpSettings
    from lapis.counting.rule_counts import count_rules

    ijgp = IjgpSettings(
        options.ibound, options.ijgp_tolerance, options.ijgp_iterations, options.ijgp_damping
    )
    with open_worlds(model, data, options, probabilities=False) as (inputs, store):
        return count_rules(
            inputs.model,
            inputs.databases,
            counts=options.counts,
            ijgp=ijgp,
            measure_error=options.measure_error,
            place=place_worlds(store),
            progress=progress,
        )


def score(
    model: ModelLike,
    data: DataLike,
    options: ScoreOptions,
    progress: Report | None = None,
    stop: StopLike = None,
) -> Score:
    from lapis.evaluation.score import score_worlds

    inputs = open_inputs(open_model(model, options), data, strict=options.strict)
    return score_worlds(
        inputs.model,
        inputs.databases,
        query_predicates(options.query, inputs.model),
        method=options.method,
        options=inference_limits(options, progress, stop),
        unobserved=options.unobserved,
        only_listed=options.only_listed,
        likelihood=options.likelihood,
    )


def learn(
    model: ModelLike,
    data: DataLike,
    options: LearnOptions,
    progress: Report | None = None,
    stop: StopLike = None,
) -> Fit:
    from lapis.learning.learn import learn_weights

    with open_worlds(model, data, options, max_memory=options.max_memory) as (inputs, store):
        return learn_weights(
            inputs.model,
            inputs.databases,
            query_predicates(options.query, inputs.model),
            options,
            place=place_worlds(store),
            progress=progress,
            stop=Stop(stop),
        )


def learn_structure(
    model: ModelLike,
    data: DataLike,
    options: StructureOptions,
    progress: Report | None = None,
    stop: StopLike = None,
) -> LearnedRules:
    from lapis.runtime.processes import num_cores
    from lapis.structure.learn_rules import learn_rules

    joint = options.joint_targets or ()
    texts = [joint] if isinstance(joint, str) else joint
    deadline = deadline_in(options.time_limit)
    with open_worlds(model, data, options) as (inputs, store):
        open_joins = None
        if store is not None:
            from lapis.stores.counting.stored_paths import StoredJoins

            open_joins = partial(StoredJoins, store=store)
        return learn_rules(
            inputs.model,
            inputs.databases,
            query_predicates(options.query, inputs.model),
            options,
            joint_targets=[query_predicates(text, inputs.model) for text in texts],
            jobs=options.jobs or (num_cores() if store is None else 1),
            open_joins=open_joins,
            progress=progress,
            stop=Stop(stop, deadline),
        )


@contextmanager
def open_worlds(
    model: ModelLike,
    data: DataLike,
    options: CountOptions | LearnOptions | StructureOptions,
    *,
    probabilities: bool = True,
    max_memory: int | None = None,
) -> Iterator[tuple[Inputs, Store | None]]:
    """Read a model and its data in memory, or on an engine; yield the inputs and the store."""
    model = open_model(model, options)
    if options.engine is None and options.tables is None:
        inputs = open_inputs(
            model, data, strict=options.strict, probabilities=probabilities, fits=not probabilities
        )
        yield inputs, None
        return
    from lapis.stores.mapped_tables import open_on_engine

    with open_on_engine(
        model,
        data,
        options.engine,
        options.tables,
        strict=options.strict,
        probabilities=probabilities,
        max_memory=max_memory,
    ) as opened:
        yield opened


def place_worlds(store: Store | None) -> Callable[[Problem], Problem] | None:
    """Return the function that places problems on the store; None without a store."""
    if store is None:
        return None
    from lapis.stores.load_to_store import place_problem

    return partial(place_problem, store=store)


def ground_network(
    model: Path,
    worlds: Sequence[Database | Path] | None,
    options: GroundOptions,
    progress: Report | None,
) -> Figures:
    """Ground a model, write the network to `options.output` and return its sizes."""
    from lapis.grounding import ground
    from lapis.network.export import check_network_file, write_network
    from lapis.results.result import Figures

    if options.output is not None:
        check_network_file(options.output)
    if worlds is not None and len(worlds) > 1:
        raise LapisError("one network is one world", code="several-worlds", hint="use --merge")
    # The file keeps the weights of the model, so rules are not gathered.
    task = build_task(
        open_model(model, options),
        worlds,
        options.query,
        open_predicates=options.open_predicates,
        strict=options.strict,
        gather=False,
        constraints=True,
    )
    # Contradictory hard formulas are no error here.
    network = ground(
        task.worlds[0].problem,
        progress=progress,
        cache_dir=options.cache,
        max_memory=options.max_memory,
        check=False,
    )
    if options.output is not None:
        write_network(network, options.output)
    sizes = {
        "atoms": network.num_base_atoms,
        "auxiliary_atoms": network.num_atoms - network.num_base_atoms,
        "clauses": network.num_clauses,
        "hard_clauses": int((network.weight_id < 0).sum()),
        "literals": len(network.literal),
        "blocks": network.num_blocks,
        "weights": len(network.weights),
        "components": network.num_components,
        "constant_score": network.constant_score,  # not part of .uai
    }
    return Figures(sizes)


def draw_clusters(
    model: Path, worlds: Sequence[Database | Path] | None, path: Path, options: StructureOptions
) -> None:
    """Draw the lifted hypergraph of the data to `path`."""
    from lapis.problem.problem import build_problem
    from lapis.results.graph import check_drawing
    from lapis.structure.learners.lift_graph import PRIOR, draw_cluster_graph, lift_graph
    from lapis.structure.training_data import join_worlds

    check_drawing(path)
    inputs = open_inputs(open_model(model, options), worlds, strict=options.strict, quiet=True)
    problems = [build_problem(inputs.model, database) for database in inputs.databases]
    data = join_worlds(inputs.model, problems, ())
    draw_cluster_graph(data, lift_graph(data, options.cluster_prior or PRIOR)).save(path)


def map_wcnf(path: Path, options: MapOptions, progress: Report | None) -> MostLikelyWorld:
    """Solve a weighted MaxSAT file; `cost` is the weight of the violated soft clauses."""
    import numpy as np

    from lapis.data.database import Domain
    from lapis.inference.map.wcnf import solve_wcnf
    from lapis.inference.marginals import InferenceOptions
    from lapis.results.answer import MostLikelyWorld
    from lapis.results.atom_groups import AtomGroup, Atoms

    limits = InferenceOptions(time_limit=options.time_limit, seed=options.seed, progress=progress)
    result = solve_wcnf(path, options.method, limits)
    found = result.found
    size = result.network.num_base_atoms
    numbers = Domain("variable", tuple(str(i + 1) for i in range(size)))
    codes = np.arange(size, dtype=np.int32).reshape(size, 1)
    variables = AtomGroup("x", codes, (numbers,), ("variable",), "x{0[0]}".format)
    return MostLikelyWorld(
        found.method,
        found.optimal,
        found.score,
        Atoms((variables,)),
        np.asarray(found.world[:size]),
        diagnostics={
            "cost": result.cost,
            "cost_bound": result.bound,
            "gap": found.gap,
            "interrupted": found.interrupted,
            **found.diagnostics,
        },
    )

"""The commands on Markov logic: each calls the library with the typed options and shows the result.

`lapis circuit …`, `lapis field …` and `lapis recipe …` are in modules of their own. The commands
about Lapis itself (`explain-error`, `doctor`, `new`) are in `help_commands.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lapis.cli import (  # noqa: F401, their commands
    circuit_commands,
    field_commands,
    help_commands,
    recipe_commands,
)
from lapis.cli.command_line import (
    MODEL,
    OPEN_MODEL,
    WORLDS,
    Argument,
    command,
    run,
    shown_if_unsaved,
)
from lapis.errors import LapisError
from lapis.registry.option_field import keywords, options_of
from lapis.registry.options import (
    CheckOptions,
    CountOptions,
    DemoOptions,
    EvaluateOptions,
    GroundOptions,
    InferOptions,
    LearningOptions,
    LearnOptions,
    LiftOptions,
    MapOptions,
    NoOptions,
    PlanOptions,
    ScoreOptions,
    ServeOptions,
    StructureOptions,
    WarmOptions,
    WhyOptions,
)
from lapis.runtime.progress_bars import shown_progress

if TYPE_CHECKING:
    from lapis.data.database import Database
    from lapis.language.model import Model
    from lapis.results.explanation import Explanation
    from lapis.results.result import Result
    from lapis.runtime.progress import Report

    Worlds = Sequence[Database | Path] | None

__all__ = ["run"]

DEMO_QUERY = ("Smokes", "Cancer")


@command("demo", DemoOptions)
def demo(options: DemoOptions) -> None:
    """Run the smokers example: marginals, the most likely world, learned weights."""
    from lapis import api
    from lapis.cli.render import console, plain, print_json, show
    from lapis.data.binding import bind
    from lapis.data.database import Database
    from lapis.examples import example_path
    from lapis.language import read_model

    path, data = example_path("smokers.mln"), Database.read(example_path("smokers.db"))
    model, training = read_model(path), Database.read(example_path("smokers-training.db"))
    unweighted = model.with_rules(tuple(replace(rule, weight=None) for rule in model.rules))
    answer = api.infer(model, data, DEMO_QUERY)
    world = api.map(model, data, DEMO_QUERY)
    fit = api.learn(unweighted, training, DEMO_QUERY, objective="pseudo")
    if options.as_json:
        print_json({"infer": answer.to_json(), "map": world.to_json(), "learn": fit.to_json()})
        return
    out = console()
    out.rule("The model")
    out.print(plain(Path(path).read_text(encoding="utf-8").strip()))
    out.rule("The data")
    out.print(plain(str(bind(data, model).describe())))
    out.rule("How likely is it that each person smokes, and has cancer?")
    show(answer)
    out.rule("The most likely world")
    show(world)
    out.rule("The weights, removed and learned again from 1,200 people")
    show(fit)
    out.print(plain("\nWith your own files: lapis infer MODEL DATA -q Smokes,Cancer", "dim"))
    out.print(plain("Weights of your own rules: lapis learn MODEL DATA -o LEARNED", "dim"))


@command("warm", WarmOptions, bar="compiling")
def warm(options: WarmOptions, progress: Report | None) -> None:
    """Compile the kernels of common commands ahead of their first use, on all cores."""
    from lapis.cli.precompile import JOBS
    from lapis.cli.precompile import warm as compile_kernels
    from lapis.cli.render import print_json

    began = time.monotonic()
    compile_kernels(progress=progress)
    if options.as_json:
        print_json({"jobs": list(JOBS), "seconds": time.monotonic() - began})


@command("check", CheckOptions, OPEN_MODEL, WORLDS)
def check(model: Path, worlds: Worlds, options: CheckOptions) -> None:
    """Parse and type-check a model and its data, warn, and explain each formula."""
    from lapis.cli.render import print_json, show_check
    from lapis.model_files import open_network
    from lapis.problem.check import check as check_model

    report = check_model(open_network(model), worlds, strict=options.strict)
    if options.as_json:
        print_json(report.document())
    else:
        show_check(report)


@command("count", CountOptions, MODEL, WORLDS)
def count(model: Path, worlds: Worlds, options: CountOptions) -> Result | None:
    """Count the true groundings of each formula in the data."""
    from lapis import operations

    if options.explain:
        print_count_plans(model, worlds, options)
        return None
    with shown_progress(True, "counting") as progress:
        return operations.count(model, worlds, options, progress)


def print_count_plans(model: Path, worlds: Worlds, options: CountOptions) -> None:
    """Print the plans of exact counts; on an engine, their SQL."""
    from lapis import operations
    from lapis.counting.rule_counts import explain_counts

    for flag, given in (("--json", options.as_json), ("--counts", options.counts != "exact")):
        if given:
            raise LapisError(
                "--explain prints the plans of exact counts, as text",
                code="unread-option",
                hint=f"leave out {flag}, or --explain",
            )
    with operations.open_worlds(model, worlds, options, probabilities=False) as (inputs, store):
        placed = operations.place_worlds(store)
        print(explain_counts(inputs.model, inputs.databases, placed))


@command("ground", GroundOptions, OPEN_MODEL, WORLDS, bar="grounding")
def ground(model: Path, worlds: Worlds, options: GroundOptions, progress: Report | None) -> Result:
    """Ground a model: the size of the network, and a file of it (.wcnf, .uai, .json, .svg)."""
    from lapis import operations

    return operations.ground_network(model, worlds, options, progress)


@command("infer", InferOptions, OPEN_MODEL, WORLDS, bar="sampling")
def infer(
    model: Path | Model, worlds: Worlds, options: InferOptions, progress: Report | None
) -> Result:
    """Infer marginal probabilities of the unknown query atoms."""
    from lapis import operations

    if options.posterior is not None:
        from lapis.language.resolve import read_model
        from lapis.learning.weight_posterior import WeightPosterior

        resolved = read_model(model) if isinstance(model, Path) else model
        draws = WeightPosterior.read(options.posterior, resolved)
        return operations.infer(draws, worlds, options, progress)
    if options.why is not None:
        return explain(options, partial(operations.explain, model, worlds, options.why, options))
    refuse_reasons(options)
    if options.output is not None:
        return operations.infer_to_store(model, worlds, options, options.output, progress)
    found = operations.infer(model, worlds, options, progress)
    return replace(found, with_plan=options.plan)


@command("plan", PlanOptions, OPEN_MODEL, WORLDS, bar="planning")
def plan(
    model: Path | Model, worlds: Worlds, options: PlanOptions, progress: Report | None
) -> Result:
    """Show which solver takes which components in infer, at what cost and why; solve nothing."""
    from lapis import operations

    return operations.plan(model, worlds, options, progress)


@command("map", MapOptions, OPEN_MODEL, WORLDS, bar="most likely world")
def map_(
    model: Path | Model, worlds: Worlds, options: MapOptions, progress: Report | None
) -> Result:
    """Find the most likely world; MODEL may also be a .wcnf file."""
    from lapis import operations

    if isinstance(model, Path) and model.name.endswith((".wcnf", ".wcnf.gz")):
        return operations.map_wcnf(model, options, progress)
    if options.why is not None:
        found = operations.map(model, worlds, options, progress)
        find = partial(found.explain, options.why, change_to=options.change_to, facts=options.facts)
        return explain(options, find)
    refuse_reasons(options)
    if options.output is not None:
        return operations.map_to_store(model, worlds, options, options.output, progress)
    return operations.map(model, worlds, options, progress)


def explain(options: WhyOptions, find: Callable[..., Explanation]) -> Explanation:
    """Find an explanation, and draw it to a file."""
    from lapis.results.graph import check_drawing

    if options.draw is not None:
        check_drawing(options.draw)
    fit = None
    if options.fit is not None:
        from lapis.learning.fit import Fit

        fit = Fit.load(options.fit)
    found = find(fit=fit)
    if options.draw is not None:
        found.draw().save(options.draw)
    return found


def refuse_reasons(options: WhyOptions) -> None:
    """Raise if options of an explanation are given without `--why`."""
    for option in options_of(WhyOptions):
        if getattr(options, option.name) != option.default:
            raise needs_why(option.name)


def needs_why(name: str) -> LapisError:
    return LapisError(
        f"--{name.replace('_', '-')} is for explanations",
        code="unread-option",
        hint="add --why ATOM, or leave it out",
    )


@command("lift", LiftOptions, MODEL, WORLDS)
def lift(model: Path, worlds: Worlds, options: LiftOptions) -> Result:
    """Compute log Z and expected counts without grounding, by a first-order circuit."""
    from lapis import operations
    from lapis.results.graph import check_drawing

    if options.draw is not None:
        check_drawing(options.draw)
    found = operations.lift(model, worlds, options)
    if options.draw is not None:
        with shown_if_unsaved(found, options.as_json):
            found.draw().save(options.draw)
    if options.tree and not options.as_json:
        print(found.tree)
    return replace(found, with_tree=options.tree)


@command("learn", LearnOptions, MODEL, WORLDS, bar="learning")
def learn(model: Path, worlds: Worlds, options: LearnOptions, progress: Report | None) -> Result:
    """Learn the weights of a model's formulas from data."""
    from lapis import operations

    if worlds is None and options.tables is None:
        raise LapisError("nothing to learn from", code="no-data", hint="name data files")
    if options.posterior is not None and options.estimate != "mean":
        raise LapisError(
            "--posterior writes a posterior, which estimate 'mode' does not find",
            code="unread-option",
            hint="add --estimate mean, or leave out --posterior",
        )
    fit = operations.learn(model, worlds, options, progress)
    fit.require_iteration()
    with shown_if_unsaved(fit, options.as_json):
        if options.output is not None:
            fit.save(options.output)
        if options.posterior is not None and fit.posterior is not None:
            fit.posterior.save(options.posterior)
    return fit


@command("structure", StructureOptions, MODEL, WORLDS)
def structure(model: Path, worlds: Worlds, options: StructureOptions) -> Result:
    """Learn rules from data; MODEL declares the predicates."""
    from lapis import operations

    if worlds is None and (options.tables is None or options.draw is not None):
        raise LapisError("nothing to learn from", code="no-data", hint="name data files")
    if options.draw is not None:
        operations.draw_clusters(model, worlds, options.draw, options)
    with shown_progress(True, "learning rules") as progress:
        found = operations.learn_structure(model, worlds, options, progress)
    if options.output is not None:
        with shown_if_unsaved(found, options.as_json):
            found.save(options.output)
    if options.explain and not options.as_json:
        print(found.explain())
    return found


@command("score", ScoreOptions, MODEL, WORLDS, bar="scoring")
def score(model: Path, worlds: Worlds, options: ScoreOptions, progress: Report | None) -> Result:
    """Score a model on data: (pseudo-)log-likelihood, CLL, AUC-PR, AUC-ROC."""
    from lapis import operations

    return operations.score(model, worlds, options, progress)


@command("evaluate", EvaluateOptions, MODEL, WORLDS, bar="cross-validation")
def evaluate(
    model: Path, worlds: Worlds, options: EvaluateOptions, progress: Report | None
) -> Result:
    """Cross-validate: learn on some data files, predict the query in the others, in turn."""
    from lapis.evaluation.cross_validation import cross_validate

    if options.plot is not None:
        from lapis.results.plots import check_picture

        check_picture(options.plot)
    given = keywords(options)
    learning = {each.name: given.pop(each.name) for each in fields(LearningOptions)}
    found = cross_validate(model, worlds or [], learn_options=learning, progress=progress, **given)
    if options.plot is not None:
        with shown_if_unsaved(found, options.as_json):
            found.plot(options.plot)
    return found


START_MODEL = Argument("model", "MODEL", "The model that the page opens with.", is_required=False)
START_DATA = Argument("data", "DATA", "Its data.", many=True, is_required=False)


@command("serve", ServeOptions, START_MODEL, START_DATA)
def serve(model: Path | None, data: Sequence[Path] | None, options: ServeOptions) -> None:
    """Serve the workbench, a page in the browser, from this machine."""
    from lapis.web.serve import serve as start

    start(model, data or (), options)


SHELL = Argument("shell", "SHELL", "bash, zsh or fish.", choices=("bash", "zsh", "fish"))


@command("completion", NoOptions, SHELL)
def completion(shell: str, options: NoOptions) -> None:
    """Print a script that completes commands, options and methods in a shell."""
    from lapis.cli.completion import write_script

    print(write_script(shell))

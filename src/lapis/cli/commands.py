"""The commands: each calls the library with what was typed, and shows or prints the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapis.cli.circuit import CIRCUIT
from lapis.cli.circuit_compile import COMPILING
from lapis.cli.field import FIELD
from lapis.cli.options import takes
from lapis.cli.structure import structure
from lapis.errors import LapisError

if TYPE_CHECKING:
    from lapis.data.database import Database
    from lapis.evaluation.cross_validation import CrossValidation
    from lapis.language.model import Model
    from lapis.progress import Report
    from lapis.results.result import Result

    Worlds = Sequence[Database]


@takes("demo")
def demo(as_json: bool) -> None:
    """The smokers example, end to end: marginals, the most likely world, learned weights."""
    from lapis.cli.demo import run_demo

    run_demo(as_json)


@takes("warm", "compiling")
def warm(progress: Report | None) -> None:
    """Compile the kernels of common commands ahead of their first use, on all cores."""
    from lapis.precompile import warm as compile_ahead

    compile_ahead(progress=progress)


@takes("check")
def check(model: Path, worlds: Worlds, strict: bool, as_json: bool) -> None:
    """Parse and type-check a model and its data, warn, and explain each formula."""
    from lapis.checks import check as check_model
    from lapis.cli.render import print_json, show_report

    report = check_model(model, worlds or None, strict=strict)
    if as_json:
        print_json(report.document())
    else:
        show_report(report)


@takes("count")
def count(
    model: Path, worlds: Worlds, explain: bool, as_json: bool, **options: Any
) -> Result | None:
    """Count the true groundings of each formula in the data."""
    from lapis.api import count as count_rules
    from lapis.cli.progress import progress_bar

    if explain:
        for flag, given in (("--json", as_json), ("--counts", options["counts"] != "exact")):
            if given:
                raise LapisError(
                    "--explain prints the plans of exact counts, as text",
                    code="unread-option",
                    hint=f"leave out {flag}, or --explain",
                )
        from lapis.counting.rule_counts import explain_counts
        from lapis.stores.load_to_store import place_on
        from lapis.stores.mapped_tables import open_on_engine

        places = {name: options[name] for name in ("engine", "tables", "strict")}
        with open_on_engine(model, worlds or None, probabilities=False, **places) as opened:
            inputs, store = opened
            print(explain_counts(inputs.model, inputs.databases, place_on(store)))
        return None
    with progress_bar("counting") as progress:
        return count_rules(model, worlds or None, progress=progress, **options)


@takes("ground", "grounding")
def ground(model: Path, worlds: Worlds, **options: Any) -> Result:
    """The ground network: its size, and a file of it (.wcnf, .uai or .json)."""
    from lapis.cli.ground import run_ground

    return run_ground(model, worlds, **options)


@takes("infer", "sampling")
def infer(model: Path | Model, worlds: Worlds, posterior: Path | None, **options: Any) -> Result:
    """Marginal probabilities of the unknown query atoms."""
    from lapis.api import infer as infer_marginals

    if posterior is None:
        return infer_marginals(model, worlds or None, **options)
    from lapis.language.resolution.resolve import read_model
    from lapis.learning.weight_posterior import WeightPosterior

    resolved = read_model(model) if isinstance(model, Path) else model
    draws = WeightPosterior.read(posterior, resolved)
    return infer_marginals(draws, worlds or None, **options)


@takes("map", "most likely world")
def map_(model: Path | Model, worlds: Worlds, **options: Any) -> Result:
    """The most likely world; MODEL may also be a .wcnf file."""
    from lapis.api import map as most_likely_world
    from lapis.cli.wcnf import is_wcnf, map_wcnf

    if isinstance(model, Path) and is_wcnf(model):
        return map_wcnf(model, **options)
    return most_likely_world(model, worlds or None, **options)


@takes("lift")
def lift(
    model: Path, worlds: Worlds, tree: bool, draw: Path | None, as_json: bool, **options: Any
) -> Result:
    """log Z and expected counts without grounding, by a first-order circuit."""
    from lapis.api import lift as lift_model

    found = lift_model(model, worlds or None, **options)
    if draw is not None:
        found.draw(draw)
    if tree and not as_json:
        print(found.tree)
    return replace(found, with_tree=tree)


@takes("learn", "learning")
def learn(
    model: Path, worlds: Worlds, output: Path | None, posterior: Path | None, **options: Any
) -> Result:
    """Learn the weights of a model's formulas from data."""
    from lapis.api import learn as learn_weights
    from lapis.data.whole_path import require_writable

    if not worlds and options["tables"] is None:
        raise LapisError("nothing to learn from", code="no-data", hint="name data files")
    if posterior is not None and options["estimate"] != "mean":
        raise LapisError(
            "--posterior writes a posterior, which estimate 'mode' does not find",
            code="unread-option",
            hint="add --estimate mean, or leave out --posterior",
        )
    require_writable(output)
    require_writable(posterior)
    fit = learn_weights(model, worlds or None, **options)
    if output is not None:
        fit.save(output)
    if posterior is not None and fit.posterior is not None:
        fit.posterior.save(posterior)
    return fit


@takes("score", "scoring")
def score(model: Path, worlds: Worlds, **options: Any) -> Result:
    """How well a model explains data: (pseudo-)log-likelihood, CLL and AUC-PR."""
    from lapis.api import score as score_model

    return score_model(model, worlds or None, **options)


@takes("evaluate", "cross-validation")
def evaluate(model: Path, worlds: Worlds, **options: Any) -> Result:
    """Cross-validate: learn on some data files, predict the query in the others, in turn."""
    from lapis.options import LEARNING

    learning = {option.name: options.pop(option.name) for option in LEARNING}
    return run_evaluate(model, worlds, learn_options=learning, **options)


def run_evaluate(
    model: Path, worlds: Worlds, query: Sequence[str], *, plot: Path | None = None, **options: Any
) -> CrossValidation:
    """Cross-validate, and write the picture asked for."""
    from lapis.evaluation.cross_validation import cross_validate

    if plot is not None:
        from lapis.results.plots import check_picture

        check_picture(plot)
    found = cross_validate(model, worlds, query, **options)
    if plot is not None:
        found.plot(plot)
    return found


BY_NAME = {command.__name__: command for command in (
    demo, warm, check, count, ground, infer, map_, lift, learn, structure, score, evaluate, *FIELD,
    *CIRCUIT, *COMPILING,
)}  # fmt: skip

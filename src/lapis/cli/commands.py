"""The commands: each calls the library with what was typed, and shows or prints the result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapis.cli.circuit import CIRCUIT
from lapis.cli.field import FIELD
from lapis.cli.options import takes
from lapis.cli.structure import structure
from lapis.errors import LapisError

if TYPE_CHECKING:
    from lapis.data.database import Database

    Worlds = Sequence[Database]


@takes("demo")
def demo(as_json: bool) -> None:
    """The smokers example, end to end: marginals, the most likely world, learned weights."""
    from lapis.cli.demo import run_demo

    run_demo(as_json)


@takes("warm")
def warm() -> None:
    """Compile all kernels ahead, on all cores: the first job of an installation need not."""
    from lapis.cli.progress import progress_bar
    from lapis.cli.warm import compile_all

    with progress_bar("compiling") as progress:
        compile_all(progress)


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
def count(model: Path, worlds: Worlds, explain: bool, as_json: bool, **options: Any) -> None:
    """Count the true groundings of each formula in the data."""
    from lapis.api import count as count_rules
    from lapis.cli.progress import progress_bar
    from lapis.cli.render import present

    if explain:
        from lapis.counting.rule_counts import explain_counts
        from lapis.relational.engines.tables import open_on_engine

        places = {name: options[name] for name in ("engine", "tables", "strict")}
        with open_on_engine(model, worlds or None, probabilities=False, **places) as opened:
            inputs, store = opened
            print(explain_counts(inputs.model, inputs.databases, store))
        return
    with progress_bar("counting") as progress:
        counts = count_rules(model, worlds or None, progress=progress, **options)
    present(counts, as_json)


@takes("ground")
def ground(model: Path, worlds: Worlds, **options: Any) -> None:
    """The ground network: its size, and a file of it (.wcnf, .uai or .json)."""
    from lapis.cli.ground import run_ground

    run_ground(model, worlds, **options)


@takes("infer")
def infer(model: Path, worlds: Worlds, as_json: bool, **options: Any) -> None:
    """Marginal probabilities of the unknown query atoms."""
    from lapis.cli.progress import progress_bar
    from lapis.cli.render import present
    from lapis.cli.warm import samplers_beside

    with progress_bar("sampling") as progress, samplers_beside(worlds):
        from lapis.api import infer as infer_marginals

        answer = infer_marginals(model, worlds or None, progress=progress, **options)
    present(answer, as_json)


@takes("map")
def map_(model: Path, worlds: Worlds, as_json: bool, **options: Any) -> None:
    """The most likely world; MODEL may also be a .wcnf file."""
    from lapis.api import map as most_likely_world
    from lapis.cli.progress import progress_bar
    from lapis.cli.render import present
    from lapis.cli.wcnf import is_wcnf, map_wcnf

    if is_wcnf(model):
        world = map_wcnf(model, options["method"], options["time_limit"], options["random_state"])
    else:
        with progress_bar("most likely world") as progress:
            world = most_likely_world(model, worlds or None, progress=progress, **options)
    present(world, as_json)


@takes("lift")
def lift(
    model: Path,
    worlds: Worlds,
    tree: bool,
    draw: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """log Z and expected counts without grounding, by a first-order circuit."""
    from lapis.api import lift as lift_model
    from lapis.cli.render import present

    found = lift_model(model, worlds or None, **options)
    if draw is not None:
        found.draw(draw)
    if tree and not as_json:
        print(found.tree)
    present(found, as_json)


@takes("learn")
def learn(model: Path, worlds: Worlds, output: Path | None, as_json: bool, **options: Any) -> None:
    """Learn the weights of a model's formulas from data."""
    from lapis.api import learn as learn_weights
    from lapis.cli.progress import progress_bar
    from lapis.cli.render import present
    from lapis.data.whole_path import require_writable

    if not worlds and options["tables"] is None:
        raise LapisError("nothing to learn from", code="no-data", hint="name data files")
    require_writable(output)
    with progress_bar("learning") as progress:
        fit = learn_weights(model, worlds or None, progress=progress, **options)
    if output is not None:
        fit.save(output)
    present(fit, as_json)


@takes("score")
def score(model: Path, worlds: Worlds, as_json: bool, **options: Any) -> None:
    """How well a model explains data: (pseudo-)log-likelihood, CLL and AUC-PR."""
    from lapis.api import score as score_model
    from lapis.cli.progress import progress_bar
    from lapis.cli.render import present

    with progress_bar("scoring") as progress:
        found = score_model(model, worlds or None, progress=progress, **options)
    present(found, as_json)


@takes("evaluate")
def evaluate(model: Path, worlds: Worlds, **options: Any) -> None:
    """Cross-validate: learn on some data files, predict the query in the others, in turn."""
    from lapis.cli.evaluate import run_evaluate
    from lapis.options import LEARNING

    learning = {option.name: options.pop(option.name) for option in LEARNING}
    run_evaluate(model, worlds, learn_options=learning, **options)


@takes("circuit compile")
def circuit_compile(model: Path, data: list[Path] | None, **options: Any) -> None:
    """A circuit that computes a model exactly: all its marginals in one sweep."""
    from lapis.cli.circuit_compile import run_compile

    run_compile(model, data or [], **options)


@takes("circuit marginals")
def circuit_marginals(model: Path, data: list[Path] | None, **options: Any) -> None:
    """All marginals of a model exactly, in numbers: also where a circuit would be too large."""
    from lapis.cli.circuit_compile import run_marginals

    run_marginals(model, data or [], **options)


@takes("circuit approximate")
def circuit_approximate(model: Path, data: list[Path] | None, **options: Any) -> None:
    """The circuit within a budget of edges that is closest to a model, given evidence."""
    from lapis.cli.circuit_compile import run_approximate

    run_approximate(model, data or [], **options)


BY_NAME = {command.__name__: command for command in (
    demo, warm, check, count, ground, infer, map_, lift, learn, structure, score, evaluate, *FIELD,
    *CIRCUIT, circuit_compile, circuit_marginals, circuit_approximate,
)}  # fmt: skip

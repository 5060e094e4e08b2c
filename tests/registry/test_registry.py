"""The registry of methods and options against functions, commands and pages."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import math
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

import lapis
from cli_run import Run
from lapis import fields
from lapis.cli.command_line import COMMANDS
from lapis.errors import LapisError
from lapis.inference.marginals import InferenceOptions
from lapis.learning.objectives.priors import Prior
from lapis.methods import Method, methods_of, tasks
from lapis.problem.state_names import StatesLike
from lapis.registry.method_table import check_options
from lapis.registry.option_field import Option, PriorLike, options_of
from lapis.registry.options import InferOptions, LearningOptions

DOCS = Path(__file__).parents[2] / "docs"
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "count": lapis.count,
    "infer": lapis.infer,
    "map": lapis.map,
    "lift": lapis.lift,
    "learn": lapis.learn,
    "score": lapis.score,
    "evaluate": lapis.cross_validate,
    "structure": lapis.learn_structure,
    "field infer": fields.infer,
    "field map": fields.map,
    "field learn": fields.learn,
    "field score": fields.score,
}
TO_STORE = {"infer": lapis.infer_to_store, "map": lapis.map_to_store}
NOT_OPTIONS = {"model", "field", "data", "databases", "progress", "stop", "output"}
# Keywords of cross-validation that are no options: what learns, and measures to leave out.
OF_FOLDS = {"learn", "learn_options", "pseudo", "likelihood"}
INSIDE = {option.name for option in options_of(LearningOptions)}  # `learn_options`

MODEL = lapis.parse("Smokes(person)\nCancer(person)\n1.5 Smokes(x) => Cancer(x)")
DATA = [
    lapis.Database.parse("Smokes(A) Cancer(A) Smokes(B)"),
    lapis.Database.parse("Smokes(C) !Cancer(C)"),
]


METHODS = [method for task in tasks() for method in methods_of(task).values()]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{m.task}-{m.name}")
def test_a_method_is_where_it_says_and_reads_what_there_is(method: Method) -> None:
    if method.entry:
        assert callable(method.load())
    else:  # a choice
        assert method.takes == "choice"
    offered = {
        option.name
        for command in COMMANDS.values()
        if method.task in {option.task for option in options_of(command.options)}
        for option in options_of(command.options)
    }
    assert set(method.options) <= offered


def test_names_are_unique() -> None:
    for command in COMMANDS.values():
        flags = [flag for option in options_of(command.options) for flag in option.flags]
        assert len(set(flags)) == len(flags)


SHORT = {"-q", "-o", "-n", "--open"}  # beside the keyword's own flag
OTHER = {"random_state": "--seed", "as_json": "--json"}


@pytest.mark.parametrize("command", COMMANDS)
def test_flags_are_the_keywords(command: str) -> None:
    for option in options_of(COMMANDS[command].options):
        prefix = "--no-" if option.default is True else "--"
        own = OTHER.get(option.name, prefix + option.name.replace("_", "-"))
        assert own in option.flags
        assert set(option.flags) - {own} <= SHORT


RowsOfStates = Sequence[Mapping[str, str | int | bool]] | np.ndarray


def as_declared(hint: object) -> object:
    """The type of a keyword as the dataclass has it: seeds are drawn, paths made, before."""
    return {
        int | np.random.Generator: int,
        str | Path | None: Path | None,
        Prior | str | None: str | PriorLike | None,
        StatesLike: Sequence[str] | str,  # names with states become texts before
        StatesLike | RowsOfStates: Sequence[str] | str,  # rows are answered apart
    }.get(hint, hint)  # type: ignore[call-overload]


@pytest.mark.parametrize("command", FUNCTIONS)
def test_functions_take_what_the_dataclass_says(command: str) -> None:
    """Keyword for keyword, with the same types and defaults."""
    compare(FUNCTIONS[command], command, INSIDE if command == "evaluate" else set())


@pytest.mark.parametrize("command", TO_STORE)
def test_functions_to_a_store_take_what_an_engine_reads(command: str) -> None:
    compare(TO_STORE[command], command, {"relax", "bounds", "ibound", "num_draws"})


def compare(function: Callable[..., Any], command: str, others: set[str]) -> None:
    local = {name: getattr(lapis, name) for name in ("Fit", "WeightPosterior", "Lifted")}
    module = sys.modules[inspect.unwrap(function).__module__]
    hints = get_type_hints(
        inspect.unwrap(function),
        {**vars(module), "threading": __import__("threading"), **others_of(local)},
    )
    ignored = NOT_OPTIONS | (OF_FOLDS if command == "evaluate" else set())
    given = {
        name: (as_declared(hints[name]), parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in ignored
    }
    table = {
        option.name: (option.type, option.default)
        for option in options_of(COMMANDS[command].options)
        if not option.cli_only and option.name not in others
    }
    if command == "evaluate":
        given["query"] = table["query"]  # which must be given there
    assert given == table


def others_of(local: dict[str, Any]) -> dict[str, Any]:
    """Names that modules import for types alone."""
    from lapis.evaluation.score import Score
    from lapis.structure.learned_rules import LearnedRules

    frames = {"Frame": np.ndarray}  # EvidenceRows names them for type checkers alone
    return {**local, **frames, "Score": Score, "LearnedRules": LearnedRules, "Prior": Prior}


def test_a_misspelt_keyword_is_refused_with_a_suggestion() -> None:
    with pytest.raises(LapisError, match="infer has no keyword 'precison'") as caught:
        lapis.infer(MODEL, DATA, "Cancer", precison=0.1)  # type: ignore[call-arg]
    assert caught.value.hint == "did you mean 'precision'?"


def test_a_misspelt_keyword_does_not_pass_mypy(tmp_path: Path) -> None:
    """One call is right, the others have a wrong name, a wrong type, a wrong word."""
    lines = (
        "import lapis",
        'right: lapis.Answer = lapis.infer("m.mln", "d.db", "P", precision=0.1)',
        'lapis.infer("m.mln", "d.db", "P", precison=0.1)',
        'lapis.infer("m.mln", "d.db", "P", num_chains="two")',
        'lapis.learn("m.mln", "d.db", prior_mean="middle")',
        'stored: lapis.StoredAnswer = lapis.infer_to_store("m.mln", "d.db", "P", output="table:x")',
    )
    script = tmp_path / "asked.py"
    script.write_text("\n".join(lines) + "\n")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent",
         "--config-file", str(DOCS.parent / "pyproject.toml"), str(script)],
        capture_output=True, text=True,
    )  # fmt: skip
    wrong = [line.split(":")[1] for line in ran.stdout.splitlines() if ": error:" in line]
    assert wrong == ["3", "4", "5"], ran.stdout


def test_a_star_import_hides_no_builtin() -> None:
    names: dict[str, Any] = {}
    exec("from lapis import *", names)
    assert not set(names) - {"__builtins__"} & set(dir(__import__("builtins")))
    assert callable(lapis.map)


def test_defaults_inside_are_those_outside() -> None:
    table = {option.name: option.default for option in options_of(InferOptions)}
    for field in dataclasses.fields(InferenceOptions):
        name = "random_state" if field.name == "seed" else field.name
        if field.default is not dataclasses.MISSING and name in table:
            assert field.default == table[name], name


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_has_every_flag(command: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = run(*command.split(), "--help")
    assert code == 0
    for option in options_of(COMMANDS[command].options):
        assert all(flag in out for flag in option.flags)
        if option.task is not None:
            assert all(name in out for name in methods_of(option.task))


def test_the_pages_hold_the_tables() -> None:
    """`make docs` writes them."""
    spec = importlib.util.spec_from_file_location("tables", DOCS / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    seen = set()
    for page in DOCS.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert tables.write_tables(text) == text, page.name
        seen |= {found.group(2, 3) for found in tables.TABLE.finditer(text)}
    assert seen >= {("methods", task) for task in tasks()}
    for name, text in tables.error_pages().items():
        assert (DOCS / "reference" / name).read_text(encoding="utf-8") == text, name
    without = ("demo", "warm", "completion", "doctor", "explain-error", "new")
    assert seen >= {("options", command) for command in COMMANDS if command not in without}


def wrong_values(option: Option) -> list[object]:
    wrong: list[object] = [object()]
    if option.kind in ("integer", "number", "size"):
        wrong += [math.nan, "3", True]
        if option.low > -math.inf:
            wrong += [option.low if option.excludes_low else option.low - 1]
    if option.kind == "integer":
        wrong += [2.5]
    if option.kind == "names":
        wrong += ["Smokes", [3]]
    if option.kind == "flag":
        wrong += [1, "yes"]
    if option.default is not None:
        wrong += [None]
    return wrong


VALUES = [
    pytest.param(command, option, id=f"{command}-{option.name}")
    for command in FUNCTIONS
    for option in options_of(COMMANDS[command].options)
    if not option.cli_only and option.name != "query"
]


@pytest.mark.parametrize(("command", "option"), VALUES)
def test_wrong_values_are_refused_by_name(command: str, option: Option) -> None:
    for value in wrong_values(option):
        given = {option.name: value}
        if command == "evaluate" and option.name in INSIDE:
            given = {"learn_options": given}
        with pytest.raises(LapisError, match=f"{option.name} must be") as caught:
            FUNCTIONS[command](MODEL, DATA, query=["Cancer"], **given) if command != "count" else (
                lapis.count(MODEL, DATA, **given)
            )
        assert caught.value.code == "option-value"


def other_value(option: Option) -> object:
    """A value that is allowed and not the default."""
    match option.kind:
        case "flag":
            return not option.default
        case "word":
            other = "ijgp" if option.name == "counts" else "gibbs"
            return next((word for word in option.choices if word != option.default), other)
        case "texts":
            return "P"
        case "number" if option.high < 3:
            return option.high / 2
        case _:
            return 3 if option.default != 3 else 4


UNREAD = [
    pytest.param(command, naming, method, option, id=f"{command}-{method.name}-{option.name}")
    for command in COMMANDS
    for part in getattr(COMMANDS[command].options, "parts", (COMMANDS[command].options,))
    for naming in options_of(part)
    if naming.task is not None
    for method in methods_of(naming.task).values()
    for option in options_of(part)
    if option.name not in method.options
    and any(option.name in other.options for other in methods_of(naming.task).values())
]


@pytest.mark.parametrize(("command", "naming", "method", "option"), UNREAD)
def test_what_a_method_does_not_read_is_refused(
    command: str, naming: Option, method: Method, option: Option
) -> None:
    values = {naming.name: method.name, option.name: other_value(option)}
    for as_flags, label in ((False, option.name), (True, option.flag)):
        with pytest.raises(LapisError) as caught:
            check_options(COMMANDS[command].options(**values), as_flags=as_flags)
        assert caught.value.code == "unread-option"
        assert caught.value.message.endswith(f"does not read {label}")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (
            "infer m.mln d.db -q Smokes --method gibbs --ibound 3",
            "error: method 'gibbs' does not read --ibound\n    it belongs to count-gibbs\n",
        ),
        (
            "infer m.mln d.db -q Smokes --method exact --precision 0.1",
            "error: method 'exact' does not read --precision\n"
            "    it belongs to auto, gibbs, mcsat, tempering, cluster, ais, count-gibbs\n",
        ),
        (
            "infer m.mln d.db -q Smokes --ibound 3",
            "error: method 'auto' does not read --ibound\n    it belongs to count-gibbs\n",
        ),
        (
            "infer m.mln d.db -q Smokes --method mcsta",
            "error: unknown method 'mcsta'\n    did you mean 'mcsat'?\n",
        ),
        (
            "infer m.mln d.db -q Smokes --precision nan",
            "error: --precision must be a number of at least 0, not nan\n",
        ),
        (
            "infer m.mln d.db -q Smokes --soft-evidence Smokes(Anna)",
            "error: 'Smokes(Anna)' is not soft evidence\n    as in \"Smokes(Anna)=0.7\"\n",
        ),
        (
            "map m.mln d.db -q Smokes --time-limit 0",
            "error: --time-limit must be a number above 0, not 0.0\n",
        ),
        (
            "infer m.mln d.db -q Smokes --method bp --num-chains 3",
            "error: method 'bp' does not read --num-chains\n"
            "    it belongs to auto, gibbs, mcsat, tempering, cluster, count-gibbs, circuit\n",
        ),
        (
            "count m.mln d.db --ibound 3",
            "error: counts 'exact' does not read --ibound\n    it belongs to ijgp\n",
        ),
        (
            "count m.mln d.db --ijgp-damping 0.2",
            "error: counts 'exact' does not read --ijgp-damping\n    it belongs to ijgp\n",
        ),
        (
            "count m.mln d.db --counts ijgp --ijgp-damping 1",
            "error: --ijgp-damping must be a number between 0 and 0.99, not 1.0\n",
        ),
        (
            "count m.mln d.db --counts ijgp --ijgp-tolerance 0",
            "error: --ijgp-tolerance must be a number above 0, not 0.0\n",
        ),
        (
            "learn m.mln d.db --ijgp-iterations 10",
            "error: counts 'exact' does not read --ijgp-iterations\n    it belongs to ijgp\n",
        ),
        (
            "learn m.mln d.db --differences subtracted",
            "error: counts 'exact' does not read --differences\n    it belongs to ijgp\n",
        ),
        (
            "learn m.mln d.db --counts ijgp --differences exact",
            "error: --differences must be substituted or subtracted, not 'exact'\n",
        ),
        (
            "learn m.mln d.db -q Smokes --num-steps 100",
            "error: expectation 'auto' does not read --num-steps\n"
            "    it belongs to count-gibbs, count-map, count-maxwalksat\n",
        ),
        (
            "learn m.mln d.db -q Smokes --expectation count-maxwalksat --num-records 3",
            "error: expectation 'count-maxwalksat' does not read --num-records\n"
            "    it belongs to count-gibbs, count-map\n",
        ),
        (
            "learn m.mln d.db -q Smokes --expectation count-maxwalksat --optimizer dn",
            "error: dn needs the counts' variances, and a most likely world has none\n"
            "    choose vp, vp-pw, adam or adagrad, or another --expectation\n",
        ),
        (
            "learn m.mln d.db -q Smokes --expectation count-gibbs --num-steps 10 --num-records 20",
            "error: 20 worlds cannot be recorded in 10 steps\n"
            "    give fewer records or more steps\n",
        ),
        (
            "learn m.mln d.db -q Smokes --expectation count-gibbs --chain-start random",
            "error: chains whose counts are averaged start in the data or in their last world\n"
            "    choose --chain-start data or last, or --expectation count-maxwalksat\n",
        ),
        (
            "learn m.mln d.db --optimizer pscg --optimizer-options dampng=2",
            "error: pscg has no option 'dampng'\n    did you mean 'damping'?\n",
        ),
        (
            "learn m.mln d.db --optimizer pscg --optimizer-options damping=-1",
            "error: damping of pscg must be a number of at least 0, not -1\n",
        ),
        (
            "learn m.mln d.db --optimizer pscg --optimizer-options damping",
            "error: 'damping' is not an option\n    as in damping=2\n",
        ),
        (
            "learn m.mln d.db --margin 2",
            "error: objective 'pseudo' does not read margin\n    it belongs to max-margin\n",
        ),
        (
            "learn m.mln d.db --prior-mean middle",
            "error: --prior-mean must be zero or initial, not 'middle'\n",
        ),
        (
            "evaluate m.mln d.db -q Smokes --jobs 0",
            "error: --jobs must be a whole number of at least 1, not 0\n",
        ),
    ],
)
def test_messages(typed: str, message: str, run: Run) -> None:
    code, out, err = run(*typed.split())
    assert (code, out, err) == (1, "", message)


def test_options_of_the_optimizer_arrive(run: Run) -> None:
    """A damping of 10^9 leaves no way to move in one iteration."""
    facts = "Smokes(A) Cancer(A) Smokes(B) Cancer(B) Smokes(C) !Cancer(C)"
    run.write("f.db", facts)
    ask = ["learn", "m.mln", "f.db", "-q", "Cancer", "--optimizer", "dn", "--max-iterations", "1"]
    free = run.json(*ask)["weights"][0]["weight"]
    held = run.json(*ask, "--optimizer-options", "damping=1000000000")["weights"][0]["weight"]
    assert abs(held - 1.5) < 1e-6 < abs(free - 1.5)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_a_default_where_there_is_one(name: str, run: Run) -> None:
    """An option without a default shows none; the others show it as it would be typed."""
    code, out, _ = run(*name.split(), "--help")
    shown = " ".join(out.split())
    assert code == 0
    assert not {"[None]", "[()]", "[]", "[False]", "[True]"} & set(re.findall(r"\[[^\]]*\]", shown))
    for option in options_of(COMMANDS[name].options):
        if isinstance(option.default, int | float) and option.kind != "flag":
            assert f"[{option.default}]" in shown, option.name


def test_none_is_a_value_only_where_it_is_the_default() -> None:
    for owner in {command.options for command in COMMANDS.values()}:
        for option in options_of(owner):
            if option.default is None:
                option.check(None)
            else:
                with pytest.raises(LapisError, match="must be"):
                    option.check(None)

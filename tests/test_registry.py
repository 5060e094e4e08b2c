"""The registry of methods and the table of options, against what they are the table of."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

import lapis
from cli_run import Run
from lapis.errors import LapisError
from lapis.inference.marginals import InferenceOptions
from lapis.learning.options import Options as LearningOptions
from lapis.method import Method, Task
from lapis.methods import (  # fmt: skip
    METHODS,
    OPTION_OF_TASK,
    TASKS_OF_COMMAND,
    check_options,
    methods_of,
)
from lapis.option import Option
from lapis.options import COMMANDS, LEARNING

DOCS = Path(__file__).parents[1] / "docs"
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "count": lapis.count,
    "infer": lapis.infer,
    "map": lapis.map,
    "lift": lapis.lift,
    "learn": lapis.learn,
    "score": lapis.score,
    "evaluate": lapis.cross_validate,
    "structure": lapis.learn_structure,
}
NOT_OPTIONS = {
    "model", "data", "databases", "progress", "stop", "learn", "learn_options", "pseudo",
    "likelihood",
}  # fmt: skip

MODEL = lapis.parse("Smokes(person)\nCancer(person)\n1.5 Smokes(x) => Cancer(x)")
DATA = [
    lapis.Database.parse("Smokes(A) Cancer(A) Smokes(B)"),
    lapis.Database.parse("Smokes(C) !Cancer(C)"),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{m.task}-{m.name}")
def test_a_method_is_where_it_says_and_reads_what_there_is(method: Method) -> None:
    assert callable(method.load())
    offered = {
        option.name
        for command, tasks in TASKS_OF_COMMAND.items()
        if method.task in tasks
        for option in COMMANDS[command]
    }
    assert set(method.options) <= offered


def test_names_are_unique() -> None:
    for task in get_args(Task):
        assert len(methods_of(task)) == sum(method.task == task for method in METHODS)
    for options in COMMANDS.values():
        assert len({option.name for option in options}) == len(options)
        flags = [flag for option in options for flag in option.flags]
        assert len(set(flags)) == len(flags)


@pytest.mark.parametrize("command", FUNCTIONS)
def test_functions_take_what_the_table_says(command: str) -> None:
    """Keyword for keyword, with the same defaults."""
    parameters = inspect.signature(FUNCTIONS[command]).parameters
    given = {
        name: parameter.default
        for name, parameter in parameters.items()
        if name not in NOT_OPTIONS or name in {option.name for option in COMMANDS[command]}
    }
    inside = {option.name for option in LEARNING} if command == "evaluate" else set()
    table = {o.name: o.default for o in COMMANDS[command] if o.is_keyword and o.name not in inside}
    if command == "evaluate":
        given.pop("likelihood", None)
        given["query"] = ()  # which must be given there
    assert given == table


@pytest.mark.parametrize(
    ("command", "options"), [("infer", InferenceOptions), ("learn", LearningOptions)]
)
def test_defaults_inside_are_those_outside(command: str, options: type[Any]) -> None:
    table = {option.name: option.default for option in COMMANDS[command]}
    for field in dataclasses.fields(options):
        name = "random_state" if field.name == "seed" else field.name
        if field.default is not dataclasses.MISSING and name in table:
            assert field.default == table[name], name


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_has_every_flag(command: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = run(*command.split(), "--help")
    assert code == 0
    for option in COMMANDS[command]:
        assert all(flag in out for flag in option.flags)
    for task in TASKS_OF_COMMAND.get(command, ()):
        assert all(name in out for name in methods_of(task))


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
    assert seen >= {("methods", task) for task in get_args(Task)}
    assert seen >= {("options", command) for command in COMMANDS if command not in ("demo", "warm")}


def wrong_values(option: Option) -> list[object]:
    wrong: list[object] = [object()]
    if option.kind in ("integer", "number", "size"):
        wrong += [math.nan, "3", True]
        if option.low > -math.inf:
            wrong += [option.low if option.above else option.low - 1]
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
    for option in COMMANDS[command]
    if option.is_keyword and option.kind not in ("prior",) and option.name != "query"
]


@pytest.mark.parametrize(("command", "option"), VALUES)
def test_wrong_values_are_refused_by_name(command: str, option: Option) -> None:
    for value in wrong_values(option):
        given = {option.name: value}
        if command == "evaluate" and option in LEARNING:
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
            return next((word for word in option.words if word != option.default), other)
        case "texts":
            return "P"
        case "number" if option.high < 3:
            return option.high / 2
        case _:
            return 3 if option.default != 3 else 4


UNREAD = [
    pytest.param(command, task, method, option, id=f"{command}-{method.name}-{option.name}")
    for command, tasks in TASKS_OF_COMMAND.items()
    for task in tasks
    for method in methods_of(task).values()
    for option in COMMANDS[command]
    if option.name not in method.options
    and any(option.name in other.options for other in methods_of(task).values())
]


@pytest.mark.parametrize(("command", "task", "method", "option"), UNREAD)
def test_what_a_method_does_not_read_is_refused(
    command: str, task: Task, method: Method, option: Option
) -> None:
    values = {OPTION_OF_TASK[task]: method.name, option.name: other_value(option)}
    for as_flags, label in ((False, option.name), (True, option.flags[-1])):
        with pytest.raises(LapisError) as caught:
            check_options(command, values, as_flags=as_flags)
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
            "infer m.mln d.db -q Smokes --soft Smokes(Anna)",
            "error: 'Smokes(Anna)' is not soft evidence\n    as in \"Smokes(Anna)=0.7\"\n",
        ),
        (
            "map m.mln d.db -q Smokes --time-limit 0",
            "error: --time-limit must be a number above 0, not 0.0\n",
        ),
        (
            "infer m.mln d.db -q Smokes --method bp --time-limit 3",
            "error: method 'bp' does not read --time-limit\n"
            "    it belongs to auto, exact, enumerate, gibbs, mcsat, tempering, cluster, ais, "
            "count-gibbs, lifted\n",
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
            "learn m.mln d.db -q Smokes --steps 100",
            "error: expectation 'auto' does not read --steps\n"
            "    it belongs to count-gibbs, count-map, count-maxwalksat\n",
        ),
        (
            "learn m.mln d.db -q Smokes --expectation count-maxwalksat --records 3",
            "error: expectation 'count-maxwalksat' does not read --records\n"
            "    it belongs to count-gibbs, count-map\n",
        ),
        (
            "learn m.mln d.db -q Smokes --expectation count-maxwalksat --optimizer dn",
            "error: dn needs the counts' variances, and a most likely world has none\n"
            "    choose vp, vp-pw, adam or adagrad, or another --expectation\n",
        ),
        (
            "learn m.mln d.db -q Smokes --expectation count-gibbs --steps 10 --records 20",
            "error: 20 worlds cannot be recorded in 10 steps\n"
            "    ask for fewer records, or for more steps\n",
        ),
        (
            "learn m.mln d.db -q Smokes --expectation count-gibbs --chain-start random",
            "error: chains whose counts are averaged start in the data or in their last world\n"
            "    choose --chain-start data or last, or --expectation count-maxwalksat\n",
        ),
        (
            "learn m.mln d.db --optimizer pscg --option dampng=2",
            "error: pscg has no option 'dampng'\n    did you mean 'damping'?\n",
        ),
        (
            "learn m.mln d.db --optimizer pscg --option damping=-1",
            "error: damping of pscg must be a number of at least 0, not -1\n",
        ),
        (
            "learn m.mln d.db --optimizer pscg --option damping",
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
    ask = ["learn", "m.mln", "f.db", "-q", "Cancer", "--optimizer", "dn", "--iterations", "1"]
    free = run.json(*ask)["weights"][0]["weight"]
    held = run.json(*ask, "--option", "damping=1000000000")["weights"][0]["weight"]
    assert abs(held - 1.5) < 1e-6 < abs(free - 1.5)

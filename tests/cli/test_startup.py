"""What a start costs: what is imported, what is read without typer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapis.cli import app
from lapis.cli.arguments import find_command, read_arguments
from lapis.cli.commands import BY_NAME
from lapis.cli.options import parse_flag
from lapis.examples import example_path
from lapis.option import Option
from lapis.options import COMMANDS, arguments_of


def loaded_after(*words: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    code = (
        "import sys\nfrom lapis.cli.main import main\n"
        f"try: main({list(words)!r})\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout
    return set(ran.stderr.split())


@pytest.mark.parametrize("command", ["infer", "map"])
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["table", "json"])
def test_a_small_model_is_answered_without_engines(command: str, form: tuple[str, ...]) -> None:
    model, data = (str(example_path(f"smokers.{kind}")) for kind in ("mln", "db"))
    loaded = loaded_after(command, model, data, "-q", "Smokes,Cancer", *form)
    assert "numpy" in loaded
    assert not loaded & {"duckdb", "highspy", "flint", "loky", "typer", "pydantic"}


def test_help_loads_no_arrays() -> None:
    loaded = loaded_after("--help")
    assert "typer" in loaded
    assert not loaded & {"numpy", "numba", "scipy", "duckdb"}


def test_importing_lapis_loads_nothing_heavy() -> None:
    code = (
        "import sys, lapis\n"
        "assert not sys.modules.keys() & {'numpy', 'numba', 'scipy', 'duckdb', 'loky'}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- what was typed


def test_commands_are_found_by_one_word_or_two() -> None:
    assert find_command(["infer", "m.mln"]) == "infer"
    assert find_command(["field", "map", "f.rrf"]) == "field map"
    assert find_command(["field"]) is None
    assert find_command([]) is None
    assert set(BY_NAME) == set(COMMANDS)


VALUES = st.sampled_from(
    [
        "0",
        "3",
        "17",
        "0.5",
        "1e-3",
        "A",
        "A,B",
        "m.mln",
        "8GB",
        "x=2",
        "-1",
        "",
        "1.5.2",
        "1_0",
        "é",
    ]
)


@st.composite
def typed_words(draw: st.DrawFn, command: str) -> list[str]:
    """Flags of a command and words between them, most of them right."""
    words: list[str] = []
    for _ in range(draw(st.integers(0, 4))):
        option = draw(st.sampled_from(COMMANDS[command])) if COMMANDS[command] else None
        if option is None or draw(st.booleans()):
            words.append(draw(VALUES))
            continue
        flag = draw(st.sampled_from(option.flags))
        if option.kind == "flag":
            words.append(flag)
        elif flag.startswith("--") and draw(st.booleans()):
            words.append(f"{flag}={draw(VALUES)}")
        else:
            words += [flag, draw(VALUES)]
    return words


def read_by_typer(command: str, words: Sequence[str]) -> dict[str, Any]:
    """What typer hands to a command."""
    seen: list[dict[str, Any]] = []

    def keep(**typed: Any) -> None:
        seen.append(typed)

    keep.__name__ = command
    only = app.typer.Typer(pretty_exceptions_enable=False)
    only.command()(app.signed(keep))
    only(list(words), standalone_mode=False)
    (typed,) = seen
    return typed


def meant(option: Option, typed: Any) -> Any:
    try:
        return parse_flag(option, typed)
    except Exception as error:
        return str(error)


@pytest.mark.parametrize("command", COMMANDS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_what_is_plain_is_read_as_typer_reads_it(command: str, data: st.DataObject) -> None:
    places = ["a"] * len([one for one in arguments_of(command) if one.is_required])
    words = [*places, *data.draw(typed_words(command))]
    typed = read_arguments(command, words)
    if typed is None:
        return
    expected = read_by_typer(command, words)
    for option in COMMANDS[command]:
        assert meant(option, typed[option.name]) == meant(option, expected[option.name])
    for argument in arguments_of(command):
        assert (typed[argument.name] or []) == (expected[argument.name] or [])


@pytest.mark.parametrize(
    "words",
    [["m", "--help"], ["m", "--seed"], ["m", "--seed", "x"], ["m", "--seed=1", "--seed=2"], [],
     ["m", "--json=1"], ["m", "-qA"], ["m", "--", "d"], ["m", "--quer", "A"]],
    ids=" ".join,
)  # fmt: skip
def test_what_is_not_plain_is_left_to_typer(words: list[str]) -> None:
    assert read_arguments("infer", words) is None

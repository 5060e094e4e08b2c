"""The scripts of `lapis completion`, run by the shells."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from cli_run import Run
from lapis.cli.command_line import COMMANDS
from lapis.methods import methods_of
from lapis.registry.option_field import options_of


def complete(script: str, line: str) -> list[str]:
    """What bash offers at the end of a line."""
    words = line.split(" ")
    listed = " ".join(f"'{word}'" for word in words)
    code = (
        f"{script}\nCOMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _lapis\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ran = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return [word for word in ran.stdout.splitlines() if word]


@pytest.fixture
def script(run: Run) -> str:
    code, out, err = run("completion", "bash")
    assert (code, err) == (0, "")
    return out


def test_commands_are_completed(script: str) -> None:
    assert complete(script, "lapis inf") == ["infer"]
    single = [name for name in COMMANDS if " " not in name]
    assert set(complete(script, "lapis ")) >= {*single, "circuit", "field"}
    assert complete(script, "lapis circuit comp") == ["compile"]
    assert set(complete(script, "lapis field ")) == {
        name.split()[1] for name in COMMANDS if name.startswith("field ")
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_is_completed(script: str, command: str) -> None:
    flags = {flag for o in options_of(COMMANDS[command].options) for flag in o.flags}
    assert set(complete(script, f"lapis {command} m.mln -")) == {*flags, "--help"}


def test_values_are_completed(script: str) -> None:
    assert complete(script, "lapis infer m.mln d.db --method ") == list(methods_of("infer"))
    assert complete(script, "lapis field infer f.rrf --method ic") == ["icm-gibbs"]
    assert complete(script, "lapis learn m.mln --prior-mean i") == ["initial"]
    assert complete(script, "lapis completion ") == ["bash", "zsh", "fish"]
    assert complete(script, "lapis infer m") == []  # files, by the shell itself


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_script(run: Run, shell: str) -> None:
    code, out, _ = run("completion", shell)
    assert code == 0
    for option in options_of(COMMANDS["infer"].options):
        assert option.flag.removeprefix("--") in out
    if shutil.which(shell) is not None:
        ran = subprocess.run([shell, "-n"], input=out, capture_output=True, text=True)
        assert (ran.returncode, ran.stderr) == (0, "")

"""What a start costs: what is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lapis.examples import example_path


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
    assert not loaded & {"duckdb", "highspy", "flint", "loky"}


@pytest.mark.parametrize("words", [("--help",), ("infer", "--help"), ("field", "--help")])
def test_help_loads_no_arrays(words: tuple[str, ...]) -> None:
    loaded = loaded_after(*words)
    assert not loaded & {"numpy", "numba", "scipy", "duckdb"}


def test_importing_lapis_loads_nothing_heavy() -> None:
    code = (
        "import sys, lapis\n"
        "assert not sys.modules.keys() & {'numpy', 'numba', 'scipy', 'duckdb', 'loky'}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

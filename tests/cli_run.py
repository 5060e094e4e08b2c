"""Running `lapis` in a folder with a model and data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lapis.cli.main import main

MODEL = """\
Friends(person, person)
Smokes(person)
Cancer(person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
"""
DATA = "Friends(Anna, Bob)\nFriends(Bob, Anna)\nSmokes(Anna)\n"


FOOTER = re.compile(r"^more: lapis explain-error (.*)\n", re.MULTILINE)  # below every error


class Run:
    """Runs `lapis` in a folder with a model and data.

    The last line of an error, which names its codes, is left out of what a call returns: `codes`
    has the codes, and `printed` all that was printed.
    """

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.codes: list[str] = []
        self.printed = ""
        self.write("m.mln", MODEL)
        self.write("d.db", DATA)

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        out, err = self.capsys.readouterr()
        self.codes = [code for found in FOOTER.findall(err) for code in found.split()]
        self.printed, err = out + err, FOOTER.sub("", err)
        code = ended.value.code
        return (code if isinstance(code, int) else 0 if code is None else 1), out, err

    def json(self, *arguments: str) -> dict[str, Any]:
        code, out, err = self(*arguments, "--json")
        assert code == 0, err
        found: dict[str, Any] = json.loads(out)
        return found

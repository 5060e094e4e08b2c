"""The editor splits a text into the tokens of the lexer, on every golden model."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from lapis.errors import LapisError, Source
from lapis.language.lexer import tokenize
from lapis.web.replies import as_units

pytestmark = pytest.mark.web
ROOT = Path(__file__).parents[2]
ODD = (
    '1e3 "a\\"b" 12ab 2020_01 x\' EXIST y P(x,_) v Q /* c\n d */ // e\n#include "f"\n'
    "P(x) <=> !Q(+x) ^ R(x, y+1) => 3.5. 𝛼 ∧ ∃ é ½ x ≥ .5 \\forall ... #x"
)


def lexer_tokens(text: str) -> list[list[object]]:
    """The tokens of the lexer; places in UTF-16 units. It skips comments and reports errors."""
    return [
        [token.kind, as_units(text, token.start), as_units(text, token.end)]
        for token in tokenize(Source("m", text))
        if not isinstance(token, LapisError) and token.kind != "DIRECTIVE"
    ]


def test_tokens_are_those_of_the_lexer(tmp_path: Path) -> None:
    paths = sorted((ROOT / "tests" / "models").glob("*.mln"))
    paths += sorted((ROOT / "src" / "lapis" / "web" / "gallery").glob("*/*.mln"))
    (tmp_path / "odd.mln").write_text(ODD, encoding="utf-8")
    paths.append(tmp_path / "odd.mln")
    assert len(paths) > 30
    done = subprocess.run(
        ["node", "colours.mjs", *map(str, paths)],
        cwd=ROOT / "web",
        capture_output=True,
        text=True,
        check=True,
    )
    skipped = {"COMMENT", "HASH", "OPEN", "OTHER"}
    for path, found in zip(paths, json.loads(done.stdout), strict=True):
        text = path.read_text(encoding="utf-8")
        assert [t for t in found if t[0] not in skipped] == lexer_tokens(text), path.name

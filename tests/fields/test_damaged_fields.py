"""Kinds of damage to the text of a field, each refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from lapis import fields
from lapis.errors import LapisError

HEAD = "P(t)\nroot:\n  1 f0(x)\n"


def chain(names: list[str], last: str = "P") -> str:
    """Return parfeatures each of which has the next for its child."""
    pairs = zip(names, [*names[1:], last], strict=True)
    return HEAD + "".join(f"{name}(x):\n  1 {child}(x)\n" for name, child in pairs)


NAMES = [f"f{number}" for number in range(3000)]
WRONG = {
    chain(NAMES): "<field>:5702:1: parfeatures are nested more than 150 deep",
    chain(NAMES, "f0"): "<field>:6003:5: parfeatures form a cycle: f0 → f1 → f2",
    chain(NAMES[:2], "f0"): "<field>:7:5: parfeatures form a cycle: f0 → f1 → f0\n",
    HEAD + "f0(x):\n  ² P(x)\n": "<field>:5:5: unexpected 'P'",
    HEAD + f"f0(x):\n  {'9' * 5000} P(x)\n": "<field>:5:3: this weight has no finite value",
    HEAD + "f0(x):\n  nan P(x)\n": "<field>:5:7: unexpected 'P'",
    HEAD + "f0(x):\n  inf P(x)\n": "<field>:5:7: unexpected 'P'",
    HEAD + "f0(x):\n  1e999 P(x)\n": "<field>:5:3: this weight has no finite value",
    "": "the field has no root",
    "\n" * 50_000: "the field has no root",
    "(\n" * 50_000: "<field>:1:1: '(' is never closed",
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_kinds_of_damage_are_located(text: str) -> None:
    with pytest.raises(LapisError) as raised:
        fields.parse(text)
    assert str(raised.value).startswith(WRONG[text])
    assert len(str(raised.value)) < 5000


def test_a_chain_of_the_largest_depth_is_read() -> None:
    found = fields.parse(chain(NAMES[:149]))
    assert found.order == (*reversed(NAMES[:149]), "root")
    assert fields.parse(chain(NAMES[:149][::-1]).replace("1 f0(x)", "1 f148(x)", 1)).order


@pytest.mark.parametrize("content", [b"P(t)\n\xff", b"\xff\xfe\x00"])
def test_other_encodings_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "f.rrf"
    path.write_bytes(content)
    with pytest.raises(LapisError) as raised:
        fields.read(path)
    assert raised.value.span is not None or "not UTF-8" in str(raised.value)

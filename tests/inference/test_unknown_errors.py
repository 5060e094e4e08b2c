"""Test that a standard error of 0 is reported only for exact probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lapis
from lapis.methods import methods_of

# A square with a diagonal and fields: belief propagation is wrong for all its atoms.
MODEL = "F(t, t)\nS(t)\n1.1 F(x, y) ^ S(x) => S(y)\n-0.3 S(A)\n0.4 S(B)"
CYCLES = "F(A,B) F(B,C) F(C,D) F(D,A) F(C,A)"


def ask(method: str, *data: str, **options: Any) -> lapis.Answer:
    worlds = [lapis.Database.parse(text) for text in data]
    return lapis.infer(lapis.parse(MODEL), worlds, "S", method=method, **options)


def refuse_false_certainty(found: lapis.Answer, *data: str) -> None:
    """Check that every probability with an error of 0 is right."""
    off = abs(found.probability - ask("enumerate", *data).probability) > 1e-9
    entries = found.to_json()["atoms"]
    shown = np.array([np.nan if e["stderr"] is None else e["stderr"] for e in entries])
    assert not (off & (shown == 0)).any()
    assert not (off & (found.errors == 0)).any()
    assert not (off & (found.to_pandas()["stderr"].to_numpy() == 0)).any()
    assert found.exact or "± 0.0000" not in str(found)
    assert "nan" not in str(found)


@pytest.mark.parametrize("method", methods_of("infer"))
def test_no_method_says_0_where_it_is_off(method: str) -> None:
    sampled = "max_samples" in methods_of("infer")[method].options
    options = {"max_samples": 400} if sampled else {}
    refuse_false_certainty(ask(method, CYCLES, **options), CYCLES)
    both = CYCLES, "F(A,B)"
    refuse_false_certainty(ask(method, *both, **options), *both)


def test_an_engine_does_not_either() -> None:
    data = f"{CYCLES} F(E,G)"  # two components, of which one is a tree
    refuse_false_certainty(ask("bp", data, engine="duckdb", jobs=1), data)
    found = ask("bp", CYCLES, engine="duckdb", jobs=1)
    assert "expected_counts_stderr" not in found.diagnostics


def test_nor_do_scores() -> None:
    data = lapis.Database.parse(f"{CYCLES} S(A)")
    found = lapis.score(lapis.parse(MODEL), data, "S", method="bp")
    assert found.predictions is not None
    assert not found.exact
    assert np.isnan(found.predictions.stderr).all()
    assert found.max_stderr is None
    tree = lapis.score(lapis.parse(MODEL), lapis.Database.parse("F(A,B) S(A)"), "S", method="bp")
    assert tree.exact
    assert tree.predictions is not None
    assert not tree.predictions.stderr.any()

"""Errors of worker processes are raised with all fields."""

from __future__ import annotations

import pickle

import pytest

from lapis.errors import LapisError, LapisErrors, Note, Source, Span, TooLarge

SOURCE = Source("m.mln", "P(t)\n1 Q(x)\n")
PLACE = Span(SOURCE, 7, 8)
ONE = LapisError("unknown 'Q'", code="unknown", span=PLACE, hint="P?", notes=[Note("here", PLACE)])


@pytest.mark.parametrize(
    "error",
    [ONE, TooLarge("too much", code="too-large", hint="less"), LapisErrors([ONE, ONE])],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_the_way_between_processes(error: LapisError) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error)
    assert (str(found), found.args) == (str(error), error.args)
    assert found.__dict__.keys() == error.__dict__.keys()
    assert (found.code, found.exit_code) == (error.code, error.exit_code)

"""Sessions on chosen models: what is solved again, undo, weights, sampled answers."""

from __future__ import annotations

import numpy as np
import pytest

import lapis

ITEMS = ", ".join(f"I{number}" for number in range(201))
PLAIN = f"item = {{{ITEMS}}}\nP(item)\nQ(item)\n0.5 P(x)\n0.3 P(x) => Q(x)\n"


def solved(answer: lapis.Answer) -> tuple[int, int]:
    """The components and atoms that were solved for an answer."""
    notes = answer.diagnostics["session"]
    return notes["components_solved"], notes["atoms_solved"]


def test_an_atom_is_known_and_unknown_again() -> None:
    """Labels of components that are given anew belong to no earlier batch."""
    session = lapis.Session(lapis.parse(PLAIN), None, ["P", "Q"])
    first = session.ask()
    for change in (session.add, session.remove, session.add, session.unknown):
        change("P(I7)")
        answer = session.ask()
        fresh = lapis.infer(session.model, session.data, ["P", "Q"])
        assert answer.log_partition == pytest.approx(fresh.log_partition, rel=1e-13)
        assert np.array_equal(answer.probability, fresh.probability)
    assert answer.log_partition == pytest.approx(first.log_partition, rel=1e-13)


def test_only_touched_components_are_solved() -> None:
    session = lapis.Session(lapis.parse(PLAIN), None, ["P", "Q"])
    assert solved(session.ask()) == (201, 402)
    assert solved(session.ask()) == (0, 0)
    session.add("P(I3)")
    assert solved(session.ask()) == (1, 1)
    session.add("Q(I4) !Q(I5)")
    assert solved(session.ask()) == (2, 2)
    session.set_weight(0, 0.1)
    assert solved(session.ask())[0] == 201  # most components have this weight: all are solved

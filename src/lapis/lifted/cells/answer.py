"""The method `cells` of `lapis lift`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from math import prod

import numpy as np

from lapis.errors import LapisError
from lapis.lifted.answer import Lifted, LiftedFormula
from lapis.lifted.cells.count import CellSum
from lapis.lifted.cells.numbers import MAX_STEPS
from lapis.problem.problem import Problem


def lift_by_cells(
    problem: Problem, sizes: Mapping[str, int], classes: bool, max_steps: int = MAX_STEPS
) -> Lifted:
    """log Z, as a rational number where the weights are, and expected counts."""
    assert not classes  # the registry refuses it
    cells = CellSum.of(problem, sizes, max_steps)
    found = cells.evaluate()
    if found.sign < 0:
        raise LapisError("with these weights the worlds sum to a negative number", code="negative")
    expected = cells.expected_counts() if found.sign else None
    rules = {i: rule for i, rule in enumerate(problem.model.rules) if not rule.hard}
    # Where there is no world nothing is expected.
    counts = [math.nan if expected is None else expected.get(number, 0.0) for number in rules]
    rows = [
        LiftedFormula(
            number,
            rule.text,
            rule.weight or 0.0,
            count,
            prod(num_constants(problem, sizes, type_name) for _, type_name in rule.variables),
        )
        for (number, rule), count in zip(rules.items(), counts, strict=True)
    ]
    numbers = "balls" if found.count is None else "rationals"
    return Lifted(
        "cells",
        True,
        found.log_partition,
        found.error_bound,
        tuple((number, rule.text) for number, rule in rules.items()),
        np.array(counts),
        tuple(rows),
        f"{found.method} in {numbers}",
        count=found.count,
    )


def num_constants(problem: Problem, sizes: Mapping[str, int], type_name: str) -> int:
    return max(len(problem.domains[type_name]), sizes.get(type_name, 0))

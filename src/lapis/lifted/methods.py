"""Methods of lifted inference."""

from __future__ import annotations

from lapis.registry.method_table import Method

INFER = (
    Method(
        "infer", "lifted", "a first-order circuit, cells or a small ground network, for models and "
        "evidence with mostly interchangeable constants", "lapis.lifted.choice:infer_lifted",
        "problem", "always",
    ),
    Method(
        "infer", "cells", "sums over kinds of elements and pairs, for formulas of two variables; "
        "also with counting quantifiers and cardinality constraints",
        "lapis.lifted.cells.count:infer_by_cells", "problem", "always",
    ),
)  # fmt: skip

LIFT = (
    Method(
        "lift", "auto", "a circuit, cells or the ground network, chosen by formulas and cost",
        "lapis.lifted.choice:lift_by_choice", "problem", "always", ("classes",),
    ),
    Method(
        "lift", "circuit", "a first-order circuit, compiled once for any weights and sizes",
        "lapis.lifted.lifted_answer:lift_by_circuit", "problem", "always", ("classes",),
    ),
    Method(
        "lift", "cells", "kinds of elements and pairs, for formulas of two variables; also with "
        "cardinality constraints, linear orders and larger counting quantifiers",
        "lapis.lifted.cells.count:lift_by_cells", "problem", "always",
    ),
    Method(
        "lift", "ground", "the ground network, for few unknown atoms and any formulas",
        "lapis.lifted.ground_solver:lift_by_ground", "problem", "always",
    ),
)  # fmt: skip

METHODS = (*INFER, *LIFT)

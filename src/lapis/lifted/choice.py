"""Choose how to lift a problem: the methods `auto` of `lapis lift` and `lifted` of `lapis infer`.

    circuit   a first-order circuit, for most theories; the only one with classes and a drawing
    cells     kinds of elements and pairs, for two variables; also counting quantifiers, cardinality
              constraints and linear orders, at ten to a hundred times the cost of a circuit
    ground    the ground network, for few unknown atoms

A counting quantifier over k elements needs k variables in a circuit, so cells are first if there is
one. If the ground network is small, it follows a circuit that may cost no more than the network.
Otherwise cells follow the circuit, and the ground network is last. If a method refuses a problem,
the next one is tried. All limits are numbers of terms, not seconds, so that the same method answers
on every machine. If all methods refuse, the first refusal is raised, with the formula that caused
it.

Marginals of a circuit: a permutation of constants that maps model and evidence to themselves can
exchange two ground atoms of one shape, so they are equally probable (preemptive shattering). Each
shape gets two features of weight 0, the atom and its negation. Their expected counts, ∂log Z/∂w at
w = 0, divided by the number of atoms, are P(atom) and P(¬atom); the logarithm of their ratio is
accurate for probabilities near 0 and 1. One circuit and one sweep answer all atoms. Cells need two
more sums for each class (`cells.count`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.inference.marginals import Answered, InferenceOptions
from lapis.inference.sampling.count_gibbs import unknown_atoms
from lapis.lifted.cells.count import build_marginals, infer_by_cells, lift_by_cells
from lapis.lifted.cells.numbers import FEW_STEPS, MAX_STEPS
from lapis.lifted.compilation.theory import AtomShape
from lapis.lifted.evaluation.evaluate import log_counts
from lapis.lifted.ground_solver import is_small, lift_by_ground, solve_ground
from lapis.lifted.kinds import shapes_of_rows
from lapis.lifted.lift import CANNOT, NOT_LIFTABLE, LiftedProblem, lift_problem
from lapis.lifted.lifted_answer import Lifted, lift_by_circuit
from lapis.logic.passes import counts_elements
from lapis.problem.problem import Problem, refuse_unsupported

SOME_WORK = 25_000  # literals that `auto` compiles: about a second
FEW_WORK = 6_000  # the same if the ground network is small
# Codes of errors after which another method is tried.
REFUSALS = {
    NOT_LIFTABLE, "too-many-combinations", "cancellation", "cells", "two-variables", "cardinality",
    "factor", "too-large", "too-wide", "too-many-states",
}  # fmt: skip
Found = TypeVar("Found")


def lift_by_choice(problem: Problem, sizes: Mapping[str, int], classes: bool) -> Lifted:
    """Run the method `auto` of `lapis lift`; only circuits have classes."""
    if classes:
        return lift_by_circuit(problem, sizes, classes, max_work=SOME_WORK)
    small = is_small(problem, sizes)
    limits = choose_circuit_limits(problem, small)
    methods: dict[str, Callable[[], Lifted]] = {
        "circuit": partial(lift_by_circuit, problem, sizes, classes, **limits._asdict()),
        "cells": partial(lift_by_cells, problem, sizes, classes, max_steps=FEW_STEPS),
        "ground": partial(lift_by_ground, problem, sizes, classes),
    }
    order = order_methods(problem, small)
    found, refusals = run_first_method(problem, [methods[name] for name in order])
    if found.method != "ground":
        return found
    return replace(found, reasons=tuple(e.message.removeprefix(CANNOT) for e in refusals[:1]))


class CircuitLimits(NamedTuple):
    """Limits of a circuit, after which another method is tried; see `lift_problem`."""

    max_work: int
    may_search: bool


def choose_circuit_limits(problem: Problem, small: bool) -> CircuitLimits:
    """Choose the limits; the ground network does not support negative literal weights."""
    factors = any(predicate.factors for predicate in problem.model.predicates.values())
    return CircuitLimits(FEW_WORK if small and not factors else SOME_WORK, may_search=factors)


def order_methods(problem: Problem, small: bool) -> list[str]:
    """Return the methods that may answer a problem, in the order in which they are tried."""
    if problem.model.constraints:
        return ["cells", "ground"]
    if small:
        return ["circuit", "ground", "cells"]
    if any(counts_elements(rule.formula) for rule in problem.model.rules):
        return ["cells", "circuit", "ground"]
    return ["circuit", "cells", "ground"]


def run_first_method(
    problem: Problem, methods: Sequence[Callable[[], Found]]
) -> tuple[Found, list[LapisError]]:
    """Return the answer of the first method that does not refuse, and the refusals before it.

    Raises the first refusal if all methods refuse, and errors in the input.
    """
    refusals: list[LapisError] = []
    for method in methods:
        try:
            return method(), refusals
        except LapisError as error:
            if error.code not in REFUSALS:
                raise
            refusals.append(error)
    raise locate_refusal(problem, refusals[0])


def locate_refusal(problem: Problem, error: LapisError) -> TooLarge:
    """Add the formula that caused a refusal: one that counts elements, or one with +."""
    message, span, hint = error.message, error.span, error.hint
    if error.code == "cells":
        hint = f"lapis lift --method cells allows {MAX_STEPS:,} steps"
    for rule in problem.model.rules:
        if span is None and error.code == "cells" and counts_elements(rule.formula):
            message, span = f"{message}; {rule.text!r} counts elements", rule.span
        if span is None and error.code == NOT_LIFTABLE and rule.plus:
            message, span = f"{message}; {rule.text!r} has a weight for each", rule.span
    return TooLarge(message, code=error.code, span=span, hint=hint)


def infer_lifted(problem: Problem, options: InferenceOptions) -> Answered:
    """Run the method `lifted` of `lapis infer`.

    With `options.max_elements` the ground network is not tried. Raises TooLarge if the model cannot
    be lifted.
    """
    small = options.max_elements is None and is_small(problem)
    limits = choose_circuit_limits(problem, small)
    methods: dict[str, Callable[[], Answered]] = {
        "circuit": partial(infer_by_circuit, problem, options, limits),
        "cells": partial(infer_by_cells, problem, options),
        "ground": partial(infer_ground, problem, options),
    }
    order = order_methods(problem, small)
    if options.max_elements is not None:
        order.remove("ground")
    return run_first_method(problem, [methods[name] for name in order])[0]


def infer_ground(problem: Problem, options: InferenceOptions) -> Answered:
    """Compute the marginals of a small ground network."""
    network, found, error_bound = solve_ground(problem, options)
    diagnostics = found.diagnostics | {"error_bound": error_bound, "arithmetic": "doubles"}
    return network, replace(found.named("ground"), diagnostics=diagnostics)


def infer_by_circuit(
    problem: Problem, options: InferenceOptions, limits: CircuitLimits
) -> Answered:
    """Compute the marginals of a circuit, compiled within limits."""
    refuse_unsupported(problem.model)
    atoms = unknown_atoms(problem, options.max_memory)
    lifted = lift_problem(
        problem,
        classes=atoms.atoms.predicates,
        max_elements=options.max_elements,
        max_work=limits.max_work,
        may_search=limits.may_search,
        stop=options.exact_stop,
        progress=options.progress,
    )
    found = lifted.columns_at()
    odds = shape_log_odds(lifted, found.expected_count)
    log_odds = np.empty(len(atoms.atoms))
    for predicate, rows, first in zip(
        atoms.atoms.predicates, atoms.atoms.tuples, atoms.atoms.offset.tolist(), strict=False
    ):
        types = lifted.problem.model.predicates[predicate].types
        shapes, which = shapes_of_rows(predicate, types, rows, lifted.encoding.kinds)
        log_odds[first : first + len(rows)] = np.array([odds[shape] for shape in shapes])[which]
    diagnostics = {
        "classes": len(odds),
        "error_bound": found.error_bound,
        "arithmetic": found.arithmetic,
        "reasons": list(lifted.reasons),
    }
    counts = lifted.by_weight(found.expected_count)
    return atoms, build_marginals("lifted", found.log_partition, log_odds, counts, diagnostics)


def shape_log_odds(lifted: LiftedProblem, counts: np.ndarray) -> dict[AtomShape, float]:
    """Return log P(atom) − log P(¬atom) for the shapes of the queried atoms."""
    columns = lifted.encoding.columns
    queried = [number for number, column in enumerate(columns) if column.shape is not None]
    if (counts[queried] <= 0).any():
        # The probability is 0, or smaller than the smallest float.
        logs = log_counts(lifted.root, lifted.weights_at(None), lifted.sizes_at(None), counts)
    else:
        logs = np.log(np.maximum(counts, np.finfo(float).tiny))
    found: dict[AtomShape, float] = {}
    for number in queried:
        column = columns[number]
        assert column.shape is not None
        sign = 1 if column.positive else -1
        found[column.shape] = found.get(column.shape, 0.0) + sign * float(logs[number])
    return found

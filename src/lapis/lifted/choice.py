"""Which way a problem is lifted, by what it contains and by what it is estimated to cost.

    circuit   a first-order circuit: most theories; the only one that has classes and a drawing
    cells     kinds of elements and pairs: two variables, also counting quantifiers, cardinality
              constraints and linear orders, at ten to a hundred times the cost of a circuit's sums
    ground    the ground network: few unknown atoms

A counting quantifier over k elements is k variables in a circuit, so cells come first where there
is one. Where the ground network is small it follows a circuit that may cost no more than the
network. Otherwise cells follow the circuit, and then the ground network, as far as its tables are
small. A way that refuses a problem leaves it to the next. All limits are numbers of terms, not
seconds, so that a problem is answered in the same way on every machine.

If all ways refuse, the first refusal is raised. It names the formula that is the reason.

`lapis infer --method lifted`: marginals of atoms, a class of equally probable ones at a time.

The answer comes from a circuit, from cells or from a small ground network, as `choice` orders them;
its method is `lifted`, `cells` or `ground`.

Two ground atoms of one shape can be exchanged by a permutation of constants that leaves model and
evidence as they are, so they are equally probable (preemptive shattering). Each shape gets two
features of weight zero, atom and negated atom; their expected counts, ∂log Z/∂w at w = 0, divided
by the number of atoms are P(atom) and P(¬atom), and the logarithm of their ratio is right however
near to 0 or 1 a probability is. One circuit and one sweep answer all atoms. Cells take two more
sums for each class (`cells.classes`).
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
from lapis.lifted.answer import Lifted, lift_by_circuit
from lapis.lifted.cells.count import build_marginals, infer_by_cells, lift_by_cells
from lapis.lifted.cells.numbers import FEW_STEPS, MAX_STEPS
from lapis.lifted.compilation.theory import AtomShape
from lapis.lifted.evaluation.evaluate import log_counts
from lapis.lifted.ground import is_small, lift_by_ground, solve_ground
from lapis.lifted.kinds import shapes_of_rows
from lapis.lifted.lift import CANNOT, NOT_LIFTABLE, LiftedProblem, lift_problem
from lapis.logic.passes import counts_elements
from lapis.problem.problem import Problem, refuse_unsupported

SOME_WORK = 25_000  # of compiling, where a circuit is not asked for by name: about a second
FEW_WORK = 6_000  # where the ground network is small
# Codes of errors that say that a way cannot answer, or not at a reasonable cost.
REFUSALS = {
    NOT_LIFTABLE, "too-many-combinations", "cancellation", "cells", "two-variables", "cardinality",
    "factor", "too-large", "too-wide", "too-many-states",
}  # fmt: skip
Found = TypeVar("Found")


def lift_by_choice(problem: Problem, sizes: Mapping[str, int], classes: bool) -> Lifted:
    """The method `auto` of `lapis lift`; only circuits tell classes apart."""
    if classes:
        return lift_by_circuit(problem, sizes, classes, max_work=SOME_WORK)
    small = is_small(problem, sizes)
    limits = choose_circuit_limits(problem, small)
    ways: dict[str, Callable[[], Lifted]] = {
        "circuit": partial(lift_by_circuit, problem, sizes, classes, **limits._asdict()),
        "cells": partial(lift_by_cells, problem, sizes, classes, max_steps=FEW_STEPS),
        "ground": partial(lift_by_ground, problem, sizes, classes),
    }
    order = order_methods(problem, small)
    found, refusals = run_first_method(problem, [ways[name] for name in order])
    if found.method != "ground":
        return found
    return replace(found, reasons=tuple(e.message.removeprefix(CANNOT) for e in refusals[:1]))


class CircuitLimits(NamedTuple):
    """How far a circuit goes before another way is tried; see `lift_problem`."""

    max_work: int
    may_search: bool


def choose_circuit_limits(problem: Problem, small: bool) -> CircuitLimits:
    """A search over ground atoms is left to the ground network, which has no negative factors."""
    factors = any(predicate.factors for predicate in problem.model.predicates.values())
    return CircuitLimits(FEW_WORK if small and not factors else SOME_WORK, may_search=factors)


def order_methods(problem: Problem, small: bool) -> list[str]:
    """The ways that may answer a problem, in the order in which they are tried."""
    if problem.model.constraints:
        return ["cells"]
    if small:
        return ["circuit", "ground", "cells"]
    if any(counts_elements(rule.formula) for rule in problem.model.rules):
        return ["cells", "circuit", "ground"]
    return ["circuit", "cells", "ground"]


def run_first_method(
    problem: Problem, ways: Sequence[Callable[[], Found]]
) -> tuple[Found, list[LapisError]]:
    """The answer of the first way that does not refuse, and the refusals before it.

    Raises
    ------
    TooLarge
        The first refusal, if all ways refuse.
    LapisError
        What is wrong with the input, if a way finds it.
    """
    refusals: list[LapisError] = []
    for way in ways:
        try:
            return way(), refusals
        except LapisError as error:
            if error.code not in REFUSALS:
                raise
            refusals.append(error)
    raise locate_refusal(problem, refusals[0])


def locate_refusal(problem: Problem, error: LapisError) -> TooLarge:
    """A refusal with a formula that is the reason.

    Sums over cells are long because of formulas that count; + tells constants apart.
    """
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
    """The method `lifted` of `lapis infer`.

    With `options.max_elements` it is tried before other methods, and does not ground.

    Raises
    ------
    TooLarge
        If the model cannot be lifted, naming the formula that is the reason.
    """
    small = options.max_elements is None and is_small(problem)
    limits = choose_circuit_limits(problem, small)
    ways: dict[str, Callable[[], Answered]] = {
        "circuit": partial(infer_by_circuit, problem, options, limits),
        "cells": partial(infer_by_cells, problem, options),
        "ground": partial(infer_ground, problem, options),
    }
    order = order_methods(problem, small)
    if options.max_elements is not None:
        order.remove("ground")
    return run_first_method(problem, [ways[name] for name in order])[0]


def infer_ground(problem: Problem, options: InferenceOptions) -> Answered:
    """The marginals of a small ground network."""
    network, found, error_bound = solve_ground(problem, options)
    notes = found.diagnostics | {"error_bound": error_bound, "arithmetic": "doubles"}
    return network, replace(found.named("ground"), diagnostics=notes)


def infer_by_circuit(
    problem: Problem, options: InferenceOptions, limits: CircuitLimits
) -> Answered:
    """The marginals of a circuit, compiled within limits."""
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
    """log P(atom) − log P(¬atom) for the shapes of the atoms asked."""
    columns = lifted.encoding.columns
    asked = [number for number, column in enumerate(columns) if column.shape is not None]
    if (counts[asked] <= 0).any():
        # Impossible, or less likely than floats go.
        logs = log_counts(lifted.root, lifted.weights_at(None), lifted.sizes_at(None), counts)
    else:
        logs = np.log(np.maximum(counts, np.finfo(float).tiny))
    found: dict[AtomShape, float] = {}
    for number in asked:
        column = columns[number]
        assert column.shape is not None
        sign = 1 if column.positive else -1
        found[column.shape] = found.get(column.shape, 0.0) + sign * float(logs[number])
    return found

"""`lapis infer --method lifted`: marginals of atoms, a class of equally probable ones at a time.

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

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from lapis.inference.marginals import Answered, InferenceOptions, Marginals
from lapis.inference.sampling.count_gibbs import unknown_atoms
from lapis.lifted.cells.classes import by_cells
from lapis.lifted.choice import CircuitLimits, circuit_limits, first_answer, order_of_ways
from lapis.lifted.compilation.theory import Shape
from lapis.lifted.evaluation.evaluate import log_counts
from lapis.lifted.ground import is_small, solve_ground
from lapis.lifted.kinds import shapes_of_rows
from lapis.lifted.lift import LiftedProblem, lift_problem
from lapis.problem.problem import Problem, refuse_unsupported


def by_lifting(problem: Problem, options: InferenceOptions) -> Answered:
    """The method `lifted` of `lapis infer`.

    With `options.max_elements` it is tried before other methods, and does not ground.

    Raises
    ------
    TooLarge
        If the model cannot be lifted, naming the formula that is the reason.
    """
    small = options.max_elements is None and is_small(problem)
    limits = circuit_limits(problem, small)
    ways: dict[str, Callable[[], Answered]] = {
        "circuit": partial(by_first_order_circuit, problem, options, limits),
        "cells": partial(by_cells, problem, options),
        "ground": partial(by_ground_network, problem, options),
    }
    order = order_of_ways(problem, small)
    if options.max_elements is not None:
        order.remove("ground")
    return first_answer(problem, [ways[name] for name in order])[0]


def by_ground_network(problem: Problem, options: InferenceOptions) -> Answered:
    """The marginals of a small ground network."""
    network, found, error_bound = solve_ground(problem, options)
    notes = found.diagnostics | {"error_bound": error_bound, "arithmetic": "doubles"}
    return network, replace(found.named("ground"), diagnostics=notes)


def by_first_order_circuit(
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
    odds = class_log_odds(lifted, found.expected_count)
    log_odds = np.empty(len(atoms.atoms))
    for predicate, rows, first in zip(
        atoms.atoms.predicates, atoms.atoms.tuples, atoms.atoms.offset.tolist(), strict=False
    ):
        types = lifted.problem.model.predicates[predicate].types
        shapes, which = shapes_of_rows(predicate, types, rows, lifted.encoding.kinds)
        log_odds[first : first + len(rows)] = np.array([odds[shape] for shape in shapes])[which]
    notes = {
        "classes": len(odds),
        "error_bound": found.error_bound,
        "arithmetic": found.arithmetic,
        "reasons": list(lifted.reasons),
    }
    with np.errstate(over="ignore"):
        marginal = 1 / (1 + np.exp(-log_odds))
    return atoms, Marginals.by(
        "lifted",
        exact=True,
        log_partition=found.log_partition,
        marginal=marginal,
        log_odds=log_odds,
        expected_count=lifted.by_weight(found.expected_count),
        diagnostics=notes,
    )


def class_log_odds(lifted: LiftedProblem, counts: np.ndarray) -> dict[Shape, float]:
    """log P(atom) − log P(¬atom) for the shapes of the atoms asked."""
    columns = lifted.encoding.columns
    asked = [number for number, column in enumerate(columns) if column.shape is not None]
    if (counts[asked] <= 0).any():
        # Impossible, or less likely than floats go.
        logs = log_counts(lifted.root, lifted.weights_at(None), lifted.sizes_at(None), counts)
    else:
        logs = np.log(np.maximum(counts, np.finfo(float).tiny))
    found: dict[Shape, float] = {}
    for number in asked:
        column = columns[number]
        assert column.shape is not None
        sign = 1 if column.positive else -1
        found[column.shape] = found.get(column.shape, 0.0) + sign * float(logs[number])
    return found

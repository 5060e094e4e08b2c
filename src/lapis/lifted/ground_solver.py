"""Solve small problems by their ground network.

If formulas and facts distinguish all constants, a circuit would be a search over ground atoms. A
network of few atoms is summed faster than a circuit is compiled. It has no negative terms, so
nothing cancels: quantified parts and values of functions follow from the atoms.

All numbers are doubles, and

    log Z = Σ_components log Σ_states exp(Σ_clauses score).

With n atoms and scores whose absolute values add up to S, no intermediate number is larger than
M = S + n log 2 + 1. Adding a clause, or summing over an atom, errs by at most four units of M in
the last place if exp and log err by at most two, so |error| ≤ 4 ε (clauses + atoms + 8) M.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lapis.errors import TooLarge
from lapis.inference.marginals import InferenceOptions, Marginals
from lapis.inference.solve import infer_network
from lapis.lifted.kinds import extra_constants, refuse_new_numbers
from lapis.lifted.lift import name_constants
from lapis.lifted.lifted_answer import Lifted, weight_names, weight_rows
from lapis.network.network import Network
from lapis.problem.problem import Problem

MAX_GROUND_ATOMS = 1_000  # unknown
MAX_GROUND_CLAUSES = 20_000  # with at most MAX_GROUND_ATOMS
FEW_GROUND_ATOMS = 16
MANY_GROUND_CLAUSES = 500_000  # with FEW_GROUND_ATOMS: most clauses are duplicates
MAX_ENTRIES = 1 << 25  # joint states times clauses, to enumerate
MAX_TABLE_BYTES = 1 << 26  # of junction trees
ROUNDING = 4 * float(np.finfo(float).eps)


def is_small(problem: Problem, sizes: Mapping[str, int] | None = None) -> bool:
    """Return whether the joint states of the unknown atoms can be enumerated at these sizes."""
    most = {name: len(domain) for name, domain in problem.domains.items()} | dict(sizes or {})
    return (
        num_unknown(problem, most) <= FEW_GROUND_ATOMS
        and num_clauses(problem, most) <= MANY_GROUND_CLAUSES
    )


def num_unknown(problem: Problem, sizes: Mapping[str, int]) -> int:
    """Return the number of unknown ground atoms."""
    total = 0
    for evidence in problem.evidence.values():
        total += len(evidence.unknown)
        if evidence.open:
            possible = math.prod(sizes[type_name] for type_name in evidence.predicate.types)
            total += possible - len(evidence.true) - len(evidence.false)
    return total


def num_clauses(problem: Problem, sizes: Mapping[str, int]) -> int:
    """Return the number of ground clauses before simplification by evidence."""
    form = problem.normal_form
    parts = [(len(feature.clauses), feature.variables) for feature in form.features]
    parts += [(len(d.cubes), d.variables + d.bound) for d in form.definitions]
    return sum(
        number * math.prod(sizes[type_name] for _, type_name in variables)
        for number, variables in parts
    )


def solve_ground(problem: Problem, options: InferenceOptions) -> tuple[Network, Marginals, float]:
    """Return the ground network, its exact marginals, and a bound on the error of log Z.

    Raises TooLarge if the network is large, or its components are too wide.
    """
    from lapis.grounding.bottom_up import ground

    sizes = {name: len(domain) for name, domain in problem.domains.items()}
    atoms, clauses = num_unknown(problem, sizes), num_clauses(problem, sizes)
    if atoms > MAX_GROUND_ATOMS:
        raise too_large_error(atoms, "unknown atoms", MAX_GROUND_ATOMS)
    if clauses > (most := MANY_GROUND_CLAUSES if atoms <= FEW_GROUND_ATOMS else MAX_GROUND_CLAUSES):
        raise too_large_error(clauses, "clauses", most)
    network = ground(problem, progress=options.progress)
    if atoms <= FEW_GROUND_ATOMS and network.num_clauses << atoms <= MAX_ENTRIES:
        found = infer_network(network, "enumerate", options)
    else:
        found = infer_network(network, "exact", replace(options, max_memory=MAX_TABLE_BYTES))
    return network, found, bound_error(network)


def too_large_error(number: int, what: str, most: int) -> TooLarge:
    return TooLarge(
        f"the ground network has {number:,} {what}, and at most {most:,} are allowed in place of a "
        "circuit",
        code="too-large",
        hint="lapis infer --method exact has no such limit",
    )


def bound_error(network: Network) -> float:
    """Return a bound on the rounding error of log Z (see above)."""
    weights = np.append(np.abs(network.weights), 0.0)  # hard clauses have the weight −1
    scores = float(weights[network.weight_id] @ np.abs(network.coefficient))
    scores += float(np.abs(network.weights) @ np.abs(network.constant_count))
    largest = scores + network.num_atoms * math.log(2.0) + 1
    return ROUNDING * (network.num_clauses + network.num_atoms + 8) * largest


def name_all_constants(problem: Problem, sizes: Mapping[str, int]) -> Problem:
    """Name the constants that the sizes add. Raises LapisError for impossible or large sizes."""
    refuse_new_numbers(problem, extra_constants(problem, sizes))
    for type_name, size in sizes.items():
        if size > MAX_GROUND_ATOMS:
            raise too_large_error(size, f"constants of type {type_name!r}", MAX_GROUND_ATOMS)
    for type_name in list(sizes):
        problem, sizes = name_constants(problem, type_name, sizes)
    return problem


def lift_by_ground(problem: Problem, sizes: Mapping[str, int], classes: bool) -> Lifted:
    """Run the method `ground` of `lapis lift`."""
    assert not classes  # refused by the registry
    problem = name_all_constants(problem, sizes)
    _, found, error = solve_ground(problem, InferenceOptions())
    assert found.log_partition is not None
    return Lifted(
        "ground",
        False,
        found.log_partition,
        error + math.ulp(found.log_partition),
        weight_names(problem),
        found.expected_count,
        tuple(weight_rows(problem, found.expected_count, lambda t: len(problem.domains[t]))),
        "doubles",
    )

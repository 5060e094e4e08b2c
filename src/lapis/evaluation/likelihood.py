"""Likelihoods of data under a model.

    log-likelihood           log P(facts) = log Z(facts known) − log Z(nothing known); unknown facts
                             are summed out
    pseudo-log-likelihood    Σ_g log P(g | all other atoms), a block counting as one variable
    weighted                 Σ_r (1/g_r) Σ_{g of r} log P(g | all other atoms) over predicates r
                             with g_r ground atoms (or blocks), so that large predicates do not
                             dominate small ones (Kok & Domingos 2005)

The second log Z is computed by lifting or from the ground network. If both fail, method `ais`
estimates it by annealed importance sampling, and the log-likelihood has a standard error.

The pseudo-log-likelihood is summed over difference classes, so ground atoms are not listed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from lapis.errors import LapisError, TooLarge
from lapis.evaluation.predictions import exact_log_partition
from lapis.inference.marginals import InferenceOptions, join_names
from lapis.inference.plan import MAX_ELEMENTS
from lapis.learning.examples import Example
from lapis.problem.problem import Problem

MAX_OPEN_ATOMS = 2_000_000  # larger networks without evidence are not built
MAX_SMALL_ATOMS = 2_000  # networks up to which grounding is tried before lifting
NOT_LIFTABLE = "not-liftable"
MAX_OPEN_MEMORY = 1 << 28  # bytes, unless the caller gives a limit


class PredicateLikelihood(NamedTuple):
    """The pseudo-log-likelihood of one predicate in one world, or in several."""

    value: float
    num_variables: int  # ground atoms; blocks for a predicate that has them


class LogLikelihood(NamedTuple):
    """The log-likelihood of the facts of one example, or of several."""

    value: float
    stderr: float | None = None  # None if exact
    methods: tuple[str, ...] = ("exact",)


def log_likelihood(
    example: Example, options: InferenceOptions | None = None, method: str = "auto"
) -> LogLikelihood:
    """Compute log P(facts) of an example in which everything is asked.

    Small networks are grounded first, large ones lifted first. If both fail it is estimated with
    method `ais`, else TooLarge is raised.
    """
    options = options or InferenceOptions()
    if options.max_memory is None:
        options = replace(options, max_memory=MAX_OPEN_MEMORY)
    ways = [ground_likelihood, lifted_likelihood]
    if num_ground_atoms(example.free) > MAX_SMALL_ATOMS:
        ways.reverse()
    refused: list[TooLarge] = []
    for way in ways:
        try:
            return way(example, options)
        except TooLarge as error:
            refused.append(error)
    if method == "ais":
        return annealed_likelihood(example, options)
    raise refused[-1 if refused[0].code == NOT_LIFTABLE else 0]


def ground_likelihood(example: Example, options: InferenceOptions) -> LogLikelihood:
    known = exact_log_partition(example.complete, options)
    refuse_large(example)
    return LogLikelihood(known - exact_log_partition(example.free, options))


def lifted_likelihood(example: Example, options: InferenceOptions) -> LogLikelihood:
    """Compute the log-likelihood without grounding; hidden atoms are refused."""
    if example.has_hidden:
        raise TooLarge("a likelihood with hidden atoms cannot be lifted", code=NOT_LIFTABLE)
    from lapis.learning.objectives.lifted import count_data
    from lapis.lifted.lift import lift_problem

    score = float(example.complete.weight_table.value @ count_data(example.complete))
    circuit = lift_problem(example.free, max_elements=MAX_ELEMENTS)
    return LogLikelihood(score - circuit.at().log_partition, None, ("lifted",))


def annealed_likelihood(example: Example, options: InferenceOptions) -> LogLikelihood:
    from lapis.inference.solve import infer_problem

    known = exact_log_partition(example.complete, options)
    refuse_large(example)
    found = infer_problem(example.free, "ais", options)[1]
    assert found.log_partition is not None
    stderr = found.diagnostics.get("log_partition_stderr")
    return LogLikelihood(known - found.log_partition, stderr, found.methods)


def refuse_large(example: Example) -> None:
    num_atoms = num_ground_atoms(example.free)
    if num_atoms > MAX_OPEN_ATOMS:
        raise TooLarge(
            f"the likelihood of {num_atoms:,} ground atoms is too large for exact inference",
            code="too-large",
        )


def add_log_likelihoods(worlds: list[LogLikelihood]) -> LogLikelihood:
    """Add the log-likelihoods of independent worlds."""
    errors = [world.stderr for world in worlds if world.stderr is not None]
    return LogLikelihood(
        sum(world.value for world in worlds),
        math.hypot(*errors) if errors else None,
        join_names(world.methods for world in worlds),
    )


def num_ground_atoms(problem: Problem) -> int:
    return sum(
        math.prod(len(problem.domains[name]) for name in predicate.types)
        for predicate in problem.model.predicates.values()
        if not predicate.is_number
    )


def pseudo_log_likelihoods(problem: Problem) -> dict[str, PredicateLikelihood]:
    """Compute the pseudo-log-likelihood of each predicate of complete data.

    Raises LapisError if facts are unknown or violate a hard rule, TooLarge if there are too many
    classes of atoms.
    """
    from lapis.counting.differences.atom_classes import (
        find_difference_classes,
        pseudo_log_likelihood,
    )
    from lapis.counting.differences.block_classes import BlockClasses, find_block_classes
    from lapis.grounding.bottom_up import ground

    problem.require_complete()
    refuse_open(problem)
    found: dict[str, PredicateLikelihood] = {}
    for name in problem.model.uncertain_predicates:
        predicate = problem.model.predicates[name]
        classes = (find_block_classes if predicate.block else find_difference_classes)(
            problem, name
        )
        broken = isinstance(classes, BlockClasses) and classes.broken_blocks > 0
        if classes.violated_rules or broken:
            ground(problem)  # raises, with the rule or block that the data violate
        value = pseudo_log_likelihood(classes, problem.weight_table.value).value
        found[name] = PredicateLikelihood(value, int(classes.multiplicity.sum()))
    return found


def refuse_open(problem: Problem) -> None:
    for name, evidence in problem.evidence.items():
        if evidence.open:
            raise LapisError(
                f"this needs complete data, but {name!r} is hidden", code="incomplete-data"
            )


def add_pseudo_log_likelihoods(
    worlds: list[dict[str, PredicateLikelihood]],
) -> dict[str, PredicateLikelihood]:
    """Add the pseudo-log-likelihoods of several worlds by predicate."""
    names = dict.fromkeys(name for world in worlds for name in world)
    return {
        name: PredicateLikelihood(
            sum(world[name].value for world in worlds),
            sum(world[name].num_variables for world in worlds),
        )
        for name in names
    }


def weighted_sum(parts: Mapping[str, PredicateLikelihood]) -> float:
    """Compute Σ_r value_r / num_variables_r over predicates with ground atoms."""
    return sum(part.value / part.num_variables for part in parts.values() if part.num_variables)

"""`fields.infer` and `fields.map`: marginals and most likely worlds of a field.

Worlds, queries and answers are those of Markov logic models, with a ground field instead of a
network. Up to 2^20 worlds are enumerated, which is exact. Larger fields need Gibbs chains or ICM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lapis.errors import LapisError
from lapis.fields.field import Field
from lapis.fields.field_gibbs import CachedField, FieldGibbs, find_mode
from lapis.fields.field_text import FieldLike, edge_names, open_field
from lapis.fields.ground_field import MAX_STATES, GroundField, enumerate_field, ground_field
from lapis.inference.marginals import (
    InferenceOptions,
    Marginals,
    chain_diagnostics,
    sampled_marginals,
)
from lapis.inference.worlds import answer_world, merge_answers, merge_worlds, select_atoms
from lapis.problem.task import DataLike, Task, World, build_task
from lapis.registry.method_table import check_options, find_method, front_door, seed_of
from lapis.registry.options import FieldInferOptions, FieldMapOptions
from lapis.results.answer import Answer, MostLikelyWorld
from lapis.runtime.progress import Stop, StopCallback
from lapis.runtime.progress_bars import ProgressOption, as_report

if TYPE_CHECKING:
    import threading

QUICK_STATES = 1 << 22  # most cells of all worlds for which `auto` enumerates


@front_door
def infer(
    field: FieldLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    open_predicates: Sequence[str] = (),
    method: str = "auto",
    precision: float = 0.01,
    time_limit: float | None = None,
    max_samples: int = 400_000,
    num_chains: int = 4,
    random_state: int | np.random.Generator = 0,
    max_memory: int | None = None,
    strict: bool = False,
    progress: ProgressOption = True,
    stop: StopCallback | threading.Event | None = None,
) -> Answer:
    """Infer marginal probabilities of the unknown query atoms of a field.

    Parameters
    ----------
    field
        A field or the path of one.
    data
        A database, the path of one, None, or a list of these: several are several independent
        worlds, each with its own constants. Facts of undeclared predicates are ignored with a
        warning.
    query
        Predicates or single atoms; without a query all atoms that the data marks unknown.
    open_predicates
        Further predicates that are unknown where the data is silent.
    method
        "auto" (enumeration of small fields, Gibbs chains otherwise) or the name of a method.
    precision
        Standard error wanted on every sampled marginal.
    time_limit
        Seconds after which the result so far is returned, marked interrupted.
    max_samples
        Samples in all chains after warm-up.
    num_chains
        Number of chains, run on all cores.
    random_state
        Seed of everything random, or a generator to draw one from.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    strict
        Refuse facts of predicates that the model does not declare.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.
    stop
        A callable or an event; where it is true the result so far is returned, marked interrupted.

    Returns
    -------
    Answer
        A probability for each atom; `expected_counts` are those of the root, E Σ f of each of its
        children.

    Raises
    ------
    LapisError
        If an input or an option is wrong, or a formula is asked.
    TooLarge
        If the ground field does not fit in memory, or has too many worlds to enumerate.

    Examples
    --------
    >>> from lapis import fields
    >>> field = fields.parse("t = {A, B}\\nP(t)\\nroot:\\n 2 both\\nboth:\\n 3 P(x)")
    >>> answer = fields.infer(field, query="P")
    >>> answer.exact, round(answer["P(A)"], 4)
    (True, 0.801)
    """
    options = FieldInferOptions(
        query=query,
        open_predicates=open_predicates,
        method=method,
        precision=precision,
        time_limit=time_limit,
        max_samples=max_samples,
        num_chains=num_chains,
        random_state=seed_of(random_state),
        max_memory=max_memory,
        strict=strict,
    )
    check_options(options)
    resolved = open_field(field)
    task = field_task(resolved, data, query, open_predicates, strict)
    limits = InferenceOptions(
        precision=precision,
        max_samples=max_samples,
        num_chains=num_chains,
        time_limit=time_limit,
        seed=options.seed,
        max_memory=max_memory,
        progress=as_report(progress),
        stop=Stop(stop),
    )
    parts: list[Answer] = []
    for world, ground, found in solve_worlds("field infer", resolved, task, method, limits):
        own = world._replace(weight_ids=np.arange(len(ground.root_edges)))
        parts.append(answer_world(own, ground.network, found))
    formulas = [
        name
        for (parfeature, _), name in zip(resolved.edges(), edge_names(resolved), strict=True)
        if parfeature is resolved.root
    ]
    return replace(join_field_answers(task, parts), formulas=formulas)


def solve_worlds(
    command: Literal["field infer", "field map"],
    field: Field,
    task: Task,
    method: str,
    options: InferenceOptions,
) -> Iterator[tuple[World, GroundField, Any]]:
    """Yield the method's result in each world; a stop in one world stops the others."""
    chosen = find_method(command, method).load()
    for world in task.worlds:
        ground = ground_field(field, world.problem, options.max_memory)
        found = chosen(ground, field.weights, options)
        if found.diagnostics.get("interrupted") and options.stop is not None:
            options.stop.request()
        yield world, ground, found


def by_best_method(
    ground: GroundField, weights: np.ndarray, options: InferenceOptions
) -> Marginals:
    chosen = by_enumeration if is_quick(ground) else by_gibbs
    return chosen(ground, weights, options)


def is_quick(ground: GroundField) -> bool:
    """Test whether enumeration is fast."""
    states = ground.units.num_states
    return states <= MAX_STATES and ground.num_cells * states <= QUICK_STATES


def by_enumeration(
    ground: GroundField, weights: np.ndarray, options: InferenceOptions
) -> Marginals:
    found = enumerate_field(ground, weights)
    return Marginals.by(
        "enumerate",
        exact=True,
        log_partition=found.log_partition,
        marginal=found.marginal,
        log_odds=found.log_odds,
        expected_count=found.expected_sums,
        diagnostics={"states": ground.units.num_states},
    )


def by_gibbs(
    ground: GroundField,
    weights: np.ndarray,
    options: InferenceOptions,
    *,
    start_at_modes: bool = False,
) -> Marginals:
    from lapis.inference.sampling.chains import run_chains

    name = "icm-gibbs" if start_at_modes else "gibbs"
    found = run_chains(
        ground.network,
        FieldGibbs(CachedField(ground), weights, start_at_modes, name),
        **options.chain_options,
    )
    return sampled_marginals(name, found, chain_diagnostics(found))


def by_gibbs_from_modes(
    ground: GroundField, weights: np.ndarray, options: InferenceOptions
) -> Marginals:
    return by_gibbs(ground, weights, options, start_at_modes=True)


@front_door
def map(
    field: FieldLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    open_predicates: Sequence[str] = (),
    method: str = "auto",
    time_limit: float | None = None,
    random_state: int | np.random.Generator = 0,
    max_memory: int | None = None,
    strict: bool = False,
    progress: ProgressOption = True,
    stop: StopCallback | threading.Event | None = None,
) -> MostLikelyWorld:
    """Find a most likely truth assignment to the unknown atoms of a field.

    Parameters
    ----------
    field
        A field or the path of one.
    data
        A database, the path of one, None, or a list of these: several are several independent
        worlds, each with its own constants. Facts of undeclared predicates are ignored with a
        warning.
    query
        Predicates or single atoms; without a query all atoms that the data marks unknown.
    open_predicates
        Further predicates that are unknown where the data is silent.
    method
        "auto" (enumeration of small fields, ICM otherwise) or the name of a method.
    time_limit
        Seconds after which the best world so far is returned.
    random_state
        Seed of everything random, or a generator to draw one from.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    strict
        Refuse facts of predicates that the model does not declare.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.
    stop
        A callable or an event; where it is true the result so far is returned, marked interrupted.

    Returns
    -------
    MostLikelyWorld
        The world; it is proven where all worlds are enumerated.

    Raises
    ------
    LapisError
        If an input or an option is wrong, or a formula is asked.
    TooLarge
        If the ground field does not fit in memory, or has too many worlds to enumerate.

    Examples
    --------
    >>> from lapis import fields
    >>> field = fields.parse("t = {A, B}\\nP(t)\\nroot:\\n 2 both\\nboth:\\n 3 P(x)")
    >>> fields.map(field, query="P").true_atoms
    ['P(A)', 'P(B)']
    """
    options = FieldMapOptions(
        query=query,
        open_predicates=open_predicates,
        method=method,
        time_limit=time_limit,
        random_state=seed_of(random_state),
        max_memory=max_memory,
        strict=strict,
    )
    check_options(options)
    resolved = open_field(field)
    task = field_task(resolved, data, query, open_predicates, strict)
    limits = InferenceOptions(
        time_limit=time_limit,
        seed=options.seed,
        max_memory=max_memory,
        progress=as_report(progress),
        stop=Stop(stop),
    )
    parts = []
    for world, ground, found in solve_worlds("field map", resolved, task, method, limits):
        asked = select_atoms(ground.network, world)
        value = asked.values(found.world.astype(float)) > 0
        parts.append(
            MostLikelyWorld(
                found.method, found.optimal, found.score, asked.atoms, value,
                diagnostics=found.diagnostics,
            )
        )  # fmt: skip
    return merge_worlds(task, parts)


class FieldMap(NamedTuple):
    """A world found by a MAP method."""

    method: str
    optimal: bool
    score: float  # Σ w Σ f of the root: the log of its unnormalised probability
    world: np.ndarray  # bool[num_unknown]
    diagnostics: dict[str, Any]


def map_best(ground: GroundField, weights: np.ndarray, options: InferenceOptions) -> FieldMap:
    chosen = map_enumerated if is_quick(ground) else map_icm
    return chosen(ground, weights, options)


def map_enumerated(ground: GroundField, weights: np.ndarray, options: InferenceOptions) -> FieldMap:
    found = enumerate_field(ground, weights)
    notes = {"bound": found.best_score, "gap": 0.0, "interrupted": False}
    return FieldMap("enumerate", True, found.best_score, found.best, notes)


def map_icm(ground: GroundField, weights: np.ndarray, options: InferenceOptions) -> FieldMap:
    stop, progress = options.begin_map(), options.progress
    mode = find_mode(CachedField(ground), weights, seed=options.seed, stop=stop, progress=progress)
    notes = {"starts": mode.starts, "interrupted": mode.interrupted}
    return FieldMap("icm", False, mode.score, mode.world, notes)


def field_task(
    field: Field,
    data: DataLike,
    query: Sequence[str] | str,
    open_predicates: Sequence[str],
    strict: bool,
) -> Task:
    task = build_task(
        field.declarations, data, query, open_predicates=open_predicates, strict=strict
    )
    for asked in task.queries:
        if asked.rule is not None:
            raise LapisError(
                "fields do not support formula queries",
                code="query",
                hint="query atoms or predicates, or add a parfeature",
            )
    return task


def join_field_answers(task: Task, parts: Sequence[Answer]) -> Answer:
    """Merge the answers of the worlds; the root's expected sums are added."""
    if len(parts) == 1:
        return parts[0]
    total = np.sum([part.expected_counts for part in parts], axis=0)
    without = [
        replace(
            part,
            expected_counts=np.empty(0),
            diagnostics={
                k: v for k, v in part.diagnostics.items() if k != "expected_counts_stderr"
            },
        )
        for part in parts
    ]
    return replace(merge_answers(task, without), expected_counts=total)

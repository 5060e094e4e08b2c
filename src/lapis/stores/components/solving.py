"""A parcel of components, solved by the same methods as any network.

The engine decides which components travel together; the answer must not. What is exact is solved
for all components of a parcel in one sweep (`exact.by_components` has no loop over components).
What is sampled or searched is taken component by component, each alone, with a seed that is a hash
of its clauses: so it draws the same numbers on one core, on two, on a cluster, in a task that is
run a second time, and whatever else was packed beside it.

An answer is columns again, one row for each thing that was found:

    kind                number            value                           error
    ATOM, SAMPLED_ATOM  atom              probability, or 0 and 1         standard error, or NaN
    COUNT               weight            (expected) true groundings      its standard error, or NaN
    TOTAL               components        log partition, or score         its error, or the gap
    NO_TOTAL            components        samples do not tell it
    FIGURE              of FIGURES        how far samples can be trusted
    METHOD              of METHOD_NAMES                                   1 if not proven
    CONTRADICTED        an atom of hard formulas that no world satisfies
    REFUSED             atoms             width of a component that the method cannot do

An error of zero is a claim; where a method knows none, it is NaN.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.inference.map.solver import MapResult, most_likely_world, solve_small
from lapis.inference.marginals import (
    InferenceOptions,
    Marginals,
    PartialAnswer,
    join_names,
    total_figures,
)
from lapis.inference.plan import is_tiny, plan_parts
from lapis.inference.solve import CarriedOut, carry_out, infer_network
from lapis.network.network import Network
from lapis.network.parts import keep_part
from lapis.network.satisfiability import find_core, row_atoms
from lapis.registry.method import find_method, methods_of
from lapis.stores.components.rows import ParcelNetwork, ParcelRows, build_network

ATOM, SAMPLED_ATOM, COUNT, TOTAL, NO_TOTAL, FIGURE, METHOD, CONTRADICTED, REFUSED = range(9)
ANSWER_COLUMNS = {
    "kind": np.int64,
    "number": np.int64,
    "value": np.float64,
    "error": np.float64,
}
FIGURES = (
    "converged", "ergodic", "interrupted", "rhat", "ess", "ess_bulk", "ess_tail", "samples",
    "chains", "core_atoms", "sampled_atoms", "counted_atoms", "averaged_atoms", "width",
    "largest_states", "components", "cut_atoms", "passes", "residual",
)  # fmt: skip
METHOD_NAMES = tuple(
    dict.fromkeys((*methods_of("infer"), *methods_of("map"), "counts", "branch-and-bound"))
)


@dataclass(frozen=True)
class Question:
    """What is asked of every parcel; travels to where parcels are solved."""

    command: Literal["infer", "map"]
    method: str
    weights: np.ndarray  # float64[num_weights]
    options: InferenceOptions = field(default_factory=InferenceOptions)  # no `progress`, no `stop`

    @property
    def max_memory(self) -> int | None:
        return self.options.max_memory


def solve_parcel(rows: ParcelRows, question: Question) -> dict[str, np.ndarray]:
    """The answer about a parcel, as columns."""
    parcel = build_network(rows, question.weights)
    try:
        if question.command == "map":
            return map_columns(parcel, question)
        return marginal_columns(parcel, question)
    except LapisError as error:
        if error.code == "unsatisfiable":
            return contradicted_columns(parcel)
        if isinstance(error, TooLarge):
            sizes = np.bincount(parcel.network.component)
            return answer_columns([(REFUSED, sizes.max(keepdims=True), np.zeros(1), np.zeros(1))])
        raise


def marginal_columns(parcel: ParcelNetwork, question: Question) -> dict[str, np.ndarray]:
    network, atom, weight = parcel
    found = infer_parcel(network, atom, question)
    base = base_atoms(parcel)
    sampled = ~found.is_exact
    notes = dict(found.diagnostics)
    count_error = np.full(len(weight), 0.0 if found.exact else np.nan)
    if "expected_counts_stderr" in notes:
        count_error[:] = notes.pop("expected_counts_stderr")
    parts = [
        (ATOM, base[~sampled], found.marginal[~sampled], found.errors[~sampled]),
        (SAMPLED_ATOM, base[sampled], found.marginal[sampled], found.errors[sampled]),
        (COUNT, weight, found.expected_count, count_error),
        figure_part(notes),
        method_part(found.methods, found.exact),
    ]
    kind, total = TOTAL, found.log_partition
    if total is None:
        kind, total = NO_TOTAL, 0.0
    parts.append(total_part(network, total, notes.get("log_partition_stderr", 0.0), kind))
    return answer_columns(parts)


def map_columns(parcel: ParcelNetwork, question: Question) -> dict[str, np.ndarray]:
    network, atom, weight = parcel
    found = map_parcel(network, atom, question)
    base = base_atoms(parcel)
    counts = network.counts(found.world)
    return answer_columns(
        [
            (ATOM, base, found.world[: len(base)].astype(float), np.zeros(len(base))),
            (COUNT, weight, counts, np.zeros(len(weight))),
            total_part(network, found.score, found.gap),
            figure_part({"interrupted": found.interrupted, **found.diagnostics}),
            method_part(found.method.split(" + "), found.optimal),
        ]
    )


def infer_parcel(network: Network, atom: np.ndarray, question: Question) -> Marginals:
    """Exact for all components at once where that fits, all others one by one."""
    method, options = question.method, question.options
    if not takes_seed("infer", method) or (method == "auto" and is_tiny(network)):
        return infer_network(network, method, options)
    done = CarriedOut(network, [], [], {})
    if method == "auto":
        done = carry_out(plan_parts(network, options.begin_exact(share=0.5), "leave"))
    rest, place = done.rest()
    parts = done.parts
    for part, own in each_component(rest):
        seed = content_seed(part, atom, options.seed)
        answer = infer_network(part, method, replace(options, seed=seed))
        parts.append(PartialAnswer(place[own], answer))
    return Marginals.join(network, parts)


def map_parcel(network: Network, atom: np.ndarray, question: Question) -> MapResult:
    """Small components by elimination, all at once; the others one by one."""
    method, options = question.method, question.options
    if not takes_seed("map", method):
        return most_likely_world(network, method, options)
    solved, world = np.zeros((2, network.num_atoms), bool)
    if method == "auto":
        solved, world = solve_small(network)
    rest, place = keep_part(network, ~solved)
    gap, optimal, interrupted, notes = 0.0, True, False, []
    methods = ["exact"] if solved.any() else []
    for part, own in each_component(rest):
        seed = content_seed(part, atom, options.seed)
        found = most_likely_world(part, method, replace(options, seed=seed))
        world[place[own]] = found.world
        gap += found.gap
        optimal &= found.optimal
        interrupted |= found.interrupted
        methods.append(found.method)
        notes.append(found.diagnostics)
    score = network.score(world)
    names = " + ".join(join_names(name.split(" + ") for name in methods))
    return MapResult(
        world, score, score + gap, gap, 0.0, optimal, names, interrupted, total_figures(notes),
    )  # fmt: skip


def takes_seed(command: str, method: str) -> bool:
    """Whether the method's answer about a component depends on a seed, or on time."""
    if command == "map":
        return method not in ("exact", "enumerate")
    return find_method("infer", method).exact != "always" and method != "bp"


def each_component(network: Network) -> Iterator[tuple[Network, np.ndarray]]:
    """Each component as a network, with its atoms' places in the whole."""
    if not network.num_atoms:
        return
    order = np.argsort(network.component, kind="stable")
    kept = np.zeros(network.num_atoms, bool)
    for atoms in np.split(order, np.cumsum(np.bincount(network.component))[:-1]):
        kept[atoms] = True
        yield keep_part(network, kept)
        kept[atoms] = False


def content_seed(component: Network, atom: np.ndarray, seed: int) -> int:
    """A seed from what a component is: its clauses, its weights, and its first atom."""
    weights = np.append(component.weights, np.nan)[component.weight_id]  # NaN where hard
    first = atom[component.atoms.tuples[0][0, 0]]
    told = hashlib.blake2b(digest_size=8)
    for values in (
        np.array([seed, first], np.int64), component.clause_start, component.literal, weights,
        component.coefficient, component.block_start, component.block_atom, component.block_exact,
    ):  # fmt: skip
        told.update(np.ascontiguousarray(values).tobytes())
    return int.from_bytes(told.digest(), "little") >> 1


Part = tuple[int, np.ndarray, np.ndarray, np.ndarray]  # kind, numbers, values, errors


def answer_columns(parts: list[Part]) -> dict[str, np.ndarray]:
    found = {
        "kind": [np.full(len(number), kind) for kind, number, _, _ in parts],
        "number": [number for _, number, _, _ in parts],
        "value": [value for _, _, value, _ in parts],
        "error": [error for _, _, _, error in parts],
    }
    return {
        name: np.concatenate(found[name]).astype(dtype) for name, dtype in ANSWER_COLUMNS.items()
    }


def base_atoms(parcel: ParcelNetwork) -> np.ndarray:
    return parcel.atom[: parcel.network.num_base_atoms]


def total_part(network: Network, value: float, error: float, kind: int = TOTAL) -> Part:
    return kind, np.array([network.num_components]), np.array([value]), np.array([error])


def figure_part(notes: dict[str, Any]) -> Part:
    known = [
        (number, float(notes[name]))
        for number, name in enumerate(FIGURES)
        if notes.get(name) is not None
    ]
    numbers, values = np.array(known).reshape(-1, 2).T
    return FIGURE, numbers, values, np.zeros(len(numbers))


def method_part(names: Iterable[str], proven: bool) -> Part:
    numbers = np.array([METHOD_NAMES.index(name) for name in names if name], np.int64)
    return METHOD, numbers, np.zeros(len(numbers)), np.full(len(numbers), float(not proven))


def contradicted_columns(parcel: ParcelNetwork) -> dict[str, np.ndarray]:
    core = find_core(parcel.network)
    atoms = np.arange(parcel.network.num_atoms) if core is None else row_atoms(parcel.network, core)
    named = parcel.atom[atoms[atoms < parcel.network.num_base_atoms]]
    if not len(named):  # auxiliary atoms alone: whatever they stand for
        named = base_atoms(parcel)
    return answer_columns([(CONTRADICTED, named, np.zeros(len(named)), np.zeros(len(named)))])

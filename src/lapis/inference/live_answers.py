"""Answers about a network that changes: only changed components are solved again.

Every step of a plan answers a *batch* of components: exact sums, or the chains of one sampler. When
components change,

    of an exact batch    they leave it, with their log Z and expected counts, which are summed once
                         more as they were before the change
    of a sampled batch   all its components are sampled again, as expected counts of chains are
                         known for all of them together only

The changed components are then planned and solved as a network of their own, by the same code as
all components, so exact answers do not depend on what happened before. A tiny network is
enumerated as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from lapis.inference.marginals import (
    COUNTS,
    EXACT,
    UNSEEN,
    ChainMemory,
    InferenceOptions,
    Marginals,
    PartialAnswer,
    add_or_none,
    join_diagnostics,
    join_names,
    slowest_trace,
)
from lapis.inference.plan import TINY_ATOMS, is_tiny, plan_network
from lapis.inference.solve import PlanResult, run_plan
from lapis.network.components import Subnetwork
from lapis.network.live_network import LiveNetwork, extend_array
from lapis.network.network import Network

SEED_STEP = 100_003  # between the seeds of two answers
MAX_RETIRED = 8  # sampled batches kept in case that a change is taken back


@dataclass
class Batch:
    """Components that one step answered; sums are over those that are left in it."""

    size: int  # components left
    found: Marginals  # without the arrays over atoms if it is exact
    atoms: np.ndarray | None  # int64[...], if it is not exact
    log_partition: float | None
    expected: np.ndarray  # float64[num_weights]


class SolvedCounts(NamedTuple):
    """The work of an answer."""

    components: int  # solved
    atoms: int  # in these
    seconds: float


@dataclass
class LiveAnswers:
    """Marginals of a live network, and the components that must be solved again."""

    network: LiveNetwork
    method: str
    options: InferenceOptions
    dirty: set[int] = field(default_factory=set)
    leaving: list[tuple[Batch, Network]] = field(default_factory=list)
    was_tiny: bool = True
    all_dirty: bool = True  # nothing is solved yet
    has_changed: bool = True  # since the last answer
    batches: dict[int, Batch] = field(default_factory=dict)
    chains: np.ndarray | None = None  # int8[num_chains, num_atoms], where chains ended
    sampler: str = ""  # of these chains
    retired: list[tuple[bytes, Batch]] = field(default_factory=list)  # with digests
    num_solved: int = 0  # times, for the seed
    methods: list[tuple[str, bool]] = field(default_factory=list)  # with whether they are exact

    def __post_init__(self) -> None:
        size = self.network.num_atoms
        self.marginal, self.log_odds, self.stderr = np.zeros((3, size))
        self.method_id = np.zeros(size, np.int8)
        self.batch_of = np.full(self.network.num_labels, -1, np.int64)
        self.next_batch = 0

    def touch(self, labels: Iterable[int]) -> None:
        """Prepare for a change of some components, before it happens."""
        new = set(labels) - self.dirty
        self.has_changed = True
        if not new or self.was_tiny or self.all_dirty:
            self.dirty |= new
            return
        leaving: dict[int, set[int]] = {}
        for label in new:
            number = int(self.batch_of[label]) if label < len(self.batch_of) else -1
            leaving.setdefault(number, set()).add(label)
        self.dirty |= new
        for number, own in leaving.items():
            if number >= 0:
                self.leave(number, own)

    def leave(self, number: int, labels: set[int]) -> None:
        """Remove components from their batch."""
        batch = self.batches[number]
        if not batch.found.exact or batch.size == len(labels):
            self.retire(batch)
            everything = np.flatnonzero(self.batch_of[: self.network.num_labels] == number)
            self.dirty |= set(everything.tolist())
            self.batch_of[everything] = -1
            del self.batches[number]
            return
        own = sorted(labels)
        part = self.network.build(self.network.atoms_with(own))
        self.leaving.append((batch, part.network))
        self.batch_of[own] = -1
        batch.size -= len(own)

    def touch_all(self) -> None:
        """Solve every component again."""
        if not self.all_dirty:
            for batch in self.batches.values():
                self.retire(batch)
        self.all_dirty = self.has_changed = True

    def retire(self, batch: Batch) -> None:
        """Keep a sampled batch that changes, in case that the change is taken back."""
        if batch.atoms is not None:
            self.retired = [(self.digest(batch.atoms), batch), *self.retired][:MAX_RETIRED]

    def digest(self, atoms: np.ndarray) -> bytes:
        """Return a hash of the clauses, weights and blocks over some components."""
        part = self.network.build(atoms)
        network = part.network
        used = network.weights[np.unique(network.weight_id[network.weight_id >= 0])]
        arrays = (
            part.atom, network.clause_start, network.literal, network.weight_id,
            network.coefficient, used, network.block_start, network.block_atom,
        )  # fmt: skip
        found = blake2b(digest_size=16)
        for array in arrays:
            found.update(np.ascontiguousarray(array).tobytes())
        return found.digest()

    def reuse(self, atoms: np.ndarray) -> np.ndarray:
        """Take retired batches that are among these atoms as they were; return the other atoms."""
        left = np.zeros(self.network.num_atoms, bool)
        left[atoms] = True
        for digest, batch in self.retired:
            assert batch.atoms is not None
            if left[batch.atoms].all() and self.digest(batch.atoms) == digest:
                self.store(batch.atoms, batch.found)
                left[batch.atoms] = False
        return np.flatnonzero(left)

    def relabelled(self, labels: Iterable[int]) -> None:
        """Replace the labels of the changed components."""
        self.dirty = set(labels)

    def solve(self) -> SolvedCounts:
        """Solve the changed components."""
        if not self.has_changed:
            return SolvedCounts(0, 0, 0.0)
        try:
            return self.solve_changed()
        except BaseException:
            self.touch_all()
            raise

    def solve_changed(self) -> SolvedCounts:
        network = self.network
        tiny = self.is_tiny()
        self.extend_arrays()
        if self.all_dirty or tiny or self.was_tiny:
            self.batches, self.leaving = {}, []
            part = network.build(self.reuse(network.open_atoms()))
        else:
            part = network.build(self.reuse(network.atoms_with(sorted(self.dirty))))
            for batch, old in self.leaving:
                self.take_out(batch, old)
            self.leaving = []
        self.dirty, self.was_tiny, self.all_dirty, self.has_changed = set(), tiny, False, False
        if not len(part.atom) and not tiny:
            return SolvedCounts(0, 0, 0.0)
        memory = self.remember_chains(part)
        options = replace(
            self.options, memory=memory, seed=self.options.seed + SEED_STEP * self.num_solved
        )
        self.num_solved += 1
        found = run_plan(plan_network(part.network, self.method, options, may_be_tiny=tiny))
        self.record(part, found)
        self.keep_chains(part, memory)
        seconds = sum(row.measured or 0.0 for row in found.rows)
        return SolvedCounts(part.network.num_components, len(part.atom), seconds)

    def remember_chains(self, part: Subnetwork) -> ChainMemory:
        """Return the worlds of earlier chains over the atoms of a part."""
        if self.chains is None:
            shape = self.options.num_chains, len(part.atom)
            return ChainMemory(np.full(shape, UNSEEN, np.int8))
        return ChainMemory(self.chains[:, part.atom], self.sampler)

    def keep_chains(self, part: Subnetwork, memory: ChainMemory) -> None:
        """Store the worlds in which chains ended."""
        if not memory.sampler:
            return
        shape = self.options.num_chains, self.network.num_atoms
        chains = np.full(shape, UNSEEN, np.int8)
        if self.chains is not None:
            chains[:, : self.chains.shape[1]] = self.chains
        chains[:, part.atom] = memory.value
        self.chains, self.sampler = chains, memory.sampler

    def is_tiny(self) -> bool:
        """Return whether the whole network is tiny."""
        network = self.network
        if int(network.is_open[: network.num_atoms].sum()) > TINY_ATOMS:
            return False
        return is_tiny(network.build_all().network)

    def take_out(self, batch: Batch, old: Network) -> None:
        """Subtract what components contributed before they changed."""
        options = replace(self.options, stop=None, time_limit=None)
        found = run_plan(plan_network(old, self.method, options, may_be_tiny=False)).answer()[1]
        batch.expected = batch.expected - found.expected_count
        if batch.log_partition is not None and found.log_partition is not None:
            batch.log_partition -= found.log_partition

    def extend_arrays(self) -> None:
        """Make room for new atoms and labels."""
        for name in ("marginal", "log_odds", "stderr", "method_id"):
            setattr(self, name, extend_array(getattr(self, name), self.network.num_atoms))
        self.batch_of = extend_array(self.batch_of, self.network.num_labels, -1)

    def record(self, part: Subnetwork, found: PlanResult) -> None:
        """Store the answers of the steps of a plan, each as a batch."""
        for atoms, own in found.parts:
            places = part.atom if atoms is None else part.atom[atoms]
            self.store(places[: len(own.marginal)], own)

    def store(self, atoms: np.ndarray, found: Marginals) -> None:
        """Store the answer of a step about these atoms as a batch."""
        self.marginal[atoms], self.log_odds[atoms] = found.marginal, found.log_odds
        self.stderr[atoms] = found.errors
        keys = list(zip(found.methods, found.proven, strict=True))
        self.methods = list(join_names([self.methods, keys]))
        number = np.array([self.methods.index(key) for key in keys], np.int8)
        self.method_id[atoms] = number[found.method_id]
        labels = np.unique(self.network.label[atoms])
        self.batch_of[labels] = self.next_batch
        self.batches[self.next_batch] = Batch(
            len(labels), drop_arrays(found) if found.exact else found,
            None if found.exact else atoms, found.log_partition, found.expected_count,
        )  # fmt: skip
        self.next_batch += 1

    def answer(self) -> tuple[Network, Marginals]:
        """Return the marginals of all unknown atoms, and their network without clauses."""
        network, batches = self.network, list(self.batches.values())
        ordered, atoms = network.without_clauses()
        used, method_id = np.unique(self.method_id[ordered], return_inverse=True)
        keys = [self.methods[number] for number in used.tolist()] or self.methods[-1:]
        if len({name for name, _ in keys}) > 1:
            keys = [(EXACT if name == COUNTS else name, proven) for name, proven in keys]
        table = list(dict.fromkeys(keys))
        number = np.array([table.index(key) for key in keys], np.int8)
        exact = all(batch.found.exact for batch in batches)
        expected = network.constant_count + sum(batch.expected for batch in batches)
        place = np.zeros(network.num_atoms, np.int64)
        place[ordered] = np.arange(len(ordered))
        parts = [
            PartialAnswer(place[batch.atoms], batch.found)
            for batch in batches
            if batch.atoms is not None
        ]
        return atoms, Marginals(
            methods=tuple(name for name, _ in table),
            proven=tuple(proven for _, proven in table),
            method_id=number[method_id.ravel()] if len(table) else np.zeros(len(ordered), np.int8),
            log_partition=add_or_none(
                [atoms.constant_score, *(batch.log_partition for batch in batches)]
            ),
            marginal=self.marginal[ordered],
            log_odds=self.log_odds[ordered],
            stderr=None if exact else self.stderr[ordered],
            expected_count=expected,
            diagnostics=join_diagnostics([batch.found for batch in batches]),
            trace=slowest_trace(parts) if parts else None,
        )


def drop_arrays(found: Marginals) -> Marginals:
    """Return an answer without the arrays over atoms, which `LiveAnswers` has."""
    none = np.empty(0)
    return replace(found, marginal=none, log_odds=none, method_id=np.empty(0, np.int8), trace=None)

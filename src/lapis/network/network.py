"""The ground network: every ground clause that the evidence leaves undecided, as flat arrays.

For a world (a truth value for each atom) the number of true groundings of weight w is

    n_w = constant_count[w] + Σ_{clauses i with weight_id[i] = w} coefficient[i] · 1[clause i true]

and the score of the world is Σ_w weights[w] · n_w, evidence included, exactly as the model's
definition says. Hard clauses (weight_id −1) must be true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lapis.data.database import Domain
from lapis.language.model import Predicate
from lapis.network.csr import row_sums
from lapis.results.atom_groups import AtomGroup, Atoms, predicate_group, variable_group
from lapis.runtime.views import REPR_ROWS, count_noun, draw_html, new_view, short_repr

if TYPE_CHECKING:
    from lapis.results.graph import Picture

no_rows, nothing = partial(np.zeros, 1, np.int64), partial(np.empty, 0, np.int32)


@dataclass(frozen=True)
class AtomTable:
    """The unknown ground atoms, numbered predicate by predicate."""

    predicates: tuple[str, ...]
    offset: np.ndarray  # int64[num_predicates + 1], first atom of each predicate
    tuples: tuple[np.ndarray, ...]  # for each predicate int32[num_atoms_of_it, arity], sorted

    def __len__(self) -> int:
        return int(self.offset[-1])

    def predicate_of(self, atoms: np.ndarray) -> np.ndarray:
        """Return int64[num_given], the position in `predicates` of each atom's predicate."""
        return np.searchsorted(self.offset, atoms, "right") - 1


@dataclass(frozen=True, repr=False)
class Network:
    atoms: AtomTable  # base atoms first; derived (auxiliary) predicates after them
    num_base_atoms: int  # atoms from here on are auxiliary, determined by the base atoms

    clause_start: np.ndarray  # int64[num_clauses + 1]
    literal: np.ndarray  # int32[num_literals], atom + 1, negative if negated
    weight_id: np.ndarray  # int32[num_clauses], −1 where hard
    coefficient: np.ndarray  # float64[num_clauses], how many groundings merged into this clause

    weights: np.ndarray  # float64[num_weights]
    constant_count: np.ndarray  # float64[num_weights]

    block_start: np.ndarray = field(default_factory=no_rows)  # int64[num_blocks + 1]
    # int32[...], atoms of a block: at most one is true
    block_atom: np.ndarray = field(default_factory=nothing)
    # bool[num_blocks], exactly one is true
    block_exact: np.ndarray = field(default_factory=partial(np.empty, 0, bool))

    # Auxiliary atom num_base_atoms + k is true iff some literal of definition k is. A definition
    # uses only base atoms and earlier auxiliary atoms. The clauses include their hard clauses.
    definition_start: np.ndarray = field(default_factory=no_rows)  # int64[num_auxiliary + 1]
    definition_literal: np.ndarray = field(default_factory=nothing)  # int32[...]

    domains: Mapping[str, Domain] = field(default_factory=dict, compare=False, repr=False)
    signatures: Mapping[str, Predicate] = field(default_factory=dict, compare=False, repr=False)

    def __repr__(self) -> str:
        lines = [f"{name}: {number} atoms" for name, number in self._rows()]
        return short_repr("Network", "", self._counts(), lines, len(self.atoms.predicates))

    def _repr_html_(self) -> str:
        predicates = len(self.atoms.predicates)
        view = new_view(
            ["predicate", "atoms"], self._rows(), numbers=["atoms"], num_rows=predicates
        )
        return draw_html([view], [", ".join(self._counts())])

    def _rows(self) -> list[tuple[str, str]]:
        """Return the first predicates and their numbers of atoms."""
        sizes = np.diff(self.atoms.offset[: REPR_ROWS + 1]).tolist()
        return [(n, f"{s:,}") for n, s in zip(self.atoms.predicates, sizes, strict=False)]

    def _counts(self) -> list[str]:
        auxiliary = self.num_atoms - self.num_base_atoms
        atoms = count_noun(self.num_atoms, "atom")
        hard = int((self.weight_id < 0).sum())
        clauses = count_noun(self.num_clauses, "clause")
        return [
            f"{atoms} ({auxiliary:,} auxiliary)" if auxiliary else atoms,
            f"{clauses} ({hard:,} hard)" if hard else clauses,
            count_noun(self.num_blocks, "block"),
            count_noun(len(self.weights), "weight"),
            count_noun(self.num_components, "component"),
        ]

    def draw(self) -> Picture:
        """Draw the network: a box for each atom, clause and block.

        Returns
        -------
        Picture
            A graph; `save` writes it as .dot, .graphml, .svg or .png.

        Raises
        ------
        TooLarge
            If there are too many boxes.
        """
        from lapis.network.drawing import draw_network

        return draw_network(self)

    @property
    def num_atoms(self) -> int:
        return len(self.atoms)

    @property
    def num_clauses(self) -> int:
        return len(self.weight_id)

    @property
    def num_blocks(self) -> int:
        return len(self.block_exact)

    @property
    def first_atom(self) -> np.ndarray:
        """The first atom of each clause, int32[num_clauses], which identifies its component."""
        return np.abs(self.literal[self.clause_start[:-1]]) - 1

    @property
    def num_components(self) -> int:
        return int(self.component.max(initial=-1)) + 1

    @property
    def constant_score(self) -> float:
        """The score of the groundings that evidence decides: Σ_w weights[w] · constant_count[w]."""
        return float(self.weights @ self.constant_count)

    def with_weights(self, weights: np.ndarray) -> Network:
        """Return the network with other weights."""
        if weights.shape != self.weights.shape:
            raise ValueError(f"{len(self.weights)} weights expected, not {weights.shape}")
        return replace(self, weights=weights)

    def is_satisfied(self, world: np.ndarray) -> np.ndarray:
        """Return bool[num_clauses], whether each clause is true in a world bool[num_atoms]."""
        holds = world[np.abs(self.literal) - 1] == (self.literal > 0)
        return row_sums(self.clause_start, holds) > 0

    def counts(self, world: np.ndarray) -> np.ndarray:
        """Return float64[num_weights], n_w(world): the true groundings of each weight."""
        counted = self.is_satisfied(world) & (self.weight_id >= 0)
        return self.constant_count + np.bincount(
            self.weight_id[counted],
            weights=self.coefficient[counted],
            minlength=len(self.weights),
        )

    def score(self, world: np.ndarray) -> float:
        """Return Σ_w weights[w] · n_w(world)."""
        return float(self.weights @ self.counts(world))

    def is_feasible(self, world: np.ndarray) -> bool:
        """Return whether all hard clauses and blocks are satisfied.

        The hard clauses include those of the definitions, so the auxiliary atoms must have the
        values that `complete` gives them.
        """
        if not self.is_satisfied(world)[self.weight_id < 0].all():
            return False
        true = row_sums(self.block_start, world[self.block_atom])
        return bool((true <= 1).all() and (true[self.block_exact] == 1).all())

    def complete(self, base: np.ndarray) -> np.ndarray:
        """Return bool[num_atoms], the world with the given base atoms, bool[num_base_atoms]."""
        world = np.zeros(self.num_atoms, bool)
        world[: self.num_base_atoms] = base
        # Atoms of one predicate never refer to each other, so they are computed together.
        begins = np.maximum(self.atoms.offset - self.num_base_atoms, 0)
        for first, last in pairwise(begins):
            if last > first:
                start = self.definition_start[first : last + 1]
                literal = self.definition_literal[start[0] : start[-1]]
                holds = world[np.abs(literal) - 1] == (literal > 0)
                here = slice(self.num_base_atoms + first, self.num_base_atoms + last)
                world[here] = row_sums(start - start[0], holds) > 0
        return world

    @cached_property
    def atom_clauses(self) -> tuple[np.ndarray, np.ndarray]:
        """The clauses of each atom, as (atom_start, atom_clause).

        int64[num_atoms + 1] and int32[num_literals]: clause + 1, negative if negated there.
        """
        from lapis.network.components import index_atoms

        return index_atoms(self.clause_start, self.literal, self.num_atoms)

    @property
    def atom_start(self) -> np.ndarray:
        return self.atom_clauses[0]

    @property
    def atom_clause(self) -> np.ndarray:
        return self.atom_clauses[1]

    @cached_property
    def component(self) -> np.ndarray:
        """The connected component of each atom (shared clauses or blocks), int32[num_atoms]."""
        from lapis.network.components import connected_components

        return connected_components(self)

    def atom_names(self, atoms: np.ndarray) -> list[str]:
        """Format atoms as facts, `Friends(Anna,Bob)`; auxiliary ones have numbers."""
        return list(label_atoms(self, atoms))

    def atom_index(self, predicate: str, rows: np.ndarray) -> np.ndarray:
        """Return int64[num_rows], the atom of each tuple of codes; −1 if evidence decides it."""
        found = np.full(len(rows), -1, np.int64)
        if predicate not in self.atoms.predicates or len(rows) == 0:
            return found
        from lapis.data.keys import pack

        group = self.atoms.predicates.index(predicate)
        known = self.atoms.tuples[group]
        both = np.concatenate((known, rows))
        sizes = [int(column.max()) + 1 for column in both.T]
        code = pack(list(both.T), sizes, len(both))
        sorted_codes, wanted = code[: len(known)], code[len(known) :]
        at = np.searchsorted(sorted_codes, wanted)
        at[at == len(known)] = 0
        hit = sorted_codes[at] == wanted
        found[hit] = at[hit] + self.atoms.offset[group]
        return found


def network_of_atoms(
    atoms: AtomTable,
    weights: np.ndarray,
    constant_count: np.ndarray,
    domains: Mapping[str, Domain],
    signatures: Mapping[str, Predicate],
) -> Network:
    """Create a network without clauses."""
    return Network(
        atoms,
        num_base_atoms=len(atoms),
        clause_start=no_rows(),
        literal=nothing(),
        weight_id=nothing(),
        coefficient=np.empty(0),
        weights=weights,
        constant_count=constant_count,
        domains=domains,
        signatures=signatures,
    )


def label_atoms(network: Network, atoms: np.ndarray, world: str = "") -> Atoms:
    """Group atoms of a network, int64[num_atoms], by predicate, in the given order."""
    owner = network.atoms.predicate_of(atoms)
    cuts = np.flatnonzero(np.diff(owner)) + 1
    bounds = [0, *cuts.tolist(), len(atoms)] if len(atoms) else [0]
    return Atoms(
        tuple(
            label_group(network, int(owner[first]), atoms[first:last], world)
            for first, last in pairwise(bounds)
        )
    )


def label_group(network: Network, owner: int, atoms: np.ndarray, world: str) -> AtomGroup:
    """Return the group of some atoms of one predicate."""
    table = network.atoms
    predicate = table.predicates[owner]
    codes = table.tuples[owner][atoms - table.offset[owner]]
    signature = network.signatures.get(predicate)
    if signature is None:  # auxiliary atoms of cubes have numbers as arguments
        size = int(codes.max(initial=-1)) + 1
        numbers = Domain("number", tuple(map(str, range(size))))
        columns = (numbers,) * codes.shape[1]
        return predicate_group(predicate, codes, columns, ("number",) * codes.shape[1], world=world)
    domains = [network.domains[name] for name in signature.types]
    if signature.variable:
        return variable_group(predicate, codes, domains, world=world)
    return predicate_group(
        predicate, codes, domains, signature.types, function=signature.function, world=world
    )

"""A ground network whose clauses and atoms change.

Atoms keep their numbers: an atom that becomes known leaves a gap, and a new one gets the next
number. Equal clauses are one row with the number of groundings that became it; a row with none is
dead. Components have labels. A change affects the components of the atoms in changed clauses, and
`relabel` divides these again. Parts of the network are ordinary networks (`build`), whose atoms are
ordered as grounding orders them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from lapis.data.keys import pack
from lapis.network.components import Subnetwork
from lapis.network.csr import row_places, row_starts, take_rows
from lapis.network.merge import MergedRows, sort_rows
from lapis.network.network import AtomTable, Network, network_of_atoms

SPARE = 1.5  # factor by which arrays grow

Literals = tuple[int, ...]  # atom + 1, negative if negated, sorted by atom
LiveAtom = tuple[str, tuple[int, ...]]  # a predicate, and constants as codes


class LiveBlocks(NamedTuple):
    """The positions of a predicate's arguments that name a block."""

    key: tuple[int, ...]
    exact: bool  # exactly one atom of a block is true, not at most one


class LiveNetwork:
    """The clauses and atoms, and the component of each atom.

    Parameters
    ----------
    network
        The network at the start, without auxiliary atoms.
    count
        float64[num_clauses], the groundings of each clause, hard ones too.
    predicates
        All predicates, in the order in which atoms are numbered.
    blocks
        The blocks of predicates that have some.
    """

    def __init__(
        self,
        network: Network,
        count: np.ndarray,
        predicates: Sequence[str],
        blocks: dict[str, LiveBlocks],
    ) -> None:
        self.first = network
        self.domains = network.domains
        self.predicates = {name: place for place, name in enumerate(predicates)}
        self.blocks = blocks
        self.num_atoms = network.num_atoms
        self.num_rows = network.num_clauses
        self.start = network.clause_start.copy()
        self.literal = network.literal.copy()
        self.weight_id = network.weight_id.copy()
        self.count = count.astype(np.float64)
        self.weights = network.weights.copy()
        self.constant_count = network.constant_count.copy()
        self.violated = 0.0  # hard groundings that evidence makes false
        self.added_rows: dict[int, list[int]] = {}  # of each atom
        self.added_atoms: list[LiveAtom] = []
        self.number: dict[LiveAtom, int] = {}  # of the atoms added
        self.is_open = np.ones(network.num_atoms, bool)
        self.label = network.component.copy()
        self.num_labels = network.num_components
        order = np.argsort(self.label, kind="stable")
        self.member_start = row_starts(np.bincount(self.label, minlength=self.num_labels))
        self.member = order
        self.new_members: dict[int, np.ndarray] = {}  # of labels given later

    # Atoms

    def atom(self, number: int) -> LiveAtom:
        """Return the predicate and the constants of an atom."""
        table = self.first.atoms
        if number >= len(table):
            return self.added_atoms[number - len(table)]
        owner = int(table.predicate_of(np.array([number]))[0])
        row = table.tuples[owner][number - table.offset[owner]]
        return table.predicates[owner], tuple(row.tolist())

    def add_atom(self, atom: LiveAtom) -> int:
        """Return the number of an atom that was known at the start; a new one if it has none."""
        if atom not in self.number:
            self.number[atom] = self.num_atoms
            self.added_atoms.append(atom)
            self.num_atoms += 1
            self.is_open = extend_array(self.is_open, self.num_atoms)
            self.label = extend_array(self.label, self.num_atoms)
            self.is_open[self.num_atoms - 1] = False
            self.label[self.num_atoms - 1] = -1
        return self.number[atom]

    def open_atom(self, number: int) -> None:
        """Let an atom be unknown, in a component of its own."""
        self.is_open[number] = True
        self.label[number] = self.num_labels
        self.new_members[self.num_labels] = np.array([number])
        self.num_labels += 1

    def close_atom(self, number: int) -> None:
        """Let an atom be known; it is in no clause any more."""
        self.is_open[number] = False

    # Clauses

    def rows_of(self, number: int) -> np.ndarray:
        """Return int64[...], the live rows with an atom."""
        rows = np.array(self.added_rows.get(number, ()), np.int64)
        if number < self.first.num_atoms:
            first, last = self.first.atom_start[number : number + 2]
            own = np.abs(self.first.atom_clause[first:last].astype(np.int64)) - 1
            rows = np.concatenate((own, rows))
        return rows[self.count[rows] > 0]

    def literals_of(self, row: int) -> Literals:
        """Return the literals of a row."""
        return tuple(self.literal[self.start[row] : self.start[row + 1]].tolist())

    def add(self, literals: Literals, weight_id: int, count: float) -> None:
        """Add groundings of a clause, or remove them if `count` is negative."""
        row = self.find_row(literals, weight_id)
        if row is None:
            row = self.append_row(literals, weight_id)
        self.count[row] += count
        assert self.count[row] >= 0, "more groundings removed than there were"

    def find_row(self, literals: Literals, weight_id: int) -> int | None:
        """Return the row of a clause, also a dead one."""
        best: np.ndarray | None = None
        for literal in literals:
            rows = self.all_rows_of(abs(literal) - 1)
            if best is None or len(rows) < len(best):
                best = rows
        assert best is not None
        length = self.start[best + 1] - self.start[best]
        best = best[(self.weight_id[best] == weight_id) & (length == len(literals))]
        if not len(best):
            return None
        found = self.literal[self.start[best][:, None] + np.arange(len(literals))]
        equal = np.flatnonzero((found == np.array(literals)).all(axis=1))
        return int(best[equal[0]]) if len(equal) else None

    def all_rows_of(self, number: int) -> np.ndarray:
        """Return int64[...], the rows with an atom, dead ones included."""
        rows = np.array(self.added_rows.get(number, ()), np.int64)
        if number >= self.first.num_atoms:
            return rows
        first, last = self.first.atom_start[number : number + 2]
        own = np.abs(self.first.atom_clause[first:last].astype(np.int64)) - 1
        return np.concatenate((own, rows))

    def append_row(self, literals: Literals, weight_id: int) -> int:
        row, begin = self.num_rows, int(self.start[self.num_rows])
        end = begin + len(literals)
        self.num_rows += 1
        self.start = extend_array(self.start, self.num_rows + 1)
        self.literal = extend_array(self.literal, end)
        self.weight_id = extend_array(self.weight_id, self.num_rows)
        self.count = extend_array(self.count, self.num_rows)
        self.start[row + 1], self.weight_id[row], self.count[row] = end, weight_id, 0.0
        self.literal[begin:end] = literals
        for literal in literals:
            self.added_rows.setdefault(abs(literal) - 1, []).append(row)
        return row

    # Components

    def members(self, label: int) -> np.ndarray:
        """Return int64[...], the unknown atoms with a label."""
        if label in self.new_members:
            found = self.new_members[label]
        else:
            found = self.member[self.member_start[label] : self.member_start[label + 1]]
        return found[self.is_open[found] & (self.label[found] == label)]

    def relabel(self, labels: Iterable[int]) -> list[int]:
        """Divide some components, which clauses may join or leave, and return the new labels."""
        atoms = self.atoms_with(labels)
        part = self.build(atoms)
        own = part.network.component
        order = np.argsort(own, kind="stable")
        members = np.split(part.atom[order], np.cumsum(np.bincount(own))[:-1]) if len(own) else []
        first = self.num_labels
        self.label[part.atom] = first + own
        for members_of in members:
            self.new_members[self.num_labels] = members_of
            self.num_labels += 1
        return list(range(first, self.num_labels))

    def atoms_with(self, labels: Iterable[int]) -> np.ndarray:
        """Return int64[...], the unknown atoms with some labels."""
        return np.concatenate([np.empty(0, np.int64), *map(self.members, labels)])

    def all_labels(self) -> np.ndarray:
        """Return int64[...], the labels of the unknown atoms."""
        return np.unique(self.label[: self.num_atoms][self.is_open[: self.num_atoms]])

    def labels_with_weight(self, weight_ids: np.ndarray) -> np.ndarray:
        """Return int64[...], the labels of components with a clause of one of these weights."""
        rows = np.flatnonzero(
            np.isin(self.weight_id[: self.num_rows], weight_ids) & (self.count[: self.num_rows] > 0)
        )
        return np.unique(self.label[np.abs(self.literal[self.start[rows]]) - 1])

    # Networks

    def tables(self, atoms: np.ndarray) -> tuple[np.ndarray, AtomTable]:
        """Order atoms, int64[...], by predicate and constants; return them and their table."""
        table = self.first.atoms
        is_added = atoms >= len(table)
        old = np.sort(atoms[~is_added])
        numbers, names, tuples = [], [], []
        more: dict[str, list[int]] = {}
        for number in atoms[is_added].tolist():
            more.setdefault(self.added_atoms[number - len(table)][0], []).append(number)
        for name in self.predicates:
            own, rows = self.first_rows(name, old)
            added = more.get(name, [])
            if added:
                new = np.array([self.added_atoms[n - len(table)][1] for n in added], np.int32)
                rows = np.concatenate((rows.reshape(len(own), new.shape[1]), new))
                own = np.concatenate((own, added))
                order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(own))
                own, rows = own[order], rows[order]
            if len(own):
                numbers.append(own)
                names.append(name)
                tuples.append(rows)
        offset = row_starts([len(rows) for rows in tuples])
        ordered = np.concatenate([np.empty(0, np.int64), *numbers]).astype(np.int64)
        return ordered, AtomTable(tuple(names), offset, tuple(tuples))

    def first_rows(self, name: str, atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the atoms of a predicate among atoms of the start, and their constants."""
        table = self.first.atoms
        if name not in table.predicates:
            return np.empty(0, np.int64), np.empty((0, 0), np.int32)
        place = table.predicates.index(name)
        first, last = np.searchsorted(atoms, table.offset[place : place + 2])
        own, rows = atoms[first:last], table.tuples[place]
        return own, rows if len(own) == len(rows) else rows[own - table.offset[place]]

    def open_atoms(self) -> np.ndarray:
        """Return int64[...], the unknown atoms."""
        return np.flatnonzero(self.is_open[: self.num_atoms])

    def without_clauses(self) -> tuple[np.ndarray, Network]:
        """Return the unknown atoms in order, and a network of them without clauses."""
        ordered, table = self.tables(self.open_atoms())
        first = self.first
        return ordered, network_of_atoms(
            table, self.weights, self.constant_count.copy(), self.domains, first.signatures
        )

    def build(self, atoms: np.ndarray) -> Subnetwork:
        """Return the network of whole components, without the constant counts."""
        ordered, table = self.tables(atoms)
        return Subnetwork(self.build_rows(ordered, table, self.rows_of_atoms(ordered)), ordered)

    def build_all(self) -> Subnetwork:
        """Return the whole network, with its constant counts."""
        ordered, table = self.tables(self.open_atoms())
        rows = np.flatnonzero(self.count[: self.num_rows] > 0)
        network = self.build_rows(ordered, table, rows)
        network.constant_count[:] = self.constant_count
        return Subnetwork(network, ordered)

    def rows_of_atoms(self, atoms: np.ndarray) -> np.ndarray:
        """Return int64[...], the live rows with some of the atoms, in order."""
        old = atoms[atoms < self.first.num_atoms]
        _, own = take_rows(self.first.atom_start, self.first.atom_clause, old)
        added = [row for atom in self.added_rows.keys() & set(atoms.tolist())
                 for row in self.added_rows[atom]] if self.added_rows else []  # fmt: skip
        is_chosen = np.zeros(self.num_rows, bool)  # a mask, as sorting takes ten times as long
        is_chosen[np.abs(own.astype(np.int64)) - 1] = True
        is_chosen[added] = True
        return np.flatnonzero(is_chosen & (self.count[: self.num_rows] > 0))

    def build_rows(self, atoms: np.ndarray, table: AtomTable, rows: np.ndarray) -> Network:
        """Return the network of ordered atoms and their rows, as int64 arrays."""
        start, place = row_places(self.start, rows)
        literal = self.literal[place]
        number = np.zeros(self.num_atoms, np.int32)
        number[atoms] = np.arange(1, len(atoms) + 1)
        literal = (np.sign(literal) * number[np.abs(literal) - 1]).astype(np.int32)
        weight_id, merged = self.weight_id[rows], np.arange(len(rows), dtype=np.int32)
        coefficient = np.where(weight_id < 0, 1.0, self.count[rows])
        literal = sort_literals(start, literal)
        found = sort_rows(MergedRows(start, literal, weight_id, coefficient, merged))
        block_start, block_atom, block_exact = self.build_blocks(table)
        return Network(
            atoms=table,
            num_base_atoms=len(atoms),
            clause_start=found.start,
            literal=found.literal,
            weight_id=found.weight_id,
            coefficient=found.coefficient,
            weights=self.weights,
            constant_count=np.zeros(len(self.weights)),
            block_start=block_start,
            block_atom=block_atom,
            block_exact=block_exact,
            domains=self.domains,
            signatures=self.first.signatures,
        )

    def build_blocks(self, table: AtomTable) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Group the atoms of a table by their blocks; blocks of one atom may be left out."""
        lengths, members, exact = [np.empty(0, np.int64)], [np.empty(0, np.int32)], []
        for place, name in enumerate(table.predicates):
            blocks = self.blocks.get(name)
            if blocks is None:
                continue
            keys = table.tuples[place][:, list(blocks.key)]
            key = pack(list(keys.T), (keys.max(axis=0, initial=0) + 1).tolist(), len(keys))
            _, length = np.unique(key, return_counts=True)
            atom = table.offset[place] + np.argsort(key, kind="stable")
            if not blocks.exact:
                atom = atom[np.repeat(length > 1, length)]
                length = length[length > 1]
            lengths.append(length)
            members.append(atom.astype(np.int32))
            exact.append(np.full(len(length), blocks.exact))
        return (
            row_starts(np.concatenate(lengths)),
            np.concatenate(members),
            np.concatenate([np.empty(0, bool), *exact]),
        )


def sort_literals(start: np.ndarray, literal: np.ndarray) -> np.ndarray:
    """Sort the literals of each row by atom."""
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    key = (row << 32) + np.abs(literal)
    if (key[1:] > key[:-1]).all():
        return literal
    return literal[np.argsort(key, kind="stable")]


def extend_array(array: np.ndarray, size: int, fill: int = 0) -> np.ndarray:
    """Return an array of at least this length with the same entries first."""
    if size <= len(array):
        return array
    larger = np.full(max(16, int(SPARE * size)), fill, array.dtype)
    larger[: len(array)] = array
    return larger

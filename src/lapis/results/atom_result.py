"""Results about ground atoms: frames with a column for each argument, lookup by name.

    to_pandas()         world (if there are several), atom, predicate, arg1, arg2, …, values
    table("Friends")    world (if there are several), the arguments by their types, values

Types that occur twice are numbered: Friends(person, person) has columns person1 and person2.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from lapis.errors import check_word
from lapis.results.atom_groups import AtomGroup, Atoms, Key
from lapis.results.columns import AtomNames, Coded, Column, list_entries, repeat_by_group
from lapis.results.result import Columns, FrameKind, Result, Table, to_frame
from lapis.runtime.views import View, new_view


class AtomResult(Result):
    """A result with a row for each ground atom."""

    asked: Atoms  # in the order of the rows

    @abstractmethod
    def measured(self) -> dict[str, np.ndarray | Coded]:
        """Return named columns with a value for each atom."""

    def __len__(self) -> int:
        return len(self.asked)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the atoms, in order."""
        return tuple(self.asked)

    @property
    def keys(self) -> tuple[Key, ...]:
        """The names of the atoms, with their worlds if there are several."""
        if not self.asked.is_divided:
            return self.names
        return tuple(zip(self.world, self.names, strict=True))

    @property
    def world(self) -> tuple[str, ...]:
        """The world of each atom: the name of its data."""
        return tuple(self.world_column.values())

    @property
    def worlds(self) -> tuple[str, ...]:
        """The world of each atom if there are several."""
        return self.world if self.asked.is_divided else ()

    def columns(self) -> Columns:
        """Return the columns: name, predicate, constants (None beyond the arity), values."""
        asked = self.asked
        found: dict[str, Column] = {"atom": AtomNames(asked)}
        if asked.is_divided:
            found = {"world": self.world_column, **found}
        found["predicate"] = repeat_by_group(asked, [group.predicate for group in asked.groups])
        arity = max((len(group.domains) for group in asked.groups), default=0)
        for position in range(arity):
            found[f"arg{position + 1}"] = argument_column(asked.groups, position)
        return {**found, **self.measured()}

    @property
    def world_column(self) -> Coded:
        return repeat_by_group(self.asked, [group.world for group in self.asked.groups])

    def table(self, predicate: str) -> Table:
        """Select the atoms of one predicate or formula.

        Parameters
        ----------
        predicate
            Name of the predicate, or the formula of the query.

        Returns
        -------
        Table
            A column for each argument and for each value.

        Raises
        ------
        LapisError
            If the predicate was not queried.
        """
        chosen = self.asked.by_predicate
        check_word("predicate", predicate, list(chosen), code="not-asked")
        groups = [group for group in self.asked.groups if group.predicate == predicate]
        found: dict[str, Column] = {}
        if self.asked.is_divided:
            found["world"] = repeat_by_group(Atoms(tuple(groups)), [g.world for g in groups])
        values = self.measured()
        taken = {"world", *values}
        for position, name in enumerate(number_alike(groups[0].arguments, taken)):
            found[name] = argument_column(groups, position)
        rows = chosen[predicate]
        return Table(found | {name: value[rows] for name, value in values.items()})

    def frames(self, kind: FrameKind = "pandas") -> dict[str, Any]:
        """Make a frame for each predicate, of its `table`.

        Parameters
        ----------
        kind
            "pandas", "polars" or "arrow".

        Returns
        -------
        dict[str, Any]
            The frames by predicate.

        Raises
        ------
        LapisError
            If the library is not installed.
        """
        return {name: to_frame(self.table(name), kind) for name in self.asked.by_predicate}

    def _entries(self) -> Iterator[dict[str, Any]]:
        """Return an entry for each atom: its name, values and world."""
        found = self.measured()
        if self.asked.is_divided:
            found["world"] = self.world_column
        return list_entries(self.asked, found)

    def _by_key(self, values: np.ndarray) -> dict[Any, Any]:
        """Return values by the names of the atoms, with their worlds if there are several."""
        return dict(zip(self.keys, values.tolist(), strict=True))

    def _named_rows(self, chosen: np.ndarray) -> list[tuple[str, ...]]:
        """Return the world (if there are several) and the name of each chosen atom."""
        names = self.asked.take(chosen)
        if not self.asked.is_divided:
            return [(name,) for name in names]
        owner = self.asked.owner(chosen).tolist()
        groups = self.asked.groups
        return [(groups[g].world, name) for g, name in zip(owner, names, strict=True)]

    def _ranked_view(
        self, order: np.ndarray, cells: Mapping[str, Sequence[str]], probability: np.ndarray
    ) -> View:
        """Return a table of atoms in an order, with texts and a bar for each probability."""
        rows = zip(self._named_rows(order), *cells.values(), strict=True)
        return new_view(
            (*self._name_headings, *cells),
            [(*name, *texts) for name, *texts in rows],
            numbers=["probability"],
            num_rows=len(self),
            bars=probability[order].tolist(),
        )

    @property
    def _name_headings(self) -> tuple[str, ...]:
        return ("world", "atom") if self.asked.is_divided else ("atom",)


def rank_by(probability: np.ndarray, limit: int) -> np.ndarray:
    """Return int64[at most limit], the atoms by decreasing probability.

    Equal atoms may be rounded differently; they keep their order.
    """
    return np.argsort(-np.round(probability, 12), kind="stable")[:limit]


def argument_column(groups: Sequence[AtomGroup], position: int) -> Coded:
    """Return the constants of all atoms at an argument; None beyond the arity of a group."""
    domains = {id(d): d for g in groups for d in g.domains[position : position + 1]}
    start = dict(zip(domains, np.cumsum([0, *map(len, domains.values())]).tolist(), strict=False))
    codes = [np.empty(0, np.int32)]
    for group in groups:
        if position < len(group.domains):
            codes.append(group.codes[:, position] + start[id(group.domains[position])])
        else:
            codes.append(np.full(len(group), -1, np.int32))
    texts = [np.empty(0, object), *(domain.names for domain in domains.values())]
    return Coded(np.concatenate(codes), np.concatenate(texts))


def number_alike(names: tuple[str, ...], taken: set[str]) -> list[str]:
    """Return column names; those that occur twice or are taken get numbers.

    >>> number_alike(("person", "person", "value"), {"value"})
    ['person1', 'person2', 'value1']
    """
    found: list[str] = []
    counts: Mapping[str, int] = {name: names.count(name) for name in names}
    for position, name in enumerate(names):
        number = names[: position + 1].count(name)
        alone = counts[name] == 1 and name not in taken
        candidate = name if alone else f"{name}{number}"
        while candidate in taken or candidate in found:
            candidate += "_"
        found.append(candidate)
    return found

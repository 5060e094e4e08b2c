"""Databases whose rows and constants are read on first use.

The numbers of rows and constants are available without reading them. Arrays and names are fetched
on first use, at most `MAX_FETCHED` of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lapis.data.database import Database, Domain, Relation, empty_tuples
from lapis.errors import TooLarge
from lapis.language.model import Model

MAX_FETCHED = 20_000_000  # rows or names that are fetched into memory


class LazyRows(ABC):
    """Distinct rows of codes that are not in memory."""

    arity: int

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self) -> np.ndarray:
        """Return int32[num_rows, arity], sorted."""

    def fetch(self, what: str) -> np.ndarray:
        """Return the rows; raise TooLarge if there are too many."""
        if len(self) > MAX_FETCHED:
            raise too_many_to_fetch(f"the {len(self):,} facts of {what!r}")
        return self.read()


class LazyNames(ABC):
    """The constants of a type, not in memory: codes 0, 1, … and their names."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self) -> np.ndarray:
        """Return object[size], the names in the order of their codes."""

    @abstractmethod
    def find(self, name: str) -> int | None:
        """Return the code of a name, None if it is unknown."""


class LazyDomain(Domain):
    """The constants of one type, read on first use."""

    def __init__(self, name: str, stored: LazyNames) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "stored", stored)

    stored: LazyNames

    def __len__(self) -> int:
        return len(self.stored)

    @cached_property
    def names(self) -> np.ndarray:
        if len(self) > MAX_FETCHED:
            raise too_many_to_fetch(f"the {len(self):,} constants of type {self.name!r}")
        return self.stored.read()

    def read_names(self) -> None:
        """Read the names now, before their database is closed."""
        self.__dict__["index"] = {name: code for code, name in enumerate(self.names.tolist())}

    @cached_property
    def constants(self) -> tuple[str, ...]:
        return tuple(self.names.tolist())

    @cached_property
    def index(self) -> Mapping[str, int]:
        return _Index(self.stored)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


class _Index(Mapping[str, int]):
    """A mapping that looks up one name at a time."""

    def __init__(self, stored: LazyNames) -> None:
        self._stored = stored
        self._known: dict[str, int | None] = {}

    def __getitem__(self, name: str) -> int:
        if name not in self._known:
            self._known[name] = self._stored.find(name)
        code = self._known[name]
        if code is None:
            raise KeyError(name)
        return code

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored.read().tolist())

    def __len__(self) -> int:
        return len(self._stored)


class LazyRelation(Relation):
    """The true facts of one predicate, read on first use."""

    def __init__(
        self, predicate: str, types: tuple[str, ...], rows: LazyRows, function: bool = False
    ) -> None:
        none = empty_tuples(len(types))
        fields = {
            "predicate": predicate,
            "types": types,
            "rows": rows,
            "false": none,
            "unknown": none,
            "function": function,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    rows: LazyRows

    @cached_property
    def true(self) -> np.ndarray:
        return self.rows.fetch(self.predicate)

    @property
    def num_true(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, repr=False)
class LazyDatabase(Database):
    """Relations that are read on first use; binding to a model numbers their constants."""

    @abstractmethod
    def bind(self, model: Model) -> Database:
        """Return the database over the model's types, with a relation for each predicate."""


def too_many_to_fetch(what: str) -> TooLarge:
    return TooLarge(
        f"this needs {what} in memory; at most {MAX_FETCHED:,} are fetched from the engine",
        code="not-on-engine",
        hint="pseudo-likelihood and counts are computed on the engine",
    )

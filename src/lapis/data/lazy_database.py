"""Data that stays where it is: rows and constants in tables of a store.

A relation, a domain or what is known of a predicate may live on a store. Then it knows how much
there is, and whoever has SQL to say asks the table. Code that knows nothing of stores still works:
the arrays and names it looks at are fetched at that moment, if they are few (`MOST_FETCHED`), and
refused with their number if they are not. Nothing is pulled unasked.
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

MOST_FETCHED = 20_000_000  # rows or names that are brought here for code that needs them here


class StoredRows(ABC):
    """Distinct rows of codes, in a table."""

    arity: int

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self) -> np.ndarray:
        """int32[num_rows, arity], sorted."""

    def fetch(self, what: str) -> np.ndarray:
        """The rows, where they are few enough to be brought here."""
        if len(self) > MOST_FETCHED:
            raise not_here(f"the {len(self):,} facts of {what!r}")
        return self.read()


class StoredNames(ABC):
    """The constants of a type, in a table: codes 0, 1, … and their names."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self) -> np.ndarray:
        """object[size], the names in the order of their codes."""

    @abstractmethod
    def find(self, name: str) -> int | None:
        """The code of a name."""


class StoredDomain(Domain):
    """The constants of one type, on a store."""

    def __init__(self, name: str, stored: StoredNames) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "stored", stored)

    stored: StoredNames

    def __len__(self) -> int:
        return len(self.stored)

    @cached_property
    def names(self) -> np.ndarray:
        if len(self) > MOST_FETCHED:
            raise not_here(f"the {len(self):,} constants of type {self.name!r}")
        return self.stored.read()

    def bring_here(self) -> None:
        """Fetch the names now: the store may be closed when somebody asks."""
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
    """Asks for one name at a time, which is how constants of formulas are looked up."""

    def __init__(self, stored: StoredNames) -> None:
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


class StoredRelation(Relation):
    """What the data says of one predicate, on a store: facts that are true."""

    def __init__(
        self, predicate: str, types: tuple[str, ...], rows: StoredRows, function: bool = False
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

    rows: StoredRows

    @cached_property
    def true(self) -> np.ndarray:
        return self.rows.fetch(self.predicate)

    @property
    def num_stated(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class ElsewhereDatabase(Database):
    """Relations on a store, whose constants are numbered there when a model says their types."""

    @abstractmethod
    def bind(self, model: Model) -> Database:
        """The database over the model's types, with a relation for each of its predicates."""


def not_here(what: str) -> TooLarge:
    return TooLarge(
        f"this needs {what} here, not on the engine; at most {MOST_FETCHED:,} are fetched",
        code="not-on-engine",
        hint="pseudo-likelihood, counts and their scores are computed where the data is",
    )

"""Databases: constants interned to integers, relations as columns of integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from lapis.errors import Source
from lapis.language.names import read_number
from lapis.runtime.views import REPR_ROWS, View, as_html, as_text, count_noun, draw_html, short_repr

if TYPE_CHECKING:
    import duckdb
    import networkx
    import rdflib

    from lapis.data.formats.facts import Origin
    from lapis.data.formats.graphs import Graph
    from lapis.data.formats.table_files import Frame, RemoteConnection, RemoteFrame


@dataclass(frozen=True, repr=False)
class Domain:
    """The constants of one type; a constant's code is its position."""

    name: str
    constants: tuple[str, ...]

    def __repr__(self) -> str:
        return short_repr("Domain", self.name, [count_noun(len(self), "constant")])

    def __len__(self) -> int:
        return len(self.constants)

    @cached_property
    def index(self) -> Mapping[str, int]:
        return {constant: code for code, constant in enumerate(self.constants)}

    @cached_property
    def names(self) -> np.ndarray:
        """object[size], the constants, to be indexed by arrays of codes."""
        names = np.empty(len(self.constants), object)
        names[:] = self.constants
        return names

    @cached_property
    def numeric(self) -> np.ndarray:
        """float64[size], the value of constants that are numbers, NaN for the others."""
        try:
            if not any("_" in name or not name.isascii() for name in self.constants):
                return np.fromiter(map(float, self.constants), np.float64, len(self.constants))
        except ValueError:
            pass
        return np.fromiter(map(read_number, self.constants), np.float64, len(self.constants))


TRUE, FALSE, UNKNOWN = range(3)
TRUTH_WORDS = ("true", "false", "unknown")


def empty_tuples(arity: int) -> np.ndarray:
    return np.empty((0, arity), np.int32)


@dataclass(frozen=True, repr=False)
class Relation:
    """The facts of one predicate. Rows are unique and sorted lexicographically."""

    predicate: str
    types: tuple[str, ...]
    true: np.ndarray  # int32[num_true, arity]
    false: np.ndarray  # int32[num_false, arity], explicitly negated facts
    unknown: np.ndarray  # int32[num_unknown, arity], facts marked ?
    function: bool = False  # given as Value = f(arguments)

    def __repr__(self) -> str:
        counts = (f"{len(rows):,} {TRUTH_WORDS[truth]}" for truth, rows in self.stated())
        return short_repr("Relation", f"{self.predicate}({', '.join(self.types)})", list(counts))

    @property
    def arity(self) -> int:
        return len(self.types)

    @property
    def num_true(self) -> int:
        return len(self.true)

    @property
    def num_stated(self) -> int:
        """The number of facts, true, false and unknown."""
        return self.num_true + len(self.false) + len(self.unknown)

    def stated(self) -> tuple[tuple[int, np.ndarray], ...]:
        """Return the rows of each truth value: TRUE, FALSE and UNKNOWN."""
        return (TRUE, self.true), (FALSE, self.false), (UNKNOWN, self.unknown)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Relation)
            and (self.predicate, self.types, self.function)
            == (other.predicate, other.types, other.function)
            and np.array_equal(self.true, other.true)
            and np.array_equal(self.false, other.false)
            and np.array_equal(self.unknown, other.unknown)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, repr=False)
class Database:
    """Relations over domains. `types` of a relation name entries of `domains`.

    >>> data = Database.parse("Smokes(Ann) Friends(Ann,Bob) !Friends(Bob,Ann)")
    >>> print(data.describe())
    predicate  types                 true  false  unknown  density
    Smokes     Smokes.0                 1      0        0        1
    Friends    Friends.0, Friends.1     1      1        0     0.25

    Data alone does not determine which arguments share a type. Until it is bound to a model,
    argument i of predicate P has its own domain "P.i".
    """

    domains: Mapping[str, Domain]
    relations: Mapping[str, Relation]
    name: str = field(default="<data>", compare=False)
    declared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # person = {Ann, Bob}
    origins: tuple[Origin, ...] = field(default=(), compare=False, repr=False)
    # int64[len(domain)] for each domain: order in which the data mentions its constants
    first_seen: Mapping[str, np.ndarray] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def read(path: str | Path, *more_paths: str | Path) -> Database:
        """Read facts from `.db` and `.db.gz` files, CSV and Parquet files, or folders of these.

        A table (CSV with a header row, or Parquet) is named after its predicate and has a column
        for each argument; `P.false.csv` and `P.unknown.csv` have negated and unknown facts.

        Parameters
        ----------
        path
            A file or folder.
        more_paths
            Further files and folders of the same world.

        Returns
        -------
        Database
            All facts, as one world.

        Raises
        ------
        LapisError
            If a file is missing or cannot be read, or facts contradict each other.
        """
        from lapis.data.files import read_paths

        return read_paths([Path(path), *map(Path, more_paths)])

    @staticmethod
    def parse(text: str, name: str = "<data>") -> Database:
        """Parse facts from a text in the format of `.db` files.

        Parameters
        ----------
        text
            The facts.
        name
            Name of the data in messages and results.

        Returns
        -------
        Database
            The facts.

        Raises
        ------
        LapisError
            If the text has errors; all are reported together.
        """
        from lapis.data.files import read_fact_text

        return replace(read_fact_text(Source(name, text)), name=name)

    @staticmethod
    def from_frames(frames: Mapping[str, Frame | RemoteFrame]) -> Database:
        """Read facts from pandas, polars or Arrow tables.

        Parameters
        ----------
        frames
            A frame for each predicate. Columns are the arguments in order; their names are
            ignored, and values are converted to text. Keys `P.false` and `P.unknown` give negated
            and unknown facts. Rows of frames of Spark and ibis are fetched.

        Returns
        -------
        Database
            The facts, as one world.

        Raises
        ------
        LapisError
            If a value is not a frame, or facts contradict each other.
        """
        from lapis.data.formats.table_files import from_frames

        return from_frames(frames)

    @staticmethod
    def from_sql(
        queries: Mapping[str, str],
        connection: duckdb.DuckDBPyConnection | RemoteConnection | None = None,
    ) -> Database:
        """Read facts from SQL queries.

        Parameters
        ----------
        queries
            A query for each predicate. It may read everything that DuckDB reads: Parquet globs,
            CSV, attached databases.
        connection
            A DuckDB connection, a Spark session or a backend of ibis that runs the queries; a new
            DuckDB connection if absent.

        Returns
        -------
        Database
            The facts, as one world.

        Raises
        ------
        LapisError
            If a query fails, or facts contradict each other.
        """
        from lapis.data.formats.table_files import from_sql

        return from_sql(queries, connection)

    @staticmethod
    def from_networkx(
        graph: Graph,
        edge: str = "Linked",
        *,
        edge_key: str | None = None,
        node_type: str | None = None,
        node_attributes: Sequence[str] | None = None,
        edge_attributes: Sequence[str] | None = None,
    ) -> Database:
        """Read facts from a graph of networkx.

        Parameters
        ----------
        graph
            The graph. An edge of an undirected graph gives a fact for each direction.
        edge
            Predicate of the edges, `edge(source, target)`.
        edge_key
            Edge attribute that names the predicate of an edge in place of `edge`, as in a knowledge
            graph.
        node_type
            Type of the nodes in the model. Its constants are all nodes, so that nodes without an
            edge or an attribute are kept.
        node_attributes
            Attributes of nodes to read; all if absent. A Boolean attribute is a predicate of the
            node, another value is a second argument: `age(node, value)`.
        edge_attributes
            Attributes of edges to read; all but `edge_key` if absent. They are predicates of source
            and target, with the value last: `weight(source, target, value)`.

        Returns
        -------
        Database
            The facts, as one world. Attributes that are None or NaN give none.

        Raises
        ------
        LapisError
            If a value is not a graph of networkx, an attribute is absent, or an edge lacks its
            `edge_key`.

        Examples
        --------
        >>> import networkx
        >>> graph = networkx.DiGraph([("Anna", "Bob")])
        >>> graph.add_node("Anna", smokes=True, age=31)
        >>> for fact in Database.from_networkx(graph, "Friends").facts():
        ...     print(fact)
        ('smokes', ('Anna',), True)
        ('age', ('Anna', '31'), True)
        ('Friends', ('Anna', 'Bob'), True)
        """
        from lapis.data.formats.graphs import GraphReader, from_networkx

        reader = GraphReader(edge, edge_key, node_type, node_attributes, edge_attributes)
        return from_networkx(graph, reader)

    def to_networkx(self, attributes: Sequence[str] = ()) -> networkx.MultiDiGraph:
        """Convert the true facts to a graph of networkx.

        Parameters
        ----------
        attributes
            Predicates whose last argument is the value of an attribute, as in `age(person, 31)` of
            a node, or `weight(source, target, 3)` of an edge.

        Returns
        -------
        networkx.MultiDiGraph
            A node for each constant. A fact of two arguments is an edge, whose key and attribute
            `predicate` are its predicate; a fact of one argument is an attribute of its node, True.

        Raises
        ------
        LapisError
            If a predicate has another number of arguments, an attribute has two values, or networkx
            is not installed.
        """
        from lapis.data.formats.graphs import to_networkx

        return to_networkx(self, attributes)

    @staticmethod
    def from_rdf(
        source: str | Path | rdflib.Graph,
        *,
        format: str | None = None,
        names: Mapping[str, str] | None = None,
        full_names: bool = False,
    ) -> Database:
        """Read facts from RDF triples, by rdflib.

        A triple (s, p, o) is a fact `p(s, o)`; (s, rdf:type, C) is a fact `C(s)`. A predicate is
        the last part of its IRI, in the letters of a name. A constant is the last part of its IRI,
        or the text of a literal.

        Parameters
        ----------
        source
            A file (Turtle, N-Triples, RDF/XML, JSON-LD, …), or a graph of rdflib.
        format
            Format of the file, as rdflib names it; by its suffix if absent.
        names
            Names of predicates and constants by their IRIs, in place of the last parts.
        full_names
            Whether constants are whole IRIs, which `to_rdf` writes back.

        Returns
        -------
        Database
            The facts, as one world.

        Raises
        ------
        LapisError
            If the file cannot be read, two IRIs have the same name, or rdflib is not installed.
        """
        from lapis.data.formats.rdf import from_rdf

        return from_rdf(source, format, names or {}, full_names)

    def to_rdf(
        self,
        base: str = "http://example.org/",
        *,
        iris: Mapping[str, str] | None = None,
        literals: Sequence[str] = (),
    ) -> rdflib.Graph:
        """Convert the true facts to RDF triples.

        Parameters
        ----------
        base
            IRI that names of predicates and constants are added to. Constants that are IRIs, such
            as http://…, stay as they are.
        iris
            IRIs of predicates and constants, in place of `base` and name.
        literals
            Predicates whose second argument is a literal, not a resource.

        Returns
        -------
        rdflib.Graph
            A triple for each fact of two arguments; for each of one argument a triple of rdf:type.

        Raises
        ------
        LapisError
            If a predicate has another number of arguments, or rdflib is not installed.
        """
        from lapis.data.formats.rdf import to_rdf

        return to_rdf(self, base, iris or {}, literals)

    def to_frames(self, kind: Literal["pandas", "polars", "arrow"] = "pandas") -> dict[str, Frame]:
        """Convert the facts to frames, in the form that `from_frames` takes.

        Parameters
        ----------
        kind
            "pandas", "polars" or "arrow".

        Returns
        -------
        dict[str, Frame]
            A table of constants for each predicate.

        Raises
        ------
        LapisError
            If the kind is unknown or its library is not installed.
        """
        from lapis.data.formats.table_files import to_frames

        return to_frames(self, kind)

    def write(self, path: str | Path, *, format: Literal["csv", "parquet"] | None = None) -> None:
        """Write the facts; reading the file or folder gives them back.

        Parameters
        ----------
        path
            A `.db` or `.db.gz` file, or with a format a folder that does not exist yet. It is
            written atomically.
        format
            "csv" or "parquet" for a folder of tables.

        Raises
        ------
        LapisError
            If the path cannot be written.
        """
        from lapis.data.files import write_database

        write_database(self, Path(path), format)

    def describe(self) -> Description:
        """Return a table of the predicates: types, numbers of facts, density."""
        return Description(self)

    def decode(self, relation: Relation, rows: np.ndarray) -> list[tuple[str, ...]]:
        """Name the constants of rows of a relation.

        Parameters
        ----------
        relation
            The relation.
        rows
            int32[num_rows, arity], numbers of constants.

        Returns
        -------
        list[tuple[str, ...]]
            The constants of each row.
        """
        if not relation.arity:
            return [()] * len(rows)
        columns = self.columns(relation, rows)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def columns(self, relation: Relation, rows: np.ndarray) -> list[np.ndarray]:
        """Name the constants of rows of a relation, argument by argument.

        Parameters
        ----------
        relation
            The relation.
        rows
            int32[num_rows, arity], numbers of constants.

        Returns
        -------
        list[numpy.ndarray]
            object[num_rows] for each argument.
        """
        domains = [self.domains[type_name] for type_name in relation.types]
        return [domain.names[rows[:, i]] for i, domain in enumerate(domains)]

    def facts(self) -> Iterator[tuple[str, tuple[str, ...], bool | None]]:
        """Yield the predicate, constants and truth value (None: unknown) of each fact."""
        for relation in self.relations.values():
            for truth, rows in relation.stated():
                value = None if truth == UNKNOWN else truth == TRUE
                for constants in self.decode(relation, rows):
                    yield relation.predicate, constants, value

    def __repr__(self) -> str:
        rows = self.describe().rows
        lines = [
            f"{row.predicate}{show_types(row)}: {row.true:,} true"
            + (f", {row.false:,} false" if row.false else "")
            + (f", {row.unknown:,} unknown" if row.unknown else "")
            for row in rows[:REPR_ROWS]
        ]
        return short_repr("Database", self.name, self._counts(), lines, len(rows))

    def _repr_html_(self) -> str:
        view = self.describe().view()
        short = replace(view, rows=view.rows[:REPR_ROWS])
        return draw_html([short], [f"{self.name}: {', '.join(self._counts())}"])

    def _counts(self) -> list[str]:
        facts = sum(relation.num_stated for relation in self.relations.values())
        if any(is_column(relation) for relation in self.relations.values()):
            constants = len({name for d in self.domains.values() for name in d.constants})
        else:
            constants = sum(map(len, self.domains.values()))
        return [
            count_noun(len(self.relations), "predicate"),
            count_noun(facts, "fact"),
            count_noun(constants, "constant"),
        ]


def is_column(relation: Relation | DescriptionRow) -> bool:
    """Return whether each argument has its own domain, as before binding to a model."""
    columns = [f"{relation.predicate}.{number}" for number in range(len(relation.types))]
    return bool(columns) and list(relation.types) == columns


def show_types(row: DescriptionRow) -> str:
    return "" if is_column(row) or not row.types else f"({', '.join(row.types)})"


HEADINGS = ("predicate", "types", "true", "false", "unknown", "density")


class DescriptionRow(NamedTuple):
    predicate: str
    types: tuple[str, ...]
    true: int
    false: int
    unknown: int
    density: float | None  # true / Π |domain|, None if there is no ground atom

    def cells(self) -> list[str]:
        density = "-" if self.density is None else f"{self.density:.3g}"
        types = ", ".join(self.types) or "-"
        return [self.predicate, types, *map(str, (self.true, self.false, self.unknown)), density]


@dataclass(frozen=True)
class Description:
    """A table of predicates, printed as text or shown as HTML in a notebook."""

    database: Database

    @property
    def rows(self) -> list[DescriptionRow]:
        return [self._row(relation) for relation in self.database.relations.values()]

    def _row(self, relation: Relation) -> DescriptionRow:
        num_atoms = prod(len(self.database.domains[name]) for name in relation.types)
        return DescriptionRow(
            relation.predicate,
            relation.types,
            relation.num_true,
            len(relation.false),
            len(relation.unknown),
            relation.num_true / num_atoms if num_atoms else None,
        )

    def view(self) -> View:
        """Return the table with all its rows."""
        rows = self.rows
        cells = tuple(tuple(row.cells()) for row in rows)
        return View(HEADINGS, cells, frozenset(HEADINGS[2:]), len(rows))

    def __str__(self) -> str:
        return as_text(self.view())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self.view())

"""From a problem to its ground network in tables of a store.

What `grounding.bottom_up` fetches is left where it is: each query of a clause becomes a table of
rows (weight, piece, n, l0, l1, …), literals spelled by arithmetic on the arguments. The query fixes
a literal's fate, so that rows look no atom up, but for those of clauses with many literals over
predicates that are partly known and of quantifiers over unknown atoms (`resolving`). Equal rows are
not merged and rows with an atom and its negation are not found here; that is done where components
are solved. Only sums of n by weight come back: with them the groundings that evidence decides are
counted as always, all of them less those that survive.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.grounding.assembly import (
    HARD,
    count_all_groundings,
    hard_contradiction,
    predicate_signatures,
    split_ground,
)
from lapis.grounding.templates import GroundingQuery, clause_template, cube_templates, plan_rows
from lapis.logic.clauses import Definition, Feature, Literal
from lapis.problem.problem import Problem, refuse_unsupported
from lapis.relational.plan import QueryPlan
from lapis.runtime.progress import Progress, Report
from lapis.stores.grounding.atoms import (
    MOST_NUMBER,
    KnownTables,
    StoredAtoms,
    columns_of,
    list_unknown,
    look_up,
    number_atoms,
    spell,
)
from lapis.stores.grounding.definitions import StoredDefinitions, piece_of
from lapis.stores.grounding.literals import (
    KeptQuery,
    LiteralWriter,
    QueryRows,
    is_empty,
    refers,
    select_pieces,
    select_undecided,
    write_rows,
)
from lapis.stores.store import Store, StoredTable, fetch_all

AT_MOST_ONE, EXACTLY_ONE = -2, -3


class Listing(NamedTuple):
    """Unknown atoms of a predicate."""

    select: str  # of their arguments c0, c1, …, and `atom`, their number
    rows: int
    numbers: range  # that an atom of the predicate may have


@dataclass(frozen=True)
class GroundTables:
    """A ground network on a store."""

    rows: tuple[StoredTable, ...]  # weight, piece, n, l0 … of `width` literals
    width: int
    unknown: Mapping[str, Listing]  # of each base predicate that has unknown atoms
    constant_count: np.ndarray  # float64[num_weights], what evidence decides
    in_pieces: bool = False  # whether clauses may be in pieces

    def every_row(self) -> str:
        """A SELECT of all rows."""
        names = ", ".join(["weight", "piece", "n", *(f"l{i}" for i in range(self.width))])
        return " UNION ALL ".join(f"SELECT {names} FROM {table}" for table in self.rows)

    @property
    def num_rows(self) -> int:
        return sum(table.rows for table in self.rows)


class Planned(NamedTuple):
    feature: Feature
    kept: KeptQuery


def ground_there(problem: Problem, store: Store, *, progress: Report | None = None) -> GroundTables:
    """The ground network of a problem, in tables.

    Raises LapisError as `grounding.ground` does, where evidence contradicts a block or a hard rule.
    """
    refuse_unsupported(problem.model)
    return StoredGrounding(problem, store).ground(progress)


class StoredGrounding:
    def __init__(self, problem: Problem, store: Store) -> None:
        self.problem = problem
        self.store = store
        types = {name: predicate.types for name, predicate in predicate_signatures(problem).items()}
        self.base = number_atoms(problem, store)
        self.world = KnownTables(store, problem.domains, types, dict(self.base))
        self.writer = LiteralWriter(self.world, {})
        undecided = [each for each in problem.normal_form.definitions if not self._evaluate(each)]
        last = [atoms.first + atoms.total for atoms in self.base.values() if atoms.num_unknown]
        first = max(last, default=0)
        self.definitions = StoredDefinitions(undecided, self.writer, store, first)

    def ground(self, progress: Report | None) -> GroundTables:
        over_constants, others = split_ground(self.problem)
        planned = [
            Planned(feature, kept)
            for feature in others
            for clause in feature.clauses
            for kept in self.writer.plan(clause_template(clause, feature))
        ]
        alone = [clause for feature in over_constants for clause in feature.clauses]
        widths = [len(each.kept.query.literals) for each in planned]
        width = max([1, *widths, *(len(clause.literals) for clause in alone)])
        self.left = np.zeros(len(self.problem.weight_table.value))
        tables: list[StoredTable] = []
        waiting: list[tuple[Feature, QueryRows]] = []
        began = time.monotonic()
        rules = self.problem.model.rules
        for number, (feature, kept) in enumerate(planned):
            if progress is not None:
                seconds = time.monotonic() - began
                text = rules[feature.rule].text
                progress(Progress("grounding", number, len(planned), seconds, text=text))
            rows = self.writer.rows(kept.query)
            if not kept.query.literals:
                self._count(feature, kept.query)
            elif refers(kept.query, self.world) or kept.either:
                source = self.store.create(f"referring {number}", rows)
                if source.rows:
                    waiting.append((feature, QueryRows(kept, str(source))))
            else:
                select = self._select(feature, kept, rows, width)
                tables += self._keep(feature, self.store.create(f"rows {number}", select))
        tables += self._resolve(waiting, width)
        tables += self._ground_constants(over_constants, width)
        tables += self._list_blocks(width)
        unknown = {
            name: Listing(
                list_unknown(atoms, self.store),
                atoms.num_unknown,
                range(atoms.first, atoms.first + atoms.total),
            )
            for name, atoms in self.base.items()
            if atoms.num_unknown
        }
        counts = count_all_groundings(self.problem) - self.left
        return GroundTables(tuple(tables), width, unknown, counts, bool(waiting))

    def _keep(self, feature: Feature, table: StoredTable) -> Iterator[StoredTable]:
        if table.rows:
            yield table
            if not feature.hard:
                self._add(f"SELECT weight, sum(n) AS n FROM {table} GROUP BY weight")

    def _select(self, feature: Feature, kept: KeptQuery, rows: str, width: int) -> str:
        """A query's rows as clauses."""
        written = self.writer.write(kept)
        literals = [*written.literals, *["0"] * (width - len(written.literals))]
        columns = [
            f"CAST({self._weight(feature, kept.query)} AS BIGINT) AS weight",
            "CAST(-1 AS BIGINT) AS piece",
            f"CAST(r.n AS {self.store.dialect.real}) AS n",
            *(f"CAST({text} AS BIGINT) AS l{i}" for i, text in enumerate(literals)),
        ]
        return written.select(columns, f"({rows})")

    def _resolve(
        self, waiting: Sequence[tuple[Feature, QueryRows]], width: int
    ) -> Iterator[StoredTable]:
        """Rows whose literals other tables decide, and the definitions that they use."""
        rows = [each for _, each in waiting]
        self.definitions.resolve(rows)
        in_place = self.definitions.stand_in_place(rows)
        found: list[StoredTable] = []
        pieces = 0
        for number, (feature, each) in enumerate(waiting):
            written, query = self.writer.write(each.kept), each.kept.query
            piece, size = piece_of(query, self.world)
            fits = pieces + size <= MOST_NUMBER
            select = select_undecided(each, written, self.writer, in_place if fits else {})
            columns = [
                f"CAST({self._weight(feature, query)} AS BIGINT) AS weight",
                f"CAST({f'{pieces} + {piece}' if fits else '-1'} AS BIGINT) AS piece",
                f"CAST(r.n AS {self.store.dialect.real}) AS n",
                *(f"r.e{i} AS e{i}, r.a{i} AS a{i}" for i in range(len(written.literals))),
            ]
            pieces += size if fits else 0
            if feature.hard:
                empty = f"SELECT * FROM ({select}) r WHERE {is_empty(written)}"
                self._refuse_rows(feature, query.plan, empty)
            undecided = self.store.create(
                f"undecided {number}", f"SELECT {', '.join(columns)} FROM ({select}) r"
            )
            if not feature.hard:
                self._add(f"SELECT weight, sum(n) AS n FROM {undecided} GROUP BY weight")
            table = self.store.create(
                f"resolved {number}",
                " UNION ALL ".join(select_pieces(written, undecided, self.writer, width)),
            )
            self.store.drop(undecided.name)
            if table.rows:
                found.append(table)
        yield from found
        yield from self.definitions.used_definitions(found, width)

    def _refuse_rows(self, feature: Feature, plan: QueryPlan, rows: str) -> None:
        """Refuse evidence that leaves rows of a hard plan no literal, if there are any."""
        found = fetch_all(self.store, f"{rows} LIMIT 1")
        if not len(found["n"]):
            return
        types = dict(plan.variables)
        values = [
            f"{name} = {self.problem.domains[types[name]].constants[int(found[f'c{i}'][0])]}"
            for i, name in enumerate(plan.keep)
        ]
        where = f" at {', '.join(values)}" if values else ""
        raise hard_contradiction(self.problem.model.rules[feature.rule], where, [])

    def _weight(self, feature: Feature, query: GroundingQuery) -> str:
        if feature.hard:
            return str(HARD)
        types = dict(feature.variables)
        terms = tuple(query.stands_for[name] for name in feature.plus)
        plus = [types[name] for name in feature.plus]
        sizes = [len(self.problem.domains[name]) for name in plus]
        first = self.problem.weight_table.offset[feature.rule]
        return f"{first} + {spell(self.writer.codes(terms, plus, query), sizes)}"

    def _count(self, feature: Feature, query: GroundingQuery) -> None:
        """Groundings that evidence makes false: they count for nothing, or contradict."""
        if feature.hard:
            plan = query.plan
            every = tuple(name for name, _ in plan.variables)
            listed = plan_rows(query.conjunction, plan.variables, every, self.world)
            rows = write_rows(listed, self.world.tables, self.store.dialect)
            self._refuse_rows(feature, listed, f"SELECT * FROM ({rows}) r")
            return
        rows = self.writer.rows(query)
        weight = self._weight(feature, query)
        real = self.store.dialect.real
        self._add(
            f"SELECT weight, sum(n) AS n FROM (SELECT CAST({weight} AS BIGINT) AS weight, "
            f"CAST(r.n AS {real}) AS n FROM ({rows}) r) w GROUP BY weight",
        )

    def _add(self, select: str) -> None:
        """Note groundings that evidence does not make true: weight, n."""
        for batch in self.store.fetch(select):
            np.add.at(self.left, batch["weight"].astype(np.int64), batch["n"].astype(np.float64))

    def _ground_constants(self, features: Sequence[Feature], width: int) -> Iterator[StoredTable]:
        """Clauses over constants: their atoms are looked up, the clauses are loaded."""
        clauses = [(feature, clause) for feature in features for clause in feature.clauses]
        value = self._look_up({literal for _, clause in clauses for literal in clause.literals})
        offset = self.problem.weight_table.offset
        listed: list[list[int]] = []
        for feature, clause in clauses:
            found = [value[literal] for literal in clause.literals]
            if None in found:  # a literal is true by evidence
                continue
            literals = [number for number in found if number]
            weight = HARD if feature.hard else int(offset[feature.rule])
            if not literals and feature.hard:
                raise hard_contradiction(self.problem.model.rules[feature.rule], "", [])
            if not feature.hard:
                self.left[weight] += 1.0
            if literals:
                listed.append([weight, *literals, *[0] * (width - len(literals))])
        if listed:
            table = np.array(listed, np.int64)
            whole = {"weight": table[:, 0], "piece": np.full(len(table), -1, np.int64)}
            columns = whole | {"n": np.ones(len(table))}
            yield self.store.load(
                "rows of constants",
                columns | {f"l{i}": table[:, i + 1].copy() for i in range(width)},
            )

    def _look_up(self, literals: set[Literal]) -> dict[Literal, int | None]:
        """The signed number of an unknown atom + 1, 0 for a false literal, None for a true one."""
        found: dict[Literal, int | None] = {}
        for predicate in {literal.predicate for literal in literals}:
            own = [each for each in literals if each.predicate == predicate]
            atoms = self.base[predicate]
            indexes = [self.problem.domains[t].index for t in atoms.predicate.types]
            codes = {
                literal: tuple(
                    index[term.name] for index, term in zip(indexes, literal.terms, strict=True)
                )
                for literal in own
            }
            rows = sorted(set(codes.values()))
            table = np.array(rows, np.int32).reshape(len(rows), len(indexes))
            true, unknown = look_up(atoms, table, self.store)
            place = {row: at for at, row in enumerate(rows)}
            for literal in own:
                at = place[codes[literal]]
                number = atoms.first + _mixed(codes[literal], atoms.sizes) + 1
                if unknown[at]:
                    found[literal] = number if literal.positive else -number
                else:
                    found[literal] = None if bool(true[at]) == literal.positive else 0
        return found

    def _list_blocks(self, width: int) -> Iterator[StoredTable]:
        """Blocks of unknown atoms, named by their smallest."""
        for place, (name, atoms) in enumerate(self.base.items()):
            predicate = self.problem.model.predicates[name]
            if not predicate.block or not atoms.num_unknown:
                continue
            key = [f"c{i}" for i in range(predicate.arity) if i not in predicate.block]
            over = f"PARTITION BY {', '.join(key)}" if key else ""
            kind = EXACTLY_ONE if predicate.exactly_one else AT_MOST_ONE
            real = self.store.dialect.real
            zeros = "".join(f", CAST(0 AS BIGINT) AS l{i}" for i in range(1, width))
            least = "" if predicate.exactly_one else " WHERE b.size > 1"
            yield self.store.create(
                f"rows of blocks {place}",
                f"SELECT CAST({kind} AS BIGINT) AS weight, b.piece AS piece, "
                f"CAST(1 AS {real}) AS n, b.atom + 1 AS l0{zeros} FROM (SELECT u.atom AS atom, "
                f"min(u.atom) OVER ({over}) AS piece, count(*) OVER ({over}) AS size "
                f"FROM ({list_unknown(atoms, self.store)}) u) b{least}",
            )

    def _evaluate(self, definition: Definition) -> bool:
        """A definition as a relation, if it is over known relations."""
        name = definition.predicate.name
        used = {literal.predicate for cube in definition.cubes for literal in cube.literals}
        atoms = self.world.atoms
        if any(each not in atoms or atoms[each].num_unknown for each in used):
            return False
        sizes = tuple(len(self.problem.domains[type_name]) for _, type_name in definition.variables)
        selects: list[str] = []
        for template in cube_templates(definition, None):
            for query, _ in self.writer.plan(template):
                terms = [query.stands_for[variable] for variable, _ in definition.variables]
                types = [type_name for _, type_name in definition.variables]
                codes = self.writer.codes(terms, types, query)
                columns = [f"CAST({code} AS INTEGER) AS c{i}" for i, code in enumerate(codes)]
                rows = self.writer.rows(query)
                named = ", ".join(columns) or "CAST(1 AS INTEGER) AS n"
                selects.append(f"SELECT {named} FROM ({rows}) r")
        listed = columns_of(len(sizes))
        nothing = ", ".join(f"CAST(0 AS INTEGER) AS {column}" for column in listed)
        union = " UNION ".join(selects) or f"SELECT {nothing} WHERE FALSE"
        label = f"derived {len(self.world.atoms)}"
        true = self.store.create(label, f"SELECT DISTINCT {', '.join(listed)} FROM ({union}) d")
        empty = self.store.create(f"{label} unknown", f"SELECT * FROM {true} WHERE FALSE")
        self.world.atoms[name] = StoredAtoms(
            definition.predicate, sizes, True, true, None, empty, 0
        )
        return True


def _mixed(codes: Sequence[int], sizes: Sequence[int]) -> int:
    number = 0
    for code, size in zip(codes, sizes, strict=True):
        number = number * size + code
    return number

"""From a problem to its ground network in tables of a store.

What `grounding.bottom_up` fetches is left where it is: each query of a clause becomes a table of
rows (weight, piece, n, l0, l1, …), literals spelled by arithmetic on the arguments. Every literal's
fate is fixed by the query, so no row looks an atom up. Equal rows are not merged and rows with an
atom and its negation are not found here; that is done where components are solved. Only sums of n
by weight come back: with them the groundings that evidence decides are counted as always, all of
them less those that survive.

What is not ground there: formulas with a quantifier over unknown atoms, which need auxiliary atoms,
and clauses with many literals over predicates that are partly known (2^MOST_SPLIT queries). They
are ground here, and the network is loaded (`inference.parcels.loaded`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.grounding.assembly import HARD, signatures, total_counts
from lapis.grounding.ground_clauses import contradicted, split_ground
from lapis.grounding.stored.atoms import (
    StoredAtoms,
    columns_of,
    list_unknown,
    look_up,
    number_atoms,
    spell,
)
from lapis.grounding.stored.listing import write_rows
from lapis.grounding.stored.world import KnownTables
from lapis.grounding.templates import (
    PlanLimits,
    Query,
    clause_template,
    cube_template,
    plan_rows,
    plan_template,
)
from lapis.language.syntax import Variable
from lapis.logic.clauses import Definition, Feature, Literal, SimpleTerm
from lapis.problem.problem import Problem, refuse_unsupported
from lapis.progress import Progress, Report
from lapis.relational.engines.memory import refuse_work
from lapis.relational.engines.store import Store, Table, fetch_all

MOST_SPLIT = 10  # literals of one template over predicates that are partly known
AT_MOST_ONE, EXACTLY_ONE = -2, -3
EVERYWHERE = PlanLimits(split_above=-1, most_split=MOST_SPLIT)


class Listing(NamedTuple):
    """Unknown atoms of a predicate."""

    select: str  # of their arguments c0, c1, …, and `atom`, their number
    rows: int
    numbers: range  # that an atom of the predicate may have


@dataclass(frozen=True)
class GroundTables:
    """A ground network on a store."""

    rows: tuple[Table, ...]  # weight, piece, n, l0 … of `width` literals
    width: int
    unknown: Mapping[str, Listing]  # of each base predicate that has unknown atoms
    constant_count: np.ndarray  # float64[num_weights], what evidence decides
    labels: Table | None = None  # (vertex, component), if components are known already

    def every_row(self) -> str:
        """A SELECT of all rows."""
        names = ", ".join(["weight", "piece", "n", *(f"l{i}" for i in range(self.width))])
        return " UNION ALL ".join(f"SELECT {names} FROM {table}" for table in self.rows)

    @property
    def num_rows(self) -> int:
        return sum(table.rows for table in self.rows)


class Planned(NamedTuple):
    feature: Feature
    query: Query


def can_ground_there(problem: Problem) -> bool:
    """Whether no quantifier ranges over atoms that may be unknown, and no clause has too many."""
    undecided = {
        name for name, known in problem.evidence.items() if known.open or len(known.unknown)
    }
    form = problem.normal_form
    cubes = [cube for definition in form.definitions for cube in definition.cubes]
    clauses = [clause for feature in form.features for clause in feature.clauses]

    def count(literals: Sequence[Literal]) -> int:
        return sum(literal.predicate in undecided for literal in literals)

    return not any(count(cube.literals) for cube in cubes) and all(
        count(clause.literals) <= MOST_SPLIT for clause in clauses
    )


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
        types = {name: predicate.types for name, predicate in signatures(problem).items()}
        self.base = number_atoms(problem, store)
        self.world = KnownTables(store, problem.domains, types, dict(self.base))
        for definition in problem.normal_form.definitions:
            self._evaluate(definition)

    def ground(self, progress: Report | None) -> GroundTables:
        over_constants, others = split_ground(self.problem)
        planned = [
            Planned(feature, query)
            for feature in others
            for clause in feature.clauses
            for query in plan_template(
                clause_template(clause, feature.variables, feature.plus), self.world, EVERYWHERE
            )
        ]
        for each in planned:
            refuse_work(each.query.plan.cost)
        alone = [clause for feature in over_constants for clause in feature.clauses]
        widths = [len(each.query.literals) for each in planned]
        width = max([1, *widths, *(len(clause.literals) for clause in alone)])
        left = np.zeros(len(self.problem.weight_table.value))
        tables: list[Table] = []
        began = time.monotonic()
        rules = self.problem.model.rules
        for number, (feature, query) in enumerate(planned):
            if progress is not None:
                seconds = time.monotonic() - began
                text = rules[feature.rule].text
                progress(Progress("grounding", number, len(planned), seconds, text=text))
            if not query.literals:
                self._count(feature, query, left)
                continue
            table = self.store.create(f"rows {number}", self._select(feature, query, width))
            if table.rows:
                tables.append(table)
                if not feature.hard:
                    self._add(left, f"SELECT weight, sum(n) AS n FROM {table} GROUP BY weight")
        tables += self._ground_constants(over_constants, width, left)
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
        counts = total_counts(self.problem) - left
        return GroundTables(tuple(tables), width, unknown, counts)

    def _select(self, feature: Feature, query: Query, width: int) -> str:
        """A query's rows as clauses."""
        rows = write_rows(query.plan, self.world.tables, self.store.dialect)
        real = self.store.dialect.real
        literals = [self._literal(literal, query) for literal in query.literals]
        literals += ["0"] * (width - len(literals))
        columns = [
            f"CAST({self._weight(feature, query)} AS BIGINT) AS weight",
            "CAST(-1 AS BIGINT) AS piece",
            f"CAST(r.n AS {real}) AS n",
            *(f"CAST({text} AS BIGINT) AS l{i}" for i, text in enumerate(literals)),
        ]
        return f"SELECT {', '.join(columns)} FROM ({rows}) r"

    def _literal(self, literal: Literal, query: Query) -> str:
        atoms = self.world.atoms[literal.predicate]
        number = atoms.number(
            self._codes(literal.terms, self.world.types[literal.predicate], query)
        )
        return f"({number} + 1)" if literal.positive else f"(-1 - {number})"

    def _weight(self, feature: Feature, query: Query) -> str:
        if feature.hard:
            return str(HARD)
        types = dict(feature.variables)
        terms = tuple(query.stands_for[name] for name in feature.plus)
        plus = [types[name] for name in feature.plus]
        sizes = [len(self.problem.domains[name]) for name in plus]
        first = self.problem.weight_table.offset[feature.rule]
        return f"{first} + {spell(self._codes(terms, plus, query), sizes)}"

    def _codes(self, terms: Sequence[SimpleTerm], types: Sequence[str], query: Query) -> list[str]:
        """The codes of terms as SQL: a column of the query's rows, or a number."""
        keep = query.plan.keep
        return [
            f"r.c{keep.index(term.name)}"
            if isinstance(term, Variable)
            else str(self.problem.domains[type_name].index[term.name])
            for term, type_name in zip(terms, types, strict=True)
        ]

    def _count(self, feature: Feature, query: Query, left: np.ndarray) -> None:
        """Groundings that evidence makes false: they count for nothing, or contradict."""
        rows = write_rows(query.plan, self.world.tables, self.store.dialect)
        if feature.hard:
            self._refuse_falsified(feature, query)
            return
        weight = self._weight(feature, query)
        real = self.store.dialect.real
        self._add(
            left,
            f"SELECT weight, sum(n) AS n FROM (SELECT CAST({weight} AS BIGINT) AS weight, "
            f"CAST(r.n AS {real}) AS n FROM ({rows}) r) w GROUP BY weight",
        )

    def _add(self, left: np.ndarray, select: str) -> None:
        for batch in self.store.fetch(select):
            np.add.at(left, batch["weight"].astype(np.int64), batch["n"].astype(np.float64))

    def _refuse_falsified(self, feature: Feature, query: Query) -> None:
        plan = query.plan
        every = tuple(name for name, _ in plan.variables)
        listed = plan_rows(query.conjunction, plan.variables, every, self.world)
        rows = write_rows(listed, self.world.tables, self.store.dialect)
        found = fetch_all(self.store, f"SELECT * FROM ({rows}) r LIMIT 1")
        if not len(found["n"]):
            return
        domains = dict(plan.variables)
        values = [
            f"{name} = {self.problem.domains[domains[name]].constants[int(found[f'c{i}'][0])]}"
            for i, name in enumerate(listed.keep)
        ]
        where = f" at {', '.join(values)}" if values else ""
        raise contradicted(self.problem.model.rules[feature.rule], where, [])

    def _ground_constants(
        self, features: Sequence[Feature], width: int, left: np.ndarray
    ) -> Iterator[Table]:
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
                raise contradicted(self.problem.model.rules[feature.rule], "", [])
            if not feature.hard:
                left[weight] += 1.0
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

    def _list_blocks(self, width: int) -> Iterator[Table]:
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

    def _evaluate(self, definition: Definition) -> None:
        """A definition over known relations, as a relation."""
        name = definition.predicate.name
        sizes = tuple(len(self.problem.domains[type_name]) for _, type_name in definition.variables)
        selects: list[str] = []
        for cube in definition.cubes:
            template = cube_template(cube, definition.variables, definition.bound, None)
            for query in plan_template(template, self.world, EVERYWHERE):
                refuse_work(query.plan.cost)
                terms = [query.stands_for[variable] for variable, _ in definition.variables]
                types = [type_name for _, type_name in definition.variables]
                codes = self._codes(terms, types, query)
                columns = [f"CAST({code} AS INTEGER) AS c{i}" for i, code in enumerate(codes)]
                rows = write_rows(query.plan, self.world.tables, self.store.dialect)
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


def _mixed(codes: Sequence[int], sizes: Sequence[int]) -> int:
    number = 0
    for code, size in zip(codes, sizes, strict=True):
        number = number * size + code
    return number

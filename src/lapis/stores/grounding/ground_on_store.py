"""Ground a problem into tables of a store.

Each query of `grounding.templates` becomes a table of rows (weight, piece, n, l0, l1, …). The
number of an atom is arithmetic on the codes of its arguments. A query determines which literals of
a clause the evidence leaves, so its rows need no lookup of atoms. Exceptions are clauses with many
literals over partly known predicates, and quantifiers over unknown atoms (`stored_literals`,
`stored_definitions`). Equal rows are not merged, and rows with an atom and its negation are not
removed: that is done when components are solved (`components.rows`). Only sums of n by weight are
fetched. They give the true groundings that the evidence decides: all groundings less these sums.
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
from lapis.language.model import Scale
from lapis.logic.clauses import Definition, Feature, Literal
from lapis.problem.problem import Problem, refuse_unsupported
from lapis.relational.numbers import require_numbers
from lapis.relational.query_plan import QueryPlan
from lapis.runtime.progress import Progress, Report
from lapis.stores.grounding.stored_atoms import (
    AT_MOST_ONE,
    EXACTLY_ONE,
    MOST_NUMBER,
    KnownTables,
    StoredAtoms,
    argument_columns,
    find_known,
    packed_code,
    select_unknown,
    store_evidence,
)
from lapis.stores.grounding.stored_definitions import StoredDefinitions, row_number
from lapis.stores.grounding.stored_literals import (
    KeptQuery,
    LiteralWriter,
    QueryRows,
    has_derived_literals,
    is_empty_row,
    select_pieces,
    select_undecided,
    write_rows,
)
from lapis.stores.store import ScratchTables, StoredTable, fetch_all
from lapis.stores.store_engine import known_world


class UnknownAtoms(NamedTuple):
    """The unknown atoms of a predicate."""

    select: str  # arguments c0, c1, … and number `atom`
    rows: int
    numbers: range  # of all atoms of the predicate


@dataclass(frozen=True)
class GroundTables:
    """A ground network on a store."""

    rows: tuple[StoredTable, ...]  # weight, piece, n, l0 … of `width` literals
    width: int
    unknown: Mapping[str, UnknownAtoms]  # of each base predicate that has unknown atoms
    constant_count: np.ndarray  # float64[num_weights], true by evidence
    in_pieces: bool = False  # whether clauses may be in pieces

    def every_row(self) -> str:
        """Write a SELECT of all rows."""
        names = ", ".join(["weight", "piece", "n", *(f"l{i}" for i in range(self.width))])
        return " UNION ALL ".join(f"SELECT {names} FROM {table}" for table in self.rows)

    @property
    def num_rows(self) -> int:
        return sum(table.rows for table in self.rows)


def ground_on_store(
    problem: Problem, scratch: ScratchTables, *, progress: Report | None = None
) -> GroundTables:
    """Ground a problem into tables.

    Raises LapisError, as `grounding.ground` does, if evidence contradicts a block or a hard rule.
    """
    refuse_unsupported(problem.model)
    return StoredGrounding(problem, scratch).ground(progress)


SCALED: Mapping[Scale, str] = {"": "{0}", "log": "ln({0})", "logit": "(ln({0}) - ln(1 - {0}))"}


class StoredGrounding:
    """The state of grounding one problem on a store."""

    def __init__(self, problem: Problem, scratch: ScratchTables) -> None:
        self.problem = problem
        self.scratch, self.store = scratch, scratch.store
        self.not_true_count = np.zeros(len(problem.weight_table.value))  # by evidence
        self.numbers = known_world(problem, self.store)
        require_numbers(problem, self.numbers)
        types = {name: predicate.types for name, predicate in predicate_signatures(problem).items()}
        self.base = store_evidence(problem, scratch)
        self.world = KnownTables(scratch, problem.domains, types, dict(self.base))
        self.writer = LiteralWriter(self.world, {})
        undecided = [each for each in problem.normal_form.definitions if not self._evaluate(each)]
        last = [atoms.first + atoms.total for atoms in self.base.values() if atoms.num_unknown]
        self.definitions = StoredDefinitions(undecided, self.writer, max(last, default=0))

    def ground(self, progress: Report | None) -> GroundTables:
        """Ground all rules."""
        over_constants, others = split_ground(self.problem)
        planned = [
            (feature, kept)
            for feature in others
            for clause in feature.clauses
            for kept in self.writer.plan(clause_template(clause, feature))
        ]
        constant_clauses = [clause for feature in over_constants for clause in feature.clauses]
        widths = [len(kept.query.literals) for _, kept in planned]
        width = max([1, *widths, *(len(clause.literals) for clause in constant_clauses)])
        tables: list[StoredTable] = []
        referring: list[tuple[Feature, QueryRows]] = []
        began = time.monotonic()
        for number, (feature, kept) in enumerate(planned):
            if progress is not None:
                seconds = time.monotonic() - began
                text = self.problem.model.rules[feature.rule].text
                progress(Progress("grounding", number, len(planned), seconds, text=text))
            if not kept.query.literals:
                self._count_false(feature, kept.query)
            elif has_derived_literals(kept.query, self.world) or kept.either:
                source = self.scratch.create(self.writer.rows(kept.query))
                if source.rows:
                    referring.append((feature, QueryRows(kept, str(source))))
            else:
                tables += self._ground_query(feature, kept, width)
        tables += self._resolve(referring, width)
        tables += self._ground_constants(over_constants, width)
        tables += self._ground_blocks(width)
        unknown = {
            name: UnknownAtoms(
                select_unknown(atoms, self.store),
                atoms.num_unknown,
                range(atoms.first, atoms.first + atoms.total),
            )
            for name, atoms in self.base.items()
            if atoms.num_unknown
        }
        counts = count_all_groundings(self.problem, self.numbers) - self.not_true_count
        return GroundTables(tuple(tables), width, unknown, counts, bool(referring))

    def _ground_query(self, feature: Feature, kept: KeptQuery, width: int) -> Iterator[StoredTable]:
        """Create a table of a query's rows as clauses, if there are any."""
        written = self.writer.write(kept)
        literals = [*written.literals, *["0"] * (width - len(written.literals))]
        columns = [
            f"CAST({self._weight(feature, kept.query)} AS BIGINT) AS weight",
            "CAST(-1 AS BIGINT) AS piece",
            f"{self._multiplicity(feature, kept.query)} AS n",
            *(f"CAST({text} AS BIGINT) AS l{i}" for i, text in enumerate(literals)),
        ]
        table = self.scratch.create(written.select(columns, f"({self.writer.rows(kept.query)})"))
        if table.rows:
            yield table
            if not feature.hard:
                self._add_not_true(f"SELECT weight, sum(n) AS n FROM {table} GROUP BY weight")

    def _resolve(
        self, referring: Sequence[tuple[Feature, QueryRows]], width: int
    ) -> Iterator[StoredTable]:
        """Ground rows whose literals other tables decide, and the definitions that they use."""
        rows = [each for _, each in referring]
        self.definitions.resolve(rows)
        in_place = self.definitions.find_in_place(rows)
        found: list[StoredTable] = []
        pieces = 0
        for feature, each in referring:
            written, query = self.writer.write(each.kept), each.kept.query
            piece, size = row_number(query, self.world)
            fits = pieces + size <= MOST_NUMBER
            select = select_undecided(each, written, self.writer, in_place if fits else {})
            columns = [
                f"CAST({self._weight(feature, query)} AS BIGINT) AS weight",
                f"CAST({f'{pieces} + {piece}' if fits else '-1'} AS BIGINT) AS piece",
                f"{self._multiplicity(feature, query)} AS n",
                *(f"r.e{i} AS e{i}, r.a{i} AS a{i}" for i in range(len(written.literals))),
            ]
            pieces += size if fits else 0
            if feature.hard:
                empty = f"SELECT * FROM ({select}) r WHERE {is_empty_row(written)}"
                self._refuse_rows(feature, query.plan, empty)
            undecided = self.scratch.create(f"SELECT {', '.join(columns)} FROM ({select}) r")
            if not feature.hard:
                self._add_not_true(f"SELECT weight, sum(n) AS n FROM {undecided} GROUP BY weight")
            table = self.scratch.create(
                " UNION ALL ".join(select_pieces(written, undecided, self.writer, width))
            )
            self.scratch.drop(undecided)
            if table.rows:
                found.append(table)
        yield from found
        yield from self.definitions.ground_used(found, width)

    def _refuse_rows(self, feature: Feature, plan: QueryPlan, rows: str) -> None:
        """Raise LapisError if there is a row: evidence falsifies all literals of a hard rule."""
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
        """Write the weight id of a query's rows."""
        if feature.hard:
            return str(HARD)
        types = dict(feature.variables)
        terms = tuple(query.stands_for[name] for name in feature.plus)
        plus = [types[name] for name in feature.plus]
        sizes = [len(self.problem.domains[name]) for name in plus]
        first = self.problem.weight_table.offset[feature.rule]
        return f"{first} + {packed_code(self.writer.codes(terms, plus, query), sizes)}"

    def _multiplicity(self, feature: Feature, query: GroundingQuery) -> str:
        """Write the number of groundings of a row, times the numbers of the feature."""
        types = dict(feature.variables)
        text = f"CAST(r.n AS {self.store.dialect.real})"
        for name, _, scale in feature.numbers:
            [code] = self.writer.codes((query.stands_for[name],), (types[name],), query)
            table = self.world.tables.domain_table(types[name])
            value = f"(SELECT max(d.value) FROM {table} d WHERE d.code = {code})"
            text += f" * {SCALED[scale].format(value)}"
        return text

    def _count_false(self, feature: Feature, query: GroundingQuery) -> None:
        """Count the groundings that evidence makes false; raise LapisError if the rule is hard."""
        if feature.hard:
            plan = query.plan
            every = tuple(name for name, _ in plan.variables)
            listed = plan_rows(query.conjunction, plan.variables, every, self.world)
            rows = write_rows(listed, self.world.tables, self.store.dialect)
            self._refuse_rows(feature, listed, f"SELECT * FROM ({rows}) r")
            return
        rows = self.writer.rows(query)
        weight = self._weight(feature, query)
        self._add_not_true(
            f"SELECT weight, sum(n) AS n FROM (SELECT CAST({weight} AS BIGINT) AS weight, "
            f"{self._multiplicity(feature, query)} AS n FROM ({rows}) r) w GROUP BY weight",
        )

    def _add_not_true(self, select: str) -> None:
        """Add rows (weight, n): groundings that evidence does not make true."""
        for batch in self.store.fetch(select):
            np.add.at(
                self.not_true_count, batch["weight"].astype(np.int64), batch["n"].astype(np.float64)
            )

    def _ground_constants(self, features: Sequence[Feature], width: int) -> Iterator[StoredTable]:
        """Ground clauses without variables in memory and load them."""
        clauses = [(feature, clause) for feature in features for clause in feature.clauses]
        value = self._find_literals(
            {literal for _, clause in clauses for literal in clause.literals}
        )
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
                self.not_true_count[weight] += 1.0
            if literals:
                listed.append([weight, *literals, *[0] * (width - len(literals))])
        if listed:
            table = np.array(listed, np.int64)
            whole = {"weight": table[:, 0], "piece": np.full(len(table), -1, np.int64)}
            columns = whole | {"n": np.ones(len(table))}
            yield self.scratch.load(
                columns | {f"l{i}": table[:, i + 1].copy() for i in range(width)}
            )

    def _find_literals(self, literals: set[Literal]) -> dict[Literal, int | None]:
        """Map literals to ±(atom + 1) if the atom is unknown, 0 if false, None if true."""
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
            true, unknown = find_known(atoms, table, self.scratch)
            place = {row: at for at, row in enumerate(rows)}
            for literal in own:
                at = place[codes[literal]]
                packed = np.ravel_multi_index(codes[literal], atoms.sizes) if atoms.sizes else 0
                number = atoms.first + int(packed) + 1
                if unknown[at]:
                    found[literal] = number if literal.positive else -number
                else:
                    found[literal] = None if bool(true[at]) == literal.positive else 0
        return found

    def _ground_blocks(self, width: int) -> Iterator[StoredTable]:
        """Create rows of the blocks' unknown atoms. A block's piece is its smallest atom."""
        for name, atoms in self.base.items():
            predicate = self.problem.model.predicates[name]
            if not predicate.block or not atoms.num_unknown:
                continue
            key = [f"c{i}" for i in range(predicate.arity) if i not in predicate.block]
            over = f"PARTITION BY {', '.join(key)}" if key else ""
            kind = EXACTLY_ONE if predicate.exactly_one else AT_MOST_ONE
            real = self.store.dialect.real
            zeros = "".join(f", CAST(0 AS BIGINT) AS l{i}" for i in range(1, width))
            least = "" if predicate.exactly_one else " WHERE b.size > 1"
            yield self.scratch.create(
                f"SELECT CAST({kind} AS BIGINT) AS weight, b.piece AS piece, "
                f"CAST(1 AS {real}) AS n, b.atom + 1 AS l0{zeros} FROM (SELECT u.atom AS atom, "
                f"min(u.atom) OVER ({over}) AS piece, count(*) OVER ({over}) AS size "
                f"FROM ({select_unknown(atoms, self.store)}) u) b{least}"
            )

    def _evaluate(self, definition: Definition) -> bool:
        """Create the relation of a definition; return False if some atom of it is unknown."""
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
        listed = argument_columns(len(sizes))
        nothing = ", ".join(f"CAST(0 AS INTEGER) AS {column}" for column in listed)
        union = " UNION ".join(selects) or f"SELECT {nothing} WHERE FALSE"
        true = self.scratch.create(f"SELECT DISTINCT {', '.join(listed)} FROM ({union}) d")
        empty = self.scratch.create(f"SELECT * FROM {true} WHERE FALSE")
        self.world.atoms[name] = StoredAtoms(
            definition.predicate, sizes, True, true, None, empty, 0
        )
        return True

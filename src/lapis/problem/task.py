"""Build a task from a model, worlds and a query.

    open_inputs     reads model and data, drops undeclared predicates with a warning, raises for
                    models without probabilities, makes names of worlds unique, and warns about
                    numbers that are written in two ways
    build_task      adds queries and soft evidence, gathers rules of the same form, opens
    predicates,
                    and builds a problem for each world

Learning and scoring build their own problems from `Inputs`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lapis.data.binding import bind, keep_known, merge
from lapis.data.database import Database
from lapis.data.formats.table_files import is_probability
from lapis.errors import LapisError, Warning, issue_warnings
from lapis.language.instances import Gathered, gather_instances
from lapis.language.model import Model
from lapis.language.names import format_constant
from lapis.language.resolve import read_model
from lapis.language.syntax import atoms
from lapis.logic.normalize import normalize
from lapis.problem.problem import (
    LazyEvidence,
    Problem,
    problem_on,
    refuse_factors,
    refuse_network,
    refuse_unsupported,
)
from lapis.problem.query import (
    Query,
    has_constants,
    opened_by_formulas,
    read_queries,
    resolve_queries,
    warn_closed_queries,
    warn_many_open,
    with_queries,
)
from lapis.problem.soft_evidence import (
    Belief,
    declare_probabilities,
    probability_rules,
    read_probabilities,
    resolve_beliefs,
    row_of,
    unknown_rows,
    with_beliefs,
)
from lapis.problem.state_names import observe_states, refuse_new_states
from lapis.problem.stated_probabilities import (
    Constraint,
    StatedRule,
    find_constraints,
    stated_beliefs,
    stated_rules,
    with_stated,
    without_evidence,
)
from lapis.registry.options import SoftAs
from lapis.runtime.processes import pause_collector

ModelLike = Model | str | Path
WorldLike = Database | str | Path
DataLike = WorldLike | Sequence[WorldLike] | None

MAX_WARNINGS = 5  # of a model, before an answer


@dataclass(frozen=True)
class Inputs:
    """A model and its worlds."""

    model: Model  # as the user wrote it
    databases: tuple[Database, ...]  # without undeclared predicates, with unique names
    warnings: tuple[Warning, ...]


class World(NamedTuple):
    """One world of a task."""

    name: str
    problem: Problem
    queries: tuple[Query, ...]  # those whose constants it has; all predicates if none are given
    weight_ids: np.ndarray  # int64[num_weights_written], in the problem's weight table
    constraints: tuple[Constraint, ...] = ()  # weights that inference fits
    prior: Problem | None = None  # without evidence, if constraints hold there


@dataclass(frozen=True)
class Task:
    """A model, its queries, and a problem for each world."""

    model: Model  # as the user wrote it
    queries: tuple[Query, ...]
    worlds: tuple[World, ...]
    warnings: tuple[Warning, ...]
    notes: tuple[str, ...] = ()  # what silent data implies, for the answer


def open_inputs(
    model: ModelLike,
    data: DataLike = None,
    *,
    strict: bool = False,
    probabilities: bool = True,
    fits: bool = False,
    tables: bool = False,
    constraints: bool = False,
    quiet: bool = False,
    soft: bool = False,
) -> Inputs:
    """Read model and data. `probabilities` raises for a model that defines none.

    Unless `constraints`, cardinality constraints are refused; unless `fits`, a model that states
    probabilities of formulas; unless `tables`, a network; unless `soft`, tables of probabilities of
    atoms. Each database is a world; equal names
    get numbers. Warnings are issued unless `quiet`.
    """
    if not isinstance(model, Model | str | Path):
        raise LapisError(
            f"a model must be a Model or a path, not a {type(model).__name__}",
            code="no-model",
            hint="the model of a Fit is fit.model",
        )
    resolved = model if isinstance(model, Model) else read_model(model)
    if probabilities:
        (refuse_factors if constraints else refuse_unsupported)(resolved)
    if not fits:
        refuse_stated(resolved)
    if not tables:
        refuse_network(resolved)
    worlds = [Database({}, {})] if data is None else list_worlds(data)
    if not worlds:
        raise LapisError(
            "the list of databases is empty", code="no-data", hint="leave it out to use no data"
        )
    read = [read_world(world) for world in worlds]
    if soft:
        resolved = declare_probabilities(resolved, read)
    else:
        refuse_soft(read)
    known, warnings = keep_known(read, resolved, strict=strict)
    warnings += warn_same_numbers(resolved, known)
    if not quiet:
        # The caller had access to the warnings of a Model, but not to those of a file.
        issue_warnings([*([] if isinstance(model, Model) else first_warnings(resolved)), *warnings])
    return Inputs(resolved, tuple(make_names_unique(known)), tuple(warnings))


def refuse_soft(databases: Sequence[Database]) -> None:
    """Raise if the data have tables of probabilities of atoms."""
    for name in (name for database in databases for name in database.relations):
        if is_probability(name):
            raise LapisError(
                f"soft evidence, the table {name}, is used by infer, map and plan only",
                code="soft-evidence",
                hint="give the probabilities as a function of numbers, float p(…), to learn from "
                "them",
            )


def refuse_stated(model: Model) -> None:
    """Raise if the model states probabilities of formulas."""
    for constraint in model.probability_constraints:
        raise LapisError(
            "stated probabilities of formulas, as in P(F) = 0.4, are fitted by infer and map only",
            code="stated-probability",
            span=constraint.span,
            hint="give the formula a weight instead; infer reports the weight that it fits",
        )


def bind_known(database: Database, model: Model, evidence: Sequence[str]) -> Database:
    """Bind data to the model, with the facts of the evidence of a model without variables."""
    if evidence and not model.has_variables:
        facts = Database.parse("\n".join(evidence), "<evidence>")
        [facts], _ = keep_known([facts], model, strict=True)
        database = replace(merge([database, facts]), name=database.name)
    return bind(database, model)


def observe(bound: Database, model: Model, evidence: Sequence[str]) -> Database:
    """Return the data with observed states of variables; raise for unknown states."""
    if not model.has_variables:
        return bound
    refuse_new_states(model, bound)
    return observe_states(model, bound, evidence)


def first_warnings(model: Model) -> list[Warning]:
    """Return the first warnings of a model, and the number of the others."""
    more = len(model.warnings) - MAX_WARNINGS
    rest = [Warning(f"and {more:,} more (lapis check {model.name} lists them)", "more")]
    return [*model.warnings[:MAX_WARNINGS], *(rest if more > 0 else [])]


def list_worlds(data: DataLike) -> Sequence[WorldLike]:
    if isinstance(data, Sequence) and not isinstance(data, str):
        return data
    return [] if data is None else [data]


def read_world(world: WorldLike) -> Database:
    if isinstance(world, str | Path):
        return Database.read(world)
    if not isinstance(world, Database):
        raise LapisError(
            f"data must be a Database, a path, or a list of these, not a {type(world).__name__}",
            code="no-data",
            hint='convert frames by Database.from_frames({"P": frame})',
        )
    return world


def make_names_unique(databases: Sequence[Database]) -> list[Database]:
    taken: set[str] = set()
    named: list[Database] = []
    for database in databases:
        numbered = (f"{database.name} ({i})" for i in itertools.count(2))
        name = next(n for n in itertools.chain([database.name], numbered) if n not in taken)
        taken.add(name)
        named.append(database if name == database.name else replace(database, name=name))
    return named


@pause_collector
def build_task(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    open_predicates: Sequence[str] = (),
    only_listed: bool = False,
    soft_evidence: Mapping[str, float] | None = None,
    soft_as: SoftAs = "virtual",
    evidence: Sequence[str] = (),
    strict: bool = False,
    gather: bool = True,
    fits: bool = False,
    constraints: bool = False,
) -> Task:
    """Build the problem of each world, with its queries; see `open_inputs`.

    `fits` promises that stated probabilities are fitted; a model with some is refused otherwise.
    With `only_listed` a query opens no predicate: its atoms that are marked unknown are asked.

    >>> import lapis
    >>> model = lapis.parse("Smokes(person)\\nperson = {Anna, Bob}\\n1 Smokes(x)")
    >>> task = build_task(model, query=["Smokes(Anna)", "Smokes(x) v Smokes(Bob)"])
    >>> [query.predicate for query in task.queries], task.worlds[0].weight_ids
    (['Smokes', '_query_2'], array([0]))
    """
    inputs = open_inputs(
        model, data, strict=strict, fits=fits, tables=True, constraints=constraints, soft=True
    )
    bound = [
        observe(bind_known(database, inputs.model, evidence), inputs.model, evidence)
        for database in inputs.databases
    ]
    softened = [read_probabilities(database, inputs.model) for database in bound]
    bound = [each.database for each in softened]
    if soft_as != "virtual" and probability_rules(inputs.model):
        raise LapisError(
            "a table of probabilities is virtual evidence: their weights are not fitted",
            code="soft-evidence",
            hint='give few probabilities by soft_evidence, or leave out soft_as="posterior"',
        )
    domains = [database.domains for database in bound]
    queries = resolve_queries(inputs.model, domains, read_queries(inputs.model, query))
    if not only_listed:
        open_predicates = [*open_predicates, *opened_by_formulas(inputs.model, queries)]
    warnings = warn_queries(inputs.model, bound, queries, open_predicates, only_listed)
    issue_warnings(warnings)
    unknown = {*open_predicates, *(query.predicate for query in queries)}
    beliefs = resolve_beliefs(inputs.model, bound, soft_evidence or {}, unknown)
    gathered = Gathered(inputs.model, tuple((n, None) for n in range(len(inputs.model.rules))))
    if gather:
        gathered = gather_instances(
            inputs.model, type_sizes(inputs.model, bound), over_constants=False
        )
    worlds = build_worlds(
        inputs.model,
        gathered,
        bound,
        queries,
        beliefs,
        open_predicates,
        only_listed=only_listed,
        as_virtual=soft_as == "virtual",
        stated=stated_rules(inputs.model),
        soft=[each.unknown for each in softened],
    )
    require_unknown(queries, worlds, only_listed)
    notes = tuple(describe_silence(inputs, [world.problem for world in worlds]))
    return Task(inputs.model, queries, worlds, (*inputs.warnings, *warnings), notes)


def require_unknown(queries: Sequence[Query], worlds: Sequence[World], only_listed: bool) -> None:
    """Raise if there is nothing to infer."""
    if any(has_unknown(world.problem) for world in worlds):
        return
    if only_listed:
        raise LapisError(
            "only_listed leaves nothing to infer: no atom is marked unknown in the data",
            code="no-query",
            hint='list the candidates, as in ?Dup(a, b), or in a frame with the key "Dup.unknown"',
        )
    if not queries:
        raise LapisError(
            "there is no query, and every atom is known",
            code="no-query",
            hint="name the predicates to predict (-q P,Q), or mark facts unknown (?fact)",
        )


def warn_queries(
    model: Model,
    bound: Sequence[Database],
    queries: Sequence[Query],
    open_predicates: Sequence[str],
    only_listed: bool,
) -> list[Warning]:
    """Return warnings of queries of evidence predicates, and of very many open atoms."""
    warnings = warn_closed_queries(model, [query.predicate for query in queries])
    if only_listed:
        return warnings
    opened = [query.predicate for query in queries if query.constants is None]
    worlds = [(each, each.domains) for each in bound]
    remedy = "asks those alone that are marked unknown (?)"
    return warnings + warn_many_open(model, worlds, [*opened, *open_predicates], remedy)


def describe_silence(inputs: Inputs, problems: Sequence[Problem]) -> Iterator[str]:
    """Yield a note on predicates that are false because no data mentions them, one on empty types.

    A predicate that the data mentions without a fact, such as an empty table, is not noted.
    """
    model = inputs.model
    used = {atom.predicate for rule in model.rules for atom in atoms(rule.formula)}
    used |= {number.function for rule in model.rules for number in rule.numbers}
    stated = {name for database in inputs.databases for name in database.relations}
    silent = [
        name
        for name in model.predicates
        if name in used - stated and not any(may_be_true(problem, name) for problem in problems)
    ]
    silent = [name for name in silent if not model.predicates[name].is_number]
    if len(silent) == 1:
        yield f"{silent[0]} has no fact in the data: every {silent[0]} atom is taken as false"
    elif silent:
        yield f"{', '.join(silent)} have no fact in the data: all their atoms are taken as false"
    empty = [name for name in model.types if not any(len(p.domains[name]) for p in problems)]
    if empty:
        names = " and ".join(map(repr, empty))
        what = f"type {names} has" if len(empty) == 1 else f"types {names} have"
        yield f"{what} no constants: formulas over {names} have no groundings"


def may_be_true(problem: Problem, name: str) -> bool:
    """Return whether an atom of the predicate is true or unknown."""
    evidence = problem.evidence[name]
    return evidence.open or len(evidence.true) + len(evidence.unknown) > 0


def type_sizes(model: Model, worlds: Sequence[Database]) -> dict[str, int]:
    """Return a lower bound of the number of constants of each type in the data."""
    sizes: dict[str, int] = {}
    for world in worlds:
        for name, relation in world.relations.items():
            predicate = model.predicates.get(name)
            if predicate is not None and predicate.arity == relation.arity:
                for type_name, own in zip(predicate.types, relation.types, strict=True):
                    size = len(world.domains[own])
                    sizes[type_name] = max(size, sizes.get(type_name, 0))
    return sizes


def build_worlds(
    model: Model,
    gathered: Gathered,
    bound: Sequence[Database],
    queries: Sequence[Query],
    beliefs: Sequence[Belief],
    open_predicates: Sequence[str],
    *,
    only_listed: bool,
    as_virtual: bool,
    stated: Sequence[StatedRule],
    soft: Sequence[Mapping[str, np.ndarray]],
) -> tuple[World, ...]:
    """Build the problem of each database.

    Its rules are those of the model, of queries, of constraints without evidence, of virtual
    evidence, and of constraints given the evidence.
    """
    prior_stated = [each for each in stated if not each.posterior]
    worlds: list[World] = []
    extended = normal_form = last = None
    for database, uncertain in zip(bound, soft, strict=True):
        asked = tuple(query for query in queries if has_constants(query, model, database.domains))
        believed = tuple(belief for belief in beliefs if row_of(belief, database) is not None)
        if (asked, believed) != last:
            last = asked, believed
            extended = with_stated(with_queries(gathered.model, asked), prior_stated)
            num_prior = len(extended.rules)
            extended = with_beliefs(extended, believed if as_virtual else ())
            extended = extended.with_rules(extended.rules + probability_rules(model))
            fitted = [each for each in stated if each.posterior]
            fitted += [] if as_virtual else stated_beliefs(believed)
            extended = with_stated(extended, fitted)
            normal_form = normalize(extended)
        assert extended is not None
        names = list(dict.fromkeys(q.predicate for q in queries if q.rule is None or q in asked))
        formulas = [query.predicate for query in asked if query.rule is not None]
        problem = problem_on(
            extended,
            database,
            formulas if only_listed else names,
            open_predicates=open_predicates,
            unknown=join_rows(unknown_rows(believed, database), uncertain),
            normal_form=normal_form,
        )
        ids = written_weights(gathered, problem)
        problem = replace(problem, query=tuple(names))
        everything = tuple(Query(name) for name in model.uncertain_predicates)
        constraints = find_constraints(problem, num_prior - len(prior_stated), prior_stated)
        prior = without_evidence(problem, num_prior) if constraints else None
        constraints += find_constraints(problem, len(extended.rules) - len(fitted), fitted)
        worlds.append(
            World(database.name, problem, asked if queries else everything, ids, constraints, prior)
        )
    return tuple(worlds)


def join_rows(
    one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the rows of both, by predicate."""
    found = dict(one)
    for name, rows in other.items():
        found[name] = np.concatenate([found[name], rows]) if name in found else rows
    return found


def written_weights(gathered: Gathered, problem: Problem) -> np.ndarray:
    """Return int64[num_weights_written], the ids of the user's weights, rule by rule."""
    offset = problem.weight_table.offset.tolist()
    found: list[np.ndarray | list[int]] = []
    for place, constants in gathered.places:
        if constants is None:
            found.append(np.arange(offset[place], offset[place + 1]))
            continue
        whole = gathered.model.rules[place]
        types = dict(whole.variables)
        number = 0
        for name, constant in zip(whole.plus, constants, strict=True):
            domain = problem.domains[types[name]]
            number = number * len(domain) + domain.index[constant]
        found.append([offset[place] + number])
    return np.concatenate([np.empty(0, np.int64), *found])


def has_lazy_facts(task: Task) -> bool:
    """Return whether facts of the task are read on first use."""
    problems = [world.problem for world in task.worlds]
    return any(isinstance(e, LazyEvidence) for p in problems for e in p.evidence.values())


def has_unknown(problem: Problem) -> bool:
    return any(e.open or len(e.unknown) for e in problem.evidence.values())


# Numbers that have another spelling: 01, 1.0, +1, 1e3. One search reads all names of a type, one
# per line. Parts of a name with line breaks may match; they are dropped because they are no names.
ODD_NUMBER = re.compile(r"^(?:[+-]?(?:0\d+|\d*\.\d*|\d+(?:\.\d*)?[eE][+-]?\d+)|\+\d+|-0)$", re.M)


def warn_same_numbers(model: Model, databases: Sequence[Database]) -> list[Warning]:
    """Return a warning for each type in which a number is two constants.

    >>> from lapis.language import parse_model
    >>> model = parse_model("n = {1, 2}\\nP(n)")
    >>> print(warn_same_numbers(model, [Database.parse("P(1.0) P(02) P(3)")])[0].message)
    1.0 and 1 of type 'n' are one number, but two constants (2 numbers are written in two ways)
    """
    found: list[Warning] = []
    numbers = {p.types[-1] for p in model.predicates.values() if p.is_number}
    for type_name, named in model.types.items():
        if type_name in numbers:
            continue  # they are written in one way when they are bound
        pairs = [
            pair
            for data in databases
            for pair in _equal_numbers(_type_names(model, data, type_name), named)
        ]
        if pairs:
            one, other = map(format_constant, pairs[0])
            more = f" ({len(pairs)} numbers are written in two ways)" if len(pairs) > 1 else ""
            found.append(
                Warning(
                    f"{one} and {other} of type {type_name!r} are one number, but two "
                    f"constants{more}",
                    "same-number",
                    hint="constants are compared as texts: write a number in one way",
                )
            )
    return found


def _type_names(model: Model, database: Database, type_name: str) -> Iterable[Sequence[str]]:
    """Yield the constants of a type in a database, column by column."""
    yield database.declared.get(type_name, ())
    for name, relation in database.relations.items():
        predicate = model.predicates[name]
        for own, column in zip(predicate.types, relation.types, strict=False):
            if own == type_name:
                yield database.domains[column].constants


def _equal_numbers(columns: Iterable[Sequence[str]], named: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of different constants that are the same number."""
    columns = [named, *columns]
    odd = dict.fromkeys(n for names in columns for n in ODD_NUMBER.findall("\n".join(names)))
    if not odd:
        return []
    known = {name for names in columns for name in names}
    seen: dict[float, str] = {}
    pairs: list[tuple[str, str]] = []
    for name in odd:
        try:
            value = float(name)
        except ValueError:
            continue
        plain = str(int(value)) if value.is_integer() else repr(value)
        other = seen.setdefault(value, plain if plain in known else name)
        if name in known and other != name:
            pairs.append((name, other))
    return pairs

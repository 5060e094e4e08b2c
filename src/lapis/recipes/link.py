"""Link prediction: completes relations from the facts of all relations.

    triples → rules (`lapis.learn_structure`) → log-odds of each candidate → probabilities, ranks

Rules are learned by the pseudo-likelihood: they predict a fact from all others. The log-odds of a
candidate r(h, t) are Σ_i w_i · (n_i with the fact − n_i without it), the other facts as they are
in the data. Missing facts are false there, so that the log-odds are too low: they are calibrated by
facts that learning did not have, by a common slope and an offset for each relation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from lapis.data.database import TRUE, Database
from lapis.data.formats.build_database import encode_facts
from lapis.data.formats.graphs import as_constant
from lapis.errors import LapisError, suggestion
from lapis.language.model import Model
from lapis.language.resolve import parse_model
from lapis.recipes.completion import LinkCalibration, LinkPrediction, Triple, fit_calibration
from lapis.recipes.item_tables import as_name
from lapis.recipes.table_columns import (
    TableLike,
    pair_columns,
    read_columns,
    refuse_gaps,
    require_column,
)
from lapis.registry.method_table import check_options, front_door, seed_of
from lapis.registry.options import LinkOptions
from lapis.runtime.progress import Progress, Report, report_progress
from lapis.runtime.progress_bars import ProgressOption, as_report

FactTables: TypeAlias = TableLike | Database | Mapping[str, TableLike]
COLUMNS = ("head", "relation", "tail")
MIN_CALIBRATING = 20  # facts that calibration needs


@front_door
def link(
    facts: FactTables,
    relations: Sequence[str] = (),
    *,
    valid: FactTables | None = None,
    test: FactTables | None = None,
    max_literals: int = 2,
    penalty: float | None = None,
    held_out: float = 0.1,
    jobs: int | None = None,
    limit: int = 100,
    random_state: int | np.random.Generator = 0,
    time_limit: float | None = None,
    max_memory: int | None = None,
    progress: ProgressOption = True,
) -> LinkPrediction:
    """Learn rules that predict the facts of relations, and complete them.

    Parameters
    ----------
    facts
        A table with the columns head, relation and tail (a CSV or Parquet file, or a frame), a
        table of pairs for each relation, or a database of relations of two arguments.
    relations
        Relations to complete; all if empty. The others are used in rules.
    valid
        Further facts, which learning does not have, to calibrate probabilities by. A random part
        of the facts is kept from learning if absent.
    test
        Facts to be found, for scores.
    max_literals
        Literals of a rule.
    penalty
        Score lost for each literal; chosen on held-out parts if absent.
    held_out
        Share of the facts to calibrate by, without `valid`.
    jobs
        Number of processes; one for each core if absent.
    limit
        Number of predicted facts that the result lists.
    random_state
        Seed of everything random, or a generator to draw one from.
    time_limit
        Seconds for the whole call.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    progress
        True for a display once the work takes a second; a function that is called with events;
        None for neither.

    Returns
    -------
    LinkPrediction
        Rules, predicted facts with probabilities, scores where test facts are given.

    Raises
    ------
    LapisError
        If a table or a relation is wrong.
    TooLarge
        If the work does not fit its limits.

    Examples
    --------
    >>> import pandas
    >>> people = [f"P{i}" for i in range(40)]
    >>> facts = pandas.DataFrame(
    ...     [(p, "husband", f"W{p}") for p in people] + [(f"W{p}", "wife", p) for p in people[1:]],
    ...     columns=["head", "relation", "tail"],
    ... )
    >>> found = link(facts, ["wife"], jobs=1, penalty=0.0001)
    >>> found.predict("WP0", "wife").to_pandas().tail_entity[0]
    'P0'
    """
    options = LinkOptions(
        relations=relations,
        max_literals=max_literals,
        penalty=penalty,
        held_out=held_out,
        jobs=jobs,
        limit=limit,
        random_state=seed_of(random_state),
        time_limit=time_limit,
        max_memory=max_memory,
    )
    check_options(options)
    return run_link(facts, valid, test, options, as_report(progress))


def run_link(
    facts: FactTables,
    valid: FactTables | None,
    test: FactTables | None,
    options: LinkOptions,
    progress: Report | None = None,
) -> LinkPrediction:
    from lapis import operations
    from lapis.registry.options import StructureOptions

    report_progress(progress, Progress("reading", 0))
    known = read_triples(facts, "facts")
    names = relation_names(known)
    wanted = wanted_relations(options.relations, names)
    further = rename(read_triples(valid, "valid"), names, "valid") if valid is not None else []
    tested = rename(read_triples(test, "test"), names, "test") if test is not None else []
    known = rename(known, names, "facts")
    shown, calibrating = known, [triple for triple in further if triple.relation in wanted]
    if not further:
        shown, calibrating = hold_out(known, wanted, options.held_out, options.seed)
    model = declare_relations(names.values())
    entities = list_entities([*known, *further, *tested])
    structure = StructureOptions(
        query=tuple(wanted),
        conditioning="atoms",
        max_literals=options.max_literals,
        dangling="drop",
        penalty=options.penalty,
        jobs=options.jobs,
        time_limit=options.time_limit,
        max_memory=options.max_memory,
        random_state=options.seed,
    )
    rules = operations.learn_structure(model, as_database(shown, entities), structure, progress)
    report_progress(progress, Progress("calibrating", 0))
    before = LinkPrediction(rules, as_database(shown, entities), tuple(wanted), LinkCalibration())
    calibration = LinkCalibration()
    if len(calibrating) >= MIN_CALIBRATING:
        calibration = fit_calibration(before, calibrating)
    return LinkPrediction(
        rules,
        as_database(known, entities),
        tuple(wanted),
        calibration,
        tuple(further),
        tuple(triple for triple in tested if triple.relation in wanted),
        options.limit,
    )


def read_triples(source: FactTables, label: str) -> list[Triple]:
    """Read facts of relations with two arguments."""
    if isinstance(source, Database):
        return database_triples(source, label)
    if isinstance(source, Mapping):
        found = []
        for name, table in source.items():
            pairs = zip(*pair_columns(read_columns(table, name), name), strict=True)
            found += [Triple(as_constant(h), name, as_constant(t)) for h, t in pairs]
        return found
    columns = read_columns(source, label)
    chosen = [require_column(columns, name, label) for name in COLUMNS]
    for name, column in zip(COLUMNS, chosen, strict=True):
        refuse_gaps(column, name, label)
    rows = zip(*(column.tolist() for column in chosen), strict=True)
    return [Triple(*map(as_constant, row)) for row in rows]


def database_triples(source: Database, label: str) -> list[Triple]:
    found = []
    for relation in source.relations.values():
        if relation.arity != 2:
            raise LapisError(
                f"{label}: {relation.predicate} has {relation.arity} arguments; a relation has two",
                code="recipe-relation",
            )
        rows = source.decode(relation, relation.true)
        found += [Triple(head, relation.predicate, tail) for head, tail in rows]
    return found


def relation_names(triples: Iterable[Triple]) -> dict[str, str]:
    """Return the predicate of each relation."""
    found: dict[str, str] = {}
    for triple in triples:
        if triple.relation not in found:
            found[triple.relation] = as_name(triple.relation, found.values())
    if not found:
        raise LapisError("facts: there is no fact to learn from", code="no-data")
    return found


def rename(triples: Iterable[Triple], names: Mapping[str, str], label: str) -> list[Triple]:
    """Return the triples with their predicates, each once; raise for an unknown relation."""
    found: dict[Triple, None] = {}
    for triple in triples:
        if triple.relation not in names:
            raise no_relation(triple.relation, names, label)
        found[triple._replace(relation=names[triple.relation])] = None
    return list(found)


def no_relation(name: str, names: Iterable[str], label: str) -> LapisError:
    return LapisError(
        f"{label}: the facts have no relation {name!r}",
        code="recipe-relation",
        hint=suggestion(name, names),
    )


def wanted_relations(given: Sequence[str], names: Mapping[str, str]) -> list[str]:
    for name in given:
        if name not in names:
            raise no_relation(name, names, "relations")
    return [names[name] for name in given] or list(names.values())


def hold_out(
    triples: Sequence[Triple], wanted: Sequence[str], share: float, seed: int
) -> tuple[list[Triple], list[Triple]]:
    """Split off a random share of the facts of the wanted relations."""
    generator = np.random.default_rng(seed)
    taken = generator.random(len(triples)) < share
    kept = [t for t, out in zip(triples, taken, strict=True) if not out or t.relation not in wanted]
    left = set(kept)
    return kept, [triple for triple in triples if triple not in left]


def declare_relations(names: Iterable[str]) -> Model:
    return parse_model("\n".join(f"{name}(entity, entity)" for name in names), "link")


def list_entities(triples: Iterable[Triple]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for t in triples for name in (t.head, t.tail)))


def as_database(triples: Iterable[Triple], entities: tuple[str, ...]) -> Database:
    facts = ((t.relation, (t.head, t.tail), TRUE) for t in triples)
    return encode_facts(facts, {"entity": entities})

"""What a worker says about models and data: mistakes, words, predicates, first facts, live answers.

Models and databases are kept by their content, so that a slider or a keystroke reads nothing anew.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lapis.errors import LapisError, LapisErrors, Source
from lapis.runtime.limits import limit_work
from lapis.web.contract import (
    CheckReply,
    CheckRequest,
    ColumnsReply,
    DataFile,
    DataNote,
    DataReply,
    DataRequest,
    FormulaCard,
    LiveReply,
    LiveRequest,
    MapColumnsRequest,
    PlanRequest,
    RenameRequest,
    SavedReply,
    SourceMark,
    TableSummary,
)
from lapis.web.files import NETWORKS, Folder
from lapis.web.replies import PROPOSAL, as_units, error_reply, mark_error, mark_warning

if TYPE_CHECKING:
    from lapis.data.database import Database, Relation
    from lapis.language.model import Model, Rule

T = TypeVar("T")
FIRST_ROWS, FIRST_CONSTANTS, FIRST_NOTES = 8, 300, 50
MAX_CHECKED_FACTS = 200_000  # of data whose groundings are counted while typing
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w*/:]|\s*[*/:(])")
LIVE_SECONDS = 5.0


class Kept:
    """The last values of a function by key."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.values: OrderedDict[Hashable, Any] = OrderedDict()

    def find(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self.values:
            self.values[key] = make()
            while len(self.values) > self.size:
                self.values.popitem(last=False)
        self.values.move_to_end(key)
        found: T = self.values[key]
        return found


def stamp(path: Path) -> tuple[object, ...]:
    """Return what changes with the content of a file, or of the files of a folder."""
    paths = sorted(path.iterdir()) if path.is_dir() else [path]
    return tuple((str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in paths)


class Inspector:
    """Answers of one worker process, with what it has read."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.databases, self.models, self.sessions = Kept(8), Kept(8), Kept(4)

    # Models.

    def read_model(self, text: str | None, path: str) -> Model:
        """Read a model from its unsaved text, or from its file."""
        from lapis.language.resolve import resolve_text
        from lapis.model_files import read

        place = self.folder.locate(path)
        if text is None or path.lower().endswith(NETWORKS):
            return self.models.find(stamp(self.folder.existing(path)), lambda: read(place))
        source = Source(path, text)
        return self.models.find((path, text), lambda: resolve_text(source, place.parent))

    def check(self, request: CheckRequest) -> CheckReply:
        """Report mistakes and warnings of a model, and each formula in words."""
        text, path = request["text"], request["path"]
        found: CheckReply = {
            "marks": [], "formulas": [], "predicates": [], "types": [], "functions": [],
            "summary": "", "is_network": False,
        }  # fmt: skip
        try:
            with limit_work(LIVE_SECONDS):
                model = self.read_model(text, path)
        except LapisError as error:
            found["marks"] = error_reply(error, path)["marks"]
            number = len(found["marks"])
            found["summary"] = f"{number} mistake{'' if number == 1 else 's'}"
            return found
        self.describe_model(model, text, path, found)
        with suppress(LapisError):
            self.check_data(model, request["data"], path, found)
        return found

    def describe_model(self, model: Model, text: str, path: str, found: CheckReply) -> None:
        from lapis.problem.check import rule_warnings

        found["is_network"] = model.has_variables
        warnings = [*model.warnings, *(w for rule in model.rules for w in rule_warnings(rule))]
        found["marks"] = [mark_warning(warning, path) for warning in warnings[:FIRST_NOTES]]
        found["formulas"] = [
            describe_formula_card(rule, number, text) for number, rule in enumerate(model.rules)
        ]
        for predicate in islice(model.predicates.values(), FIRST_CONSTANTS):
            line = None
            if predicate.span is not None:
                line = predicate.span.source.line_column(predicate.span.start)[0]
            found["predicates"].append(
                {
                    "name": predicate.name,
                    "types": list(predicate.types),
                    "function": predicate.function,
                    "line": line,
                }
            )
        found["functions"] = [p.name for p in model.predicates.values() if p.function]
        for name, constants in model.types.items():
            shown = list(constants[:FIRST_CONSTANTS])
            found["types"].append({"name": name, "size": len(constants), "constants": shown})
        rules, warned = len(model.rules), len(warnings)
        found["summary"] = f"{rules} formula{'' if rules == 1 else 's'}, no mistakes"
        if warned:
            found["summary"] += f", {warned} warning{'' if warned == 1 else 's'}"

    def check_data(self, model: Model, data: Sequence[str], path: str, found: CheckReply) -> None:
        """Add the constants and the numbers of groundings that the data gives."""
        from lapis.data.binding import bind
        from lapis.problem.check import check

        if not data or model.has_variables:
            return
        with limit_work(LIVE_SECONDS):
            database = self.read_world(data)
            if sum(r.num_stated for r in database.relations.values()) > MAX_CHECKED_FACTS:
                return
            try:
                report = check(model, database)
            except LapisError as error:
                found["marks"].append(mark_error(error, path))
                return
            bound = bind(database, model)
        for card, formula in zip(found["formulas"], report.formulas, strict=False):
            card["groundings"] = formula.groundings
        known = {(mark["message"], mark["start"]) for mark in found["marks"]}
        marks = [mark_warning(warning, path) for warning in report.warnings[:FIRST_NOTES]]
        found["marks"] += [m for m in marks if (m["message"], m["start"]) not in known]
        for card_ in found["types"]:
            constants = bound.domains[card_["name"]].constants
            card_["size"] = len(constants)
            card_["constants"] = list(constants[:FIRST_CONSTANTS])

    # Data.

    def read_file(self, path: str) -> Database:
        from lapis.data.database import Database

        place = self.folder.existing(path)
        if path.lower().endswith((".nt", ".tsv")):
            raise LapisError(
                f"{path}: triples are mapped to predicates first", code="triples",
                hint="map the columns in the Data tab",
            )  # fmt: skip
        read = self.databases.find(stamp(place), lambda: Database.read(place))
        return replace(read, name=path)

    def read_world(self, data: Sequence[str]) -> Database:
        """Read files as one world."""
        from lapis.data.binding import merge

        read = [self.read_file(path) for path in data]
        return read[0] if len(read) == 1 else merge(read)

    def describe_data(self, request: DataRequest) -> DataReply:
        """Describe the predicates of each file, with first facts and notes about unknown names."""
        model = None
        if request["model"] is not None:
            with suppress(LapisError):
                model = self.read_model(None, request["model"])
        files = [self.describe_file(path, model) for path in request["data"]]
        constants: set[str] = set()
        for path, file in zip(request["data"], files, strict=True):
            if file["error"] is None:
                domains = self.read_file(path).domains.values()
                constants.update(*(domain.constants for domain in domains))
        facts = sum(t["true"] + t["false"] + t["unknown"] for f in files for t in f["tables"])
        return {"files": files, "facts": facts, "constants": len(constants)}

    def describe_file(self, path: str, model: Model | None) -> DataFile:
        found: DataFile = {"path": path, "tables": [], "notes": [], "error": None}
        if path.lower().endswith(".evid"):
            return found
        try:
            database = self.read_file(path)
            found["tables"] = [
                describe_relation(database, relation) for relation in database.relations.values()
            ]
            if model is not None and not model.has_variables:
                self.note_unknown(database, model, found)
        except LapisError as error:
            found["error"] = error_reply(error, path)
        return found

    def note_unknown(self, database: Database, model: Model, found: DataFile) -> None:
        """Bind data to the model: types and densities are those of the model."""
        from lapis.data.binding import bind, keep_known

        try:
            [kept], warnings = keep_known([database], model, strict=False)
            bound = bind(kept, model)
        except LapisErrors as errors:
            found["notes"] = [note_error(error) for error in errors.errors[:FIRST_NOTES]]
            return
        except LapisError as error:
            found["notes"] = [note_error(error)]
            return
        found["notes"] = [
            {"message": w.message, "hint": w.hint, "proposal": None, "name": None} for w in warnings
        ]
        rows = {row.predicate: row for row in bound.describe().rows}
        for table in found["tables"]:
            if table["predicate"] in rows:
                table["types"] = list(rows[table["predicate"]].types)
                table["density"] = rows[table["predicate"]].density

    def list_columns(self, path: str) -> ColumnsReply:
        """Return the columns of a table and its first rows."""
        from lapis.data.formats.duckdb_tables import open_duckdb, sql_errors

        with open_duckdb() as connection, sql_errors(path):
            source = table_source(self.folder.existing(path))
            described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
            columns = [name for name, *_ in described]
            rows = connection.execute(f"SELECT * FROM {source} LIMIT {FIRST_ROWS}").fetchall()
            number = connection.execute(f"SELECT count(*) FROM {source}").fetchone()
        texts = [[None if value is None else str(value) for value in row] for row in rows]
        return {"columns": columns, "rows": texts, "num_rows": int(number[0]) if number else 0}

    def map_columns(self, request: MapColumnsRequest) -> SavedReply:
        """Write columns of a table as facts of a predicate, or triples as facts of several."""
        from lapis.data.database import Database
        from lapis.data.files import write_database

        if not request["target"].endswith(".db"):
            raise LapisError("the target must be a .db file", code="path")
        place = self.folder.locate(request["target"])
        read_queries = triple_queries if request["kind"] == "triples" else table_queries
        queries = read_queries(table_source(self.folder.existing(request["path"])), request)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_database(Database.from_sql(queries), place)
        return {"path": request["target"], "size": place.stat().st_size}

    def rename(self, request: RenameRequest) -> SavedReply:
        """Replace a name by its proposal in a text of facts."""
        place = self.folder.existing(request["path"])
        if place.suffix != ".db":
            raise LapisError("only names in .db files are replaced", code="path")
        if not re.fullmatch(r"\w+'*", request["proposal"]) or not request["name"]:
            raise LapisError("the new name is no name", code="request")
        text = place.read_text(encoding="utf-8")
        wrong = re.compile(rf"(?<![\w'\"]){re.escape(request['name'])}(?![\w'\"])")
        self.folder.write_text(request["path"], wrong.sub(request["proposal"], text))
        return {"path": request["path"], "size": place.stat().st_size}

    # Answers at once.

    def plan(self, request: PlanRequest) -> dict[str, Any]:
        """Return the plan of inference."""
        from lapis import operations
        from lapis.registry.options import PlanOptions
        from lapis.web.runs import choose_options
        from lapis.web.what_if import as_texts, with_changes

        options = choose_options(PlanOptions, request["options"])
        with limit_work(options.time_limit or 10.0):
            model = self.read_model(None, request["model"])
            data = self.read_world(request["data"]) if request["data"] else None
            if data is not None and options.evidence and not model.has_variables:
                data, is_replaced = with_changes(data, as_texts(options.evidence))
                options = replace(options, evidence=()) if is_replaced else options
            report = operations.plan(model, data, options)
        return {**report.document(), "summary": report.summary(), "remarks": report.remarks()}

    def answer_live(self, request: LiveRequest) -> LiveReply:
        """Answer a question with other weights or facts, within seconds."""
        from lapis.web.what_if import ask

        began = time.perf_counter()
        with limit_work(LIVE_SECONDS):
            model = self.read_model(request["text"], request["path"])
            data = self.read_world(request["data"]) if request["data"] else None
            key = (request["path"], request["text"], *(
                stamp(self.folder.existing(path)) for path in request["data"]
            ))  # fmt: skip
            weights = {int(n): w for n, w in request["weights"].items() if n.isdecimal()}
            found = ask(
                self.sessions, key, model, data, request["query"], request["evidence"], weights
            )
        limit = max(0, min(request["limit"], 1000))
        shown = zip(found.asked.names(slice(0, limit)), found.probability.tolist(), strict=False)
        return {
            "method": found.method,
            "exact": found.exact,
            "total": len(found),
            "seconds": time.perf_counter() - began,
            "atoms": [{"atom": atom, "probability": probability} for atom, probability in shown],
        }


def describe_formula_card(rule: Rule, index: int, text: str) -> FormulaCard:
    from lapis.problem.check import describe_rule

    found: FormulaCard = {
        "index": index,
        "formula": rule.text,
        "words": describe_rule(rule),
        "weight": rule.weight,
        "hard": rule.hard,
        "plus": bool(rule.plus),
        "line": 0,
        "start": 0,
        "end": 0,
        "weight_start": None,
        "weight_end": None,
        "groundings": None,
    }
    if rule.span is None:
        return found
    source, start = rule.span.source.locate(rule.span.start)
    if source.text != text:  # of an included file
        return found
    end = start + rule.span.end - rule.span.start
    found["line"] = source.line_column(start)[0]
    found["start"], found["end"] = as_units(text, start), as_units(text, end)
    number = NUMBER.match(text, start)
    if rule.weight is not None and number is not None and float(number[0]) == rule.weight:
        found["weight_start"] = as_units(text, start)
        found["weight_end"] = as_units(text, number.end())
    return found


def describe_relation(database: Database, relation: Relation) -> TableSummary:
    size = 1
    for name in relation.types:
        size *= len(database.domains[name])
    named = not any("." in name for name in relation.types)
    return {
        "predicate": relation.predicate,
        "types": list(relation.types) if named else [],
        "true": relation.num_true,
        "false": len(relation.false),
        "unknown": len(relation.unknown),
        "density": relation.num_true / size if size else None,
        "rows": [list(row) for row in database.decode(relation, relation.true[:FIRST_ROWS])],
    }


def note_error(error: LapisError) -> DataNote:
    mark: SourceMark = mark_error(error, None)
    quoted = re.search(r"'([^']+)'", error.message)
    proposal = PROPOSAL.search(error.hint or "")
    return {
        "message": error.message,
        "hint": error.hint,
        "proposal": proposal[1] if proposal else mark["fix"],
        "name": quoted[1] if quoted else None,
    }


# Tables by SQL. Names of columns and files are quoted; values stay inside DuckDB.


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def table_source(place: Path) -> str:
    """Return the SQL of a table in a file."""
    name, path = place.name.lower(), quote_text(str(place))
    if name.endswith(".parquet"):
        return f"read_parquet({path})"
    if name.endswith(".nt"):
        pattern = r"^\s*<([^>]*)>\s+<([^>]*)>\s+(?:<([^>]*)>|\"((?:[^\"\\]|\\.)*)\"\S*)\s*\.\s*$"
        groups = "['subject', 'relation', 'entity', 'literal']"
        lines = (
            f"read_csv({path}, sep='\\0', quote='', header=false, columns={{'line': 'VARCHAR'}})"
        )
        return (
            "(SELECT t.subject AS subject, t.relation AS relation, "
            "CASE WHEN t.entity = '' THEN t.literal ELSE t.entity END AS object "
            f"FROM (SELECT regexp_extract(line, {quote_text(pattern)}, {groups}) AS t "
            f"FROM {lines} WHERE regexp_matches(line, {quote_text(pattern)})))"
        )
    if name.endswith((".csv", ".csv.gz", ".tsv")):
        return f"read_csv({path}, all_varchar=true)"
    raise LapisError(
        f"{place.name}: columns of .csv, .tsv, .nt and .parquet are mapped", code="path"
    )


def table_queries(source: str, request: MapColumnsRequest) -> dict[str, str]:
    if not re.fullmatch(r"\w+", request["predicate"]) or not request["columns"]:
        raise LapisError("a predicate has a name and at least one column", code="request")
    columns = ", ".join(map(quote_name, request["columns"]))
    return {request["predicate"]: f"SELECT DISTINCT {columns} FROM {source}"}


MAX_RELATIONS = 500


def triple_queries(source: str, request: MapColumnsRequest) -> dict[str, str]:
    """Return a query for each relation of triples; its name is the end of its address."""
    from lapis.data.formats.duckdb_tables import open_duckdb, sql_errors

    if len(request["columns"]) != 3:
        raise LapisError("triples have a subject, a relation and an object", code="request")
    subject, relation, object_ = map(quote_name, request["columns"])
    with open_duckdb() as connection, sql_errors(request["path"]):
        found = connection.execute(
            f"SELECT DISTINCT {relation} FROM {source} WHERE {relation} IS NOT NULL ORDER BY 1 "
            f"LIMIT {MAX_RELATIONS}"
        ).fetchall()
    ending = r"regexp_extract({}, '([^/#]*)[/#]?$', 1)"
    queries: dict[str, list[str]] = {}
    for (name,) in found:
        predicate = as_predicate(str(name))
        queries.setdefault(predicate, []).append(
            f"SELECT DISTINCT {ending.format(subject)}, {ending.format(object_)} FROM {source} "
            f"WHERE {relation} = {quote_text(str(name))}"
        )
    return {name: " UNION ".join(parts) for name, parts in queries.items()}


def as_predicate(name: str) -> str:
    """Return a predicate for a relation of triples.

    >>> as_predicate("http://example.org/ns#born in"), as_predicate("2nd")
    ('Born_in', 'R2nd')
    """
    ending = re.split(r"[/#]", name.rstrip("/#"))[-1]
    word = re.sub(r"\W+", "_", ending).strip("_") or "Relation"
    return word[0].upper() + word[1:] if word[0].isalpha() else f"R{word}"

"""Long runs: a command on files of the folder, and what it leaves in a folder of the run.

request.json    the command and its options
result.json     the document of the command without its atoms, its summary, how to repeat it
answer.parquet  a row for each atom, weight or rule
drawing.svg     a circuit or a field, if it is small
"""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lapis.errors import LapisError, suggestion
from lapis.registry.method_table import check_options
from lapis.registry.option_field import Option, options_of
from lapis.registry.options import (
    CircuitLearnOptions,
    CountOptions,
    FieldInferOptions,
    FieldLearnOptions,
    InferOptions,
    LearnOptions,
    LiftOptions,
    MapOptions,
    ScoreOptions,
    StructureOptions,
)
from lapis.results.columns import replace_infinite
from lapis.runtime.limits import limit_work
from lapis.web.contract import JobCommand, JobRequest, JobResult

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from lapis.data.database import Database
    from lapis.results.result import Columns, Result
    from lapis.runtime.progress import Report
    from lapis.web.inspection import Inspector

OptionsType = TypeVar("OptionsType", bound="DataclassInstance")
OPTIONS: Mapping[JobCommand, type[DataclassInstance]] = {
    "infer": InferOptions,
    "map": MapOptions,
    "learn": LearnOptions,
    "structure": StructureOptions,
    "lift": LiftOptions,
    "count": CountOptions,
    "score": ScoreOptions,
    "field-infer": FieldInferOptions,
    "field-learn": FieldLearnOptions,
    "circuit-learn": CircuitLearnOptions,
}
# Options that name files or addresses, or the form of the output.
CLOSED = ("engine", "tables", "output", "as_json", "cnf", "plan", "tree", "explain")
CHANGED = "data.db"  # in the folder of a run: facts as the evidence changed them
MERGE = "merge"  # all data files are one world unless it is false
MAX_DRAWN = 300  # nodes
MAX_CLUSTERS = 40  # of a hypergraph; more are a list
CHAIN_POINTS = 200


def open_options(command: JobCommand) -> dict[str, Option]:
    """Return the options of a command that a request may give."""
    return {
        option.name: option
        for option in options_of(OPTIONS[command])
        if option.kind != "path" and option.name not in CLOSED
    }


def choose_options(owner: type[OptionsType], given: Mapping[str, Any]) -> OptionsType:
    """Build the options of a command from JSON; raise for those that are unknown or wrong."""
    known = {
        option.name: option
        for option in options_of(owner)
        if option.kind != "path" and option.name not in CLOSED
    }
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name == MERGE or value is None:
            continue
        if name not in known:
            hint = suggestion(name, known, f"there are {', '.join(known)}")
            raise LapisError(f"there is no option {name[:40]!r}", code="option-value", hint=hint)
        values[name] = tuple(value) if known[name].kind == "numbers" else value
    options = owner(**values)
    check_options(options)
    return options


@dataclass(frozen=True)
class Work:
    """A request with its files opened."""

    inspector: Inspector
    request: JobRequest
    options: Any  # of the command
    progress: Report
    stop: threading.Event
    changed: Database | None = None  # the data with facts replaced by evidence

    @property
    def model(self) -> Path:
        return self.inspector.folder.existing(self.request["model"])

    @property
    def worlds(self) -> list[Database | Path] | None:
        """The data: one world, unless the option `merge` is false."""
        paths = self.request["data"]
        if self.changed is not None:
            return [self.changed]
        if not paths:
            return None
        if any(path.lower().endswith(".evid") for path in paths):
            return [self.inspector.folder.existing(path) for path in paths]
        if self.request["options"].get(MERGE) is False:
            return [self.inspector.read_file(path) for path in paths]
        return [self.inspector.read_world(paths)]


def change_facts(work: Work, place: Path | None) -> Work:
    """Replace facts of the data that the evidence contradicts; write the changed data."""
    from lapis.data.database import Database
    from lapis.web.what_if import as_texts, with_changes

    evidence = as_texts(getattr(work.options, "evidence", ()))
    worlds = work.worlds if evidence and work.request["command"] in ("infer", "map") else None
    if worlds is None or len(worlds) != 1 or not isinstance(worlds[0], Database):
        return work
    if work.inspector.read_model(None, work.request["model"]).has_variables:
        return work
    changed, is_replaced = with_changes(worlds[0], evidence)
    if not is_replaced:
        return work
    if place is not None:
        changed.write(place / CHANGED)
    return replace(work, options=replace(work.options, evidence=()), changed=changed)


def run_markov_logic(work: Work) -> Result:
    from lapis import operations

    model = work.inspector.read_model(None, work.request["model"])
    common: dict[str, Any] = {"progress": work.progress, "stop": work.stop}
    command = work.request["command"]
    if command in ("learn", "structure") and not work.request["data"]:
        raise LapisError("nothing to learn from", code="no-data", hint="add data files")
    if command == "infer":
        return operations.infer(model, work.worlds, work.options, **common)
    if command == "map":
        return operations.map(model, work.worlds, work.options, **common)
    if command == "learn":
        return operations.learn(model, work.worlds, work.options, **common)
    if command == "structure":
        return operations.learn_structure(model, work.worlds, work.options, **common)
    if command == "score":
        return operations.score(model, work.worlds, work.options, **common)
    if command == "count":
        return operations.count(model, work.worlds, work.options, work.progress)
    return operations.lift(model, work.worlds, work.options)


def run_field(work: Work) -> Result:
    from lapis import fields
    from lapis.registry.option_field import keywords

    common: dict[str, Any] = {"progress": work.progress, "stop": work.stop}
    given = keywords(work.options)
    if work.request["command"] == "field-infer":
        return fields.infer(work.model, work.worlds, **given, **common)
    worlds = work.worlds
    if worlds is None:
        raise LapisError("nothing to learn from", code="no-data", hint="add data files")
    given.pop("checkpoint", None)
    return fields.learn(work.model, worlds, **given, **common)


def run_circuit(work: Work) -> Result:
    from lapis import circuits
    from lapis.registry.option_field import keywords

    given = keywords(work.options)
    return circuits.learn(work.model, **given, progress=work.progress, stop=work.stop)


def solve(work: Work) -> Result:
    """Run the command of a request within its limits."""
    command = work.request["command"]
    solver: Callable[[Work], Result] = run_markov_logic
    if command.startswith("field-"):
        solver = run_field
    elif command == "circuit-learn":
        solver = run_circuit
    with limit_work(
        getattr(work.options, "time_limit", None), getattr(work.options, "max_memory", None)
    ):
        return solver(work)


def keep_result(work: Work, found: Result, place: Path, run_id: str) -> JobResult:
    """Write what a run leaves to its folder; return what the page shows first."""
    command = work.request["command"]
    columns = shown_columns(found)
    num_rows = write_answer(columns, place / "answer.parquet")
    result: JobResult = {
        "id": run_id,
        "command": command,
        "summary": found.summary(),
        "remarks": found.remarks(),
        "document": describe_result(found),
        "columns": list(columns),
        "num_rows": num_rows,
        "predicates": list_predicates(found),
        "text": getattr(found, "text", None) if command != "count" else None,
        "drawing": draw(work, found, place / "drawing.svg"),
        "python": python_code(repeated(work, place)),
        "shell": shell_code(repeated(work, place)),
    }
    (place / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return result


def shown_columns(found: Result) -> Columns:
    from lapis.circuits.circuit_results import LearnedCircuit

    if isinstance(found, LearnedCircuit):
        return circuit_marginals(found)
    return found.columns()


def circuit_marginals(found: Any) -> Columns:  # noqa: ANN401  (a LearnedCircuit)
    """Return the marginal of every state of a learned circuit."""
    from lapis import circuits

    circuit = compiled(found)
    if circuit is None:
        columns: Columns = found.columns()
        return columns
    return circuits.query(circuit, query=list(circuit.names)).columns()


def compiled(found: Any) -> Any:  # noqa: ANN401  (a LearnedCircuit, a Circuit)
    """Return the circuit of a learning run, None if it is too large."""
    if found.circuit is None and found.network is not None:
        with suppress(LapisError):
            return found.compile().circuit
    return found.circuit


def describe_result(found: Result) -> dict[str, Any]:
    """Return the document without its atoms, with what the page draws."""
    from lapis.results.answer import Answer
    from lapis.structure.learned_rules import LearnedRules

    document = dict(found.document())
    document.pop("atoms", None)
    if isinstance(found, LearnedRules):
        document["rules"] = [
            {
                "formula": rule.text, "weight": rule.weight, "gain": rule.gain,
                "support": rule.support, "true": rule.true, "groundings": rule.groundings,
                "words": rule.words, "examples": list(rule.examples),
                "counterexamples": list(rule.counterexamples),
            }
            for rule in found.rules
        ]  # fmt: skip
    if isinstance(found, Answer) and found.trace is not None:
        document["chains"] = running_means(found.trace)
        document["slowest"] = found.traced[0]
        document["slow_atoms"] = list(found.traced)
    return {name: replace_infinite(value) for name, value in document.items()}


def running_means(trace: np.ndarray) -> list[list[float]]:
    """Return the running mean of the slowest atom in each chain, at a few places."""
    draws = trace[:, :, 0].astype(np.float64)
    means = np.cumsum(draws, axis=1) / np.arange(1, draws.shape[1] + 1)
    places = np.unique(np.linspace(0, draws.shape[1] - 1, CHAIN_POINTS).astype(np.int64))
    found: list[list[float]] = means[:, places].round(5).tolist()
    return found


def list_predicates(found: Result) -> list[str]:
    from lapis.results.atom_result import AtomResult

    if isinstance(found, AtomResult):
        return list(dict.fromkeys(group.predicate for group in found.asked.groups))
    return []


def write_answer(columns: Columns, path: Path) -> int:
    """Write the columns with numbers of rows as Parquet; return the number of rows."""
    from lapis.data.formats.duckdb_tables import open_duckdb
    from lapis.results.columns import as_array, as_objects
    from lapis.web.inspection import quote_text

    arrays: dict[str, np.ndarray] = {}
    for name, column in columns.items():
        values = as_array(column)
        array = values if isinstance(values, np.ndarray) else as_column(list(values), as_objects)
        arrays[name] = array
    size = len(next(iter(arrays.values()), ()))
    with open_duckdb() as connection:
        listed = ", ".join(select_column(name, array) for name, array in arrays.items())
        connection.register("answer", {"row": np.arange(size), **arrays})
        connection.execute(
            f"COPY (SELECT row, {listed} FROM answer) TO {quote_text(str(path))} (FORMAT parquet)"
        )
    return size


def as_column(
    values: list[Any], as_objects: Callable[[Sequence[object]], np.ndarray]
) -> np.ndarray:
    """Return numbers as an array of numbers, with NaN for None, and anything else as texts."""
    plain = [value for value in values if value is not None]
    if plain and all(isinstance(value, bool) for value in plain) and len(plain) == len(values):
        return np.array(values, bool)
    if plain and all(isinstance(value, int | float) for value in plain):
        return np.array([np.nan if value is None else value for value in values], np.float64)
    return as_objects([None if value is None else str(value) for value in values])


def select_column(name: str, array: np.ndarray) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    if array.dtype.kind == "f":
        return f"CASE WHEN isnan({quoted}) THEN NULL ELSE {quoted} END AS {quoted}"
    return quoted if array.dtype.kind in "biu" else f"CAST({quoted} AS VARCHAR) AS {quoted}"


def draw(work: Work, found: Result, path: Path) -> bool:
    """Draw a lifted circuit, a learned circuit or a field, if it is small."""
    picture = None
    with suppress(LapisError):
        picture = find_picture(work, found)
    if picture is None or not 0 < len(picture.nodes) <= MAX_DRAWN:
        return False
    path.write_text(picture.svg(), encoding="utf-8")
    return True


def find_picture(work: Work, found: Result) -> Any:  # noqa: ANN401  (a Picture, or None)
    command = work.request["command"]
    if command == "lift":
        return found.draw()  # type: ignore[attr-defined]
    if command == "circuit-learn":
        from lapis import circuits

        circuit = compiled(found)
        return None if circuit is None else circuits.draw(circuit)
    if command == "structure":
        return draw_hypergraph(work)
    if command.startswith("field-"):
        from lapis import fields

        return fields.draw(getattr(found, "field", None) or work.model)
    return None


def draw_hypergraph(work: Work) -> Any:  # noqa: ANN401  (a Picture)
    """Draw the lifted hypergraph of the data: clusters of constants that behave alike."""
    from lapis.problem.problem import build_problem
    from lapis.problem.task import open_inputs
    from lapis.structure.learners.lift_graph import PRIOR, draw_cluster_graph, lift_graph
    from lapis.structure.training_data import join_worlds

    model = work.inspector.read_model(None, work.request["model"])
    inputs = open_inputs(model, work.worlds, quiet=True)
    problems = [build_problem(inputs.model, database) for database in inputs.databases]
    if sum(len(d) for problem in problems for d in problem.domains.values()) > MAX_DRAWN:
        return None
    data = join_worlds(inputs.model, problems, ())
    picture = draw_cluster_graph(data, lift_graph(data, work.options.cluster_prior or PRIOR))
    return picture if len(picture.nodes) <= MAX_CLUSTERS else None


# How to repeat a run without the workbench.

FUNCTIONS: Mapping[JobCommand, str] = {
    "infer": "infer", "map": "api.map", "learn": "learn", "structure": "learn_structure",
    "lift": "lift", "count": "count", "score": "score", "field-infer": "fields.infer",
    "field-learn": "fields.learn", "circuit-learn": "circuits.learn",
}  # fmt: skip


def repeated(work: Work, place: Path) -> JobRequest:
    """Return the request that repeats a run: changed facts are read from the run's folder."""
    if work.changed is None:
        return work.request
    path = (place / CHANGED).relative_to(work.inspector.folder.root).as_posix()
    options = {name: each for name, each in work.request["options"].items() if name != "evidence"}
    return {**work.request, "data": [path], "options": options}


def given_options(request: JobRequest) -> dict[str, Any]:
    """Return the options that are not defaults."""
    known = open_options(request["command"])
    return {
        name: value
        for name, value in request["options"].items()
        if name in known and name != MERGE and value not in (None, [], "", known[name].default)
    }


def python_code(request: JobRequest) -> str:
    """Return Python code that gives the same answer."""
    command, data = request["command"], request["data"]
    lines = ["import lapis", "from lapis import api" if command == "map" else ""]
    arguments = [repr(request["model"])]
    if command not in ("field-infer", "field-learn", "circuit-learn"):
        lines.append(f"model = lapis.read({request['model']!r})")
        arguments = ["model"]
    if data:
        lines.append(f"data = {python_data(request)}")
        arguments.append("data")
    arguments += [f"{name}={value!r}" for name, value in given_options(request).items()]
    function = FUNCTIONS[command].removeprefix("api.")
    lines.append(f"found = {'api' if command == 'map' else 'lapis'}.{function}(")
    lines += [f"    {argument}," for argument in arguments]
    lines += [")", "print(found)"]
    return "\n".join(line for line in lines if line)


def python_data(request: JobRequest) -> str:
    names = ", ".join(map(repr, request["data"]))
    if any(path.lower().endswith(".evid") for path in request["data"]):
        return f"[{names}]"
    if request["options"].get(MERGE) is False and len(request["data"]) > 1:
        return f"[lapis.Database.read(path) for path in ({names})]"
    return f"lapis.Database.read({names})"


def shell_code(request: JobRequest) -> str:
    """Return a command line that gives the same answer."""
    command = request["command"]
    words = ["lapis", *command.split("-", 1), request["model"], *request["data"]]
    if len(request["data"]) > 1 and request["options"].get(MERGE) is not False:
        words.append("--merge")
    known = open_options(command)
    for name, value in given_options(request).items():
        words += flag_words(known[name], value)
    return " ".join(map(shlex.quote, words))


def flag_words(option: Option, value: Any) -> list[str]:  # noqa: ANN401  (JSON)
    if option.kind == "flag":
        return [option.flag]
    if option.kind == "numbers":
        return [option.flag, ",".join(f"{number:g}" for number in value)]
    if isinstance(value, Mapping):
        return [word for name, each in value.items() for word in (option.flag, f"{name}={each:g}")]
    if isinstance(value, list):
        return [word for each in value for word in (option.flag, str(each))]
    return [option.flag, str(value)]

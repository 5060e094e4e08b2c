"""The types of requests and replies of the workbench, and the list of its endpoints.

`schema.py` turns them into JSON Schema, OpenAPI and the TypeScript types of the page. Keys may be
added, never renamed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

JobCommand = Literal[
    "infer", "map", "learn", "structure", "lift", "count", "score",
    "field-infer", "field-learn", "circuit-learn",
]  # fmt: skip
JobStatus = Literal["queued", "running", "stopping", "done", "stopped", "failed"]
FileKind = Literal["model", "data", "field", "network", "other"]
Json = Any  # a JSON document of a command, described in docs/commands.md


class SourceMark(TypedDict):
    """A mistake or a warning, with its place in UTF-16 units."""

    start: int
    end: int
    line: int
    severity: Literal["error", "warning"]
    message: str
    hint: str | None
    code: str
    fix: str | None  # a text that replaces the marked one


class ErrorReply(TypedDict):
    """The reply to a request that cannot be answered."""

    code: str
    message: str
    hint: str | None
    text: str  # the whole message as the command line prints it
    marks: list[SourceMark]


class FormulaCard(TypedDict):
    """A formula in words, and where its weight is written."""

    index: int
    formula: str
    words: str
    weight: float | None
    hard: bool
    plus: bool  # one weight for each constant
    line: int
    start: int
    end: int
    weight_start: int | None  # of the number in the text; None if it is no plain number
    weight_end: int | None
    groundings: int | None  # None without data


class PredicateCard(TypedDict):
    name: str
    types: list[str]
    function: bool
    line: int | None


class TypeCard(TypedDict):
    name: str
    size: int
    constants: list[str]  # the first of them


class CheckRequest(TypedDict):
    text: str
    path: str  # of the model; includes are relative to it
    data: list[str]


class CheckReply(TypedDict):
    marks: list[SourceMark]
    formulas: list[FormulaCard]
    predicates: list[PredicateCard]
    types: list[TypeCard]
    functions: list[str]
    summary: str
    is_network: bool


class TableSummary(TypedDict):
    predicate: str
    types: list[str]
    true: int
    false: int
    unknown: int
    density: float | None
    rows: list[list[str]]  # the first facts


class DataNote(TypedDict):
    message: str
    hint: str | None
    proposal: str | None  # the name that was probably meant
    name: str | None  # the name that is wrong


class DataFile(TypedDict):
    path: str
    tables: list[TableSummary]
    notes: list[DataNote]
    error: ErrorReply | None


class DataRequest(TypedDict):
    data: list[str]
    model: str | None  # path of the model that declares the predicates


class DataReply(TypedDict):
    files: list[DataFile]
    facts: int
    constants: int


class ColumnsRequest(TypedDict):
    path: str


class ColumnsReply(TypedDict):
    columns: list[str]
    rows: list[list[str | None]]
    num_rows: int


class MapColumnsRequest(TypedDict):
    path: str
    kind: Literal["table", "triples"]
    predicate: str  # of a table; triples name their own
    columns: list[str]  # of the arguments in order; of triples: subject, relation, object
    target: str  # path of the new file


class RenameRequest(TypedDict):
    path: str
    name: str
    proposal: str


class LiveRequest(TypedDict):
    text: str
    path: str
    data: list[str]
    query: list[str]
    evidence: list[str]
    weights: dict[str, float]  # by the index of the formula
    limit: int


class LiveAtom(TypedDict):
    atom: str
    probability: float


class LiveReply(TypedDict):
    method: str
    exact: bool
    total: int
    seconds: float
    atoms: list[LiveAtom]


class PlanRequest(TypedDict):
    model: str
    data: list[str]
    options: dict[str, Json]


class JobRequest(TypedDict):
    command: JobCommand
    model: str
    data: list[str]
    options: dict[str, Json]
    title: NotRequired[str]


class ProgressReport(TypedDict):
    phase: str
    done: int
    total: int | None
    seconds: float
    figures: dict[str, float | None]
    text: str
    weights: list[float]


class JobState(TypedDict):
    id: str
    command: JobCommand
    title: str
    status: JobStatus
    created: float  # seconds since 1970
    seconds: float
    request: JobRequest
    progress: ProgressReport | None
    curve: list[list[float]]  # iteration, value of a run that learns
    summary: str | None
    error: ErrorReply | None


class StopRequest(TypedDict):
    now: bool  # kill the process; otherwise it keeps what there is


class JobResult(TypedDict):
    id: str
    command: JobCommand
    summary: str
    remarks: list[str]
    document: Json  # of the command, without its atoms
    columns: list[str]
    num_rows: int
    predicates: list[str]
    text: str | None  # of a learned model
    drawing: bool
    python: str
    shell: str


class RowsRequest(TypedDict):
    sort: str | None
    descending: bool
    predicate: str | None
    arguments: dict[str, str]  # by column: a constant, or a part of it
    text: str  # part of the atom
    low: float | None  # of the probability
    high: float | None
    offset: int
    limit: int


class RowsReply(TypedDict):
    total: int
    offset: int
    columns: list[str]
    rows: list[list[str | float | int | bool | None]]
    seconds: float


class FiguresRequest(TypedDict):
    predicate: str | None
    truth: str | None  # path of data with the truth
    chains: bool


class CalibrationBin(TypedDict):
    low: float
    high: float
    count: int
    predicted: float | None
    observed: float | None


class FiguresReply(TypedDict):
    bins: list[CalibrationBin]
    error: float | None  # expected calibration error; None without truth
    chains: list[list[float]]  # running means of the slowest atom
    slowest: str | None


class WhyRequest(TypedDict):
    atom: str


class WhyReply(TypedDict):
    available: bool
    message: str | None
    explanation: Json  # of `answer.explain(atom).to_json()`


class FileCard(TypedDict):
    path: str
    size: int
    kind: FileKind


class FilesReply(TypedDict):
    folder: str
    files: list[FileCard]


class SavedReply(TypedDict):
    path: str
    size: int


class WorkspaceState(TypedDict):
    """What the page shows; `workspace.json` in the folder."""

    model: str | None
    data: list[str]
    query: list[str]
    evidence: list[str]
    command: JobCommand
    options: dict[str, Json]
    truth: NotRequired[str | None]
    gallery: NotRequired[str | None]


class GalleryCard(TypedDict):
    name: str
    title: str
    sentences: list[str]
    command: JobCommand


class AboutReply(TypedDict):
    version: str
    folder: str
    methods: dict[str, list[str]]
    workspace: WorkspaceState


class Done(TypedDict):
    done: bool


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route of the server: JSON in, JSON out unless it says otherwise."""

    name: str
    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    summary: str
    request: type | None = None
    reply: object = None  # None: not JSON
    query: tuple[str, ...] = ()


ENDPOINTS = (
    Endpoint("about", "GET", "/api/about", "Version, folder, workspace.", None, AboutReply),
    Endpoint("save_workspace", "PUT", "/api/workspace", "Save the workspace.", WorkspaceState,
             Done),
    Endpoint("check", "POST", "/api/check", "Mistakes of a model, its formulas in words.",
             CheckRequest, CheckReply),
    Endpoint("data", "POST", "/api/data", "Predicates and first facts of data.", DataRequest,
             DataReply),
    Endpoint("columns", "POST", "/api/data/columns", "Columns and first rows of a table.",
             ColumnsRequest, ColumnsReply),
    Endpoint("map_columns", "POST", "/api/data/map", "Write columns of a table as facts.",
             MapColumnsRequest, SavedReply),
    Endpoint("rename", "POST", "/api/data/rename", "Rename a predicate or constant in a .db file.",
             RenameRequest, SavedReply),
    Endpoint("live", "POST", "/api/live", "Answer at once, with changed weights.", LiveRequest,
             LiveReply),
    Endpoint("plan", "POST", "/api/plan", "The plan of inference.", PlanRequest, Json),
    Endpoint("start_job", "POST", "/api/jobs", "Start a run.", JobRequest, JobState),
    Endpoint("jobs", "GET", "/api/jobs", "All runs, the latest first.", None, list[JobState]),
    Endpoint("job", "GET", "/api/jobs/{id}", "A run.", None, JobState),
    Endpoint("events", "GET", "/api/jobs/{id}/events", "States of a run as server-sent events."),
    Endpoint("stop", "POST", "/api/jobs/{id}/stop", "Stop a run.", StopRequest, JobState),
    Endpoint("forget", "DELETE", "/api/jobs/{id}", "Delete a run.", None, Done),
    Endpoint("result", "GET", "/api/jobs/{id}/result", "The answer of a run.", None, JobResult),
    Endpoint("rows", "POST", "/api/jobs/{id}/rows", "Rows of an answer, sorted and filtered.",
             RowsRequest, RowsReply),
    Endpoint("figures", "POST", "/api/jobs/{id}/figures", "Distribution, calibration, chains.",
             FiguresRequest, FiguresReply),
    Endpoint("why", "POST", "/api/jobs/{id}/why", "The explanation of an atom.", WhyRequest,
             WhyReply),
    Endpoint("export", "GET", "/api/jobs/{id}/export", "All rows as CSV, Parquet or JSON.",
             query=("format",)),
    Endpoint("drawing", "GET", "/api/jobs/{id}/drawing", "The circuit or field as SVG."),
    Endpoint("files", "GET", "/api/files", "Files of the folder.", None, FilesReply),
    Endpoint("file", "GET", "/api/files/{path}", "The content of a file."),
    Endpoint("save_file", "PUT", "/api/files/{path}", "Write a file.", None, SavedReply),
    Endpoint("delete_file", "DELETE", "/api/files/{path}", "Delete a file.", None, Done),
    Endpoint("gallery", "GET", "/api/gallery", "Worked problems.", None, list[GalleryCard]),
    Endpoint("open_gallery", "POST", "/api/gallery/{name}", "Copy a problem into the folder.", None,
             WorkspaceState),
)  # fmt: skip

"""The worker process: reads requests from its input, a JSON line each, and writes replies.

It reads files that may be broken or hostile, so it may die, hang or grow; `pool` watches it. Code
of Lapis may open files only below the folder, and those of Python itself. The work is done in the
main thread, where limits of time and memory hold; a second thread reads the requests and passes on
requests to stop. The process ends with its input.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from lapis.errors import LapisError
from lapis.web.files import Folder

if TYPE_CHECKING:
    from lapis.results.result import Result
    from lapis.runtime.progress import Progress

SECONDS_BETWEEN_REPORTS = 0.1
MAX_WEIGHTS = 60  # of a progress event
FIRST_MODEL = "person = {A, B}\nSmokes(person)\n1 Smokes(x)\n1 Smokes(x) ^ Smokes(y)"
QUIET = ("/dev/", "/proc/", "/sys/")


class Worker:
    """The operations of one process, and the answer that it holds."""

    def __init__(self, folder: Folder, output: TextIO) -> None:
        from lapis.web.inspection import Inspector
        from lapis.web.tables import AnswerTables

        self.folder, self.output = folder, output
        self.inspector, self.tables = Inspector(folder), AnswerTables()
        self.stop = threading.Event()
        self.number = 0  # of the request under work
        self.reported, self.phase = 0.0, ""
        self.answer: Result | None = None
        self.operations: Mapping[str, Callable[[Any], Any]] = {
            "warm": self.warm,
            "check": self.inspector.check,
            "data": self.inspector.describe_data,
            "columns": lambda request: self.inspector.list_columns(request["path"]),
            "map_columns": self.inspector.map_columns,
            "rename": self.inspector.rename,
            "live": self.inspector.answer_live,
            "plan": self.inspector.plan,
            "run": self.run,
            "why": self.explain,
            "rows": lambda request: self.table(request).rows(request["view"]),
            "export": self.export,
            "figures": self.figures,
        }

    def reply(self, **message: Any) -> None:  # noqa: ANN401  (JSON)
        self.output.write(json.dumps({"id": self.number, **message}) + "\n")
        self.output.flush()

    def do(self, request: Mapping[str, Any]) -> None:
        """Answer one request."""
        from lapis.web.replies import error_reply, plain_error

        self.number = request["id"]
        try:
            self.reply(ok=self.operations[request["do"]](request["with"]))
        except LapisError as error:
            self.reply(error=error_reply(error), exit=error.exit_code)
        except KeyboardInterrupt:
            self.reply(error=plain_error("stopped", "stopped before there was an answer"), exit=3)
        except MemoryError:
            self.reply(error=plain_error("memory", "the work needs more memory"), exit=3)
        except RecursionError:
            self.reply(error=plain_error("too-deep", "the text is nested too deeply"), exit=1)
        except Exception as error:
            traceback.print_exc()
            message = f"this is a bug in Lapis: {type(error).__name__}: {error}"[:500]
            self.reply(error=plain_error("bug", message, "the run's log has the details"), exit=1)

    def warm(self, _: object) -> dict[str, bool]:
        """Load what the first answer needs."""
        import duckdb  # noqa: F401  (loaded)

        from lapis.api import infer
        from lapis.language.resolve import parse_model

        infer(parse_model(FIRST_MODEL), query="Smokes", progress=None)
        return {"done": True}

    def run(self, request: Mapping[str, Any]) -> Any:  # noqa: ANN401  (JSON)
        """Run a command; keep its result on disk, and the answer here for explanations."""
        from lapis.web.runs import (
            OPTIONS,
            Work,
            change_facts,
            choose_options,
            keep_result,
            solve,
        )

        self.stop.clear()
        job = request["job"]
        options = choose_options(OPTIONS[job["command"]], job["options"])
        options = cap_limits(options, request["seconds"], request["memory"])
        place = None if request["place"] is None else Path(request["place"])
        work = Work(self.inspector, job, options, self.report, self.stop)
        work = change_facts(work, place)
        self.answer = solve(work)
        if place is None:
            return {"done": True}
        return keep_result(work, self.answer, place, request["id"])

    def report(self, event: Progress) -> None:
        """Pass on a progress event, ten a second at most."""
        now = time.monotonic()
        if now < self.reported + SECONDS_BETWEEN_REPORTS and event.phase == self.phase:
            return
        self.reported, self.phase = now, event.phase
        from lapis.results.columns import replace_infinite

        weights = [] if event.weights is None else event.weights[:MAX_WEIGHTS].tolist()
        figures = {name: float(value) for name, value in event.figures.items()}
        report = {
            "phase": event.phase, "done": int(event.done),
            "total": None if event.total is None else int(event.total),
            "seconds": float(event.seconds), "figures": figures, "text": event.text,
            "weights": weights,
        }  # fmt: skip
        self.reply(progress=replace_infinite(report))

    def explain(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Explain an atom of the answer that this process holds."""
        from lapis.web.what_if import explain_atom

        if self.answer is None:
            self.run(request)
        return explain_atom(self.answer, request["atom"])

    def table(self, request: Mapping[str, Any]) -> Any:  # noqa: ANN401  (an AnswerTable)
        return self.tables.open(Path(request["place"]) / "answer.parquet")

    def export(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.table(request).export(request["format"], Path(request["target"]))
        return {"done": True}

    def figures(self, request: Mapping[str, Any]) -> Any:  # noqa: ANN401  (JSON)
        wanted = request["view"]
        truth = None if wanted["truth"] is None else self.inspector.read_file(wanted["truth"])
        found = self.table(request).bins(wanted["predicate"], truth)
        if wanted["chains"]:
            kept = json.loads((Path(request["place"]) / "result.json").read_text("utf-8"))
            found["chains"] = kept["document"].get("chains", [])
            found["slowest"] = kept["document"].get("slowest")
        return found


def cap_limits(options: Any, seconds: float, memory: int) -> Any:  # noqa: ANN401  (of a command)
    """Return options whose limits are at most those of the server."""
    limits = {
        "time_limit": min(options.time_limit or seconds, seconds),
        "max_memory": min(options.max_memory or memory, memory),
    }
    return replace(options, **limits)


def confine(folder: Folder) -> None:
    """Refuse to open files outside the folder, except those of Python and of compiled kernels."""
    import tempfile

    from numba import config

    import lapis

    tempfile.tempdir = str(folder.hidden / "tmp")
    homes = {sys.prefix, sys.base_prefix, str(Path(lapis.__file__).parent), *filter(None, sys.path)}
    readable = tuple(os.path.realpath(home) + os.sep for home in homes if home != "/")
    readable += ("/usr/", "/lib", "/etc/ld", "/etc/localtime")
    caches = [config.CACHE_DIR, str(Path.home() / ".cache"), str(Path(lapis.__file__).parent)]
    caches += [
        str(folder.hidden),
        f"/tmp/lapis-kernels-{os.getuid()}" if os.name == "posix" else "",
    ]
    writable = tuple(os.path.realpath(home) + os.sep for home in caches if home)
    root = str(folder.root) + os.sep

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if path.startswith((root, *writable, *QUIET)):
            return
        mode = str(arguments[1] or "")
        writes = any(letter in mode for letter in "wax+") or bool((arguments[2] or 0) & 3)
        if writes or not path.startswith(readable):
            raise PermissionError(13, "outside the folder of the workbench", path)

    sys.addaudithook(watch)


def read_requests(worker: Worker, requests: queue.Queue[Any]) -> None:
    """Read requests until the input ends; then end the process."""
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "stop":
            worker.stop.set()
        else:
            requests.put(request)
    os._exit(0)


def main() -> None:
    """Serve requests until the input ends."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print does not mix with replies
    import warnings

    import numba  # noqa: F401  (before files are confined)

    warnings.simplefilter("ignore")
    folder = Folder(Path(sys.argv[1]))
    worker = Worker(folder, output)
    confine(folder)
    requests: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=read_requests, args=(worker, requests), daemon=True).start()
    while True:
        worker.do(requests.get())


if __name__ == "__main__":
    main()

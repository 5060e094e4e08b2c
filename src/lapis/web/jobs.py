"""The queue of runs: their states, progress and results.

Few runs work at once, the others wait. A run that is asked to stop keeps what it has; if it does
not end in time, its process is killed. The worker of a finished run lives on for a while, because
it holds the answer that explanations are about. Finished runs are read back from the disk when the
server starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from lapis.errors import LapisError
from lapis.web.contract import JobRequest, JobState, ProgressReport
from lapis.web.files import Folder
from lapis.web.pool import RefusedByWorker, WorkerProcess, busy
from lapis.web.replies import error_reply

MAX_WAITING = 32  # runs
MAX_KEPT = 200  # runs on disk
MAX_HELD = 2  # workers of finished runs
STOP_SECONDS = 20.0  # for a run to end with what it has
GRACE_SECONDS = 15.0  # after its time limit
EVENTS_SECONDS = 0.15  # between events of a stream
ALIVE_SECONDS = 10.0  # between signs of life
MAX_CURVE = 600  # points
RUN_ID = re.compile(r"[0-9a-f]{12}")
SHARE_OF_WORK = 0.8  # of the memory at which a process is killed: the work ends itself before
FINAL = ("done", "stopped", "failed")


class Run:
    """One run: its state, and who waits for changes of it."""

    def __init__(self, state: JobState, place: Path) -> None:
        self.state, self.place = state, place
        self.worker: WorkerProcess | None = None
        self.changed = asyncio.Event()
        self.version = 0
        self.began = time.monotonic()
        self.task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        return self.state["status"] in FINAL

    def tell(self) -> None:
        """Wake all streams."""
        self.version += 1
        self.changed.set()
        self.changed = asyncio.Event()

    def report(self, progress: Any) -> None:  # noqa: ANN401  (JSON)
        """Record a progress event, and a point of the curve of a run that learns."""
        event: ProgressReport = progress
        self.state["progress"] = event
        self.state["seconds"] = time.monotonic() - self.began
        value = event["figures"].get("value")
        if value is not None:
            curve = self.state["curve"]
            curve.append([event["done"], value])
            if len(curve) > MAX_CURVE:
                del curve[1::2]
        self.tell()

    def save(self) -> None:
        """Write the state, unless the run was deleted."""
        if not self.place.is_dir():
            return
        text = json.dumps(self.state)
        (self.place / "request.json").write_text(text, encoding="utf-8")


class Jobs:
    """All runs of a folder."""

    def __init__(self, folder: Folder, max_running: int, max_seconds: float, max_memory: int):
        self.folder = folder
        self.max_seconds, self.max_memory = max_seconds, max_memory
        self.runs: dict[str, Run] = {}
        self.slots = asyncio.Semaphore(max_running)
        self.spare: WorkerProcess | None = None
        self.held: list[Run] = []
        self.read_back()

    def read_back(self) -> None:
        """Read the runs that earlier servers finished."""
        for place in sorted((self.folder.hidden / "runs").iterdir()):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                if RUN_ID.fullmatch(place.name) and not place.is_symlink():
                    state: JobState = json.loads((place / "request.json").read_text("utf-8"))
                    if state["id"] == place.name and state["status"] in FINAL:
                        self.runs[place.name] = Run(state, place)
        ordered = sorted(self.runs.items(), key=lambda item: item[1].state["created"])
        self.runs = dict(ordered)

    def find(self, run_id: str) -> Run:
        if run_id not in self.runs:
            raise LapisError("there is no such run", code="no-run")
        return self.runs[run_id]

    def listed(self) -> list[JobState]:
        return [run.state for run in reversed(self.runs.values())]

    def start(self, request: JobRequest) -> Run:
        """Queue a run."""
        if sum(not run.is_over for run in self.runs.values()) >= MAX_WAITING:
            raise busy()
        self.drop_oldest()
        run_id = secrets.token_hex(6)
        place = self.folder.hidden / "runs" / run_id
        place.mkdir()
        state: JobState = {
            "id": run_id, "command": request["command"],
            "title": request.get("title", "")[:200] or request["command"], "status": "queued",
            "created": time.time(), "seconds": 0.0, "request": request, "progress": None,
            "curve": [], "summary": None, "error": None,
        }  # fmt: skip
        run = self.runs[run_id] = Run(state, place)
        run.task = asyncio.create_task(self.work(run))
        return run

    def drop_oldest(self) -> None:
        over = [run for run in self.runs.values() if run.is_over]
        for run in over[: max(0, len(self.runs) - MAX_KEPT + 1)]:
            self.forget(run)

    async def take_worker(self) -> WorkerProcess:
        """Return the worker that was started ahead, and start the next one."""
        worker, self.spare = self.spare, None
        if worker is None or not worker.is_alive:
            worker = WorkerProcess(self.folder.root, self.max_memory)
            await worker.start()
        return worker

    async def prepare(self) -> None:
        """Start a worker ahead and load what it needs."""
        worker = WorkerProcess(self.folder.root, self.max_memory)
        with contextlib.suppress(LapisError):
            await worker.start()
            self.spare = worker
            await worker.call("warm", None, seconds=120)

    async def work(self, run: Run) -> None:
        """Wait for a place, run the command and record how it ended."""
        async with self.slots:
            if run.state["status"] != "queued":
                return
            run.state["status"], run.began = "running", time.monotonic()
            run.tell()
            try:
                run.worker = await self.take_worker()
                await self.finish(run, run.worker)
            except LapisError as error:
                self.fail(run, error)
            except Exception as error:
                self.fail(run, LapisError(f"the run cannot be recorded: {error}", code="bug"))
            run.state["seconds"] = time.monotonic() - run.began
            run.save()
            run.tell()
        self.hold(run)
        if self.spare is None:
            await self.prepare()

    async def finish(self, run: Run, worker: WorkerProcess) -> None:
        given = {"job": run.state["request"], "place": str(run.place), "id": run.state["id"]}
        seconds = self.max_seconds + GRACE_SECONDS
        found = await worker.call("run", given | self.limits, run.report, seconds)
        stopped = found["document"].get("interrupted")
        run.state["status"] = "stopped" if stopped else "done"
        run.state["summary"] = found["summary"]

    @property
    def limits(self) -> dict[str, Any]:
        """The limits of a run: those of its options count where they are smaller."""
        return {"seconds": self.max_seconds, "memory": int(SHARE_OF_WORK * self.max_memory)}

    def fail(self, run: Run, error: LapisError) -> None:
        was_stopped = run.state["status"] == "stopping"
        run.state["status"] = "stopped" if was_stopped else "failed"
        known = isinstance(error, RefusedByWorker)
        run.state["error"] = error.reply if known else error_reply(error)  # type: ignore[attr-defined]

    def hold(self, run: Run) -> None:
        """Keep the worker of a finished run for explanations; end the oldest."""
        if run.worker is not None and run.worker.is_alive:
            self.held.append(run)
        for old in self.held[:-MAX_HELD]:
            self.release(old)

    def release(self, run: Run) -> None:
        if run in self.held:
            self.held.remove(run)
        if run.worker is not None:
            run.worker.kill("its answer is not needed")
            run.worker = None

    async def explain(self, run: Run, atom: str) -> Any:  # noqa: ANN401  (JSON)
        """Explain an atom in the process that holds the answer, or in a new one."""
        if not run.is_over or run.state["status"] == "failed":
            raise LapisError("this run has no answer", code="no-answer")
        if run.worker is None or not run.worker.is_alive:
            run.worker = await self.take_worker()
            self.hold(run)
        given = {"atom": atom, "job": run.state["request"], "place": None, "id": ""}
        seconds = self.max_seconds + GRACE_SECONDS
        return await run.worker.call("why", given | self.limits, None, seconds)

    def stop(self, run: Run, now: bool) -> None:
        """Ask a run to end with what it has, or end it now."""
        if run.is_over:
            return
        if run.state["status"] == "queued":
            run.state["status"] = "stopped"
            run.save()
        else:
            run.state["status"] = "stopping"
            if run.worker is not None and now:
                run.worker.kill("it was stopped")
            elif run.worker is not None:
                run.worker.stop()
                asyncio.get_running_loop().call_later(STOP_SECONDS, self.kill_if_running, run)
        run.tell()

    def kill_if_running(self, run: Run) -> None:
        if not run.is_over and run.worker is not None:
            run.worker.kill(f"it did not stop within {STOP_SECONDS:g} s")

    def forget(self, run: Run) -> None:
        """Delete a run and what it left."""
        self.stop(run, now=True)
        self.release(run)
        self.runs.pop(run.state["id"], None)
        shutil.rmtree(run.place, ignore_errors=True)

    async def events(self, run: Run) -> AsyncIterator[str]:
        """Yield the state of a run whenever it has changed, the last state at once.

        A reader that is slow skips states; nothing is queued for it.
        """
        version = -1
        while True:
            if version != run.version:
                version = run.version
                yield f"data: {json.dumps(run.state)}\n\n"
                if run.is_over:
                    return
                await asyncio.sleep(EVENTS_SECONDS)
            changed = run.changed
            if version == run.version:
                try:
                    await asyncio.wait_for(changed.wait(), ALIVE_SECONDS)
                except TimeoutError:
                    yield ": alive\n\n"

    async def close(self) -> None:
        """End all processes."""
        for run in self.runs.values():
            if run.task is not None:
                run.task.cancel()
            if run.worker is not None:
                await run.worker.close()
        if self.spare is not None:
            await self.spare.close()

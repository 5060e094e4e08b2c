"""Worker processes: started, watched and killed.

Each worker is the leader of its own process group, so that the processes of its own pool end with
it. One worker answers what the page asks while the user types, one reads tables, and each run has
one of its own, which was started ahead. A worker that is too slow or too large is killed; the next
request gets a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lapis.errors import LapisError, TooLarge
from lapis.web.contract import ErrorReply

LINE_BYTES = 1 << 28  # of a reply
WATCH_SECONDS = 0.25
QUICK_SECONDS = 20.0  # for what the page asks while the user waits
Report = Callable[[dict[str, Any]], None]


class WorkerEnded(LapisError):
    """The process ended before it replied."""


class RefusedByWorker(LapisError):
    """An error that a worker reports, as JSON."""

    def __init__(self, reply: ErrorReply, exit_code: int) -> None:
        super().__init__(reply["message"], code=reply["code"], hint=reply["hint"])
        self.reply = reply
        self.exit_code = exit_code


class WorkerProcess:
    """One worker process and its replies."""

    def __init__(self, root: Path, max_memory: int) -> None:
        self.root, self.max_memory = root, max_memory
        self.process: asyncio.subprocess.Process | None = None
        self.number = 0
        self.waiting: dict[int, tuple[asyncio.Future[Any], Report | None]] = {}
        self.why_killed: str | None = None
        self.tasks: list[asyncio.Task[None]] = []

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.returncode is None

    @property
    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    async def start(self) -> None:
        log = (self.root / ".lapis" / "worker.log").open("ab")
        try:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "lapis.web.worker", str(self.root),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log,
                cwd=self.root, start_new_session=True, limit=LINE_BYTES,
            )  # fmt: skip
        finally:
            log.close()
        self.tasks = [asyncio.create_task(self.listen()), asyncio.create_task(self.watch())]

    async def listen(self) -> None:
        """Hand each reply to the request that waits for it."""
        assert self.process is not None
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError):  # a line that is too long
            while line := await self.process.stdout.readline():
                self.receive(json.loads(line))
        self.kill("its reply was too large")
        code = await self.process.wait()
        for future, _ in self.waiting.values():
            if not future.done():
                future.set_exception(self.end_error(code))
                future.exception()  # read: its request may have been cancelled
        self.waiting.clear()

    def receive(self, message: dict[str, Any]) -> None:
        future, report = self.waiting.get(message["id"], (None, None))
        if "progress" in message:
            if report is not None:
                report(message["progress"])
            return
        self.waiting.pop(message["id"], None)
        if future is None or future.done():
            return
        if "error" in message:
            future.set_exception(RefusedByWorker(message["error"], message["exit"]))
        else:
            future.set_result(message["ok"])

    def end_error(self, code: int) -> LapisError:
        if self.why_killed is not None:
            return TooLarge(f"the work was ended: {self.why_killed}", code="killed")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return WorkerEnded(f"the process of the work ended ({how})", code="process-ended")

    async def watch(self) -> None:
        """Kill the process if its group takes more memory than the limit."""
        while self.is_alive:
            if group_bytes(self.process) > self.max_memory:  # type: ignore[arg-type]
                self.kill(f"it needs more memory than {self.max_memory / 1e9:.1f} GB")
            await asyncio.sleep(WATCH_SECONDS)

    async def call(
        self,
        operation: str,
        given: object,
        report: Report | None = None,
        seconds: float | None = None,
    ) -> Any:  # noqa: ANN401  (JSON)
        """Send a request and wait for its reply; kill the process if that takes too long."""
        if self.process is None:
            await self.start()
        assert self.process is not None
        assert self.process.stdin is not None
        self.number += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting[self.number] = future, report
        message = {"id": self.number, "do": operation, "with": given}
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            await self.process.stdin.drain()
        except (ConnectionError, BrokenPipeError):
            if not future.done():
                future.set_exception(self.end_error(self.process.returncode or 0))
        try:
            return await asyncio.wait_for(asyncio.shield(future), seconds)
        except TimeoutError:
            self.kill(f"it took more than {seconds:g} s")
            return await future

    def stop(self) -> None:
        """Ask the work to end with what it has."""
        if self.is_alive and self.process is not None and self.process.stdin is not None:
            self.process.stdin.write(b'{"do": "stop"}\n')

    def kill(self, why: str) -> None:
        """Kill the process and those it started."""
        if self.is_alive and self.process is not None:
            self.why_killed = self.why_killed or why
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    async def close(self) -> None:
        self.kill("the server ended")
        if self.process is not None:
            await self.process.wait()
            for task in self.tasks:
                with contextlib.suppress(asyncio.CancelledError):
                    await task


def group_bytes(process: asyncio.subprocess.Process) -> int:
    """Return the bytes in memory of a process and its children; 0 where /proc is missing."""
    total, todo = 0, [process.pid]
    while todo:
        pid = todo.pop()
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            total += pages * os.sysconf("SC_PAGE_SIZE")
            todo += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return total


class Helper:
    """A worker for short questions, replaced when it has ended."""

    def __init__(self, root: Path, max_memory: int) -> None:
        self.root, self.max_memory = root, max_memory
        self.worker: WorkerProcess | None = None
        self.lock = asyncio.Lock()
        self.queued = 0

    async def ready(self) -> WorkerProcess:
        async with self.lock:
            if self.worker is None or not self.worker.is_alive:
                self.worker = WorkerProcess(self.root, self.max_memory)
                await self.worker.start()
            return self.worker

    async def call(self, operation: str, given: object, seconds: float = QUICK_SECONDS) -> Any:  # noqa: ANN401
        """Answer a short question; refuse if very many wait."""
        if self.queued >= MAX_QUEUED:
            raise busy()
        self.queued += 1
        try:
            worker = await self.ready()
            return await worker.call(operation, given, seconds=seconds)
        finally:
            self.queued -= 1

    async def close(self) -> None:
        if self.worker is not None:
            await self.worker.close()


MAX_QUEUED = 64


def busy() -> LapisError:
    return LapisError("too many requests at once", code="busy", hint="try again in a moment")

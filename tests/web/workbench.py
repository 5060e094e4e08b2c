"""A server of the workbench on a free port of loopback, and a client that holds its token."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from lapis.web.server import Settings, build_app

MODEL = "Smokes(person)\nCancer(person)\nFriends(person, person)\n1.5 Smokes(x) => Cancer(x)\n"
MODEL += "1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)\n-0.5 Smokes(x)\n"
DATA = "Friends(Anna, Bob)\nFriends(Bob, Chris)\nSmokes(Anna)\n"
VIEW: dict[str, Any] = {
    "sort": None, "descending": False, "predicate": None, "arguments": {}, "text": "",
    "low": None, "high": None, "offset": 0, "limit": 100,
}  # fmt: skip


class Bench:
    """A running server."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.url = f"http://127.0.0.1:{settings.port}"
        headers = {"authorization": f"Bearer {settings.token}"}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=120)
        self.root = settings.root

    def post(self, path: str, body: object) -> Any:
        reply = self.client.post(path, json=body)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def get(self, path: str) -> Any:
        reply = self.client.get(path)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def run(self, command: str, model: str, data: list[str], **options: object) -> dict[str, Any]:
        """Start a run and wait for its end by its events."""
        job = {"command": command, "model": model, "data": data, "options": options}
        return self.wait(self.post("/api/jobs", job)["id"])

    def wait(self, run_id: str) -> dict[str, Any]:
        state: dict[str, Any] = {}
        with self.client.stream("GET", f"/api/jobs/{run_id}/events") as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    state = json.loads(line.removeprefix("data: "))
        return state

    def result(self, state: dict[str, Any]) -> Any:
        return self.get(f"/api/jobs/{state['id']}/result")

    def rows(self, state: dict[str, Any], **view: object) -> Any:
        return self.post(f"/api/jobs/{state['id']}/rows", {**VIEW, **view})


@contextmanager
def serving(root: Path, **more: Any) -> Iterator[Bench]:
    """Serve a folder in a thread of this process."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    settings = Settings(root, port=listener.getsockname()[1], **more)
    config = uvicorn.Config(
        build_app(settings), log_level="error", ws="none", timeout_graceful_shutdown=1,
        limit_concurrency=400,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    bench = Bench(settings)
    try:
        yield bench
    finally:
        bench.client.close()
        server.should_exit = True
        thread.join(30)
        listener.close()

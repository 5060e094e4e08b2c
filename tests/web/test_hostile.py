"""Sixty hostile requests: after each the server answers within a second, and nothing is touched.

The server is a process of its own, as `lapis serve` starts it, so that what is sent here cannot
hide behind the threads of the tests.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from web.workbench import DATA, MODEL, VIEW

pytestmark = pytest.mark.web

START = """
import sys
from pathlib import Path
import uvicorn
from lapis.web.server import Settings, build_app
import socket
listener = socket.socket(); listener.bind(("127.0.0.1", 0))
port = listener.getsockname()[1]
settings = Settings(Path(sys.argv[1]), port=port, max_upload=1 << 20, max_memory=1200 << 20,
                    max_seconds=20, max_running=1, read_seconds=15)
print(settings.address, flush=True)
config = uvicorn.Config(build_app(settings), log_level="error", ws="none", timeout_keep_alive=5,
                        limit_concurrency=400)
uvicorn.Server(config).run(sockets=[listener])
"""
ANSWERS_IN = 1.0  # seconds


class Victim(NamedTuple):
    client: httpx.Client
    root: Path
    port: int
    token: str

    def send(self, method: str, path: str, **more: Any) -> int:
        return self.client.request(method, path, **more).status_code

    def raw(self, text: bytes, wait: float = 0.3) -> bytes:
        """Send bytes as they are; clients tidy up paths and headers."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(text)
            connection.settimeout(wait)
            try:
                return connection.recv(65536)
            except TimeoutError:
                return b""


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    outside = tmp_path_factory.mktemp("hostile")
    root = outside / "inside"
    root.mkdir()
    (root / "model.mln").write_text(MODEL)
    (root / "people.db").write_text(DATA)
    (outside / "secret.db").write_text("Secret(Anna)\n")
    (outside / "secret.mln").write_text("Secret(person)\n1 Secret(x)\n")
    (outside / "folder").mkdir()
    (outside / "folder" / "Smokes.csv").write_text("who\nAnna\n")
    (root / "link.db").symlink_to(outside / "secret.db")
    (root / "linked").symlink_to(outside / "folder")
    (root / "tables").mkdir()
    (root / "tables" / "Smokes.csv").symlink_to(outside / "folder" / "Smokes.csv")
    (root / "loop").symlink_to(root / "loop")
    os.mkfifo(root / "pipe.db")
    server = subprocess.Popen(
        [sys.executable, "-c", START, str(root)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    address = re.match(r"(http://127.0.0.1:(\d+))/\?token=(\S+)", server.stdout.readline())
    assert address is not None
    headers = {"authorization": f"Bearer {address[3]}"}
    with httpx.Client(base_url=address[1], headers=headers, timeout=90) as client:
        victim = Victim(client, root, int(address[2]), address[3])
        await_server(victim)
        run_job(victim, "model.mln", query="Smokes")
        yield victim
    server.terminate()
    server.wait(30)
    server.stdout.close()


def await_server(victim: Victim) -> None:
    for _ in range(200):
        try:
            victim.client.get("/api/about")
        except httpx.ConnectError:
            time.sleep(0.05)
        else:
            return


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """The files beside the folder of the server."""
    paths = [p for p in folder.parent.rglob("*") if not p.is_relative_to(folder)]
    return {str(path): path.read_bytes() if path.is_file() else None for path in paths}


def run_job(victim: Victim, model: str, **options: object) -> dict[str, Any]:
    job = {"command": "infer", "model": model, "data": [], "options": options}
    reply = victim.client.post("/api/jobs", json=job)
    if reply.status_code != 200:
        return {"status": "refused", "error": reply.json()}
    state: dict[str, Any] = reply.json()
    until = time.monotonic() + 80
    while state["status"] in ("queued", "running", "stopping") and time.monotonic() < until:
        time.sleep(0.05)
        state = victim.client.get(f"/api/jobs/{state['id']}").json()
    return state


def read_path(path: str) -> Callable[[Victim], bool]:
    """Ask for a file outside, by a path as it is."""

    def send(victim: Victim) -> bool:
        head = f"GET /api/files/{path} HTTP/1.1\r\nHost: 127.0.0.1:{victim.port}\r\n"
        head += f"Authorization: Bearer {victim.token}\r\nConnection: close\r\n\r\n"
        reply = victim.raw(head.encode("utf-8", "surrogateescape"))
        return b"Secret" not in reply and b"root:" not in reply and b" 200 " not in reply[:20]

    return send


def write_path(path: str) -> Callable[[Victim], bool]:
    def send(victim: Victim) -> bool:
        head = f"PUT /api/files/{path} HTTP/1.1\r\nHost: 127.0.0.1:{victim.port}\r\n"
        head += f"Authorization: Bearer {victim.token}\r\nConnection: close\r\n"
        reply = victim.raw((head + "Content-Length: 4\r\n\r\nevil").encode())
        return b" 200 " not in reply[:20]

    return send


def with_headers(**headers: str) -> Callable[[Victim], bool]:
    """Send a request with other headers; it must be refused."""

    def send(victim: Victim) -> bool:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return victim.send("GET", "/api/files", headers=named) in (401, 403, 421)

    return send


def post(path: str, body: Any) -> Callable[[Victim], bool]:
    """Send JSON, or bytes; the reply must be an error that says why."""

    def send(victim: Victim) -> bool:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = victim.client.post(path, content=content)
        return 400 <= reply.status_code < 500 and "message" in reply.json()

    return send


def check_text(text: str) -> Callable[[Victim], bool]:
    """Check a model; nothing from outside may be in the reply."""

    def send(victim: Victim) -> bool:
        body = {"text": text, "path": "model.mln", "data": []}
        reply = victim.client.post("/api/check", json=body)
        return reply.status_code < 500 and not re.search(r"root:x|Secret\(", reply.text)

    return send


def solve_text(text: str, *wanted: str) -> Callable[[Victim], bool]:
    """Run a model that is too large; the run must end with an error."""

    def send(victim: Victim) -> bool:
        (victim.root / "large.mln").write_text(text)
        state = run_job(victim, "large.mln", query="P")
        return state["status"] == "failed" and state["error"]["code"] != "bug"

    return send


def upload(content: bytes | Iterator[bytes], name: str = "big.db") -> Callable[[Victim], bool]:
    def send(victim: Victim) -> bool:
        try:
            status = victim.send("PUT", f"/api/files/{name}", content=content)
        except (httpx.WriteError, httpx.ReadError):  # the server closed the connection
            return not (victim.root / name).exists()
        return status == 413 and not (victim.root / name).exists()

    return send


def declared_upload(victim: Victim) -> bool:
    """Announce two gigabytes."""
    head = f"PUT /api/files/big.db HTTP/1.1\r\nHost: 127.0.0.1:{victim.port}\r\n"
    head += f"Authorization: Bearer {victim.token}\r\nContent-Length: {2 << 30}\r\n\r\n"
    return b" 413 " in victim.raw(head.encode() + bytes(1000))[:30]


def endless_upload(victim: Victim) -> bool:
    """Send two gigabytes in chunks that nobody announced."""
    chunks = (bytes(1 << 20) for _ in range(2048))
    return upload(chunks, "endless.db")(victim)


def zip_bomb(victim: Victim) -> bool:
    """Half a gigabyte of facts in a file of half a megabyte."""
    fact = b"Smokes(P%06d)\n"
    text = b"".join(fact % (n % 10) for n in range(20_000))
    packed = gzip.compress(text) * 1800
    assert len(packed) < 60 << 20
    (victim.root / "bomb.db.gz").write_bytes(packed)
    body = {"data": ["bomb.db.gz"], "model": None}
    return victim.client.post("/api/data", json=body).status_code < 500


def false_gzip(victim: Victim) -> bool:
    assert (
        victim.send("PUT", "/api/files/false.db.gz", content=b"\x1f\x8b" + os.urandom(300)) == 200
    )
    reply = victim.client.post("/api/data", json={"data": ["false.db.gz"], "model": None})
    return reply.json()["files"][0]["error"] is not None


def false_parquet(victim: Victim) -> bool:
    content = b"PAR1" + os.urandom(400) + b"PAR1"
    assert victim.send("PUT", "/api/files/False.parquet", content=content) == 200
    reply = victim.client.post("/api/data", json={"data": ["False.parquet"], "model": None})
    return reply.json()["files"][0]["error"] is not None


def kill_job(victim: Victim) -> bool:
    """kill -9 of the process of a run."""
    (victim.root / "long.mln").write_text(LONG)
    job = {"command": "infer", "model": "long.mln", "data": [], "options": SLOW}
    state = victim.client.post("/api/jobs", json=job).json()
    until = time.monotonic() + 60
    while state["progress"] is None and time.monotonic() < until:
        time.sleep(0.05)
        state = victim.client.get(f"/api/jobs/{state['id']}").json()
    kill_workers(victim)
    while state["status"] == "running" and time.monotonic() < until:
        time.sleep(0.05)
        state = victim.client.get(f"/api/jobs/{state['id']}").json()
    return state["status"] == "failed" and "signal 9" in state["error"]["message"]


def kill_workers(victim: Victim) -> bool:
    """kill -9 of every worker of this server; the next request gets a new one."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        words = place.read_bytes().split(b"\0") if place.exists() else []
        if b"lapis.web.worker" in words and os.fsencode(victim.root) in words:
            os.kill(int(place.parent.name), signal.SIGKILL)
    return victim.client.post("/api/check", json=CHECK).status_code in (200, 400)


def many_jobs(victim: Victim) -> bool:
    """A hundred runs at once: those that do not fit into the queue are refused."""
    (victim.root / "long.mln").write_text(LONG)
    job = {"command": "infer", "model": "long.mln", "data": [], "options": SLOW}
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: victim.client.post("/api/jobs", json=job), range(100)))
    started = [reply.json()["id"] for reply in found if reply.status_code == 200]
    for run_id in started:
        victim.send("DELETE", f"/api/jobs/{run_id}")
    return 0 < len(started) <= 33 and {reply.status_code for reply in found} == {200, 429}


def slow_readers(victim: Victim) -> bool:
    """Fifty readers that ask for a long reply and never read it."""
    state = run_job(victim, "model.mln", query="Smokes")
    head = f"Host: 127.0.0.1:{victim.port}\r\nAuthorization: Bearer {victim.token}\r\n\r\n"
    with ExitStack() as stack:
        for n in range(50):
            address = ("127.0.0.1", victim.port)
            connection = stack.enter_context(socket.create_connection(address))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            path = "/api/openapi.json" if n % 2 else f"/api/jobs/{state['id']}/events"
            connection.sendall(f"GET {path} HTTP/1.1\r\n{head}".encode() * 4)
        return responds(victim)


def slow_senders(victim: Victim) -> bool:
    """Fifty senders that never finish their request."""
    head = f"POST /api/check HTTP/1.1\r\nHost: 127.0.0.1:{victim.port}\r\n"
    head += f"Authorization: Bearer {victim.token}\r\nContent-Length: 1000\r\n\r\n{{"
    with ExitStack() as stack:
        for _ in range(50):
            address = ("127.0.0.1", victim.port)
            connection = stack.enter_context(socket.create_connection(address))
            connection.sendall(head.encode())
        return responds(victim)


def many_checks(victim: Victim) -> bool:
    """Two hundred checks at once."""
    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(lambda _: victim.client.post("/api/check", json=CHECK), range(200)))
    return {reply.status_code for reply in found} <= {200, 429}


def run_with(**changes: Any) -> Callable[[Victim], bool]:
    job = {"command": "infer", "model": "model.mln", "data": [], "options": {"query": "Smokes"}}
    return post("/api/jobs", job | changes)


def options_fail(**options: Any) -> Callable[[Victim], bool]:
    """Run with options that would leave the folder, or are nonsense; the run must fail."""

    def send(victim: Victim) -> bool:
        state = run_job(victim, "model.mln", **{"query": "Smokes", **options})
        return state["status"] in ("failed", "refused") and state["error"]["code"] != "bug"

    return send


def responds(victim: Victim) -> bool:
    began = time.monotonic()
    with httpx.Client(base_url=victim.client.base_url, timeout=10) as other:
        status = other.get("/api/files", headers=victim.client.headers).status_code
    return status == 200 and time.monotonic() - began < ANSWERS_IN


DEEP = 100_000
CHECK = {"text": MODEL, "path": "model.mln", "data": []}
SLOW = {"query": "Likes", "method": "gibbs", "precision": 1e-7, "max_samples": 10**9}
LONG = (
    f"person = {{{', '.join(f'P{n}' for n in range(40))}}}\nLikes(person, person)\n"
    "0.3 Likes(x, y) ^ Likes(y, z) => Likes(x, z)\n"
)
HUGE = "t = 1000\nP(t, t)\nQ(t, t)\nR(t, t)\n1 P(x, y) ^ Q(y, z) ^ R(z, w) ^ P(w, x) v Q(x, x)\n"

ATTACKS: dict[str, Callable[[Victim], bool]] = {
    # Paths.
    "parent": read_path("../secret.db"),
    "parents": read_path("../../../../../../etc/passwd"),
    "encoded parent": read_path("%2e%2e%2fsecret.db"),
    "twice encoded": read_path("%252e%252e%252fsecret.db"),
    "backslashes": read_path("..%5c..%5csecret.db"),
    "absolute": read_path("/etc/passwd"),
    "encoded absolute": read_path("%2fetc%2fpasswd"),
    "dots inside": read_path("tables/../../secret.db"),
    "null byte": read_path("model.mln%00.db"),
    "newline": read_path("model.mln%0d%0aX-Evil:1"),
    "broken encoding": read_path("%ff%fe"),
    "overlong encoding": read_path("%c0%ae%c0%ae/secret.db"),
    "long path": read_path("a/" * 3000),
    "long name": read_path("a" * 5000),
    "link out": read_path("link.db"),
    "linked folder": read_path("linked/Smokes.csv"),
    "loop of links": read_path("loop"),
    "hidden": read_path(".lapis/worker.log"),
    "a pipe": read_path("pipe.db"),
    "proc": read_path("proc/self/environ"),
    "write parent": write_path("../evil.db"),
    "write encoded": write_path("%2e%2e/evil.db"),
    "write through link": write_path("linked/evil.db"),
    "write hidden": write_path(".lapis/runs/evil"),
    "write absolute": write_path("/tmp/lapis-evil.db"),
    "data outside": run_with(data=["../secret.db"]),
    "data by link": run_with(data=["link.db"]),
    "tables by link": run_with(data=["tables"]),
    "model outside": run_with(model="../secret.mln"),
    "include": check_text('#include "../secret.mln"\n'),
    "include absolute": check_text('#include "/etc/passwd"\n'),
    "include device": check_text('#include "/dev/zero"\n'),
    "include itself": check_text('#include "model.mln"\n' * 500),
    # Who asks.
    "no token": with_headers(authorization=""),
    "wrong token": with_headers(authorization="Bearer wrong"),
    "wrong cookie": with_headers(authorization="", cookie="lapis=1"),
    "foreign host": with_headers(host="evil.example"),
    "rebound host": with_headers(host="evil.example:8765"),
    "foreign origin": with_headers(origin="https://evil.example"),
    "null origin": with_headers(origin="null"),
    "cross site": with_headers(sec_fetch_site="cross-site"),
    "wrong exchange": lambda victim: victim.send("GET", "/?token=wrong") == 401,
    # Sizes.
    "announced upload": declared_upload,
    "endless upload": endless_upload,
    "zip bomb": zip_bomb,
    "false gzip": false_gzip,
    "false parquet": false_parquet,
    "deep json": post("/api/check", b'{"text": ' + b"[" * DEEP),
    "huge number": post("/api/jobs/000000000000/rows", {**VIEW, "offset": 10**400}),
    "large json": post("/api/check", b" " * (17 << 20)),
    "deep formula": check_text("P(t)\n1 " + "(" * DEEP + "P(x)" + ")" * DEEP),
    "deep negation": check_text("P(t)\n1 " + "!" * DEEP + "P(x)"),
    "long formula": check_text("P(t)\n1 " + " v ".join(["P(x)"] * 20_000)),
    "grounding of 10^12": solve_text(HUGE),
    # Options and processes.
    "engine": options_fail(engine="duckdb:/tmp/lapis-evil.duckdb"),
    "output": options_fail(output="/tmp/lapis-evil.parquet"),
    "negative limit": options_fail(time_limit=-1),
    "nonsense option": options_fail(method=["gibbs"]),
    "kill -9 of a run": kill_job,
    "kill -9 of all workers": kill_workers,
    "100 runs": many_jobs,
    "200 checks": many_checks,
    "slow readers": slow_readers,
    "slow senders": slow_senders,
}


def test_there_are_sixty() -> None:
    assert len(ATTACKS) >= 60


@pytest.mark.parametrize("name", ATTACKS)
def test_attack(victim: Victim, name: str) -> None:
    before = snapshot(victim.root)
    assert ATTACKS[name](victim)
    assert responds(victim)
    assert snapshot(victim.root) == before
    assert not list(Path("/tmp").glob("lapis-evil*"))

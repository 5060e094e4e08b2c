"""The server of the workbench: routes, the token, checks of `Host` and `Origin`, headers.

It parses nothing but the JSON of requests; files are read by workers. The address that is printed
holds a token. It is exchanged for a cookie that browsers send to this site only. A request from
another site, or for another host, is refused before anything else is looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

import lapis
from lapis.errors import LapisError
from lapis.web import gallery
from lapis.web.contract import ENDPOINTS, AboutReply, Endpoint, WorkspaceState
from lapis.web.files import Folder
from lapis.web.jobs import Jobs
from lapis.web.pool import Helper, RefusedByWorker
from lapis.web.replies import error_reply, plain_error
from lapis.web.schema import openapi, read_request

PAGE = Path(__file__).parent / "dist"
MAX_JSON = 16 << 20  # bytes of a request
MAX_STREAMS = 40  # of events at once
READ_SECONDS = 30.0  # between pieces of a body
STATUS = {
    "no-file": 404, "no-run": 404, "no-answer": 404, "too-large": 413, "busy": 429, "path": 403,
    "bug": 500, "slow": 408,
}  # fmt: skip
UNREAD = (408, 413)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{nonce}; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY.format(nonce=""),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
NOT_BUILT = "the page is not built: run `make web`, or install a wheel"


@dataclass
class Settings:
    """How a server is started."""

    root: Path
    host: str = "127.0.0.1"
    port: int = 8765
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    max_upload: int = 200 << 20
    max_running: int = 2
    max_seconds: float = 3600.0
    read_seconds: float = 40.0  # for a look at data
    max_memory: int = 4 << 30
    model: str | None = None
    data: tuple[str, ...] = ()
    page: Path = PAGE

    @property
    def address(self) -> str:
        host = "127.0.0.1" if self.is_open else self.host
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}/?token={self.token}"

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach the server."""
        return self.host in ("0.0.0.0", "::")

    def accepts_host(self, host: str) -> bool:
        """Return whether a request names this server, not a name that another site controls."""
        name, _, port = host.rpartition(":")
        if port != str(self.port):
            return False
        name = name.strip("[]")
        if name in ("localhost", "127.0.0.1", "::1", self.host):
            return True
        with contextlib.suppress(ValueError):
            return self.is_open and bool(ipaddress.ip_address(name))
        return False

    def accepts_origin(self, origin: str) -> bool:
        parts = urlsplit(origin)
        return parts.scheme == "http" and self.accepts_host(parts.netloc)


class Guard:
    """Refuse requests from other sites and without the token; add headers to every reply."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings
        self.cookie = f"lapis-{settings.port}"
        self.secret = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:  # noqa: ANN401  (of ASGI)
            if message["type"] == "http.response.start":
                headers = message.setdefault("headers", [])
                known = {name.lower() for name, _ in headers}
                headers += [
                    (name.lower().encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.lower().encode() not in known
                ]
            await send(message)

        reply = self.refusal(scope)
        await (reply or self.app)(scope, receive, send_with_headers)

    def refusal(self, scope: Scope) -> Response | None:
        """Return the reply to a request that is not let in."""
        headers = Headers(scope=scope)
        if not self.settings.accepts_host(headers.get("host", "")):
            return refuse(421, "host", "this server has another name")
        origin = headers.get("origin")
        if origin is not None and not self.settings.accepts_origin(origin):
            return refuse(403, "origin", "requests of other sites are refused")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return refuse(403, "origin", "requests of other sites are refused")
        request = Request(scope)
        if scope["path"] == "/" and "token" in request.query_params:
            return self.exchange(request)
        if not self.is_known(request):
            return refuse(401, "token", "open the address that `lapis serve` printed")
        return None

    def is_known(self, request: Request) -> bool:
        cookie = request.cookies.get(self.cookie, "")
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        return same(cookie, self.secret) or same(bearer, self.settings.token)

    def exchange(self, request: Request) -> Response:
        """Set the cookie for the token, and remove the token from the address."""
        if not same(request.query_params["token"], self.settings.token):
            return refuse(401, "token", "this token is not valid; see what `lapis serve` printed")
        reply = RedirectResponse("/", status_code=303)
        reply.set_cookie(self.cookie, self.secret, httponly=True, samesite="strict", path="/")
        return reply


def same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode())


def refuse(status: int, code: str, message: str) -> Response:
    return JSONResponse(plain_error(code, message), status_code=status)


class Workbench:
    """The endpoints."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.folder = Folder(settings.root)
        root, memory = self.folder.root, settings.max_memory
        self.editor, self.reader = Helper(root, memory), Helper(root, memory)
        self.jobs = Jobs(self.folder, settings.max_running, settings.max_seconds, memory)
        self.num_streams = 0
        self.tasks: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Start workers ahead; end all of them with the server."""
        self.tasks = {
            asyncio.create_task(self.warm_up(self.editor)),
            asyncio.create_task(self.warm_up(self.reader)),
            asyncio.create_task(self.jobs.prepare()),
        }
        try:
            yield
        finally:
            for task in self.tasks:
                task.cancel()
            await self.jobs.close()
            await self.editor.close()
            await self.reader.close()

    async def warm_up(self, helper: Helper) -> None:
        with contextlib.suppress(LapisError):
            await helper.call("warm", None, seconds=120)

    # Models and data.

    async def about(self, _: Request) -> AboutReply:
        from lapis.methods import methods_of

        tasks = ("infer", "map", "objective", "optimizer", "structure", "lift", "field infer")
        return {
            "version": lapis.__version__,
            "folder": self.folder.root.name,
            "methods": {task: list(methods_of(task)) for task in tasks},
            "workspace": self.workspace(),
        }

    def workspace(self) -> WorkspaceState:
        """Return the saved workspace, or that of the command line."""
        found: WorkspaceState = {
            "model": None, "data": [], "query": [], "evidence": [], "command": "infer",
            "options": {},
        }  # fmt: skip
        with contextlib.suppress(OSError, LapisError, ValueError):
            content = (self.folder.root / "workspace.json").read_bytes()
            found = cast(WorkspaceState, read_request(content, WorkspaceState))
        if self.settings.model is not None:
            found |= {"model": self.settings.model, "data": list(self.settings.data)}
        return found

    async def save_workspace(self, request: Any) -> dict[str, bool]:  # noqa: ANN401
        self.settings.model = None
        self.folder.write_text("workspace.json", json.dumps(request, indent=1) + "\n")
        return {"done": True}

    async def check(self, request: Any) -> Any:  # noqa: ANN401  (JSON)
        self.folder.locate(request["path"])
        return await self.editor.call("check", request)

    async def data(self, request: Any) -> Any:  # noqa: ANN401
        return await self.reader.call("data", request, self.settings.read_seconds)

    async def columns(self, request: Any) -> Any:  # noqa: ANN401
        return await self.reader.call("columns", request)

    async def map_columns(self, request: Any) -> Any:  # noqa: ANN401
        return await self.reader.call("map_columns", request, self.settings.read_seconds)

    async def rename(self, request: Any) -> Any:  # noqa: ANN401
        return await self.reader.call("rename", request)

    async def live(self, request: Any) -> Any:  # noqa: ANN401
        return await self.editor.call("live", request, seconds=12)

    async def plan(self, request: Any) -> Any:  # noqa: ANN401
        return await self.reader.call("plan", request, seconds=30)

    # Runs.

    async def start_job(self, request: Any) -> Any:  # noqa: ANN401
        for path in (request["model"], *request["data"]):
            self.folder.existing(path)
        return self.jobs.start(request).state

    async def job_list(self, _: Request) -> Any:  # noqa: ANN401
        return self.jobs.listed()

    async def job(self, request: Request) -> Any:  # noqa: ANN401
        return self.run_of(request).state

    def run_of(self, request: Request) -> Any:  # noqa: ANN401  (a Run)
        return self.jobs.find(request.path_params["id"])

    async def events(self, request: Request) -> Response:
        """Stream states of a run."""
        run = self.run_of(request)
        if self.num_streams >= MAX_STREAMS:
            return refuse(429, "busy", "too many streams at once")
        self.num_streams += 1

        async def stream() -> AsyncIterator[str]:
            try:
                async for event in self.jobs.events(run):
                    yield event
            finally:
                self.num_streams -= 1

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def stop(self, request: Any, http: Request) -> Any:  # noqa: ANN401
        run = self.run_of(http)
        self.jobs.stop(run, request["now"])
        return run.state

    async def forget(self, request: Request) -> dict[str, bool]:
        self.jobs.forget(self.run_of(request))
        return {"done": True}

    async def result(self, request: Request) -> Response:
        place = self.run_of(request).place / "result.json"
        if not place.is_file():
            raise LapisError("this run has no answer", code="no-answer")
        return FileResponse(place, media_type="application/json")

    async def rows(self, request: Any, http: Request) -> Any:  # noqa: ANN401
        given = {"view": request, "place": str(self.run_of(http).place)}
        return await self.reader.call("rows", given)

    async def figures(self, request: Any, http: Request) -> Any:  # noqa: ANN401
        given = {"view": request, "place": str(self.run_of(http).place)}
        return await self.reader.call("figures", given)

    async def why(self, request: Any, http: Request) -> Any:  # noqa: ANN401
        return await self.jobs.explain(self.run_of(http), request["atom"])

    async def export(self, request: Request) -> Response:
        """Send all rows as a file."""
        run, kind = self.run_of(request), request.query_params.get("format", "csv")
        target = self.folder.hidden / "tmp" / f"{secrets.token_hex(8)}.{kind[:8]}"
        if not kind.isalpha():
            raise LapisError("there is no such format", code="request")
        given = {"place": str(run.place), "format": kind, "target": str(target)}
        await self.reader.call("export", given, seconds=120)

        async def remove() -> None:
            target.unlink(missing_ok=True)

        from starlette.background import BackgroundTask

        name = f"{run.state['command']}-{run.state['id']}.{kind}"
        return FileResponse(target, filename=name, background=BackgroundTask(remove))

    async def drawing(self, request: Request) -> Response:
        place = self.run_of(request).place / "drawing.svg"
        if not place.is_file():
            raise LapisError("this run has no drawing", code="no-answer")
        sandbox = {"Content-Security-Policy": "default-src 'none'; sandbox"}
        return FileResponse(place, media_type="image/svg+xml", headers=sandbox)

    # Files.

    async def files(self, _: Request) -> Any:  # noqa: ANN401
        listed = await asyncio.to_thread(self.folder.listed)
        return {"folder": self.folder.root.name, "files": listed}

    async def file(self, request: Request) -> Response:
        place = self.folder.existing(request.path_params["path"])
        if place.is_dir():
            raise LapisError("this is a folder", code="no-file")
        sandbox = {"Content-Security-Policy": "default-src 'none'; sandbox"}
        return FileResponse(place, media_type="application/octet-stream", headers=sandbox)

    async def save_file(self, request: Request) -> Any:  # noqa: ANN401
        limit, path = self.settings.max_upload, request.path_params["path"]
        self.folder.locate(path)
        size = await self.folder.write(path, limited_body(request, limit), limit)
        return {"path": path, "size": size}

    async def delete_file(self, request: Request) -> dict[str, bool]:
        self.folder.delete(request.path_params["path"])
        return {"done": True}

    # The gallery.

    async def gallery(self, _: Request) -> Any:  # noqa: ANN401
        return gallery.list_gallery()

    async def open_gallery(self, request: Request) -> Any:  # noqa: ANN401
        name = request.path_params["name"]
        await asyncio.to_thread(gallery.copy_problem, name, self.folder)
        return gallery.open_problem(name, f"{name}/")


def too_large(limit: int) -> LapisError:
    from lapis.web.files import too_big

    return too_big(limit)


async def limited_body(request: Request, limit: int) -> AsyncIterator[bytes]:
    """Yield a body piece by piece; raise if it is too large or too slow."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limit:
        raise too_large(limit)
    stream, size = request.stream().__aiter__(), 0
    while True:
        try:
            chunk = await asyncio.wait_for(anext(stream), READ_SECONDS)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise LapisError("the request is too slow", code="slow") from None
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        yield chunk


Handler = Callable[..., Awaitable[Any]]


def as_route(endpoint: Endpoint, handler: Handler) -> Route:
    """Build the route of an endpoint: request and errors as JSON."""

    async def answer(http: Request) -> Response:
        try:
            if endpoint.request is None:
                found = await handler(http)
            else:
                body = b"".join([chunk async for chunk in limited_body(http, MAX_JSON)])
                request = read_request(body, endpoint.request)
                found = await (handler(request, http) if "{" in endpoint.path else handler(request))
        except LapisError as error:
            return error_response(error)
        except ClientDisconnect:
            return Response(status_code=499)
        return found if isinstance(found, Response) else JSONResponse(found)

    path = endpoint.path.replace("{path}", "{path:path}")
    return Route(path, answer, methods=[endpoint.method])


def error_response(error: LapisError) -> Response:
    reply = error.reply if isinstance(error, RefusedByWorker) else error_reply(error)
    status = STATUS.get(reply["code"], 400)
    headers = {"Connection": "close"} if status in UNREAD else None  # the rest is not read
    return JSONResponse(reply, status_code=status, headers=headers)


def build_app(settings: Settings) -> ASGIApp:
    """Build the application of a folder.

    Parameters
    ----------
    settings
        The folder, the token and the limits.

    Returns
    -------
    ASGIApp
        The application.

    Raises
    ------
    LapisError
        If the folder cannot be used.
    """
    workbench = Workbench(settings)
    names = {"jobs": "job_list"}
    routes: list[Any] = [
        as_route(endpoint, getattr(workbench, names.get(endpoint.name, endpoint.name)))
        for endpoint in ENDPOINTS
    ]

    description = json.dumps(openapi())

    async def describe(_: Request) -> Response:
        return Response(description, media_type="application/json")

    async def no_page(_: Request) -> Response:
        return PlainTextResponse(NOT_BUILT + "\n", status_code=503)

    async def page(_: Request) -> Response:
        """Send the page; the editor's own styles carry the nonce of the reply."""
        nonce = secrets.token_urlsafe(16)
        text = (settings.page / "index.html").read_text(encoding="utf-8")
        policy = {"Content-Security-Policy": POLICY.format(nonce=f" 'nonce-{nonce}'")}
        return HTMLResponse(text.replace("__NONCE__", nonce), headers=policy)

    routes.append(Route("/api/openapi.json", describe))
    if (settings.page / "index.html").is_file():
        routes += [Route("/", page), Mount("/", StaticFiles(directory=settings.page))]
    else:
        routes.append(Route("/", no_page))
    app = Starlette(routes=routes, lifespan=workbench.lifespan)
    app.state.workbench = workbench
    return Guard(app, settings)

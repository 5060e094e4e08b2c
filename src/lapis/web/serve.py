"""`lapis serve`: start the server of the workbench and open its page."""

from __future__ import annotations

import socket
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from lapis.errors import LapisError
from lapis.registry.options import ServeOptions
from lapis.runtime.limits import machine_memory

MEMORY_SHARE = 0.6  # of the machine, for one run
HEADER_SECONDS = 5


def serve(model: Path | None, data: Sequence[Path], options: ServeOptions) -> None:
    """Serve the workbench until it is interrupted.

    Parameters
    ----------
    model
        The model that the page opens with.
    data
        Its data.
    options
        Address and limits.

    Raises
    ------
    LapisError
        If the extra is not installed, the page is not built or the port is taken.
    """
    try:
        import uvicorn

        from lapis.web.server import NOT_BUILT, Settings, build_app
    except ImportError:
        raise LapisError(
            "the workbench needs starlette and uvicorn, which are not installed",
            code="missing-package",
            hint="pip install 'lapis-mln[web]'",
        ) from None
    root = find_root(options.folder, model)
    listener = listen(options.host, options.port)
    settings = Settings(
        root,
        host=options.host,
        port=listener.getsockname()[1],
        max_upload=options.max_upload,
        max_running=options.jobs,
        max_seconds=options.run_seconds,
        max_memory=options.run_memory or int(MEMORY_SHARE * machine_memory()),
        model=None if model is None else inside(root, model),
        data=tuple(inside(root, path) for path in data),
    )
    if not (settings.page / "index.html").is_file():
        raise LapisError(NOT_BUILT, code="no-page")
    app = build_app(settings)
    print(f"workbench of {settings.root}: {settings.address}", flush=True)
    if settings.is_open:
        print("warning: other machines can reach it; do not share the address", file=sys.stderr)
    if options.browser:
        webbrowser.open(settings.address)
    config = uvicorn.Config(
        app, log_level="warning", lifespan="on", ws="none", timeout_keep_alive=HEADER_SECONDS,
        limit_concurrency=400, timeout_graceful_shutdown=2, server_header=False,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listener])


def find_root(folder: Path | None, model: Path | None) -> Path:
    """Return the folder of the workbench: the one given, that of the model, or this one."""
    root = folder or (model.parent if model is not None else Path())
    if not root.is_dir():
        raise LapisError(f"{root}: no such folder", code="path")
    return root.resolve()


def inside(root: Path, path: Path) -> str:
    """Return a path relative to the root."""
    if not path.exists():
        raise LapisError(f"cannot read {path}: No such file or directory", code="unreadable-file")
    found = path.resolve()
    if not found.is_relative_to(root):
        raise LapisError(
            f"{path}: is not in the folder of the workbench, {root}",
            code="path",
            hint="start with --folder FOLDER, a folder that holds all files",
        )
    return found.relative_to(root).as_posix()


def listen(host: str, port: int) -> socket.socket:
    """Open the port; if it is taken and none was asked for, any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in (port or DEFAULT_PORT, *([] if port else [0])):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
        except OSError as error:
            listener.close()
            reason = error.strerror or str(error)
            failure = LapisError(f"cannot serve at {host}:{candidate}: {reason}", code="address")
        else:
            return listener
    raise failure


DEFAULT_PORT = 8765

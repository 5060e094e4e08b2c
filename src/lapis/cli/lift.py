"""The command `lapis lift`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from lapis.cli.options import takes
from lapis.data.database import Database


@takes("lift")
def lift(
    model: Path,
    worlds: Sequence[Database],
    tree: bool,
    draw: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """log Z and expected counts without grounding, by a first-order circuit."""
    from lapis.api import lift as lift_model
    from lapis.cli.render import present

    found = lift_model(model, worlds or None, **options)
    if draw is not None:
        found.draw(draw)
    if tree and not as_json:
        typer.echo(found.tree)
    present(found, as_json)

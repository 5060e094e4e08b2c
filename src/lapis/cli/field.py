"""`lapis field …`: recursive random fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lapis.cli.options import takes
from lapis.data.database import Database

Worlds = Sequence[Database]


@takes("field infer")
def infer(field: Path, worlds: Worlds, as_json: bool, **options: Any) -> None:
    """Marginal probabilities of the unknown query atoms of a field."""
    from lapis import fields
    from lapis.cli.progress import progress_bar
    from lapis.cli.render import present

    with progress_bar("sampling") as progress:
        answer = fields.infer(field, worlds or None, progress=progress, **options)
    present(answer, as_json)


@takes("field map")
def map_(field: Path, worlds: Worlds, as_json: bool, **options: Any) -> None:
    """The most likely world of a field: proven where few atoms are unknown."""
    from lapis import fields
    from lapis.cli.progress import progress_bar
    from lapis.cli.render import present

    with progress_bar("most likely world") as progress:
        world = fields.map(field, worlds or None, progress=progress, **options)
    present(world, as_json)


@takes("field score")
def score(field: Path, worlds: Worlds, as_json: bool, **options: Any) -> None:
    """How well a field explains data: (pseudo-)log-likelihood."""
    from lapis import fields
    from lapis.cli.render import present

    present(fields.score(field, worlds or None, **options), as_json)


FIELD = (infer, map_, score)

"""`lapis field …`: recursive random fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapis.cli.options import takes
from lapis.errors import LapisError

if TYPE_CHECKING:
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


@takes("field learn")
def learn(field: Path, worlds: Worlds, output: Path | None, as_json: bool, **options: Any) -> None:
    """Learn the weights of a field from data."""
    from lapis import fields
    from lapis.cli.progress import progress_bar
    from lapis.cli.render import present
    from lapis.data.whole_path import require_writable

    if not worlds:
        raise LapisError("nothing to learn from", code="no-data", hint="name data files")
    require_writable(output)
    with progress_bar("learning") as progress:
        fit = fields.learn(field, worlds, progress=progress, **options)
    if output is not None:
        fit.save(output)
    present(fit, as_json)


@takes("field score")
def score(field: Path, worlds: Worlds, as_json: bool, **options: Any) -> None:
    """How well a field explains data: (pseudo-)log-likelihood, CLL, AUC-PR."""
    from lapis import fields
    from lapis.cli.progress import progress_bar
    from lapis.cli.render import present

    with progress_bar("predicting") as progress:
        found = fields.score(field, worlds or None, progress=progress, **options)
    present(found, as_json)


@takes("field from")
def from_(model: Path, output: Path | None, **options: Any) -> None:
    """The field that mirrors the connectives and quantifiers of a Markov logic model."""
    from lapis import fields

    title = f"from {model}, sharpness {options['sharpness']:g}"
    write_text(fields.print_field(fields.from_model(model, **options), title), output)


@takes("field extract")
def extract(field: Path, output: Path | None, threshold: float) -> None:
    """The strongest parts of a field as Markov logic formulas, an approximation."""
    from lapis import fields
    from lapis.language.model_text import print_model

    title = f"extracted from {field}: what is weaker than {threshold:g} is left out"
    write_text(print_model(fields.extract(field, threshold=threshold), title=title), output)


@takes("field draw")
def draw(field: Path, output: Path | None) -> None:
    """A picture of a field: the root above, atoms below, weights at the edges."""
    from lapis import fields

    path = field.with_suffix(".png") if output is None else output
    fields.draw(field, path)
    print(f"drawn to {path}")


def write_text(text: str, output: Path | None) -> None:
    """To a file, which appears whole or not at all, or to the terminal."""
    from lapis.data.whole_path import whole_path

    if output is None:
        print(text, end="")
        return
    with whole_path(output) as place:
        place.write_text(text, encoding="utf-8")


FIELD = (from_, infer, map_, learn, score, extract, draw)

"""`lapis field …`: recursive random fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapis.cli.options import takes
from lapis.errors import LapisError

if TYPE_CHECKING:
    from lapis.data.database import Database
    from lapis.results.result import Result

    Worlds = Sequence[Database]


@takes("field infer", "sampling")
def infer(field: Path, worlds: Worlds, **options: Any) -> Result:
    """Marginal probabilities of the unknown query atoms of a field."""
    from lapis import fields

    return fields.infer(field, worlds or None, **options)


@takes("field map", "most likely world")
def map_(field: Path, worlds: Worlds, **options: Any) -> Result:
    """The most likely world of a field: proven where few atoms are unknown."""
    from lapis import fields

    return fields.map(field, worlds or None, **options)


@takes("field learn", "learning")
def learn(field: Path, worlds: Worlds, output: Path | None, **options: Any) -> Result:
    """Learn the weights of a field from data."""
    from lapis import fields
    from lapis.data.whole_path import require_writable

    if not worlds:
        raise LapisError("nothing to learn from", code="no-data", hint="name data files")
    require_writable(output)
    fit = fields.learn(field, worlds, **options)
    if output is not None:
        fit.save(output)
    return fit


@takes("field score", "predicting")
def score(field: Path, worlds: Worlds, **options: Any) -> Result:
    """How well a field explains data: (pseudo-)log-likelihood, CLL, AUC-PR."""
    from lapis import fields

    return fields.score(field, worlds or None, **options)


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

    path = field.with_suffix(".svg") if output is None else output
    fields.draw(field).save(path)
    print(f"drawn to {path}")


def write_text(text: str, output: Path | None) -> None:
    """To a file, which appears whole or not at all, or to the terminal."""
    from lapis.data.whole_path import write_whole

    if output is None:
        print(text, end="")
    else:
        write_whole(output, text)


FIELD = (from_, infer, map_, learn, score, extract, draw)

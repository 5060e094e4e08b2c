"""`lapis field …`: recursive random fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapis.cli.command_line import FIELD, MODEL, WORLDS, command, shown_if_unsaved
from lapis.errors import LapisError
from lapis.registry.option_field import keywords
from lapis.registry.options import (
    FieldDrawOptions,
    FieldExtractOptions,
    FieldFromOptions,
    FieldInferOptions,
    FieldLearnOptions,
    FieldMapOptions,
    FieldScoreOptions,
)

if TYPE_CHECKING:
    from lapis.data.database import Database
    from lapis.results.result import Result
    from lapis.runtime.progress import Report

    Worlds = Sequence[Database] | None


@command("field infer", FieldInferOptions, FIELD, WORLDS, bar="sampling")
def infer(
    field: Path, worlds: Worlds, options: FieldInferOptions, progress: Report | None
) -> Result:
    """Infer marginal probabilities of the unknown query atoms of a field."""
    from lapis import fields

    return fields.infer(field, worlds, progress=progress, **keywords(options))


@command("field map", FieldMapOptions, FIELD, WORLDS, bar="most likely world")
def map_(field: Path, worlds: Worlds, options: FieldMapOptions, progress: Report | None) -> Result:
    """Find the most likely world of a field; proven if few atoms are unknown."""
    from lapis import fields

    return fields.map(field, worlds, progress=progress, **keywords(options))


@command("field learn", FieldLearnOptions, FIELD, WORLDS, bar="learning")
def learn(
    field: Path, worlds: Worlds, options: FieldLearnOptions, progress: Report | None
) -> Result:
    """Learn the weights of a field from data."""
    from lapis import fields

    if worlds is None:
        raise LapisError("nothing to learn from", code="no-data", hint="name data files")
    fit = fields.learn(field, worlds, progress=progress, **keywords(options))
    fit.require_iteration()
    if options.output is not None:
        with shown_if_unsaved(fit, options.as_json):
            fit.save(options.output)
    return fit


@command("field score", FieldScoreOptions, FIELD, WORLDS, bar="predicting")
def score(
    field: Path, worlds: Worlds, options: FieldScoreOptions, progress: Report | None
) -> Result:
    """Score a field on data: (pseudo-)log-likelihood, CLL, AUC-PR, AUC-ROC."""
    from lapis import fields

    return fields.score(field, worlds, progress=progress, **keywords(options))


@command("field from", FieldFromOptions, MODEL)
def from_(model: Path, options: FieldFromOptions) -> None:
    """Build the field that mirrors the connectives and quantifiers of a Markov logic model."""
    from lapis import fields

    title = f"from {model}, sharpness {options.sharpness:g}"
    field = fields.from_model(model, **keywords(options))
    text = fields.print_field(field, title)
    figures = {"parfeatures": len(field.parfeatures), "weights": len(field.weights)}
    write_text(text, options, {"field": text, **figures})


@command("field extract", FieldExtractOptions, FIELD)
def extract(field: Path, options: FieldExtractOptions) -> None:
    """Approximate a field by Markov logic formulas of its strongest parts."""
    from lapis import fields
    from lapis.language.printer import print_model

    threshold = options.threshold
    title = f"extracted from {field}; parts weaker than {threshold:g} are left out"
    found = fields.to_model(field, threshold=threshold)
    text = print_model(found, title=title)
    rules = [{"formula": rule.text, "weight": rule.weight} for rule in found.rules]
    write_text(text, options, {"model": text, "formulas": rules})


@command("field draw", FieldDrawOptions, FIELD)
def draw(field: Path, options: FieldDrawOptions) -> None:
    """Draw a field: the root above, atoms below, weights at the edges."""
    from lapis import fields
    from lapis.cli.render import print_json

    path = field.with_suffix(".svg") if options.output is None else options.output
    drawn = fields.draw(field)
    drawn.save(path)
    if options.as_json:
        sizes = {"nodes": len(drawn.nodes), "edges": len(drawn.edges)}
        print_json({"output": str(path), **sizes})
    else:
        print(f"drawn to {path}")


def write_text(
    text: str, options: FieldFromOptions | FieldExtractOptions, document: dict[str, Any]
) -> None:
    """Write a text atomically to a file, or print it if there is none; or print the document.

    A text that cannot be written is printed.
    """
    from lapis.cli.render import print_json
    from lapis.data.atomic_write import write_whole

    output = options.output
    if output is not None:
        try:
            write_whole(output, text)
        except LapisError:
            print(text, end="")
            raise
    if options.as_json:
        print_json({**document, "output": None if output is None else str(output)})
    elif output is None:
        print(text, end="")

"""`lapis recipe …`: from tables to an answer, with a model and data that can be run again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lapis.cli.command_line import Argument, command, shown_if_unsaved
from lapis.errors import LapisError
from lapis.registry.options import ClassifyOptions, LinkOptions, RecipeOptions, ResolveOptions

if TYPE_CHECKING:
    from lapis.data.database import Database
    from lapis.recipes.recipe_result import RecipeResult
    from lapis.results.result import Result
    from lapis.runtime.progress import Report

TABLES = Argument(
    "tables", "TABLE", "One or two tables of records: .csv, .csv.gz or .parquet.", many=True
)


def save_recipe(result: RecipeResult, options: RecipeOptions) -> RecipeResult:
    """Write the folder of a recipe's result, if one is named; return the result to be shown."""
    if options.output is not None:
        with shown_if_unsaved(result, options.as_json):
            result.save(options.output)
    return result


def check_recipe(options: RecipeOptions) -> None:
    """Raise before the work if the folder of the result exists."""
    from lapis.recipes.recipe_result import check_folder

    if options.output is not None:
        check_folder(options.output)


@command("recipe resolve", ResolveOptions, TABLES, bar="resolving")
def resolve(
    tables: Sequence[Path] | None, options: ResolveOptions, progress: Report | None
) -> Result:
    """Find the records of one table, or of two, that are of the same entity."""
    from lapis.recipes.entity_resolution import count_pairs, run_resolve

    if not tables or len(tables) > 2:
        raise LapisError("name one table or two", code="recipe-tables", hint="see --help")
    left, right = tables[0], tables[1] if len(tables) == 2 else None
    if options.count:
        return count_pairs(
            left, right, blocking=options.blocking, id_column=options.id_column,
            max_pairs=options.max_pairs,
        )  # fmt: skip
    check_recipe(options)
    check_pair(options)
    if options.plot is not None:
        from lapis.results.plots import check_picture

        check_picture(options.plot)
    found = run_resolve(left, right, options.labels, options, progress)
    if options.plot is not None:
        with shown_if_unsaved(found, options.as_json):
            found.plot(options.plot)
    save_recipe(found, options)
    return found.explain(*options.explain) if options.explain else found


def check_pair(options: ResolveOptions) -> None:
    """Raise if not two ids are to be explained."""
    if options.explain and len(options.explain) != 2:
        raise LapisError(
            f"--explain takes two ids, not {len(options.explain)}",
            code="option-value",
            hint="as in --explain R1,R2",
        )


ITEMS = Argument("items", "ITEMS", "A table with a row for each item (.csv, .csv.gz, .parquet).")


@command("recipe classify", ClassifyOptions, ITEMS, bar="classifying")
def classify(items: Path, options: ClassifyOptions, progress: Report | None) -> Result:
    """Predict the classes of items from labelled items, features and links."""
    from lapis.recipes.classify import run_classify
    from lapis.results.plots import check_picture

    check_recipe(options)
    if options.plot is not None:
        check_picture(options.plot)
    found = run_classify(items, list(options.features), list(options.links), options, progress)
    shown = found.explain(options.explain) if options.explain is not None else found
    draw_recipe(shown, options.plot, options.as_json)
    save_recipe(found, options)
    return shown


FACTS = Argument(
    "facts", "FACTS", "A table with the columns head, relation and tail, or a .db file."
)


@command("recipe link", LinkOptions, FACTS, bar="learning rules")
def link(facts: Path, options: LinkOptions, progress: Report | None) -> Result:
    """Learn rules that predict the facts of relations, and complete them."""
    from lapis.recipes.link import run_link
    from lapis.results.plots import check_picture

    check_recipe(options)
    if options.plot is not None:
        check_picture(options.plot)
    parts = options.explain.split(",") if options.explain is not None else []
    if parts and len(parts) != 3:
        raise LapisError(
            f"--explain takes HEAD,RELATION,TAIL, not {options.explain!r}", code="option-value"
        )
    tables = [open_facts(path) for path in (facts, options.valid, options.test)]
    found = run_link(tables[0] or facts, tables[1], tables[2], options, progress)
    shown = found.explain(*parts) if parts else found
    draw_recipe(shown, options.plot, options.as_json)
    save_recipe(found, options)
    return shown


def open_facts(path: Path | None) -> Path | Database | None:
    """Read a .db file; return the path of a table as it is."""
    if path is None or not path.name.endswith((".db", ".db.gz")):
        return path
    from lapis.data.database import Database

    return Database.read(path)


def draw_recipe(shown: Result, path: Path | None, as_json: bool) -> None:
    """Write the picture of a result or of an explanation, if one is named."""
    if path is None:
        return
    from lapis.results.plots import save_picture

    with shown_if_unsaved(shown, as_json):
        picture = shown.plot()  # type: ignore[attr-defined]  # results of recipes have one
        save_picture(getattr(picture, "figure", picture), path)

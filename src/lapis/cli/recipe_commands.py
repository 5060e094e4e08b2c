"""`lapis recipe …`: from tables to an answer, with a model and data that can be run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lapis.cli.command_line import shown_if_unsaved

if TYPE_CHECKING:
    from lapis.recipes.recipe_result import RecipeResult
    from lapis.registry.options import RecipeOptions


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

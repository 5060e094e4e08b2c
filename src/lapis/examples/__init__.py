"""Small models with data, shipped with the package."""

from __future__ import annotations

from importlib.resources import files


def example_path(name: str) -> str:
    """The path of an example file.

    >>> example_path("smokers.mln").endswith("smokers.mln")
    True
    """
    return str(files("lapis.examples").joinpath(name))

"""Small models with data, and the template of a project, shipped with the package."""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files
from pathlib import Path

from lapis.errors import LapisError

TEMPLATE_SUFFIX = ".txt"  # of tests in the template, which are no tests of Lapis


def example_path(name: str) -> str:
    """The path of an example file.

    >>> example_path("smokers.mln").endswith("smokers.mln")
    True
    """
    return str(files("lapis.examples").joinpath(name))


def copy_template(folder: Path) -> list[Path]:
    """Copy the template of a project to a new folder; return its files.

    Raises
    ------
    LapisError
        If the folder exists or cannot be created.
    """
    if folder.exists():
        raise LapisError(
            f"{folder}: exists already",
            code="file-exists",
            hint="name a folder that does not exist",
        )
    partial = folder.with_name(f".{folder.name}.partial")  # renamed when it is whole
    written = []
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        with as_file(files("lapis.examples").joinpath("template")) as template:
            for path in sorted(path for path in template.rglob("*") if path.is_file()):
                name = path.relative_to(template)
                if name.suffix == TEMPLATE_SUFFIX:
                    name = name.with_suffix("")
                (partial / name).parent.mkdir(exist_ok=True)
                (partial / name).write_bytes(path.read_bytes())
                written.append(folder / name)
        partial.rename(folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise LapisError(
            f"{folder}: cannot be written: {error.strerror}", code="unwritable"
        ) from None
    return written

"""The base class of all results: frames, text, HTML and JSON from columns, views and a summary.

Frames (pandas, polars, Arrow) hold the `columns`; text, HTML and the command line show the `views`
(tables of texts, drawn as plain text or HTML by `runtime/views.py` and with rich in
`cli/render.py`); JSON is the `document`, whose long lists are written one entry after another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lapis.errors import LapisError
from lapis.results.columns import Column, as_array, as_arrow, as_polars, with_nulls
from lapis.runtime.views import View, as_text, draw_html, escape, format_number, new_view

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


Columns = Mapping[str, Column]
FrameKind = Literal["pandas", "polars", "arrow"]


class Result(ABC):
    """Base class of all results."""

    @abstractmethod
    def columns(self) -> Columns:
        """Return the columns of the frame, all of one length."""

    @abstractmethod
    def views(self) -> list[View]:
        """Return the tables that are shown."""

    @abstractmethod
    def summary(self) -> str:
        """Return the result in one line."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Return the JSON document of the command; long lists may be iterators."""

    def caption(self) -> str:
        """Return the line below the tables."""
        return self.summary()

    def remarks(self) -> list[str]:
        """Return caveats of the result."""
        return []

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document as a dictionary."""
        found = self.document()
        return {k: list(v) if isinstance(v, Iterator) else v for k, v in found.items()}

    def to_pandas(self) -> pandas.DataFrame:
        """Convert the columns to a pandas frame.

        Returns
        -------
        pandas.DataFrame
            A row for each entry of the columns.

        Raises
        ------
        LapisError
            If pandas is not installed.
        """
        columns = {name: as_array(values) for name, values in self.columns().items()}
        return import_package("pandas").DataFrame(columns)

    def to_polars(self) -> polars.DataFrame:
        """Convert the columns to a polars frame.

        Returns
        -------
        polars.DataFrame
            A row for each entry of the columns.

        Raises
        ------
        LapisError
            If polars is not installed.
        """
        polars = import_package("polars")
        return polars.DataFrame([as_polars(polars, *column) for column in self.columns().items()])

    def to_arrow(self) -> pyarrow.Table:
        """Convert the columns to a PyArrow table.

        Returns
        -------
        pyarrow.Table
            A row for each entry of the columns.

        Raises
        ------
        LapisError
            If pyarrow is not installed.
        """
        arrow = import_package("pyarrow")
        return arrow.table({name: as_arrow(arrow, v) for name, v in self.columns().items()})

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {escape(self.summary(), 'terminal')}>"

    def __str__(self) -> str:
        lines = [*map(as_text, self.views()), self.caption(), *self.remarks()]
        return "\n".join(escape(line, "terminal") for line in lines if line)

    def _repr_html_(self) -> str:
        return draw_html(self.views(), (self.caption(), *self.remarks()))


@dataclass(frozen=True, repr=False)
class Table(Result):
    """A result of columns of one length."""

    values: Columns

    def __len__(self) -> int:
        return len(next(iter(self.values.values()), ()))

    def columns(self) -> Columns:
        return self.values

    def views(self) -> list[View]:
        texts = [[as_cell(value) for value in column] for column in self.values.values()]
        numbers = [n for n, v in self.values.items() if np.asarray(as_array(v)).dtype.kind in "if"]
        return [new_view(list(self.values), zip(*texts, strict=True), numbers=numbers)]

    def summary(self) -> str:
        return f"{len(self):,} rows"

    def document(self) -> dict[str, Any]:
        names = list(self.values)
        rows = zip(*(with_nulls(column) for column in self.values.values()), strict=True)
        return {"rows": (dict(zip(names, row, strict=True)) for row in rows)}


@dataclass(frozen=True, repr=False)
class Figures(Result):
    """Named figures, such as the sizes of a network."""

    values: Mapping[str, float | int | str | None]

    def __getitem__(self, name: str) -> float | int | str | None:
        return self.values[name]

    def columns(self) -> Columns:
        return {name: [value] for name, value in self.values.items()}

    def views(self) -> list[View]:
        rows = [(name.replace("_", " "), format_figure(v)) for name, v in self.values.items()]
        return [new_view(["measure", "value"], rows, numbers=["value"])]

    def summary(self) -> str:
        """Return the figures that there are: counts before their names, others after them."""
        named = [(n.replace("_", " "), v) for n, v in self.values.items() if v is not None]
        return ", ".join(
            f"{value:,} {name}" if type(value) is int else f"{name} {format_figure(value)}"
            for name, value in named
        )

    def caption(self) -> str:
        return ""

    def document(self) -> dict[str, Any]:
        return dict(self.values)


def format_figure(figure: float | int | str | None) -> str:
    return figure if isinstance(figure, str) else format_number(figure)


def as_cell(value: object) -> str:
    """Format a cell of a table; "–" where there is nothing."""
    if value is None or value != value:
        return "–"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def to_frame(
    result: Result, kind: FrameKind
) -> pandas.DataFrame | polars.DataFrame | pyarrow.Table:
    """Convert a result to a frame of one of the three libraries."""
    if kind == "polars":
        return result.to_polars()
    return result.to_arrow() if kind == "arrow" else result.to_pandas()


def import_package(package: str) -> ModuleType:
    """Import a package of frames; raise LapisError if it is not installed."""
    from importlib import import_module

    try:
        return import_module(package)
    except ImportError:
        raise LapisError(
            f"this frame needs {package}, which is not installed",
            code="missing-package",
            hint="pip install 'lapis-mln[frames]'",
        ) from None

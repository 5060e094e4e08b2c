"""What every result can do, given its columns, its views and a summary.

Frames (pandas, polars, Arrow) hold what `columns` gives; text, HTML and the command line show
what `views` gives; JSON is `document`, whose long lists are written one entry after another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lapis.errors import LapisError
from lapis.results.columns import Column, as_array, as_arrow, as_list, as_polars
from lapis.results.escaping import escape
from lapis.results.view import View, as_html, as_text, format_number, new_view

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Columns = Mapping[str, Column]
FrameKind = Literal["pandas", "polars", "arrow"]


class Result(ABC):
    """Base of all results; they say what they hold, it shows it."""

    @abstractmethod
    def columns(self) -> Columns:
        """The columns of its frame, all of one length."""

    @abstractmethod
    def views(self) -> list[View]:
        """The tables that a person sees."""

    @abstractmethod
    def summary(self) -> str:
        """The result in a line."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """The contract of the command's --json; long lists may be iterators."""

    def caption(self) -> str:
        """The line below its tables."""
        return self.summary()

    def remarks(self) -> list[str]:
        """What a reader should know before believing it."""
        return []

    def to_json(self) -> dict[str, Any]:
        """The contract of the command's --json."""
        found = self.document()
        return {k: list(v) if isinstance(v, Iterator) else v for k, v in found.items()}

    def to_pandas(self) -> pandas.DataFrame:
        columns = {name: as_array(values) for name, values in self.columns().items()}
        return require("pandas").DataFrame(columns)

    def to_polars(self) -> polars.DataFrame:
        polars = require("polars")
        return polars.DataFrame([as_polars(polars, *column) for column in self.columns().items()])

    def to_arrow(self) -> pyarrow.Table:
        arrow = require("pyarrow")
        return arrow.table({name: as_arrow(arrow, v) for name, v in self.columns().items()})

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {escape(self.summary(), 'terminal')}>"

    def __str__(self) -> str:
        lines = [*map(as_text, self.views()), self.caption(), *self.remarks()]
        return "\n".join(escape(line, "terminal") for line in lines if line)

    def _repr_html_(self) -> str:
        notes = [note for note in (self.caption(), *self.remarks()) if note]
        return "".join(
            [*map(as_html, self.views()), *(f"<p>{escape(note, 'html')}</p>" for note in notes)]
        )


@dataclass(frozen=True, repr=False)
class Table(Result):
    """Columns of one length, and nothing else."""

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
        rows = zip(*(as_list(column) for column in self.values.values()), strict=True)
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
        shown = (f"{format_figure(v)} {name.replace('_', ' ')}" for name, v in self.values.items())
        return ", ".join(shown)

    def caption(self) -> str:
        return ""  # the table says it all

    def document(self) -> dict[str, Any]:
        return dict(self.values)


def format_figure(figure: float | int | str | None) -> str:
    return figure if isinstance(figure, str) else format_number(figure)


def as_cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def frame_of(result: Result, kind: FrameKind) -> Any:
    """The result's frame in one of the three libraries."""
    if kind == "polars":
        return result.to_polars()
    return result.to_arrow() if kind == "arrow" else result.to_pandas()


def require(package: str) -> Any:
    """A package that frames need."""
    from importlib import import_module

    try:
        return import_module(package)
    except ImportError:
        raise LapisError(
            f"this frame needs {package}, which is not installed",
            code="missing-package",
            hint="pip install 'lapis-mln[frames]'",
        ) from None

"""Widgets of notebooks: an answer or an explanation, with the components of the workbench's page.

The widget is built from `web/src/widget.tsx` (`make web`). Rows are sorted and filtered in the
kernel; the view fetches those that it shows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import lapis
from lapis.errors import LapisError
from lapis.results.columns import Coded, as_list, replace_infinite

if TYPE_CHECKING:
    from lapis.results.answer import Answer
    from lapis.results.explanation import Explanation

WIDGET = Path(lapis.__file__).parent / "web" / "dist" / "widget" / "widget.js"
MAX_PAGE = 2000  # rows


def explore_answer(answer: Answer) -> Any:  # noqa: ANN401  (a widget)
    """Show an answer as a widget; rows are sorted and filtered in the kernel."""
    columns = answer.columns()
    about = {
        "kind": "answer",
        "summary": answer.summary(),
        "remarks": answer.remarks(),
        "columns": list(columns),
        "predicates": list(dict.fromkeys(group.predicate for group in answer.asked.groups)),
    }
    rows = AnswerRows(answer)

    def reply(request: dict[str, Any]) -> object:
        if request["do"] == "rows":
            return rows.page(request["view"])
        return replace_infinite(answer.explain(request["atom"]).to_json())

    return new_widget(about, reply)


def explore_explanation(explanation: Explanation) -> Any:  # noqa: ANN401  (a widget)
    """Show an explanation as a widget."""
    about = {"kind": "explanation", "explanation": replace_infinite(explanation.to_json())}

    def reply(request: dict[str, Any]) -> object:
        raise LapisError(
            f"explain {request['atom']} by answer.explain, or walk in answer.explore()",
            code="no-answer",
        )

    return new_widget(about, reply)


def new_widget(about: dict[str, Any], reply: Callable[[dict[str, Any]], object]) -> Any:  # noqa: ANN401
    """Build a widget that answers messages of its view by a function."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise LapisError(
            "widgets need anywidget, which is not installed",
            code="missing-package",
            hint="pip install 'lapis-mln[notebook]'",
        ) from None
    if not WIDGET.is_file():
        raise LapisError("the widget is not built: run `make web`", code="no-page")

    class ExploreWidget(anywidget.AnyWidget):  # type: ignore[misc]
        _esm = WIDGET.read_text(encoding="utf-8")
        about = traitlets.Dict().tag(sync=True)

    widget = ExploreWidget(about=about)

    def answer(_: object, message: dict[str, Any], __: object) -> None:
        try:
            widget.send({"id": message["id"], "ok": reply(message)})
        except LapisError as error:
            widget.send({"id": message["id"], "error": str(error)})

    widget.on_msg(answer)
    return widget


class AnswerRows:
    """Pages of an answer in memory, sorted and filtered."""

    def __init__(self, answer: Answer) -> None:
        self.answer, self.columns = answer, answer.columns()
        self.view: dict[str, Any] | None = None
        self.order = np.arange(len(answer))

    def page(self, view: dict[str, Any]) -> dict[str, Any]:
        """Return rows of a view in the form of the page's table."""
        wanted = {name: view[name] for name in view if name not in ("offset", "limit")}
        if wanted != self.view:
            self.order, self.view = self.find_order(wanted), wanted
        first = max(0, view["offset"])
        rows = self.order[first : first + min(view["limit"], MAX_PAGE)]
        named = self.answer.asked.take(rows)
        cells = [
            named if name == "atom" else cells_of(column, rows)
            for name, column in self.columns.items()
        ]
        return {
            "total": len(self.order),
            "offset": first,
            "columns": list(self.columns),
            "rows": [list(row) for row in zip(*cells, strict=True)],
            "seconds": 0.0,
        }

    def find_order(self, view: dict[str, Any]) -> np.ndarray:
        """Return int64[num_rows], the atoms of a view in its order."""
        kept = np.ones(len(self.answer), bool)
        for name, text in {**view["arguments"], "predicate": view["predicate"] or ""}.items():
            column = self.columns.get(name)
            if text and isinstance(column, Coded):
                kept &= column_contains(column, text, whole=name == "predicate")
        probability = self.answer.probability
        kept &= (probability >= (view["low"] or 0.0)) & (probability <= (view["high"] or 1.0))
        rows = np.flatnonzero(kept)
        if view["text"]:
            part = view["text"].lower()
            names = self.answer.asked.take(rows)
            rows = rows[[part in name.lower() for name in names]]
        if view["sort"] in self.columns:
            keys = self.sort_keys(view["sort"], rows)
            order = np.argsort(-keys if view["descending"] else keys, kind="stable")
            rows = rows[order]
        return rows

    def sort_keys(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Return numbers that sort rows by a column; texts are ranked."""
        if name == "atom":
            texts = np.array(self.answer.asked.take(rows), str)
            return np.unique(texts, return_inverse=True)[1]
        values = cells_of(self.columns[name], rows)
        if all(value is None or isinstance(value, int | float) for value in values):
            return np.array([np.nan if value is None else value for value in values], float)
        return np.unique(np.array(values, str), return_inverse=True)[1]


def column_contains(column: Coded, text: str, whole: bool) -> np.ndarray:
    """Return bool[num_rows]: whether the text of a column has a part, or is it."""
    part = text.lower()
    fits = [
        each is not None and (each == text if whole else part in each.lower())
        for each in column.with_none()
    ]
    found: np.ndarray = np.array(fits, bool)[column.codes]
    return found


def cells_of(column: Any, rows: np.ndarray) -> list[Any]:  # noqa: ANN401  (a Column)
    """Return the values of chosen rows, None for NaN."""
    chosen = column[rows] if isinstance(column, Coded | np.ndarray) else None
    values = as_list(chosen) if chosen is not None else [column[row] for row in rows.tolist()]
    return [None if value != value else value for value in values]

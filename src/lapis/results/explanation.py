"""The result of an explanation: what an atom's probability is made of.

Three views of one atom (or ground formula) a:

    in this world   log P(a | rest) − log P(¬a | rest) = Σ over ground formulas of w (n⁺ − n⁻), with
                    the counts n⁺ with a and n⁻ without it, all other atoms as in the world
    without it      P(a) if a rule, a ground formula or a fact were not there
    sensitivity     ∂P(a)/∂w of each rule, and the standard error of P(a) that those of the weights
                    imply
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lapis.results.graph import GraphEdge, GraphNode, Picture
from lapis.results.plots import new_axes, shorten_label, style_axes
from lapis.results.result import Columns, Result, Table
from lapis.runtime.views import View, count_noun, escape, new_view, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_SHOWN = 12  # rows of a table of an explanation
MAX_WORDS = 5  # reasons in words
MAX_BARS = 14  # of a waterfall
RAISES, LOWERS = "#2a7f4f", "#b3413b"
TRUE_FILL, FALSE_FILL, OPEN_FILL, RULE_FILL, ASKED_FILL = (
    "#d9efe0", "#eceff1", "#ffffff", "#fff6dd", "#cfe0f5",
)  # fmt: skip
MAX_LITERALS = 4  # of a reason in words
MAX_BOX, MAX_LINES = 40, 3  # characters of a line in a node, and lines


class Contribution(NamedTuple):
    """What ground formulas add to the log-odds of the explained atom in one world."""

    formula: str  # a variable stands for each constant if there are several
    rule: str
    weight: float | None  # None: hard
    log_odds: float  # of all of them together; ±∞ if hard
    number: int  # ground formulas with this contribution
    because: tuple[str, ...]  # literals that are true in the world and on which it depends
    examples: tuple[str, ...] = ()  # constants of the variable that stands for several

    @property
    def each(self) -> float:
        """What one of the ground formulas adds."""
        return self.log_odds / self.number

    def to_json(self) -> dict[str, Any]:
        hard = None
        if math.isinf(self.log_odds):
            hard = "for" if self.log_odds > 0 else "against"
        fields = self._asdict() | {"because": list(self.because), "examples": list(self.examples)}
        return {"count" if k == "number" else k: v for k, v in fields.items()} | {"hard": hard}


class Absence(NamedTuple):
    """The probability without a rule, a ground formula or a fact."""

    kind: Literal["rule", "formula", "fact"]
    text: str
    becomes: str  # of a fact: "false" or "unknown"; "" otherwise
    probability: float | None  # None if it cannot be computed; `note` tells why
    change: float | None
    stderr: float | None  # None if exact
    exact: bool
    distance: int  # ground formulas between it and the explained atom
    note: str = ""


class RuleSensitivity(NamedTuple):
    """The derivative of the probability by a weight."""

    rule: str
    weight: float
    derivative: float  # ∂P/∂w
    stderr: float | None  # of the derivative; None if exact
    weight_stderr: float | None  # of a learned weight
    contribution: float | None  # |∂P/∂w| times the standard error of the weight


class FactChanges(NamedTuple):
    """Facts whose change moves the probability across a threshold."""

    threshold: float
    reached: bool
    facts: tuple[str, ...]  # as they would be written: !P(A) for a fact P(A) that is dropped
    probability: float | None
    search: Literal["exact", "greedy"]  # exact: no smaller set of these facts does it
    considered: int  # facts

    def to_json(self) -> dict[str, Any]:
        return self._asdict() | {"facts": list(self.facts)}


class GivenWorld(NamedTuple):
    """The world that contributions refer to."""

    name: Literal["most likely", "best found", "given"]
    value: bool  # of the explained atom there
    alternative: str | None  # the value of a block that it is compared with
    log_odds: float  # Σ of the contributions
    probability: float  # given all other atoms of this world
    true_atoms: tuple[str, ...]  # unknown atoms nearby that are true in it
    false_atoms: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        lists = {"true_atoms": list(self.true_atoms), "false_atoms": list(self.false_atoms)}
        return self._asdict() | lists


class NearbyNode(NamedTuple):
    """An atom or a ground formula near the explained atom."""

    kind: Literal["atom", "formula", "block"]
    label: str
    distance: int
    value: bool | None = None  # stated in the data; None: unknown, or no atom
    probability: float | None = None
    weight: float | None = None  # of a ground formula; None if hard


class NearbyEdge(NamedTuple):
    source: int
    target: int


@dataclass(frozen=True, repr=False)
class Explanation(Result):
    """Why an atom or a ground formula is as probable as it is."""

    atom: str
    data: str | None  # the name of the data it is in, if there are several
    probability: float
    stderr: float | None
    exact: bool
    method: str
    known: str = ""  # why the value is certain: stated by the data, …
    world: GivenWorld | None = None
    contributions: tuple[Contribution, ...] = ()
    neutral: int = 0  # ground formulas that contain the atom and add nothing
    without: tuple[Absence, ...] = ()
    sensitivity: tuple[RuleSensitivity, ...] = ()
    weights_stderr: float | None = None  # of the probability, by the delta method
    weights_note: str = ""  # how the errors of the weights were found
    changes: FactChanges | None = None
    nodes: tuple[NearbyNode, ...] = ()
    edges: tuple[NearbyEdge, ...] = ()
    notes: tuple[str, ...] = ()
    whole: bool = True  # the whole component of the atom was considered

    def __getitem__(self, text: str) -> Absence:
        """Return what holds without a fact, a rule or a ground formula, given by its text."""
        from lapis.errors import check_word

        found = {each.text: each for each in self.without}
        check_word("fact, rule or ground formula", text, list(found), code="not-explained")
        return found[text]

    @property
    def words(self) -> tuple[str, ...]:
        """The explanation in plain sentences."""
        return tuple(tell(self))

    def columns(self) -> Columns:
        """Return the contributions, a row each."""
        return columns_of(Contribution, self.contributions)

    @property
    def without_table(self) -> Table:
        """What holds without rules, ground formulas and facts, a row each."""
        return Table(columns_of(Absence, self.without))

    @property
    def sensitivity_table(self) -> Table:
        """The derivatives by weights, a row each."""
        return Table(columns_of(RuleSensitivity, self.sensitivity))

    def views(self) -> list[View]:
        """Return the tables of the three views."""
        found = []
        if self.contributions:
            found.append(contribution_view(self.contributions, self.world))
        if self.without:
            found.append(absence_view(self.without))
        if any(row.derivative for row in self.sensitivity):
            found.append(sensitivity_view(self.sensitivity))
        return found

    def summary(self) -> str:
        """Return the probability in one line."""
        where = "" if self.data is None else f" in {self.data}"
        error = "" if self.stderr is None else f" ± {self.stderr:.2g}"
        how = "exact" if self.exact else "approximate"
        because = "" if not self.known else f": {self.known}"
        by = f" ({how}, by {self.method})" if self.method else ""
        return f"P({self.atom}){where} = {format_probability(self.probability)}{error}{because}{by}"

    def caption(self) -> str:
        return "\n".join(self.words)

    def remarks(self) -> list[str]:
        """Return caveats."""
        return list(self.notes)

    def document(self) -> dict[str, Any]:
        """Return the document of `lapis infer --why ATOM --json`."""
        return {
            "atom": self.atom,
            "data": self.data,
            "probability": self.probability,
            "stderr": self.stderr,
            "exact": self.exact,
            "method": self.method,
            "known": self.known,
            "world": None if self.world is None else self.world.to_json(),
            "contributions": [row.to_json() for row in self.contributions],
            "neutral": self.neutral,
            "without": [row._asdict() for row in self.without],
            "sensitivity": [row._asdict() for row in self.sensitivity],
            "weights_stderr": self.weights_stderr,
            "weights_note": self.weights_note,
            "changes": None if self.changes is None else self.changes.to_json(),
            "words": list(self.words),
            "graph": {
                "nodes": [node._asdict() for node in self.nodes],
                "edges": [edge._asdict() for edge in self.edges],
            },
            "notes": list(self.notes),
            "whole": self.whole,
        }

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw a waterfall of the contributions, from even odds to the odds in the world.

        Parameters
        ----------
        axes
            Matplotlib axes to draw on; new ones if absent.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the picture.

        Raises
        ------
        LapisError
            If matplotlib is not installed.
        """
        return plot_waterfall(self, axes)

    def explore(self) -> Any:  # noqa: ANN401  (a widget)
        """Show the explanation as a widget in a notebook, with a neighbourhood to look around.

        Returns
        -------
        anywidget.AnyWidget
            The widget.

        Raises
        ------
        LapisError
            If anywidget is not installed.
        """
        from lapis.results.widgets import explore_explanation

        return explore_explanation(self)

    def draw(self) -> Picture:
        """Draw the atoms and ground formulas around the explained atom.

        Returns
        -------
        Picture
            A graph; `save` writes it as .dot, .svg, .graphml or .png.
        """
        nodes = tuple(draw_node(node) for node in self.nodes)
        edges = tuple(GraphEdge(first, second) for first, second in map(self._downward, self.edges))
        return Picture(nodes, edges, "right")

    def _downward(self, edge: NearbyEdge) -> tuple[int, int]:
        """Return the ends of an edge, the one nearer to the explained atom first."""
        first, second = edge
        if self.nodes[second].distance < self.nodes[first].distance:
            return second, first
        return first, second


def columns_of(kind: type[Any], rows: Sequence[Any]) -> Columns:
    """Return a column for each field of named tuples; lists of texts are joined."""

    def cell(value: object) -> object:
        return ", ".join(value) if isinstance(value, tuple) else value

    return {name: [cell(getattr(row, name)) for row in rows] for name in kind._fields}


def format_probability(probability: float) -> str:
    """Format a probability; near 0 and 1 with the digits that distinguish it from them.

    >>> format_probability(0.48485), format_probability(0.99999912), format_probability(1.0)
    ('0.4849', '1 - 8.8e-07', '1.0000')
    """
    if 0.0 < probability < 5e-5:
        return f"{probability:.2g}"
    if 0.0 < 1.0 - probability < 5e-5:
        return f"1 - {1.0 - probability:.2g}"
    return f"{probability:.4f}"


def format_log_odds(value: float) -> str:
    """Format log-odds with their sign."""
    if math.isinf(value):
        return "must" if value > 0 else "cannot"
    return f"{value:+.2f}"


def format_change(change: float) -> str:
    return f"{change:+.4f}" if abs(change) >= 5e-5 or change == 0 else f"{change:+.1e}"


def contribution_view(rows: Sequence[Contribution], world: GivenWorld | None) -> View:
    """Return the table of contributions, the largest first."""
    cells = [
        (
            format_log_odds(row.log_odds),
            f"{row.number:,} × {format_log_odds(row.each)}" if row.number > 1 else "",
            tell_reason(row),
            ("hard: " if row.weight is None else f"{row.weight:g} ") + row.rule,
        )
        for row in rows[:MAX_SHOWN]
    ]
    totals = [] if world is None else [(format_log_odds(world.log_odds), "", "together", "")]
    return new_view(
        ("log-odds", "of", "because", "rule"), cells, numbers=["log-odds", "of"],
        num_rows=len(rows), totals=totals,
    )  # fmt: skip


def absence_view(rows: Sequence[Absence]) -> View:
    """Return the table of what holds without something, the largest changes first."""
    has_error = any(row.stderr is not None for row in rows[:MAX_SHOWN])
    cells = [
        (
            "–" if row.probability is None else format_probability(row.probability),
            "–" if row.change is None else format_change(row.change),
            *(["" if row.stderr is None else f"± {row.stderr:.2g}"] * has_error),
            row.kind,
            row.text,
            row.note or (f"it is {row.becomes}" if row.becomes else ""),
            str(row.distance),
        )
        for row in rows[:MAX_SHOWN]
    ]
    error = ["error"] * has_error
    headings = ["probability", "change", *error, "without the", "which is", "then", "steps"]
    numbers = ["probability", "change", *error, "steps"]
    return new_view(headings, cells, numbers=numbers, num_rows=len(rows))


def sensitivity_view(rows: Sequence[RuleSensitivity]) -> View:
    """Return the table of derivatives, the largest first."""
    learned = any(row.weight_stderr is not None for row in rows)
    headings = ["dP/dw", "weight", *(["± of it", "± of P"] * learned), "rule"]
    cells = [
        (
            f"{row.derivative:+.4f}",
            f"{row.weight:g}",
            *(
                (f"{row.weight_stderr or 0.0:.3g}", f"{row.contribution or 0.0:.4f}")
                if learned
                else ()
            ),
            row.rule,
        )
        for row in rows[:MAX_SHOWN]
    ]
    return new_view(headings, cells, numbers=headings[:-1], num_rows=len(rows))


def tell(found: Explanation) -> list[str]:
    """Tell an explanation in plain sentences."""
    lines = [found.summary()]
    if found.weights_stderr is not None:
        lines.append(
            f"P({found.atom}) = {format_probability(found.probability)} ± "
            f"{found.weights_stderr:.2g} because of the errors of the weights"
            + (f" ({found.weights_note})" if found.weights_note else "")
        )
    if found.world is not None:
        lines += tell_world(found, found.world)
    strongest = [row for row in found.without if row.change and row.kind != "formula"]
    for row in strongest[:2]:
        lines.append(tell_absence(row))
    if found.changes is not None:
        lines.append(tell_changes(found.atom, found.changes))
    return lines


def tell_world(found: Explanation, world: GivenWorld) -> list[str]:
    """Tell the contributions in a world."""
    where = {
        "most likely": "the most likely world",
        "best found": "the most likely world found",
        "given": "the given world",
    }[world.name]
    against = f", compared with {world.alternative}" if world.alternative else ""
    lines = [
        f"in {where} it is {'true' if world.value else 'false'}{against}; given all else there, "
        f"its log-odds are {format_log_odds(world.log_odds)} "
        f"(P = {format_probability(world.probability)}):"
    ]
    for row in found.contributions[:MAX_WORDS]:
        reason = tell_reason(row)
        times = f" ({count_noun(row.number, 'ground formula')})" if row.number > 1 else ""
        amount = format_log_odds(row.log_odds)
        if math.isinf(row.log_odds):
            amount = f"it {'must' if row.log_odds > 0 else 'cannot'} hold"
        lines.append(f"  {amount} because {reason}{times}")
    more = len(found.contributions) - MAX_WORDS
    if more > 0:
        rest = math.fsum(
            row.log_odds for row in found.contributions[MAX_WORDS:] if math.isfinite(row.log_odds)
        )
        lines.append(f"  {format_log_odds(rest)} by {count_noun(more, 'other reason')}")
    return lines


def tell_reason(row: Contribution) -> str:
    """Tell on what a contribution depends, or name the formula."""
    if row.examples:
        return f"{row.formula} for {', '.join(row.examples[:3])}" + (
            f" and {row.number - 3:,} more" if row.number > 3 else ""
        )
    if not row.because:
        return row.formula
    shown = list(row.because[:MAX_LITERALS])
    if len(row.because) > MAX_LITERALS:
        shown.append(f"{len(row.because) - MAX_LITERALS:,} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def tell_absence(row: Absence) -> str:
    """Tell the probability without something."""
    assert row.probability is not None
    what = {"fact": "the fact ", "rule": "the rule ", "formula": ""}[row.kind] + row.text
    then = f" (then {row.becomes})" if row.becomes else ""
    return f"without {what}{then} it would be {format_probability(row.probability)}"


def tell_changes(atom: str, changes: FactChanges) -> str:
    """Tell which facts would have to change."""
    goal = f"{changes.threshold:g}"
    if not changes.reached:
        return (
            f"no set of the {changes.considered:,} facts nearby that was tried moves "
            f"P({atom}) across {goal}"
        )
    smallest = "the smallest such change" if changes.search == "exact" else "found greedily"
    reached = format_probability(changes.probability or 0.0)
    listed = ", ".join(changes.facts)
    return f"with {listed} it would be {reached}, across {goal} ({smallest})"


def draw_node(node: NearbyNode) -> GraphNode:
    """Return the box of an atom or a ground formula."""
    label = "\n".join(shorten(line, MAX_BOX) for line in fold_label(node.label))
    if node.kind != "atom":
        amount = "hard" if node.weight is None else f"{node.weight:+.3g}"
        text = label if node.kind == "block" else f"{amount}  {label}"
        return GraphNode(text, RULE_FILL, layer=node.distance)
    if node.value is not None:
        text = f"{label}\n{'true' if node.value else 'false'}"
        fill = TRUE_FILL if node.value else FALSE_FILL
        return GraphNode(text, fill, layer=node.distance)
    given = "" if node.probability is None else f"\n{format_probability(node.probability)}"
    return GraphNode(label + given, OPEN_FILL if node.distance else ASKED_FILL, layer=node.distance)


def fold_label(label: str) -> list[str]:
    """Break the label of a formula into at most three lines at its connectives.

    >>> fold_label("Friends(Anna, Frank) ^ Smokes(Anna) => Smokes(Frank)")
    ['Friends(Anna, Frank) ^ Smokes(Anna)', '=> Smokes(Frank)']
    """
    words = re.split(r" (?=(?:=>|<=>|\^|v) )", label)
    lines = words[:1]
    for word in words[1:]:
        if len(lines[-1]) + len(word) + 1 <= MAX_BOX or len(lines) == MAX_LINES:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def plot_waterfall(found: Explanation, axes: Axes | None) -> Axes:
    """Draw bars that add up from even odds to the odds in the world."""
    finite = [row for row in found.contributions if math.isfinite(row.log_odds)]
    shown = finite[:MAX_BARS]
    amounts = [row.log_odds for row in shown]
    names = [tell_reason(row) for row in shown]
    if len(finite) > len(shown):
        amounts.append(math.fsum(row.log_odds for row in finite[MAX_BARS:]))
        names.append(f"{len(finite) - MAX_BARS:,} other reasons")
    ends = np.cumsum([0.0, *amounts])
    drawn = new_axes(axes, (8.0, 1.9 + 0.34 * (len(amounts) + 1)))
    places = np.arange(len(amounts) + 1)[::-1]
    colours = [RAISES if amount > 0 else LOWERS for amount in amounts]
    drawn.barh(places[:-1], amounts, left=ends[:-1], color=colours, height=0.62)
    drawn.barh(places[-1:], ends[-1:], color="#4c72b0", height=0.62)
    for start, place in zip(ends[1:], places[:-1], strict=True):
        drawn.plot([start, start], [place - 0.31, place - 1 + 0.31], color="#9aa0a6", lw=0.8)
    width = float(np.ptp(ends)) or 1.0
    for end, amount, place in zip(
        np.maximum(ends[:-1], ends[1:]), amounts, places[:-1], strict=True
    ):
        drawn.text(end + 0.015 * width, place, f"{amount:+.2f}", va="center", fontsize=8)
    drawn.text(
        max(0.0, float(ends[-1])) + 0.015 * width, places[-1], f"{ends[-1]:+.2f}", va="center",
        fontsize=8, weight="bold",
    )  # fmt: skip
    drawn.axvline(0.0, color="#444444", lw=0.8)
    drawn.set_yticks(places, [*map(shorten_label, names), "together"])
    low, high = float(ends.min()), float(ends.max())
    drawn.set_xlim(low - 0.06 * width, high + 0.14 * width)
    drawn.set(xlabel="log-odds given the rest of the world")
    where = "" if found.world is None else f" in the {found.world.name} world"
    title = escape(f"{found.atom}{where}", "plot")
    if axes is None:
        drawn.figure.suptitle(title, fontsize="medium")
    else:
        drawn.set_title(title, fontsize="medium")
    return style_axes(drawn)

"""Show a first-order circuit as a tree of lines: as text, or as a graph.

Sizes of regions are letters: n for a type, m₁, m₂, … for the numbers that are summed over. A part
that is used several times is shown once, with a number that later uses refer to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from textwrap import wrap
from typing import NamedTuple

from lapis.lifted.compilation.lifted_circuit import (
    CallNode,
    CountNode,
    FactorNode,
    GroundingNode,
    GuardNode,
    NeverNode,
    Node,
    PairsNode,
    PowerNode,
    ProductNode,
    RecursionNode,
    RestNode,
    SumNode,
    child_nodes,
)
from lapis.lifted.compilation.theory import Region, Size
from lapis.lifted.encode import Encoding
from lapis.results.graph import GraphEdge, GraphNode, Picture

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
WIDTH = 30  # characters of a node
FILL = {"Σ": "#fbe3d6", "∏": "#dbe8f6", "^": "#dcf0e0", "f": "#eadff5"}  # by a line's sign


Letters = Mapping[Region, str]  # the text of each region's size


class Line(NamedTuple):
    depth: int
    sign: str  # Σ sum, ∏ product, ^ power, f recursion, or empty
    text: str


class Drawing:
    """A circuit as lines, which are computed when they are used."""

    def __init__(self, root: Node, encoding: Encoding) -> None:
        self.root, self.encoding = root, encoding
        self.numbers: dict[int, int] = {}  # of nodes that are used several times
        self.shown: set[int] = set()
        self.num_counts = 0

    @cached_property
    def lines(self) -> list[Line]:
        """The lines of the circuit, in the order of the tree."""
        names = self.encoding.kinds.names
        letters = {r: f"n_{name}" if len(names) > 1 else "n" for r, name in enumerate(names)}
        return list(self.draw(self.root, 0, letters, ""))

    @cached_property
    def uses(self) -> dict[int, int]:
        return count_uses(self.root)

    def draw(self, node: Node, depth: int, size: Letters, lead: str) -> Iterator[Line]:
        """Yield the lines of a node; a node that was shown before is a reference."""
        match node:
            case RestNode(part, region, rest, taken):
                inner = {**size, rest: minus_number(size[region], taken)}
                yield from self.draw(part, depth, inner, lead)
            case PairsNode(part, one, other, pairs):
                inner = {**size, pairs: f"{size[one]}·{size[other]}"}
                yield from self.draw(part, depth, inner, lead)
            case CallNode(called, names):
                number = self.number_of(called)
                if id(called) in self.shown:
                    where = ", ".join(size[ours] for _, ours in names)
                    at = f", at {where}" if where else ""
                    yield Line(depth, "", f"{lead}part {number} again{at}")
                else:
                    inner = {own: size[ours] for own, ours in names}
                    yield from self.draw(called, depth, inner, lead)
            case _ if id(node) in self.shown:
                yield Line(depth, "", f"{lead}part {self.number_of(node)} again")
            case _:
                self.shown.add(id(node))
                if self.uses.get(id(node), 0) > 1:
                    lead += f"part {self.number_of(node)}: "
                yield from self.draw_new(node, depth, size, lead)

    def draw_new(self, node: Node, depth: int, size: Letters, lead: str) -> Iterator[Line]:
        """Yield the line of a node and those of its parts, one level deeper."""
        parts: Iterable[tuple[Node, str]] = [(part, "") for part in child_nodes(node)]
        inner = size
        match node:
            case ProductNode(factors):
                kept = [part for part in factors if not self.is_one(part, size)]
                if len(kept) == 1:
                    yield from self.draw(kept[0], depth, size, lead)
                    return
                sign, text, parts = "∏", "independent parts", [(part, "") for part in kept]
            case SumNode(cases, signs, label):
                has_negative = -1 in signs
                sign, text = "Σ", label if has_negative else f"{label}, true or false"
                leads = ["+ " if s > 0 else "− " for s in signs]
                parts = zip(cases, leads if has_negative else ["true: ", "false: "], strict=True)
            case CountNode(_, region, plus, minus, label):
                self.num_counts += 1
                letter = f"m{self.num_counts}".translate(SUBSCRIPTS)
                whole = size[region]
                inner = {**size, plus: letter, minus: minus_text(whole, letter)}
                sign = "Σ"
                text = f"over {letter} = 0 … {whole}, the {label}: C({whole}, {letter}) times"
            case GuardNode((region, least), met, unmet):
                sign, text = "", f"depending on whether {size[region]} ≥ {least}"
                parts = [(met, "if so: "), (unmet, "if not: ")]
            case _:
                sign, text = self.describe_node(node, size)
        yield Line(depth, sign, lead + text)
        for part, word in parts:
            yield from self.draw(part, depth + 1, inner, word)

    def describe_node(self, node: Node, size: Letters) -> tuple[str, str]:
        """Return the sign and the text of a node with at most one part."""
        match node:
            case FactorNode():
                return "", self.factor_text(node, size)
            case PowerNode(_, exponent, label):
                return "^", f"{label}: to the power {size_text(exponent, size)}"
            case NeverNode(needs):
                when = " and ".join(f"{size[region]} ≥ {k}" for region, k in sorted(needs))
                return "", f"0 where {when}, else 1" if when else "0"
            case RecursionNode(regions, region):
                names = ", ".join(size[r] for r in regions)
                smaller = minus_number(size[region], 1)
                return "f", f"part {self.number_of(node)} at {names}, from itself at {smaller}"
            case GroundingNode(_, type_name, number):
                return "", f"type {type_name} grounded: {number} constants"
        raise AssertionError(node)

    def is_one(self, node: Node, size: Letters) -> bool:
        return isinstance(node, FactorNode) and self.factor_text(node, size) == "1"

    def number_of(self, node: Node) -> int:
        return self.numbers.setdefault(id(node), len(self.numbers) + 1)

    def factor_text(self, node: FactorNode, size: Letters) -> str:
        words = []
        score = [
            product_text(self.weight_text(column), size_text(number, size))
            for column, number in node.exponent
        ]
        if score:
            words.append(f"exp({' + '.join(score)})")
        weights = self.encoding.literal_weights
        for predicate, positive, number in node.literals:
            base = weights.get(predicate, (1.0, 1.0))[0 if positive else 1]
            if base != 1:
                words.append(power_text(base, size_text(number, size)))
        for predicate, number in node.free:
            base = sum(weights.get(predicate, (1.0, 1.0)))
            words.append(power_text(base, size_text(number, size)))
        return " · ".join(words) or "1"

    def weight_text(self, column: int) -> str:
        rule = self.encoding.columns[column].rule
        return f"w{rule + 1}".translate(SUBSCRIPTS) if rule >= 0 else "0"

    def text(self) -> str:
        return "\n".join(f"{'  ' * d}{s + ' ' if s else ''}{text}" for d, s, text in self.lines)

    def graph(self) -> Picture:
        """Return a graph with a node for each line and an edge to each of its parts."""
        nodes, edges = [], []
        latest: dict[int, int] = {}  # the last line of each depth
        for number, (depth, sign, text) in enumerate(self.lines):
            label = "\n".join(wrap(f"{sign} {text}", WIDTH, break_long_words=False))
            nodes.append(GraphNode(label, FILL.get(sign, "#ffffff")))
            if depth:
                edges.append(GraphEdge(latest[depth - 1], number))
            latest[depth] = number
        return Picture(tuple(nodes), tuple(edges))


def count_uses(root: Node) -> dict[int, int]:
    """Count how often each node is a part of another, or called."""
    uses: dict[int, int] = {id(root): 1}
    pending = [root]
    while pending:
        node = pending.pop()
        below = (node.node,) if isinstance(node, CallNode) else child_nodes(node)
        for child in below:
            uses[id(child)] = uses.get(id(child), 0) + 1
            if uses[id(child)] == 1:
                pending.append(child)
    return uses


def minus_number(text: str, number: int) -> str:
    return minus_text(text, str(number)) if number else text


def minus_text(text: str, other: str) -> str:
    return f"({text.strip('()')} − {other})" if text.count("(") < 2 else f"({text} − {other})"


def power_text(base: float, exponent: str) -> str:
    text = f"{base:g}" if base >= 0 else f"({base:g})"
    return text if exponent == "1" else f"{text}^({exponent})"


def product_text(*words: str) -> str:
    kept = [word for word in words if word != "1"]
    return "·".join(kept) or "1"


def size_text(size: Size, letters: Letters) -> str:
    """Return a size as text, with letters for the sizes of regions.

    >>> size_text(Size(((0, 0), (0, 1)), 1, 2), {0: "n"})
    'n·(n − 1)/2'
    """
    factors = [minus_number(letters[region], offset) for region, offset in size.factors]
    text = product_text(str(size.coefficient), *factors)
    return text if size.divisor == 1 else f"{text}/{size.divisor}"

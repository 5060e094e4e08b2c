"""First-order circuits for people: a tree of lines, as text or as a graph.

Sizes of regions are letters: n for a type, m₁, m₂, … for the numbers that are summed over. A part
that is used again is drawn once, with a number that later uses refer to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from textwrap import wrap
from typing import NamedTuple

from lapis.lifted.compilation.circuit import (
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


class Line(NamedTuple):
    depth: int
    sign: str  # Σ sum, ∏ product, ^ power, f recursion, or empty
    text: str


class Drawing:
    """A circuit to be drawn, when it is asked for."""

    def __init__(self, root: Node, encoding: Encoding) -> None:
        self.root, self.encoding = root, encoding
        self.numbers: dict[int, int] = {}  # of nodes that are used again
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

    def draw(self, node: Node, depth: int, size: dict[Region, str], lead: str) -> Iterator[Line]:
        if isinstance(node, RestNode):
            rest = {**size, node.rest: minus_number(size[node.region], node.taken)}
            yield from self.draw(node.part, depth, rest, lead)
            return
        if isinstance(node, PairsNode):
            pairs = {**size, node.pairs: f"{size[node.one]}·{size[node.other]}"}
            yield from self.draw(node.part, depth, pairs, lead)
            return
        target = node.node if isinstance(node, CallNode) else node
        if isinstance(node, CallNode) or id(node) in self.shown:
            places = (
                [f"{size[ours]}" for _, ours in node.names] if isinstance(node, CallNode) else []
            )
            number = self.number_of(target)
            if id(target) in self.shown:
                where = f", at {', '.join(places)}" if places else ""
                yield Line(depth, "", f"{lead}part {number} again{where}")
                return
            inner = (
                {own: size[ours] for own, ours in node.names}
                if isinstance(node, CallNode)
                else size
            )
            yield from self.draw(target, depth, inner, lead)
            return
        self.shown.add(id(node))
        head = f"part {self.number_of(node)}: " if self.uses.get(id(node), 0) > 1 else ""
        lead = lead + head
        match node:
            case FactorNode():
                yield Line(depth, "", lead + self.factor_text(node, size))
            case ProductNode(parts):
                parts = tuple(part for part in parts if not self.is_one(part, size))
                if len(parts) == 1:
                    yield from self.draw(parts[0], depth, size, lead)
                    return
                yield Line(depth, "∏", f"{lead}independent parts")
                for part in parts:
                    yield from self.draw(part, depth + 1, size, "")
            case SumNode(parts, signs, label):
                yield Line(depth, "Σ", lead + (label if -1 in signs else f"{label}, true or false"))
                leads = (
                    ["true: ", "false: "]
                    if -1 not in signs
                    else ["+ " if s > 0 else "− " for s in signs]
                )
                for part, word in zip(parts, leads, strict=True):
                    yield from self.draw(part, depth + 1, size, word)
            case PowerNode(part, exponent, label):
                yield Line(depth, "^", f"{lead}{label}: to the power {size_text(exponent, size)}")
                yield from self.draw(part, depth + 1, size, "")
            case CountNode(part, region, plus, minus, label):
                self.num_counts += 1
                letter = f"m{self.num_counts}".translate(SUBSCRIPTS)
                whole = size[region]
                text = f"{lead}over {letter} = 0 … {whole}, the {label}: C({whole}, {letter}) times"
                yield Line(depth, "Σ", text)
                inner = {**size, plus: letter, minus: minus_text(whole, letter)}
                yield from self.draw(part, depth + 1, inner, "")
            case GuardNode((region, least), met, unmet):
                yield Line(depth, "", f"{lead}depending on whether {size[region]} ≥ {least}")
                yield from self.draw(met, depth + 1, size, "if so: ")
                yield from self.draw(unmet, depth + 1, size, "if not: ")
            case NeverNode(needs):
                when = " and ".join(f"{size[region]} ≥ {k}" for region, k in sorted(needs))
                yield Line(depth, "", lead + (f"0 where {when}, else 1" if when else "0"))
            case RecursionNode(regions, region, part):
                names = ", ".join(size[r] for r in regions)
                text = f"part {self.number_of(node)} at {names}, from itself at"
                yield Line(depth, "f", f"{lead}{text} {minus_number(size[region], 1)}")
                if part is not None:
                    yield from self.draw(part, depth + 1, size, "")
            case GroundingNode(part, type_name, number):
                yield Line(
                    depth, "", f"{lead}type {type_name} grounded: {number} constants told apart"
                )
                yield from self.draw(part, depth + 1, size, "")

    def is_one(self, node: Node, size: Mapping[Region, str]) -> bool:
        return isinstance(node, FactorNode) and self.factor_text(node, size) == "1"

    def number_of(self, node: Node) -> int:
        return self.numbers.setdefault(id(node), len(self.numbers) + 1)

    def factor_text(self, node: FactorNode, size: Mapping[Region, str]) -> str:
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
        """A node for each line, an edge from each part to what it is a part of."""
        nodes, edges = [], []
        latest: dict[int, int] = {}  # the line before at each depth
        for number, (depth, sign, text) in enumerate(self.lines):
            label = "\n".join(wrap(f"{sign} {text}", WIDTH, break_long_words=False))
            nodes.append(GraphNode(label, FILL.get(sign, "#ffffff")))
            if depth:
                edges.append(GraphEdge(latest[depth - 1], number))
            latest[depth] = number
        return Picture(tuple(nodes), tuple(edges))


def count_uses(root: Node) -> dict[int, int]:
    """How often each node is a part of another, or called."""
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


def size_text(size: Size, letters: Mapping[Region, str]) -> str:
    """A size with letters for those of its regions.

    >>> size_text(Size(((0, 0), (0, 1)), 1, 2), {0: "n"})
    'n·(n − 1)/2'
    """
    factors = [minus_number(letters[region], offset) for region, offset in size.factors]
    text = product_text(str(size.coefficient), *factors)
    return text if size.divisor == 1 else f"{text}/{size.divisor}"

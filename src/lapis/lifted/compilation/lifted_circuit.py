"""Nodes of first-order circuits, which are independent of weights and sizes.

    node = Factor | Product | Sum | Power | Count | Rest | Pairs | Guard | Never | Recursion
         | Grounding | Call

The value of a node depends on the sizes of some regions and on the weights. A circuit is a tree,
except for `CallNode`, which evaluates another node with other regions in place of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from lapis.lifted.compilation.theory import Exponent, Need, Region, Size


@dataclass(frozen=True, eq=False)
class FactorNode:
    """exp(Σ weight · size) · Π literal weight^size · Π (both literal weights added)^size."""

    exponent: Exponent = ()
    literals: tuple[tuple[str, bool, Size], ...] = ()
    free: tuple[tuple[str, Size], ...] = ()  # atoms in no clause


@dataclass(frozen=True, eq=False)
class ProductNode:
    """The product of independent parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class SumNode:
    """A sum over exclusive cases; with negative signs, inclusion–exclusion."""

    parts: tuple[Node, ...]
    signs: tuple[int, ...]
    label: str = ""  # the atom that is true or false


@dataclass(frozen=True, eq=False)
class PowerNode:
    """The power of a part: `exponent` independent copies for different elements."""

    part: Node
    exponent: Size
    label: str = ""


@dataclass(frozen=True, eq=False)
class CountNode:
    """Σ_m (size(region) choose m) part, with size(plus) = m and size(minus) the rest."""

    part: Node
    region: Region
    plus: Region
    minus: Region
    label: str = ""


@dataclass(frozen=True, eq=False)
class RestNode:
    """The part, with size(rest) = size(region) − taken."""

    part: Node
    region: Region
    rest: Region
    taken: int


@dataclass(frozen=True, eq=False)
class PairsNode:
    """The part, with size(pairs) = size(one) · size(other)."""

    part: Node
    one: Region
    other: Region
    pairs: Region


@dataclass(frozen=True, eq=False)
class GuardNode:
    """One node if the need is met, another if it is not."""

    need: Need
    met: Node
    unmet: Node


@dataclass(frozen=True, eq=False)
class NeverNode:
    """0 if all needs are met (no world is possible), else 1."""

    needs: frozenset[Need]


@dataclass(eq=False)
class RecursionNode:
    """A node whose value depends on itself at smaller sizes, through calls below it."""

    regions: tuple[Region, ...]  # whose sizes it depends on
    region: Region  # from which an element is taken out
    part: Node | None = None  # set after compilation


@dataclass(frozen=True, eq=False)
class GroundingNode:
    """The part, in which the constants of a type are elements; it is valid for these only."""

    part: Node
    type_name: str
    size: int


@dataclass(frozen=True, eq=False)
class CallNode:
    """The value of another node, whose regions (left) are replaced by ours (right)."""

    node: Node
    names: tuple[tuple[Region, Region], ...]


Node = (
    FactorNode
    | ProductNode
    | SumNode
    | PowerNode
    | CountNode
    | RestNode
    | PairsNode
    | GuardNode
    | NeverNode
    | RecursionNode
    | GroundingNode
    | CallNode
)

ONE = FactorNode()


def multiply_nodes(*parts: Node) -> Node:
    """Return the product, with factors of 1 dropped, products flattened and factors merged."""
    flat = [
        inner
        for part in parts
        for inner in (part.parts if isinstance(part, ProductNode) else (part,))
        if not (isinstance(inner, FactorNode) and is_one(inner))
    ]
    factors = [part for part in flat if isinstance(part, FactorNode)]
    others = [part for part in flat if not isinstance(part, FactorNode)]
    if len(factors) > 1:
        factors = [
            FactorNode(
                tuple(term for f in factors for term in f.exponent),
                tuple(term for f in factors for term in f.literals),
                tuple(term for f in factors for term in f.free),
            )
        ]
    both: list[Node] = [*factors, *others]
    return both[0] if len(both) == 1 else ProductNode(tuple(both)) if both else ONE


def is_one(factor: FactorNode) -> bool:
    return not (factor.exponent or factor.literals or factor.free)


def child_nodes(node: Node) -> tuple[Node, ...]:
    match node:
        case ProductNode(parts) | SumNode(parts):
            return parts
        case (
            PowerNode(part)
            | CountNode(part)
            | RestNode(part)
            | PairsNode(part)
            | GroundingNode(part)
        ):
            return (part,)
        case GuardNode(_, met, unmet):
            return (met, unmet)
        case RecursionNode(part=part) if part is not None:
            return (part,)
        case _:
            return ()

"""First-order circuits: what compiling a theory gives, independent of weights and sizes.

    node = Factor | Product | Sum | Power | Count | Rest | Pairs | Guard | Never | Recursion
         | Grounding | Call

Every node denotes a number that depends on the sizes of some regions and on all weights; a node
says how it is made from those below it. A circuit is a tree but for `CallNode`, which evaluates a
node compiled before, with other regions in place of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from lapis.lifted.compilation.theory import Exponent, Need, Region, Size


@dataclass(frozen=True, eq=False)
class FactorNode:
    """exp(Σ weight · size) · Π literal weight^size · Π (both literal weights added)^size."""

    exponent: Exponent = ()
    literals: tuple[tuple[str, bool, Size], ...] = ()
    free: tuple[tuple[str, Size], ...] = ()  # atoms that nothing constrains


@dataclass(frozen=True, eq=False)
class ProductNode:
    """Independent parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class SumNode:
    """Cases that exclude each other; with negative signs, inclusion–exclusion."""

    parts: tuple[Node, ...]
    signs: tuple[int, ...]
    label: str = ""  # what is decided


@dataclass(frozen=True, eq=False)
class PowerNode:
    """`exponent` independent copies of a part, alike but for the elements they are about."""

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
    """One node where a region has at least so many elements, another where it has fewer."""

    need: Need
    met: Node
    unmet: Node


@dataclass(frozen=True, eq=False)
class NeverNode:
    """0 where all needs are met (no world is possible), 1 elsewhere."""

    needs: frozenset[Need]


@dataclass(eq=False)
class RecursionNode:
    """A node that is made from itself at smaller sizes, through calls below it."""

    regions: tuple[Region, ...]  # whose sizes it depends on
    region: Region  # that an element is taken out of
    part: Node | None = None  # filled in when it is compiled


@dataclass(frozen=True, eq=False)
class GroundingNode:
    """The part, in which the constants of a type are told apart; it holds for these alone."""

    part: Node
    type_name: str
    size: int


@dataclass(frozen=True, eq=False)
class CallNode:
    """A node compiled before, its regions (left) standing for ours (right)."""

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
    """The product without factors of one, products within it opened and factors taken together."""
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

"""A sentence about elements and pairs of elements, in Scott normal form (see scott.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from lapis.language.syntax import Formula
from lapis.lifted.cells.orders import Order

HARD = -1


class Group(NamedTuple):
    """Elements that nothing known tells apart."""

    type: str
    size: int
    known: Mapping[str, bool]  # by unary predicate
    constant: str | None = None  # of a group of one that formulas or known pairs name


class Factor(NamedTuple):
    """A formula without quantifiers; each grounding multiplies by a parameter where it is true."""

    formula: Formula
    variables: tuple[str, ...]  # at most two
    parameter: int  # HARD: the grounding must be true
    times: int = 1  # groundings of variables that the formula does not depend on


class Counted(NamedTuple):
    """predicate(of) ⇔ the number of `counted` with `body` is (operator) bound."""

    body: Formula
    of: str | None
    counted: str
    operator: str
    bound: int
    predicate: str | None  # None: it must be


class Total(NamedTuple):
    """Σ coefficient · number of true atoms, (operator) bound."""

    parts: tuple[tuple[int, str], ...]
    operator: str
    bound: int


class Parameter(NamedTuple):
    """A factor of the weight of a world: exp(weight) of a rule, or one of a predicate."""

    rule: int  # -1: of a predicate
    weight: float
    value: Fraction | None  # exp(weight), where it is a rational number


@dataclass(frozen=True)
class Sentence:
    groups: tuple[Group, ...]
    reach: Mapping[str, frozenset[int]]  # the groups that a variable ranges over
    places: Mapping[str, tuple[frozenset[int], ...]]  # and each argument of a predicate
    factors: tuple[Factor, ...]
    counted: tuple[Counted, ...]
    totals: tuple[Total, ...]
    parameters: tuple[Parameter, ...]
    literal_parameters: Mapping[str, tuple[int, int]]  # of a true and a false atom
    known_propositions: Mapping[str, bool]
    known_pairs: Mapping[tuple[str, str, str], bool]
    unknown_pairs: frozenset[tuple[str, ...]]  # exceptions of closed predicates
    closed: frozenset[str]  # binary predicates false wherever no pair is known
    order: Order | None

    def num_elements(self, groups: frozenset[int]) -> int:
        return sum(self.groups[g].size for g in groups)

"""A node of a field in parts, each a sparse function of some of its parameters.

What a grounding of a parfeature is made of is a sum over its edges, and each edge depends on few
of the parameters. So the groundings are described by labels: for each set W of parameters that
occurs, a label for each value of W, 0 unless listed. Two groundings whose labels agree in all parts
have the same children in the same numbers, and equal values whatever the weights are. Atoms have
one part: their arguments, label 1 where they are true.

A function F of a child's labels is summed over the child's groundings without listing those with
label 0. With l_i(g) the label of part i and δ the values of F there,

    F(l_1 … l_m) = Σ_S Π_{i in S} (δ_{l_i} − δ_0) Π_{i not in S} δ_0

so the sum is one over sets S of parts of joins of their listed rows, and parameters that no row
mentions multiply by the size of their domain. A flip makes some labels l into l'; in the flipped
world a part contributes δ_0 + (δ_l − δ_0) + (δ_l' − δ_l), the last where the flip changes it. What
the flip changes in a sum are the products with at least one such factor: an atom that a grounding
contains twice needs no care.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations, product
from math import prod
from typing import NamedTuple

import numpy as np

from lapis.data.keys import share_keys
from lapis.errors import TooLarge
from lapis.fields.census.combinations import Combinations, Numbering
from lapis.relational.factor import Factor, join, project, select
from lapis.relational.plan import Shape, count_distinct, joined

FLIP = "<flip>"  # the variable that tells flips apart
ALIKE, LISTED, CHANGED = 0, 1, 2  # what a part contributes: δ_0, δ_l − δ_0, δ_l' − δ_l


class Changes(NamedTuple):
    """What the flips of some atoms do to the labels of a part."""

    rows: np.ndarray  # int32[num_changes, 1 + num_variables], the flip and the values
    before: np.ndarray  # int64[num_changes]
    after: np.ndarray  # int64[num_changes]


@dataclass
class Part:
    variables: tuple[str, ...]
    rows: np.ndarray  # int32[num_rows, num_variables], where the label is not 0
    label: np.ndarray  # int64[num_rows]
    combinations: Combinations = field(default_factory=Combinations)  # what labels stand for
    changes: Changes | None = None  # of the flips that are looked at


@dataclass
class Member:
    """A predicate, a comparison or a parfeature."""

    parameters: tuple[str, ...]
    parts: list[Part]
    value: np.ndarray | None = None  # float64[num_labels], of atoms and comparisons
    terms_width: int = 1  # of the longest row
    terms: Numbering = field(default_factory=Numbering)  # of parfeatures: rows of `Sums`
    shared: list[tuple[int, int]] = field(default_factory=list)  # (term, count), all groundings'
    classes: Numbering = field(default_factory=Numbering)  # labels of all parts

    @property
    def width(self) -> int:
        return len(self.parts)

    def number(self, terms: np.ndarray) -> np.ndarray:
        """int64[num_terms], of rows of `Sums` that are as long as their edge's child is wide."""
        longer = np.zeros((len(terms), self.terms_width), np.int64)
        longer[:, : terms.shape[1]] = terms
        return self.terms.number(longer)

    def class_numbers(self, labels: np.ndarray) -> np.ndarray:
        """int64[num_rows], the classes of labels int64[num_rows, width]."""
        return self.classes.number(labels) if self.value is None else labels[:, 0]


class Reference(NamedTuple):
    """An edge of a parfeature, as joins see it."""

    number: int  # its weight
    child: Member
    terms: dict[str, str | int]  # of the child's parameters: a variable or a constant's code
    summed: dict[str, int]  # the variables summed over, with the sizes of their domains

    @property
    def num_terms(self) -> int:
        return prod(self.summed.values())

    def kept(self, part: Part) -> list[str]:
        """The parent's parameters in a part of the child."""
        found = [self.terms[name] for name in part.variables]
        return [term for term in found if isinstance(term, str) and term not in self.summed]

    def variable_sets(self) -> set[frozenset[str]]:
        """The sets of the parent's parameters that sums over this edge may depend on."""
        found: set[frozenset[str]] = set()
        for part in self.child.parts:
            own = frozenset(self.kept(part))
            found |= {own} | {own | other for other in found}
        return found


class Sums(NamedTuple):
    """Terms of the sums over an edge, by flip and by values of some of the parent's parameters.

    A term is a row (edge, from_1, to_1, … from_m, to_m) over the child's parts: a product of
    δ_to − δ_from, or of δ_0 where both are 0.
    """

    variables: frozenset[str]
    rows: np.ndarray  # int32[num_rows, FLIP first if flips are looked at, then the variables]
    term: np.ndarray  # int64[num_rows, 1 + 2 m]
    times: np.ndarray  # int64[num_rows], how often each


def sum_edge(
    edge: Reference, parameters: tuple[str, ...], *, flips: bool, most_pairs: int
) -> list[Sums]:
    """All terms of an edge that have listed rows; with `flips` those that flips change."""
    found = []
    options = [
        [ALIKE] + [LISTED] * bool(len(part.rows)) + [CHANGED] * (flips and part.changes is not None)
        for part in edge.child.parts
    ]
    for choice in product(*options):
        if (CHANGED in choice) == flips and any(choice):
            found.append(sum_choice(edge, parameters, choice, most_pairs))
    return found


def sum_choice(
    edge: Reference, parameters: tuple[str, ...], choice: tuple[int, ...], most_pairs: int
) -> Sums:
    factors, labels = [], []
    for number, (part, chosen) in enumerate(zip(edge.child.parts, choice, strict=True)):
        if chosen:
            factors.append(relation(part, chosen, number, edge.terms))
            labels += [
                name for name in (f"<{number}", f">{number}") if name in factors[-1].variables
            ]
    inside = {name for factor in factors for name in factor.variables}
    kept = [name for name in parameters if name in inside]
    names = ([FLIP] if FLIP in inside else []) + kept
    joint = join_all(factors, (*names, *labels), most_pairs)
    absent = prod(size for name, size in edge.summed.items() if name not in inside)
    none = np.zeros(len(joint), np.int64)
    columns = [np.full(len(joint), edge.number, np.int64)]
    for number in range(len(choice)):
        for name in (f"<{number}", f">{number}"):
            columns.append(joint.column(name).astype(np.int64) if name in labels else none)
    times = joint.value.astype(np.int64) * absent
    return Sums(frozenset(kept), joint.columns(names), np.stack(columns, axis=1), times)


def relation(part: Part, chosen: int, number: int, terms: dict[str, str | int]) -> Factor:
    """The listed or the changed rows of a part, over the parent's variables, with labels."""
    places = tuple(terms[name] for name in part.variables)
    if chosen == LISTED:
        return select((*places, f">{number}"), with_columns(part.rows, part.label))
    assert part.changes is not None
    rows = with_columns(part.changes.rows, part.changes.before, part.changes.after)
    return select((FLIP, *places, f"<{number}", f">{number}"), rows)


def with_columns(rows: np.ndarray, *columns: np.ndarray) -> np.ndarray:
    """int32[num_rows, ...]."""
    found = np.empty((len(rows), rows.shape[1] + len(columns)), np.int32, order="F")
    found[:, : rows.shape[1]] = rows
    for place, column in enumerate(columns):
        found[:, rows.shape[1] + place] = column
    return found


def join_all(factors: list[Factor], keep: tuple[str, ...], most_pairs: int) -> Factor:
    """Σ over all other variables of the product, the smallest joins first."""
    parts = [(factor, shape_of(factor)) for factor in factors]
    while len(parts) > 1:
        pairs = combinations(range(len(parts)), 2)
        best = min(pairs, key=lambda pair: joined(parts[pair[0]][1], parts[pair[1]][1]).rows)
        (left, _), (right, _) = (parts[place] for place in best)
        parts = [part for place, part in enumerate(parts) if place not in best]
        needed = {*keep, *(name for factor, _ in parts for name in factor.variables)}
        names = dict.fromkeys((*left.variables, *right.variables))
        require_pairs(left, right, most_pairs)
        both = join(left, right, tuple(name for name in names if name in needed))
        parts.append((both, shape_of(both)))
    return project(parts[0][0], keep)


def shape_of(factor: Factor) -> Shape:
    distinct = {name: float(count_distinct(factor.column(name))) for name in factor.variables}
    return Shape(float(len(factor)), distinct)


def require_pairs(left: Factor, right: Factor, most_pairs: int) -> None:
    if len(left) * len(right) <= most_pairs:
        return
    ones = [Factor(f.variables, f.rows, np.ones(len(f), np.int64)) for f in (left, right)]
    num_pairs = join(ones[0], ones[1], ()).total()
    if num_pairs > most_pairs:
        raise TooLarge(
            f"what flips change in the field takes a join of {num_pairs:,} rows, more than the "
            f"{most_pairs:,} that fit the memory",
            code="too-large",
            hint="give parfeatures fewer parameters, or raise max_memory",
        )


def look_up(part: Part, wanted: np.ndarray) -> np.ndarray:
    """int64[num_wanted], the labels at values int32[num_wanted, num_variables]."""
    if not len(part.rows):
        return np.zeros(len(wanted), np.int64)
    known, asked = share_keys(part.rows.T, wanted.T).parts
    order = np.argsort(known)
    place = np.minimum(np.searchsorted(known[order], asked), len(known) - 1)
    return np.where(known[order][place] == asked, part.label[order][place], 0)

"""Pseudo-log-likelihood of a field from counts of groundings and flips in classes.

    Σ_t log P(x_t | all others) = −Σ_t log(1 + exp(Δ_t)),   Δ_t = log f_0[x_t flipped] − log f_0

t is an atom, or a block of atoms of which exactly one is true; then the sum inside runs over the
other states of the block. Thesis section 3.4 flips one atom after another. But most flips change
groundings of the same kinds, whatever the weights are. So a world is counted once, in classes:

    bottom-up    labels of the groundings in the data
    flips        bottom-up for each predicate: the labels that its flips change, up to the root,
                 where a flip is a formal sum of changed groundings; equal sums are one class
    top-down     from the classes of flips, the classes of groundings that they contain, and the
                 number of groundings of each child class in each parent class

The result are sparse matrices of counts. With f the values of classes, C_ij the counts of the
classes of child j in those of parent i, and D_j the changes of the classes of flips,

    e_i = Σ_j w_ij (C_ij f_j − [w_ij > 0] n_ij),   f_i = exp(e_i),   Δ = Σ_j w_0j D_j f_j

and the gradient is one back-propagation. The cost depends on the true atoms, the joins of them in
parfeatures, and the flipped atoms, not on the groundings: a parfeature of three people among a
thousand has 10^9 of those. What did not work: a dense table for each parfeature (0.9 GB, and
seconds for each evaluation with 200 people); a list of the groundings that a true atom touches
(15 million of the 10^9).

Labels. The value of a grounding is a sum over edges, and each edge depends on few parameters. So a
node has a part for each set W of parameters that occurs, with a label for each value of W; only
labels other than 0 are listed. Two groundings whose labels agree in all parts have the same
children in equal numbers, hence equal values. Atoms have one part: their arguments, with label 1 if
they are true.

Sums. A function F of a child's labels is summed over the child's groundings without listing those
of label 0. With l_i(g) the label of part i and δ the values of F,

    F(l_1 … l_m) = Σ_S Π_{i in S} (δ_{l_i} − δ_0) Π_{i not in S} δ_0

so the sum is one over sets S of parts, of joins of their listed rows. Parameters that no row
contains multiply by the size of their domain. A flip changes some labels l to l'. In the flipped
world a part contributes δ_0 + (δ_l − δ_0) + (δ_l' − δ_l), the last term if the flip changes it. The
change of a sum consists of the products with at least one such term. This is right also if a
grounding contains an atom twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.data.database import Domain
from lapis.data.keys import number_rows, share_keys
from lapis.errors import TooLarge
from lapis.fields.field import COMPARISONS, ROOT, Child, Field, Parfeature
from lapis.fields.ground_field import compare_terms
from lapis.language.syntax import Variable
from lapis.relational.factor import Factor, join_factors, project_factor, select_tuples
from lapis.relational.query_plan import FactorSize, count_distinct, estimate_join
from lapis.runtime.limits import memory_limit
from lapis.runtime.progress import Progress, Report

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Numbering:
    """Numbers 0, 1, … of distinct rows of integers, in order of appearance."""

    def __init__(self) -> None:
        self._index: dict[tuple[int, ...], int] = {}

    def __len__(self) -> int:
        return len(self._index)

    def number(self, rows: np.ndarray) -> np.ndarray:
        """Return int64[num_rows], the numbers of rows int64[num_rows, width]."""
        first, which = number_rows(list(rows.T), len(rows))
        index = self._index
        found = [index.setdefault(tuple(row), len(index)) for row in rows[first].tolist()]
        return np.array(found, np.int64)[which]

    def rows(self, width: int) -> np.ndarray:
        """Return int64[len, width], the rows in the order of their numbers."""
        return np.array(list(self._index), np.int64).reshape(len(self._index), width)


class Combinations:
    """Numbers of formal sums Σ count · term; 0 is the empty sum.

    Two sums are identified if Σ count · r(term) modulo 2^64 agrees for two random functions r.
    These hashes are linear, so the hash of a changed sum follows from the old hash and the change,
    and only the first sum of each class is stored. Among ten million sums, two different ones agree
    with probability 10^−25.
    """

    def __init__(self) -> None:
        self._index: dict[tuple[int, int], int] = {(0, 0): 0}
        self._code = np.zeros((1, 2), np.int64)
        self._written: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def __len__(self) -> int:
        return len(self._index)

    def number(
        self, old: np.ndarray, group: np.ndarray, term: np.ndarray, count: np.ndarray
    ) -> np.ndarray:
        """Return int64[num_groups], the numbers of the sums `old` plus changes.

        `group`, `term` and `count`, int64[num_changes], are the changes.
        """
        code = self._code[old]
        for side in (0, 1):
            np.add.at(code[:, side], group, count * hash_numbers(term, side))
        first, which = number_rows([code[:, 0], code[:, 1]], len(code))
        known, index = len(self._index), self._index
        pairs = code[first].tolist()
        found = np.array([index.setdefault((a, b), len(index)) for a, b in pairs], np.int64)
        fresh = found >= known
        place = np.full(len(old), -1, np.int64)
        place[first[fresh]] = found[fresh]
        own = place[group]
        written = [(own[own >= 0], term[own >= 0], count[own >= 0])]
        before = old[first[fresh]]
        if before.any():
            kept = self.matrix(1 + max(int(terms.max(initial=0)) for _, terms, _ in self._written))
            rows = kept[before].tocoo()
            written.append((found[fresh][rows.row], rows.col.astype(np.int64), rows.data))
        self._written += written
        self._code = np.concatenate([self._code, code[first[fresh]]])
        return found[which]

    def matrix(self, num_terms: int) -> csr_array:
        """Return int64[len, num_terms], the counts."""
        from scipy.sparse import coo_array

        none = np.empty(0, np.int64)
        columns = zip((none, none, none), *self._written, strict=True)
        rows, terms, counts = (np.concatenate(column) for column in columns)
        return coo_array((counts, (rows, terms)), shape=(len(self), num_terms)).tocsr()


def hash_numbers(number: np.ndarray, side: int) -> np.ndarray:
    """Return int64[...], pseudo-random bits of each number (the finaliser of SplitMix64)."""
    bits = (number.astype(np.uint64) * np.uint64(2) + np.uint64(side + 1)) * np.uint64(
        0x9E3779B97F4A7C15
    )
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return (bits ^ (bits >> np.uint64(31))).view(np.int64)


FLIP = "<flip>"  # the variable whose value is the number of the flip
ALIKE, LISTED, CHANGED = 0, 1, 2  # the term of a part: δ_0, δ_l − δ_0, δ_l' − δ_l


class Changes(NamedTuple):
    """The labels of a part that flips change."""

    rows: np.ndarray  # int32[num_changes, 1 + num_variables], the flip and the values
    before: np.ndarray  # int64[num_changes]
    after: np.ndarray  # int64[num_changes]


@dataclass
class LabelledPart:
    """The labels of a node's groundings as a sparse function of some of its parameters."""

    variables: tuple[str, ...]
    rows: np.ndarray  # int32[num_rows, num_variables], where the label is not 0
    label: np.ndarray  # int64[num_rows]
    combinations: Combinations = field(default_factory=Combinations)  # the sum of each label
    changes: Changes | None = None  # by the present flips


@dataclass
class Member:
    """A predicate, a comparison or a parfeature, in parts."""

    parameters: tuple[str, ...]
    parts: list[LabelledPart]
    value: np.ndarray | None = None  # float64[num_labels], of atoms and comparisons
    terms_width: int = 1  # of the longest row
    terms: Numbering = field(default_factory=Numbering)  # of parfeatures: rows of `Sums`
    shared: list[tuple[int, int]] = field(default_factory=list)  # (term, count) of all groundings
    classes: Numbering = field(default_factory=Numbering)  # rows of the labels of all parts

    @property
    def width(self) -> int:
        return len(self.parts)

    def number(self, terms: np.ndarray) -> np.ndarray:
        """Return int64[num_terms], the numbers of rows of `Sums`, padded to `terms_width`."""
        longer = np.zeros((len(terms), self.terms_width), np.int64)
        longer[:, : terms.shape[1]] = terms
        return self.terms.number(longer)

    def class_numbers(self, labels: np.ndarray) -> np.ndarray:
        """Return int64[num_rows], the classes of labels int64[num_rows, width]."""
        return self.classes.number(labels) if self.value is None else labels[:, 0]


class EdgeReference(NamedTuple):
    """An edge of a parfeature: its child, and the variables of the join."""

    number: int  # of its weight
    child: Member
    terms: dict[str, str | int]  # by the child's parameters: a variable or a constant's code
    summed: dict[str, int]  # the summed variables, with the sizes of their domains

    @property
    def num_terms(self) -> int:
        return prod(self.summed.values())

    def kept(self, part: LabelledPart) -> list[str]:
        """Return the parent's parameters in a part of the child."""
        found = [self.terms[name] for name in part.variables]
        return [term for term in found if isinstance(term, str) and term not in self.summed]

    def variable_sets(self) -> set[frozenset[str]]:
        """Return the sets of the parent's parameters on which sums over this edge may depend."""
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
    rows: np.ndarray  # int32[num_rows, ...], the flip if flips are counted, then the variables
    term: np.ndarray  # int64[num_rows, 1 + 2 m]
    times: np.ndarray  # int64[num_rows], the multiplicity of each


def sum_edge(
    edge: EdgeReference, parameters: tuple[str, ...], *, flips: bool, most_pairs: int
) -> list[Sums]:
    """Return the terms of an edge with listed rows; with `flips` those that flips change."""
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
    edge: EdgeReference, parameters: tuple[str, ...], choice: tuple[int, ...], most_pairs: int
) -> Sums:
    factors, labels = [], []
    for number, (part, chosen) in enumerate(zip(edge.child.parts, choice, strict=True)):
        if chosen:
            factors.append(part_factor(part, chosen, number, edge.terms))
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


def part_factor(
    part: LabelledPart, chosen: int, number: int, terms: dict[str, str | int]
) -> Factor:
    """Return the listed or the changed rows of a part, with labels, over the parent's variables."""
    places = tuple(terms[name] for name in part.variables)
    if chosen == LISTED:
        return select_tuples((*places, f">{number}"), with_columns(part.rows, part.label))
    assert part.changes is not None
    rows = with_columns(part.changes.rows, part.changes.before, part.changes.after)
    return select_tuples((FLIP, *places, f"<{number}", f">{number}"), rows)


def with_columns(rows: np.ndarray, *columns: np.ndarray) -> np.ndarray:
    """Append columns to rows; int32[num_rows, ...]."""
    found = np.empty((len(rows), rows.shape[1] + len(columns)), np.int32, order="F")
    found[:, : rows.shape[1]] = rows
    for place, column in enumerate(columns):
        found[:, rows.shape[1] + place] = column
    return found


def join_all(factors: list[Factor], keep: tuple[str, ...], most_pairs: int) -> Factor:
    """Compute the sum over all other variables of the product, smallest joins first."""
    parts = [(factor, factor_size(factor)) for factor in factors]
    while len(parts) > 1:
        pairs = combinations(range(len(parts)), 2)
        best = min(pairs, key=lambda pair: estimate_join(parts[pair[0]][1], parts[pair[1]][1]).rows)
        (left, _), (right, _) = (parts[place] for place in best)
        parts = [part for place, part in enumerate(parts) if place not in best]
        needed = {*keep, *(name for factor, _ in parts for name in factor.variables)}
        names = dict.fromkeys((*left.variables, *right.variables))
        require_pairs(left, right, most_pairs)
        both = join_factors(left, right, tuple(name for name in names if name in needed))
        parts.append((both, factor_size(both)))
    return project_factor(parts[0][0], keep)


def factor_size(factor: Factor) -> FactorSize:
    distinct = {name: float(count_distinct(factor.column(name))) for name in factor.variables}
    return FactorSize(float(len(factor)), distinct)


def require_pairs(left: Factor, right: Factor, most_pairs: int) -> None:
    if len(left) * len(right) <= most_pairs:
        return
    ones = [Factor(f.variables, f.rows, np.ones(len(f), np.int64)) for f in (left, right)]
    num_pairs = join_factors(ones[0], ones[1], ()).total()
    if num_pairs > most_pairs:
        raise TooLarge(
            f"counting the flips of the field needs a join of {num_pairs:,} rows, more than the "
            f"{most_pairs:,} that fit in memory",
            code="too-large",
            hint="give parfeatures fewer parameters, or raise max_memory",
        )


def find_labels(part: LabelledPart, wanted: np.ndarray) -> np.ndarray:
    """Return int64[num_wanted], the labels at values int32[num_wanted, num_variables]."""
    if not len(part.rows):
        return np.zeros(len(wanted), np.int64)
    known, asked = share_keys(part.rows.T, wanted.T).parts
    order = np.argsort(known)
    place = np.minimum(np.searchsorted(known[order], asked), len(known) - 1)
    return np.where(known[order][place] == asked, part.label[order][place], 0)


BYTES_A_PAIR = 60  # of a join, while it is grouped
FLIPS_AT_ONCE = 1 << 17


class Flips(NamedTuple):
    """Changes of a predicate's atoms: flip k changes the atoms of the rows with `flip` = k."""

    predicate: str
    number: int  # of flips
    flip: np.ndarray  # int64[num_rows], ascending
    rows: np.ndarray  # int32[num_rows, arity]
    truth: np.ndarray  # bool[num_rows], before


class ClassEdge(NamedTuple):
    """An edge with the counts of child classes in parent classes."""

    number: int  # of its weight
    child: str
    counts: csr_array  # float64[num_classes_of_parent, num_classes_of_child]
    num_terms: int


class LiftedCounts(NamedTuple):
    """The classes of a world's groundings and flips, and their counts."""

    value: Mapping[str, np.ndarray]  # float64[num_classes], of atoms and comparisons
    size: Mapping[str, int]  # the number of classes of each parfeature, of flips for the root
    layers: tuple[
        tuple[str, tuple[ClassEdge, ...]], ...
    ]  # parfeatures, children first, without the root
    root: tuple[ClassEdge, ...]  # num_classes_of_parent: the classes of flips; counts are changes
    classes: tuple[np.ndarray, ...]  # for each of the Flips int64[number], the class of each flip


def count_classes(
    field: Field,
    domains: Mapping[str, Domain],
    true: Mapping[str, np.ndarray],  # by predicate, int32[num_true, arity]
    flips: Sequence[Flips],
    max_memory: int | None = None,
    progress: Report | None = None,
) -> LiftedCounts:
    """Count the classes of groundings and flips; raise TooLarge if a join exceeds memory."""
    most_pairs = memory_limit(max_memory) // BYTES_A_PAIR
    members: dict[str, Member] = {}
    for name, predicate in field.declarations.predicates.items():
        names = tuple(map(str, range(predicate.arity)))
        members[name] = make_listed_member(names, true[name], np.array([0.0, 1.0]))
    numbers: dict[str, list[tuple[int, Child]]] = {name: [] for name in field.by_name}
    for number, (parfeature, child) in enumerate(field.edges()):
        numbers[parfeature.name].append((number, child))
        if child.target in COMPARISONS:
            members[f"{child.target} {number}"] = make_comparison_member(parfeature, child, domains)
    edges: dict[str, list[EdgeReference]] = {}
    for name in field.order:
        parfeature = field.by_name[name]
        edges[name] = [
            make_reference(*each, field, parfeature, members, domains) for each in numbers[name]
        ]
        members[name] = label_groundings(parfeature, edges[name], most_pairs)
    began, done, total = time.monotonic(), 0, sum(each.number for each in flips)
    found = []
    for each in flips:
        classes = [np.empty(0, np.int64)]
        for batch in split_flips(each):
            classes.append(count_flips(batch, field, members, edges, most_pairs))
            done += batch.number
            if progress is not None:
                progress(Progress("counting", done, total, time.monotonic() - began))
        found.append(np.concatenate(classes))
    return build_counts(field, members, edges, found)


def split_flips(flips: Flips) -> Iterator[Flips]:
    """Yield the flips in batches, which limits the memory of joins."""
    for first in range(0, max(1, flips.number), FLIPS_AT_ONCE):
        last = min(first + FLIPS_AT_ONCE, flips.number)
        here = slice(*np.searchsorted(flips.flip, [first, last]))
        yield Flips(
            flips.predicate, last - first, flips.flip[here] - first, flips.rows[here],
            flips.truth[here],
        )  # fmt: skip


def make_listed_member(names: tuple[str, ...], rows: np.ndarray, value: np.ndarray) -> Member:
    return Member(names, [LabelledPart(names, rows, np.ones(len(rows), np.int64))], value)


def make_comparison_member(
    parfeature: Parfeature, child: Child, domains: Mapping[str, Domain]
) -> Member:
    """Build the member of a comparison; the rarer truth value is listed."""
    holds = compare_terms(parfeature, child, domains)
    often = bool(2 * holds.sum() > holds.size)
    value = np.array([float(often), float(not often)])
    return make_listed_member(child.variables, np.argwhere(holds != often).astype(np.int32), value)


def make_reference(
    number: int,
    child: Child,
    field: Field,
    parfeature: Parfeature,
    members: Mapping[str, Member],
    domains: Mapping[str, Domain],
) -> EdgeReference:
    type_of = parfeature.types_in(child)
    summed = {name: len(domains[type_of[name]]) for name in parfeature.summed(child)}
    if child.target in COMPARISONS:
        member = members[f"{child.target} {number}"]
        return EdgeReference(number, member, {name: name for name in child.variables}, summed)
    member = members[child.target]
    types = field.argument_types(child.target)
    terms: dict[str, str | int] = {
        name: term.name if isinstance(term, Variable) else domains[type_name].index[term.name]
        for name, term, type_name in zip(member.parameters, child.terms, types, strict=True)
    }
    return EdgeReference(number, member, terms, summed)


def label_groundings(
    parfeature: Parfeature, edges: Sequence[EdgeReference], most_pairs: int
) -> Member:
    """Label the groundings of a parfeature in the data; the root needs none."""
    parameters = parfeature.parameters
    longest = max([edge.child.width for edge in edges], default=0)
    member = Member(parameters, [], terms_width=1 + 2 * longest)
    sums = []
    for edge in edges:
        plain = np.zeros((1, 1 + 2 * edge.child.width), np.int64)
        plain[0, 0] = edge.number
        member.shared.append((int(member.number(plain)[0]), edge.num_terms))
        if parfeature.name != ROOT:
            sums += sum_edge(edge, parameters, flips=False, most_pairs=most_pairs)
    sets = {own for edge in edges for own in edge.variable_sets()}
    for own in sorted(sets, key=lambda names: (len(names), sorted(names))):
        names = tuple(name for name in parameters if name in own)
        part = LabelledPart(names, np.empty((0, len(names)), np.int32), np.empty(0, np.int64))
        rows, group, term, count = group_terms(member, sums, own, len(names))
        if names:
            label = part.combinations.number(np.zeros(len(rows), np.int64), group, term, count)
            part.rows, part.label = rows[label > 0], label[label > 0]
        else:
            member.shared += zip(term.tolist(), count.tolist(), strict=True)
        member.parts.append(part)
    return member


def count_flips(
    flips: Flips,
    field: Field,
    members: Mapping[str, Member],
    edges: Mapping[str, Sequence[EdgeReference]],
    most_pairs: int,
) -> np.ndarray:
    """Return int64[number], the classes of the flips; adds new labels to the members."""
    changed = [members[flips.predicate].parts[0]]
    rows = np.column_stack([flips.flip, flips.rows]).astype(np.int32)
    before = flips.truth.astype(np.int64)
    changed[0].changes = Changes(rows, before, 1 - before)
    for name in field.order:
        member = members[name]
        sums: list[Sums] = []
        for edge in edges[name]:
            sums += sum_edge(edge, member.parameters, flips=True, most_pairs=most_pairs)
        for part in member.parts:
            own = frozenset(part.variables)
            rows, group, term, count = group_terms(member, sums, own, 1 + len(part.variables))
            if not len(rows):
                continue
            before = find_labels(part, rows[:, 1:])
            after = part.combinations.number(before, group, term, count)
            if name == ROOT:
                classes = np.zeros(flips.number, np.int64)
                classes[rows[:, 0]] = after
                break
            other = before != after
            part.changes = Changes(rows[other], before[other], after[other])
            changed.append(part)
        else:
            classes = np.zeros(flips.number, np.int64)
    for part in changed:
        part.changes = None
    return classes


def group_terms(
    member: Member, sums: Sequence[Sums], own: frozenset[str], width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct rows over some parameters, and each term's row, number and count."""
    mine = [each for each in sums if each.variables == own and len(each.rows)]
    none = np.empty(0, np.int64)
    rows = np.concatenate([np.empty((0, width), np.int32), *(each.rows for each in mine)])
    term = np.concatenate([none, *(member.number(each.term) for each in mine)])
    count = np.concatenate([none, *(each.times for each in mine)])
    first, group = number_rows(list(rows.T), len(rows))
    return rows[first], group, term, count


def build_counts(
    field: Field,
    members: Mapping[str, Member],
    edges: Mapping[str, Sequence[EdgeReference]],
    classes: Sequence[np.ndarray],
) -> LiftedCounts:
    """Build the counts top-down from the classes of flips."""
    names = {id(member): name for name, member in members.items()}
    found: dict[str, list[ClassEdge]] = {}
    size: dict[str, int] = {}
    for name in reversed(field.order):
        member = members[name]
        counts = flip_counts(member) if name == ROOT else class_counts(member)
        size[name] = counts.shape[0]
        terms = member.terms.rows(member.terms_width)
        found[name] = [
            ClassEdge(
                edge.number,
                names[id(edge.child)],
                expand_products(edge, terms, counts),
                edge.num_terms,
            )
            for edge in edges[name]
        ]
    for name, own in found.items():
        found[name] = [
            edge._replace(counts=add_columns(edge.counts, members[edge.child])) for edge in own
        ]
    values = {name: member.value for name, member in members.items() if member.value is not None}
    layers = tuple((name, tuple(found[name])) for name in field.order if name != ROOT)
    return LiftedCounts(values, size, layers, tuple(found[ROOT]), tuple(classes))


def flip_counts(root: Member) -> csr_array:
    """Return int64[num_flip_classes, num_terms]."""
    [part] = root.parts or [LabelledPart((), np.empty((0, 0), np.int32), np.empty(0, np.int64))]
    return part.combinations.matrix(len(root.terms))


def class_counts(member: Member) -> csr_array:
    """Return int64[num_classes, num_terms] of the classes that have numbers so far."""
    from scipy.sparse import csr_array

    labels = member.classes.rows(member.width)
    row = np.zeros((1, len(member.terms)), np.int64)
    for term, count in member.shared:
        row[0, term] += count
    total = csr_array(np.ones((len(labels), 1), np.int64)) @ csr_array(row)
    for place, part in enumerate(member.parts):
        total = total + part.combinations.matrix(len(member.terms))[labels[:, place]]
    return total.tocsr()


def expand_products(edge: EdgeReference, terms: np.ndarray, counts: csr_array) -> csr_array:
    """Expand the products of differences; int64[num_rows_of_counts, num_classes_of_child]."""
    from scipy.sparse import coo_array

    mine = np.flatnonzero(terms[:, 0] == edge.number)
    width = edge.child.width
    pairs = terms[mine, 1 : 1 + 2 * width]
    before, after = pairs[:, 0::2], pairs[:, 1::2]
    differs = before != after
    where, labels, sign = [], [], []
    for bits in range(1 << width):
        low = (bits >> np.arange(width)) & 1 == 1
        rows = np.flatnonzero((differs | ~low).all(axis=1))
        where.append(mine[rows])
        labels.append(np.where(low, before[rows], after[rows]))
        sign.append(np.full(len(rows), -1 if low.sum() % 2 else 1, np.int64))
    each = np.concatenate(labels)
    first, local = number_rows(list(each.T), len(each))
    shape = (len(terms), len(first))
    product = (
        counts
        @ coo_array((np.concatenate(sign), (np.concatenate(where), local)), shape=shape).tocsr()
    )
    product.sum_duplicates()
    product.eliminate_zeros()
    used = np.unique(product.indices)
    number = np.zeros(len(first), np.int64)
    number[used] = edge.child.class_numbers(each[first[used]])
    rows = np.repeat(np.arange(product.shape[0]), np.diff(product.indptr))
    columns = number[product.indices]
    wide = int(columns.max(initial=-1)) + 1
    return coo_array((product.data, (rows, columns)), shape=(product.shape[0], wide)).tocsr()


def add_columns(count: csr_array, child: Member) -> csr_array:
    """Extend the counts by columns for classes of the child that were numbered later."""
    from scipy.sparse import csr_array

    size = len(child.classes) if child.value is None else len(child.value)
    parts = (count.data.astype(np.float64), count.indices, count.indptr)
    return csr_array(parts, shape=(count.shape[0], size))


class FlipGroups(NamedTuple):
    """Mutually exclusive flips: that of an atom, or the other states of a block."""

    predicate: str
    start: np.ndarray  # int64[num_groups + 1]
    flip_class: np.ndarray  # int64[start[-1]]
    times: np.ndarray  # float64[num_groups], the multiplicity of each
    num_variables: int  # atoms, or blocks


class PseudoClasses(NamedTuple):
    """The counts of a world and its flips."""

    census: LiftedCounts
    groups: tuple[FlipGroups, ...]


def class_pseudo_likelihood(
    counted: PseudoClasses, weights: np.ndarray
) -> tuple[dict[str, float], np.ndarray]:
    """Return the value of each predicate's atoms, and the gradient of the sum."""
    census = counted.census
    value, sums, change = evaluate_classes(census, weights)
    by_change = np.zeros_like(change)
    total: dict[str, float] = {}
    for each in counted.groups:
        found, probability = log_loss(each, change)
        total[each.predicate] = -float(each.times @ found)
        times = np.repeat(each.times, np.diff(each.start))
        by_change -= np.bincount(each.flip_class, times * probability, minlength=len(change))
    return total, back_propagate(census, weights, value, sums, by_change)


def log_loss(groups: FlipGroups, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute log(1 + Σ exp Δ) of each group, and the probability of each flip."""
    own = change[groups.flip_class]
    if not len(own):
        return np.zeros(0), own
    total = np.logaddexp(0.0, np.logaddexp.reduceat(own, groups.start[:-1]))
    return total, np.exp(own - np.repeat(total, np.diff(groups.start)))


def evaluate_classes(
    census: LiftedCounts, weights: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[int, np.ndarray], np.ndarray]:
    """Compute the values of all classes, C f − [w > 0] n of each edge (D f for the root), and Δ."""
    value, sums = dict(census.value), {}
    for name, edges in census.layers:
        exponent = np.zeros(census.size[name])
        for edge in edges:
            weight = float(weights[edge.number])
            sums[edge.number] = edge.counts @ value[edge.child] - (weight > 0) * edge.num_terms
            exponent += weight * sums[edge.number]
        # Exponents exceed 0 only by rounding.
        value[name] = np.exp(np.minimum(exponent, 0.0))
    change = np.zeros(census.size[ROOT])
    for edge in census.root:
        sums[edge.number] = edge.counts @ value[edge.child]
        change += weights[edge.number] * sums[edge.number]
    return value, sums, change


def back_propagate(
    census: LiftedCounts,
    weights: np.ndarray,
    value: dict[str, np.ndarray],
    sums: dict[int, np.ndarray],
    by_change: np.ndarray,
) -> np.ndarray:
    """Compute the gradient float64[num_weights] from derivatives with respect to Δ."""
    gradient = np.zeros(len(weights))
    by_value = {name: np.zeros(len(found)) for name, found in value.items()}
    slope = by_change
    for name, edges in [("", census.root), *reversed(census.layers)]:
        if name:
            slope = by_value[name] * value[name]
        for edge in edges:
            gradient[edge.number] = slope @ sums[edge.number]
            by_value[edge.child] += weights[edge.number] * (edge.counts.T @ slope)
    return gradient

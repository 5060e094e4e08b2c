"""The census of a world: the classes of groundings and of flips that its pseudo-likelihood needs.

Thesis section 3.4 flips one atom after another and computes what is above it. Most flips do the
same to groundings of the same kinds, whatever the weights are. So a world is counted once:

    bottom-up    labels for what is true in the data, part by part (`parts`)
    flips        bottom-up again for each predicate, which labels its flips change into which, up to
                 the root, where a flip is a formal sum of changed groundings; equal sums are one
                 class
    top-down     from the classes of flips the classes of groundings that they mention, and how many
                 groundings of each class of a child each class of a parent has

What is left are sparse matrices of counts, and learning works on them alone (`pseudo`). Cost
follows the true atoms, the joins of them that parfeatures make, and the atoms that are flipped, not
the groundings: a parfeature of three people among a thousand has 10^9 of those. What did not work:
a dense table for each parfeature, 0.9 GB and seconds for each evaluation with 200 people; keeping
the groundings that a true atom touches, of which there are 15 million among those 10^9.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.data.database import Domain
from lapis.data.keys import number_rows
from lapis.fields.census.parts import Changes, Member, Part, Reference, Sums, look_up, sum_edge
from lapis.fields.field import COMPARISONS, ROOT, Child, Field, Parfeature
from lapis.fields.ground import compare
from lapis.grounding.limits import memory_limit
from lapis.language.syntax import Variable
from lapis.runtime.progress import Progress, Report

if TYPE_CHECKING:
    from scipy.sparse import csr_array

BYTES_A_PAIR = 60  # of a join, while it is grouped
AT_ONCE = 1 << 17  # flips


class Flips(NamedTuple):
    """Changes of a predicate's atoms: flip k turns the atoms of the rows that have its number."""

    predicate: str
    number: int  # of flips
    flip: np.ndarray  # int64[num_rows], not descending
    rows: np.ndarray  # int32[num_rows, arity]
    truth: np.ndarray  # bool[num_rows], before


class Edge(NamedTuple):
    """An edge between classes."""

    number: int  # its weight
    child: str
    counts: csr_array  # float64[num_classes_of_parent, num_classes_of_child]
    num_terms: int


class Census(NamedTuple):
    value: Mapping[str, np.ndarray]  # float64[num_classes], of atoms and comparisons
    size: Mapping[str, int]  # the number of classes of each parfeature, of flips for the root
    layers: tuple[
        tuple[str, tuple[Edge, ...]], ...
    ]  # parfeatures, children first, without the root
    root: tuple[Edge, ...]  # num_classes_of_parent: the classes of flips; counts are changes
    classes: tuple[np.ndarray, ...]  # for each of the Flips int64[number], the class of each flip


def take_census(
    field: Field,
    domains: Mapping[str, Domain],
    true: Mapping[str, np.ndarray],  # by predicate, int32[num_true, arity]
    flips: Sequence[Flips],
    max_memory: int | None = None,
    progress: Report | None = None,
) -> Census:
    """Raises TooLarge where joins do not fit the memory."""
    most_pairs = memory_limit(max_memory) // BYTES_A_PAIR
    members: dict[str, Member] = {}
    for name, predicate in field.declarations.predicates.items():
        names = tuple(map(str, range(predicate.arity)))
        members[name] = listed(names, true[name], np.array([0.0, 1.0]))
    numbers: dict[str, list[tuple[int, Child]]] = {name: [] for name in field.by_name}
    for number, (parfeature, child) in enumerate(field.edges()):
        numbers[parfeature.name].append((number, child))
        if child.target in COMPARISONS:
            members[f"{child.target} {number}"] = compared(parfeature, child, domains)
    edges: dict[str, list[Reference]] = {}
    for name in field.order:
        parfeature = field.by_name[name]
        edges[name] = [refer(*each, field, parfeature, members, domains) for each in numbers[name]]
        members[name] = count_data(parfeature, edges[name], most_pairs)
    began, done, total = time.monotonic(), 0, sum(each.number for each in flips)
    found = []
    for each in flips:
        classes = [np.empty(0, np.int64)]
        for batch in batches(each):
            classes.append(count_flips(batch, field, members, edges, most_pairs))
            done += batch.number
            if progress is not None:
                progress(Progress("counting", done, total, time.monotonic() - began))
        found.append(np.concatenate(classes))
    return assemble(field, members, edges, found)


def batches(flips: Flips) -> Iterator[Flips]:
    """The same flips, not too many at a time: joins of all of them need room."""
    for first in range(0, max(1, flips.number), AT_ONCE):
        last = min(first + AT_ONCE, flips.number)
        here = slice(*np.searchsorted(flips.flip, [first, last]))
        yield Flips(
            flips.predicate, last - first, flips.flip[here] - first, flips.rows[here],
            flips.truth[here],
        )  # fmt: skip


def listed(names: tuple[str, ...], rows: np.ndarray, value: np.ndarray) -> Member:
    return Member(names, [Part(names, rows, np.ones(len(rows), np.int64))], value)


def compared(parfeature: Parfeature, child: Child, domains: Mapping[str, Domain]) -> Member:
    """A comparison; listed is what is rare."""
    holds = compare(parfeature, child, domains)
    often = bool(2 * holds.sum() > holds.size)
    value = np.array([float(often), float(not often)])
    return listed(child.variables, np.argwhere(holds != often).astype(np.int32), value)


def refer(
    number: int,
    child: Child,
    field: Field,
    parfeature: Parfeature,
    members: Mapping[str, Member],
    domains: Mapping[str, Domain],
) -> Reference:
    type_of = parfeature.types_in(child)
    summed = {name: len(domains[type_of[name]]) for name in parfeature.summed(child)}
    if child.target in COMPARISONS:
        member = members[f"{child.target} {number}"]
        return Reference(number, member, {name: name for name in child.variables}, summed)
    member = members[child.target]
    types = field.argument_types(child.target)
    terms: dict[str, str | int] = {
        name: term.name if isinstance(term, Variable) else domains[type_name].index[term.name]
        for name, term, type_name in zip(member.parameters, child.terms, types, strict=True)
    }
    return Reference(number, member, terms, summed)


def count_data(parfeature: Parfeature, edges: Sequence[Reference], most_pairs: int) -> Member:
    """A parfeature with the labels of its groundings in the data; of the root only flips matter."""
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
        part = Part(names, np.empty((0, len(names)), np.int32), np.empty(0, np.int64))
        rows, group, term, count = gather(member, sums, own, len(names))
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
    edges: Mapping[str, Sequence[Reference]],
    most_pairs: int,
) -> np.ndarray:
    """int64[number], the classes of the flips; leaves nothing behind but labels."""
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
            rows, group, term, count = gather(member, sums, own, 1 + len(part.variables))
            if not len(rows):
                continue
            before = look_up(part, rows[:, 1:])
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


def gather(
    member: Member, sums: Sequence[Sums], own: frozenset[str], width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The distinct rows over some parameters, and for each term its row, number and count."""
    mine = [each for each in sums if each.variables == own and len(each.rows)]
    none = np.empty(0, np.int64)
    rows = np.concatenate([np.empty((0, width), np.int32), *(each.rows for each in mine)])
    term = np.concatenate([none, *(member.number(each.term) for each in mine)])
    count = np.concatenate([none, *(each.times for each in mine)])
    first, group = number_rows(list(rows.T), len(rows))
    return rows[first], group, term, count


def assemble(
    field: Field,
    members: Mapping[str, Member],
    edges: Mapping[str, Sequence[Reference]],
    classes: Sequence[np.ndarray],
) -> Census:
    """From the classes of flips down: the classes that they mention, and their children's."""
    names = {id(member): name for name, member in members.items()}
    found: dict[str, list[Edge]] = {}
    size: dict[str, int] = {}
    for name in reversed(field.order):
        member = members[name]
        counts = flip_counts(member) if name == ROOT else class_counts(member)
        size[name] = counts.shape[0]
        terms = member.terms.rows(member.terms_width)
        found[name] = [
            Edge(edge.number, names[id(edge.child)], expand(edge, terms, counts), edge.num_terms)
            for edge in edges[name]
        ]
    for name, own in found.items():
        found[name] = [
            edge._replace(counts=widen(edge.counts, members[edge.child])) for edge in own
        ]
    values = {name: member.value for name, member in members.items() if member.value is not None}
    layers = tuple((name, tuple(found[name])) for name in field.order if name != ROOT)
    return Census(values, size, layers, tuple(found[ROOT]), tuple(classes))


def flip_counts(root: Member) -> csr_array:
    """int64[num_flip_classes, num_terms]."""
    [part] = root.parts or [Part((), np.empty((0, 0), np.int32), np.empty(0, np.int64))]
    return part.combinations.matrix(len(root.terms))


def class_counts(member: Member) -> csr_array:
    """int64[num_classes, num_terms], of the classes asked for so far."""
    from scipy.sparse import csr_array

    labels = member.classes.rows(member.width)
    row = np.zeros((1, len(member.terms)), np.int64)
    for term, count in member.shared:
        row[0, term] += count
    total = csr_array(np.ones((len(labels), 1), np.int64)) @ csr_array(row)
    for place, part in enumerate(member.parts):
        total = total + part.combinations.matrix(len(member.terms))[labels[:, place]]
    return total.tocsr()


def expand(edge: Reference, terms: np.ndarray, counts: csr_array) -> csr_array:
    """int64[num_rows_of_counts, num_classes_of_child], products of differences multiplied out."""
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


def widen(count: csr_array, child: Member) -> csr_array:
    """The same with a column for each of the classes of the child that were found since."""
    from scipy.sparse import csr_array

    size = len(child.classes) if child.value is None else len(child.value)
    parts = (count.data.astype(np.float64), count.indices, count.indptr)
    return csr_array(parts, shape=(count.shape[0], size))

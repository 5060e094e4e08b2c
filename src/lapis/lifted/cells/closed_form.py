"""Sum over compositions of the domain into cells, with modules of cells merged.

Let k_i elements be of cell i, with weight w_i, and let r_ij be the total weight of the relations of
two elements of cells i and j. Then

    Z = Σ_k  n! / Π k_i!  ·  Π_i w_i^{k_i} r_ii^{k_i (k_i − 1) / 2}  ·  Π_{i<j} r_ij^{k_i k_j}

(Beame, Van den Broeck, Gribkoff and Suciu 2015, "Symmetric weighted first-order model counting").
Listing all k takes n^{cells − 1} terms. Van Bremen and Kuželka (2021, "Faster lifting for
two-variable logic using cell graphs") merge cliques and independent sets of the graph of cells.
Both are modules: sets of cells that have the same relation to every cell outside. From outside only
the number m of elements in a module matters, so a module is a cell with f(m) in place of
w^m r^{m(m−1)/2}, and two cells A, B of one group that form a module become one by

    f(m) = Σ_a C(m, a) f_A(a) f_B(m − a) r_AB^{a (m − a)},

a product of polynomials, because a(m − a) = C(m,2) − C(a,2) − C(m−a,2). The smallest modules are
merged first. A set of cells without modules (a prime) is summed over its compositions.

A change of gauge, r_ij → r_ij / (u_i u_j) and w_i → w_i u_i^{n − 1}, keeps Z. With u_i = r_0i it
makes a row of the table constant, so that cells whose relations differ by factors become equal. For
∀x∃y F(x, y) this leaves one cell: Z = (2^n − 1)^n. A change of gauge divides and compares numbers,
so it needs rationals; balls are compared by their formulas.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import comb

from lapis.errors import TooLarge
from lapis.lifted.cells.cell_tables import CellTables
from lapis.lifted.cells.numbers import Number, Numbers, TooManyDigits, num_bits

MAX_TERMS = 3_000_000
PAIR_STEPS = 50  # steps that cost as much as the table of a pair of kinds
MAX_BITS = 1 << 35  # of all powers together, in exact numbers: a few GB


def has_closed_form(tables: CellTables) -> bool:
    """Return whether a sentence has no order, no totals and no missing witnesses."""
    sentence = tables.sentence
    return (
        sentence.order is None
        and not sentence.totals
        and not any(any(cell.missing) for cell in tables.cells)
    )


@dataclass
class CellGraph:
    """Cells, or modules of cells, with their weights and relations."""

    group: list[int]
    series: list[list[Number]]  # f(0), f(1), …, f(size of the group)
    relation: list[list[Number]]  # r_ij
    label: list[list[Hashable]]  # equal labels have equal relations


def sum_compositions(tables: CellTables, numbers: Numbers) -> Number:
    sizes = [group.size for group in tables.sentence.groups]
    num_kinds = len({cell.kind for cell in tables.cells})
    refuse_terms(num_kinds, max(sizes, default=0) + 1, numbers)
    if num_kinds**2 * PAIR_STEPS > numbers.max_steps:
        raise TooLarge(
            f"the sum has {num_kinds:,} kinds of elements, too many for a table of each pair",
            code="cells",
            hint="take fewer predicates, or the method 'circuit'",
        )
    graph, factor = build_cell_graph(tables, numbers, sizes)
    if set(graph.group) != {g for g, size in enumerate(sizes) if size}:
        return 0 * numbers.one
    while (module := smallest_module(graph)) is not None:
        if len(graph.group) == len(module):
            break
        contract_module(graph, module, sizes, numbers)
    return factor * sum_cell_graph(graph, sizes, numbers)


def build_cell_graph(
    tables: CellTables, numbers: Numbers, sizes: Sequence[int]
) -> tuple[CellGraph, Number]:
    """Build the graph, with cells of equal relations merged; return it and the gauge factor."""
    kinds = list(dict.fromkeys(cell.kind for cell in tables.cells))
    weight = dict.fromkeys(kinds, 0 * numbers.one)
    for cell in tables.cells:
        weight[cell.kind] += numbers.of(cell.weight)
    if numbers.exact:
        kinds = [kind for kind in kinds if weight[kind] != 0]
    group = [tables.kinds[kind].group for kind in kinds]
    relation: list[list[Number]] = [[] for _ in kinds]
    label: list[list[Hashable]] = [[] for _ in kinds]
    for place, i in enumerate(kinds):  # relations are symmetric: half of them are computed
        for other, j in enumerate(kinds[: place + 1]):
            tabled = [o.weight for o in tables.pair_states(i, j) if not any(o.first + o.second)]
            value = numbers.of(tabled[0]) if tabled else 0 * numbers.one
            name = frozenset(tabled[0].items()) if tabled else None
            for row in {place, other}:
                relation[row].append(value)
                label[row].append(name)
    weights = [weight[kind] for kind in kinds]
    factor = numbers.one
    if numbers.exact:
        refuse_digits(relation, weights, sum(sizes))
        relation, weights, factor = change_gauge(relation, weights, sum(sizes), numbers)
        label = [list(row) for row in relation]
    kept: list[int] = []
    for i in range(len(kinds)):
        same = next((j for j in kept if are_twins(label, group, i, j)), None)
        if same is None:
            kept.append(i)
        else:
            weights[same] += weights[i]
    series = [list_powers(weights[i], relation[i][i], sizes[group[i]], numbers) for i in kept]
    graph = CellGraph(
        [group[i] for i in kept],
        series,
        [[relation[i][j] for j in kept] for i in kept],
        [[label[i][j] for j in kept] for i in kept],
    )
    return graph, factor


def refuse_terms(num_cells: int, terms: int, numbers: Numbers) -> None:
    most = min(MAX_TERMS, numbers.max_steps)
    if terms > most:
        raise TooLarge(
            f"the sum over {num_cells} kinds of elements has {terms:,} terms, and at most "
            f"{most:,} are allowed",
            code="cells",
            hint="take smaller domains, or the method 'circuit'",
        )


def refuse_digits(relation: list[list[Number]], weights: list[Number], size: int) -> None:
    """Raise TooManyDigits if all w^m r^{m (m − 1) / 2} together have too many bits."""
    of_pair = max((num_bits(r) for row in relation for r in row), default=0)
    of_one = max(map(num_bits, weights), default=0)
    if len(weights) * size**2 * (of_one + size * of_pair) > 2 * MAX_BITS:
        raise TooManyDigits


def are_twins(label: list[list[Hashable]], group: list[int], i: int, j: int) -> bool:
    return group[i] == group[j] and label[i] == label[j] and label[i][i] == label[i][j]


def change_gauge(
    relation: list[list[Number]], weights: list[Number], size: int, numbers: Numbers
) -> tuple[list[list[Number]], list[Number], Number]:
    """Divide r_ij by r_0i r_0j / r_00, for a cell 0 without zero relations."""
    base = next((row for i, row in enumerate(relation) if all(r != 0 for r in row)), None)
    if base is None or size < 2:
        return relation, weights, numbers.one
    own = base[relation.index(base)]
    changed = [
        [r * own / (base[i] * base[j]) for j, r in enumerate(row)] for i, row in enumerate(relation)
    ]
    moved = [w * base[i] ** (size - 1) for i, w in enumerate(weights)]
    return changed, moved, 1 / own ** comb(size, 2)


def list_powers(weight: Number, relation: Number, size: int, numbers: Numbers) -> list[Number]:
    """Return w^m r^{m (m − 1) / 2} for m = 0 … size."""
    found, step = [numbers.one], weight
    for _ in range(size):
        found.append(found[-1] * step)
        step *= relation
    return found


def smallest_module(graph: CellGraph) -> list[int] | None:
    """Find the smallest set of two or more cells of one group with equal relations outside."""
    best: list[int] | None = None
    number = len(graph.group)
    for i in range(number):
        for j in range(i):
            if graph.group[i] != graph.group[j]:
                continue
            module = close_module(graph, i, j, number if best is None else len(best))
            if module is not None and (best is None or len(module) < len(best)):
                best = module
                if len(best) == 2:
                    return best
    return best


def close_module(graph: CellGraph, i: int, j: int, limit: int) -> list[int] | None:
    """Find the smallest module with two cells; None if it exceeds the limit or has two groups."""
    inside = [j, i]
    changed = True
    while changed:
        changed = False
        for k in range(len(graph.group)):
            if k not in inside and len({graph.label[k][m] for m in inside}) > 1:
                if graph.group[k] != graph.group[i] or len(inside) >= limit:
                    return None
                inside.append(k)
                changed = True
    return sorted(inside)


def contract_module(
    graph: CellGraph, module: list[int], sizes: Sequence[int], numbers: Numbers
) -> None:
    """Replace the cells of a module by one cell."""
    first, size = module[0], sizes[graph.group[module[0]]]
    refuse_terms(len(module), size + 1 if numbers.exact else comb(size + 1, 2), numbers)
    if len(module) == 2:
        series = join_series(
            graph.series[first], graph.series[module[1]], graph.relation[first][module[1]], numbers
        )
    else:
        part = CellGraph(
            [0] * len(module),
            [graph.series[i] for i in module],
            [[graph.relation[i][j] for j in module] for i in module],
            [],
        )
        series = [sum_cell_graph(part, [m], numbers) for m in range(size + 1)]
    graph.series[first] = series
    for gone in reversed(module[1:]):
        del graph.group[gone], graph.series[gone], graph.relation[gone], graph.label[gone]
        for row in (*graph.relation, *graph.label):
            del row[gone]


def join_series(
    first: list[Number], second: list[Number], relation: Number, numbers: Numbers
) -> list[Number]:
    """Return f(m) = Σ_a C(m, a) f_A(a) f_B(m − a) r^{a (m − a)} for all m."""
    if numbers.exact and relation == 0:
        return [numbers.one, *(a + b for a, b in zip(first[1:], second[1:], strict=True))]
    if not numbers.exact:
        return [sum_pair(first, second, relation, m) for m in range(len(first))]
    from flint import fmpq_poly

    scale = [numbers.one]
    step = numbers.one
    for m in range(1, len(first)):
        scale.append(scale[-1] * m * step)
        step *= relation
    left = fmpq_poly([f / s for f, s in zip(first, scale, strict=True)])
    right = fmpq_poly([f / s for f, s in zip(second, scale, strict=True)])
    joined = left * right
    return [joined[m] * s for m, s in enumerate(scale)]


def sum_pair(first: list[Number], second: list[Number], relation: Number, size: int) -> Number:
    """Return Σ_a C(n, a) f_A(a) f_B(n − a) r^{a (n − a)}; coefficients by recurrence."""
    if not size:
        return first[0] * second[0]
    if relation == 0:
        return first[size] + second[size]
    total = 0 * relation
    coefficient, step, back = relation**0, relation ** (size - 1), 1 / (relation * relation)
    for a in range(size + 1):
        total += coefficient * first[a] * second[size - a]
        coefficient *= step * (size - a) / (a + 1)
        step *= back
    return total


def sum_cell_graph(graph: CellGraph, sizes: Sequence[int], numbers: Numbers) -> Number:
    """Sum over all compositions of the groups' sizes."""
    members: dict[int, list[int]] = {}
    for i, group in enumerate(graph.group):
        members.setdefault(group, []).append(i)
    if len(members) == 1 and len(graph.group) == 2:
        [size] = [sizes[group] for group in members]
        return sum_pair(graph.series[0], graph.series[1], graph.relation[0][1], size)
    terms = 1
    for group, own in members.items():
        terms *= comb(sizes[group] + len(own) - 1, len(own) - 1)
    refuse_terms(len(graph.group), terms, numbers)
    order = [i for own in members.values() for i in own]

    def extend(place: int, left: int, fields: list[Number]) -> Number:
        """Sum over the numbers of elements in the cells from `place` on."""
        if place == len(order):
            return numbers.one
        i = order[place]
        own = members[graph.group[i]]
        left = sizes[graph.group[i]] if i == own[0] else left
        total = 0 * numbers.one
        for number in range(left if i == own[-1] else 0, left + 1):
            term = comb(left, number) * graph.series[i][number] * fields[place] ** number
            if numbers.exact and term == 0:
                continue
            inner = list(fields)
            for later in range(place + 1, len(order)):
                inner[later] = inner[later] * graph.relation[i][order[later]] ** number
            total += term * extend(place + 1, left - number, inner)
        return total

    return extend(0, 0, [numbers.one] * len(order))

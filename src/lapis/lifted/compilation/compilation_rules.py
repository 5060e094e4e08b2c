"""The rules of first-order compilation, in the order in which they are tried.

    contradiction         an empty clause
    unit propagation      clauses of one literal decide all their ground atoms
    independence          clauses without a common atom: a product
    guard                 a clause that holds only where a region has enough elements
    Shannon               a ground atom, true or false: a sum
    partial grounding     k elements at a time, every atom is about all k: a power
    root grounding        one element at a time, it is in every atom at one place: a power
    atom counting         how many elements have a property: a sum over numbers
    inclusion–exclusion   a clause of two parts without a common region
    pairs                 two variables that stand together in every atom are one

A rule returns the node of a theory, or None if it does not apply. Domain recursion, which is tried
last, is part of the compiler, because its circuit refers to itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations
from itertools import product as combinations
from math import factorial

from lapis.lifted.compilation.compiler import (
    MAX_STATES,
    MAX_WORK,
    PARTNER,
    CircuitCompiler,
    Parts,
    Rule,
    describe_shape,
    element_name,
    shapes_of_cases,
    transform_clauses,
)
from lapis.lifted.compilation.lifted_circuit import (
    CountNode,
    FactorNode,
    GuardNode,
    NeverNode,
    Node,
    PairsNode,
    PowerNode,
    RestNode,
    SumNode,
    multiply_nodes,
)
from lapis.lifted.compilation.theory import (
    ALWAYS,
    AtomShape,
    Hard,
    Region,
    Size,
    Slot,
    Soft,
    Term,
    Theory,
    TheoryAtom,
    TheoryClause,
    TheoryLiteral,
    atom_shape,
    build_theory,
    clause_key,
    clause_shapes,
    count_choices,
    hard_key,
    literal_key,
    rename_literal,
)
from lapis.runtime.progress import Report, Stop


def empty_clause(compiler: CircuitCompiler, theory: Theory) -> Node | None:
    """An empty clause: no world is possible if its needs are met."""
    empty = [part for part in theory.hard if not part.clause.literals]
    if not empty:
        return None
    rest = Theory(theory.hard - set(empty), theory.soft)
    return multiply_nodes(*(NeverNode(part.needs) for part in empty), compiler.compile(rest))


def unit_propagation(compiler: CircuitCompiler, theory: Theory) -> Node | None:
    """All unit clauses together; one of two opposite units becomes an empty clause."""
    units = [x.clause for x in theory.hard if len(x.clause.literals) == 1 and not x.needs]
    values = {
        atom_shape(atom, clause.regions): positive
        for clause in sorted(units, key=clause_key)
        for atom, positive in clause.literals
    }
    return compiler.compile_given(theory, values) if values else None


def independence(compiler: CircuitCompiler, theory: Theory) -> Node | None:
    """Groups of clauses without a common atom: a product."""
    leader: dict[AtomShape, AtomShape] = {}

    def find(shape: AtomShape) -> AtomShape:
        while leader.setdefault(shape, shape) != shape:
            shape = leader[shape]
        return shape

    for clause in theory.clauses:
        first, *others = sorted(clause_shapes(clause))
        for shape in others:
            one, other = find(first), find(shape)
            leader[max(one, other)] = min(one, other)
    groups: dict[AtomShape, tuple[set[Hard], set[Soft]]] = {}

    def group_of(clause: TheoryClause) -> tuple[set[Hard], set[Soft]]:
        return groups.setdefault(find(min(clause_shapes(clause))), (set(), set()))

    for hard in theory.hard:
        group_of(hard.clause)[0].add(hard)
    for soft in theory.soft:
        group_of(soft.clause)[1].add(soft)
    if len(groups) < 2:
        return None
    parts = [Theory(frozenset(hs), frozenset(ss)) for _, (hs, ss) in sorted(groups.items())]
    return multiply_nodes(*map(compiler.compile, parts))


def guard(compiler: CircuitCompiler, theory: Theory) -> Node | None:
    """A clause that applies only if a region has enough elements."""
    needs = Counter(need for part in theory.hard for need in part.needs)
    if not needs:
        return None
    region, least = need = min(needs, key=lambda n: (-needs[n], n))
    met = frozenset(
        part._replace(needs=frozenset(n for n in part.needs if n[0] != region or n[1] > least))
        for part in theory.hard
    )
    unmet = frozenset(
        part for part in theory.hard if not any(r == region and k >= least for r, k in part.needs)
    )
    shapes = theory.shapes
    return GuardNode(
        need,
        compiler.compile_rest(shapes, Theory(met, theory.soft), ()),
        compiler.compile_rest(shapes, Theory(unmet, theory.soft), ()),
    )


def shannon(compiler: CircuitCompiler, theory: Theory) -> Node | None:
    """The ground atom in most clauses, true or false: a sum."""
    uses = Counter(
        shape for clause in theory.clauses for shape in clause_shapes(clause) if not shape.regions
    )
    if not uses:
        return None
    shape = min(uses, key=lambda s: (-uses[s], s))
    cases = tuple(compiler.compile_given(theory, {shape: value}) for value in (True, False))
    return SumNode(cases, (1, 1), label=describe_shape(shape))


def partial_grounding(compiler: CircuitCompiler, theory: Theory) -> Node | None:
    """Every atom mentions all k variables of a region: a power over sets of k elements."""
    for region in sorted({region for clause in theory.clauses for region in clause.regions}):
        numbers = {clause.regions.count(region) for clause in theory.clauses}
        if len(numbers) != 1:
            continue
        (k,) = numbers
        if k == 0 or any(s.regions.count(region) != k for s in theory.shapes):
            continue
        names = [compiler.new_element() for _ in range(k)]
        cases = partial(ground_region, region=region, names=names)
        rest, certain = transform_clauses(theory, cases)
        part = compiler.compile_rest(shapes_of_cases(theory, cases), rest, certain)
        times = count_choices((region,) * k)
        elements = ", ".join(map(element_name, names))
        label = f"each {{{elements}}} of {compiler.names[region]}"
        return PowerNode(part, Size(times.factors, 1, factorial(k)), label=label)
    return None


def ground_region(clause: TheoryClause, region: Region, names: list[str]) -> Iterator[Parts]:
    """Yield the clause with its variables of a region replaced by elements, in all orders."""
    own = [v for v, r in enumerate(clause.regions) if r == region]
    others = {v: r for v, r in enumerate(clause.regions) if r != region}
    for order in permutations(names):
        terms: dict[int, Term] = dict(zip(own, order, strict=True))
        yield frozenset(rename_literal(literal, terms) for literal in clause.literals), others


def root_grounding(compiler: CircuitCompiler, theory: Theory) -> Node | None:
    """A variable of each clause is in all its atoms, at one position: a power over elements."""
    for region in sorted({region for clause in theory.clauses for region in clause.regions}):
        roots = find_roots(theory, region)
        if roots is None:
            continue
        name = compiler.names[region]
        element, others = compiler.new_element(), compiler.without_one(region)
        cases = partial(place_root, roots=roots, element=element, region=region, others=others)
        rest, certain = transform_clauses(theory, cases)
        node = compiler.compile_rest(shapes_of_cases(theory, cases), rest, certain)
        part = RestNode(node, region, others, 1)
        return PowerNode(
            part, Size(((region, 0),)), label=f"each {element_name(element)} of {name}"
        )
    return None


def place_root(
    clause: TheoryClause,
    roots: Mapping[TheoryClause, int],
    element: str,
    region: Region,
    others: Region,
) -> Iterator[Parts]:
    root = roots[clause]
    left = {v: others if r == region else r for v, r in enumerate(clause.regions) if v != root}
    terms: dict[int, Term] = {root: element}
    yield frozenset(rename_literal(literal, terms) for literal in clause.literals), left


def find_roots(theory: Theory, region: Region) -> dict[TheoryClause, int] | None:
    """Find a variable of each clause that is in all its atoms, at one position of each shape."""
    chosen: dict[TheoryClause, int] = {}
    place_of: dict[AtomShape, int] = {}
    clauses = sorted(set(theory.clauses), key=clause_key)

    def search(index: int) -> bool:
        if index == len(clauses):
            return True
        clause = clauses[index]
        for variable, own in enumerate(clause.regions):
            if own != region or any(variable not in x.atom.terms for x in clause.literals):
                continue
            added: list[AtomShape] = []
            fits = True
            for literal in clause.literals:
                shape = atom_shape(literal.atom, clause.regions)
                number = shape.slots[literal.atom.terms.index(variable)].number
                if shape not in place_of:
                    place_of[shape] = number
                    added.append(shape)
                fits = fits and place_of[shape] == number
            chosen[clause] = variable
            if fits and search(index + 1):
                return True
            for shape in added:
                del place_of[shape]
        return False

    return chosen if search(0) else None


def atom_counting(compiler: CircuitCompiler, theory: Theory) -> Node | None:
    """Sum over the number of elements of a region that have a property."""
    uses: Counter[AtomShape] = Counter()
    for clause in theory.clauses:
        for shape in clause_shapes(clause):
            if len(shape.regions) == 1:
                uses[shape] += 1 + 1000 * (len(clause.regions) > 1)
    if not uses:
        return None
    shape = min(uses, key=lambda s: (-uses[s], s))
    (region,) = shape.regions
    name = compiler.names[region]
    plus, minus = compiler.split_region(region, describe_shape(shape))

    def split(clause: TheoryClause) -> Iterator[Parts | None]:
        own = [v for v, r in enumerate(clause.regions) if r == region]
        for sides in combinations((plus, minus), repeat=len(own)):
            regions = dict(enumerate(clause.regions)) | dict(zip(own, sides, strict=True))
            kept = [x for x in clause.literals if atom_shape(x.atom, clause.regions) != shape]
            decided = [x for x in clause.literals if atom_shape(x.atom, clause.regions) == shape]
            truths = [(regions[variable_of(x.atom)] == plus) == x.positive for x in decided]
            if any(truths):
                yield frozenset(ALWAYS), regions
            else:
                yield frozenset(kept), regions

    rest, certain = transform_clauses(theory, split)
    compiler.check_states(rest)
    before = {
        refined for s in theory.shapes - {shape} for refined in split_shape(s, region, plus, minus)
    }
    literals = FactorNode(
        literals=(
            (shape.predicate, True, Size(((plus, 0),))),
            (shape.predicate, False, Size(((minus, 0),))),
        )
    )
    part = compiler.compile_rest(before, rest, certain, literals)
    return CountNode(
        part, region, plus, minus, label=f"number of {name} with {describe_shape(shape)}"
    )


def variable_of(atom: TheoryAtom) -> int:
    return next(term for term in atom.terms if isinstance(term, int))


def split_shape(
    shape: AtomShape, region: Region, plus: Region, minus: Region
) -> Iterator[AtomShape]:
    """Yield the shapes of a shape's atoms after a region is split."""
    own = sorted({slot.number for slot in shape.slots if slot.region == region})
    for sides in combinations((plus, minus), repeat=len(own)):
        side = dict(zip(own, sides, strict=True))
        yield AtomShape(
            shape.predicate,
            tuple(
                Slot("", side[s.number], s.number) if s.region == region else s for s in shape.slots
            ),
        )


def inclusion_exclusion(compiler: CircuitCompiler, theory: Theory) -> Node | None:
    """A hard clause of two parts without a common region: Z(C₁) + Z(C₂) − Z(C₁ ∧ C₂)."""
    for part in sorted(theory.hard, key=hard_key):
        found = split_clause(part.clause)
        if found is None:
            continue
        rest = theory.hard - {part}
        shapes = theory.shapes
        halves = [
            build_theory([(half, regions, part.needs)], ())[0].hard for half, regions in found
        ]
        cases = [
            compiler.compile_rest(shapes, Theory(rest | more, theory.soft), ())
            for more in (halves[0], halves[1], halves[0] | halves[1])
        ]
        return SumNode(tuple(cases), (1, 1, -1), label="inclusion–exclusion")
    return None


def split_clause(clause: TheoryClause) -> list[Parts] | None:
    """Split the literals into two groups without a common region; None if there are none."""
    groups: list[tuple[set[Region], set[TheoryLiteral]]] = []
    for literal in sorted(clause.literals, key=literal_key):
        regions = {clause.regions[t] for t in literal.atom.terms if isinstance(t, int)}
        literals = {literal}
        for group in [g for g in groups if g[0] & regions]:
            groups.remove(group)
            regions |= group[0]
            literals |= group[1]
        groups.append((regions, literals))
    if len(groups) < 2:
        return None
    first, rest = groups[0], groups[1:]
    both = [first[1], {literal for _, literals in rest for literal in literals}]
    return [
        (
            frozenset(half),
            {t: clause.regions[t] for x in half for t in x.atom.terms if isinstance(t, int)},
        )
        for half in both
    ]


def pairing(compiler: CircuitCompiler, theory: Theory) -> Node | None:
    """Variables x, y of two regions that only occur together become one variable over pairs.

    p(x, y) ∨ q(a, b) becomes p(t) ∨ q(u), and atoms with one variable can be counted. A constant
    replaces y, so that p(x, y) and p(y, x) stay different.
    """
    neighbours = {
        (one, other)
        for clause in theory.clauses
        for one in clause.regions
        for other in clause.regions
        if one < other
    }
    for one, other in sorted(neighbours):
        if not all(occur_together(clause, one, other) for clause in theory.clauses):
            continue
        pairs = compiler.new_region(f"pairs of {compiler.names[one]} and {compiler.names[other]}")
        cases = partial(merge_pair, one=one, other=other, pairs=pairs)
        rest, certain = transform_clauses(theory, cases)
        part = compiler.compile_rest(shapes_of_cases(theory, cases), rest, certain)
        return PairsNode(part, one, other, pairs)
    return None


def occur_together(clause: TheoryClause, one: Region, other: Region) -> bool:
    """Return whether a clause has no variable of two regions, or one of each, always together."""
    own = [v for v, region in enumerate(clause.regions) if region in (one, other)]
    if len(own) != 2:
        return not own
    first, second = own
    return clause.regions[first] != clause.regions[second] and all(
        (first in x.atom.terms) == (second in x.atom.terms) for x in clause.literals
    )


def merge_pair(clause: TheoryClause, one: Region, other: Region, pairs: Region) -> Iterator[Parts]:
    regions = dict(enumerate(clause.regions))
    if one not in clause.regions:
        yield clause.literals, regions
        return
    variable, partner = clause.regions.index(one), clause.regions.index(other)
    terms: dict[int, Term] = {partner: PARTNER}
    kept = {v: pairs if v == variable else r for v, r in regions.items() if v != partner}
    yield frozenset(rename_literal(literal, terms) for literal in clause.literals), kept


RULES: tuple[Rule, ...] = (
    empty_clause,
    unit_propagation,
    independence,
    guard,
    shannon,
    partial_grounding,
    root_grounding,
    atom_counting,
    inclusion_exclusion,
    pairing,
)


def compile_theory(
    theory: Theory,
    names: Sequence[str],
    sizes: Mapping[Region, int],
    *,
    max_states: int = MAX_STATES,
    max_work: int = MAX_WORK,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> Node:
    """Compile a theory; `names` and `sizes` are those of its regions.

    The circuit is valid for all sizes, but its sums must be short for these. Raises NotLiftable,
    TooManyStates and TooManyTheories.
    """
    compiler = CircuitCompiler(RULES, list(names), sizes, max_states, max_work, stop, progress)
    return compiler.compile(theory)

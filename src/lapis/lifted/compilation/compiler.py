"""First-order knowledge compilation: compile a theory to a circuit by the first rule that applies.

The method is that of Van den Broeck, Taghipour, Meert, Davis and De Raedt (2011, "Lifted
probabilistic inference by first-order knowledge compilation"), with two deviations that make the
rules short. Theories are shattered beforehand (`theory`), so a rule compares shapes, where the
paper unifies constrained atoms. Weights stay on clauses: an auxiliary predicate ξ ⇔ F for each
weighted formula would give two to five times as many clauses, and more atoms to count.

The node of every rule sums over exactly the atoms of its theory's shapes. Atoms that a rule removes
from the theory are multiplied in as free (the paper's smoothing).

Theories that differ only in the names of regions and elements have one circuit. The canonical form
orders regions and elements by colour refinement; ties stay in the order of names. So two isomorphic
theories may have different forms, which costs one compilation; different theories never have the
same form. Breaking ties one at a time, with a refinement after each, was tried: of 800 theories it
saved one. Colours are hashes of tuples of integers, the same in every run; a collision is only one
more tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from math import comb, prod
from typing import NamedTuple
from zlib import crc32

from lapis.lifted.compilation.lifted_circuit import (
    CallNode,
    FactorNode,
    GuardNode,
    Node,
    RecursionNode,
    RestNode,
    multiply_nodes,
)
from lapis.lifted.compilation.theory import (
    AtomShape,
    Exponent,
    Hard,
    Need,
    Region,
    Size,
    Soft,
    Term,
    Theory,
    TheoryClause,
    TheoryLiteral,
    atom_shape,
    build_theory,
    canonicalize_literals,
    clause_work,
    rename_literal,
)
from lapis.runtime.progress import Progress, Report, Stop

TAKEN_OUT = "\0"  # first character of the names of elements that were taken out
PARTNER = f"{TAKEN_OUT}·"  # replaces the second variable of a pair
MAX_WORK = 100_000  # literals in all orders of their variables, of all theories: some seconds
MAX_STATES = 100_000_000  # index combinations of a sum: about a minute
REPORT_INTERVAL = 20  # theories
MAX_RECURSION_CLAUSES = 2_000  # of the theories below a recursion
Values = Mapping[AtomShape, bool]
Parts = tuple[frozenset[TheoryLiteral], Mapping[int, Region]]


class NotLiftable(Exception):
    """No rule of compilation applies to a theory."""

    def __init__(self, theory: Theory) -> None:
        super().__init__("no rule applies")
        self.theory = theory


class TooManyTheories(Exception):
    """The work of compilation exceeds its limit."""

    def __init__(self, num_theories: int, num_clauses: int, theory: Theory) -> None:
        super().__init__(f"{num_theories:,} sub-theories with {num_clauses:,} clauses")
        self.theory = theory  # at which the limit was exceeded


class TooManyStates(Exception):
    """A sum of the circuit has too many index combinations."""

    def __init__(self, num_states: int, theory: Theory) -> None:
        super().__init__(f"{num_states:,}")
        self.num_states = num_states
        self.theory = theory  # that depends on the indices


Rule = Callable[["CircuitCompiler", Theory], Node | None]


@dataclass
class CircuitCompiler:
    """Compiles a theory and caches the circuits of its sub-theories."""

    rules: tuple[Rule, ...]  # tried in this order
    names: list[str]  # of regions, for display
    sizes: Mapping[Region, int] = field(default_factory=dict)  # for which sums must be short
    max_states: int = MAX_STATES
    max_work: int = MAX_WORK
    stop: Stop | None = None
    progress: Report | None = None
    cache: dict[object, tuple[Node, tuple[Region, ...]]] = field(default_factory=dict)
    num_elements: int = 0
    num_theories: int = 0  # compiled so far
    num_clauses: int = 0  # of them
    work: int = 0  # done so far, in the units of MAX_WORK
    max_clauses: int | None = None  # while a recursion is tried
    part_of: dict[Region, Region] = field(default_factory=dict)  # the region that it was split from

    def compile(self, theory: Theory) -> Node:
        if not theory.hard and not theory.soft:
            return multiply_nodes()
        key, regions = canonicalize_theory(theory)
        known = self.cache.get(key)
        if known is not None:
            node, own = known
            if own == regions:
                return node
            return CallNode(node, tuple(zip(own, regions, strict=True)))
        self.num_theories += 1
        self.num_clauses += len(theory.clauses)
        self.work += sum(map(clause_work, theory.clauses))
        if self.stop is not None:
            self.stop.check("compiling a first-order circuit")
        if self.progress is not None and self.num_theories % REPORT_INTERVAL == 0:
            self.progress(Progress("compiling", self.num_theories, text="theories"))
        if self.max_clauses is not None and self.num_clauses > self.max_clauses:
            raise NotLiftable(theory)
        if self.work > self.max_work:
            raise TooManyTheories(self.num_theories, self.num_clauses, theory)
        for rule in self.rules:
            found = rule(self, theory)
            if found is not None:
                self.cache[key] = found, regions
                return found
        return self.try_recursion(theory, key, regions)

    def try_recursion(self, theory: Theory, key: object, regions: tuple[Region, ...]) -> Node:
        """Try domain recursion: take one element out of a region; the rest may be the same theory.

        Then the rest is a call of the circuit that is being compiled, at a smaller size.
        """
        if self.max_clauses is not None:  # nested recursions never terminated
            raise NotLiftable(theory)
        try:
            for region in sorted({r for clause in theory.clauses for r in clause.regions}):
                before = set(self.cache)
                self.max_clauses = self.num_clauses + MAX_RECURSION_CLAUSES
                node = RecursionNode(regions, region)
                self.cache[key] = node, regions
                try:
                    node.part = self.take_out(theory, region)
                except NotLiftable:
                    # New circuits in the cache may call the abandoned one.
                    for other in set(self.cache) - before:
                        del self.cache[other]
                else:
                    return node
        finally:
            self.max_clauses = None
        raise NotLiftable(theory)

    def take_out(self, theory: Theory, region: Region) -> Node:
        element, others = self.new_element(), self.without_one(region)
        cases = partial(place_element, element=element, region=region, others=others)
        rest, certain = transform_clauses(theory, cases)
        node = self.compile_rest(shapes_of_cases(theory, cases), rest, certain)
        empty = Theory(
            frozenset(part for part in theory.hard if region not in part.clause.regions),
            frozenset(part for part in theory.soft if region not in part.clause.regions),
        )
        kept = frozenset(shape for shape in theory.shapes if region not in shape.regions)
        base = self.compile_rest(kept, empty, ())
        return GuardNode((region, 1), RestNode(node, region, others, 1), base)

    def new_region(self, name: str) -> Region:
        self.names.append(name)
        return len(self.names) - 1

    def without_one(self, region: Region) -> Region:
        """Return the region without an element that is taken out."""
        return self.new_region(f"{self.names[region]} but one")

    def split_region(self, region: Region, property_name: str) -> tuple[Region, Region]:
        """Split a region into the elements with and without a property."""
        name = self.names[region]
        plus = self.new_region(f"{name} with {property_name}")
        minus = self.new_region(f"{name} without {property_name}")
        self.part_of |= {plus: region, minus: region}
        return plus, minus

    def enclosing_regions(self, region: Region) -> Iterator[Region]:
        """Yield the regions that a region was split from, the smallest first."""
        while region in self.part_of:
            region = self.part_of[region]
            yield region

    def check_states(self, theory: Theory) -> None:
        """Refuse a theory that depends on too many combinations of sizes.

        A region of n elements that is split into k parts has (n + k − 1 choose k − 1) of them.
        """
        parts: dict[Region, list[Region]] = {}  # the smallest parts of each region
        cut = {above for region in theory.regions for above in self.enclosing_regions(region)}
        for region in theory.regions - cut:
            whole = [region, *self.enclosing_regions(region)][-1]
            parts.setdefault(whole, []).append(region)
        states = prod(
            comb(self.sizes[whole] + len(own) - 1, len(own) - 1)
            for whole, own in parts.items()
            if whole in self.sizes
        )
        if states > self.max_states:
            raise TooManyStates(states, theory)

    def new_element(self) -> str:
        self.num_elements += 1
        return f"{TAKEN_OUT}{self.num_elements}"

    def compile_rest(
        self, before: Iterable[AtomShape], theory: Theory, certain: Exponent, *factors: Node
    ) -> Node:
        """Compile the remaining theory, times factors, times the atoms that are free now."""
        lost = frozenset(before) - theory.shapes
        free = FactorNode(certain, free=tuple((s.predicate, s.num_atoms) for s in sorted(lost)))
        return multiply_nodes(*factors, free, self.compile(theory))

    def compile_given(self, theory: Theory, values: Values) -> Node:
        """Compile the theory where all atoms of some shapes have a value."""
        rest, certain = condition_theory(theory, values)
        literals = tuple((shape.predicate, v, shape.num_atoms) for shape, v in values.items())
        return self.compile_rest(
            theory.shapes - set(values), rest, certain, FactorNode(literals=literals)
        )


def condition_theory(theory: Theory, values: Values) -> tuple[Theory, Exponent]:
    """Return the theory where all atoms of some shapes have a value, and its certain exponent."""
    return transform_clauses(theory, lambda clause: iter([drop_false_literals(clause, values)]))


def drop_false_literals(clause: TheoryClause, values: Values) -> Parts | None:
    """Return the clause without its false literals; None if one is true."""
    kept: list[TheoryLiteral] = []
    for literal in clause.literals:
        value = values.get(atom_shape(literal.atom, clause.regions))
        if value is None:
            kept.append(literal)
        elif value == literal.positive:
            return None
    return frozenset(kept), dict(enumerate(clause.regions))


def transform_clauses(
    theory: Theory, cases: Callable[[TheoryClause], Iterator[Parts | None]]
) -> tuple[Theory, Exponent]:
    """Replace each clause by its cases; None is a case in which the clause is true."""
    hard: list[tuple[Iterable[TheoryLiteral], Mapping[int, Region], frozenset[Need]]] = [
        (*case, part.needs)
        for part in theory.hard
        for case in cases(part.clause)
        if case is not None
    ]
    soft: list[tuple[Iterable[TheoryLiteral], Mapping[int, Region], Exponent]] = []
    certain: list[tuple[int, Size]] = []
    for part in theory.soft:
        for case in cases(part.clause):
            if case is None:
                times = part.clause.num_groundings
                certain += [(weight, size * times) for weight, size in part.exponent]
            else:
                soft.append((*case, part.exponent))
    built, more = build_theory(hard, soft)
    return built, tuple(sorted([*certain, *more]))


def place_element(
    clause: TheoryClause, element: str, region: Region, others: Region
) -> Iterator[Parts]:
    """Yield the clause with at most one variable replaced by the element, the rest elsewhere."""
    own = [v for v, r in enumerate(clause.regions) if r == region]
    left = {v: others if r == region else r for v, r in enumerate(clause.regions)}
    yield clause.literals, left
    for variable in own:
        terms: dict[int, Term] = {variable: element}
        kept = {v: r for v, r in left.items() if v != variable}
        yield frozenset(rename_literal(literal, terms) for literal in clause.literals), kept


def shapes_of_cases(
    theory: Theory, cases: Callable[[TheoryClause], Iterator[Parts]]
) -> set[AtomShape]:
    return {
        atom_shape(literal.atom, regions)
        for clause in theory.clauses
        for literals, regions in cases(clause)
        for literal in literals
    }


def element_name(element: str) -> str:
    return element.replace(TAKEN_OUT, "x")


def describe_shape(shape: AtomShape) -> str:
    """Write a shape as an atom; elements that were taken out are x1, x2, and so on."""
    letters = "yzuvw"
    words = (
        element_name(slot.element) if slot.element else letters[slot.number % len(letters)]
        for slot in shape.slots
    )
    return f"{shape.predicate}({', '.join(words)})" if shape.slots else shape.predicate


ROUNDS = 3
Name = Region | str


class ClauseLines(NamedTuple):
    """A clause as lines for colour refinement: (hash of the predicate or weight, names)."""

    lines: tuple[tuple[int, tuple[Name, ...]], ...]
    names: frozenset[Name]


def canonicalize_theory(theory: Theory) -> tuple[object, tuple[Region, ...]]:
    """Return a key that is mostly equal for isomorphic theories, and the regions in its order."""
    parts = [*map(part_of_hard, theory.hard), *map(part_of_soft, theory.soft)]
    names = sorted(
        {name for part in parts for name in part.names},
        key=lambda name: (isinstance(name, str), str(name)),
    )
    colour: dict[Name, int] = {name: int(isinstance(name, str)) for name in names}
    for _ in range(ROUNDS):
        contexts: dict[Name, list[int]] = {name: [] for name in names}
        for part in parts:
            coloured = [(word, tuple(map(colour.__getitem__, own))) for word, own in part.lines]
            whole = hash(tuple(sorted(coloured)))
            places: dict[Name, list[tuple[object, ...]]] = {name: [] for name in part.names}
            for line, (_, own) in zip(coloured, part.lines, strict=True):
                for place, name in enumerate(own):
                    places[name].append((*line, place))
            for name, found in places.items():
                contexts[name].append(hash((whole, *sorted(found))))
        new = {name: hash((colour[name], *sorted(contexts[name]))) for name in names}
        done = len(set(new.values())) == len(set(colour.values()))
        colour = new
        if done:
            break
    ordered = sorted(names, key=lambda name: colour[name])
    regions = tuple(name for name in ordered if isinstance(name, int))
    elements = [name for name in ordered if isinstance(name, str)]
    number = {region: index for index, region in enumerate(regions)}
    renamed = {element: f"#{index}" for index, element in enumerate(elements)}
    key = (
        frozenset(
            (
                rename_clause(part.clause, number, renamed),
                frozenset((number[r], k) for r, k in part.needs),
            )
            for part in theory.hard
        ),
        frozenset(
            (
                rename_clause(part.clause, number, renamed),
                tuple(sorted((w, size.rename(number)) for w, size in part.exponent)),
            )
            for part in theory.soft
        ),
    )
    return key, regions


def rename_clause(
    clause: TheoryClause, regions: Mapping[Region, Region], elements: Mapping[str, str]
) -> TheoryClause:
    literals = frozenset(
        TheoryLiteral(
            atom._replace(
                terms=tuple(elements[t] if isinstance(t, str) else t for t in atom.terms)
            ),
            sign,
        )
        for atom, sign in clause.literals
    )
    own = {v: regions[r] for v, r in enumerate(clause.regions)}
    return canonicalize_literals(literals, tuple(own), own)


def part_of_hard(part: Hard) -> ClauseLines:
    needs = [(hash((-1, k)), (region,)) for region, k in part.needs]
    return new_part([*lines_of(part.clause), *needs])


def part_of_soft(part: Soft) -> ClauseLines:
    weights = [
        (
            hash((weight, size.coefficient, *(offset for _, offset in size.factors))),
            tuple(region for region, _ in size.factors),
        )
        for weight, size in part.exponent
    ]
    return new_part([*lines_of(part.clause), *weights])


def new_part(lines: list[tuple[int, tuple[Name, ...]]]) -> ClauseLines:
    return ClauseLines(tuple(lines), frozenset(name for _, own in lines for name in own))


def lines_of(clause: TheoryClause) -> list[tuple[int, tuple[Name, ...]]]:
    return [
        (
            hash((hash_predicate(atom.predicate), sign, len(atom.terms))),
            tuple(t if isinstance(t, str) else clause.regions[t] for t in atom.terms),
        )
        for atom, sign in clause.literals
    ]


@cache
def hash_predicate(predicate: str) -> int:
    return crc32(predicate.encode())

"""Count the groundings around one atom: nested loops over indexes, compiled once per rule.

The flipped atom gives values to the positions of a conjunction (`lapis.relational.conjunction`).
What is left is counted by the recursion

    count(atoms) = Π over parts that share no unknown variable of
                   Σ over the matches of one atom of the part of count(the rest)

where an atom whose unknown variables nothing else needs is counted by the size of its index
bucket, and a single unknown variable by set algebra on buckets, neither looped over. The choice of
atoms depends only on which variables are known, so each conjunction becomes one tree of closures
when it is first used. Time is proportional to the tuples around the atom; atoms that must be false
and stand alone have been expanded away beforehand, so no loop runs over a domain, but for numeric
comparisons without a relation to restrict them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from lapis.counting.indexed_relation import Entry, Index, IndexedRelation, Pick, picker
from lapis.language.syntax import Variable
from lapis.logic.clauses import SimpleTerm
from lapis.relational.algebra import Test
from lapis.relational.comparison import passes
from lapis.relational.conjunction import Atom, Conjunction, Negative, Scope, expand
from lapis.relational.elimination import connected
from lapis.relational.factor import indicator

Values = list[int]  # the constant of each variable, by slot
Guard = Callable[[Values], bool]
Count = Callable[[Values], int]
Emit = Callable[[Values, int], None]
Run = Callable[[Values, Emit], None]
Source = tuple[bool, int]  # (True, slot) or (False, the constant's code)


_NOTHING: frozenset[Entry] = frozenset()


class Counter(NamedTuple):
    """A compiled conjunction: `total` if its outputs are known with the atom, `run` otherwise.

    The total is that of all matches; `run` calls emit(values, count) for each assignment of the
    outputs. Afterwards `outputs` says where to read each output.
    """

    total: Count | None
    run: Run | None
    outputs: tuple[Source, ...]


class _Task(NamedTuple):
    """What is still to be matched."""

    true: tuple[Atom, ...]
    false: tuple[Atom, ...]
    tests: tuple[Test, ...]

    @property
    def variables(self) -> frozenset[str]:
        atoms = (atom.variables for atom in (*self.true, *self.false))
        return frozenset().union(*atoms, *(test.variables for test in self.tests))

    def without(self, atom: Atom) -> _Task:
        return self._replace(true=tuple(other for other in self.true if other != atom))


@dataclass(frozen=True)
class Compiler:
    """Turns conjunctions into closures over live relations."""

    scope: Scope
    known: frozenset[str]  # variables that have values
    relations: Mapping[str, IndexedRelation]
    types: Mapping[str, tuple[str, ...]]  # of each predicate's arguments

    def compile(self, conjunctions: Iterable[Conjunction], outputs: Sequence[str]) -> list[Counter]:
        """Counters whose sum is the groundings around an atom, for each assignment of outputs."""
        simple = expand(conjunctions, self.scope, self._stands_alone)
        return [self._compile(each, outputs) for each in simple]

    def _stands_alone(self, conjunction: Conjunction, negative: Negative) -> bool:
        """Whether a false atom or x ≠ y is a filter on no true atom's matches."""
        if isinstance(negative, Test):
            types = {self.scope.types[name] for name in negative.variables}
            if negative.numeric or len(types) > 1:
                return False
        unknown = frozenset(negative.variables) - self.known
        return bool(unknown) and not any(unknown <= atom.variables for atom in conjunction.true)

    def _compile(self, conjunction: Conjunction, outputs: Sequence[str]) -> Counter:
        task = _Task(conjunction.true, conjunction.false, conjunction.tests)
        bound = dict(conjunction.bindings)
        known = self.known
        multiplier = conjunction.coefficient
        used = {*task.variables, *bound, *known, *outputs}
        for name, kind in self.scope.types.items():
            if name not in used:
                multiplier *= len(self.scope.domains[kind])
        guards = [
            self._same(self.slot(name), self._source(bound[name], self.scope.types[name]))
            for name in known & bound.keys()
        ]
        test, task = self._tests(task, known)
        guard = _all(guards if test is None else [*guards, test])
        sources = tuple(
            self._source(bound.get(name, Variable(name)), self.scope.types[name])
            for name in outputs
        )
        free = tuple(name for name in outputs if name not in bound)
        if free:
            return Counter(
                None, self._guarded(self._emit(task, known, free), guard, multiplier), sources
            )
        total = _if(guard, self._count(task, known))
        if multiplier == -1:
            return Counter(lambda values: -total(values), None, sources)
        if multiplier != 1:
            return Counter(lambda values: multiplier * total(values), None, sources)
        return Counter(total, None, sources)

    @staticmethod
    def _guarded(run: Run, guard: Guard | None, multiplier: int) -> Run:
        def start(values: Values, emit: Emit) -> None:
            if guard is None or guard(values):
                if multiplier != 1:
                    run(values, lambda found, count: emit(found, multiplier * count))
                else:
                    run(values, emit)

        return start

    def slot(self, name: str) -> int:
        """Where a variable's constant stands in `Values`."""
        return list(self.scope.types).index(name)

    def _emit(self, task: _Task, known: frozenset[str], free: tuple[str, ...]) -> Run:
        """Loops until the outputs in `free` are known, then counts."""
        wanted = [name for name in free if name not in known]
        if not wanted:
            return _emit_count(self._count(task, known))
        atoms = [atom for atom in task.true if atom.variables & set(wanted)]
        if atoms:
            # Outputs that no known variable leads to are reached through atoms that one does.
            (part,) = (each for each in _independent(task, known) if atoms[0] in each.true)
            nearest = max(atoms, key=lambda atom: len(atom.variables & known))
            is_near = bool(nearest.variables & known)
            chosen = max(
                [nearest] if is_near else [nearest, *part.true],
                key=lambda atom: len(atom.variables & known),
            )
            task = task.without(chosen)
            matches = self._matches(chosen, known)
            known |= chosen.variables
        else:
            matches = self._constants(wanted[0])
            known |= {wanted[0]}
        test, task = self._tests(task, known)
        inner = self._emit(task, known, free)

        def loop(values: Values, emit: Emit) -> None:
            for _ in matches(values):
                if test is None or test(values):
                    inner(values, emit)

        return loop

    def _count(self, task: _Task, known: frozenset[str]) -> Count:
        """The number of assignments of the unknown variables that match."""
        test, task = self._tests(task, known)
        parts = [self._count_part(part, known) for part in _independent(task, known)]
        if not parts:
            return _if(test, lambda values: 1)
        if len(parts) == 1:
            return _if(test, parts[0])

        def product(values: Values) -> int:
            total = 1
            for part in parts:
                total *= part(values)
                if not total:
                    break
            return total

        return _if(test, product)

    def _count_part(self, task: _Task, known: frozenset[str]) -> Count:
        """A part whose unknown variables hang together."""
        if not task.true:  # only comparisons are left
            name = min(task.variables - known)
            return _sum(self._constants(name), self._count(task, known | {name}))
        chosen = max(task.true, key=lambda atom: (len(atom.variables & known), -len(atom.terms)))
        rest = task.without(chosen)
        fresh = chosen.variables - known
        index, key, slots = self._access(chosen, known)
        if not fresh & rest.variables and len(fresh) == len(slots):
            return lambda values: len(index.get(key(values), ()))
        if self._is_one_set(task, known):
            return self._count_set(task, known)
        return _sum(self._matches(chosen, known), self._count(rest, known | fresh))

    def _is_one_set(self, task: _Task, known: frozenset[str]) -> bool:
        """Whether one variable is left, and every atom is a set of its values."""
        return (
            not task.tests
            and len(task.variables - known) == 1
            and all(len(self._access(atom, known)[2]) == 1 for atom in (*task.true, *task.false))
        )

    def _count_set(self, task: _Task, known: frozenset[str]) -> Count:
        """|∩ true buckets ∖ ∪ false buckets|, as built-in set operations."""
        inside = [self._access(atom, known)[:2] for atom in task.true]
        outside = [self._access(atom, known)[:2] for atom in task.false]

        def count(values: Values) -> int:
            buckets = sorted((index.get(key(values), _NOTHING) for index, key in inside), key=len)
            found = buckets[0]
            if len(buckets) > 1:
                found = found.intersection(*buckets[1:])
            excluded = [index.get(key(values), _NOTHING) for index, key in outside]
            return len(found.difference(*excluded)) if excluded else len(found)

        return count

    def _tests(self, task: _Task, known: frozenset[str]) -> tuple[Guard | None, _Task]:
        """What the known variables decide, as one test or none, and the rest of the task."""
        tests = [
            self._membership(atom, expected)
            for atoms, expected in ((task.true, True), (task.false, False))
            for atom in atoms
            if atom.variables <= known
        ]
        tests += [self._passes(test) for test in task.tests if known.issuperset(test.variables)]
        rest = _Task(
            tuple(atom for atom in task.true if not atom.variables <= known),
            tuple(atom for atom in task.false if not atom.variables <= known),
            tuple(test for test in task.tests if not known.issuperset(test.variables)),
        )
        return _all(tests), rest

    def _membership(self, atom: Atom, expected: bool) -> Guard:
        everything = self.relations[atom.relation].index(())
        fetch = _fetch(self._sources(atom))
        if expected:
            return lambda values: fetch(values) in everything.get((), _NOTHING)
        return lambda values: fetch(values) not in everything.get((), _NOTHING)

    def _passes(self, test: Test) -> Guard:
        names = test.variables
        slots = [self.slot(name) for name in names]
        domains = {name: self.scope.domains[self.scope.types[name]] for name in names}
        seen: dict[tuple[int, ...], bool] = {}

        def guard(values: Values) -> bool:
            key = tuple(values[slot] for slot in slots)
            if key not in seen:
                row = indicator(names, np.array([key], np.int32).reshape(1, len(key)))
                seen[key] = bool(passes(test, row, domains)[0])
            return seen[key]

        return guard

    def _constants(self, name: str) -> Callable[[Values], Iterator[None]]:
        """Binds a variable to each constant of its type in turn."""
        domain = range(len(self.scope.domains[self.scope.types[name]]))
        slot = self.slot(name)

        def bind(values: Values) -> Iterator[None]:
            for constant in domain:
                values[slot] = constant
                yield

        return bind

    def _matches(self, atom: Atom, known: frozenset[str]) -> Callable[[Values], Iterator[None]]:
        """Binds the atom's unknown variables to each matching tuple in turn."""
        index, key, slots = self._access(atom, known)
        is_single = len(slots) == 1
        is_repeated = len(set(slots)) < len(slots)

        def bind(values: Values) -> Iterator[None]:
            for entry in index.get(key(values), ()):
                constants = (entry,) if is_single else entry
                for slot, constant in zip(slots, constants, strict=True):
                    values[slot] = constant
                if is_repeated and any(
                    values[slot] != constant
                    for slot, constant in zip(slots, constants, strict=True)
                ):
                    continue
                yield

        return bind

    def _access(self, atom: Atom, known: frozenset[str]) -> tuple[Index, Pick, list[int]]:
        """An index by the atom's known terms, the key to look up, the slots of the others."""
        given = tuple(
            place
            for place, term in enumerate(atom.terms)
            if not isinstance(term, Variable) or term.name in known
        )
        sources = self._sources(atom)
        key = _fetch([sources[place] for place in given])
        slots = [slot for place, (_, slot) in enumerate(sources) if place not in given]
        return self.relations[atom.relation].index(given), key, slots

    def _sources(self, atom: Atom) -> list[Source]:
        kinds = self.types[atom.relation]
        return [self._source(term, kind) for term, kind in zip(atom.terms, kinds, strict=True)]

    def _source(self, term: SimpleTerm, kind: str) -> Source:
        """Where to read a term of this type; a constant of another type has code −1."""
        if isinstance(term, Variable):
            return True, self.slot(term.name)
        return False, self.scope.domains[kind].index.get(term.name, -1)

    @staticmethod
    def _same(slot: int, source: Source) -> Guard:
        is_slot, number = source
        if is_slot:
            return lambda values: values[slot] == values[number]
        return lambda values: values[slot] == number


def read_sources(sources: Sequence[Source], values: Sequence[int]) -> tuple[int, ...]:
    """The constants that the sources stand for."""
    return tuple(values[number] if is_slot else number for is_slot, number in sources)


def _fetch(sources: Sequence[Source]) -> Pick:
    """Reads the sources into a key: bare if there is one, else a tuple."""
    if all(is_slot for is_slot, _ in sources):
        return picker(tuple(number for _, number in sources))
    if len(sources) == 1:
        ((_, code),) = sources
        return lambda values: code
    return lambda values: read_sources(sources, values)


def _all(tests: Sequence[Guard]) -> Guard | None:
    """Whether every test is passed; None if there is none."""
    if not tests:
        return None
    first, rest = tests[0], _all(tests[1:])
    return first if rest is None else lambda values: first(values) and rest(values)


def _if(guard: Guard | None, count: Count) -> Count:
    """The count where the guard holds, else 0."""
    return count if guard is None else lambda values: count(values) if guard(values) else 0


def _sum(matches: Callable[[Values], Iterator[None]], inner: Count) -> Count:
    """Σ of the inner count over the matches."""

    def loop(values: Values) -> int:
        total = 0
        for _ in matches(values):
            total += inner(values)
        return total

    return loop


def _emit_count(count: Count) -> Run:
    def finish(values: Values, emit: Emit) -> None:
        number = count(values)
        if number:
            emit(values, number)

    return finish


def _independent(task: _Task, known: frozenset[str]) -> list[_Task]:
    """The parts of the task that share no unknown variable."""
    singles = [
        *(_Task((atom,), (), ()) for atom in task.true),
        *(_Task((), (atom,), ()) for atom in task.false),
        *(_Task((), (), (test,)) for test in task.tests),
    ]
    return [
        _Task(*(tuple(chain.from_iterable(each)) for each in zip(*part, strict=True)))
        for part in connected(singles, lambda single: single.variables - known)
    ]

"""Count the groundings around one atom: nested loops over indexes, compiled once per rule.

The flipped atom gives values to the positions of a simplified conjunction
(`lapis.counting.conjunctions`). What is left is counted by the recursion

    count(atoms) = Π over parts that share no unknown variable of
                   Σ over the matches of one atom of the part of count(the rest)

where an atom whose unknown variables nothing else needs is counted by the size of its index
bucket, not looped over. The choice of atoms depends only on which variables are known, so each
conjunction becomes one tree of closures when it is first used. Time is proportional to the tuples
around the atom; atoms that must be false and stand alone have been expanded away beforehand, so
no loop runs over a domain, but for numeric comparisons without a relation to restrict them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.counting.conjunctions import Atom, Check, Conjunction, Scope, atom_variables
from lapis.counting.difference_terms import check_passes
from lapis.counting.indexed_relation import IndexedRelation, Pick, picker
from lapis.language.syntax import Variable
from lapis.logic.clauses import SimpleTerm

Values = list[int]  # the constant of each variable, by slot
Count = Callable[[Values], int]
Emit = Callable[[Values, int], None]
Run = Callable[[Values, Emit], None]


class _Task(NamedTuple):
    """What is still to be matched."""

    true: tuple[Atom, ...]
    false: tuple[Atom, ...]
    checks: tuple[Check, ...]

    @property
    def variables(self) -> frozenset[str]:
        atoms = (atom_variables(atom) for atom in (*self.true, *self.false))
        return frozenset().union(*atoms, *(check.variables for check in self.checks))


@dataclass(frozen=True)
class Compiler:
    """Turns conjunctions into closures over live relations."""

    scope: Scope  # its `known` variables have values
    relations: Mapping[str, IndexedRelation]
    types: Mapping[str, tuple[str, ...]]  # of each predicate's arguments

    def compile(self, conjunction: Conjunction, outputs: Sequence[str]) -> Run:
        """Calls emit(values, count) for every assignment of the outputs with a count.

        `values` holds the outputs in the slots that `slot` gives them.
        """
        task = _Task(conjunction.true, conjunction.false, conjunction.checks)
        bound = dict(conjunction.bindings)
        multiplier = conjunction.coefficient
        known = self.scope.known or frozenset()
        mentioned = task.variables
        for name in self.scope.types:
            if name not in mentioned and name not in bound and name not in (*known, *outputs):
                multiplier *= len(self.scope.domains[self.scope.types[name]])
        guards = [
            self._same(self.slot(name), self._constant_or_slot(bound[name], name))
            for name in known & bound.keys()
        ]
        copies = [
            (self.slot(name), self._constant_or_slot(bound[name], name))
            for name in outputs
            if name in bound
        ]
        free = tuple(name for name in outputs if name not in bound)
        run = self._emit(task, known - bound.keys(), free)

        def start(values: Values, emit: Emit) -> None:
            if not multiplier or not all(guard(values) for guard in guards):
                return

            def scaled(found: Values, count: int) -> None:
                for target, (is_slot, source) in copies:
                    found[target] = found[source] if is_slot else source
                emit(found, count * multiplier)

            run(values, scaled)

        return start

    def slot(self, name: str) -> int:
        """Where a variable's constant stands in `Values`."""
        return list(self.scope.types).index(name)

    def _emit(self, task: _Task, known: frozenset[str], free: tuple[str, ...]) -> Run:
        """Loops until the outputs in `free` are known, then counts."""
        wanted = [name for name in free if name not in known]
        if not wanted:
            count = self._count(task, known)

            def finish(values: Values, emit: Emit) -> None:
                number = count(values)
                if number:
                    emit(values, number)

            return finish
        atoms = [atom for atom in task.true if atom_variables(atom) & set(wanted)]
        if not atoms:
            return self._emit_domain(task, known, free, wanted[0])
        chosen = max(atoms, key=lambda atom: len(atom_variables(atom) & known))
        rest = task._replace(true=tuple(atom for atom in task.true if atom != chosen))
        matches = self._matches(chosen, known)
        now_known = known | atom_variables(chosen)
        test, rest = self._tests(rest, now_known)
        inner = self._emit(rest, now_known, free)

        def loop(values: Values, emit: Emit) -> None:
            for _ in matches(values):
                if test(values):
                    inner(values, emit)

        return loop

    def _emit_domain(
        self, task: _Task, known: frozenset[str], free: tuple[str, ...], name: str
    ) -> Run:
        domain = range(len(self.scope.domains[self.scope.types[name]]))
        slot = self.slot(name)
        test, rest = self._tests(task, known | {name})
        inner = self._emit(rest, known | {name}, free)

        def loop(values: Values, emit: Emit) -> None:
            for constant in domain:
                values[slot] = constant
                if test(values):
                    inner(values, emit)

        return loop

    def _count(self, task: _Task, known: frozenset[str]) -> Count:
        """The number of assignments of the unknown variables that match."""
        test, task = self._tests(task, known)
        parts = [self._count_part(part, known) for part in _independent(task, known)]
        if not parts:
            return lambda values: int(test(values))
        if len(parts) == 1:
            (only,) = parts
            return lambda values: only(values) if test(values) else 0

        def product(values: Values) -> int:
            total = int(test(values))
            for part in parts:
                if not total:
                    break
                total *= part(values)
            return total

        return product

    def _count_part(self, task: _Task, known: frozenset[str]) -> Count:
        if not task.true:
            return self._count_domain(task, known)
        chosen = max(task.true, key=lambda atom: (len(atom_variables(atom) & known), -len(atom.terms)))
        rest = task._replace(true=tuple(atom for atom in task.true if atom != chosen))
        fresh = atom_variables(chosen) - known
        if not fresh & rest.variables and len(fresh) == self._num_open(chosen, known):
            return self._bucket_size(chosen, known)
        matches = self._matches(chosen, known)
        inner = self._count(rest, known | fresh)

        def loop(values: Values) -> int:
            total = 0
            for _ in matches(values):
                total += inner(values)
            return total

        return loop

    def _count_domain(self, task: _Task, known: frozenset[str]) -> Count:
        """A variable that only comparisons mention."""
        name = min(task.variables - known)
        domain = range(len(self.scope.domains[self.scope.types[name]]))
        slot = self.slot(name)
        inner = self._count(task, known | {name})

        def loop(values: Values) -> int:
            total = 0
            for constant in domain:
                values[slot] = constant
                total += inner(values)
            return total

        return loop

    def _tests(self, task: _Task, known: frozenset[str]) -> tuple[Callable[[Values], bool], _Task]:
        """What the known variables decide, as one test, and the rest of the task."""
        tests: list[Callable[[Values], bool]] = []
        for atoms, expected in ((task.true, True), (task.false, False)):
            for atom in atoms:
                if atom_variables(atom) <= known:
                    tests.append(self._membership(atom, expected))
        tests += [self._passes(check) for check in task.checks if check.variables <= known]
        rest = _Task(
            tuple(atom for atom in task.true if not atom_variables(atom) <= known),
            tuple(atom for atom in task.false if not atom_variables(atom) <= known),
            tuple(check for check in task.checks if not check.variables <= known),
        )
        if not tests:
            return (lambda values: True), rest
        if len(tests) == 1:
            return tests[0], rest
        return (lambda values: all(test(values) for test in tests)), rest

    def _membership(self, atom: Atom, expected: bool) -> Callable[[Values], bool]:
        rows = self.relations[atom.predicate].rows
        fetch = self._fetch(self._sources(atom), as_tuple=True)
        if expected:
            return lambda values: fetch(values) in rows
        return lambda values: fetch(values) not in rows

    def _passes(self, check: Check) -> Callable[[Values], bool]:
        names = sorted(check.variables)
        slots = [self.slot(name) for name in names]
        seen: dict[tuple[int, ...], bool] = {}

        def test(values: Values) -> bool:
            key = tuple(values[slot] for slot in slots)
            if key not in seen:
                columns = {name: np.array([code]) for name, code in zip(names, key, strict=True)}
                seen[key] = bool(check_passes(check, columns, self.scope, 1)[0])
            return seen[key]

        return test

    def _matches(
        self, atom: Atom, known: frozenset[str]
    ) -> Callable[[Values], Iterator[None]]:
        """Binds the atom's unknown variables to each matching tuple in turn."""
        index, key, places = self._access(atom, known)
        slots = [self.slot(atom.terms[place].name) for place in places]
        if len(slots) == 1:
            (slot,) = slots

            def single(values: Values) -> Iterator[None]:
                for constant in index.get(key(values), ()):
                    values[slot] = constant  # type: ignore[call-overload]
                    yield

            return single
        is_repeated = len(set(slots)) < len(slots)

        def several(values: Values) -> Iterator[None]:
            for constants in index.get(key(values), ()):
                for slot, constant in zip(slots, constants, strict=True):  # type: ignore[call-overload]
                    values[slot] = constant
                if is_repeated and any(
                    values[slot] != constant
                    for slot, constant in zip(slots, constants, strict=True)  # type: ignore[call-overload]
                ):
                    continue
                yield

        return several

    def _bucket_size(self, atom: Atom, known: frozenset[str]) -> Count:
        index, key, _ = self._access(atom, known)
        return lambda values: len(index.get(key(values), ()))

    def _access(
        self, atom: Atom, known: frozenset[str]
    ) -> tuple[dict[Hashable, set[Hashable]], Callable[[Values], Hashable], list[int]]:
        """An index by the atom's known terms, the key to look up, and the other positions."""
        given = tuple(
            place
            for place, term in enumerate(atom.terms)
            if not isinstance(term, Variable) or term.name in known
        )
        sources = self._sources(atom)
        key = self._fetch([sources[place] for place in given])
        places = [place for place in range(len(atom.terms)) if place not in given]
        return self.relations[atom.predicate].index(given), key, places

    def _num_open(self, atom: Atom, known: frozenset[str]) -> int:
        """How many positions hold an unknown variable."""
        return sum(isinstance(term, Variable) and term.name not in known for term in atom.terms)

    def _sources(self, atom: Atom) -> list[tuple[bool, int]]:
        """For each term, whether it is a slot, and the slot or the constant's code."""
        kinds = self.types[atom.predicate]
        return [
            (True, self.slot(term.name))
            if isinstance(term, Variable)
            else (False, self.scope.domains[kind].index.get(term.name, -1))
            for term, kind in zip(atom.terms, kinds, strict=True)
        ]

    def _fetch(self, sources: Sequence[tuple[bool, int]], as_tuple: bool = False) -> Pick:
        """Reads slots and constants into a key: bare if there is one, unless `as_tuple`."""
        if all(is_slot for is_slot, _ in sources):
            slots = tuple(number for _, number in sources)
            if as_tuple and len(slots) == 1:
                (slot,) = slots
                return lambda values: (values[slot],)
            return picker(slots)

        def read(values: Sequence[int]) -> Hashable:
            key = tuple(values[number] if is_slot else number for is_slot, number in sources)
            return key if as_tuple or len(key) != 1 else key[0]

        return read

    def _constant_or_slot(self, term: SimpleTerm, name: str) -> tuple[bool, int]:
        if isinstance(term, Variable):
            return True, self.slot(term.name)
        return False, self.scope.domains[self.scope.types[name]].index[term.name]

    @staticmethod
    def _same(slot: int, source: tuple[bool, int]) -> Callable[[Values], bool]:
        is_slot, number = source
        if is_slot:
            return lambda values: values[slot] == values[number]
        return lambda values: values[slot] == number


def _independent(task: _Task, known: frozenset[str]) -> list[_Task]:
    """The parts of the task that share no unknown variable."""
    parts: list[tuple[frozenset[str], _Task]] = []
    singles = [
        *(_Task((atom,), (), ()) for atom in task.true),
        *(_Task((), (atom,), ()) for atom in task.false),
        *(_Task((), (), (check,)) for check in task.checks),
    ]
    for single in singles:
        names = single.variables - known
        apart = []
        for other_names, other in parts:
            if names & other_names:
                names |= other_names
                single = _Task(
                    other.true + single.true,
                    other.false + single.false,
                    other.checks + single.checks,
                )
            else:
                apart.append((other_names, other))
        parts = [*apart, (names, single)]
    return [part for _, part in parts]

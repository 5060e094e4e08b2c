"""Count the groundings around one atom: nested loops over indexes, compiled once per rule.

The flipped atom gives values to the positions of a conjunction (`lapis.relational.conjunction`).
What is left is counted by the recursion

    count(atoms) = Π over parts that share no unknown variable of
                   Σ over the matches of one atom of the part of count(the rest)

where an atom whose unknown variables nothing else needs is counted by the size of its index
bucket, and a single unknown variable by going through the smallest of its buckets. The choice of
atoms depends only on which variables are known, so each conjunction becomes a stretch of a program
when it is first used: numbers that say what to loop over, test, multiply and add, which one kernel
runs (`counting/kernels/nested_loops.py`). Time is proportional to the tuples around the atom; atoms
that must be false and stand alone have been expanded away beforehand, so no loop runs over a
domain, but for numeric comparisons without a relation to restrict them.

Before, each conjunction was a tree of closures over dictionaries of sets: simpler, and 22 to 36
times slower (`benchmarks/flipping.py`). A kernel for each conjunction would save the interpreting,
but every new rule would be compiled for a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np

from lapis.counting.indexed_relations import IndexedRelations
from lapis.counting.kernels import nested_loops as ops
from lapis.language.syntax import Variable
from lapis.logic.clauses import SimpleTerm
from lapis.relational.algebra import Test
from lapis.relational.comparison import compared_values
from lapis.relational.conjunction import Atom, Conjunction, Negative, Scope, expand
from lapis.relational.elimination import connected

ONE = 0  # the register that is always 1
NOTHING = 0  # the slot that is always 0


class Jump:
    """A place in a program that is known once the code before it is written."""

    def __init__(self) -> None:
        self.at = -1


Word = int | Jump
Key = list[Word]  # a linear form of slots: constant, number of terms, slot and stride of each


@dataclass
class Writer:
    """A program as it is written, and how much its kernel needs."""

    code: list[Word] = field(default_factory=list)
    numbers: list[np.ndarray] = field(default_factory=list)  # float64[...], of constants
    num_numbers: int = 0
    num_slots: int = 1
    num_registers: int = 1
    num_cursors: int = 1
    bound: int = 1  # what one atom can change, at most
    _read: dict[object, int] = field(default_factory=dict)

    def put(self, *words: Word) -> None:
        self.code += words

    def here(self, jump: Jump | None = None) -> Jump:
        """A jump to what is written next."""
        jump = jump or Jump()
        jump.at = len(self.code)
        return jump

    def finished(self) -> list[int]:
        return [word.at if isinstance(word, Jump) else word for word in self.code]

    def keep_numbers(self, key: object, values: np.ndarray) -> int:
        """Where the numbers of constants stand, which are kept once for each key."""
        if key not in self._read:
            self._read[key] = self.num_numbers
            self.numbers.append(values.astype(np.float64))
            self.num_numbers += len(values)
        return self._read[key]


class Result(NamedTuple):
    """Where counts go: offset + Σ stride · output is a weight, or a derived atom."""

    outputs: tuple[str, ...]
    offset: int
    strides: tuple[int, ...]
    derived: int | None  # the predicate's number


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
    """Writes conjunctions as code over indexed relations."""

    scope: Scope
    known: frozenset[str]  # variables that have values, in the first slots
    relations: IndexedRelations
    types: Mapping[str, tuple[str, ...]]  # of each predicate's arguments
    writer: Writer

    def compile(self, conjunctions: Iterable[Conjunction], result: Result) -> None:
        """Write code that adds up the groundings around an atom."""
        self.writer.num_slots = max(self.writer.num_slots, 1 + len(self.scope.types))
        for each in expand(conjunctions, self.scope, self._stands_alone):
            _Conjunction(self, result).write(each)

    def _stands_alone(self, conjunction: Conjunction, negative: Negative) -> bool:
        """Whether a false atom or x ≠ y is a filter on no true atom's matches."""
        if isinstance(negative, Test):
            types = {self.scope.types[name] for name in negative.variables}
            if negative.numeric or len(types) > 1:
                return False
        unknown = frozenset(negative.variables) - self.known
        return bool(unknown) and not any(unknown <= atom.variables for atom in conjunction.true)

    def slot(self, name: str) -> int:
        """Where a variable's constant stands."""
        return 1 + list(self.scope.types).index(name)

    def size(self, name: str) -> int:
        return len(self.scope.domains[self.scope.types[name]])

    def code_of(self, term: SimpleTerm, kind: str) -> int:
        """Of a constant; −1 if it is of another type."""
        return self.scope.domains[kind].index.get(term.name, -1)

    def is_possible(self, atom: Atom) -> bool:
        """Whether its constants are of the right types."""
        pairs = zip(atom.terms, self.types[atom.relation], strict=True)
        return all(isinstance(t, Variable) or self.code_of(t, kind) >= 0 for t, kind in pairs)

    def key(
        self, offset: int, terms: Sequence[SimpleTerm], kinds: Sequence[str], strides: Sequence[int]
    ) -> Key:
        """offset + Σ stride · term."""
        pairs: list[Word] = []
        for term, kind, stride in zip(terms, kinds, strides, strict=True):
            if isinstance(term, Variable):
                pairs += (self.slot(term.name), stride)
            else:
                offset += stride * self.code_of(term, kind)
        return [offset, len(pairs) // 2, *pairs]

    def atom_key(self, atom: Atom) -> Key:
        name = atom.relation
        relations = self.relations
        return self.key(
            relations.offset[name], atom.terms, self.types[name], relations.strides[name]
        )


class _Access(NamedTuple):
    """An index by an atom's known terms."""

    key: Key  # of the bucket
    link: int
    fresh: list[tuple[int, int]]  # position and slot of the others


@dataclass
class _Conjunction:
    """Writes one conjunction; registers and cursors are its own."""

    compiler: Compiler
    result: Result
    registers: int = 1
    cursors: int = 0

    def __post_init__(self) -> None:
        self.writer = self.compiler.writer

    def write(self, conjunction: Conjunction) -> None:
        compiler, known = self.compiler, self.compiler.known
        if not all(map(compiler.is_possible, conjunction.true)):
            return
        false = tuple(filter(compiler.is_possible, conjunction.false))
        task = _Task(conjunction.true, false, conjunction.tests)
        types, outputs = compiler.scope.types, self.result.outputs
        bound = dict(conjunction.bindings)
        factor = conjunction.coefficient
        for name in types.keys() - {*task.variables, *bound, *known, *outputs}:
            factor *= compiler.size(name)
        end = Jump()
        for name in sorted(known & bound.keys()):
            self._test_same(name, bound[name], end)
        free = tuple(name for name in outputs if name not in bound)
        largest = abs(factor)
        for name in (task.variables | set(free)) - known:
            largest *= max(1, compiler.size(name))
        self.writer.bound += largest
        emit = compiler.key(
            self.result.offset,
            [bound.get(name, Variable(name)) for name in outputs],
            [types[name] for name in outputs],
            self.result.strides,
        )
        task = self._test(task, known, end)
        self._emit(task, known, free, factor, emit, end)
        self.writer.here(end)
        self.writer.num_registers = max(self.writer.num_registers, self.registers)
        self.writer.num_cursors = max(self.writer.num_cursors, self.cursors)

    def _emit(
        self,
        task: _Task,
        known: frozenset[str],
        free: tuple[str, ...],
        factor: int,
        emit: Key,
        nothing: Jump,
    ) -> None:
        """Loops until the outputs in `free` are known, then counts."""
        wanted = [name for name in free if name not in known]
        if not wanted:
            register = self._count(task, known, nothing)
            if self.result.derived is None:
                self.writer.put(ops.WEIGHT, factor, register, *emit)
            else:
                self.writer.put(ops.WITNESS, factor, register, self.result.derived, *emit)
            self.writer.put(ops.JUMP, nothing)
            return
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
            again = self._loop_matches(self._access(chosen, known), nothing)
            known |= chosen.variables
        else:
            again = self._loop_constants(wanted[0], nothing)
            known |= {wanted[0]}
        task = self._test(task, known, again)
        self._emit(task, known, free, factor, emit, again)

    def _count(self, task: _Task, known: frozenset[str], nothing: Jump) -> int:
        """The register with the number of assignments of the unknown variables that match.

        Where there are none it jumps to `nothing`.
        """
        task = self._test(task, known, nothing)
        product = ONE
        for part in _independent(task, known):
            register = self._count_part(part, known)
            self.writer.put(ops.EMPTY, register, nothing)
            if product == ONE:
                product = register
            else:
                self.writer.put(ops.MULTIPLY, product, register)
        return product

    def _count_part(self, task: _Task, known: frozenset[str]) -> int:
        """A part whose unknown variables hang together."""
        end = Jump()
        if not task.true:  # only comparisons are left
            register = self._clear()
            name = min(task.variables - known)
            again = self._loop_constants(name, end)
            inner = self._count(task, known | {name}, again)
        else:
            chosen = max(
                task.true, key=lambda atom: (len(atom.variables & known), -len(atom.terms))
            )
            rest = task.without(chosen)
            fresh = chosen.variables - known
            access = self._access(chosen, known)
            if not fresh & rest.variables and len(fresh) == len(access.fresh):
                register = self._new_register()
                self.writer.put(ops.SIZE, register, *access.key)
                return register
            if self._is_one_set(task, known):
                return self._count_set(task, known)
            register = self._clear()
            again = self._loop_matches(access, end)
            inner = self._count(rest, known | fresh, again)
        self.writer.put(ops.ADD, register, inner, again)
        self.writer.here(end)
        return register

    def _is_one_set(self, task: _Task, known: frozenset[str]) -> bool:
        """Whether one variable is left, and every atom is a set of its values."""
        return (
            not task.tests
            and len(task.variables - known) == 1
            and all(len(_unknown(atom, known)) == 1 for atom in (*task.true, *task.false))
        )

    def _count_set(self, task: _Task, known: frozenset[str]) -> int:
        """|∩ true buckets ∖ ∪ false buckets|."""
        register = self._new_register()
        (name,) = task.variables - known
        atoms = (*task.true, *task.false)
        slot = self.compiler.slot(name)
        self.writer.put(ops.MEET, register, slot, len(task.true), len(atoms))
        for atom in atoms:
            if atom in task.true:
                key, link, ((position, _),) = self._access(atom, known)
            else:  # is never gone through
                key, link, position = [0, 0], 0, 0
            own = self.compiler.atom_key(atom)
            self.writer.put(3 + len(key) + len(own), link, position, *key, *own)
        return register

    def _test(self, task: _Task, known: frozenset[str], fail: Jump) -> _Task:
        """Tests what the known variables decide; returns the rest of the task."""
        for atoms, expected in ((task.true, 1), (task.false, 0)):
            for atom in atoms:
                if atom.variables <= known:
                    key = self.compiler.atom_key(atom)
                    self.writer.put(ops.MEMBER, expected, fail, *key)
        for test in task.tests:
            if known.issuperset(test.variables):
                self._test_comparison(test, fail)
        return _Task(
            tuple(atom for atom in task.true if not atom.variables <= known),
            tuple(atom for atom in task.false if not atom.variables <= known),
            tuple(test for test in task.tests if not known.issuperset(test.variables)),
        )

    def _test_same(self, name: str, term: SimpleTerm, fail: Jump) -> None:
        kind = self.compiler.scope.types[name]
        key = self.compiler.key(0, (Variable(name), term), (kind, kind), (1, -1))
        self.writer.put(ops.EQUAL, fail, *key)

    def _test_comparison(self, test: Test, fail: Jump) -> None:
        scope = self.compiler.scope
        domains = {name: scope.domains[scope.types[name]] for name in test.variables}
        sides: list[Word] = []
        values = compared_values(test, domains)
        kinds = tuple(scope.types[name] for name in test.variables)
        for side, term in enumerate((test.condition.left, test.condition.right)):
            is_variable = isinstance(term, Variable)
            what = scope.types[term.name] if is_variable else term
            offset = test.condition.offset if side else 0
            key = (what, is_variable, None if test.numeric else kinds[0], offset)
            slot = self.compiler.slot(term.name) if is_variable else NOTHING
            sides += (self.writer.keep_numbers(key, values[side]), slot)
        operator = ops.OPERATORS.index(test.condition.operator)
        self.writer.put(ops.COMPARE, fail, operator, int(test.expected), *sides)

    def _loop_constants(self, name: str, end: Jump) -> Jump:
        """Binds a variable to each constant of its type in turn; where to go on with the next."""
        cursor, slot = self._new_cursor(), self.compiler.slot(name)
        self.writer.put(ops.START, cursor)
        again = self.writer.here()
        self.writer.put(ops.EACH, cursor, end, slot, self.compiler.size(name))
        return again

    def _loop_matches(self, access: _Access, end: Jump) -> Jump:
        """Binds the atom's unknown variables to each matching tuple in turn."""
        cursor = self._new_cursor()
        self.writer.put(ops.OPEN, cursor, *access.key)
        again = self.writer.here()
        self.writer.put(ops.NEXT, cursor, end, access.link, len(access.fresh))
        seen: set[int] = set()
        for position, slot in access.fresh:
            self.writer.put(position, slot, int(slot not in seen))
            seen.add(slot)
        return again

    def _access(self, atom: Atom, known: frozenset[str]) -> _Access:
        compiler, name = self.compiler, atom.relation
        fresh = _unknown(atom, known)
        given = tuple(place for place in range(len(atom.terms)) if place not in fresh)
        index = compiler.relations.index(name, given)
        terms = [atom.terms[place] for place in given]
        kinds = [compiler.types[name][place] for place in given]
        key = compiler.key(index.offset, terms, kinds, index.strides)
        slots = [(place, compiler.slot(atom.terms[place].name)) for place in fresh]
        return _Access(key, index.link, slots)

    def _clear(self) -> int:
        register = self._new_register()
        self.writer.put(ops.CLEAR, register)
        return register

    def _new_register(self) -> int:
        self.registers += 1
        return self.registers - 1

    def _new_cursor(self) -> int:
        self.cursors += 1
        return self.cursors - 1


def _unknown(atom: Atom, known: frozenset[str]) -> list[int]:
    """The positions of an atom's unknown variables."""
    return [
        place
        for place, term in enumerate(atom.terms)
        if isinstance(term, Variable) and term.name not in known
    ]


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

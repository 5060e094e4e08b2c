"""Count the groundings around one atom by nested loops over indexes.

The flipped atom binds the positions of a conjunction (`relational.conjunction`). The groundings of
the other variables are counted by the recursion

    count(atoms) = Π over parts that share no unbound variable of
                   Σ over the matches of one atom of the part of count(the rest)

An atom whose unbound variables occur nowhere else is counted by the size of its index bucket, and a
single unbound variable by a loop over the smallest of its buckets. The choice of atoms depends only
on which variables are bound. So each conjunction is compiled on first use to a sequence of
instructions (loop, test, multiply, add), which one kernel interprets (`nested_loops_kernel`). Time
is proportional to the tuples around the atom. False atoms with variables that no true atom binds
are expanded by inclusion–exclusion beforehand, so that loops over whole domains occur only for
numeric comparisons without a relation.

What did not work: a tree of closures over dictionaries of sets for each conjunction was 22 to 36
times slower (`benchmarks/flipping.py`). A kernel for each conjunction would need no interpreter,
but a second of compilation for every rule.

`IndexedRelations` stores the true atoms of all predicates with an index for every access pattern in
use. An atom is one number: the offset of its predicate plus the mixed-radix value of its arguments.
A bucket is the offset of its index plus the value of the indexed arguments. One hash table holds
all atoms and one all buckets; rows are shared by all predicates. Kernels cannot enlarge arrays:
they stop if an array is full, and `grow` doubles it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import prod
from types import FunctionType
from typing import NamedTuple, TypeVar

import numpy as np

from lapis.counting import nested_loops_kernel as ops
from lapis.counting.nested_loops_kernel import NUM_BUCKETS, insert_atoms
from lapis.data.keys import LARGEST_KEY
from lapis.language.syntax import Variable
from lapis.logic.clauses import SimpleTerm
from lapis.relational.algebra import Test
from lapis.relational.comparison import compared_values
from lapis.relational.conjunction import (
    Conjunction,
    Negative,
    RelationAtom,
    Scope,
    expand_negatives,
)
from lapis.relational.contraction import group_connected

T = TypeVar("T")

ONE = 0  # the register with constant value 1
ZERO = 0  # the slot with constant value 0


class Jump:
    """A position in a program that is set once the code before it is written."""

    def __init__(self) -> None:
        self.at = -1


Word = int | Jump
Key = list[Word]  # a linear form of slots: constant, number of terms, slot and stride of each


@dataclass
class LoopWriter:
    """A program under construction, and the sizes of the work arrays that it needs."""

    code: list[Word] = field(default_factory=list)
    numbers: list[np.ndarray] = field(default_factory=list)  # float64[...], of constants
    num_numbers: int = 0
    num_slots: int = 1
    num_registers: int = 1
    num_cursors: int = 1
    bound: int = 1  # largest change of a count by one atom
    _read: dict[object, int] = field(default_factory=dict)

    def put(self, *words: Word) -> None:
        self.code += words

    def here(self, jump: Jump | None = None) -> Jump:
        """Return a jump to the next instruction."""
        jump = jump or Jump()
        jump.at = len(self.code)
        return jump

    def finished(self) -> list[int]:
        return [word.at if isinstance(word, Jump) else word for word in self.code]

    def keep_numbers(self, key: object, values: np.ndarray) -> int:
        """Store the numbers of constants once for each key, and return their position."""
        if key not in self._read:
            self._read[key] = self.num_numbers
            self.numbers.append(values.astype(np.float64))
            self.num_numbers += len(values)
        return self._read[key]


class CountOutput(NamedTuple):
    """The target of counts: offset + Σ stride · output is a weight, or a derived atom."""

    outputs: tuple[str, ...]
    offset: int
    strides: tuple[int, ...]
    derived: int | None  # the predicate's number


class _Task(NamedTuple):
    """The atoms and tests that are not matched yet."""

    true: tuple[RelationAtom, ...]
    false: tuple[RelationAtom, ...]
    tests: tuple[Test, ...]

    @property
    def variables(self) -> frozenset[str]:
        atoms = (atom.variables for atom in (*self.true, *self.false))
        return frozenset().union(*atoms, *(test.variables for test in self.tests))

    def without(self, atom: RelationAtom) -> _Task:
        return self._replace(true=tuple(other for other in self.true if other != atom))


@dataclass(frozen=True)
class LoopCompiler:
    """Compiles conjunctions to code over indexed relations."""

    scope: Scope
    known: frozenset[str]  # variables bound by the atom, in the first slots
    relations: IndexedRelations
    types: Mapping[str, tuple[str, ...]]  # of each predicate's arguments
    writer: LoopWriter

    def compile(self, conjunctions: Iterable[Conjunction], result: CountOutput) -> None:
        """Write code that sums the groundings around an atom."""
        self.writer.num_slots = max(self.writer.num_slots, 1 + len(self.scope.types))
        for each in expand_negatives(conjunctions, self.scope, self._stands_alone):
            _Conjunction(self, result).write(each)

    def _stands_alone(self, conjunction: Conjunction, negative: Negative) -> bool:
        """Return whether no true atom binds the variables of a false atom or of x ≠ y."""
        if isinstance(negative, Test):
            types = {self.scope.types[name] for name in negative.variables}
            if negative.numeric or len(types) > 1:
                return False
        unknown = frozenset(negative.variables) - self.known
        return bool(unknown) and not any(unknown <= atom.variables for atom in conjunction.true)

    def slot(self, name: str) -> int:
        """Return the slot of a variable."""
        return 1 + list(self.scope.types).index(name)

    def size(self, name: str) -> int:
        return len(self.scope.domains[self.scope.types[name]])

    def code_of(self, term: SimpleTerm, kind: str) -> int:
        """Return the code of a constant; −1 if it has another type."""
        return self.scope.domains[kind].index.get(term.name, -1)

    def is_possible(self, atom: RelationAtom) -> bool:
        """Return whether the atom's constants have the right types."""
        pairs = zip(atom.terms, self.types[atom.relation], strict=True)
        return all(isinstance(t, Variable) or self.code_of(t, kind) >= 0 for t, kind in pairs)

    def key(
        self, offset: int, terms: Sequence[SimpleTerm], kinds: Sequence[str], strides: Sequence[int]
    ) -> Key:
        """Return the linear form offset + Σ stride · term."""
        pairs: list[Word] = []
        for term, kind, stride in zip(terms, kinds, strides, strict=True):
            if isinstance(term, Variable):
                pairs += (self.slot(term.name), stride)
            else:
                offset += stride * self.code_of(term, kind)
        return [offset, len(pairs) // 2, *pairs]

    def atom_key(self, atom: RelationAtom) -> Key:
        name = atom.relation
        relations = self.relations
        return self.key(
            relations.offset[name], atom.terms, self.types[name], relations.strides[name]
        )


class _Access(NamedTuple):
    """An index by an atom's bound terms."""

    key: Key  # of the bucket
    link: int
    fresh: list[tuple[int, int]]  # position and slot of the unbound terms


@dataclass
class _Conjunction:
    """Compiles one conjunction with its own registers and cursors."""

    compiler: LoopCompiler
    result: CountOutput
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
        """Write loops that bind the outputs in `free`, then the count."""
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
            # If no atom of an output has a bound variable, start with another atom of its part.
            (part,) = (each for each in _split_independent(task, known) if atoms[0] in each.true)
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
        """Write the count of matching assignments; return its register, jump to `nothing` if 0."""
        task = self._test(task, known, nothing)
        product = ONE
        for part in _split_independent(task, known):
            register = self._count_part(part, known)
            self.writer.put(ops.EMPTY, register, nothing)
            if product == ONE:
                product = register
            else:
                self.writer.put(ops.MULTIPLY, product, register)
        return product

    def _count_part(self, task: _Task, known: frozenset[str]) -> int:
        """Write the count of a part that is connected through unbound variables."""
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
        """Return whether one unbound variable is left, and every atom is a set of its values."""
        return (
            not task.tests
            and len(task.variables - known) == 1
            and all(len(_unknown_positions(atom, known)) == 1 for atom in (*task.true, *task.false))
        )

    def _count_set(self, task: _Task, known: frozenset[str]) -> int:
        """Write the count |∩ true buckets ∖ ∪ false buckets|."""
        register = self._new_register()
        (name,) = task.variables - known
        atoms = (*task.true, *task.false)
        slot = self.compiler.slot(name)
        self.writer.put(ops.MEET, register, slot, len(task.true), len(atoms))
        for atom in atoms:
            if atom in task.true:
                key, link, ((position, _),) = self._access(atom, known)
            else:  # never iterated over
                key, link, position = [0, 0], 0, 0
            own = self.compiler.atom_key(atom)
            self.writer.put(3 + len(key) + len(own), link, position, *key, *own)
        return register

    def _test(self, task: _Task, known: frozenset[str], fail: Jump) -> _Task:
        """Write the tests over bound variables; return the rest of the task."""
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
            slot = self.compiler.slot(term.name) if is_variable else ZERO
            sides += (self.writer.keep_numbers(key, values[side]), slot)
        operator = ops.OPERATORS.index(test.condition.operator)
        self.writer.put(ops.COMPARE, fail, operator, int(test.expected), *sides)

    def _loop_constants(self, name: str, end: Jump) -> Jump:
        """Write a loop over the constants of a variable; return the jump to the next one."""
        cursor, slot = self._new_cursor(), self.compiler.slot(name)
        self.writer.put(ops.START, cursor)
        again = self.writer.here()
        self.writer.put(ops.EACH, cursor, end, slot, self.compiler.size(name))
        return again

    def _loop_matches(self, access: _Access, end: Jump) -> Jump:
        """Write a loop over the matching tuples of an atom; return the jump to the next one."""
        cursor = self._new_cursor()
        self.writer.put(ops.OPEN, cursor, *access.key)
        again = self.writer.here()
        self.writer.put(ops.NEXT, cursor, end, access.link, len(access.fresh))
        seen: set[int] = set()
        for position, slot in access.fresh:
            self.writer.put(position, slot, int(slot not in seen))
            seen.add(slot)
        return again

    def _access(self, atom: RelationAtom, known: frozenset[str]) -> _Access:
        compiler, name = self.compiler, atom.relation
        fresh = _unknown_positions(atom, known)
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


def _unknown_positions(atom: RelationAtom, known: frozenset[str]) -> list[int]:
    """Return the positions of an atom's unbound variables."""
    return [
        place
        for place, term in enumerate(atom.terms)
        if isinstance(term, Variable) and term.name not in known
    ]


def _split_independent(task: _Task, known: frozenset[str]) -> list[_Task]:
    """Split the task into parts that share no unbound variable."""
    singles = [
        *(_Task((atom,), (), ()) for atom in task.true),
        *(_Task((), (atom,), ()) for atom in task.false),
        *(_Task((), (), (test,)) for test in task.tests),
    ]
    return [
        _Task(*(tuple(chain.from_iterable(each)) for each in zip(*part, strict=True)))
        for part in group_connected(singles, lambda single: single.variables - known)
    ]


LEAST_ROWS = 32


class AtomNumbering(NamedTuple):
    """The numbering of atoms and buckets; `word` is int64, object in wide worlds."""

    offset: np.ndarray  # word[num_predicates], of atoms
    arity: np.ndarray  # int64[num_predicates]
    size: np.ndarray  # word[num_predicates, max_arity], of the arguments' domains
    num_links: np.ndarray  # int64[num_predicates], the indexes of each
    index_offset: np.ndarray  # word[num_predicates, max_links], of buckets
    index_stride: np.ndarray  # word[num_predicates, max_links, max_arity], 0: not indexed by


class Relations(NamedTuple):
    atom: np.ndarray  # word[num_places], −1 if the place is free
    row: np.ndarray  # int32[num_places], of the atom there
    bucket: np.ndarray  # word[num_bucket_places], −1 if the place is free
    head: np.ndarray  # int32[num_bucket_places], its first row, or −1
    size: np.ndarray  # word[num_bucket_places], its number of rows
    argument: np.ndarray  # int32[num_rows, max_arity], object in wide worlds
    following: np.ndarray  # int32[max_links, num_rows], the next row of a bucket, or −1
    preceding: np.ndarray  # int32[max_links, num_rows]
    free: np.ndarray  # int32[num_rows], a stack of rows
    level: np.ndarray  # int64[2]: free rows, buckets


class Index(NamedTuple):
    """An index of a predicate's atoms by some of their arguments."""

    link: int
    offset: int
    strides: tuple[int, ...]  # of the indexed arguments, in their order


class IndexedRelations:
    """Relations over domains of given sizes, with true rows int32[n, arity]."""

    def __init__(
        self, sizes: Mapping[str, tuple[int, ...]], rows: Mapping[str, np.ndarray]
    ) -> None:
        self.sizes = dict(sizes)
        self.number = {name: number for number, name in enumerate(sizes)}
        self.strides = {name: radix_strides(each) for name, each in sizes.items()}
        self.offset: dict[str, int] = {}
        end = 0
        for name, each in sizes.items():
            self.offset[name] = end
            end += prod(each)
        self.wide = end > LARGEST_KEY
        self._indexes: dict[str, dict[tuple[int, ...], Index]] = {name: {} for name in sizes}
        self._num_buckets = 0  # possible ones
        self._least_rows, self._least_buckets = LEAST_ROWS, LEAST_ROWS
        self._rows = dict(rows)
        self._arrays: tuple[AtomNumbering, Relations] | None = None

    @property
    def word(self) -> np.dtype[np.generic]:
        """The type of numbers: int64, or Python integers."""
        return np.dtype(object if self.wide else np.int64)

    def atoms(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Return word[n], the numbers of atoms int32[n, arity]."""
        found = np.full(len(rows), self.offset[name], self.word)
        for column, stride in zip(rows.T, self.strides[name], strict=True):
            found += column.astype(self.word) * stride
        return found

    def index(self, name: str, positions: tuple[int, ...]) -> Index:
        """Return the index by these positions, created on first use and updated from then on."""
        own = self._indexes[name]
        if positions not in own:
            sizes = [self.sizes[name][position] for position in positions]
            own[positions] = Index(len(own), self._num_buckets, radix_strides(sizes))
            self._num_buckets += prod(sizes)
            if self._num_buckets > LARGEST_KEY:
                self.widen()
            self._unbuild()
        return own[positions]

    def widen(self) -> None:
        """Store all numbers as Python integers."""
        self._unbuild()
        self.wide = True

    def grow(self) -> None:
        """Double the array that is full."""
        layout, relations = self.arrays
        few_buckets = (
            relations.level[NUM_BUCKETS] + layout.num_links.max() > len(relations.bucket) // 2
        )
        self._unbuild()
        if few_buckets:
            self._least_buckets *= 2
        else:
            self._least_rows *= 2

    def rows(self, name: str) -> np.ndarray:
        """Return int32[n, arity], the true atoms, in arbitrary order."""
        if self._arrays is None:
            return self._rows[name]
        relations, sizes = self._arrays[1], self.sizes[name]
        atom, first = relations.atom, self.offset[name]
        inside = (atom >= first) & (atom < first + prod(sizes))
        rest, rows = atom[inside] - first, np.empty((int(inside.sum()), len(sizes)), np.int32)
        for position in range(len(sizes) - 1, -1, -1):  # numpy has no divmod of Python's integers
            rows[:, position], rest = rest % sizes[position], rest // sizes[position]
        return rows

    def _unbuild(self) -> None:
        self._rows = {name: self.rows(name) for name in self.sizes}
        self._arrays = None

    @property
    def arrays(self) -> tuple[AtomNumbering, Relations]:
        if self._arrays is None:
            self._arrays = self._build()
        return self._arrays

    def _build(self) -> tuple[AtomNumbering, Relations]:
        word, number = self.word, len(self.sizes)
        arity = max(map(len, self.sizes.values()), default=0)
        links = max(map(len, self._indexes.values()), default=0)
        size = np.ones((number, arity), word)
        offset = np.zeros((number, links), word)
        stride = np.zeros((number, links, arity), word)
        for name, at in self.number.items():
            size[at, : len(self.sizes[name])] = self.sizes[name]
            for positions, index in self._indexes[name].items():
                offset[at, index.link] = index.offset
                stride[at, index.link, list(positions)] = index.strides
        layout = AtomNumbering(
            np.array(list(self.offset.values()), word),
            np.array(list(map(len, self.sizes.values())), np.int64),
            size,
            np.array(list(map(len, self._indexes.values())), np.int64),
            offset,
            stride,
        )
        num_atoms = sum(map(len, self._rows.values()))
        while self._least_rows < num_atoms + LEAST_ROWS:
            self._least_rows *= 2
        most = sum(len(self._rows[name]) * len(own) for name, own in self._indexes.items())
        while self._least_buckets < min(most, self._num_buckets) + links + 1:
            self._least_buckets *= 2
        num_rows, num_places = self._least_rows, 2 * self._least_buckets
        relations = Relations(
            np.full(2 * num_rows, -1, word),
            np.zeros(2 * num_rows, np.int32),
            np.full(num_places, -1, word),
            np.full(num_places, -1, np.int32),
            np.zeros(num_places, word),
            np.zeros((num_rows, arity), object if self.wide else np.int32),
            np.zeros((links, num_rows), np.int32),
            np.zeros((links, num_rows), np.int32),
            np.arange(num_rows, dtype=np.int32),
            np.array([num_rows, 0], np.int64),
        )
        for name, at in self.number.items():
            atoms = self.atoms(name, self._rows[name])
            run_kernel(insert_atoms, self.wide, layout, relations, at, atoms)
        return layout, relations


def run_kernel(kernel: Callable[..., T], wide: bool, *arguments: object) -> T:
    """Call a kernel, as a Python function if numbers are wide."""
    if not wide:
        return kernel(*arguments)
    with np.errstate(all="ignore"):
        return to_python_function(kernel)(*arguments)


@functools.cache
def to_python_function(kernel: Callable[..., T]) -> Callable[..., T]:
    """Return the Python function of a kernel, since numba has no integers beyond 64 bits.

    The kernels that it calls become Python functions too; those that `kernel.py_func` calls would
    be compiled.
    """
    function: FunctionType = vars(kernel)["py_func"]
    names = {
        name: to_python_function(value) if hasattr(value, "py_func") else value
        for name, value in function.__globals__.items()
        if name in function.__code__.co_names
    }
    return FunctionType(function.__code__, names, function.__name__)


def radix_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(sizes[position + 1 :]) for position in range(len(sizes)))

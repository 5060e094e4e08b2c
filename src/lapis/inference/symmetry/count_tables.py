"""A network over counts: a class of n interchangeable atoms is one variable with n + 1 states.

The score of a world depends on the counts k of true atoms in each class alone, so it equals its
mean over all worlds with these counts. For a clause with p atoms of a class that must be false and
q that must be true for it to be violated that mean is

    P(violated | k) = (n − k)(n − k − 1)…(n − k − p + 1) · k(k − 1)…(k − q + 1) / n(n − 1)…

a product over the classes it touches; clauses with the same p and q in the same classes add up in
one table over the counts. A count k stands for C(n, k) worlds. Atoms that are in a class by
themselves, and blocks, stay as they are, so what is left is again a few variables and cubes, and
the same junction trees solve it: sixty people who are all friends are one variable of 61 states,
and if six of them are known apart, these are six more variables.

A table is entered as one cube a state. What is asked afterwards (how often is a clause violated;
how are the neighbours of an eliminated atom distributed) is read off the cubes' probabilities, so
scopes that are only asked for have a table of zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import NamedTuple

import numpy as np

from lapis.errors import TooLarge
from lapis.inference.random_numbers import mix_all
from lapis.inference.symmetry.terms import cube_members
from lapis.network.csr import row_places, row_starts, take_rows
from lapis.network.cubes import Cubes, Variables

MAX_STATES = 1 << 21  # entries of all tables over counts
MAX_PATTERNS = 20_000

Scope = tuple[int, ...]  # count variables, ascending


class Classes(NamedTuple):
    """Count variables: classes of plain variables in the order of their first one, then blocks."""

    of_variable: np.ndarray  # int32[num_variables]
    num_atoms: np.ndarray  # int64[num_counts], 0 for a block
    size: np.ndarray  # int32[num_counts], number of states
    first: np.ndarray  # int64[num_counts], a variable of each

    @property
    def is_shared(self) -> np.ndarray:
        """bool[num_counts]"""
        return self.num_atoms > 1


class Pattern(NamedTuple):
    """What many clauses ask of the counts for being violated."""

    clauses: np.ndarray  # int64[...], cubes of the network
    scope: Scope
    truths: tuple[np.ndarray, ...]  # for each variable of the scope, P(as asked | state)


@dataclass(frozen=True)
class CountTables:
    """The network over counts: plain cubes first, then the cubes of each scope's table."""

    classes: Classes
    cubes: Cubes  # `clause` is a cube of the network, −1 for entries of tables
    penalty: np.ndarray  # float64[num_cubes]
    plain: np.ndarray  # int64[...], the network's cubes that are cubes here
    patterns: tuple[Pattern, ...]
    tables: dict[Scope, int]  # the first cube of each table

    def table(self, scope: Scope, belief: np.ndarray) -> np.ndarray:
        """The joint distribution over a scope, out of float64[num_cubes]."""
        shape = tuple(int(self.classes.size[c]) for c in scope)
        begin = self.tables[scope]
        return belief[begin : begin + int(np.prod(shape))].reshape(shape)

    def violated(self, belief: np.ndarray) -> np.ndarray:
        """float64[num_cubes of the network], the probability of each."""
        found = np.zeros(len(self.plain) + sum(len(p.clauses) for p in self.patterns))
        found[self.plain] = belief[: len(self.plain)]
        for pattern in self.patterns:
            found[pattern.clauses] = contract(self.table(pattern.scope, belief), pattern.truths)
        return found

    def joint(self, members: Sequence[int], belief: np.ndarray) -> np.ndarray:
        """The distribution of variables that these count variables count, each a different one.

        float64[Π sizes], the last varying fastest; plain variables are false or true.
        """
        classes = self.classes
        scope = tuple(sorted(set(members)))
        table = self.table(scope, belief)
        sizes = [2 if classes.num_atoms[c] else int(classes.size[c]) for c in members]
        found = np.empty(int(np.prod(sizes)))
        for index, states in enumerate(product(*map(range, sizes))):
            truths = []
            for c in scope:
                own = [s for m, s in zip(members, states, strict=True) if m == c]
                if classes.num_atoms[c]:
                    true = sum(own)
                    truths.append(drawn(int(classes.num_atoms[c]), len(own) - true, true))
                else:
                    truths.append(np.arange(classes.size[c]) == own[0])
            found[index] = contract(table, truths)
        return found


def group_variables(variables: Variables, first: np.ndarray) -> Classes:
    """Count variables, given the first variable of each plain variable's class."""
    num_plain = len(first)
    leader, plain_class, num_atoms = np.unique(first, return_inverse=True, return_counts=True)
    blocks = np.arange(num_plain, len(variables.size))
    return Classes(
        np.concatenate((plain_class, len(leader) + blocks - num_plain)).astype(np.int32),
        np.concatenate((num_atoms, np.zeros(len(blocks), np.int64))),
        np.concatenate((num_atoms + 1, variables.size[blocks])).astype(np.int32),
        np.concatenate((leader, blocks)),
    )


def build_tables(
    classes: Classes, cubes: Cubes, penalty: np.ndarray, num_plain: int, asked: Iterable[Scope]
) -> CountTables:
    """The network over counts; `asked` are scopes whose distribution is wanted besides.

    Raises TooLarge where the tables pass `MAX_STATES`.
    """
    shared = np.append(classes.is_shared[classes.of_variable[cubes.variable]], False)
    touched = np.logical_or.reduceat(shared, cubes.start[:-1]) if len(penalty) else shared[:0]
    plain = np.flatnonzero(~touched)
    patterns = find_patterns(classes, cubes, num_plain, np.flatnonzero(touched))
    multiplicity = [(c,) for c in np.flatnonzero(classes.is_shared).tolist()]
    scopes = sorted({p.scope for p in patterns} | set(multiplicity) | set(asked))
    shapes = {s: tuple(int(classes.size[c]) for c in s) for s in scopes}
    if sum(int(np.prod(shape, dtype=float)) for shape in shapes.values()) > MAX_STATES:
        raise TooLarge("the tables over counts do not fit", code="too-many-counts")
    tables = {scope: np.zeros(shape) for scope, shape in shapes.items()}
    for (c,) in multiplicity:
        tables[c,] += log_choices(int(classes.num_atoms[c]))
    for pattern in patterns:
        chance = outer(pattern.truths)
        own = penalty[pattern.clauses]
        soft = own > -np.inf
        tables[pattern.scope] += float(own[soft].sum()) * chance
        if not soft.all():
            tables[pattern.scope][chance > 0.0] = -np.inf
    kept = keep_cubes(cubes, classes, plain)
    entries = [list_states(scope, shapes[scope]) for scope in scopes]
    first = len(plain) + row_starts(np.array([len(lengths) for lengths, _, _ in entries], np.int64))
    lengths = [np.diff(kept.start), *(e[0] for e in entries)]
    states = np.concatenate([np.ones(len(e[1]), np.int64) for e in entries])
    joined = Cubes(
        classes.size,
        row_starts(np.concatenate(lengths)),
        np.concatenate([kept.variable, *(e[1] for e in entries)]).astype(np.int32),
        row_starts(np.concatenate((np.diff(kept.state_start), states))),
        np.concatenate([kept.state, *(e[2] for e in entries)]).astype(np.int32),
        np.concatenate((plain, np.full(int(first[-1]) - len(plain), -1))).astype(np.int32),
    )
    value = np.concatenate([penalty[plain], *(tables[scope].ravel() for scope in scopes)])
    begin = dict(zip(scopes, first.tolist(), strict=False))
    return CountTables(classes, joined, value, plain, patterns, begin)


def find_patterns(
    classes: Classes, cubes: Cubes, num_plain: int, rows: np.ndarray
) -> tuple[Pattern, ...]:
    """The cubes that ask the same of the counts, grouped."""
    member = cube_members(cubes, num_plain)
    start, place = row_places(cubes.start, rows)
    asked, variable = member[place], cubes.variable[place]
    plain = variable < num_plain
    own = classes.of_variable[variable].astype(np.int64)
    word = np.where(plain, 2 * own + (asked > 0), 2 * len(classes.size) + np.abs(asked))
    mixed = mix_all(mix_all(word.view(np.uint64) + np.uint64(1)))
    total = np.concatenate((np.zeros(1, np.uint64), np.cumsum(mixed)))
    digest = total[start[1:]] - total[start[:-1]]
    _, example, group = np.unique(digest, return_index=True, return_inverse=True)
    if len(example) > MAX_PATTERNS:
        raise TooLarge("the network has too many kinds of clauses", code="too-many-counts")
    order = np.argsort(group, kind="stable")
    begin = row_starts(np.bincount(group, minlength=len(example)))
    patterns = []
    for number, row in enumerate(example.tolist()):
        wanted: dict[int, list[int]] = {}
        truths: dict[int, np.ndarray] = {}
        for at in range(int(start[row]), int(start[row + 1])):
            c = int(own[at])
            if plain[at]:
                wanted.setdefault(c, [0, 0])[int(asked[at] > 0)] += 1
            else:
                first, last = cubes.state_start[place[at] : place[at] + 2]
                inside = cubes.state[first:last]
                truths[c] = np.isin(np.arange(classes.size[c]), inside).astype(float)
        for c, (false, true) in wanted.items():
            truths[c] = drawn(int(classes.num_atoms[c]), false, true)
        scope = tuple(sorted(truths))
        members = rows[order[begin[number] : begin[number + 1]]]
        patterns.append(Pattern(members, scope, tuple(truths[c] for c in scope)))
    return tuple(patterns)


def drawn(num_atoms: int, false: int, true: int) -> np.ndarray:
    """float64[num_atoms + 1]: P(these atoms false, those true | k of num_atoms are true).

    >>> drawn(2, 1, 1).tolist()
    [0.0, 0.5, 0.0]
    """
    count = np.arange(num_atoms + 1, dtype=float)
    chance = np.ones(num_atoms + 1)
    for i in range(false):
        chance *= np.maximum(num_atoms - count - i, 0.0) / (num_atoms - i)
    for i in range(true):
        chance *= np.maximum(count - i, 0.0) / (num_atoms - false - i)
    return chance


def log_choices(num_atoms: int) -> np.ndarray:
    """float64[num_atoms + 1], log C(num_atoms, k)."""
    from scipy.special import gammaln

    log_factorial = gammaln(np.arange(num_atoms + 1) + 1.0)
    return log_factorial[-1] - log_factorial - log_factorial[::-1]


def outer(vectors: Sequence[np.ndarray]) -> np.ndarray:
    return reduce(np.multiply.outer, vectors, np.ones(()))


def contract(table: np.ndarray, vectors: Sequence[np.ndarray]) -> float:
    """Σ table · Π vectors, one for each axis."""
    for vector in reversed(vectors):
        table = table @ vector
    return float(table)


def keep_cubes(cubes: Cubes, classes: Classes, rows: np.ndarray) -> Cubes:
    """Cubes over variables that stand for themselves, over count variables."""
    start, place = row_places(cubes.start, rows)
    state_start, state = take_rows(cubes.state_start, cubes.state, place)
    of = classes.of_variable[cubes.variable[place]]
    return Cubes(classes.size, start, of, state_start, state, rows.astype(np.int32))


def list_states(scope: Scope, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number of members of each entry of a table; then variables and states of all members."""
    state = np.indices(shape).reshape(len(shape), -1).T.ravel()
    entries = int(np.prod(shape))
    return np.full(entries, len(scope)), np.tile(np.array(scope), entries), state

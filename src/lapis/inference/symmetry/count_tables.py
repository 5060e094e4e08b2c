"""A network over counts: a class of n interchangeable atoms is one variable with n + 1 states.

The score of a world depends only on the counts k of true atoms in each class, so it equals its mean
over all worlds with these counts. It is a sum over *events* (a clause is violated; the neighbours
of an eliminated atom are in a certain state). An event that requires p atoms of a class to be false
and q to be true has the probability

    P(event | k) = (n − k)(n − k − 1)…(n − k − p + 1) · k(k − 1)…(k − q + 1) / n(n − 1)…

a product over its classes. So the score is linear in the strengths s of the events,

    score(k) = log C(n, k) + Σ_e P(e | k) · s_e

and the same matrix P(e | k) turns the distribution of counts into the probabilities of events. It
does not depend on the weights, so learning builds it once.

Atoms in a class of their own, and blocks, stay variables: sixty people who are all friends are one
variable of 61 states, and six of them with evidence of their own are six more variables. A table
over counts is entered as one cube for each state in which an event can happen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.errors import TooLarge
from lapis.inference.random_numbers import mix_array
from lapis.inference.symmetry.interchangeable import cube_members
from lapis.network.csr import row_places, row_starts, take_rows
from lapis.network.cubes import Cubes, Variables

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_STATES = 1 << 24  # with an event, summed over the events
MAX_PATTERNS = 20_000
BYTES_A_CHANCE = 12  # of an entry of the matrix P(event | counts)

Scope = tuple[int, ...]  # count variables, ascending


class Classes(NamedTuple):
    """Count variables: classes of plain variables in the order of their first one, then blocks."""

    of_variable: np.ndarray  # int32[num_variables]
    num_atoms: np.ndarray  # int64[num_counts], 0 for a block
    size: np.ndarray  # int32[num_counts], number of states
    first: np.ndarray  # int64[num_counts], a variable of each

    @property
    def is_shared(self) -> np.ndarray:
        """bool[num_counts], classes of several atoms."""
        return self.num_atoms > 1

    def shape(self, scope: Scope) -> tuple[int, ...]:
        """Return the number of states of each variable; TooLarge if their product overflows."""
        shape = tuple(int(self.size[c]) for c in scope)
        if math.prod(shape) >= 1 << 62:
            raise TooLarge("count tables exceed the memory limit", code="too-many-counts")
        return shape


class Pattern(NamedTuple):
    """An event as its requirements on counts: a violated clause of some kind, or a state."""

    scope: Scope
    truths: tuple[np.ndarray, ...]  # for each variable of the scope, P(requirement | state)

    @property
    def num_states(self) -> float:
        """The number of states of its scope in which it can happen."""
        return math.prod(float(np.count_nonzero(truth)) for truth in self.truths)

    def states(self, classes: Classes) -> tuple[np.ndarray, np.ndarray]:
        """Return the states in which it can happen, int64[num_states], and its probability."""
        possible = [np.flatnonzero(truth) for truth in self.truths]
        grid = np.meshgrid(*possible, indexing="ij")
        place = np.ravel_multi_index(tuple(grid), classes.shape(self.scope)).ravel()
        chances = [truth[own] for truth, own in zip(self.truths, possible, strict=True)]
        return place, reduce(np.multiply.outer, chances, np.ones(())).ravel()


@dataclass(frozen=True)
class CountTables:
    """The network over counts: plain cubes first, then the cubes of each scope's table."""

    classes: Classes
    cubes: Cubes  # `clause` is a cube of the network, −1 for entries of tables
    base: np.ndarray  # float64[num_cubes], log C(n, k); −∞ where a hard clause forbids a state
    chance: csr_array  # float64[num_cubes, num_events], P(event | counts)
    cube_event: np.ndarray  # int64[num_cubes of the network], the event that each one is
    scope_event: np.ndarray  # int64[num_kinds], the first event of each kind of scope

    @property
    def num_events(self) -> int:
        return int(self.chance.shape[1])

    def score(self, strength: np.ndarray) -> np.ndarray:
        """Return float64[num_cubes] for strengths float64[num_events]; −∞ for impossible events."""
        impossible = strength == -np.inf
        found: np.ndarray = self.base + self.chance @ np.where(impossible, 0.0, strength)
        if impossible.any():
            found[self.chance @ impossible.astype(float) > 0.0] = -np.inf
        return found

    def event_probability(self, belief: np.ndarray) -> np.ndarray:
        """Return float64[num_events] from the probabilities of the cubes, float64[num_cubes]."""
        found: np.ndarray = self.chance.T @ belief
        return found


def group_variables(variables: Variables, first: np.ndarray) -> Classes:
    """Return count variables, given the first variable of each plain variable's class."""
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
    classes: Classes,
    cubes: Cubes,
    is_hard: np.ndarray,
    num_plain: int,
    kinds: np.ndarray,
    max_memory: int,
) -> CountTables:
    """Build the network over counts of some cubes, bool[num_cubes] hard or soft.

    `kinds`, int64[num_kinds, width], are tuples of count variables, −1 beyond their end. The states
    of one plain variable for each entry are events too, the last variable varying fastest. Raise
    TooLarge if the tables exceed `MAX_STATES`, or the matrix `max_memory` bytes.
    """
    from scipy.sparse import csr_array

    shared = np.append(classes.is_shared[classes.of_variable[cubes.variable]], False)
    touched = np.logical_or.reduceat(shared, cubes.start[:-1]) if len(is_hard) else shared[:0]
    plain = np.flatnonzero(~touched)
    patterns, group = find_patterns(classes, cubes, num_plain, np.flatnonzero(touched))
    cube_event = np.empty(len(is_hard), np.int64)
    cube_event[plain] = np.arange(len(plain))
    cube_event[touched] = len(plain) + group
    num_clause_events = len(plain) + len(patterns)
    states = [state_patterns(classes, row[row >= 0].tolist()) for row in kinds]
    scope_event = num_clause_events + row_starts([len(kind) for kind in states])[:-1]
    events = [*patterns, *(pattern for kind in states for pattern in kind)]

    single = [int(c) for c in np.flatnonzero(classes.is_shared)]
    if sum(event.num_states for event in events) > min(MAX_STATES, max_memory / BYTES_A_CHANCE):
        raise TooLarge("count tables exceed the memory limit", code="too-many-counts")
    entries = list_event_states(classes, events, single)
    first = len(plain) + row_starts([len(own) for own in entries.values()])
    begin = dict(zip(entries, first.tolist(), strict=False))
    rows, columns, chances = [np.arange(len(plain))], [np.arange(len(plain))], [np.ones(len(plain))]
    for number, event in enumerate(events):
        place, chance = event.states(classes)
        rows.append(begin[event.scope] + np.searchsorted(entries[event.scope], place))
        columns.append(np.full(len(place), len(plain) + number))
        chances.append(chance)
    shape = (int(first[-1]), len(plain) + len(events))
    places = np.concatenate(rows), np.concatenate(columns)
    matrix = csr_array((np.concatenate(chances), places), shape)
    joined = join_cubes(keep_cubes(cubes, classes, plain), entries)
    base = np.zeros(len(joined.clause))
    for c in single:
        base[begin[c,] : begin[c,] + classes.size[c]] += log_choices(int(classes.num_atoms[c]))
    forbidden = np.zeros(matrix.shape[1])
    forbidden[cube_event[is_hard]] = 1.0
    base[matrix @ forbidden > 0.0] = -np.inf
    return CountTables(classes, joined, base, matrix, cube_event, scope_event)


def state_patterns(classes: Classes, members: Sequence[int]) -> list[Pattern]:
    """Return all states of distinct variables that these count variables count.

    Plain variables are false or true; the last one varies fastest.
    """
    scope = tuple(sorted(set(members)))
    sizes = [2 if classes.num_atoms[c] else int(classes.size[c]) for c in members]
    patterns = []
    for states in product(*map(range, sizes)):
        truths = []
        for c in scope:
            own = [s for m, s in zip(members, states, strict=True) if m == c]
            if classes.num_atoms[c]:
                true = sum(own)
                truths.append(pattern_chance(int(classes.num_atoms[c]), len(own) - true, true))
            else:
                truths.append((np.arange(classes.size[c]) == own[0]).astype(float))
        patterns.append(Pattern(scope, tuple(truths)))
    return patterns


def find_patterns(
    classes: Classes, cubes: Cubes, num_plain: int, rows: np.ndarray
) -> tuple[list[Pattern], np.ndarray]:
    """Return the distinct requirements of cubes on counts, and each cube's, int64[num_rows]."""
    member = cube_members(cubes, num_plain)
    start, place = row_places(cubes.start, rows)
    required, variable = member[place], cubes.variable[place]
    plain = variable < num_plain
    own = classes.of_variable[variable].astype(np.int64)
    word = np.where(plain, 2 * own + (required > 0), 2 * len(classes.size) + np.abs(required))
    mixed = mix_array(mix_array(word.view(np.uint64) + np.uint64(1)))
    total = np.concatenate((np.zeros(1, np.uint64), np.cumsum(mixed)))
    digest = total[start[1:]] - total[start[:-1]]
    _, example, group = np.unique(digest, return_index=True, return_inverse=True)
    if len(example) > MAX_PATTERNS:
        raise TooLarge("the network has too many kinds of clauses", code="too-many-counts")
    patterns = []
    for row in example.tolist():
        numbers: dict[int, list[int]] = {}
        truths: dict[int, np.ndarray] = {}
        for at in range(int(start[row]), int(start[row + 1])):
            c = int(own[at])
            if plain[at]:
                numbers.setdefault(c, [0, 0])[int(required[at] > 0)] += 1
            else:
                first, last = cubes.state_start[place[at] : place[at] + 2]
                inside = cubes.state[first:last]
                truths[c] = np.isin(np.arange(classes.size[c]), inside).astype(float)
        for c, (false, true) in numbers.items():
            truths[c] = pattern_chance(int(classes.num_atoms[c]), false, true)
        scope = tuple(sorted(truths))
        patterns.append(Pattern(scope, tuple(truths[c] for c in scope)))
    return patterns, group


def pattern_chance(num_atoms: int, false: int, true: int) -> np.ndarray:
    """Return P(these atoms false, those true | k of num_atoms are true), float64[num_atoms + 1].

    >>> pattern_chance(2, 1, 1).tolist()
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
    """Return log C(num_atoms, k), float64[num_atoms + 1]."""
    from scipy.special import gammaln

    log_factorial = gammaln(np.arange(num_atoms + 1) + 1.0)
    return log_factorial[-1] - log_factorial - log_factorial[::-1]


def keep_cubes(cubes: Cubes, classes: Classes, rows: np.ndarray) -> Cubes:
    """Return cubes over variables in classes of their own, over count variables."""
    start, place = row_places(cubes.start, rows)
    state_start, state = take_rows(cubes.state_start, cubes.state, place)
    of = classes.of_variable[cubes.variable[place]]
    return Cubes(classes.size, start, of, state_start, state, rows.astype(np.int32))


def list_event_states(
    classes: Classes, events: Sequence[Pattern], single: Sequence[int]
) -> dict[Scope, np.ndarray]:
    """Return the states of each scope with an event, int64[...] ascending.

    Of a class, all states.
    """
    places: dict[Scope, list[np.ndarray]] = {(c,): [np.arange(classes.size[c])] for c in single}
    for event in events:
        places.setdefault(event.scope, []).append(event.states(classes)[0])
    return {scope: np.unique(np.concatenate(places[scope])) for scope in sorted(places)}


def join_cubes(plain: Cubes, tables: Mapping[Scope, np.ndarray]) -> Cubes:
    """Return plain cubes, and one cube for each of these states of a scope."""
    length, variable, state = [np.diff(plain.start)], [plain.variable], [plain.state]
    for scope, entries in tables.items():
        shape = tuple(int(plain.size[c]) for c in scope)
        length.append(np.full(len(entries), len(scope)))
        variable.append(np.tile(np.array(scope, np.int32), len(entries)))
        state.append(np.transpose(np.unravel_index(entries, shape)).ravel().astype(np.int32))
    lengths, states = np.concatenate(length), np.concatenate(state)
    each = np.ones(len(states) - len(plain.state), np.int64)
    return Cubes(
        plain.size,
        row_starts(lengths),
        np.concatenate(variable),
        row_starts(np.concatenate((np.diff(plain.state_start), each))),
        states,
        np.concatenate((plain.clause, np.full(len(lengths) - len(plain.clause), -1, np.int32))),
    )

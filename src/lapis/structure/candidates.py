"""Candidate clauses in canonical form: connected atoms over numbered variables, with signs.

A path is a set of connected atoms in which constants have become variables; a candidate is a path
with a sign for each atom. The canonical form is the least among all orders of the atoms, with
variables numbered as they occur. So clauses that are equal up to renaming and order are scored
once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, groupby, permutations, product
from typing import NamedTuple

from lapis.language.model import Predicate
from lapis.runtime.progress import check_time


class PathAtom(NamedTuple):
    """A predicate applied to numbered variables."""

    predicate: str
    variables: tuple[int, ...]


Path = tuple[PathAtom, ...]


class Candidate(NamedTuple):
    """A clause: literal i is positive where bit i of `positive` is set."""

    path: Path
    positive: int

    def __len__(self) -> int:
        return len(self.path)

    @property
    def literals(self) -> Iterator[tuple[PathAtom, bool]]:
        return ((atom, bool(self.positive >> bit & 1)) for bit, atom in enumerate(self.path))


@cache
def canonicalize_clause(path: Path, positive: int = 0) -> Candidate:
    """Return the clause in canonical form.

    >>> canonicalize_clause((PathAtom("R", (5, 3)), PathAtom("Q", (3,))), 1)
    Candidate(path=(PathAtom(predicate='Q', variables=(0,)), \
PathAtom(predicate='R', variables=(1, 0))), positive=2)
    """
    return order_literals(path, positive)[0]


def canonicalize_path(path: Path) -> tuple[Path, tuple[int, ...]]:
    """Return the canonical path, and the old variables in the order of its variables.

    >>> canonicalize_path((PathAtom("R", (5, 3)), PathAtom("Q", (3,))))[1]
    (3, 5)
    """
    found, variables = order_literals(path, 0)
    return found.path, variables


def order_literals(path: Path, positive: int) -> tuple[Candidate, tuple[int, ...]]:
    """Return the canonical clause, and the old variables in the order of the new ones."""
    literals = sorted(
        [(atom.predicate, positive >> bit & 1, atom.variables) for bit, atom in enumerate(path)]
    )
    groups = [list(members) for _, members in groupby(literals, key=lambda part: part[:2])]
    best: tuple[tuple[tuple[int, ...], ...], tuple[int, ...]] | None = None
    for order in product(*map(permutations, groups)):
        numbers: dict[int, int] = {}
        found = tuple(
            tuple(numbers.setdefault(name, len(numbers)) for name in variables)
            for group in order
            for _, _, variables in group
        )
        if best is None or found < best[0]:
            best = found, tuple(numbers)
    assert best is not None
    atoms = tuple(
        PathAtom(literal[0], names) for literal, names in zip(literals, best[0], strict=True)
    )
    signs = sum(literal[1] << bit for bit, literal in enumerate(literals))
    return Candidate(atoms, signs), best[1]


def sign_patterns(path: Path, flips: int | None = None) -> dict[Candidate, int]:
    """Return the clauses of a path up to symmetry, with their signs in the path's order.

    At most `flips` literals are positive; None means no limit.
    """
    found: dict[Candidate, int] = {}
    for positive in range(1 << len(path)):
        check_time("scoring clauses")
        if flips is None or positive.bit_count() <= flips:
            found.setdefault(canonicalize_clause(path, positive), positive)
    return found


def sub_clauses(candidate: Candidate) -> list[Candidate]:
    """Return the connected sub-clauses of at least two literals."""
    found: dict[Candidate, None] = {}
    for size in range(2, len(candidate)):
        for chosen in combinations(range(len(candidate)), size):
            path = tuple(candidate.path[bit] for bit in chosen)
            if is_connected(path):
                signs = sum(
                    (candidate.positive >> bit & 1) << new for new, bit in enumerate(chosen)
                )
                found[canonicalize_clause(path, signs)] = None
    return list(found)


def is_connected(path: Path) -> bool:
    """Return whether all atoms are linked by shared variables.

    Atoms without variables count as linked to all others.
    """
    first, *rest = [atom for atom in path if atom.variables] or [path[0]]
    reached = set(first.variables)
    while rest:
        near = [atom for atom in rest if reached.intersection(atom.variables)]
        if not near:
            return False
        reached.update(name for atom in near for name in atom.variables)
        rest = [atom for atom in rest if atom not in near]
    return True


def has_dangling(path: Path) -> bool:
    """Return whether a variable occurs only once."""
    return 1 in Counter(name for atom in path for name in atom.variables).values()


@cache
def is_condensed(candidate: Candidate) -> bool:
    """Return whether no shorter clause is equivalent (a reduced clause, Plotkin 1970).

    A clause is not reduced if a substitution of variables for variables maps its literals to a
    proper subset. r(a, b) ^ r(a, c) => t(a) is equivalent to r(a, b) => t(a).

    >>> pair = (PathAtom("r", (0, 1)), PathAtom("r", (0, 2)), PathAtom("t", (0,)))
    >>> is_condensed(Candidate(pair, 0b100)), is_condensed(Candidate(pair, 0b110))
    (False, True)
    """
    literals = list(candidate.literals)
    return not any(
        _maps_into(literals, literals[:bit] + literals[bit + 1 :], {})
        for bit in range(len(literals))
    )


def is_range_restricted(candidate: Candidate, targets: Collection[str]) -> bool:
    """Return whether the differences of target atoms do not grow with the domains.

    That is so if each variable is linked to the variables of the target's atom by atoms that are
    negated in the clause. If variable b is only in a positive literal r(a, b), the difference is
    N − k, for k true atoms among N constants; the clause with the sign of r(a, b) changed has k. If
    q(b) is linked only by a positive literal, as in r(a, b) v !q(b), N is the number of true q in
    the world. A target without variables counts over the whole world.

    >>> pair = (PathAtom("r", (0, 1)), PathAtom("t", (0,)))
    >>> rule, back = Candidate(pair, 0b10), Candidate(pair, 0b01)  # r(a, b) => t(a), and t => r
    >>> [is_range_restricted(clause, ["r", "t"]) for clause in (rule, back)]
    [True, False]
    >>> is_range_restricted(back, ["r"])
    True
    """
    every = {name for atom in candidate.path for name in atom.variables}
    for own, target in enumerate(candidate.path):
        if target.predicate in targets:
            reached = set(target.variables)
            true_atoms = [
                set(atom.variables)
                for bit, (atom, is_positive) in enumerate(candidate.literals)
                if bit != own and not is_positive
            ]
            for _ in true_atoms:
                near = [names for names in true_atoms if names & reached or not target.variables]
                reached.update(*near)
            if reached != every:
                return False
    return True


def _maps_into(
    literals: Sequence[tuple[PathAtom, bool]],
    images: Sequence[tuple[PathAtom, bool]],
    image: Mapping[int, int],
) -> bool:
    """Return whether a substitution that extends `image` maps all literals into `images`."""
    if not literals:
        return True
    (atom, is_positive), *rest = literals
    for other, sign in images:
        if sign != is_positive or other.predicate != atom.predicate:
            continue
        pairs = list(zip(atom.variables, other.variables, strict=True))
        extended = {**dict(pairs), **image}
        if all(extended[name] == to for name, to in pairs) and _maps_into(rest, images, extended):
            return True
    return False


def variable_types(path: Path, predicates: Mapping[str, Predicate]) -> dict[int, str]:
    """Return the type of each variable."""
    return {
        name: type_name
        for atom in path
        for name, type_name in zip(atom.variables, predicates[atom.predicate].types, strict=True)
    }


def variable_names(path: Path, predicates: Mapping[str, Predicate]) -> dict[int, str]:
    """Name each variable by the first letter of its type, numbered if several share it.

    `v` is always numbered, because a single v means "or".

    >>> held = {"Venue": Predicate("Venue", ("paper", "venue"))}
    >>> variable_names((PathAtom("Venue", (0, 1)),), held)
    {0: 'p', 1: 'v1'}
    """
    types = variable_types(path, predicates)
    letters = {number: type_name[0].lower() for number, type_name in types.items()}
    shared = Counter(letters.values())
    seen: Counter[str] = Counter()
    names: dict[int, str] = {}
    for number in sorted(types):
        letter = letters[number] if letters[number].isalpha() else "x"
        seen[letter] += 1
        is_alone = shared[letter] == 1 and letter != "v"
        names[number] = letter if is_alone else f"{letter}{seen[letter]}"
    return names


def write_atom(predicate: str, arguments: Sequence[str]) -> str:
    return f"{predicate}({', '.join(arguments)})" if arguments else predicate


def write_unit(predicate: Predicate) -> str:
    """Return the unit clause of a predicate."""
    return write_atom(predicate.name, [f"x{number}" for number in range(predicate.arity)])


def write_literals(
    candidate: Candidate, predicates: Mapping[str, Predicate]
) -> tuple[list[str], list[str]]:
    """Return the atoms of the negated literals, and of the positive ones."""
    names = variable_names(candidate.path, predicates)
    body: list[str] = []
    head: list[str] = []
    for atom, is_positive in candidate.literals:
        spelled = write_atom(atom.predicate, [names[number] for number in atom.variables])
        (head if is_positive else body).append(spelled)
    return body, head


def write_clause(candidate: Candidate, predicates: Mapping[str, Predicate]) -> str:
    """Return the clause as text, as an implication if literals of both signs occur.

    >>> people = {"Smokes": Predicate("Smokes", ("person",)), "Ill": Predicate("Ill", ("person",))}
    >>> clause = canonicalize_clause((PathAtom("Smokes", (0,)), PathAtom("Ill", (0,))), 2)
    >>> write_clause(clause, people)
    'Smokes(p) => Ill(p)'
    """
    body, head = write_literals(candidate, predicates)
    if body and head:
        return f"{' ^ '.join(body)} => {' v '.join(head)}"
    return " v ".join([*(f"!{text}" for text in body), *head])


def write_failure(candidate: Candidate, predicates: Mapping[str, Predicate]) -> str:
    """Return the negation of the clause; with weight w it equals the clause with weight −w.

    >>> people = {"Smokes": Predicate("Smokes", ("person",)), "Ill": Predicate("Ill", ("person",))}
    >>> clause = canonicalize_clause((PathAtom("Smokes", (0,)), PathAtom("Ill", (0,))), 2)
    >>> write_failure(clause, people)
    'Smokes(p) ^ !Ill(p)'
    """
    body, head = write_literals(candidate, predicates)
    return " ^ ".join([*body, *(f"!{text}" for text in head)])

"""What is known of elements, and which of them nothing known tells apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from lapis.lifted.cells.sentence import Group
from lapis.lifted.kinds import extra_constants
from lapis.problem.problem import Problem


@dataclass
class Facts:
    """Known atoms, as (predicate, *constants)."""

    known: dict[tuple[str, ...], bool] = field(default_factory=dict)
    unknown: set[tuple[str, ...]] = field(default_factory=set)  # exceptions of closed predicates
    closed: set[str] = field(default_factory=set)  # predicates of pairs, false where data is silent
    contradictory: bool = False

    def know(self, predicate: str, constants: list[str], value: bool) -> None:
        """What a formula says, after the data."""
        atom = predicate, *constants
        before = self.known.get(atom)
        if before is None and predicate in self.closed and atom not in self.unknown:
            before = False
        self.contradictory |= before is not None and before != value
        self.known.setdefault(atom, value)

    def read_evidence(self, problem: Problem) -> None:
        """What the data says; of closed predicates of one element, all else is false."""
        for name, evidence in problem.evidence.items():
            domains = [problem.domains[t].constants for t in evidence.predicate.types]

            def spelled(row: list[int], domains: list[tuple[str, ...]] = domains) -> list[str]:
                return [domain[code] for domain, code in zip(domains, row, strict=True)]

            for rows, value in ((evidence.true, True), (evidence.false, False)):
                self.known |= {(name, *spelled(row)): value for row in rows.tolist()}
            self.unknown |= {(name, *spelled(row)) for row in evidence.unknown.tolist()}
            if not evidence.open and evidence.predicate.arity == 2:
                self.closed.add(name)
            elif not evidence.open:
                for names in product(*domains):
                    if (name, *names) not in self.unknown:
                        self.known.setdefault((name, *names), False)


class Groups(NamedTuple):
    members: list[Group]
    of_type: dict[str, frozenset[int]]
    of_constant: dict[tuple[str, str], int]  # of constants that are told apart: (type, constant)
    of_constants: dict[str, list[int]]  # the group of each constant of a type


def tell_apart(
    problem: Problem, sizes: Mapping[str, int], facts: Facts, named: set[tuple[str, str]]
) -> Groups:
    """Groups of each type: constants named by formulas or known pairs, the others by facts."""
    predicates = problem.model.predicates
    alone: dict[tuple[str, str], dict[str, bool]] = {}
    for (name, *constants), value in facts.known.items():
        if len(constants) == 2:
            named.update(zip(predicates[name].types, constants, strict=True))
        elif constants:
            alone.setdefault((predicates[name].types[0], constants[0]), {})[name] = value
    for name, *constants in facts.unknown:
        if len(constants) == 2:
            named.update(zip(predicates[name].types, constants, strict=True))
    found = Groups([], {}, {}, {})
    members = found.members
    extra = extra_constants(problem, sizes)
    for type_name, domain in problem.domains.items():
        first = len(members)
        alike: dict[frozenset[tuple[str, bool]], int] = {}
        numbers = found.of_constants[type_name] = []
        for constant in domain.constants:
            known = alone.get((type_name, constant), {})
            if (type_name, constant) in named:
                found.of_constant[type_name, constant] = len(members)
                numbers.append(len(members))
                members.append(Group(type_name, 1, known, constant))
                continue
            numbers.append(join_alike(members, alike, Group(type_name, 1, known)))
        if extra.get(type_name):
            known = closed_facts(problem, type_name)
            join_alike(members, alike, Group(type_name, extra[type_name], known))
        found.of_type[type_name] = frozenset(range(first, len(members)))
    return found


def join_alike(
    members: list[Group], alike: dict[frozenset[tuple[str, bool]], int], new: Group
) -> int:
    """Add elements to the group of which the same is known; its number."""
    group = alike.setdefault(frozenset(new.known.items()), len(members))
    if group == len(members):
        members.append(new)
    else:
        members[group] = members[group]._replace(size=members[group].size + new.size)
    return group


def closed_facts(problem: Problem, type_name: str) -> dict[str, bool]:
    """What is known of an element without a name."""
    return {
        name: False
        for name, evidence in problem.evidence.items()
        if not evidence.open and evidence.predicate.types == (type_name,)
    }

"""Learned rules in words, with groundings of the data that keep and that break them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from lapis.data.keys import contains
from lapis.language.model import Predicate
from lapis.structure.clauses import Candidate, PathAtom, spell_literals, variable_types
from lapis.structure.path_differences import PartSums
from lapis.structure.training_data import TrainingData

MAX_ROWS = 100_000  # groundings of a rule's body looked through


def say_clause(
    candidate: Candidate, predicates: Mapping[str, Predicate], *, fails: bool = False
) -> str:
    """The clause as a sentence; or, where it `fails`, what then is the case.

    >>> both = {"Smokes": Predicate("Smokes", ("person",)), "Ill": Predicate("Ill", ("person",))}
    >>> clause = Candidate((PathAtom("Ill", (0,)), PathAtom("Smokes", (0,))), 1)
    >>> say_clause(clause, both), say_clause(clause, both, fails=True)
    ('if Smokes(p), then Ill(p)', 'Smokes(p) without Ill(p)')
    """
    body, head = spell_literals(candidate, predicates)
    if fails:
        parts = [" and ".join(body)] if body else []
        return " ".join([*parts, *([f"without {' or '.join(head)}"] if head else [])])
    if not head:
        return f"not all of {', '.join(body)} at once"
    if not body:
        return f"at least one of {', '.join(head)}"
    return f"if {' and '.join(body)}, then {' or '.join(head)}"


def examples(
    data: TrainingData, sums: PartSums, candidate: Candidate, number: int = 2
) -> tuple[list[str], list[str]]:
    """Groundings whose body holds: some that keep the clause, some that break it.

    None of clauses with predicates without arguments, which are about whole worlds.
    """
    body = [atom for atom, is_positive in candidate.literals if not is_positive]
    if not body or not all(atom.variables for atom in candidate.path):
        return [], []
    bound = list(dict.fromkeys(v for atom in body for v in atom.variables))
    head = [
        atom
        for atom, is_positive in candidate.literals
        if is_positive and set(atom.variables) <= set(bound)
    ]
    rows = sums.column(body, bound).rows[:MAX_ROWS]
    holds = np.zeros(len(rows), bool)
    for atom in head:
        at = rows[:, [bound.index(v) for v in atom.variables]]
        holds |= contains(data.tuples[atom.predicate], np.ascontiguousarray(at))
    types = variable_types(candidate.path, data.predicates)
    kinds = [types[v] for v in bound]

    def spell(chosen: np.ndarray, atoms: list[PathAtom]) -> Iterator[str]:
        for row in chosen:
            names = dict(zip(bound, constant_names(data, kinds, row), strict=True))
            yield ", ".join(
                f"{a.predicate}({', '.join(names[v] for v in a.variables)})" for a in atoms
            )

    is_open = len(head) < candidate.positive.bit_count()  # a head that may hold of others
    against = [] if is_open else list(islice(spell(rows[~holds], body), number))
    return list(islice(spell(rows[holds], [*body, *head]), number)), against


def constant_names(data: TrainingData, types: list[str], row: np.ndarray) -> list[str]:
    """The constants behind the numbers of the joined worlds."""
    found = []
    for type_name, number in zip(types, row.tolist(), strict=True):
        world = int(np.searchsorted(data.offset[type_name], number, side="right")) - 1
        domain = data.worlds[world].domains[type_name]
        found.append(domain.constants[number - int(data.offset[type_name][world])])
    return found

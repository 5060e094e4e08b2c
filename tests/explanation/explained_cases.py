"""Explanations of random models, and what the oracle says about the same worlds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

import lapis
import oracle
from lapis.results.explanation import Explanation
from oracle import Facts, GroundAtom, Worlds
from strategies import Case


def close(value: object) -> object:
    return pytest.approx(value, abs=1e-8, rel=1e-8)


def plain(rule: str) -> str:
    """The text of a rule; soft evidence is named as facts are, without spaces."""
    return rule.replace(", ", ",")


@dataclass
class OracleCase:
    """A random model with its worlds, enumerated."""

    case: Case
    soft: dict[str, float]

    def __post_init__(self) -> None:
        units = "".join(
            f"{'' if p in (0.0, 1.0) else f'{math.log(p) - math.log1p(-p)!r} '}"
            f"{'!' if p == 0.0 else ''}{atom}{'.' if p in (0.0, 1.0) else ''}\n"
            for atom, p in self.soft.items()
        )
        self.model = lapis.parse(self.case.model)
        self.with_soft = lapis.parse(self.case.model + units)
        self.facts = self.case.facts
        self.data = lapis.Database.parse(self.case.data)
        self.domains = oracle.constants_of(self.model, self.facts)
        self.known = oracle.known_atoms(self.model, self.facts, self.domains, set(self.case.query))
        self.names = {
            oracle.atom_text(self.model.predicates[atom[0]], atom[1]): atom for atom in self.known
        }

    def answer(self) -> oracle.OracleAnswer:
        return oracle.infer(self.with_soft, self.facts, self.case.query)

    def infer(self) -> lapis.Answer:
        return lapis.infer(
            self.model, self.data, query=self.case.query, soft_evidence=self.soft, method="exact"
        )

    def two_worlds(self, found: Explanation) -> tuple[np.ndarray, np.ndarray]:
        """Score and possibility of the world with the atom and of the one without it."""
        given = found.world
        assert given is not None
        base = {atom: value is True for atom, value in self.known.items()}
        base |= {self.names[name]: True for name in given.true_atoms}
        base |= {self.names[name]: False for name in given.false_atoms}
        asked = self.names[found.atom]
        with_atom, without = {**base, asked: True}, {**base, asked: False}
        mates = self.mates(asked)
        with_atom |= dict.fromkeys(mates, False)
        if mates:
            without |= dict.fromkeys(mates, False)
            if given.alternative is not None:
                without[self.names[given.alternative]] = True
        column = {atom: place for place, atom in enumerate(self.known)}
        truth = np.array([[world[atom] for atom in column] for world in (with_atom, without)])
        weighed = oracle.weigh(self.with_soft, self.domains, Worlds(column, truth))
        return weighed.score, weighed.possible

    def mates(self, asked: GroundAtom) -> list[GroundAtom]:
        """The other atoms of an atom's block."""
        predicate = self.model.predicates[asked[0]]
        if not predicate.block:
            return []
        return [
            atom
            for atom in self.known
            if atom != asked
            and atom[0] == asked[0]
            and all(
                atom[1][place] == asked[1][place]
                for place in range(predicate.arity)
                if place not in predicate.block
            )
        ]

    def with_facts(self, facts: Facts) -> oracle.OracleAnswer:
        """The answer with other facts; constants that only facts name stay."""
        model = replace(self.with_soft, types=dict(self.domains))
        return oracle.infer(model, facts, self.case.query)

"""Counts and feasibility of a world by enumeration of groundings."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lapis.language.syntax import Variable
from lapis.logic.clauses import Clause, Condition, Cube, Literal, SimpleTerm, TypedVariable
from lapis.network import Network
from lapis.problem.problem import Evidence, Problem

COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}

Binding = Mapping[str, str]


def number(constant: str) -> float:
    try:
        return float(constant)
    except ValueError:
        return float("nan")


@dataclass
class World:
    problem: Problem
    true: set[tuple[str, tuple[str, ...]]]
    derived: dict[tuple[str, tuple[str, ...]], bool] = field(default_factory=dict)

    def bindings(self, variables: tuple[TypedVariable, ...]):
        names = [name for name, _ in variables]
        domains = [self.problem.domains[t].constants for _, t in variables]
        for constants in itertools.product(*domains):
            yield dict(zip(names, constants, strict=True))

    def literal(self, literal: Literal, binding: Binding) -> bool:
        atom = (literal.predicate, tuple(value(term, binding) for term in literal.terms))
        return self.atom(atom) == literal.positive

    def atom(self, atom: tuple[str, tuple[str, ...]]) -> bool:
        definition = self.problem.normal_form.derived.get(atom[0])
        if definition is None:
            return atom in self.true
        if atom not in self.derived:
            names = [name for name, _ in definition.variables]
            outer = dict(zip(names, atom[1], strict=True))
            self.derived[atom] = any(
                self.cube(cube, outer | inner)
                for inner in self.bindings(definition.bound)
                for cube in definition.cubes
            )
        return self.derived[atom]

    def cube(self, cube: Cube, binding: Binding) -> bool:
        return all(self.literal(part, binding) for part in cube.literals) and all(
            condition_holds(part, binding) for part in cube.conditions
        )

    def clause(self, clause: Clause, binding: Binding) -> bool:
        return any(self.literal(part, binding) for part in clause.literals) or any(
            condition_holds(part, binding) for part in clause.conditions
        )

    def counts(self) -> np.ndarray:
        """n_w for each weight, as the docstring of `Feature` defines it."""
        problem = self.problem
        table = problem.weight_table
        counts = np.zeros(len(table.value))
        for feature in problem.normal_form.features:
            if feature.hard:
                continue
            types = dict(feature.variables)
            for binding in self.bindings(feature.variables):
                weight_id = 0
                for name in feature.plus:
                    domain = problem.domains[types[name]]
                    weight_id = weight_id * len(domain) + domain.index[binding[name]]
                weight_id += int(table.offset[feature.rule])
                counts[weight_id] += feature.constant + sum(
                    self.clause(clause, binding) for clause in feature.clauses
                )
        return counts

    def is_feasible(self) -> bool:
        return self.hard_rules_hold() and self.blocks_hold()

    def hard_rules_hold(self) -> bool:
        return all(
            self.clause(clause, binding)
            for feature in self.problem.normal_form.features
            if feature.hard
            for binding in self.bindings(feature.variables)
            for clause in feature.clauses
        )

    def blocks_hold(self) -> bool:
        for predicate in self.problem.model.predicates.values():
            if not predicate.block:
                continue
            types = tuple((str(i), t) for i, t in enumerate(predicate.types))
            totals: dict[tuple[str, ...], int] = {}
            keys = [str(i) for i in range(predicate.arity) if i not in predicate.block]
            for binding in self.bindings(tuple(v for v in types if v[0] in keys)):
                totals[tuple(binding.values())] = 0
            for binding in self.bindings(types):
                key = tuple(binding[name] for name in keys)
                totals[key] += (predicate.name, tuple(binding.values())) in self.true
            for total in totals.values():
                if total > 1 or (predicate.exactly_one and total == 0):
                    return False
        return True


def value(term: SimpleTerm, binding: Binding) -> str:
    return binding[term.name] if isinstance(term, Variable) else term.name


def condition_holds(condition: Condition, binding: Binding) -> bool:
    left, right = value(condition.left, binding), value(condition.right, binding)
    if condition.operator in ("=", "!=") and condition.offset == 0:
        return COMPARE[condition.operator](left, right)
    a, b = number(left), number(right) + condition.offset
    return a == a and b == b and COMPARE[condition.operator](a, b)


def known_true(
    problem: Problem, evidence: Mapping[str, Evidence]
) -> set[tuple[str, tuple[str, ...]]]:
    return {
        (name, named(problem, name, row)) for name, known in evidence.items() for row in known.true
    }


def named(problem: Problem, predicate: str, row: np.ndarray) -> tuple[str, ...]:
    types = problem.model.predicates[predicate].types
    return tuple(
        problem.domains[t].constants[int(code)] for t, code in zip(types, row, strict=True)
    )


def network_world(
    problem: Problem, evidence: Mapping[str, Evidence], network: Network, base: np.ndarray
) -> World:
    """The world of the evidence in which the network's unknown atoms are as given."""
    true = known_true(problem, evidence)
    for atom in np.flatnonzero(base):
        group = int(network.atoms.predicate_of(np.array([atom]))[0])
        name = network.atoms.predicates[group]
        row = network.atoms.tuples[group][atom - network.atoms.offset[group]]
        true.add((name, named(problem, name, row)))
    return World(problem, true)

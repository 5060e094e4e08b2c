"""Encode a clause and a world as a constraint network over the clause's logical variables.

The groundings in which a clause is false are those in which the cube of its negated parts is true:

    #true groundings = N − #solutions of the cube's network

(Venugopal, Sarkhel and Gogate 2015, "Just Count the Satisfied Groundings: Scalable Local-Search and
Sampling Based Inference in MLNs"). The network has a variable for each logical variable of the
clause and one 0/1 table for each literal and condition:

    clause literal ¬R(x̄)   cube literal  R(x̄)   table R       default 0, true tuples 1
    clause literal  R(x̄)   cube literal ¬R(x̄)   table 1 − R   default 1, true tuples 0

Constants and repeated variables select tuples; a condition of the clause must be false. Variables
that the clause does not mention only multiply the number of solutions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lapis.counting.ijgp.message_table import (
    MessageTable,
    Scope,
    check_codes,
    check_rows,
    full_table,
    pack_assignments,
    sort_distinct,
)
from lapis.data.database import Domain
from lapis.data.keys import unpack
from lapis.errors import LapisError, did_you_mean
from lapis.language.syntax import Constant, Variable
from lapis.logic.clauses import Clause, Condition, Cube, Literal, TypedVariable
from lapis.relational.algebra import Matches, Test
from lapis.relational.comparison import compare_constants, list_matches, test_rows
from lapis.relational.factor import indicator_factor, select_tuples
from lapis.relational.interpretation import Extension, Interpretation


@dataclass(frozen=True)
class LiteralPattern:
    """The mapping from tuples of the predicate to assignments of the literal's variables."""

    predicate: str
    positive: bool  # in the cube
    scope: Scope
    shape: tuple[int, ...]
    terms: tuple[str | int, ...]  # variables, or the codes that a tuple must have
    names: tuple[str, ...]  # the variables, in the order of the scope

    def codes(self, rows: np.ndarray) -> np.ndarray:
        """Return int64[≤ num_rows], increasing: the assignments whose atom is one of the rows."""
        chosen = select_tuples(self.terms, rows)
        columns = [chosen.column(name) for name in self.names]
        return sort_distinct(pack_assignments(columns, self.shape, len(chosen)))

    def table(self, extension: Extension) -> MessageTable:
        """Return the table R or 1 − R of the predicate's extension."""
        codes = self.codes(extension.tuples)
        inside = 1.0 if self.positive != extension.complemented else 0.0
        outside = 1.0 - inside
        if len(self.scope) <= 1:
            values = np.full(math.prod(self.shape), outside)
            values[codes] = inside
            return full_table(self.scope, self.shape, values)
        return MessageTable(self.scope, self.shape, outside, codes, np.full(len(codes), inside))


@dataclass(frozen=True)
class ConstraintNetwork:
    """The cube's literals and conditions over its variables, before a world is given."""

    names: tuple[str, ...]  # logical variables that the cube mentions
    sizes: tuple[int, ...]
    literals: tuple[LiteralPattern, ...]
    conditions: tuple[MessageTable, ...]
    multiplicity: int  # Π of the domain sizes of the variables that the cube does not mention

    def scopes(self) -> list[Scope]:
        """Return the scopes of the literals, then of the conditions."""
        return [each.scope for each in self.literals] + [each.scope for each in self.conditions]

    def tables(self, world: Interpretation) -> list[MessageTable]:
        """Return the literals' tables in a world, then the conditions' tables."""
        known = world.relations
        return [*(each.table(known[each.predicate]) for each in self.literals), *self.conditions]


def negate_clause(clause: Clause) -> Cube:
    """Negate the literals of a clause; its conditions are unchanged and must be *false*."""
    return Cube(tuple(literal.negate() for literal in clause.literals), clause.conditions)


def encode_cube(
    cube: Cube, variables: tuple[TypedVariable, ...], world: Interpretation
) -> ConstraintNetwork:
    """Encode a cube from `negate_clause`; `variables` are all variables of the rule."""
    domains = world.domains
    used = {
        term.name
        for terms in (
            *(literal.terms for literal in cube.literals),
            *((condition.left, condition.right) for condition in cube.conditions),
        )
        for term in terms
        if isinstance(term, Variable)
    }
    typed = [(name, type_name) for name, type_name in variables if name in used]
    index = {name: position for position, (name, _) in enumerate(typed)}
    sizes = tuple(len(domains[type_name]) for _, type_name in typed)
    return ConstraintNetwork(
        names=tuple(name for name, _ in typed),
        sizes=sizes,
        literals=tuple(_encode_literal(literal, world, index, sizes) for literal in cube.literals),
        conditions=tuple(
            _encode_condition(condition, index, {name: domains[kind] for name, kind in typed})
            for condition in cube.conditions
        ),
        multiplicity=math.prod(
            len(domains[type_name]) for name, type_name in variables if name not in used
        ),
    )


def _encode_literal(
    literal: Literal, world: Interpretation, index: Mapping[str, int], sizes: tuple[int, ...]
) -> LiteralPattern:
    types = world.relations[literal.predicate].types
    terms = tuple(
        term.name if isinstance(term, Variable) else constant_code(term, world.domains[kind])
        for term, kind in zip(literal.terms, types, strict=True)
    )
    names = sorted({term for term in terms if isinstance(term, str)}, key=index.__getitem__)
    scope = tuple(index[name] for name in names)
    shape = tuple(sizes[each] for each in scope)
    check_codes(shape)
    return LiteralPattern(literal.predicate, literal.positive, scope, shape, terms, tuple(names))


def constant_code(constant: Constant, domain: Domain) -> int:
    code = domain.index.get(constant.name)
    if code is None:
        near = did_you_mean(constant.name, domain.constants)
        raise LapisError(
            f"'{constant.name}' is not a constant of type '{domain.name}'",
            code="unknown-constant",
            span=constant.span,
            hint=f"did you mean '{near}'?" if near else None,
        )
    return code


def _encode_condition(
    condition: Condition, index: Mapping[str, int], domains: Mapping[str, Domain]
) -> MessageTable:
    """Return the table that is 1 if the condition is false, given the domains of variables."""
    test = Test(condition, expected=False)
    names = tuple(sorted(test.variables, key=index.__getitem__))
    scope = tuple(index[name] for name in names)
    shape = tuple(len(domains[name]) for name in names)
    if not names:
        return full_table(scope, shape, np.array([float(compare_constants(test))]))
    if len(names) == 2 and _has_few_matches(test, domains):
        pairs = list_matches(Matches(Test(condition._replace(operator="="))), domains)
        codes = np.sort(pack_assignments([pairs.column(name) for name in names], shape, len(pairs)))
        inside = 0.0 if condition.operator == "=" else 1.0
        return MessageTable(scope, shape, 1.0 - inside, codes, np.full(len(codes), inside))
    check_rows(float(math.prod(shape)) / len(names), dict(enumerate(shape)), range(len(shape)))
    grid = indicator_factor(names, unpack(np.arange(math.prod(shape)), shape))
    fails = test_rows(test, grid, domains)
    if len(names) < 2:
        return full_table(scope, shape, fails.astype(np.float64))
    # Neither side of an order comparison is small; list the smaller one.
    rarer = 2 * int(np.count_nonzero(fails)) > len(fails)
    codes = np.flatnonzero(fails != rarer)
    inside = 0.0 if rarer else 1.0
    return MessageTable(scope, shape, 1.0 - inside, codes, np.full(len(codes), inside))


def _has_few_matches(test: Test, domains: Mapping[str, Domain]) -> bool:
    """Return whether the test separates the equal pairs from all others."""
    if test.condition.operator == "=":
        return True
    numbers = (domains[name].numeric for name in test.variables) if test.numeric else ()
    return test.condition.operator == "!=" and not any(np.isnan(each).any() for each in numbers)

"""A clause and a world as a constraint network over the clause's logical variables.

The groundings that make a clause false are those that satisfy the cube of its negated parts, so

    #true groundings = N − #solutions of the cube's network

(Venugopal, Sarkhel and Gogate 2015; Sarkhel et al. 2016, "Background"). The network has a variable
for each logical variable that the clause mentions and one 0/1 table for each literal and condition:

    clause literal ¬R(x̄)   cube literal  R(x̄)   table R       default 0, true tuples 1
    clause literal  R(x̄)   cube literal ¬R(x̄)   table 1 − R   default 1, true tuples 0

Constants and repeated variables select tuples; a condition of the clause must come out false.
Variables that the clause does not mention only multiply the number of solutions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from lapis.counting.ijgp.table import (
    Scope,
    Table,
    check_codes,
    check_rows,
    full,
    pack,
    sort_distinct,
)
from lapis.data.database import Domain
from lapis.errors import LapisError, did_you_mean
from lapis.language.syntax import Constant, Variable
from lapis.logic.clauses import Condition, Cube, Literal, SimpleTerm, TypedVariable
from lapis.relational.interpretation import Extension, Interpretation

_COMPARE: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class LiteralPattern:
    """How a tuple of the predicate becomes an assignment of the literal's variables."""

    predicate: str
    positive: bool  # in the cube
    scope: Scope
    shape: tuple[int, ...]
    positions: tuple[int, ...]  # for each variable of the scope, an argument that holds it
    fixed: tuple[tuple[int, int], ...]  # (argument, constant it must equal)
    repeated: tuple[tuple[int, int], ...]  # (argument, argument it must equal)

    def codes(self, rows: np.ndarray) -> np.ndarray:
        """int64[≤ num_rows], increasing: the assignments at which the atom is one of the rows."""
        chosen = np.ones(len(rows), bool)
        for position, code in self.fixed:
            chosen &= rows[:, position] == code
        for position, other in self.repeated:
            chosen &= rows[:, position] == rows[:, other]
        rows = rows[chosen]
        columns = [rows[:, position] for position in self.positions]
        return sort_distinct(pack(columns, self.shape, len(rows)))

    def table(self, extension: Extension) -> Table:
        """R or 1 − R for the predicate's extension."""
        codes = self.codes(extension.tuples)
        inside = 1.0 if self.positive != extension.complemented else 0.0
        outside = 1.0 - inside
        if len(self.scope) <= 1:
            values = np.full(math.prod(self.shape), outside)
            values[codes] = inside
            return full(self.scope, self.shape, values)
        return Table(self.scope, self.shape, outside, codes, np.full(len(codes), inside))


@dataclass(frozen=True)
class ConstraintNetwork:
    """The cube's literals and conditions over its variables, before a world is given."""

    names: tuple[str, ...]  # logical variables that the cube mentions
    sizes: tuple[int, ...]
    literals: tuple[LiteralPattern, ...]
    conditions: tuple[Table, ...]
    multiplicity: int  # Π of the domain sizes of the variables that the cube does not mention

    def scopes(self) -> list[Scope]:
        """Of the literals, then of the conditions."""
        return [each.scope for each in self.literals] + [each.scope for each in self.conditions]

    def tables(self, world: Interpretation) -> list[Table]:
        """The literals' tables in a world, then the conditions' tables."""
        known = world.relations
        return [*(each.table(known[each.predicate]) for each in self.literals), *self.conditions]


def negate_clause(literals: Iterable[Literal], conditions: Iterable[Condition]) -> Cube:
    """The cube of a clause; its conditions are kept as they are, to come out *false*."""
    return Cube(tuple(literal.negate() for literal in literals), tuple(conditions))


def encode_cube(
    cube: Cube, variables: tuple[TypedVariable, ...], world: Interpretation
) -> ConstraintNetwork:
    """The network of a cube from `negate_clause`; `variables` are all that multiply the count."""
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
            _encode_condition(condition, index, dict(typed), domains)
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
    first: dict[int, int] = {}
    fixed: list[tuple[int, int]] = []
    repeated: list[tuple[int, int]] = []
    for position, (term, type_name) in enumerate(zip(literal.terms, types, strict=True)):
        if isinstance(term, Constant):
            fixed.append((position, constant_code(term, world.domains[type_name])))
        elif index[term.name] in first:
            repeated.append((position, first[index[term.name]]))
        else:
            first[index[term.name]] = position
    scope = tuple(sorted(first))
    shape = tuple(sizes[each] for each in scope)
    check_codes(shape)
    return LiteralPattern(
        literal.predicate,
        literal.positive,
        scope,
        shape,
        tuple(first[each] for each in scope),
        tuple(fixed),
        tuple(repeated),
    )


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
    condition: Condition,
    index: Mapping[str, int],
    types: Mapping[str, str],
    domains: Mapping[str, Domain],
) -> Table:
    """1 where the condition is false."""
    terms = (condition.left, condition.right)
    variables = tuple(dict.fromkeys(term.name for term in terms if isinstance(term, Variable)))
    if condition.operator in ("=", "!=") and condition.offset == 0:
        left, right = (_names(term, types, domains) for term in terms)
        all_known = True
    else:
        left, right = (_numbers(term, types, domains) for term in terms)
        right = right + condition.offset
        all_known = not (np.isnan(left).any() or np.isnan(right).any())
    scope = tuple(sorted(index[name] for name in variables))
    if len(variables) < 2:
        # One variable (perhaps on both sides) or none: the two sides broadcast to a vector.
        shape = tuple(len(domains[types[name]]) for name in variables)
        return full(scope, shape, 1.0 - _holds(condition.operator, left, right))
    shape = tuple(len(domains[types[name]]) for name in variables)
    if condition.operator == "=" or (condition.operator == "!=" and all_known):
        codes = _equal_pairs(left, right)
        inside = 0.0 if condition.operator == "=" else 1.0
        table = Table(scope, shape, 1.0 - inside, codes, np.full(len(codes), inside))
    else:
        check_rows(float(math.prod(shape)) / 2, dict(enumerate(shape)), range(2))
        holds = _holds(condition.operator, left[:, None], right[None, :]).ravel()
        table = _list_rarer(holds, scope, shape)
    return table if index[variables[0]] < index[variables[1]] else _transpose(table)


def _holds(comparison: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """bool of the broadcast shape; a comparison with something that is not a number is false."""
    known = (left == left) & (right == right)
    holds: np.ndarray = _COMPARE[comparison](left, right) & known
    return holds


def _names(term: SimpleTerm, types: Mapping[str, str], domains: Mapping[str, Domain]) -> np.ndarray:
    """str[size of the variable's domain], or str[1] for a constant."""
    if isinstance(term, Constant):
        return np.array([term.name], dtype=object)
    return np.array(domains[types[term.name]].constants, dtype=object)


def _numbers(
    term: SimpleTerm, types: Mapping[str, str], domains: Mapping[str, Domain]
) -> np.ndarray:
    """float64[size of the variable's domain], or float64[1] for a constant; NaN for no number."""
    if isinstance(term, Constant):
        return Domain("", (term.name,)).numeric
    return domains[types[term.name]].numeric


def _equal_pairs(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """int64[num_pairs], increasing codes of the positions with equal values (NaN equals none)."""
    positions: dict[object, list[int]] = {}
    for position, value in enumerate(right.tolist()):
        positions.setdefault(value, []).append(position)
    codes = [
        position * len(right) + other
        for position, value in enumerate(left.tolist())
        if value == value
        for other in positions.get(value, ())
    ]
    return np.array(codes, np.int64)


def _list_rarer(holds: np.ndarray, scope: Scope, shape: tuple[int, ...]) -> Table:
    """1 where the condition fails; an order comparison has no small side, list the smaller one."""
    rarer = bool(2 * np.count_nonzero(holds) <= len(holds))
    codes = np.flatnonzero(holds == rarer).astype(np.int64)
    inside = 0.0 if rarer else 1.0
    return Table(scope, shape, 1.0 - inside, codes, np.full(len(codes), inside))


def _transpose(table: Table) -> Table:
    """A table over two variables whose codes were packed the other way round."""
    rows, columns = np.unravel_index(table.codes, table.shape)
    codes = columns * table.shape[0] + rows
    order = np.argsort(codes)
    return Table(table.scope, table.shape[::-1], table.default, codes[order], table.values[order])

"""Conjunctions evaluated into products of small sparse factors.

A simplified conjunction, summed over all variables but the kept ones, is

    coefficient · Π_j G_j(kept variables of group j)

where the groups are the parts of the conjunction that hang together through summed variables.
Multiplying the groups out over all kept variables would be the cross product that is to be
avoided; `lapis.counting.differences.argument_classes` works on the groups as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from lapis.errors import TooLarge
from lapis.language.syntax import Constant, Variable
from lapis.logic.clauses import SimpleTerm
from lapis.relational.algebra import Test
from lapis.relational.comparison import passes
from lapis.relational.conjunctions import Atom, Check, Conjunction, Scope, atom_variables, simplify
from lapis.relational.elimination import sum_product
from lapis.relational.factor import Factor, add_rows, anti_join, indicator, scalar, select
from lapis.relational.interpretation import Interpretation

MAX_ROWS = 50_000_000  # explicit rows of one factor


class WeightKey(NamedTuple):
    """Weight ids: offset + the mixed-radix value of the plus variables, the last fastest."""

    offset: int
    plus: tuple[str, ...]
    shape: tuple[int, ...]

    def weight_id(self, constants: Sequence[int]) -> int:
        """The weight at these constants of the plus variables."""
        number = 0
        for constant, size in zip(constants, self.shape, strict=True):
            number = number * size + constant
        return self.offset + number


class Term(NamedTuple):
    """coefficient · Π groups, added to the weight that `key` selects."""

    coefficient: int
    groups: tuple[Factor, ...]
    key: WeightKey


def evaluate_terms(
    conjunctions: Iterable[Conjunction],
    variables: Mapping[str, str],
    positions: tuple[str, ...],
    key: WeightKey,
    interpretation: Interpretation,
    determined: Mapping[str, str] = MappingProxyType({}),
    known: dict[Conjunction, Term | None] | None = None,
) -> list[Term]:
    """Σ over the variables other than positions and plus variables of the signed conjunctions.

    A variable that a conjunction does not mention multiplies it by its domain's size, but for
    those in `determined`. `known` remembers what has been evaluated with the same variables.
    """
    types = {**variables, **determined}
    kept = (*positions, *key.plus)
    scope = Scope(types, kept, interpretation.domains, frozenset(determined))
    merged: dict[Conjunction, int] = {}
    for conjunction in conjunctions:
        for simple in simplify(conjunction, scope):
            bare = simple._replace(coefficient=1)
            merged[bare] = merged.get(bare, 0) + simple.coefficient
    known = {} if known is None else known
    terms = []
    for bare, coefficient in merged.items():
        if bare not in known:
            known[bare] = _evaluate(bare, scope, key, interpretation)
        term = known[bare]
        if coefficient and term is not None:
            terms.append(term._replace(coefficient=coefficient * term.coefficient))
    return terms


def add_terms(terms: Sequence[Term], keep: tuple[str, ...], sizes: Mapping[str, int]) -> Factor:
    """Σ terms as one factor over `keep`, multiplied out."""
    parts = [Factor(keep, np.empty((0, len(keep)), np.int32), np.empty(0, np.int64))]
    for term in terms:
        held = {name for group in term.groups for name in group.variables}
        universes = [universe(name, sizes[name]) for name in keep if name not in held]
        _check_rows([*term.groups, *universes])
        product = sum_product([*term.groups, *universes, scalar(1)], keep, sizes)
        if not _is_small(product.value, term.coefficient):
            product = Factor(keep, product.rows, product.value.astype(object))
        parts.append(Factor(keep, product.rows, product.value * term.coefficient))
    return add_rows(keep, parts)


def universe(variable: str, size: int) -> Factor:
    """1 for every constant."""
    return indicator((variable,), np.arange(size, dtype=np.int32)[:, None])


def _is_small(value: np.ndarray, coefficient: int) -> bool:
    if value.dtype == object:
        return False
    largest = float(np.abs(value.astype(np.float64)).max(initial=0.0))
    return largest * abs(coefficient) < 2.0**62


def _check_rows(factors: Sequence[Factor]) -> None:
    """Refuse a product that cannot be listed, before listing it."""
    rows = 1.0
    bound: set[str] = set()
    for factor in factors:
        if not bound & set(factor.variables):
            rows *= max(1, len(factor))
        bound |= set(factor.variables)
    if rows > MAX_ROWS:
        raise TooLarge(
            f"a quantified formula is true for about {rows:.0e} tuples",
            code="too-many-tuples",
            hint="give its free variables smaller types, or restrict them by a further condition",
        )


def _evaluate(
    conjunction: Conjunction, scope: Scope, key: WeightKey, interpretation: Interpretation
) -> Term | None:
    """The conjunction's sum-product; None where it is zero."""
    factors = _factors(conjunction, scope, interpretation)
    held = {name for factor in factors for name in factor.variables}
    bound = {name for name, _ in conjunction.bindings}
    sizes = {name: interpretation.size(type_name) for name, type_name in scope.types.items()}
    coefficient = conjunction.coefficient
    for name in scope.types:
        if name in held or name in bound or name in scope.determined:
            continue
        if name in key.plus:
            factors.append(universe(name, sizes[name]))
        elif name not in scope.kept:
            coefficient *= sizes[name]
    groups = []
    for members in _connected(factors, scope.kept):
        keep = tuple(
            name for name in scope.kept if any(name in factor.variables for factor in members)
        )
        is_done = len(members) == 1 and members[0].variables == keep
        group = members[0] if is_done else sum_product(members, keep, sizes)
        if not len(group) or not coefficient:
            return None
        if not keep:
            coefficient *= group.total()
        else:
            groups.append(group)
    return Term(coefficient, tuple(groups), key) if coefficient else None


def _factors(
    conjunction: Conjunction, scope: Scope, interpretation: Interpretation
) -> list[Factor]:
    factors = [_atom_factor(atom, interpretation) for atom in conjunction.true]
    for atom in conjunction.false:
        excluded = _atom_factor(atom, interpretation)
        cover = _cover(factors, atom_variables(atom))
        if cover is not None:
            factors[cover] = anti_join(factors[cover], excluded)
        elif not excluded.variables:
            factors.append(indicator((), np.empty((1 - len(excluded), 0), np.int32)))
        else:
            (name,) = excluded.variables
            present = np.zeros(interpretation.size(scope.types[name]), bool)
            present[excluded.rows[:, 0]] = True
            factors.append(indicator((name,), np.flatnonzero(~present).astype(np.int32)[:, None]))
    for check in conjunction.checks:
        cover = _cover(factors, check.variables)
        if cover is not None:
            factors[cover] = factors[cover].take(check_passes(check, factors[cover], scope))
        else:
            factors.append(_check_factor(check, scope))
    for name, term in conjunction.bindings:
        if name in scope.kept:
            factors.append(_binding_factor(name, term, scope))
    return factors


def _atom_factor(atom: Atom, interpretation: Interpretation) -> Factor:
    """1 on the true tuples that match the atom. A constant of another type matches none."""
    types = interpretation.relations[atom.predicate].types
    pattern: list[str | int] = []
    for term, type_name in zip(atom.terms, types, strict=True):
        if isinstance(term, Variable):
            pattern.append(term.name)
        else:
            pattern.append(interpretation.domains[type_name].index.get(term.name, -1))
    return select(tuple(pattern), interpretation.relations[atom.predicate].tuples)


def _cover(factors: Sequence[Factor], variables: frozenset[str]) -> int | None:
    """The smallest factor that has all the variables."""
    found = [
        number
        for number, factor in enumerate(factors)
        if variables and variables <= set(factor.variables)
    ]
    return min(found, key=lambda number: len(factors[number]), default=None)


def _check_factor(check: Check, scope: Scope) -> Factor:
    """1 on all assignments of the check's variables that pass it."""
    variables = tuple(sorted(check.variables))
    sizes = [len(scope.domains[scope.types[name]]) for name in variables]
    total = int(np.prod(sizes, dtype=np.float64))
    if total > MAX_ROWS:
        raise TooLarge(
            f"a comparison of {sizes[0]} constants with {sizes[-1]} stands alone",
            code="too-many-tuples",
            hint="add a literal that relates the two variables",
        )
    grid = indicator(variables, np.indices(sizes, np.int32).reshape(len(sizes), total).T)
    return grid.take(check_passes(check, grid, scope))


def check_passes(check: Check, factor: Factor, scope: Scope) -> np.ndarray:
    """bool[num_rows], which rows of the factor pass the check."""
    condition = check.condition
    left, right = (
        scope.types[term.name] if isinstance(term, Variable) else None
        for term in (condition.left, condition.right)
    )
    return passes(Test(condition, (left, right), check.holds), factor, scope.domains)


def _binding_factor(name: str, term: SimpleTerm, scope: Scope) -> Factor:
    """1[name = term]."""
    domain = scope.domains[scope.types[name]]
    if isinstance(term, Constant):
        return indicator((name,), np.array([[domain.index[term.name]]], np.int32))
    both = np.repeat(np.arange(len(domain), dtype=np.int32)[:, None], 2, axis=1)
    return indicator((term.name, name), both)


def _connected(factors: Sequence[Factor], kept: tuple[str, ...]) -> list[list[Factor]]:
    """The factors in groups that share a summed variable."""
    groups: list[tuple[set[str], list[Factor]]] = []
    for factor in factors:
        summed = set(factor.variables) - set(kept)
        members = [factor]
        apart = []
        for names, group in groups:
            if names & summed:
                summed |= names
                members = group + members
            else:
                apart.append((names, group))
        groups = [*apart, (summed, members)]
    return [members for _, members in groups]

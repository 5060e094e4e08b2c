"""Compute Σ over some variables of a product of tables, the operation of message passing.

A cluster's message is Σ_eliminated Π tables, where some tables are complements (default ≠ 0).
Multiplying them would make complements dense, so the product stays factored as long as possible:

1. Tables over kept variables only are returned unchanged. The others are grouped by shared
   eliminated variables, and each group gives one table. The result is the *product* of the pieces.
2. Within a group, variables are eliminated one at a time over sparse tables. A complement whose
   variables are all bound by a sparse table is looked up at that table's rows. Any other complement
   c with default d is split into a constant and a sparse table, c = d + (c − d); the result is the
   *sum* over the branches (inclusion–exclusion, only if needed).
3. The branches are added: over one variable as a vector, over more as (default, rows). Only a sum
   such as p(x) + q(y) has neither form; it is listed in full, within a limit.

Looking up is preferred, because splitting subtracts: Σ_x u(x) − Σ_{x ∈ R(y)} u(x) loses digits if
R(y) contains almost all of u. Therefore the support pass of `propagation` decides on integers
whether such a difference is zero, never these floats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lapis.counting.ijgp.message_table import (
    MessageTable,
    Scope,
    check_rows,
    full_table,
    group_rows,
    join_message_tables,
    merge_scopes,
    multiply_tables,
    scalar_table,
    scale_by_cover,
    scale_by_vector,
    send_vector,
    sum_out_variable,
)
from lapis.relational.contraction import group_connected

Sizes = Sequence[int]  # domain size of each variable of the network


def sum_product(
    tables: Iterable[MessageTable], variables: Iterable[int], keep: Iterable[int], sizes: Sizes
) -> list[MessageTable]:
    """Return pieces whose product is Σ over `variables` − `keep` of Π tables.

    A variable that no table mentions contributes its domain size. All tables are over `variables`;
    the pieces are over distinct subsets of `keep`, including a number (scope ()).
    """
    kept = frozenset(keep)
    pieces: list[MessageTable] = []
    rest: list[MessageTable] = []
    for table in tables:
        (pieces if kept.issuperset(table.scope) else rest).append(table)
    mentioned = {variable for table in rest for variable in table.scope}
    free = [each for each in variables if each not in kept and each not in mentioned]
    pieces.append(scalar_table(float(math.prod(sizes[each] for each in free))))
    for component in group_connected(rest, lambda table: set(table.scope) - kept):
        pieces.append(_sum_component(component, kept, sizes))
    return merge_scopes(pieces)


def sum_all(tables: Iterable[MessageTable], variables: Iterable[int], sizes: Sizes) -> float:
    """Return Σ over all variables of Π tables."""
    (piece,) = sum_product(tables, variables, (), sizes)
    return float(piece.values[0])


def to_dense(pieces: Iterable[MessageTable], scope: Scope, sizes: Sizes) -> np.ndarray:
    """Return float64[sizes of scope], the product of the pieces as a dense array."""
    shape = tuple(sizes[each] for each in scope)
    check_rows(float(math.prod(shape)), dict(enumerate(sizes)), scope)
    array = np.ones(shape)
    for piece in pieces:
        array *= _broadcast(piece, scope)
    return array


def _sum_component(tables: list[MessageTable], kept: frozenset[int], sizes: Sizes) -> MessageTable:
    vectors: dict[int, MessageTable] = {}
    sparse: list[MessageTable] = []
    complements: list[MessageTable] = []
    for table in merge_scopes(tables):
        if len(table.scope) == 1:
            vectors[table.scope[0]] = table
        else:
            (complements if table.default else sparse).append(table)
    mentioned = {variable for table in tables for variable in table.scope}
    outer = tuple(sorted(mentioned & kept))
    if len(outer) <= 1 and len(sparse) + len(complements) == 1:
        return _send_through((*sparse, *complements)[0], outer, vectors, sizes)
    terms: list[MessageTable] = []
    _eliminate_variables(_Branch(1.0, vectors, sparse, complements, mentioned - kept), sizes, terms)
    return _add_tables(terms, outer, sizes)


def _send_through(
    table: MessageTable, outer: Scope, vectors: Mapping[int, MessageTable], sizes: Sizes
) -> MessageTable:
    """Sum one table times vectors over all but at most one variable, the most frequent message.

    `_eliminate_variables` gives the same result more slowly, one variable at a time.
    """
    sparse = table.above_default if table.default else table
    inner = [each for each in table.scope if each not in outer]
    if outer and len(inner) == 1 and inner[0] in vectors:
        sums = send_vector(sparse, vectors[inner[0]]).values
    else:
        values = sparse.values
        for variable in inner:
            if variable in vectors:
                values = values * vectors[variable].values[sparse.columns[variable]]
        sums = (
            np.bincount(sparse.columns[outer[0]], values, sizes[outer[0]])
            if outer
            else np.array([values.sum()])
        )
    rest = table.default * math.prod(
        float(vectors[each].values.sum()) if each in vectors else float(sizes[each])
        for each in inner
    )
    return full_table(outer, tuple(sizes[each] for each in outer), sums + rest)


@dataclass(frozen=True)
class _Branch:
    """factor · Σ over `todo` of the product of all tables."""

    factor: float
    vectors: Mapping[int, MessageTable]
    sparse: list[MessageTable]  # over two or more variables
    complements: list[MessageTable]  # likewise; each mentions a variable of `todo`
    todo: set[int]


def _eliminate_variables(branch: _Branch, sizes: Sizes, terms: list[MessageTable]) -> None:
    """Append sparse tables over kept variables whose sum is the branch's value."""
    if not branch.todo:
        terms.append(_multiply_out(branch))
        return
    variable = min(branch.todo, key=lambda each: _elimination_cost(branch, each))
    uncovered = _uncovered(branch, variable)
    if not uncovered:
        _eliminate_variables(_sum_variable(branch, variable, sizes), sizes, terms)
        return
    split = uncovered[0]
    others = [each for each in branch.complements if each is not split]
    factor = branch.factor * split.default
    _eliminate_variables(replace(branch, factor=factor, complements=others), sizes, terms)
    sparse = [*branch.sparse, split.above_default]
    _eliminate_variables(replace(branch, sparse=sparse, complements=others), sizes, terms)


def _uncovered(branch: _Branch, variable: int) -> list[MessageTable]:
    """List the complements with `variable` that the sparse tables with `variable` do not bind."""
    bound = {each for table in branch.sparse if variable in table.scope for each in table.scope}
    return [
        each
        for each in branch.complements
        if variable in each.scope and not bound.issuperset(each.scope)
    ]


def _elimination_cost(branch: _Branch, variable: int) -> tuple[int, int, int]:
    touching = [table for table in branch.sparse if variable in table.scope]
    bound = {each for table in touching for each in table.scope}
    rows = sum(len(table.codes) for table in touching)
    return len(_uncovered(branch, variable)), len(bound), rows


def _sum_variable(branch: _Branch, variable: int, sizes: Sizes) -> _Branch:
    """Sum out a variable whose complements are all bound by sparse tables."""
    vectors = dict(branch.vectors)
    weight = vectors.pop(variable, None)
    todo = branch.todo - {variable}
    touching = sorted(
        (table for table in branch.sparse if variable in table.scope),
        key=lambda table: len(table.codes),
    )
    if not touching:
        number = float(sizes[variable]) if weight is None else float(weight.values.sum())
        return replace(branch, factor=branch.factor * number, vectors=vectors, todo=todo)
    covered = [table for table in branch.complements if variable in table.scope]
    product = _sum_variable_product(variable, touching, covered, weight)
    sparse = [table for table in branch.sparse if variable not in table.scope]
    factor = branch.factor
    if not product.scope:
        factor *= float(product.values[0])
    elif len(product.scope) == 1:
        known = vectors.get(product.scope[0])
        vectors[product.scope[0]] = product if known is None else multiply_tables(known, product)
    else:
        sparse.append(product)
    complements = [table for table in branch.complements if variable not in table.scope]
    return _Branch(factor, vectors, sparse, complements, todo)


def _sum_variable_product(
    variable: int,
    tables: list[MessageTable],
    covered: list[MessageTable],
    weight: MessageTable | None,
) -> MessageTable:
    """Return Σ over `variable` of the product; the others bind the `covered` tables."""
    first, *others = tables
    if weight is not None and not others and not covered and len(first.scope) == 2:
        return send_vector(first, weight)
    product = first if weight is None else scale_by_vector(first, weight)
    for position, table in enumerate(others, start=1):
        last = position == len(others) and not covered
        product = join_message_tables(product, table, drop=variable if last else None)
    for table in covered:
        product = scale_by_cover(product, table)
    return sum_out_variable(product, variable) if variable in product.scope else product


def _multiply_out(branch: _Branch) -> MessageTable:
    """Multiply sparse tables over kept variables to one sparse table."""
    product = scalar_table(branch.factor)
    for table in branch.sparse:
        product = join_message_tables(product, table)
    for variable, vector in branch.vectors.items():
        bound = variable in product.scope
        product = (
            scale_by_vector(product, vector) if bound else join_message_tables(product, vector)
        )
    return product


def _add_tables(terms: list[MessageTable], scope: Scope, sizes: Sizes) -> MessageTable:
    """Add sparse tables over subsets of `scope` to one table over `scope`."""
    shape = tuple(sizes[each] for each in scope)
    if len(terms) == 1 and terms[0].scope == scope:
        return terms[0]
    constant = math.fsum(float(term.values[0]) for term in terms if not term.scope)
    partial = any(term.scope not in ((), scope) for term in terms)
    if len(scope) <= 1 or partial:
        check_rows(float(math.prod(shape)), dict(enumerate(sizes)), scope)
        array = np.full(shape, constant)
        for term in terms:
            if term.scope:
                array += _broadcast(term, scope)
        return full_table(scope, shape, array.ravel())
    listed = [term for term in terms if term.scope]
    codes = np.concatenate([term.codes for term in listed]) if listed else np.empty(0, np.int64)
    values = np.concatenate([term.values for term in listed]) if listed else np.empty(0)
    table = group_rows(scope, shape, codes, values)
    return table.with_values(table.values + constant, constant)


def _broadcast(table: MessageTable, scope: Scope) -> np.ndarray:
    """Return the table as an array that broadcasts over the sizes of `scope`."""
    array = np.full(table.num_cells, table.default)
    array[table.codes] = table.values
    size = table.size
    return array.reshape([size.get(each, 1) for each in scope])

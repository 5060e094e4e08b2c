"""What is asked: predicates, or single ground atoms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError, Source, Span, did_you_mean
from lapis.grounding.network import Network
from lapis.language.names import format_atom
from lapis.language.parser import parse_formula
from lapis.language.syntax import Atom, Comparison, Application, Constant, Term, Variable
from lapis.problem import Problem


class Query(NamedTuple):
    """A predicate, or one ground atom of it."""

    predicate: str
    constants: tuple[str, ...] | None = None  # None: all atoms of the predicate


def parse_queries(texts: Sequence[str]) -> list[Query]:
    """Queries from texts like "Smokes,Cancer" and "Friends(Anna, Bob)".

    >>> parse_queries(["Smokes, Friends(Anna,bob)"])
    [Query(predicate='Smokes', constants=None), Query(predicate='Friends', constants=('Anna', 'bob'))]
    """
    return [parse_query(part) for text in texts for part in split_outside_brackets(text)]


def split_outside_brackets(text: str) -> list[str]:
    parts, depth, quoted = [""], 0, False
    for character in text:
        quoted ^= character == '"'
        depth += 0 if quoted else (character == "(") - (character == ")")
        if character == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def parse_query(text: str) -> Query:
    formula = parse_formula(text, "<query>")
    if isinstance(formula, Comparison) and formula.operator == "=":
        application, value = formula.right, formula.left
        if isinstance(application, Application):
            return Query(application.function, tuple(map(constant, (*application.terms, value))))
    if not isinstance(formula, Atom):
        raise LapisError(
            f"{text!r} is neither a predicate nor a ground atom",
            code="query",
            span=Span(Source("<query>", text), 0, len(text)),
        )
    if not formula.terms:
        return Query(formula.predicate)
    return Query(formula.predicate, tuple(map(constant, formula.terms)))


def constant(term: Term) -> str:
    """Lower-case names are constants here: a query has no variables."""
    if isinstance(term, Constant | Variable):
        return term.name
    raise LapisError("a query is about constants", code="query", span=term.span)


def select_atoms(
    network: Network, problem: Problem, queries: Sequence[Query]
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Names, network atoms (0 where known) and known values (−1 where unknown) of what is asked.

    A predicate asks for its unknown atoms; an atom is answered even if the data knows it. No
    query asks for all unknown atoms.
    """
    names: list[str] = []
    atom_ids: list[np.ndarray] = []
    known: list[np.ndarray] = []
    for query in queries or [Query(name) for name in problem.model.predicates]:
        if query.constants is None:
            ids = predicate_atoms(network, query.predicate)
            names += network.atom_names(ids)
            atom_ids.append(ids)
            known.append(np.full(len(ids), -1.0))
        else:
            name, atom, value = single_atom(network, problem, query)
            names.append(name)
            atom_ids.append(np.array([atom]))
            known.append(np.array([value]))
    empty = [np.empty(0, np.int64)]
    ids = np.concatenate(atom_ids + empty).astype(np.int64)
    return tuple(names), ids, np.concatenate([*known, np.empty(0)])


def predicate_atoms(network: Network, predicate: str) -> np.ndarray:
    table = network.atoms
    if predicate not in table.predicates:
        return np.empty(0, np.int64)
    index = table.predicates.index(predicate)
    return np.arange(table.offset[index], table.offset[index + 1])


def single_atom(network: Network, problem: Problem, query: Query) -> tuple[str, int, float]:
    predicate = problem.model.predicates[query.predicate]
    constants = query.constants or ()
    name = format_atom(predicate.name, constants, predicate.function)
    if len(constants) != predicate.arity:
        raise LapisError(
            f"{predicate.name!r} takes {predicate.arity} arguments, the query {name} has "
            f"{len(constants)}",
            code="arity",
        )
    codes: list[int] = []
    for text, type_name in zip(constants, predicate.types, strict=True):
        domain = problem.domains[type_name]
        if text not in domain.index:
            close = did_you_mean(text, domain.constants)
            raise LapisError(
                f"unknown constant {text!r} of type {type_name!r} in the query {name}",
                code="unknown-constant",
                hint=f"did you mean {close!r}?" if close else None,
            )
        codes.append(domain.index[text])
    rows = np.array([codes], np.int32).reshape(1, predicate.arity)
    atom = int(network.atom_index(predicate.name, rows)[0])
    if atom >= 0:
        return name, atom, -1.0
    from lapis.data.tuples import contains
    from lapis.grounding.evidence import close_blocks

    evidence = close_blocks(problem)[predicate.name]
    return name, 0, float(contains(evidence.true, rows)[0])

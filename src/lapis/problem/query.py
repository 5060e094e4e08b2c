"""What is asked: predicates, single ground atoms, or formulas.

A formula query becomes a predicate of its own, tied to the formula by a hard equivalence, so that
every method answers it together with everything else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError, did_you_mean
from lapis.language.model import Model
from lapis.language.names import format_atom
from lapis.language.parser import parse_formula
from lapis.language.printer import print_formula
from lapis.language.resolution.extend import with_statements
from lapis.language.resolution.instances import substitute
from lapis.language.syntax import (
    Application,
    Atom,
    Comparison,
    Constant,
    Formula,
    Iff,
    Not,
    Parameter,
    PredicateDeclaration,
    Variable,
    WeightedFormula,
    atoms,
)
from lapis.network.network import Network
from lapis.problem.problem import Problem


class Query(NamedTuple):
    """A predicate, one ground atom of it, or a formula that the predicate stands for."""

    predicate: str
    constants: tuple[str, ...] | None = None  # None: all atoms of the predicate
    formula: Formula | None = None
    variables: tuple[str, ...] = ()  # of the formula, in the order of the predicate's arguments


def parse_queries(texts: Sequence[str]) -> list[Query]:
    """Queries from texts like "Smokes,Cancer", "Friends(Anna, Bob)" and "Smokes(x) ^ Cancer(x)".

    >>> parse_queries(["Smokes, Friends(Anna,Bob)"])[1].constants
    ('Anna', 'Bob')
    >>> parse_queries(["Smokes(x)"])
    [Query(predicate='Smokes', constants=None, formula=None, variables=())]
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
    atom = as_atom(formula)
    if atom is None:
        return Query("", formula=formula)
    names = [term.name for term in atom.terms if isinstance(term, Variable)]
    if len(names) == len(set(names)) == len(atom.terms):
        return Query(atom.predicate)
    constants = tuple(term.name for term in atom.terms if isinstance(term, Constant))
    if len(constants) == len(atom.terms):
        return Query(atom.predicate, constants)
    return Query("", formula=formula)


def as_atom(formula: Formula) -> Atom | None:
    """The formula as one atom, `Value = f(x)` included."""
    if isinstance(formula, Comparison) and formula.operator == "=":
        value, application = formula.left, formula.right
        if isinstance(application, Application):
            return Atom(application.function, (*application.terms, value), span=formula.span)
    return formula if isinstance(formula, Atom) else None


def add_formula_queries(model: Model, queries: Sequence[Query]) -> tuple[Model, list[Query]]:
    """Predicates that stand for the formulas asked, with the hard rules that say so."""
    named: list[Query] = []
    for query in queries:
        if query.formula is None:
            named.append(query)
            continue
        name = f"_query_{len(named) + 1}"
        probe = with_statements(model, WeightedFormula(query.formula, 0.0)).rules[-1]
        variables = tuple(variable for variable, _ in probe.variables)
        head = Atom(name, tuple(map(Variable, variables)))
        model = with_statements(
            model,
            PredicateDeclaration(name, tuple(Parameter(t) for _, t in probe.variables)),
            WeightedFormula(Iff(head, query.formula), hard=True),
        )
        named.append(Query(name, formula=query.formula, variables=variables))
    return model, named


def opened_by_formulas(model: Model, queries: Sequence[Query]) -> list[str]:
    """Predicates that formula queries open: all they mention, unless predicates are asked too.

    Next to `-q Smokes` a formula is only read off; alone it says what is unknown. Predicates
    declared closed (*P) stay so.
    """
    if any(query.formula is None for query in queries):
        return []
    found = {atom.predicate: None for q in queries if q.formula for atom in atoms(q.formula)}
    return [n for n in found if n in model.predicates and not model.predicates[n].closed]


def add_soft_evidence(model: Model, beliefs: Mapping[str, float]) -> Model:
    """Virtual evidence: an atom believed with probability p gets a unit rule of weight logit p."""
    for text, probability in beliefs.items():
        formula = parse_formula(text, "<soft evidence>")
        if as_atom(formula) is None or not 0.0 <= probability <= 1.0:
            raise LapisError(
                f"soft evidence is a ground atom and a probability, not {text!r} = {probability}",
                code="soft-evidence",
            )
        if probability in (0.0, 1.0):
            sure = formula if probability else Not(formula)
            model = with_statements(model, WeightedFormula(sure, hard=True))
        else:
            weight = math.log(probability) - math.log1p(-probability)
            model = with_statements(model, WeightedFormula(formula, weight, fixed=True))
    return model


def select_atoms(
    network: Network, problem: Problem, queries: Sequence[Query]
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Names, network atoms (0 where known) and known values (−1 where unknown) of what is asked.

    A predicate asks for its unknown atoms; an atom or formula is answered even if the data
    decides it. No query asks for all unknown atoms.
    """
    names: list[str] = []
    atom_ids: list[np.ndarray] = []
    known: list[np.ndarray] = []
    for query in queries or [Query(name) for name in problem.model.predicates]:
        if query.constants is not None:
            name, atom, value = single_atom(network, problem, query)
            names.append(name)
            atom_ids.append(np.array([atom]))
            known.append(np.array([value]))
            continue
        ids = predicate_atoms(network, query.predicate)
        names += formula_names(network, query, ids) if query.formula else network.atom_names(ids)
        atom_ids.append(ids)
        known.append(np.full(len(ids), -1.0))
    ids = np.concatenate([*atom_ids, np.empty(0, np.int64)]).astype(np.int64)
    return tuple(names), ids, np.concatenate([*known, np.empty(0)])


def predicate_atoms(network: Network, predicate: str) -> np.ndarray:
    table = network.atoms
    if predicate not in table.predicates:
        return np.empty(0, np.int64)
    index = table.predicates.index(predicate)
    return np.arange(table.offset[index], table.offset[index + 1])


def formula_names(network: Network, query: Query, ids: np.ndarray) -> list[str]:
    """The formula of each atom that stands for it, its variables replaced by constants."""
    assert query.formula is not None
    table = network.atoms
    index = table.predicates.index(query.predicate)
    rows = table.tuples[index][ids - table.offset[index]]
    domains = [network.domains[t].constants for t in network.signatures[query.predicate].types]
    found: list[str] = []
    for row in rows.tolist():
        values = {
            name: domain[code]
            for name, domain, code in zip(query.variables, domains, row, strict=True)
        }
        found.append(print_formula(substitute(query.formula, values)))
    return found


def single_atom(network: Network, problem: Problem, query: Query) -> tuple[str, int, float]:
    predicate = problem.model.predicates[query.predicate]
    constants = query.constants or ()
    name = format_atom(predicate.name, constants, predicate.function)
    if len(constants) != predicate.arity:
        plural = "" if predicate.arity == 1 else "s"
        raise LapisError(
            f"{predicate.name!r} takes {predicate.arity} argument{plural}, the query {name} has "
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

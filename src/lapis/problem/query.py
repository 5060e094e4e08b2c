"""Queries: predicates, ground atoms, or formulas.

A name is a constant, quoted or not, if a world has it as a constant of the argument's type. In a
query of one atom, other names must be plain variables (x, y1), which query all constants; in a
formula they are variables. A formula query becomes a new predicate, defined by a hard equivalence,
so that every method answers it together with other queries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from lapis.data.database import Database, Domain
from lapis.data.lazy_database import LazyDatabase
from lapis.errors import LapisError, Span, TooLarge, Warning, raise_all, suggestion
from lapis.language.instances import as_atom, substitute
from lapis.language.model import Model, Predicate, Rule
from lapis.language.parser import parse_formula
from lapis.language.printer import print_formula
from lapis.language.resolve import with_statements
from lapis.language.sugar import without_plus
from lapis.language.syntax import (
    Atom,
    Comparison,
    Constant,
    Formula,
    Iff,
    Not,
    Term,
    Variable,
    WeightedFormula,
    atoms,
    fresh_name,
    map_children,
    subformulas,
    terms_of,
)
from lapis.problem.problem import unknown_predicate_error
from lapis.problem.state_names import FALSE_STATE, read_states, variable_states

PLAIN_VARIABLE = re.compile(r"[a-z][0-9]*'*")

Domains = Mapping[str, Domain]


class Query(NamedTuple):
    """A query: a predicate, one of its ground atoms, or a formula that defines the predicate."""

    predicate: str
    constants: tuple[str, ...] | None = None  # None: all atoms of the predicate
    formula: Formula | None = None
    rule: Rule | None = None  # of the formula; its variables are those of the predicate


def parse_queries(texts: Sequence[str] | str) -> list[Formula]:
    """Parse texts like "Smokes,Cancer", "Friends(Anna, Bob)" and "Smokes(x) ^ Cancer(x)".

    >>> [print_formula(found) for found in parse_queries("Smokes, EXIST x,y Friends(x, y)")]
    ['Smokes', 'EXIST x,y Friends(x, y)']
    """
    found: list[Formula] = []
    for text in [texts] if isinstance(texts, str) else texts:
        pieces = split_outside_brackets(text)
        while pieces:
            formula, used = parse_first(pieces)
            found.append(formula)
            pieces = pieces[used:]
    return found


def read_queries(model: Model, texts: Sequence[str] | str) -> list[Formula]:
    """Parse queries; those of a network or a ground program are names of variables or states.

    A variable queries all its states. In a ground program, `path` queries all atoms `path(…)`.
    """
    if not model.has_variables:
        return parse_queries(texts)
    found: list[Formula] = []
    given = [texts] if isinstance(texts, str) else texts
    if not any(text.strip() for text in given):
        return [atom for name in model.queries for atom in state_atoms(model, name, None)]
    for text in given:
        try:
            named = read_states(*variable_states(model), text)
        except TooLarge:
            raise
        except LapisError as error:
            prefix = [n for n in model.predicates if n.startswith(f"{text.strip()}(")]
            named = [(name, None) for name in prefix]
            if not named:
                try:
                    found += [name_states(formula, model) for formula in parse_queries(text)]
                    continue
                except LapisError:
                    raise error from None
        found += [atom for name, state in named for atom in state_atoms(model, name, state)]
    return found


def name_states(formula: Formula, model: Model) -> Formula:
    """Replace `smoke = yes` by the atom, and names that are states by constants."""
    if isinstance(formula, Comparison) and formula.operator in ("=", "!="):
        name, value = formula.left, formula.right
        if isinstance(name, Variable | Constant) and name.name in model.predicates:
            atom = Atom(name.name, (value,), span=formula.span)
            return name_states(atom if formula.operator == "=" else Not(atom), model)
    if isinstance(formula, Atom) and formula.predicate in model.predicates:
        types = model.predicates[formula.predicate].types
        terms = [
            Constant(term.name, span=term.span)
            if isinstance(term, Variable) and term.name in model.types[kind]
            else term
            for term, kind in zip(formula.terms, types, strict=False)
        ]
        return replace(formula, terms=(*terms, *formula.terms[len(terms) :]))
    return map_children(formula, lambda part: name_states(part, model))


def state_atoms(model: Model, name: str, state: str | None) -> list[Formula]:
    """Return the atoms that a variable, or one of its states, queries."""
    predicate = model.predicates[name]
    if predicate.arity == 0:
        atom: Formula = Atom(name, ())
        return [Not(atom) if state == FALSE_STATE else atom]
    states = model.types[predicate.types[0]] if state is None else (state,)
    return [Atom(name, (Constant(each),)) for each in states]


def parse_first(pieces: Sequence[str]) -> tuple[Formula, int]:
    """Parse the shortest formula at the start: a quantifier may contain commas."""
    wrong: LapisError | None = None
    for used in range(1, len(pieces) + 1):
        try:
            return parse_formula(",".join(pieces[:used]).strip(), "<query>"), used
        except LapisError as error:
            wrong = wrong or error
    assert wrong is not None
    raise wrong


def split_outside_brackets(text: str) -> list[str]:
    pieces, depth = [""], 0
    for token in re.findall(r'"(?:[^"\\]|\\.)*"|.', text, re.DOTALL):
        depth += (token == "(") - (token == ")")
        if token == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += token
    return [piece for piece in pieces if piece.strip()]


def query_predicates(query: Sequence[str] | str, model: Model) -> list[str]:
    """Return the queried predicates; raise if there are atoms or formulas."""
    names: dict[str, None] = {}
    for formula in parse_queries(query):
        atom = as_atom(formula)
        if atom is None or not all(map(is_plain_variable, atom.terms)):
            raise LapisError(
                f"expected predicate names, got an atom or formula: {print_formula(formula)}",
                code="query",
            )
        names.setdefault(atom.predicate)
    raise_all(
        [unknown_predicate_error(name, model) for name in names if name not in model.predicates]
    )
    return list(names)


def is_name(term: Term) -> bool:
    return isinstance(term, Variable | Constant)


def is_plain_variable(term: Term) -> bool:
    return isinstance(term, Variable) and PLAIN_VARIABLE.fullmatch(term.name) is not None


def resolve_queries(
    model: Model, worlds: Sequence[Domains], formulas: Sequence[Formula]
) -> tuple[Query, ...]:
    """Resolve the parsed queries against the constants of the worlds."""
    queries = [resolve_atom(model, worlds, formula) for formula in formulas]
    open_formulas = [query.formula for query in queries if query.formula is not None]
    rules = iter(resolve_formulas(model, worlds, open_formulas))
    taken = set(model.predicates)
    named: list[Query] = []
    for query in queries:
        if query.formula is not None:
            name = fresh_name(f"_query_{len(named) + 1}", taken)
            taken.add(name)
            formula, rule = next(rules)
            query = Query(name, formula=formula, rule=rule)
        named.append(query)
    return tuple(named)


def resolve_atom(model: Model, worlds: Sequence[Domains], formula: Formula) -> Query:
    """Resolve a query of a predicate or ground atom; others keep their formula."""
    atom = as_atom(without_plus(formula))
    if atom is None or atom.starred or not all(map(is_name, atom.terms)):
        return Query("", formula=formula)
    predicate = model.predicates.get(atom.predicate)
    if predicate is None:
        raise unknown_predicate_error(atom.predicate, model)
    names = [term.name for term in atom.terms if isinstance(term, Variable | Constant)]
    if predicate.variable and predicate.arity == 0:
        return Query(predicate.name, ())
    if not atom.terms or is_whole_function(predicate, atom):
        return Query(predicate.name)
    check_arity(predicate, atom, formula)
    is_constant = [
        isinstance(term, Constant)
        or is_known(term.name, type_name, worlds)
        or not is_plain_variable(term)
        for term, type_name in zip(atom.terms, predicate.types, strict=True)
        if isinstance(term, Variable | Constant)
    ]
    for name, type_name, constant in zip(names, predicate.types, is_constant, strict=True):
        if constant and not is_known(name, type_name, worlds):
            raise unknown_constant(
                name, type_name, worlds, f"the query {print_formula(formula)}", atom.span
            )
    if all(is_constant):
        return Query(predicate.name, tuple(names))
    if not any(is_constant) and len(set(names)) == len(names):
        return Query(predicate.name)
    return Query("", formula=formula)


def is_whole_function(predicate: Predicate, atom: Atom) -> bool:
    """Return whether a query is `f(x)` without a value, which queries all values."""
    plain = len(set(atom.terms)) == len(atom.terms) and all(map(is_plain_variable, atom.terms))
    return predicate.function and plain and len(atom.terms) == predicate.arity - 1


def check_arity(
    predicate: Predicate, atom: Atom, written: Formula, where: str = "the query"
) -> None:
    if len(atom.terms) != predicate.arity:
        as_function = predicate.function and isinstance(written, Atom)
        raise LapisError(
            f"{predicate.name!r} takes {predicate.arity} argument{'s' * (predicate.arity != 1)}, "
            f"{where} {print_formula(written)} has {len(atom.terms)}",
            code="arity",
            span=atom.span,
            hint=f"query a value of it as Value = {predicate.name}(…)" if as_function else None,
        )


def is_known(name: str, type_name: str, worlds: Sequence[Domains]) -> bool:
    return any(name in world[type_name].index for world in worlds)


def unknown_constant(
    name: str, type_name: str, worlds: Sequence[Domains], where: str, span: Span | None = None
) -> LapisError:
    known = dict.fromkeys(constant for world in worlds for constant in world[type_name].constants)
    no_constants = f"{type_name!r} has no constants: name some in the data or the model"
    return LapisError(
        f"unknown constant {name!r} of type {type_name!r} in {where}",
        code="unknown-constant",
        span=span,
        hint=suggestion(name, known, None if known else no_constants),
    )


def resolve_formulas(
    model: Model, worlds: Sequence[Domains], formulas: Sequence[Formula]
) -> list[tuple[Formula, Rule]]:
    """Return each formula with names replaced by constants of the worlds, and its rule."""
    plain = [without_plus(formula) for formula in formulas]
    for formula in plain:
        if any(atom.starred for atom in atoms(formula)):
            raise LapisError(
                f"a query must not have starred atoms: {print_formula(formula)}",
                code="query",
                hint="remove the *",
            )
    rules = resolve_rules(model, plain)
    resolved = [
        substitute(
            formula,
            {name: name for name, kind in rule.variables if is_known(name, kind, worlds)},
        )
        for formula, rule in zip(plain, rules, strict=True)
    ]
    if resolved != plain:
        rules = resolve_rules(model, resolved)
    for formula, rule in zip(resolved, rules, strict=True):
        for name, type_name in constants_of(rule, model):
            if not is_known(name, type_name, worlds):
                raise unknown_constant(
                    name, type_name, worlds, f"the query {print_formula(formula)}"
                )
    return list(zip(resolved, rules, strict=True))


def resolve_rules(model: Model, formulas: Sequence[Formula]) -> tuple[Rule, ...]:
    """Return the rules of the formulas, as if they were in the model."""
    if not formulas:
        return ()
    extended = with_statements(model, *[WeightedFormula(formula, 0.0) for formula in formulas])
    undeclared = [name for name in extended.predicates if name not in model.predicates]
    raise_all([unknown_predicate_error(name, model) for name in undeclared])
    return extended.rules[len(model.rules) :]


def constants_of(rule: Rule, model: Model) -> Iterator[tuple[str, str]]:
    """Yield (constant, type) in the atoms and equations of a rule; orders have no types."""
    types = dict(rule.variables + rule.bound)
    for node in subformulas(rule.formula):
        if isinstance(node, Atom):
            kinds: Sequence[str] = model.predicates[node.predicate].types
        elif isinstance(node, Comparison) and node.operator in ("=", "!="):
            sides = (node.left, node.right)
            kinds = [types[t.name] for t in sides if isinstance(t, Variable)] * 2
        else:
            continue
        for term, kind in zip(terms_of(node), kinds, strict=False):
            if isinstance(term, Constant):
                yield term.name, kind


def has_constants(query: Query, model: Model, domains: Domains) -> bool:
    """Return whether a world has the constants of a query."""
    if query.rule is not None:
        named = constants_of(query.rule, model)
    else:
        named = zip(query.constants or (), model.predicates[query.predicate].types, strict=False)
    return all(is_known(name, type_name, [domains]) for name, type_name in named)


def with_queries(model: Model, queries: Sequence[Query]) -> Model:
    """Add a predicate for each formula query, and the hard rule that defines it.

    The rule is `_query(x…) <=> F`, where F has no functions and offsets. Removing these from the
    whole equivalence would leave the predicate undefined if i+1 is no constant.
    """
    predicates = dict(model.predicates)
    rules = list(model.rules)
    for query in queries:
        if query.rule is not None:
            variables = query.rule.variables
            head = Atom(query.predicate, tuple(Variable(name) for name, _ in variables))
            types = tuple(type_name for _, type_name in variables)
            predicates[query.predicate] = Predicate(query.predicate, types)
            tie = Iff(head, query.rule.formula)
            rules.append(replace(query.rule, formula=tie, weight=None, hard=True))
    return replace(model, predicates=predicates, rules=tuple(rules))


def warn_closed_queries(model: Model, names: Sequence[str]) -> list[Warning]:
    """Return a warning for each queried predicate that is declared closed (*P)."""
    declared = [model.predicates[name] for name in dict.fromkeys(names) if name in model.predicates]
    return [
        Warning(
            f"{predicate.name!r} is declared as evidence, but the query opens it",
            "closed-query",
            predicate.span,
            "query other predicates, or remove the *",
        )
        for predicate in declared
        if predicate.closed
    ]


MANY_ATOMS = 100_000  # open atoms of a predicate from which a warning may follow
MANY_TIMES = 10  # open atoms for each fact of the data from which it follows


def warn_many_open(
    model: Model,
    worlds: Sequence[tuple[Database, Domains]],
    names: Sequence[str],
    remedy: str,
) -> list[Warning]:
    """Return a warning for each predicate with very many open atoms beside the facts of the data.

    Parameters
    ----------
    model
        The model.
    worlds
        The data of each world, and its constants.
    names
        The predicates that a query opens.
    remedy
        The result of `only_listed`, as the predicate of a sentence.

    Returns
    -------
    list[Warning]
        At least `MANY_ATOMS` atoms are open, and `MANY_TIMES` as many as the data has facts. Data
        on an engine has no warning.
    """
    found: list[Warning] = []
    worlds = [(data, domains) for data, domains in worlds if not isinstance(data, LazyDatabase)]
    facts = sum(r.num_stated for data, _ in worlds for r in data.relations.values())
    for predicate in (model.predicates[n] for n in dict.fromkeys(names) if n in model.predicates):
        listed = [data.relations.get(predicate.name) for data, _ in worlds]
        num_listed = sum(relation.num_stated for relation in listed if relation is not None)
        num_atoms = sum(math.prod(len(d[name]) for name in predicate.types) for _, d in worlds)
        num_open = num_atoms - num_listed
        if facts and num_open >= max(MANY_ATOMS, MANY_TIMES * facts):
            mentioned = f"{num_listed:,}" if num_listed else "none of them"
            found.append(
                Warning(
                    f"{num_open:,} {predicate.name} atoms are open, the data mentions {mentioned}: "
                    f"only_listed=True (--only-listed) {remedy}",
                    "many-open",
                )
            )
    return found


def opened_by_formulas(model: Model, queries: Sequence[Query]) -> list[str]:
    """Return the predicates that formula queries open.

    If predicates or atoms are queried too, a formula opens nothing. Otherwise it opens all
    predicates that it mentions, except those declared closed (*P).
    """
    if any(query.rule is None for query in queries):
        return []
    found = {atom.predicate: None for q in queries if q.rule for atom in atoms(q.rule.formula)}
    return [name for name in found if not model.predicates[name].closed]

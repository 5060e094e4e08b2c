"""Random models as text mean what was drawn: the reader is held to the trees behind the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

import oracle
from lapis.language import parse_model
from lapis.language.model import Model, Predicate, Rule
from lapis.language.syntax import (
    And,
    Application,
    Atom,
    Comparison,
    Exists,
    ForAll,
    Formula,
    Implies,
    Offset,
    Term,
    Variable,
    free_variables,
    map_children,
    map_terms,
    terms_of,
)
from strategies import TYPE_OF, VARIABLES, Case, cases

FRESH = {f"value_{kind}_{i}": kind for kind in VARIABLES for i in range(3)}
MOVED = [f"moved_{i}" for i in range(100)]


def without_functions(formula: Formula, predicates: dict[str, Predicate]) -> Formula:
    """f(x) = t as the atom of f's graph, P(f(x)) as ∃v (v = f(x) ∧ P(v))."""
    match formula:
        case Comparison("=", value, Application(name, terms)):
            return Atom(name, (*terms, value))
        case Atom(name, terms):
            graphs: list[Atom] = []

            def plain(term: Term) -> Term:
                if not isinstance(term, Application):
                    return term
                kind = predicates[term.function].types[-1]
                value = Variable(f"value_{kind}_{len(graphs)}")
                graphs.append(Atom(term.function, (*term.terms, value)))
                return value

            atom = Atom(name, tuple(map(plain, terms)))
            if not graphs:
                return atom
            names = tuple(v.name for g in graphs if isinstance(v := g.terms[-1], Variable))
            return Exists(names, And((*graphs, atom)))
        case _:
            return map_children(formula, lambda child: without_functions(child, predicates))


def without_offsets(formula: Formula, fresh: Iterator[str]) -> Formula:
    """P(i+1) as ∀j (j = i+1 ⇒ P(j)) around the scope of i; inner scopes come first."""

    def visit(node: Formula) -> Formula:
        node = map_children(node, visit)
        if isinstance(node, Exists | ForAll):
            return replace(node, body=move_scope(node.body, node.variables, fresh))
        return node

    return move_scope(visit(formula), free_variables(formula), fresh)


def move_scope(body: Formula, names: Sequence[str], fresh: Iterator[str]) -> Formula:
    found: dict[Offset, Variable] = {}

    def plain(term: Term) -> Term:
        if isinstance(term, Application):
            return Application(term.function, tuple(map(plain, term.terms)))
        if isinstance(term, Offset) and term.variable.name in names:
            if term not in found:
                found[term] = Variable(next(fresh))
            return found[term]
        return term

    def visit(node: Formula) -> Formula:
        is_graph = any(isinstance(term, Application) for term in terms_of(node))
        if isinstance(node, Atom) or is_graph:
            return map_terms(node, plain)
        return map_children(node, visit)

    body = visit(body)
    for offset, variable in found.items():
        body = ForAll((variable.name,), Implies(Comparison("=", variable, offset), body))
    return body


def as_drawn(case: Case, model: Model) -> Model:
    """The model with the formulas that were drawn in place of those that were read."""
    rules: list[Rule] = []
    for drawn, rule in zip(case.rules, model.rules, strict=True):
        moved = without_offsets(drawn.formula, iter(MOVED))
        formula = without_functions(moved, dict(model.predicates))
        free = tuple((name, TYPE_OF[name]) for name in free_variables(formula))
        bound = tuple((TYPE_OF | FRESH | dict.fromkeys(MOVED, "number")).items())
        rules.append(replace(rule, formula=formula, variables=free, bound=bound))
    return model.with_rules(tuple(rules))


def check_reading(case: Case) -> None:
    model = parse_model(case.model)
    for drawn, rule in zip(case.rules, model.rules, strict=True):
        assert (rule.weight, rule.hard, rule.fixed) == (drawn.weight, drawn.hard, drawn.fixed)
        assert set(rule.plus) == drawn.plus
        assert dict(rule.variables) == {n: TYPE_OF[n] for n in free_variables(drawn.formula)}
    domains = oracle.constants_of(model, case.facts)
    worlds = oracle.worlds_agreeing_with(
        oracle.known_atoms(model, case.facts, domains, set(case.query))
    )
    read = oracle.weigh(model, domains, worlds)
    meant = oracle.weigh(as_drawn(case, model), domains, worlds)
    assert np.array_equal(read.possible, meant.possible)
    for key, count in meant.counts.items():
        assert np.array_equal(read.counts[key][meant.possible], count[meant.possible])


@given(cases())
def test_text_means_what_was_drawn(case: Case) -> None:
    check_reading(case)


@pytest.mark.slow
@given(cases())
@settings(max_examples=10_000)
def test_text_means_what_was_drawn_at_length(case: Case) -> None:
    check_reading(case)

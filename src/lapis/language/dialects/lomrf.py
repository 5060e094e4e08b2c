"""Parse definite clauses of LoMRF, and complete their predicates.

`1.5 Head(x, t) :- Body(x, t) ^ !Other(z, t)` becomes `1.5 (EXIST z …) => Head(x, t)`: variables of
the body alone are quantified. As in LoMRF, all clauses of a predicate together are its definition:
the hard formula `Head(x, t) => body 1 v body 2 v …` is added (predicate completion). An argument
that is not the same variable in all heads is compared: `Head(A, t) :- P(t)` gives
`Head(x, t) => x = A ^ P(t)`, so the predicate is false for other constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lapis.errors import LapisError, Source, Span
from lapis.language.formulas import Grammar, parse_formula_tokens, rename_variable
from lapis.language.lexer import CLOSING, OPENING, Token
from lapis.language.syntax import (
    And,
    Atom,
    Comparison,
    Exists,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
    Quantifier,
    Term,
    Variable,
    WeightedFormula,
    all_variables,
    children,
    free_variables,
    fresh_name,
)


def find_turnstile(tokens: Sequence[Token]) -> int | None:
    """Return the place of `:-` outside brackets and after a head; None if there is none."""
    if not any(token.kind == "COLON" for token in tokens):
        return None
    depth = 0
    for place, token in enumerate(tokens[:-1]):
        depth += (token.kind in OPENING) - (token.kind in CLOSING)
        following = tokens[place + 1]
        is_turnstile = token.kind == "COLON" and following.kind == "MINUS"
        if token.kind in ("EXISTS", "FORALL"):
            return None
        if is_turnstile and depth == 0 and token.end == following.start and place:
            before = tokens[place - 1].kind
            return place if before in ("RPAR", "NAME") else None
    return None


def parse_clause(
    tokens: Sequence[Token], turnstile: int, source: Source, grammar: Grammar
) -> Implies:
    """Parse `Head :- Body` as Body => Head with the variables of the body quantified."""
    span = Span(source, tokens[0].start, tokens[-1].end)
    if turnstile + 2 >= len(tokens):
        raise LapisError("this clause has no body", code="empty-formula", span=span)
    head = parse_formula_tokens(tokens[:turnstile], source, grammar)
    body = parse_formula_tokens(tokens[turnstile + 2 :], source, grammar)
    if not isinstance(head, Atom):
        raise LapisError(
            "the head of a clause is one atom",
            code="clause-head",
            span=head.span,
            hint="as in Head(x) :- Body(x) ^ !Other(x)",
        )
    return Implies(quantify(body, free_variables(head)), head, span=span)


def quantify(body: Formula, free: Sequence[str]) -> Formula:
    """Quantify the variables of a body that are not free."""
    names = tuple(name for name in free_variables(body) if name not in free)
    return Exists(names, body, span=body.span) if names else body


def complete(clauses: Sequence[Implies]) -> list[WeightedFormula]:
    """Return for each predicate of a head the formula that its atoms need one of the bodies."""
    of_predicate: dict[tuple[str, int], list[Implies]] = {}
    for clause in clauses:
        head = clause.conclusion
        assert isinstance(head, Atom)
        of_predicate.setdefault((head.predicate, len(head.terms)), []).append(clause)
    return [complete_predicate(own) for own in of_predicate.values()]


def completed_predicate(statement: WeightedFormula) -> str:
    """Return the predicate that a formula of `complete` is about."""
    assert isinstance(statement.formula, Implies)
    assert isinstance(statement.formula.premise, Atom)
    return statement.formula.premise.predicate


def complete_predicate(clauses: Sequence[Implies]) -> WeightedFormula:
    """Return `Head(x) => body 1 v body 2 v …`, hard."""
    heads = [clause.conclusion for clause in clauses]
    assert all(isinstance(head, Atom) for head in heads)
    terms = [head.terms for head in heads if isinstance(head, Atom)]
    taken = {name for clause in clauses for name in all_variables(clause)}
    general: list[Term] = []
    for column in zip(*terms, strict=True):
        shared = set(column)
        first = column[0]
        if len(shared) > 1 or not isinstance(first, Variable) or first in general:
            first = Variable(fresh_name("x", taken))
            taken.add(first.name)
        general.append(first)
    names = {term.name for term in general if isinstance(term, Variable)}
    bodies = [define(clause, general, names) for clause in clauses]
    parts = [p for body in bodies for p in (body.parts if isinstance(body, Or) else (body,))]
    head = heads[0]
    assert isinstance(head, Atom)
    atom = replace(head, terms=tuple(general))
    conclusion = parts[0] if len(parts) == 1 else Or(tuple(parts))
    return WeightedFormula(Implies(atom, conclusion), hard=True, span=clauses[0].span)


def define(clause: Implies, general: Sequence[Term], names: set[str]) -> Formula:
    """Return the body of a clause for a head with general arguments.

    A variable of the clause that has the name of a general argument elsewhere is renamed.
    """
    head, body = clause.conclusion, clause.premise
    assert isinstance(head, Atom)
    taken = names | all_variables(clause)
    whole: Formula = Implies(body, head)
    kept = {
        t.name
        for t, g in zip(head.terms, general, strict=True)
        if isinstance(t, Variable) and t == g
    }
    for name in free_variables(whole):
        if name in names and name not in kept:
            fresh = fresh_name(name, taken)
            taken.add(fresh)
            whole = rename_variable(whole, name, fresh)
    assert isinstance(whole, Implies)
    body, head = whole.premise, whole.conclusion
    assert isinstance(head, Atom)
    equal: list[Formula] = [
        Comparison("=", g, t) for t, g in zip(head.terms, general, strict=True) if t != g
    ]
    inner = [*body.parts] if isinstance(body, And) else [body]
    whole = And((*equal, *inner)) if equal else body
    return quantify(whole, [*names])


def count_shares(formula: Formula, positive: bool = True) -> int:
    """Return the number of clauses that LoMRF makes: a conjunction of literals stays one."""
    match formula:
        case And(parts) | Or(parts):
            counts = [count_shares(part, positive) for part in parts]
            if isinstance(formula, And) is positive:
                units = [
                    count for part, count in zip(parts, counts, strict=True) if is_literal(part)
                ]
                return sum(counts) - max(len(units) - 1, 0)
            product = 1
            for part in parts:
                product *= 1 if is_literal(part) else split_count(part, positive)
            return product
        case Implies(premise, conclusion):
            return count_shares(Or((Not(premise), conclusion)), positive)
        case Iff(left, right):
            both = And((Or((Not(left), right)), Or((left, Not(right)))))
            return count_shares(both, positive)
        case Not(body):
            return count_shares(body, not positive)
        case _ if isinstance(formula, Quantifier):
            return count_shares(children(formula)[0], positive)
        case _:
            return 1


def split_count(formula: Formula, positive: bool) -> int:
    """Return the number of clauses of an operand of a disjunction: its literals are apart."""
    match formula:
        case Not(body):
            return split_count(body, not positive)
        case And(parts) | Or(parts) if isinstance(formula, And) is positive:
            return sum(split_count(part, positive) for part in parts)
        case _:
            return count_shares(formula, positive)


def is_literal(formula: Formula) -> bool:
    return isinstance(formula.body if isinstance(formula, Not) else formula, Atom | Comparison)

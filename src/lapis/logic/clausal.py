"""Convert a model to Alchemy's semantics: formulas split into clauses that share their weight.

A formula of weight w whose conjunctive normal form has k clauses becomes k rules of weight w / k,
each over the variables that it mentions. A weight to be learned becomes k weights. This is another
distribution: here a formula is one feature, but as clauses `1 H(i) ^ S(o)` gives weight 1/2 to
every H(i) and every S(o), however many pairs there are. It is for comparisons with Alchemy.

A variable of ∀ outside of ∃ becomes a variable of the clauses. An ∃ stays one literal, where
Alchemy writes out its constants; both mean the same if its body is a disjunction of literals.

A weighted clause of comparisons only is the same in every world: it has its share of the weight
and is dropped. Any other clause with a variable that only comparisons mention is written with a
false part that gives the variable its type, as in `R(z) v x != y v (P(x, y) ^ !P(x, y))`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

from lapis.errors import LapisError, TooLarge
from lapis.language.model import Model, Rule
from lapis.language.printer import print_product
from lapis.language.syntax import (
    And,
    Atom,
    Comparison,
    Exists,
    Formula,
    Iff,
    Not,
    Or,
    Term,
    Truth,
    Variable,
    atoms,
    bound_variables,
    free_variables,
    map_children,
    map_terms,
    subformulas,
)
from lapis.logic.passes import conjunction, disjunction, negate, push_negations, tidy

MAX_CLAUSES = 1_000  # of a formula


def clausal(model: Model) -> Model:
    """Convert every formula of a model to clauses, as Alchemy does.

    Parameters
    ----------
    model
        The model.

    Returns
    -------
    Model
        A rule for each clause; those of a formula share its weight equally.

    Raises
    ------
    TooLarge
        If a formula has more than a thousand clauses.

    Examples
    --------
    >>> import lapis
    >>> model = lapis.parse("H(t)\\nS(t)\\n1 H(x) <=> S(x)")
    >>> [(rule.weight, rule.text) for rule in lapis.clausal(model).rules]
    [(0.5, '!H(x) v S(x)'), (0.5, 'H(x) v !S(x)')]
    """
    return model.with_rules(tuple(part for rule in model.rules for part in split_rule(rule)))


def split_rule(rule: Rule) -> list[Rule]:
    if rule.utility is not None or rule.weight_by is not None:
        return [rule]
    try:
        clauses = [clause for clause in to_clauses(rule.formula) if clause != Truth(True)]
        number = len(clauses)
        if not rule.hard:
            clauses = [clause for clause in clauses if has_atoms(clause)]
    except TooLarge as error:
        raise TooLarge(
            f"the formula {rule.text!r} {error.message}", code=error.code, span=rule.span
        ) from None
    own = [name for name, _ in rule.variables]
    is_clause = number < 2 and all(set(free_variables(c)) <= set(own) for c in clauses)
    return [rule] if is_clause else [make_clause_rule(rule, c, number) for c in clauses]


def has_atoms(formula: Formula) -> bool:
    return any(isinstance(node, Atom) for node in subformulas(formula))


def add_types(clause: Formula, whole: Formula) -> Formula:
    """Add false parts for variables that the clause only compares, from atoms of the formula."""
    parts: list[Formula] = [*clause.parts] if isinstance(clause, Or) else [clause]
    missing = set(free_variables(clause)) - typed_variables(clause)
    for atom in atoms(whole):
        mentioned = free_variables(atom)
        if missing.intersection(mentioned):
            others = tuple(name for name in mentioned if name not in free_variables(clause))
            nothing = And((atom, Not(atom)))
            parts.append(Exists(others, nothing) if others else nothing)
            missing -= typed_variables(And((clause, atom)))
    return Or(tuple(parts)) if len(parts) > 1 else clause


def typed_variables(formula: Formula) -> set[str]:
    """Return the variables that atoms mention, and those compared with them."""
    found = {name for atom in atoms(formula) for name in free_variables(atom)}
    compared = [
        set(free_variables(node)) for node in subformulas(formula) if isinstance(node, Comparison)
    ]
    for _ in compared:
        for names in compared:
            if found & names:
                found |= names
    return found


def make_clause_rule(rule: Rule, clause: Formula, number: int) -> Rule:
    """Return the rule of one of `number` clauses."""
    types = dict(rule.variables + rule.bound)
    parts = [*(Atom(number.function, number.terms) for number in rule.numbers), clause]
    free = tuple(dict.fromkeys(name for part in parts for name in free_variables(part)))
    missing = [name for name in rule.plus if name not in free]
    if missing:
        raise LapisError(
            f"{rule.text!r} has a clause without '+{missing[0]}', so its weight is not determined",
            code="clause-plus",
            span=rule.span,
            hint="write each clause as a formula with a weight",
        )
    bound = [name for node in subformulas(clause) for name in bound_variables(node)]
    table = rule.instance_weights
    return replace(
        rule,
        formula=clause,
        variables=tuple((name, types[name]) for name in free),
        bound=tuple((name, types[name]) for name in bound),
        weight=None if rule.weight is None else rule.weight / number,
        text=print_product(
            [replace(n, terms=mark_terms(n.terms, rule.plus)) for n in rule.numbers],
            mark_plus(add_types(clause, rule.formula), rule.plus),
        ),
        plus=tuple(name for name in free if name in rule.plus),
        instance_weights=table and replace(table, value=tuple(w / number for w in table.value)),
    )


def to_clauses(formula: Formula) -> list[Formula]:
    """Return disjunctions of literals, comparisons and quantified parts whose conjunction is F.

    Raises TooLarge if there are more than `MAX_CLAUSES`.
    """
    match push_negations(tidy(formula)):
        case And(parts):
            return [clause for part in parts for clause in to_clauses(part)]
        case Or(parts):
            sides = [to_clauses(part) for part in parts]
            if prod(map(len, sides)) > MAX_CLAUSES:
                raise TooLarge(f"has more than {MAX_CLAUSES:,} clauses", code="too-many-clauses")
            return [disjunction(chosen) for chosen in product(*sides)]
        case Not(Exists(_, body)):
            return to_clauses(negate(body))
        case Iff(left, right):
            ways = disjunction((negate(left), right)), disjunction((left, negate(right)))
            return to_clauses(conjunction(ways))
        case Not(Iff(left, right)):
            return to_clauses(Iff(negate(left), right))
        case leaf:
            return [leaf]


def mark_plus(formula: Formula, plus: tuple[str, ...]) -> Formula:
    """Mark variables with +."""
    return map_terms(
        map_children(formula, lambda part: mark_plus(part, plus)),
        lambda term: mark_terms((term,), plus)[0],
    )


def mark_terms(terms: tuple[Term, ...], plus: tuple[str, ...]) -> tuple[Term, ...]:
    return tuple(
        replace(term, plus=True) if isinstance(term, Variable) and term.name in plus else term
        for term in terms
    )

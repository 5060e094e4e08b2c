"""The syntax tree of a Markov logic file.

    program     = statement*
    statement   = Include | TypeDeclaration | PredicateDeclaration | FunctionDeclaration
                | WeightedFormula | Cardinality | ProbabilityConstraint
    formula     = Atom | Comparison | Truth | Not | And | Or | Implies | Iff
                | Exists | ForAll | CountExists
    term        = Variable | Constant | Application | Offset

Nodes are frozen and hashable. Equality ignores spans. `And` and `Or` have two or more parts and
never nest in themselves on the left, so `a ^ b ^ c` is one node, and parsing its text gives it
back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter, is_
from typing import Literal as Choice

from lapis.errors import Span

ComparisonOperator = Choice["=", "!=", "<", ">", "<=", ">="]


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    """A node with its place in the source."""

    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Variable(SyntaxNode):
    name: str
    plus: bool = False  # written +x: one weight for each constant


@dataclass(frozen=True, slots=True)
class Constant(SyntaxNode):
    name: str  # without quotes


@dataclass(frozen=True, slots=True)
class Application(SyntaxNode):
    """A function applied to terms, f(x, A), plus a number, f(x) + 0.5."""

    function: str
    terms: tuple[Term, ...]
    amount: float = 0


@dataclass(frozen=True, slots=True)
class Offset(SyntaxNode):
    """A numeric variable moved by a number, i+1 or i-2."""

    variable: Variable
    amount: float


Term = Variable | Constant | Application | Offset


@dataclass(frozen=True, slots=True)
class Atom(SyntaxNode):
    predicate: str
    terms: tuple[Term, ...]
    starred: bool = False  # written *P(x): one formula for each sign


@dataclass(frozen=True, slots=True)
class Comparison(SyntaxNode):
    operator: ComparisonOperator
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Truth(SyntaxNode):
    value: bool


@dataclass(frozen=True, slots=True)
class Not(SyntaxNode):
    body: Formula


@dataclass(frozen=True, slots=True)
class And(SyntaxNode):
    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Or(SyntaxNode):
    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Implies(SyntaxNode):
    premise: Formula
    conclusion: Formula


@dataclass(frozen=True, slots=True)
class Iff(SyntaxNode):
    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class Exists(SyntaxNode):
    variables: tuple[str, ...]
    body: Formula


@dataclass(frozen=True, slots=True)
class ForAll(SyntaxNode):
    variables: tuple[str, ...]
    body: Formula


@dataclass(frozen=True, slots=True)
class CountExists(SyntaxNode):
    """A bound on the number of values that satisfy the body: EXIST{=2} y F(x, y)."""

    variables: tuple[str, ...]  # one
    body: Formula
    operator: Choice["=", "<=", ">="]
    bound: int


Quantifier = Exists | ForAll | CountExists
Formula = Atom | Comparison | Truth | Not | And | Or | Implies | Iff | Quantifier


@dataclass(frozen=True, slots=True)
class Include(SyntaxNode):
    path: str


@dataclass(frozen=True, slots=True)
class TypeDeclaration(SyntaxNode):
    name: str
    constants: tuple[str, ...]
    size: int | None = None  # written t = 3 {A}: constants without names fill it up


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument position of a declaration: its type and the mark behind it."""

    type: str
    mark: Choice["", "!", "?"] = ""  # ! exactly one value, ? at most one


@dataclass(frozen=True, slots=True)
class PredicateDeclaration(SyntaxNode):
    name: str
    parameters: tuple[Parameter, ...]
    closed: bool = False  # written *P(t): evidence, false unless the data states it
    factors: tuple[float, float] | None = None  # weights of a true and of a false atom (WFOMC)


@dataclass(frozen=True, slots=True)
class FunctionDeclaration(SyntaxNode):
    value: str  # the type of the value
    name: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NumberFactor(SyntaxNode):
    """A number that a formula is multiplied by, sim(x, y) or log(sim(x, y))."""

    function: str
    terms: tuple[Term, ...]
    logarithm: bool = False


@dataclass(frozen=True, slots=True)
class Setting(SyntaxNode):
    """A plus variable at one constant, w = Java."""

    variable: str
    constant: str


@dataclass(frozen=True, slots=True)
class WeightedFormula(SyntaxNode):
    """A formula of a file. If it has no weight and is not hard, its weight is to be learned."""

    formula: Formula
    weight: float | None = None
    weight_text: str | None = None  # as written, e.g. log(3)/2
    hard: bool = False
    fixed: bool = False  # written @fixed: not learned
    utility: float | None = None  # written weight:utility (decision problems)
    at: tuple[Setting, ...] = ()  # written F @ w = Java: the constants that the weight is for
    weight_by: str | None = None  # written w: F: the variable whose constant is the weight
    numbers: tuple[NumberFactor, ...] = ()  # written sim(x, y) * F


@dataclass(frozen=True, slots=True)
class Cardinality(SyntaxNode):
    """A hard constraint on numbers of true atoms: Σ coefficient·|P| operator bound."""

    parts: tuple[tuple[int, str], ...]
    operator: ComparisonOperator
    bound: int


@dataclass(frozen=True, slots=True)
class ProbabilityConstraint(SyntaxNode):
    """A probability that is stated for a formula, as in files of ProbCog.

    `P(F) = 0.4`: the marginal probability of F without evidence; the weight of F is fitted to it.
    `R(F) = 0.4`, or `SE(F) = 0.4`: the marginal probability of F after all evidence.
    """

    formula: Formula
    probability: float  # in [0, 1]
    posterior: bool  # R(F): with the evidence


Statement = (
    Include
    | TypeDeclaration
    | PredicateDeclaration
    | FunctionDeclaration
    | WeightedFormula
    | Cardinality
    | ProbabilityConstraint
)


@dataclass(frozen=True, slots=True)
class Program:
    statements: tuple[Statement, ...]


# A table: it is faster than a match statement, and every pass uses it for every node.
_CHILDREN: dict[type, Callable[..., tuple[Formula, ...]]] = {
    And: attrgetter("parts"),
    Or: attrgetter("parts"),
    Implies: attrgetter("premise", "conclusion"),
    Iff: attrgetter("left", "right"),
    Not: lambda formula: (formula.body,),
    Exists: lambda formula: (formula.body,),
    ForAll: lambda formula: (formula.body,),
    CountExists: lambda formula: (formula.body,),
    Atom: lambda _: (),
    Comparison: lambda _: (),
    Truth: lambda _: (),
}


def children(formula: Formula) -> tuple[Formula, ...]:
    """Return the direct subformulas."""
    return _CHILDREN[type(formula)](formula)


def map_children(formula: Formula, function: Callable[[Formula], Formula]) -> Formula:
    """Replace the direct subformulas; return the same node if none changes."""
    before = children(formula)
    after = tuple(map(function, before))
    if all(map(is_, before, after)):
        return formula
    match formula:
        case And() | Or():
            return replace(formula, parts=after)
        case Implies():
            return replace(formula, premise=after[0], conclusion=after[1])
        case Iff():
            return replace(formula, left=after[0], right=after[1])
        case Not() | Exists() | ForAll() | CountExists():
            return replace(formula, body=after[0])
        case _:
            return formula


def map_terms(formula: Formula, function: Callable[[Term], Term]) -> Formula:
    """Replace the terms of an atom or comparison; subformulas stay."""
    before = terms_of(formula)
    after = tuple(map(function, before))
    if all(map(is_, before, after)):
        return formula
    if isinstance(formula, Comparison):
        return replace(formula, left=after[0], right=after[1])
    assert isinstance(formula, Atom)
    return replace(formula, terms=after)


def subformulas(formula: Formula) -> Iterator[Formula]:
    """Yield the formula and all its subformulas in reading order."""
    pending = [formula]
    while pending:
        node = pending.pop()
        yield node
        pending += children(node)[::-1]


def atoms(formula: Formula) -> Iterator[Atom]:
    return (node for node in subformulas(formula) if isinstance(node, Atom))


def terms_of(node: Formula) -> tuple[Term, ...]:
    """Return the terms of an atom or comparison; other nodes have none."""
    if isinstance(node, Atom):
        return node.terms
    return (node.left, node.right) if isinstance(node, Comparison) else ()


def term_variables(term: Term) -> Iterator[Variable]:
    match term:
        case Variable():
            yield term
        case Offset(variable, _):
            yield variable
        case Application(_, terms):
            for inner in terms:
                yield from term_variables(inner)


def free_variables(formula: Formula) -> tuple[str, ...]:
    """Return the names of the free variables in order of first occurrence."""
    seen: dict[str, None] = {}
    nothing: frozenset[str] = frozenset()
    pending = [(formula, nothing)]
    while pending:
        node, bound = pending.pop()
        if isinstance(node, Quantifier):
            bound = bound.union(node.variables)
        for term in terms_of(node):
            for variable in term_variables(term):
                if variable.name not in bound:
                    seen.setdefault(variable.name)
        pending += [(child, bound) for child in children(node)[::-1]]
    return tuple(seen)


def bound_variables(node: Formula) -> tuple[str, ...]:
    return node.variables if isinstance(node, Quantifier) else ()


def fresh_name(name: str, taken: Container[str]) -> str:
    """Return the name, followed by a number if it is taken."""
    candidates = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(2)))
    return next(candidate for candidate in candidates if candidate not in taken)


def all_variables(formula: Formula) -> set[str]:
    """Return the names of all variables, free and quantified."""
    found: set[str] = set()
    for node in subformulas(formula):
        found.update(bound_variables(node))
        for term in terms_of(node):
            found.update(variable.name for variable in term_variables(term))
    return found

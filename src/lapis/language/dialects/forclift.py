"""Parse what files of Forclift have beside Alchemy's format, and its `.wmc` and `.fg` files.

In `.mln` files: `q <= F` (formulas.py), sizes of domains `person = 3 {Anna}`, sub-domains
`person = {male, female}` with sizes of their own, and constraints on the variables of a formula
`F, x != y, x in male`. A formula with constraints has no groundings that violate them.

In `.wmc` files every line is a clause that holds, and `.fg` files have factors:

    domain Person 3 {anna}               variables are upper-case, constants lower-case
    predicate smokes(Person) 2.5 1       weights of a true and of a false atom
    !p(X) v !q(X,Y), X != Y              a clause
    smokes(X) and friends(X,Y) 0.2 0.8   the factor of worlds in which it is true, and false
    smokes(X) or friends(X,Y) 0.2 0.8
    if smokes(X) then cancer(X) 0.3 else 0.1
    smokes(anna)                         evidence
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lapis.errors import LapisError, Source, Span, suggestion
from lapis.language.formulas import IN_UPPER_CASE, Grammar, parse_formula_tokens, variable_name
from lapis.language.lexer import CLOSING, OPENING, Token, tokenize
from lapis.language.names import is_whole
from lapis.language.syntax import (
    And,
    Atom,
    Comparison,
    Constant,
    Formula,
    Implies,
    Not,
    Or,
    Parameter,
    PredicateDeclaration,
    Statement,
    TypeDeclaration,
    Variable,
    WeightedFormula,
    map_children,
)

MAX_SIZE = 10_000_000
IN_DOMAIN = " in "  # in the names of atoms that stand for "x in male" until all types are read
UPPER = Grammar(lambda name: name[0].isupper(), IN_UPPER_CASE)
THEORY = re.compile(r"^[ \t]*domain[ \t]+\w+[ \t]+\d+\b", re.MULTILINE)


def split_constraints(tokens: list[Token]) -> tuple[list[Token], list[list[Token]]]:
    """Split `F, x != y, x in male` into F and its constraints."""
    depth, commas = 0, []
    for place, token in enumerate(tokens):
        depth += (token.kind in OPENING) - (token.kind in CLOSING)
        if token.kind == "COMMA" and depth == 0:
            commas.append(place)
    end, found = len(tokens), []
    for comma in reversed(commas):
        part = tokens[comma + 1 : end]
        kinds = [token.kind for token in part]
        is_unequal = kinds in (["NAME", "NE", word] for word in ("NAME", "NUMBER", "STRING"))
        is_member = kinds == ["NAME"] * 3 and part[1].text == "in"
        if not (is_unequal or is_member):
            break
        found.append(part)
        end = comma
    return tokens[:end], found[::-1]


def constrain(
    formula: Formula,
    constraints: Iterable[list[Token]],
    source: Source,
    grammar: Grammar,
    *,
    hard: bool,
) -> Formula:
    """Return the formula for the groundings that satisfy constraints only."""
    conditions: list[Formula] = []
    for part in constraints:
        if part[1].kind == "NE":
            conditions.append(parse_formula_tokens(part, source, grammar))
        else:
            span = Span(source, part[0].start, part[-1].end)
            variable = Variable(variable_name(part[0].text), span=span)
            conditions.append(Atom(IN_DOMAIN + part[2].text, (variable,), span=span))
    if not conditions:
        return formula
    parts = formula.parts if isinstance(formula, And) else (formula,)
    if not hard:
        return And((*conditions, *parts), span=formula.span)
    premise = conditions[0] if len(conditions) == 1 else And(tuple(conditions))
    return Implies(premise, formula, span=formula.span)


def parse_sized_type(tokens: list[Token], source: Source, span: Span) -> TypeDeclaration:
    """Parse `person = 3 {}` or `person = 3 {Anna, Bob}`."""
    from lapis.language.parser import parse_constants

    name, size = tokens[0].text, tokens[2].text
    if not is_whole(size) or int(size) > MAX_SIZE:
        raise LapisError(
            f"a domain size is a whole number up to {MAX_SIZE:,}", code="domain-size", span=span
        )
    constants = parse_constants(tokens[4:-1], source)
    if len(constants) > int(size):
        raise LapisError(
            f"the size of type {name!r} is {size}, but {len(constants)} constants are named",
            code="domain-size",
            span=span,
        )
    return TypeDeclaration(name, constants, int(size), span=span)


def is_sized_type(tokens: Sequence[Token]) -> bool:
    kinds = [token.kind for token in tokens]
    return kinds[:4] == ["NAME", "EQ", "NUMBER", "LBRACE"] and kinds[-1] == "RBRACE"


def merge_subdomains(statements: Sequence[Statement], *, has_members: bool) -> list[Statement]:
    """Replace sub-domains by their constants: in their domain, and where x is in one of them.

    `has_members`: the file may have such constraints "x in male".
    """
    domains = Domains({s.name: s for s in statements if isinstance(s, TypeDeclaration)})
    if not domains.below and not has_members:
        return list(statements)
    merged: list[Statement] = []
    for statement in statements:
        if isinstance(statement, WeightedFormula):
            formula = domains.insert(statement.formula)
            if formula is not statement.formula:
                statement = replace(statement, formula=formula)
        elif isinstance(statement, TypeDeclaration):
            if statement.name in domains.below:
                continue
            if domains.parts[statement.name]:
                constants = domains.constants_of(statement.name)
                statement = TypeDeclaration(statement.name, constants, span=statement.span)
        merged.append(statement)
    return merged


class Domains:
    """The domains of a file; parts of a domain are constants that name a domain."""

    def __init__(self, types: Mapping[str, TypeDeclaration]) -> None:
        self.types = types
        self.parts = {
            name: [c for c in found.constants if c in types and c != name]
            for name, found in types.items()
        }
        self.below = {part for parts in self.parts.values() for part in parts}

    def constants_of(self, name: str, above: frozenset[str] = frozenset()) -> tuple[str, ...]:
        """Return the constants of a domain and of its parts."""
        named: dict[str, None] = {}
        for constant in self.types[name].constants:
            if constant in self.parts[name] and constant not in above:
                named |= dict.fromkeys(self.constants_of(constant, above | {name}))
            else:
                named[constant] = None
        size = self.types[name].size
        return tuple(named) if size is None else fill(name, named, size)

    def insert(self, formula: Formula) -> Formula:
        """Replace atoms that stand for "x in male"."""
        if isinstance(formula, Atom) and formula.predicate.startswith(IN_DOMAIN):
            return self.membership(formula)
        return map_children(formula, self.insert)

    def membership(self, atom: Atom) -> Formula:
        name = atom.predicate.removeprefix(IN_DOMAIN)
        if name not in self.types:
            raise LapisError(
                f"unknown domain {name!r}",
                code="unknown-domain",
                span=atom.span,
                hint=suggestion(
                    name, self.types, f"list its constants, or give its size: {name} = 3 {{}}"
                ),
            )
        variable = atom.terms[0]
        equal = [Comparison("=", variable, Constant(c)) for c in self.constants_of(name)]
        if name not in self.below or not equal:
            return Comparison("=", variable, variable)
        return equal[0] if len(equal) == 1 else Or(tuple(equal), span=atom.span)


def fill(name: str, named: Mapping[str, None], size: int) -> tuple[str, ...]:
    """Return the named constants, and made-up ones up to the size."""
    found = dict.fromkeys(named)
    number = 0
    while len(found) < size:
        found.setdefault(f"{name}{number}")
        number += 1
    return tuple(found)


def is_theory(source: Source) -> bool:
    """Return whether a text has a line `domain Person 3`, as `.wmc` and `.fg` files do."""
    return bool(THEORY.search(source.text))


def parse_theory(source: Source) -> tuple[list[Statement], list[LapisError]]:
    """Parse a `.wmc` or `.fg` file, line by line."""
    statements: list[Statement] = []
    errors: list[LapisError] = []
    line: list[Token] = []
    for token in [*tokenize(source, hash_comments=True), Token("NEWLINE", "", 0, 0)]:
        if isinstance(token, LapisError):
            errors.append(token)
        elif token.kind != "NEWLINE":
            line.append(token)
        elif line:
            try:
                statements += parse_line(line, source)
            except LapisError as error:
                errors.append(error)
            line = []
    return statements, errors


def parse_line(tokens: list[Token], source: Source) -> list[Statement]:
    span = Span(source, tokens[0].start, tokens[-1].end)
    word = tokens[0].text
    if word == "domain" and len(tokens) > 2:
        return [parse_theory_domain(tokens, source, span)]
    if word == "predicate":
        return [parse_theory_predicate(tokens, source, span)]
    if word == "if":
        return parse_conditional(tokens, source, span)
    tokens, factors = split_numbers(tokens)
    words = [token.text for token in tokens]
    connective = "and" if "and" in words else "or"
    tokens, constraints = split_constraints(tokens)
    literals = [parse_literal(part, source, span) for part in split_literals(tokens, connective)]
    if len(literals) == 1:
        formula = literals[0]
    else:
        formula = And(tuple(literals)) if connective == "and" else Or(tuple(literals))
    if not factors:
        formula = constrain(formula, constraints, source, UPPER, hard=True)
        return [WeightedFormula(formula, hard=True, span=span)]
    if len(factors) != 2 or constraints:
        raise LapisError(
            "a factor has two numbers: for worlds in which it is true, and for others",
            code="factor",
            span=span,
        )
    return [*factor(formula, factors[0], span), *factor(Not(formula), factors[1], span)]


def factor(formula: Formula, value: float, span: Span) -> list[Statement]:
    """Return a rule for a factor of the worlds in which a formula is true."""
    if value < 0 or not math.isfinite(value):
        raise LapisError(
            f"the factor {value:g} defines no probabilities",
            code="factor",
            span=span,
            hint="only predicates can have negative weights: predicate p(D) -1 1",
        )
    if value == 0:
        return [WeightedFormula(Not(formula), hard=True, span=span)]
    if value == 1:
        return []
    weight = math.log(value)
    return [WeightedFormula(formula, weight, repr(weight), fixed=True, span=span)]


def parse_theory_domain(tokens: list[Token], source: Source, span: Span) -> TypeDeclaration:
    """Parse `domain Person 3 {anna}`."""
    wrong = LapisError(
        "a domain has a name, a size, and perhaps constants",
        code="domain-size",
        span=span,
        hint="as in domain Person 3 {anna, bob}",
    )
    if [token.kind for token in tokens[1:3]] != ["NAME", "NUMBER"]:
        raise wrong
    start = Token("NAME", variable_name(tokens[1].text), tokens[1].start, tokens[1].end)
    rest = tokens[3:] or [
        Token("LBRACE", "{", span.end, span.end),
        Token("RBRACE", "}", span.end, span.end),
    ]
    equal = Token("EQ", "=", tokens[1].end, tokens[1].end)
    statement = [start, equal, tokens[2], *rest]
    if not is_sized_type(statement):
        raise wrong
    return parse_sized_type(statement, source, span)


def parse_theory_predicate(tokens: list[Token], source: Source, span: Span) -> PredicateDeclaration:
    """Parse `predicate smokes(Person) 2.5 1`."""
    rest, factors = split_numbers(tokens[1:])
    kinds = [token.kind for token in rest]
    names = [token.text for token in rest if token.kind == "NAME"]
    shape = ["NAME", *(["LPAR", *["NAME", "COMMA"] * (len(names) - 1)][:-1]), "RPAR"]
    if len(factors) not in (0, 2) or kinds != (shape if len(names) > 1 else ["NAME"]):
        raise LapisError(
            "a predicate has a name, domains, and perhaps two weights",
            code="predicate",
            span=span,
            hint="as in predicate friends(Person,Person) 0.5 1",
        )
    return PredicateDeclaration(
        names[0],
        tuple(Parameter(variable_name(name)) for name in names[1:]),
        factors=(factors[0], factors[1]) if factors else None,
        span=span,
    )


def split_numbers(tokens: list[Token]) -> tuple[list[Token], list[float]]:
    """Split off the numbers at the end of a line."""
    values: list[float] = []
    end = len(tokens)
    while end and tokens[end - 1].kind == "NUMBER":
        negative = end > 1 and tokens[end - 2].kind == "MINUS"
        values.insert(0, (-1 if negative else 1) * float(tokens[end - 1].text))
        end -= 2 if negative else 1
    return tokens[:end], values


def split_literals(tokens: list[Token], connective: str) -> list[list[Token]]:
    """Split the literals of a line at `and`, or at `or`, `v`, `|` and commas."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.kind in OPENING) - (token.kind in CLOSING)
        is_or = token.kind in ("OR", "BAR", "COMMA") or token.text in ("or", "V")
        if depth == 0 and (token.text == "and" if connective == "and" else is_or):
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def parse_literal(tokens: list[Token], source: Source, span: Span) -> Formula:
    found = parse_formula_tokens(tokens, source, UPPER) if tokens else None
    atom = found.body if isinstance(found, Not) else found
    if found is None or not isinstance(atom, Atom | Comparison):
        raise LapisError("expected a literal, such as p(X) or !p(anna)", code="literal", span=span)
    return found


def parse_conditional(tokens: list[Token], source: Source, span: Span) -> list[Statement]:
    """Parse `if p(X) then q(X) 0.3 else 0.1`.

    The factors of p ^ q and p ^ !q are 0.3 and 0.7, those of !p ^ q and !p ^ !q are 0.1 and 0.9;
    without `else`, that of !p is 0.5, as in Forclift.
    """
    words = [token.text for token in tokens]
    try:
        then = words.index("then")
    except ValueError:
        raise LapisError("'if' needs 'then'", code="conditional", span=span) from None
    has_else = "else" in words
    other = words.index("else") if has_else else len(tokens)
    body, first = split_numbers(tokens[then + 1 : other])
    _, second = split_numbers(tokens[other + 1 :])
    values = [*first, *second]
    if len(first) != 1 or len(second) != has_else or not all(0 <= v <= 1 for v in values):
        raise LapisError(
            "a conditional has a probability from 0 to 1 after 'then', and one after 'else'",
            code="conditional",
            span=span,
            hint="as in if smokes(X) then cancer(X) 0.3 else 0.1",
        )
    condition = parse_literal(tokens[1:then], source, span)
    result = parse_literal(body, source, span)
    chances = [(first[0], 1 - first[0]), (second[0], 1 - second[0]) if second else (0.5, 0.5)]
    found: list[Statement] = []
    for given, chance in zip((condition, Not(condition)), chances, strict=True):
        for sign, value in zip((result, Not(result)), chance, strict=True):
            found += factor(And((given, sign)), value, span)
    return found

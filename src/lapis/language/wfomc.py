"""Files of the weighted first-order model counting tools, read as Markov logic.

They differ from Alchemy's in that variables are upper-case and constants lower-case, comments
start with #, the one domain is given by its size (`person = 3`, constants person0…person2),
predicates are not declared, and there are cardinality constraints (`|P| - |Q| = 0`), evidence
lines (`p(a), ~q(b)`) and `ExactlyOne[P, Q]`. All of it is translated into our statements; the
size declaration is what gives such a file away.
"""

from __future__ import annotations

import re

from lapis.errors import LapisError, Source, Span
from lapis.language.cardinality import is_cardinality, parse_cardinality
from lapis.language.formulas import parse_formula_tokens, variable_name
from lapis.language.lexer import Token, split_statements, tokenize
from lapis.language.syntax import (
    And,
    Atom,
    Formula,
    Not,
    Or,
    Parameter,
    PredicateDeclaration,
    Statement,
    TypeDeclaration,
    Variable,
    WeightedFormula,
    atoms,
)
from lapis.language.weights import evaluate_weight, weight_and_period, weight_length

SIZE = re.compile(r"^\s*[^\W\d_]\w*\s*=\s*\d+\s*(#.*)?$", re.MULTILINE)
MAX_SIZE = 10_000_000


def is_wfomc(text: str) -> bool:
    return SIZE.search(text) is not None


def parse_wfomc(source: Source) -> tuple[list[Statement], list[LapisError]]:
    """Declarations inferred from use, then the file's statements in order."""
    types: list[TypeDeclaration] = []
    body: list[Statement] = []
    errors: list[LapisError] = []
    tokens = list(tokenize(source, hash_comments=True))
    for found in split_statements(tokens):
        unreadable = [token for token in found if isinstance(token, LapisError)]
        if unreadable:
            errors += unreadable
            continue
        statement = [token for token in found if isinstance(token, Token)]
        span = Span(source, statement[0].start, statement[-1].end)
        try:
            if [t.kind for t in statement] == ["NAME", "EQ", "NUMBER"]:
                types.append(parse_size(statement, span))
            else:
                body.append(parse_statement(statement, source, span))
        except LapisError as error:
            errors.append(error)
    if len(types) > 1:
        errors.append(
            LapisError("these files have one domain", code="several-domains", span=types[1].span)
        )
    declared = declarations(body, types[0].name) if types else []
    return [*types, *declared, *body], errors


def parse_size(tokens: list[Token], span: Span) -> TypeDeclaration:
    """`d = 3`, or `D = 3`: the names of types start with a lower-case letter."""
    name, size = variable_name(tokens[0].text), tokens[2].text
    if not name[0].islower() or name == "v":
        raise LapisError(
            f"{tokens[0].text!r} cannot name a domain",
            code="domain-name",
            span=span,
            hint="a domain is named by a word that starts with a letter, other than v",
        )
    if not size.isdecimal() or int(size) > MAX_SIZE:
        raise LapisError(
            f"a domain size is a whole number up to {MAX_SIZE:,}", code="domain-size", span=span
        )
    return TypeDeclaration(name, tuple(f"{name}{i}" for i in range(int(size))), span)


def parse_statement(tokens: list[Token], source: Source, span: Span) -> Statement:
    kinds = [token.kind for token in tokens]
    if is_cardinality(tokens):
        return parse_cardinality(tokens, span)
    if tokens[0].text == "ExactlyOne" and kinds[1:2] == ["LSQB"]:
        return WeightedFormula(exactly_one(tokens, span), hard=True, span=span)
    hard = kinds[-1] == "PERIOD"
    length = weight_length(tokens)
    formula = tokens[length : len(tokens) - hard]
    if not formula:
        raise LapisError("there is no formula here", code="empty-formula", span=span)
    if length and hard:
        raise weight_and_period(Span(source, tokens[-1].start, tokens[-1].end))
    if not length and not hard:
        return WeightedFormula(parse_evidence(formula, source), hard=True, span=span)
    weight = evaluate_weight(tokens[:length], source) if length else None
    text = "".join(token.text for token in tokens[:length]) or None
    tree = parse_formula_tokens(formula, source, starts_upper)
    return WeightedFormula(tree, weight, text, hard, span=span)


def starts_upper(name: str) -> bool:
    return "A" <= name[0] <= "Z"


def parse_evidence(tokens: list[Token], source: Source) -> Formula:
    """p(a), ~q(b) as a conjunction."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.kind == "LPAR") - (token.kind == "RPAR")
        if token.kind == "COMMA" and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    if not all(parts):
        comma = tokens[-1]
        raise LapisError(
            "a literal is expected on both sides of a comma",
            code="evidence",
            span=Span(source, comma.start, comma.end),
        )
    literals = tuple(parse_formula_tokens(part, source, starts_upper) for part in parts)
    if len(literals) == 1:
        return literals[0]
    first = literals[0].parts if isinstance(literals[0], And) else literals[:1]
    return And((*first, *literals[1:]))


def exactly_one(tokens: list[Token], span: Span) -> Formula:
    names = [token.text for token in tokens[2:] if token.kind == "NAME"]
    shape = [t.kind for t in tokens[2:] if t.kind not in ("COMMA", "NAME")]
    if shape != ["RSQB", "PERIOD"] or len(names) < 2:
        raise LapisError(
            "ExactlyOne[P, Q, ...]. takes two or more predicates", code="exactly-one", span=span
        )
    found = [Atom(name, (Variable("x"),)) for name in names]
    pairs = tuple(
        Not(And((first, second))) for i, first in enumerate(found) for second in found[i + 1 :]
    )
    return And((Or(tuple(found)), *pairs), span)


def declarations(body: list[Statement], type_name: str) -> list[PredicateDeclaration]:
    """A declaration for each predicate used, over the one domain."""
    found: dict[str, PredicateDeclaration] = {}
    for statement in body:
        if isinstance(statement, WeightedFormula):
            for atom in atoms(statement.formula):
                parameters = tuple(Parameter(type_name) for _ in atom.terms)
                found.setdefault(atom.predicate, PredicateDeclaration(atom.predicate, parameters))
    return list(found.values())

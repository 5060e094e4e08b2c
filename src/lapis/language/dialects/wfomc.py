"""Parse files of weighted first-order model counting (WFOMC) tools.

They differ from Alchemy's format:

- variables are upper-case, constants lower-case, and comments start with #;
- the one domain is given by its size (`person = 3`, constants person0…person2) or its constants;
- predicates are not declared, and a formula without weight and period is hard;
- there are cardinality constraints (`|P| - |Q| = 0`), evidence lines (`p(a), ~q(b)`), weights of
  true and false atoms (`2.7 1 p`), `ExactlyOne[P, Q]`, and predicates of linear orders (sugar.py).

A file is read in this format if it states a size or quantifies an upper-case variable. Names that
are no constants of the domain are errors: they show that the file is in Alchemy's format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lapis.errors import LapisError, Source, Span
from lapis.language.formulas import (
    IN_UPPER_CASE,
    Grammar,
    evaluate_weight,
    is_cardinality,
    parse_cardinality,
    parse_formula_tokens,
    variable_name,
    weight_and_period_error,
    weight_length,
)
from lapis.language.lexer import Token, split_statements, tokenize
from lapis.language.names import is_whole
from lapis.language.parser import parse_type
from lapis.language.sugar import order_axioms
from lapis.language.syntax import (
    And,
    Constant,
    Formula,
    Parameter,
    PredicateDeclaration,
    Statement,
    TypeDeclaration,
    WeightedFormula,
    atoms,
    subformulas,
    terms_of,
)

SPACE = r"[^\S\n]*+"
SIZE = re.compile(rf"^{SPACE}[^\W\d_]\w*{SPACE}={SPACE}\d+{SPACE}((#|//).*)?$", re.MULTILINE)
QUANTIFIED = re.compile(r"\\(?:exists(?:_\{[^}\n]{0,40}\})?|forall)\s+[A-Z]\w*\s*:")
MAX_SIZE = 10_000_000


def is_wfomc(source: Source) -> bool:
    """Return whether a statement gives a domain size or quantifies an upper-case variable."""
    if not (SIZE.search(source.text) or QUANTIFIED.search(source.text)):
        return False
    statements = split_statements(list(tokenize(source, hash_comments=True)))
    return any(is_size(s) or any(is_quantifier(t, source) for t in s) for s in statements)


def is_size(statement: Sequence[Token | LapisError]) -> bool:
    return [t.kind for t in statement if isinstance(t, Token)] == ["NAME", "EQ", "NUMBER"]


def is_quantifier(token: Token | LapisError, source: Source) -> bool:
    return isinstance(token, Token) and bool(QUANTIFIED.match(source.text, token.start))


def parse_wfomc(source: Source) -> tuple[list[Statement], list[LapisError]]:
    """Return declarations inferred from use and the statements in order, and the errors."""
    types: list[TypeDeclaration] = []
    body: list[Statement] = []
    errors: list[LapisError] = []
    weights: dict[str, tuple[tuple[float, float], Span]] = {}
    tokens = list(tokenize(source, hash_comments=True))
    for found in split_statements(tokens):
        unreadable = [token for token in found if isinstance(token, LapisError)]
        if unreadable:
            errors += unreadable
            continue
        statement = [token for token in found if isinstance(token, Token)]
        span = Span(source, statement[0].start, statement[-1].end)
        try:
            factors, predicate = read_factors(statement)
            if is_size(statement):
                types.append(parse_domain_size(statement, span))
            elif [token.kind for token in statement[:3]] == ["NAME", "EQ", "LBRACE"]:
                types.append(parse_domain(statement, source, span))
            elif factors is not None:
                weights[predicate] = factors, span
            else:
                body.append(parse_wfomc_statement(statement, source, span))
        except LapisError as error:
            errors.append(error)
    if len(types) > 1:
        errors.append(
            LapisError("a WFOMC file has one domain", code="several-domains", span=types[1].span)
        )
    if not types and not errors:
        whole = Span(source, 0, len(source.text))
        errors.append(LapisError("the domain is missing", code="no-domain", span=whole))
    errors += find_unknown_constants(body, types[0]) if types else []
    used = [a.predicate for s in body if isinstance(s, WeightedFormula) for a in atoms(s.formula)]
    body += [WeightedFormula(axiom, hard=True) for axiom in order_axioms(used)]
    errors += [
        LapisError(f"weights of {name!r}, which no formula mentions", code="weights", span=span)
        for name, (_, span) in weights.items()
        if name not in used
    ]
    declared = declare_predicates(body, types[0].name, weights) if types else []
    return [*types, *declared, *body], errors


def find_unknown_constants(body: Sequence[Statement], domain: TypeDeclaration) -> list[LapisError]:
    """Return an error for each name in formulas that is no constant of the domain."""
    first: dict[str, Span | None] = {}
    for statement in body:
        if isinstance(statement, WeightedFormula):
            for node in subformulas(statement.formula):
                for term in terms_of(node):
                    if isinstance(term, Constant) and term.name not in domain.constants:
                        first.setdefault(term.name, term.span)
    return [
        LapisError(
            f"{name!r} is no constant of the domain {domain.name!r}",
            code="outside-domain",
            span=span,
            hint="this is read as a WFOMC file, whose variables are upper-case; "
            f"in other files list the constants of a type, as in {domain.name} = {{A, B, C}}",
        )
        for name, span in first.items()
    ]


def parse_domain_size(tokens: list[Token], span: Span) -> TypeDeclaration:
    """Parse `d = 3`, or `D = 3`: the names of types start with a lower-case letter."""
    name, size = variable_name(tokens[0].text), tokens[2].text
    if not is_whole(size) or int(size) > MAX_SIZE:
        raise LapisError(
            f"a domain size is a whole number up to {MAX_SIZE:,}", code="domain-size", span=span
        )
    constants = tuple(f"{name}{i}" for i in range(int(size)))
    return TypeDeclaration(type_name(tokens[0].text, span=span), constants, span=span)


def parse_domain(tokens: list[Token], source: Source, span: Span) -> TypeDeclaration:
    """Parse `d = {a, b, c}`."""
    found = parse_type(tokens, source, span)
    return TypeDeclaration(type_name(found.name, span=span), found.constants, span=span)


def type_name(text: str, span: Span) -> str:
    name = variable_name(text)
    if not name[0].islower():
        raise LapisError(f"{text!r} cannot name a domain", code="domain-name", span=span)
    return "v_" if name == "v" else name  # v is a disjunction


def read_factors(tokens: list[Token]) -> tuple[tuple[float, float] | None, str]:
    """Parse `2.7 1 p`, the weights of true and of false atoms of p; None if it is not that."""
    values: list[float] = []
    sign = 1.0
    for token in tokens[:-1]:
        if token.kind == "NUMBER":
            values.append(sign * float(token.text))
            sign = 1.0
        elif token.kind == "MINUS":
            sign = -1.0
        else:
            return None, ""
    found = (values[0], values[1]) if len(values) == 2 and tokens[-1].kind == "NAME" else None
    return found, tokens[-1].text


def parse_wfomc_statement(tokens: list[Token], source: Source, span: Span) -> Statement:
    kinds = [token.kind for token in tokens]
    if is_cardinality(tokens):
        return parse_cardinality(tokens, span)
    tokens = expand_exactly_one(tokens, span)
    hard = kinds[-1] == "PERIOD"
    length = weight_length(tokens)
    formula = tokens[length : len(tokens) - hard]
    if not formula:
        raise LapisError("there is no formula here", code="empty-formula", span=span)
    if length and hard:
        raise weight_and_period_error(Span(source, tokens[-1].start, tokens[-1].end))
    if not length and not hard:
        return WeightedFormula(parse_evidence(formula, source), hard=True, span=span)
    weight = evaluate_weight(tokens[:length], source) if length else None
    text = "".join(token.text for token in tokens[:length]) or None
    tree = parse_formula_tokens(formula, source, UPPER)
    return WeightedFormula(tree, weight, text, hard, span=span)


def starts_upper(name: str) -> bool:
    return "A" <= name[0] <= "Z"


UPPER = Grammar(starts_upper, IN_UPPER_CASE)


def parse_evidence(tokens: list[Token], source: Source) -> Formula:
    """Parse p(a), ~q(b) as a conjunction."""
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
            "expected a literal on both sides of a comma",
            code="evidence",
            span=Span(source, comma.start, comma.end),
        )
    literals = tuple(parse_formula_tokens(part, source, UPPER) for part in parts)
    if len(literals) == 1:
        return literals[0]
    first = literals[0].parts if isinstance(literals[0], And) else literals[:1]
    return And((*first, *literals[1:]))


def expand_exactly_one(tokens: list[Token], span: Span) -> list[Token]:
    """Replace ExactlyOne[P, Q] by ((P(X) | Q(X)) & ~(P(X) & Q(X)))."""
    found: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.text != "ExactlyOne" or [t.kind for t in tokens[index + 1 : index + 2]] != [
            "LSQB"
        ]:
            found.append(token)
            index += 1
            continue
        close = next((i for i in range(index, len(tokens)) if tokens[i].kind == "RSQB"), index)
        inner = tokens[index + 2 : close]
        names = [t.text for t in inner if t.kind == "NAME"]
        if len(names) < 2 or any(t.kind not in ("NAME", "COMMA") for t in inner):
            raise LapisError(
                "ExactlyOne[P, Q, ...] takes two or more predicates", code="exactly-one", span=span
            )
        pairs = [(names[i], names[j]) for j in range(len(names)) for i in range(j)]
        text = f"(({' | '.join(f'{name}(X)' for name in names)})" + "".join(
            f" & ~({first}(X) & {second}(X))" for first, second in pairs
        )
        made = [t for t in tokenize(Source("", f"{text})")) if isinstance(t, Token)]
        end = tokens[close].end
        found += [Token(t.kind, t.text, token.start, end) for t in made]
        index = close + 1
    return found


def declare_predicates(
    body: list[Statement],
    type_name: str,
    weights: Mapping[str, tuple[tuple[float, float], Span]],
) -> list[PredicateDeclaration]:
    """Return a declaration for each predicate used, over the one domain."""
    found: dict[str, PredicateDeclaration] = {}
    for statement in body:
        if isinstance(statement, WeightedFormula):
            for atom in atoms(statement.formula):
                name, parameters = atom.predicate, tuple(Parameter(type_name) for _ in atom.terms)
                factors, span = weights.get(name, (None, None))
                declaration = PredicateDeclaration(name, parameters, factors=factors, span=span)
                found.setdefault(name, declaration)
    return list(found.values())

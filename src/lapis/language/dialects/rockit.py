"""Parse what files of RockIt have beside Alchemy's format.

    *conf(a, b, float_)          a column of numbers, here the type `float`
    w: !conf(x, y, w) v q(x, y)  a feature for each fact of conf; its weight is the number w
    |y| q(x, y) <= 2             a hard bound: for each x at most two values of y
    next(x, y) := [x+1 == y]     a comparison with a name
    p([t+1])                     the next number, like p(t+1)

In files with `float_`, a bound or a definition variables may also begin with an upper-case letter,
and so may types: constants are in quotes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace

from lapis.errors import LapisError, Source, Span
from lapis.language.formulas import MAX_COUNT, Grammar, parse_formula_tokens
from lapis.language.lexer import Token
from lapis.language.names import is_whole
from lapis.language.syntax import (
    And,
    Application,
    Atom,
    Comparison,
    CountExists,
    Exists,
    Formula,
    Implies,
    Not,
    Offset,
    Or,
    Term,
    Variable,
    WeightedFormula,
    free_variables,
    map_children,
    map_terms,
)

NUMBER_TYPE = "float_"
UPPER_OR_LOWER = Grammar(lambda name: not name[0].isdigit())


def is_rockit(statements: Sequence[Sequence[Token]], source: Source) -> bool:
    """Return whether a statement has a construct of RockIt only."""
    return any(mark in source.text for mark in (NUMBER_TYPE, "|", ":=")) and any(
        is_bound(tokens) or is_definition(tokens) or declares_numbers(tokens)
        for tokens in statements
        if tokens
    )


def declares_numbers(tokens: Sequence[Token]) -> bool:
    """Return whether a statement is a declaration with the type `float_`."""
    first = 1 if tokens[0].kind == "STAR" else 0
    kinds = [token.kind for token in tokens[first:]]
    return (
        any(token.text == NUMBER_TYPE for token in tokens[first + 2 :])
        and kinds[:2] == ["NAME", "LPAR"]
        and set(kinds[2:-1]) <= {"NAME", "OR", "COMMA", "NOT", "QUESTION"}
        and kinds[-1] == "RPAR"
    )


def is_bound(tokens: Sequence[Token]) -> bool:
    """Return whether a statement is `|y| q(x, y) <= 2`, not the cardinality `|q| <= 2`."""
    kinds = [token.kind for token in tokens]
    if kinds[:1] != ["BAR"] or "BAR" not in kinds[1:]:
        return False
    close = kinds.index("BAR", 1)
    names = kinds[1:close]
    after = kinds[close + 1 : close + 3]
    listed = names[::2] == ["NAME"] * len(names[::2]) and set(names[1::2]) <= {"COMMA"}
    return listed and after[:1] in (["NAME"], ["NOT"], ["LPAR"])


def is_definition(tokens: Sequence[Token]) -> bool:
    """Return whether a statement is `next(x, y) := [x+1 == y]`."""
    kinds = [token.kind for token in tokens]
    places = [i for i in range(len(kinds) - 1) if kinds[i : i + 2] == ["COLON", "EQ"]]
    return bool(places) and kinds[:2] == ["NAME", "LPAR"] and kinds[places[0] - 1] == "RPAR"


def lower_types(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens of a declaration with types in lower case, `float` for `float_ conf`."""
    found: list[Token] = []
    for place, token in enumerate(tokens):
        inside = place > 1 and token.kind in ("NAME", "OR")
        if inside and tokens[place - 1].text == NUMBER_TYPE:
            continue
        if inside and token.text == NUMBER_TYPE:
            token = token._replace(text=NUMBER_TYPE.rstrip("_"))
        if inside:
            token = token._replace(text=token.text[0].lower() + token.text[1:])
        found.append(token)
    return found


def check_case(formula: Formula, tokens: Sequence[Token], source: Source) -> None:
    """Raise if two variables differ only in the case of their first letter."""
    written: dict[str, str] = {}
    names = set(free_variables(formula))
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        is_called = following is not None and following.kind == "LPAR"
        if token.kind == "NAME" and not is_called:
            lower = token.text[0].lower() + token.text[1:]
            first = written.setdefault(lower, token.text)
            if first != token.text and lower in names:
                raise LapisError(
                    f"the variables {first!r} and {token.text!r} differ only in case",
                    code="variable-case",
                    span=Span(source, token.start, token.end),
                    hint="rename one of them",
                )


def weigh_by_column(formula: Formula, name: str, span: Span) -> WeightedFormula:
    """Return `w: F` with the literal that has w in front: !conf(x, w) v q(x) is conf(x, w) ^ q(x).

    Both differ by a constant: F is true wherever there is no fact.
    """
    parts = formula.parts if isinstance(formula, Or) else (formula,)
    given = [part for part in parts if isinstance(part, Not) and name in free_variables(part)]
    others = tuple(part for part in parts if part not in given)
    if isinstance(formula, Or) and len(given) == 1 and not mentions(others, name):
        fact = given[0].body
        rest = others[0] if len(others) == 1 else Or(others)
        formula = And((fact, *(rest.parts if isinstance(rest, And) else (rest,))))
    if name not in free_variables(formula):
        raise LapisError(
            f"no atom of this formula has the variable {name!r}, its weight",
            code="weight-variable",
            span=span,
            hint="as in w: Score(x, w) ^ Good(x)",
        )
    return WeightedFormula(
        mark_weight_variable(formula, name), 0.0, fixed=True, weight_by=name, span=span
    )


def mentions(formulas: Sequence[Formula], name: str) -> bool:
    return any(name in free_variables(formula) for formula in formulas)


def mark_weight_variable(formula: Formula, name: str) -> Formula:
    def mark(term: Term) -> Term:
        if isinstance(term, Variable) and term.name == name:
            return replace(term, plus=True)
        if isinstance(term, Application):
            return replace(term, terms=tuple(map(mark, term.terms)))
        return term

    return map_terms(map_children(formula, lambda part: mark_weight_variable(part, name)), mark)


def parse_bound(
    tokens: list[Token], source: Source, grammar: Grammar, closed: Container[str], span: Span
) -> WeightedFormula:
    """Parse `|y| !e(y) v q(x, y) <= 2`; `closed` are the evidence predicates.

    For each x, of the y for which the evidence literals are false, at most two have q(x, y).
    """
    kinds = [token.kind for token in tokens]
    close = kinds.index("BAR", 1)
    names = tuple(t.text[0].lower() + t.text[1:] for t in tokens[1:close] if t.kind == "NAME")
    if kinds[-2:-1] not in (["LE"], ["GE"]) or not is_whole(tokens[-1].text):
        raise LapisError(
            "this bound reads like |y| q(x, y) <= 1: a literal, <= or >=, a whole number",
            code="bound",
            span=span,
        )
    bound = int(tokens[-1].text)
    formula = parse_formula_tokens(tokens[close + 1 : -2], source, grammar)
    parts = formula.parts if isinstance(formula, Or) else (formula,)
    given = [part for part in parts if is_condition(part, closed)]
    counted = [part for part in parts if part not in given]
    missing = [name for name in names if name not in free_variables(formula)]
    if missing or len(counted) != 1 or bound > MAX_COUNT:
        reason = (
            f"no literal has the variable {missing[0]!r}"
            if missing
            else (f"a bound counts one literal, here {len(counted)}")
        )
        raise LapisError(reason, code="bound", span=span)
    conditions = [negated(part) for part in given]
    outside = [part for part in conditions if not mentions([part], names[0])]
    body = join_conditions([*conditions, counted[0]])
    if len(names) > 1:
        return WeightedFormula(
            bound_pairs(names, body, kinds[-2], bound, span), hard=True, span=span
        )
    if kinds[-2] == "LE":
        return WeightedFormula(CountExists(names, body, "<=", bound), hard=True, span=span)
    enough: Formula = CountExists(names, body, ">=", bound)
    inside = [part for part in conditions if part not in outside]
    needed = [*outside, *([Exists(names, join_conditions(inside))] if inside else [])]
    if needed:
        enough = Implies(join_conditions(needed), enough)
    return WeightedFormula(enough, hard=True, span=span)


def bound_pairs(
    names: tuple[str, ...], body: Formula, operator: str, bound: int, span: Span
) -> Formula:
    """Return a bound on the values of several variables together: one at least, or none."""
    if operator == "GE" and bound == 1:
        return Exists(names, body)
    raise LapisError(
        "a bound counts the values of one variable, or is >= 1",
        code="bound",
        span=span,
        hint="for pairs, declare a predicate of pairs and count its values",
    )


def is_condition(part: Formula, closed: Container[str]) -> bool:
    literal = part.body if isinstance(part, Not) else part
    return isinstance(literal, Comparison) or (
        isinstance(literal, Atom) and literal.predicate in closed
    )


def negated(formula: Formula) -> Formula:
    return formula.body if isinstance(formula, Not) else Not(formula)


def join_conditions(parts: Sequence[Formula]) -> Formula:
    return parts[0] if len(parts) == 1 else And(tuple(parts))


Definition = tuple[tuple[str, ...], Formula]


def parse_definition(
    tokens: list[Token], source: Source, grammar: Grammar, span: Span
) -> tuple[str, Definition]:
    """Parse `next(x, y) := [x+1 == y]`."""
    kinds = [token.kind for token in tokens]
    place = next(i for i in range(len(kinds)) if kinds[i : i + 2] == ["COLON", "EQ"])
    head = parse_formula_tokens(tokens[:place], source, grammar)
    if not isinstance(head, Atom):
        raise LapisError("a definition has one atom on its left", code="definition", span=span)
    inner = tokens[place + 2 :]
    if inner and inner[0].kind == "LSQB" and inner[-1].kind == "RSQB":
        inner = inner[1:-1]
    try:
        body = parse_formula_tokens(inner, source, grammar) if inner else None
    except LapisError:
        body = None
    if not isinstance(body, Comparison) or any(
        isinstance(term, Application) for term in (body.left, body.right)
    ):
        shown = source.text[tokens[place + 2].start : tokens[-1].end] if inner else ""
        raise LapisError(
            f"the arithmetic {shown} is not supported: only a variable plus a number is compared",
            code="arithmetic",
            span=span,
            hint=f"declare *{head.predicate} and state its true tuples as facts in the data",
        )
    names = tuple(term.name for term in head.terms if isinstance(term, Variable))
    return head.predicate, (names, body)


def insert_definitions(formula: Formula, definitions: Mapping[str, Definition]) -> Formula:
    """Replace atoms of defined predicates by their comparisons."""
    if not isinstance(formula, Atom) or formula.predicate not in definitions:
        return map_children(formula, lambda part: insert_definitions(part, definitions))
    names, body = definitions[formula.predicate]
    if len(names) != len(formula.terms):
        raise LapisError(
            f"{formula.predicate!r} is defined for {len(names)} arguments",
            code="arity",
            span=formula.span,
        )
    values = dict(zip(names, formula.terms, strict=True))
    return map_terms(replace(body, span=formula.span), substitution(values, formula))


def substitution(values: Mapping[str, Term], atom: Atom) -> Callable[[Term], Term]:
    def put(term: Term) -> Term:
        if isinstance(term, Variable):
            return values.get(term.name, term)
        if isinstance(term, Offset) and term.variable.name in values:
            value = values[term.variable.name]
            if isinstance(value, Variable):
                return replace(term, variable=value)
            raise LapisError("arithmetic needs a variable", code="offset-constant", span=atom.span)
        return term

    return put

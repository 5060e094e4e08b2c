"""Tokens of one formula to its syntax tree, by the LALR grammar in grammar.lark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from lapis.errors import LapisError, Source, Span
from lapis.language.lexer import CLOSING, OPENING, Token
from lapis.language.names import parse_constant
from lapis.language.syntax import (
    And,
    Application,
    Atom,
    Comparison,
    ComparisonOperator,
    Constant,
    CountExists,
    Exists,
    ForAll,
    Formula,
    Iff,
    Implies,
    Not,
    Offset,
    Or,
    Quantifier,
    Term,
    Variable,
    map_children,
    map_terms,
)

if TYPE_CHECKING:
    from lark import Lark
    from lark import Token as LarkToken

# Trees deeper than this would overflow the recursive passes; nobody writes them by hand.
MAX_DEPTH = 100
MAX_COUNT = 1_000_000

READABLE = {
    "NAME": "a name", "NUMBER": "a number", "STRING": "a string", "LPAR": "'('", "RPAR": "')'",
    "RSQB": "']'", "RBRACE": "'}'", "COMMA": "','", "EQ": "'='", "NOT": "'!'", "AND": "'^'",
    "OR": "'v'", "IMPLIES": "'=>'", "IFF": "'<=>'", "$END": "the end of the formula",
}  # fmt: skip

CLOSES = {"RPAR": "LPAR", "RSQB": "LSQB", "RBRACE": "LBRACE"}

IsVariable = Callable[[str], bool]
Node = Any  # lark's trees and tokens are not typed precisely enough to help


def starts_lower(name: str) -> bool:
    """Alchemy's rule: variables start with a lower-case letter, constants do not."""
    return not (name[0].isupper() or name[0].isdigit())


def parse_formula_tokens(
    tokens: Sequence[Token], source: Source, is_variable: IsVariable = starts_lower
) -> Formula:
    """The tree of a formula; raises a located LapisError where the grammar is left."""
    from lark import UnexpectedToken

    check_brackets(tokens, source)
    check_depth(tokens, source)
    try:
        tree: Node = grammar().parse(tokens)
    except UnexpectedToken as error:
        raise unexpected_token(error.token, set(error.expected), tokens, source) from None
    return TreeBuilder(source, is_variable).formula(tree)


@cache
def grammar() -> Lark:
    """The parser; its tables are made once, as that takes longer than to read a small model."""
    from lark import Lark

    from lapis.cache_folder import find_folder
    from lapis.language.statement_lexer import StatementLexer

    text = files("lapis.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(
        text,
        start="formula",
        parser="lalr",
        lexer=StatementLexer,
        propagate_positions=True,
        cache=str(find_folder() / "grammar.tables"),
    )


def check_brackets(tokens: Sequence[Token], source: Source) -> None:
    opened: list[Token] = []
    for token in tokens:
        if token.kind in OPENING:
            opened.append(token)
        elif token.kind in CLOSING:
            if not opened or opened[-1].kind != CLOSES[token.kind]:
                raise LapisError(
                    f"unmatched {token.text!r}",
                    code="unmatched-bracket",
                    span=Span(source, token.start, token.end),
                )
            opened.pop()
    if opened:
        raise LapisError(
            f"{opened[-1].text!r} is never closed",
            code="unclosed-bracket",
            span=Span(source, opened[-1].start, opened[-1].end),
        )


def check_depth(tokens: Sequence[Token], source: Source) -> None:
    """Refuse formulas that nest too deeply; counts an upper bound of the tree's depth."""
    depth = negations = 0
    for token in tokens:
        depth += token.kind in ("LPAR", "IMPLIES", "IFF", "EXISTS", "FORALL", "LSQB")
        depth -= token.kind in CLOSING
        negations = negations + 1 if token.kind == "NOT" else 0
        if depth + negations > MAX_DEPTH:
            raise LapisError(
                f"this formula nests more than {MAX_DEPTH} levels deep",
                code="too-deep",
                span=Span(source, token.start, token.end),
                hint="split it, or introduce a predicate for a part of it",
            )


def unexpected_token(
    token: LarkToken, expected: set[str], tokens: Sequence[Token], source: Source
) -> LapisError:
    if token.type == "$END":
        last = tokens[-1]
        return LapisError(
            "the formula ends too early",
            code="unexpected-end",
            span=Span(source, last.start, last.end),
            hint=expected_hint(expected),
        )
    start, end = token.start_pos or 0, token.end_pos or 0
    hint = expected_hint(expected)
    if token.type == "STAR":
        hint = "formulas with a numeric part (hybrid Markov logic) are not supported"
    elif token.type == "PERIOD":
        hint = "a period may only end a hard formula"
    elif token.type == "COMMA" and [t.kind for t in tokens if t.end <= start][-2:-1] == ["RBRACE"]:
        hint = "a counting quantifier counts the values of one variable"
    elif token.type == "NAME" and "AND" in expected:
        hint = "connect formulas with ^, v, => or <=>; or start a new line"
    return LapisError(
        f"unexpected {str(token)!r}",
        code="hybrid-formula" if token.type == "STAR" else "unexpected-token",
        span=Span(source, start, end),
        hint=hint,
    )


def expected_hint(expected: set[str]) -> str | None:
    if "NOT" in expected:
        return "a formula is expected here"
    words = [READABLE[kind] for kind in READABLE if kind in expected]
    return f"expected {' or '.join(words)}" if 0 < len(words) <= 4 else None


class TreeBuilder:
    """Lark's tree to ours, with spans."""

    def __init__(self, source: Source, is_variable: IsVariable) -> None:
        self.source = source
        self.is_variable = is_variable

    def span(self, node: Node) -> Span:
        at: Node = getattr(node, "meta", node)
        return Span(self.source, at.start_pos, at.end_pos)

    def formula(self, tree: Node) -> Formula:
        span = self.span(tree)
        parts = tree.children
        match tree.data:
            case "group":
                return self.formula(parts[1])
            case "not_":
                return Not(self.formula(parts[1]), span)
            case "and_":
                return And(self.chain(tree, And), span)
            case "or_":
                return Or(self.chain(tree, Or), span)
            case "implies":
                return Implies(self.formula(parts[0]), self.formula(parts[2]), span)
            case "iff":
                return Iff(self.formula(parts[0]), self.formula(parts[2]), span)
            case "exists" | "forall":
                names = self.names(parts[1])
                body = self.formula(parts[-1])
                return (Exists if tree.data == "exists" else ForAll)(names, body, span)
            case "count_exists":
                return self.count_exists(tree)
            case "proposition":
                return Atom(str(parts[0]), (), False, span)
            case "atom":
                return Atom(str(parts[0]), self.terms(parts[2]), False, span)
            case "starred":
                return Atom(str(parts[1]), self.terms(parts[3]), True, span)
            case "comparison":
                operator = ASCII_OPERATOR[parts[1].children[0].type]
                return Comparison(operator, self.term(parts[0]), self.term(parts[2]), span)
        raise AssertionError(tree.data)

    def chain(self, tree: Node, kind: type[And | Or]) -> tuple[Formula, ...]:
        """The operands of a connective that groups to the left; there may be thousands."""
        connective, others = tree.data, []
        while tree.data == connective:
            others.append(self.formula(tree.children[2]))
            tree = tree.children[0]
        first = self.formula(tree)
        return (*(first.parts if isinstance(first, kind) else (first,)), *reversed(others))

    def names(self, tree: Node) -> tuple[str, ...]:
        return self.names_of([token for token in tree.children if token.type == "NAME"])

    def names_of(self, tokens: list[Node]) -> tuple[str, ...]:
        for token in tokens:
            if not self.is_variable(str(token)):
                raise LapisError(
                    f"cannot quantify over {str(token)!r}: it is a constant",
                    code="quantified-constant",
                    span=self.span(token),
                    hint="variables start with a lower-case letter",
                )
        return tuple(variable_name(str(token)) for token in tokens)

    def count_exists(self, tree: Node) -> Formula:
        """∃ with a number: < and > as ≤ and ≥ of the next number, ≠ as the negation of =."""
        marks = [part for part in tree.children if getattr(part, "type", None) != "UNDERSCORE"]
        operator = ASCII_OPERATOR[marks[2].children[0].type]
        count, name, body = marks[3], self.names_of([marks[5]]), self.formula(marks[-1])
        if not str(count).isdecimal() or int(str(count)) > MAX_COUNT:
            raise LapisError(
                f"a counting quantifier takes a whole number up to {MAX_COUNT:,}",
                code="counting-quantifier",
                span=self.span(count),
            )
        bound, span = int(str(count)), self.span(tree)
        variables = (name[0],)
        match operator:
            case "!=":
                return Not(CountExists(variables, body, "=", bound, span), span)
            case "<":
                return Not(CountExists(variables, body, ">=", bound, span), span)
            case ">":
                return CountExists(variables, body, ">=", bound + 1, span)
            case "=" | "<=" | ">=":
                return CountExists(variables, body, operator, bound, span)

    def terms(self, tree: Node) -> tuple[Term, ...]:
        return tuple(self.term(child) for child in tree.children if hasattr(child, "data"))

    def term(self, tree: Node) -> Term:
        span = self.span(tree)
        parts = tree.children
        match tree.data:
            case "name":
                return self.name(parts[0], span)
            case "plus":
                name = self.name(parts[1], span)
                if isinstance(name, Constant):
                    raise LapisError(
                        f"'+' marks a variable, but {name.name!r} is a constant",
                        code="plus-constant",
                        span=span,
                        hint=f"a weight for it alone: 1.5 P(+x) @ x = {name.name}",
                    )
                return Variable(name.name, True, span)
            case "number":
                return Constant(str(parts[0]), span)
            case "negative":
                return Constant("-" + str(parts[1]), span)
            case "string":
                return Constant(parse_constant(str(parts[0])), span)
            case "application":
                return Application(str(parts[0]), self.terms(parts[2]), span)
            case "later" | "earlier":
                return self.offset(parts, 1 if tree.data == "later" else -1, span)
        raise AssertionError(tree.data)

    def name(self, token: Node, span: Span) -> Variable | Constant:
        text = str(token)
        if self.is_variable(text):
            return Variable(variable_name(text), False, span)
        return Constant(text, span)

    def offset(self, parts: list[Any], sign: int, span: Span) -> Offset:
        variable = self.name(parts[0], self.span(parts[0]))
        if isinstance(variable, Constant):
            raise LapisError("arithmetic needs a variable", code="offset-constant", span=span)
        if not str(parts[2]).isdigit():
            raise LapisError(
                "a variable can be moved by whole numbers only", code="offset", span=span
            )
        return Offset(variable, sign * int(str(parts[2])), span)


ASCII_OPERATOR: dict[str, ComparisonOperator] = {
    "EQ": "=", "NE": "!=", "LT": "<", "GT": ">", "LE": "<=", "GE": ">=",
}  # fmt: skip


def variable_name(text: str) -> str:
    """Variables of files in which they are upper-case become ours."""
    return text[0].lower() + text[1:]


def rename_variable(formula: Formula, old: str, new: str) -> Formula:
    """Replace the free occurrences of a variable."""
    if isinstance(formula, Quantifier) and old in formula.variables:
        return formula
    inner = map_children(formula, lambda child: rename_variable(child, old, new))
    return map_terms(inner, lambda term: renamed(term, old, new))


def renamed(term: Term, old: str, new: str) -> Term:
    match term:
        case Variable(name, plus, span) if name == old:
            return Variable(new, plus, span)
        case Offset(variable, amount, span) if variable.name == old:
            return Offset(Variable(new, variable.plus, variable.span), amount, span)
        case Application(function, terms, span):
            return Application(function, tuple(renamed(t, old, new) for t in terms), span)
    return term

"""Parse the tokens of formulas (by precedence climbing), cardinality constraints and weights.

    formula     operands joined by ^ (tightest), v, =>, <=>, all left-associative as in Alchemy;
                q <= F, the implication F => q of Forclift, is right-associative
    operand     ! operand
              | EXIST x, y formula | FORALL x, y formula      as far right as possible
              | EXIST{>= 3} x formula
              | * P(terms) | P(terms) | P() | P
              | term = term, and with != < > <= >=
              | ( formula ) | [ formula ]
    term        x | +x | x + 1 | x - 1 | x++ | x-- | A | 12 | -12 | "a string" | [ term ]
              | F(terms) | F(terms) + 0.5 | F(terms) - 0.5
    product     number * … * number * operand
    number      F(terms) | log(F(terms)) | log F(terms)

The weight, marks and final period of a statement are removed before. A cardinality constraint is
hard and compares numbers of true atoms, as in |Boss| - 2 |Works| = 3. A weight is a number, or
arithmetic over numbers with log, exp and sqrt.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from lapis.errors import LapisError, Source, Span
from lapis.language.lexer import CLOSING, OPENING, Token
from lapis.language.names import is_whole, parse_constant
from lapis.language.syntax import (
    And,
    Application,
    Atom,
    Cardinality,
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
    NumberFactor,
    Offset,
    Or,
    Quantifier,
    Term,
    Variable,
    map_children,
    map_terms,
)

# Deeper trees would overflow the stack in recursive passes.
MAX_DEPTH = 100
MAX_COUNT = 1_000_000

PRECEDENCE = {"IFF": 1, "IMPLIES": 2, "LE": 2, "OR": 3, "BAR": 3, "AND": 4}
OR_FIRST = {**PRECEDENCE, "OR": 4, "BAR": 4, "AND": 3}
CONNECTIVES = {"IFF": Iff, "IMPLIES": Implies, "OR": Or, "BAR": Or, "AND": And}
COMPARISONS: dict[str, ComparisonOperator] = {
    "EQ": "=", "NE": "!=", "LT": "<", "GT": ">", "LE": "<=", "GE": ">=",
}  # fmt: skip
CLOSES = {"RPAR": "LPAR", "RSQB": "LSQB", "RBRACE": "LBRACE"}
CLOSED_BY = {"LPAR": "RPAR", "LSQB": "RSQB"}

# Hints: what may stand at a place.
FORMULA = "a formula is expected here"
NAME = "expected a name"
TERM = "expected a name or a number or a string"
CONNECT = "connect formulas with ^, v, => or <=>; or start a new line"

# What begins a formula and no term.
STARTS_FORMULA = {"NOT", "LPAR", "LSQB", "EXISTS", "FORALL", "STAR"}

IsVariable = Callable[[str], bool]


def starts_lower(name: str) -> bool:
    """Alchemy's rule: variables start with a lower-case letter, constants do not."""
    return not (name[0].isupper() or name[0].isdigit())


@dataclass(frozen=True)
class Grammar:
    """How the formulas of a file are read."""

    is_variable: IsVariable = starts_lower
    variables: str = "variables start with a lower-case letter"
    predicates: Container[str] = frozenset()  # declared so far: p <= q is an implication
    or_first: bool = False  # v binds tighter than ^
    short_quantifiers: bool = False  # EXIST x F ends with the operand F


USUAL = Grammar()
IN_UPPER_CASE = "variables start with an upper-case letter in this file"


def parse_formula_tokens(
    tokens: Sequence[Token], source: Source, grammar: Grammar = USUAL
) -> Formula:
    """Parse the tokens of a formula; raise a LapisError with the span of a syntax error."""
    check_brackets(tokens, source)
    check_depth(tokens, source)
    parser = FormulaParser(tokens, source, grammar)
    formula = parser.formula()
    if parser.place < len(tokens):
        parser.fail(None)
    return formula


LOGARITHMS = ("log", "ln")


def split_numbers(
    tokens: Sequence[Token], source: Source, grammar: Grammar = USUAL
) -> tuple[tuple[NumberFactor, ...], Sequence[Token]]:
    """Split a product into its numbers and the tokens of the formula; none for a plain formula."""
    numbers: list[NumberFactor] = []
    rest = tokens
    while (end := factor_end(rest)) < len(rest) and rest[end].kind == "STAR" and end:
        numbers.append(parse_number(rest[:end], source, grammar))
        rest = rest[end + 1 :]
        if not rest:
            last = tokens[-1]
            raise LapisError(
                "the formula ends too early",
                code="unexpected-end",
                span=Span(source, last.start, last.end),
                hint="a formula follows the numbers",
            )
    if numbers:
        check_operand(rest, source, grammar)
    return tuple(numbers), rest


def factor_end(tokens: Sequence[Token]) -> int:
    """Return the number of tokens of F(terms) or of its logarithm at the start; 0: neither."""
    kinds = [token.kind for token in tokens[:3]]
    first = 0
    if kinds[:1] == ["NAME"] and tokens[0].text in LOGARITHMS and "NAME" in kinds[1:]:
        first = 1
        if kinds[1:] == ["LPAR", "NAME"]:
            return closing_end(tokens, 1)
    is_call = [token.kind for token in tokens[first : first + 2]] == ["NAME", "LPAR"]
    return closing_end(tokens, first + 1) if is_call else 0


def closing_end(tokens: Sequence[Token], first: int) -> int:
    """Return the place after the bracket that closes the one at `first`; 0: it is not closed."""
    depth = 0
    for place in range(first, len(tokens)):
        depth += (tokens[place].kind in OPENING) - (tokens[place].kind in CLOSING)
        if depth == 0:
            return place + 1
    return 0


def parse_number(tokens: Sequence[Token], source: Source, grammar: Grammar) -> NumberFactor:
    """Parse F(terms), log(F(terms)) or log F(terms)."""
    kinds = [token.kind for token in tokens]
    is_log = tokens[0].text in LOGARITHMS and (kinds[1] == "NAME" or "LPAR" in kinds[2:])
    inner = tokens[1:] if is_log else tokens
    if is_log and inner[0].kind == "LPAR":
        inner = inner[1:-1]
    span = Span(source, tokens[0].start, tokens[-1].end)
    parser = FormulaParser(inner, source, grammar)
    term = parser.term(TERM)
    if parser.place < len(inner) or not isinstance(term, Application) or term.amount:
        raise LapisError(
            "a formula is multiplied by values of functions and their logarithms only",
            code="product",
            span=span,
            hint="as in 1.5 sim(x, y) * (P(x) => P(y)), or log(sim(x, y)) * P(x)",
        )
    return NumberFactor(term.function, term.terms, is_log, span=span)


def check_operand(tokens: Sequence[Token], source: Source, grammar: Grammar) -> None:
    """Raise if the formula that is multiplied has connectives outside of brackets."""
    check_brackets(tokens, source)
    check_depth(tokens, source)
    parser = FormulaParser(tokens, source, grammar)
    parser.operand()
    if parser.place < len(tokens):
        token = parser.tokens[parser.place]
        raise LapisError(
            f"unexpected {token.text!r}",
            code="product",
            span=Span(source, token.start, token.end),
            hint="put brackets around the formula that is multiplied: sim(x, y) * (P(x) => P(y))",
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
    """Raise if an upper bound of the tree's depth exceeds `MAX_DEPTH`."""
    depth = negations = 0
    for token in tokens:
        depth += token.kind in ("LPAR", "IMPLIES", "IFF", "EXISTS", "FORALL", "LSQB")
        depth -= token.kind in ("RPAR", "RSQB")
        negations = negations + 1 if token.kind == "NOT" else 0
        if depth + negations > MAX_DEPTH:
            raise LapisError(
                f"this formula nests more than {MAX_DEPTH} levels deep",
                code="too-deep",
                span=Span(source, token.start, token.end),
                hint="split it, or introduce a predicate for a part of it",
            )


class FormulaParser:
    """A parser that reads tokens from left to right; `place` is the next one."""

    def __init__(self, tokens: Sequence[Token], source: Source, grammar: Grammar) -> None:
        self.tokens = tokens
        self.kinds = [*(token.kind for token in tokens), "END"]
        self.source = source
        self.grammar = grammar
        self.precedence = OR_FIRST if grammar.or_first else PRECEDENCE
        self.place = 0

    def span(self, first: int) -> Span:
        """Return the span from a token to the last one that was read."""
        return Span(self.source, self.tokens[first].start, self.tokens[self.place - 1].end)

    def take(self, kind: str, hint: str | None) -> Token:
        if self.kinds[self.place] != kind:
            self.fail(hint)
        self.place += 1
        return self.tokens[self.place - 1]

    def formula(self, lowest: int = 1) -> Formula:
        """Parse operands joined by connectives of precedence `lowest` or higher."""
        first = self.place
        left = self.operand()
        while self.precedence.get(self.kinds[self.place], 0) >= lowest:
            level = self.precedence[self.kinds[self.place]]
            if self.kinds[self.place] == "LE":
                self.place += 1
                left = Implies(self.formula(level), left, span=self.span(first))
                continue
            connective = CONNECTIVES[self.kinds[self.place]]
            if connective is And or connective is Or:
                # A chain is one node; there may be thousands of operands.
                parts = [*left.parts] if isinstance(left, connective) else [left]
                while self.precedence.get(self.kinds[self.place], 0) == level:
                    self.place += 1
                    parts.append(self.formula(level + 1))
                left = connective(tuple(parts), span=self.span(first))
            else:
                self.place += 1
                left = connective(left, self.formula(level + 1), span=self.span(first))
        return left

    def operand(self) -> Formula:
        first, kind = self.place, self.kinds[self.place]
        if kind == "NAME":
            return self.atom_or_comparison()
        if kind == "NOT":
            self.place += 1
            body = self.operand()
            return Not(body, span=self.span(first))
        if kind in CLOSED_BY:
            self.place += 1
            inner = self.formula()
            self.take(CLOSED_BY[kind], None)
            return inner
        if kind in ("EXISTS", "FORALL"):
            return self.quantifier()
        if kind == "STAR":
            self.place += 1
            name = self.take("NAME", NAME).text
            self.take("LPAR", "expected '('")
            terms = self.terms(TERM)
            return Atom(name, terms, True, span=self.span(first))
        if kind in ("PLUS", "NUMBER", "MINUS", "STRING"):
            return self.comparison(self.term(FORMULA), first)
        self.fail(FORMULA)

    def atom_or_comparison(self) -> Formula:
        """Parse P, P(), P(terms), or a comparison that starts with a term."""
        first, following = self.place, self.kinds[self.place + 1]
        name = self.tokens[first].text
        if following == "LPAR" and self.kinds[first + 2] == "RPAR":
            self.place += 3
            return Atom(name, (), False, span=self.span(first))
        if following == "LPAR":
            self.place += 2
            terms = self.terms(f"{TERM} or ')'")
            if self.is_moved():
                return self.comparison(self.application(name, terms, first), first)
            if self.kinds[self.place] in COMPARISONS and not self.is_implied(name):
                return self.comparison(Application(name, terms, span=self.span(first)), first)
            return Atom(name, terms, False, span=self.span(first))
        self.place += 1
        is_implied = self.is_implied(name)
        self.place -= 1
        if (following in COMPARISONS and not is_implied) or following in ("PLUS", "MINUS"):
            return self.comparison(self.term(FORMULA), first)
        self.place += 1
        return Atom(name, (), False, span=self.span(first))

    def is_implied(self, name: str) -> bool:
        """Return whether `<=` after an atom of a predicate is an implication from the right.

        In `i <= j` both are variables, unless there are predicates of both names.
        """
        if self.kinds[self.place] != "LE":
            return False
        kind = self.kinds[self.place + 1]
        if kind != "NAME":
            return kind in STARTS_FORMULA
        known = self.grammar.predicates
        is_atom = self.kinds[self.place - 1] == "RPAR"
        return name in known and (is_atom or self.tokens[self.place + 1].text in known)

    def comparison(self, left: Term, first: int) -> Comparison:
        operator = COMPARISONS.get(self.kinds[self.place])
        if operator is None:
            self.fail("expected '='")
        self.place += 1
        right = self.term(TERM)
        return Comparison(operator, left, right, span=self.span(first))

    def quantifier(self) -> Formula:
        first = self.place
        quantifier = Exists if self.kinds[first] == "EXISTS" else ForAll
        self.place += 1
        if quantifier is Exists and self.kinds[self.place] in ("UNDERSCORE", "LBRACE"):
            return self.count_exists(first)
        names = [self.variable()]
        while self.kinds[self.place] == "COMMA":
            self.place += 1
            names.append(self.variable())
        body = self.quantified()
        return quantifier(tuple(names), body, span=self.span(first))

    def variable(self) -> str:
        token = self.take("NAME", NAME)
        if not self.grammar.is_variable(token.text):
            raise LapisError(
                f"cannot quantify over {token.text!r}: it is a constant",
                code="quantified-constant",
                span=Span(self.source, token.start, token.end),
                hint=self.grammar.variables,
            )
        return variable_name(token.text)

    def quantified(self) -> Formula:
        """Parse the body of a quantifier, after an optional colon."""
        self.place += self.kinds[self.place] == "COLON"
        return self.operand() if self.grammar.short_quantifiers else self.formula()

    def count_exists(self, first: int) -> Formula:
        """Parse ∃ with a number; < and > become ≥ and its negation, ≠ the negation of =."""
        self.place += self.kinds[self.place] == "UNDERSCORE"
        self.take("LBRACE", "expected '{'")
        operator = COMPARISONS.get(self.kinds[self.place])
        if operator is None:
            self.fail("expected '='")
        self.place += 1
        count = self.take("NUMBER", "expected a number")
        if not is_whole(count.text) or int(count.text) > MAX_COUNT:
            raise LapisError(
                f"a counting quantifier takes a whole number up to {MAX_COUNT:,}",
                code="counting-quantifier",
                span=Span(self.source, count.start, count.end),
            )
        self.take("RBRACE", "expected '}'")
        variables, bound = (self.variable(),), int(count.text)
        if self.kinds[self.place] == "COMMA":
            self.fail("a counting quantifier counts the values of one variable")
        body = self.quantified()
        span = self.span(first)
        match operator:
            case "!=":
                return Not(CountExists(variables, body, "=", bound, span=span), span=span)
            case "<":
                return Not(CountExists(variables, body, ">=", bound, span=span), span=span)
            case ">":
                return CountExists(variables, body, ">=", bound + 1, span=span)
            case "=" | "<=" | ">=":
                return CountExists(variables, body, operator, bound, span=span)

    def terms(self, hint: str) -> tuple[Term, ...]:
        """Parse arguments up to the closing bracket; the opening one was read."""
        found = [self.term(hint)]
        while self.kinds[self.place] == "COMMA":
            self.place += 1
            found.append(self.term(TERM))
        is_name = self.kinds[self.place - 1] == "NAME"
        self.take("RPAR", "expected '(' or ')' or ','" if is_name else "expected ')' or ','")
        return tuple(found)

    def term(self, hint: str) -> Term:
        first, kind = self.place, self.kinds[self.place]
        token = self.tokens[first] if kind != "END" else None
        self.place += 1
        if token is None:
            self.place -= 1
            self.fail(hint)
        match kind:
            case "NAME":
                return self.named_term(token, first)
            case "NUMBER":
                return Constant(self.stepped(token.text), span=self.span(first))
            case "LSQB":
                inner = self.term(TERM)
                self.take("RSQB", None)
                return inner
            case "STRING":
                return Constant(parse_constant(token.text), span=self.span(first))
            case "MINUS":
                number = self.take("NUMBER", "expected a number")
                return Constant("-" + number.text, span=self.span(first))
            case "PLUS":
                return self.plus_variable(self.take("NAME", NAME).text, first)
        self.place -= 1
        self.fail(hint)

    def named_term(self, token: Token, first: int) -> Term:
        """Parse x, A, F(terms), x + 1 or x - 1; the name was read."""
        following = self.kinds[self.place]
        if following == "LPAR":
            self.place += 1
            return self.application(token.text, self.terms(TERM), first)
        name = self.name(token.text, span=self.span(first))
        if following not in ("PLUS", "MINUS"):
            return name
        if self.kinds[self.place + 1] == following:  # t++ or t--
            self.place += 2
            amount = "1"
        else:
            self.place += 1
            amount = self.take("NUMBER", "expected a number").text
        span = self.span(first)
        if isinstance(name, Constant):
            raise LapisError("arithmetic needs a variable", code="offset-constant", span=span)
        if not is_whole(amount):
            raise LapisError(
                "a variable can be moved by whole numbers only", code="offset", span=span
            )
        return Offset(name, int(amount) if following == "PLUS" else -int(amount), span=span)

    def is_moved(self) -> bool:
        """Return whether a number is added next, as in f(x) + 0.5."""
        following = self.kinds[self.place : self.place + 2]
        return following in (["PLUS", "NUMBER"], ["MINUS", "NUMBER"])

    def application(self, name: str, terms: tuple[Term, ...], first: int) -> Application:
        """Return F(terms), with the number that may be added to it; F(terms) was read."""
        amount: float = 0
        if self.is_moved():
            sign, number = (token.text for token in self.tokens[self.place : self.place + 2])
            self.place += 2
            size = int(number) if is_whole(number) else float(number)
            amount = size if sign == "+" else -size
        return Application(name, terms, amount, span=self.span(first))

    def stepped(self, number: str) -> str:
        """Return the number, or the next one if ++ follows, or the previous one if -- does."""
        following = self.kinds[self.place : self.place + 2]
        if not number.isdecimal() or following not in (["PLUS", "PLUS"], ["MINUS", "MINUS"]):
            return number
        self.place += 2
        return str(int(number) + (1 if following[0] == "PLUS" else -1))

    def name(self, text: str, span: Span) -> Variable | Constant:
        if self.grammar.is_variable(text):
            return Variable(variable_name(text), False, span=span)
        return Constant(text, span=span)

    def plus_variable(self, text: str, first: int) -> Variable:
        span = self.span(first)
        name = self.name(text, span)
        if isinstance(name, Constant):
            raise LapisError(
                f"'+' marks a variable, but {name.name!r} is a constant",
                code="plus-constant",
                span=span,
                hint=f"a weight for it alone: 1.5 P(+x) @ x = {name.name}",
            )
        return Variable(name.name, True, span=span)

    def fail(self, hint: str | None) -> NoReturn:
        """Raise an error at the next token; `hint` is what may stand there, None: a connective."""
        if self.place >= len(self.tokens):
            last = self.tokens[-1]
            raise LapisError(
                "the formula ends too early",
                code="unexpected-end",
                span=Span(self.source, last.start, last.end),
                hint=hint,
            )
        token = self.tokens[self.place]
        if token.kind == "STAR":
            hint = "only a number is multiplied, before the formula: 1.5 sim(x, y) * (P(x) => P(y))"
        elif token.kind == "PERIOD":
            hint = "a period may only end a hard formula"
        elif token.kind == "NAME" and hint is None:
            hint = CONNECT
        raise LapisError(
            f"unexpected {token.text!r}",
            code="product" if token.kind == "STAR" else "unexpected-token",
            span=Span(self.source, token.start, token.end),
            hint=hint,
        )


def variable_name(text: str) -> str:
    """Return ?x as x, and X as x: files of pracmln and of WFOMC tools have such variables."""
    name = text.removeprefix("?")
    return name[0].lower() + name[1:]


def rename_variable(formula: Formula, old: str, new: str) -> Formula:
    """Replace the free occurrences of a variable."""
    if isinstance(formula, Quantifier) and old in formula.variables:
        return formula
    inner = map_children(formula, lambda child: rename_variable(child, old, new))
    return map_terms(inner, lambda term: rename_in_term(term, old, new))


def rename_in_term(term: Term, old: str, new: str) -> Term:
    match term:
        case Variable(name, plus, span=span) if name == old:
            return Variable(new, plus, span=span)
        case Offset(variable, amount, span=span) if variable.name == old:
            return Offset(Variable(new, variable.plus, span=variable.span), amount, span=span)
        case Application(_, terms):
            inner = tuple(rename_in_term(t, old, new) for t in terms)
            return replace(term, terms=inner)
    return term


# [+-] [2 [*]] |P|, a space after each word; a sign stands before every part but the first.
PART = re.compile(r"(?:^|([+-]) )(?:([0-9]{1,18}) (?:\* )?)?\| (\S+) \| ")
BOUND = re.compile(r"(- )?([0-9]{1,18}) ")


def is_cardinality(tokens: list[Token]) -> bool:
    kinds = [token.kind for token in tokens]
    start = ("NUMBER", "PLUS", "MINUS", "STAR")
    first = next((i for i, kind in enumerate(kinds) if kind not in start), 0)
    return kinds[first : first + 3] == ["BAR", "NAME", "BAR"]


def parse_cardinality(tokens: list[Token], span: Span) -> Cardinality:
    """Parse a constraint such as 2 |P| - |Q| = 3."""
    place = next((i for i, token in enumerate(tokens) if token.kind in COMPARISONS), len(tokens))
    sides = ["".join(f"{t.text} " for t in side) for side in (tokens[:place], tokens[place + 1 :])]
    parts: list[tuple[int, str]] = []
    start = 0
    while found := PART.match(sides[0], start):
        sign, size, name = found.groups()
        parts.append((int(size or 1) * (-1 if sign == "-" else 1), name))
        start = found.end()
    bound = BOUND.fullmatch(sides[1])
    if not parts or start < len(sides[0]) or bound is None:
        raise LapisError(
            "a cardinality constraint reads like |P| - 2 |Q| = 3", code="cardinality", span=span
        )
    number = int(bound[2]) * (-1 if bound[1] else 1)
    return Cardinality(tuple(parts), COMPARISONS[tokens[place].kind], number, span=span)


LARGEST = 1e9  # of weights: if two of this size cancel, a third keeps nine digits
NO_VALUE = "this weight has no finite value"
FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "log": math.log,
    "logx": lambda x: math.log(x) if x else -100.0,  # of pracmln
    "ln": math.log,
    "exp": math.exp,
    "sqrt": math.sqrt,
}
OPERATORS = {"PLUS", "MINUS", "STAR", "SLASH"}
MAX_NESTING = 50


def weight_length(tokens: Sequence[Token]) -> int:
    """Return the number of tokens at the start of a statement that are its weight, or 0."""
    index = operand_end(tokens, 0)
    while index and index < len(tokens) and tokens[index].kind in OPERATORS:
        following = operand_end(tokens, index + 1)
        if not following:
            break  # a starred atom, as in 1.5 *P(x)
        index = following
    if index < len(tokens) and tokens[index].kind in COMPARISONS:
        return 0  # a formula that starts with a number, as in 1 < x
    return index


def operand_end(tokens: Sequence[Token], index: int) -> int:
    """Return the index after the number, function call or bracket at `index`, or 0."""
    while index < len(tokens) and tokens[index].kind in ("MINUS", "PLUS"):
        index += 1
    if index >= len(tokens):
        return 0
    token = tokens[index]
    if token.kind == "NUMBER":
        return index + 1
    is_call = token.kind == "NAME" and token.text in FUNCTIONS
    start = index + 1 if is_call else index
    if start >= len(tokens) or tokens[start].kind != "LPAR":
        return 0
    depth = 0
    for end in range(start, len(tokens)):
        kind, text = tokens[end].kind, tokens[end].text
        if kind == "LPAR":
            depth += 1
        elif kind == "RPAR":
            depth -= 1
            if depth == 0:
                return end + 1
        elif (
            kind not in OPERATORS
            and kind != "NUMBER"
            and not (kind == "NAME" and text in FUNCTIONS)
        ):
            return 0
    return 0


def weight_and_period_error(period: Span) -> LapisError:
    return LapisError(
        "a formula has a weight or a final period, not both",
        code="weight-and-period",
        span=period,
        hint="the period makes the formula hard: leave out one of them",
    )


def evaluate_weight(tokens: Sequence[Token], source: Source) -> float:
    """Return the value of a weight expression."""
    whole = Span(source, tokens[0].start, tokens[-1].end)
    reader = WeightReader(tokens, whole)
    try:
        value = reader.sum(0)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise LapisError(NO_VALUE, code="weight", span=whole) from None
    if reader.place != len(tokens) or not math.isfinite(value):
        raise LapisError(NO_VALUE, code="weight", span=whole)
    if abs(value) > LARGEST:
        raise LapisError(
            f"a weight larger than {LARGEST:g} leaves too few digits for other weights",
            code="weight",
            span=whole,
            hint="write a hard formula (with a final period) if it must hold in every world",
        )
    return value


class WeightReader:
    """Evaluate a weight from left to right: sums of products of signed operands."""

    def __init__(self, tokens: Sequence[Token], whole: Span) -> None:
        self.tokens = tokens
        self.whole = whole
        self.place = 0  # the next token

    @property
    def kind(self) -> str:
        return self.tokens[self.place].kind if self.place < len(self.tokens) else "END"

    def take(self) -> Token:
        self.place += 1
        return self.tokens[self.place - 1]

    def sum(self, depth: int) -> float:
        value = self.product(depth)
        while self.kind in ("PLUS", "MINUS"):
            sign = 1.0 if self.take().kind == "PLUS" else -1.0
            value += sign * self.product(depth)
        return value

    def product(self, depth: int) -> float:
        value = self.operand(depth)
        while self.kind in ("STAR", "SLASH"):
            if self.take().kind == "STAR":
                value *= self.operand(depth)
            else:
                value /= self.operand(depth)
        return value

    def operand(self, depth: int) -> float:
        """Read a number, a function call or a bracket, after any signs."""
        sign = 1.0
        while self.kind in ("MINUS", "PLUS"):
            sign = -sign if self.take().kind == "MINUS" else sign
        if depth > MAX_NESTING:
            raise LapisError("this weight nests too deeply", code="weight", span=self.whole)
        if self.kind == "NUMBER":
            return sign * float(self.take().text)
        function = FUNCTIONS[self.take().text] if self.kind == "NAME" else float
        self.expect("LPAR")
        value = self.sum(depth + 1)
        self.expect("RPAR")
        return sign * function(value)

    def expect(self, kind: str) -> None:
        if self.kind != kind:
            raise LapisError(
                "this weight is not a number or an arithmetic expression",
                code="weight",
                span=self.whole,
            )
        self.place += 1

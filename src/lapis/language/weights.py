"""Weights: a number, or arithmetic over numbers with log, exp and sqrt."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from lapis.errors import LapisError, Source, Span
from lapis.language.lexer import Token

LARGEST = 1e9  # of weights: where two of that size cancel, nine digits of a third are left
FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "log": math.log,
    "ln": math.log,
    "exp": math.exp,
    "sqrt": math.sqrt,
}
OPERATORS = {"PLUS", "MINUS", "STAR", "SLASH"}
COMPARISONS = {"EQ", "NE", "LT", "GT", "LE", "GE"}
MAX_DEPTH = 50


def weight_length(tokens: Sequence[Token]) -> int:
    """How many tokens at the start of a statement are its weight; 0 if it has none."""
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
    """Index after the number, function call or bracket that starts at `index`, or 0."""
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


def weight_and_period(period: Span) -> LapisError:
    """A formula is soft or hard, not both."""
    return LapisError(
        "a formula has a weight or a final period, not both",
        code="weight-and-period",
        span=period,
        hint="the period makes the formula hard: leave out one of them",
    )


def evaluate_weight(tokens: Sequence[Token], source: Source) -> float:
    """The value of a weight expression: sums of products of signed operands."""
    position = 0
    whole = Span(source, tokens[0].start, tokens[-1].end)

    def fail(message: str) -> LapisError:
        return LapisError(message, code="weight", span=whole)

    def kind() -> str:
        return tokens[position].kind if position < len(tokens) else "END"

    def advance() -> Token:
        nonlocal position
        position += 1
        return tokens[position - 1]

    def total(depth: int) -> float:
        value = product(depth)
        while kind() in ("PLUS", "MINUS"):
            sign = 1.0 if advance().kind == "PLUS" else -1.0
            value += sign * product(depth)
        return value

    def product(depth: int) -> float:
        value = operand(depth)
        while kind() in ("STAR", "SLASH"):
            if advance().kind == "STAR":
                value *= operand(depth)
            else:
                value /= operand(depth)
        return value

    def operand(depth: int) -> float:
        sign = 1.0
        while kind() in ("MINUS", "PLUS"):
            sign = -sign if advance().kind == "MINUS" else sign
        if depth > MAX_DEPTH:
            raise fail("this weight nests too deeply")
        if kind() == "NUMBER":
            return sign * float(advance().text)
        function = FUNCTIONS[advance().text] if kind() == "NAME" else float
        if kind() != "LPAR":
            raise fail("this weight is not a number or an arithmetic expression")
        advance()
        value = total(depth + 1)
        if kind() != "RPAR":
            raise fail("this weight is not a number or an arithmetic expression")
        advance()
        return sign * function(value)

    try:
        value = total(0)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise fail("this weight has no finite value") from None
    if position != len(tokens) or not math.isfinite(value):
        raise fail("this weight has no finite value")
    if abs(value) > LARGEST:
        raise LapisError(
            f"a weight beyond {LARGEST:g} in size leaves too few digits for others",
            code="weight",
            span=whole,
            hint="what must hold in every world is a hard formula, with a period at its end",
        )
    return value

"""Explain errors in data, and find facts in their sources.

Reading keeps no spans, which makes correct files faster to read. If there is an error, the sources
are read again and all errors are reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from lapis.data.database import TRUTH_WORDS
from lapis.data.formats.facts import (
    CONSTANT,
    DECLARATION,
    END,
    NAME,
    SPACE,
    Declaration,
    Fact,
    Mistake,
    Origin,
    Unfinished,
    expand_ranges,
    scan_facts,
    source_text,
)
from lapis.errors import MAX_ERRORS, LapisError, Note, Source, Span, raise_all
from lapis.language.names import format_atom

_SPACE = re.compile(SPACE)
_NAME = re.compile(NAME)
_CONSTANT = re.compile(CONSTANT)
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]++)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+" + END)
_WORD = re.compile(r"[^ \t\r\f\v\n]+")
_OPEN_QUOTE = re.compile(r'"(?:[^"\\\n]|\\.)*')
_END = re.compile(END)

QUOTE_HINT = 'constants with spaces or other signs go in double quotes: "a b"'


class Reason(NamedTuple):
    start: int
    end: int
    message: str
    hint: str | None = None


def raise_syntax_errors(source: Source) -> None:
    """Raise all syntax errors of a text together; return if it has none."""
    errors: list[LapisError] = []
    more = 0
    for item in scan_facts(source.text):
        if isinstance(item, Fact | Declaration):
            continue
        if len(errors) == MAX_ERRORS:
            more += 1
            continue
        reason = explain_mistake(source.text, item)
        span = Span(source, reason.start, reason.end)
        errors.append(LapisError(reason.message, code="data-syntax", span=span, hint=reason.hint))
    raise_all(errors, more)


def explain_mistake(text: str, mistake: Mistake | Unfinished) -> Reason:
    """Return the reason and the place of an error."""
    start = mistake.start
    if isinstance(mistake, Unfinished):
        if text.startswith("/*", start):
            return Reason(start, start + 2, "this comment is never closed", "close it with */")
        brace = text.index("{", start)
        return Reason(start, brace + 1, "this type declaration is never closed", "close it with }")
    if number := _NUMBER.match(text, start):
        return _explain_number(start, number.end(), mistake.after_fact)
    position = start + 1 if text[start] in "!?" else start
    position = _skip(text, position)
    if name := _NAME.match(text, position):
        following = _skip(text, name.end())
        if text.startswith("(", following):
            return _explain_arguments(text, start, following)
        if not text.startswith("=", following):
            return _explain_end(text, name.end())
    if value := _CONSTANT.match(text, position):
        equals = _skip(text, value.end())
        if text.startswith("=", equals):
            return _explain_equation(text, start, _skip(text, equals + 1))
    if text.startswith('"', position):
        return _explain_quote(text, position)
    return _word(
        text, position, "expected a fact", "facts look like Friends(Ann,Bob), !Smokes(Ann), Rain"
    )


def _explain_number(start: int, end: int, after_fact: bool) -> Reason:
    if after_fact:
        return Reason(
            start,
            end,
            "a number after a fact (the value of a hybrid domain) is not supported",
            "write the value as a constant: Length(A1,0.5), or Value = f(A1)",
        )
    return Reason(
        start,
        end,
        "a number before a fact (soft evidence) is not supported",
        "mark the fact unknown, ?Fact(A), and give its probability with "
        '--soft-evidence "Fact(A)=0.7"',
    )


def _explain_arguments(text: str, start: int, bracket: int) -> Reason:
    """Explain an error in or after the bracketed constants that begin at `bracket`."""
    position = _skip(text, bracket + 1)
    if text.startswith(")", position):
        return _explain_end(text, position + 1)
    while True:
        constant = _CONSTANT.match(text, position)
        if constant is None:
            if text.startswith('"', position):
                return _explain_quote(text, position)
            if _at_line_end(text, position):
                return _unclosed(start, position)
            if text[position] in ",)":
                return Reason(position, position + 1, "a constant is missing here")
            return _word(text, position, "expected a constant", QUOTE_HINT)
        position = _skip(text, constant.end())
        if text.startswith(")", position):
            return _explain_end(text, position + 1)
        if _at_line_end(text, position):
            return _unclosed(start, position)
        if not text.startswith(",", position):
            return _word(text, position, "expected , or ) after a constant", QUOTE_HINT)
        position = _skip(text, position + 1)


def _explain_end(text: str, position: int) -> Reason:
    if text.startswith(".", position):
        return Reason(position, position + 1, "a fact has no final period", "remove the period")
    if text.startswith("(", position):
        return _explain_arguments(text, position, position)
    return _word(
        text,
        position,
        "expected the end of the line or a space after a fact",
        "data has only facts; formulas belong to the model",
    )


def _explain_equation(text: str, start: int, position: int) -> Reason:
    """Explain an error after the = of a function fact or a type declaration."""
    if text.startswith("{", position):
        end = text.find("}", position)
        end = len(text) if end < 0 else end + 1
        if not _END.match(text, end):
            return _explain_end(text, end)
        message, hint = "this is not a list of constants", "types look like person = {Ann, Bob}"
        if DECLARATION.match(text, start):
            try:
                expand_ranges(text[position + 1 : end - 1])
            except LapisError as error:
                message = error.message
        return Reason(start, end, message, f"{hint} or n = {{1, ..., 10}}")
    if name := _NAME.match(text, position):
        bracket = _skip(text, name.end())
        if text.startswith("(", bracket):
            return _explain_arguments(text, start, bracket)
    return _word(
        text,
        position,
        "expected a function with its arguments after =",
        "function facts look like Eve = MotherOf(Ann)",
    )


def _explain_quote(text: str, position: int) -> Reason:
    found = _OPEN_QUOTE.match(text, position)
    end = found.end() if found else position + 1
    if text.startswith('"', end):
        message = "unknown escape in this constant"
        return Reason(position, end + 1, message, r"known are \" \\ \n \r \t")
    return Reason(position, end, "this quote is never closed", 'close it with " on the same line')


def _unclosed(start: int, position: int) -> Reason:
    return Reason(start, position, "this fact has no closing )", "a fact stands on one line")


def _word(text: str, position: int, message: str, hint: str | None) -> Reason:
    if _at_line_end(text, position):
        return Reason(position, position + 1, message, hint)
    found = _WORD.match(text, position)
    return Reason(position, found.end() if found else position + 1, message, hint)


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _at_line_end(text: str, position: int) -> bool:
    return position >= len(text) or text[position] == "\n" or text.startswith("//", position)


T = TypeVar("T", bound=Hashable)
Shape = tuple[str, bool, int]  # predicate, function, arity with a function's value


def find_shapes(origins: Iterable[Origin], wanted: set[Shape]) -> dict[Shape, Span]:
    """Find the first fact of each wanted shape in one pass over the sources."""
    return _find_first(
        origins, wanted, lambda fact: (fact.predicate, fact.function, len(fact.constants))
    )


def _find_first(
    origins: Iterable[Origin], wanted: set[T], key: Callable[[Fact], T]
) -> dict[T, Span]:
    found: dict[T, Span] = {}
    for origin in origins:
        if (source := source_text(origin)) is None:
            continue
        for item in scan_facts(source.text):
            if isinstance(item, Fact) and key(item) in wanted:
                found.setdefault(key(item), Span(source, item.start, item.end))
                if len(found) == len(wanted):
                    return found
    return found


def find_declaration(origins: Iterable[Origin], type_name: str) -> Span | None:
    """Find the first declaration of a type in the sources."""
    for origin in origins:
        if (source := source_text(origin)) is None:
            continue
        for item in scan_facts(source.text):
            if isinstance(item, Declaration) and item.type == type_name:
                return Span(source, item.start, item.start + len(type_name))
    return None


Stated = tuple[str, tuple[str, ...], int]  # predicate, constants, truth


def find_statements(origins: Iterable[Origin], wanted: set[Stated]) -> dict[Stated, Span]:
    """Find the first statement of each wanted fact in one pass over the sources."""
    return _find_first(origins, wanted, lambda fact: (fact.predicate, fact.constants, fact.truth))


class Contradiction(NamedTuple):
    """Two statements that contradict each other."""

    predicate: str
    function: bool
    first: tuple[tuple[str, ...], int]  # constants, truth
    second: tuple[tuple[str, ...], int]


def raise_contradictions(origins: Sequence[Origin], found: Sequence[Contradiction]) -> None:
    """Raise all contradictions together, each with both places; return if there are none."""
    if not found:
        return
    shown = found[:MAX_ERRORS]
    sides = ((c.predicate, *side) for c in shown for side in (c.first, c.second))
    places = find_statements(origins, set(sides))
    errors = [_contradiction_error(contradiction, places) for contradiction in shown]
    raise_all(errors, len(found) - len(shown))


def _contradiction_error(found: Contradiction, places: dict[Stated, Span]) -> LapisError:
    (constants, truth), (others, other_truth) = found.first, found.second
    atom = format_atom(found.predicate, constants, found.function)
    if truth == other_truth:
        rival = format_atom(found.predicate, others, found.function)
        message = f"a function has one value, but the data states {atom} and {rival}"
        code = "data-two-values"
    else:
        message = f"{atom} is both {TRUTH_WORDS[truth]} and {TRUTH_WORDS[other_truth]}"
        code = "data-contradiction"
    pair = ((found.predicate, constants, truth), (found.predicate, others, other_truth))
    spans = [(place, stated[2]) for stated, place in places.items() if stated in pair]
    notes = [Note(f"first stated {TRUTH_WORDS[word]} here", place) for place, word in spans[:-1]]
    span = spans[-1][0] if spans else None
    hint = None if span else "remove one of the two facts"
    return LapisError(message, code=code, span=span, hint=hint, notes=notes)

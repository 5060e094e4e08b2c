"""Parse what files of pracmln and ProbCog have beside Alchemy's format.

Two grammars are in use:

- variables are marked, `?x`, and every other word is a constant, also `anna` or `cut.v.01`;
  `p|q(?x)` stands for one formula with p and one with q. A file is read so if it has such a
  variable.
- the standard grammar, in which v binds tighter than ^. A file is read so if it has a construct of
  these systems only: `#fixweight`, `#unique`, `=/=`, `logx`, `count(P(x, y) | x) = 2`.

In both a quantifier ends with the operand after it, `EXIST ?x (F)`. A line `#fixweight` excludes
the weight of the next formula from learning. A line `#unique{+?x, +?y}` gives the next formula one
weight for each set of constants.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lapis.errors import LapisError, Source, Span
from lapis.language.formulas import COMPARISONS, MAX_COUNT, Grammar, starts_lower
from lapis.language.lexer import Token
from lapis.language.names import is_whole
from lapis.language.syntax import (
    CountExists,
    Formula,
    PredicateDeclaration,
    ProbabilityConstraint,
    Setting,
    Statement,
    TypeDeclaration,
    Variable,
    WeightedFormula,
    atoms,
    subformulas,
    term_variables,
    terms_of,
)

WORDS = {"NAME", "NUMBER", "OR", "UNDERSCORE", "EXISTS", "FORALL"}
IN_WORDS = WORDS | {"PERIOD", "MINUS", "COLON", "SLASH"}
BEFORE_ARGUMENT = {"LPAR", "COMMA", "PLUS", "EXISTS", "EQ", "NE"}
MAX_VARIANTS = 1_000

ONLY_HERE = re.compile(r"=/=|logx|count|#(?:fixweight|unique)", re.IGNORECASE)

MARKED = Grammar(
    lambda name: name.startswith("?"), "variables are marked, ?x", short_quantifiers=True
)
STANDARD = Grammar(starts_lower, or_first=True, short_quantifiers=True)


def is_marked_variable(tokens: Sequence[Token], place: int) -> bool:
    """Return whether `?x` begins at a place: not `type?`, whose mark is behind the word."""
    after = tokens[place + 1 : place + 2]
    return (
        tokens[place].kind == "QUESTION"
        and bool(after)
        and after[0].kind in WORDS
        and after[0].start == tokens[place].end
        and (place == 0 or tokens[place - 1].kind in BEFORE_ARGUMENT or is_apart(tokens, place))
    )


def is_apart(tokens: Sequence[Token], place: int) -> bool:
    return tokens[place - 1].end < tokens[place].start


def has_marked_variables(tokens: Sequence[Token]) -> bool:
    return any(is_marked_variable(tokens, place) for place in range(len(tokens)))


def is_standard(statements: Sequence[Sequence[Token]], source: Source) -> bool:
    """Return whether a construct of pracmln's standard grammar occurs."""
    return bool(ONLY_HERE.search(source.text)) and any(
        token.kind == "DIRECTIVE"
        or token.text in ("=/=", "logx")
        or (token.text == "count" and is_count(statement[place:]))
        for statement in statements
        for place, token in enumerate(statement)
    )


def join_words(tokens: Sequence[Token], source: Source) -> list[Token]:
    """Join the tokens of `?x` and, in arguments and lists, those of `cut.v.01` to one name."""
    found: list[Token] = []
    opened: list[bool] = []  # for each open bracket whether it has arguments or constants
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if token.kind in ("LPAR", "LBRACE", "LSQB"):
            opened.append(token.kind == "LBRACE" or calls_predicate(found, token))
        elif token.kind in ("RPAR", "RBRACE", "RSQB") and opened:
            opened.pop()
        end = place + 1
        if is_marked_variable(tokens, place):
            end = word_end(tokens, place + 1, {"MINUS"})
        elif token.kind in WORDS and ((opened and opened[-1]) or is_compared(tokens, place)):
            end = word_end(tokens, place, IN_WORDS)
        elif token.kind == "NAME":
            end = word_end(tokens, place, {"MINUS"} if not opened else IN_WORDS)
        if end > place + 1:
            text = source.text[token.start : tokens[end - 1].end]
            if text.startswith("?"):
                text = "?" + plain_variable(text[1:])
            token = Token("NAME", text, token.start, tokens[end - 1].end)
        elif is_whole_argument(tokens, place, bool(opened and opened[-1])):
            token = Token("NAME", token.text, token.start, token.end)
        found.append(token)
        place = end
    return found


def plain_variable(name: str) -> str:
    """Return a variable's name in our notation: `v` and `exist` have a meaning of their own."""
    found = re.sub(r"\W", "_", name)
    if found[0].isdigit():
        found = f"x{found}"
    return f"{found}_" if found.lower() in ("v", "exist", "exists", "forall") else found


def check_marked_names(statement: Statement) -> None:
    """Raise if a predicate or type has a name that our notation does not have, such as is-a."""
    names: list[str] = []
    match statement:
        case PredicateDeclaration(name, parameters):
            names = [name, *(parameter.type for parameter in parameters)]
        case TypeDeclaration(name):
            names = [name]
        case WeightedFormula(formula) | ProbabilityConstraint(formula):
            names = [atom.predicate for atom in atoms(formula)]
    for name in names:
        if not re.fullmatch(r"\w+'*", name):
            raise LapisError(
                f"{name!r} cannot name a predicate or type: only letters, digits and _ can",
                code="name",
                span=statement.span,
                hint=f"write {re.sub(r'[^0-9A-Za-z]', '_', name)}, also in the data",
            )


def is_whole_argument(tokens: Sequence[Token], place: int, in_arguments: bool) -> bool:
    """Return whether a word such as `v` is an argument, or compared: it is a constant."""
    if tokens[place].kind not in WORDS or not (in_arguments or is_compared(tokens, place)):
        return False
    before = tokens[place - 1].kind if place else ""
    after = tokens[place + 1].kind if place + 1 < len(tokens) else ""
    ends = after in ("COMMA", "RPAR", "RBRACE") or before in ("EQ", "NE")
    return tokens[place].kind != "NUMBER" and before in BEFORE_ARGUMENT | {"LBRACE"} and ends


def is_compared(tokens: Sequence[Token], place: int) -> bool:
    return place > 0 and tokens[place - 1].kind in ("EQ", "NE")


def calls_predicate(before: Sequence[Token], bracket: Token) -> bool:
    """Return whether a bracket has the arguments of a predicate: P( without a space."""
    last = before[-1] if before else None
    functions = ("log", "logx", "exp", "sqrt", "ln")
    return (
        last is not None
        and last.kind == "NAME"
        and last.end == bracket.start
        and last.text not in functions
    )


def word_end(tokens: Sequence[Token], place: int, inner: set[str]) -> int:
    """Return the place after the word that begins at a place; it ends with a letter or digit."""
    end = place + 1
    while (
        end + 1 < len(tokens)
        and tokens[end].kind in inner | WORDS
        and tokens[end].start == tokens[end - 1].end
        and (tokens[end].kind in WORDS or tokens[end + 1].start == tokens[end].end)
        and (tokens[end].kind in WORDS or tokens[end + 1].kind in WORDS)
    ):
        end += 1
    return end + 1 if is_last_word(tokens, end) else end


def is_last_word(tokens: Sequence[Token], end: int) -> bool:
    """Return whether the last token of all continues the word before it."""
    return (
        end + 1 == len(tokens)
        and tokens[end].kind in WORDS
        and tokens[end].start == tokens[end - 1].end
    )


def expand_groups(tokens: list[Token], span: Span) -> list[list[Token]]:
    """Return the statements that a statement with groups `p|q(?x)` stands for."""
    variants: list[list[Token]] = [[]]
    place = 0
    while place < len(tokens):
        end = place
        names = [tokens[place]]
        while (
            names[0].kind == "NAME"
            and [t.kind for t in tokens[end + 1 : end + 3]] == ["BAR", "NAME"]
            and tokens[end].end == tokens[end + 1].start
            and tokens[end + 1].end == tokens[end + 2].start
        ):
            end += 2
            names.append(tokens[end])
        if len(names) * len(variants) > MAX_VARIANTS:
            raise LapisError(
                f"this line stands for more than {MAX_VARIANTS:,} formulas",
                code="too-many-variants",
                span=span,
            )
        variants = [[*variant, name] for variant in variants for name in names]
        place = end + 1
    return variants


def is_count(tokens: Sequence[Token]) -> bool:
    """Return whether a formula is `count(P(x, y) | x) = 2`."""
    kinds = [token.kind for token in tokens]
    if kinds[-1:] == ["PERIOD"]:
        kinds.pop()
    return (
        bool(tokens)
        and tokens[0].text == "count"
        and kinds[1:4:2] == ["LPAR", "LPAR"]
        and kinds[-3:-2] == ["RPAR"]
        and kinds[-2] in COMPARISONS
        and kinds[-1] == "NUMBER"
    )


def parse_counting(tokens: Sequence[Token], atom: Formula, fixed: set[str], span: Span) -> Formula:
    """Return the counting quantifier of `count(P(x, y) | x) = 2`: for each x two values of y."""
    counted = [
        variable.name
        for term in terms_of(atom)
        for variable in term_variables(term)
        if variable.name not in fixed
    ]
    *_, comparison, number = tokens
    if len(set(counted)) != 1:
        raise LapisError(
            f"count counts the values of one variable, here {len(set(counted))}",
            code="count",
            span=span,
            hint="the variables after | are fixed: count(P(x, y) | x) = 2 counts the values of y",
        )
    if not is_whole(number.text) or int(number.text) > MAX_COUNT:
        raise LapisError("count is compared with a whole number", code="count", span=span)
    bound = int(number.text)
    match COMPARISONS.get(comparison.kind):
        case "=" | "<=" | ">=" as operator:
            return CountExists((counted[0],), atom, operator, bound, span=span)
        case _:
            raise LapisError("count is compared by =, <= or >=", code="count", span=span)


def unique_variables(directive: str, span: Span) -> tuple[str, ...]:
    """Return the variables of `#unique{+?x, +?y}`."""
    inner = directive[directive.find("{") + 1 : directive.rfind("}")] if "{" in directive else ""
    names = tuple(name.strip().lstrip("+").lstrip("?") for name in inner.split(","))
    if len(names) < 2 or not all(name.isidentifier() for name in names):
        raise LapisError(
            "#unique takes two or more variables",
            code="unique",
            span=span,
            hint="as in #unique{+?x, +?y}",
        )
    return names


def keep_unique(
    statement: WeightedFormula, names: tuple[str, ...], types: Mapping[str, Sequence[str]]
) -> list[WeightedFormula]:
    """Return a formula with its weight for each set of constants of the variables.

    Weights that are to be learned need no such line: formulas that are equal share their effect,
    so the distributions are the same.
    """
    if not statement.weight:
        return [statement]
    marked = {v.name for node in subformulas(statement.formula) for v in plus_of(node)}
    others = sorted(marked - set(names))
    missing = [name for name in (*names, *others) if name not in types]
    if missing or not marked.issuperset(names):
        raise LapisError(
            "#unique needs variables marked + whose types list their constants",
            code="unique",
            span=statement.span,
            hint="list them, as in shape = {cube, cone}, or write a formula for each set",
        )
    own = list(types[names[0]])
    chosen = itertools.combinations_with_replacement(own, len(names))
    rest = list(itertools.product(*(types[name] for name in others)))
    return [
        replace(
            statement,
            at=tuple(
                Setting(name, constant)
                for name, constant in zip((*names, *others), (*row, *more), strict=True)
            ),
        )
        for row in chosen
        for more in rest
    ]


def plus_of(node: Formula) -> list[Variable]:
    return [v for term in terms_of(node) for v in term_variables(term) if v.plus]

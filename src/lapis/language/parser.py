"""Parse text to a syntax tree, statement by statement, and report all errors together."""

from __future__ import annotations

import io
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from lapis.errors import JoinedSource, LapisError, Note, Source, Span, Warning, raise_all
from lapis.language.dialects.forclift import (
    constrain,
    is_sized_type,
    parse_sized_type,
    split_constraints,
)
from lapis.language.dialects.lomrf import find_turnstile, parse_clause
from lapis.language.dialects.pracmln import is_count, parse_counting
from lapis.language.formulas import (
    USUAL,
    Grammar,
    check_brackets,
    evaluate_weight,
    factor_end,
    is_cardinality,
    parse_cardinality,
    parse_formula_tokens,
    split_numbers,
    variable_name,
    weight_and_period_error,
    weight_length,
)
from lapis.language.lexer import CLOSING, OPENING, Token, tokenize
from lapis.language.names import expand_range, lower_first_letter, parse_constant
from lapis.language.syntax import (
    Formula,
    FunctionDeclaration,
    Include,
    NumberFactor,
    Parameter,
    PredicateDeclaration,
    ProbabilityConstraint,
    Program,
    Setting,
    Statement,
    TypeDeclaration,
    WeightedFormula,
)
from lapis.runtime.text_files import decode_source

SETTINGS = {f"NAME EQ {kinds}" for kinds in ("NAME", "NUMBER", "STRING", "MINUS NUMBER")}


def parse_program(text: str, name: str = "<text>") -> Program:
    """Parse the statements of a text; includes are not followed.

    >>> parse_program("Smokes(person)\\n1.5 Smokes(x)").statements[1].weight
    1.5
    """
    found = parse_statements(Source(name, text))
    raise_all(found.errors)
    return Program(tuple(found.statements))


class Parsed(NamedTuple):
    """The statements of a text, the errors of those that are wrong, and notes for the user."""

    statements: list[Statement]
    errors: list[LapisError]
    notes: list[Warning]


def parse_statements(source: Source) -> Parsed:
    """Parse a text in the notation of its system."""
    from lapis.language.dialects import forclift, wfomc
    from lapis.language.dialects.choice import FileParser

    if forclift.is_theory(source):
        return Parsed(*forclift.parse_theory(source), [])
    if wfomc.is_wfomc(source):
        return Parsed(*wfomc.parse_wfomc(source), [])
    return FileParser(source).parse()


@dataclass
class Declared:
    """What the statements so far declare, and what can be seen of the others before.

    `listed` are the types whose constants any statement lists, `functions` all functions.
    """

    listed: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    predicates: dict[str, PredicateDeclaration | FunctionDeclaration] = field(default_factory=dict)
    grammar: Grammar = USUAL  # of the formulas; its predicates are those declared so far

    def __post_init__(self) -> None:
        self.names = {n for n, p in self.predicates.items() if isinstance(p, PredicateDeclaration)}
        self.grammar = replace(self.grammar, predicates=self.names)

    def add(self, declaration: PredicateDeclaration | FunctionDeclaration) -> None:
        self.predicates.setdefault(declaration.name, declaration)
        if isinstance(declaration, PredicateDeclaration):
            self.names.add(declaration.name)


def listed_types(statements: Sequence[Sequence[Token | LapisError]]) -> frozenset[str]:
    """Return the types whose constants are listed."""
    starts = [keep_tokens(statement[:3]) for statement in statements]
    return frozenset(start[0].text for start in starts if lists_constants(start))


def lists_constants(tokens: list[Token]) -> bool:
    """Return whether a statement begins with `type = {`."""
    named = bool(tokens) and (tokens[0].kind == "NAME" or tokens[0].text == "v")
    return named and [token.kind for token in tokens[1:3]] == ["EQ", "LBRACE"]


def declared_functions(statements: Sequence[Sequence[Token | LapisError]]) -> frozenset[str]:
    """Return the functions that statements of the form `type f(types)` declare."""
    starts = [keep_tokens(statement[:3]) for statement in statements]
    return frozenset(
        start[1].text
        for start in starts
        if [token.kind for token in start] == ["NAME", "NAME", "LPAR"]
    )


def parse_formula(text: str, name: str = "<formula>") -> Formula:
    """Parse one formula, as in a query.

    >>> from lapis.language.printer import print_formula
    >>> print_formula(parse_formula("smokes(x) => (cancer(x) v !friends(x, y))"))
    'smokes(x) => cancer(x) v !friends(x, y)'
    """
    source = Source(name, text)
    found = [t for t in tokenize(source) if isinstance(t, LapisError) or t.kind != "NEWLINE"]
    raise_all([token for token in found if isinstance(token, LapisError)])
    if not found:
        raise LapisError("there is no formula here", code="empty-formula", span=Span(source, 0, 0))
    return parse_formula_tokens(keep_tokens(found), source)


def parse_rule_text(text: str) -> tuple[tuple[NumberFactor, ...], Formula]:
    """Parse the text of a rule: its numbers and its formula.

    >>> numbers, formula = parse_rule_text("sim(x, y) * P(x)")
    >>> numbers[0].function, formula.predicate
    ('sim', 'P')
    """
    source = Source("<formula>", text)
    tokens = keep_tokens(
        [t for t in tokenize(source) if isinstance(t, LapisError) or t.kind != "NEWLINE"]
    )
    numbers, rest = split_numbers(tokens, source)
    return numbers, parse_formula_tokens(rest, source)


def keep_tokens(tokens: Sequence[Token | LapisError]) -> list[Token]:
    return [token for token in tokens if isinstance(token, Token)]


def read_model_text(path: Path) -> str:
    """Read a model file; raise LapisError if it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise LapisError(f"cannot read {path}: {reason}", code="unreadable-file") from None
    return io.StringIO(decode_source(str(path), content).text, newline=None).read()


def expand_includes(
    source: Source, folder: Path, open_files: Sequence[Path]
) -> tuple[Source, list[LapisError]]:
    """Replace each `#include "file"` by the text of the file; return errors of missing files."""
    if "#include" not in source.text:
        return source, []
    text = ""
    pieces: list[tuple[int, Source, int]] = []
    errors: list[LapisError] = []
    done = 0
    for statement in find_includes(source):
        assert statement.span is not None
        pieces.append((len(text), source, done))
        text += source.text[done : statement.span.start]
        done = statement.span.end
        path = folder / statement.path
        try:
            included = Source(str(path), read_include(statement, path, open_files))
        except LapisError as error:
            errors.append(error)
            continue
        inner, found = expand_includes(included, path.parent, [*open_files, path.resolve()])
        errors += found
        pieces.append((len(text), inner, 0))
        text += inner.text
    pieces.append((len(text), source, done))
    return JoinedSource(source.name, text + source.text[done:], tuple(pieces)), errors


def find_includes(source: Source) -> list[Include]:
    """Return the includes of a text that stand alone on their lines."""
    lines: list[list[Token | LapisError]] = [[]]
    for token in tokenize(source, hash_comments=True):
        if isinstance(token, Token) and token.kind == "NEWLINE":
            lines.append([])
        else:
            lines[-1].append(token)
    found = [keep_tokens(tokens) for tokens in lines]
    return [
        parse_include(tokens, source)
        for tokens in found
        if [token.kind for token in tokens] == ["INCLUDE", "STRING"] or names_model(tokens, source)
    ]


def names_model(tokens: Sequence[Token], source: Source) -> bool:
    """Return whether a line is `#include other.mln` or `#include <other.mln>`."""
    if len(tokens) < 3 or tokens[0].kind != "INCLUDE":
        return False
    return source.text[tokens[1].start : tokens[-1].end].rstrip(">").endswith(".mln")


def read_include(statement: Include, path: Path, open_files: Sequence[Path]) -> str:
    """Read the text of an included file; raise LapisError at the include if it is refused."""
    refusal = None
    if "\0" in statement.path:
        refusal = "this is not a file name"
    elif path.suffix == ".cpp":
        refusal = "functions linked in from C++ are not supported"
    elif path.suffix in (".db", ".gz"):
        refusal = "a model includes only models; pass data files to the command"
    elif path.resolve() in open_files:
        refusal = f"{statement.path!r} includes itself"
    if refusal:
        raise LapisError(refusal, code="include", span=statement.span)
    try:
        return read_model_text(path)
    except LapisError as error:
        raise LapisError(error.message, code="include", span=statement.span) from None


def parse_statement(tokens: list[Token], source: Source, declared: Declared) -> Statement:
    """Parse a statement; add what it declares to `declared`."""
    statement = parse_other(tokens, source, declared)
    if isinstance(statement, PredicateDeclaration | FunctionDeclaration):
        declared.add(statement)
    span = Span(source, tokens[0].start, tokens[-1].end)
    return statement or parse_weighted(tokens, source, span, declared.grammar)


def parse_other(tokens: list[Token], source: Source, declared: Declared) -> Statement | None:
    """Parse a statement that is no formula; None if it is one."""
    kinds = [token.kind for token in tokens]
    span = Span(source, tokens[0].start, tokens[-1].end)
    if kinds[0] == "INCLUDE":
        return parse_include(tokens, source)
    if lists_constants(tokens):
        return parse_type(tokens, source, span)
    if is_sized_type(tokens):
        return parse_sized_type(tokens, source, span)
    if kinds[:3] == ["NAME", "NAME", "LPAR"] and kinds[-1] == "RPAR" and not is_product(tokens):
        return parse_function(tokens, span)
    if is_cardinality(tokens):
        return parse_cardinality(tokens, span)
    if is_probability(tokens, declared):
        return parse_probability(tokens, source, span, declared.grammar)
    declaration = parse_predicate(tokens, span)
    if declaration is None:
        return None
    earlier = declared.predicates.get(declaration.name)
    marked = has_marks(declaration) or declaration.closed
    if earlier is None:
        check_types(declaration, declared.listed)
    elif earlier != declaration and marked:
        raise LapisError(
            f"predicate {declaration.name!r} is declared twice, differently",
            code="declared-twice",
            span=span,
            notes=[Note("it was first declared here", earlier.span)],
        )
    return declaration if earlier in (None, declaration) else None


def is_product(tokens: Sequence[Token]) -> bool:
    """Return whether a statement begins with a number and *, as in log age(x) * P(x)."""
    end = factor_end(tokens)
    return bool(end) and [token.kind for token in tokens[end : end + 1]] == ["STAR"]


# P(F) = 0.4 of ProbCog; SE is an older word for R.
PROBABILITY_WORDS = {"P": False, "R": True, "SE": True}


def is_probability(tokens: list[Token], declared: Declared) -> bool:
    """Return whether a statement is `P(F) = 0.4`, and P is not a function of the file."""
    kinds = [token.kind for token in tokens]
    name = tokens[0].text
    return (
        name in PROBABILITY_WORDS
        and name not in declared.functions
        and kinds[1:2] == ["LPAR"]
        and kinds[-3:] == ["RPAR", "EQ", "NUMBER"]
        and closing_place(tokens, 1) == len(tokens) - 3
    )


def closing_place(tokens: Sequence[Token], first: int) -> int:
    """Return the place of the bracket that closes the one at `first`, or the last place."""
    depth = 0
    for place in range(first, len(tokens)):
        depth += (tokens[place].kind in OPENING) - (tokens[place].kind in CLOSING)
        if depth == 0:
            return place
    return len(tokens) - 1


def parse_probability(
    tokens: list[Token], source: Source, span: Span, grammar: Grammar
) -> ProbabilityConstraint:
    """Parse `P(F) = 0.4` or `R(F) = 0.4`."""
    value = float(tokens[-1].text)
    if value > 1:
        raise LapisError(
            f"a probability is between 0 and 1, not {tokens[-1].text}",
            code="probability",
            span=Span(source, tokens[-1].start, tokens[-1].end),
        )
    if len(tokens) < 6:
        raise LapisError("there is no formula here", code="empty-formula", span=span)
    formula = parse_formula_tokens(tokens[2:-3], source, grammar)
    return ProbabilityConstraint(formula, value, PROBABILITY_WORDS[tokens[0].text], span=span)


def check_types(declaration: PredicateDeclaration, listed: Container[str]) -> None:
    """Raise if a type could be meant as a constant: P(Person) with no `Person = {…}`."""
    if has_marks(declaration):
        return
    for parameter in declaration.parameters:
        if not parameter.type[0].islower() and parameter.type not in listed:
            star, name = "*" * declaration.closed, declaration.name
            words = [p.type for p in declaration.parameters]
            types = ", ".join(map(lower_first_letter, words))
            raise LapisError(
                f"{parameter.type!r} may be a type or a constant, and {name!r} is not declared yet",
                code="type-or-constant",
                span=declaration.span,
                hint=f"a declaration is {star}{name}({types}), or has types that list their "
                f"constants, {parameter.type} = {{A, B}}; "
                f"a formula is ({star}{name}({', '.join(words)}))",
            )


def parse_include(tokens: list[Token], source: Source) -> Include:
    span = Span(source, tokens[0].start, tokens[-1].end)
    if names_model(tokens, source):
        return Include(source.text[tokens[1].start : tokens[-1].end].strip("<>"), span=span)
    if [token.kind for token in tokens] != ["INCLUDE", "STRING"]:
        raise LapisError(
            "#include takes one file name in quotes",
            code="include",
            span=span,
            hint='as in #include "other.mln"',
        )
    return Include(parse_constant(tokens[1].text), span=span)


def parse_type(tokens: list[Token], source: Source, span: Span) -> TypeDeclaration:
    check_brackets(tokens, source)
    name, inner = tokens[0].text, tokens[3:-1]
    if tokens[-1].kind != "RBRACE":
        last = tokens[-1]
        raise LapisError(
            f"unexpected {last.text!r} after the constants of type {name!r}",
            code="unexpected-token",
            span=Span(source, last.start, last.end),
        )
    return TypeDeclaration(name, parse_constants(inner, source), span=span)


def parse_constants(tokens: list[Token], source: Source) -> tuple[str, ...]:
    """Parse constants such as A, B, "c d" or -1, ..., 10; commas are optional, as in Alchemy."""
    constants: dict[str, None] = {}
    items = [token for token in join_signs(tokens) if token.kind != "COMMA"]
    for index, token in enumerate(items):
        span = Span(source, token.start, token.end)
        if token.kind == "ELLIPSIS":
            around = items[max(index - 1, 0) : index + 2 : 2]
            first, last = (around[0].text, around[-1].text) if len(around) > 1 else ("", "")
            try:
                constants |= dict.fromkeys(expand_range(first, last))
            except LapisError as error:
                raise LapisError(error.message, code=error.code, span=span) from None
        elif token.kind in ("NAME", "NUMBER", "OR", "EXISTS", "FORALL", "UNDERSCORE"):
            constants.setdefault(token.text)
        elif token.kind == "STRING":
            constants.setdefault(parse_constant(token.text))
        else:
            raise LapisError(
                f"{token.text!r} is not a constant",
                code="constant",
                span=span,
                hint="constants are names, numbers or strings in double quotes",
            )
    return tuple(constants)


def join_signs(tokens: list[Token]) -> list[Token]:
    """Join each minus and the number after it to one number."""
    found: list[Token] = []
    for token in tokens:
        if token.kind == "NUMBER" and found and found[-1].kind == "MINUS":
            minus = found.pop()
            token = Token("NUMBER", f"-{token.text}", minus.start, token.end)
        found.append(token)
    return found


def parse_function(tokens: list[Token], span: Span) -> FunctionDeclaration:
    value = tokens[0]
    if value.text[0].isdigit() or value.text.lower() in ("inf", "infinity", "nan"):
        raise LapisError(
            f"{value.text!r} is neither a number nor a type",
            code="bad-number",
            span=replace(span, end=value.end),
            hint="a weight is a number, as in 1.5; a final period makes a formula hard",
        )
    parameters = parse_parameters(tokens[3:-1])
    if parameters is None or not parameters or any(p.mark for p in parameters):
        raise LapisError(
            "a function is declared with the types of its arguments",
            code="function-declaration",
            span=span,
            hint="as in person MotherOf(person)",
        )
    return FunctionDeclaration(
        value.text, tokens[1].text, tuple(p.type for p in parameters), span=span
    )


def parse_predicate(tokens: list[Token], span: Span) -> PredicateDeclaration | None:
    """Parse P(type, type!), *P(type), P, or P(type) 2.5 1.0; None if it is a formula."""
    closed = tokens[0].kind == "STAR"
    rest = tokens[1:] if closed else tokens
    if not rest or rest[0].kind != "NAME":
        return None
    factors, rest = trailing_factors(rest)
    if len(rest) == 1:
        return PredicateDeclaration(rest[0].text, (), closed, factors, span=span)
    if rest[1].kind != "LPAR" or rest[-1].kind != "RPAR":
        return None
    parameters = parse_parameters(rest[2:-1])
    if parameters is None:
        return None
    return PredicateDeclaration(rest[0].text, parameters, closed, factors, span=span)


def trailing_factors(tokens: list[Token]) -> tuple[tuple[float, float] | None, list[Token]]:
    """Split off the two numbers that may follow a declaration in files of Forclift."""
    end = len(tokens)
    values: list[float] = []
    while len(values) < 2 and end >= 2 and tokens[end - 1].kind == "NUMBER":
        negative = tokens[end - 2].kind == "MINUS"
        values.append((-1 if negative else 1) * float(tokens[end - 1].text))
        end -= 2 if negative else 1
    if len(values) < 2:
        return None, tokens
    return (values[1], values[0]), tokens[:end]


def parse_parameters(tokens: list[Token]) -> tuple[Parameter, ...] | None:
    """Parse type names with optional marks ! or ?, separated by commas; None if there is more."""
    parameters: list[Parameter] = []
    index = 0
    while index < len(tokens):
        first = tokens[index].text[0]
        if tokens[index].kind not in ("NAME", "OR") or not (first.islower() or first.isupper()):
            return None
        mark = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if mark == "!":
            parameters.append(Parameter(tokens[index].text, "!"))
        elif mark == "?":
            parameters.append(Parameter(tokens[index].text, "?"))
        else:
            parameters.append(Parameter(tokens[index].text))
        index += 2 if mark in ("!", "?") else 1
        if index < len(tokens):
            if tokens[index].kind != "COMMA" or index + 1 == len(tokens):
                return None
            index += 1
    return tuple(parameters)


def has_marks(declaration: PredicateDeclaration) -> bool:
    return any(p.mark for p in declaration.parameters)


def parse_weighted(
    tokens: list[Token], source: Source, span: Span, grammar: Grammar = USUAL
) -> WeightedFormula:
    """Parse `[@fixed] [weight] [:utility] formula [.] [@ x = A, …]`."""
    tokens, fixed = split_fixed(tokens, source)
    tokens, at = split_settings(tokens, source)
    weight, weight_text, utility = None, None, None
    length = weight_length(tokens)
    if length:
        weight = evaluate_weight(tokens[:length], source)
        weight_text = "".join(token.text for token in tokens[:length])
        tokens = tokens[length:]
    if tokens and tokens[0].kind == "COLON":
        length = weight_length(tokens[1:])
        if not length:
            raise LapisError("a utility must be a number", code="utility", span=span)
        utility = evaluate_weight(tokens[1 : 1 + length], source)
        tokens = tokens[1 + length :]
    if weight is not None:
        tokens = drop_star(tokens)
    hard = bool(tokens) and tokens[-1].kind == "PERIOD"
    if hard:
        if weight is not None:
            raise weight_and_period_error(Span(source, tokens[-1].start, tokens[-1].end))
        tokens = tokens[:-1]
    if not tokens:
        raise LapisError("there is no formula here", code="empty-formula", span=span)
    if weight is None:
        refuse_without_weight(fixed, at, span)
    numbers, rest = split_numbers(tokens, source, grammar)
    tokens = list(rest)
    formula = parse_body(tokens, source, grammar, hard, span)
    if numbers:
        refuse_numbers(hard, utility, span)
    return WeightedFormula(
        formula, weight, weight_text, hard, fixed, utility, at, numbers=numbers, span=span
    )


def drop_star(tokens: list[Token]) -> list[Token]:
    """Drop the * between a weight and a number, as in 1.5 * sim(x, y) * P(x)."""
    end = factor_end(tokens[1:]) if tokens and tokens[0].kind == "STAR" else 0
    is_number = end and [token.kind for token in tokens[end + 1 : end + 2]] == ["STAR"]
    return tokens[1:] if is_number else tokens


def refuse_numbers(hard: bool, utility: float | None, span: Span) -> None:
    """Raise if a formula with numbers is hard or has a utility."""
    if hard:
        raise LapisError(
            "a hard formula holds or not: it is multiplied by no number",
            code="hard-product",
            span=span,
            hint="give it a weight, or compare the number: sim(x, y) > 0.5 => P(x).",
        )
    if utility is not None:
        raise LapisError(
            "a formula with a utility is multiplied by no number", code="utility", span=span
        )


def parse_body(
    tokens: list[Token], source: Source, grammar: Grammar, hard: bool, span: Span
) -> Formula:
    """Parse a formula with constraints on its variables, a counting formula, or a clause."""
    turnstile = find_turnstile(tokens)
    if turnstile is not None:
        return parse_clause(tokens, turnstile, source, grammar)
    constraints: list[list[Token]] = []
    if len(tokens) > 2 and tokens[-2].kind in ("NE", "NAME"):
        tokens, constraints = split_constraints(tokens)
    if not tokens:
        raise LapisError("there is no formula here", code="empty-formula", span=span)
    if is_count(tokens):
        atom, fixed = split_count_atom(tokens, source, grammar)
        formula = parse_counting(tokens, atom, fixed, span)
    else:
        formula = parse_formula_tokens(tokens, source, grammar)
    return constrain(formula, constraints, source, grammar, hard=hard)


def split_count_atom(
    tokens: list[Token], source: Source, grammar: Grammar
) -> tuple[Formula, set[str]]:
    """Return the atom of `count(P(x, y) | x) = 2`, and the variables after the bar."""
    close = closing_place(tokens, 1)
    inner = tokens[2:close]
    bars = [place for place, token in enumerate(inner) if token.kind == "BAR"]
    end = bars[0] if bars else len(inner)
    atom = parse_formula_tokens(inner[:end], source, grammar)
    return atom, {variable_name(t.text) for t in inner[end:] if t.kind == "NAME"}


def split_fixed(tokens: list[Token], source: Source) -> tuple[list[Token], bool]:
    """Remove a leading `@fixed` or `@`; return the rest and whether there was one."""
    if tokens[0].kind != "AT":
        return tokens, False
    word = tokens[1].text if len(tokens) > 1 and tokens[1].kind == "NAME" else None
    if word is None or word in ("log", "exp"):
        return tokens[1:], True
    if word != "fixed":
        raise LapisError(
            f"unknown mark '@{word}'",
            code="unknown-mark",
            span=Span(source, tokens[0].start, tokens[1].end),
            hint="@fixed excludes a weight from learning",
        )
    return tokens[2:], True


def refuse_without_weight(fixed: bool, at: tuple[Setting, ...], span: Span) -> None:
    """Raise if a formula without a weight has marks that need one."""
    if fixed:
        raise LapisError("@fixed needs a weight", code="fixed-without-weight", span=span)
    if at:
        raise LapisError(
            "'@' needs a weight: it gives the constants that the weight is for",
            code="settings-without-weight",
            span=at[0].span,
            hint="without '@' a weight is learned for each constant",
        )


def split_settings(tokens: list[Token], source: Source) -> tuple[list[Token], tuple[Setting, ...]]:
    """Split a statement at @ into its formula and the settings x = A, y = "b c"."""
    kinds = [token.kind for token in tokens]
    if "AT" not in kinds:
        return tokens, ()
    found: list[Setting] = []
    start = end = kinds.index("AT")
    while end < len(tokens):
        begin = end + 1
        end = kinds.index("COMMA", begin) if "COMMA" in kinds[begin:] else len(tokens)
        part = tokens[begin:end] or tokens[begin - 1 : begin]
        place = Span(source, part[0].start, part[-1].end)
        if " ".join(kinds[begin:end]) not in SETTINGS:
            raise LapisError(
                "'@' takes a constant for each variable marked '+'",
                code="settings",
                span=place,
                hint="as in 0.7 Has(p, +w) => Course(p) @ w = Java",
            )
        constant = "".join(parse_constant(token.text) for token in part[2:])
        found.append(Setting(part[0].text, constant, span=place))
    return tokens[:start], tuple(found)

r"""Parse ProbLog programs (De Raedt, Kimmig and Toivonen 2007; ProbLog 2: Fierens et al. 2015).

program     = { clause "." | comment }
clause      = heads [ ":-" body ] | query "(" atom ")" | evidence "(" atom [ "," truth ] ")"
heads       = head { ";" head }            several heads: an annotated disjunction
head        = [ probability "::" ] atom    probability: a number or a fraction, 1/6
body        = goal { "," goal }
goal        = [ "\+" ] atom | expression comparison expression
comparison  = "=" | "\=" | "==" | "\==" | "=:=" | "=\=" | "<" | ">" | "=<" | ">=" | "is"
term        = variable | constant | number        no function symbols, no lists
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from lapis.errors import LapisError, Source, Span

TOKEN = re.compile(
    r"(?P<space>\s+|%[^\n]*|/\*.*?\*/)"
    r"|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<variable>[A-Z_]\w*)"
    r"|(?P<name>[a-z]\w*|'(?:[^'\\\n]|\\.|'')*')"
    r"|(?P<mark>:-|<-|::|\\\+|=<|>=|=:=|=\\=|\\==|\\=|==|[=<>;,()./*+\-|\[\]{}!^])",
    re.DOTALL,
)
COMPARISONS = ("=", "\\=", "==", "\\==", "=:=", "=\\=", "<", ">", "=<", ">=", "is")
SUMS, PRODUCTS = ("+", "-"), ("*", "/")
PLAIN = re.compile(r"[a-z]\w*")


class ProgramToken(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ProgramTerm:
    """A variable or a constant; numbers are constants that compare as numbers."""

    text: str
    is_variable: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """An arithmetic operation."""

    sign: str
    left: Expression
    right: Expression


Expression = ProgramTerm | Operation


@dataclass(frozen=True, slots=True)
class Goal:
    """An atom of a body, negated or not, or an atom of a head."""

    functor: str
    terms: tuple[ProgramTerm, ...]
    positive: bool = True


@dataclass(frozen=True, slots=True)
class ProgramTest:
    """A comparison of a body."""

    sign: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class ProbabilisticClause:
    """Heads with their probabilities, None if certain, and a body."""

    heads: tuple[tuple[float | None, Goal], ...]
    body: tuple[Goal | ProgramTest, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Statement:
    """`query(atom)`, or `evidence(atom, truth)`."""

    goal: Goal
    truth: bool | None  # None: a query
    span: Span


class ParsedProgram(NamedTuple):
    clauses: tuple[ProbabilisticClause, ...]
    statements: tuple[Statement, ...]


def parse_problog(source: Source) -> ParsedProgram:
    """Parse a program; raise LapisError at the first construct that is not supported."""
    reader = ProgramReader(source)
    clauses: list[ProbabilisticClause] = []
    statements: list[Statement] = []
    while reader.peek().kind != "end":
        for found in reader.read_clause():
            (statements if isinstance(found, Statement) else clauses).append(found)  # type: ignore[arg-type]
    return ParsedProgram(tuple(clauses), tuple(statements))


class ProgramReader:
    """Read clauses from a text."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = list(self.tokenize())
        self.at = 0
        self.num_anonymous = 0

    def tokenize(self) -> Iterator[ProgramToken]:
        at, text = 0, self.source.text
        while at < len(text):
            found = TOKEN.match(text, at)
            if found is None:
                self.refuse(f"unexpected character {text[at]!r}", at, at + 1)
            if found.lastgroup != "space":
                yield ProgramToken(str(found.lastgroup), found.group(), found.start(), found.end())
            at = found.end()
        yield ProgramToken("end", "the end of the file", len(text), len(text))

    def peek(self, ahead: int = 0) -> ProgramToken:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def take(self) -> ProgramToken:
        token = self.peek()
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        if self.peek().text != text or self.peek().kind == "end":
            return False
        self.at += 1
        return True

    def expect(self, text: str, hint: str | None = None) -> ProgramToken:
        token = self.peek()
        if token.text != text:
            self.refuse(f"expected {text!r}, found {token.text!r}", token.start, token.end, hint)
        return self.take()

    def read_clause(self) -> list[ProbabilisticClause | Statement]:
        start = self.peek().start
        if self.peek().text in (":-", "<-"):
            self.refuse_token("directives are not supported", "remove it")
        heads = [self.read_head()]
        while self.accept(";"):
            heads.append(self.read_head())
        body: list[Goal | ProgramTest] = []
        if self.accept(":-") or self.accept("<-"):
            body.append(self.read_goal())
            while self.accept(","):
                body.append(self.read_goal())
            if self.peek().text == ";":
                self.refuse_token("a disjunction in a body is not supported", "write two clauses")
        end = self.expect(".", "a clause ends with a period").end
        span = Span(self.source, start, end)
        first = heads[0][1]
        if len(heads) == 1 and heads[0][0] is None and first.functor == "query":
            return [Statement(goal, None, span) for goal in [self.inner_goal(first, span)]]
        if len(heads) == 1 and heads[0][0] is None and first.functor == "evidence":
            return [self.evidence(first, span)]
        if len(heads) > 1 and any(probability is None for probability, _ in heads):
            self.refuse_span("a head without a probability beside others", span)
        total = sum(probability or 0.0 for probability, _ in heads)
        if total > 1 + 1e-9:
            self.refuse_span(f"the probabilities add up to {total:g}, more than 1", span)
        return [ProbabilisticClause(tuple(heads), tuple(self.without_true(body)), span)]

    def without_true(self, body: list[Goal | ProgramTest]) -> list[Goal | ProgramTest]:
        return [g for g in body if not (isinstance(g, Goal) and g.positive and g.functor == "true")]

    def inner_goal(self, head: Goal, span: Span) -> Goal:
        if not self.inner:
            self.refuse_span(f"{head.functor} takes an atom", span)
        return self.inner[0]

    def evidence(self, head: Goal, span: Span) -> Statement:
        goal = self.inner_goal(head, span)
        truth = True
        if len(self.inner) > 1:
            word = self.inner[1].functor
            if word not in ("true", "false") or len(self.inner) > 2:
                self.refuse_span("evidence is true or false", span)
            truth = word == "true"
        return Statement(
            Goal(goal.functor, goal.terms), truth if goal.positive else not truth, span
        )

    def read_head(self) -> tuple[float | None, Goal]:
        probability = None
        if self.peek().kind == "number":
            probability = self.read_probability()
        elif self.peek().kind == "variable":
            self.refuse_token("a probability must be a number", "as in 0.3::a(X) :- b(X).")
        name = self.peek()
        if name.text in ("query", "evidence") and probability is None:
            self.take()
            self.expect("(")
            self.inner = [self.read_signed()]
            while self.accept(","):
                self.inner.append(self.read_signed())
            self.expect(")")
            return None, Goal(name.text, ())
        return probability, self.read_atom()

    def read_signed(self) -> Goal:
        negated = self.accept("\\+")
        goal = self.read_atom()
        return Goal(goal.functor, goal.terms, not negated)

    def read_probability(self) -> float:
        token = self.take()
        value = float(token.text)
        if self.accept("/"):
            other = self.take()
            if other.kind != "number" or float(other.text) == 0:
                self.refuse(f"{other.text!r} divides no probability", other.start, other.end)
            value /= float(other.text)
        if value > 1:
            self.refuse(f"{value:g} is no probability", token.start, token.end)
        self.expect("::", "a fact or a head begins with a lower-case name")
        return value

    def read_goal(self) -> Goal | ProgramTest:
        if self.accept("\\+"):
            goal = self.read_atom()
            return Goal(goal.functor, goal.terms, False)
        after = self.peek(1)
        starts_atom = self.peek().kind == "name" and after.text not in COMPARISONS
        if starts_atom:
            return self.read_atom()
        left = self.read_expression()
        sign = self.take()
        if sign.text not in COMPARISONS:
            self.refuse(
                f"expected a comparison, found {sign.text!r}", sign.start, sign.end,
                f"one of {' '.join(COMPARISONS)}",
            )  # fmt: skip
        return ProgramTest(sign.text, left, self.read_expression())

    def read_expression(self) -> Expression:
        found = self.read_product()
        while self.peek().text in SUMS:
            found = Operation(self.take().text, found, self.read_product())
        return found

    def read_product(self) -> Expression:
        found = self.read_operand()
        while self.peek().text in PRODUCTS:
            found = Operation(self.take().text, found, self.read_operand())
        return found

    def read_operand(self) -> Expression:
        if self.accept("("):
            found = self.read_expression()
            self.expect(")")
            return found
        return self.read_term()

    def read_atom(self) -> Goal:
        token = self.take()
        if token.kind != "name":
            self.refuse(
                f"expected an atom, found {token.text!r}", token.start, token.end,
                "names of predicates begin with a lower-case letter",
            )  # fmt: skip
        terms: list[ProgramTerm] = []
        if self.accept("("):
            terms.append(self.read_term())
            while self.accept(","):
                terms.append(self.read_term())
            self.expect(")")
        return Goal(plain_name(token.text), tuple(terms))

    def read_term(self) -> ProgramTerm:
        token = self.take()
        if token.text == "-" and self.peek().kind == "number":
            return ProgramTerm(f"-{self.take().text}", False)
        if token.text in ("[", "{"):
            self.refuse("lists are not supported", token.start, token.end)
        if token.kind == "variable":
            if token.text == "_":
                self.num_anonymous += 1
                return ProgramTerm(f"_{self.num_anonymous}", True)
            return ProgramTerm(token.text, True)
        if token.kind not in ("name", "number"):
            self.refuse(f"expected a term, found {token.text!r}", token.start, token.end)
        if self.peek().text == "(":
            self.refuse(
                "function symbols are not supported", token.start, token.end,
                "arguments are constants, numbers and variables",
            )  # fmt: skip
        return ProgramTerm(plain_name(token.text), False)

    def refuse_token(self, message: str, hint: str) -> NoReturn:
        token = self.peek()
        self.refuse(message, token.start, token.end, hint)

    def refuse_span(self, message: str, span: Span) -> NoReturn:
        raise LapisError(message, code="problog-syntax", span=span)

    def refuse(self, message: str, start: int, end: int, hint: str | None = None) -> NoReturn:
        span = Span(self.source, start, end)
        raise LapisError(message, code="problog-syntax", span=span, hint=hint)


def plain_name(text: str) -> str:
    """Return a name without quotes that it does not need."""
    inside = text[1:-1] if text.startswith("'") else text
    return inside if PLAIN.fullmatch(inside) else text

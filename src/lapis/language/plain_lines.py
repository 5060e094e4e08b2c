r"""Formulas that stand on a line of their own, read by their form.

A learned model or a Bayesian network has tens of thousands of lines `1.2 A(X) ^ !B(Y) => C(Z)`,
and few forms. Cutting a line at its words leaves its punctuation; that, with the kind of each word
(number, variable, constant, …), fixes how it parses. So the first line of a form is parsed in
full, and turned into a recipe that makes the trees of all others from their words.

Only formulas of plain atoms and connectives, with a number for a weight or hard, have a form;
everything else, mistakes above all, is left to the parser.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import NamedTuple

from lapis.errors import LapisError, Source, Span
from lapis.language.formulas import starts_lower
from lapis.language.lexer import NAME, NUMBER, STRING, Token, keyword, tokenize
from lapis.language.names import parse_constant
from lapis.language.printer import print_formula
from lapis.language.syntax import (
    And,
    Atom,
    Constant,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
    Setting,
    Statement,
    Term,
    Variable,
    WeightedFormula,
    map_children,
    subformulas,
)
from lapis.language.weights import FUNCTIONS, LARGEST

WORDS = re.compile(f"({STRING}|{NUMBER}|{NAME})")
# The next line belongs to this one if it starts with a connective, a comma or a comparison.
JOINING = re.compile(r"(?:\s|//[^\n]*+)*+(?:[\^&∧∨|=⇒→⇔↔,≠<>≤≥]|!=|->|v(?![\w']))")
BEFORE_COMMENT = re.compile(rf'(?:[^"/\n]++|{STRING}|/(?!/))*+')
MARK = "\0"


class WrittenAtom(NamedTuple):
    """An atom that lines mention, made once for all of them."""

    atom: Atom
    negation: Not
    text: str


class LineForm(NamedTuple):
    """What lines with the same punctuation and kinds of words have in common."""

    build: Callable[[list[WrittenAtom]], Formula]
    atoms: tuple[tuple[int, ...], ...]  # in reading order: words of the predicate and its terms
    text_parts: tuple[str, ...]  # of the printed formula, before, between and after the atoms
    hard: bool
    sign: str  # of the weight: "" or "-"
    plus: tuple[int, ...]  # words with + before them
    at: tuple[tuple[int, int], ...]  # words behind @: variables and their constants


class WordPlaces(NamedTuple):
    """A line cut into words and what is between them: once for all of its atoms."""

    source: Source
    pieces: list[str]
    ends: list[int]  # of each piece, in the source


def find_words(line: Span) -> WordPlaces:
    pieces = WORDS.split(line.source.text[line.start : line.end])
    ends = [line.start + end for end in itertools.accumulate(map(len, pieces))]
    return WordPlaces(line.source, pieces, ends)


class PlainLine(NamedTuple):
    """The atoms of a line and its form: its names, without a walk over the tree."""

    form: LineForm
    atoms: list[WrittenAtom]

    @property
    def text(self) -> str:
        """The formula as it is printed."""
        first, *others = self.form.text_parts
        return first + "".join(
            [atom.text + part for atom, part in zip(self.atoms, others, strict=True)]
        )

    def atom_spans(self, words: WordPlaces, atom: int) -> list[Span]:
        """Where an atom and its terms stand."""
        source, pieces, ends = words
        name, *terms = (2 * word + 1 for word in self.form.atoms[atom])
        end = ends[terms[-1]] + pieces[terms[-1] + 1].index(")") + 1 if terms else ends[name]
        whole = Span(source, ends[name - 1], end)
        return [whole, *(Span(source, ends[word - 1], ends[word]) for word in terms)]


class Kinds(dict[str, str]):
    """What the grammar tells words apart by."""

    def __missing__(self, word: str) -> str:
        if word[0] == '"':
            kind = "s"
        elif re.fullmatch(NUMBER, word):
            kind = "d" if word.isdigit() else "n"
        elif word in FUNCTIONS or word == "fixed" or keyword(word) != "NAME":
            kind = f" {word} "
        else:
            kind = "x" if starts_lower(word) else "C"
        self[word] = kind
        return kind


class WrittenAtoms(dict[tuple[str, ...], WrittenAtom]):
    """Atoms by their words."""

    def __missing__(self, words: tuple[str, ...]) -> WrittenAtom:
        atom = Atom(words[0], tuple(map(parse_term, words[1:])))
        self[words] = found = WrittenAtom(atom, Not(atom), print_formula(atom))
        return found


def parse_term(word: str) -> Term:
    if word[0] == "+":
        return Variable(word[1:], True)
    is_variable = word[0] != '"' and starts_lower(word)
    return Variable(word) if is_variable else Constant(parse_constant(word))


class PlainLines:
    """The lines of a source, read by their forms; `parse` reads the first of each form."""

    def __init__(self, source: Source, parse: Callable[[list[Token]], Statement]) -> None:
        self.source = source
        self.parse = parse
        self.kinds = Kinds()
        self.atoms = WrittenAtoms()
        self.forms: dict[tuple[str, str], LineForm | None] = {}

    def read(self, start: int, end: int) -> WeightedFormula | None:
        """The formula on a line of the source; None if it must be parsed in full."""
        text = self.source.text
        code = BEFORE_COMMENT.match(text, start, end)
        if code is not None and text.startswith("//", code.end()):
            end = code.end()
        pieces = WORDS.split(text[start:end])
        between, words = pieces[::2], pieces[1::2]
        key = "\0".join(between), "".join(map(self.kinds.__getitem__, words))
        if key not in self.forms:
            self.forms[key] = self.find_form(start, end, words)
        form = self.forms[key]
        if form is None or JOINING.match(text, end):
            return None
        weight, weight_text = None, None
        if not form.hard:
            weight_text = form.sign + words[0]
            weight = float(weight_text)
            if not abs(weight) <= LARGEST:
                return None
        for i in form.plus:
            words[i] = "+" + words[i]
        at = tuple([Setting(words[x], parse_constant(words[c])) for x, c in form.at])
        known = self.atoms
        found = [known[tuple([words[i] for i in places])] for places in form.atoms]
        first = start + len(between[0]) - len(between[0].lstrip())
        last = end - len(between[-1]) + len(between[-1].rstrip())
        return WeightedFormula(
            form.build(found), weight, weight_text, form.hard, False, None, at,
            Span(self.source, first, last), PlainLine(form, found),
        )  # fmt: skip

    def find_form(self, start: int, end: int, words: list[str]) -> LineForm | None:
        text = self.source.text
        tokens = list(tokenize(self.source, start=start, end=end))
        readable = [token for token in tokens if isinstance(token, Token)]
        named = [token for token in readable if WORDS.fullmatch(token.text)]
        if len(readable) < len(tokens) or [token.text for token in named] != words or not words:
            return None
        try:
            statement = self.parse(readable)
        except LapisError:
            return None
        if not isinstance(statement, WeightedFormula) or statement.fixed:
            return None
        sign = "-" if readable[0].kind == "MINUS" else ""
        weighted = statement.weight_text == sign + words[0]
        if statement.utility is not None or not (weighted or statement.hard):
            return None
        word_at = {token.start: index for index, token in enumerate(named)}
        places = atom_places(statement.formula, word_at)
        if places is None:
            return None
        marked_words = {i for own in places for i in own if text[named[i].start - 1] == "+"}
        first = len(words) - 2 * len(statement.at)
        at = tuple((i, i + 1) for i in range(first, len(words), 2))
        settings = [Setting(words[x], parse_constant(words[c])) for x, c in at]
        if bool(marked_words) != bool(at) or settings != list(statement.at):
            return None
        parts = print_formula(marked(statement.formula)).split(MARK)
        build = recipe(statement.formula, iter(range(len(places))).__next__)
        return LineForm(build, places, tuple(parts), statement.hard, sign, tuple(marked_words), at)


def atom_places(formula: Formula, word_at: dict[int, int]) -> tuple[tuple[int, ...], ...] | None:
    """The words of each atom, in reading order; None if there is more than plain atoms."""
    found: list[tuple[int, ...]] = []
    for node in subformulas(formula):
        if isinstance(node, Atom):
            plus = [isinstance(term, Variable) and term.plus for term in node.terms]
            spans = [node.span, *(term.span for term in node.terms)]
            words = tuple(
                word_at.get(span.start + mark, -1) if span else -1
                for span, mark in zip(spans, [False, *plus], strict=True)
            )
            plain = all(isinstance(term, Variable | Constant) for term in node.terms)
            if node.starred or not plain or -1 in words:
                return None
            found.append(words)
        elif not isinstance(node, And | Or | Not | Implies | Iff):
            return None
    return tuple(found)


def marked(formula: Formula) -> Formula:
    """The formula with a mark in the place of each atom."""
    if isinstance(formula, Atom):
        return Atom(MARK, ())
    return map_children(formula, marked)


def recipe(
    formula: Formula, next_atom: Callable[[], int]
) -> Callable[[list[WrittenAtom]], Formula]:
    """How to build formulas of the same form from their atoms, given in reading order."""
    match formula:
        case Atom():
            number = next_atom()
            return lambda found: found[number].atom
        case Not(Atom()):
            number = next_atom()
            return lambda found: found[number].negation
        case Not(body):
            inner = recipe(body, next_atom)
            return lambda found: Not(inner(found))
        case And(parts) | Or(parts):
            node = type(formula)
            makers = [recipe(part, next_atom) for part in parts]
            return lambda found: node(tuple([make(found) for make in makers]))
        case Implies(left, right) | Iff(left, right):
            pair = type(formula)
            first, second = recipe(left, next_atom), recipe(right, next_atom)
            return lambda found: pair(first(found), second(found))
    raise AssertionError(formula)

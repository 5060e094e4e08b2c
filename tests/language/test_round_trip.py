"""parse → print → parse is the identity, on random trees and on files of every dialect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapis.language import parse_formula, parse_program, print_formula, print_program
from lapis.language.syntax import (
    And,
    Application,
    Atom,
    Comparison,
    Constant,
    Exists,
    ForAll,
    Formula,
    Iff,
    Implies,
    Not,
    Offset,
    Or,
    Term,
    Variable,
)

NAMES = ["x", "y", "z'", "person1"]
CONSTANTS = ["Anna", "B_2", "3", "2.5", "-4", "1e5", "007", "1st", "a b", 'q"\\', "éñ", "//", "v"]
OPERATORS = ["=", "!=", "<", ">", "<=", ">="]


@st.composite
def terms(draw: st.DrawFn) -> Term:
    variable = Variable(draw(st.sampled_from(NAMES)))
    match draw(st.integers(0, 5)):
        case 0 | 1:
            return variable
        case 2:
            return Constant(draw(st.sampled_from(CONSTANTS)))
        case 3:
            return Variable(variable.name, plus=True)
        case 4:
            return Offset(variable, draw(st.sampled_from([-3, -1, 1, 2])))
        case _:
            return Application("MotherOf", (variable,))


@st.composite
def formulas(draw: st.DrawFn, depth: int = 4) -> Formula:
    inner = formulas(depth - 1)
    match draw(st.integers(0, 9 if depth else 2)):
        case 0:
            name = draw(st.sampled_from(["P", "likes", "V"]))
            return Atom(name, tuple(draw(st.lists(terms(), max_size=3))))
        case 1:
            return Atom("Q", (draw(terms()),), starred=True)
        case 2:
            return Comparison(draw(st.sampled_from(OPERATORS)), draw(terms()), draw(terms()))
        case 3:
            return Not(draw(inner))
        case 4 | 5 as kind:
            node = And if kind == 4 else Or
            parts = tuple(draw(st.lists(inner, min_size=2, max_size=3)))
            first = parts[0].parts if isinstance(parts[0], node) else parts[:1]
            return node((*first, *parts[1:]))
        case 6 | 7 as kind:
            return (Implies if kind == 6 else Iff)(draw(inner), draw(inner))
        case kind:
            names = tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2)))
            return (Exists if kind == 8 else ForAll)(names, draw(inner))


@given(formulas())
def test_printing_then_parsing_a_formula_gives_it_back(formula: Formula) -> None:
    assert parse_formula(print_formula(formula)) == formula


PROGRAMS = {
    "alchemy": """
        person = {Anna, "bob b", C3}
        n = {1,...,10}
        m = { 2 , 4 7 }
        Smokes(person)
        Topic(page, topic!)
        At(person, place?)
        Rain
        person MotherOf(person)
        1.5 Smokes(x) => Cancer(x)   // comment
        log(3)/2 Friends(x, y) ^ Smokes(x)
            => Smokes(y)
        -2e-3 !Rain v (Rain <=> Smokes(Anna))
        Topic(p, +t) ^ *Smokes(x) /* both
            signs */
        FORALL x EXIST y,z Friends(x, y) ^ y != z.
        @fixed 2 Smokes(MotherOf(x)) = Smokes(x)
        Next(i+1) => Next(i)
        """.replace("Smokes(MotherOf(x)) = Smokes(x)", "Smokes(MotherOf(x)) => Smokes(x)"),
    "tuffy": "*wrote(person, paper)\n@5 wrote(a, B)\n-1 !wrote(a1, a3) v wrote(a1, a2)\n",
    "utilities": "Buys(person)\n-2:20 Buys(x)\n:-1 Buys(x)\n",
    "forclift": "p(person) 3.5 1.0\ns(person) 1.0 -1.0\n[ forall x p(x) ] ^ [ exist y s(y) ].\n",
    "wfomc": """
        ~friends(X,X).
        friends(X,Y) -> friends(Y,X).   # a comment
        2.7 friends(X,Y) & smokes(X) -> smokes(Y)
        \\exists_{=1} Y: (mate(X,Y)).
        \\exists_{=1} Y: mate(X,Y) & smokes(Y).
        \\forall X: (\\exists Y: (friends(X,Y) | smokes(X))).
        ExactlyOne[sun, rain].
        person = 3
        |smokes| - 2 |rain| = 1
        smokes(person0), ~smokes(person1)
        """,
    "unicode": "P(t)\nQ(t)\n1 ∀x (P(x) ∧ ¬Q(x) ⇒ ∃y (P(y) ∨ Q(y) ⇔ x ≠ y))\n",
}


@pytest.mark.parametrize("dialect", PROGRAMS)
def test_printing_then_parsing_a_program_gives_it_back(dialect: str) -> None:
    program = parse_program(PROGRAMS[dialect])
    printed = print_program(program)
    assert parse_program(printed) == program
    assert print_program(parse_program(printed)) == printed


def test_connectives_bind_as_in_alchemy() -> None:
    expected = parse_formula("((((!a(x)) ^ b(x)) v c(x)) => d(x)) <=> e(x)")
    assert parse_formula("!a(x) ^ b(x) v c(x) => d(x) <=> e(x)") == expected


def test_implication_groups_to_the_left() -> None:
    assert parse_formula("a => b => c") == parse_formula("(a => b) => c")


def test_a_quantifier_reaches_to_the_end() -> None:
    assert parse_formula("a ^ EXIST y b(y) v c(y)") == parse_formula("a ^ (EXIST y (b(y) v c(y)))")


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("1.5 P(x)", 1.5),
        ("-2 P(x)", -2.0),
        (".5 P(x)", 0.5),
        ("1e-3 P(x)", 1e-3),
        ("2 (P(x) v P(y))", 2.0),
        ("log(4)/log(2) P(x)", 2.0),
        ("(1+2)*3 P(x)", 9.0),
        ("2*exp(0) !P(x)", 2.0),
        ("1 - -1 P(x)", 2.0),
        ("3 *P(x)", 3.0),
        ("P(x)", None),
    ],
)
def test_weights(text: str, weight: float | None) -> None:
    statement = parse_program("P(t)\n" + text).statements[1]
    assert statement.weight == weight

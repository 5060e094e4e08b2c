"""parse → print → parse is the identity, on random trees and on files of every dialect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapis.errors import Source
from lapis.language import parse_formula, parse_program, print_formula, print_program
from lapis.language.parser import parse_statements
from lapis.language.syntax import (
    And,
    Application,
    Atom,
    Comparison,
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
    Program,
    Term,
    Variable,
)

NAMES = ["x", "y", "z'", "person1"]
CONSTANTS = [
    "Anna",
    "B_2",
    "3",
    "2.5",
    "-4",
    "1e5",
    "007",
    "1st",
    "2020_01",
    "a b",
    'q"\\',
    "éñ",
    "//",
]
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
    match draw(st.integers(0, 10 if depth else 2)):
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
        case 8:
            name, bound = draw(st.sampled_from(NAMES)), draw(st.integers(0, 12))
            operator = draw(st.sampled_from(["=", "<=", ">="]))
            return CountExists((name,), draw(inner), operator, bound)
        case kind:
            names = tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2)))
            return (Exists if kind == 9 else ForAll)(names, draw(inner))


@given(formulas())
def test_printing_then_parsing_a_formula_gives_it_back(formula: Formula) -> None:
    assert parse_formula(print_formula(formula)) == formula


QUANTIFIERS = ["\\exists", "\\exists_{=1}", "\\exists_{!=2}", "\\exists_{<3}", "\\forall"]
WFOMC_TERMS = ["X", "Y", "Z1", "d0", "éa", "7"]


@st.composite
def wfomc_formulas(draw: st.DrawFn, depth: int = 3) -> str:
    inner = wfomc_formulas(depth - 1)
    first, second = draw(st.sampled_from(WFOMC_TERMS)), draw(st.sampled_from(WFOMC_TERMS))
    match draw(st.integers(0, 8 if depth else 3)):
        case 0:
            return f"p({first},{second})"
        case 1:
            return f"Q({first})"
        case 2:
            return draw(st.sampled_from(["r", "R", "D"]))
        case 3:
            return f"({first} {draw(st.sampled_from(OPERATORS))} {second})"
        case 4:
            return f"~({draw(inner)})"
        case 5 | 6:
            connective = draw(st.sampled_from(["&", "|", "->", "<->"]))
            return f"({draw(inner)} {connective} {draw(inner)})"
        case kind:
            quantifier = draw(st.sampled_from(QUANTIFIERS))
            body = draw(inner)
            colon = ": " if kind == 7 else " "
            return f"({quantifier} {draw(st.sampled_from(['X', 'Y']))}{colon}{body})"


@st.composite
def wfomc_statements(draw: st.DrawFn) -> str:
    formula = draw(wfomc_formulas())
    match draw(st.integers(0, 4)):
        case 0:
            return f"{formula}."
        case 1:
            return f"{draw(st.sampled_from(['1.5', '-2', 'log(3)/2', '1e-3']))} {formula}"
        case 2:
            literals = [f"{draw(st.sampled_from(['', '~']))}p(d{i},d0)" for i in range(3)]
            return ", ".join(literals[: draw(st.integers(1, 3))])
        case 3:
            size = draw(st.sampled_from(["", "2 ", "-", "-3 "]))
            operator = draw(st.sampled_from(OPERATORS))
            return f"{size}|p| - |Q| {operator} {draw(st.integers(-9, 12))}  # {formula}"
        case _:
            return f"ExactlyOne[{', '.join(draw(st.permutations(['Q', 'S', 't'])))}]."


@given(
    st.sampled_from(["d", "Pd", "D", "person", "É", "aV", "V"]),
    st.integers(0, 12),
    st.lists(wfomc_statements(), max_size=6),
    st.integers(0, 6),
)
def test_printing_then_parsing_a_counting_file_gives_it_back(
    domain: str, size: int, lines: list[str], place: int
) -> None:
    text = "\n".join([*lines[:place], f"{domain} = {size}", *lines[place:]])
    # Some formulas have constants that are not in the domain.
    statements, errors, _ = parse_statements(Source("m.mln", text))
    assert {error.code for error in errors} <= {"outside-domain"}
    program = Program(tuple(statements))
    assert parse_program(print_program(program)) == program


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
        0.5 Topic(p, +t) ^ Smokes(+x) @ t = "a b", x = -3  // a comment
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
    "counting": """
        \\forall X: (\\forall Y: (E(X,Y) -> E(Y,X))) & ExactlyOne[Head, Tail] &
        \\forall X: (\\exists_{=2} Y: (E(X,Y))) & \\forall X: (\\exists_{>1} Y: (PRED2(X,Y)))
        V = {a, b, c}
        2.5 -1 E
        1 |Head| <= 2
        """,
    "probcog": "A(t)\nB(t)\n0 A(x) => B(x)\nP(A(x) => B(x)) = .4\nR(A(X) ^ B(Y)) = 0.25\n",
    "sizes": 'person = 3 {}\nthing = 2 {A, "b c"}\nP(person, thing)\n1 P(x, A)\n',
    "weights from data": "*Score(t, number)\nQ(t)\nw: !Score(x, w) v Q(x)\nw: Score(x, w)\n",
    "lomrf": "time = {0, ..., 5}\nP(time)\nQ(time)\n1 P(t++) => P(t--)\nQ(t) :- P(t) ^ !P(s).\n",
    "pracmln": "P(t)\nQ(t)\n#fixweight\nlog(2) P(?x) ^ Q(a.b-c)\n1 P|Q(?v) ^ ?v =/= exist\n",
    "rockit": '*E(T, T, float_)\nQ(T, T)\nw: !E(X, y, w) v Q(X, "a")\n|y| Q(x, y) <= 1\n',
    "theory": "domain D 2 {a}\npredicate p(D) 2 1\np(X) and p(a) 0.5 2\n!p(X), X != a\n",
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

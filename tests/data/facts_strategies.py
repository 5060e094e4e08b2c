"""Random facts, and random ways of writing them down."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from lapis.data import Database


class Stated(NamedTuple):
    predicate: str
    constants: tuple[str, ...]
    truth: bool | None


# Each predicate has one arity; f and g are functions, with their value last.
ARITY = {"Rain": 0, "Smokes": 1, "friend": 2, "Über_3": 3, "f": 2, "g": 1}
FUNCTIONS = {"f", "g"}
SIGN = {True: "", False: "!", None: "?"}

BARE_NAMES = ("A", "b", "C1", "3", "-2.5", "x.y", "o'Neil", "Person-1", "t:1", "é", "日")
BARE = st.sampled_from(BARE_NAMES)
ODD = st.text(st.characters(codec="utf-8"), max_size=4)
NASTY = st.sampled_from(
    ["", " ", "a b", 'say "x"', "\\", "//c", "/*", "{", "a,b", "(", "\n", "\r\n"]
)
CONSTANT = BARE | NASTY | ODD


@st.composite
def databases(draw: st.DrawFn, constants: st.SearchStrategy[str] = CONSTANT) -> list[Stated]:
    """Facts without contradiction, in random order, some of them stated twice."""
    pool = draw(st.lists(constants, min_size=1, max_size=6))
    truths: dict[tuple[str, tuple[str, ...]], bool | None] = {}
    values: set[tuple[str, tuple[str, ...]]] = set()
    for predicate in draw(st.lists(st.sampled_from(sorted(ARITY)), max_size=25)):
        size = ARITY[predicate]
        row = tuple(draw(st.lists(st.sampled_from(pool), min_size=size, max_size=size)))
        truth = draw(st.sampled_from([True, True, True, False, None]))
        if (predicate, row) in truths:
            continue
        if predicate in FUNCTIONS and truth:
            if (predicate, row[:-1]) in values:
                continue
            values.add((predicate, row[:-1]))
        truths[predicate, row] = truth
    facts = [Stated(*atom, truth) for atom, truth in truths.items()]
    return facts + draw(st.lists(st.sampled_from(facts), max_size=3) if facts else st.just([]))


def quoted(constant: str) -> str:
    for plain, escaped in (
        ("\\", "\\\\"),
        ('"', '\\"'),
        ("\n", "\\n"),
        ("\r", "\\r"),
        ("\t", "\\t"),
    ):
        constant = constant.replace(plain, escaped)
    return f'"{constant}"'


GAPS = st.sampled_from(["", "", "", " ", "\t", "  "])
ENDS = st.sampled_from(
    ["\n", "\n", "\n", "\r\n", " ", " \t", "\n\n", " // note P(a\n", " /* x\ny */ "]
)


@st.composite
def writings(draw: st.DrawFn, facts: list[Stated]) -> str:
    """The facts as text, in any form that the format allows."""
    plain = draw(st.booleans())
    gap = st.just("") if plain else GAPS
    parts = []
    for predicate, constants, truth in facts:
        names = [
            constant
            if constant in BARE_NAMES and (plain or draw(st.booleans()))
            else quoted(constant)
            for constant in constants
        ]
        value = ""
        if predicate in FUNCTIONS:
            value = f"{names.pop()}{draw(gap)}={draw(gap)}"
        inside = f"{draw(gap)},{draw(gap)}".join(names)
        arguments = f"{draw(gap)}({draw(gap)}{inside}{draw(gap)})"
        if predicate not in FUNCTIONS and not names and draw(st.booleans()):
            arguments = ""
        parts.append(f"{SIGN[truth]}{draw(gap)}{value}{predicate}{arguments}")
        parts.append("\n" if plain else draw(ENDS))
    text = "".join(parts)
    return text.rstrip() if draw(st.booleans()) else text


def stated(database: Database) -> set[Stated]:
    return {Stated(*fact) for fact in database.facts()}


def functions(database: Database) -> set[str]:
    return {name for name, relation in database.relations.items() if relation.function}

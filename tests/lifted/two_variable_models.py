"""Random models of the two-variable fragment whose worlds can be enumerated."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from lapis.language.printer import print_formula
from lapis.language.syntax import (
    And,
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
    Or,
    Term,
    Variable,
)
from oracle import Facts

Scope = tuple[tuple[str, str], ...]  # variables and their types, at most two

UNARY = (("P", "a"), ("Q", "a"), ("U", "b"))
BINARY = (("R", "a", "a"), ("L", "a", "b"))
PREDICATES = ("W", "P", "Q", "U", "R", "L")
CONSTANTS = {"a": ("A", "B", "C"), "b": ("X", "Y")}
SIZES = [
    {"a": 1, "b": 1},
    {"a": 1, "b": 2},
    *[{"a": 2, "b": 1}] * 4,
    {"a": 2, "b": 2},
    {"a": 3, "b": 0},
]


@dataclass(frozen=True)
class Theory:
    text: str
    facts: Facts
    query: tuple[str, ...]  # predicates that are open


@st.composite
def terms(draw: st.DrawFn, scope: Scope, type_name: str) -> Term:
    names = [name for name, own in scope if own == type_name]
    if names and draw(st.integers(0, 9)):
        return Variable(draw(st.sampled_from(names)))
    return Constant(CONSTANTS[type_name][0])


@st.composite
def formulas(draw: st.DrawFn, scope: Scope, depth: int = 3) -> Formula:
    """Draw a formula whose free variables are in the scope."""
    kind = draw(st.integers(0, 9 if depth else 3))
    inner = formulas(scope, depth - 1)
    if kind == 0:
        name, own = draw(st.sampled_from(UNARY))
        return Atom(name, (draw(terms(scope, own)),))
    if kind in (1, 2):
        name, first, second = draw(st.sampled_from(BINARY))
        return Atom(name, (draw(terms(scope, first)), draw(terms(scope, second))))
    if kind == 3:
        if len({own for _, own in scope}) == 1 and len(scope) == 2:
            return Comparison("=", Variable(scope[0][0]), Variable(scope[1][0]))
        return Atom("W", ())
    if kind == 4:
        return Not(draw(inner))
    if kind in (5, 6):
        return (And if kind == 5 else Or)((draw(inner), draw(inner)))
    if kind == 7:
        return (Implies if draw(st.booleans()) else Iff)(draw(inner), draw(inner))
    name = f"z{depth}"
    kept = draw(st.sampled_from(scope)) if scope else None
    own = draw(st.sampled_from(["a", "a", "b"]))
    body = draw(formulas(((name, own), *([kept] if kept else [])), depth - 1))
    where = Atom("P" if own == "a" else "U", (Variable(name),))  # so that its type is known
    body = draw(st.sampled_from([And((body, where)), Or((body, where)), Implies(body, where)]))
    if kind == 8:
        return draw(st.sampled_from([Exists, ForAll]))((name,), body)
    operator = draw(st.sampled_from(["=", "<=", ">="]))
    return CountExists((name,), body, operator, draw(st.integers(0, 3)))


@st.composite
def theories(draw: st.DrawFn, soft: bool = True) -> Theory:
    """Draw one to three rules over one or two types, some facts and sometimes a constraint."""
    sizes = draw(st.sampled_from(SIZES))
    lines = [f"{t} = {{{', '.join(CONSTANTS[t][:n])}}}" for t, n in sizes.items()]
    marks = draw(st.sampled_from(["", "", "", "!", "?"]))
    lines += ["W", "P(a)", "Q(a)", "U(b)", "R(a, a)", f"L(a, b{marks})"]
    for _ in range(draw(st.integers(1, 3))):
        types = draw(st.sampled_from([("a",), ("a", "a"), ("a", "b"), ()]))
        scope = tuple((f"x{i}", own) for i, own in enumerate(types))
        guard = [Atom("P" if own == "a" else "U", (Variable(n),)) for n, own in scope]
        formula = Or((*guard, draw(formulas(scope)))) if guard else draw(formulas(scope))
        text = print_formula(formula)
        hard = not soft or draw(st.booleans())
        lines.append(f"({text})." if hard else f"{draw(st.sampled_from([0.7, -1.3, 0.1]))} {text}")
    if draw(st.integers(0, 2)) == 0:
        parts = draw(st.sampled_from(["|P|", "|R|", "|R| - |P|", "2 |U| + |L|", "|W| + |P|"]))
        operator = draw(st.sampled_from(["=", "<=", ">=", "<", ">", "!="]))
        lines.append(f"{parts} {operator} {draw(st.integers(0, 3))}")
    closed = draw(st.sampled_from([(), (), (), ("P",), ("R",), ("Q", "L"), ("W", "U")]))
    query = tuple(name for name in PREDICATES if name not in closed)
    return Theory("\n".join(lines) + "\n", draw(facts(sizes)), query)


@st.composite
def facts(draw: st.DrawFn, sizes: dict[str, int]) -> Facts:
    """Draw facts about a few atoms."""
    found: dict[tuple[str, tuple[str, ...]], str] = {}
    for _ in range(draw(st.integers(0, 3))):
        name, *types = draw(st.sampled_from([*UNARY, *UNARY, *BINARY]))
        if not all(sizes[t] for t in types):
            continue
        constants = [draw(st.sampled_from(CONSTANTS[t][: sizes[t]])) for t in types]
        found[name, tuple(constants)] = draw(st.sampled_from(["true", "false", "unknown"]))
    said = (
        tuple(a for a, v in found.items() if v == word) for word in ("true", "false", "unknown")
    )
    return Facts(*said)

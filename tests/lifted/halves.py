"""Random theories whose clauses consist of halves without a common variable.

A rule joins two or three halves. The literals of a half share variables with each other and with no
other half. Arguments may be named constants or values of functions, halves may be quantified, rules
may be hard, and some weights are large. Types have one to three constants, of which formulas may
name some; the oracle enumerates all worlds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from hypothesis import strategies as st

import lapis
import oracle
from lapis.language.model import Predicate
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
    Or,
    Term,
    Variable,
    free_variables,
)
from oracle import Facts
from strategies import declaration, show

NAMES = {"a": ("A1", "A2", "A3"), "b": ("B1", "B2", "B3")}
SIGNATURES = (
    Predicate("p", ("a", "b")),
    Predicate("q", ("a", "a")),
    Predicate("r", ("a",)),
    Predicate("s", ("b",)),
    Predicate("t", ()),
    Predicate("f", ("a", "a"), (1,), function=True),
    Predicate("g", ("a", "b"), (1,), function=True),
)
WEIGHTS = ("0.5", "-1", "1.7", "-2.3", "20", "-20", "99.5", "-99.5", "700", "-700")
MAX_ATOMS = 10
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class HalvedTheory:
    """A model, the constants that its formulas name, and the sizes of its types."""

    rules: tuple[str, ...]
    predicates: tuple[Predicate, ...]
    named: Mapping[str, tuple[str, ...]]
    sizes: Sizes

    def text(self, constants: Mapping[str, tuple[str, ...]]) -> str:
        types = [f"{t} = {{{', '.join(found)}}}" for t, found in constants.items() if found]
        return "\n".join([*types, *map(declaration, self.predicates), *self.rules]) + "\n"

    @property
    def model(self) -> lapis.Model:
        """Return the model that declares the named constants; `sizes` adds the others."""
        return lapis.parse(self.text(self.named))

    @property
    def listed(self) -> lapis.Model:
        """Return the model that declares every constant."""
        return lapis.parse(self.text({t: NAMES[t][:n] for t, n in self.sizes.items()}))

    @property
    def query(self) -> tuple[str, ...]:
        return tuple(predicate.name for predicate in self.predicates)

    def enumerate(self) -> oracle.OracleAnswer:
        return oracle.infer(self.listed, Facts(), self.query)


@st.composite
def halved_theories(draw: st.DrawFn) -> HalvedTheory:
    predicates = draw(st.lists(st.sampled_from(SIGNATURES), min_size=1, max_size=4, unique=True))
    used = sorted({t for p in predicates for t in p.types})
    fitting = [
        dict(zip(used, found, strict=True))
        for found in product((3, 2, 1), repeat=len(used))
        if num_atoms(predicates, dict(zip(used, found, strict=True))) <= MAX_ATOMS
    ]
    if not fitting:
        predicates, used, fitting = [SIGNATURES[2]], ["a"], [{"a": n} for n in (1, 2, 3)]
    sizes = draw(st.sampled_from(fitting))
    named = {t: NAMES[t][: draw(st.integers(0, sizes[t]))] for t in used}
    number = draw(st.integers(1, 3))
    rules = tuple(draw(halved_rules(predicates, named)) for _ in range(number))
    return HalvedTheory(rules, tuple(predicates), named, sizes)


def num_atoms(predicates: list[Predicate], sizes: Sizes) -> int:
    return sum(prod(sizes[t] for t in predicate.types) for predicate in predicates)


@st.composite
def halved_rules(
    draw: st.DrawFn, predicates: list[Predicate], named: Mapping[str, tuple[str, ...]]
) -> str:
    """Draw a line of a model: joined halves, mostly by a disjunction."""
    number = draw(st.sampled_from((2, 2, 2, 3)))
    halves = [draw(halves_over(predicates, named, place)) for place in range(number)]
    first, *rest = halves
    others: Formula = rest[0] if len(rest) == 1 else Or(tuple(rest))
    joined = draw(st.sampled_from(("or", "or", "or", "or", "and", "implies", "iff")))
    formula: Formula
    match joined:
        case "or":
            formula = Or(tuple(halves))
        case "and":
            formula = And(tuple(halves))
        case "implies":
            formula = Implies(first, others)
        case _:
            formula = Iff(first, others)
    if draw(st.sampled_from((False, False, False, True))):
        return f"({show(formula)})."
    return f"{draw(st.sampled_from(WEIGHTS))} ({show(formula)})"


@st.composite
def halves_over(
    draw: st.DrawFn,
    predicates: list[Predicate],
    named: Mapping[str, tuple[str, ...]],
    place: int,
) -> Formula:
    """Draw one to three literals over variables of this half, sometimes quantified."""
    variables = {"a": (f"x{place}", f"y{place}"), "b": (f"u{place}", f"v{place}")}

    def term_of(type_name: str, *, nest: bool = True) -> Term:
        functions = [p for p in predicates if p.function and p.types[-1] == type_name]
        if nest and functions and draw(st.integers(0, 3)) == 3:
            inner = draw(st.sampled_from(functions))
            return Application(inner.name, tuple(term_of(t) for t in inner.types[:-1]))
        terms: list[Term] = [*map(Variable, variables[type_name])]
        return draw(st.sampled_from([*terms, *map(Constant, named[type_name])]))

    def literal() -> Formula:
        predicate = draw(st.sampled_from(predicates))
        atom: Formula
        if predicate.function:
            argument, value = (term_of(t, nest=False) for t in predicate.types)
            atom = Comparison("=", value, Application(predicate.name, (argument,)))
        else:
            atom = Atom(predicate.name, tuple(term_of(t) for t in predicate.types))
        return Not(atom) if draw(st.booleans()) else atom

    literals = [literal() for _ in range(draw(st.sampled_from((1, 1, 2, 2, 3))))]
    half: Formula = literals[0] if len(literals) == 1 else Or(tuple(literals))
    free = free_variables(half)
    pair = [name for name in variables["a"] if name in free]
    if len(pair) == 2 and draw(st.integers(0, 3)) == 3:
        half = Or((half, Comparison("=", Variable(pair[0]), Variable(pair[1]))))
    quantifier = draw(st.sampled_from((None, None, None, Exists, ForAll)))
    if quantifier is not None and free:
        bound = draw(st.lists(st.sampled_from(free), min_size=1, max_size=2, unique=True))
        half = quantifier(tuple(bound), half)
    return half

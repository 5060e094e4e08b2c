"""Random fields as text, and all their worlds straight from the definition.

    f_g(x) = exp(Σ_j w_j Σ_g' f_j,g,g'(x)) / Z,   log Z = Σ_j max(w_j, 0) n_j

by recursion over the field, a dictionary for the world. Nothing here knows of tables, strides,
cached sums or back-propagation.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from lapis.fields.field import ROOT, Child, Field, Parfeature
from lapis.fields.field_objectives import FieldExample
from lapis.fields.lifted_counts import class_pseudo_likelihood
from lapis.language.syntax import Variable

GroundAtom = tuple[str, tuple[str, ...]]
World = Mapping[GroundAtom, bool]

DECLARATIONS = """\
person = {Anna, Bob}
thing = {Cup}
Rain
P(person)
Q(person, person)
R(person, thing)
"""
DOMAINS = {"person": ("Anna", "Bob"), "thing": ("Cup",)}
PREDICATES = {
    "Rain": (), "P": ("person",), "Q": ("person", "person"), "R": ("person", "thing"),
}  # fmt: skip
VARIABLES = {"person": ("x", "y", "z"), "thing": ("t", "u")}
WEIGHTS = ("1", "-1", "0.5", "-0.5", "2", "-3", "1.25", "-0.75", "4")
COMPARE = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le,
    ">=": operator.ge,
}  # fmt: skip


@st.composite
def field_texts(draw: st.DrawFn) -> str:
    """Up to three parfeatures below the root, each of atoms, comparisons and earlier ones."""
    types: dict[str, tuple[str, ...]] = dict(PREDICATES)
    written: list[str] = []
    for number in range(draw(st.integers(0, 3))):
        parameters = draw(st.sampled_from([(), ("x",), ("x", "y"), ("x", "t"), ("t",)]))
        lines = [draw(child_lines(types)) for _ in range(draw(st.integers(1, 3)))]
        # What uses every parameter.
        covering = {(): "Rain", ("x",): "P(x)", ("x", "y"): "Q(y, x)", ("x", "t"): "R(x, t)",
                    ("t",): "R(y, t)"}  # fmt: skip
        lines.append(f"  {draw(st.sampled_from(WEIGHTS))} {covering[parameters]}")
        name = f"f{number}"
        head = f"{name}({', '.join(parameters)}):" if parameters else f"{name}:"
        written.append("\n".join([head, *lines]))
        types[name] = tuple("thing" if p == "t" else "person" for p in parameters)
    lines = [draw(child_lines(types)) for _ in range(draw(st.integers(1, 2)))]
    for name in types:
        if name not in PREDICATES:
            lines.append(draw(child_lines({name: types[name]})))
    written.append("\n".join(["root:", *lines]))
    return DECLARATIONS + "\n".join(reversed(written)) + "\n"


@st.composite
def child_lines(draw: st.DrawFn, types: Mapping[str, tuple[str, ...]]) -> str:
    weight = draw(st.sampled_from(WEIGHTS))
    target = draw(st.sampled_from(sorted(types)))
    if len(types) > 1 and draw(st.integers(0, 7)) == 0:
        # Beside an atom that tells the types of both.
        return f"  {weight} x {draw(st.sampled_from(['=', '!=']))} y\n  {weight} Q(x, y)"
    terms = [draw(st.sampled_from([*VARIABLES[kind], DOMAINS[kind][0]])) for kind in types[target]]
    return f"  {weight} {target}({', '.join(terms)})" if terms else f"  {weight} {target}"


def pseudo(field_example: FieldExample, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """Compute the pseudo-log-likelihood and its gradient by the library."""
    values, gradient = class_pseudo_likelihood(field_example.classes, weights)
    return sum(values.values()), gradient


def ground_atoms(field: Field, domains: Mapping[str, Sequence[str]]) -> list[GroundAtom]:
    return [
        (name, constants)
        for name, predicate in field.declarations.predicates.items()
        for constants in itertools.product(*(domains[t] for t in predicate.types))
    ]


def log_weight(field: Field, domains: Mapping[str, Sequence[str]], world: World) -> float:
    """The exponent of the root."""
    return exponent(field, field.by_name[ROOT], {}, domains, world)[0]


def feature(
    field: Field,
    parfeature: Parfeature,
    binding: Mapping[str, str],
    domains: Mapping[str, Sequence[str]],
    world: World,
) -> float:
    found, largest = exponent(field, parfeature, binding, domains, world)
    return math.exp(found - largest)


def exponent(
    field: Field,
    parfeature: Parfeature,
    binding: Mapping[str, str],
    domains: Mapping[str, Sequence[str]],
    world: World,
) -> tuple[float, float]:
    """Σ w Σ f, and log Z."""
    total = largest = 0.0
    for child in parfeature.children:
        names = [n for n in child.variables if n not in parfeature.parameters]
        for values in itertools.product(*(domains[parfeature.types_in(child)[n]] for n in names)):
            inner = {**binding, **dict(zip(names, values, strict=True))}
            total += child.weight * child_value(field, child, inner, domains, world)
            largest += max(child.weight, 0.0)
    return total, largest


def child_value(
    field: Field,
    child: Child,
    binding: Mapping[str, str],
    domains: Mapping[str, Sequence[str]],
    world: World,
) -> float:
    terms = tuple(binding[t.name] if isinstance(t, Variable) else t.name for t in child.terms)
    if child.target in COMPARE:
        return float(COMPARE[child.target](*terms))
    if child.target in field.by_name:
        below = field.by_name[child.target]
        inner = dict(zip(below.parameters, terms, strict=True))
        return feature(field, below, inner, domains, world)
    return float(world[child.target, terms])


def enumerate_worlds(
    field: Field, domains: Mapping[str, Sequence[str]], known: World
) -> tuple[float, dict[GroundAtom, float]]:
    """Compute log Z over the worlds that agree with `known`, and the marginals of other atoms."""
    free = [atom for atom in ground_atoms(field, domains) if atom not in known]
    states = list(itertools.product([False, True], repeat=len(free)))
    worlds = [{**known, **dict(zip(free, values, strict=True))} for values in states]
    scores = [log_weight(field, domains, world) for world in worlds]
    top = max(scores)
    share = [math.exp(score - top) for score in scores]
    mass = {
        atom: sum(s for s, values in zip(share, states, strict=True) if values[place])
        for place, atom in enumerate(free)
    }
    total = sum(share)
    return top + math.log(total), {atom: own / total for atom, own in mass.items()}

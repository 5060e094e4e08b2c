"""Random typed theories whose numbers of constants vary: formulas over two types, two or three
variables, sometimes constants, quantifiers and equality, with weights to be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

import lapis
import oracle
from lapis.language.model import Model, Predicate
from oracle import Facts
from strategies import declaration, formulas_over, show

SIGNATURES = (
    Predicate("P", ("person",)),
    Predicate("F", ("person", "person")),
    Predicate("Q", ("person",)),
    Predicate("R", ("person", "thing")),
    Predicate("T", ("thing",)),
)
NAMES = {"person": ("A", "B", "C"), "thing": ("K", "L")}
VARIABLES = (("x", "person"), ("y", "person"), ("fP_1", "person"), ("t", "thing"))
MAX_ATOMS = 13
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class DrawnTheory:
    declarations: str  # without constants but those that formulas name
    rules: tuple[str, ...]
    predicates: tuple[str, ...]
    named: Mapping[str, tuple[str, ...]]  # constants that formulas may name
    weights: tuple[tuple[float, ...], ...]  # some for each evaluation
    sizes: tuple[Sizes, ...]

    def text(self, sizes: Sizes | None = None) -> str:
        """Return the model as text, with constants if sizes are given."""
        names = {t: NAMES[t][:n] for t, n in sizes.items()} if sizes else self.named
        types = [f"{t} = {{{', '.join(found)}}}" for t, found in names.items() if found]
        return "\n".join([*types, self.declarations, *self.rules]) + "\n"

    def oracle_at(self, sizes: Sizes, weights: np.ndarray) -> oracle.OracleAnswer:
        model = with_weights(lapis.parse(self.text(sizes)), weights)
        return oracle.infer(model, Facts(), self.predicates)


def with_weights(model: Model, weights: np.ndarray) -> Model:
    """Return the model with these weights for its soft rules."""
    values = iter(weights.tolist())
    return model.with_rules(
        tuple(r if r.hard else replace(r, weight=next(values)) for r in model.rules)
    )


@st.composite
def theories(draw: st.DrawFn) -> DrawnTheory:
    predicates = draw(st.lists(st.sampled_from(SIGNATURES), min_size=1, max_size=3, unique=True))
    used = sorted({t for p in predicates for t in p.types})
    pools = {t: NAMES[t][: draw(st.sampled_from((0, 0, 1)))] for t in used}
    variables = [v for v in VARIABLES if v[1] in used]
    by_name = {p.name: p for p in predicates}
    rules: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        allowed = draw(st.lists(st.sampled_from(variables), min_size=1, max_size=3, unique=True))
        formula = draw(formulas_over(by_name, pools, allowed, draw(st.integers(1, 3))))
        is_hard = draw(st.sampled_from((False, False, False, True)))
        rules.append(f"({show(formula)})." if is_hard else f"1 ({show(formula)})")
    num_soft = sum(not rule.endswith(".") for rule in rules)
    number = st.floats(-2, 2, allow_subnormal=False)
    weights = draw(st.lists(st.tuples(*[number] * num_soft), min_size=2, max_size=2))
    sizes = [dict(zip(used, found, strict=True)) for found in draw(sizes_of(predicates, used))]
    sizes = [s for s in sizes if all(s[t] >= len(pools[t]) for t in used)] or [
        {t: max(1, len(pools[t])) for t in used}
    ]
    text = "\n".join(declaration(p) for p in predicates)
    return DrawnTheory(text, tuple(rules), tuple(by_name), pools, tuple(weights), tuple(sizes))


def sizes_of(
    predicates: list[Predicate], used: list[str]
) -> st.SearchStrategy[list[tuple[int, ...]]]:
    """Draw numbers of constants for which all worlds can be enumerated."""
    found = [
        size
        for size in np.ndindex(*(len(NAMES[t]) + 1 for t in used))
        if all(size) and sum(
            int(np.prod([size[used.index(t)] for t in p.types])) for p in predicates
        ) <= MAX_ATOMS
    ]  # fmt: skip
    return st.lists(st.sampled_from(found), min_size=1, max_size=3, unique=True)

"""Compare counts of sign patterns of a path with enumeration of all groundings."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from enumerated_worlds import Enumeration, literals_over, some_variables, worlds
from hypothesis import given
from hypothesis import strategies as st

from lapis.counting.totals import count_sign_patterns
from lapis.data.database import Domain
from lapis.language.model import Predicate
from lapis.language.syntax import Variable
from lapis.logic.clauses import Literal
from lapis.relational.interpretation import build_interpretation


@given(st.data())
def test_patterns_are_counted_as_by_enumeration(data: st.DataObject) -> None:
    world = data.draw(worlds())
    variables = data.draw(some_variables)
    literals = data.draw(st.lists(literals_over(world, variables), max_size=4))
    truth = Enumeration(world)
    expected = [0] * (1 << len(literals))
    for grounding in truth.groundings(variables):
        held = (truth.literal_holds(literal, grounding) for literal in literals)
        expected[sum(1 << bit for bit, holds in enumerate(held) if holds)] += 1
    assert count_sign_patterns(literals, variables, world.extensions) == expected


def test_patterns_of_a_long_path_on_huge_domains_add_up_to_all_groundings() -> None:
    size = 3_000_000
    domain = Domain("t", tuple(map(str, range(size))))
    ring = np.stack([np.arange(1000), (np.arange(1000) + 1) % 1000], axis=1).astype(np.int32)
    world = build_interpretation({"F": Predicate("F", ("t", "t"))}, {"t": domain}, {"F": ring})
    names = ["x0", "x1", "x2", "x3"]
    variables = tuple((name, "t") for name in names)
    path = [Literal("F", (Variable(one), Variable(other)), True) for one, other in pairwise(names)]
    counts = count_sign_patterns(path, variables, world)
    assert sum(counts) == size**4
    # On a ring each walk is fixed by its first vertex.
    assert counts[0b111] == 1000
    assert counts[0b011] == 1000 * size - 1000
    assert counts[0b101] == 1000 * 1000 - 1000
    assert counts[0b001] == 1000 * size**2 - 1000 * size - 1000 * 1000 + 1000

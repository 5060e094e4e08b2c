"""Elements and regions: refusals, and the regions of constants."""

from __future__ import annotations

import pytest

import lapis
from lapis.errors import TooLarge
from lapis.lifted import kinds


def test_many_kinds_are_refused_without_their_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    size = kinds.MAX_KINDS + 5
    facts = " ".join(f"F(T{i},T{j})" for i in range(size) for j in range(i))
    model = lapis.parse("F(thing, thing)\nP(thing)\n1 F(x, y) ^ P(x) => P(y)")
    problem = lapis.build_problem(model, lapis.Database.parse(facts), ["P"])
    monkeypatch.setattr(kinds, "facts_of_shapes", lambda *given: pytest.fail("facts were read"))
    with pytest.raises(TooLarge, match="cannot be lifted"):
        kinds.group_kinds(problem)


def test_each_constant_has_the_region_of_its_colour() -> None:
    model = lapis.parse("thing = {A, B, C, D, E}\nF(thing)\nG(thing)\n1 F(x) => G(x)")
    problem = lapis.build_problem(model, lapis.Database.parse("F(A) F(B) G(C)"), ["G"])
    found = kinds.group_kinds(problem)
    domain, kind = problem.domains["thing"], found.of_type["thing"]
    region = {name: int(kind.kind_of[domain.index[name]]) for name in "ABCDE"}
    assert region["A"] == region["B"]
    assert region["D"] == region["E"]
    assert len({region["A"], region["C"], region["D"]}) == 3
    assert [found.sizes[region[name]] for name in "ACD"] == [2, 1, 2]

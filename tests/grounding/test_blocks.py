"""Compare what blocks imply with all worlds that the blocks and the evidence allow."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ground_problems import as_rows, evidences
from hypothesis import given
from hypothesis import strategies as st

from lapis.data.database import Domain, empty_tuples
from lapis.errors import LapisError
from lapis.grounding.blocks import apply_blocks
from lapis.language.model import Model, Predicate
from lapis.logic.clauses import NormalForm
from lapis.problem.problem import Evidence, Problem


def block_problem(evidence: Evidence, domains: dict[str, Domain]) -> Problem:
    predicate = evidence.predicate
    model = Model(dict.fromkeys(domains, ()), {predicate.name: predicate}, ())
    return Problem(model, NormalForm((), ()), domains, {predicate.name: evidence})


def status(evidence: Evidence, row: tuple[int, ...]) -> bool | None:
    if list(row) in evidence.true.tolist():
        return True
    listed = evidence.false if evidence.open else evidence.unknown
    return False if (list(row) in listed.tolist()) == evidence.open else None


def allowed_worlds(
    evidence: Evidence, rows: list[tuple[int, ...]], keys: list[tuple[int, ...]]
) -> list[tuple[bool, ...]]:
    predicate = evidence.predicate
    known = [status(evidence, row) for row in rows]
    found = []
    for world in itertools.product(*([k] if k is not None else [False, True] for k in known)):
        totals = dict.fromkeys(keys, 0)
        for row, value in zip(rows, world, strict=True):
            totals[tuple(row[i] for i in range(predicate.arity) if i not in predicate.block)] += (
                value
            )
        if all(t == 1 or (t == 0 and not predicate.exactly_one) for t in totals.values()):
            found.append(world)
    return found


@st.composite
def block_evidences(draw: st.DrawFn) -> tuple[Evidence, dict[str, Domain]]:
    domains = {name: Domain(name, tuple("ABC"[: draw(st.integers(0, 3))])) for name in ("s", "t")}
    types = draw(st.sampled_from([("s",), ("s", "t"), ("t", "s"), ("s", "s"), ("s", "t", "s")]))
    block = draw(st.lists(st.integers(0, len(types) - 1), min_size=1, unique=True))
    predicate = Predicate("P", types, tuple(block), draw(st.booleans()))
    if len(types) == 3:
        domains["s"] = Domain("s", domains["s"].constants[:2])
    return draw(evidences(predicate, domains)), domains


@given(drawn=block_evidences())
def test_decides_exactly_what_all_allowed_worlds_share(
    drawn: tuple[Evidence, dict[str, Domain]],
) -> None:
    evidence, domains = drawn
    types = evidence.predicate.types
    rows = list(itertools.product(*(range(len(domains[t])) for t in types)))
    outside = [i for i in range(len(types)) if i not in evidence.predicate.block]
    keys = list(itertools.product(*(range(len(domains[types[i]])) for i in outside)))
    if sum(status(evidence, row) is None for row in rows) > 10:
        return
    worlds = allowed_worlds(evidence, rows, keys)
    if not worlds:
        with pytest.raises(LapisError) as refused:
            apply_blocks(block_problem(evidence, domains))
        assert refused.value.code == "block-violated"
        return
    closed = apply_blocks(block_problem(evidence, domains))["P"]
    for position, row in enumerate(rows):
        values = {world[position] for world in worlds}
        assert status(closed, row) == (values.pop() if len(values) == 1 else None)
    for listed in (closed.true, closed.false, closed.unknown):
        assert listed.dtype == np.int32
        assert list(map(tuple, listed.tolist())) == sorted(set(map(tuple, listed.tolist())))


def test_names_the_block_it_refuses() -> None:
    domains = {
        "page": Domain("page", ("Home", "News")),
        "topic": Domain("topic", ("Sport", "Art")),
    }
    predicate = Predicate("Class", ("page", "topic"), block=(1,))
    none = empty_tuples(2)
    two = Evidence(predicate, True, as_rows([(1, 0), (1, 1)], 2), none, none)
    with pytest.raises(LapisError, match=r"two true values for Class\(News, _\)"):
        apply_blocks(block_problem(two, domains))
    silent = Evidence(predicate, False, as_rows([(0, 1)], 2), none, none)
    with pytest.raises(LapisError, match=r"no possible value for Class\(News, _\)"):
        apply_blocks(block_problem(silent, domains))


def test_evidence_without_blocks_is_returned_as_it_is() -> None:
    domains = {"page": Domain("page", ("Home",))}
    predicate = Predicate("Linked", ("page",))
    known = Evidence(predicate, True, np.zeros((1, 1), np.int32), empty_tuples(1), empty_tuples(1))
    assert apply_blocks(block_problem(known, domains))["Linked"] is known

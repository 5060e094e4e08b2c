"""Classes of equiprobable groundings: their number, sizes and probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from theories import DrawnTheory, theories

import lapis
import oracle
from lapis.lifted.encode import encode_problem
from lapis.lifted.kinds import Assignment, assignments, group_kinds
from lapis.lifted.lift import LiftedProblem, lift_problem
from oracle import Facts


def bell(n: int) -> int:
    """Return the number of partitions of a set of n, by Bell's triangle."""
    row = [1]
    for _ in range(n - 1):
        following = [row[-1]]
        for number in row:
            following.append(following[-1] + number)
        row = following
    return row[-1]


@pytest.mark.parametrize(
    ("rules", "variables"),
    [
        (["1 S(x)"], [1]),
        (["1 F(x, y)", "1 S(x) ^ F(x, y) => S(y)"], [2, 2]),
        (["1 F(x, y) ^ F(y, z) => S(x)", "-1 S(x)"], [3, 1]),
        (["1 F(x, y) ^ F(z, u) => S(x)"], [4]),
    ],
)
def test_there_are_bell_many(rules: list[str], variables: list[int]) -> None:
    """Proposition 2: formulas without constants over one type have Bell(n) classes."""
    model = lapis.parse("\n".join(["p = {A, B, C, D, E}", "S(p)", "F(p, p)", *rules]))
    problem = lapis.build_problem(model, query=["S", "F"])
    assert [bell(n) for n in (1, 2, 3, 4)] == [1, 2, 5, 15]
    assert len(encode_problem(problem, group_kinds(problem), ()).columns) == sum(
        map(bell, variables)
    )


def is_of_class(
    binding: oracle.Binding, assignment: Assignment, lifted: LiftedProblem, types: dict[str, str]
) -> bool:
    """Return whether an assignment of constants to variables belongs to a class."""
    chosen: dict[int, str] = {}
    for name, constant in binding.items():
        term = assignment.term[name]
        if isinstance(term, str):
            if term != constant:
                return False
            continue
        code = lifted.problem.domains[types[name]].index[constant]
        region = lifted.encoding.kinds.of_type[types[name]].kind_of[code]
        if region != assignment.regions[term] or chosen.setdefault(term, constant) != constant:
            return False
    found = [(assignment.regions[term], constant) for term, constant in chosen.items()]
    return len(set(found)) == len(found)


def check_classes(theory: DrawnTheory) -> None:
    """Check that sizes sum to all groundings, and that each has the probability of its class."""
    model = lapis.parse(theory.text(theory.sizes[0]))
    domains = oracle.constants_of(model, Facts())
    known = oracle.known_atoms(model, Facts(), domains, set(theory.predicates))
    worlds = oracle.worlds_agreeing_with(known)
    log_weight = oracle.weigh(model, domains, worlds).log_weight
    if log_weight.max() == -np.inf:
        return
    probability = np.exp(log_weight - oracle.log_sum_exp(log_weight))
    lifted = lift_problem(lapis.build_problem(model, query=theory.predicates), classes=())
    rows = iter(lapis.lift(model, query=theory.predicates, classes=True).formulas)
    for rule, sorted_rule in zip(model.rules, lifted.problem.model.rules, strict=True):
        if rule.hard:
            continue
        bindings = oracle.bindings(rule.variables, domains)
        for assignment in assignments(sorted_rule.variables, lifted.encoding.kinds):
            row, types = next(rows), dict(sorted_rule.variables)
            own = [b for b in bindings if is_of_class(b, assignment, lifted, types)]
            bindings = [b for b in bindings if b not in own]
            assert row.groundings == len(own)
            for binding in own:
                true = probability @ oracle.holds(rule, binding, worlds, domains)
                assert row.expected == pytest.approx(true * row.groundings, abs=1e-9)
        assert not bindings
    assert not list(rows)


@given(theories())
def test_groundings_of_a_class_are_equally_probable(theory: DrawnTheory) -> None:
    check_classes(theory)


@pytest.mark.slow
@given(theories())
@settings(max_examples=1000)
def test_groundings_of_a_class_are_equally_probable_long(theory: DrawnTheory) -> None:
    check_classes(theory)

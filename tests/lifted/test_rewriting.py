"""Separated parts and split types, compared with enumeration and closed forms."""

from __future__ import annotations

from math import log

import pytest
from flint import arb, ctx

import lapis
import oracle
from lapis.lifted.lift import LiftedProblem, lift_problem
from lapis.lifted.rewriting import declared_type, separate_parts, split_types
from lapis.problem.problem import Problem
from oracle import Facts

HALVES = f"""
p(d, d)
q(d, d)
r(d)
{log(1.2)!r} p(x, y)
{log(1.3)!r} q(x, y)
{log(1.4)!r} r(x)
p(x, y) v r(x) v q(a, b) v r(b).
"""
DRINKERS = f"""
smokes(person)
drinks(person)
friends(person, person)
{log(1.2)!r} !friends(x, y) v !smokes(x) v smokes(y)
{log(1.2)!r} !friends(x, y) v !drinks(x) v drinks(y)
"""
# BUSL on folds 2 to 5 of IMDB, at most four literals and three variables.
LEARNED = """
actor(person)
director(person)
movie(movie, person)
workedUnder(person, person)
8.2 !actor(p) v !director(p)
3.4 movie(m, p1) ^ movie(m, p2) ^ workedUnder(p1, p2)
2.1 movie(m, p1) ^ workedUnder(p2, p1) => movie(m, p2)
4.6 actor(x)
2.9 director(x)
-4.0 movie(m, x)
-5.4 workedUnder(x, y)
"""
# The theories of Forclift's tests on IMDB and UW-CSE.
FORMULAS = """
workedUnder(person, person)
movie(film, person)
director(person)
male(person)
genre(person, type)
actor(person)
0.4 !movie(a1, a2) v !movie(a3, a2)
1.1 !workedUnder(a1, a2) v !male(a2)
-0.7 movie(a1, a2) v !movie(a3, a2)
0.9 workedUnder(a1, a2) v director(a2) v genre(a2, a3) v !actor(a2)
"""
CONVERGENCE = """
Publication(title, person)
Professor(person)
Taughtby(course, person, year)
-0.6 !Publication(v0, v1) v Publication(v2, v1)
1.3 !Taughtby(v0, v1, v2) v Professor(v1)
"""
PAGES = """
Course(page)
Faculty(page)
Student(page)
Linked(page, page)
0.3 Faculty(p1) ^ Linked(p1, p2) => Student(p2)
-0.4 Student(p1) ^ Linked(p1, p2) => Faculty(p2)
0.8 Course(p1) ^ Faculty(p2) => Linked(p1, p2)
0.5 Student(p1) ^ Course(p2) => Linked(p2, p1)
-0.2 Linked(p1, p2) => Linked(p2, p1)
"""


def problem_of(text: str) -> Problem:
    model = lapis.parse(text)
    return lapis.build_problem(model, query=list(model.predicates))


def lift(text: str, **sizes: int) -> LiftedProblem:
    return lift_problem(problem_of(text), sizes)


def check_enumeration(text: str, **sizes: int) -> None:
    """Compare log Z and expected counts at these sizes with enumeration."""
    types = [f"{t} = {{{', '.join(f'C{i}' for i in range(n))}}}" for t, n in sizes.items()]
    model = lapis.parse("\n".join([*types, text]))
    expected = oracle.infer(model, Facts(), tuple(model.predicates))
    found = lift(text, **sizes).at()
    assert found.log_partition == pytest.approx(expected.log_partition, rel=1e-12, abs=1e-12)
    counts = list(expected.expected_counts.values())
    assert found.expected_count.tolist() == pytest.approx(counts, rel=1e-9, abs=1e-9)
    assert abs(found.log_partition - expected.log_partition) <= found.error_bound + 1e-12


def halves_by_hand(n: int) -> float:
    """Return Z by inclusion–exclusion: the first half holds, plus the second, minus both."""
    with ctx.workprec(300):
        p, q, r = (arb(log(weight)).exp() for weight in (1.2, 1.3, 1.4))
        first = (r * (1 + p) ** n + p**n) ** n * (1 + q) ** (n * n)
        second = (r * (1 + q) ** n + q**n) ** n * (1 + p) ** (n * n)
        both = (r * (1 + p) ** n * (1 + q) ** n + p**n * q**n) ** n
        return float((first + second - both).log().mid())


@pytest.mark.parametrize("n", [1, 2, 6, 30, 150, 1000])
def test_a_clause_of_two_halves(n: int) -> None:
    lifted = lift(HALVES, d=n)
    found = lifted.at()
    assert lifted.is_liftable
    assert abs(found.log_partition - halves_by_hand(n)) <= found.error_bound


# Values of Forclift's own tests: TestDummyInclusionExclusion, TestFriendsSmokerDrinker.
@pytest.mark.parametrize(
    ("text", "type_name", "n", "published"),
    [
        (HALVES, "d", 2, 7.767228315616763),
        (HALVES, "d", 6, 60.62132516344015),
        (HALVES, "d", 150, 36531.2167097291),
        (DRINKERS, "person", 8, 76.44237474352845),
        (DRINKERS, "person", 200, 42312.99807235724),
    ],
)
def test_values_that_forclift_publishes(
    text: str, type_name: str, n: int, published: float
) -> None:
    found = lift(text, **{type_name: n}).at()
    assert found.log_partition == pytest.approx(published, rel=1e-13)


def test_a_value_with_evidence_that_forclift_publishes() -> None:
    data = lapis.Database.parse("drinks(Guy) drinks(Luc) smokes(Luc)")
    found = lapis.lift(lapis.parse(DRINKERS), data, sizes={"person": 100})
    assert found.log_partition == pytest.approx(10577.938944961066, rel=1e-13)


SEPARATE = {
    "two halves": ("p(d)\nq(d)\n0.3 p(x)\n-0.4 q(x)\np(x) v q(y).", 3),
    "two halves of one predicate": ("p(d, d)\n0.3 p(x, y)\np(x, y) v !p(a, a).", 3),
    "three parts": ("p(d)\nq(d)\nr(d)\n0.2 p(x)\n!p(x) v q(y) v !r(z).\n1 q(x) ^ r(x)", 3),
    "a shared predicate": ("p(d, d)\nr(d)\n0.5 p(x, y)\n-1 r(x)\np(x, y) v r(x) v !r(a).", 3),
    "an inequality": ("p(d)\nq(d, d)\n0.5 p(x)\n0.1 q(x, y)\nx = y v q(x, y) v p(a).", 3),
    "a quantifier": ("p(d)\nq(d, d)\n0.5 p(x)\n0.1 q(x, y)\n(EXIST y q(x, y)) v p(a).", 3),
    "a constant": ("p(d)\nq(d)\n0.5 p(x)\n-1 q(x)\np(C0) v !p(x) v q(y).", 3),
    "two clauses": ("p(d)\nq(d)\nr(d)\n0.4 p(x)\np(x) v q(y).\n!q(x) v r(y).\n1 p(x) ^ r(y)", 3),
    "a variable of its own": ("p(d)\nq(d)\ne(t)\n0.4 p(x)\np(x) v q(y) v e(s) v !e(s).", 2),
}


@pytest.mark.parametrize("name", SEPARATE)
def test_separate_parts_are_as_enumerated(name: str) -> None:
    text, most = SEPARATE[name]
    for n in range(1, most + 1):
        more = {"t": 2} if "(t)" in text else {}
        check_enumeration(text, d=n, **more)


def test_parts_may_compare_numbers() -> None:
    text = "n = {1, 2, 5}\np(n)\nq(n)\n0.5 p(x)\nx < y v p(x) v a <= b + 1 v q(a)."
    assert len(separate_parts(problem_of(text)).normal_form.definitions) == 1
    expected = oracle.infer(lapis.parse(text), Facts(), ("p", "q"))
    assert lift(text).at().log_partition == pytest.approx(expected.log_partition)


def test_the_first_half_is_a_proposition() -> None:
    form = separate_parts(problem_of(HALVES)).normal_form
    (definition,) = form.definitions
    (clause,) = form.features[-1].clauses
    assert [name for name, _ in definition.bound] == ["a", "b"]
    assert [name for name, _ in form.features[-1].variables] == ["x", "y"]
    assert [x.predicate for x in clause.literals] == [definition.predicate.name, "p", "r"]


def sorts_of(text: str) -> dict[str, tuple[str, ...]]:
    found = split_types(problem_of(text)).model.predicates
    return {name: predicate.types for name, predicate in found.items()}


def test_arguments_that_a_variable_joins_have_one_sort() -> None:
    found = sorts_of("p(d)\nq(d)\nr(d, d)\n1 p(x) ^ q(y)\n1 q(x) ^ r(x, y)")
    assert found["q"][0] == found["r"][0]
    assert len({found["p"][0], found["q"][0], found["r"][1]}) == 3
    assert {declared_type(sort) for types in found.values() for sort in types} == {"d"}


@pytest.mark.parametrize("rule", ["x = y v p(x) v q(y)", "EXIST z (p(z) ^ q(z))", "p(x) => q(x)"])
def test_compared_and_quantified_variables_join(rule: str) -> None:
    found = sorts_of(f"p(d)\nq(d)\n1 {rule}")
    assert found["p"] == found["q"]


def test_a_problem_without_separate_arguments_is_left_alone() -> None:
    problem = problem_of("S(d)\nF(d, d)\n1 S(x) ^ F(x, y) => S(y)")
    assert split_types(problem) is problem


def test_counts_of_separate_sorts_are_separate_sums() -> None:
    """Compute !p(x) v !q(y) v r(z) by n³ combinations, although there are eight kinds."""
    n = 12
    with ctx.workprec(200):
        weight = arb(0.2).exp()
        terms = [
            arb.bin_uiui(n, i)
            * arb.bin_uiui(n, j)
            * arb.bin_uiui(n, k)
            * weight ** (n**3 - i * j * k)
            for i in range(n + 1)
            for j in range(n + 1)
            for k in range(n + 1)
        ]
        expected = float(sum(terms, arb(0)).log().mid())
    found = lift("p(d)\nq(d)\nr(d)\n0.2 !p(x) v !q(y) v r(z)", d=n).at()
    assert found.log_partition == pytest.approx(expected, rel=1e-13)


SOFT = {
    "pairs": "p(d, d)\nq(d, d)\n0.3 p(x, y) v q(a, b)\n-0.2 p(x, y)",
    "pairs in both orders": "p(d, e)\nq(e, d)\n0.3 p(x, y) v q(s, t)\n-0.2 q(s, t)",
    "a pair and a counted predicate": "p(d, e)\nq(d)\nr(e)\n0.3 p(x, y) v q(a) v r(y)",
    "three pairs": "p(d, e)\nq(d, e)\nr(e, d)\n0.3 p(x, y) v q(a, b) v r(s, t)\n0.1 q(x, y)",
    "two predicates of a pair": "p(d, e)\nq(d, e)\nr(d, e)\n"
    "0.3 p(x, y) v q(x, y) v r(a, b)\n0.7 p(x, y) ^ r(a, b)",
    "a hard pair": "p(d, e)\nq(d, e)\n0.4 p(x, y)\n0.3 p(x, y) v q(a, b)\np(x, y) v !q(x, y).",
}


@pytest.mark.parametrize("name", SOFT)
def test_pairs_are_as_enumerated(name: str) -> None:
    for n in (1, 2):
        check_enumeration(SOFT[name], d=n, **({"e": 2} if "e)" in SOFT[name] else {}))


def test_a_weighted_clause_of_pairs_by_hand() -> None:
    """Sum over the number of true atoms of p; given it, those of q are independent."""
    n, weight = 20, 0.01
    with ctx.workprec(400):
        terms = [
            arb.bin_uiui(n * n, m)
            * ((arb(weight) * n * n).exp() + (arb(weight) * m).exp()) ** (n * n)
            for m in range(n * n + 1)
        ]
        expected = float(sum(terms, arb(0)).log().mid())
    lifted = lift(f"p(d, d)\nq(d, d)\n{weight} p(x, y) v q(a, b)", d=n)
    assert lifted.is_liftable
    assert abs(lifted.at().log_partition - expected) <= lifted.at().error_bound


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (LEARNED, {"person": 2, "movie": 2}),
        (LEARNED, {"person": 2, "movie": 1}),
        (FORMULAS, {"person": 2, "film": 2, "type": 1}),
        (FORMULAS, {"person": 1, "film": 3, "type": 3}),
        (CONVERGENCE, {"person": 2, "title": 2, "course": 2, "year": 1}),
        (PAGES, {"page": 2}),
    ],
)
def test_theories_of_the_paper_s_data_are_as_enumerated(text: str, sizes: dict[str, int]) -> None:
    check_enumeration(text, **sizes)


def test_facts_tell_apart_only_the_sorts_that_they_are_about() -> None:
    text = "p(d)\nq(d)\nr(d, d)\n1 p(x) v q(y)\n0.5 p(x) ^ r(x, y)"
    model = lapis.parse(text)
    data = lapis.Database.parse("p(A) !p(B) r(A, B) ?q(A) ?q(B)")
    answer = lapis.infer(model, data, query=["p", "q", "r"], method="lifted")
    exact = lapis.infer(model, data, query=["p", "q", "r"], method="exact")
    assert answer.marginals == pytest.approx(exact.marginals, abs=1e-12)
    assert answer.log_partition == pytest.approx(exact.log_partition)

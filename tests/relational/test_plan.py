"""Compare count plans, in memory and in SQL, with enumeration of all groundings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
from counting.enumerated_worlds import (
    Enumeration,
    clauses_over,
    condition_holds,
    cubes_over,
    some_variables,
    worlds,
)
from lapis.data.database import Domain
from lapis.errors import TooLarge
from lapis.language.model import Predicate
from lapis.language.syntax import Constant, Variable
from lapis.logic.clauses import Clause, Condition, Cube, Literal, TypedVariable
from lapis.relational import contraction
from lapis.relational.algebra import make_test
from lapis.relational.conjunction import Conjunction, conjoin, require_cube, require_literals, unify
from lapis.relational.factor import indicator_factor, multiply_factors
from lapis.relational.interpretation import Interpretation, build_interpretation, run_plans
from lapis.relational.plan_compiler import (
    PlanCompiler,
    PlanOutput,
    compile_plan,
    plan_violations,
    swap_complemented,
)
from lapis.relational.query_plan import (
    FactorProduct,
    QueryPlan,
    explain_plan,
    list_answer_rows,
    tabulate_answers,
)
from lapis.stores import StoreEngine, open_store
from store_urls import STORES, store_url

pytestmark = pytest.mark.usefixtures("price_everything")


def plan_cube(
    cube: Cube,
    variables: tuple[TypedVariable, ...],
    world: Interpretation,
    keep: tuple[str, ...] = (),
) -> QueryPlan:
    """Count the groundings in which the cube is true."""
    return compile_plan([require_cube(cube)], variables, world, PlanOutput(keep))


def sum_answers(plan: QueryPlan, answers: Sequence[FactorProduct]) -> int:
    """Sum the answers over all values of the kept variables."""
    found = 0
    for answer in answers:
        factor = answer.factor
        value = answer.scale if factor is None else answer.scale * factor.total()
        for name, size in zip(plan.keep, plan.shape, strict=True):
            if factor is None or name not in factor.variables:
                value *= size
        found += value
    return found


def count(plan: QueryPlan, world: Interpretation) -> int:
    return sum_answers(plan, world.run(plan))


Run = Callable[[QueryPlan, Interpretation], list[FactorProduct]]


def answer(run: Run, plan: QueryPlan, world: Interpretation) -> tuple[int, np.ndarray]:
    answers = run(plan, world)
    return sum_answers(plan, answers), tabulate_answers(plan, answers)


def run_here(plan: QueryPlan, world: Interpretation) -> list[FactorProduct]:
    return world.run(plan)


def run_in_slices(plan: QueryPlan, world: Interpretation) -> list[FactorProduct]:
    """With room for joins of a few rows only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lapis.relational.factor.MAX_PAIRS", 3)
        patch.setattr("lapis.relational.exact_sums.MAX_SUMS", 2)
        patch.setattr("lapis.relational.exact_sums._DENSE", 0)
        return world.run(plan)


@pytest.fixture(scope="module", params=["memory", "slices", *STORES])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs plans on many worlds, one after the other."""
    if request.param in ("memory", "slices"):
        yield run_here if request.param == "memory" else run_in_slices
        return
    with open_store(store_url(request.param, request)) as store:

        def on_store(plan: QueryPlan, world: Interpretation) -> list[FactorProduct]:
            engine = StoreEngine(world, store)
            try:
                return engine.run(plan)
            finally:
                engine.close()

        yield on_store


sweep = settings(max_examples=settings.default.max_examples * 2 // 5, deadline=None)


@sweep
@given(data=st.data())
def test_cubes_are_counted_as_by_enumeration(run: Run, data: st.DataObject) -> None:
    world = data.draw(worlds())
    variables = data.draw(some_variables)
    cube = data.draw(cubes_over(world, variables))
    truth = Enumeration(world)
    expected = sum(truth.cube_holds(cube, grounding) for grounding in truth.groundings(variables))
    plan = plan_cube(cube, variables, world.extensions)
    found, table = answer(run, plan, world.extensions)
    assert found == expected
    assert int(table) == expected


@sweep
@given(data=st.data())
def test_violations_by_kept_variables_are_counted_as_by_enumeration(
    run: Run, data: st.DataObject
) -> None:
    world = data.draw(worlds())
    variables = data.draw(some_variables.filter(bool))
    clause = data.draw(clauses_over(world, variables))
    names = [name for name, _ in variables]
    keep = tuple(data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)))
    types = dict(variables)
    truth = Enumeration(world)
    expected = np.zeros([len(world.domains[types[name]]) for name in keep], np.int64)
    for grounding in truth.groundings(variables):
        if not truth.clause_holds(clause, grounding):
            index = tuple(world.domains[types[name]].index[grounding[name]] for name in keep)
            expected[index] += 1
    plan = plan_violations(clause, variables, world.extensions, keep)
    found, table = answer(run, plan, world.extensions)
    np.testing.assert_array_equal(table, expected)
    assert found == expected.sum()


@sweep
@given(data=st.data())
def test_rows_are_listed_with_their_counts_as_by_enumeration(run: Run, data: st.DataObject) -> None:
    """Sums of signed conjunctions; kept variables may be equal, constant or unrestricted."""
    world = data.draw(worlds())
    variables = data.draw(some_variables)
    names = [name for name, _ in variables]
    keep = tuple(data.draw(st.lists(st.sampled_from(names), unique=True))) if names else ()
    cubes = data.draw(st.lists(cubes_over(world, variables), min_size=1, max_size=2))
    signs = data.draw(st.lists(st.sampled_from([1, -1, 3]), min_size=2, max_size=2))
    types = dict(variables)
    truth = Enumeration(world)
    expected: Counter[tuple[int, ...]] = Counter()
    for grounding in truth.groundings(variables):
        for sign, cube in zip(signs, cubes, strict=False):
            index = tuple(world.domains[types[name]].index[grounding[name]] for name in keep)
            expected[index] += sign * truth.cube_holds(cube, grounding)
    signed = [require_cube(c)._replace(coefficient=s) for s, c in zip(signs, cubes, strict=False)]
    plan = compile_plan(signed, variables, world.extensions, PlanOutput(keep, keep))
    rows = list_answer_rows(plan, run(plan, world.extensions))
    assert rows.variables == keep
    found = list(zip(map(tuple, rows.rows.tolist()), rows.value.tolist(), strict=True))
    assert found == sorted((index, count) for index, count in expected.items() if count)


@sweep
@given(data=st.data())
def test_parts_kept_factored_multiply_to_the_same_table(run: Run, data: st.DataObject) -> None:
    world = data.draw(worlds())
    variables = data.draw(some_variables.filter(bool))
    cube = data.draw(cubes_over(world, variables))
    names = [name for name, _ in variables]
    keep = tuple(data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)))
    tables = []
    for factored in (False, True):
        wanted = PlanOutput(keep, factored=factored)
        plan = compile_plan([require_cube(cube)], variables, world.extensions, wanted)
        tables.append(answer(run, plan, world.extensions)[1])
    np.testing.assert_array_equal(*tables)


@given(data=st.data())
def test_derived_extensions_are_those_of_the_definitions(data: st.DataObject) -> None:
    world = data.draw(worlds())
    truth = Enumeration(world)
    for definition in world.definitions:
        name = definition.predicate.name
        extension = world.extensions.relations[name]
        listed = {(name, *truth.names(extension.types, row)) for row in extension.tuples.tolist()}
        assert len(listed) == len(extension.tuples)
        every = {
            (name, *(grounding[variable] for variable, _ in definition.variables))
            for grounding in truth.groundings(definition.variables)
        }
        assert (every - listed if extension.complemented else listed) == truth.true & every


@given(data=st.data())
def test_every_choice_of_filters_and_expansions_counts_the_same(data: st.DataObject) -> None:
    world = data.draw(worlds())
    variables = data.draw(some_variables)
    cube = data.draw(cubes_over(world, variables))
    tests = tuple(
        make_test(condition, data.draw(st.booleans(), label="expected"))
        for condition in cube.conditions
    )
    truth = Enumeration(world)
    expected = sum(
        truth.cube_holds(Cube(cube.literals), grounding)
        and all(condition_holds(test.condition, grounding) == test.expected for test in tests)
        for grounding in truth.groundings(variables)
    )
    compiler = PlanCompiler(variables, world.extensions, PlanOutput())
    conjunction = conjoin(require_literals(cube.literals), Conjunction(tests=tests))
    unified = unify(swap_complemented(conjunction, world.extensions), compiler.scope)
    if unified is None or not compiler.groundings:
        assert expected == 0
        return
    places = unified.negatives
    chosen = data.draw(st.sets(st.sampled_from(places)) if places else st.just(set()))
    terms = tuple(compiler.expand_terms(unified, tuple(chosen)))
    assert count(QueryPlan(variables, (), (), 1, terms), world.extensions) == expected


def large_world(size: int, num_edges: int) -> Interpretation:
    domain = Domain("t", tuple(map(str, range(size))))
    chain = np.stack([np.arange(num_edges), np.arange(num_edges) + 1], axis=1).astype(np.int32)
    predicates = {"F": Predicate("F", ("t", "t")), "P": Predicate("P", ("t",))}
    return build_interpretation(predicates, {"t": domain}, {"F": chain, "P": chain[:, :1]})


def edge(one: str, other: str, positive: bool = True) -> Literal:
    return Literal("F", (Variable(one), Variable(other)), positive)


def test_counts_beyond_64_bits_are_exact() -> None:
    size, num_edges = 100_000, 1000
    world = large_world(size, num_edges)
    names = "abcdefgh"
    variables = tuple((name, "t") for name in names)
    # Each of the four pairs is missing on its own: the pairs share no variable.
    cube = Cube(
        tuple(edge(one, other, False) for one, other in zip(names[::2], names[1::2], strict=True))
    )
    plan = plan_cube(cube, variables, world)
    assert count(plan, world) == (size**2 - num_edges) ** 4


def test_values_beyond_64_bits_inside_a_join_are_exact() -> None:
    size = 1000
    domain = Domain("t", tuple(map(str, range(size))))
    every = np.stack(np.divmod(np.arange(size**2), size), axis=1).astype(np.int32)
    predicates = {"F": Predicate("F", ("t", "t"))}
    world = build_interpretation(predicates, {"t": domain}, {"F": every})
    names = "abcdefghi"
    # A tree: every factor over x has value 1000 after its leaf is summed out.
    cube = Cube(tuple(edge("x", name) for name in names))
    variables = (("x", "t"), *((name, "t") for name in names))
    table = world.count_table(plan_cube(cube, variables, world, ("x",)))
    assert table.tolist() == [size ** len(names)] * size
    assert count(plan_cube(cube, variables, world), world) == size ** (len(names) + 1)


def star_of_everything(size: int, leaves: int) -> tuple[QueryPlan, Interpretation]:
    """Σ over the leaves of a star in a complete graph: size^leaves for each centre."""
    every = np.stack(np.divmod(np.arange(size**2), size), axis=1).astype(np.int32)
    domain = Domain("t", tuple(map(str, range(size))))
    world = build_interpretation({"F": Predicate("F", ("t", "t"))}, {"t": domain}, {"F": every})
    names = [f"y{i}" for i in range(leaves)]
    variables = (("x", "t"), *((name, "t") for name in names))
    cube = Cube(tuple(edge("x", name) for name in names))
    return plan_cube(cube, variables, world, ("x",)), world


@pytest.mark.parametrize("leaves", [6, 12, 13, 40])  # 13, 25, 27 and 81 digits
def test_counts_are_exact_however_many_digits(run: Run, leaves: int) -> None:
    plan, world = star_of_everything(100, leaves)
    found, table = answer(run, plan, world)
    assert table.tolist() == [100**leaves] * 100
    assert found == 100 ** (leaves + 1)


def test_variables_that_no_part_mentions_need_no_wide_integers() -> None:
    world = large_world(100_000, 10)
    variables = tuple((f"x{i}", "t") for i in range(10))
    plan = plan_cube(Cube((edge("x0", "x1", False),)), variables, world)
    assert plan.groundings == 10**50
    with open_store("duckdb") as store:
        engine = StoreEngine(world, store)
        (statement,) = engine.statements(plan)
        assert "HUGEINT" not in statement
        assert sum_answers(plan, engine.run(plan)) == (10**10 - 10) * 10**40


def test_a_join_too_large_to_list_is_run_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    world = large_world(50, 40)
    path = Cube((edge("x", "y"), edge("y", "z"), edge("x", "z", False)))
    plan = plan_cube(path, tuple((name, "t") for name in "xyz"), world, tuple("xyz"))
    whole = list_answer_rows(plan, world.run(plan))
    assert len(whole) > 30
    monkeypatch.setattr("lapis.relational.factor.MAX_PAIRS", 10)
    sliced = list_answer_rows(plan, world.run(plan))
    np.testing.assert_array_equal(sliced.rows, whole.rows)
    np.testing.assert_array_equal(sliced.value, whole.value)
    size = whole.rows.nbytes + whole.value.nbytes
    run_plans([plan], world, max_memory=size)
    with pytest.raises(TooLarge, match="exceed the memory limit"):
        run_plans([plan], world, max_memory=size // 2)


def test_duckdb_keeps_to_the_memory_given() -> None:
    """A skewed join of 36 million rows that the estimate takes for 24,000."""
    people = 6000
    rows = [[i, 0] for i in range(people)] + [[0, i] for i in range(1, people)]
    domain = Domain("t", tuple(map(str, range(people))))
    tuples = {"F": np.array(rows, np.int32)}
    world = build_interpretation({"F": Predicate("F", ("t", "t"))}, {"t": domain}, tuples)
    cube = Cube((edge("x", "y"), edge("z", "y")))
    variables = tuple((name, "t") for name in "xyz")
    counting = plan_cube(cube, variables, world)
    with open_store("duckdb", 2**26) as store:
        found = sum_answers(counting, StoreEngine(world, store).run(counting))
    assert found == people**2 + people - 1


def test_a_negated_atom_over_bound_variables_is_a_filter() -> None:
    world = large_world(50, 40)
    clause = Clause((edge("x", "y", False), Literal("P", (Variable("y"),), True)))
    plan = plan_violations(clause, (("x", "t"), ("y", "t")), world)
    assert len(plan.terms) == 1
    assert "rows without P(y)" in explain_plan(plan)
    assert count(plan, world) == 1  # only the last vertex of the chain has no successor


def test_a_negated_atom_over_unbound_variables_is_subtracted() -> None:
    world = large_world(10_000, 40)
    plan = plan_cube(Cube((edge("x", "y", False),)), (("x", "t"), ("y", "t")), world)
    assert [term.coefficient for term in plan.terms] == [1, -1]
    assert "|t| · |t|" in explain_plan(plan)
    assert count(plan, world) == 10**8 - 40


def test_an_equality_is_substituted_and_a_contradiction_has_no_terms() -> None:
    world = large_world(50, 40)
    x, y = Variable("x"), Variable("y")
    variables = (("x", "t"), ("y", "t"))
    same = plan_cube(Cube((edge("x", "y"),), (Condition("=", x, y),)), variables, world)
    assert "F(y, y)" in explain_plan(same) or "F(x, x)" in explain_plan(same)
    never = plan_cube(Cube((edge("x", "y"), edge("x", "y", False))), variables, world)
    assert never.terms == ()
    unlike = Condition("=", Constant("A"), Constant("B"))
    assert plan_cube(Cube((), (unlike,)), variables, world).terms == ()


def test_shared_subexpressions_are_named_once_in_the_explanation() -> None:
    world = large_world(2000, 1500)
    cube = Cube((edge("x", "y"), edge("y", "z"), edge("x", "w", False), edge("w", "z", False)))
    variables = tuple((name, "t") for name in "xyzw")
    text = explain_plan(plan_cube(cube, variables, world))
    assert text.startswith("count groundings of (x:t, y:t, z:t, w:t)")
    assert "as #1" in text


def numbers(size: int, *others: str) -> Interpretation:
    domain = Domain("t", (*map(str, range(size)), *others))
    return build_interpretation({"P": Predicate("P", ("t",))}, {"t": domain}, {})


def test_comparisons_of_large_domains_are_counted_by_ranges() -> None:
    size = 30_000
    world = numbers(size, "Ann", "Bob")
    x, y = Variable("x"), Variable("y")
    variables = (("x", "t"), ("y", "t"))
    less = plan_cube(Cube((), (Condition("<", x, y),)), variables, world)
    assert "join where x < y" in explain_plan(less)
    assert count(less, world) == size * (size - 1) // 2
    ahead = plan_cube(Cube((), (Condition(">=", x, y, 3),)), variables, world)
    assert count(ahead, world) == (size - 3) * (size - 2) // 2
    # What is not a number is not less, so its pairs all violate the clause x < y.
    violated = plan_violations(Clause((), (Condition("<", x, y),)), variables, world)
    assert count(violated, world) == (size + 2) ** 2 - size * (size - 1) // 2
    cube = Cube((), (Condition("<", x, y),))
    by_x = world.count_table(plan_cube(cube, variables, world, ("x",)))
    assert by_x.tolist() == [*range(size - 1, -1, -1), 0, 0]


def test_a_chain_of_comparisons_is_eliminated_one_variable_at_a_time() -> None:
    size = 5000
    world = numbers(size)
    x, y, z = map(Variable, "xyz")
    cube = Cube((), (Condition("<", x, y), Condition("<", y, z)))
    plan = plan_cube(cube, tuple((name, "t") for name in "xyz"), world)
    assert count(plan, world) == math.comb(size, 3)


def test_successors_are_listed_not_searched_for() -> None:
    size = 50_000
    world = numbers(size)
    names = [f"x{i}" for i in range(5)]
    steps = tuple(
        Condition("=", Variable(other), Variable(one), 1) for one, other in pairwise(names)
    )
    plan = plan_cube(Cube((), steps), tuple((name, "t") for name in names), world)
    assert "pairs with x1 = x0 +1" in explain_plan(plan)
    assert count(plan, world) == size - 4


def test_distinct_variables_are_counted_by_inclusion_and_exclusion() -> None:
    size = 20_000
    world = numbers(size)
    names = "wxyz"
    unequal = tuple(
        Condition("!=", Variable(one), Variable(other)) for one, other in combinations(names, 2)
    )
    plan = plan_cube(Cube((), unequal), tuple((name, "t") for name in names), world)
    assert count(plan, world) == math.perm(size, 4)


def test_a_join_too_large_to_list_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lapis.relational.factor.MAX_PAIRS", 99)
    every = indicator_factor(("x",), np.arange(10, dtype=np.int32).reshape(-1, 1))
    with pytest.raises(TooLarge, match="100 rows"):
        multiply_factors(every, indicator_factor(("y",), every.rows))


def test_a_triangle_is_closed_without_listing_paths() -> None:
    # In the complete graph on n vertices with loops, every triple is a triangle.
    size = 60
    every = np.stack(np.divmod(np.arange(size**2), size), axis=1).astype(np.int32)
    domain = Domain("t", tuple(map(str, range(size))))
    world = build_interpretation({"F": Predicate("F", ("t", "t"))}, {"t": domain}, {"F": every[1:]})
    cube = Cube((edge("x", "y"), edge("y", "z"), edge("x", "z")))
    plan = plan_cube(cube, tuple((name, "t") for name in "xyz"), world)
    # Without the loop at 0: triples that use it in one, or in all three, of their edges.
    assert count(plan, world) == size**3 - 3 * size + 3 - 1


def test_parts_without_connections_are_not_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning the atoms of a predicate of many arguments took cubic time."""
    ranked = []

    def rank(*given: object) -> int:
        ranked.append(given)
        return 2

    monkeypatch.setattr(contraction, "_rank_pair", rank)
    arguments = [f"x{place}" for place in range(60)]
    text = f"t = {{A}}\nP({','.join(['t'] * 60)})\n1 P({','.join(arguments)})"
    found = lapis.infer(lapis.parse(text), query="P")
    assert len(found) == 1
    assert not ranked

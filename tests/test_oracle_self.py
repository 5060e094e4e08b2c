"""The oracle is held to figures worked out by hand, and to identities it does not use itself."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given

import oracle
from golden_models import GoldenModel, golden_models
from lapis.language import parse_model
from lapis.language.model import Model, Predicate, Rule
from lapis.language.syntax import (
    And,
    Atom,
    Cardinality,
    Comparison,
    Constant,
    Exists,
    ForAll,
    Formula,
    Iff,
    Implies,
    Not,
    Offset,
    Or,
    Truth,
    Variable,
)
from oracle import Facts, NoWorld
from strategies import Case, cases

X, Y = Variable("x"), Variable("y")
RAIN, WET = Atom("Rain", ()), Atom("Wet", ())
ENUMERABLE = [golden for golden in golden_models() if golden.applies_to("enumerate")]


def weather(formula: Formula, weight: float = 1.0, *, hard: bool = False) -> Model:
    predicates = {name: Predicate(name, ()) for name in ("Rain", "Wet")}
    return Model({}, predicates, (Rule(formula, (), (), weight, hard, ""),))


def numbers(formula: Formula, *, free: str = "", bound: str = "") -> Model:
    """A rule over Even(n), n = {1, 2, 10}."""
    rule = Rule(
        formula,
        tuple((name, "n") for name in free),
        tuple((name, "n") for name in bound),
        1.0,
        False,
        "",
    )
    return Model({"n": ("1", "2", "10")}, {"Even": Predicate("Even", ("n",))}, (rule,))


@pytest.mark.parametrize(
    ("formula", "rows"),
    [
        (Not(RAIN), (1, 1, 0, 0)),
        (And((RAIN, WET)), (0, 0, 0, 1)),
        (Or((RAIN, WET)), (0, 1, 1, 1)),
        (Implies(RAIN, WET), (1, 1, 0, 1)),
        (Iff(RAIN, WET), (1, 0, 0, 1)),
        (Truth(True), (1, 1, 1, 1)),
        (Truth(False), (0, 0, 0, 0)),
    ],
)
def test_connectives(formula: Formula, rows: tuple[int, ...]) -> None:
    """`rows`: the truth table over Rain, Wet = 00, 01, 10, 11."""
    counts = []
    for true in ((), ("Wet",), ("Rain",), ("Rain", "Wet")):
        facts = Facts(tuple((name, ()) for name in true))
        counts.append(oracle.count_true(weather(formula), facts)[0, ()][0])
    assert tuple(counts) == rows


@pytest.mark.parametrize(
    ("comparison", "true"),
    [
        (Comparison("=", X, Y), 3),
        (Comparison("!=", X, Y), 6),
        (Comparison("<", X, Y), 3),  # as numbers: 2 < 10
        (Comparison(">=", X, Y), 6),
        (Comparison("=", X, Offset(Y, 1)), 1),  # 2 = 1+1
        (Comparison("<=", Offset(X, 8), Y), 2),  # 1+8 and 2+8 reach 10
        (Comparison("=", X, Constant("2")), 3),
    ],
)
def test_comparisons(comparison: Comparison, true: int) -> None:
    assert oracle.count_true(numbers(comparison, free="xy"), Facts()) == {(0, ()): (true, 9)}


def test_numeric_comparison_with_a_word_is_false() -> None:
    for operator in ("<", ">="):
        model = numbers(Comparison(operator, X, Y), free="xy")
        words = replace(model, types={"n": ("1", "Many")})
        assert oracle.count_true(words, Facts()) == {(0, ()): (int(operator == ">="), 4)}


def test_quantifiers_range_over_all_constants() -> None:
    even = Facts((("Even", ("2",)), ("Even", ("10",))))
    atom = Atom("Even", (X,))
    assert oracle.count_true(numbers(Exists(("x",), atom), bound="x"), even) == {(0, ()): (1, 1)}
    assert oracle.count_true(numbers(ForAll(("x",), atom), bound="x"), even) == {(0, ()): (0, 1)}
    both = Exists(("x", "y"), And((atom, Not(Atom("Even", (Y,))), Comparison("<", X, Y))))
    assert oracle.count_true(numbers(both, bound="xy"), even) == {(0, ()): (0, 1)}


def test_quantifiers_over_no_constants() -> None:
    atom = Atom("Even", (X,))
    for formula, true in ((Exists(("x",), atom), 0), (ForAll(("x",), atom), 1)):
        model = replace(numbers(formula, bound="x"), types={"n": ()})
        assert oracle.count_true(model, Facts()) == {(0, ()): (true, 1)}
    free = replace(numbers(atom, free="x"), types={"n": ()})
    assert oracle.count_true(free, Facts()) == {(0, ()): (0, 0)}


def test_hard_formula_and_evidence_can_leave_no_world() -> None:
    with pytest.raises(NoWorld):
        oracle.infer(weather(RAIN, hard=True), Facts(false=(("Rain", ()),)), ["Rain"])


def test_cardinality_constraint() -> None:
    model = numbers(Atom("Even", (X,)), free="x")
    two = replace(model, constraints=(Cardinality(((1, "Even"),), "=", 2),))
    answer = oracle.infer(two, Facts(), ["Even"])
    assert answer.log_partition == pytest.approx(2 + math.log(3))
    assert answer.marginals["Even(10)"] == pytest.approx(2 / 3)


def test_weight_ids_are_rule_major_last_plus_variable_fastest() -> None:
    rule = Rule(
        Truth(True), (("x", "t"), ("y", "u"), ("z", "t")), (), 1.0, False, "", plus=("y", "z")
    )
    model = Model({"t": ("A", "B"), "u": ("C", "D")}, {}, (replace(rule, plus=()), rule))
    assert oracle.weight_keys(model, oracle.constants_of(model, Facts())) == [
        (0, ()), (1, ("C", "A")), (1, ("C", "B")), (1, ("D", "A")), (1, ("D", "B"))
    ]  # fmt: skip


@pytest.mark.parametrize("golden", ENUMERABLE, ids=lambda golden: golden.name)
def test_golden_model(golden: GoldenModel) -> None:
    model = parse_model(golden.text)
    if golden.impossible:
        with pytest.raises(NoWorld):
            oracle.infer(model, golden.facts, golden.query)
        return
    for index, count in golden.counts.items():
        assert oracle.count_true(model, golden.facts)[index, ()] == count
    figures: dict[str, float] = {}
    if golden.query:
        answer = oracle.infer(model, golden.facts, golden.query)
        keys = oracle.weight_keys(model, oracle.constants_of(model, golden.facts))
        figures |= {"logZ": answer.log_partition, "map score": answer.map_score}
        for atom, expected in golden.marginals.items():
            assert expected.is_met_by(answer.marginals[atom]), atom
        for weight_id, expected in golden.expected_counts.items():
            assert expected.is_met_by(answer.expected_counts[keys[weight_id]]), weight_id
        for atom, value in golden.map_atoms.items():
            assert all((atom in world) == value for world in answer.map_worlds), atom
    if "pll" in golden.figures:
        figures["pll"] = oracle.pseudo_log_likelihood(model, golden.facts)
    if "ll" in golden.figures:
        figures["ll"] = oracle.log_likelihood(model, golden.facts)
    for name, expected in golden.figures.items():
        assert expected.is_met_by(figures[name]), name


@given(cases())
def test_expected_counts_are_derivatives_of_log_partition(case: Case) -> None:
    """∂ log Z / ∂ w_i = E[n_i], by central differences."""
    model = parse_model(case.model)
    try:
        answer = oracle.infer(model, case.facts, case.query)
    except NoWorld:
        assume(False)
    step = 1e-5
    for index, rule in enumerate(model.rules):
        if rule.hard:
            continue
        moved = []
        for change in (step, -step):
            heavier = replace(rule, weight=(rule.weight or 0.0) + change)
            rules = (*model.rules[:index], heavier, *model.rules[index + 1 :])
            moved.append(oracle.infer(model.with_rules(rules), case.facts, case.query))
        slope = (moved[0].log_partition - moved[1].log_partition) / (2 * step)
        expected = sum(n for (r, _), n in answer.expected_counts.items() if r == index)
        assert slope == pytest.approx(expected, abs=1e-5)


@given(cases(observed=True))
def test_pseudo_likelihood_is_made_of_conditional_probabilities(case: Case) -> None:
    """log P(cell | rest) = log Z(everything is evidence) minus log Z(all but the cell is)."""
    model = parse_model(case.model)
    domains = oracle.constants_of(model, case.facts)
    try:
        value = oracle.pseudo_log_likelihood(model, case.facts)
    except NoWorld:
        assume(False)
    whole = oracle.infer(model, case.facts, ()).log_partition
    total = 0.0
    for predicate in model.predicates.values():
        for cell in oracle.cells_of(predicate, domains):
            true, false = (
                tuple(atom for atom in known if atom not in cell.atoms)
                for known in (case.facts.true, case.facts.false)  # whose constants all stay
            )
            without = Facts(true, false, cell.atoms)
            total += whole - oracle.infer(model, without, ()).log_partition
    assert value == pytest.approx(total, abs=1e-9)

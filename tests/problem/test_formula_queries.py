"""Formula queries against the oracle; other marginals do not change."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lapis
import oracle
from lapis.language import parse_formula
from lapis.language.instances import as_atom, substitute
from lapis.language.model import Model, Rule
from lapis.language.syntax import (
    Atom,
    Formula,
    Not,
    Offset,
    Term,
    Variable,
    atoms,
    map_children,
    map_terms,
)
from oracle import Facts, NoWorld
from strategies import TYPE_OF, Case, cases, show


@st.composite
def questions(draw: st.DrawFn) -> tuple[Case, Formula]:
    """A case and one more formula, the numbers in its atoms moved at times."""
    case = draw(cases())
    amount = draw(st.sampled_from([0, 1, -1]))

    def move(term: Term) -> Term:
        moved = amount and isinstance(term, Variable) and TYPE_OF[term.name] == "number"
        return Offset(term, amount) if moved and isinstance(term, Variable) else term

    def visit(formula: Formula) -> Formula:
        if isinstance(formula, Atom):
            return map_terms(formula, move)
        return map_children(formula, visit)

    formula = visit(case.rules[-1].formula)
    # A bare atom asks for the predicate's unknown atoms; two negations make it a formula.
    return case, Not(Not(formula)) if as_atom(formula) else formula


def rule_of(declarations: str, formula: Formula) -> Rule:
    """The formula as it would mean in the model."""
    try:
        return lapis.parse(f"{declarations}0 {show(formula)}\n").rules[-1]
    except lapis.LapisError:
        assume(False)  # the type of a variable that occurs only in an offset is unknown
        raise


def probabilities(
    model: Model, facts: Facts, query: set[str], rule: Rule
) -> tuple[float, list[tuple[dict[str, str], float]]]:
    """log Z, and the probability of the rule's formula at each assignment of its variables."""
    domains = oracle.constants_of(model, facts)
    known = oracle.known_atoms(model, facts, domains, query)
    worlds = oracle.worlds_agreeing_with(known)
    log_weight = oracle.weigh(model, domains, worlds).log_weight
    log_partition = oracle.log_sum_exp(log_weight)
    if log_partition == -np.inf:
        raise NoWorld
    probability = np.exp(log_weight - log_partition)
    return log_partition, [
        (binding, float(probability @ oracle.holds(rule, binding, worlds, domains)))
        for binding in oracle.bindings(rule.variables, domains)
    ]


@given(questions(), st.booleans())
def test_every_grounding_has_its_probability_and_log_z_stays(
    question: tuple[Case, Formula], alone: bool
) -> None:
    case, formula = question
    text = case.declarations + "".join(f"{rule.text}\n" for rule in case.rules[:-1])
    model, data = lapis.parse(text), lapis.Database.parse(case.data)
    rule = rule_of(case.declarations, formula)
    mentioned = {atom.predicate for atom in atoms(rule.formula)}
    opened = mentioned if alone else set(case.query)
    query = [show(formula)] if alone else [*case.query, show(formula)]
    before = oracle.constants_of(model, case.facts)
    full = lapis.parse(f"{text}0 {show(formula)}\n")
    if any(set(oracle.constants_of(full, case.facts)[t]) - set(before[t]) for t in before):
        with pytest.raises(lapis.LapisError, match=r"unknown constant|no world|contradict|block"):
            lapis.infer(model, data, query=query, method="exact")
        return
    try:
        log_partition, expected = probabilities(model, case.facts, opened, rule)
    except NoWorld:
        with pytest.raises(lapis.LapisError):
            lapis.infer(model, data, query=query, method="exact")
        return
    answer = lapis.infer(model, data, query=query, method="exact")
    assert answer.log_partition == pytest.approx(log_partition, abs=1e-9)
    assert len(answer) >= len(expected)
    for binding, probability in expected:
        found = answer[show(substitute(formula, binding))]
        assert found == pytest.approx(probability, abs=1e-9)


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        "P(i+1)",
        "P(i) => P(i+1)",
        "!P(i-1) ^ P(i)",
        "P(i+1) <=> P(i-1)",
        "Q(i, j+1) v P(i-1)",
        "EXIST j (Q(i, j) ^ P(j+1))",
        "FORALL j (Q(j-1, i))",
        "P(F(i)) ^ i+1 = j ^ P(j)",
        "P(i+5)",
    ],
)
def test_offsets_mean_what_they_mean_in_rules(text: str, alone: bool) -> None:
    declared = "n = {1, 2, 3}\nP(n)\nQ(n, n)\nn F(n)\n"
    rules = "0.7 P(i) => P(i+1)\n-0.4 Q(i, i)\n1 P(F(i))\n"
    model = lapis.parse(declared + rules)
    facts = Facts(true=(("Q", ("1", "2")), ("F", ("2", "3"))), false=(("Q", ("3", "1")),))
    rule = lapis.parse(f"{declared}0 {text}\n").rules[-1]
    mentioned = {atom.predicate for atom in atoms(rule.formula)}
    predicates = [] if alone else ["P", "F"]
    if alone and "F" not in mentioned:  # closed, a function needs all its values
        facts = Facts((*facts.true, ("F", ("1", "1")), ("F", ("3", "1"))), facts.false)
    data = lapis.Database.parse(oracle.render_database(model.predicates, facts))
    opened = mentioned if alone else set(predicates)
    log_partition, expected = probabilities(model, facts, opened, rule)
    answer = lapis.infer(model, data, query=[*predicates, text], method="exact")
    assert answer.log_partition == pytest.approx(log_partition, abs=1e-9)
    for binding, probability in expected:
        name = show(substitute(parse_formula(text), binding))
        assert answer[name] == pytest.approx(probability, abs=1e-9)


def test_an_offset_that_leaves_the_domain_makes_the_formula_true() -> None:
    model = lapis.parse("n = {1, 2}\nP(n)\n0.5 P(i)")
    for query in (["P", "P(i) => P(i+1)"], ["P(i) => P(i+1)"]):
        answer = lapis.infer(model, query=query)
        assert answer["P(2) => P(3)"] == 1.0
        assert answer.log_partition == pytest.approx(2 * math.log(1 + math.exp(0.5)))


@pytest.mark.parametrize("query", [["P(x) v !P(x)"], ["Q", "P(x) ^ Q(y)"], ["EXIST x P(x)", "Q"]])
def test_empty_types_give_no_rows(query: list[str]) -> None:
    model = lapis.parse("P(u)\nQ(t)\nt={A}\n1 P(x)\n1 Q(x)")
    answer = lapis.infer(model, query=query)
    rows = [name for name in answer.atoms if not name.startswith(("Q", "EXIST"))]
    assert rows == []


def test_a_formula_alone_opens_the_functions_it_mentions() -> None:
    model = lapis.parse("t = {A,B}\nt F(t)\nQ(t)\n1 Q(F(x))")
    answer = lapis.infer(model, query="Q(F(x)) v Q(x)")
    # F(A) is A or B alike; of the pairs (Q(A), Q(B)) a true value counts e for each of the two.
    assert 0.5 < answer["Q(F(A)) v Q(A)"] < 1.0
    assert answer["Q(F(A)) v Q(A)"] == pytest.approx(answer["Q(F(B)) v Q(B)"])


def test_rows_are_found_by_name_however_it_is_written() -> None:
    model = lapis.parse('t={A, "b, c"}\nP(t,t)\n1 P(x,x)')
    answer = lapis.infer(model, query=["P", "P(x,y) ^ P(y,x)"])
    for name in ('P(A,"b, c")', 'P( A , "b, c" )'):
        assert answer[name] == 0.5
    assert answer['P(A,"b, c")^P("b, c",A)'] == 0.25


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("P(x) ^ Q(x)", "unknown predicate 'Q' in the query"),
        ("P(x) ^ P(Zed)", "unknown constant 'Zed' of type 't' in the query P(x) ^ P(Zed)"),
        ("P(x) ^ x != Zed", "unknown constant 'Zed' of type 't' in the query P(x) ^ x != Zed"),
        ("*P(x) v P(A)", "a query must not have starred atoms: *P(x) v P(A)"),
        ("*P(x)", "a query must not have starred atoms: *P(x)"),
    ],
)
def test_what_the_model_does_not_know_is_refused(query: str, message: str) -> None:
    model = lapis.parse("t={A}\nP(t)\n1 P(x)")
    with pytest.raises(lapis.LapisError) as caught:
        lapis.infer(model, query=query)
    assert caught.value.message == message


def test_numbers_in_an_order_need_be_no_constants() -> None:
    model = lapis.parse("n = {1, 2}\nP(n)\n0.5 P(i)")
    answer = lapis.infer(model, query=["P", "P(i) ^ i < 1.5"])
    assert answer["P(1) ^ 1 < 1.5"] == pytest.approx(answer["P(1)"])
    assert answer["P(2) ^ 2 < 1.5"] == 0.0

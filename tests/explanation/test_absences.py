"""Probabilities without rules, ground formulas and facts are those of the changed models."""

from __future__ import annotations

import pytest
from explained_cases import OracleCase, close, plain
from hypothesis import given, settings

import oracle
import strategies
from lapis.registry.options import FactsWithout
from lapis.results.explanation import Absence, Explanation
from oracle import Facts, NoWorld
from strategies import Case


def without_fact(found: OracleCase, text: str, mode: FactsWithout) -> Facts:
    """The facts of a case without one of them."""
    stated = not text.startswith("!")
    atom = found.names[text.removeprefix("!")]
    facts, predicate = found.facts, found.model.predicates[atom[0]]
    is_open = atom[0] in found.case.query
    true = tuple(fact for fact in facts.true if fact != atom)
    false = tuple(fact for fact in facts.false if fact != atom)
    unknown = facts.unknown
    exact = bool(predicate.block) and predicate.exactly_one
    if not is_open and stated and (exact or mode == "unknown"):
        others = [a for a in found.mates(atom) if exact and a not in facts.all()]
        unknown = (*unknown, *others, *([] if mode == "false" else [atom]))
    if is_open and mode == "false" and stated:
        false = (*false, atom)
    return Facts(true, false, unknown)


def marginal(found: OracleCase, facts: Facts, name: str) -> float | None:
    try:
        return found.with_facts(facts).marginals[name]
    except NoWorld:
        return None


def check_facts(found: OracleCase, explained: Explanation, mode: FactsWithout) -> None:
    rows = {row.text: row for row in explained.without if row.kind == "fact"}
    for sign, facts in (("", found.facts.true), ("!", found.facts.false)):
        for atom in facts:
            text = sign + oracle.atom_text(found.model.predicates[atom[0]], atom[1])
            if sign and (atom[0] not in found.case.query or mode == "false"):
                continue
            changed = without_fact(found, text, mode)
            check_row(found, explained, rows.get(text), changed)


def check_row(found: OracleCase, explained: Explanation, row: Absence | None, facts: Facts) -> None:
    expected = marginal(found, facts, explained.atom)
    if expected is None:
        return
    if row is None:
        assert explained.probability == close(expected)
    else:
        assert row.exact
        assert row.probability == close(expected)


def check_rules(found: OracleCase, explained: Explanation) -> None:
    """Without each rule that has no plus variables."""
    rows = {plain(row.text): row for row in explained.without if row.kind == "rule"}
    rules = found.with_soft.rules
    for number, rule in enumerate(rules):
        twins = sum(plain(other.text) == plain(rule.text) for other in rules)
        twins += any(other.plus for other in rules)  # its instances may have the same text
        if rule.plus or twins > 1:
            continue
        model = found.with_soft.with_rules(rules[:number] + rules[number + 1 :])
        try:
            answer = oracle.infer(model, fixed_domains(found), found.case.query)
        except NoWorld:
            continue
        row = rows.get(plain(rule.text))
        probability = explained.probability if row is None else row.probability
        assert probability == close(answer.marginals[explained.atom]), rule.text


def fixed_domains(found: OracleCase) -> Facts:
    return found.facts


def check_absences(found: OracleCase, mode: FactsWithout) -> None:
    try:
        expected = found.answer()
    except NoWorld:
        return
    answer = found.infer()
    for name in sorted(expected.unknown)[:3]:
        explained = answer.explain(name, facts=mode)
        check_facts(found, explained, mode)
        check_rules(found, explained)


@pytest.mark.parametrize("mode", ["removed", "unknown", "false"])
def test_absences_are_those_of_changed_models(mode: FactsWithout) -> None:
    @settings(max_examples=10)
    @given(strategies.cases())
    def check(case: Case) -> None:
        check_absences(OracleCase(case, {}), mode)

    check()

"""Markov logic to fields and back: the same distribution for sharp connectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

import lapis
from cli_run import Run
from lapis import fields
from lapis.errors import LapisError
from lapis.language.model import Model
from oracle import Facts, NoWorld, constants_of, infer
from strategies import Case, cases

SHARP = 45.0
# What a field has no room for.
REFUSED = {"field-offset", "plus-without-constants", "empty-field"}

KINDS = """\
person = {Ann, Bob}
Smokes(person)
Cancer(person)
Friends(person, person)
1.5 Smokes(x) => Cancer(x)
0.7 Friends(x, y) ^ Friends(y, z) => Friends(x, z)
2 EXIST y Friends(x, y) ^ Smokes(y)
-0.5 Friends(x, y)
1 Smokes(x) <=> Cancer(y) ^ Friends(x, y)
-0.8 !(Smokes(x) <=> Cancer(x))
0.3 FORALL y (Friends(x, y) v x = y)
1.1 Smokes(x) ^ EXIST y (Friends(x, y) ^ !EXIST z Friends(y, z))
0.4 Friends(x, Bob)
"""


def marginals_of(
    model: Model, facts: Facts, query: Sequence[str] | None = None
) -> tuple[list[str], np.ndarray]:
    found = infer(model, facts, model.predicates if query is None else query)
    names = sorted(found.unknown)
    return names, np.array([found.marginals[name] for name in names])


@given(cases())
@settings(suppress_health_check=list(HealthCheck))
def test_sharp_fields_are_their_networks(case: Case) -> None:
    model = lapis.parse(case.model)
    model = model.with_rules(
        tuple(replace(r, weight=0.0) if r.weight is None and not r.hard else r for r in model.rules)
    )
    try:
        field = fields.from_model(model, sharpness=SHARP)
    except LapisError as error:
        assert error.code in REFUSED  # noqa: PT017
        return
    # Data may name constants that a + rule would have weights for.
    named = constants_of(model, Facts())
    assume(not any(rule.plus for rule in model.rules) or named == constants_of(model, case.facts))
    assert fields.parse(fields.print_field(field)) == field
    try:
        names, expected = marginals_of(model, case.facts, case.query)
    except NoWorld:
        return
    assume(names)
    data = lapis.Database.parse(case.data)
    answer = fields.infer(field, data, list(case.query), method="enumerate")
    oracle = dict(zip(names, expected, strict=True))  # unknown atoms of closed predicates, too
    assert {*answer.atoms} <= {*names}
    assert answer.probability == pytest.approx([oracle[n] for n in answer.atoms], abs=1e-6)
    try:
        back = fields.to_model(field)
    except LapisError as error:
        assert error.code == "nothing-extracted"  # noqa: PT017
        return
    _, extracted = marginals_of(back, case.facts, case.query)
    assert extracted == pytest.approx(expected, abs=1e-6)


def test_every_connective_and_its_way_back() -> None:
    model = lapis.parse(KINDS)
    names, expected = marginals_of(model, Facts())
    field = fields.from_model(model, sharpness=SHARP)
    answer = fields.infer(field, None, list(model.predicates), method="enumerate")
    assert [answer[name] for name in names] == pytest.approx(expected, abs=1e-9)
    _, extracted = marginals_of(fields.to_model(field), Facts())
    assert extracted == pytest.approx(expected, abs=1e-9)


def test_the_error_shrinks_with_the_sharpness() -> None:
    """S n e^−S for each sum over n that should be zero."""
    model = lapis.parse(KINDS)
    names, expected = marginals_of(model, Facts())
    errors = []
    for sharpness in (3.0, 6.0, 9.0, 12.0):
        field = fields.from_model(model, sharpness=sharpness)
        answer = fields.infer(field, None, list(model.predicates), method="enumerate")
        errors.append(float(np.abs([answer[n] for n in names] - expected).max()))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3


def test_weights_by_constants_are_written_out() -> None:
    model = lapis.parse("t = {A, B}\nP(t)\n1 P(+x)")
    assert [str(c.terms[0].name) for c in fields.from_model(model).root.children] == ["A", "B"]
    with pytest.raises(LapisError, match="but the model has no constants"):
        fields.from_model(lapis.parse("P(t)\n1 P(+x)"))


def test_theory_revision_adds_what_is_missing() -> None:
    model = lapis.parse("Smokes(person)\nFriends(person, person)\nRain\n1 Smokes(x) ^ Rain")
    field = fields.from_model(model, others=True, num_random=2, random_state=3)
    [conjunction] = [f for f in field.parfeatures if f.name == "f1"]
    assert {c.target for c in conjunction.children} == {"Smokes", "Rain", "Friends"}
    assert [f.name for f in field.parfeatures] == ["root", "f1", "random1", "random2"]
    added = [c.weight for f in field.parfeatures[1:] for c in f.children if abs(c.weight) < 1]
    assert added
    assert np.abs(added).max() < 0.1
    assert fields.from_model(model, others=True, num_random=2, random_state=3) == field


def test_what_is_weak_is_left_out() -> None:
    field = fields.parse("P(t)\nQ(t)\nroot:\n 2 f(x)\nf(x):\n 3 P(x)\n 0.4 Q(x)\n")
    assert [rule.text for rule in fields.to_model(field).rules] == ["P(x)"]
    assert [rule.text for rule in fields.to_model(field, threshold=0.1).rules] == ["P(x) ^ Q(x)"]
    with pytest.raises(LapisError, match="no weight reaches the threshold"):
        fields.to_model(field, threshold=10.0)


def test_the_commands(run: Run) -> None:
    run.write("k.mln", KINDS)
    assert run("field", "from", "k.mln", "--sharpness", "20", "-o", "k.rrf")[0] == 0
    text = (run.folder / "k.rrf").read_text(encoding="utf-8")
    assert fields.parse(text) == fields.from_model(lapis.parse(KINDS), sharpness=20.0)
    assert run("field", "extract", "k.rrf", "-o", "back.mln")[0] == 0
    back = lapis.read(run.folder / "back.mln")
    assert {rule.weight for rule in back.rules} >= {1.5, 2.0, 1.1, -0.5}
    code, out, _ = run("field", "from", "k.mln")
    assert code == 0
    assert "root:" in out


def test_variables_that_simplifying_leaves_out_still_multiply() -> None:
    """`(D(y) <=> D(y)) => Q(x)` is Q(x), once for each y: its field had it once."""
    model = lapis.parse(
        "p = {Ann}\nt = {A, B, C}\nQ(p)\nD(t)\nR(t, p)\n1 (D(y) <=> D(y)) => Q(x)\n"
        "-0.5 (D(y) v !D(y)) ^ (Q(x) <=> R(z, x))\n0.3 (Q(x) v R(y, x)) ^ (z = z v R(z, x))\n"
        "0.2 (D(+y) v !D(y)) ^ (D(z) v !D(z)) ^ Q(x)\n"
    )
    names, expected = marginals_of(model, Facts())
    field = fields.parse(fields.print_field(fields.from_model(model, sharpness=SHARP)))
    found = fields.infer(field, None, list(model.predicates))
    np.testing.assert_allclose([found[name] for name in names], expected, atol=1e-9)
    assert fields.learn(field, lapis.Database.parse("Q(Ann) D(A) R(B,Ann)"), max_iterations=2)


ONE_NAME = {
    "two rules": "1 P(x)\n0.5 R(x)",
    "one of them in a group": "1 P(x) ^ Q(x)\n0.5 R(x) v S(x, y)",
    "under quantifiers": "1 EXIST x P(x) ^ Q(x)\n0.5 Rain v EXIST x (R(x) ^ S(x, y))",
    "in a comparison": "1 P(x) ^ x != A\n0.5 R(x) v x = B",
}


@pytest.mark.parametrize("kind", ONE_NAME)
def test_a_variable_belongs_to_one_rule(kind: str) -> None:
    """One variable name may have two types in two rules."""
    check_round_trip(
        "t = {A, C}\nu = {B, D, E}\nP(t)\nQ(t)\nR(u)\nS(u, t)\nRain\n" + ONE_NAME[kind]
    )


COMPARED = {
    "with a constant": "0.7 (x != A) <=> (Q(x) v !Q(x))\n1 P(y)",
    "beside an atom": "0.7 P(y) v (x != A ^ (Q(x) v !Q(x)))",
    "two variables": "0.7 P(y) v (x != z ^ (Q(x) v !Q(x)) ^ (Q(z) v !Q(z)))",
    "under a quantifier": "0.7 P(y) ^ EXIST x (x != z ^ (Q(x) v !Q(x)) ^ (R(z) v !R(z)))",
    "an order": "0.7 P(y) ^ EXIST x (x < z ^ (N(x) v !N(x)))",
}


@pytest.mark.parametrize("kind", COMPARED)
def test_a_variable_may_be_left_in_comparisons_alone(kind: str) -> None:
    """Simplifying may remove the atoms that give a variable its type."""
    check_round_trip(
        "t = {A, C}\nn = {1, 2}\nP(t)\nQ(t)\nR(t)\nN(n)\n-0.3 N(x) ^ P(y)\n" + COMPARED[kind]
    )


def check_round_trip(text: str) -> None:
    """Marginals of the model, its field, the field's text and the extracted rules agree."""
    model = lapis.parse(text)
    names, expected = marginals_of(model, Facts())
    field = fields.parse(fields.print_field(fields.from_model(model, sharpness=SHARP)))
    found = fields.infer(field, None, list(model.predicates), method="enumerate")
    np.testing.assert_allclose([found[name] for name in names], expected, atol=1e-9)
    _, extracted = marginals_of(fields.to_model(field, threshold=0.1), Facts())
    np.testing.assert_allclose(extracted, expected, atol=1e-9)


def test_extracted_rules_keep_their_multiplicity() -> None:
    """A rule counts once for each value of a variable that it does not contain."""
    text = "t = {A, B, C}\nu = {D, E}\nP(t)\nR(u)\nS(u, t)\n-0.47 (EXIST q !P(q)) ^ (R(x) v !R(x))"
    check_round_trip(text)
    check_round_trip(text.replace("\nR(u)", "").replace("R(x)", "S(x, y)"))
    rule = fields.to_model(fields.from_model(lapis.parse(text))).rules[0]
    assert rule.text == "(FORALL q P(q)) ^ (R(x) v !R(x))"

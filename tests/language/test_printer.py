"""A printed model is parsed as a model of the same meaning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
from lapis.language import parse_model
from lapis.language.instances import MIN_GATHERED, gather_instances
from lapis.language.model import InstanceWeights
from lapis.language.names import format_constant
from lapis.language.printer import print_model
from lapis.problem.check import describe_rule

MODELS = {
    "plain": 'person = {Ann, "O Neil"}\nSmokes(person)\nCancer(person)\n'
    "1.5 Smokes(x) => Cancer(x)\n"
    "Smokes(Ann).\n@fixed -2 !Cancer(x)\nSmokes(x) ^ Cancer(x)\n",
    "blocks": "Topic(page, topic!)\nLinks(page, page)\nPlace(page, town?)\n*Old(page)\n"
    "2 Topic(p,t) ^ Links(p,q) => Topic(q,t)\n0.5 Topic(p,+t)\n0.1 Old(p) v EXIST q Links(p,q)\n",
    "functions": "person MotherOf(person)\nAge(person, year)\nyear = {1, ..., 9}\n"
    "1 MotherOf(x) = y => !(x = y)\n0.5 Age(x,y) ^ y > 3\n",
    "factors": "P(t) 2.5 0\nQ(t) -1 1\nR(t) 3 2\n1 P(x) => Q(x) v R(x)\n|P| - 2 |Q| >= -3\n",
    "nullary": "Rain\nWet(place)\n1.25 Rain => Wet(p)\n(Rain)\n",
}


@pytest.mark.parametrize("name", MODELS)
def test_reading_what_was_printed_gives_the_same_model(name: str) -> None:
    model = parse_model(MODELS[name])
    again = parse_model(print_model(model))
    assert again.predicates == model.predicates
    assert {t: set(c) for t, c in again.types.items()} == {
        t: set(c) for t, c in model.types.items()
    }
    assert again.rules == model.rules
    assert again.constraints == model.constraints


@given(st.text("aZ09_.-+eE v", max_size=6), st.text("12aZ_.eé中", min_size=1, max_size=3))
def test_every_constant_is_one_word(constant: str, other: str) -> None:
    """A type {2020_01} had the constants 2020 and _01."""
    written = f"{format_constant(constant)}, {format_constant(other)}"
    model = parse_model(f"P(p)\np = {{{written}}}\n1 P({written.split(', ')[0]})\n")
    assert set(model.types["p"]) == {constant, other}
    assert not model.warnings


@pytest.mark.parametrize("name", ["12ab", "_a", "中", "Éa"])
def test_types_of_undeclared_predicates_can_be_written(name: str) -> None:
    model = parse_model(f"1 {name}(x) v {name}(A)")
    assert parse_model(print_model(model)).rules == model.rules


def test_weights_are_read_back_to_the_last_digit() -> None:
    """Ten digits were written: a score of 10^9 groundings lost its second decimal, and a @fixed
    weight was no longer what had been fixed."""
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=50) * 10.0 ** rng.integers(-12, 6, 50)
    for weight in [*drawn.tolist(), 0.1, 1 / 3, 5e-324, 123456.78901234567, -0.0, 2.0]:
        for mark in ("", "@fixed "):
            model = parse_model(f"P(t)\n{mark}{weight!r} P(x)\n")
            assert parse_model(print_model(model)).rules == model.rules
            [again] = parse_model(print_model(model)).rules
            assert again.weight == weight


def learned(values: dict[tuple[str, ...], float], default: float = 0.0) -> lapis.Model:
    model = parse_model("Has(page, word)\nClass(page, kind)\nHas(p, +w) => Class(p, +k)")
    [rule] = model.rules
    table = InstanceWeights(tuple(values), tuple(values.values()))
    return model.with_rules((replace(rule, weight=default, instance_weights=table),))


def weights_by_name(model: lapis.Model, data: lapis.Database) -> dict[str, float]:
    problem = lapis.build_problem(model, data)
    names = [name for rule in model.rules for name in problem.rule_weight_names(rule)]
    named = zip(names, problem.weight_table.value, strict=True)
    return {name: weight for name, weight in named if weight != 0.0}


def test_weights_of_constants_are_written_out() -> None:
    model = learned({("Java", "Course"): 1.5, ("the", "Course"): 0.0, ("A b", "Staff"): -2.0})
    text = print_model(model, notes=[["± 1", "± 2", "± 3"]])
    assert "// 1 more of weight 0: Has(p, +w) => Class(p, +k)" in text
    assert "± 1" in text
    assert "± 2" not in text
    data = lapis.Database.parse(
        'Has(P,Java) Has(P,the) Has(Q,"A b") Class(P,Course) Class(Q,Staff)'
    )
    assert weights_by_name(parse_model(text), data) == weights_by_name(model, data)


def test_weights_at_constants_are_read_as_the_rule_they_are_of() -> None:
    model = learned({("Java", "Course"): 1.5, ("a b", "-3"): -2.0, ("v", "007"): 1e-9})
    again = parse_model(print_model(model, notes=[["± 1 // 2", 'no "bound', ""]]))
    assert (again.rules, again.types) == (model.rules, model.types)
    twice = "1 R(+x, +y)  @ y = B, x = a\n@fixed 1 R(+x, +y)  @ x = a, y = B\n"
    loose, fixed = parse_model("R(t, t)\n" + twice + '0.5 R(+x, +y)@y=B,x="a"\n').rules
    assert loose.instance_weights == InstanceWeights((("a", "B"),), (1.5,))
    assert fixed.instance_weights == InstanceWeights((("a", "B"),), (1.0,))


def test_weights_at_constants_are_shown_as_they_are() -> None:
    """They were shown as 0, that of all other constants: by `count`, and by `check` in words."""
    model = learned({("Java", "Course"): 1.5, ("Art", "Staff"): -0.5})
    data = lapis.Database.parse("Has(P,Java) Class(P,Course) Class(P,Staff)")
    shown = {row.formula: row.weight for row in lapis.count(model, data).rows}
    assert shown == {"Has(p, Java) => Class(p, Course)": 1.5, "Has(p, Java) => Class(p, Staff)": 0}
    words = describe_rule(model.rules[0])
    assert words.endswith("; weights of -0.5 to 1.5 at 2 constants of w, k, 0 at others")


def test_gathered_instances_keep_the_distribution() -> None:
    rng = np.random.default_rng(3)
    values = {
        (f"W{i}", kind): float(rng.normal()) for i in range(6) for kind in ("Course", "Staff")
    }
    lines = [f"{w!r} Has(p, {word}) => Class(p, {kind})" for (word, kind), w in values.items()]
    separate = parse_model("Has(page, word)\nClass(page, kind)\n" + "\n".join(lines))
    gathered = gather_instances(separate).model
    assert (len(separate.rules), len(gathered.rules)) == (12, 1)
    data = lapis.Database.parse("Has(P,W1) Has(P,W3) Has(Q,W1) Has(Q,W5) Has(Q,Other)")
    expected = lapis.infer(separate, data, "Class", method="enumerate")
    found = lapis.infer(gathered, data, "Class", method="enumerate")
    assert dict(zip(found.atoms, found.probability, strict=True)) == pytest.approx(
        dict(zip(expected.atoms, expected.probability, strict=True)), abs=1e-12
    )


def test_formulas_given_twice_add_up_when_gathered() -> None:
    lines = "".join(f"1 P(C{i})\n" for i in range(MIN_GATHERED)) + "0.5 P(C3)\n"
    [rule] = gather_instances(parse_model("P(t)\n" + lines)).model.rules
    assert rule.instance_weights is not None
    assert dict(zip(rule.instance_weights.constants, rule.instance_weights.value, strict=True))[
        ("C3",)
    ] == pytest.approx(1.5)


def test_what_cannot_be_gathered_stays() -> None:
    few = "".join(f"1 P(C{i})\n" for i in range(MIN_GATHERED - 1))
    model = parse_model("P(t)\n" + few + "P(C9).\n")
    assert gather_instances(model).model is model
    many = parse_model("P(t)\n" + "".join(f"1 P(C{i})\n" for i in range(20)))
    assert gather_instances(many, {"t": 1_000_000}).model is many
    mixed = "".join(f"{i} P(C{i}) ^ x != C1\n" for i in range(1, 10))
    constants_of_comparisons = parse_model("P(t)\nQ(t)\n" + mixed.replace("^", "^ Q(x) ^"))
    [rule] = gather_instances(constants_of_comparisons).model.rules
    assert rule.text == "P(+c1) ^ Q(x) ^ x != C1"


@pytest.mark.parametrize("name", ["v", "log", "not", "t'", "e1"])
def test_types_of_every_name_are_read_as_they_are_printed(name: str) -> None:
    """`v` is a connective too: a learned file with the constants of a type v was unreadable."""
    model = parse_model(f"P(t)\nB(t, {name})\n1 B(x, A)\nv P(x)\n{name} = {{C}}\n2 P(x)")
    assert [rule.text for rule in model.rules] == ["B(x, A) v P(x)", "P(x)"]
    again = parse_model(print_model(model))
    assert again.types == model.types
    assert set(again.types[name]) == {"A", "C"}

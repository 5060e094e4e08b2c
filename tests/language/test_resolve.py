"""Resolution of names, types and sugar."""

from __future__ import annotations

from pathlib import Path

import pytest

from lapis.errors import LapisError
from lapis.language import parse_model, print_formula, read_model
from lapis.language.printer import print_model

PEOPLE = "Smokes(person)\nFriends(person, person)\n"


def test_variables_take_the_types_of_their_positions() -> None:
    model = parse_model("Wrote(person, paper)\n1 Wrote(x, y) => EXIST z (Wrote(z, y) ^ z != x)")
    rule = model.rules[0]
    assert rule.variables == (("x", "person"), ("y", "paper"))
    assert rule.bound == (("z", "person"),)


def test_constants_of_formulas_belong_to_their_types() -> None:
    model = parse_model('P(t, n)\n1 P("a b", 3) v x = C v !P(x, 2)')
    assert model.types == {"t": ("a b", "C"), "n": ("3", "2")}


def test_a_type_and_a_predicate_may_share_a_name() -> None:
    model = parse_model("movie(movie, person)\n1 movie(m, p)")
    assert model.predicates["movie"].types == ("movie", "person")
    assert model.rules[0].variables == (("m", "movie"), ("p", "person"))


def test_the_first_bare_atom_declares_and_the_next_is_a_formula() -> None:
    model = parse_model("Heads(flip)\nHeads(f)\nRain\n1 Rain")
    assert set(model.predicates) == {"Heads", "Rain"}
    assert [(rule.text, rule.weight) for rule in model.rules] == [("Heads(f)", None), ("Rain", 1.0)]


def test_marks_make_blocks() -> None:
    model = parse_model("Topic(page, topic!)\nAt(person, place?)\nValue(value!)")
    assert (model.predicates["Topic"].block, model.predicates["Topic"].exactly_one) == ((1,), True)
    assert (model.predicates["At"].block, model.predicates["At"].exactly_one) == ((1,), False)
    assert model.predicates["Value"].block == (0,)


def test_functions_become_predicates_with_one_value() -> None:
    model = parse_model(f"{PEOPLE}person MotherOf(person)\n1 Smokes(MotherOf(x)) => Smokes(x)")
    predicate = model.predicates["MotherOf"]
    assert (predicate.types, predicate.block, predicate.function) == (("person",) * 2, (1,), True)
    assert print_formula(model.rules[0].formula) == (
        "(EXIST motherOf MotherOf(x, motherOf) ^ Smokes(motherOf)) => Smokes(x)"
    )


def test_names_made_for_functions_and_offsets_are_new() -> None:
    model = parse_model("thing f(person)\nQ(thing)\n1 Q(f(f)) ^ (EXIST f_2 Q(f_2))")
    assert print_formula(model.rules[0].formula) == (
        "(EXIST f_3 f(f, f_3) ^ Q(f_3)) ^ (EXIST f_2 Q(f_2))"
    )


def test_an_equation_with_a_function_is_an_atom() -> None:
    model = parse_model("person MotherOf(person)\n1 MotherOf(x) = y\n1 Mary != MotherOf(x)")
    assert [print_formula(rule.formula) for rule in model.rules] == [
        "MotherOf(x, y)",
        "!MotherOf(x, Mary)",
    ]


def test_offsets_are_quantified_around_their_variable() -> None:
    model = parse_model("n = {1,...,3}\nP(n)\n1 P(i+1) => P(i)")
    formula = print_formula(model.rules[0].formula)
    assert formula == "FORALL i_plus_1 i_plus_1 = i+1 => (P(i_plus_1) => P(i))"


def test_stars_give_a_rule_for_each_choice_of_signs() -> None:
    model = parse_model("P(t)\nQ(t)\n*P(x) v *Q(x)")
    assert [rule.text for rule in model.rules] == [
        "P(x) v Q(x)",
        "P(x) v !Q(x)",
        "!P(x) v Q(x)",
        "!P(x) v !Q(x)",
    ]


def test_quantified_variables_get_names_of_their_own() -> None:
    model = parse_model("P(t)\nQ(t)\n1 P(x) ^ (EXIST x Q(x)) ^ (FORALL x,y (P(x) v Q(y)))")
    assert print_formula(model.rules[0].formula) == (
        "P(x) ^ (EXIST x_2 Q(x_2)) ^ (FORALL x_3,y P(x_3) v Q(y))"
    )


def test_plus_marks_a_variable_everywhere_in_its_formula() -> None:
    model = parse_model(
        "Has(word, page)\nTopic(page, topic)\nHas(+w, p) ^ Has(w, q) => Topic(p, +t)"
    )
    assert model.rules[0].plus == ("w", "t")
    assert model.rules[0].weight is None


def test_fixed_weights_and_utilities() -> None:
    model = parse_model(f"{PEOPLE}@fixed 2 Smokes(x)\n@3 Smokes(x)\n-2:20 Smokes(x)\n:5 Smokes(x)")
    found = [(rule.weight, rule.fixed, rule.utility) for rule in model.rules]
    assert found == [(2.0, True, None), (3.0, True, None), (-2.0, False, 20.0), (0.0, True, 5.0)]


def test_factors_of_atoms_become_unit_rules() -> None:
    model = parse_model("t = {A}\np(t) 2.0 0.5\nq(t) 1.0 -1.0")
    assert [(rule.text, round(rule.weight or 0, 6)) for rule in model.rules] == [
        ("p(x1)", 0.693147),
        ("!p(x1)", -0.693147),
    ]
    assert model.predicates["q"].factors == (1.0, -1.0)


def test_undeclared_predicates_are_declared_by_their_use() -> None:
    model = parse_model(f"{PEOPLE}1 Publishes(t, p) ^ Smokes(p)")
    assert model.predicates["Publishes"].types == ("publishes_1", "person")
    assert [warning.code for warning in model.warnings] == ["undeclared"]


def test_spelling_that_differs_in_case_only_is_read_with_a_warning() -> None:
    model = parse_model("InField(position, field)\n1 Infield(i, f)")
    assert model.rules[0].text == "InField(i, f)"
    assert [warning.code for warning in model.warnings] == ["case"]


def test_constants_outside_a_listed_type_are_added_with_a_warning() -> None:
    model = parse_model("person = {Anna, Bob}\nSmokes(person)\n1 Smokes(Ana)")
    assert model.types["person"] == ("Anna", "Bob", "Ana")
    assert str(model.warnings[0]) == (
        "<text>:3:10: warning: 'Ana' is not among the constants listed for type 'person'\n"
        "    1 Smokes(Ana)\n"
        "             ^^^\n"
        "    did you mean 'Anna'?"
    )


def test_includes_are_read_beside_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "types.mln").write_text("Smokes(person)\n")
    (tmp_path / "all.mln").write_text('#include "inner/types.mln"\n1 Smokes(x)\n')
    assert read_model(tmp_path / "all.mln").rules[0].variables == (("x", "person"),)


def test_a_file_that_includes_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.mln").write_text('#include "b.mln"\n')
    (tmp_path / "b.mln").write_text('#include "a.mln"\n')
    with pytest.raises(LapisError, match=r"'a\.mln' includes itself"):
        read_model(tmp_path / "a.mln")


def test_errors_of_included_files_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "inner.mln").write_text("Smokes(person)\n1 Smokes(x) =>\n")
    (tmp_path / "outer.mln").write_text('#include "inner.mln"\n')
    with pytest.raises(LapisError, match=r"inner\.mln:2:13: the formula ends too early"):
        read_model(tmp_path / "outer.mln")


@pytest.mark.parametrize(
    "part",
    ["/* of size\nn = 3\n*/", "1 P(x) ^\nx = 3", "// \\exists X: p(X)", "2 (P(x) v\nx = 3\n)"],
)
def test_only_whole_statements_give_a_file_of_the_wfomc_tools_away(part: str) -> None:
    """In such a file P(n) is a hard fact and x a constant: the model would mean something else."""
    model = parse_model(f"n = {{1, 2, 3}}\nP(n)\n{part}\n1.5 P(x)\n")
    assert not model.warnings
    assert model.rules[-1].variables == (("x", "n"),)


def test_a_proposition_that_is_declared_twice_is_no_formula() -> None:
    model = parse_model("Rain\nRain\n1 Rain")
    assert [warning.code for warning in model.warnings] == ["repeated-declaration"]


def test_an_upper_case_word_is_a_type_where_it_cannot_be_a_constant() -> None:
    listed = "Smokes(Person)\nFriends(Person, Person)\nPerson = {Anna}\n1 Smokes(x) v Smokes(Bob)"
    marked = "Topic(Page, Topic!)\n1 Topic(p, +t)"
    function = "Person MotherOf(Person)\n1 MotherOf(x) = y"
    for text in (listed, marked, function):
        model = parse_model(text)
        types = {name for predicate in model.predicates.values() for name in predicate.types}
        assert {name for _, name in model.rules[0].variables} == types
        assert parse_model(print_model(model)) == model
    assert parse_model(listed).types == {"Person": ("Anna", "Bob")}


@pytest.mark.parametrize(
    "text", ["(Smokes(Anna))", "Smokes(1st)", 'Smokes("Anna")', "Smokes(Anna)."]
)
def test_a_constant_is_a_constant_where_it_cannot_be_a_type(text: str) -> None:
    [constants] = parse_model(f"{text}\n1 Smokes(x)").types.values()
    assert constants in (("Anna",), ("1st",))


def test_a_bare_atom_of_a_declared_predicate_is_a_formula() -> None:
    model = parse_model("Smokes(person)\nSmokes(Anna)")
    assert (model.rules[0].text, model.types) == ("Smokes(Anna)", {"person": ("Anna",)})


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("i <= j ^ i(j)", "(i <= j) ^ i(j)"),
        ("i <= 2 ^ i(i)", "(i <= 2) ^ i(i)"),
        ("p <= q", "q => p"),
        ("p <= i(j)", "i(j) => p"),
        ("i(j) <= p v q", "p v q => i(j)"),
        ("!p <= q", "q => !p"),
        ("p ^ q <= q", "q => p ^ q"),
        ("p <= (q => p) v i(j)", "(q => p) v i(j) => p"),
        ("p <= q <= i(j)", "(i(j) => q) => p"),
        ("i(x) <= i(y) ^ x <= y", "i(y) ^ x <= y => i(x)"),
    ],
)
def test_less_or_equal_is_an_implication_between_formulas(text: str, formula: str) -> None:
    declared = "n = {1, 2, 3}\ni(n)\np\nq\n"
    [rule] = parse_model(f"{declared}1 {text}").rules
    [expected] = parse_model(f"{declared}1 {formula}").rules
    assert rule == expected

"""`lapis learn` as a user runs it: table, file, JSON contract, messages."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import lapis
from cli_run import Run

RULES = "Smokes(person)\nCancer(person)\nSmokes(x) => Cancer(x)\n@fixed 0.5 Smokes(x)\n"
FACTS = "Smokes(A) Cancer(A) Smokes(B) Cancer(B) Smokes(C) !Cancer(C) Cancer(D)\n"
RULE = "Smokes(x) => Cancer(x)"


@pytest.fixture
def learning(run: Run) -> Run:
    run.write("rules.mln", RULES)
    run.write("facts.db", FACTS)
    return run


def test_the_json_contract(learning: Run) -> None:
    found = learning.json("learn", "rules.mln", "facts.db", "-q", "Cancer", "--prior", "none")
    assert (found["objective"], found["optimizer"]) == ("conditional", "lbfgs")
    assert found["converged"] is True
    assert isinstance(found["iterations"], int)
    weights = {row["formula"]: row["weight"] for row in found["weights"]}
    assert weights == pytest.approx({RULE: math.log(2), "Smokes(x)": 0.5}, abs=1e-6)
    # Two of three smokers have cancer; D, who does not smoke, is a fair coin.
    expected = 2 * math.log(2 / 3) + math.log(1 / 3) + math.log(1 / 2)
    assert found["value"] == pytest.approx(expected, abs=1e-9)
    curvature = 3 * (2 / 3) * (1 / 3)
    assert found["weights"][0]["stderr"] == pytest.approx(curvature**-0.5, rel=1e-5)
    assert found["weights"][1] == {
        "formula": "Smokes(x)", "weight": 0.5, "stderr": None, "fixed": True, "bounded": True,
    }  # fmt: skip


def test_the_learned_model_is_a_file_that_reads(learning: Run) -> None:
    code, out, err = learning("learn", "rules.mln", "facts.db", "-q", "Cancer", "-o", "out.mln")
    assert (code, err) == (0, "")
    assert RULE in out
    assert "fixed" in out
    model = lapis.read("out.mln")
    assert [rule.fixed for rule in model.rules] == [False, True]
    assert "± " in Path("out.mln").read_text(encoding="utf-8")
    weight = model.rules[0].weight
    assert weight is not None
    assert 0.6 < weight < 0.7  # the prior pulls it down from log 2


def test_several_files_are_several_worlds(learning: Run) -> None:
    learning.write("more.db", "Smokes(A) Smokes(Z)\n")
    found = learning.json(
        "learn", "rules.mln", "facts.db", "more.db", "-q", "Cancer", "--prior", "none"
    )
    assert found["weights"][0]["weight"] == pytest.approx(math.log(2 / 3), abs=1e-6)


def test_a_weight_without_bound_is_said(learning: Run) -> None:
    learning.write("all.db", "Smokes(A) Cancer(A) Cancer(B)\n")
    code, out, err = learning("learn", "rules.mln", "all.db", "-q", "Cancer", "--prior", "none")
    assert code == 0
    assert f"warning: {RULE}: nothing in the data keeps its weight from growing" in err
    assert "700" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rules.mln"], "nothing to learn from"),
        (["rules.mln", "facts.db", "--objective", "conditional"], "name the predicates to predict"),
        (["rules.mln", "facts.db", "-q", "Canser"], "did you mean 'Cancer'?"),
        (["rules.mln", "facts.db", "-q", "Cancer(A)"], "expected predicate names"),
        (["rules.mln", "facts.db", "--optimizer", "lbgfs"], "did you mean 'lbfgs'?"),
        (["rules.mln", "facts.db", "--prior", "laplace"], "'laplace' is not a prior"),
        (["rules.mln", "facts.db", "-o", "no/such/folder.mln"], "cannot be written"),
        (["rules.mln", "empty.db", "-o", "o.mln"], "there is nothing to learn from"),
        (["rules.mln", "facts.db", "-o", "."], "it is a folder"),
        (["rules.mln", "facts.db", "--optimizer", "lbfgs", "--rate", "1"], "does not read --rate"),
        (["rules.mln", "facts.db", "--unobserved", "Drinks"], "unknown predicate 'Drinks'"),
        (["hard.mln", "facts.db"], "contradicts the hard rule"),
    ],
)
def test_mistakes_end_in_a_message(learning: Run, arguments: list[str], message: str) -> None:
    learning.write("hard.mln", RULES + "Cancer(x).\n")
    learning.write("empty.db", "")
    code, out, err = learning("learn", *arguments)
    assert code == 1
    assert message in err
    assert out == ""
    assert not (learning.folder / "o.mln").exists()


def test_a_type_without_constants_is_said(learning: Run) -> None:
    learning.write("pets.mln", RULES + "Owns(person, pet)\nOwns(x,y) => Smokes(x)\n")
    code, _, err = learning("learn", "pets.mln", "facts.db")
    warning = "warning: type 'pet' has no constants: formulas over it have no groundings\n"
    assert (code, err) == (0, warning)


def test_nothing_to_learn_is_said(learning: Run) -> None:
    learning.write("fixed.mln", "Smokes(person)\n@fixed 1 Smokes(x)\nCancer(person)\n")
    code, _, err = learning("learn", "fixed.mln", "facts.db")
    assert (code, err) == (0, "warning: nothing is learned: every rule is hard or @fixed\n")

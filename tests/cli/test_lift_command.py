"""`lapis lift`, as it is typed."""

from __future__ import annotations

from math import exp, log
from xml.etree import ElementTree

import pytest

from cli_run import Run


def test_json(run: Run) -> None:
    run.write("one.mln", "S(person)\n1.5 S(x)\n")
    found = run.json("lift", "one.mln", "--sizes", "person=3", "--json")
    assert found["liftable"] is True
    assert found["log_partition"] == pytest.approx(3 * log(1 + exp(1.5)), rel=1e-14)
    assert found["expected_counts"] == pytest.approx([3 / (1 + exp(-1.5))], rel=1e-14)
    assert found["method"] == "circuit"
    assert 0 < found["error_bound"] < 1e-12


def test_facts_are_evidence_and_worlds_add_up(run: Run) -> None:
    run.write("one.mln", "S(person)\n1.5 S(x)\n")
    run.write("a.db", "S(Anna) ?S(Bob)")
    run.write("b.db", "!S(Carl) ?S(Dora)")
    found = run.json("lift", "one.mln", "a.db", "b.db", "--json")
    assert found["log_partition"] == pytest.approx(1.5 + 2 * log(1 + exp(1.5)), rel=1e-14)
    assert found["expected_counts"] == pytest.approx([1 + 2 / (1 + exp(-1.5))], rel=1e-14)


def test_circuits_that_are_not_one(run: Run) -> None:
    """Facts of two worlds may make two circuits, and counting by cells makes none."""
    run.write("one.mln", "S(person)\n1.5 S(x)\n")
    run.write("a.db", "S(Anna) ?S(Bob)")
    run.write("b.db", "?S(Dora) ?S(Emil)")
    run.write("c.db", "?S(Fay) ?S(Gus)")
    for files, wrong in (
        (("a.db", "b.db"), "error: these worlds have different circuits"),
        (("--method", "cells"), "error: the method 'cells' has no circuit"),
    ):
        for drawn in (("--tree",), ("--tree", "--json"), ("--draw", "c.svg")):
            code, _, err = run("lift", "one.mln", *files, *drawn)
            assert (code, err.splitlines()[0]) == (1, wrong)
    assert not (run.folder / "c.svg").exists()
    alike, alone = (run("lift", "one.mln", *f, "--tree")[1] for f in (("b.db", "c.db"), ("b.db",)))
    assert alike.splitlines()[:3] == alone.splitlines()[:3]


def test_the_circuit_is_told_and_drawn(run: Run) -> None:
    code, out, _ = run("lift", "m.mln", "--sizes", "person=100", "--tree", "--draw", "c.svg")
    told = run.json("lift", "m.mln", "--sizes", "person=100", "--tree", "--json")
    assert out.startswith(told["tree"] + "\n")
    assert "tree" not in run.json("lift", "m.mln", "--sizes", "person=100", "--json")
    assert code == 0
    assert "Σ over m₁ = 0 … n, the number of person with Smokes(y): C(n, m₁) times" in out
    root = ElementTree.parse(run.folder / "c.svg").getroot()
    texts = [node.text or "" for node in root.iter() if node.tag.endswith("text")]
    assert "number of person with Smokes(y)" in " ".join(texts)
    assert len([node for node in root.iter() if node.tag.endswith("path")]) == (
        len(told["tree"].splitlines()) - 1
    )


def test_what_cannot_be_drawn(run: Run) -> None:
    code, _, err = run("lift", "m.mln", "--sizes", "person=10", "--draw", "c.txt")
    assert code == 1
    assert err.startswith("error: c.txt: the suffix must be a format of pictures\n")


def test_drawings_are_made_when_they_are_asked_for(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("lapis.lifted.drawing.Drawing.draw", refuse)
    run.write("a.db", "Smokes(Anna)")
    run.write("b.db", "Smokes(Bob)")
    run.json("lift", "m.mln", "a.db", "b.db")
    with pytest.raises(AssertionError):
        run("lift", "m.mln", "a.db", "--tree")


def test_without_constants(run: Run) -> None:
    code, out, err = run("lift", "m.mln")
    assert code == 0
    assert "log Z = 0 " in out
    assert err == "there are no constants: name some in the data, or give --sizes type=100\n"


def test_classes(run: Run) -> None:
    found = run.json("lift", "m.mln", "--sizes", "person=10", "--classes", "--json")
    rows = [(row["formula"], row["class"], row["groundings"]) for row in found["formulas"]]
    rule = "Friends(x, y) ^ Smokes(x) => Smokes(y)"
    assert rows == [
        ("Smokes(x) => Cancer(x)", "x in person", 10),
        (rule, "x = y in person", 10),
        (rule, "x in person, y in person", 90),
    ]


def test_sizes_are_numbers(run: Run) -> None:
    code, _, err = run("lift", "m.mln", "--sizes", "person")
    assert code == 1
    assert err == (
        "error: 'person' is not a type with its number of constants\n    as in person=30000\n"
    )


def test_sizes_keep_all_their_digits(run: Run) -> None:
    run.write("one.mln", "S(person)\n1.5 S(x)\n")
    size = 2**53 + 1
    found = run.json("lift", "one.mln", "--sizes", f"person={size}")
    assert found["formulas"][0]["groundings"] == size


def test_a_size_is_given_once(run: Run) -> None:
    code, _, err = run("lift", "m.mln", "--sizes", "person=3", "--sizes", "person=4")
    assert (code, err) == (1, "error: --sizes is given twice for person\n")

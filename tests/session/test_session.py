"""Sessions on chosen models: what is solved again, undo, weights, sampled answers."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest

import lapis

ITEMS = ", ".join(f"I{number}" for number in range(201))
PLAIN = f"item = {{{ITEMS}}}\nP(item)\nQ(item)\n0.5 P(x)\n0.3 P(x) => Q(x)\n"


def solved(answer: lapis.Answer) -> tuple[int, int]:
    """The components and atoms that were solved for an answer."""
    notes = answer.diagnostics["session"]
    return notes["components_solved"], notes["atoms_solved"]


def test_an_atom_is_known_and_unknown_again() -> None:
    """Labels of components that are given anew belong to no earlier batch."""
    session = lapis.Session(lapis.parse(PLAIN), None, ["P", "Q"])
    first = session.ask()
    for change in (session.add, session.remove, session.add, session.unknown):
        change("P(I7)")
        answer = session.ask()
        fresh = lapis.infer(session.model, session.data, ["P", "Q"])
        assert answer.log_partition == pytest.approx(fresh.log_partition, rel=1e-13)
        assert np.array_equal(answer.probability, fresh.probability)
    assert answer.log_partition == pytest.approx(first.log_partition, rel=1e-13)


def test_only_touched_components_are_solved() -> None:
    session = lapis.Session(lapis.parse(PLAIN), None, ["P", "Q"])
    assert solved(session.ask()) == (201, 402)
    assert solved(session.ask()) == (0, 0)
    session.add("P(I3)")
    assert solved(session.ask()) == (1, 1)
    session.add("Q(I4) !Q(I5)")
    assert solved(session.ask()) == (2, 2)
    session.set_weight(0, 0.1)
    assert solved(session.ask())[0] == 201  # most components have this weight: all are solved


def test_a_new_constant() -> None:
    """Atoms and groundings of a new constant are added, also where it is twice in a rule."""
    model = lapis.parse(
        "person = {A, B}\nP(person)\nR(person, person)\n0.7 P(x) ^ R(x, y) => P(y)\n"
        "0.4 P(x) v P(y)\n-0.3 R(x, x)\n0.2 P(x) ^ !P(A)\n" + PLAIN.replace("P(", "F(")
    )
    query = ["P", "F", "Q"]
    session = lapis.Session(model, lapis.Database.parse("R(A, B)"), query)
    session.ask()
    session.add("R(B, Carl)")
    assert solved(session.ask())[0] == 1
    session.add("R(Dora, Dora) !P(Emil)")
    answer = session.ask()
    fresh = lapis.infer(session.model, session.data, query)
    assert answer.atoms == fresh.atoms
    assert np.array_equal(answer.probability, fresh.probability)
    assert answer.log_partition == pytest.approx(fresh.log_partition, rel=1e-13)
    assert answer.expected_counts == pytest.approx(fresh.expected_counts, rel=1e-10)
    session.undo()
    assert "P(Dora)" not in session.ask().marginals


def ring(size: int, extra: int) -> tuple[lapis.Model, lapis.Database]:
    """A graph too wide for exact sums: a ring, and random edges."""
    rng = np.random.default_rng(5)
    edges = {(n, (n + 1) % size) for n in range(size)}
    edges |= {tuple(pair) for pair in rng.integers(0, size, (extra, 2)).tolist()}
    model = lapis.parse("P(node)\nE(node, node)\n0.4 P(x) ^ E(x, y) => P(y)\n-0.2 P(x)\n")
    facts = " ".join(f"E(N{a}, N{b})" for a, b in sorted(edges))
    return model, lapis.Database.parse(facts)


def test_sampled_answers() -> None:
    """Chains continue; answers agree within errors; undo returns the same numbers."""
    model, data = ring(300, 900)
    session = lapis.Session(model, data, "P", max_memory=2**28)
    first = session.ask()
    assert not first.exact
    session.add("P(N5) !P(N17)")
    second = session.ask()
    assert second.diagnostics["continued_chains"] == 4
    fresh = lapis.infer(session.model, session.data, "P", max_memory=2**28, random_state=3)
    assert second.atoms == fresh.atoms
    error = np.hypot(second.errors, fresh.errors)
    assert np.all(np.abs(second.probability - fresh.probability) < 5 * error)
    session.undo()
    assert np.array_equal(session.ask().probability, first.probability)
    session.set_weight(0, 0.5)
    session.ask()
    session.undo()
    assert np.array_equal(session.ask().probability, first.probability)


def test_facts_in_tables_of_a_database(tmp_path: Path) -> None:
    """Facts in a store are read once; changes are made beside them, and the file stays."""
    path = tmp_path / "facts.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE Friends AS SELECT 'A' AS a, 'B' AS b UNION SELECT 'C', 'D'"
        )
        connection.execute("CREATE TABLE Other AS SELECT 'X' AS a")
    model = lapis.parse(
        "Smokes(person)\nFriends(person, person)\n0.9 Smokes(x) ^ Friends(x, y) => Smokes(y)\n"
    )
    with lapis.Session(model, query="Smokes", engine=f"duckdb:{path}", tables="main") as session:
        first = session.ask()
        plain = lapis.Database.parse("Friends(A, B) Friends(C, D)")
        assert first.marginals == lapis.infer(model, plain, "Smokes").marginals
        session.add("Friends(B, C) Smokes(A)")
        changed = lapis.Database.parse("Friends(A, B) Friends(C, D) Friends(B, C) Smokes(A)")
        assert session.ask().marginals == pytest.approx(
            lapis.infer(model, changed, "Smokes").marginals, abs=1e-12
        )
        session.remove("Friends(A, B)")
        session.add("Smokes(Emil)")
        session.undo()
        session.undo()
        session.undo()
        assert session.ask().marginals == first.marginals
    with duckdb.connect(str(path), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM Friends").fetchall() == [(2,)]


def test_models_that_are_ground_as_a_whole() -> None:
    """Quantifiers, Bayesian networks and methods without a network are answered anew."""
    model = lapis.parse(
        "person = {A, B, C}\nP(person)\nR(person, person)\n0.7 P(x) => Exists y R(x, y) ^ P(y)\n"
    )
    session = lapis.Session(model, None, ["P", "R"])
    before = session.ask()
    session.add("P(A) R(A, B)")
    session.set_weight(0, 2.0)
    answer = session.ask()
    assert answer.marginals == lapis.infer(session.model, session.data, ["P", "R"]).marginals
    assert answer.diagnostics["session"]["kept"] is False
    session.undo()
    session.undo()
    assert session.ask().marginals == before.marginals


def test_an_answer_is_explained() -> None:
    session = lapis.Session(lapis.parse("n = {A, B}\nP(n)\nQ(n)\n1 P(x) => Q(x)\n"), None, "Q")
    session.add("P(A)")
    answer = session.ask()
    fresh = lapis.infer(session.model, session.data, "Q")
    found, expected = (each.explain("Q(A)").to_json() for each in (answer, fresh))
    for name in ("method", "words"):  # the first call has no kernels loaded and enumerates
        del found[name], expected[name]
    assert found == expected


def test_formulas_multiplied_by_numbers() -> None:
    model = lapis.parse(
        "person = {A, B, C}\nP(person)\nfloat sim(person, person)\n1.5 sim(x, y) * (P(x) => P(y))\n"
    )
    data = lapis.Database.parse("0.5 = sim(A, B) 0.3 = sim(B, C)")
    session = lapis.Session(model, data, "P", missing="skip")
    session.ask()
    session.add("P(A)")
    session.add("0.7 = sim(A, C)")
    fresh = lapis.infer(session.model, session.data, "P", missing="skip")
    assert session.ask().marginals == fresh.marginals

"""Ground small models and compare with networks written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lapis.data.database import Database
from lapis.errors import LapisError, TooLarge
from lapis.grounding import ground
from lapis.language import parse_model
from lapis.network import Network
from lapis.problem.problem import Problem, build_problem
from lapis.runtime.progress import Progress

SMOKERS = """
Friends(person, person)
Smokes(person)
Cancer(person)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
1.5 Smokes(x) => Cancer(x)
"""


def problem_of(model: str, data: str, query: list[str]) -> Problem:
    return build_problem(parse_model(model), Database.parse(data), query)


def written(network: Network) -> set[tuple[int, frozenset[str], float]]:
    """Clauses as (weight id, names of literals, coefficient)."""
    found = set()
    for clause in range(network.num_clauses):
        row = network.literal[network.clause_start[clause] : network.clause_start[clause + 1]]
        names = network.atom_names(np.abs(row) - 1)
        literals = frozenset(
            name if literal > 0 else "!" + name for name, literal in zip(names, row, strict=True)
        )
        found.add((int(network.weight_id[clause]), literals, float(network.coefficient[clause])))
    return found


def test_evidence_is_folded_in() -> None:
    data = "Friends(Anna,Bob) Friends(Bob,Cid) Smokes(Anna)"
    network = ground(problem_of(SMOKERS, data, ["Smokes", "Cancer"]))
    assert written(network) == {
        (0, frozenset({"Smokes(Bob)"}), 1.0),
        (0, frozenset({"!Smokes(Bob)", "Smokes(Cid)"}), 1.0),
        (1, frozenset({"Cancer(Anna)"}), 1.0),
        (1, frozenset({"!Smokes(Bob)", "Cancer(Bob)"}), 1.0),
        (1, frozenset({"!Smokes(Cid)", "Cancer(Cid)"}), 1.0),
    }
    assert network.constant_count.tolist() == [7.0, 0.0]


def test_groundings_that_become_equal_are_merged() -> None:
    model = "Wrote(author, paper)\nGood(paper)\n1 Wrote(a, p) ^ Wrote(a, q) ^ Good(p) => Good(q)"
    data = "Wrote(A,P) Wrote(B,P) Wrote(A,Q) Wrote(B,Q)"
    network = ground(problem_of(model, data, ["Good"]))
    assert written(network) == {
        (0, frozenset({"!Good(P)", "Good(Q)"}), 2.0),
        (0, frozenset({"Good(P)", "!Good(Q)"}), 2.0),
    }
    # 2 authors, 2 × 2 papers; the four groundings with p = q are tautologies.
    assert network.constant_count.tolist() == [4.0]


def test_variables_no_clause_mentions_multiply() -> None:
    model = "P(t)\nQ(s)\n1 P(x) ^ Q(y)\n"
    network = ground(problem_of(model, "P(A) P(B) P(C) Q(D)", ["Q"]))
    world = np.zeros(network.num_atoms, bool)
    assert network.counts(world).tolist() == [3.0]  # Q(D) is known, so nothing is unknown
    assert network.num_atoms == 0


def test_plus_variables_choose_the_weight() -> None:
    model = "Has(word, page)\nGood(page)\n0.5 Has(+w, p) => Good(p)"
    data = "Has(Tea,P) Has(Tea,Q) Has(Cup,Q)"
    network = ground(problem_of(model, data, ["Good"]))
    assert written(network) == {
        (0, frozenset({"Good(P)"}), 1.0),
        (0, frozenset({"Good(Q)"}), 1.0),
        (1, frozenset({"Good(Q)"}), 1.0),
    }
    assert network.constant_count.tolist() == [0.0, 1.0]


def test_an_existential_is_one_long_clause() -> None:
    model = "Knows(person, person)\nOk(person)\n2 Ok(x) => EXIST y Knows(x, y)"
    network = ground(problem_of(model, "Ok(A) Ok(B)", ["Knows"]))
    assert written(network) == {
        (0, frozenset({"Knows(A,A)", "Knows(A,B)"}), 1.0),
        (0, frozenset({"Knows(B,A)", "Knows(B,B)"}), 1.0),
    }
    assert network.num_atoms == network.num_base_atoms == 4


def test_an_existential_over_a_conjunction_needs_auxiliary_atoms() -> None:
    model = "Knows(person, person)\nOk(person)\n2 EXIST y (Knows(x, y) ^ Ok(y))"
    network = ground(problem_of(model, "Knows(A,A) !Knows(A,B) ?Ok(C)", ["Knows", "Ok"]))
    assert network.num_base_atoms == 7 + 3
    for bits in range(1 << 10):
        base = np.array([bits >> i & 1 for i in range(10)], bool)
        world = network.complete(base)
        assert network.is_feasible(world)
        true = set(network.atom_names(np.flatnonzero(base))) | {"Knows(A,A)"}
        expected = sum(
            any(f"Knows({x},{y})" in true and f"Ok({y})" in true for y in "ABC") for x in "ABC"
        )
        assert network.counts(world).tolist() == [expected]
        for auxiliary in range(10, network.num_atoms):
            wrong = world.copy()
            wrong[auxiliary] ^= True
            assert not network.is_feasible(wrong)


def test_a_derived_atom_used_often_is_not_repeated() -> None:
    model = "Knows(person, person)\nOk(person)\nSeen(person)\n1 Seen(z) => EXIST y Knows(x, y)"
    people = " ".join(f"Ok(P{i})" for i in range(30))
    network = ground(problem_of(model, people, ["Knows", "Seen"]))
    # 900 clauses over 30 disjunctions of 30 literals: written out they were 27,900 literals.
    assert network.num_atoms - network.num_base_atoms == 30
    assert len(network.literal) == 900 * 2 + 900 * 2 + 30 * 31


def test_a_contradicted_hard_rule_is_named_with_its_grounding() -> None:
    model = "P(t)\nQ(t)\nP(x) => Q(x).\n"
    with pytest.raises(LapisError) as refused:
        ground(problem_of(model, "P(A) P(B) Q(A)", []))
    assert refused.value.code == "hard-contradiction"
    assert "P(x) => Q(x)' at x = B" in refused.value.message


def test_a_contradiction_through_a_quantifier_is_found() -> None:
    model = "P(t)\nQ(t, t)\nP(x) => EXIST y (Q(x, y) ^ Q(y, x)).\n"
    problem = problem_of(model, "P(B) Q(A,B) !Q(B,B) Q(A,A) !Q(B,A)", ["Q"])
    with pytest.raises(LapisError, match="x = B"):
        ground(problem)


def test_empty_domains() -> None:
    network = ground(problem_of("P(t)\nR\n1 P(x)\n1 R ^ P(x)\nP(x).\n1 R", "", ["P", "R"]))
    assert network.counts(np.array([True])).tolist() == [0.0, 0.0, 1.0]


def test_too_many_atoms_are_refused_at_once() -> None:
    people = " ".join(f"Smokes(P{i})" for i in range(2000))
    problem = problem_of(SMOKERS, people, ["Friends"])
    with pytest.raises(TooLarge, match="'Friends' has 4,000,000 unknown atoms") as refused:
        ground(problem, max_memory=10**8)
    assert refused.value.exit_code == 3


def test_too_many_clauses_are_refused_before_they_are_listed() -> None:
    model = "Likes(person, person)\n1 Likes(x, y) ^ Likes(y, z) ^ Likes(z, w) => Likes(x, w)"
    people = "person = {" + ", ".join(f"P{i}" for i in range(200)) + "}\n"
    problem = problem_of(people + model, "", ["Likes"])
    with pytest.raises(TooLarge, match=r"Likes\(z, w\).* about 1,600,000,000 clauses") as refused:
        ground(problem, max_memory=2**31)
    assert "--max-memory" in (refused.value.hint or "")


def test_progress_names_each_rule() -> None:
    seen: list[Progress] = []
    problem = problem_of(SMOKERS, "Friends(A,B)", ["Smokes", "Cancer"])
    ground(problem, progress=seen.append)
    assert [(event.done, event.total) for event in seen] == [(0, 2), (1, 2), (2, 2)]
    assert [event.text for event in seen] == [*(rule.text for rule in problem.model.rules), ""]

"""Marginals and most likely worlds of fields, against worlds from the definition."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from field_worlds import enumerate_worlds, log_weight

from cli_run import Run
from lapis import fields
from lapis.data.database import Database
from lapis.errors import LapisError
from lapis.fields.field_gibbs import REFRESH, CachedField, FieldGibbs
from lapis.fields.ground_field import ground_field
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.diagnostics import num_tallied
from lapis.inference.sampling.tally import new_tallies
from lapis.problem.problem import build_problem

TEXT = """\
person = {Anna, Bob, Eve}
Smokes(person)
Friends(person, person)
root:
  -2.5 lonely(x)
  -0.5 Friends(x, y)
  1 Smokes(Anna)
lonely(x):
  -2 friend(x, y)
friend(x, y):
  3 Friends(x, y)
  3 Smokes(y)
  -1 x = y
"""
FACTS = "Friends(Anna,Bob) Friends(Bob,Eve) Friends(Eve,Anna) Friends(Eve,Bob)"
PEOPLE = {"person": ("Anna", "Bob", "Eve")}
FIELD = fields.parse(TEXT)
TRUE = {("Anna", "Bob"), ("Bob", "Eve"), ("Eve", "Anna"), ("Eve", "Bob")}
KNOWN = {("Friends", pair): pair in TRUE for pair in product(*[PEOPLE["person"]] * 2)}


@pytest.mark.parametrize("method", ["auto", "enumerate", "gibbs", "icm-gibbs"])
def test_marginals_given_evidence(method: str) -> None:
    answer = fields.infer(FIELD, Database.parse(FACTS), "Smokes", method=method)
    log_partition, expected = enumerate_worlds(FIELD, PEOPLE, KNOWN)
    assert answer.exact == (method in ("auto", "enumerate"))
    if answer.exact:
        assert answer.log_partition == pytest.approx(log_partition)
        assert answer.probability == pytest.approx(list(expected.values()), abs=1e-9)
    else:
        assert answer.diagnostics["converged"]
        errors = np.abs(answer.probability - list(expected.values()))
        assert (errors < 4 * np.maximum(answer.errors, 1e-3)).all()
    sums = answer.expected_counts
    assert sums[2] == pytest.approx(expected["Smokes", ("Anna",)], abs=0.05)
    assert sums[1] == pytest.approx(4.0)


def test_sampled_marginals_of_all_atoms() -> None:
    answer = fields.infer(FIELD, None, ["Smokes", "Friends"], method="gibbs")
    exact = fields.infer(FIELD, None, ["Smokes", "Friends"], method="enumerate")
    errors = np.abs(answer.probability - exact.probability)
    assert (errors < 4 * np.maximum(answer.errors, 1e-3)).all()
    again = fields.infer(FIELD, None, ["Smokes", "Friends"], method="gibbs")
    assert np.array_equal(answer.probability, again.probability)


@pytest.mark.parametrize("method", ["auto", "enumerate", "icm"])
def test_most_likely_world(method: str) -> None:
    found = fields.map(FIELD, Database.parse(FACTS), "Smokes", method=method)
    scores = {}
    for values in product([False, True], repeat=3):
        world = KNOWN | {("Smokes", (p,)): v for p, v in zip(PEOPLE["person"], values, strict=True)}
        scores[values] = log_weight(FIELD, PEOPLE, world)
    assert found.optimal == (method != "icm")
    assert found.score == pytest.approx(max(scores.values()))
    assert tuple(found.value.tolist()) == max(scores, key=lambda values: scores[values])


def test_a_chain_goes_on_with_other_weights() -> None:
    """Chains after `reweigh` converge to the marginals of the field with these weights."""
    ground = ground_field(
        FIELD, build_problem(FIELD.declarations, Database.parse(FACTS), ["Smokes"])
    )
    sampler = FieldGibbs(CachedField(ground), FIELD.weights)
    plan = sampler.prepare(ground.network)
    state = sampler.init(plan, np.ones(3, bool), random_states(5, 1)[0])
    other = np.array([-1.0, 0.5, -2.0])
    plan, state = sampler.reweigh(plan, state, other)
    tallies = new_tallies(3, sampler.counts(state).copy())
    sampler.step(plan, state, tallies, 3000)
    mean = tallies.atoms.batch_sum.sum(axis=0) / num_tallied(tallies.atoms)
    weights = FIELD.weights
    weights[:3] = other
    exact = fields.infer(FIELD.with_weights(weights), Database.parse(FACTS), "Smokes")
    assert mean == pytest.approx(exact.probability, abs=0.03)


def test_search_ends_when_told_to() -> None:
    found = fields.map(FIELD, Database.parse(FACTS), "Smokes", method="icm", stop=lambda: True)
    assert found.interrupted
    assert found.diagnostics["starts"] == 1


def test_several_worlds_add_up() -> None:
    one, two = Database.parse(FACTS), Database.parse("Friends(Anna,Anna)")
    both = fields.infer(FIELD, [one, two], "Smokes")
    parts = [fields.infer(FIELD, data, "Smokes") for data in (one, two)]
    assert both.exact
    assert both.log_partition == pytest.approx(sum(part.log_partition or 0 for part in parts))
    assert both.probability == pytest.approx(np.concatenate([p.probability for p in parts]))
    assert both.expected_counts == pytest.approx(sum(p.expected_counts for p in parts))


def test_formulas_are_refused() -> None:
    with pytest.raises(LapisError, match="fields do not support formula queries"):
        fields.infer(FIELD, Database.parse(FACTS), "Smokes(x) ^ Smokes(Anna)")


def test_the_commands(run: Run) -> None:
    run.write("f.rrf", TEXT)
    run.write("f.db", FACTS)
    found = run.json("field", "infer", "f.rrf", "f.db", "-q", "Smokes")
    answer = fields.infer(FIELD, Database.parse(FACTS), "Smokes")
    assert found["method"] == "enumerate"
    assert found["exact"] is True
    assert [entry["probability"] for entry in found["atoms"]] == answer.probability.tolist()
    world = run.json("field", "map", "f.rrf", "f.db", "-q", "Smokes")
    assert world["optimal"] is True
    code, out, _ = run("field", "infer", "f.rrf", "f.db", "-q", "Smokes", "--method", "gibbs")
    assert code == 0
    assert "approximate (by gibbs)" in out
    code, _, err = run("field", "infer", "missing.rrf")
    assert code == 1
    assert "cannot read missing.rrf" in err


@pytest.mark.parametrize("calls", [(3,), (1, 2), (2, 1), (2 * REFRESH + 1,)])
def test_a_call_runs_the_sweeps_that_were_asked(calls: tuple[int, ...]) -> None:
    """Also if all values are computed anew between them."""
    ground = ground_field(FIELD, build_problem(FIELD.declarations, Database.parse(""), ["Smokes"]))
    sampler = FieldGibbs(CachedField(ground), FIELD.weights)
    plan = sampler.prepare(ground.network)
    state = sampler.init(plan, np.ones(3, bool), random_states(5, 1)[0])
    state.sweeps[0] = REFRESH - 2
    tallies = new_tallies(3, np.zeros(len(ground.root_edges)))
    for number in calls:
        info = sampler.step(plan, state, tallies, number)
        assert info.updates == 3 * number
    assert state.sweeps[0] == REFRESH - 2 + sum(calls)
    assert num_tallied(tallies.atoms) == sum(calls)

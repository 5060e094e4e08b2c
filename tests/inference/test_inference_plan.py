"""Test that plans are run as reported, and that joined partial answers equal whole answers."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import lapis
from exact_networks import random_network
from golden_models import GoldenModel, golden_models
from lapis.errors import TooLarge
from lapis.inference.exact.by_components import ExactPlan
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.marginals import InferenceOptions, Marginals, PartialAnswer
from lapis.inference.plan import plan_inference, plan_network, plan_parts
from lapis.inference.solve import (
    infer_by_enumeration,
    infer_network,
    infer_problem,
    run_plan,
    sample_core,
)
from lapis.network.components import keep_part
from lapis.network.network import Network
from lapis.problem.problem import Problem, build_problem
from lapis.results.plan_report import PlanReport, PlanRow
from lapis.runtime.progress import STOPPED
from sampled_networks import agreement
from strategies import Case, cases

GOLDEN = [golden for golden in golden_models() if golden.query and not golden.impossible]
NAMED = ["exact", "enumerate", "gibbs", "mcsat", "bp", "ais", "circuit", "lifted", "count-gibbs"]
QUICK = InferenceOptions(max_samples=2_000, precision=0.05, seed=1)
# A dense group of atoms with different fields, and a pair of friends.
CROWD = """Friends(person, person)
Smokes(person)
0.3 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.2 Smokes(x)
"""


def golden_problem(golden: GoldenModel) -> Problem:
    model, data = lapis.parse(golden.text), lapis.Database.parse(golden.data)
    return build_problem(model, data, list(golden.query))


def crowd_problem(size: int = 16, *, apart: bool = True) -> Problem:
    people = [f"P{i}" for i in range(size)]
    friends = " ".join(f"Friends({a},{b})" for a in people for b in people if a != b)
    lines = [f"{0.01 * (i + 1)} Smokes({name})" for i, name in enumerate(people) if apart]
    model = lapis.parse(CROWD + "\n".join(lines))
    return build_problem(model, lapis.Database.parse(friends + " Friends(X,Y)"), ["Smokes"])


def check_plan(problem: Problem, method: str, options: InferenceOptions) -> Marginals | None:
    """Run a plan, and check that only its solvers answer."""
    try:
        plan = plan_inference(problem, method, options)
    except TooLarge:
        with pytest.raises(TooLarge):
            infer_problem(problem, method, options)
        return None
    planned = plan.report().rows
    try:
        _, found = run_plan(plan).answer()
    except TooLarge:
        return None
    _, again = infer_problem(problem, method, options)
    np.testing.assert_array_equal(found.marginal, again.marginal)
    for rows in (found.steps, again.steps):
        check_rows(planned, rows)
    answered = {name for row in found.steps for name in row.methods}
    if len(answered) > 1:
        answered = {"exact" if name == "counts" else name for name in answered}
    assert answered == set(found.methods)
    return found


def check_rows(planned: tuple[PlanRow, ...], done: tuple[PlanRow, ...]) -> None:
    """Check that each planned step was run or replaced, and that only its solvers answered."""
    kept = [row for row in done if not row.revised]
    if not any(row.solvers == ("ground",) and not row.num_atoms for row in planned):
        names = [(row.solvers, row.reason) for row in planned]
        assert {(row.solvers, row.reason) for row in kept} <= set(names)
        whole = any(row.status == "replaced" for row in done)
        assert whole or len(kept) == len(planned)
    for row in done:
        assert row.status != "planned"
        assert set(row.methods) <= set(row.solvers) or row.solvers == ("tempering",)
        assert row.measured is not None or row.status == "replaced"


@pytest.mark.parametrize("method", ["auto", *NAMED])
@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_golden_models_are_answered_as_planned(golden: GoldenModel, method: str) -> None:
    check_plan(golden_problem(golden), method, QUICK)


@pytest.mark.parametrize("max_memory", [None, 1 << 16])
@given(case=cases())
@settings(max_examples=20)
def test_random_models_are_answered_as_planned(max_memory: int | None, case: Case) -> None:
    """Enumeration is disabled, so that tiny networks are planned too."""
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lapis.inference.plan.TINY_ATOMS", -1)
        with suppress(lapis.LapisError):  # contradictions
            problem = build_problem(model, data, case.query)
            options = InferenceOptions(max_samples=400, precision=0.1, max_memory=max_memory)
            check_plan(problem, "auto", options)


@pytest.mark.parametrize("apart", [True, False])
def test_a_crowd_is_answered_as_planned(apart: bool) -> None:
    options = InferenceOptions(max_memory=1 << 17, max_samples=8_000, seed=2)
    found = check_plan(crowd_problem(apart=apart), "auto", options)
    assert found is not None
    assert found.exact != apart


def test_a_plan_names_solvers_sizes_and_reasons() -> None:
    options = InferenceOptions(max_memory=1 << 17)
    report = plan_inference(crowd_problem(), "auto", options).report()
    ground, exact, lifted, sampled = report.rows
    assert (ground.solvers, ground.num_atoms, ground.num_components) == (("ground",), 18, 2)
    assert (exact.solvers, exact.num_atoms, exact.largest) == (("exact",), 2, 2)
    assert (lifted.solvers, lifted.reason) == (("lifted", "cells"), "before anything is sampled")
    assert (sampled.solvers, sampled.num_atoms) == (("gibbs", "cluster"), 16)
    assert sampled.width is not None
    assert 2 ** (sampled.width + 1) * 12 > 1 << 17  # bytes of a table and its message
    assert f"over at least {sampled.width + 1} variables" in sampled.reason
    assert not report.is_carried_out


def stopped(*_: object, **__: object) -> Any:
    raise TooLarge("took too long", code=STOPPED)


def test_exact_work_that_gives_up_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    network = agreement(16, 0.1, 0.1)
    exact = infer_network(network, "exact")
    monkeypatch.setattr("lapis.inference.symmetry.by_counts.plan_counts", lambda *_: None)
    monkeypatch.setattr(ExactPlan, "solve", stopped)
    found = infer_network(network, "auto", InferenceOptions(seed=1, time_limit=20.0))
    first, second = found.steps
    assert (first.solvers, first.status) == (("exact",), "gave up")
    assert (second.status, second.revised) == ("answered", True)
    assert second.reason.startswith("exact was not done at half of the time")
    assert not found.is_exact.any()
    assert (np.abs(found.marginal - exact.marginal) <= 5 * found.errors).all()
    with pytest.raises(TooLarge, match="took too long"):
        infer_network(network, "exact")


def test_exact_work_takes_half_of_the_time_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts and junction trees both run out of time; chains get the other half."""
    limits: list[float | None] = []
    solve = sample_core

    def noted(*given: Any, **more: Any) -> Marginals:
        limits.append(given[2].time_limit)
        return solve(*given, **more)

    monkeypatch.setattr("lapis.inference.solve.sample_core", noted)
    monkeypatch.setattr("lapis.inference.solve.solve_exactly", lambda *_: None)
    problem = crowd_problem(14, apart=False)
    network = plan_inference(problem).network
    assert network is not None
    found = infer_network(network, "auto", InferenceOptions(time_limit=40.0, max_samples=2_000))
    assert [row.status for row in found.steps[:2]] == ["gave up", "gave up"]
    assert not found.is_exact[:14].any()
    assert sum(limit or 0.0 for limit in limits[:1]) <= 20
    assert max(limit or 0.0 for limit in limits) > 10


def test_planning_that_gives_up_leaves_all_to_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    network = agreement(16, 0.1, 0.1)
    monkeypatch.setattr("lapis.inference.exact.treewidth_bounds.plan_exact", stopped)
    monkeypatch.setattr("lapis.inference.symmetry.by_counts.plan_counts", lambda *_: None)
    plan = plan_network(network, "auto", InferenceOptions(time_limit=20.0))
    assert plan.options.time_limit == 10.0
    found = run_plan(plan).answer()[1]
    assert [row.status for row in found.steps] == ["answered"]
    assert not found.exact


def test_what_lifting_answers_replaces_all_other_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lapis.inference.symmetry.by_counts.plan_counts", lambda *_: None)
    problem = crowd_problem(40, apart=False)
    _, found = infer_problem(problem, "auto", InferenceOptions(max_memory=1 << 20))
    last = found.steps[-1]
    assert found.exact
    assert (last.status, last.methods) == ("answered", found.methods)
    assert {row.status for row in found.steps[:-1]} == {"replaced"}
    assert last.methods in (("lifted",), ("cells",))


def test_a_refusal_to_ground_is_raised_where_lifting_refuses() -> None:
    problem = crowd_problem(16)
    with pytest.raises(TooLarge, match="over the limit") as error:
        infer_problem(problem, "auto", InferenceOptions(max_memory=1 << 10))
    assert error.value.code == "too-large"


@pytest.mark.parametrize("seed", range(12))
def test_joined_parts_are_the_whole(seed: int) -> None:
    """log Z, marginals and counts of any division into parts equal those of the whole network."""
    rng = np.random.default_rng(seed)
    network = random_network(np.random.default_rng(seed))
    try:
        whole = enumerate_worlds(network)
    except lapis.LapisError:
        return
    label = rng.integers(3, size=network.num_components)[network.component]
    parts = []
    for number in range(3):
        part, atom = keep_part(network, label == number)
        parts.append(PartialAnswer(atom, infer_by_enumeration(part, InferenceOptions())))
    found = Marginals.join(network, parts)
    np.testing.assert_allclose(found.marginal, whole.marginal, atol=1e-12)
    np.testing.assert_allclose(found.expected_count, whole.expected_count, atol=1e-9)
    assert found.log_partition == pytest.approx(whole.log_partition, abs=1e-9)
    assert found.solved_log_partition == pytest.approx(whole.log_partition, abs=1e-9)
    assert (found.method, found.exact, found.stderr) == ("enumerate", True, None)


def answer_of(method: str, network: Network, *, exact: bool, value: float) -> Marginals:
    size = network.num_base_atoms
    notes = {} if exact else {"expected_counts_stderr": np.full(len(network.weights), 3.0)}
    return Marginals.by(
        method,
        exact=exact,
        marginal=np.full(size, value),
        log_odds=np.zeros(size),
        stderr=None if exact else np.full(size, 0.1),
        expected_count=np.zeros(len(network.weights)),
        log_partition=1.0 if exact else None,
        diagnostics=notes,
    )


def test_the_method_of_an_atom_survives_every_join() -> None:
    """Join twice: counts beside others are called exact, and squared errors add up."""
    network = agreement(8, 0.0, 0.1)
    network = network.with_weights(np.array([0.0, 0.1]))
    atoms = np.arange(8)
    half = keep_part(network, np.ones(8, bool)).network

    def part(method: str, first: int, last: int, *, exact: bool) -> PartialAnswer:
        found = answer_of(method, half, exact=exact, value=first / 10)
        size = last - first
        arrays = {"marginal": found.marginal[:size], "log_odds": found.log_odds[:size]}
        if found.stderr is not None:
            arrays["stderr"] = found.stderr[:size]
        return PartialAnswer(
            atoms[first:last],
            Marginals.by(
                method,
                exact=exact,
                expected_count=found.expected_count,
                log_partition=found.log_partition,
                diagnostics=found.diagnostics,
                **arrays,
            ),
        )

    inner = Marginals.join(
        network, [part("counts", 0, 2, exact=True), part("gibbs", 2, 5, exact=False)]
    )
    assert inner.method == "exact+gibbs"
    joined = Marginals.join(
        network,
        [PartialAnswer(atoms, inner), part("gibbs", 5, 8, exact=False)],
    )
    names = [joined.methods[i] for i in joined.method_id]
    assert names == ["exact"] * 2 + ["gibbs"] * 6
    assert joined.is_exact.tolist() == [True] * 2 + [False] * 6
    assert joined.errors.tolist() == [0.0] * 2 + [0.1] * 6
    assert joined.diagnostics["expected_counts_stderr"] == pytest.approx([18**0.5] * 2)
    assert joined.log_partition is None


def test_what_is_left_is_what_no_step_answered() -> None:
    network = agreement(16, 0.3, 0.1)
    done = run_plan(plan_parts(network, InferenceOptions(max_memory=1 << 10), "leave"))
    answered = sum(len(part.found.marginal) for part in done.parts)
    assert answered + done.rest().network.num_base_atoms == network.num_base_atoms


def test_a_report_is_text_json_and_a_frame() -> None:
    options = InferenceOptions(max_memory=1 << 17, max_samples=4_000)
    planned = plan_inference(crowd_problem(), "auto", options).report("town")
    _, found = infer_problem(crowd_problem(), "auto", options)
    done = PlanReport(found.steps)
    assert "guess" in str(planned)
    assert "took" not in str(planned)
    assert "took" in str(done)
    assert "gibbs or cluster" in str(done)
    document = json.loads(json.dumps(planned.to_json()))
    assert [step["status"] for step in document["steps"]] == ["planned"] * len(planned)
    assert {step["world"] for step in document["steps"]} == {"town"}
    frame = done.to_pandas()
    assert len(frame) == len(done)
    assert {"solvers", "methods", "guessed_seconds", "measured_seconds"} <= set(frame.columns)
    assert "<table" in done._repr_html_()

"""Comparison of inference on an engine with the oracle and with other engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import lapis
import oracle
from lapis.inference.marginals import InferenceOptions
from lapis.problem.task import build_task
from lapis.results.answer import Answer, MostLikelyWorld
from lapis.stores.components.component_answers import infer_on_store, map_on_store
from lapis.stores.components.packing import StoreLimits
from strategies import Case

# One parcel for each component, all edges contracted on the engine, no worker process.
TINY = StoreLimits(parcel_literals=4, few_edges=0, jobs=1)


def infer_there(
    url: str,
    model: str,
    data: str,
    query: Sequence[str],
    limits: StoreLimits = TINY,
    **options: object,
) -> Answer:
    method = str(options.pop("method", "auto"))
    task = build_task(lapis.parse(model), lapis.Database.parse(data), query)
    asked = InferenceOptions(**options)  # type: ignore[arg-type]
    answer = infer_on_store(task, url, method, asked, limits=limits_on(url, limits))
    assert isinstance(answer, Answer)
    return answer


def map_there(
    url: str, model: str, data: str, query: Sequence[str], limits: StoreLimits = TINY
) -> MostLikelyWorld:
    task = build_task(lapis.parse(model), lapis.Database.parse(data), query)
    world = map_on_store(task, url, "auto", InferenceOptions(), limits=limits_on(url, limits))
    assert isinstance(world, MostLikelyWorld)
    return world


def limits_on(url: str, limits: StoreLimits) -> StoreLimits:
    """Return the limits without the options that an engine with tasks refuses."""
    has_tasks = url.startswith(("local", "spark", "sc:"))
    return replace(limits, jobs=None) if has_tasks else limits


def check_case(url: str, case: Case) -> None:
    """Compare log Z, marginals, expected counts and the most likely world with the oracle."""
    model = lapis.parse(case.model)
    try:
        expected = oracle.infer(model, case.facts, case.query)
    except oracle.NoWorld:
        for question in (infer_there, map_there):
            with pytest.raises(lapis.LapisError):
                question(url, case.model, case.data, case.query)
        return
    answer = infer_there(url, case.model, case.data, case.query)
    assert answer.exact
    assert answer.log_partition == pytest.approx(expected.log_partition, abs=1e-9, rel=1e-12)
    keys = oracle.weight_keys(model, oracle.constants_of(model, case.facts))
    counts = [expected.expected_counts[key] for key in keys]
    np.testing.assert_allclose(answer.expected_counts, counts, atol=1e-9, rtol=1e-12)
    for atom, probability in answer.marginals.items():
        assert probability == pytest.approx(expected.marginals[atom], abs=1e-9), atom
    here = lapis.infer(model, lapis.Database.parse(case.data), case.query, method="enumerate")
    assert answer.atoms == here.atoms
    world = map_there(url, case.model, case.data, case.query)
    assert world.optimal
    assert world.score == pytest.approx(expected.map_score, abs=1e-9, rel=1e-12)
    assert any(
        all(value == (atom in best) for atom, value in world.atoms.items())
        for best in expected.map_worlds
    )


def same_answers(one: Answer, other: Answer) -> None:
    """Assert that answers are equal to the last bit, sampled or not."""
    assert one.atoms == other.atoms
    assert (one.method, one.exact, one.log_partition) == (
        other.method,
        other.exact,
        other.log_partition,
    )
    np.testing.assert_array_equal(one.probability, other.probability)
    np.testing.assert_array_equal(one.errors, other.errors)
    np.testing.assert_array_equal(one.expected_counts, other.expected_counts)


CIRCLES = """
Smokes(person)
Friends(person, person)
0.3 Smokes(x)
0.7 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.4 Friends(x, y) ^ Smokes(x) ^ Smokes(y)
"""


def circles(sizes: Sequence[int]) -> str:
    """Generate friendships inside circles of people; each person has three friends there."""
    facts = []
    for circle, size in enumerate(sizes):
        names = [f"P{circle}_{place}" for place in range(size)]
        facts += [
            f"Friends({name},{names[(place + step) % size]})"
            for place, name in enumerate(names)
            for step in (1, 2, 5)
            if step % size
        ]
    return " ".join(facts)

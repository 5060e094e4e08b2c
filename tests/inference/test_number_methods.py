"""Every method takes formulas that are multiplied by numbers, or says that it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

import lapis
import oracle
from lapis.grounding import ground
from lapis.inference.map.wcnf import solve_wcnf
from lapis.inference.marginals import InferenceOptions
from lapis.methods import methods_of
from lapis.network.export import write_network
from oracle import Facts

MODEL = """record = {A, B}
float sim(record, record)
float age(record)
P(record)
Q(record, record)
0.8 sim(x, y) * Q(x, y)
-0.3 sim(x, y) * sim(y, x) * (P(x) ^ Q(x, y))
0.5 log(age(x)) * (P(x) => EXIST y Q(x, y))
1.2 age(x) > 2 ^ P(x)
0.7 sim(x, y) * (Q(x, y) => Q(y, +x))
"""
VALUES = {
    "sim": {("A", "A"): "1", ("A", "B"): "-0.7", ("B", "A"): "1.6", ("B", "B"): "0"},
    "age": {("A",): "0.5", ("B",): "2.5"},
}
FACTS = Facts(
    tuple((name, (*row, value)) for name, rows in VALUES.items() for row, value in rows.items())
)
REFUSALS = {"cells": "has a weight for each constant"}
SAMPLED = 0.04


@pytest.fixture(scope="module")
def data() -> lapis.Database:
    return lapis.Database.parse(oracle.render_database(lapis.parse(MODEL).predicates, FACTS))


@pytest.fixture(scope="module")
def expected() -> oracle.OracleAnswer:
    return oracle.infer(lapis.parse(MODEL), FACTS, ["P", "Q"])


@pytest.mark.parametrize("method", methods_of("infer"))
def test_marginals(method: str, data: lapis.Database, expected: oracle.OracleAnswer) -> None:
    model = lapis.parse(MODEL)
    if method in REFUSALS:
        with pytest.raises(lapis.LapisError, match=REFUSALS[method]):
            lapis.infer(model, data, "P, Q", method=method)
        return
    answer = lapis.infer(model, data, "P, Q", method=method)
    margin = 1e-9 if answer.exact else SAMPLED
    for atom, probability in answer.marginals.items():
        assert probability == pytest.approx(expected.marginals[atom], abs=margin), atom
    if answer.exact:
        assert answer.log_partition == pytest.approx(expected.log_partition, abs=1e-9)


@pytest.mark.parametrize("method", methods_of("map"))
def test_most_likely_worlds(
    method: str, data: lapis.Database, expected: oracle.OracleAnswer
) -> None:
    world = lapis.map(lapis.parse(MODEL), data, "P, Q", method=method)
    if world.optimal:
        assert world.score == pytest.approx(expected.map_score, abs=1e-9)
    assert world.score <= expected.map_score + 1e-9


def test_lifting_names_the_formula(data: lapis.Database) -> None:
    model = lapis.parse(MODEL.replace("+x", "x"))
    with pytest.raises(lapis.TooLarge, match="multiplied by numbers, which tell its constants"):
        lapis.lift(model, data, method="circuit")
    with pytest.raises(lapis.LapisError, match="is multiplied by numbers"):
        lapis.lift(model, data, method="cells")


def test_ground_networks_have_scaled_weights(
    data: lapis.Database, expected: oracle.OracleAnswer, tmp_path: Path
) -> None:
    network = ground(lapis.build_problem(lapis.parse(MODEL), data, ["P", "Q"]))
    write_network(network, tmp_path / "net.uai")
    read = lapis.infer(lapis.read(tmp_path / "net.uai"), method="enumerate")
    whole = read.log_partition + network.constant_score
    assert whole == pytest.approx(expected.log_partition, abs=1e-9)
    write_network(network, tmp_path / "net.wcnf")
    solved = solve_wcnf(tmp_path / "net.wcnf", "enumerate", InferenceOptions()).found
    best = lapis.map(lapis.parse(MODEL), data, "P, Q", method="enumerate")
    assert network.score(solved.world[: network.num_atoms]) == pytest.approx(best.score, abs=1e-4)


def test_estimated_counts_are_refused(data: lapis.Database) -> None:
    with pytest.raises(lapis.LapisError, match="IJGP estimates numbers of groundings"):
        lapis.count(lapis.parse(MODEL), data, counts="ijgp")

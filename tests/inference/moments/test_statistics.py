"""Test that counts from a network's statistics equal the counts of the network."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given

import lapis
from lapis.grounding import ground
from lapis.inference.moments.statistics import Statistics, gather_statistics
from lapis.network import Network
from strategies import Case, cases


def statistics_of(network: Network) -> Statistics:
    """Number the parameters in reverse order of weights, so that confusing the two fails."""
    size = len(network.weights)
    return gather_statistics(network, np.arange(size)[::-1], size)


def count_statistics(statistics: Statistics, world: np.ndarray) -> np.ndarray:
    """Return z of a world bool[num_ground_atoms] in which hard clauses hold."""
    found = statistics.network.counts(world[statistics.atom])
    lone = statistics.lone_atom[(statistics.lone_sign == 0)]
    field = statistics.field[lone[world[lone]]]
    return found + np.bincount(field[field >= 0], minlength=statistics.num_statistics)


def feasible_worlds(network: Network) -> list[np.ndarray]:
    choices = itertools.product((False, True), repeat=network.num_base_atoms)
    worlds = [network.complete(np.array(choice, bool)) for choice in choices]
    return [world for world in worlds if network.is_feasible(world)]


def ground_case(case: Case) -> Network:
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    return ground(lapis.build_problem(model, data, case.query))


@given(cases())
def test_counts_of_every_world(case: Case) -> None:
    try:
        network = ground_case(case)
        statistics = statistics_of(network)
    except lapis.LapisError:
        assume(False)
    weights = np.random.default_rng(0).normal(size=len(network.weights))
    natural = statistics.natural(weights[::-1])
    for world in feasible_worlds(network):
        found = count_statistics(statistics, world)
        counts = statistics.constant + statistics.to_parameters(found)
        assert counts[::-1] == pytest.approx(network.counts(world), abs=1e-9)
        score = weights[::-1] @ statistics.constant + natural @ found
        assert score == pytest.approx(weights @ network.counts(world), abs=1e-9)


@given(cases())
def test_one_unit_clause_an_atom_and_no_lone_atoms(case: Case) -> None:
    try:
        network = ground_case(case)
        core = statistics_of(network).network
    except lapis.LapisError:
        assume(False)
    units = core.literal[core.clause_start[:-1]][
        (np.diff(core.clause_start) == 1) & (core.weight_id >= 0)
    ]
    assert len(np.unique(units)) == len(units)
    assert (units > 0).all()
    tied = np.zeros(core.num_atoms, bool)
    length = np.diff(core.clause_start)
    tied[np.abs(core.literal[np.repeat(length > 1, length)]) - 1] = True
    tied[core.block_atom] = True
    assert tied.all()


def test_atoms_with_equal_units_share_a_field() -> None:
    text = "Has(page, word)\nCourse(page)\nHas(p, +w) => Course(p)\n!Course(p)"
    data = lapis.Database.parse("Has(A,X) Has(B,X) Has(C,X) Has(C,Y) Course(D)")
    network = ground(lapis.build_problem(lapis.parse(text), data, ["Course"]))
    statistics = statistics_of(network)
    names = network.atom_names(np.arange(network.num_atoms))
    field = dict(zip(names, statistics.field.tolist(), strict=True))
    assert field["Course(A)"] == field["Course(B)"]
    assert len(set(field.values())) == statistics.num_statistics == 2
    assert statistics.network.num_atoms == 0
    assert statistics.lone_count[field["Course(A)"]] == 2.0


def test_units_that_cancel_leave_no_field() -> None:
    text = "thing = {A, B}\nP(thing)\nQ(thing)\nP(x) v !P(x) ^ Q(x)\nP(x) <=> !P(x)"
    network = ground(lapis.build_problem(lapis.parse(text), query=["P"]))
    statistics = statistics_of(network)
    assert statistics.design.nnz == statistics.num_statistics
    for world in feasible_worlds(network):
        counts = statistics.to_parameters(count_statistics(statistics, world))
        assert (statistics.constant + counts)[::-1].tolist() == network.counts(world).tolist()


def test_hard_unit_clauses_decide_lone_atoms() -> None:
    text = "thing = {A, B, C}\nP(thing)\n2 P(x)\nP(A).\n!P(B)."
    network = ground(lapis.build_problem(lapis.parse(text), query=["P"]))
    statistics = statistics_of(network)
    signs = dict(zip(statistics.lone_atom.tolist(), statistics.lone_sign.tolist(), strict=True))
    assert sorted(signs.values()) == [-1, 0, 1]
    assert statistics.constant.tolist() == [1.0]
    assert statistics.lone_count.tolist() == [1.0]


def test_hard_unit_clauses_that_contradict() -> None:
    text = "thing = {A, B}\nP(thing)\n2 P(x)\nP(A).\n!P(A)."
    network = ground(lapis.build_problem(lapis.parse(text), query=["P"]), check=False)
    with pytest.raises(lapis.LapisError, match=r"P\(A\)") as error:
        statistics_of(network)
    assert error.value.code == "unsatisfiable"

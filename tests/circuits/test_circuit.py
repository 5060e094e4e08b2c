"""Circuits against the tables of their functions, for every row of evidence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuits.random_circuits import Builder, partial_rows, random_circuit, restrict
from lapis.circuits import evaluation
from lapis.circuits.circuit import PARAMETER, PRODUCT, SUM, Properties, new_circuit
from lapis.circuits.circuit_files import (
    circuit_graph,
    format_ac,
    load_circuit,
    parse_ac,
    save_circuit,
)
from lapis.circuits.evaluation import (
    draw_samples,
    entropy,
    expected_parameters,
    log_conditionals,
    log_partition,
    log_probabilities,
    log_values,
    most_likely,
    posteriors,
)
from lapis.errors import LapisError

SEEDS = range(40)
EXACT = {"rtol": 1e-10, "atol": 1e-13}
COIN = parse_ac("(2)\nv 0 0\nv 0 1\nn 0.25\nn 0.75\n* 0 2\n* 1 3\n+ 4 5\nEOF\n")


@pytest.mark.parametrize("seed", SEEDS)
def test_every_partial_row(seed: int) -> None:
    circuit, table = random_circuit(seed)
    assert circuit.properties == Properties(True, True, True)
    rows = partial_rows(table.shape)
    cut = [restrict(table, row) for row in rows]
    sums = np.array([part.sum() for part in cut])
    np.testing.assert_allclose(np.exp(log_values(circuit, rows)), sums, **EXACT)
    np.testing.assert_allclose(
        np.exp(log_probabilities(circuit, rows)), sums / table.sum(), **EXACT
    )
    value, found = posteriors(circuit, rows)
    np.testing.assert_allclose(np.exp(value), sums, **EXACT)
    axes = range(table.ndim)
    for row, part in zip(found, cut, strict=True):
        if part.sum() == 0:
            assert np.isnan(row).all()
            continue
        wanted = [part.sum(axis=tuple(a for a in axes if a != axis)) / part.sum() for axis in axes]
        np.testing.assert_allclose(row, np.concatenate(wanted), **EXACT)


@pytest.mark.parametrize("seed", SEEDS)
def test_most_likely_and_entropy(seed: int) -> None:
    circuit, table = random_circuit(seed)
    rows = partial_rows(table.shape)
    for row in rows:
        part = restrict(table, row)
        if part.sum() == 0:
            with pytest.raises(LapisError, match="probability 0"):
                most_likely(circuit, row)
            continue
        world, value = most_likely(circuit, row)
        assert part[tuple(world[0])] == pytest.approx(part.max(), rel=1e-10)
        assert np.exp(value[0]) == pytest.approx(part.max() / table.sum(), rel=1e-10)
        share = part[part > 0] / part.sum()
        assert entropy(circuit, row) == pytest.approx(-(share * np.log(share)).sum(), abs=1e-10)


@pytest.mark.parametrize("seed", range(8))
def test_conditionals(seed: int) -> None:
    circuit, table = random_circuit(seed)
    rows = partial_rows(table.shape)
    rng = np.random.default_rng(seed)
    query, given = rows[rng.integers(len(rows), size=(2, 200))]
    found = log_conditionals(circuit, query, given)
    for q, e, value in zip(query, given, found, strict=True):
        part = restrict(table, e)
        if part.sum() == 0:
            assert np.isnan(value)
        else:
            wanted = restrict(part, q).sum() / part.sum()
            assert np.exp(value) == pytest.approx(wanted, rel=1e-10, abs=1e-13)


def test_samples_have_the_frequencies_of_the_table() -> None:
    num_samples = 20_000
    for seed in range(5):
        circuit, table = random_circuit(seed)
        given = np.full(table.ndim, -1)
        world, _ = most_likely(circuit, given)
        given[0] = world[0, 0]
        for row in (None, given):
            part = table if row is None else restrict(table, row)
            share = part / part.sum()
            worlds = draw_samples(circuit, num_samples, seed, row)
            seen = np.zeros(table.shape)
            np.add.at(seen, tuple(worlds.T), 1 / num_samples)
            error = 5 * np.sqrt(share * (1 - share) / num_samples)
            assert (np.abs(seen - share) <= error + 1e-12).all()
    assert (draw_samples(circuit, 50, 1) == draw_samples(circuit, 50, 1)).all()


@pytest.mark.parametrize("seed", range(8))
def test_expected_uses_are_derivatives(seed: int) -> None:
    circuit, table = random_circuit(seed)
    rows = partial_rows(table.shape)
    rows = rows[np.isfinite(log_values(circuit, rows))]
    weight = np.random.default_rng(seed).random(len(rows))
    _, found = expected_parameters(circuit, rows, weight)
    step = 1e-6
    for number in np.flatnonzero(np.isfinite(circuit.log_parameter)):
        ends = []
        for sign in (1, -1):
            moved = circuit.log_parameter.copy()
            moved[number] += sign * step
            ends.append(weight @ log_values(circuit.with_parameters(moved), rows))
        assert found[number] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6)


def test_shares_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit, table = random_circuit(3)
    rows = np.repeat(partial_rows(table.shape), 7, axis=0)
    ones = np.ones(len(rows))
    expected = expected_parameters(circuit, rows, ones)
    one = log_values(circuit, rows), *posteriors(circuit, rows), *expected
    monkeypatch.setattr(evaluation, "SMALL", 0)
    monkeypatch.setattr(evaluation, "num_cores", lambda: 3)
    many = (
        log_values(circuit, rows),
        *posteriors(circuit, rows),
        *expected_parameters(circuit, rows, ones),
    )
    for alone, shared in zip(one, many, strict=True):
        np.testing.assert_allclose(shared, alone, rtol=1e-12)


def test_structure_is_seen() -> None:
    """Each property fails alone, and queries that need it are refused."""

    def build(*nodes: tuple[int, list[int]]) -> Properties:
        builder = Builder((2, 2), np.random.default_rng(0))
        builder.parameters.append(0.5)
        for kind, children in nodes:
            builder.add(kind, 0 if kind == PARAMETER else -1, children)
        return builder.finish().properties

    # Indicators are nodes 0, 1 of x0 and 2, 3 of x1.
    assert build((SUM, [0, 1]), (SUM, [2, 3]), (PRODUCT, [4, 5])) == (True, True, True)
    assert build((SUM, [0, 1]), (PRODUCT, [4, 0])) == (False, True, True)
    assert build((PRODUCT, [0, 2]), (SUM, [4, 1])) == (True, False, False)
    assert build((PRODUCT, [0, 2]), (PRODUCT, [0, 2]), (SUM, [4, 5])) == (True, True, False)
    assert build((PRODUCT, [0, 2]), (PRODUCT, [0, 3]), (SUM, [4, 5])) == (True, True, True)

    mixture = parse_ac("(2)\nv 0 0\nv 0 1\n+ 0 1\n+ 0 1\n+ 2 3\nEOF")
    with pytest.raises(LapisError, match=r"does not support entropy: .* not deterministic"):
        entropy(mixture)
    with pytest.raises(LapisError, match="does not support most likely states"):
        most_likely(mixture, np.array([-1]))
    crossed = parse_ac("(2)\nv 0 0\nv 0 1\n+ 0 1\n* 2 0\nEOF")
    with pytest.raises(LapisError, match=r"does not support marginals: .* not decomposable"):
        posteriors(crossed, np.array([-1]))


@given(st.integers(0, 2**32), st.sampled_from([1e-20, 1e-3, 1.0, 100.0, 1e4, 1e9]))
def test_a_text_keeps_every_number(seed: int, scale: float) -> None:
    """Numbers of any size: exp(1000) is no double, and exp(-1000) is not 0."""
    rng = np.random.default_rng(seed)
    circuit = COIN.with_parameters(scale * rng.normal(size=2))
    again = parse_ac(format_ac(circuit))
    np.testing.assert_array_equal(again.log_parameter, circuit.log_parameter)
    circuit_graph(circuit).dot()


def test_sums_and_products_of_nothing_can_be_written() -> None:
    """A model without unknown atoms compiles to an empty product."""
    empty = {"leaf": [-1], "start": [0, 0], "child": [], "log_parameter": []}
    arrays = {name: np.array(values, np.int64) for name, values in empty.items()}
    for kind, value in ((PRODUCT, 0.0), (SUM, -np.inf)):
        circuit = new_circuit([], [], properties=None, kind=np.array([kind]), **arrays)
        assert log_partition(parse_ac(format_ac(circuit))) == log_partition(circuit) == value


@pytest.mark.parametrize(
    "damage",
    [
        {"child": [0, 2, 1, 3, 4, 6]},  # its own child
        {"child": [0, 2, 1, 3, 4, -1]},
        {"child": [0, 2, 1, 3, 4]},
        {"start": [0, 0, 0, 0, 0, 4, 2, 6]},
        {"start": [0, 0, 0, 0, 1, 2, 4, 6]},  # a leaf with a child
        {"kind": [0, 0, 1, 1, 3, 3, 9]},
        {"leaf": [0, 2, 0, 1, -1, -1, -1]},  # a state that is not there
        {"leaf": [0, 1, 0, 2, -1, -1, -1]},  # a parameter
        {"leaf": [0, 1, 0]},
    ],
)
def test_arrays_that_are_no_circuit(tmp_path: Path, damage: dict[str, list[int]]) -> None:
    """Kernels do not check bounds, so damaged files are refused."""
    changed: dict[str, Any] = {name: np.array(value) for name, value in damage.items()}
    save_circuit(replace(COIN, **changed), tmp_path / "c.npz")
    with pytest.raises(LapisError, match="this is not a circuit"):
        load_circuit(tmp_path / "c.npz")


def test_a_text_that_was_cut_off_is_another_circuit() -> None:
    lines = format_ac(COIN).splitlines()
    for end in range(2, len(lines)):
        with pytest.raises(LapisError, match="the last line, EOF, is missing"):
            parse_ac("\n".join(lines[:end]))


@pytest.mark.parametrize("ending", ["npz", "ac"])
def test_files_give_the_circuit_back(ending: str, tmp_path: Path) -> None:
    circuit, table = random_circuit(5)
    path = tmp_path / f"c.{ending}"
    save_circuit(circuit, path)
    again = load_circuit(path)
    rows = partial_rows(table.shape)
    np.testing.assert_array_equal(log_values(again, rows), log_values(circuit, rows))
    assert again.properties == circuit.properties
    assert [len(s) for s in again.states] == [len(s) for s in circuit.states]
    if ending == "npz":
        assert (again.names, again.states) == (circuit.names, circuit.states)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(LapisError, match="there is no such file"):
        load_circuit(tmp_path / "none.npz")
    (tmp_path / "c.npz").write_text("what")
    with pytest.raises(LapisError, match="this is not a circuit"):
        load_circuit(tmp_path / "c.npz")
    (tmp_path / "empty.ac").write_text("")
    with pytest.raises(LapisError, match="the first line must have the numbers of states"):
        load_circuit(tmp_path / "empty.ac")
    with pytest.raises(LapisError, match="are written as"):
        save_circuit(random_circuit(0)[0], tmp_path / "c.txt")
    with pytest.raises(LapisError) as found:
        parse_ac("(2)\nv 0 0\nv 0 2\n", "c.ac")
    assert str(found.value) == (
        "c.ac:3:1: this is not a node of a circuit\n"
        "    v 0 2\n"
        "    ^^^^^\n"
        "    as in `v 0 1`, `n 0.5`, `+ 3 4`; children stand above their parents"
    )


def test_text_of_a_coin() -> None:
    coin = parse_ac("(2)\nv 0 0\nv 0 1\nn 0.25\nn 0.75\n* 0 2\n* 1 3\n+ 4 5\nEOF\n")
    assert format_ac(coin).splitlines()[3:6] == ["n 0.25", "n 0.75", "* 0 2"]
    dot = circuit_graph(coin).dot()
    assert '[label="x0=0", fillcolor=' in dot
    assert dot.count("->") == coin.num_edges == 6
    assert log_partition(coin) == pytest.approx(0, abs=1e-15)


def test_values_too_small_for_a_double() -> None:
    """Many rows are evaluated relative to no evidence, small values in log space."""
    rng = np.random.default_rng(0)
    chance = rng.random(300) * 1e-4
    data = rng.integers(-1, 2, (40, 300))
    data[7] = 1
    nodes, tops = [], []
    for v, p in enumerate(chance.tolist()):
        nodes += [f"v {v} 0", f"v {v} 1", f"n {1 - p!r}", f"n {p!r}"]
        n = 7 * v
        nodes += [f"* {n} {n + 2}", f"* {n + 1} {n + 3}", f"+ {n + 4} {n + 5}"]
        tops.append(n + 6)
    text = ["(" + " ".join("2" * 300) + ")", *nodes, "* " + " ".join(map(str, tops)), "EOF"]
    circuit = parse_ac("\n".join(text))
    wanted = np.where(data == 1, np.log(chance), np.where(data == 0, np.log1p(-chance), 0.0))
    found = log_values(circuit, data)
    assert (found < -700).sum() > 5
    np.testing.assert_allclose(found, wanted.sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(log_values(circuit, data[:3]), found[:3], rtol=1e-12)

"""Write networks, read them back and evaluate them in every world."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from grounding.ground_problems import problems
from lapis.errors import LapisError, TooLarge
from lapis.grounding import ground
from lapis.inference.map.wcnf import parse_wcnf
from lapis.network import AtomTable, Network
from lapis.network.export import write_network
from lapis.problem.problem import Problem

RANDOM = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def worlds(network: Network) -> list[np.ndarray]:
    """Completed worlds, all if few, and one in which an auxiliary atom is wrong."""
    base = network.num_base_atoms
    if base <= 6:
        chosen = [np.array(bits, bool) for bits in itertools.product((0, 1), repeat=base)]
    else:
        rng = np.random.default_rng(base)
        chosen = [rng.random(base) < density for density in (0, 0.2, 0.4, 0.6, 0.8)]
    complete = [network.complete(world) for world in chosen]
    if network.num_atoms > base:
        wrong = complete[0].copy()
        wrong[base] ^= True
        complete.append(wrong)
    return complete


def grounded(problem: Problem) -> Network:
    try:
        return ground(problem)
    except LapisError:
        assume(False)
        raise


def clause_network(
    clauses: list[tuple[float | None, list[int]]], num_atoms: int, blocks: int = 0
) -> Network:
    """A network of weighted clauses (None: hard) over one unary predicate."""
    soft = [weight for weight, _ in clauses if weight is not None]
    weight_id = np.cumsum([weight is not None for weight, _ in clauses], dtype=np.int32) - 1
    weight_id[[weight is None for weight, _ in clauses]] = -1
    return Network(
        atoms=AtomTable(
            ("P",), np.array([0, num_atoms]), (np.arange(num_atoms, dtype=np.int32)[:, None],)
        ),
        num_base_atoms=num_atoms,
        clause_start=np.cumsum([0, *(len(row) for _, row in clauses)]),
        literal=np.array([x for _, row in clauses for x in row], np.int32),
        weight_id=weight_id,
        coefficient=np.ones(len(clauses)),
        weights=np.array(soft, np.float64),
        constant_count=np.zeros(len(soft)),
        block_start=np.array([0, blocks] if blocks else [0]),
        block_atom=np.arange(blocks, dtype=np.int32),
        block_exact=np.ones(int(blocks > 0), bool),
        definition_start=np.zeros(1, np.int64),
        definition_literal=np.empty(0, np.int32),
    )


def wcnf_cost(text: str, world: np.ndarray) -> float:
    """The cost of the one extension of a world to the variables that clauses define."""
    read = parse_wcnf(text)
    rows = [
        read.literal[read.clause_start[i] : read.clause_start[i + 1]].tolist()
        for i in range(len(read.weight))
    ]
    value = {atom + 1: bool(truth) for atom, truth in enumerate(world)}
    top = max((abs(x) for row in rows for x in row), default=0)
    for variable in range(len(world) + 1, top + 1):  # -variable is first in its defining clause
        (body,) = [row[1:] for row in rows if row[0] == -variable and len(row) > 1]
        value[variable] = any(value[abs(x)] == (x > 0) for x in body)
    cost = 0.0
    weights = np.where(read.is_hard, np.inf, read.weight.astype(float))
    for row, weight in zip(rows, weights, strict=True):
        if not any(value[abs(x)] == (x > 0) for x in row):
            cost += weight
    return cost


@RANDOM
@given(problem=problems())
def test_wcnf(tmp_path: Path, problem: Problem) -> None:
    network = grounded(problem)
    path = tmp_path / "net.wcnf"
    write_network(network, path)
    text = path.read_text()
    header = dict(
        line.split()[1:3] for line in text.splitlines() if line.startswith(("c scale", "c offset"))
    )
    names = [line.split(" ", 3)[3] for line in text.splitlines() if line.startswith("c atom")]
    assert names == network.atom_names(np.arange(network.num_atoms))
    for world in worlds(network):
        cost = wcnf_cost(text, world)
        assert math.isfinite(cost) == network.is_feasible(world)
        if math.isfinite(cost):
            negative = float(header["offset"]) + cost / int(header["scale"])
            assert negative == pytest.approx(-network.score(world), abs=1e-9)


def test_wcnf_negative_weight_on_a_long_clause(tmp_path: Path) -> None:
    network = clause_network([(-1.5, [1, -2, 3]), (2.0, [2]), (-0.25, [1]), (None, [1, 2])], 3)
    write_network(network, tmp_path / "net.wcnf")
    text = (tmp_path / "net.wcnf").read_text()
    assert "c scale 100\n" in text
    for bits in itertools.product((False, True), repeat=3):
        world = np.array(bits)
        cost = wcnf_cost(text, world)
        if network.is_feasible(world):
            assert cost / 100 - 2.0 == pytest.approx(-network.score(world))
        else:
            assert cost == math.inf


def test_wcnf_rounds_and_says_so(tmp_path: Path) -> None:
    network = clause_network([(math.pi * 1e6, [1]), (math.e, [-1, 2])], 2)
    write_network(network, tmp_path / "net.wcnf")
    text = (tmp_path / "net.wcnf").read_text()
    lines = {line.split()[1]: line for line in text.splitlines()}
    scale, offset = int(lines["scale"].split()[2]), float(lines["offset"].split()[2])
    within = float(lines["-score"].rsplit(" ", 1)[1])
    assert 0 < within < 1e-6
    for bits in itertools.product((False, True), repeat=2):
        world = np.array(bits)
        error = offset + wcnf_cost(text, world) / scale + network.score(world)
        assert abs(error) <= within + 1e-9


def read_uai(text: str) -> list[tuple[list[int], list[float]]]:
    tokens = iter(text.split())
    assert next(tokens) == "MARKOV"
    num_variables = int(next(tokens))
    assert [next(tokens) for _ in range(num_variables)] == ["2"] * num_variables
    scopes = []
    for _ in range(int(next(tokens))):
        scopes.append([int(next(tokens)) for _ in range(int(next(tokens)))])
    factors = [(scope, [float(next(tokens)) for _ in range(int(next(tokens)))]) for scope in scopes]
    assert next(tokens, None) is None
    return factors


@RANDOM
@given(problem=problems())
def test_uai(tmp_path: Path, problem: Problem) -> None:
    network = grounded(problem)
    path = tmp_path / "net.uai"
    write_network(network, path)
    factors = read_uai(path.read_text())
    for world in worlds(network):
        product = 1.0
        for scope, table in factors:
            assert len(table) == 2 ** len(scope)
            product *= table[int("".join(str(int(world[v])) for v in scope) or "0", 2)]
        if network.is_feasible(world):
            assert math.log(product) == pytest.approx(
                network.score(world) - network.constant_score, abs=1e-9
            )
        else:
            assert product == 0.0


@RANDOM
@given(problem=problems())
def test_json(tmp_path: Path, problem: Problem) -> None:
    network = grounded(problem)
    path = tmp_path / "net.json"
    write_network(network, path)
    read = json.loads(path.read_text())
    assert read["atoms"] == network.atom_names(np.arange(network.num_atoms))
    for world in worlds(network):
        score = read["constant_score"]
        feasible = True
        for clause, weight_id in enumerate(read["weight_id"]):
            start, end = read["clause_start"][clause : clause + 2]
            true = any(world[abs(x) - 1] == (x > 0) for x in read["literal"][start:end])
            if weight_id < 0:
                feasible &= true
            elif true:
                score += read["weights"][weight_id] * read["coefficient"][clause]
        for block, exact in enumerate(read["block_exact"]):
            start, end = read["block_start"][block : block + 2]
            true_atoms = sum(bool(world[a]) for a in read["block_atom"][start:end])
            feasible &= true_atoms == 1 or (true_atoms == 0 and not exact)
        assert feasible == network.is_feasible(world)
        assert score == pytest.approx(network.score(world))


def test_refuses_what_a_format_cannot_hold(tmp_path: Path) -> None:
    long = clause_network([(1.0, list(range(1, 31)))], 30)
    with pytest.raises(TooLarge, match="30 atoms"):
        write_network(long, tmp_path / "net.uai")
    with pytest.raises(LapisError) as refused:
        write_network(clause_network([(900.0, [1])], 1), tmp_path / "net.uai")
    assert refused.value.code == "not-representable"
    many = clause_network([(1.0, [1])], 20_000, blocks=20_000)
    with pytest.raises(TooLarge, match="199,990,000 clauses"):
        write_network(many, tmp_path / "net.wcnf")
    with pytest.raises(LapisError, match="unknown file format"):
        write_network(long, tmp_path / "net.txt")
    with pytest.raises(LapisError, match="cannot be written"):
        write_network(long, tmp_path / "nowhere" / "net.json")
    assert list(tmp_path.iterdir()) == []

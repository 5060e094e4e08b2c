"""Bayesian and Markov networks as models, against tables summed in numpy."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
from cli_run import Run
from lapis.circuits.factor_files import parse_bif
from lapis.circuits.network_models import network_model
from lapis.language.printer import print_model

STATES = ("<5", "5-10", "very high", "yes", "3", "no=1", "(a)", "é", "x^y")
ODD_NAMES = ("lung cancer", "HR.EKG", "X-1", "f(a)", "+", "P", "x0")


class Net(NamedTuple):
    """A Bayesian network: names, states, parents, and tables with the own state last."""

    names: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    parents: tuple[tuple[int, ...], ...]
    tables: tuple[np.ndarray, ...]

    def text(self) -> str:
        lines = []
        for name, states in zip(self.names, self.states, strict=True):
            quoted = ", ".join(f'"{state}"' for state in states)
            lines.append(f'variable "{name}" {{ type discrete [ {len(states)} ] {{ {quoted} }}; }}')
        for child, (own, table) in enumerate(zip(self.parents, self.tables, strict=True)):
            given_names = ", ".join(f'"{self.names[p]}"' for p in own)
            flat = np.moveaxis(table, -1, 0).ravel()
            numbers = ", ".join(repr(float(value)) for value in flat)
            bar = f" | {given_names}" if own else ""
            lines.append(f'probability ( "{self.names[child]}"{bar} ) {{ table {numbers}; }}')
        return "\n".join(lines)

    def eliminate(self, evidence: dict[int, int], kept: int) -> np.ndarray:
        """P(kept, evidence), by variable elimination in the order of the numbers."""
        factors = [
            ([*own, child], table)
            for child, (own, table) in enumerate(zip(self.parents, self.tables, strict=True))
        ]
        for v, state in evidence.items():
            mask = np.zeros(len(self.states[v]))
            mask[state] = 1.0
            factors.append(([v], mask))
        for v in range(len(self.names)):
            if v != kept:
                here = [f for f in factors if v in f[0]]
                factors = [f for f in factors if v not in f[0]]
                scope, table = multiply(here)
                factors.append(([u for u in scope if u != v], table.sum(axis=scope.index(v))))
        return multiply(factors)[1]

    def joint(self) -> np.ndarray:
        return multiply(
            [
                ([*own, child], table)
                for child, (own, table) in enumerate(zip(self.parents, self.tables, strict=True))
            ]
        )[1]


def multiply(factors: Sequence[tuple[list[int], np.ndarray]]) -> tuple[list[int], np.ndarray]:
    scope = sorted({v for own, _ in factors for v in own})
    letter = {v: chr(ord("a") + place) for place, v in enumerate(scope)}
    inputs = ["".join(letter[v] for v in own) for own, _ in factors]
    output = "".join(letter[v] for v in scope)
    return scope, np.einsum(f"{','.join(inputs)}->{output}", *[table for _, table in factors])


def draw_net(rng: np.random.Generator, size: int, zeros: float, names: Sequence[str]) -> Net:
    states = [tuple(rng.permutation(STATES)[: rng.integers(1, 4)].tolist()) for _ in range(size)]
    parents, tables = [], []
    for child in range(size):
        own = rng.permutation(child)[: rng.integers(0, min(child, 2) + 1)].tolist()
        shape = [len(states[p]) for p in own] + [len(states[child])]
        table = rng.uniform(0.05, 1.0, shape) * (rng.uniform(size=shape) >= zeros)
        table[..., 0] += table.sum(axis=-1) == 0
        parents.append(tuple(own))
        tables.append(table / table.sum(axis=-1, keepdims=True))
    return Net(tuple(names[:size]), tuple(states), tuple(parents), tuple(tables))


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from([0.0, 0.3]))
def test_small_networks_are_their_joint_tables(seed: int, size: int, zeros: float) -> None:
    rng = np.random.default_rng(seed)
    net = draw_net(rng, size, zeros, ODD_NAMES)
    model = network_model(parse_bif(net.text()))
    joint = net.joint()
    world = rng.choice(joint.size, p=joint.ravel())
    seen = np.unravel_index(world, joint.shape)
    observed = {v: int(seen[v]) for v in range(size) if rng.uniform() < 0.4}
    for v, state in observed.items():
        joint = np.where(np.arange(joint.shape[v]).reshape(
            [-1 if a == v else 1 for a in range(size)]) == state, joint, 0.0)  # fmt: skip
    evidence = {net.names[v]: net.states[v][state] for v, state in observed.items()}
    answer = lapis.infer(model, evidence=evidence, query=[f"{net.names[0]}"])
    everything = lapis.infer(model, evidence=evidence)
    total = joint.sum()
    assert everything.log_partition == pytest.approx(np.log(total), abs=1e-9)
    for v in range(size):
        axes = tuple(a for a in range(size) if a != v)
        for state, expected in zip(net.states[v], joint.sum(axis=axes) / total, strict=True):
            name = f"{net.names[v]}={state}"
            if v not in observed and len(net.states[v]) > 1:
                assert everything[name] == pytest.approx(expected, abs=1e-9)
            if v == 0:
                assert answer[name] == pytest.approx(expected, abs=1e-9)
    best = lapis.api.map(model, evidence=evidence)
    assert best.optimal
    assert best.score == pytest.approx(np.log(joint.max()), abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_larger_networks_by_variable_elimination(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = draw_net(rng, 40, 0.2, [f"v{i}" for i in range(40)])
    # Parents nearby keep the width small: variables are eliminated in order.
    parents = tuple(
        tuple(p for p in own if p >= child - 3) for child, own in enumerate(net.parents)
    )
    tables = []
    for own, old, table in zip(parents, net.parents, net.tables, strict=True):
        cut = table[tuple(slice(None) if p in own else 0 for p in old)]
        tables.append(cut)
    net = net._replace(parents=parents, tables=tuple(tables))
    free = lapis.infer(network_model(parse_bif(net.text())))
    likely = {v: int(np.argmax(net.eliminate({}, v))) for v in (10, 30)}
    joint_of_seen = net.eliminate(likely, 20)
    evidence = {f"v{v}": net.states[v][state] for v, state in likely.items()}
    given_seen = lapis.infer(network_model(parse_bif(net.text())), evidence=evidence, query="v20")
    assert given_seen.log_partition == pytest.approx(np.log(joint_of_seen.sum()), abs=1e-9)
    for state, p in zip(net.states[20], joint_of_seen / joint_of_seen.sum(), strict=True):
        assert given_seen[f"v20={state}"] == pytest.approx(p, abs=1e-9)
    for v in (0, 7, 39):
        for state, p in zip(net.states[v], net.eliminate({}, v), strict=True):
            if len(net.states[v]) > 1:
                assert free[f"v{v}={state}"] == pytest.approx(p, abs=1e-9)


RAIN = """network rain { }
variable rain { type discrete [ 2 ] { yes, no }; }
variable grass { type discrete [ 3 ] { dry, wet, "<5" }; }
probability ( rain ) { table 0.2, 0.8; }
probability ( grass | rain ) { (yes) 0.0, 0.9, 0.1; (no) 0.7, 0.2, 0.1; }
"""


def test_a_network_is_read_by_its_path(run: Run) -> None:
    run.write("rain.bif", RAIN)
    with gzip.open(run.folder / "zipped.bif.gz", "wt") as file:
        file.write(RAIN)
    for name in ("rain.bif", "zipped.bif.gz"):
        model = lapis.read(run.folder / name)
        assert lapis.infer(run.folder / name)["grass=dry"] == pytest.approx(0.56)
        assert repr(model).splitlines()[0].endswith("2 variables, 2 tables of 8 numbers")
        assert "dry, wet" in model._repr_html_()


def test_commands_on_a_network(run: Run) -> None:
    run.write("rain.bif", RAIN)
    found = run.json("infer", "rain.bif", "-q", "rain", "--evidence", "grass=wet")
    rain = {row["atom"]: row["probability"] for row in found["atoms"]}
    assert rain == {
        "rain=yes": pytest.approx(0.18 / 0.34),
        "rain=no": pytest.approx(0.16 / 0.34),
    }
    assert found["exact"]
    assert found["log_partition"] == pytest.approx(np.log(0.34))
    run.write("seen.db", "grass(wet)")
    again = run.json("infer", "rain.bif", "seen.db", "-q", "rain")
    assert again["atoms"] == found["atoms"]
    world = run.json("map", "rain.bif", "--evidence", "rain=yes")
    assert [a["atom"] for a in world["atoms"] if a["value"]] == ["grass=wet"]
    assert world["score"] == pytest.approx(np.log(0.18))
    assert run.json("check", "rain.bif")["types"] == {"rain": 2, "grass": 3}
    assert run("plan", "rain.bif")[0] == 0
    assert run.json("ground", "rain.bif")["atoms"] == 5


def test_uai_networks_take_evidence_files(run: Run) -> None:
    run.write("pair.uai", "MARKOV\n2\n2 3\n2\n1 0\n2 0 1\n2 1 3\n6 1 2 3 4 5 6\n")
    table = np.array([[1.0], [3.0]]) * np.arange(1, 7).reshape(2, 3)
    found = run.json("infer", "pair.uai")
    assert found["log_partition"] == pytest.approx(np.log(table.sum()))
    run.write("pair.uai.evid", "1 1 2")
    seen = run.json("infer", "pair.uai", "pair.uai.evid")
    expected = table[:, 2] / table[:, 2].sum()
    values = {row["atom"]: row["probability"] for row in seen["atoms"]}
    assert [values["x0=0"], values["x0=1"]] == pytest.approx(expected)
    assert seen["log_partition"] == pytest.approx(np.log(table[:, 2].sum()))


def test_formulas_of_states_are_queried() -> None:
    model = network_model(parse_bif(RAIN))
    answer = lapis.infer(model, query=["grass=wet v rain=yes"])
    assert answer.probability.tolist() == pytest.approx([0.2 + 0.16])


def test_soft_evidence_of_a_state() -> None:
    model = network_model(parse_bif(RAIN))
    virtual = lapis.infer(model, query="rain", soft_evidence={"grass=<5": 0.8})
    weight = np.array([0.2 * (0.9 + 0.1 * 4), 0.8 * (0.9 + 0.1 * 4)])
    assert virtual["rain=yes"] == pytest.approx(weight[0] / weight.sum())
    fitted = lapis.infer(model, soft_evidence={"grass=dry": 0.5}, soft_as="posterior")
    assert fitted["rain=yes"] == pytest.approx(0.5 * 0.2 / 0.44)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"evidence": "rain=maybe"}, "unknown-state"),
        ({"evidence": "rian=yes"}, "unknown-variable"),
        ({"evidence": "rain"}, "option-value"),
        ({"evidence": ["rain=yes", "rain=no"]}, "contradictory-evidence"),
        ({"evidence": "rain=yes,grass=dry"}, "impossible-evidence"),
        ({"query": "rian"}, "unknown-query"),
        ({"data": lapis.Database.parse("rain(perhaps)")}, "unknown-state"),
        ({"data": lapis.Database.parse("rain(yes)"), "evidence": "rain=no"},
         "contradictory-evidence"),
        ({"soft_evidence": {"rain": 0.5}}, "option-value"),
        ({"method": "lifted"}, "network"),
        ({"engine": "duckdb"}, "network"),
    ],
)  # fmt: skip
def test_errors_about_a_network(given: dict[str, object], code: str) -> None:
    with pytest.raises(lapis.LapisError) as caught:
        lapis.infer(network_model(parse_bif(RAIN)), **given)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_impossible_evidence_names_the_entries() -> None:
    with pytest.raises(lapis.LapisError) as caught:
        lapis.infer(network_model(parse_bif(RAIN)), evidence="rain=yes,grass=dry")
    assert "impossible: rain=yes, grass=dry" in str(caught.value)


def test_other_commands_refuse_networks(tmp_path: Path) -> None:
    path, data = tmp_path / "rain.bif", lapis.Database.parse("rain(yes) grass(wet)")
    path.write_text(RAIN)
    for call in (
        lambda: lapis.learn(path, data),
        lambda: lapis.score(path, data),
        lambda: lapis.count(path, data),
        lambda: lapis.lift(path),
        lambda: lapis.learn_structure(path, data),
        lambda: lapis.fields.from_model(lapis.read(path)),
    ):
        with pytest.raises(lapis.LapisError) as caught:
            call()
        assert caught.value.code == "network"


def test_networks_are_not_printed_as_markov_logic() -> None:
    with pytest.raises(lapis.LapisError, match="no text in Markov logic"):
        print_model(network_model(parse_bif(RAIN)))


def test_every_state_of_every_variable_is_its_own_atom() -> None:
    model = network_model(parse_bif(RAIN))
    names = lapis.infer(model).names
    pairs = itertools.chain(*([f"{v}={s}" for s in states] for v, states in model.types.items()))
    assert list(names) == list(pairs)

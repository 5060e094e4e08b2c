"""`lapis.circuits`: answers by name, against enumeration and the commands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
from circuits.random_factors import all_rows, random_graph
from cli_run import Run
from lapis import circuits
from lapis.circuits.factor_graph import FactorGraph
from lapis.errors import LapisError, TooLarge

COUNTS = {("no", "no"): 40, ("no", "yes"): 4, ("yes", "no"): 5, ("yes", "yes"): 11}
ROWS = np.array([row for row, count in COUNTS.items() for _ in range(count)])
NAMES = ["smokes", "cancer"]


def share(graph: FactorGraph, **fixed: str) -> float:
    """Sum the products of all worlds in which variables have these states."""
    total = 0.0
    for row, score in zip(all_rows(graph), graph.log_score(all_rows(graph)), strict=True):
        named = {n: graph.states[v][row[v]] for v, n in enumerate(graph.names)}
        total += math.exp(score) * all(named[n] == state for n, state in fixed.items())
    return total


def random_states(graph: FactorGraph, rng: np.random.Generator) -> dict[str, str]:
    chosen = [v for v in range(graph.num_variables) if rng.random() < 0.4]
    return {graph.names[v]: str(rng.choice(graph.states[v])) for v in chosen}


@given(st.integers(0, 2**32))
def test_answers_are_those_of_enumeration(seed: int) -> None:
    """Compile, query, sample and score by name; marginals with and without a circuit."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 4)
    evidence, event = random_states(graph, rng), random_states(graph, rng)
    whole, known = share(graph), share(graph, **evidence)
    if known == 0:
        with pytest.raises(LapisError, match="no possible state"):
            circuits.marginals(graph, evidence=evidence)
        return
    compiled = circuits.compile(graph)
    assert math.exp(compiled["log_partition"]) == pytest.approx(whole)  # type: ignore[arg-type]
    assert compiled.circuit is not None
    open_names = [n for n in graph.names if n not in evidence]
    exact = {
        n: {s: share(graph, **evidence, **{n: s}) / known for s in graph.states[v]}
        for v, n in enumerate(graph.names)
        if n in open_names
    }
    asked = circuits.query(compiled.circuit, evidence=evidence)
    for found in (
        circuits.marginals(graph, evidence=evidence).distribution,
        circuits.marginals(compiled.circuit, evidence=evidence).distribution,
        asked.distribution,
    ):
        assert list(found) == open_names
        assert all(found[n] == pytest.approx(exact[n], abs=1e-9) for n in open_names)
    assert asked.probability == pytest.approx(known / whole)
    assert math.exp(circuits.marginals(graph, evidence=evidence).log_partition) == pytest.approx(
        known
    )
    clash = any(evidence.get(n, s) != s for n, s in event.items())
    joint = 0.0 if clash else share(graph, **{**evidence, **event})
    texts = [f"{n}={s}" for n, s in event.items()]
    for query in (event, texts):
        answer = circuits.query(compiled.circuit, query, evidence=evidence)
        assert answer.probability == pytest.approx(joint / known if event else known / whole)
    best = circuits.query(compiled.circuit, evidence=evidence, most_likely=True)
    assert best.most_likely is not None
    assert share(graph, **best.most_likely) == pytest.approx(
        max(
            math.exp(score)
            for row, score in zip(all_rows(graph), graph.log_score(all_rows(graph)), strict=True)
            if all(graph.states[graph.names.index(n)][row[graph.names.index(n)]] == s
                   for n, s in evidence.items())
        )
    )  # fmt: skip
    frame = circuits.sample(compiled.circuit, 5, evidence=evidence, random_state=seed).to_pandas()
    assert list(frame) == list(graph.names)
    for row in frame.to_dict("records"):
        assert share(graph, **row) > 0
        assert all(row[n] == s for n, s in evidence.items())
    logs = circuits.score(compiled.circuit, frame).log_likelihoods
    expected = [share(graph, **row) / whole for row in frame.to_dict("records")]
    assert np.exp(logs) == pytest.approx(expected)


def learned_table() -> tuple[dict[tuple[str, str], float], circuits.Circuit]:
    found = circuits.learn(ROWS, names=NAMES)
    assert found.circuit is not None
    table = {}
    for a, b in COUNTS:
        answer = circuits.query(found.circuit, {"smokes": a, "cancer": b})
        assert answer.probability is not None
        table[a, b] = answer.probability
    return table, found.circuit


def test_rows_of_all_kinds_are_the_same(tmp_path: Path) -> None:
    """Read a file, arrays of texts and of numbers, and frames of three libraries."""
    table, circuit = learned_table()
    assert sum(table.values()) == pytest.approx(1.0)
    columns = {name: ROWS[:, v].tolist() for v, name in enumerate(NAMES)}
    path = tmp_path / "t.csv"
    path.write_text("smokes,cancer\n" + "".join(f"{a},{b}\n" for a, b in ROWS))
    for rows in (path, str(path), pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        found = circuits.learn(rows, valid=rows)
        assert found.circuit is not None
        assert found.circuit.names == ("smokes", "cancer")
        assert found["valid_log_likelihood"] == pytest.approx(found["train_log_likelihood"])
        score = circuits.score(circuit, rows)
        assert score["log_likelihood"] == pytest.approx(
            sum(n * math.log(table[row]) for row, n in COUNTS.items()) / 60
        )
        assert len(score.to_pandas()) == 60
    numbers = circuits.learn((ROWS == "yes").astype(int), names=NAMES)
    assert numbers["train_log_likelihood"] == pytest.approx(found["train_log_likelihood"])
    assert numbers.circuit is not None
    assert circuits.query(numbers.circuit, {"smokes": True}).probability == pytest.approx(
        table["yes", "no"] + table["yes", "yes"]
    )
    some = pd.DataFrame({"cancer": ["yes", None], "smokes": ["yes", "no"]})
    each = [table["yes", "yes"], table["no", "yes"] + table["no", "no"]]
    assert np.exp(circuits.score(circuit, some).log_likelihoods) == pytest.approx(each)
    asked = circuits.query_rows(
        circuit, pl.DataFrame({"cancer": ["yes"]}), evidence_rows=pl.DataFrame({"smokes": ["yes"]})
    )
    given_smoking = table["yes", "yes"] / (table["yes", "yes"] + table["yes", "no"])
    assert np.exp(asked.log_probabilities) == pytest.approx([given_smoking])


def test_a_network_says_that_it_samples() -> None:
    found = circuits.learn(ROWS, names=NAMES, edge_costs=[0])
    assert found.circuit is None
    assert found.network is not None
    table, _ = learned_table()
    answer = circuits.query(found.network, "cancer", evidence="smokes=yes")
    chance = table["yes", "yes"] / (table["yes", "yes"] + table["yes", "no"])
    assert not answer.exact
    assert answer.distribution_stderr is not None
    assert abs(answer["cancer"]["yes"] - chance) < 4 * answer.distribution_stderr["cancer"]["yes"]
    assert list(answer.to_pandas()) == ["variable", "state", "probability", "stderr"]
    both = circuits.query(found.network, ["smokes", "cancer"], evidence={"smokes": "yes"})
    assert both["smokes"] == {"no": 0.0, "yes": 1.0}
    exact = circuits.marginals(found.network, evidence={"smokes": "yes"})
    assert exact["cancer"]["yes"] == pytest.approx(chance)
    compiled = circuits.compile(found.network)
    assert compiled.circuit is not None
    again = circuits.query(compiled.circuit, {"cancer": "yes"}, evidence={"smokes": "yes"})
    assert again.probability == pytest.approx(chance)
    samples = circuits.sample(found.network, 3, evidence={"smokes": "yes"})
    assert not samples.exact
    assert samples.remarks() == ["not exact: each sample is the end of a Gibbs chain of 100 sweeps"]
    assert circuits.sample(found.network, 3).exact


def test_models_are_compiled_and_approximated_by_name() -> None:
    model = lapis.parse("t = {A, B}\nP(t)\nQ(t)\n1 P(x) => Q(x)\n0.5 P(x)")
    data = lapis.Database.parse("Q(A)")
    answer = lapis.infer(model, data, query=["P"])
    found = circuits.marginals(model, data, ["P"])
    assert {name: own["true"] for name, own in found.distribution.items()} == pytest.approx(
        answer.marginals
    )
    assert found.log_partition == pytest.approx(answer.log_partition)
    for make in (circuits.compile, circuits.approximate):
        made = make(model, data, ["P"])
        assert made["log_partition"] == pytest.approx(answer.log_partition)
        assert made.circuit is not None
        asked = circuits.query(made.circuit, {"P(A)": True})
        assert asked.probability == pytest.approx(answer["P(A)"], abs=0.02)


def test_what_is_saved_is_read(tmp_path: Path) -> None:
    found = circuits.learn(ROWS, names=NAMES)
    found.save(tmp_path / "c.npz")
    found.save(tmp_path / "n.tbn")
    circuit, network = circuits.read(tmp_path / "c.npz"), circuits.read(tmp_path / "n.tbn")
    assert isinstance(circuit, circuits.Circuit)
    assert isinstance(network, circuits.TreeNetwork)
    table, _ = learned_table()
    assert circuits.query(circuit, {"smokes": "no", "cancer": "no"}).probability == pytest.approx(
        table["no", "no"]
    )
    kept = circuits.info(tmp_path / "c.npz")
    assert (kept["leaves"], kept["edges"]) == (circuits.info(network)["leaves"], 20)
    assert "leaves" not in circuits.info(circuit).values
    circuits.sample(circuit, 4).save(tmp_path / "s.csv")
    assert len(pd.read_csv(tmp_path / "s.csv")) == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: circuits.query(c, {"smoks": "yes"}), "unknown variable 'smoks'"),
        (lambda c: circuits.query(c, {"smokes": 3}), "unknown state of smokes '3'"),
        (lambda c: circuits.query(c, burn_in=-1), "burn_in must be a whole number of at least 0"),
        (lambda c: circuits.sample(c, 0), "num_samples must be a whole number of at least 1"),
        (lambda c: circuits.learn(ROWS, names=["a"]), "names: 1 different ones for the 2 columns"),
        (lambda c: circuits.learn(ROWS, names=["a", "a"]), "names: 1 different ones for the 2"),
        (lambda c: circuits.learn([[0, 1]]), "rows: expected a path, an array or a frame"),
        (lambda c: circuits.learn(ROWS, edge_costs=[1, 2]), "several costs need held-out rows"),
        (lambda c: circuits.learn(ROWS, edge_costs=[-1]), "edge_costs must be numbers of at least"),
        (lambda c: circuits.learn(ROWS, edge_costs=[0], max_edges=9), "max_edges limits a circuit"),
        (lambda c: circuits.learn(ROWS, prior="x"), "prior must be thesis or libra"),
        (lambda c: circuits.learn(ROWS, method="best"), "method must be greedy or quick or tree"),
        (lambda c: circuits.score(c, np.zeros((2, 3), int)), "rows has 3 columns"),
        (lambda c: circuits.marginals("m.bif", evidence="a=b"), "m.bif: there is no such file"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_keywords(call: Any, message: str) -> None:
    _, circuit = learned_table()
    with pytest.raises(LapisError, match=message):
        call(circuit)


def test_too_large() -> None:
    with pytest.raises(TooLarge, match="no circuit of at most 9 edges"):
        circuits.learn(ROWS, names=NAMES, max_edges=9)
    with pytest.raises(TooLarge, match="raise max_edges"):
        circuits.compile(random_graph(np.random.default_rng(1), 5), max_edges=1)


def test_results_show_as_text_and_html() -> None:
    _, circuit = learned_table()
    answer = circuits.query(circuit, evidence={"smokes": "yes"}, most_likely=True)
    for text in (str(answer), answer._repr_html_()):
        assert "most likely" in text
        assert "exact" in text
    assert repr(circuits.learn(ROWS, names=NAMES)).startswith("<LearnedCircuit: 20 edges")


COINS = """variable a { type discrete [ 2 ] { h, t }; }
variable b { type discrete [ 2 ] { h, t }; }
probability ( a ) { table 0.25, 0.75; }
probability ( b | a ) { (h) 0.5, 0.5; (t) 0.1, 0.9; }
"""
COMMANDS: Mapping[str, Any] = {
    "learn t.csv": lambda: circuits.learn("t.csv"),
    "learn t.csv --method tree --seed 3": lambda: circuits.learn(
        "t.csv", method="tree", random_state=3
    ),
    "score c.npz t.csv": lambda: circuits.score("c.npz", "t.csv"),
    "score n.tbn t.csv": lambda: circuits.score("n.tbn", "t.csv"),
    "query c.npz": lambda: circuits.query("c.npz"),
    "query c.npz -q cancer=yes,smokes --evidence smokes=no": lambda: circuits.query(
        "c.npz", "cancer=yes,smokes", evidence={"smokes": "no"}
    ),
    "query n.tbn -q cancer --evidence smokes=no --seed 1": lambda: circuits.query(
        "n.tbn", "cancer", evidence={"smokes": "no"}, random_state=1
    ),
    "query c.npz --rows t.csv": lambda: circuits.query_rows("c.npz", "t.csv"),
    "query n.tbn --rows t.csv --burn-in 5": lambda: circuits.query_rows(
        "n.tbn", "t.csv", burn_in=5
    ),
    "sample c.npz -n 7 --seed 2": lambda: circuits.sample("c.npz", 7, random_state=2),
    "sample n.tbn -n 7 --evidence smokes=no": lambda: circuits.sample(
        "n.tbn", 7, evidence="smokes=no"
    ),
    "info c.npz": lambda: circuits.info("c.npz"),
    "info n.tbn": lambda: circuits.info("n.tbn"),
    "compile coins.bif --evidence b=h": lambda: circuits.compile("coins.bif", evidence={"b": "h"}),
    "compile m.mln d.db -q Smokes": lambda: circuits.compile("m.mln", "d.db", "Smokes"),
    "compile n.tbn": lambda: circuits.compile("n.tbn"),
    "marginals coins.bif one.evid": lambda: circuits.marginals("coins.bif", "one.evid"),
    "marginals m.mln d.db -q Smokes": lambda: circuits.marginals("m.mln", "d.db", ["Smokes"]),
    "approximate coins.bif --parameters VI": lambda: circuits.approximate(
        "coins.bif", parameters="VI"
    ),
}


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_prints_what_the_function_returns(run: Run, line: str) -> None:
    run.write("t.csv", "smokes,cancer\n" + "".join(f"{a},{b}\n" for a, b in ROWS))
    run.write("coins.bif", COINS)
    run.write("one.evid", "1 0 0\n")
    for name in ("c.npz", "n.tbn"):
        circuits.learn("t.csv").save(name)
    printed = run.json("circuit", *line.split())
    found = COMMANDS[line]().to_json()
    for document in (printed, found):
        document.pop("seconds", None)
    assert found == printed


def test_importing_lapis_loads_no_circuits() -> None:
    import subprocess
    import sys

    code = (
        "import sys, lapis; assert not {'numpy', 'lapis.circuits.construction'} & {*sys.modules}; "
        "lapis.circuits.learn; lapis.fields.learn; "
        "assert 'lapis.circuits.construction' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

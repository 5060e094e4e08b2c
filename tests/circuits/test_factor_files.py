"""Networks in BIF and UAI text: their meaning and their errors."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import lapis
from circuits.random_factors import enumerate_marginals
from lapis.circuits.compilation.compile_model import compile_factors
from lapis.circuits.evaluation import no_evidence, posteriors
from lapis.circuits.factor_files import parse_bif, parse_uai, parse_uai_evidence, read_factor_file
from lapis.grounding.bottom_up import ground
from lapis.network.export import write_network
from lapis.problem.task import build_task

RAIN = """network rain { property made by hand; }
// Pearl's street
variable season { type discrete [ 3 ] { dry, wet, "in between" }; }
variable rain { type discrete [ 2 ] { yes, no }; }
variable sprinkler { type discrete [ 2 ] { on, off }; }
variable street { type discrete [ 2 ] { wet, dry }; }
probability ( street | rain, sprinkler ) {
  (yes, on) 0.99, 0.01;
  (no, off) 0.0, 1.0;
  default 0.9, 0.1;
}
probability ( season ) { table 0.3, 0.3, 0.4; }
probability ( rain | season ) { table 0.1, 0.8, 0.3,  0.9, 0.2, 0.7; }
probability ( sprinkler | season ) { (dry) 0.5, 0.5; (wet) 0.1, 0.9; (in between) 0.2, 0.8; }
"""


def test_bif_is_the_product_of_its_tables() -> None:
    graph = parse_bif(RAIN)
    p_season = [0.3, 0.3, 0.4]
    p_rain, p_on = [0.1, 0.8, 0.3], [0.5, 0.1, 0.2]
    wet = 0.0
    for season, rain, on in itertools.product(range(3), range(2), range(2)):
        p = p_season[season]
        p *= 1 - p_rain[season] if rain else p_rain[season]
        p *= 1 - p_on[season] if on else p_on[season]
        wet += p * {(0, 0): 0.99, (1, 1): 0.0}.get((rain, on), 0.9)
    circuit = compile_factors(graph).circuit
    value, found = posteriors(circuit, no_evidence(circuit))
    names = dict(zip(graph.names, np.split(found[0], circuit.state_start[1:-1]), strict=True))
    assert names["street"][0] == pytest.approx(wet, abs=1e-12)
    assert names["rain"][0] == pytest.approx(np.dot(p_season, p_rain), abs=1e-12)
    assert value[0] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(found[0], enumerate_marginals(graph)[1], atol=1e-12)


def test_parents_come_before_their_children() -> None:
    graph = parse_bif(RAIN)
    assert graph.child is not None
    place = {int(v): at for at, v in enumerate(graph.child)}
    for factor in range(graph.num_factors):
        assert all(place[int(v)] <= factor for v in graph.variables_of(factor))


def test_uai_and_its_evidence() -> None:
    graph = parse_uai("MARKOV\n2\n2 3\n2\n2 0 1\n1 0\n\n6\n 1 2 3\n 4 5 0\n\n2\n 0.5 2\n")
    table = np.array([[1, 2, 3], [4, 5, 0]]) * np.array([[0.5], [2]])
    log_z, marginal = enumerate_marginals(graph)
    assert log_z == pytest.approx(np.log(table.sum()))
    np.testing.assert_allclose(marginal[2:], table.sum(axis=0) / table.sum())
    given = graph.condition(parse_uai_evidence("1\n1 1 1", graph))
    assert enumerate_marginals(given)[0] == pytest.approx(np.log(table[:, 1].sum()))


def test_our_own_uai_comes_back(tmp_path: Path) -> None:
    model = lapis.parse("t = {A, B}\nP(t)\nQ(t, t)\n1.5 P(x) => Q(x, y)\n-1 Q(x, x)")
    network = ground(build_task(model, None, ["P", "Q"]).worlds[0].problem)
    write_network(network, tmp_path / "m.uai")
    circuit = compile_factors(read_factor_file(tmp_path / "m.uai")).circuit
    exact = lapis.infer(model, query=["P", "Q"])
    assert exact.log_partition is not None
    found = posteriors(circuit, no_evidence(circuit))[0][0]
    assert found == pytest.approx(exact.log_partition - network.constant_score)


WRONG = {
    RAIN.replace("(yes, on)", "(yes, up)"): (
        "<bif>:8:4: these are not states of the parents\n"
        "      (yes, up) 0.99, 0.01;\n"
        "       ^^^^^^^"
    ),
    RAIN.replace("0.99, 0.01", "0.99, 0.5"): (
        "<bif>:7:13: a row does not sum to 1\n"
        "    probability ( street | rain, sprinkler ) {\n"
        "                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^"
    ),
    RAIN.replace("street | rain", "street | rainn"): (
        "<bif>:7:24: unknown variable 'rainn'\n"
        "    probability ( street | rainn, sprinkler ) {\n"
        "                           ^^^^^\n"
        "    did you mean 'rain'?"
    ),
    RAIN.replace("0.3, 0.3, 0.4", "0.3, 0.7"): (
        "<bif>:12:32: 3 numbers expected, not 2\n"
        "    probability ( season ) { table 0.3, 0.7; }\n"
        "                                   ^^^^^^^^"
    ),
    "variable a { type discrete [ 2 ] { x }; }": (
        "<bif>:1:36: a should have 2 different states\n"
        "    variable a { type discrete [ 2 ] { x }; }\n"
        "                                       ^"
    ),
    "hello": (
        "<bif>:1:1: expected a block of a network\n"
        "    hello\n"
        "    ^^^^^\n"
        "    a file has blocks `network`, `variable` and `probability`"
    ),
    "MARKOV 1 2 1 1 0 3 1 2 3": (
        "<uai>:1:18: this table should have 2 entries\n"
        "    MARKOV 1 2 1 1 0 3 1 2 3\n"
        "                     ^"
    ),
    "MARKOV 1 2 1 1 0 2 1": (
        "<uai>:1:20: the file ends too early\n    MARKOV 1 2 1 1 0 2 1\n                       ^"
    ),
    "MARKOV 1 two": ("<uai>:1:10: expected a number of states\n    MARKOV 1 two\n             ^^^"),
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_wrong_files_are_located(text: str) -> None:
    parse = parse_uai if text.startswith("MARKOV") else parse_bif
    with pytest.raises(lapis.LapisError) as raised:
        parse(text)
    assert str(raised.value) == WRONG[text]

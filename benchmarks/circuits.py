"""Circuits learned from data, compared with Libra; learning from rows with missing values.

    python -m benchmarks.circuits [libra|queries|missing] …

Reads `density` from LAPIS_DATA. Seconds are CPU seconds of this process with compiled kernels.
Libra (OCaml) was run on two cores like these. Log-likelihoods are means over test rows, in nats.
Tables 5.4 and 5.5 and Figure 5.3 of Lowd's thesis are in `benchmarks/papers`.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from benchmarks.papers.density import DensityRows, read_density
from benchmarks.papers.thesis_figure53 import draw_queries
from benchmarks.protocol import peak_memory, timed

from lapis.circuits.evaluation import log_conditionals
from lapis.circuits.learning.learn_rows import EDGE_COSTS, learn_rows
from lapis.circuits.learning.split_search import Method, SearchResult, learn_circuit
from lapis.circuits.tree_networks.tree_gibbs import TreeChainOptions, estimate_conditionals
from lapis.registry.options import CircuitLearner

EDGE_COST = 0.1
# data, method: test log-likelihood, edges, seconds of Libra (plants: not converged after that)
LIBRA: dict[tuple[str, Method], tuple[float, int, float]] = {
    ("nltcs", "greedy"): (-6.0321, 8611, 10.3),
    ("nltcs", "quick"): (-6.0320, 8032, 4.7),
    ("kdd", "quick"): (-2.1593, 38531, 271),
    ("msweb", "quick"): (-9.9686, 31830, 248),
    ("plants", "quick"): (-13.295, 90111, 900),
}
# ms a query and conditional log-likelihood a query variable, circuit then Gibbs (Libra).
LIBRA_QUERIES = {
    "nltcs": (0.23, -0.3620, 7.4, -0.3628),
    "kdd": (1.26, -0.0338, 38.0, -0.0368),
    "msweb": (1.17, -0.0339, 86.0, -0.0514),
}


def learn(data: DensityRows, method: Method = "quick") -> tuple[SearchResult, float]:
    return timed(
        lambda: learn_circuit(
            data.tuning, data.names, data.states, edge_cost=EDGE_COST, method=method
        )
    )


def warm() -> None:
    """Compile the kernels."""
    rows = np.random.default_rng(0).integers(0, 2, (200, 4))
    names, states = [f"x{v}" for v in range(4)], [["0", "1"]] * 4
    learn_circuit(rows, names, states, method="greedy")
    found = learn_circuit(rows, names, states)
    query = np.array([[1, -1, -1, -1]] * 8)
    assert found.circuit is not None
    log_conditionals(found.circuit, query, query)
    estimate_conditionals(
        found.network, query, -np.ones_like(query), TreeChainOptions(num_sweeps=2)
    )


def compare_with_libra() -> None:
    print(f"\nLearnAC, k_e {EDGE_COST}          Libra                        ours")
    print("data    method     test LL   edges       s     test LL   edges       s  converged")
    for (name, method), (value, edges, seconds) in LIBRA.items():
        data = read_density(name)
        found, cpu = learn(data, method)
        assert found.circuit is not None
        ours = found.network.log_likelihoods(data.test).mean()
        print(
            f"{name:8}{method:8}{value:10.4f}{edges:8,}{seconds:8.1f}{ours:12.4f}"
            f"{found.circuit.num_edges:8,}{cpu:8.1f}  {'yes' if found.converged else 'no'}"
        )
    print(f"at most {peak_memory():.2f} GB")


def compare_queries() -> None:
    print("\n1000 queries (30 % asked, 30 % given): ms a query, conditional LL a query variable")
    print(
        "data       edges     Libra circuit       ours circuit        Libra Gibbs      ours Gibbs"
    )
    for name, (ms, value, gibbs_ms, gibbs_value) in LIBRA_QUERIES.items():
        data = read_density(name)
        found, _ = learn(data)
        assert found.circuit is not None
        query, evidence, asked = draw_queries(data.test, (30, 30), 1000)
        began = time.process_time()
        exact = log_conditionals(found.circuit, query, evidence)
        middle = time.process_time()
        guess = estimate_conditionals(
            found.network, query, evidence, TreeChainOptions()
        ).log_probability
        end = time.process_time()
        print(
            f"{name:8}{found.circuit.num_edges:8,}{ms:10.2f}{value:10.4f}{middle - began:9.3f}"
            f"{exact.mean() / asked:10.4f}{gibbs_ms:9.1f}{gibbs_value:10.4f}{end - middle:7.1f}"
            f"{guess.mean() / asked:9.4f}"
        )


def compare_missing() -> None:
    """Remove cells at random; compare learning from all rows with learning from complete rows."""
    print("\nMissing values, nltcs, test LL  complete rows   only these    all rows   CPU s")
    data = read_density("nltcs")
    rng = np.random.default_rng(0)
    settings: list[tuple[CircuitLearner, int, float]] = [
        ("quick", 1, 0.5),
        ("tree", 8, EDGE_COSTS[0]),
    ]
    for share in (0.0, 0.1, 0.3):
        rows = np.where(rng.random(data.tuning.shape) < share, -1, data.tuning)
        complete = rows[(rows >= 0).all(axis=1)]
        for method, components, price in settings:
            values = []
            for part in (complete, rows):
                began = time.process_time()
                found = learn_rows(
                    part, None, data.names, data.states, method=method, edge_costs=(price,),
                    num_components=components,
                )  # fmt: skip
                cpu = time.process_time() - began
                values.append(found.fit.log_likelihoods(data.test).mean())
            print(
                f"{share:4.0%} missing, {method:8}{len(complete):22,}{values[0]:13.4f}"
                f"{values[1]:12.4f}{cpu:8.1f}",
                flush=True,
            )


SECTIONS = {
    "libra": compare_with_libra,
    "queries": compare_queries,
    "missing": compare_missing,
}

if __name__ == "__main__":
    warm()
    for section in sys.argv[1:] or SECTIONS:
        SECTIONS[section]()

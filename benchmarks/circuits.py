"""Circuits learned from data: tables 5.4, 5.5 and figure 5.3 of the thesis, and Libra, beside ours.

    python benchmarks/circuits.py [libra] [thesis] [queries] [figure] [mixtures]

Reads `density` from LAPIS_DATA (default ../shared/data). Seconds are CPU seconds of this process,
kernels warm; the thesis had 2.8 GHz and hours of wall time, Libra (OCaml) was run on two cores like
these. Log-likelihoods are means of test rows, in nats. Without arguments: all but `thesis`.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lapis.circuits.gibbs import gibbs_log_conditionals
from lapis.circuits.learn import Learned, Method, learn_circuit
from lapis.circuits.mixture import learn_mixture
from lapis.circuits.queries import log_conditionals
from lapis.circuits.table import read_table, rows_of, variables_of

DATA = Path(os.environ.get("LAPIS_DATA", "../shared/data")) / "density"
FIGURE = Path("circuits-figure-5-3.png")

# data, method, k_e: test log-likelihood, edges, seconds of Libra (plants: not converged after that)
LIBRA: dict[tuple[str, Method, float], tuple[float, int, float]] = {
    ("nltcs", "greedy", 0.1): (-6.0321, 8611, 10.3),
    ("nltcs", "quick", 0.1): (-6.0320, 8032, 4.7),
    ("kdd", "quick", 0.1): (-2.1593, 38531, 271),
    ("msweb", "quick", 0.1): (-9.9686, 31830, 248),
    ("plants", "quick", 0.1): (-13.295, 90111, 900),
}
# Table 5.4: log-likelihood, edges, leaves, mean and most parents, hours; then WinMine.
THESIS = {
    "kdd": ((-2.16, 365_000, 4463, 13.0, 36, 3.0), (-2.16, None, 2267, 16.3, 35, 0.05)),
    "msweb": ((-9.85, 256_000, 1870, 3.1, 127, 3.0), (-9.69, None, 1710, 5.2, 94, 0.03)),
    "eachmovie": ((-54.9, 372_000, 6521, 6.5, 17, 22.0), (-53.7, None, 4830, 8.0, 27, 0.05)),
}
# What the validation set chooses from; edges below 0.02 buy little, and take long.
GRID = {"kdd": ((0.05, 0.02), (0.0, 0.5)), "msweb": ((0.02, 0.01), (0.5, 1.0)),
        "eachmovie": ((0.1, 0.05), (0.5, 1.0))}  # fmt: skip
BASELINE_COSTS = (0.0, 0.5, 1.0, 2.0)
# ms a query and conditional log-likelihood a query variable, circuit then Gibbs (Libra).
LIBRA_QUERIES = {
    "nltcs": (0.23, -0.3620, 7.4, -0.3628),
    "kdd": (1.26, -0.0338, 38.0, -0.0368),
    "msweb": (1.17, -0.0339, 86.0, -0.0514),
}
# Components, starts, k_e, k_p; what modern circuit learners reach, about.
MIXTURES = {
    "nltcs": (10, 5, 0.2, 0.0, -6.00),
    "kdd": (10, 4, 0.5, 0.0, -2.13),
    "plants": (20, 6, 0.3, 0.0, -12.5),
    "msweb": (10, 3, 0.3, 0.0, -9.7),
    "msnbc": (20, 1, 1.0, 0.0, -6.04),
    "jester": (10, 5, 0.5, 0.0, -52.6),
    "baudio": (10, 5, 0.5, 0.0, -39.8),
    "bnetflix": (10, 5, 0.5, 0.0, -56.4),
    "accidents": (5, 4, 0.1, 0.0, -27.0),
    "dna": (2, 4, 0.3, 0.0, -81.0),
}


class Data(NamedTuple):
    names: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


def load(name: str) -> Data | None:
    """The three parts of a data set; EachMovie has no training part, so its valid part is used."""
    parts = ("train", "valid", "test") if name != "eachmovie" else ("valid", "valid", "test")
    paths = [DATA / name / f"{name}.{part}.data.gz" for part in parts]
    if not all(path.exists() for path in paths):
        print(f"{name}: {DATA / name} is missing; set LAPIS_DATA")
        return None
    tables = [read_table(path, "no") for path in paths]
    names, states = variables_of(tables)
    train, valid, test = (rows_of(table, names, states) for table in tables)
    if name == "eachmovie":
        train, valid = train[::2], valid[1::2]
        print("eachmovie: there is no training part; halves of the validation part are used")
    return Data(names, states, train, valid, test)


def timed(work: Callable[[], Learned]) -> tuple[Learned, float]:
    began = time.process_time()
    return work(), time.process_time() - began


def learn(data: Data, rows: np.ndarray, **options: object) -> tuple[Learned, float]:
    return timed(lambda: learn_circuit(rows, data.names, data.states, **options))  # type: ignore[arg-type]


def memory() -> str:
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB"


def warm() -> None:
    """Compile the kernels."""
    rows = np.random.default_rng(0).integers(0, 2, (200, 4))
    names, states = [f"x{v}" for v in range(4)], [["0", "1"]] * 4
    for method in ("greedy", "quick"):
        found = learn_circuit(rows, names, states, method=method)  # type: ignore[arg-type]
    query = np.array([[1, -1, -1, -1]] * 8)
    assert found.circuit is not None
    log_conditionals(found.circuit, query, query)
    gibbs_log_conditionals(found.network, query, -np.ones_like(query), num_sweeps=2)
    learn_mixture(rows, names, states, num_components=2)


def compare_with_libra() -> None:
    print("\nLearnAC, k_e 0.1          Libra                        ours")
    print("data    method     test LL   edges       s     test LL   edges       s  converged")
    for (name, method, price), (value, edges, seconds) in LIBRA.items():
        if (data := load(name)) is None:
            continue
        found, cpu = learn(data, data.train, edge_cost=price, method=method)
        assert found.circuit is not None
        ours = found.network.log_likelihoods(data.test).mean()
        print(
            f"{name:8}{method:8}{value:10.4f}{edges:8,}{seconds:8.1f}{ours:12.4f}"
            f"{found.circuit.num_edges:8,}{cpu:8.1f}  {'yes' if found.converged else 'no'}"
        )
    print(f"at most {memory()}")


def compare_with_thesis() -> None:
    print("\nTable 5.4            test LL     edges  leaves  parents, most    CPU s     k_e, k_p")
    for name, (circuit_row, baseline_row) in THESIS.items():
        if (data := load(name)) is None:
            continue
        print(f"{name}: thesis AC-Quick   {describe(circuit_row)}")
        spent, best, chosen = 0.0, -np.inf, (0.0, 0.0)
        for prices in product(*GRID[name]):
            found, cpu = learn(data, data.train, edge_cost=prices[0], parameter_cost=prices[1])
            spent += cpu
            value = float(found.network.log_likelihoods(data.valid).mean())
            if value > best:
                best, chosen, kept = value, prices, found
        print(f"{name}: ours AC-Quick     {figures(kept, data)}{spent:9.0f}     {chosen}")
        print(f"{name}: thesis WinMine    {describe(baseline_row)}")
        spent, best = 0.0, -np.inf
        for price in BASELINE_COSTS:
            found, cpu = learn(data, data.train, parameter_cost=price, with_circuit=False)
            spent += cpu
            value = float(found.network.log_likelihoods(data.valid).mean())
            if value > best:
                best, chosen, kept = value, (0.0, price), found
        print(f"{name}: ours, no circuit  {figures(kept, data)}{spent:9.0f}     {chosen}")
    print(f"at most {memory()}")


def describe(row: tuple[float, int | None, int, float, int, float]) -> str:
    value, edges, leaves, parents, most, hours = row
    shown = "" if edges is None else f"{edges:,}"
    return f"{value:10.4f}{shown:>10}{leaves:8,}{parents:7.1f}{most:5} {hours * 3600:9.0f}"


def figures(found: Learned, data: Data) -> str:
    parents = [len(one) for one in found.network.parents()]
    edges = "" if found.circuit is None else f"{found.circuit.num_edges:,}"
    value = found.network.log_likelihoods(data.test).mean()
    return (
        f"{value:10.4f}{edges:>10}{found.network.num_leaves:8,}{np.mean(parents):7.1f}"
        f"{max(parents):5} "
    )


def make_queries(
    rows: np.ndarray, share_asked: float, share_given: float, num_queries: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, int]:
    """Random variables of random test rows as queries and evidence; how many are asked."""
    rng = np.random.default_rng(seed)
    num_variables = rows.shape[1]
    asked, given = round(share_asked * num_variables), round(share_given * num_variables)
    query = np.full((num_queries, num_variables), -1)
    evidence = query.copy()
    for number, row in enumerate(rows[rng.integers(len(rows), size=num_queries)]):
        order = rng.permutation(num_variables)
        query[number, order[:asked]] = row[order[:asked]]
        evidence[number, order[asked : asked + given]] = row[order[asked : asked + given]]
    return query, evidence, asked


def compare_queries() -> None:
    print("\n1000 queries (30 % asked, 30 % given): ms a query, conditional LL a query variable")
    print(
        "data       edges     Libra circuit       ours circuit        Libra Gibbs      ours Gibbs"
    )
    for name, (ms, value, gibbs_ms, gibbs_value) in LIBRA_QUERIES.items():
        if (data := load(name)) is None:
            continue
        found, _ = learn(data, data.train, edge_cost=0.1)
        assert found.circuit is not None
        query, evidence, asked = make_queries(data.test, 0.3, 0.3, 1000)
        began = time.process_time()
        exact = log_conditionals(found.circuit, query, evidence)
        middle = time.process_time()
        guess = gibbs_log_conditionals(found.network, query, evidence)
        end = time.process_time()
        print(
            f"{name:8}{found.circuit.num_edges:8,}{ms:10.2f}{value:10.4f}{middle - began:9.3f}"
            f"{exact.mean() / asked:10.4f}{gibbs_ms:9.1f}{gibbs_value:10.4f}{end - middle:7.1f}"
            f"{guess.mean() / asked:9.4f}"
        )


def draw_figure() -> None:
    """Figure 5.3: accuracy against the share of evidence, and against the share asked."""
    from matplotlib.figure import Figure

    num_queries = {"nltcs": 60, "kdd": 25}  # kdd takes minutes
    chains = {"circuit, quick": 0, "Gibbs, fast": 1, "Gibbs, medium": 10}
    shares = np.array([0.0, 0.25, 0.5])
    panels: list[tuple[str, Sequence[tuple[float, float]]]] = [
        ("evidence", [(0.3, given) for given in shares]),
        ("query", [(asked, 0.3) for asked in (0.1, 0.3, 0.5)]),
    ]
    names = [name for name in num_queries if load(name) is not None]
    picture = Figure(figsize=(10, 3.6 * len(names)), layout="constrained")
    axes = picture.subplots(len(names), 2, squeeze=False)
    for row, name in enumerate(names):
        data = load(name)
        assert data is not None
        found, _ = learn(data, data.train, edge_cost=0.1)
        baseline, _ = learn(data, data.train, parameter_cost=1.0, with_circuit=False)
        assert found.circuit is not None
        for column, (what, pairs) in enumerate(panels):
            for method, num_chains in chains.items():
                values = []
                for pair in pairs:
                    query, evidence, asked = make_queries(data.test, *pair, num_queries[name])
                    if not num_chains:
                        found_here = log_conditionals(found.circuit, query, evidence)
                    else:
                        found_here = gibbs_log_conditionals(
                            baseline.network, query, evidence, num_chains=num_chains
                        )
                    values.append(found_here.mean() / asked)
                varied = [100 * pair[1 - column] for pair in pairs]
                axes[row, column].plot(varied, values, marker="o", ms=4, label=method)
            axes[row, column].set(
                title=f"{name}, {num_queries[name]} queries: 30 % "
                f"{'asked' if what == 'evidence' else 'given'}",
                xlabel=f"{what} variables (%)",
                ylabel="log P per query variable",
            )
            axes[row, column].legend(frameon=False)
    picture.savefig(FIGURE, dpi=120)
    print(f"\nfigure 5.3 drawn: {FIGURE}")


def compare_mixtures() -> None:
    print("\nMixtures       aim     components × starts  k_e   edges   valid LL   test LL   CPU s")
    for name, (components, starts, price, parameter_price, aim) in MIXTURES.items():
        if (data := load(name)) is None:
            continue
        began = time.process_time()
        found = learn_mixture(
            data.train, data.names, data.states, num_components=components, num_starts=starts,
            edge_cost=price, parameter_cost=parameter_price, valid=data.valid,
        )  # fmt: skip
        cpu = time.process_time() - began
        edges = sum(one.num_edges + 3 for one in found.circuit)
        valid, test = (found.log_likelihoods(rows).mean() for rows in (data.valid, data.test))
        print(
            f"{name:10}{aim:9.2f}{components:12} ×{starts:3}{price:12.2f}{edges:9,}{valid:10.4f}"
            f"{test:10.4f}{cpu:8.0f}",
            flush=True,
        )
    print(f"at most {memory()}")


SECTIONS = {
    "libra": compare_with_libra,
    "queries": compare_queries,
    "figure": draw_figure,
    "mixtures": compare_mixtures,
    "thesis": compare_with_thesis,
}

if __name__ == "__main__":
    warm()
    for section in sys.argv[1:] or ["libra", "queries", "figure", "mixtures"]:
        SECTIONS[section]()

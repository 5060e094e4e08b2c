"""Circuits learned from data, compared with Libra and with chapter 5 of Lowd's thesis.

Tables 5.4, 5.5 and Figure 5.3 of Lowd, "Efficient learning and inference in rich statistical
representations", PhD thesis, University of Washington.

    python benchmarks/circuits.py [libra|thesis|table|queries|figure|best|missing] … [kdd] …

Reads `density` from LAPIS_DATA. Seconds are CPU seconds of this process with compiled kernels. The
thesis used a 2.8 GHz machine and hours of wall time; Libra (OCaml) was run on two cores like these.
Log-likelihoods are means over test rows, in nats. Without arguments: all except `thesis` and
`table`, on all data. Names of data sets restrict the data.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from protocol import DATA, has_data, peak_memory, timed

from lapis.circuits.circuit import Circuit
from lapis.circuits.evaluation import log_conditionals
from lapis.circuits.learning.learn_rows import EDGE_COSTS, learn_rows
from lapis.circuits.learning.mixture import learn_mixture
from lapis.circuits.learning.split_search import Method, SearchResult, learn_circuit
from lapis.circuits.row_table import code_rows, merge_variables, read_table
from lapis.circuits.tree_networks.compile_network import compile_network
from lapis.circuits.tree_networks.tree_gibbs import TreeChainOptions, estimate_conditionals
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.errors import TooLarge
from lapis.registry.options import CircuitLearner

DENSITY = DATA / "density"
FIGURE = Path("circuits-figure-5-3.png")

# data, method, k_e: test log-likelihood, edges, seconds of Libra (plants: not converged after that)
LIBRA: dict[tuple[str, Method, float], tuple[float, int, float]] = {
    ("nltcs", "greedy", 0.1): (-6.0321, 8611, 10.3),
    ("nltcs", "quick", 0.1): (-6.0320, 8032, 4.7),
    ("kdd", "quick", 0.1): (-2.1593, 38531, 271),
    ("msweb", "quick", 0.1): (-9.9686, 31830, 248),
    ("plants", "quick", 0.1): (-13.295, 90111, 900),
}


class Row54(NamedTuple):
    """A column of Table 5.4; compiled edges are those of c2d, or a lower bound of them."""

    log_likelihood: float
    edges: int | None
    leaves: int
    parents_mean: float
    parents_max: int
    treewidth: int  # by min-fill
    compiled: str
    hours: float


THESIS = {
    "kdd": {
        "greedy": Row54(-2.16, 382_000, 4574, 13.2, 37, 38, ">18.2M", 50),
        "quick": Row54(-2.16, 365_000, 4463, 13.0, 36, 38, "3664k", 3),
        "free": Row54(-2.16, None, 2267, 16.3, 35, 53, ">39.5M", 0.05),
    },
    "msweb": {
        "greedy": Row54(-9.85, 204_000, 1353, 2.5, 114, 114, ">23.5M", 8),
        "quick": Row54(-9.85, 256_000, 1870, 3.1, 127, 127, ">44.6M", 3),
        "free": Row54(-9.69, None, 1710, 5.2, 94, 118, ">63.5M", 0.03),
    },
    "eachmovie": {
        "greedy": Row54(-55.7, 155_000, 4070, 5.0, 13, 35, "207k", 72),
        "quick": Row54(-54.9, 372_000, 6521, 6.5, 17, 54, "855k", 22),
        "free": Row54(-53.7, None, 4830, 8.0, 27, 281, ">27.3M", 0.05),
    },
}
COMPILED_EDGES = 1_000_000  # beyond which a network is not compiled
# The validation set chooses among these; the thesis went down to 0.01 too.
GRID = {"kdd": ((0.2, 0.1, 0.05), (0.0, 0.5)), "msweb": ((0.05, 0.02, 0.01), (0.5,)),
        "eachmovie": ((0.5, 0.2, 0.1), (0.5, 1.0))}  # fmt: skip
BASELINE_COSTS = (0.0, 0.5, 1.0, 2.0)
TABLE_COST = 0.1  # k_e of `table`, one setting for greedy and quick
# ms a query and conditional log-likelihood a query variable, circuit then Gibbs (Libra).
LIBRA_QUERIES = {
    "nltcs": (0.23, -0.3620, 7.4, -0.3628),
    "kdd": (1.26, -0.0338, 38.0, -0.0368),
    "msweb": (1.17, -0.0339, 86.0, -0.0514),
}
# Method, components, starts, k_e; the approximate results of modern circuit learners.
BEST: dict[str, tuple[CircuitLearner, int, int, float | None, float]] = {
    "nltcs": ("quick", 10, 5, 0.2, -6.00),
    "kdd": ("tree", 12, 1, None, -2.13),
    "plants": ("tree", 48, 2, None, -12.5),
    "msweb": ("quick", 10, 3, 0.3, -9.7),
    "msnbc": ("quick", 20, 1, 1.0, -6.04),
    "jester": ("tree", 32, 1, None, -52.5),
    "baudio": ("tree", 32, 1, None, -39.8),
    "bnetflix": ("tree", 32, 1, None, -56.4),
    "accidents": ("tree", 32, 1, None, -27.0),
    "dna": ("tree", 8, 3, None, -80.5),
}


# Of Gibbs sampling in figure 5.3; 0: the circuit.
CHAINS = {"circuit, quick": 0, "Gibbs, fast": 1, "Gibbs, medium": 10}
CHOSEN: set[str] = set()  # data sets; empty: all


class Data(NamedTuple):
    names: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


def load(name: str) -> Data | None:
    """Return the three parts of a data set; EachMovie is trained on half of its validation part."""
    parts = ("train", "valid", "test") if name != "eachmovie" else ("valid", "valid", "test")
    paths = [DENSITY / name / f"{name}.{part}.data.gz" for part in parts]
    if CHOSEN and name not in CHOSEN:
        return None
    if not all(map(has_data, paths)):
        return None
    tables = [read_table(path, "no") for path in paths]
    names, states = merge_variables(tables)
    train, valid, test = (code_rows(table, names, states) for table in tables)
    if name == "eachmovie":
        train, valid = train[::2], valid[1::2]
        print("eachmovie: there is no training part; halves of the validation part are used")
    return Data(names, states, train, valid, test)


def learn(data: Data, rows: np.ndarray, **options: object) -> tuple[SearchResult, float]:
    return timed(lambda: learn_circuit(rows, data.names, data.states, **options))  # type: ignore[arg-type]


def memory() -> str:
    return f"{peak_memory():.2f} GB"


def warm() -> None:
    """Compile the kernels."""
    rows = np.random.default_rng(0).integers(0, 2, (200, 4))
    names, states = [f"x{v}" for v in range(4)], [["0", "1"]] * 4
    for method in ("greedy", "quick"):
        found = learn_circuit(rows, names, states, method=method)
    query = np.array([[1, -1, -1, -1]] * 8)
    assert found.circuit is not None
    log_conditionals(found.circuit, query, query)
    estimate_conditionals(
        found.network, query, -np.ones_like(query), TreeChainOptions(num_sweeps=2)
    )
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


HEAD54 = (
    f"{'':26}{'test LL':>9}{'edges':>9}{'leaves':>8}{'parents':>9}{'most':>5}{'width':>6}"
    f"{'compiled':>10}{'CPU s':>8}   k_e, k_p"
)


def compare_with_thesis() -> None:
    """Compare with Table 5.4: costs by held-out rows, AC-Quick, and the network alone."""
    print(f"\n{HEAD54}")
    for name, rows in THESIS.items():
        if (data := load(name)) is None:
            continue
        print(f"{name + ': thesis AC-Quick':26}{describe(rows['quick'])}")
        began = time.process_time()
        edge_costs, parameter_costs = GRID[name]
        found = learn_rows(
            data.train, data.valid, data.names, data.states, edge_costs=edge_costs,
            parameter_costs=parameter_costs,
        )  # fmt: skip
        spent = time.process_time() - began
        assert found.fit.network is not None
        own = figures(found.fit.network, data, found.fit.circuit)
        chosen = f"{found.edge_cost}, {found.parameter_cost}"
        print(f"{name + ': ours AC-Quick':26}{own}{spent:8.1f}   {chosen}", flush=True)
        print(f"{name + ': thesis WinMine':26}{describe(rows['free'])}")
        kept, cost, spent = choose_baseline(data)
        own = figures(kept, data)
        print(f"{name + ': ours, k_e = 0':26}{own}{spent:8.1f}   0, {cost}", flush=True)
    print(f"at most {memory()}")


def compare_table() -> None:
    """Compare with Table 5.4 at one edge cost for greedy and quick, and with the network alone."""
    print(f"\n{HEAD54}")
    for name, rows in THESIS.items():
        if (data := load(name)) is None:
            continue
        for method in ("greedy", "quick"):
            print(f"{name + f': thesis {method}':26}{describe(rows[method])}")
            found, spent = learn(data, data.train, edge_cost=TABLE_COST, method=method)
            own = figures(found.network, data, found.circuit)
            print(f"{name + f': ours {method}':26}{own}{spent:8.1f}   {TABLE_COST}, 0", flush=True)
        print(f"{name + ': thesis WinMine':26}{describe(rows['free'])}")
        kept, cost, spent = choose_baseline(data)
        own = figures(kept, data)
        print(f"{name + ': ours, k_e = 0':26}{own}{spent:8.1f}   0, {cost}", flush=True)


def choose_baseline(data: Data) -> tuple[TreeNetwork, float, float]:
    """Return the network that is best on held-out rows, its k_p, and seconds of all."""
    spent, best = 0.0, -np.inf
    for price in BASELINE_COSTS:
        baseline, cpu = learn(data, data.train, edge_cost=0.0, parameter_cost=price)
        spent += cpu
        value = float(baseline.network.log_likelihoods(data.valid).mean())
        if value > best:
            best, chosen, kept = value, price, baseline.network
    return kept, chosen, spent


def describe(row: Row54) -> str:
    edges = "" if row.edges is None else f"{row.edges:,}"
    return (
        f"{row.log_likelihood:9.2f}{edges:>9}{row.leaves:8,}{row.parents_mean:9.1f}"
        f"{row.parents_max:5}{row.treewidth:6}{row.compiled:>10}{row.hours * 3600:8,.0f}"
    )


def figures(network: TreeNetwork, data: Data, circuit: Circuit | None = None) -> str:
    parents = [len(one) for one in network.parents()]
    edges = "" if circuit is None else f"{circuit.num_edges:,}"
    value = network.log_likelihoods(data.test).mean()
    try:
        compiled = f"{compile_network(network, COMPILED_EDGES).circuit.num_edges:,}"
    except TooLarge:
        compiled = f">{COMPILED_EDGES / 1e6:.1f}M"
    return (
        f"{value:9.4f}{edges:>9}{network.num_leaves:8,}{np.mean(parents):9.1f}{max(parents):5}"
        f"{network.treewidth():6}{compiled:>10}"
    )


def make_queries(
    rows: np.ndarray, share_asked: float, share_given: float, num_queries: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, int]:
    """Draw variables of random test rows as queries and evidence; count the queries."""
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
        guess = estimate_conditionals(
            found.network, query, evidence, TreeChainOptions()
        ).log_probability
        end = time.process_time()
        print(
            f"{name:8}{found.circuit.num_edges:8,}{ms:10.2f}{value:10.4f}{middle - began:9.3f}"
            f"{exact.mean() / asked:10.4f}{gibbs_ms:9.1f}{gibbs_value:10.4f}{end - middle:7.1f}"
            f"{guess.mean() / asked:9.4f}"
        )


def draw_figure() -> None:
    """Draw Figure 5.3: accuracy against the shares of evidence and of query variables."""
    from matplotlib.figure import Figure

    num_queries = 12  # the thesis has 1000; chains take long
    panels = [
        ("evidence", "asked", [(0.3, given) for given in (0.0, 0.25, 0.5)]),
        ("query", "given", [(asked, 0.3) for asked in (0.1, 0.3, 0.5)]),
    ]
    for name in ("kdd", "msweb"):
        if (data := load(name)) is None:
            continue
        found, _ = learn(data, data.train, edge_cost=0.1)
        baseline, _ = learn(data, data.train, edge_cost=0.0, parameter_cost=1.0)
        assert found.circuit is not None
        picture = Figure(figsize=(10, 3.6), layout="constrained")
        axes = picture.subplots(1, 2)
        print(f"\nFigure 5.3, {name}: log P per query variable, of {num_queries} queries")
        for column, (what, rest, pairs) in enumerate(panels):
            varied = [100 * pair[1 - column] for pair in pairs]
            for method, num_chains in CHAINS.items():
                values = []
                for pair in pairs:
                    query, evidence, asked = make_queries(data.test, *pair, num_queries)
                    if not num_chains:
                        answers = log_conditionals(found.circuit, query, evidence)
                    else:
                        answers = estimate_conditionals(
                            baseline.network, query, evidence, TreeChainOptions(num_chains)
                        ).log_probability
                    values.append(answers.mean() / asked)
                shown = "  ".join(f"{value:.4f}" for value in values)
                print(f"{what:9} {method:15} {shown}", flush=True)
                axes[column].plot(varied, values, marker="o", ms=4, label=method)
            axes[column].set(
                title=f"{name}: 30 % {rest}", xlabel=f"{what} variables (%)",
                ylabel="log P per query variable",
            )  # fmt: skip
            axes[column].legend(frameon=False)
        path = FIGURE.with_stem(f"{FIGURE.stem}-{name}")
        picture.savefig(path, dpi=120)
        print(f"drawn: {path}")


def compare_best() -> None:
    print("\nHidden variables")
    print(
        "data              aim   method  components × starts  k_e    edges   valid LL   test LL"
        "   CPU s"
    )
    for name, (method, components, starts, price, aim) in BEST.items():
        if (data := load(name)) is None:
            continue
        began = time.process_time()
        found = learn_rows(
            data.train, data.valid, data.names, data.states, method=method,
            num_components=components, num_starts=starts,
            edge_costs=EDGE_COSTS if price is None else (price,),
        )  # fmt: skip
        cpu = time.process_time() - began
        valid, test = (found.fit.log_likelihoods(rows).mean() for rows in (data.valid, data.test))
        print(
            f"{name:12}{aim:9.2f}   {method:8}{components:9} ×{starts:3}"
            f"{'' if price is None else f'{price:.2f}':>12}{found.fit.circuit.num_edges:9,}"
            f"{valid:11.4f}{test:10.4f}{cpu:8.0f}",
            flush=True,
        )
    print(f"at most {memory()}")


def compare_missing() -> None:
    """Remove cells at random; compare learning from all rows with learning from complete rows."""
    print("\nMissing values, nltcs, test LL  complete rows   only these    all rows   CPU s")
    if (data := load("nltcs")) is None:
        return
    rng = np.random.default_rng(0)
    settings: list[tuple[CircuitLearner, int, float]] = [
        ("quick", 1, 0.5),
        ("tree", 8, EDGE_COSTS[0]),
    ]
    for share in (0.0, 0.1, 0.3):
        rows = np.where(rng.random(data.train.shape) < share, -1, data.train)
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
    "figure": draw_figure,
    "best": compare_best,
    "missing": compare_missing,
    "thesis": compare_with_thesis,
    "table": compare_table,
}

if __name__ == "__main__":
    CHOSEN.update(word for word in sys.argv[1:] if word not in SECTIONS)
    sections = [word for word in sys.argv[1:] if word in SECTIONS]
    warm()
    for section in sections or ["libra", "queries", "figure", "best", "missing"]:
        SECTIONS[section]()

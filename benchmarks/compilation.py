"""Circuits compiled from networks, exactly and approximately, compared with other systems.

    python benchmarks/compilation.py               every table
    python benchmarks/compilation.py networks      one: networks, hepar2, others, dense, rules

`networks`: the .bif networks of LAPIS_DATA/bayesnets, all marginals, compared with a junction tree;
by numeric elimination if the circuit does not fit. `hepar2`: 50 sets of 21 random observed
variables and 49 query variables, as Libra was measured. `others`: the same on other networks.
`dense`: networks on which belief propagation fails, also without a junction tree of 4 million
entries. `rules`: a ground Markov logic network with evidence. Times are CPU time of this process.
`E` samples worlds from a junction tree, `P` is particles; auto selects E, P or VI.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from loopy import propagate
from protocol import DATA, has_data, timed

import lapis
from lapis.circuits.approximation.approximate import find_structure, fit_structure
from lapis.circuits.approximation.samples import sample_forward, sample_gibbs
from lapis.circuits.circuit import Circuit
from lapis.circuits.compilation.compile_model import compile_factors
from lapis.circuits.compilation.partition import find_marginals
from lapis.circuits.evaluation import no_evidence, posteriors
from lapis.circuits.factor_files import read_factor_file
from lapis.circuits.factor_graph import FactorGraph, entry_cubes, graph_of_tables
from lapis.circuits.ground_factors import ground_factors
from lapis.errors import TooLarge
from lapis.grounding.bottom_up import ground
from lapis.inference.exact.elimination_order import best_order
from lapis.inference.exact.junction_tree import build_tree, collect_messages, distribute_beliefs
from lapis.network.csr import row_starts
from lapis.problem.task import build_task

# All marginals, milliseconds.
OTHERS_MARGINALS = {"alarm": "pyAgrum 17-25, pgmpy 94", "insurance": "pyAgrum 10-16, pgmpy 50"}
LIBRA = """Libra, 2,719 edges: KL, max error, ms a query
    exact          -            -        1.9
    BP             0.00003      0.027    2.1
    mean field     0.033        0.947    5.6
    Gibbs fast     0.00027      0.076   23
    Gibbs medium   0.00003      0.034  223
    F              0.00178      0.478    0.6
    G fast         0.00115      0.094   92
    G medium       0.00008      0.023  359
    V              0.00036      0.066 4914"""
RULES = """person = {{{people}}}
Friends(person, person)
Smokes(person)
Cancer(person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
"""
NETWORK_EDGES = 1 << 24
EXACT_EDGES = 1 << 22
CHECKED_ENTRIES = 3e7  # of the junction tree's tables
NUM_QUERIES = 50


def main(arguments: list[str]) -> None:
    tables = {
        "networks": networks,
        "hepar2": hepar2,
        "others": others,
        "dense": dense,
        "rules": rules,
    }
    for name in arguments or tables:
        if name in ("networks", "hepar2", "others") and not has_data(DATA):
            continue
        print(f"\n{name}: {tables[name].__doc__}")
        tables[name]()


def networks() -> None:
    """compiled Bayesian networks; error: largest difference from a junction tree's marginals."""
    print(f"{'network':<12} {'variables':>9} {'width':>5} {'entries':>8} {'edges':>11} "
          f"{'by':<11} {'compile s':>9} {'ms':>8}  error")  # fmt: skip
    for path in sorted(
        (DATA / "bayesnets" / "bif").glob("*.bif.gz"), key=lambda p: p.stat().st_size
    ):
        name = path.name.removesuffix(".bif.gz")
        graph = read_factor_file(path)
        try:
            compiled, seconds = timed(lambda graph=graph: compile_factors(graph, NETWORK_EDGES))
        except TooLarge:
            found, seconds = timed(lambda graph=graph: find_marginals(graph))
            print(f"{name:<12} {graph.num_variables:>9} {found.width:>5} {found.entries:>8.1e} "
                  f"{'no circuit':>11} {'numbers':<11} {'-':>9} {1e3 * seconds:>8.0f}",
                  flush=True)  # fmt: skip
            continue
        circuit = compiled.circuit
        posteriors(circuit, no_evidence(circuit))
        (_, marginal), asked = timed(lambda c=circuit: posteriors(c, no_evidence(c)))
        error = "not checked"
        if compiled.entries <= CHECKED_ENTRIES:
            error = f"{np.abs(marginal[0] - by_junction_tree(graph)).max():.1e}"
        print(f"{name:<12} {graph.num_variables:>9} {compiled.width:>5} {compiled.entries:>8.1e} "
              f"{circuit.num_edges:>11,} {compiled.method:<11} {seconds:>9.2f} "
              f"{1e3 * asked:>8.2f}  {error}  {OTHERS_MARGINALS.get(name, '')}",
              flush=True)  # fmt: skip


def by_junction_tree(graph: FactorGraph) -> np.ndarray:
    """Return float64[num_states], all marginals by the junction trees of exact inference."""
    cubes, log_value = entry_cubes(graph)
    rng = np.random.default_rng(0)
    order = best_order(graph.size, graph.scope_start, graph.scope, np.inf, rng)
    tree = build_tree(cubes, order.variable)
    return distribute_beliefs(
        tree, cubes, collect_messages(tree, cubes, log_value), overwrite=True
    ).state


def hepar2() -> None:
    """50 evidence sets; circuits of at most 3,000 and 8,000 edges."""
    print(LIBRA)
    for max_edges in (3_000, 8_000):
        compare("hepar2", read_factor_file(DATA / "bayesnets/bif/hepar2.bif.gz"), max_edges, 0.3)


def others() -> None:
    """other networks, a third of the variables observed."""
    budgets = {"alarm": 1_000, "insurance": 5_000, "win95pts": 3_000, "hailfinder": 5_000}
    for name, max_edges in (budgets | {"water": 10_000, "andes": 20_000}).items():
        compare(name, read_factor_file(DATA / f"bayesnets/bif/{name}.bif.gz"), max_edges, 0.3, 20)


def dense() -> None:
    """where belief propagation fails: all pairs coupled; noisy parities."""
    for name, graph in (
        ("couplings of width 1", couplings(16, 1.0)),
        ("couplings of width 2", couplings(16, 2.0)),
        ("parities, noise 0.05", parities(60, 0.05)),
        ("parities, noise 0.01", parities(60, 0.01)),
        ("couplings of width 2, too wide for E", couplings(24, 2.0)),
        ("parities, noise 0.05, too wide for E", parities(100, 0.05)),
    ):
        compare(name, graph, 5_000, 0.0, 1)


def rules() -> None:
    """friends and smokers, ground: 40 people, 4 friends each, a fifth observed to smoke or not."""
    rng = np.random.default_rng(0)
    people = [f"P{number}" for number in range(40)]
    facts = [
        f"Friends({one}, {people[other]})"
        for number, one in enumerate(people)
        for other in rng.choice(np.delete(np.arange(40), number), 4, replace=False)
    ]
    seen = rng.permutation(40)[:8]
    facts += [f"{'!' * int(rng.integers(2))}Smokes({people[number]})" for number in seen]
    task = build_task(
        lapis.parse(RULES.format(people=", ".join(people))),
        [lapis.Database.parse("\n".join(facts))], ["Smokes", "Cancer"],
    )  # fmt: skip
    graph = ground_factors(ground(task.worlds[0].problem)).graph
    for max_edges in (1_000, 5_000):
        compare("friends and smokers", graph, max_edges, 0.0, 1)


def couplings(size: int, width: float) -> FactorGraph:
    """Couple all pairs of binary variables at random, with fields."""
    rng = np.random.default_rng(1)
    tables: list[tuple[list[int], np.ndarray]] = []
    for one in range(size):
        tables.append(([one], np.array([0.0, rng.normal(0, 0.5)])))
        for other in range(one):
            strength = rng.normal(0, width / np.sqrt(size))
            tables.append(([other, one], strength * np.array([[1.0, -1.0], [-1.0, 1.0]])))
    return graph_of_tables([f"x{v}" for v in range(size)], [["0", "1"]] * size, tables)


def parities(size: int, noise: float) -> FactorGraph:
    """Generate noisy parities of three variables."""
    rng = np.random.default_rng(2)
    even = np.indices((2, 2, 2)).sum(axis=0) % 2 == 0
    table = np.log(np.where(even, 1 - noise, noise))
    scopes = [rng.permutation(size)[:3].tolist() for _ in range(size)]
    tables = [(scope, table) for scope in scopes]
    tables += [([v], np.array([0.0, rng.normal(0, 0.3)])) for v in range(size)]
    return graph_of_tables([f"x{v}" for v in range(size)], [["0", "1"]] * size, tables)


def compare(
    name: str, graph: FactorGraph, max_edges: int, observed: float, num_queries: int = NUM_QUERIES
) -> None:
    """Print KL and largest error of all methods, with Gibbs at the times of VI and auto."""
    exact = exact_marginals(graph)
    nothing = np.full(graph.num_variables, -1, np.int32)
    structure, seconds = timed(lambda: find_structure(graph, nothing, max_edges, 50_000))
    independent = compile_factors(graph_of_tables(graph.names, graph.states, [])).circuit
    print(f"  {name}: structure {structure.num_edges:,} edges in {seconds:.1f} s")
    rng = np.random.default_rng(0)
    if graph.child is not None:
        worlds = sample_forward(graph, num_queries, 2)
    else:
        worlds = np.zeros((num_queries, graph.num_variables), np.int32)
    figures: dict[str, list[tuple[float, float, float]]] = {}
    for number in range(-1, num_queries):  # the first is for the compiler of kernels
        row = nothing.copy()
        seen = rng.permutation(graph.num_variables)[: int(observed * graph.num_variables)]
        row[seen] = worlds[max(number, 0)][seen]
        truth, asked = timed(lambda row=row: exact(row))
        answers = {"exact": (truth, asked)}
        answers["BP"] = timed(lambda row=row: propagate(graph, row).state)
        answers["mean field"] = timed(lambda row=row: by_circuit(graph, independent, row, "V"))
        for parameters in ("F", "G", "V", "VI", "E", "P"):
            with suppress(TooLarge):
                answers[parameters] = timed(
                    lambda row=row, p=parameters: by_circuit(graph, structure, row, p)
                )
        default, spent = timed(lambda row=row: fit_structure(graph, structure, row))
        found = posteriors(default.circuit, no_evidence(default.circuit))[1][0]
        answers[f"auto: {default.parameters}"] = found, spent
        answers["Gibbs"] = timed(lambda row=row, s=answers["VI"][1]: by_gibbs(graph, row, s))
        answers["Gibbs, auto's time"] = timed(lambda row=row, s=spent: by_gibbs(graph, row, s))
        if number >= 0:
            asked_states = np.repeat(row < 0, graph.size)
            for method, (found, spent) in answers.items():
                figures.setdefault(method, []).append(
                    (*compare_marginals(truth, found, asked_states, int((row < 0).sum())), spent)
                )
    for method, rows in figures.items():
        kl, error, spent = np.array(rows).T
        print(f"    {method:<18} KL {kl.mean():.6f}  max error {error.max():.3f}  "
              f"{1e3 * spent.mean():8.2f} ms", flush=True)  # fmt: skip


def exact_marginals(graph: FactorGraph) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from evidence to all marginals: by a circuit, or numeric."""
    try:
        circuit = compile_factors(graph, EXACT_EDGES).circuit
    except TooLarge:
        seen = np.flatnonzero
        return lambda row: (
            find_marginals(graph.condition({int(v): int(row[v]) for v in seen(row >= 0)})).state
        )
    return lambda row: np.asarray(posteriors(circuit, row[None])[1][0])


def by_circuit(
    graph: FactorGraph, structure: Circuit, row: np.ndarray, parameters: str
) -> np.ndarray:
    if parameters == "F":
        return posteriors(structure, row[None])[1][0]
    circuit = fit_structure(graph, structure, row, parameters).circuit
    return posteriors(circuit, no_evidence(circuit))[1][0]


def by_gibbs(graph: FactorGraph, row: np.ndarray, seconds: float) -> np.ndarray:
    """Return Rao–Blackwellised marginals in about the given time."""
    begin = time.process_time()
    sample_gibbs(graph, row, 400, 5)
    each = (time.process_time() - begin) / 800  # 4 × 100 sweeps of burn-in too
    found = sample_gibbs(graph, row, max(100, int(seconds / each) - 800), 5).conditional.mean(
        axis=0
    )
    first = row_starts(graph.size)[:-1]
    found[(first + row)[row >= 0]] = 1.0
    return np.asarray(found)


def compare_marginals(
    truth: np.ndarray, found: np.ndarray, asked: np.ndarray, num_variables: int
) -> tuple[float, float]:
    """Return the mean KL of the marginals of the query variables, and the largest error."""
    p, q = truth[asked], np.clip(found[asked], 1e-12, 1.0)
    logs = np.log(np.where(p > 0, p, 1.0)) - np.log(q)
    return float((p * logs).sum() / num_variables), float(np.abs(p - found[asked]).max())


if __name__ == "__main__":
    main(sys.argv[1:])

"""Bayesian networks compiled to circuits: sizes, seconds, and all marginals.

    python benchmarks/compilation.py

The .bif networks of LAPIS_DATA/bayesnets. Marginals are compared with those of a junction tree;
they are computed by numeric elimination if the circuit does not fit. Times are CPU time of this
process. Approximate compilation is compared in `benchmarks/papers/thesis_chapter6.py`.
"""

from __future__ import annotations

import numpy as np
from protocol import data_folder, timed

from lapis.circuits.compilation.compile_model import compile_factors
from lapis.circuits.compilation.partition import find_marginals
from lapis.circuits.evaluation import no_evidence, posteriors
from lapis.circuits.factor_files import read_factor_file
from lapis.circuits.factor_graph import FactorGraph, entry_cubes
from lapis.errors import TooLarge
from lapis.inference.exact.elimination_order import best_order
from lapis.inference.exact.junction_tree import build_tree, collect_messages, distribute_beliefs

# All marginals, milliseconds.
OTHERS_MARGINALS = {"alarm": "pyAgrum 17-25, pgmpy 94", "insurance": "pyAgrum 10-16, pgmpy 50"}
NETWORK_EDGES = 1 << 24
CHECKED_ENTRIES = 3e7  # of the junction tree's tables


def compile_networks() -> None:
    """Print a line a network; the error is the largest difference from a junction tree."""
    print(f"{'network':<12} {'variables':>9} {'width':>5} {'entries':>8} {'edges':>11} "
          f"{'by':<11} {'compile s':>9} {'ms':>8}  error")  # fmt: skip
    for path in sorted(
        (data_folder("bayesnets") / "bif").glob("*.bif.gz"), key=lambda p: p.stat().st_size
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


if __name__ == "__main__":
    compile_networks()

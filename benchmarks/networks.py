"""One question, and a thousand rows of evidence, to Bayesian networks: Lapis beside pyAgrum.

    python benchmarks/networks.py             all networks of `bayesnets`
    python benchmarks/networks.py alarm pigs

Each network has a process of its own, and reading it is not counted. "first" is the first question
in the process, all marginals without evidence, which imports modules; "all" is the median of the
following ones. "one" is the marginal of the last variable, given a third of the others. A row
observes the same 30 % of the variables, in the states of a world drawn from the network, and asks
for all others. Rows are as many as Lapis answers in about a minute, at most 1,000; seconds are for
1,000. pyAgrum (LazyPropagation) is measured if it is installed. All seconds are of the processor,
so those of threads are counted.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np
from protocol import data_folder, run_in_process, timed

import lapis
from lapis.circuits.factor_files import read_factor_file
from lapis.circuits.factor_graph import FactorGraph
from lapis.errors import TooLarge

SHARE = 0.3  # of the variables that a row observes
REPEATS = 5
NUM_ROWS = 1000
ROW_SECONDS = 60.0
PEER_ROWS = 30  # rows that pyAgrum answers
PEER_SECONDS = 60.0  # its rows are left out if one question takes longer

Row = dict[str, str]


def main(arguments: Sequence[str]) -> None:
    folder = data_folder("bayesnets") / "bif"
    names = [path.name.removesuffix(".bif.gz") for path in sorted(folder.glob("*.bif.gz"))]
    names.sort(key=lambda name: (folder / f"{name}.bif.gz").stat().st_size)
    head = f"{'network':<12}{'variables':>10}{'first':>9}{'all':>9}{'one':>9}{'rows':>9}"
    print(head + f"{'pyAgrum all':>13}{'one':>9}{'rows':>9}{'all ×':>8}{'rows ×':>8}", flush=True)
    for name in arguments or names:
        if not run_in_process(measure, folder / f"{name}.bif.gz"):
            print(f"{name:<12} failed", flush=True)


def measure(path: Path) -> None:
    """Print the row of a network."""
    name = path.name.removesuffix(".bif.gz")
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / f"{name}.bif"
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        graph = read_factor_file(plain)
        rows = draw_rows(graph, np.random.default_rng(0))
        ours = measure_lapis(lapis.read(plain), graph.names, rows)
        peer = measure_peer(plain, graph.names, rows)
    cells = "".join(f"{show(value):>9}" for value in ours)
    peers = f"{show(peer[0]):>13}{show(peer[1]):>9}{show(peer[2]):>9}"
    ratios = f"{show(ours[1] / peer[0]):>8}{show(ours[3] / peer[2]):>8}"
    print(f"{name:<12}{len(graph.names):>10,}{cells}{peers}{ratios}", flush=True)


def show(seconds: float) -> str:
    return "–" if np.isnan(seconds) else f"{seconds:.3g}"


def draw_rows(graph: FactorGraph, rng: np.random.Generator) -> list[Row]:
    """Draw worlds and return the states of the observed variables; parents come first in files."""
    assert graph.child is not None
    observed = set(rng.permutation(graph.num_variables)[: int(SHARE * graph.num_variables)])
    factor_of = {int(child): factor for factor, child in enumerate(graph.child)}
    states = np.full((NUM_ROWS, graph.num_variables), -1)

    def draw(v: int) -> None:
        """Draw a variable after its parents."""
        scope = graph.variables_of(factor_of[v]).tolist()
        for parent in scope:
            if parent != v and states[0, parent] < 0:
                draw(parent)
        table = np.exp(np.moveaxis(graph.table(factor_of[v]), scope.index(v), -1))
        chance = table[tuple(states[:, parent] for parent in scope if parent != v)]
        chance = np.broadcast_to(chance, (NUM_ROWS, table.shape[-1])).cumsum(axis=1)
        states[:, v] = (rng.random((NUM_ROWS, 1)) * chance[:, -1:] > chance).sum(axis=1)

    sys.setrecursionlimit(10_000)
    for v in range(graph.num_variables):
        if states[0, v] < 0:
            draw(v)
    return [
        {graph.names[v]: graph.states[v][states[row, v]] for v in sorted(observed)}
        for row in range(NUM_ROWS)
    ]


def measure_lapis(
    model: lapis.Model, names: Sequence[str], rows: Sequence[Row]
) -> tuple[float, float, float, float]:
    """Return the seconds of the first question, a further one, one variable, and 1,000 rows."""
    target, given = single_question(names, rows[0])
    try:
        first = timed(lambda: lapis.infer(model, method="exact"))[1]
    except TooLarge:
        return np.nan, np.nan, np.nan, np.nan
    every = repeat(lambda: lapis.infer(model, method="exact"))
    one = repeat(lambda: lapis.infer(model, query=target, evidence=given, method="exact"))
    single = timed(lambda: lapis.infer(model, evidence=rows[:2], method="exact"))[1] / 2
    number = int(min(NUM_ROWS, max(2, ROW_SECONDS / single)))
    together = timed(lambda: lapis.infer(model, evidence=rows[:number], method="exact"))[1]
    return first, every, one, together * NUM_ROWS / number


def measure_peer(
    path: Path, names: Sequence[str], rows: Sequence[Row]
) -> tuple[float, float, float]:
    """Return the seconds of pyAgrum for all variables, one, and 1,000 rows; NaN without it."""
    try:
        import pyagrum as gum
    except ImportError:
        return np.nan, np.nan, np.nan
    try:
        network = gum.loadBN(str(path))
    except gum.FatalError:  # it reads no names such as Asy/Patch
        return np.nan, np.nan, np.nan

    def ask(evidence: Row, wanted: Sequence[str]) -> None:
        engine = gum.LazyPropagation(network)
        if len(wanted) == 1:
            engine.setTargets(set(wanted))
        engine.setEvidence(evidence)
        engine.makeInference()
        for name in wanted:
            engine.posterior(name)

    target, given = single_question(names, rows[0])
    first = timed(lambda: ask({}, names))[1]
    if first > PEER_SECONDS:
        return first, np.nan, np.nan
    every, one = repeat(lambda: ask({}, names)), repeat(lambda: ask(given, [target]))
    engine = gum.LazyPropagation(network)

    def ask_rows() -> None:
        for row in rows[:PEER_ROWS]:
            engine.setEvidence(row)
            engine.makeInference()
            for name in names:
                engine.posterior(name)

    return every, one, timed(ask_rows)[1] * NUM_ROWS / PEER_ROWS


def single_question(names: Sequence[str], row: Row) -> tuple[str, Row]:
    """Return the last variable and the evidence on others."""
    target = names[-1]
    return target, {name: state for name, state in row.items() if name != target}


def repeat(work: Callable[[], object]) -> float:
    return median(timed(work)[1] for _ in range(REPEATS))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Partition functions of the UAI 2014 competition: exact if possible, otherwise estimated.

    python benchmarks/uai.py LOG [SECONDS] [NAME...]   continue after the end of LOG
    python benchmarks/uai.py table LOG                 write benchmarks/results/uai_pr.md

Every problem of LAPIS_DATA/uai2014/PR is read with its evidence and gets an elimination order;
cheap ones are solved first. Methods in order: a circuit, if its tables are small or search finds
one; numeric elimination, within 4 GB; counting by search, if all tables are 0/1; otherwise the
estimates of AC² (by particles, if tables have zeros) and of loopy belief propagation (the Bethe
free energy), next to the published value. The log has one line of JSON for each problem, so a run
can be divided. Seconds are CPU seconds of this process.
"""

from __future__ import annotations

import json
import math
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from loopy import propagate
from protocol import DATA, has_data

from lapis.circuits.approximation.approximate import find_structure, fit_structure
from lapis.circuits.approximation.samples import sample_particles
from lapis.circuits.compilation.compile_model import compile_factors
from lapis.circuits.compilation.counting import count_models
from lapis.circuits.compilation.numeric_elimination import repeated_order
from lapis.circuits.compilation.partition import find_partition, sum_out_leaves
from lapis.circuits.evaluation import log_partition
from lapis.circuits.factor_files import read_evidence, read_factor_file
from lapis.circuits.factor_graph import FactorGraph, make_consistent
from lapis.errors import LapisError, TooLarge
from lapis.runtime.progress import Stop

FOLDER = DATA / "uai2014" / "PR"
TABLE = Path(__file__).parent / "results" / "uai_pr.md"
CIRCUIT_ENTRIES, CIRCUIT_EDGES, CIRCUIT_SECONDS = 1e6, 1 << 24, 20.0
WIDEST = 1e12  # entries at which the estimate of an order ends
SEARCH_ENTRIES = 2e10  # of an order, beyond which nothing exact is tried
COUNTED_WORK = 1_500_000_000  # literals looked at
ESTIMATED_SECONDS, ESTIMATED_EDGES, NUM_SAMPLES = 100.0, 20_000, 10_000
TOLERANCE = 1e-3  # of log10 Z, relative above 1
UNRELIABLE = {"relational_3", "sat-grid-pbl-0010.cnf"}  # published values known to be wrong
LOG10 = math.log(10)


def main(arguments: list[str]) -> None:
    if not has_data(FOLDER):
        return
    if arguments[0] == "table":
        print_table(read_log(Path(arguments[1])))
    else:
        seconds = float(arguments[1]) if len(arguments) > 1 else math.inf
        run(Path(arguments[0]), time.monotonic() + seconds, arguments[2:])


def run(log: Path, deadline: float, chosen: list[str]) -> None:
    """Process the problems that are not in the log, the narrowest first."""
    done = {row["name"] for row in read_log(log)}
    names = [path.name.removesuffix(".uai.gz") for path in FOLDER.glob("*.uai.gz")]
    names = [name for name in chosen or names if name not in done]
    widths = log.with_suffix(".widths")
    entries = json.loads(widths.read_text()) if widths.exists() else {}
    for name in names:
        if name not in entries:
            entries[name] = estimate_entries(read_problem(name)[0])
            widths.write_text(json.dumps(entries))
    for name in sorted(names, key=lambda name: entries[name]):
        if time.monotonic() > deadline:
            break
        row = {"name": name, "entries": entries[name], **solve(name, entries[name])}
        with log.open("a") as out:
            print(json.dumps(row), file=out)
        print(json.dumps(row), flush=True)


def read_problem(name: str) -> tuple[FactorGraph, dict[int, int], float]:
    """Return the product of tables, the evidence, and the published log10 Z."""
    graph = read_factor_file(FOLDER / f"{name}.uai.gz")
    evidence = read_evidence(FOLDER / f"{name}.uai.evid", graph)
    published = float((FOLDER / f"{name}.uai.PR").read_text().split()[-1])
    return graph.condition(evidence), evidence, published


def estimate_entries(graph: FactorGraph) -> float:
    """Return the entries of all tables of elimination; 0 if a variable has no possible state."""
    consistent = make_consistent(graph)
    if consistent is None:
        return 0.0
    return repeated_order(sum_out_leaves(consistent.graph), WIDEST, 0, 1).entries


def solve(name: str, entries: float) -> dict[str, Any]:
    graph, evidence, published = read_problem(name)
    row: dict[str, Any] = {"published": published, "variables": graph.num_variables}
    begin = time.process_time()
    try:
        if entries <= CIRCUIT_ENTRIES:
            row |= by_circuit(graph)
        elif entries <= SEARCH_ENTRIES:
            row |= by_numbers(graph)
        elif is_clausal(graph):
            row |= by_counting(graph)
    except TooLarge as refused:
        row["refused"] = refused.message
        with suppress(TooLarge):
            row |= by_numbers(graph) if entries <= CIRCUIT_ENTRIES else by_circuit(graph)
        if "found" not in row and is_clausal(graph):
            with suppress(TooLarge):
                row |= by_counting(graph)
    except LapisError:
        row |= {"found": -math.inf, "by": "no possible state"}
    row["seconds"] = time.process_time() - begin
    if "found" not in row:
        hard = bool(np.isneginf(graph.log_value).any())
        row |= by_particles(graph) if hard else by_approximation(graph, evidence)
        row |= by_propagation(graph)
    return row


def by_circuit(graph: FactorGraph) -> dict[str, Any]:
    stop = Stop(deadline=time.monotonic() + CIRCUIT_SECONDS)
    compiled = compile_factors(graph, CIRCUIT_EDGES, 0, stop)
    return {
        "found": log_partition(compiled.circuit) / LOG10,
        "by": f"circuit ({compiled.method})",
        "edges": compiled.circuit.num_edges,
    }


def by_numbers(graph: FactorGraph) -> dict[str, Any]:
    found = find_partition(graph)
    kind = "elimination" if found.exact else "elimination (rounded)"
    return {"found": found.log_value / LOG10, "by": kind, "entries": found.entries}


def is_clausal(graph: FactorGraph) -> bool:
    """Return whether all entries of the tables are 0 or 1."""
    return all(
        len(np.unique(graph.table(factor)[graph.table(factor) > -np.inf])) <= 1
        for factor in range(graph.num_factors)
    )


def by_counting(graph: FactorGraph) -> dict[str, Any]:
    found = count_models(graph, COUNTED_WORK)
    return {"found": found.log_value / LOG10, "by": "counting", "components": found.components}


def by_approximation(graph: FactorGraph, evidence: dict[int, int]) -> dict[str, Any]:
    row = np.full(graph.num_variables, -1, np.int32)
    row[list(evidence)] = list(evidence.values())
    begin = time.process_time()
    stop = Stop(deadline=time.monotonic() + ESTIMATED_SECONDS)
    try:
        structure = find_structure(graph, row, ESTIMATED_EDGES, NUM_SAMPLES, stop=stop)
        found = fit_structure(graph, structure, row, stop=stop)
    except LapisError as refused:
        return {"ac2_refused": refused.message}
    assert found.log_partition is not None
    assert found.log_partition_stderr is not None
    return {
        "lower": None if found.bound is None else found.bound / LOG10,
        "upper": None if found.upper is None else found.upper / LOG10,
        "ac2": found.log_partition / LOG10,
        "ac2_by": found.parameters,
        "ac2_stderr": found.log_partition_stderr / LOG10,
        "ac2_seconds": time.process_time() - begin,
    }


def by_particles(graph: FactorGraph) -> dict[str, Any]:
    """Estimate log Z by AC² with parameters P, without its circuit."""
    begin = time.process_time()
    found = sample_particles(graph, 0)
    if found is None:
        return {"ac2_refused": "too many variables"}
    return {
        "lower": None,
        "upper": found.upper / LOG10,
        "ac2": found.log_partition / LOG10,
        "ac2_by": "P",
        "ac2_stderr": found.stderr / LOG10,
        "ac2_seconds": time.process_time() - begin,
    }


def by_propagation(graph: FactorGraph) -> dict[str, Any]:
    """Return the Bethe free energy of loopy belief propagation."""
    begin = time.process_time()
    nothing = np.full(graph.num_variables, -1, np.int32)
    found = propagate(graph, nothing)
    return {
        "bethe": found.log_partition / LOG10,
        "bethe_converged": found.converged,
        "bethe_seconds": time.process_time() - begin,
    }


def read_log(log: Path) -> list[dict[str, Any]]:
    """Return the last line of each problem."""
    lines = log.read_text().splitlines() if log.exists() else []
    rows = {row["name"]: row for row in map(json.loads, lines)}
    return list(rows.values())


def print_table(rows: list[dict[str, Any]]) -> None:
    """Write the table."""
    rows = sorted(rows, key=lambda row: (row["name"].rstrip("0123456789"), row["name"]))
    exact = [row for row in rows if "found" in row]
    others = [row for row in rows if "found" not in row]
    agree = [row for row in exact if agrees(row["found"], row["published"])]
    lines = [
        "# Partition functions of the UAI 2014 competition",
        "",
        f"{len(rows)} problems: {len(exact)} solved exactly, of which {len(agree)} agree with the "
        f"published value (relative {TOLERANCE:g} of log10 Z), {len(exact) - len(agree)} do not; "
        f"{len(others)} are too wide and estimated.",
        "Made by `python benchmarks/uai.py`, in parts; seconds are CPU time. prob001 to prob005 "
        "are the same files as log-1 to log-5.",
        "",
        "## Solved exactly",
        "",
        "| problem | variables | by | size | log10 Z | published | | s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in exact:
        verdict = "agrees" if agrees(row["found"], row["published"]) else "**differs**"
        if row["name"] in UNRELIABLE:
            verdict += " (published value known to be wrong)"
        size = f"{row['entries']:.1e} entries" if row["entries"] else "–"
        for unit in ("edges", "components"):
            if unit in row:
                size = f"{row[unit]:,} {unit}"
        lines.append(
            f"| {row['name']} | {row['variables']} | {row['by']} | {size} | {row['found']:.4f} | "
            f"{row['published']:.4f} | {verdict} | {row['seconds']:.1f} |"
        )
    lines += [
        "",
        "## Too wide: AC² and belief propagation",
        "",
        "Differences of log10 Z from what is published. AC² is an estimate, by particles (P) where "
        "tables have zeros, else by weights (VI), with its standard error. Bounds are certified.",
        "",
        "| problem | variables | entries | published "
        "| AC² | by | ± | lower | upper | s | Bethe | s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in others:
        published = row["published"]
        line = f"| {row['name']} | {row['variables']} | {row['entries']:.1e} | {published:.4f} | "
        if "ac2" in row:
            found = (
                "no possible world" if row["ac2"] == -math.inf else f"{row['ac2'] - published:+.4f}"
            )
            lower, upper = (
                "" if row[side] is None else f"{row[side] - published:+.3f}"
                for side in ("lower", "upper")
            )
            line += (
                f"{found} | {row['ac2_by']} | {row['ac2_stderr']:.3f} | {lower} | {upper} | "
                f"{row['ac2_seconds']:.1f} | "
            )
        else:
            line += "refused | | | | | | "
        mark = "" if row["bethe_converged"] else " (not converged)"
        lines.append(f"{line}{row['bethe'] - published:+.4f}{mark} | {row['bethe_seconds']:.2f} |")
    closer = [
        row
        for row in others
        if "ac2" in row
        and abs(row["ac2"] - row["published"]) < abs(row["bethe"] - row["published"])
    ]
    lines += ["", f"AC² is the closer one in {len(closer)} of {len(others)}."]
    known = {row["name"] for row in rows}
    left = sorted({path.name.removesuffix(".uai.gz") for path in FOLDER.glob("*.uai.gz")} - known)
    if left:
        lines += ["", f"Not run, or not to the end ({len(left)}): {', '.join(left)}."]
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def agrees(found: float, published: float) -> bool:
    return abs(found - published) <= TOLERANCE * max(1.0, abs(published))


if __name__ == "__main__":
    main(sys.argv[1:])

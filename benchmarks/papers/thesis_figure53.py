"""Figure 5.3 and Table 5.5 of Lowd's thesis: queries to circuits and, by Gibbs sampling, networks.

Conditional log-probability of random query variables given random evidence of test rows, and the
time of a query. Circuits answer exactly; networks learned without a circuit by Gibbs sampling, from
fast to very slow.

    python -m benchmarks.papers.thesis_figure53
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from benchmarks.papers.cells import (
    DONE,
    STOPPED,
    Cell,
    Choice,
    Experiment,
    Outcome,
    Record,
    Results,
    Section,
    read_results,
    run,
)
from benchmarks.papers.density import (
    Costs,
    DensityRows,
    choose_costs,
    final_circuit,
    learn_within,
    read_density,
)
from benchmarks.papers.markdown import minus, number, seconds, shown, table
from benchmarks.papers.pictures import Curve, Panel, draw_panels
from benchmarks.papers.thesis_table54 import (
    DATA_SETS,
    HEADINGS,
    LEARNING_SECONDS,
    list_candidates,
    method_of,
)

from lapis.circuits.circuit import Circuit
from lapis.circuits.evaluation import log_conditionals
from lapis.circuits.tree_networks.tree_gibbs import TreeChainOptions, estimate_conditionals
from lapis.circuits.tree_networks.tree_network import TreeNetwork

# Table 5.5: seconds a query; and the chains, burn-in and sweeps of section 5.7.3.
THESIS_SECONDS: Mapping[str, tuple[float, float, float]] = {
    "greedy": (0.194, 0.091, 0.062),
    "quick": (0.198, 0.115, 0.162),
    "fast": (1.46, 1.89, 7.22),
    "medium": (11.3, 15.6, 42.5),
    "slow": (106, 154, 452),
    "very slow": (1124, 1556, 3912),
}
CHAINS: Mapping[str, TreeChainOptions] = {
    "fast": TreeChainOptions(1, 100, 1_000),
    "medium": TreeChainOptions(10, 100, 1_000),
    "slow": TreeChainOptions(10, 1_000, 10_000),
    "very slow": TreeChainOptions(10, 10_000, 100_000),
}
NAMES = {"greedy": "AC-Greedy", "quick": "AC-Quick", **{each: f"Gibbs {each}" for each in CHAINS}}
NUM_QUERIES = 1_000

Point = tuple[int, int]  # percent of the variables that are queried, and that are given

EVIDENCE_POINTS: tuple[Point, ...] = tuple((30, given) for given in (0, 10, 20, 30, 40, 50))
QUERY_POINTS: tuple[Point, ...] = tuple((asked, 30) for asked in (10, 20, 30, 40, 50))
ALL_POINTS = tuple(dict.fromkeys((*EVIDENCE_POINTS, *QUERY_POINTS)))
# Points of a scenario and its processor seconds; slower chains answer fewer queries.
POINTS: Mapping[str, tuple[Point, ...]] = {
    "fast": ALL_POINTS,
    "medium": ((30, 30), (30, 0), (30, 50), (10, 30), (50, 30)),
    "slow": ((30, 30),),
    "very slow": ((30, 30),),
}
SAMPLING_SECONDS = {"fast": 70.0, "medium": 30.0, "slow": 30.0, "very slow": 20.0}


class Queries(NamedTuple):
    """Rows of states, negative where a variable is not queried or not given."""

    query: np.ndarray  # int[num_queries, num_variables]
    evidence: np.ndarray  # int[num_queries, num_variables]
    num_asked: int  # variables of each query


def draw_queries(rows: np.ndarray, point: Point, num_queries: int) -> Queries:
    """Draw variables of different test rows as query and evidence.

    All points have the same rows and the same order of variables: queries are its beginning,
    evidence its end, so the curves show the shares and not the draws.
    """
    rng = np.random.default_rng(0)
    num_variables = rows.shape[1]
    asked, given = (round(share * num_variables / 100) for share in point)
    asked = max(1, asked)
    chosen = rng.permutation(len(rows))[:num_queries]
    query = np.full((len(chosen), num_variables), -1)
    evidence = query.copy()
    for place, row in enumerate(rows[chosen]):
        order = rng.permutation(num_variables)
        query[place, order[:asked]] = row[order[:asked]]
        last = order[num_variables - given :]
        evidence[place, last] = row[last]
    return Queries(query, evidence, asked)


def point_name(point: Point) -> str:
    return f"{point[0]}/{point[1]}"


def find_costs(data: str, learner: str, rows: DensityRows) -> Costs:
    """Return the costs that Table 5.4 records; choose them now if it has no record."""
    settings = read_results("thesis_table54")[f"{data}/{learner}"].settings
    if settings:
        return Costs(settings["edge_cost"], settings["parameter_cost"])
    candidates = list_candidates(learner, data)
    return choose_costs(rows, candidates, LEARNING_SECONDS[learner]).costs


def read_circuit(
    data: str, learner: str, rows: DensityRows, costs: Sequence[float] | None
) -> Circuit:
    chosen = find_costs(data, learner, rows) if costs is None else Costs(*costs)
    return final_circuit(rows, method_of(learner), chosen, LEARNING_SECONDS[learner])


def learn_network(data: str, rows: DensityRows) -> TreeNetwork:
    costs = find_costs(data, "network", rows)
    return learn_within(
        rows, rows.training, "quick", costs, LEARNING_SECONDS["network"]
    )[0].network  # fmt: skip


def answer_exactly(
    data: str, learner: str, num_queries: int, costs: Sequence[float] | None = None
) -> Outcome:
    """Answer the queries of all points by a circuit."""
    rows = read_density(data)
    circuit = read_circuit(data, learner, rows, costs)
    warm = draw_queries(rows.test, (30, 30), 2)
    log_conditionals(circuit, warm.query, warm.evidence)  # compiles kernels
    figures: dict[str, float] = {}
    spent = 0.0
    total = 0
    for point in ALL_POINTS:
        queries = draw_queries(rows.test, point, num_queries)
        began = time.process_time()
        found = log_conditionals(circuit, queries.query, queries.evidence)
        spent += time.process_time() - began
        total += len(found)
        figures |= summarise(point_name(point), found / queries.num_asked)
    return Outcome(figures | {"seconds": spent / total, "edges": circuit.num_edges})


def answer_by_gibbs(
    data: str, scenario: str, points: Sequence[Sequence[int]], num_queries: int, limit: float
) -> Outcome:
    """Answer queries of the points in turn, until all are answered or the seconds end.

    The circuit of quick search answers the same queries, for the difference.
    """
    rows = read_density(data)
    network = learn_network(data, rows)
    circuit = read_circuit(data, "quick", rows, None)
    waiting = {
        (asked, given): draw_queries(rows.test, (asked, given), num_queries)
        for asked, given in points
    }
    options = CHAINS[scenario]
    first = waiting[next(iter(waiting))]
    warm = TreeChainOptions(1, 2, 2)
    estimate_conditionals(network, first.query[:1], first.evidence[:1], warm)
    found: dict[Point, list[float]] = {point: [] for point in waiting}
    began = time.process_time()
    for place in range(len(first.query)):
        for point, queries in waiting.items():
            one = slice(place, place + 1)
            own = options._replace(seed=place)
            answer = estimate_conditionals(network, queries.query[one], queries.evidence[one], own)
            found[point].append(float(answer.log_probability[0]) / queries.num_asked)
            if is_over := time.process_time() - began > limit:
                break
        if is_over:
            break
    spent = time.process_time() - began
    figures: dict[str, float] = {}
    for point, values in found.items():
        if values:
            queries = waiting[point]
            done = slice(len(values))
            exact = log_conditionals(circuit, queries.query[done], queries.evidence[done])
            figures |= summarise(point_name(point), np.array(values))
            difference = np.array(values) - exact / queries.num_asked
            figures |= summarise(f"{point_name(point)}/difference", difference)
    total = sum(map(len, found.values()))
    figures |= {"seconds": spent / total, "queries": total}
    if is_over:
        reason = f"{total} of {num_queries * len(points)} queries"
        return Outcome(figures, {}, STOPPED, reason)
    return Outcome(figures, {}, DONE)


def summarise(name: str, values: np.ndarray) -> dict[str, float]:
    error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return {name: float(values.mean()), f"{name}/error": float(error), f"{name}/n": len(values)}


def list_cells() -> list[Cell]:
    """List quick search, fast sampling and greedy search first, then slower sampling."""
    return [
        make_cell(data, method)
        for method in ("quick", "fast", "greedy", "medium", "slow", "very slow")
        for data in DATA_SETS
    ]


def make_cell(data: str, method: str) -> Cell:
    if method not in CHAINS:
        arguments = {"data": data, "learner": method, "num_queries": NUM_QUERIES}
        return Cell(f"{data}/{method}", answer_exactly, arguments, 400)
    sampling = {
        "data": data,
        "scenario": method,
        "points": [list(point) for point in POINTS[method]],
        "num_queries": NUM_QUERIES,
        "limit": SAMPLING_SECONDS[method],
    }
    return Cell(f"{data}/{method}", answer_by_gibbs, sampling, 600)


def estimate(results: Results, data: str, method: str, point: Point) -> tuple[float, float]:
    """Return the mean log-probability a query variable, and its standard error.

    For Gibbs sampling, which answers fewer queries, that of AC-Quick on all queries plus the mean
    difference on the queries that both answer, with the standard error of the difference.
    """
    name = point_name(point)
    record = results[f"{data}/{method}"]
    if method not in CHAINS:
        return record.figure(name), record.figure(f"{name}/error")
    base = results[f"{data}/quick"].figure(name)
    return (
        base + record.figure(f"{name}/difference"),
        record.figure(f"{name}/difference/error"),
    )


def write_times(results: Results) -> str:
    head = ["seconds a query"]
    for data in DATA_SETS:
        head += [f"{HEADINGS[data]}, thesis", "ours"]
    lines = []
    for method, known in THESIS_SECONDS.items():
        line = [NAMES[method]]
        for data, theirs in zip(DATA_SETS, known, strict=True):
            line += [number(theirs, 3 if theirs < 1 else 0 if theirs > 100 else 2)]
            line += [shown(results[f"{data}/{method}"], time_text)]
        lines.append(line)
    return table(head, lines)


def time_text(record: Record) -> str:
    value = record.figure("seconds")
    text = f"{value:.2g}" if value < 10 else f"{value:.0f}"
    count = record.figures.get("queries")
    return text if count is None else f"{text} ({count:,})"


def write_accuracy(results: Results, data: str) -> str:
    names = [f"{asked} %, {given} %" for asked, given in ALL_POINTS]
    lines = []
    for method, name in NAMES.items():
        line = [name]
        for point in ALL_POINTS:
            mean, error = estimate(results, data, method, point)
            record = results[f"{data}/{method}"]
            is_asked = point in POINTS.get(method, ALL_POINTS)
            has_none = is_asked and not record.has_result
            line.append(shown(record, str) if has_none else accuracy_text(mean, error))
        lines.append(line)
    return table([f"{HEADINGS[data]}: asked, given", *names], lines)


def accuracy_text(mean: float, error: float) -> str:
    if math.isnan(mean):
        return "–"
    spread = "" if math.isnan(error) else f" ± {error:.4f}"
    return minus(f"{mean:.4f}") + spread


def count_dominated(results: Results, scenario: str) -> tuple[int, int, int]:
    """Count the points where AC-Quick is better by two standard errors, where worse, and all."""
    better = worse = total = 0
    for data in DATA_SETS:
        for point in POINTS[scenario]:
            name = f"{point_name(point)}/difference"
            mean = results[f"{data}/{scenario}"].figure(name)
            error = results[f"{data}/{scenario}"].figure(f"{name}/error")
            if not math.isnan(error):
                total += 1
                better += mean < -2 * error
                worse += mean > 2 * error
    return better, worse, total


def write_section(results: Results) -> Section:
    limits = ", ".join(f"{NAMES[each]} {limit:.0f} s" for each, limit in SAMPLING_SECONDS.items())
    pictures = "".join(
        f"![{HEADINGS[data]}: log P per query variable](papers/thesis_figure53_{data}.png)\n"
        for data in DATA_SETS
        if has_results(results, data)
    )
    text = f"""The thesis computed the probability of random query variables given random evidence,
both with the states of a test row. Circuits answered exactly, the WinMine networks by Gibbs
sampling: fast (1 chain, 100 sweeps of burn-in, 1,000 counted), medium (10 chains), slow (10 chains,
1,000 and 10,000) and very slow (10 chains, 10,000 and 100,000), with one count spread over all
states of the query. We use these settings and the models of Table 5.4.

Table 5.5, seconds a query; for Gibbs sampling, with the number of queries answered:

{write_times(results)}
Figure 5.3, log-probability per query variable. The left panels query 30 % of the variables, the
right panels give 30 %:

{pictures}
{"".join(write_accuracy(results, data) + chr(10) for data in DATA_SETS)}
- **Queries.** Circuits answer {NUM_QUERIES:,} queries a point (eachmovie: all 591 test rows).
  Gibbs sampling answers as many as fit into a number of processor seconds a data set
  ({limits}), on fewer points where it is slower. A dash is a point that was left out.
- **Means of Gibbs sampling** are that of AC-Quick on all queries plus the mean difference on the
  queries that both answered; ± is the standard error of this difference. For circuits it is that of
  the mean over queries.
- **The figure of the thesis** has no printed numbers, so only its statements compare: circuits
  dominate the slowest sampling except for few query variables.
"""
    return Section(text, write_verdict(results), CHOICES)


def has_results(results: Results, data: str) -> bool:
    return any(results[f"{data}/{method}"].has_result for method in NAMES)


def write_verdict(results: Results) -> str:
    parts = []
    for scenario in CHAINS:
        better, worse, total = count_dominated(results, scenario)
        if total:
            parts.append(
                f"AC-Quick better than {NAMES[scenario]} at {better} of {total} points, "
                f"worse at {worse} (two standard errors)"
            )
    record = results["kdd/quick"]
    if record.has_result:
        spent = seconds(record.figure("seconds")).replace(" s", "")
        parts.append(f"a query to the circuit of kdd in {spent} s instead of 0.198 s")
    return "; ".join(parts) or "not run"


def draw(results: Results, folder: Path) -> None:
    """Draw the two panels of each data set."""
    for data in DATA_SETS:
        if has_results(results, data):
            panels = [
                draw_side(results, data, EVIDENCE_POINTS, 1, "evidence variables (%)"),
                draw_side(results, data, QUERY_POINTS, 0, "query variables (%)"),
            ]
            draw_panels(panels, folder / f"thesis_figure53_{data}.png")


def draw_side(results: Results, data: str, points: Sequence[Point], axis: int, label: str) -> Panel:
    curves = {}
    for method, name in NAMES.items():
        values = [(point[axis], *estimate(results, data, method, point)) for point in points]
        known = [value for value in values if not math.isnan(value[1])]
        if known:
            x, y, error = zip(*known, strict=True)
            is_sampled = method in CHAINS
            bars = [0.0 if math.isnan(each) else each for each in error] if is_sampled else None
            curves[name] = Curve(x, y, bars)
    return Panel(HEADINGS[data], label, "log P per query variable", curves)


CHOICES = (
    Choice("costs of the models", "as in Table 5.4: validation rows", True),
    Choice("number of queries of Gibbs sampling", "by the time available", True),
)

EXPERIMENT = Experiment(
    "thesis_figure53",
    "Table 5.5 and Figure 5.3: queries",
    "thesis",
    list_cells,
    write_section,
    Cell(
        "smallest",
        answer_exactly,
        {"data": "kdd", "learner": "quick", "num_queries": 5, "costs": [0.1, 0.0]},
    ),
    draw,
)

if __name__ == "__main__":
    run(EXPERIMENT)

"""Chapter 6 of Lowd's thesis: circuits that approximate networks, compared with exact answers.

The marginals of 50 evidence sets a network: AC² with each kind of parameters, belief propagation,
mean field, and Gibbs sampling for at least as long as AC² took. The budget of edges is chosen on
small networks that are not compared.

    python -m benchmarks.papers.thesis_chapter6
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from benchmarks import protocol
from benchmarks.loopy import propagate
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
from benchmarks.papers.density import stop_after
from benchmarks.papers.markdown import number, seconds, table
from benchmarks.papers.pictures import Curve, Panel, draw_panels

import lapis
from lapis.circuits.approximation.approximate import find_structure, fit_structure
from lapis.circuits.approximation.samples import sample_forward, sample_gibbs
from lapis.circuits.circuit import Circuit
from lapis.circuits.compilation.compile_model import compile_factors
from lapis.circuits.compilation.partition import find_marginals
from lapis.circuits.evaluation import no_evidence, posteriors
from lapis.circuits.factor_files import read_factor_file
from lapis.circuits.factor_graph import FactorGraph, graph_of_tables
from lapis.circuits.ground_factors import ground_factors
from lapis.errors import TooLarge
from lapis.grounding.bottom_up import ground
from lapis.network.csr import row_starts
from lapis.problem.task import build_task

TUNING = ("asia", "cancer", "earthquake", "survey", "sachs", "child")
COMPARED = (
    "alarm", "insurance", "water", "hailfinder", "hepar2", "win95pts", "andes", "pigs",
    "mildew", "pathfinder", "barley", "munin1", "diabetes", "link", "munin2", "munin3", "munin4",
    "munin",
)  # fmt: skip
# Models without a network: (size, width of coupling or noise). Belief propagation fails on most.
DENSE: Mapping[str, tuple[int, float]] = {
    "rules": (40, 0.0),
    "couplings-1": (16, 1.0),
    "couplings-2": (16, 2.0),
    "couplings-2-wide": (24, 2.0),
    "parities-0.05": (60, 0.05),
    "parities-0.01": (60, 0.01),
    "parities-0.05-wide": (100, 0.05),
}
RULES = """person = {{{people}}}
Friends(person, person)
Smokes(person)
Cancer(person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
"""
PARAMETERS = ("F", "G", "V", "VI", "E", "P")
METHODS = (*PARAMETERS, "BP", "mean field", "Gibbs")
NUM_SETS = 50
TUNING_SETS = 20
OBSERVED_SHARE = 0.3
EDGES_PER_STATE = (5, 10, 20, 50)
TUNED_KL = 0.001  # of VI, nats a query variable
EXACT_EDGES = 1 << 22
STRUCTURE_SECONDS = 12.0
SET_SECONDS = 28.0
LEAST = 1e-12  # a marginal of 0 counts as this in KL

# Libra on hepar2 with 50 sets of 21 observed variables: KL, largest error, ms a query.
LIBRA: Mapping[str, tuple[float, float, float]] = {
    "BP": (0.00003, 0.027, 2.1),
    "mean field": (0.033, 0.947, 5.6),
    "Gibbs": (0.00003, 0.034, 223),
    "F": (0.00178, 0.478, 0.6),
    "G": (0.00008, 0.023, 359),
    "V": (0.00036, 0.066, 4914),
}

Result = TypeVar("Result")
Answer = tuple[np.ndarray, float]  # marginals of all states, and processor seconds


class SetScore(NamedTuple):
    """The scores of a method on one evidence set."""

    kl: float  # mean of the unobserved variables, in nats
    error: float  # of the worst state
    seconds: float


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Return the result of a call and the processor seconds of this thread.

    The processor time of a process has steps of 4 ms while the process has a limit of it.
    """
    began = time.thread_time()
    result = work()
    return result, time.thread_time() - began


def read_network(name: str) -> FactorGraph:
    return read_factor_file(protocol.DATA / "bayesnets" / "bif" / f"{name}.bif.gz")


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
    entries = np.log(np.where(even, 1 - noise, noise))
    scopes = [rng.permutation(size)[:3].tolist() for _ in range(size)]
    tables = [(scope, entries) for scope in scopes]
    tables += [([v], np.array([0.0, rng.normal(0, 0.3)])) for v in range(size)]
    return graph_of_tables([f"x{v}" for v in range(size)], [["0", "1"]] * size, tables)


def friends_and_smokers(num_people: int) -> FactorGraph:
    """Ground a Markov logic network: 4 friends each, a fifth is observed to smoke or not."""
    rng = np.random.default_rng(0)
    people = [f"P{place}" for place in range(num_people)]
    facts = [
        f"Friends({one}, {people[other]})"
        for place, one in enumerate(people)
        for other in rng.choice(np.delete(np.arange(num_people), place), 4, replace=False)
    ]
    seen = rng.permutation(num_people)[: num_people // 5]
    facts += [f"{'!' * int(rng.integers(2))}Smokes({people[each]})" for each in seen]
    task = build_task(
        lapis.parse(RULES.format(people=", ".join(people))),
        [lapis.Database.parse("\n".join(facts))],
        ["Smokes", "Cancer"],
    )
    return ground_factors(ground(task.worlds[0].problem)).graph


def choose_budget(networks: Sequence[str], candidates: Sequence[int], num_sets: int) -> Outcome:
    """Choose the smallest budget at which the mean KL of VI on the networks is small enough."""
    kl = {}
    for edges_per_state in candidates:
        scores = []
        for name in networks:
            graph = read_network(name)
            comparison = Comparison(graph, edges_per_state, 0)
            rows = draw_evidence(graph, num_sets, OBSERVED_SHARE)
            scores += [comparison.score(row, ("VI",))["VI"].kl for row in rows]
        kl[edges_per_state] = float(np.mean(scores))
    enough = [each for each in candidates if kl[each] <= TUNED_KL]
    chosen = min(enough) if enough else max(candidates)
    figures = {f"kl at {each}": value for each, value in kl.items()}
    return Outcome(figures, {"edges_per_state": chosen})


def chosen_budget() -> int:
    """Return the recorded choice; choose now if there is no record."""
    settings = read_results("thesis_chapter6")["budget"].settings
    if not settings:
        settings = choose_budget(TUNING, EDGES_PER_STATE, TUNING_SETS).settings
    return int(settings["edges_per_state"])


def draw_evidence(graph: FactorGraph, num_sets: int, share: float) -> np.ndarray:
    """Draw rows of evidence: random variables, states of a sampled world; negative is unknown."""
    rows = np.full((num_sets, graph.num_variables), -1, np.int32)
    if not share:
        return rows
    rng = np.random.default_rng(0)
    worlds = sample_forward(graph, num_sets, 2)
    for row, world in zip(rows, worlds, strict=True):
        seen = rng.permutation(graph.num_variables)[: int(share * graph.num_variables)]
        row[seen] = world[seen]
    return rows


class Comparison:
    """A model, its approximate structure, and its exact answers."""

    def __init__(self, graph: FactorGraph, edges_per_state: int, seed: int) -> None:
        self.graph, self.seed = graph, seed
        self.exact_edges, self.exact = exact_marginals(graph)
        nothing = np.full(graph.num_variables, -1, np.int32)
        self.max_edges = edges_per_state * int(graph.size.sum())
        self.structure, self.structure_seconds = timed(
            lambda: find_structure(
                graph, nothing, self.max_edges, seed=seed, stop=stop_after(STRUCTURE_SECONDS)
            )
        )
        self.independent = compile_factors(graph_of_tables(graph.names, graph.states, [])).circuit
        self.sweep_seconds = self.time_sweeps(nothing)

    def time_sweeps(self, row: np.ndarray) -> float:
        """Return the processor seconds of a sweep of Gibbs sampling."""
        sample_gibbs(self.graph, row, 4, self.seed)
        _, spent = timed(lambda: sample_gibbs(self.graph, row, 400, self.seed))
        return spent / 800  # 4 × 100 sweeps of burn-in too

    def score(self, row: np.ndarray, methods: Sequence[str]) -> dict[str, SetScore]:
        """Score methods on an evidence set; those that refuse it are left out."""
        truth, asked_seconds = timed(lambda: self.exact(row))
        answers: dict[str, Answer] = {"exact": (truth, asked_seconds)}
        for method in methods:
            with suppress(TooLarge):
                answers[method] = self.answer(row, method, answers)
        return {method: score_marginals(self.graph, row, truth, *found)
                for method, found in answers.items()}  # fmt: skip

    def answer(self, row: np.ndarray, method: str, others: Mapping[str, Answer]) -> Answer:
        if method == "BP":
            return timed(lambda: propagate(self.graph, row).state)
        if method == "mean field":
            return timed(lambda: self.by_circuit(row, "V", self.independent))
        if method == "Gibbs":
            least = max((others[each][1] for each in PARAMETERS if each in others), default=0.1)
            return timed(lambda: self.by_gibbs(row, least))
        return timed(lambda: self.by_circuit(row, method, self.structure))

    def by_circuit(self, row: np.ndarray, parameters: str, structure: Circuit) -> np.ndarray:
        if parameters == "F":
            return np.asarray(posteriors(structure, row[None])[1][0])
        circuit = fit_structure(self.graph, structure, row, parameters, self.seed).circuit
        return np.asarray(posteriors(circuit, no_evidence(circuit))[1][0])

    def by_gibbs(self, row: np.ndarray, least_seconds: float) -> np.ndarray:
        """Return Rao–Blackwellised marginals of runs of four chains, until the seconds have passed.

        The first run takes about half of them.
        """
        end = time.thread_time() + least_seconds
        num_samples = max(100, int(least_seconds / 2 / self.sweep_seconds) - 400)
        runs: list[np.ndarray] = []
        while not runs or time.thread_time() < end:
            seed = self.seed + len(runs)
            samples = sample_gibbs(self.graph, row, num_samples, seed)
            runs.append(samples.conditional.mean(axis=0))
        found = np.mean(runs, axis=0)
        first = row_starts(self.graph.size)[:-1]
        found[(first + row)[row >= 0]] = 1.0
        return np.asarray(found)


def exact_marginals(graph: FactorGraph) -> tuple[int | None, Callable[[np.ndarray], np.ndarray]]:
    """Return the edges of the exact circuit, and a function from evidence to all marginals.

    Without a circuit of at most EXACT_EDGES edges, the marginals are computed by junction trees.
    """
    try:
        circuit = compile_factors(graph, EXACT_EDGES).circuit
    except TooLarge:
        return None, lambda row: np.asarray(
            find_marginals(
                graph.condition({int(v): int(row[v]) for v in np.flatnonzero(row >= 0)})
            ).state
        )
    return circuit.num_edges, lambda row: np.asarray(posteriors(circuit, row[None])[1][0])


def score_marginals(
    graph: FactorGraph, row: np.ndarray, truth: np.ndarray, found: np.ndarray, spent: float
) -> SetScore:
    asked = np.repeat(row < 0, graph.size)
    p, q = truth[asked], np.clip(found[asked], LEAST, 1.0)
    logs = np.log(np.where(p > 0, p, 1.0)) - np.log(q)
    kl = float((p * logs).sum() / max(1, int((row < 0).sum())))
    return SetScore(kl, float(np.abs(p - found[asked]).max(initial=0.0)), spent)


def compare_network(name: str, num_sets: int, set_seconds: float) -> Outcome:
    """Compare all methods on a network, until its evidence sets or the seconds end."""
    graph = read_network(name)
    rows = draw_evidence(graph, num_sets, OBSERVED_SHARE)
    return compare_graph(graph, rows, set_seconds, chosen_budget())


def compare_dense(
    kind: str, size: int, strength: float, edges_per_state: int | None = None
) -> Outcome:
    """Compare all methods on a generated model without evidence."""
    if kind == "rules":
        graph = friends_and_smokers(size)
    else:
        graph = couplings(size, strength) if kind == "couplings" else parities(size, strength)
    rows = draw_evidence(graph, 1, 0.0)
    return compare_graph(graph, rows, math.inf, edges_per_state or chosen_budget())


def compare_graph(
    graph: FactorGraph, rows: np.ndarray, set_seconds: float, edges_per_state: int
) -> Outcome:
    comparison = Comparison(graph, edges_per_state, 0)
    comparison.score(rows[0], METHODS)  # compiles kernels
    began = time.process_time()
    scores: dict[str, list[SetScore]] = {}
    num_done = 0
    for row in rows:
        for method, score in comparison.score(row, METHODS).items():
            scores.setdefault(method, []).append(score)
        num_done += 1
        if time.process_time() - began > set_seconds:
            break
    figures = {
        "variables": graph.num_variables,
        "states": int(graph.size.sum()),
        "exact_edges": comparison.exact_edges,
        "max_edges": comparison.max_edges,
        "edges": comparison.structure.num_edges,
        "structure_seconds": comparison.structure_seconds,
        "num_sets": num_done,
    }
    for method, each in scores.items():
        figures |= summarise(method, each)
    settings = {"edges_per_state": edges_per_state}
    if num_done < len(rows):
        return Outcome(figures, settings, STOPPED, f"{num_done} of {len(rows)} evidence sets")
    return Outcome(figures, settings, DONE)


def summarise(method: str, scores: Sequence[SetScore]) -> dict[str, float | int]:
    kl, error, spent = np.array(scores).T
    return {
        f"{method}/kl": float(kl.mean()),
        f"{method}/kl_error": float(kl.std(ddof=1) / math.sqrt(len(kl))) if len(kl) > 1 else 0.0,
        f"{method}/max_error": float(error.max()),
        f"{method}/seconds": float(spent.mean()),
        f"{method}/sets": len(scores),
    }


def list_cells() -> list[Cell]:
    """List the choice of the budget, then networks from narrow to wide, then dense models."""
    tuning = {"networks": TUNING, "candidates": EDGES_PER_STATE, "num_sets": TUNING_SETS}
    cells = [Cell("budget", choose_budget, tuning, 120)]
    for name in COMPARED:
        arguments = {"name": name, "num_sets": NUM_SETS, "set_seconds": SET_SECONDS}
        cells.append(Cell(f"network/{name}", compare_network, arguments, 150))
    for name, (size, strength) in DENSE.items():
        dense = {"kind": name.partition("-")[0], "size": size, "strength": strength}
        cells.append(Cell(f"dense/{name}", compare_dense, dense, 60))
    return cells


def kl_text(value: float) -> str:
    """Return a divergence with two digits."""
    if math.isnan(value):
        return "–"
    return f"{value:.0e}".replace("e-0", "e−") if value < 1e-4 else f"{value:.2g}"


def figure_row(record: Record, figure: str, write: Callable[[float], str]) -> list[str]:
    return [write(record.figure(f"{method}/{figure}")) for method in METHODS]


def status_text(record: Record) -> str:
    """Return the number of evidence sets, or why there is no result."""
    if record.status == DONE:
        return f"{record.figure('num_sets'):.0f}"
    if record.status == STOPPED:
        return f"{record.figure('num_sets'):.0f}*"
    if record.status == "out of time":
        return f"not done in {seconds(record.limit_seconds)}"
    return f"{record.status}: {record.reason}" if record.reason else record.status


def write_divergences(results: Results) -> str:
    lines = []
    for name in COMPARED:
        record = results[f"network/{name}"]
        exact = record.figure("exact_edges")
        exact_text = (
            "junction tree" if record.has_result and math.isnan(exact) else number(exact, 0)
        )
        lines.append(
            [
                name,
                number(record.figure("variables"), 0),
                exact_text,
                number(record.figure("edges"), 0),
                status_text(record),
                *figure_row(record, "kl", kl_text),
            ]
        )
    head = ["network", "variables", "exact edges", "edges", "sets", *METHODS]
    return table(head, lines)


def write_seconds(results: Results) -> str:
    def milliseconds(value: float) -> str:
        return "–" if math.isnan(value) else f"{1e3 * value:,.3g}"

    lines = [
        [
            name,
            number(record.figure("structure_seconds"), 1),
            milliseconds(record.figure("exact/seconds")),
            *figure_row(record, "seconds", milliseconds),
        ]
        for name in COMPARED
        if (record := results[f"network/{name}"]).has_result
    ]
    return table(["network", "structure, s", "exact", *METHODS], lines) if lines else "not run\n"


def write_dense(results: Results) -> str:
    lines = []
    for name, (size, _) in DENSE.items():
        record = results[f"dense/{name}"]
        edges = number(record.figure("edges"), 0) if record.has_result else status_text(record)
        lines.append([name, f"{size}", edges, *figure_row(record, "kl", kl_text)])
    return table(["model", "variables", "edges", *METHODS], lines)


def write_libra(results: Results) -> str:
    record = results["network/hepar2"]
    lines = []
    for method, (kl, error, milliseconds) in LIBRA.items():
        ours = ["–"] * 3
        if record.has_result:
            ours = [
                kl_text(record.figure(f"{method}/kl")),
                number(record.figure(f"{method}/max_error")),
                f"{1e3 * record.figure(f'{method}/seconds'):.2g}",
            ]
        lines.append([method, kl_text(kl), number(error), f"{milliseconds:g}", *ours])
    head = ["hepar2", "KL, Libra", "most", "ms", "KL, ours", "most", "ms"]
    return table(head, lines)


def count_wins(results: Results, one: str, other: str) -> tuple[int, int]:
    """Count the networks on which a method has a smaller KL than another; and those with both."""
    pairs = [
        (record.figure(f"{one}/kl"), record.figure(f"{other}/kl"))
        for record in results.under("network/")
    ]
    known = [pair for pair in pairs if not any(map(math.isnan, pair))]
    return sum(a < b for a, b in known), len(known)


def write_section(results: Results) -> Section:
    budget = results["budget"].settings.get("edges_per_state", "not run")
    tried = ", ".join(
        f"{each}: {kl_text(results['budget'].figure(f'kl at {each}'))}" for each in EDGES_PER_STATE
    )
    picture = "![KL divergence of the methods](papers/thesis_chapter6.png)\n"
    text = f"""Chapter 6 is empty in our copy of the thesis. Its method appeared as AC² (NIPS
2010): a circuit within a budget of edges stands in for a network that is too wide to compile. There
is no table to reproduce, so we compare AC² with exact answers on the networks of bnlearn.

- **Evidence.** {NUM_SETS} sets a network: {100 * OBSERVED_SHARE:.0f} % of the variables, drawn at
  random, in the states of a world that is sampled from the network. A star means that the seconds
  ended before the sets: {SET_SECONDS:.0f} a network, besides {STRUCTURE_SECONDS:.0f} for the
  structure.
- **Score.** KL divergence of the marginal of each unobserved variable from the exact one, in nats,
  mean over variables and sets. A marginal of 0 counts as {LEAST:.0e}.
- **Parameters.** The structure is found once a network. F keeps its parameters, G matches Gibbs
  samples, V is variational; these are of the paper. VI corrects V by importance weights, E matches
  worlds drawn by a junction tree, P matches particles; these are ours. `auto` chooses E where its
  tables fit, otherwise VI or P.
- **Gibbs** has as much time as the slowest of the parameters on the same evidence set.
- **Budget.** {budget} edges for each state of a variable: the smallest of
  {", ".join(map(str, EDGES_PER_STATE))} with a mean KL of VI of at most {TUNED_KL} on
  {", ".join(TUNING)} ({tried}).
  These networks are not compared.
- **Exact circuits** of many networks are small, and answer faster than any approximation. Here they
  serve as the reference. "junction tree" stands for an exact circuit of more than
  {EXACT_EDGES:,} edges.

{write_divergences(results)}
Milliseconds an evidence set; of `exact` after compiling:

{write_seconds(results)}
{picture if drawn_networks(results) else ""}
Libra (by the authors of the thesis) on hepar2, with a circuit of 2,719 edges and its Gibbs settings
"medium", measured on another machine; "most" is the largest error of a marginal:

{write_libra(results)}
Models that are no Bayesian networks: rules about friends and smokers, ground with evidence; all
pairs of variables coupled at random; parities of three variables with noise. Belief propagation
fails on most. `wide` models have no junction tree of 4 million entries, so E is not possible:

{write_dense(results)}"""
    return Section(text, write_verdict(results), CHOICES)


def write_verdict(results: Results) -> str:
    parts = []
    for one, other in (("VI", "Gibbs"), ("VI", "BP"), ("P", "Gibbs")):
        wins, total = count_wins(results, one, other)
        if total:
            parts.append(f"{one} closer than {other} on {wins} of {total} networks")
    return "no table in our copy; " + ("; ".join(parts) or "not run")


def drawn_networks(results: Results) -> list[str]:
    return [name for name in COMPARED if results[f"network/{name}"].has_result]


def draw(results: Results, folder: Path) -> None:
    """Draw the KL of each method on the networks, and the means of KL and time."""
    names = drawn_networks(results)
    if not names:
        return
    curves, means = {}, {}
    for method in METHODS:
        records = [results[f"network/{name}"] for name in names]
        kl = [max(record.figure(f"{method}/kl"), 1e-6) for record in records]
        curves[method] = Curve(list(range(1, len(names) + 1)), kl)
        spent = [1e3 * record.figure(f"{method}/seconds") for record in records]
        means[method] = Curve([geometric_mean(spent)], [geometric_mean(kl)])
    places = ", ".join(f"{place} {name}" for place, name in enumerate(names, 1))
    panels = [
        Panel("KL divergence by network", wrap(places), "nats a variable", curves, log_y=True),
        Panel("geometric means over networks", "ms an evidence set", "KL, nats a variable", means,
              log_x=True, log_y=True),
    ]  # fmt: skip
    draw_panels(panels, folder / "thesis_chapter6.png")


def geometric_mean(values: Sequence[float]) -> float:
    known = [value for value in values if value > 0]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else math.nan


def wrap(text: str) -> str:
    """Break a label into lines of six names."""
    words = text.split(", ")
    return "\n".join(", ".join(words[at : at + 6]) for at in range(0, len(words), 6))


CHOICES = (
    Choice("budget of edges", "smallest good one on six networks that are not compared", True),
    Choice("share of observed variables", "that of Libra's measurement on hepar2", True),
    Choice("samples, burn-in, iterations", "defaults of `lapis circuit approximate`, which were "
           "set while results on hepar2, alarm, insurance and andes were known", False),
    Choice("limits of time", "by the time available", True),
)  # fmt: skip

EXPERIMENT = Experiment(
    "thesis_chapter6",
    "Chapter 6: approximation by circuits",
    "thesis",
    list_cells,
    write_section,
    Cell(
        "smallest",
        compare_dense,
        {"kind": "couplings", "size": 6, "strength": 1.0, "edges_per_state": 20},
    ),
    draw,
)

if __name__ == "__main__":
    run(EXPERIMENT)

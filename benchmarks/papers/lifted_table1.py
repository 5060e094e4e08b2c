"""Table 1 of Van den Broeck, Meert and Davis (2013): likelihood of a held-out fold.

Weights are learned by pseudo-likelihood (PLL), by preconditioned scaled conjugate gradients with
counts from MC-SAT (PSCG), and by lifted likelihood (LWL). The databases are those of the authors'
repository. Theories are the authors', the same with unit clauses, and those that our BUSL and MSL
learn from the training folds. A cell is a theory with one fold held out: the search for rules, the
three weight learners, and the exact likelihoods by a first-order circuit.
"""

from __future__ import annotations

import math
import re
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks import protocol
from benchmarks.papers.cells import (
    REFUSED,
    Cell,
    Choice,
    Experiment,
    Outcome,
    Record,
    Results,
    Section,
    run,
)
from benchmarks.papers.markdown import number, seconds, shown, table

import lapis
from lapis.errors import TooLarge

NAME = "lifted_table1"
WAYS = ("PSCG", "PLL", "LWL")  # in the order of the paper's columns
PRIOR = "gaussian:10"
THEORY_SECONDS = 20.0  # processor seconds of the search for rules
WEIGHT_SECONDS: Mapping[str, float] = {"PSCG": 12.0, "PLL": 12.0, "LWL": 30.0}
ROW_SECONDS = 100.0  # of a cell
ROUNDING = 0.5  # nats: half a unit of the figures that the paper prints
# The five words that the authors' repository has for all four universities.
WORDS = ("HasAssign", "HasHour", "HasHomework", "HasInstructor", "HasSyllabu")


class Source(NamedTuple):
    """The authors' databases and theory of one domain."""

    title: str
    folder: str
    theory: str
    databases: Mapping[str, tuple[str, ...]]  # of each fold, in the order of the paper


SETS: Mapping[str, Source] = {
    "uwcse": Source(
        "UW-CSE",
        "uwcse/forclift",
        "convergencetest.mln",
        {
            area: (f"uwcse_fold{number}.db",)
            for number, area in enumerate(("theory", "language", "graphics", "systems", "ai"), 1)
        },
    ),
    "imdb": Source(
        "IMDB",
        "imdb/forclift",
        "formulas.mln",
        {f"fold{number}": (f"imdb_fold{number}.db",) for number in range(1, 6)},
    ),
    "webkb": Source(
        "WebKB",
        "webkb/forclift/page-links",
        "webkb.mln",
        {
            "cornell": ("webkb-fold12-train1.db", "webkb-fold41-train1.db"),
            "texas": ("webkb-fold12-train2.db", "webkb-fold23-train2.db"),
            "washington": ("webkb-fold23-train3.db", "webkb-fold34-train3.db"),
            "wisconsin": ("webkb-fold34-train4.db", "webkb-fold41-train4.db"),
        },
    ),
}
THEORIES: Mapping[str, str] = {
    "authors": "authors' theory",
    "units": "the same and unit clauses",
    "msl": "our MSL",
    "busl": "our BUSL",
}
AUTHORS = ("authors", "units")
# Table 1 of the paper: PSCG, PLL and LWL of its folds. It has no row of BUSL on WebKB.
PAPER: Mapping[tuple[str, str], tuple[tuple[int, int, int], ...]] = {
    ("uwcse", "busl"): (
        (-1671, -2564, -1523),
        (-684, -909, -541),
        (-1702, -2871, -1283),
        (-3291, -2660, -2565),
        (-3399, -5280, -2362),
    ),
    ("uwcse", "msl"): (
        (-25745, -1519, -1497),
        (-1070, -535, -524),
        (-21936, -1213, -1209),
        (-2756, -2472, -2471),
        (-51903, -2261, -2274),
    ),
    ("imdb", "busl"): (
        (-379, -1190, -377),
        (-580, -1241, -558),
        (-907, -1581, -968),
        (-291, -660, -284),
        (-608, -539, -267),
    ),
    ("imdb", "msl"): (
        (-1641792, -9672, -831),
        (-1690616, -12471, -766),
        (-32286, -18242, -1307),
        (-229063, -1354, -698),
        (-16250, -982, -700),
    ),
    ("webkb", "msl"): (
        (-9453, -5860, -5655),
        (-27628, -5129, -5047),
        (-26548, -4135, -3917),
        (-18052, -4367, -4280),
    ),
}
# The rows of the paper that stand beside the authors' theories.
BESIDE: Mapping[tuple[str, str], str] = {("imdb", "authors"): "msl", ("imdb", "units"): "msl"}


def read_theory(data: str) -> list[str]:
    """Return the lines of the authors' file, without empty types; for WebKB the words too."""
    path = protocol.DATA / SETS[data].folder / SETS[data].theory
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    words = [f"{word}(page)" for word in WORDS if data == "webkb"]
    return words + [line for line in lines if line and "{}" not in line]


def read_declarations(data: str) -> list[str]:
    """Return the declarations of predicates."""
    return [line for line in read_theory(data) if re.fullmatch(r"\w+\([\w\s,]+\)", line)]


def read_fold(data: str, fold: str) -> lapis.Database:
    """Return the declared atoms of a fold; the files of a WebKB fold differ in their words only."""
    declared = {line.partition("(")[0] for line in read_declarations(data)}
    folder = protocol.DATA / SETS[data].folder
    facts = {
        line.strip(): None
        for name in SETS[data].databases[fold]
        for line in (folder / name).read_text(encoding="utf-8").splitlines()
        if line.partition("(")[0] in declared
    }
    return lapis.Database.parse("\n".join(facts))


def read_split(data: str, test: str) -> tuple[list[lapis.Database], lapis.Database]:
    """Return the worlds of the training folds and that of the test fold."""
    train = [read_fold(data, fold) for fold in SETS[data].databases if fold != test]
    return train, read_fold(data, test)


def has_spent(limit: float) -> Callable[[], bool]:
    """Return whether a number of processor seconds was used since this call."""
    end = time.process_time() + limit
    return lambda: time.process_time() > end


def learn_row(data: str, theory: str, test: str) -> Outcome:
    """Learn a theory, if it is not the authors', and its weights by all learners."""
    warnings.simplefilter("ignore")  # predicates that a theory leaves out, weights without bound
    train, held_out = read_split(data, test)
    learned: Mapping[str, Any] = {}
    text = "\n".join(read_theory(data))
    if theory not in AUTHORS:
        text, learned = learn_theory(data, theory, train)
    model = lapis.parse(text)
    figures: dict[str, Any] = {"theory": text, **learned}
    try:
        check_liftable(model, held_out)
        for way in ("LWL", "PLL", "PSCG"):
            found = learn_weights(model, train, held_out, way, theory == "units")
            figures |= {f"{way}/{name}": value for name, value in found.items()}
    except TooLarge as error:
        return Outcome(figures, status=REFUSED, reason=error.message)
    return Outcome(figures)


def learn_theory(
    data: str, system: str, train: list[lapis.Database]
) -> tuple[str, Mapping[str, Any]]:
    """Return rules without weights, as text, and the figures of the search."""
    declarations = read_declarations(data)
    found = lapis.learn_structure(
        lapis.parse("\n".join(declarations)),
        train,
        method=system,
        max_literals=4,
        max_variables=3,
        stop=has_spent(THEORY_SECONDS),
        progress=False,
    )
    rules = [rule.text for rule in found.model.rules]
    figures = {
        "rules": float(len(rules) - len(declarations)),  # without unit clauses
        "interrupted": found.interrupted,
    }
    return "\n".join([*declarations, *rules]), figures


def learn_weights(
    model: lapis.Model, train: list[lapis.Database], test: lapis.Database, way: str, units: bool
) -> Mapping[str, Any]:
    """Return the exact likelihoods under the weights of a learner, and how it ended."""
    began = time.process_time()
    fit = lapis.learn(
        model,
        train,
        prior=PRIOR,
        unit_formulas=units,
        stop=has_spent(WEIGHT_SECONDS[way]),
        progress=False,
        **options_of(way),
    )
    spent = time.process_time() - began
    return {
        "test": likelihood(fit.model, [test]),
        "train": likelihood(fit.model, train),
        "iterations": float(fit.iterations),
        "seconds": spent,
        "converged": fit.converged,
        "weights": fit.weights,
    }


def options_of(way: str) -> Mapping[str, Any]:
    """Return the arguments of `lapis.learn` for a weight learner."""
    if way == "PLL":
        return {"objective": "pseudo", "optimizer": "lbfgs"}
    if way == "LWL":
        return {"objective": "likelihood", "expectation": "lifted", "optimizer": "lbfgs"}
    return {
        "objective": "likelihood",
        "expectation": "mcsat",
        "optimizer": "pscg",
        "optimizer_options": {"max_covariances": 0},
        "random_state": 1,
    }


def check_liftable(model: lapis.Model, world: lapis.Database) -> None:
    """Raise TooLarge if log Z of a world of this size cannot be computed."""
    problem = lapis.build_problem(model, world)
    lapis.lift(model, sizes={name: len(domain) for name, domain in problem.domains.items()})


def likelihood(model: lapis.Model, worlds: Sequence[lapis.Database]) -> float:
    found = lapis.score(model, list(worlds)).log_likelihood
    return math.nan if found is None else found


def list_cells() -> Sequence[Cell]:
    """Return the rows of the authors' theories first."""
    return [
        Cell(f"{data}/{theory}/{test}", learn_row, arguments, ROW_SECONDS)
        for theory in THEORIES
        for data, source in SETS.items()
        if (data, theory) != ("webkb", "units")  # the clauses as they are do not lift
        for test in source.databases
        for arguments in [{"data": data, "theory": theory, "test": test}]
    ]


class Row(NamedTuple):
    """A theory with one fold held out."""

    data: str
    theory: str
    test: str
    record: Record

    def score(self, way: str, fold: str = "test") -> float:
        return self.record.figure(f"{way}/{fold}")

    def is_complete(self) -> bool:
        return all(not math.isnan(self.score(way)) for way in WAYS)

    def is_best(self, fold: str) -> bool:
        """Return whether LWL is not below another learner by more than rounding."""
        best = max(self.score(way, fold) for way in WAYS)
        return self.score("LWL", fold) >= best - ROUNDING

    def paper(self) -> tuple[int, ...]:
        """Return the paper's PSCG, PLL and LWL beside this row."""
        system = BESIDE.get((self.data, self.theory), self.theory)
        folds = PAPER.get((self.data, system), ())
        at = list(SETS[self.data].databases).index(self.test)
        return folds[at] if folds else ()


def find_rows(results: Results) -> list[Row]:
    """Return the rows in the order of the cells."""
    return [
        Row(cell.arguments["data"], cell.arguments["theory"], cell.arguments["test"], record)
        for cell in list_cells()
        for record in [results[cell.key]]
    ]


def write_section(results: Results) -> Section:
    rows = find_rows(results)
    parts = [INTRODUCTION, "**Means of the folds that have three results**\n", write_means(rows)]
    for data, source in SETS.items():
        own = [row for row in rows if row.data == data]
        parts += [f"**{source.title}**\n", write_table(own), write_reasons(own)]
    parts.append(write_findings(rows))
    return Section("\n".join(part for part in parts if part), write_verdict(rows), CHOICES)


def write_means(rows: Sequence[Row]) -> str:
    """Return the means of each theory, ours and the paper's, over the folds that we have."""
    head = ["data", "theory", "folds", *WAYS, *(f"paper: {way}" for way in WAYS)]
    lines = []
    for data, theory in dict.fromkeys((row.data, row.theory) for row in rows):
        own = [row for row in rows if (row.data, row.theory) == (data, theory)]
        complete = [row for row in own if row.is_complete()]
        ours = [number(mean([row.score(way) for row in complete]), 1) for way in WAYS]
        beside = [row.paper() for row in complete or own if row.paper()]
        theirs = zip(*beside, strict=True) if beside else ([],) * len(WAYS)
        count = f"{len(complete)} of {len(own)}"
        printed = [number(mean(values), 0) for values in theirs]
        lines.append([SETS[data].title, THEORIES[theory], count, *ours, *printed])
    return table(head, lines)


def mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else math.nan


def write_table(rows: Sequence[Row]) -> str:
    """Return the log-likelihoods of a data set, ours and the paper's."""
    head = ["theory", "held out", "rules", *WAYS, *(f"paper: {way}" for way in WAYS)]
    lines = []
    for row in rows:
        ours = [write_score(row, way) for way in WAYS]
        theirs = [number(value, 0) for value in row.paper()] or ["–"] * len(WAYS)
        lines.append([THEORIES[row.theory], row.test, write_rules(row), *ours, *theirs])
    return table(head, lines)


def write_rules(row: Row) -> str:
    if row.theory in AUTHORS:
        return "–"
    rules = row.record.figures.get("rules")
    return "–" if rules is None else f"{rules:.0f}{'*' * row.record.figures['interrupted']}"


def write_score(row: Row, way: str) -> str:
    """Return a log-likelihood, bold if it is the largest, with a star if not converged."""
    if not row.record.has_result:
        return row.record.status if row.record.status == REFUSED else shown(row.record, str)
    text = number(row.score(way), 1)
    if row.score(way) == max(row.score(other) for other in WAYS):
        text = f"**{text}**"
    return text + "*" * (not row.record.figures[f"{way}/converged"])


def write_reasons(rows: Sequence[Row]) -> str:
    """Return why rows are refused, one line for each reason."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.record.status == REFUSED:
            name = f"{THEORIES[row.theory]}, {row.test}"
            found.setdefault(shorten(row.record.reason), []).append(name)
    if not found:
        return ""
    lines = [f"- {'; '.join(names)}: {reason}" for reason, names in found.items()]
    return "Why rows are refused:\n\n" + "\n".join(lines) + "\n"


def shorten(reason: str) -> str:
    """Return a reason with its first formula only, as Markdown."""
    first, cut, _ = reason.replace("this model cannot be lifted: ", "").partition("' and '")
    text = re.sub(r"'([^']*)'", r"`\1`", first + cut[:1])
    return f"{text} and others" if cut else text


def write_findings(rows: Sequence[Row]) -> str:
    """Return what the rows show together."""
    complete = [row for row in rows if row.is_complete()]
    if not complete:
        return ""
    spent = {
        way: statistics.median(row.record.figure(f"{way}/seconds") for row in complete)
        for way in ("PLL", "LWL", "PSCG")
    }
    times = ", ".join(f"{way} {seconds(value)}" for way, value in spent.items())
    train = sum(row.is_best("train") for row in complete)
    gains = [row.score("LWL") - row.score("PLL") for row in complete]
    sampled = [row.score("LWL") - row.score("PSCG") for row in complete]
    return (
        f"Of the {len(complete)} rows with three results, LWL has the largest likelihood of the "
        f"training folds in {train}, and of the held-out fold in "
        f"{sum(row.is_best('test') for row in complete)}, up to {ROUNDING:g} nats. In the paper it "
        f"loses two of {len(list_paper())} rows. Weights of Markov logic depend on the number of "
        "constants, so those that fit the training folds best can fit a fold of another size less "
        "well. The median gain of LWL on the held-out fold is "
        f"{number(statistics.median(gains), 1)} nats over PLL and "
        f"{number(statistics.median(sampled), 1)} over PSCG; the largest are "
        f"{number(max(gains), 1)} and {number(max(sampled), 1)}. Median learning time: "
        f"{times}. The paper's averages are 1 second, 2 minutes and 40 minutes.\n"
    )


def list_paper() -> list[tuple[int, ...]]:
    return [row for rows in PAPER.values() for row in rows]


def write_verdict(rows: Sequence[Row]) -> str:
    complete = [row for row in rows if row.is_complete()]
    if not complete:
        return "not run"
    test, train = (sum(row.is_best(fold) for row in complete) for fold in ("test", "train"))
    refused = [row for row in rows if row.record.status == REFUSED]
    names = {f"{SETS[row.data].title} {THEORIES[row.theory]}": None for row in refused}
    text = (
        f"LWL is best on the held-out fold in {test} of {len(complete)} rows (paper: 22 of "
        f"{len(list_paper())}), on the training folds in {train}"
    )
    if refused:
        text += f"; {len(refused)} rows are refused, of {', '.join(names)}"
    return text


INTRODUCTION = f"""The paper learns theories by BUSL and MSL, at most four literals and three
variables in a clause. One fold is held out; the other folds give the theory and the weights. The
table is the log-likelihood of the held-out fold under three kinds of weights:

- PLL: pseudo-likelihood, by L-BFGS.
- PSCG: preconditioned scaled conjugate gradients on the likelihood of all atoms, with expected
  counts from MC-SAT chains and the variances of the counts alone, as in the paper.
- LWL: the likelihood itself, lifted, by L-BFGS.

All likelihoods are exact, by a first-order circuit, as in the paper. The databases are those of the
authors' repository (Forclift, `*/forclift/` in the data), so likelihoods compare with the paper's.
The repository has one theory for each data set, of unknown origin: four clauses for IMDB, two for
UW-CSE (a test of convergence), and rules of page links for WebKB. They have no unit clauses, so
atoms that no clause names have probability ½. Alchemy adds unit clauses when it learns weights;
"the same and unit clauses" does that. "Our BUSL" and "our MSL" are theories that our
implementations learn within the paper's limits, always with unit clauses. The paper's figures of
BUSL and MSL stand beside ours, and those of MSL beside the authors' IMDB theory.

Deviations:

- Which of the paper's theories, if any, the repository's are is not known. A row of ours is
  another theory than the paper's row.
- Each WebKB database of the repository has the ten words of one pair of universities. We use the
  five words that all pairs have; the paper has ten. The order of the universities in the paper is
  not known. Its four rows are printed in its order.
- A star marks weights that did not converge within {WEIGHT_SECONDS["LWL"]:g} s (LWL) or
  {WEIGHT_SECONDS["PSCG"]:g} s (PLL and PSCG), and a search for rules that was stopped after
  {THEORY_SECONDS:g} s. The paper's PSCG takes 40 minutes on average.

The largest of the three likelihoods of a row is bold.
"""
CHOICES = (
    Choice(f"prior {PRIOR}", "the default of Lapis, for all learners; the paper names none", True),
    Choice(
        "WebKB words",
        "the five that all pairs of folds have; by what the files contain, not by results",
        True,
    ),
    Choice(
        f"{WEIGHT_SECONDS['PSCG']:g} s for PSCG, {WEIGHT_SECONDS['LWL']:g} s for LWL",
        "by the time of the machine, after trial runs on one fold whose likelihoods were seen",
        False,
    ),
)

EXPERIMENT = Experiment(
    NAME,
    "Table 1: log-likelihood of held-out folds",
    "lifted",
    list_cells,
    write_section,
    Cell("smallest", learn_row, {"data": "imdb", "theory": "authors", "test": "fold1"}),
)

if __name__ == "__main__":
    run(EXPERIMENT)

"""IJGP(i) next to exact counting, per formula: time, estimate, relative error; and message reuse.

The setting is that of Sarkhel et al. 2016 (their table 4 varies i): Cora entity resolution, MIPS
yeast and WebKB, all folds as one world. Data are read from LAPIS_DATA (default ../shared/data).

    python benchmarks/ijgp.py [--ibounds 1,2,3] [--flips 20]

`false` are the groundings that the world makes false, which is what IJGP estimates; its error is
given relative to the false and to the true groundings (the count that learning uses).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lapis.counting.ijgp import IjgpCounter, IjgpSettings, count_ijgp
from lapis.counting.totals import count_true_groundings
from lapis.data import Database, Domain, bind
from lapis.errors import TooLarge
from lapis.language import parse_model
from lapis.language.model import Model
from lapis.logic.clauses import NormalForm
from lapis.logic.normalize import normalize

# what every counting function takes: clauses, model, domains, true tuples
Problem = tuple[NormalForm, Model, Mapping[str, Domain], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class DataSet:
    folder: str
    declarations: str
    pattern: str
    formulas: tuple[str, ...]


DATA_SETS = (
    DataSet(
        "cora-er",
        "cora.mln",
        "fold?.db",
        (
            "SameBib(x,y) ^ SameBib(y,z) => SameBib(x,z)",
            "Author(x,a) ^ Author(y,b) ^ SameAuthor(a,b) => SameBib(x,y)",
            "HasWordTitle(t,w) ^ HasWordTitle(u,w) => SameTitle(t,u)",
            "Title(x,t) ^ Title(y,u) ^ SameBib(x,y) => SameTitle(t,u)",
        ),
    ),
    DataSet(
        "yeast-protein",
        "yeast.mln",
        "fold?.db",
        (
            "interaction(p,q) ^ function(p,f) => function(q,f)",
            "complex(p,c) ^ complex(q,c) => interaction(p,q)",
            "location(p,l) ^ interaction(p,q) ^ phenotype(q,h) => phenotype(p,h)",
        ),
    ),
    DataSet(
        "webkb",
        "webkb.mln",
        "*.db.gz",
        (
            "Has(+w,p) => Course(p)",
            "LinkTo(l,p,q) ^ Student(p) => Student(q)",
            "LinkTo(l,p,q) ^ LinkTo(m,q,r) => LinkTo(k,p,r)",
        ),
    ),
)

COLUMNS = (
    f"{'formula':68} {'i':>2} {'seconds':>8} {'false, estimate':>16} {'false, exact':>16} "
    f"{'error':>8} {'of true':>8} {'rounds':>6} {'exact s':>8}  {'flip, reused':>12} {'anew':>9}"
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--ibounds", default="1,2,3")
    options.add_argument("--flips", type=int, default=20)
    arguments = options.parse_args()
    ibounds = [int(each) for each in arguments.ibounds.split(",")]
    root = Path(__file__).resolve().parent.parent
    data = Path(os.environ.get("LAPIS_DATA", root.parent / "shared" / "data"))
    if not data.is_dir():
        sys.exit(f"no data in {data}: set LAPIS_DATA to the folder of data sets")
    print(COLUMNS)
    for data_set in DATA_SETS:
        run_data_set(data / data_set.folder, data_set, ibounds, arguments.flips)


def run_data_set(folder: Path, data_set: DataSet, ibounds: list[int], num_flips: int) -> None:
    rules = "".join(f"1.0 {formula}\n" for formula in data_set.formulas)
    model = parse_model((folder / data_set.declarations).read_text() + "\n" + rules)
    database = bind(Database.read(*sorted(folder.glob(data_set.pattern))), model)
    relations = {name: relation.true for name, relation in database.relations.items()}
    normal_form = normalize(model)
    for formula, feature in zip(data_set.formulas, normal_form.features, strict=True):
        alone = NormalForm((feature,), normal_form.definitions)
        run_formula((alone, model, database.domains, relations), formula, ibounds, num_flips)


def run_formula(problem: Problem, formula: str, ibounds: list[int], num_flips: int) -> None:
    count_true_groundings(*problem)  # compiles the kernels
    started = time.perf_counter()
    exact, groundings = count_true_groundings(*problem)
    exact_seconds = time.perf_counter() - started
    false = sum(groundings) - sum(exact)
    count_ijgp(*problem, IjgpSettings(ibounds[0]))
    for ibound in ibounds:
        started = time.perf_counter()
        try:
            estimate = count_ijgp(*problem, IjgpSettings(ibound))
        except TooLarge as error:
            print(f"{formula:68} {ibound:2d} {error.message}")
            continue
        seconds = time.perf_counter() - started
        estimated = sum(clause.false for clause in estimate.clauses)
        difference = abs(estimated - false)
        reused, anew = time_flips(problem, ibound, num_flips, formula)
        print(
            f"{formula:68} {ibound:2d} {seconds:8.3f} {estimated:16,.0f} {false:16,d} "
            f"{difference / false if false else difference:8.1e} "
            f"{difference / sum(exact):8.1e} "
            f"{max(clause.iterations for clause in estimate.clauses):6.1f} {exact_seconds:8.3f}  "
            f"{1000 * reused:9.2f} ms {1000 * anew:6.1f} ms"
            f"{'  exact' if estimate.exact else ''}",
            flush=True,
        )


def time_flips(problem: Problem, ibound: int, num_flips: int, formula: str) -> tuple[float, float]:
    """Seconds for a flip of a random atom with the messages kept, and for counting anew."""
    normal_form, model, domains, relations = problem
    rng = np.random.default_rng(1)
    predicate = formula.split("(")[0]
    sizes = [len(domains[each]) for each in model.predicates[predicate].types]
    counter = IjgpCounter(normal_form, model, domains, IjgpSettings(ibound))
    counter.count(relations)
    true = relations[predicate]
    flips = [
        (true[rng.integers(len(true))].tolist(), False)
        if number % 2
        else (rng.integers(sizes).tolist(), True)
        for number in range(num_flips)
    ]
    started = time.perf_counter()
    for row, value in flips:
        counter.update(predicate, row, value)
    reused = (time.perf_counter() - started) / num_flips
    started = time.perf_counter()
    counter.count(relations)
    return reused, time.perf_counter() - started


if __name__ == "__main__":
    main()

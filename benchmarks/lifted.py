"""Lifted inference: log Z of the friends-and-smokers models for up to a million people.

    python benchmarks/lifted.py            every table
    python benchmarks/lifted.py digits     one of them: digits, process, curvature, queries, rules,
                                           learning

The other systems were measured on a 2-core machine (Forclift: first-order d-DNNF in Scala, log Z
only; WFOMC: cell graphs with exact rationals). Seconds are CPU seconds; for whole processes, of the
child with its start and imports. `rules` and `learning` read LAPIS_DATA.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from math import log
from pathlib import Path

import numpy as np
from protocol import MODELS as MODELS_FOLDER
from protocol import data_folder

import lapis
from lapis.lifted.lift import LiftedProblem, lift_problem

DECLARED = "Smokes(person)\nFriends(person, person)\n"
ONE = DECLARED + "1 Smokes(x) ^ Friends(x, y) => Smokes(y)\n"
TWO = ONE + "Cancer(person)\n1.5 Smokes(x) => Cancer(x)\n"
UNITS = TWO + "-1 Smokes(x)\n-0.5 Cancer(x)\n-0.3 Friends(x, y)\n"
MODELS = {"L1": ONE, "L2": TWO, "L2u": UNITS}
# log Z to 15 digits, from closed forms in multiple precision.
KNOWN = {
    10: (170.416188341209, 191.484327432684, 175.294385731735),
    100: (16932.1649527800, 17150.7865236554, 15740.9601431033),
    1000: (1693147.87370713, 1695340.32774051, 1556329.32145271),
    10_000: (169314718.749142, 169336649.527800, 155455265.216695),
    30_000: (1523832463.19710, 1523898256.91937, 1398978942.33120),
}


def main(arguments: list[str]) -> None:
    tables = {
        "digits": digits, "process": process, "curvature": curvature, "queries": queries,
        "rules": rules, "learning": learning,
    }  # fmt: skip
    for name in arguments or tables:
        print(f"\n{name}: {tables[name].__doc__}")
        tables[name]()


def lift(text: str, n: int) -> LiftedProblem:
    model = lapis.parse(text)
    problem = lapis.build_problem(model, query=list(model.predicates))
    return lift_problem(problem, {"person": n})


def digits() -> None:
    """one circuit a model, at all sizes; relative error against 15 known digits"""
    print(f"{'model':>5} {'n':>9} {'log Z':>22} {'error':>8} {'bound':>8} {'compile s':>10}   at s")
    for column, (name, text) in enumerate(MODELS.items()):
        start = time.process_time()
        lifted = lift(text, 10)
        compiled = time.process_time() - start
        for n in (*KNOWN, 1_000_000):
            start = time.process_time()
            found = lifted.at(sizes={"person": n})
            seconds = time.process_time() - start
            value = found.log_partition
            error = f"{abs(value / KNOWN[n][column] - 1):8.0e}" if n in KNOWN else f"{'':8}"
            print(
                f"{name:>5} {n:>9,} {value:>22.15g} {error} {found.error_bound / value:8.0e} "
                f"{compiled:10.3f} {seconds:7.3f}"
            )


def process() -> None:
    """`lapis lift` on L2u with all five derivatives, whole processes"""
    print("Forclift, log Z alone: 1.3 s at 10, 2.6 s at 30,000; WFOMC: 2.9 s at 10, 156 s at 100")
    print(f"{'n':>9} {'lapis, s':>9}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mln"
        path.write_text(UNITS, encoding="utf-8")
        for n in (10, 1000, 30_000, 1_000_000):
            command = [sys.executable, "-m", "lapis", "lift", str(path)]
            before = child_seconds()
            out = subprocess.run(
                [*command, "--sizes", f"person={n}", "--json"], capture_output=True, check=True
            ).stdout
            assert json.loads(out)["liftable"]
            print(f"{n:>9,} {child_seconds() - before:9.2f}")


def child_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def curvature() -> None:
    """gradient and a product with the Hessian on L2u"""
    print(f"{'n':>9} {'gradient s':>11} {'product s':>10}")
    lifted = lift(UNITS, 10)
    for n in (100, 1000, 30_000):
        start = time.process_time()
        lifted.at(sizes={"person": n})
        gradient = time.process_time() - start
        lifted.hessian_product(np.ones(5), sizes={"person": n})
        print(f"{n:>9,} {gradient:11.3f} {time.process_time() - start - gradient:10.3f}")


def queries() -> None:
    """`lapis.infer(method="lifted")` for all atoms of L2u, ten known smokers"""
    print(f"{'n':>9} {'atoms':>12} {'s':>7}")
    model = lapis.parse(UNITS)
    for n in (100, 1000, 3000):
        facts = "\n".join(
            [f"Smokes(P{i})" for i in range(10)] + [f"?Cancer(P{i})" for i in range(n)]
        )
        data = lapis.Database.parse(facts)
        start = time.process_time()
        answer = lapis.infer(model, data, query=list(model.predicates), method="lifted")
        print(f"{n:>9,} {len(answer):>12,} {time.process_time() - start:7.2f}")


# Forclift's DummyInclusionExclusionModel, DummyInclusionExclusionModel2 and FriendsSmokerDrinker.
HALVES = f"""p(d, d)
q(d, d)
r(d)
{log(1.2)!r} p(x, y)
{log(1.3)!r} q(x, y)
{log(1.4)!r} r(x)
p(x, y) v r(x) v q(a, b) v r(b).
"""
THREE = f"p(d)\nq(d)\nr(d)\n{log(1.2)!r} !p(x) v !q(y) v r(z)\n"
DRINKERS = f"""smokes(person)
drinks(person)
friends(person, person)
{log(1.2)!r} !friends(x, y) v !smokes(x) v smokes(y)
{log(1.2)!r} !friends(x, y) v !drinks(x) v drinks(y)
"""
FORCLIFT = {
    ("halves", 2): 7.767228315616763, ("halves", 6): 60.62132516344015,
    ("halves", 150): 36531.2167097291, ("drinkers", 8): 76.44237474352845,
    ("drinkers", 200): 42312.99807235724,
}  # fmt: skip


def rules() -> None:
    """theories of several parts, of several kinds of constants, and of the paper's data"""
    imdb = data_folder("imdb") / "forclift" / "formulas.mln"
    uwcse = data_folder("uwcse") / "forclift" / "convergencetest.mln"
    webkb = data_folder("webkb") / "forclift" / "page-links" / "webkb.mln"
    learned = MODELS_FOLDER / "lifted-imdb-busl.mln"
    people = {"person": 58, "gender": 2, "genre": 7}
    cases: list[tuple[str, str, dict[str, int]]] = [
        *(("halves", HALVES, {"d": n}) for n in (2, 6, 150, 1000)),
        *(("three parts", THREE, {"d": n}) for n in (30, 150)),
        *(("drinkers", DRINKERS, {"person": n}) for n in (8, 50, 200)),
        ("imdb formulas", imdb.read_text(), {"person": 268, "film": 20, "type": 9}),
        ("uwcse", declared(uwcse), {"person": 278, "course": 132, "title": 323, "year": 14,
                                    "num": 11, "level": 3, "phase": 3}),
        *(("imdb busl", learned.read_text(), {**people, "movie": k}) for k in (1, 2, 4)),
        ("webkb pages", webkb.read_text(), {"page": 200}),
    ]  # fmt: skip
    warnings.simplefilter("ignore")
    print(f"{'theory':>14} {'sizes':34} {'s':>6}  log Z")
    for name, text, sizes in cases:
        model = lapis.parse(text)
        start = time.process_time()
        try:
            found = lapis.lift(model, sizes=sizes)
            known = FORCLIFT.get((name, max(sizes.values())))
            beside = "" if known is None else f"   (Forclift {known!r})"
            said = f"{found.log_partition:.15g} ± {found.error_bound:.0e}{beside}"
        except lapis.TooLarge as error:
            said = f"refused: {error.message[:150]}"
        shown = " ".join(f"{key}={size}" for key, size in sizes.items())
        print(f"{name:>14} {shown[:34]:34} {time.process_time() - start:6.2f}  {said}")


def declared(path: Path) -> str:
    """Return the model without its declarations of empty types."""
    return "\n".join(x for x in path.read_text().splitlines() if "{}" not in x)


def learning() -> None:
    """lifted likelihood of Forclift's theories on all of its data, no prior (its smokers: 6-8 s)"""
    warnings.simplefilter("ignore")
    five = range(1, 6)
    cases = [
        ("smokers", "friendsmoker-learn.mln", ["friendsmoker-learn.db"]),
        ("uwcse", "convergencetest.mln", [f"uwcse_fold{fold}.db" for fold in five]),
        ("imdb", "formulas.mln", [f"imdb_fold{fold}.db" for fold in five]),
    ]
    print(f"{'theory':>14} {'iterations':>10} {'s':>6}  log-likelihood, weights")
    for name, theory, files in cases:
        model = lapis.parse(declared(forclift(name, theory)))
        data = [lapis.Database.read(forclift(name, file)) for file in files]
        start = time.process_time()
        fit = lapis.learn(model, data, objective="likelihood", expectation="lifted", prior="none")
        weights = " ".join(f"{weight:.4f}" for weight in fit.weights)
        star = "" if fit.converged else " (not converged)"
        print(
            f"{name:>14} {fit.iterations:10} {time.process_time() - start:6.2f}  "
            f"{fit.value:.4f}, {weights}{star}"
        )


def forclift(name: str, file: str) -> Path:
    return data_folder(name) / "forclift" / file


if __name__ == "__main__":
    main(sys.argv[1:])

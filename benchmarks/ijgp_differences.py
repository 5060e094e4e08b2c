"""Differences by IJGP(i): substituted, and subtracted as in equation 5 of Sarkhel et al. (2016).

    python benchmarks/ijgp_differences.py [--people 40] [--atoms 200] [--ibounds 1,2,3]

Two formulas on a generated world: people in clusters of four, `Same` nearly an equivalence, and
authors who write with others of their cluster. Two formulas on Cora's first fold, if it is in
LAPIS_DATA. For each formula, i and method: the mean and the largest error of n(atom true) − n(atom
false) against exact differences, and CPU seconds. Then steps of a chain by both methods, and by
subtraction with new messages in each world.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from protocol import DATA

import lapis
from lapis.counting.differences.atom_differences import list_tuples
from lapis.counting.flipping_world import FlippingWorld
from lapis.counting.ijgp import IjgpSettings
from lapis.counting.ijgp.estimated_differences import DifferenceEstimator, SubtractedDifferences
from lapis.data.keys import contains
from lapis.inference.sampling.counted_world import EstimatedWorld, SubstitutedWorld, SubtractedWorld
from lapis.problem.problem import Problem

FORMULAS = {
    "Same": "Same(x,y) ^ Same(y,z) => Same(x,z)",
    "Wrote": "Wrote(x,d) ^ Wrote(y,d) ^ Wrote(x,e) ^ Wrote(y,e) => Same(x,y)",
}
CORA_FORMULAS = (
    "SameBib(x,y) ^ SameBib(y,z) => SameBib(x,z)",
    "Author(x,a) ^ Author(y,b) ^ SameAuthor(a,b) => SameBib(x,y)",
)
CORA = DATA / "cora-er"
CLUSTER = 4  # people who are the same, or write together
WAYS = {"substituted": DifferenceEstimator, "subtracted": SubtractedDifferences}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--people", type=int, default=40)
    options.add_argument("--atoms", type=int, default=200)
    options.add_argument("--ibounds", default="1,2,3")
    given = options.parse_args()
    ibounds = [int(each) for each in given.ibounds.split(",")]
    facts = made_facts(given.people, np.random.default_rng(0))
    print(
        f"{'formula':72} {'i':>2} {'way':11} {'mean |d|':>9} {'error':>9} {'largest':>9} {'s':>7}"
    )
    for predicate, formula in FORMULAS.items():
        text = f"Same(person, person)\nWrote(person, paper)\n1 {formula}"
        problem = lapis.build_problem(lapis.parse(text), lapis.Database.parse(facts))
        compare_differences(problem, predicate, given.atoms, ibounds)
    for formula in CORA_FORMULAS if CORA.is_dir() else ():
        model = lapis.parse(f"{(CORA / 'cora.mln').read_text()}\n1 {formula}")
        problem = lapis.build_problem(model, lapis.Database.read(CORA / "fold1.db"))
        compare_differences(problem, "SameBib", given.atoms, ibounds)
    print(f"\n{'chain':72} {'i':>2} {'way':11} {'steps/s':>9} {'flips':>9}")
    for predicate, formula in FORMULAS.items():
        text = f"Same(person, person)\nWrote(person, paper)\n0.2 {formula}\n-1 {predicate}(x,y)"
        problem = lapis.build_problem(lapis.parse(text), lapis.Database.parse(facts))
        time_steps(problem, predicate, given.atoms, ibounds)


def made_facts(people: int, rng: np.random.Generator) -> str:
    """Generate clusters with a few missing and a few additional pairs."""
    cluster = np.arange(people) // CLUSTER
    within = cluster[:, None] == cluster[None, :]
    same = np.argwhere(
        np.where(within, rng.random(within.shape) < 0.9, rng.random(within.shape) < 0.01)
    )
    papers = 2 * people
    own = cluster[:, None] == (np.arange(papers) % (cluster[-1] + 1))[None, :]
    wrote = np.argwhere(np.where(own, rng.random(own.shape) < 0.5, rng.random(own.shape) < 0.02))
    listed = [f"Same({a},{b})" for a, b in same] + [f"Wrote({a},{d})" for a, d in wrote]
    constants = [f"person = {{0, ..., {people - 1}}}", f"paper = {{0, ..., {papers - 1}}}"]
    return "\n".join([*constants, *listed])


def atoms_of(problem: Problem, predicate: str, number: int) -> np.ndarray:
    """Draw atoms, half of them true."""
    rng, true = np.random.default_rng(1), problem.evidence[predicate].true
    sizes = tuple(len(problem.domains[kind]) for kind in problem.model.predicates[predicate].types)
    rows = list_tuples(sizes)
    false = rows[~contains(true, rows)]
    chosen = [rng.permutation(each)[: number // 2] for each in (true, false)]
    return rng.permutation(np.concatenate(chosen)).astype(np.int32)


def compare_differences(problem: Problem, predicate: str, number: int, ibounds: list[int]) -> None:
    true = {name: known.true for name, known in problem.evidence.items()}
    rows = atoms_of(problem, predicate, number)
    truth = contains(true[predicate], rows)
    world = FlippingWorld(problem)
    found = [sum(world.delta(predicate, row).difference) for row in rows.tolist()]
    exact = np.where(truth, -1.0, 1.0) * np.array(found, float)
    formula = problem.model.rules[0].text
    for ibound in ibounds:
        for way, estimator in WAYS.items():
            began = time.process_time()
            estimate = estimator(problem, IjgpSettings(ibound))
            difference = estimate.differences(predicate, rows, truth, true).toarray()[:, 0]
            seconds = time.process_time() - began
            error = np.abs(difference - exact)
            print(
                f"{formula:72} {ibound:2d} {way:11} {np.abs(exact).mean():9.2f} "
                f"{error.mean():9.2g} {error.max():9.2g} {seconds:7.2f}",
                flush=True,
            )


def time_steps(problem: Problem, predicate: str, number: int, ibounds: list[int]) -> None:
    true = {name: known.true for name, known in problem.evidence.items()}
    rows, weights = atoms_of(problem, predicate, number), problem.weight_table.value
    noise = np.random.default_rng(2).logistic(size=len(rows))
    for ibound in ibounds:
        settings = IjgpSettings(ibound)
        for way in (*WAYS, "anew"):
            world: EstimatedWorld = (
                SubstitutedWorld(problem, true, settings, patience=1)
                if way == "substituted"
                else SubtractedWorld(problem, true, settings)
            )
            began, flips = time.process_time(), 0
            for at, row in enumerate(rows):
                if way == "anew":
                    world.settle()
                drawn = world.draw([(predicate, row[None])], weights, noise[at : at + 1], False)
                flips += int(drawn.flipped[0])
            speed = len(rows) / (time.process_time() - began)
            formula = problem.model.rules[0].text
            print(f"{formula:72} {ibound:2d} {way:11} {speed:9.0f} {flips:9d}", flush=True)


if __name__ == "__main__":
    main()

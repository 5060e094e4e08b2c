"""Lifted weight learning compared with Van den Broeck, Meert and Davis (2013).

The paper is "Lifted generative parameter learning".

    python benchmarks/lifted_learning.py [smokers] [scaling] [imdb] [uwcse] [--folds N]

smokers   the example of Forclift, five people: Forclift takes 6 to 8 s.
scaling   Figure 2: friends and smokers with 100 to 30,000 people (900 million ground atoms), time
          against people, plotted.
imdb,     Table 1: log-likelihoods of a held-out fold and of the others, with weights by PSCG
uwcse     (MC-SAT, 20 iterations), by pseudo-likelihood and by lifted likelihood, which starts at
          the weights of the pseudo-likelihood. The paper's theories were learned by BUSL and MSL
          and are not published; ours are written by hand (`models/`), so its figures show the order
          of magnitude only. All likelihoods are exact, by lifting, with the same prior.

Seconds are CPU seconds. Data are read from LAPIS_DATA.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from protocol import MODELS, ROOT, data_folder, timed

import lapis

PRIOR = "gaussian:10"
TOLERANCE = 0.01  # of the gradient, in groundings
SIZES = (100, 300, 1000, 3000, 10_000, 30_000)
FORCLIFT_SECONDS = "6–8"
AREAS = ("theory", "language", "graphics", "systems", "ai")  # as the paper numbers its folds
FOLDS = {
    "imdb": tuple(f"fold{number}" for number in range(1, 6)),
    "uwcse": AREAS,
}
PAPER = {  # (PSCG, PLL, LWL) of its folds
    "imdb": {
        "BUSL": ((-379, -1190, -377), (-580, -1241, -558), (-907, -1581, -968),
                 (-291, -660, -284), (-608, -539, -267)),
        "MSL": ((-1641792, -9672, -831), (-1690616, -12471, -766), (-32286, -18242, -1307),
                (-229063, -1354, -698), (-16250, -982, -700)),
    },
    "uwcse": {
        "BUSL": ((-1671, -2564, -1523), (-684, -909, -541), (-1702, -2871, -1283),
                 (-3291, -2660, -2565), (-3399, -5280, -2362)),
        "MSL": ((-25745, -1519, -1497), (-1070, -535, -524), (-21936, -1213, -1209),
                (-2756, -2472, -2471), (-51903, -2261, -2274)),
    },
}  # fmt: skip

FRIENDS = """
Friends(person, person)
Smokes(person)
Friends(x, y) ^ Smokes(x) => Smokes(y)
Smokes(x)
Friends(x, y)
"""


class Learned(NamedTuple):
    name: str
    fit: lapis.Fit
    seconds: float  # of CPU
    train: float  # log-likelihood
    test: float


def run_smokers() -> None:
    folder = data_folder("smokers") / "forclift"
    model = lapis.read(folder / "friendsmoker-learn.mln")
    data = lapis.Database.read(folder / "friendsmoker-learn.db")
    fit, seconds = timed(lambda: lapis.learn(model, data, objective="likelihood", prior="none"))
    print(f"\nsmokers of Forclift: weight {fit.weights[0]:.4f}, log-likelihood {fit.value:.4f}")
    print(f"  {seconds:.2f} s CPU, {fit.details['methods']} (Forclift {FORCLIFT_SECONDS} s)")


def friends_of(num_people: int) -> lapis.Database:
    """Generate five friends each, most of them with the same habit."""
    import pandas as pd

    rng = np.random.default_rng(num_people)
    smokes = rng.random(num_people) < 0.3
    one, other = rng.integers(0, num_people, (2, 5 * num_people))
    kept = (smokes[one] == smokes[other]) | (rng.random(len(one)) < 0.4)
    names = np.array([f"P{number}" for number in range(num_people)])
    pairs = pd.DataFrame({"one": names[one[kept]], "other": names[other[kept]]}).drop_duplicates()
    return lapis.Database.from_frames(
        {"Smokes": pd.DataFrame({"who": names[smokes]}), "Friends": pairs}
    )


def run_scaling(out: Path) -> None:
    print("\nfriends and smokers, three weights (Figure 2; the paper's largest has 30,000 people)")
    print("   people    ground atoms  CPU s  iterations  weights")
    seconds = []
    model = lapis.parse(FRIENDS)
    lapis.learn(model, friends_of(20), objective="likelihood")
    for size in SIZES:
        data = friends_of(size)
        fit, spent = timed(lambda data=data: lapis.learn(model, data, objective="likelihood"))
        assert fit.exact
        assert fit.converged, fit.reason
        weights = " ".join(f"{weight:8.4f}" for weight in fit.weights)
        print(f"  {size:7,d} {size * (size + 1):15,d} {spent:6.2f} {fit.iterations:11d}  {weights}")
        seconds.append(spent)
    draw_scaling(out / "lifted-learning.png", seconds)


def draw_scaling(path: Path, seconds: Sequence[float]) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(5, 3.5))
    axes.loglog(SIZES, seconds, "o-", color="tab:blue")
    axes.set_xlabel("people")
    axes.set_ylabel("seconds of CPU to learn the weights")
    axes.set_title("Lifted learning of friends and smokers", fontsize=10)
    axes.grid(True, which="both", alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    print(f"  drawn in {path}")


def run_folds(name: str, num_folds: int) -> bool:
    """Return whether lifted weights have the largest likelihood of the training data."""
    folder = data_folder(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # predicates that the theory leaves out
        worlds = [lapis.Database.read(folder / f"{fold}.db") for fold in FOLDS[name]]
        model = lapis.read(MODELS / f"lifted-{name}.mln")
        print(f"\n{name}: log-likelihood of the held-out fold (of the others)")
        print(f"  {'held out':10s}{'PSCG':>24s}{'PLL':>24s}{'lifted':>24s}   CPU s     paper, test")
        won = True
        for number, fold in enumerate(FOLDS[name][:num_folds]):
            train = [world for place, world in enumerate(worlds) if place != number]
            runs = learn_all(model, train, worlds[number])
            cells = "".join(f"{run.test:12.1f} ({run.train:9.1f})" for run in runs)
            spent = "/".join(f"{run.seconds:.0f}" for run in runs)
            paper = "; ".join(
                f"{kind} {' '.join(map(str, rows[number]))}" for kind, rows in PAPER[name].items()
            )
            print(f"  {fold:10s}{cells}   {spent:9s} {paper}", flush=True)
            won &= all(runs[-1].train >= run.train for run in runs)
    return won


def learn_all(
    model: lapis.Model, train: list[lapis.Database], test: lapis.Database
) -> list[Learned]:
    pseudo, fast = timed(lambda: lapis.learn(model, train, objective="pseudo", prior=PRIOR))
    sampled, slow = timed(
        lambda: lapis.learn(
            model, train, objective="likelihood", optimizer="pscg", expectation="mcsat",
            prior=PRIOR, max_iterations=20, random_state=1,
        )
    )  # fmt: skip
    lifted, exact = timed(
        lambda: lapis.learn(
            pseudo.model, train, objective="likelihood", expectation="lifted", prior=PRIOR,
            tolerance=TOLERANCE,
        )
    )  # fmt: skip
    assert lifted.converged, lifted.reason
    runs = (("PSCG", sampled, slow), ("PLL", pseudo, fast), ("lifted", lifted, exact))
    return [
        Learned(name, fit, seconds, likelihood(fit.model, train), likelihood(fit.model, [test]))
        for name, fit, seconds in runs
    ]


def likelihood(model: lapis.Model, worlds: list[lapis.Database]) -> float:
    found = lapis.score(model, worlds).log_likelihood
    assert found is not None
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("parts", nargs="*", default=["smokers", "scaling", "imdb", "uwcse"])
    options.add_argument("--folds", type=int, default=5, help="folds that are held out")
    options.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "out")
    chosen = options.parse_args()
    if "smokers" in chosen.parts:
        run_smokers()
    if "scaling" in chosen.parts:
        run_scaling(chosen.out)
    won = [run_folds(name, chosen.folds) for name in FOLDS if name in chosen.parts]
    if won:
        print(f"\nlifted weights best on training data in every row: {'yes' if all(won) else 'NO'}")
    raise SystemExit(0 if all(won) else 1)


if __name__ == "__main__":
    main()

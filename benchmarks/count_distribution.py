"""The number of smoking friends: a distribution that a field learns and a network cannot.

    python benchmarks/count_distribution.py [--people 200] [--plot docs/count_distribution.png]

Section 3.2.3 of Lowd's thesis: "in RRFs this feature can also represent a distribution over the
number of smoking friends each person has". Here each person has two or three smoking friends. The
field mirrors "everyone has a friend who smokes"; the network has that formula and formulas of
single friendships. Both learn Friends given Smokes by pseudo-likelihood. Then worlds are sampled
given Smokes, and the smoking friends of each person are counted. The thesis has no figure of it.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import lapis
from lapis import Database, fields
from lapis.fields.field import Field
from lapis.fields.field_gibbs import CachedField, FieldGibbs
from lapis.fields.ground_field import ground_field
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.tally import new_tallies
from lapis.problem.problem import build_problem

FIELD = """\
Smokes(person)
Friends(person, person)
root:
  -2     lonely(x)
  -3     Friends(x, y)
  -0.1   friend(x, y)
lonely(x):
  -1     friend(x, y)
friend(x, y):
  5      Friends(x, y)
  5      Smokes(y)
"""
NETWORK = """\
Smokes(person)
Friends(person, person)
Friends(x, y)
Friends(x, y) ^ Smokes(y)
EXIST y Friends(x, y) ^ Smokes(y)
"""
SHARP = 30.0
SWEEPS, WARM_UP = 300, 100
SHOWN = 9  # numbers of friends


def people(size: int, seed: int) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the constants, Smokes bool[size], and Friends bool[size, size]."""
    rng = np.random.default_rng(seed)
    smokes = rng.random(size) < 0.4
    friends = np.zeros((size, size), bool)
    for person in range(size):
        some = rng.choice(np.flatnonzero(smokes), rng.integers(2, 4), replace=False)
        others = rng.choice(np.flatnonzero(~smokes), rng.poisson(2), replace=False)
        friends[person, some] = friends[person, others] = True
    return f"person = {{{', '.join(f'P{i}' for i in range(size))}}}\n", smokes, friends


def facts(smokes: np.ndarray, friends: np.ndarray) -> str:
    lines = [f"Smokes(P{i})" for i in np.flatnonzero(smokes)]
    return "\n".join(lines + [f"Friends(P{i},P{j})" for i, j in np.argwhere(friends)])


def sample_counts(field: Field, data: Database, smokes: np.ndarray) -> np.ndarray:
    """Return float64[size + 1], frequencies of numbers of smoking friends in sampled worlds."""
    size = len(smokes)
    ground = ground_field(field, build_problem(field.declarations, data, ["Friends"]))
    sampler = FieldGibbs(CachedField(ground), field.weights)
    plan = sampler.prepare(ground.network)
    state = sampler.init(plan, np.zeros(len(ground.cell), bool), random_states(0, 1)[0])
    tallies = new_tallies(len(ground.cell), np.zeros(len(ground.root_edges)))
    counts = np.zeros(size + 1)
    for sweep in range(SWEEPS):
        sampler.step(plan, state, tallies, 1)
        if sweep >= WARM_UP:
            friends = sampler.world(state).reshape(size, size)
            counts += np.bincount(friends[:, smokes].sum(axis=1), minlength=size + 1)
    return counts / counts.sum()


def main() -> None:
    parser = argparse.ArgumentParser(description="A learned count distribution.")
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--plot", default="count_distribution.png")
    chosen = parser.parse_args()
    constants, smokes, friends = people(chosen.people, 1)
    data = Database.parse(constants + facts(smokes, friends))
    known = Database.parse(constants + facts(smokes, np.zeros_like(friends)))
    began = time.process_time()
    fit = fields.learn(fields.parse(FIELD), data, "Friends")
    seconds = time.process_time() - began
    network = lapis.learn(lapis.parse(NETWORK), data, "Friends", objective="pseudo").model
    mirrored = fields.from_model(network, sharpness=SHARP)
    truth = np.bincount(friends[:, smokes].sum(axis=1), minlength=chosen.people + 1)
    shares = {
        "data": truth / truth.sum(),
        "field (RRF)": sample_counts(fit.field, known, smokes),
        "network with EXIST (MLN)": sample_counts(mirrored, known, smokes),
    }
    print(fit.text)
    print(f"learned {fit.details['atoms']:,} atoms in {seconds:.1f} s CPU, {fit.iterations} "
          f"iterations\n")  # fmt: skip
    print(f"{'smoking friends':<26}" + "".join(f"{n:>6}" for n in range(SHOWN)))
    for name, share in shares.items():
        print(f"{name:<26}" + "".join(f"{value:6.2f}" for value in share[:SHOWN]))
    fresh = Database.parse(constants + facts(*people(chosen.people, 2)[1:]))
    for name, model in (("field", fit.field), ("network", mirrored)):
        found = fields.score(model, fresh, "Friends", likelihood=False, predictions=False)
        print(f"{name}: test pseudo-log-likelihood {found.pseudo_log_likelihood:.1f}")
    draw(shares, chosen.plot)


def draw(shares: dict[str, np.ndarray], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3))
    colours = ("#bbbbbb", "tab:blue", "tab:orange")
    for place, ((name, share), colour) in enumerate(zip(shares.items(), colours, strict=True)):
        axes.bar(
            np.arange(SHOWN) + 0.27 * (place - 1), share[:SHOWN], 0.25, label=name, color=colour
        )
    axes.set(xlabel="smoking friends of a person", ylabel="share of people", xticks=range(SHOWN))
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    print(f"drawn to {path}")


if __name__ == "__main__":
    main()

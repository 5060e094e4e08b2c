"""Learning recursive random fields on many people: cost depends on friendships, not on groundings.

    python benchmarks/field_scale.py [--people 200,1000] [--friends 5] [--iterations 200]

Each person has a few friends; half of the people smoke. Two fields are learned by
pseudo-log-likelihood of all atoms: one of two levels ("everyone has a friend who smokes"), and the
same with an additional parfeature of three people. The thesis has no such figures. For comparison:
tables of all groundings took 6.2 s CPU and 0.84 GB for one evaluation of the second field with 200
people, and cannot hold the 10^9 groundings of 1,000 people.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
from protocol import peak_memory

from lapis import Database, fields

LONELY = """\
Smokes(person)
Friends(person, person)
root:
  -2     lonely(x)
  -3     Friends(x, y)
  -0.1   friend(x, y)
  0.1    Smokes(x)
{path}
lonely(x):
  -1     friend(x, y)
friend(x, y):
  5      Friends(x, y)
  5      Smokes(y)
"""
PATH = """\
path(x, y, z):
  2      Friends(x, y)
  2      Friends(y, z)
  -2     Friends(x, z)
"""
FIELDS = {
    "two levels": LONELY.format(path=""),
    "with paths": LONELY.format(path="  -1     path(x, y, z)") + PATH,
}


def friendships(num_people: int, num_friends: int) -> Database:
    rng = np.random.default_rng(0)
    names = [f"P{i}" for i in range(num_people)]
    facts = [f"person = {{{', '.join(names)}}}"]
    facts += [f"Smokes({name})" for name in names if rng.random() < 0.5]
    for name in names:
        facts += [f"Friends({name},{friend})" for friend in rng.choice(names, num_friends, False)]
    return Database.parse("\n".join(facts))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Fields on many people.")
    parser.add_argument("--people", default="200,1000")
    parser.add_argument("--friends", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=200)
    chosen = parser.parse_args(arguments)
    print(f"{'people':>7} {'field':<12} {'atoms':>10} {'iterations':>10} {'value':>10} "
          f"{'CPU s':>6} {'peak MB so far':>14}")  # fmt: skip
    for number in map(int, chosen.people.split(",")):
        data = friendships(number, chosen.friends)
        for name, text in FIELDS.items():
            field = fields.parse(text)
            began = time.process_time()
            fit = fields.learn(field, data, max_iterations=chosen.iterations)
            seconds = time.process_time() - began
            peak = round(1000 * peak_memory())
            print(f"{number:>7,} {name:<12} {fit.details['atoms']:>10,} {fit.iterations:>10} "
                  f"{fit.value:>10.1f} {seconds:>6.1f} {peak:>14,}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()

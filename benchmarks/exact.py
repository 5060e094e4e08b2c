"""Exact inference and elimination: size, width and time.

    python benchmarks/exact.py            every table
    python benchmarks/exact.py smokers    one of them: smokers, open, alarm, grids, components

The friends-and-smokers tasks are those of the other inference benchmarks: n people, five random
friends each as evidence, a fifth of Smokes observed. alarm.mln is read from LAPIS_DATA. Every row
is run twice in one process, and the CPU seconds of the second run are printed, with compiled
kernels.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from protocol import DATA, Result, has_data, timed

import lapis
from lapis.grounding import ground
from lapis.inference.exact.by_components import exact, plan_exact
from lapis.inference.reduction.eliminate import reduce
from lapis.network import AtomTable, Network
from lapis.problem.problem import build_problem

RULES = """
Smokes(person)
Cancer(person)
Friends(person, person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
"""


def main(arguments: list[str]) -> None:
    tables = {
        "smokers": smokers,
        "open": open_friends,
        "alarm": alarm,
        "grids": grids,
        "components": components,
    }
    for name in arguments or tables:
        print(f"\n{name}: {tables[name].__doc__}")
        tables[name]()


def smokers() -> None:
    """exact on friends and smokers, Friends known; width is that of the best order found."""
    print(f"{'n':>5} {'atoms':>7} {'core':>6} {'width':>6} {'plan s':>8} {'exact s':>8}")
    for n in (20, 30, 40, 50, 60, 70, 80, 100, 200, 1000):
        network = smokers_network(n, seed=0, friends_known=True)
        core = reduce(network).core.num_atoms
        plan, planned = timed_warm(lambda network=network: plan_exact(network))
        row = f"{n:>5} {network.num_atoms:>7,} {core:>6,}"
        if plan.is_complete:
            _, solved = timed_warm(lambda plan=plan: plan.solve())
            print(f"{row} {plan.width:>6} {planned:>8.3f} {solved:>8.3f}")
        else:
            worst = max(refusal.width for refusal in plan.refused)
            print(f"{row} {'≥' + str(worst):>6} {planned:>8.3f}  refused at 1 GiB of tables")


def open_friends() -> None:
    """reduce with Friends open: n² unknown atoms down to the Smokes that are not observed."""
    print(f"{'n':>5} {'atoms':>10} {'clauses':>9} {'core':>6} {'clauses':>9} "
          f"{'reduce s':>9} {'recover 1000 samples s':>23}")  # fmt: skip
    for n in (50, 200, 1000):
        network = smokers_network(n, seed=0, friends_known=False)
        reduction, spent = timed_warm(lambda network=network: reduce(network))
        core = reduction.core
        samples = np.random.default_rng(0).random((1000, core.num_atoms)) < 0.5
        _, back = timed_warm(lambda r=reduction, s=samples: r.recover(s))
        print(f"{n:>5} {network.num_atoms:>10,} {network.num_clauses:>9,} {core.num_atoms:>6,} "
              f"{core.num_clauses:>9,} {spent:>9.3f} {back:>23.3f}")  # fmt: skip


def alarm() -> None:
    """the alarm network, 37 blocks (all marginals: pyAgrum 17–25 ms, pgmpy 94 ms)."""
    path = DATA / "alchemy-examples" / "tutorial-mlns" / "bayes-net" / "alarm.mln"
    if not has_data(path):
        return
    model = lapis.read(path)
    problem = build_problem(model, lapis.Database({}, {}), list(model.predicates))
    network, grounded = timed_warm(lambda: ground(problem))
    result, spent = timed_warm(lambda: exact(network))
    print(f"{network.num_atoms} atoms, {network.num_blocks} blocks, {network.num_clauses} clauses: "
          f"ground {grounded:.3f} s, exact {spent:.3f} s, width {result.width}")  # fmt: skip


def grids() -> None:
    """Ising models with random weights; a grid of width w has tree width w."""
    print(f"{'grid':>10} {'width':>6} {'plan s':>8} {'exact s':>8}")
    for rows, columns in ((2, 100_000), (8, 50), (12, 12), (16, 16), (18, 18), (20, 20), (20, 40)):
        network = ising(rows, columns)
        plan, planned = timed_warm(lambda network=network: plan_exact(network, 4 << 30))
        label = f"{rows}x{columns}"
        if plan.is_complete:
            _, solved = timed_warm(lambda plan=plan: plan.solve())
            print(f"{label:>10} {plan.width:>6} {planned:>8.3f} {solved:>8.3f}")
        else:
            print(f"{label:>10} {plan.refused[0].width:>6} {planned:>8.3f}  refused at 4 GiB")


def components() -> None:
    """many small components: rings of five atoms, with equal weights and with different ones."""
    for number in (10_000, 100_000):
        for tied in (True, False):
            network = rings(number, tied)
            _, spent = timed_warm(lambda network=network: exact(network))
            kind = "equal" if tied else "different"
            print(f"{number:>8,} {kind:>10} rings: {spent:.3f} s, "
                  f"{1e6 * spent / number:.1f} µs each")  # fmt: skip


def timed_warm(run: Callable[[], Result]) -> tuple[Result, float]:
    """Return the result and the CPU seconds of a second run."""
    run()
    return timed(run)


def smokers_network(n: int, seed: int, friends_known: bool) -> Network:
    rng = np.random.default_rng(seed)
    people = [f"P{i}" for i in range(n)]
    facts: list[str] = []
    if friends_known:
        for i in range(n):
            others = rng.choice(n - 1, min(5, n - 1), replace=False)
            facts += [f"Friends(P{i},P{j + (j >= i)})" for j in others]
    observed = rng.choice(n, n // 5, replace=False)
    facts += [f"{'' if rng.random() < 0.3 else '!'}Smokes(P{i})" for i in observed]
    model = lapis.parse(f"person = {{{', '.join(people)}}}\n{RULES}")
    query = ["Smokes", "Cancer"] + ([] if friends_known else ["Friends"])
    return ground(build_problem(model, lapis.Database.parse("\n".join(facts)), query))


def ising(rows: int, columns: int) -> Network:
    """Return a grid whose neighbours agree with a random weight; every atom has a random weight."""
    rng = np.random.default_rng(0)
    atom = np.arange(rows * columns).reshape(rows, columns) + 1
    pairs = np.concatenate(
        (
            np.stack((atom[:, :-1].ravel(), atom[:, 1:].ravel()), axis=1),
            np.stack((atom[:-1].ravel(), atom[1:].ravel()), axis=1),
        )
    )
    clauses = np.concatenate((pairs * [1, -1], pairs * [-1, 1]))
    return pairwise(rows * columns, clauses, rng.normal(size=len(clauses)))


def rings(number: int, tied: bool) -> Network:
    size = 5
    atom = np.arange(number * size).reshape(number, size) + 1
    clauses = np.stack((atom.ravel(), -np.roll(atom, 1, axis=1).ravel()), axis=1)
    rng = np.random.default_rng(0)
    weights = np.tile(rng.normal(size=size), number) if tied else rng.normal(size=len(clauses))
    ids = np.tile(np.arange(size), number) if tied else None
    return pairwise(number * size, clauses, weights, ids)


def pairwise(
    num_atoms: int, clauses: np.ndarray, weights: np.ndarray, ids: np.ndarray | None = None
) -> Network:
    """Return a network of clauses int64[num_clauses, 2]."""
    ids = np.arange(len(clauses)) if ids is None else ids
    rows = np.arange(num_atoms, dtype=np.int32)[:, None]
    nothing = np.zeros(1, np.int64), np.empty(0, np.int32)
    return Network(
        AtomTable(("Up",), np.array([0, num_atoms]), (rows,)),
        num_atoms,
        np.arange(0, 2 * len(clauses) + 1, 2),
        clauses.ravel().astype(np.int32),
        ids.astype(np.int32),
        np.ones(len(clauses)),
        weights,
        np.zeros(len(weights)),
        *nothing,
        np.empty(0, bool),
        *nothing,
    )


if __name__ == "__main__":
    main(sys.argv[1:])

"""Complete graphs of friends: exact by counting and lifting where sampling takes minutes.

    python benchmarks/symmetry.py [--quick]

All people are friends of each other, with `w Friends(x, y) ^ Smokes(x) => Smokes(y)` and
`1.5 Smokes(x) => Cancer(x)`: 60, 300 and 2,000 people (4 million ground clauses), weights from 0.01
to 1, without evidence or with a tenth of the people known smokers. `auto` must be exact within 3 s
of CPU each.

The second table breaks the symmetry for a random tenth of the people. It compares `auto` with
`auto` without symmetry: sampling, stopped after 20 s (its largest error against the exact answer,
if there is one).

    facts     for a tenth, Smokes or Cancer is known
    feuds     a tenth are not all friends of each other: each pair is with probability 1/2
    opinions  a tenth have different soft evidence

The exit code is 1 if the limit is missed.
"""

from __future__ import annotations

import argparse
from unittest import mock

import numpy as np
import pandas as pd
from protocol import timed

import lapis

SIZES = (60, 300, 2000)
WEIGHTS = (0.01, 0.05, 0.3, 1.0)
LIMIT = 3.0
SAMPLING_SECONDS = 20.0
QUERY = ["Smokes", "Cancer"]


def model_of(weight: float) -> lapis.Model:
    return lapis.parse(
        "Friends(person, person)\nSmokes(person)\nCancer(person)\n"
        f"{weight} Friends(x, y) ^ Smokes(x) => Smokes(y)\n1.5 Smokes(x) => Cancer(x)"
    )


def crowd(
    size: int,
    facts: dict[str, list[int]] | None = None,
    apart: frozenset[tuple[int, int]] = frozenset(),
) -> lapis.Database:
    names = np.array([f"P{number}" for number in range(size)])
    one, other = (grid.ravel() for grid in np.indices((size, size)))
    if apart:
        kept = [pair not in apart for pair in zip(one.tolist(), other.tolist(), strict=True)]
        one, other = one[kept], other[kept]
    frames = {"Friends": pd.DataFrame({"one": names[one], "other": names[other]})}
    for predicate, people in (facts or {}).items():
        frames[predicate] = pd.DataFrame({"who": names[people]})
    return lapis.Database.from_frames(frames)


def infer(weight: float, data: lapis.Database, **options: object) -> tuple[lapis.Answer, float]:
    return timed(lambda: lapis.infer(model_of(weight), data, QUERY, **options))  # type: ignore[arg-type]


def run_complete(sizes: tuple[int, ...]) -> bool:
    print("all friends:  people  known  weight  method    exact   CPU s         log Z  P(Smokes)")
    kept = True
    for size in sizes:
        for known in (0, size // 10):
            data = crowd(size, {"Smokes": list(range(known))} if known else None)
            for weight in WEIGHTS:
                answer, seconds = infer(weight, data)
                print(
                    f"              {size:6,d} {known:6,d} {weight:7.2f}  {answer.method:8s} "
                    f"{answer.exact!s:6s} {seconds:6.2f} {answer.log_partition or np.nan:13.4f} "
                    f"{answer[f'Smokes(P{size - 1})']:10.6f}",
                    flush=True,
                )
                kept &= answer.exact and seconds <= LIMIT
    return kept


def broken_crowd(kind: str, size: int) -> tuple[lapis.Database, dict[str, float]]:
    rng = np.random.default_rng(size)
    tenth = rng.choice(size, size // 10, replace=False).tolist()
    if kind == "facts":
        half = len(tenth) // 2
        return crowd(size, {"Smokes": tenth[:half], "Cancer": tenth[half:]}), {}
    if kind == "feuds":
        apart = frozenset((a, b) for a in tenth for b in tenth if a != b and rng.random() < 0.5)
        return crowd(size, apart=apart), {}
    return crowd(size), {f"Smokes(P{who})": float(rng.uniform(0.2, 0.8)) for who in tenth}


def run_broken(sizes: tuple[int, ...]) -> None:
    print("\na tenth differ:  kind      people   auto: method         exact   CPU s     "
          "without symmetry: method  CPU s  largest error")  # fmt: skip
    for kind in ("facts", "feuds", "opinions"):
        for size in sizes:
            data, soft = broken_crowd(kind, size)
            answer, seconds = infer(0.01, data, soft_evidence=soft, time_limit=SAMPLING_SECONDS)
            sampled, slow = infer_sampled(data, soft)
            error = (
                np.abs(sampled.probability - answer.probability).max() if answer.exact else np.nan
            )
            print(
                f"                 {kind:9s} {size:6,d}         {answer.method:14s} "
                f"{answer.exact!s:6s} {seconds:6.2f}     {sampled.method:24s} {slow:6.2f} "
                f"{error:12.4f}",
                flush=True,
            )


def infer_sampled(data: lapis.Database, soft: dict[str, float]) -> tuple[lapis.Answer, float]:
    """Run `auto` without symmetry."""
    with (
        mock.patch("lapis.inference.symmetry.by_counts.plan_counts", return_value=None),
        mock.patch("lapis.inference.solve.solve_problem", return_value=None),
    ):
        return infer(0.01, data, soft_evidence=soft, time_limit=SAMPLING_SECONDS)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="without the largest crowds")
    quick = options.parse_args().quick
    infer(0.1, crowd(20))  # loads the kernels
    infer(0.1, crowd(1010))
    kept = run_complete(SIZES[:-1] if quick else SIZES)
    run_broken(SIZES[:1] if quick else SIZES[:2])
    print(f"\nexact within {LIMIT:g} s in every row of the first table: {'yes' if kept else 'NO'}")
    raise SystemExit(0 if kept else 1)


if __name__ == "__main__":
    main()

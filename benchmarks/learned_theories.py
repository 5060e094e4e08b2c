"""Lifted weight learning on theories learned by our BUSL and MSL.

Table 1 of Van den Broeck, Meert and Davis, "Lifted generative parameter learning", 2013.

    python benchmarks/learned_theories.py [imdb uwcse webkb] [--systems busl,msl] [--folds 1,2]
                                          [--theories FOLDER] [--ways lifted,PSCG] [--seconds N]

As in the paper, clauses have at most four literals and three variables, and one fold is held out.
The other folds give the rules and then the weights: by PSCG (MC-SAT, 20 iterations), by
pseudo-likelihood, and by lifted likelihood, which starts at the weights of the pseudo-likelihood.
Each row has the exact log-likelihood of the held-out fold for the three, and whether the theory is
liftable, partly grounded, or refused, with the reason. The paper's theories are not published, so
its figures show the order of magnitude only. WebKB has a predicate for each class, `Linked`, and
one for each of the ten words with the largest mutual information with the class, in the training
data.

With `--theories` learned theories are stored in a folder and read from there. `--seconds` limits
the search for rules, and each method for weights; a star marks an unfinished run. Seconds are CPU
seconds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas
from lifted_learning import FOLDS, PAPER, PRIOR, TOLERANCE, timed
from protocol import data_folder
from webkb import CLASSES, UNIVERSITIES, read_university

import lapis
from lapis.errors import LapisError, TooLarge

NUM_WORDS = 10
LEFT_OUT = ("samePerson", "sameCourse", "sameProject")  # predicates of equality of constants
WEBKB = {"MSL": ((-9453, -5860, -5655), (-27628, -5129, -5047), (-26548, -4135, -3917),
                 (-18052, -4367, -4280))}  # fmt: skip


class Split(NamedTuple):
    """Declarations, and the worlds for training and testing."""

    model: lapis.Model
    train: list[lapis.Database]
    test: lapis.Database


class Standing(NamedTuple):
    """Whether and how log Z of a theory can be computed."""

    word: str  # lifts, partly grounded, refused
    reason: str
    seconds: float  # of CPU


def folds_of(name: str) -> tuple[str, ...]:
    return UNIVERSITIES if name == "webkb" else FOLDS[name]


def read_split(name: str, number: int) -> Split:
    if name == "webkb":
        return read_webkb(number)
    lines = (data_folder(name) / f"{name}.mln").read_text(encoding="utf-8").splitlines()
    model = lapis.parse("\n".join(x for x in lines if x.partition("(")[0] not in LEFT_OUT))
    worlds = [lapis.Database.read(data_folder(name) / f"{fold}.db") for fold in FOLDS[name]]
    return Split(model, worlds[:number] + worlds[number + 1 :], worlds[number])


def read_webkb(number: int) -> Split:
    frames = [read_university(name).to_frames() for name in UNIVERSITIES]
    train = frames[:number] + frames[number + 1 :]
    words = informative_words(train)
    model = "".join(f"{name}(page)\n" for name in (*CLASSES, *(f"Has{w[2:]}" for w in words)))
    worlds = [simplify(frame, words) for frame in frames]
    return Split(
        lapis.parse(model + "Linked(page, page)\n"),
        worlds[:number] + worlds[number + 1 :],
        worlds[number],
    )


def informative_words(frames: Sequence[dict[str, pandas.DataFrame]]) -> list[str]:
    """Return the words with the largest mutual information with the classes of a page."""
    kinds: list[str] = []
    rows: list[tuple[str, int]] = []
    for frame in frames:
        first = len(kinds)
        pages = {page: first + at for at, page in enumerate(frame["Page"].iloc[:, 0])}
        own = frame["Class"].groupby(frame["Class"].columns[0])
        named = {page: " ".join(sorted(group.iloc[:, 1])) for page, group in own}
        kinds += [named.get(page, "") for page in pages]
        rows += [(word, pages[page]) for word, page in frame["Has"].itertuples(index=False)]
    vocabulary = sorted({word for word, _ in rows})
    place = {word: at for at, word in enumerate(vocabulary)}
    present = np.zeros((len(vocabulary), len(kinds)), bool)
    for word, page in rows:
        present[place[word], page] = True
    kind = np.unique(kinds, return_inverse=True)[1]
    gain = [entropy(kind) - conditional_entropy(kind, row) for row in present]
    order = np.argsort(-np.array(gain), kind="stable")[:NUM_WORDS]
    return [vocabulary[at] for at in order]


def entropy(kind: np.ndarray) -> float:
    share = np.bincount(kind) / max(1, len(kind))
    share = share[share > 0]
    return float(-share @ np.log(share))


def conditional_entropy(kind: np.ndarray, row: np.ndarray) -> float:
    share = float(row.mean())
    return share * entropy(kind[row]) + (1 - share) * entropy(kind[~row])


def simplify(frames: dict[str, pandas.DataFrame], words: Sequence[str]) -> lapis.Database:
    classes, has = frames["Class"], frames["Has"]
    found = {name: classes[classes.iloc[:, 1] == name].iloc[:, [0]] for name in CLASSES}
    for word in words:
        found[f"Has{word[2:]}"] = has[has.iloc[:, 0] == word].iloc[:, [1]]
    return lapis.Database.from_frames({**found, "Linked": frames["Links"]})


def learn_theory(split: Split, system: str, path: Path | None, seconds: float) -> lapis.Model:
    if path is None or not path.exists():
        found = lapis.learn_structure(
            split.model, split.train, method=system, max_literals=4, max_variables=3,
            time_limit=seconds,
        )  # fmt: skip
        print(f"    {found.summary()}{' *' if found.interrupted else ''}", flush=True)
        if path is None:
            return found.model
        found.save(path)
    return lapis.read(path)


def stand(model: lapis.Model, world: lapis.Database) -> Standing:
    """Return whether log Z over all worlds of this size can be computed."""
    problem = lapis.build_problem(model, world)
    sizes = {name: len(domain) for name, domain in problem.domains.items()}
    began = time.process_time()
    try:
        found = lapis.lift(model, sizes=sizes)
    except TooLarge as error:
        return Standing("refused", str(error).partition("\n")[0], time.process_time() - began)
    word = "partly grounded" if found.reasons else "lifts"
    return Standing(word, "; ".join(found.reasons[:1]), time.process_time() - began)


def learn_weights(
    model: lapis.Model, train: list[lapis.Database], ways: Sequence[str], seconds: float
) -> Iterator[tuple[str, lapis.Fit, float]]:
    """Return the weights by each method, with CPU seconds."""
    pseudo, spent = timed(lambda: lapis.learn(model, train, objective="pseudo", prior=PRIOR))
    yield "PLL", pseudo, spent
    if "lifted" in ways:
        yield "lifted", *timed(
            lambda: lapis.learn(
                pseudo.model, train, objective="likelihood", expectation="lifted", prior=PRIOR,
                tolerance=TOLERANCE, time_limit=seconds,
            )
        )  # fmt: skip
    if "PSCG" in ways:
        yield "PSCG", *timed(
            lambda: lapis.learn(
                model, train, objective="likelihood", optimizer="pscg", expectation="mcsat",
                prior=PRIOR, max_iterations=20, random_state=1, time_limit=seconds,
            )
        )  # fmt: skip


def run_fold(
    name: str, number: int, system: str, folder: Path | None, ways: Sequence[str], seconds: float
) -> None:
    fold = folds_of(name)[number]
    split = read_split(name, number)
    path = None if folder is None else folder / f"{name}-{system}-{fold}.mln"
    model = learn_theory(split, system, path, seconds)
    standing = stand(model, split.test)
    num_rules = len(model.rules) - len(model.predicates)
    paper = (WEBKB if name == "webkb" else PAPER[name]).get(system.upper())
    beside = "–" if paper is None else " ".join(map(str, paper[number]))
    print(f"  {name} {system} {fold:10s} {num_rules:2d} rules, {standing.word} in "
          f"{standing.seconds:.1f} s, paper {beside}  {standing.reason}", flush=True)  # fmt: skip
    if standing.word == "refused":
        return
    try:
        for way, fit, spent in learn_weights(model, split.train, ways, seconds):
            test = lapis.score(fit.model, [split.test]).log_likelihood
            star = "" if fit.converged or way == "PSCG" else " *"
            print(f"    {way:7s}{'–' if test is None else format(test, '12.1f')}{star} after "
                  f"{fit.iterations} iterations, {spent:.1f} s", flush=True)  # fmt: skip
    except LapisError as error:
        print(f"    not learned: {str(error).partition(chr(10))[0]}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("sets", nargs="*", default=["imdb", "uwcse", "webkb"])
    options.add_argument("--systems", default="busl,msl")
    options.add_argument("--folds", help="numbers of the folds to hold out")
    options.add_argument("--theories", type=Path)
    options.add_argument("--ways", default="lifted,PSCG", help="to learn weights, beside PLL")
    options.add_argument("--seconds", type=float, default=300.0)
    chosen = options.parse_args()
    warnings.simplefilter("ignore")  # predicates that a theory leaves out, weights that run away
    for name in chosen.sets:
        print(f"{name}: log-likelihood of the held-out fold")
        every = range(len(folds_of(name)))
        folds = [int(n) - 1 for n in chosen.folds.split(",")] if chosen.folds else every
        for system in chosen.systems.split(","):
            for number in folds:
                run_fold(
                    name, number, system, chosen.theories, chosen.ways.split(","), chosen.seconds
                )


if __name__ == "__main__":
    main()

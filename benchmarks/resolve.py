"""Entity resolution: Lapis beside Splink 5, without and with labels.

    python benchmarks/resolve.py                      people, references, Cora
    python benchmarks/resolve.py people --size 20000 --seed 3
    python benchmarks/resolve.py cora --only lapis

People and references are generated with known truth (`resolve_data.py`), 100,000 records each.
Both systems get the same blocking rules. Splink gets the comparisons that its documentation advises
for the columns, term frequencies, u from ten million random pairs, and EM under three blocking
rules. With labels, the entities of half of the records are known, and scores are of the other
half. Settings were chosen on other seeds (3 to 7), also the threshold of Splink's clusters, which
is the best of a list there; for Cora it is the best on the four other folds, and the listed pairs
of a fold are scored. Lapis has one threshold: the most likely clusters.

AP counts the true pairs that blocking misses. Every row has a process of its own; seconds are of
the processor, memory is the largest of the process. Splink (`pip install splink`) is left out if it
is not installed.
"""

from __future__ import annotations

import argparse
import gzip
import logging
import re
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from protocol import data_folder, peak_memory, run_in_process, timed
from resolve_data import add_keys, make_people, make_references

import lapis
from lapis.recipes.blocking import CandidatePairs
from lapis.recipes.match_mixture import combine
from lapis.recipes.resolution_scores import ResolutionScores, score_resolution
from lapis.recipes.transitivity import find_components

BLOCKING = {
    "people": [
        "surname, first_name", "birth_date", "phone", "email", "postcode, first_name",
        "surname, postcode", "street",
    ],
    "references": [
        "title", "authors, year", "word1, word2", "word1, year", "word1, author1",
        "word2, author1", "author1, year", "year, pages", "venue, pages",
    ],
}  # fmt: skip
KEYS = {"people": [], "references": ["word1", "word2", "author1"]}
DETERMINISTIC = {
    "people": (["first_name, surname, birth_date", "email", "phone, first_name"], 0.7),
    "references": (["title, year", "authors, title"], 0.5),
    "cora": (["title, author"], 0.4),
}
TRAINING = {
    "people": ["birth_date", "first_name, surname", "email"],
    "references": ["title", "authors, year", "pages, year"],
    "cora": ["title", "author", "venue"],
}
THRESHOLDS = {"people": 0.999, "references": 0.7}  # of Splink's clusters, the best on seed 7
LIST = (0.3, 0.5, 0.7, 0.9, 0.95, 0.99, 0.999)
SEEDS = {"people": 101, "references": 102}
HEAD = f"{'data':<20}{'labels':>7}{'system':>8}{'pairs':>12}{'recall':>8}{'AP':>8}{'F1':>8}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=["people", "references", "cora"])
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", choices=("lapis", "splink"))
    given = parser.parse_args()
    systems = [given.only] if given.only else ["lapis", "splink"]
    if find_spec("splink") is None:
        systems = [name for name in systems if name != "splink"]
    print(HEAD + f"{'B-cubed':>9}{'seconds':>9}{'GB':>6}", flush=True)
    for name in given.sets:
        for system in systems:
            if name == "cora":
                run_in_process(measure_cora, system)
                continue
            seed = SEEDS[name] if given.seed is None else given.seed
            for labelled in (False, True):
                run_in_process(measure, name, system, given.size, seed, labelled)


def load(name: str, size: int, seed: int) -> pandas.DataFrame:
    frame = make_people(size, seed) if name == "people" else make_references(size, seed)
    return add_keys(frame) if name == "references" else frame


def hide_half(entity: pandas.Series) -> tuple[pandas.Series, np.ndarray]:
    """The labels of half of the entities, and the truth of the others (−1: not scored)."""
    codes = entity.to_numpy()
    known = np.random.default_rng(0).random(codes.max() + 1)[codes] < 0.5
    return entity.astype(str).where(known), np.where(known, -1, codes)


def measure(name: str, system: str, size: int, seed: int, labelled: bool) -> None:
    """Print the row of a system on a generated set."""
    frame = load(name, size, seed)
    truth = frame["entity"].to_numpy()
    labels = None
    if labelled:
        labels, truth = hide_half(frame["entity"])
    table = frame.drop(columns="entity")
    run = run_lapis if system == "lapis" else run_splink
    (pairs, log_odds, probability, cluster), seconds = timed(lambda: run(name, table, labels))
    scores = score_resolution(truth, cluster, pairs, log_odds, probability, None)
    known = f"{name} {size:,}"
    print(
        row(known, labelled, system, int((pairs.found_by != 0).sum()), scores, seconds), flush=True
    )


def row(
    name: str, labelled: bool, system: str, pairs: int, scores: ResolutionScores, seconds: float
) -> str:
    return (
        f"{name:<20}{'half' if labelled else 'none':>7}{system:>8}{pairs:>12,}"
        f"{scores.blocking_recall:>8.3f}{scores.average_precision:>8.4f}{scores.f1:>8.4f}"
        f"{scores.b_cubed:>9.4f}{seconds:>9.1f}{peak_memory():>6.2f}"
    )


Outcome = tuple[CandidatePairs, np.ndarray, np.ndarray, np.ndarray]


def run_lapis(name: str, table: pandas.DataFrame, labels: pandas.Series | None) -> Outcome:
    options: dict[str, Any] = {"blocking": BLOCKING[name], "ignore": KEYS[name]}
    if labels is not None:
        table, options["label_column"] = table.assign(known=labels), "known"
    found = lapis.recipes.resolve(table, progress=False, **options)
    return found.pairs, combine(found.log_odds), found.probability, found.joint.cluster


def run_splink(name: str, table: pandas.DataFrame, labels: pandas.Series | None) -> Outcome:
    pairs, weight, probability = splink_pairs(name, table, labels, BLOCKING[name])
    same = probability >= THRESHOLDS[name]
    cluster = find_components(len(table), pairs.left[same], pairs.right[same])
    return pairs, weight * np.log(2), probability, cluster


def splink_pairs(
    name: str, table: pandas.DataFrame, labels: pandas.Series | None, rules: Sequence[str]
) -> tuple[CandidatePairs, np.ndarray, np.ndarray]:
    """Return the pairs of Splink with match weight and probability."""
    from splink import DuckDBAPI, Linker, SettingsCreator

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    frame = table.rename(columns={"id": "unique_id"})
    if name == "people":
        frame["full_name"] = frame["first_name"] + " " + frame["surname"]
    if "year" in frame:
        frame["year"] = frame["year"].astype("Int64")
    if labels is not None:
        frame["known"] = labels
    settings = SettingsCreator(
        link_type="dedupe_only",
        comparisons=splink_comparisons(name),
        blocking_rules_to_generate_predictions=[as_splink(rule) for rule in rules] or ["1 = 1"],
        retain_matching_columns=False,
    )
    linker = Linker(DuckDBAPI().register(frame), settings, log_level=None)
    certain, recall = DETERMINISTIC[name]
    linker.training.estimate_probability_two_random_records_match(
        [as_splink(rule) for rule in certain], recall=recall
    )
    linker.training.estimate_u_using_random_sampling(max_pairs=1e7, seed=1)
    if labels is not None:
        linker.training.estimate_m_from_label_column("known")
    else:
        for rule in TRAINING[name]:
            linker.training.estimate_parameters_using_expectation_maximisation(as_splink(rule))
    found = linker.inference.predict().as_pandas_dataframe()
    place = pandas.Series(np.arange(len(table)), table["id"])
    one, other = (place[found[f"unique_id_{side}"]].to_numpy() for side in "lr")
    left, right = np.minimum(one, other), np.maximum(one, other)
    pairs = CandidatePairs(left, right, np.ones(len(left), np.int64))
    return pairs, found["match_weight"].to_numpy(), found["match_probability"].to_numpy()


def as_splink(rule: str) -> Any:
    from splink import block_on

    return block_on(*(part.strip() for part in rule.split(",")))


def splink_comparisons(name: str) -> list[Any]:
    import splink.comparison_level_library as levels
    import splink.comparison_library as library

    if name == "people":
        return [
            library.ForenameSurnameComparison(
                "first_name", "surname", forename_surname_concat_col_name="full_name"
            ),
            library.DateOfBirthComparison("birth_date", input_is_string=True),
            text("street", [0.95, 0.88]),
            text("city", [0.9]),
            library.DamerauLevenshteinAtThresholds("postcode", [1]).configure(
                term_frequency_adjustments=True
            ),
            library.DamerauLevenshteinAtThresholds("phone", [1, 2]),
            library.EmailComparison("email"),
        ]
    if name == "cora":
        return [text("author", [0.9, 0.8]), text("title", [0.9, 0.8]), text("venue", [0.9, 0.8])]
    year = [
        levels.NullLevel("year"), levels.ExactMatchLevel("year"),
        levels.AbsoluteDifferenceLevel("year", 1), levels.ElseLevel(),
    ]  # fmt: skip
    return [
        text("title", [0.95, 0.9, 0.8]),
        text("authors", [0.95, 0.9, 0.8, 0.7]),
        text("venue", [0.9, 0.8]),
        library.CustomComparison(output_column_name="year", comparison_levels=year),
        library.JaroWinklerAtThresholds("pages", [0.9, 0.8]),
    ]


def text(column: str, thresholds: list[float]) -> Any:
    import splink.comparison_library as library

    return library.JaroWinklerAtThresholds(column, thresholds).configure(
        term_frequency_adjustments=True
    )


# Cora


def read_fold(folder: Path, fold: int) -> tuple[pandas.DataFrame, dict[tuple[int, int], bool]]:
    """Return the records of a fold with their entities, and the listed pairs."""
    values: dict[str, dict[str, str]] = {}
    same, different = [], []
    for line in (folder / f"fold{fold}.db").read_text().splitlines():
        predicate, first, second = re.fullmatch(r"(\w+)\(([^,]+),(.+)\)", line).groups()  # type: ignore[union-attr]
        if predicate in ("Author", "Title", "Venue"):
            shown = " ".join(second.split("_")[1:]).strip()
            values.setdefault(first, {})[predicate.lower()] = shown
        elif predicate == "SameBib":
            same.append((first, second))
    with gzip.open(folder / f"fold{fold}.neg.db.gz", "rt") as file:
        different = re.findall(r"!SameBib\(([^,]+),([^)]+)\)", file.read())
    rows = {name: row for row, name in enumerate(values)}
    frame = pandas.DataFrame([{"id": name, **cells} for name, cells in values.items()])
    ends = np.array([(rows[a], rows[b]) for a, b in same])
    frame["entity"] = find_components(len(frame), ends[:, 0], ends[:, 1])
    listed = {
        (min(rows[a], rows[b]), max(rows[a], rows[b])): value
        for pairs, value in ((different, False), (same, True))
        for a, b in pairs
        if a != b
    }
    return frame, listed


def measure_cora(system: str) -> None:
    """Print the rows of the folds."""
    folder = data_folder("cora-er")
    folds = [read_fold(folder, fold) for fold in range(1, 6)]
    outcomes = []
    for frame, _ in folds:
        table = frame.drop(columns="entity")
        if system == "lapis":
            outcomes.append(timed(lambda table=table: cora_lapis(table)))
        else:
            outcomes.append(timed(lambda table=table: splink_pairs("cora", table, None, [])))
    for number, (frame, listed) in enumerate(folds):
        found, seconds = outcomes[number]
        if system == "lapis":
            pairs, log_odds, probability, cluster = found
        else:
            pairs, log_odds, probability = found
            others = [n for n in range(5) if n != number]
            best = max(
                LIST,
                key=lambda limit: np.mean(
                    [cora_f1(folds[n][0], outcomes[n][0], limit) for n in others]
                ),
            )
            same = probability >= best
            cluster = find_components(len(frame), pairs.left[same], pairs.right[same])
        inside = np.array(
            [
                (a, b) in listed
                for a, b in zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
            ]
        )
        shown = CandidatePairs(pairs.left, pairs.right, inside.astype(np.int64))
        truth = frame["entity"].to_numpy()
        scores = score_resolution(truth, cluster, shown, log_odds, probability, None)
        print(
            row(f"cora fold {number + 1}", False, system, int(inside.sum()), scores, seconds),
            flush=True,
        )


def cora_lapis(table: pandas.DataFrame) -> Outcome:
    kinds = dict.fromkeys(("author", "title", "venue"), "name")
    found = lapis.recipes.resolve(table, comparisons=kinds, blocking="all", progress=False)
    return found.pairs, combine(found.log_odds), found.probability, found.joint.cluster


def cora_f1(
    frame: pandas.DataFrame, found: tuple[CandidatePairs, np.ndarray, np.ndarray], limit: float
) -> float:
    pairs, log_odds, probability = found
    same = probability >= limit
    cluster = find_components(len(frame), pairs.left[same], pairs.right[same])
    scores = score_resolution(
        frame["entity"].to_numpy(), cluster, pairs, log_odds, probability, None
    )
    return scores.f1 or 0.0


if __name__ == "__main__":
    main()

"""Entity resolution: against worlds enumerated from the definition, and against `lapis.infer`."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
from cli_run import Run
from lapis.errors import LapisError, TooLarge
from lapis.recipes import Resolution, count_pairs, resolve
from lapis.recipes.blocking import BlockingRule, find_pairs, parse_rules
from lapis.recipes.comparisons import choose_comparisons, column_levels
from lapis.recipes.match_mixture import collect_vectors, combine
from lapis.recipes.records import Records, read_records
from lapis.recipes.transitivity import solve_jointly


def make_people(num_people: int, seed: int) -> pandas.DataFrame:
    """Records of people, some of them twice or three times with typing errors."""
    rng = np.random.default_rng(seed)
    first = "anna ben cora dan eva finn gus hana ida jon kim lea".split()  # noqa: SIM905
    last = "berg cole diaz evans frank gray hill ito jung kay lind moss".split()  # noqa: SIM905
    rows: list[dict[str, Any]] = []
    for person in range(num_people):
        name = f"{rng.choice(first)} {rng.choice(last)}"
        born = f"{rng.integers(1940, 2000)}-{rng.integers(1, 13):02d}-{rng.integers(1, 28):02d}"
        phone = f"0{rng.integers(10**6, 10**7)}"
        for copy in range(rng.integers(1, 4)):
            typo = name[:2] + name[3:] if copy and rng.random() < 0.3 else name
            rows.append(
                {
                    "entity": f"P{person}",
                    "name": typo,
                    "born": None if rng.random() < 0.1 else born,
                    "phone": None if rng.random() < 0.3 else phone,
                    "town": f"town{person % 7}",
                }
            )
    frame = pandas.DataFrame(rows)
    frame.insert(0, "id", [f"R{number}" for number in range(len(frame))])
    return frame


PEOPLE = make_people(60, seed=1)


@pytest.fixture(scope="module")
def found() -> Resolution:
    return resolve(PEOPLE, truth_column="entity", blocking=["born", "phone", "town, name"])


def test_duplicates_are_found(found: Resolution) -> None:
    scores = found.scores()
    assert scores is not None
    assert scores.average_precision is not None
    assert scores.f1 is not None
    assert scores.average_precision > 0.9
    assert scores.f1 > 0.9


def test_the_model_and_the_facts_give_the_same_probabilities(
    found: Resolution, tmp_path: Path
) -> None:
    """`lapis infer` on the folder: exact, and equal to the digits that weights are written with."""
    found.save(tmp_path / "out")
    folder = tmp_path / "out"
    answer = lapis.infer(folder / "model.mln", folder / "data", found.query, only_listed=True)
    assert answer.exact
    names = found.records.names
    assert found.linked.any()
    for pair, (left, right) in enumerate(zip(found.pairs.left, found.pairs.right, strict=True)):
        atom = f"Same({names[left]}, {names[right]})"
        assert answer[atom] == pytest.approx(found.probability[pair], abs=2e-5), atom
    assert {path.name for path in folder.iterdir()} == {
        "model.mln", "data", "pairs.csv", "clusters.csv", "weights.csv",
    }  # fmt: skip


def enumerate_partitions(items: list[int]) -> list[list[set[int]]]:
    """All partitions, by adding one item after another."""
    if not items:
        return [[]]
    found = []
    for rest in enumerate_partitions(items[1:]):
        found.append([{items[0]}, *rest])
        for place in range(len(rest)):
            joined = [block | {items[0]} if n == place else block for n, block in enumerate(rest)]
            found.append(joined)
    return found


@settings(max_examples=25)
@given(st.integers(2, 5), st.data())
def test_transitivity_is_summed_over_all_partitions(size: int, data: st.DataObject) -> None:
    """Weights of pairs as a dictionary; worlds are partitions, weighed by their inner pairs."""
    pairs = list(itertools.combinations(range(size), 2))
    weights = {pair: data.draw(st.floats(-4, 4)) for pair in pairs}
    left, right = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    joint = solve_jointly(
        size, left, right, np.array(list(weights.values())), np.zeros(size, np.int64), -2.0
    )
    totals, best = dict.fromkeys(pairs, 0.0), (-math.inf, [])
    normaliser = 0.0
    for blocks in enumerate_partitions(list(range(size))):
        inside = [pair for pair in pairs if any(set(pair) <= block for block in blocks)]
        score = sum(weights[pair] for pair in inside)
        normaliser += math.exp(score)
        best = max(best, (score, inside), key=lambda entry: entry[0])  # type: ignore[assignment]
        for pair in inside:
            totals[pair] += math.exp(score)
    for number, pair in enumerate(pairs):
        assert joint.probability[number] == pytest.approx(totals[pair] / normaliser, abs=1e-9)
    chosen = [pair for pair in pairs if joint.cluster[pair[0]] == joint.cluster[pair[1]]]
    assert sum(weights[pair] for pair in chosen) == pytest.approx(best[0], abs=1e-9)


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_large_components_are_clustered_where_no_move_gains(seed: int) -> None:
    """A planted partition of 12 records, with noise that is weaker than the signal."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 12)
    left, right = np.triu_indices(12, 1)
    weights = np.where(truth[left] == truth[right], 2.0, -2.0) + rng.uniform(-1, 1, len(left))
    joint = solve_jointly(12, left, right, weights, np.zeros(12, np.int64), -2.0)
    assert (joint.num_exact, joint.num_greedy) == (0, 1)
    same = joint.cluster[left] == joint.cluster[right]
    assert (same == (truth[left] == truth[right])).all()


RULES = ["town", "name, born", "l.born = r.born and l.phone <> r.phone", "substr(name, 1, 3), town"]


def holds(rule: str, one: dict[str, Any], other: dict[str, Any]) -> bool:
    """The rules above, written in Python; a missing value agrees with nothing."""

    def equal(column: str) -> bool:
        return one[column] is not None and one[column] == other[column]

    match RULES.index(rule):
        case 0:
            return equal("town")
        case 1:
            return equal("name") and equal("born")
        case 2:
            known = one["phone"] is not None and other["phone"] is not None
            return equal("born") and known and one["phone"] != other["phone"]
        case _:
            return equal("town") and one["name"][:3] == other["name"][:3]


def test_blocking_finds_and_counts_the_pairs_of_its_rules() -> None:
    rows = PEOPLE.astype(object).where(PEOPLE.notna(), None).to_dict("records")
    records = read_records(PEOPLE)
    rules = parse_rules(RULES, records)
    pairs = find_pairs(records, rules, limit=10**6)
    wanted = {
        (a, b): [holds(rule, rows[a], rows[b]) for rule in RULES]
        for a, b in itertools.combinations(range(len(rows)), 2)
    }
    expected = {pair: flags for pair, flags in wanted.items() if any(flags)}
    got = {
        (int(a), int(b)): [bool(bits >> n & 1) for n in range(len(RULES))]
        for a, b, bits in zip(pairs.left, pairs.right, pairs.found_by, strict=True)
    }
    assert got == expected
    counts = count_pairs(PEOPLE, blocking=RULES).to_pandas()
    alone = [sum(flags[n] for flags in wanted.values()) for n in range(len(RULES))]
    new = [
        sum(flags[n] and not any(flags[:n]) for flags in wanted.values()) for n in range(len(RULES))
    ]
    assert counts["pairs"].tolist() == [*alone, len(expected)]
    assert counts["new"].tolist() == [*new, len(expected)]


def test_a_rule_tells_which_columns_it_reads() -> None:
    rule = parse_rules("l.town = r.town AND substr(l.name, 1, 2) = substr(r.name, 1, 2)",
                       read_records(PEOPLE))[0]  # fmt: skip
    assert rule == BlockingRule(
        rule.text, ('"town"', "substr(name, 1, 2)"), None, frozenset({"town"}), frozenset({"name"})
    )


LEVELS = [
    ("name", ["martha", "marhta", "mark", "zoe"],
     {(0, 1): "≥ 0.95", (0, 2): "≥ 0.8", (0, 3): "< 0.6"}),
    ("words", ["the old house", "old house the", "old mouse"], {(0, 1): "≥ 0.97", (0, 2): "≥ 0.7"}),
    ("code", ["12345", "12354", "12999"], {(0, 1): "1 edit", (0, 2): "different"}),
    ("exact", ["a", "b"], {(0, 1): "different"}),
    ("date", ["2001-02-03", "2001-03-02", "2001-02-28", "2001-12-11", "1950-01-01"],
     {(0, 1): "one typing error", (0, 2): "at most 31 days", (0, 3): "at most a year",
      (0, 4): "different"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "wanted"), LEVELS, ids=[each[0] for each in LEVELS])
def test_levels(kind: str, values: list[str], wanted: dict[tuple[int, int], str]) -> None:
    dates = {"c": pandas.to_datetime(values)} if kind == "date" else {"c": values}
    records = read_records(pandas.DataFrame({"id": range(len(values)), **dates, "d": values}))
    every = np.triu_indices(len(values), 1)
    (comparison,) = choose_comparisons(records, {"c": kind}, (), every)
    for (left, right), words in wanted.items():
        ends = np.array([left]), np.array([right])
        level = int(column_levels(records.columns["c"], comparison, *ends)[0])
        assert words in comparison.levels()[level - 1][1]
        assert column_levels(records.columns["c"], comparison, *ends[::-1])[0] == level
        same = column_levels(records.columns["c"], comparison, ends[0], ends[0])
        assert comparison.levels()[int(same[0]) - 1][1].startswith("equal")


def test_equal_vectors_are_counted_once() -> None:
    rng = np.random.default_rng(3)
    levels, sets = rng.integers(0, 3, (500, 4)), rng.integers(0, 2, 500)
    label = rng.integers(-1, 2, 500)
    found = collect_vectors(levels, sets, label)
    rows = [tuple(row) for row in np.column_stack([levels, sets, label]).tolist()]
    got = np.column_stack([found.levels, found.sets, found.label]).tolist()
    assert {tuple(row): n for row, n in zip(got, found.count, strict=True)} == {
        row: rows.count(row) for row in set(rows)
    }


def test_an_explanation_adds_up(found: Resolution) -> None:
    """To the log-odds of the pair, with and without transitivity, also for pairs not found."""
    frame = found.to_pandas()
    for row in (0, len(frame) // 2, len(frame) - 1):
        left, right = frame["left"][row], frame["right"][row]
        explained = found.explain(left, right)
        assert sum(weight for _, _, weight in explained.rows) == pytest.approx(explained.log_odds)
        assert explained.probability == pytest.approx(frame["probability"][row], abs=1e-9)
        assert found.explain(right, left).rows == explained.rows
    known = set(zip(frame["left"], frame["right"], strict=True))
    ids = found.records.ids
    stranger = next(pair for pair in itertools.combinations(ids, 2) if pair not in known)
    rows = found.explain(*stranger).rows
    assert rows[0][1] == "no rule found this pair"


def test_tables_of_all_kinds_are_read_alike(tmp_path: Path) -> None:
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    PEOPLE.to_parquet(tmp_path / "people.parquet")
    frames = [PEOPLE, polars.from_pandas(PEOPLE), tmp_path / "people.parquet"]
    answers = [
        resolve(frame, blocking="all", comparisons=["name", "phone", "town"]).to_pandas()
        for frame in [*frames, str(tmp_path / "people.csv")]
    ]
    for other in answers[1:]:
        pandas.testing.assert_frame_equal(answers[0], other)


def test_two_tables_are_linked() -> None:
    copies = PEOPLE.groupby("entity").cumcount()
    left, right = PEOPLE[copies == 0], PEOPLE[copies == 1]
    found = resolve(left, right, truth_column="entity", blocking="all", one_to_one=True)
    scores = found.scores()
    assert scores is not None
    assert scores.f1 is not None
    assert scores.f1 > 0.85
    size = len(left)
    assert (found.pairs.left[found.compared] < size).all()
    assert (found.pairs.right[found.compared] >= size).all()
    for side in (found.joint.cluster[:size], found.joint.cluster[size:]):
        assert len(set(side.tolist())) == len(side)


@pytest.mark.parametrize("one_to_one", [False, True])
def test_the_model_of_two_tables_gives_the_same_probabilities(one_to_one: bool) -> None:
    """Pairs within a table have weight 0, or are false."""
    copies = PEOPLE.groupby("entity").cumcount()
    first, rest = PEOPLE[copies == 0][:25], PEOPLE[copies > 0][:25]
    found = resolve(
        first.drop(columns="entity"), rest.drop(columns="entity"), blocking=["born", "phone"],
        one_to_one=one_to_one,
    )  # fmt: skip
    assert not found.compared.all()
    answer = lapis.infer(found.model, found.data, found.query, only_listed=True)
    names = found.records.names
    for pair in np.flatnonzero(found.compared).tolist():
        atom = f"Same({names[found.pairs.left[pair]]}, {names[found.pairs.right[pair]]})"
        assert answer[atom] == pytest.approx(found.probability[pair], abs=2e-5), atom


def test_labels_are_used() -> None:
    """Equal names are the same person, or another one, as the labels state."""
    frame = pandas.DataFrame({"id": range(40), "name": [f"n{n % 20}" for n in range(40)]})
    ends = {"left": range(20), "right": range(20, 40)}
    probability = []
    for same in ("0", None, "yes"):
        labels = None if same is None else pandas.DataFrame({**ends, "same": [same] * 20})
        taught = resolve(
            frame, blocking="all", comparisons={"name": "exact"}, labels=labels, related=False
        )
        probability.append(taught.explain("0", "20").probability)
    assert probability[0] < 0.05 < probability[1] < 0.5 < probability[2]
    entities = frame.assign(who=frame["name"].where(frame.index % 20 < 15))
    taught = resolve(
        entities, blocking="all", comparisons={"name": "exact"}, label_column="who", related=False
    )
    assert taught.explain("0", "20").probability > probability[1]
    assert "435 labelled pairs" in taught.learned


def test_new_records_join_their_clusters() -> None:
    rows = np.arange(len(PEOPLE))
    late = PEOPLE["entity"].duplicated() & (rows % 3 == 0)
    found = resolve(PEOPLE[~late].drop(columns="entity"), blocking=["born", "phone", "name"])
    stranger = {"id": "X", "name": "zzz qqq", "born": "1800-01-01", "phone": "99", "town": "u"}
    new = pandas.concat([PEOPLE[late].drop(columns="entity"), pandas.DataFrame([stranger])])
    placed = found.predict(new)
    cluster = dict(zip(found.records.ids, found.joint.cluster, strict=True))
    entity = dict(zip(PEOPLE["id"], PEOPLE["entity"], strict=True))
    hits = [
        entity[str(name)] == entity[str(near)]
        for name, near, fresh in zip(placed.ids, placed.nearest, placed.is_new, strict=True)
        if not fresh
    ]
    assert np.mean(hits) > 0.9
    assert len(hits) > 0.7 * late.sum()
    for own, fresh in zip(placed.cluster, placed.is_new, strict=True):
        assert fresh == (own not in cluster.values())
    assert placed.is_new[-1]
    assert placed.nearest[-1] is None


def test_scores_by_definition(found: Resolution) -> None:
    scores = found.scores()
    assert scores is not None
    entity, cluster = PEOPLE["entity"].tolist(), found.joint.cluster.tolist()
    pairs = list(itertools.combinations(range(len(entity)), 2))
    true = {pair for pair in pairs if entity[pair[0]] == entity[pair[1]]}
    got = {pair for pair in pairs if cluster[pair[0]] == cluster[pair[1]]}
    assert scores.precision == pytest.approx(len(true & got) / len(got))
    assert scores.recall == pytest.approx(len(true & got) / len(true))
    candidates = {
        pair
        for pair, bits in zip(
            zip(found.pairs.left.tolist(), found.pairs.right.tolist(), strict=True),
            found.pairs.found_by,
            strict=True,
        )
        if bits
    }
    assert scores.blocking_recall == pytest.approx(len(true & candidates) / len(true))
    precisions, recalls = [], []
    for row in range(len(entity)):
        own = [other for other in range(len(entity)) if cluster[other] == cluster[row]]
        mates = [other for other in range(len(entity)) if entity[other] == entity[row]]
        both = len(set(own) & set(mates))
        precisions.append(both / len(own))
        recalls.append(both / len(mates))
    p, r = np.mean(precisions), np.mean(recalls)
    assert scores.b_cubed == pytest.approx(2 * p * r / (p + r))


def test_probabilities_are_of_the_written_kinds(found: Resolution) -> None:
    """Pairs outside components have e^a / (1 + e^a + e^b), by the weights that are shown."""
    apart = np.flatnonzero(~found.linked)
    odds = found.log_odds[apart]
    total = 1 + np.exp(odds[:, 0]) + np.exp(odds[:, 1])
    assert np.exp(combine(odds)) / (1 + np.exp(combine(odds))) == pytest.approx(
        np.exp(odds[:, 0]) / total
    )
    assert found.probability[apart] == pytest.approx(np.exp(odds[:, 0]) / total)


NAMES = pandas.DataFrame({"id": [1, 2, 3], "name": ["ann", "ann", "bob"], "age": ["3x", "4", "5"]})
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"id_column": "key"}, "ids: there is no column 'key'\n    the columns are id, name, age"),
    ({"comparisons": ["nam"]}, "comparisons: there is no column 'nam'\n    did you mean 'name'?"),
    ({"comparisons": {"name": "txt"}},
     "unknown kind of comparison 'txt'\n    did you mean 'text'?"),
    ({"comparisons": {"age": "number"}},
     "column 'age' has no numbers to compare, but texts\n"
     "    dates are written 2001-12-31, numbers without leading zeros"),
    ({"blocking": "surname"},
     "blocking rule 'surname': there is no column 'surname'\n    did you mean 'name'?"),
    ({"blocking": "age"}, "the blocking rules find no pair\n"
     "    use columns whose values repeat: 'age' finds 0"),
    ({"ignore": ["agee"]}, "ignore: there is no column 'agee'\n    did you mean 'age'?"),
    ({"truth_column": "who"}, "truth_column: there is no column 'who'\n"
     "    the columns are name, age"),
    ({"min_probability": 2.0}, "min_probability must be a number between 0 and 1, not 2.0"),
    ({"labels": pandas.DataFrame({"left": [1], "right": [9], "same": [1]})},
     "no record has the id '9'"),
    ({"labels": pandas.DataFrame({"left": [1], "right": [2], "same": ["maybe"]})},
     "labels: 'maybe' in column 'same'\n    1 for same, 0 for not"),
    ({"right": [1, 2]},
     "a list is not a table\n    use a path, or a frame of pandas, polars or Arrow"),
]  # fmt: skip


@pytest.mark.parametrize(("given_options", "message"), WRONG)
def test_errors(given_options: dict[str, Any], message: str) -> None:
    with pytest.raises(LapisError) as caught:
        resolve(NAMES, **{"blocking": "all", **given_options})
    assert str(caught.value) == message


def test_errors_of_ids() -> None:
    twice = NAMES.assign(id=[1, 2, 1])
    with pytest.raises(LapisError) as caught:
        resolve(twice)
    assert str(caught.value) == (
        "column 'id': '1' is the id of rows 1 and 3\n    every record needs an id of its own"
    )
    with pytest.raises(LapisError, match="column 'id': row 2 has no id"):
        resolve(NAMES.assign(id=["a", None, "b"]))


def test_errors_of_sql() -> None:
    with pytest.raises(LapisError, match=r"blocking rule 'substr\(name\)': "):
        resolve(NAMES, blocking="substr(name)")


def test_too_many_pairs_are_refused_before_they_are_made() -> None:
    frame = pandas.DataFrame({"id": range(30_000), "name": ["ann", "bob", "cy"] * 10_000})
    with pytest.raises(TooLarge) as caught:
        resolve(frame, blocking="name", max_pairs=10**6)
    assert str(caught.value) == (
        "the blocking rules find 149,985,000 pairs, more than the limit of 1,000,000\n"
        "    149,985,000 are of 'name': add a column to it, or raise max_pairs"
    )
    with pytest.raises(TooLarge, match="449,985,000 pairs of records, more than the limit"):
        resolve(frame, blocking="all")


def test_the_command(run: Run) -> None:
    PEOPLE.to_csv(run.folder / "people.csv", index=False)
    options = ("--truth-column", "entity", "--blocking", "born", "--blocking", "phone")
    code, out, err = run("recipe", "resolve", "people.csv", *options, "-o", "out")
    assert code == 0, err
    assert "probably the same" in out
    answer = run.json("infer", "out/model.mln", "out/data", "-q", "Same,Related", "--only-listed")
    assert answer["exact"]
    document = run.json("recipe", "resolve", "people.csv", *options)
    assert document["scores"]["cluster_f1"] > 0.8
    assert len(document["clusters"]) == len(PEOPLE)
    counted = run.json("recipe", "resolve", "people.csv", "--blocking", "town", "--count")
    assert counted["rows"][0]["rule"] == "town"
    code, out, _ = run("recipe", "resolve", "people.csv", *options, "--explain", "R0,R1")
    assert code == 0
    assert "prior odds" in out
    for words, message in (
        ((), "error: name one table or two"),
        (("people.csv", "--explain", "R0"), "error: --explain takes two ids, not 1"),
        (("people.csv", "-o", "out"), "error: out: cannot be written"),
        (("nothing.csv",), "error: nothing.csv: no such file"),
        (("people.txt",), "error: people.txt: a table is a .csv, .csv.gz or .parquet file"),
    ):
        code, _, err = run("recipe", "resolve", *words)
        assert (code, err[: len(message)]) == (1, message)


def test_pictures_are_drawn(found: Resolution, tmp_path: Path) -> None:
    found.plot(tmp_path / "all.png")
    assert (tmp_path / "all.png").stat().st_size > 10_000
    axes = found.explain("R0", "R1").plot()
    assert len(axes.get_yticklabels()) == len(found.explain("R0", "R1").rows) + 1


def test_records_without_a_left_table_count_all_pairs() -> None:
    records = read_records(NAMES)
    assert isinstance(records, Records)
    assert records.num_pairs == 3

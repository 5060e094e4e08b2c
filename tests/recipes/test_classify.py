"""Collective classification: probabilities, scores, explanations, files, errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest

import lapis
import oracle
from cli_run import Run
from lapis.errors import LapisError
from lapis.recipes import Classification, classify
from lapis.recipes.class_model import ClassSettings, infer_classes, rule_prior, train, write_model
from lapis.recipes.classification import score_classes
from lapis.recipes.item_tables import code_column, new_links

ITEMS = pd.DataFrame({
    "id": ["A", "B", "C", "D", "E", "F", "G"],
    "age": [10, 12, 70, 65, 11, 68, 40],
    "city": ["Rome", "Bonn", "Rome", None, "Rome", "Bonn", "Bonn"],
    "group": ["young", "young", "old", "old", None, None, None],
    "truth": ["young", "young", "old", "old", "young", "old", None],
})  # fmt: skip
WORDS = pd.DataFrame({"who": list("ABCDEG"), "word": ["x", "x", "y", "y", "x", "y"]})
LINKS = pd.DataFrame({"a": ["A", "C", "E", "B", "F"], "b": ["E", "F", "G", "A", "G"]})
FIXED: dict[str, Any] = {
    "label_column": "group", "truth_column": "truth", "progress": None,
    "prior": 1.0, "near_prior": 0.5, "link_prior": 1.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def found() -> Classification:
    return classify(ITEMS, {"HasWord": WORDS}, {"Knows": LINKS}, **FIXED)


def test_words_of_the_task(found: Classification) -> None:
    assert found.items == ("E", "F", "G")
    assert found.classes == ("old", "young")
    assert found.labels["E"] == "young"
    assert found.labels["F"] == "old"
    assert found.probability.sum(axis=1) == pytest.approx([1, 1, 1])
    assert found.scores["accuracy"] == 1
    assert found.scores["items"] == 2
    frame = found.to_pandas()
    assert list(frame.columns) == ["item", "group", "probability", "truth"]
    assert frame.truth.tolist()[:2] == ["young", "old"]
    assert frame.truth.isna().tolist() == [False, False, True]
    table = found.probabilities.to_pandas()
    assert table.young[0] == found.probability[0, 1]
    assert str(found).count("\n") >= 4


def plain_model(found: Classification) -> lapis.Model:
    """The model with a rule for each weight, as the oracle reads it."""
    declared = [line for line in write_model(found.tables).split("\n") if "(x" not in line]
    for own in found.tables.features:
        names = ", ".join(f'"{name}"' for name in own.names)
        declared.append(f"{own.type_name} = {{{names}}}")
    for links in found.tables.links:
        levels = ", ".join(f'"{name}"' for name in links.level_names)
        declared.append(f"{links.count_predicate.lower()} = {{{levels}}}")
    rules = [f"{weight!r} {formula}" for formula, weight, *_ in found.fit.rows()]
    return lapis.parse("\n".join([*declared, *rules]))


def facts_of(data: lapis.Database) -> oracle.Facts:
    stated: dict[bool | None, list[tuple[str, tuple[str, ...]]]] = {True: [], False: [], None: []}
    for name, constants, truth in data.facts():
        stated[truth].append((name, constants))
    return oracle.Facts(tuple(stated[True]), tuple(stated[False]), tuple(stated[None]))


def test_probabilities_are_those_of_the_oracle(found: Classification) -> None:
    expected = oracle.infer(plain_model(found), facts_of(found.data), ("Group",))
    for row, item in enumerate(found.items):
        for column, name in enumerate(found.classes):
            atom = f'Group({item},"{name}")'
            assert found.probability[row, column] == pytest.approx(
                expected.marginals[atom], abs=1e-9
            )


@pytest.mark.parametrize("item", ["E", "F", "G"])
def test_contributions_add_up_to_the_log_odds(found: Classification, item: str) -> None:
    """Given the likeliest classes of all other items, by the oracle's enumeration."""
    why = found.explain(item)
    others = {name: kind for name, kind in found.labels.items() if name != item}
    facts = facts_of(found.data)
    known = tuple(("Group", pair) for pair in others.items())
    unknown = tuple(atom for atom in facts.unknown if atom[1][0] == item)
    expected = oracle.infer(
        plain_model(found), oracle.Facts(facts.true + known, facts.false, unknown), ("Group",)
    )
    one, two = (expected.marginals[f'Group({item},"{c}")'] for c in (why.label, why.against))
    assert why.log_odds == pytest.approx(np.log(one / two), abs=1e-9)
    assert why.text.startswith(f"{item} is {why.label} (probability ")
    assert len(why.to_pandas()) == len(why.contributions)


def test_the_folder_gives_the_same_answer(found: Classification, tmp_path: Path) -> None:
    found.save(tmp_path / "out")
    again = lapis.infer(tmp_path / "out" / "model.mln", tmp_path / "out" / "data", found.query)
    for row, item in enumerate(found.items):
        for column, name in enumerate(found.classes):
            assert again[f'Group({item},"{name}")'] == pytest.approx(found.probability[row, column])
    assert pd.read_csv(tmp_path / "out" / "classes.csv").item.tolist() == list(found.items)


def test_files_frames_and_graphs_are_the_same(tmp_path: Path, found: Classification) -> None:
    ITEMS.to_csv(tmp_path / "items.csv", index=False)
    WORDS.to_parquet(tmp_path / "HasWord.parquet")
    by_file = classify(
        tmp_path / "items.csv", tmp_path / "HasWord.parquet",
        {"Knows": pl.from_pandas(LINKS)}, **FIXED,
    )  # fmt: skip
    assert by_file.probability == pytest.approx(found.probability)
    graph = classify(ITEMS, {"HasWord": WORDS}, nx.DiGraph(list(LINKS.itertuples(index=False))),
                     **FIXED)  # fmt: skip
    assert graph.tables.links[0].predicate == "Linked"
    assert graph.probability == pytest.approx(found.probability)


def test_the_prior_is_chosen_on_labelled_items_only() -> None:
    """Other true classes of the hidden items change nothing but the scores."""
    generator = np.random.default_rng(0)
    label = np.array(["a", "b"])[generator.integers(2, size=40)]
    items = pd.DataFrame({
        "id": range(40), "x": np.where(label == "a", 0.0, 1.0) + generator.normal(size=40),
        "label": [name if n < 30 else None for n, name in enumerate(label)], "truth": label,
    })  # fmt: skip
    links = pd.DataFrame({"a": range(39), "b": range(1, 40)})
    one = classify(items, links=links, truth_column="truth", progress=None)
    other = classify(items.assign(truth="a"), links=links, truth_column="truth", progress=None)
    assert {score.with_links for score in one.trained.scores} == {False, True}
    assert one.trained.scores == other.trained.scores
    assert one.trained.widths == other.trained.widths
    np.testing.assert_array_equal(one.probability, other.probability)
    best = max(one.trained.scores[-3:], key=lambda s: s.cll if s.with_links else -np.inf)
    assert one.trained.widths == best.widths


def test_the_prior_has_a_width_for_each_weight(found: Classification) -> None:
    """In the order of the parameters: features, links, classes."""
    known = found.tables.take(found.tables.is_labelled)
    prior = rule_prior(known, found.trained.widths, 1.0)
    assert np.shape(prior.strength) == found.fit.weights.shape


def test_links_join_hidden_items() -> None:
    """A chain of hidden items: each follows its neighbour, by joint inference."""
    items = pd.DataFrame({"id": range(10), "label": ["a", "a", "a", "b", "b", "b"] + [None] * 4})
    pairs = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 6), (6, 7), (5, 8), (8, 9)]
    found = classify(items, links=pd.DataFrame(pairs), prior=1, link_prior=1, progress=None)
    assert found.labels["6"] == "a"
    assert found.labels["8"] == "b"
    near_a, far_a, near_b, far_b = found.probability[:, 0].tolist()
    assert near_a > far_a > far_b > near_b


def test_levels_of_numbers() -> None:
    coding = code_column("x", np.array([1.0, 1.0, 2.0, 3.0, 10.0]), 8)
    assert coding.features == ["x>=1.5", "x>=2.5", "x>=6.5"]
    assert coding.encode(np.array([0.0, 2.0, np.nan])).tolist() == [
        [False] * 3, [True, False, False], [False] * 3,
    ]  # fmt: skip
    many = code_column("x", np.arange(1000.0), 4)
    assert many.features == ["x>=249.5", "x>=499.5", "x>=749.5"]
    assert code_column("t", np.array([True, False]), 4).features == ["t"]
    assert code_column("c", np.array([None, None], object), 4).features == []


def test_numbers_of_links() -> None:
    links = new_links("L", np.array([[0, k] for k in range(1, 40)]), 41)
    assert links.level[[0, 1, 40]].tolist() == [7, 1, 0]
    assert links.level_names == ["1", "2", "3-4", "5-8", "9-16", "17-32", "33+"]


def test_features_of_linked_items(found: Classification) -> None:
    """An item has those of all items that it is linked to, in either direction."""
    by_name = {own.predicate: own for own in found.tables.features}
    own, near = by_name["HasWord"], by_name["HasWordNear"]
    words = {
        found.tables.items[i]: own.names[f] for i, f in zip(own.item, own.feature, strict=True)
    }
    expected = set()
    for a, b in LINKS.itertuples(index=False):
        for end, other in ((a, b), (b, a)):
            if other in words:
                expected.add((end, words[other]))
    found_pairs = zip(near.item, near.feature, strict=True)
    assert {(found.tables.items[i], near.names[f]) for i, f in found_pairs} == expected
    assert not any(own.is_near for own in one(near_prior=0).tables.features)


def test_scores_by_definition() -> None:
    probability = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    found = score_classes(probability, np.array([0, 1]))
    assert found["accuracy"] == 0.5
    assert found["log_loss"] == pytest.approx(-(np.log(0.7) + np.log(0.3)) / 2)
    logs = np.log([0.7, 0.8, 0.9, 0.9, 0.3, 0.4])
    assert found["cll"] == pytest.approx(logs.mean())
    assert found["brier"] == pytest.approx(np.mean([0.09, 0.04, 0.01, 0.01, 0.49, 0.36]))


def test_pictures(found: Classification, tmp_path: Path) -> None:
    found.plot(tmp_path / "scores.png")
    assert (tmp_path / "scores.png").read_bytes()[:4] == b"\x89PNG"
    axes = found.explain("E").plot()
    assert len(axes.patches) == len(found.explain("E").contributions)


def one(**changes: Any) -> Any:
    options = {"items": ITEMS, "features": None, "links": LINKS, **FIXED, **changes}
    return classify(options.pop("items"), options.pop("features"), options.pop("links"), **options)


ERRORS = [
    ({"items": ITEMS.rename(columns={"id": "key"})}, "items has no column 'id'"),
    ({"label_column": "gruop"}, "items has no column 'gruop'\n    did you mean 'group'?"),
    ({"items": pd.concat([ITEMS, ITEMS[:1]])}, "items: 'A' is the id of rows 1 and 8"),
    ({"items": ITEMS.assign(group="old")}, "two classes are needed to learn from"),
    ({"items": ITEMS.assign(group=["a", "b"] * 3 + ["a"])}, "every item has a label in column"),
    (
        {"items": ITEMS[["id", "group", "truth"]], "links": None},
        "there are neither features nor links to classify by",
    ),
    ({"links": pd.DataFrame({"a": [1], "b": [2]})}, "Linked: none of its 1 row names an item"),
    ({"links": pd.DataFrame({"a": ["A"]})}, "Linked needs two columns, and has 1"),
    ({"links": pd.DataFrame({"a": ["A", None], "b": ["B", "C"]})}, "Linked: row 2 has no value"),
    ({"items": {"id": [1]}}, "items: a dict is not a table"),
    ({"items": "none.csv"}, "none.csv: no such file"),
    ({"items": "items.txt"}, "items.txt: a table is a .csv, .csv.gz or .parquet file"),
    ({"prior": 0}, "prior must be a number above 0, not 0"),
    ({"levels": 1}, "levels must be a whole number of at least 2, not 1"),
    ({"ignore": ["agee"]}, "items has no column 'agee'\n    did you mean 'age'?"),
]


@pytest.mark.parametrize(("changes", "message"), ERRORS, ids=[m[:40] for _, m in ERRORS])
def test_errors(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(LapisError) as caught:
        one(**changes)
    assert str(caught.value).startswith(message)


def test_what_needs_the_truth_says_so(found: Classification) -> None:
    blind = replace(found, truth=None)
    for call in (lambda: blind.scores, blind.plot, blind.plot_calibration):
        with pytest.raises(LapisError, match="there are no scores without the true classes"):
            call()
    with pytest.raises(LapisError, match="'A' is no item that was classified"):
        found.explain("A")
    with pytest.raises(LapisError, match="'odl' is no class"):
        found.explain("E", against="odl")


def test_a_class_without_a_label_counts_as_wrong() -> None:
    found = one(items=ITEMS.assign(truth=["young"] * 5 + ["other", None]))
    assert found.scores["accuracy"] == 0.5
    assert found.to_pandas().truth.tolist()[:2] == ["young", "(another)"]


def test_the_command(run: Run) -> None:
    ITEMS.to_csv(run.folder / "items.csv", index=False)
    LINKS.to_csv(run.folder / "Knows.csv", index=False)
    words = ["recipe", "classify", "items.csv", "--links", "Knows.csv", "--label-column", "group",
             "--truth-column", "truth", "--prior", "1", "--near-prior", "0.5",
             "--link-prior", "1"]  # fmt: skip
    code, out, _ = run(*words, "--json", "-o", "out")
    import json

    document = json.loads(out)
    expected = one(links={"Knows": LINKS})
    assert code == 0
    assert document["classes"] == ["old", "young"]
    assert [entry["item"] for entry in document["items"]] == ["E", "F", "G"]
    assert document["items"][0]["probability"] == pytest.approx(expected.probability[0].max())
    assert (run.folder / "out" / "model.mln").exists()
    code, _, err = run(*words, "-o", "out")
    assert code == 1
    assert "cannot be written" in err
    code, out, _ = run(*words, "--explain", "E", "--plot", "why.svg")
    assert code == 0
    assert "E: young against old" in out
    assert (run.folder / "why.svg").exists()


def test_training_leaves_out_items_without_a_label(found: Classification) -> None:
    """Their features cannot change weights, unless they are features of linked items."""
    settings = ClassSettings(prior=1.0, near_prior=0.0, link_prior=1.0)
    tables = found.tables.without(near=True)
    own = tables.features[0]
    hidden = ~tables.is_labelled[own.item]
    fewer = replace(own, item=own.item[~hidden], feature=own.feature[~hidden])
    other = replace(tables, features=(fewer, *tables.features[1:]))
    one, two = train(tables, settings), train(other, settings)
    np.testing.assert_array_equal(one.fit.weights, two.fit.weights)
    assert infer_classes(one.fit.model, other, settings)[0].shape == found.probability.shape

"""`LapisClassifier` within scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

import lapis
from lapis.errors import LapisError
from lapis.sklearn import LapisClassifier

# Checks of scikit-learn that do not apply, with the reason.
EXCLUDED = {
    "check_array_api_input": "needs SCIPY_ARRAY_API, and arrays of other libraries",
}


def name_of(check: Any) -> str:
    return str(getattr(check, "func", check).__name__)


CHECKS = [
    pair for pair in estimator_checks_generator(LapisClassifier())
    if name_of(pair[1]) not in EXCLUDED
]  # fmt: skip


@pytest.mark.parametrize(
    ("estimator", "check"), CHECKS, ids=[f"{n}-{name_of(c)}" for n, (_, c) in enumerate(CHECKS)]
)
@pytest.mark.filterwarnings("ignore")
def test_check_estimator(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_rows_without_links_are_a_logistic_regression() -> None:
    """The same penalised likelihood: a Gaussian prior of width s is C = s²."""
    generator = np.random.default_rng(0)
    matrix = sparse.csr_matrix(generator.random((60, 5)) < 0.4)
    label = np.array(["a", "b", "c"])[generator.integers(3, size=60)]
    ours = LapisClassifier(prior=0.7).fit(matrix, label)
    # The unit weights have a prior of width 5 there: a column of ones of that size.
    wide = sparse.hstack([matrix.astype(float) * 0.7, np.full((60, 1), 5.0)]).tocsr()
    theirs = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-8, max_iter=5000)
    theirs.fit(wide, label)
    assert ours.predict_proba(matrix) == pytest.approx(theirs.predict_proba(wide), abs=1e-4)
    assert ours.classes_.tolist() == ["a", "b", "c"]


def test_grid_search_pipeline_and_scores() -> None:
    matrix, label = load_iris(return_X_y=True)
    search = GridSearchCV(LapisClassifier(levels=4), {"prior": [0.5, 2.0]}, cv=2)
    search.fit(matrix[::3], label[::3])
    assert search.best_score_ > 0.85
    texts = ["goal ball team", "ball kick", "vote law", "law court vote", "team goal", "court"] * 2
    topics = ["sport", "sport", "law", "law", "sport", "law"] * 2
    pipeline = make_pipeline(CountVectorizer(), LapisClassifier())
    assert cross_val_score(pipeline, texts, topics, cv=2).mean() == 1.0


def test_parameters() -> None:
    classifier = LapisClassifier(prior=2.0, links=[("a", "b")])
    assert clone(classifier).get_params() == classifier.get_params()
    assert classifier.set_params(levels=3).levels == 3
    assert lapis.LapisClassifier is LapisClassifier


PEOPLE = pd.DataFrame(
    {"age": [10, 11, 60, 61, 35, 36], "city": ["R", "R", "B", None, None, "B"]},
    index=["Ann", "Bob", "Cid", "Dora", "Eve", "Fay"],
)
GROUPS = np.array(["y", "y", "o", "o"])


def test_frames_keep_their_columns() -> None:
    classifier = LapisClassifier().fit(PEOPLE[:4], GROUPS)
    assert classifier.feature_names_in_.tolist() == ["age", "city"]
    assert classifier.n_features_in_ == 2
    assert 'Feature(x, "city=R") => Class(x, "y")' in classifier.fit_.by_formula
    assert classifier.predict(pd.DataFrame({"age": [12, 70], "city": ["R", "new"]})).tolist() == [
        "y", "o",
    ]  # fmt: skip


def test_linked_rows_are_classified_jointly() -> None:
    """Training rows are evidence for the rows that are linked to them."""
    links = [("Ann", "Bob"), ("Cid", "Dora"), ("Ann", "Eve"), ("Bob", "Eve"), ("Cid", "Fay")]
    rows = PEOPLE[["age"]].assign(age=[1, 1, 1, 1, 1, 1])
    train = pd.concat([rows[:4], rows[:4].rename(index=lambda n: f"{n}2")])
    links += [(f"{a}2", f"{b}2") for a, b in links[:2]]
    classifier = LapisClassifier(links=links).fit(train, [*GROUPS, *GROUPS])
    eve, fay = classifier.predict_proba(rows[4:])
    assert classifier.classes_.tolist() == ["o", "y"]
    assert eve[1] > 0.5 > fay[1]
    alone = LapisClassifier().fit(train, [*GROUPS, *GROUPS]).predict_proba(rows[4:])
    assert alone[0] == pytest.approx([0.5, 0.5], abs=1e-6)
    assert classifier.answer(rows[4:]).exact
    # A row of training that is predicted is no evidence for itself.
    again = classifier.predict_proba(rows[:1])
    assert again[0].max() < 0.99


OWN = """
age(person, number)
Smokes(person)
Friends(person, person)
Smokes(x)
age(x, a) ^ a > 40 => Smokes(x)
Friends(x, y) ^ Smokes(x) => Smokes(y)
"""


def test_a_model_of_the_user() -> None:
    """Columns are predicates, further facts are data, a target of one argument has two classes."""
    friends = lapis.Database.parse("Friends(Cid,Eve) Friends(Dora,Eve) Friends(Ann,Fay)")
    model = lapis.parse(OWN)
    classifier = LapisClassifier(model=model, target="Smokes", data=friends)
    classifier.fit(PEOPLE[["age"]][:4], [False, False, True, True])
    chance = classifier.predict_proba(PEOPLE[["age"]][4:])
    facts = lapis.Database.parse(
        "age(Ann,10) age(Bob,11) age(Cid,60) age(Dora,61) age(Eve,35) age(Fay,36) "
        "!Smokes(Ann) !Smokes(Bob) Smokes(Cid) Smokes(Dora) "
        "Friends(Cid,Eve) Friends(Dora,Eve) Friends(Ann,Fay)"
    )
    expected = lapis.infer(classifier.model_, facts, "Smokes")
    assert chance[0, 1] == pytest.approx(expected["Smokes(Eve)"])
    assert chance[1, 1] == pytest.approx(expected["Smokes(Fay)"])
    assert chance.sum(axis=1) == pytest.approx([1, 1])


def test_a_model_of_the_user_with_classes() -> None:
    model = "city(person, city)\nGroup(person, group!)\ncity(x, +c) => Group(x, +g)"
    classifier = LapisClassifier(model=lapis.parse(model), target="Group")
    classifier.fit(PEOPLE[["city"]][:4], GROUPS)
    chance = classifier.predict_proba(pd.DataFrame({"city": ["R", None]}, index=["New", "Other"]))
    assert classifier.classes_.tolist() == ["o", "y"]
    assert chance[0, 1] > 0.5
    assert chance[1] == pytest.approx([0.5, 0.5])


ERRORS = [
    ({"prior": 0}, "prior must be a number above 0 or None, not 0"),
    ({"levels": 1}, "levels must be a whole number of at least 2, not 1"),
    ({"target": "P"}, "model and target belong together"),
    ({"links": 3}, "links must be pairs of rows, not a int"),
    ({"links": [("a", "b", "c")]}, "a link has two ends, not 3"),
    ({"model": lapis.parse(OWN), "target": "Smoks"}, "unknown predicate 'Smoks'"),
    ({"model": lapis.parse("R(a, b, c)"), "target": "R"}, "the target has one or two arguments"),
]


@pytest.mark.parametrize(("parameters", "message"), ERRORS, ids=[m[:30] for _, m in ERRORS])
def test_errors(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(LapisError) as caught:
        LapisClassifier(**parameters).fit([[0], [1]], ["a", "b"])
    assert str(caught.value).startswith(message)


def test_an_index_names_each_row_once() -> None:
    with pytest.raises(LapisError, match="two rows of X have the same label"):
        LapisClassifier().fit(pd.DataFrame({"x": [0, 1]}, index=[0, 0]), ["a", "b"])

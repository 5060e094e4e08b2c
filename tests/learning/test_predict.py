"""`Fit.predict`: new records with the weights of training."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
import oracle

MODEL = """
Has(page, word)
Link(page, page)
Topic(page, topic!)
Has(p, +w) => Topic(p, +t)
Link(p, q) ^ Topic(p, t) ^ Topic(q, t)
"""
TRAINING = """
Has(A, Ball) Topic(A, Sport) Has(B, Ball) Topic(B, Sport) Has(C, Vote) Topic(C, Politics)
Has(D, Film) Topic(D, Arts) Link(A, B) Link(C, D)
"""


@pytest.fixture(scope="module")
def fit() -> lapis.Fit:
    return lapis.learn(lapis.parse(MODEL), lapis.Database.parse(TRAINING), "Topic", prior="l1:0.01")


def test_classes_are_those_of_training(fit: lapis.Fit):
    """The new records mention no topic, and have all of training."""
    answer = fit.predict(lapis.Database.parse("Has(N1, Ball) Has(N2, Vote) Link(N1, N2)"))
    table = answer.table("Topic").to_pandas()
    assert set(table.topic) == {"Sport", "Politics", "Arts"}
    assert table.groupby("page").probability.sum().tolist() == pytest.approx([1, 1])
    assert answer["Topic(N1,Sport)"] > 0.5


NEW = st.lists(
    st.tuples(st.just("Has"), st.sampled_from(["N1", "N2"]), st.sampled_from(["Ball", "Vote", "X"]))
    | st.tuples(st.just("Link"), st.sampled_from(["N1", "N2"]), st.sampled_from(["N1", "N2"])),
    min_size=1,
    max_size=5,
)


@given(rows=NEW)
def test_probabilities_are_those_of_the_oracle(rows: list[tuple[str, str, str]], fit: lapis.Fit):
    """The oracle has a rule for each weight, and declarations of all constants of training."""
    text = " ".join(f"{name}({a},{b})" for name, a, b in rows)
    answer = fit.predict(lapis.Database.parse(text))
    topics = "topic = {Sport, Politics, Arts}\n"
    words = "word = {Ball, Vote, Film, X}\n"
    declared = "\n".join(MODEL.split("\n")[:4])
    rules = "\n".join(f"{weight!r} {formula}" for formula, weight, *_ in fit.rows())
    model = lapis.parse(f"{topics}{words}{declared}\n{rules}")
    facts = oracle.Facts(true=tuple(dict.fromkeys((name, (a, b)) for name, a, b in rows)))
    expected = oracle.infer(model, facts, ("Topic",))
    assert set(answer.marginals) == expected.unknown
    assert answer.marginals == pytest.approx(
        {name: expected.marginals[name] for name in expected.unknown}, abs=1e-9
    )


def test_new_words_have_weight_0_and_a_note(fit: lapis.Fit):
    answer = fit.predict(
        lapis.Database.parse("Has(N1, Sea) Has(N1, Sky) Has(N2, Ball) Link(N2, N2)")
    )
    assert answer.remarks()[0] == (
        "2 constants of type word were not in training (Sea, Sky); their weights are 0"
    )
    for topic in ("Sport", "Politics", "Arts"):
        assert answer[f"Topic(N1,{topic})"] == pytest.approx(1 / 3)


def test_known_words_have_no_note(fit: lapis.Fit):
    assert not fit.predict(lapis.Database.parse("Has(N1, Ball) Link(N1, N1)")).remarks()


def test_frames_and_partial_labels(fit: lapis.Fit):
    frames = {
        "Has": pd.DataFrame({"page": ["N1"], "word": ["Ball"]}),
        "Link": pd.DataFrame({"page": ["N2"], "other": ["N1"]}),
        "Topic": pd.DataFrame({"page": ["N1"], "topic": ["Arts"]}),
    }
    answer = fit.predict(frames)
    assert "Topic(N1,Arts)" not in answer.marginals
    assert answer["Topic(N2,Arts)"] == max(answer.marginals.values())


def test_a_loaded_fit_predicts_the_same(fit: lapis.Fit, tmp_path: Path):
    fit.save(tmp_path / "fit.json")
    data = lapis.Database.parse("Has(N1, Ball) Has(N1, Sea)")
    assert lapis.Fit.load(tmp_path / "fit.json").predict(data).marginals == (
        fit.predict(data).marginals
    )


def test_a_wrong_keyword_is_refused(fit: lapis.Fit):
    with pytest.raises(lapis.LapisError, match="predict has no keyword 'precison'"):
        fit.predict(None, precison=0.1)  # type: ignore[call-arg]

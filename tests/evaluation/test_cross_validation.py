"""Cross-validation with learners whose results can be worked out by hand."""

from __future__ import annotations

import math
import multiprocessing
import statistics
from typing import Literal

import numpy as np
import pytest
import stand_in_learners as learners

import lapis
from lapis.data.database import Database
from lapis.errors import TooLarge
from lapis.evaluation.cross_validation import (
    CrossValidation,
    FoldTask,
    Learner,
    LearnerOutput,
    cross_validate,
    summarize_folds,
)
from lapis.evaluation.score import score_worlds
from lapis.runtime import progress
from lapis.runtime.limits import LimitExceeded
from lapis.runtime.progress import Progress, check_time

MODEL = lapis.parse("Person(p)\nSmokes(p)\nTall(p)\n0 Smokes(x)\n")
SHARES = [(5, 1), (4, 3), (6, 2), (3, 0)]  # people and smokers of each world


def make_worlds() -> list[Database]:
    return [
        Database.parse(
            " ".join(f"Person(P{i})" for i in range(people))
            + "".join(f" Smokes(P{i})" for i in range(smokers)),
            f"world {number}",
        )
        for number, (people, smokers) in enumerate(SHARES)
    ]


def validate(**chosen: object) -> CrossValidation:
    options: dict[str, object] = {"learn": learners.learn_share, "jobs": 1} | chosen
    return cross_validate(MODEL, make_worlds(), ["Smokes"], **options)  # type: ignore[arg-type]


def expected_cll(test: list[int]) -> float:
    """Of worlds predicted by the share of smokers in all others."""
    train = [share for number, share in enumerate(SHARES) if number not in test]
    people, smokers = (sum(column) for column in zip(*train, strict=True))
    chance = (smokers + 0.5) / (people + 1)
    held = [SHARES[number] for number in test]
    logs = sum(s * math.log(chance) + (p - s) * math.log(1 - chance) for p, s in held)
    return logs / sum(p for p, _ in held)


def test_leave_one_out_learns_on_the_rest_and_tests_on_the_held_out() -> None:
    found = validate()
    assert [fold.test for fold in found.folds] == [(f"world {i}",) for i in range(4)]
    for fold in found.folds:
        assert sorted((*fold.train, *fold.test)) == [f"world {i}" for i in range(4)]
    expected = [expected_cll([i]) for i in range(4)]
    assert [fold.score.cll for fold in found.folds] == pytest.approx(expected)
    mean, sd, number = found.spread("cll")
    assert (mean, sd, number) == pytest.approx(
        (statistics.mean(expected), statistics.stdev(expected), 4)
    )
    # The last world has no smoker, so no precision.
    assert found.spread("auc_pr").num_folds == 3
    assert found.remarks() == [
        "the mean AUC-PR is of 3 of 4 folds: in the others no query atom is true"
    ]
    assert found.predicate_spread("Smokes", "cll") == found.spread("cll")
    assert not found.interrupted


def test_what_was_doubtful_about_the_learning_of_a_fold_is_said() -> None:
    """No smoker is left to learn from where the only one is held out: the weight has no bound."""
    worlds = [Database.parse("Person(A) Person(B) Smokes(A)"), Database.parse("Person(A)")]
    found = cross_validate(MODEL, worlds, "Smokes", learn_options={"prior": "none"}, jobs=1)
    [first, second, *_] = found.remarks()
    assert first == "fold 1: learning has not converged (1 weight has no finite maximum)"
    assert second.startswith("fold 1: Smokes(x): nothing in the data keeps its weight from growing")


def test_pooled_measures_weigh_atoms_equally() -> None:
    found = validate()
    sizes = [people for people, _ in SHARES]
    pooled = sum(n * expected_cll([i]) for i, n in enumerate(sizes)) / sum(sizes)
    assert found.pooled.cll == pytest.approx(pooled)
    assert (found.pooled.num_atoms, found.pooled.num_true) == (18, 6)
    assert len(found.predictions.atoms) == 18


def test_groups_of_databases() -> None:
    found = validate(folds=2, random_state=3)
    tested = [[int(name[-1]) for name in fold.test] for fold in found.folds]
    assert sorted(number for test in tested for number in test) == [0, 1, 2, 3]
    assert [fold.score.cll for fold in found.folds] == pytest.approx(
        [expected_cll(test) for test in tested]
    )


def test_one_database_is_split() -> None:
    facts = " ".join(f"Person(P{i})" for i in range(6)) + " Smokes(P1) Smokes(P2)"
    found = cross_validate(
        MODEL, [Database.parse(facts)], ["Smokes"], folds=3, learn=learners.learn_share, jobs=1
    )
    assert len(found.folds) == 3
    assert found.pooled.num_atoms == 6
    assert found.pooled.num_true == 2


def test_processes_change_nothing_but_time() -> None:
    alone, together = validate(jobs=1, random_state=7), validate(jobs=2, random_state=7)

    def without_time(found: CrossValidation) -> dict[str, object]:
        result = found.to_json()
        for fold in result["folds"]:
            del fold["seconds"]
        return result

    assert without_time(together) == without_time(alone)
    assert together.predictions.atoms == alone.predictions.atoms
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("learn", [learners.learn_until_stopped, learners.press_control_c])
def test_control_c_keeps_finished_folds(learn: Learner) -> None:
    found = validate(learn=learn)
    assert found.interrupted
    assert [fold.number for fold in found.folds] == [1]
    assert found.num_folds == 4
    assert found.spread("cll") == (pytest.approx(expected_cll([0])), None, 1)
    assert "stopped after 1" in found.summary()


def limited_learner(
    monkeypatch: pytest.MonkeyPatch, last: int, ending: Literal["weights", "error", "signal"]
) -> Learner:
    """Return a learner during whose fold `last` the time ends, and how learning ends then."""
    now = [0.0]
    monkeypatch.setattr(progress, "work_clock", lambda: now[0])

    def learn(task: FoldTask) -> LearnerOutput:
        if task.number == last:
            now[0] = 100.0
            if ending == "error":
                check_time("learning")
            if ending == "signal":
                raise LimitExceeded
        return learners.learn_share(task)

    return learn


@pytest.mark.parametrize("ending", ["weights", "error", "signal"])
def test_a_time_limit_keeps_finished_folds(
    ending: Literal["weights", "error", "signal"], monkeypatch: pytest.MonkeyPatch
) -> None:
    for last in (2, 4):
        learn = limited_learner(monkeypatch, last, ending)
        found = validate(learn=learn, time_limit=50)
        assert found.interrupted
        assert [fold.number for fold in found.folds] == list(range(1, last))
        assert f"{last - 1} of 4 folds are finished" in found.remarks()[0]


@pytest.mark.parametrize("ending", ["weights", "error", "signal"])
def test_a_time_limit_before_any_fold_is_an_error(
    ending: Literal["weights", "error", "signal"], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TooLarge, match="before a fold was finished") as caught:
        validate(learn=limited_learner(monkeypatch, 1, ending), time_limit=50)
    assert caught.value.code == progress.STOPPED


def test_control_c_before_any_fold_is_an_interruption() -> None:
    def press(event: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        validate(progress=press)


def test_control_c_ends_running_processes_and_keeps_the_finished() -> None:
    def press(event: Progress) -> None:
        if event.done == 1:
            raise KeyboardInterrupt

    found = validate(learn=learners.never_end, jobs=2, progress=press)
    assert found.interrupted
    assert [fold.number for fold in found.folds] == [1]
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_names_the_fold(jobs: int) -> None:
    with pytest.raises(lapis.TooLarge, match="too much") as caught:
        validate(learn=learners.refuse, jobs=jobs)
    error = caught.value
    assert (error.code, error.exit_code, error.hint) == ("too-large", 3, "learn less")
    assert str(error.span) == "<text>:4:1"
    assert str(error).endswith("in fold 2, tested on world 1")
    assert multiprocessing.active_children() == []


def test_a_bug_in_a_process_is_raised_with_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError, match="a bug") as caught:
        validate(learn=learners.blunder, jobs=2)
    assert "in blunder" in str(caught.value.__cause__)
    assert caught.value.__notes__[0].startswith("in fold ")


def test_a_process_that_dies_is_reported() -> None:
    with pytest.raises(lapis.LapisError, match="ended before its fold was done"):
        validate(learn=learners.die, jobs=2)


def test_progress_counts_folds() -> None:
    seen: list[Progress] = []
    validate(progress=seen.append)
    assert [event.done for event in seen] == [0, 1, 2, 3, 4]
    assert (seen[-1].total, seen[-1].text) == (4, "tested on world 3")


def test_the_seed_reaches_learner_and_folds() -> None:
    accounts = [fold.account for fold in validate(random_state=11).folds]
    assert {account["seed"] for account in accounts} == {11}
    drawn = validate(random_state=np.random.default_rng(4)).folds[0].account["seed"]
    assert drawn == int(np.random.default_rng(4).integers(1 << 31))


def test_a_query_of_two_predicates() -> None:
    worlds = [
        Database.parse("Person(A) Person(B) Smokes(A) Tall(B)", "one"),
        Database.parse("Person(C) Person(D) Smokes(D)", "two"),
    ]
    found = cross_validate(
        MODEL, worlds, ["Smokes", "Tall"], learn=learners.learn_share, jobs=1, likelihood=True
    )
    first = found.folds[0].score
    (weight,) = {fold.account["weight"] for fold in found.folds[:1]}
    learned = lapis.parse(f"Person(p)\nSmokes(p)\nTall(p)\n{weight!r} Smokes(x)\n")
    assert first == score_worlds(learned, worlds[:1], ["Smokes", "Tall"])
    result = found.to_json()
    assert [row["predicate"] for row in result["predicates"]] == ["Smokes", "Tall"]
    tall = result["predicates"][1]
    assert tall["mean"]["cll"] == pytest.approx(math.log(0.5))
    assert tall["sd"]["cll"] == pytest.approx(0.0, abs=1e-12)
    assert tall["pooled"]["num_true"] == 1
    assert tall["mean"]["average_precision"] == 0.5  # one fold has nobody tall
    assert result["mean"]["log_likelihood"] is not None
    frame = found.to_pandas()
    assert frame["predicate"].tolist() == ["(all)", "Smokes", "Tall"] * 2
    assert frame["num_atoms"].tolist() == [4, 2, 2] * 2
    by_hand = [fold.score.of("Tall").cll for fold in found.folds]
    assert frame.loc[frame["predicate"] == "Tall", "cll"].tolist() == by_hand


def test_what_a_notebook_shows() -> None:
    found = validate()
    shown = found._repr_html_()
    assert ">mean<" in shown
    assert ">sd<" in shown
    assert f"{expected_cll([0]):.4f}" in shown
    assert repr(found).startswith("<CrossValidation: 4 folds: CLL -")


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"jobs": 0}, "jobs must be a whole number of at least 1, not 0"),
        ({"method": "magic"}, "unknown method"),
        ({"learn_options": {"optimiser": "pscg"}}, "unknown learning option 'optimiser'"),
        ({"learn_options": {"checkpoint": "file"}}, "unknown learning option 'checkpoint'"),
        ({"learn_options": {"engine": "duckdb"}}, "unknown learning option 'engine'"),
        ({"learn_options": {"strict": True}}, "unknown learning option 'strict'"),
        ({"folds": 9}, "9 folds need"),
    ],
)
def test_mistakes_are_found_before_learning(chosen: dict[str, object], message: str) -> None:
    with pytest.raises(lapis.LapisError, match=message):
        validate(learn=learners.refuse_twice, **chosen)


@pytest.mark.parametrize(
    ("query", "message"),
    [([], "needs a query to predict"), (["Smoks"], "unknown predicate 'Smoks'")],
)
def test_the_query_is_checked(query: list[str], message: str) -> None:
    with pytest.raises(lapis.LapisError, match=message):
        cross_validate(MODEL, make_worlds(), query, learn=learners.refuse_twice, jobs=1)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["data/ai.db", "data/theory.db"], ["ai.db", "theory.db"]),
        (["a/facts.db", "b/facts.db"], ["a/facts.db", "b/facts.db"]),
    ],
)
def test_folders_are_left_out_where_files_differ(names: list[str], shown: list[str]) -> None:
    worlds = [Database.parse("Person(A) Smokes(A)", name) for name in names]
    found = cross_validate(MODEL, worlds, ["Smokes"], learn=learners.learn_share, jobs=1)
    assert [found.tested_on(fold) for fold in found.folds] == shown
    assert [fold.test for fold in found.folds] == [(name,) for name in names]


def test_spread() -> None:
    assert summarize_folds([]) == (None, None, 0)
    assert summarize_folds([None, 2.0]) == (2.0, None, 1)
    assert summarize_folds([1.0, None, 3.0]) == (2.0, pytest.approx(math.sqrt(2)), 2)
    assert summarize_folds([1.0, -math.inf]) == (-math.inf, None, 2)


def test_a_rule_too_large_to_ground_does_not_end_the_evaluation() -> None:
    model = lapis.parse("P(t)\nR(t, t)\n0 R(x, y) ^ R(y, z) ^ R(z, w) ^ P(w) => P(x)\n0 P(x)")
    worlds = []
    for seed in range(2):
        generator = np.random.default_rng(seed)
        facts = [f"R(A{i},A{j})" for i in range(9) for j in range(9) if generator.random() < 0.5]
        facts += [f"P(A{i})" for i in range(9) if generator.random() < 0.5]
        worlds.append(lapis.Database.parse(" ".join(facts), f"world{seed}"))
    found = cross_validate(
        model, worlds, ["P"], generative=True, max_memory=5_000, precision=0.05, jobs=1
    )
    assert [fold.score.method for fold in found.folds] == ["count-gibbs", "count-gibbs"]
    assert all(fold.score.cll is not None for fold in found.folds)
    assert [remark.partition(" would give")[0] for remark in found.remarks()] == [
        f"fold {number}: world{number - 1}: predicted by counts: grounding "
        "'R(x, y) ^ R(y, z) ^ R(z, w) ^ P(w) => P(x)'"
        for number in (1, 2)
    ]

"""Every long function reports the same progress events and can be stopped in the same way."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import pytest

import lapis
from lapis.runtime.progress import SECONDS_LEFT, Progress, Stop
from lapis.runtime.progress_bars import BAR_WIDTH, CLOCK_WIDTH, describe_event, shorten_text

MODEL = lapis.parse("""
Friends(person, person)
Smokes(person)
0.4 Smokes(x)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.3 Smokes(x) ^ Smokes(y) ^ Smokes(z)
""")
WORLDS = [
    lapis.Database.parse("Friends(A,B) Friends(B,C) Friends(C,D) Smokes(A)", name=name)
    for name in ("one", "two")
]


PEOPLE = [f"P{i}" for i in range(16)]
LARGE = lapis.Database.parse(  # everybody depends on everybody: nothing is eliminated
    "\n".join(f"Friends({one},{two})" for one in PEOPLE for two in PEOPLE)
)


def sample(**watched: Any) -> lapis.Answer:
    return lapis.infer(
        MODEL, LARGE, "Smokes", method="gibbs", precision=1e-9, max_samples=10**9, **watched
    )


def count_sample(**watched: Any) -> lapis.Answer:
    return lapis.infer(
        MODEL,
        WORLDS[0],
        "Smokes",
        method="count-gibbs",
        precision=1e-9,
        max_samples=10**9,
        **watched,
    )


def maximise(**watched: Any) -> lapis.MostLikelyWorld:
    return lapis.map(MODEL, LARGE, "Smokes", method="maxwalksat", **watched)


def learn(**watched: Any) -> lapis.Fit:
    return lapis.learn(MODEL, WORLDS, "Smokes", optimizer="vp", tolerance=1e-30, **watched)


def learn_generatively(**watched: Any) -> lapis.Fit:
    return lapis.learn(MODEL, WORLDS, optimizer="lbfgs", tolerance=1e-30, **watched)


def learn_by_em(**watched: Any) -> lapis.Fit:
    return lapis.learn(MODEL, WORLDS, unobserved=["Smokes"], tolerance=1e-30, **watched)


def learn_margin(**watched: Any) -> lapis.Fit:
    return lapis.learn(MODEL, WORLDS, "Smokes", objective="max-margin", tolerance=1e-30, **watched)


def score(**watched: Any) -> Any:
    return lapis.score(
        MODEL, LARGE, "Smokes", method="gibbs", precision=1e-9, likelihood=False, **watched
    )


def was_interrupted(found: Any) -> bool:
    return bool(found.interrupted)


LONG = [sample, count_sample, maximise, learn, learn_generatively, learn_by_em, learn_margin, score]
each_function = pytest.mark.parametrize("run", LONG, ids=lambda run: run.__name__)


@each_function
def test_a_wish_to_stop_ends_it_with_what_there_is(run: Callable[..., Any]) -> None:
    asked = 0

    def wish() -> bool:
        nonlocal asked
        asked += 1
        return asked > 2

    assert was_interrupted(run(stop=wish))


@each_function
def test_an_event_set_from_elsewhere_stops_it(run: Callable[..., Any]) -> None:
    event = threading.Event()
    event.set()
    assert was_interrupted(run(stop=event))


@each_function
def test_every_event_is_of_the_one_kind_and_counts_upwards(run: Callable[..., Any]) -> None:
    told: list[Progress] = []
    run(progress=told.append, stop=lambda: len(told) > 12)
    assert told
    assert all(type(event) is Progress for event in told)
    assert all(event.phase and event.done >= 0 and event.seconds >= 0.0 for event in told)
    assert all(event.total is None or event.done <= event.total for event in told)
    assert all(str(event).startswith(event.phase) for event in told)


def test_folds_stop_between_and_within() -> None:
    def validate(**watched: Any) -> Any:
        worlds = [*WORLDS, *(lapis.Database.parse("Smokes(A) Friends(A,B)", f"{i}") for i in "34")]
        return lapis.cross_validate(
            MODEL, worlds, ["Smokes"], learn_options={"objective": "pseudo"}, **watched
        )

    for jobs in (1, 2):
        told: list[Progress] = []
        found = validate(
            jobs=jobs, progress=told.append, stop=lambda told=told: told and told[-1].done > 0
        )
        assert found.interrupted
        assert 0 < len(found.folds) < 4


def test_a_request_is_remembered() -> None:
    event = threading.Event()
    stop = Stop(event)
    assert not stop()
    event.set()
    assert stop()
    event.clear()
    assert stop()
    assert stop.is_over()


def test_a_deadline_is_no_request() -> None:
    late = Stop(deadline=-math.inf)
    assert late.is_over()
    assert not late()


def test_counting_tells_each_formula() -> None:
    told: list[Progress] = []
    lapis.count(MODEL, WORLDS, progress=told.append)
    assert [(event.phase, event.done, event.total) for event in told] == [
        ("counting", number, 6) for number in range(1, 7)
    ]
    assert [event.text for event in told] == 2 * [rule.text for rule in MODEL.rules]


def test_a_line_of_progress_fits_a_terminal_and_is_no_markup() -> None:
    event = Progress("grounding", 3, 12, 1.5, {"gap": 0.25}, text="[/b] c1cc[nH]c1\n" + 50 * "x")
    line = describe_event(event)
    assert line.startswith("grounding 3/12, gap 0.25: [/b] c1cc[nH]c1 xxx")
    assert line.endswith("…")
    assert len(line) < 60


def test_a_line_of_progress_says_first_how_long_it_takes() -> None:
    """On eighty columns the bar and the clock are seen whole, and the text is cut at its end."""
    figures = {SECONDS_LEFT: 12345.6, "rhat": 1.0123456, "stderr": 0.012345}
    room = 80 - BAR_WIDTH - CLOCK_WIDTH
    line = shorten_text(describe_event(Progress("sampling", 4096, 400_000, 3.0, figures)), room)
    assert line.startswith("sampling 4,096/400,000, about 12,346 s left")
    assert (len(line), line[-1]) == (room, "…")


def test_no_time_is_told_that_is_over_or_not_known() -> None:
    for left in (0.0, float("inf")):
        assert str(Progress("sampling", 1, None, 0.0, {SECONDS_LEFT: left})) == "sampling 1"

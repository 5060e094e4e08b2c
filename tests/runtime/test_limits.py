"""The limits of a call end work that does not check them, and nothing else."""

from __future__ import annotations

import importlib
import math
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from lapis.errors import TooLarge
from lapis.runtime import limits, progress
from lapis.runtime.limits import (
    LimitExceeded,
    interruption_reason,
    is_time_limit,
    limit_stage,
    limit_work,
    limits_suspended,
    resident_bytes,
)
from lapis.runtime.progress import (
    STOPPED,
    Stop,
    call_deadline,
    check_time,
    deadline_in,
    limit_within_call,
    seconds_left,
    work_clock,
)


def spin(seconds: float = 30.0) -> None:
    """Work that checks nothing."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(100))


def test_work_without_checks_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.0)
    message = "did not end within the time limit"
    with pytest.raises(TooLarge, match=message) as found, limit_work(0.05):
        spin()
    assert found.value.code == STOPPED


def test_a_stage_is_ended_and_the_call_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.0)
    with limit_work(60.0):
        deadline = call_deadline.get()
        with pytest.raises(LimitExceeded) as found, limit_stage(work_clock() + 0.05):
            spin()
        assert is_time_limit(found.value)
        with pytest.raises(TooLarge) as late, limit_stage(-math.inf):
            check_time("a stage")
        assert is_time_limit(late.value)
        check_time("the call")
        assert call_deadline.get() == deadline
    assert not is_time_limit(LimitExceeded("memory limit"))
    assert not is_time_limit(KeyboardInterrupt())


def test_a_stage_that_was_cut_is_recorded_in_those_around_it() -> None:
    whole = Stop()
    outer = whole.within(1e9)
    assert not outer.is_over()
    inner = outer.within(-1.0)
    assert not outer.is_cut
    assert not whole.is_cut
    assert inner.is_over()
    assert outer.is_cut
    assert whole.is_cut
    assert not outer.is_over()
    assert not whole.is_over()
    asked = Stop(lambda: True)
    assert asked.within(1e9).is_over()
    assert not asked.is_cut


def test_waiting_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.0)
    with pytest.raises(TooLarge), limit_work(0.05):
        threading.Event().wait(30)


def test_an_error_that_is_lost_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(limits, "SECONDS_BETWEEN_ERRORS", 0.05)
    lost = []

    def lose_an_error() -> None:
        try:
            spin()
        except KeyboardInterrupt:
            lost.append(True)
        spin()

    with pytest.raises(TooLarge), limit_work(0.05):
        lose_an_error()
    assert lost == [True]


def test_memory_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MIN_GROWTH", 1 << 24)
    numbers: list[int] = []

    def keep_arrays() -> None:
        """The arrays are free again when the call ends."""
        kept = []
        for number in range(1000):
            numbers.append(number)
            kept.append(np.ones(1 << 20))
            spin(0.01)

    message = r"more memory than the limit of 1\.0 MB"
    with pytest.raises(TooLarge, match=message) as found, limit_work(max_memory=1_000_000):
        keep_arrays()
    assert found.value.code == "memory"
    assert len(numbers) < 100
    assert resident_bytes() > 0


def test_limits_within_limits_end_with_the_outer_ones() -> None:
    with limit_work(100):
        outer = call_deadline.get()
        with limit_work(1000):
            assert call_deadline.get() == outer
        with limit_work(10):
            assert call_deadline.get() < outer
            assert 9 < seconds_left() <= 10
            assert Stop().deadline == call_deadline.get() == deadline_in(50)
        assert call_deadline.get() == outer
    assert call_deadline.get() == math.inf
    check_time("anything")


def test_code_that_catches_errors_does_not_catch_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that collects the errors of statements must not take a limit for one of them."""
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.0)

    def collect_errors() -> None:
        while True:
            try:
                spin(0.001)
            except Exception:
                pytest.fail("the limit was taken for an error")

    with pytest.raises(TooLarge), limit_work(0.05):
        collect_errors()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemError, RuntimeError])
def test_what_libraries_raise_instead_becomes_the_limit(
    kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.0)

    def call_library() -> None:
        try:
            spin()
        except LimitExceeded:
            raise kind from None

    with pytest.raises(TooLarge), limit_work(0.05):
        call_library()
    with pytest.raises(kind), limit_work(100):
        raise kind


def test_partial_results_survive_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.0)
    with limit_work(0.05):
        try:
            spin()
        except KeyboardInterrupt as interrupt:
            reason = interruption_reason(interrupt, "Ctrl-C")
    assert reason == "time limit"
    assert interruption_reason(KeyboardInterrupt(), "Ctrl-C") == "Ctrl-C"


def test_stages_check_the_deadline_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SMALL_WORK", 0.0)
    with limit_work(1e-9):
        while seconds_left() > 0:
            pass
        with pytest.raises(TooLarge, match=r"^grounding did not end within the time limit"):
            check_time("grounding")
        assert Stop().is_over()
        assert Stop(deadline=work_clock() + 100).is_over()


def test_nothing_is_left_of_the_limits() -> None:
    before, threads = signal.getsignal(limits.SIGNAL), threading.active_count()
    with limit_work(5):
        pass
    assert signal.getsignal(limits.SIGNAL) is before
    assert threading.active_count() == threads
    assert limits.LimitWatch.active is None


def test_a_handler_of_the_user_still_gets_its_signal() -> None:
    received = []
    before = signal.signal(limits.SIGNAL, lambda *_: received.append(True))
    try:
        with limit_work(5):
            signal.raise_signal(limits.SIGNAL)
    finally:
        signal.signal(limits.SIGNAL, before)
    assert received == [True]


def test_writing_a_result_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.0)
    with limit_work(0.01), limits_suspended():
        spin(0.2)


def test_loading_a_module_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.0)
    slow = "import time\nuntil = time.monotonic() + 0.3\nwhile time.monotonic() < until: pass\n"
    (tmp_path / "slow_to_load.py").write_text(f"{slow}loaded = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def load_and_spin() -> None:
        importlib.import_module("slow_to_load")
        spin()

    with pytest.raises(TooLarge), limit_work(0.05):
        load_and_spin()
    assert sys.modules["slow_to_load"].loaded


def test_a_stage_has_what_is_left_of_the_call() -> None:
    assert limit_within_call(None) is None
    assert limit_within_call(3.0) == 3.0
    with limit_work(10):
        left = limit_within_call(None)
        assert left is not None
        assert 9 < left <= 10
        assert limit_within_call(3.0) == 3.0
        assert limit_within_call(50.0) <= 10  # type: ignore[operator]


def test_another_thread_has_the_checks_alone() -> None:
    found: list[TooLarge] = []

    def work() -> None:
        try:
            with limit_work(1e-9):
                while True:
                    check_time("counting")
        except TooLarge as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [error.code for error in found] == [STOPPED]

"""The tape of a search: answers to its costly questions, in the order in which they were asked.

A learner is a function of the data, its options, its seed, and the answers to a few questions that
take nearly all of the time: how clauses score, what a clause adds to a model. A checkpoint is the
tape of these answers. A learner that is resumed starts again from nothing and hears the same
answers, until the tape ends and it goes on by itself; no learner needs a state that can be saved,
and none can forget a part of it. Once a stop is wanted, questions are asked out of turn (about the
paths so far, the clauses so far), and no more is recorded: a tape is always the beginning of the
run that never stopped. Each answer carries a checksum of its question.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lapis.data.whole_path import require_writable
from lapis.optimisation.checkpoint import (
    CHECKPOINT_SECONDS,
    foreign,
    read_archive,
    write_archive,
)
from lapis.progress import Stop
from lapis.structure.training_data import TrainingData

FORMAT = "lapis rules 1"


class Tape:
    """Answers, each a list of numbers; those of an earlier run are heard before new ones."""

    def __init__(self, path: Path | None, fingerprint: str, stop: Stop) -> None:
        self.path, self.fingerprint, self.stop = path, fingerprint, stop
        self.questions: list[int] = []  # checksums
        self.answers: list[np.ndarray] = []  # float64 each
        self.heard = 0  # answers of the earlier run that were used
        self.saved_at = time.monotonic()
        if path is not None:
            require_writable(path)
            read_archive(path, FORMAT, self._restore)
        self.recorded = len(self.answers)  # by the earlier run

    def ask(self, question: object, answer: Callable[[], Sequence[float]]) -> list[float]:
        """The answer on the tape; where it ends, a new one."""
        known = self.hear(question)
        return self.record(question, answer()) if known is None else known

    def hear(self, question: object) -> list[float] | None:
        """The next answer of the earlier run; None where there is none, or a stop is wanted."""
        if self.heard == self.recorded or self.stop.is_over():
            return None
        if self.questions[self.heard] != checksum(question):
            assert self.path is not None
            raise foreign(self.path, "another search, or of another version")
        self.heard += 1
        return self.answers[self.heard - 1].tolist()

    def record(self, question: object, answer: Sequence[float]) -> list[float]:
        if self.path is not None and not self.stop.is_over():
            self.questions.append(checksum(question))
            self.answers.append(np.array(answer, np.float64))
            if time.monotonic() - self.saved_at > CHECKPOINT_SECONDS:
                self.save()
        return list(answer)

    def save(self) -> None:
        """Write the checkpoint, if one is wanted."""
        if self.path is None:
            return
        header = {"format": FORMAT, "fingerprint": self.fingerprint}
        arrays = {
            "questions": np.array(self.questions, np.int64),
            "lengths": np.array([len(answer) for answer in self.answers], np.int64),
            "answers": np.concatenate([*self.answers, np.zeros(0)]),
        }
        write_archive(self.path, header, arrays)
        self.saved_at = time.monotonic()

    def _restore(self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        if header["fingerprint"] != self.fingerprint:
            assert self.path is not None
            raise foreign(self.path, "other predicates, data or options")
        ends = np.cumsum(arrays["lengths"])
        if len(ends) != len(arrays["questions"]) or ends[-1:].sum() != len(arrays["answers"]):
            raise ValueError("lengths")
        self.questions = arrays["questions"].tolist()
        self.answers = np.split(arrays["answers"], ends[:-1]) if len(ends) else []


def checksum(question: object) -> int:
    return zlib.crc32(repr(question).encode())


def fingerprint(data: TrainingData, method: str, options: Mapping[str, object]) -> str:
    """Names what is learned from what, so that another search's answers are not heard."""
    asked = method, sorted(options.items()), data.targets, data.groups
    found = hashlib.sha256(repr(asked).encode())
    for name, offset in data.offset.items():
        found.update(f"{name} {offset.tolist()}".encode())
    for name, predicate in data.predicates.items():
        found.update(f"{name} {predicate.types}".encode())
        found.update(np.ascontiguousarray(data.tuples[name]).tobytes())
        if not predicate.arity:
            found.update(data.holds(name).tobytes())
    return found.hexdigest()[:16]

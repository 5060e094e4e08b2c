"""Learners that other processes can import. What they learn can be said in a line."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import replace

from lapis.errors import LapisError, TooLarge
from lapis.evaluation.cross_validation import FoldTask, LearnerOutput

STOPPED_FOLD = 2


def learn_share(task: FoldTask) -> LearnerOutput:
    """Every soft weight becomes the log-odds of an atom of the training data being a smoker."""
    stated = [name for world in task.train for name, _, _ in world.facts()]
    smokers, people = stated.count("Smokes"), stated.count("Person")
    weight = math.log((smokers + 0.5) / (people - smokers + 0.5))
    rules = tuple(replace(rule, weight=weight) for rule in task.model.rules)
    return LearnerOutput(task.model.with_rules(rules), {"weight": weight, "seed": task.seed})


def learn_until_stopped(task: FoldTask) -> LearnerOutput:
    """The user presses Ctrl-C in a fold, and the learner says so."""
    return learn_share(task)._replace(interrupted=task.number == STOPPED_FOLD)


def press_control_c(task: FoldTask) -> LearnerOutput:
    if task.number == STOPPED_FOLD:
        raise KeyboardInterrupt
    return learn_share(task)


def never_end(task: FoldTask) -> LearnerOutput:
    """All but the first fold hang, deaf to Ctrl-C as every process of a fold is."""
    if task.number > 1:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    return learn_share(task)


def refuse(task: FoldTask) -> LearnerOutput:
    if task.number == STOPPED_FOLD:
        raise TooLarge(
            "too much", code="too-large", hint="learn less", span=task.model.rules[0].span
        )
    return learn_share(task)


def refuse_twice(task: FoldTask) -> LearnerOutput:
    raise LapisError(f"bad {task.number}", code="bad")


def blunder(task: FoldTask) -> LearnerOutput:
    raise ZeroDivisionError("a bug")


def die(task: FoldTask) -> LearnerOutput:
    os._exit(1)

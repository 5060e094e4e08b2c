"""Learners that other processes can import. What they learn can be said in a line."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import replace

from lapis.errors import LapisError, TooLarge
from lapis.evaluation.cross_validation import FoldTask, Learned

STOPPED_FOLD = 2


def learn_share(task: FoldTask) -> Learned:
    """Every soft weight becomes the log-odds of an atom of the training data being a smoker."""
    stated = [name for world in task.train for name, _, _ in world.facts()]
    smokers, people = stated.count("Smokes"), stated.count("Person")
    weight = math.log((smokers + 0.5) / (people - smokers + 0.5))
    rules = tuple(replace(rule, weight=weight) for rule in task.model.rules)
    return Learned(task.model.with_rules(rules), {"weight": weight, "seed": task.seed})


def learn_until_stopped(task: FoldTask) -> Learned:
    """The user presses Ctrl-C in a fold, and the learner says so."""
    return learn_share(task)._replace(interrupted=task.number == STOPPED_FOLD)


def press_control_c(task: FoldTask) -> Learned:
    if task.number == STOPPED_FOLD:
        raise KeyboardInterrupt
    return learn_share(task)


def never_end(task: FoldTask) -> Learned:
    """All but the first fold hang, deaf to Ctrl-C as every process of a fold is."""
    if task.number > 1:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    return learn_share(task)


def refuse(task: FoldTask) -> Learned:
    if task.number == STOPPED_FOLD:
        raise TooLarge(
            "too much", code="too-large", hint="learn less", span=task.model.rules[0].span
        )
    return learn_share(task)


def refuse_twice(task: FoldTask) -> Learned:
    raise LapisError(f"bad {task.number}", code="bad")


def blunder(task: FoldTask) -> Learned:
    raise ZeroDivisionError("a bug")


def die(task: FoldTask) -> Learned:
    os._exit(1)

"""Predictions averaged over the posterior of the weights.

    P(atom | evidence, data) = ∫ P(atom | evidence, w) Pr(w | data) dw ≈ mean over draws of w

Each world is grounded once; a draw changes the weights of its network alone. The standard error is
s / √n, s the standard deviation of the atom's probability over the draws and n their number, or
the effective number of the posterior's draws if that is smaller. Where a draw's own answer is
sampled, each has another seed, and s contains that noise too. An average over draws has no
partition function, and is never exact.

A weight of a + rule at a constant that was not in the training data is 0 in every draw, as it is in
the learned model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.inference.marginals import InferenceOptions, Marginals
from lapis.inference.solve import infer_network, infer_problem
from lapis.inference.worlds import answer_world, merge_answers, refuse_formulas, weight_keys
from lapis.learning.weight_posterior import WeightPosterior
from lapis.network.network import Network
from lapis.problem.task import Task, World
from lapis.registry.method_table import find_method
from lapis.registry.options import InferOptions
from lapis.results.answer import Answer
from lapis.runtime.progress import (
    STOPPED,
    Progress,
    Stop,
    report_progress,
    stop_on_interrupt,
    work_clock,
)

AVERAGE = "posterior"  # the method's name in answers
# InferenceOptions of `infer` that an average does not have, with the values that leave them out.
UNREAD: Mapping[str, object] = {
    "relax": False, "bounds": False, "engine": None, "tables": None, "output": None, "jobs": None,
}  # fmt: skip


def refuse_unread(options: InferOptions) -> None:
    """Refuse options that an average over a posterior does not read."""
    for name, absent in UNREAD.items():
        if getattr(options, name) != absent:
            raise LapisError(
                f"an average over a posterior does not read {name}",
                code="unread-option",
                hint=f"leave out {name}, or infer with the weights of the model alone",
            )


def infer_average(
    posterior: WeightPosterior, task: Task, method: str, options: InferenceOptions, num_draws: int
) -> Answer:
    """Marginals of what is asked, averaged over draws of the weights.

    Parameters
    ----------
    posterior
        The draws; their model is that of the task.
    task
        The worlds and what is asked of them.
    method, options
        How the marginals of one draw are found. The time limit is for all draws together.
    num_draws
        Draws to average over, at equal distances in each chain.

    Returns
    -------
    Answer
        By the method "posterior", with standard errors over the draws.

    Raises
    ------
    LapisError
        If time or patience ended before two draws were done, or a draw cannot be answered.
    """
    draws = posterior.thinned(num_draws)
    stop = Stop(options.stop)
    if options.time_limit is not None:
        stop = stop.within(options.time_limit)
    size = min(posterior.least_size, float(len(draws)))
    number = {key: column for column, key in enumerate(posterior.keys)}
    parts = []
    with stop_on_interrupt(stop):
        for done, world in enumerate(task.worlds):
            columns = np.array([number.get(key, -1) for key in weight_keys(task, world)], np.int64)
            found = Average(world, method, replace(options, stop=stop, progress=None))
            share = (done, len(task.worlds))
            parts.append(found.over(draws, columns, options, share).answer(size, posterior))
    return merge_answers(task, parts)


class Average:
    """Sums over the draws in one world."""

    def __init__(self, world: World, method: str, options: InferenceOptions) -> None:
        if method == "count-gibbs":
            refuse_formulas(world)
        self.world, self.method, self.options = world, method, options
        self.network: Network | None = None
        if find_method("infer", method).takes != "problem":
            from lapis.grounding.bottom_up import ground

            self.network = ground(world.problem, max_memory=options.max_memory)
        self.num_done = 0
        self.is_cut = False
        self.methods: dict[str, None] = {}
        self.all_exact = True
        self.last: Answer | None = None
        self.mean, self.squares = np.zeros(0), np.zeros(0)  # float64[num_atoms]
        self.counts = np.zeros(0)  # float64[num_weights written]

    def over(
        self,
        draws: np.ndarray,
        columns: np.ndarray,
        options: InferenceOptions,
        share: tuple[int, int],
    ) -> Average:
        """Take draws float64[num_draws, num_weights of the posterior] until the time is up.

        `columns`, int64[num_weights written], are their columns in a draw; −1: the model's weight.
        """
        stop, began = self.options.stop, work_clock()
        assert stop is not None
        for number, draw in enumerate(draws):
            try:
                self.add(self.answer_at(draw, columns, number, len(draws) - number))
            except TooLarge as error:
                if error.code != STOPPED:
                    raise
                self.is_cut = True
            if self.is_cut or (stop.is_over() and number + 1 < len(draws)):
                self.is_cut = True
                break
            done, total = share[0] * len(draws) + number + 1, share[1] * len(draws)
            report_progress(
                options.progress, Progress("averaging", done, total, work_clock() - began)
            )
        return self

    def answer_at(self, draw: np.ndarray, columns: np.ndarray, number: int, left: int) -> Answer:
        """The answer at one draw of the weights; `left` draws share what is left of the time."""
        problem, options = self.world.problem, self.options
        weights = problem.weight_table.value.copy()
        own = weights[self.world.weight_ids]
        weights[self.world.weight_ids] = np.where(columns >= 0, draw[columns], own)
        options = replace(options, seed=options.seed + number)
        if options.time_limit is not None and options.stop is not None:
            seconds = max(options.stop.deadline - work_clock(), 1e-3) / left
            options = replace(options, time_limit=seconds)
        found: Marginals
        if self.network is None:
            network, found = infer_problem(problem.with_weights(weights), self.method, options)
        else:
            network = self.network.with_weights(weights)
            found = infer_network(network, self.method, options)
        return answer_world(self.world, network, found)

    def add(self, answer: Answer) -> None:
        """Welford's updates of mean and sum of squares."""
        if self.last is None:
            self.mean, self.squares = np.zeros((2, len(answer)))
            self.counts = np.zeros(len(answer.expected_counts))
        self.last, self.num_done = answer, self.num_done + 1
        self.methods[answer.method] = None
        self.all_exact &= answer.exact
        before = answer.probability - self.mean
        self.mean = self.mean + before / self.num_done
        self.squares = self.squares + before * (answer.probability - self.mean)
        self.counts = self.counts + (answer.expected_counts - self.counts) / self.num_done

    def answer(self, size: float, posterior: WeightPosterior) -> Answer:
        """The average; `size` is the effective number of draws if all were taken."""
        if self.last is None or self.num_done < 2:
            raise TooLarge(
                f"averaging ended after {self.num_done} of the draws: two are the fewest",
                code=STOPPED,
                hint="give it more time",
            )
        deviation = np.sqrt(self.squares / (self.num_done - 1))
        notes: dict[str, Any] = {
            "draws": self.num_done,
            "draw_methods": list(self.methods),
            "draws_exact": self.all_exact,
            "posterior_method": posterior.method,
            "interrupted": self.is_cut,
            "caveats": list(posterior.caveats),
        }
        return Answer(
            (AVERAGE,), False, None, self.last.asked, self.mean,
            deviation / np.sqrt(min(size, self.num_done)), self.counts, diagnostics=notes,
        )  # fmt: skip

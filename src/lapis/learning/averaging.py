"""Predictions averaged over the posterior of the weights.

    P(atom | evidence, data) = ∫ P(atom | evidence, w) Pr(w | data) dw ≈ mean over draws of w

Each world is grounded once; a draw changes only the weights of its network. The standard error is
s / √n, with s the standard deviation of the atom's probability over the draws and n their number,
or the effective number of the posterior's draws if that is smaller. If the answer at a draw is
sampled, each draw has another seed, and s contains that noise too. An average over draws has no
partition function and is never exact.

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
# Options of `infer` that an average does not read, with their defaults.
UNREAD: Mapping[str, object] = {
    "relax": False, "bounds": False, "engine": None, "tables": None, "output": None, "jobs": None,
}  # fmt: skip


def check_average_options(options: InferOptions) -> None:
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
    """Infer the marginals of a task at each draw of the weights, and average them.

    `num_draws` draws are taken at equal distances in each chain. The time limit is for all draws.
    Raises LapisError if fewer than two draws were answered.
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
            average = WorldAverage(world, method, replace(options, stop=stop, progress=None))
            average.add_draws(draws, columns, options, (done, len(task.worlds)))
            parts.append(average.build_answer(size, posterior))
    return merge_answers(task, parts)


class WorldAverage:
    """Running means over the draws in one world."""

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

    def add_draws(
        self,
        draws: np.ndarray,
        columns: np.ndarray,
        options: InferenceOptions,
        world: tuple[int, int],
    ) -> None:
        """Add draws float64[num_draws, num_weights of the posterior] until the time is up.

        `columns`, int64[num_weights written], are the columns of the model's weights in a draw; −1
        for weights that keep the model's value. `world` is its number and the number of worlds.
        """
        stop, began = self.options.stop, work_clock()
        assert stop is not None
        for number, draw in enumerate(draws):
            try:
                self.add_answer(self.infer_at(draw, columns, number, len(draws) - number))
            except TooLarge as error:
                if error.code != STOPPED:
                    raise
                self.is_cut = True
            if self.is_cut or (stop.is_over() and number + 1 < len(draws)):
                self.is_cut = True
                break
            done, total = world[0] * len(draws) + number + 1, world[1] * len(draws)
            report_progress(
                options.progress, Progress("averaging", done, total, work_clock() - began)
            )

    def infer_at(self, draw: np.ndarray, columns: np.ndarray, number: int, left: int) -> Answer:
        """Infer at one draw of the weights; the remaining time is divided by `left` draws."""
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

    def add_answer(self, answer: Answer) -> None:
        """Update mean and sum of squares (Welford 1962)."""
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

    def build_answer(self, size: float, posterior: WeightPosterior) -> Answer:
        """Build the averaged answer; `size` is the effective number of all draws."""
        if self.last is None or self.num_done < 2:
            raise TooLarge(
                f"averaging ended after {self.num_done} draws; at least two are needed",
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

"""Which sampler fits a network is measured: each walks a little, and the cheapest error goes on.

All candidates start their chains at the same worlds, far apart. After a few samples the means of
the chains are as far from each other as the sampler is slow to forget a start and to move. With B_a
the variance of the means of chains for atom a, and a cost of `work` a sample,

    cost of an error = work · (Σ_a B_a²)^½

is what a sampler is judged by: errors fall as 1/√samples, so samples needed are as B, and the
root of squares looks at the slow atoms more than at the many quick ones. A sampler whose chains sit
in different modes has means as far apart as can be, and loses to one that crosses; one that lost
a mode is not betrayed by its pilot, and has to pass all that any run has to: pilots decide who goes
on, never that it is enough.

The work is counted in visits of literals, not by the clock: the same seed gives the same choice
under any load. The pilot of the winner is the beginning of its warm-up.

What did not work: effective samples in place of B, since samplers whose estimates vary little were
at a disadvantage. And means of the second half alone: Gibbs chains that had needed all of the
first to leave a mode looked best, and went on for the thousands of samples that a lost mode takes.

Nor did starts drawn from the beliefs of belief propagation. Friends and smokers with 2, 5 and 10
friends, 1,000 and 10,000 people, two seeds, cluster moves and Gibbs, to an error of 0.01: warm-up
was the shortest there is (128 samples a chain) from far-apart worlds too, and all rows took 32,740
samples together, 30,752 with two of the four chains from beliefs, 29,176 with all of them. That is
less than propagation costs, and where there are several modes it believes in one: chains that
begin there agree on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from lapis.inference.sampling.chains import Run

MIN_SAMPLES, MAX_SAMPLES = 16, 128  # a chain
ROUNDING = 1e-12  # of a variance
PILOT_LITERALS = 4_000_000  # visited by a chain, within these bounds


def choose_by_pilots(first: Run[Any, Any], rivals: Iterable[Run[Any, Any]]) -> Run[Any, Any]:
    """The run to go on with; only the best so far is kept in memory."""
    best, least = first, cost_of_error(first)
    costs = {first.sampler.name: least}
    for rival in rivals:
        if best.is_late() or best.interrupted:
            break
        if rival.plan.ergodic is None:
            continue  # its chains may agree on an island
        costs[rival.sampler.name] = cost = cost_of_error(rival)
        if cost < least:
            best, least = rival, cost
    best.pilots = {name: cost / least for name, cost in costs.items()}
    best.check()  # tells how long it may take
    return best


def cost_of_error(run: Run[Any, Any]) -> float:
    """work · (Σ_a B_a²)^½ after a pilot."""
    within = PILOT_LITERALS // max(1, len(run.network.literal))
    run.phase = "pilot"
    run.advance(int(np.clip(within, MIN_SAMPLES, MAX_SAMPLES)))
    run.phase = "warm-up"
    size = run.num_samples
    means = np.array([t.atoms.batch_sum.sum(axis=0) / size for t in run.tallies])
    spread = means.var(axis=0, ddof=1) if len(means) > 1 else np.zeros(means.shape[1])
    error = float(np.sqrt((spread**2).sum())) + ROUNDING
    return max(1.0, run.sampler.work(run.plan, run.states[0])) * error

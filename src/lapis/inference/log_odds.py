"""Log-odds of atoms: what logarithms of probabilities are taken from, never from 1 − p.

    log P(a) = −log(1 + exp(−x)),   log P(¬a) = −log(1 + exp(x)),   x = log P(a) − log P(¬a)

A probability in float64 cannot tell 1 − 1e-17 from 1; its log-odds are as exact there as
elsewhere. They are infinite only where the hard formulas decide.
"""

from __future__ import annotations

import numpy as np

ROUNDED = 2.0**-53  # of a probability that is nearer to 0 or 1 nothing is known by 1 − p


def state_log_odds(log_probability: np.ndarray, start: np.ndarray) -> np.ndarray:
    """float64[num_states]: log p_k − log Σ_{j ≠ k} p_j among the states of each variable.

    `start`, int64[num_variables + 1], says where the states of a variable begin; none is empty.

    >>> state_log_odds(np.array([-800.0, 0.0]), np.array([0, 2])).tolist()
    [-800.0, 800.0]
    """
    first, size = start[:-1], np.diff(start)
    if not len(size):
        return np.empty(0)
    peak = np.repeat(np.maximum.reduceat(log_probability, first), size)
    order = np.where(log_probability == peak, np.arange(len(peak)), len(peak))
    top = np.minimum.reduceat(order, first)
    rest = log_probability.copy()
    rest[top] = -np.inf
    second = np.maximum.reduceat(rest, first)
    scaled = np.exp(rest - np.repeat(np.where(second > -np.inf, second, 0.0), size))
    with np.errstate(divide="ignore"):
        others = second + np.log(np.maximum(np.add.reduceat(scaled, first), 1.0))
        # Only the likeliest state can have more than one half, where 1 − p would cancel.
        odds: np.ndarray = log_probability - np.log1p(-np.exp(np.minimum(rest, np.log(0.5))))
    odds[top] = log_probability[top] - others
    return odds


def sampled_log_odds(probability: np.ndarray, num_samples: np.ndarray | int) -> np.ndarray:
    """Log-odds of estimates, float64[num_atoms], from so many samples.

    An atom true in none (or in all) of N sampled worlds has not been shown never (always) to be.
    Where an estimate is 0 or 1 it is taken as (k + ½)/(N + 1) with k = 0 or N, the small prior of
    Lowd's thesis (4.3.2): its log-odds are ±log(2N + 1), no more than N samples can say.
    """
    bound = np.log(2.0 * num_samples + 1.0)
    with np.errstate(divide="ignore"):
        odds = np.log(probability) - np.log1p(-probability)
    settled = np.minimum(probability, 1.0 - probability) < ROUNDED
    return np.where(settled, np.where(probability > 0.5, bound, -bound), odds)

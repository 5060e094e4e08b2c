"""Noise that a site keeps for a while without anything being kept.

A voted perceptron expects the counts of the most likely world. That world calls every atom that is
true in 30 % of the cases false, whatever the weights, until they call all of them true: weights of
such rules circle around zero, their average is an accident, and no length of it predicts better
than frequencies do (seen on friends and smokers: CLL −.660, frequencies −.562). With noise in the
scores, logistic for an atom and Gumbel for each value of a block, the best world of the noisy
scores is a draw from the model wherever atoms are independent, and near one where they are not
(perturb and MAP: Papandreou and Yuille 2011; Hazan and Jaakkola 2012). Weights have a scale then,
that of the noise, and frequencies are learned as they are.

The noise of a site is a hash of its number and of a key that a round of the search draws
(splitmix64: Steele, Lea and Flood 2014), so that twenty million sites take no memory.
"""

from __future__ import annotations

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def hashed_uniform(key: int | np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """float64[n] in (0, 1), the same for the same key, one or uint64[n], and number, int64[n].

    >>> one, two = hashed_uniform(1, np.arange(100_000)), hashed_uniform(2, np.arange(100_000))
    >>> bool(abs(one.mean() - 0.5) < 0.004), bool(abs(np.corrcoef(one, two)[0, 1]) < 0.02)
    (True, True)
    """
    with np.errstate(over="ignore"):
        word = np.asarray(key, np.uint64) + (numbers.astype(np.uint64) + np.uint64(1)) * GOLDEN
        for shift, mixer in zip((30, 27), MIXERS, strict=True):
            word = (word ^ (word >> np.uint64(shift))) * mixer
    word ^= word >> np.uint64(31)
    return ((word >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53


def logistic(uniform: np.ndarray) -> np.ndarray:
    """P(ε > −s) = σ(s)."""
    noise: np.ndarray = np.log(uniform) - np.log1p(-uniform)
    return noise


def gumbel(uniform: np.ndarray) -> np.ndarray:
    """P(v has the largest s_v + ε_v) = exp s_v / Σ exp s."""
    noise: np.ndarray = -np.log(-np.log(uniform))
    return noise

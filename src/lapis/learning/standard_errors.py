"""Standard errors of learned weights from the curvature at them.

Near the maximum the posterior is about Gaussian with covariance C⁻¹, C the curvature (prior
included), so the standard error of weight i is √(C⁻¹)_ii. Where a combination of weights has no
curvature the data does not determine it, and the weights in it get none. Weights that an L1 prior
holds at its corner do not move when the data changes a little: they have no error, and C is the
curvature among the others. For a pseudo-likelihood this treats atoms as independent given the
others; the errors are then a guide, not a promise.

With more than `MAX_FULL` weights that move, or a curvature from a few samples, the diagonal alone
is used: 1/√C_ii, what the error would be if all other weights were known, a lower bound.
"""

from __future__ import annotations

import numpy as np

from lapis.optimisation.objective import Point

MAX_FULL = 400
FLAT = 1e-10  # of the largest curvature, after scaling: no information


def standard_errors(
    point: Point, *, full: bool, held: np.ndarray | None = None
) -> tuple[np.ndarray, str]:
    """float64[num_parameters], NaN where the data says nothing; and "full" or "diagonal".

    `held`, bool[num_parameters], are weights that stay where they are.
    """
    diagonal = point.curvature_diagonal()
    errors = np.full(len(point.weights), np.nan)
    curved = np.flatnonzero(diagonal > 0 if held is None else (diagonal > 0) & ~held)
    if not full or len(curved) > MAX_FULL:
        errors[curved] = 1.0 / np.sqrt(diagonal[curved])
        return errors, "diagonal"
    if len(curved):
        errors[curved] = errors_of(curvature_matrix(point, curved))
    return errors, "full"


def curvature_matrix(point: Point, chosen: np.ndarray | None = None) -> np.ndarray:
    """float64[n, n], the curvature among the chosen parameters int64[n]; all where not given."""
    unit = np.eye(len(point.weights))
    if chosen is None:
        chosen = np.arange(len(unit))
    rows = [point.curvature_product(unit[i])[chosen] for i in chosen.tolist()]
    return np.array(rows).reshape(len(chosen), len(chosen))


def errors_of(curvature: np.ndarray) -> np.ndarray:
    """√ of the diagonal of the inverse, NaN for weights in directions without curvature."""
    scale = np.sqrt(np.diag(curvature))
    correlation = curvature / np.outer(scale, scale)
    values, vectors = np.linalg.eigh((correlation + correlation.T) / 2)
    flat = values <= FLAT * max(1.0, float(values[-1]))
    kept = vectors[:, ~flat]
    variance = (kept**2 / values[~flat]).sum(axis=1)
    variance[(vectors[:, flat] ** 2).sum(axis=1) > FLAT] = np.nan
    return np.sqrt(variance) / scale

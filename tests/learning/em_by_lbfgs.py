"""EM whose M-steps are climbs of L-BFGS, for tests that are about the rounds."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lapis.learning import em
from lapis.learning.objectives.posterior import Posterior
from lapis.optimisation.climb import climb
from lapis.optimisation.lbfgs import Lbfgs
from lapis.optimisation.logbook import Course


def climb_lbfgs(
    posterior: Posterior, start: np.ndarray, tolerance: float, seconds: float | None
) -> Course:
    return climb(
        posterior, Lbfgs(), start, l1=posterior.l1, tolerance=tolerance, time_limit=seconds
    )


fit_em: Any = partial(em.fit_em, maximise=climb_lbfgs)

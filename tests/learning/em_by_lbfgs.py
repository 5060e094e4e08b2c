"""EM with M-steps by L-BFGS, for tests of its rounds."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lapis.learning import em
from lapis.optimisation.history import Trajectory
from lapis.optimisation.lbfgs import Lbfgs
from lapis.optimisation.maximize import maximize
from lapis.optimisation.objective import PenalizedObjective


def maximize_lbfgs(
    posterior: PenalizedObjective, start: np.ndarray, tolerance: float, seconds: float | None
) -> Trajectory:
    return maximize(posterior, Lbfgs(), start, tolerance=tolerance, time_limit=seconds)


fit_em: Any = partial(em.fit_em, maximise=maximize_lbfgs)

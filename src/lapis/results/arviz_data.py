"""Draws handed to ArviZ, an optional package."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from lapis.errors import LapisError


def to_arviz(draws: Mapping[str, np.ndarray]) -> Any:
    """An ArviZ object of draws by name, float[num_chains, num_draws] each."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # that ArviZ 1.0 is coming
            import arviz
    except ImportError:
        raise LapisError(
            "this needs arviz, which is not installed",
            code="missing-package",
            hint="pip install arviz",
        ) from None
    # Called convert_to_datatree from ArviZ 1.0 on.
    old = getattr(arviz, "convert_to_inference_data", None)
    return (old or arviz.convert_to_datatree)(dict(draws))

"""Files of fits: the whole result of learning as JSON, read again by `Fit.load`.

A model file (.mln) keeps weights, and standard errors as comments. The JSON file keeps the model as
text, the constants of `+` variables, and all fields of the fit, so that the fit that is read equals
the fit that was written. Numbers keep all digits; NaN and infinity are null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lapis.data.atomic_write import write_whole
from lapis.data.database import Domain
from lapis.errors import LapisError
from lapis.language.printer import print_model
from lapis.language.resolve import parse_model
from lapis.learning.fit import JSON_FIELDS, Fit, UnboundedWeight
from lapis.learning.parameters import Parameters, number_parameters
from lapis.optimisation.history import CurvePoint

FORMAT = "lapis-fit 1"
PLAIN = tuple(name for name in JSON_FIELDS if name != "gradient_norm")
UNBOUNDED = ("parameter", "formula", "sign", "reason")


def write_fit(fit: Fit, path: str | Path) -> None:
    """Write a fit as JSON; LapisError if it has a posterior, which has a file of its own."""
    if fit.posterior is not None:
        raise LapisError(
            "a fit with a posterior is not written as .json",
            code="fit-file",
            hint="write the posterior (fit.posterior.save), and the model as .mln",
        )
    parameters, errors = fit.parameters, fit.standard_errors
    domains = {d.name: list(d.constants) for own in parameters.domains for d in own}
    content = {
        "format": FORMAT,
        "name": parameters.model.name,
        "model": print_model(parameters.model),
        "domains": domains,
        **{name: getattr(fit, name) for name in PLAIN},
        "gradient_norm": as_number(fit.gradient_norm),
        "weights": fit.weights.tolist(),
        "standard_errors": None if errors is None else [as_number(e) for e in errors.tolist()],
        "curve": [list(map(as_number, point)) for point in fit.curve],
        "seconds": dict(fit.seconds),
        "unbounded": [{name: getattr(u, name) for name in UNBOUNDED} for u in fit.unbounded],
        "warnings": list(fit.warnings),
        "details": dict(fit.details),
        "query": list(fit.query),
        "constants": {name: list(own) for name, own in fit.constants.items()},
    }
    text = json.dumps(content, ensure_ascii=False, default=plain_value, indent=1)
    write_whole(path, f"{text}\n")


def as_number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def plain_value(value: np.ndarray | np.generic) -> object:
    """Convert numbers and arrays of numpy."""
    plain: object = value.tolist()
    return plain


def read_fit(path: str | Path) -> Fit:
    """Read a fit that `write_fit` wrote; LapisError if the file is damaged or another one."""
    place = Path(path)
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError("no such format")
        return build_saved(content)
    except OSError as error:
        raise LapisError(f"{place}: {error.strerror}", code="fit-file") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise LapisError(
            f"{place}: this is no fit that Lapis has written, or it is damaged",
            code="fit-file",
            hint='write it by fit.save("FILE.json"); a model (.mln) is read by lapis.read',
        ) from None


def build_saved(content: Mapping[str, Any]) -> Fit:
    """Build the fit of a file; raise errors of values, keys and types if something does not fit."""
    model = parse_model(content["model"], content["name"])
    domains = {name: Domain(name, tuple(own)) for name, own in content["domains"].items()}
    parameters: Parameters = number_parameters(model, domains)
    weights = np.array(content["weights"], np.float64)
    errors = content["standard_errors"]
    if errors is not None:
        errors = np.array([math.nan if e is None else e for e in errors], np.float64)
    shape = (len(parameters),)
    if weights.shape != shape or (errors is not None and errors.shape != shape):
        raise ValueError("weights of another model")
    norm = content["gradient_norm"]
    return Fit(
        **{name: content[name] for name in PLAIN},
        gradient_norm=math.inf if norm is None else norm,
        parameters=parameters,
        weights=weights,
        standard_errors=errors,
        curve=tuple(CurvePoint(*row) for row in content["curve"]),
        seconds=content["seconds"],
        unbounded=tuple(UnboundedWeight(**each) for each in content["unbounded"]),
        warnings=tuple(content["warnings"]),
        details=content["details"],
        # Files of version 0.1.0 lack the next two.
        query=tuple(content.get("query", ())),
        constants={name: tuple(own) for name, own in content.get("constants", {}).items()},
    )

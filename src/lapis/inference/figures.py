"""The figures of answers about independent parts, several worlds or components, as those of one.

What is said about the whole is what holds for the worst of them: converged if all are, the largest
R-hat, the smallest effective sample size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# How figures become one. Those not named are said of each part only.
TOTAL: Mapping[str, Callable[[list[Any]], Any]] = {
    "converged": all,
    "ergodic": lambda found: None if None in found else all(found),
    "interrupted": any,
    "rhat": max,
    "ess": min,
    "ess_bulk": min,
    "ess_tail": min,
    "warmup_error": max,
    "samples": sum,
    "chains": max,
    "core_atoms": sum,
    "stuck_atoms": sum,
    "sampled_atoms": sum,
    "counted_atoms": sum,
    "averaged_atoms": sum,
    "class_sizes": lambda lists: sorted((n for found in lists for n in found), reverse=True),
    "log_partition_bounds": lambda pairs: [
        total_or_none(side) for side in zip(*pairs, strict=True)
    ],
    "log_partition_stderr": lambda errors: math.hypot(*errors),
    "components": sum,
    "cut_atoms": sum,
    "largest_states": max,
    "width": max,
    "passes": max,
    "residual": max,
    "seconds": sum,
    "seconds_left": sum,
    "bound": sum,
    "gap": sum,
    "cost": sum,
    "cost_bound": sum,
    "draws": min,
    "draws_exact": all,
    "draw_methods": lambda lists: list(dict.fromkeys(name for found in lists for name in found)),
    "posterior_method": lambda names: names[0],
    "caveats": lambda lists: lists[0],
    "relaxed": lambda lists: [formula for found in lists for formula in found],
    "relaxed_groundings": sum,
    "relaxed_fewest": all,
    "relaxed_at_least": sum,
}


def total_figures(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of all parts together, from those that have them."""
    found: dict[str, Any] = {}
    for name, combine in TOTAL.items():
        values = [part[name] for part in parts if name in part]
        if values:
            found[name] = combine(values)
    return found


def joined_methods(methods: Sequence[str], sign: str = "+") -> str:
    """All methods, each once.

    >>> joined_methods(["exact", "exact+gibbs"])
    'exact+gibbs'
    """
    return sign.join(dict.fromkeys(name for method in methods for name in method.split(sign)))


def total_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None

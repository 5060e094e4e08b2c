"""Problem → Network: evidence folded in, clauses as flat arrays with tied weights."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lapis.grounding.bottom_up import ground
    from lapis.grounding.evidence import close_blocks
    from lapis.grounding.lazy import LazyGrounding

# Resolved on first use: grounding brings in numba and an engine.
_HOMES = {
    "LazyGrounding": "lapis.grounding.lazy",
    "close_blocks": "lapis.grounding.evidence",
    "ground": "lapis.grounding.bottom_up",
}

__all__ = ["LazyGrounding", "close_blocks", "ground"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'lapis.grounding' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

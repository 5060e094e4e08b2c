"""Problem → Network: evidence folded in, clauses as flat arrays with tied weights."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lapis.grounding.bottom_up import ground

__all__ = ["ground"]


def __getattr__(name: str) -> object:
    """Resolved on first use: grounding imports numba."""
    if name != "ground":
        raise AttributeError(f"module 'lapis.grounding' has no attribute {name!r}")
    from lapis.grounding.bottom_up import ground

    return ground

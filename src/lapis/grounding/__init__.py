"""Problem → Network: evidence folded in, clauses as flat arrays with tied weights."""

from lapis.grounding.network import AtomTable, Network

__all__ = ["AtomTable", "Network", "close_blocks", "ground"]


def __getattr__(name: str) -> object:
    # Grounding brings in numba and an engine; `import lapis` must not pay for them.
    if name == "ground":
        from lapis.grounding.bottom_up import ground

        return ground
    if name == "close_blocks":
        from lapis.grounding.evidence import close_blocks

        return close_blocks
    raise AttributeError(f"module 'lapis.grounding' has no attribute {name!r}")

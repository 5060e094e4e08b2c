"""Inference by arithmetic circuits, as a method."""

from __future__ import annotations

from lapis.registry.method_table import Method

METHODS = (
    Method(
        "infer", "circuit", "compiled to an arithmetic circuit, or the closest circuit found where "
        "that is too large", "lapis.circuits.infer:by_circuit", "network", "where it compiles",
        ("num_chains",),
    ),
)  # fmt: skip

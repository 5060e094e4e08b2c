"""Methods of counting."""

from __future__ import annotations

from lapis.registry.method_table import Method

RULE_COUNTS = "lapis.counting.rule_counts"
METHODS = (
    Method(
        "counts", "exact", "sums over true tuples", f"{RULE_COUNTS}:count_exactly", "problem",
        "always",
    ),
    Method(
        "counts", "ijgp", "estimates by iterative join-graph propagation",
        f"{RULE_COUNTS}:estimate_by_ijgp", "problem", "where a cluster holds the formula",
        ("ibound", "ijgp_iterations", "ijgp_tolerance", "ijgp_damping", "measure_error",
         "differences"),
    ),
)  # fmt: skip

"""Methods of recursive random fields."""

from __future__ import annotations

from lapis.registry.method_table import Method

SAMPLING = ("precision", "max_samples", "num_chains")
FIELDS = "lapis.fields.inference"
METHODS = (
    Method(
        "field infer", "auto", "enumeration of small fields, Gibbs chains otherwise",
        f"{FIELDS}:by_best_method", "network", "where affordable", SAMPLING,
    ),
    Method(
        "field infer", "enumerate", "all worlds, up to 2^20", f"{FIELDS}:by_enumeration", "network",
        "always",
    ),
    Method(
        "field infer", "gibbs", "Gibbs chains from random worlds, with cached feature sums",
        f"{FIELDS}:by_gibbs", "network", "never", SAMPLING,
    ),
    Method(
        "field infer", "icm-gibbs", "Gibbs chains from local modes",
        f"{FIELDS}:by_gibbs_from_modes", "network", "never", SAMPLING,
    ),
    Method(
        "field map", "auto", "enumeration of small fields, ICM otherwise",
        f"{FIELDS}:map_best", "network", "where affordable",
    ),
    Method(
        "field map", "enumerate", "all worlds, up to 2^20", f"{FIELDS}:map_enumerated", "network",
        "always",
    ),
    Method(
        "field map", "icm", "iterated conditional modes from several worlds", f"{FIELDS}:map_icm",
        "network", "never",
    ),
    Method(
        "field objective", "pseudo", "Σ log P(atom given all others)",
        "lapis.fields.field_objectives:field_pseudo_objective", "network", "always",
    ),
    Method(
        "field objective", "likelihood", "log P(all atoms): by enumeration of small fields, by "
        "contrastive divergence otherwise",
        "lapis.fields.field_objectives:likelihood_objective", "network", "where affordable",
        ("num_samples",),
    ),
    Method(
        "field objective", "conditional", "log P(query atoms given the rest), in the same way",
        "lapis.fields.field_objectives:likelihood_objective", "network", "where affordable",
        ("num_samples",),
    ),
)  # fmt: skip

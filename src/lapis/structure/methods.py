"""Learners of rules."""

from __future__ import annotations

from lapis.registry.method_table import Method

RULES = (
    "max_literals", "max_variables", "penalty", "dangling", "max_clauses", "shrinkage",
    "sample_share",
)  # fmt: skip
METHODS = (
    Method(
        "structure", "lapis", "all connected clauses, scored exactly; repeatedly adds the one with "
        "the largest gain", "lapis.structure.learners.forward:learn_forward", "problem",
        options=(*RULES, "redundant", "final", "conditioning", "joint_targets"),
    ),
    Method(
        "structure", "lhl", "hypergraph lifting: cluster constants, find paths, create clauses",
        "lapis.structure.learners.lhl:learn_lhl", "problem",
        options=(*RULES, "final", "cluster_prior", "min_support", "max_atoms", "max_examples",
                 "first_penalty", "flips", "lifting"),
    ),
    Method(
        "structure", "lift-graph", "clusters of constants alone, as a model with hidden clusters",
        "lapis.structure.learners.lift_graph:learn_clusters", "problem",
        options=("cluster_prior",),
    ),
    Method(
        "structure", "busl", "bottom up: template nodes, Markov blankets, cliques",
        "lapis.structure.learners.busl:learn_busl", "problem",
        options=(*RULES, "final", "significance", "min_weight"),
    ),
    Method(
        "structure", "msl", "beam search: literals added, deleted, flipped",
        "lapis.structure.learners.msl:learn_msl", "problem", options=(*RULES, "beam"),
    ),
)  # fmt: skip

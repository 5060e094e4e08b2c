"""Methods of inference: marginals and most likely worlds."""

from __future__ import annotations

from lapis.registry.method_table import Method

SAMPLING = ("precision", "max_samples", "num_chains")
CHAINS = (*SAMPLING, "bounds")
SOLVE = "lapis.inference.solve"
INFER = (
    Method(
        "infer", "auto", "exact where that is affordable, sampled where it is not",
        exact="where affordable", options=CHAINS,
    ),
    Method(
        "infer", "exact", "closed form for single atoms, junction trees for the rest; refuses "
        "components that are too wide", exact="always",
    ),
    Method(
        "infer", "enumerate", "all joint states of each component, up to 2^20",
        f"{SOLVE}:infer_by_enumeration", "network", "always",
    ),
    Method(
        "infer", "gibbs", "blocked, Rao–Blackwellised Gibbs chains",
        "lapis.inference.sampling.gibbs:Gibbs", "sampler", "never", CHAINS,
    ),
    Method(
        "infer", "mcsat", "slice sampling for hard and nearly hard clauses",
        "lapis.inference.sampling.mcsat:MCSAT", "sampler", "never", CHAINS,
    ),
    Method(
        "infer", "tempering", "parallel tempering, for networks with several modes",
        "lapis.inference.sampling.tempering:Tempering", "sampler", "never",
        CHAINS,
    ),
    Method(
        "infer", "cluster", "cluster moves (Swendsen–Wang), for strongly coupled pairs",
        "lapis.inference.sampling.cluster:ClusterSampler", "sampler", "never",
        CHAINS,
    ),
    Method(
        "infer", "ais", "annealed importance sampling: an estimate of log Z with a standard error",
        f"{SOLVE}:infer_by_annealing", "network", "where affordable",
        ("precision", "max_samples", "bounds"),
    ),
    Method(
        "infer", "bp", "loopy belief propagation, a cheap estimate",
        "lapis.inference.belief_propagation:infer_by_belief_propagation", "network", "on forests",
        ("bounds",),
    ),
    Method(
        "infer", "count-gibbs", "Gibbs from counts, for networks too large to ground; `ibound` "
        "estimates them by IJGP", f"{SOLVE}:infer_by_count_gibbs", "problem", "never",
        (*SAMPLING, "ibound"),
    ),
)  # fmt: skip

SOLVER = "lapis.inference.map.solver"
MAP = (
    Method(
        "map", "auto", "minimum cuts, elimination for small components, search and then proofs for "
        "the rest", f"{SOLVER}:solve_by_components", "network", "if time allows",
    ),
    Method(
        "map", "flow", "minimum cuts and elimination; local search for the open atoms",
        f"{SOLVER}:solve_by_components", "network", "if attractive",
    ),
    Method(
        "map", "ilp", "search, then integer programming on every component",
        f"{SOLVER}:solve_by_components", "network", "if time allows",
    ),
    Method(
        "map", "lazy", "cutting planes over a network that is grounded on demand",
        "lapis.inference.map.lazy:most_likely_world_lazily", "problem", "if time allows",
    ),
    Method(
        "map", "maxwalksat", "local search alone",
        f"{SOLVER}:solve_by_components", "network", "if nothing is violated",
    ),
    Method(
        "map", "icm", "iterated conditional modes: each atom at its best given the others",
        f"{SOLVER}:solve_by_components", "network", "if nothing is violated",
    ),
    Method(
        "map", "exact", "max-product on junction trees; refuses components that are too wide",
        f"{SOLVER}:solve_whole", "network", "always",
    ),
    Method(
        "map", "enumerate", "all joint states of each component, up to 2^20",
        f"{SOLVER}:solve_whole", "network", "always",
    ),
)  # fmt: skip

METHODS = (*INFER, *MAP)

"""Every method by name: what it does, where it is, what it claims, which options it reads.

The command line, the errors, the documentation and the sweeps of the tests read `METHODS`; a new
method is its own file and an entry here. What is called, by task and `takes`:

    infer      network   (network, Options) → Marginals
               problem   (problem, Options) → (Network, Marginals), without grounding
               sampler   () → Sampler, whose chains run on the core that elimination leaves
    map        network   (network, method=, time_limit=, …) → MapResult
               problem   (problem, time_limit=, …) → (Network, MapResult)
    lift       problem   (problem, sizes of types, by classes?) → Lifted
    counts     problem   (problem, **options it reads) → rows
    optimizer            (**fixed, **own options) → Optimizer or Solver
    posterior            (target density, Sampling) → Draws
    field objective      (lessons, num_samples, seed) → Objective
    field infer          (ground field, weights, Options) → Marginals
    field map            (ground field, weights, seed, Stop, progress) → (name, world, score, notes)
    objective, expectation   what `learning/learn.py` builds
    structure            (search, **options it reads) → Selection
"""

from __future__ import annotations

from collections.abc import Mapping

from lapis.errors import LapisError, check_word
from lapis.method import Method, Task
from lapis.option import Option
from lapis.options import COMMANDS

# The option that names the method, and the tasks that a command performs.
OPTION_OF_TASK: Mapping[Task, str] = {
    "infer": "method",
    "map": "method",
    "lift": "method",
    "counts": "counts",
    "objective": "objective",
    "expectation": "expectation",
    "optimizer": "optimizer",
    "posterior": "posterior_method",
    "field infer": "method",
    "field map": "method",
    "field objective": "objective",
    "structure": "method",
}
LEARNING: tuple[Task, ...] = ("objective", "optimizer", "expectation", "counts", "posterior")
TASKS_OF_COMMAND: Mapping[str, tuple[Task, ...]] = {
    "count": ("counts",),
    "infer": ("infer",),
    "map": ("map",),
    "lift": ("lift",),
    "learn": LEARNING,
    "score": ("infer",),
    "field infer": ("field infer",),
    "field map": ("field map",),
    "field learn": ("field objective",),
    "field score": ("field infer",),
    "structure": ("structure",),
}
PARTS_OF_COMMAND: Mapping[str, tuple[str, ...]] = {"evaluate": ("learn", "score")}

SAMPLING = ("precision", "max_samples", "num_chains", "time_limit")
CHAINS = (*SAMPLING, "max_memory", "bounds")
PLAN, SOLVE = "lapis.inference.plan", "lapis.inference.solve"
INFER = (
    Method(
        "infer", "auto", "exact where that is affordable, sampled where it is not",
        f"{PLAN}:plan_network", "network", "where affordable", CHAINS,
    ),
    Method(
        "infer", "exact", "closed form for single atoms, junction trees for the rest; refuses what "
        "is too wide", f"{PLAN}:plan_network", "network", "always",
        ("time_limit", "max_memory"),
    ),
    Method(
        "infer", "enumerate", "all joint states of each component, up to 2^20",
        f"{SOLVE}:by_enumeration", "network", "always", ("time_limit", "max_memory"),
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
        "infer", "cluster", "cluster moves (Swendsen–Wang), for atoms that want to agree",
        "lapis.inference.sampling.couplings.cluster:Cluster", "sampler", "never",
        CHAINS,
    ),
    Method(
        "infer", "ais", "annealed importance sampling: an estimate of log Z with a standard error",
        f"{SOLVE}:by_annealing", "network", "where affordable",
        ("precision", "max_samples", "time_limit", "max_memory", "bounds"),
    ),
    Method(
        "infer", "circuit", "compiled to an arithmetic circuit, or the closest circuit found where "
        "that is too large", "lapis.circuits.infer:by_circuit", "network", "where it compiles",
        ("num_chains",),
    ),
    Method(
        "infer", "bp", "loopy belief propagation, the cheap estimate",
        f"{SOLVE}:by_belief_propagation", "network", "on forests", ("max_memory", "bounds"),
    ),
    Method(
        "infer", "count-gibbs", "Gibbs from counts, for networks too large to ground; `ibound` "
        "estimates them by IJGP", f"{SOLVE}:by_count_gibbs", "problem", "never",
        (*SAMPLING, "ibound"),
    ),
    Method(
        "infer", "lifted", "a first-order circuit, cells or a small ground network, for models and "
        "evidence that leave most constants alike", "lapis.lifted.marginals:by_lifting", "problem",
        "always", ("time_limit",),
    ),
)  # fmt: skip

SOLVER = "lapis.inference.map.solver"
MAP = (
    Method(
        "map", "auto", "minimum cuts, elimination for small components, search and then proofs for "
        "the rest", f"{SOLVER}:solve_by_components", "network", "if time allows", ("time_limit",),
    ),
    Method(
        "map", "flow", "minimum cuts and elimination; local search for atoms that they leave open",
        f"{SOLVER}:solve_by_components", "network", "if attractive", ("time_limit",),
    ),
    Method(
        "map", "ilp", "search, then integer programming on every component",
        f"{SOLVER}:solve_by_components", "network", "if time allows", ("time_limit",),
    ),
    Method(
        "map", "lazy", "cutting planes over a network that is grounded on demand",
        "lapis.inference.map.lazy:most_likely_world_lazily", "problem", "if time allows",
        ("time_limit",),
    ),
    Method(
        "map", "maxwalksat", "local search alone",
        f"{SOLVER}:solve_by_components", "network", "if nothing is violated", ("time_limit",),
    ),
    Method(
        "map", "icm", "greedy ascent from the likeliest literals",
        f"{SOLVER}:solve_by_components", "network", "if nothing is violated", ("time_limit",),
    ),
    Method(
        "map", "exact", "max-product on junction trees; refuses what is too wide",
        f"{SOLVER}:solve_whole", "network", "always", ("time_limit",),
    ),
    Method(
        "map", "enumerate", "all joint states of each component, up to 2^20",
        f"{SOLVER}:solve_whole", "network", "always", ("time_limit",),
    ),
)  # fmt: skip

LIFT = (
    Method(
        "lift", "auto", "a circuit, cells or the ground network, by what the formulas are and what "
        "they cost", "lapis.lifted.choice:lift_by_choice", "problem", "always", ("classes",),
    ),
    Method(
        "lift", "circuit", "a first-order circuit, compiled once for any weights and sizes",
        "lapis.lifted.answer:lift_by_circuit", "problem", "always", ("classes",),
    ),
    Method(
        "lift", "cells", "kinds of elements and pairs, for formulas of two variables; also with "
        "cardinality constraints, linear orders and larger counting quantifiers",
        "lapis.lifted.cells.answer:lift_by_cells", "problem", "always",
    ),
    Method(
        "lift", "ground", "the ground network, for few unknown atoms, whatever the formulas are",
        "lapis.lifted.ground:lift_by_ground", "problem", "always",
    ),
)  # fmt: skip

RULE_COUNTS = "lapis.counting.rule_counts"
COUNTING = (
    Method(
        "counts", "exact", "sums over true tuples", f"{RULE_COUNTS}:exact_counts", "problem",
        "always",
    ),
    Method(
        "counts", "ijgp", "estimates by iterative join-graph propagation",
        f"{RULE_COUNTS}:estimated_counts", "problem", "where a cluster holds the formula",
        ("ibound", "ijgp_iterations", "ijgp_tolerance", "ijgp_damping", "measure_error",
         "differences"),
    ),
)  # fmt: skip

OBJECTIVES = "lapis.learning.objectives"
WALKS = ("num_steps", "num_records", "chain_start")
LIKELIHOOD = ("counts", "expectation", "num_samples", *WALKS)
OBJECTIVE = (
    Method(
        "objective", "pseudo", "Σ log P(atom given all others), by counting: no inference",
        f"{OBJECTIVES}.pseudo:pseudo_objective", "examples", "always", ("counts",),
    ),
    Method(
        "objective", "weighted-pseudo", "the same, each predicate divided by its number of atoms",
        f"{OBJECTIVES}.pseudo:pseudo_objective", "examples", "always", ("counts",),
    ),
    Method(
        "objective", "conditional", "log P(query atoms given the rest)",
        f"{OBJECTIVES}.conditional:conditional_objective", "examples", "where affordable",
        LIKELIHOOD,
    ),
    Method(
        "objective", "likelihood", "log P(all atoms)",
        f"{OBJECTIVES}.conditional:conditional_objective", "examples", "where affordable",
        LIKELIHOOD,
    ),
    Method(
        "objective", "max-margin", "the data's score over that of the best other world, less its "
        "errors; by cutting planes", "lapis.learning.max_margin:fit_max_margin", "examples",
        "if proven", ("margin",),
    ),
)  # fmt: skip

EXPECTATION = (
    Method(
        "expectation", "auto", "exact where that is affordable, sampled where it is not",
        f"{OBJECTIVES}.conditional:conditional_objective", "examples", "where affordable",
        ("num_samples",),
    ),
    Method(
        "expectation", "exact", "by components, with the value of the likelihood",
        f"{OBJECTIVES}.conditional:conditional_objective", "examples", "always",
    ),
    Method(
        "expectation", "lifted", "from a first-order circuit, without grounding; likelihood alone",
        f"{OBJECTIVES}.lifted:lifted_objective", "examples", "always",
    ),
    Method(
        "expectation", "mcsat", "a few samples of persistent MC-SAT chains",
        f"{OBJECTIVES}.conditional:conditional_objective", "examples", "never", ("num_samples",),
    ),
    Method(
        "expectation", "gibbs", "a few samples of persistent Gibbs chains",
        f"{OBJECTIVES}.conditional:conditional_objective", "examples", "never", ("num_samples",),
    ),
    Method(
        "expectation", "map", "the most likely world: voted perceptron",
        f"{OBJECTIVES}.conditional:conditional_objective", "examples", "never",
    ),
    Method(
        "expectation", "count-gibbs", "Gibbs chains from counts, without grounding",
        f"{OBJECTIVES}.count_based:count_objective", "examples", "never", WALKS,
    ),
    Method(
        "expectation", "count-map", "best worlds of scores with noise from counts, not grounded",
        f"{OBJECTIVES}.count_based:count_objective", "examples", "never", WALKS,
    ),
    Method(
        "expectation", "count-maxwalksat", "the best world that MaxWalkSAT finds by counts, not "
        "grounded", f"{OBJECTIVES}.count_based:count_objective", "examples", "never",
        ("num_steps", "chain_start"),
    ),
)  # fmt: skip

RATE = Option("rate", "number", "learning rate; found by itself if absent", low=0, above=True)
DECAY = Option("decay", "number", "the rate at iteration t is divided by 1 + decay t", 0.0, low=0)
FORGET = Option(
    "forget", "number", "weighs iteration t by t^forget in the average; if absent 8 where the rate "
    "is found from samples, else 0", low=0,
)  # fmt: skip
DAMPING = Option(
    "damping", "number", "λ at the start: larger means shorter first steps", 1.0, low=0
)


def ascent(name: str, per_weight: bool, iterations: int, help: str) -> Method:
    return Method(
        "optimizer", name, help, "lapis.optimisation.gradient_ascent:GradientAscent", "objective",
        options=("rate",), own=(RATE, DECAY, FORGET), iterations=iterations,
        fixed={"name": name, "per_weight": per_weight},
    )  # fmt: skip


OPTIMIZER = (
    Method(
        "optimizer", "lbfgs", "L-BFGS-B, to a gradient of 1e-6; needs an exact objective",
        "lapis.optimisation.lbfgs:Lbfgs", "objective", iterations=1000,
        own=(Option("memory", "integer", "steps that the curvature is estimated from", 20,
                    low=1, high=1000),),
    ),
    Method(
        "optimizer", "newton", "Newton's method with the whole curvature; few weights, exact",
        "lapis.optimisation.newton:Newton", "objective", iterations=100,
    ),
    ascent("vp", False, 100, "voted perceptron: counts of the most likely world, averaged weights"),
    ascent("cd", False, 1200, "contrastive divergence: counts of a few samples, averaged weights"),
    ascent("vp-pw", True, 100, "voted perceptron with a rate per weight, η divided by its count"),
    ascent("cd-pw", True, 1200, "contrastive divergence with a rate per weight"),
    Method(
        "optimizer", "dn", "diagonal Newton", "lapis.optimisation.diagonal_newton:DiagonalNewton",
        "objective", own=(DAMPING,), iterations=300,
    ),
    Method(
        "optimizer", "scg", "scaled conjugate gradients",
        "lapis.optimisation.conjugate_gradient:ConjugateGradient", "objective", own=(DAMPING,),
        fixed={"preconditioned": False}, iterations=300,
    ),
    Method(
        "optimizer", "pscg", "scaled conjugate gradients, preconditioned by the counts' variances",
        "lapis.optimisation.conjugate_gradient:ConjugateGradient", "objective", own=(DAMPING,),
        fixed={"preconditioned": True}, iterations=300,
    ),
    Method(
        "optimizer", "adam", "Adam, for noisy gradients", "lapis.optimisation.adaptive:Adam",
        "objective", options=("rate",), iterations=200,
        own=(Option("rate", "number", "step of a weight whose gradient is steady", 0.1, low=0,
                    above=True), DECAY),
    ),
    Method(
        "optimizer", "adagrad", "AdaGrad, for noisy gradients",
        "lapis.optimisation.adaptive:AdaGrad", "objective", options=("rate",), iterations=200,
        own=(Option("rate", "number", "first step of each weight", 0.5, low=0, above=True),),
    ),
    Method(
        "optimizer", "cutting-plane", "planes from most likely worlds; max-margin learning alone",
        "lapis.optimisation.cutting_plane:minimise_by_cuts", "examples", iterations=500,
    ),
)  # fmt: skip

POSTERIOR = (
    Method(
        "posterior", "nuts", "the no-U-turn sampler (nutpie, `lapis-mln[bayes]`)",
        "lapis.learning.bayesian:sample_nuts", "objective", "in the limit",
    ),
    Method(
        "posterior", "laplace", "a Gaussian at the mode, with the curvature there",
        "lapis.learning.bayesian:draw_laplace", "objective", "never",
    ),
)  # fmt: skip

FIELDS = "lapis.fields.infer"
FIELD_METHODS = (
    Method(
        "field infer", "auto", "all worlds where they are few, Gibbs chains elsewhere",
        f"{FIELDS}:by_best_method", "field", "where affordable", SAMPLING,
    ),
    Method(
        "field infer", "enumerate", "all worlds, up to 2^20", f"{FIELDS}:by_enumeration", "field",
        "always",
    ),
    Method(
        "field infer", "gibbs", "Gibbs chains from random worlds, with cached feature sums",
        f"{FIELDS}:by_gibbs", "field", "never", SAMPLING,
    ),
    Method(
        "field infer", "icm-gibbs", "Gibbs chains from local modes",
        f"{FIELDS}:by_gibbs_from_modes", "field", "never", SAMPLING,
    ),
    Method(
        "field map", "auto", "all worlds where they are few, ICM elsewhere",
        f"{FIELDS}:map_best", "field", "where affordable", ("time_limit",),
    ),
    Method(
        "field map", "enumerate", "all worlds, up to 2^20", f"{FIELDS}:map_enumerated", "field",
        "always",
    ),
    Method(
        "field map", "icm", "iterated conditional modes from several worlds", f"{FIELDS}:map_icm",
        "field", "never", ("time_limit",),
    ),
    Method(
        "field objective", "pseudo", "Σ log P(atom given all others), by flips",
        "lapis.fields.objectives:pseudo_objective", "field", "always",
    ),
    Method(
        "field objective", "likelihood", "log P(all atoms): by all worlds where they are few, by "
        "contrastive divergence elsewhere",
        "lapis.fields.objectives:likelihood_objective", "field", "where affordable",
        ("num_samples",),
    ),
    Method(
        "field objective", "conditional", "log P(query atoms given the rest), in the same way",
        "lapis.fields.objectives:likelihood_objective", "field", "where affordable",
        ("num_samples",),
    ),
)  # fmt: skip

RULES = (
    "max_length", "max_variables", "penalty", "dangling", "max_clauses", "shrinkage",
    "sample_share",
)  # fmt: skip
STRUCTURE = (
    Method(
        "structure", "lapis", "all connected clauses, scored exactly; the one that adds most, "
        "again and again", "lapis.structure.learners.forward:learn_forward", "examples",
        options=(*RULES, "redundant", "final", "given", "together"),
    ),
    Method(
        "structure", "lhl", "hypergraph lifting: cluster constants, find paths, create clauses",
        "lapis.structure.learners.lhl:learn_lhl", "examples",
        options=(*RULES, "final", "cluster_prior", "min_support", "max_atoms", "max_examples",
                 "first_penalty", "flips", "lifting"),
    ),
    Method(
        "structure", "lift-graph", "clusters of constants alone, as a model with hidden clusters",
        "lapis.structure.learners.lift_graph:learn_clusters", "examples",
        options=("cluster_prior",),
    ),
    Method(
        "structure", "busl", "bottom up: template nodes, Markov blankets, cliques",
        "lapis.structure.learners.busl:learn_busl", "examples",
        options=(*RULES, "final", "significance", "min_weight"),
    ),
    Method(
        "structure", "msl", "beam search: literals added, deleted, flipped",
        "lapis.structure.learners.msl:learn_msl", "examples", options=(*RULES, "beam"),
    ),
)  # fmt: skip

METHODS: tuple[Method, ...] = (
    *INFER, *MAP, *LIFT, *COUNTING, *OBJECTIVE, *EXPECTATION, *OPTIMIZER, *POSTERIOR,
    *FIELD_METHODS, *STRUCTURE,
)  # fmt: skip
BY_NAME: Mapping[tuple[str, str], Method] = {(m.task, m.name): m for m in METHODS}


def methods_of(task: Task) -> dict[str, Method]:
    """The methods of a task by name, in the order people see them."""
    return {method.name: method for method in METHODS if method.task == task}


def find_method(task: Task, name: str) -> Method:
    """The method of a name, or a refusal that knows what was meant.

    >>> find_method("infer", "gibs")
    Traceback (most recent call last):
    lapis.errors.LapisError: unknown method 'gibs'
        did you mean 'gibbs'?
    """
    what = OPTION_OF_TASK[task]
    check_word(what, name, methods_of(task), code=f"unknown-{what}")
    return BY_NAME[task, name]


def check_options(command: str, values: Mapping[str, object], *, as_flags: bool = False) -> None:
    """Refuse values of a command's options that are wrong by themselves or not read.

    `values` are by keyword, and may hold more than options; `as_flags` makes messages name the
    flags that were typed.
    """
    for option in COMMANDS[command]:
        if option.name in values:
            option.check(values[option.name], option.flags[-1] if as_flags else None)
    for part in PARTS_OF_COMMAND.get(command, (command,)):
        for task in TASKS_OF_COMMAND.get(part, ()):
            chosen = values.get(OPTION_OF_TASK[task])
            if isinstance(chosen, str):
                find_method(task, chosen)
        refuse_unread(part, values, as_flags=as_flags)


def refuse_unread(command: str, values: Mapping[str, object], *, as_flags: bool = False) -> None:
    """Refuse an option that was given to a method which does not read it.

    An option that no method of a task lists is read whatever the method.
    """
    for option in COMMANDS[command]:
        if values.get(option.name, option.default) == option.default:
            continue
        for task in TASKS_OF_COMMAND.get(command, ()):
            readers = [m.name for m in methods_of(task).values() if option.name in m.options]
            chosen = values.get(OPTION_OF_TASK[task])
            if readers and chosen not in (None, *readers):  # None: chosen later, from the rest
                label = option.flags[-1] if as_flags else option.name
                raise LapisError(
                    f"{OPTION_OF_TASK[task]} {chosen!r} does not read {label}",
                    code="unread-option",
                    hint=f"it belongs to {', '.join(readers)}",
                )

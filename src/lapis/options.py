"""Every option of every command, said once: its kind, range, default, help and flag.

The command line makes its flags from `COMMANDS`, the functions of `lapis.api` check their keywords
against it, and the tables of `docs/` are compared with it. Which methods read an option, and which
words an option that names a method may hold, stands in `methods.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lapis.option import Argument, Option

AS_JSON = Option("as_json", "flag", "Print JSON.", False, "--json", is_keyword=False)
MERGE = Option("merge", "flag", "Read all data files as one world.", False, is_keyword=False)
CNF = Option(
    "cnf", "flag", "Split formulas into clauses that share the weight, as Alchemy does.", False,
    is_keyword=False,
)  # fmt: skip
STRICT = Option("strict", "flag", "Refuse data that the model does not declare.", False)
RELAX = Option(
    "relax", "flag", "Break the fewest hard formulas where they contradict, and list them.", False
)
BOUNDS = Option(
    "bounds", "flag", "Certified lower and upper bounds beside what is not exact.", False
)
SEED = Option("random_state", "seed", "Seed of everything random.", 0, "--seed", low=0)
MAX_MEMORY = Option(
    "max_memory", "size", "Limit, as in 8GB (default: 70% of the machine).", low=0, above=True
)
ENGINE = Option(
    "engine", "word",
    "Where joins are run: duckdb, duckdb:FILE, postgresql://…, spark, spark://… (else: here).",
)  # fmt: skip
TABLES = Option(
    "tables", "word",
    "The engine's own tables as data: a schema, a folder of Parquet files, or a TOML file.",
)  # fmt: skip
QUERY = Option(
    "query", "texts", "Predicates, atoms or formulas asked for, separated by commas.", (),
    "-q --query",
)  # fmt: skip
LEARN_QUERY = replace(QUERY, help="Predicates to predict from the others (else: all).")
OPEN = Option(
    "opened", "names", "Predicates that are unknown where the data is silent.", (), "--open"
)
SOFT = Option(
    "soft_evidence", "beliefs", 'A probability for an atom, as in "Smokes(Anna)=0.7".',
    flag="--soft",
)  # fmt: skip
METHOD = Option("method", "word", "How to infer", "auto")
MAP_METHOD = replace(METHOD, help="How to search")
PRECISION = Option(
    "precision", "number", "Standard error wanted on every sampled marginal.", 0.01, low=0
)
LEFT_AT = Option(
    "output", "word", "Leave answers in table:NAME, X.parquet or FOLDER/.", None, "-o --output"
)
JOBS = Option("jobs", "integer", "Processes (default: one a core).", low=1)
TIME_LIMIT = Option("time_limit", "number", "Seconds after which to stop.", low=0, above=True)
CHECKPOINT = Option("checkpoint", "path", "Keep the state here, and go on from it if it exists.")
MAX_SAMPLES = Option(
    "max_samples", "integer",
    "Samples in all chains after warm-up, at least two each (ais: sweeps, at least one round).",
    400_000, low=1,
)  # fmt: skip
CHAINS = Option("num_chains", "integer", "Chains, run on all cores.", 4, "--chains", low=1)
COUNT_BOUND = Option(
    "ibound", "integer", "count-gibbs: estimate counts by IJGP with this bound.", low=1
)
COUNTS = Option("counts", "word", "How to count", "exact")
IBOUND = Option("ibound", "integer", "Variables in a cluster of IJGP.", 2, low=1)
IJGP_ITERATIONS = Option(
    "ijgp_iterations", "integer", "IJGP: updates of each message at most (T).", 50, low=1
)
IJGP_TOLERANCE = Option(
    "ijgp_tolerance", "number", "IJGP: relative change of a message at convergence.", 1e-4, low=0,
    above=True,
)  # fmt: skip
IJGP_DAMPING = Option(
    "ijgp_damping", "number", "IJGP: share of the old message kept at an update.", 0.0, low=0,
    high=0.99,
)  # fmt: skip
PROPAGATION = (IBOUND, IJGP_ITERATIONS, IJGP_TOLERANCE, IJGP_DAMPING)
MEASURE_ERROR = Option("measure_error", "flag", "Count exactly too, and compare.", False)
EXPLAIN = Option(
    "explain", "flag", "Print the count plans, and their SQL on an engine, instead.", False,
    is_keyword=False,
)  # fmt: skip
NETWORK_OUT = Option(
    "output", "path", "Write the network: .wcnf, .uai or .json.", flag="-o --output",
    is_keyword=False,
)  # fmt: skip
CACHE = Option("cache", "path", "Keep and reuse groundings in this folder.", is_keyword=False)
HIDDEN = Option("hidden", "names", "Predicates that the data does not show.", ())
LISTED = Option("listed", "flag", "Ask only about query atoms that the data mentions.", False)
NO_LIKELIHOOD = Option(
    "likelihood", "flag", "Leave out the exact log-likelihood of all facts.", True,
    "--no-likelihood",
)  # fmt: skip

LEARNING = (
    Option("objective", "word", "What to maximise"),
    Option("optimizer", "word", "How to climb"),
    Option(
        "optimizer_options", "settings", "An option of the optimiser, as in damping=2.",
        flag="--option",
    ),
    Option("rate", "number", "The optimiser's learning rate.", low=0, above=True),
    Option("prior", "prior", "none, gaussian[:width] or l1[:strength]."),
    Option(
        "prior_mean", "word", "Where the prior is centred: zero, or the weights in the model.",
        "zero", words=("zero", "initial"),
    ),
    Option("expectation", "word", "Expected counts", "auto"),
    Option(
        "num_samples", "integer", "Samples of each chain an iteration.", 5, "--samples", low=1
    ),
    Option(
        "num_steps", "integer", "count-*: steps of the chains or flips of the search an iteration "
        "(N; else: from the data).", flag="--steps", low=1,
    ),
    Option(
        "num_records", "integer", "count-gibbs, count-map: worlds of a chain whose counts are "
        "averaged (K; else: from the data).", flag="--records", low=1,
    ),
    Option(
        "chain_start", "word", "count-*: where a chain starts in an iteration: in the data, in its "
        "last world, or in a random one (count-maxwalksat).", words=("data", "last", "random"),
    ),
    COUNTS,
    *PROPAGATION,
    Option(
        "differences", "word", "IJGP: how counts change with an atom: substituted (estimate the "
        "groundings with the atom) or subtracted (two estimated counts, equation 5).",
        "substituted", words=("substituted", "subtracted"),
    ),
    Option("margin", "number", "max-margin: price of a wrong atom (C).", 1.0, low=0, above=True),
    Option("units", "flag", "Add a formula P(x) for each predicate without one.", False),
    Option("max_iterations", "integer", "Iterations at most.", flag="--iterations", low=1),
    Option(
        "tolerance", "number", "Where to stop: the largest gradient left.", low=0, above=True
    ),
)  # fmt: skip

ESTIMATE = (
    Option("estimate", "word", "Which weights to give: the posterior's mode, or its mean.", "mode",
           words=("mode", "mean")),
    Option("posterior_method", "word", "Estimate mean: how the posterior is found", "nuts"),
    Option("num_draws", "integer", "Estimate mean: draws of each chain.", 1000, "--draws", low=10),
    Option("num_chains", "integer", "Estimate mean: chains.", 4, "--chains", low=1),
    Option("level", "number", "Estimate mean: probability of the credible intervals.", 0.9,
           low=0, high=0.9999, above=True),
    Option("posterior", "path", "Estimate mean: write the posterior (.npz) for infer --posterior.",
           is_keyword=False),
)  # fmt: skip
AVERAGE = (
    Option("posterior", "path", "Average over a posterior that learn --posterior wrote.",
           is_keyword=False),
    Option("num_draws", "integer", "Draws of a posterior to average over.", 200, "--draws", low=2),
)  # fmt: skip

STRUCTURE = (
    Option("given", "word", "What atoms are explained from: all others, or the other predicates.",
           words=("atoms", "predicates")),
    Option("together", "texts", "Asked at once, as in actor,director; the others are given."),
    Option("max_length", "integer", "Literals of a rule (ω).", flag="--literals", low=2, high=8),
    Option("max_variables", "integer", "Variables of a rule (0: any number).", flag="--variables",
           low=0),
    Option("max_clauses", "integer", "Rules at most.", flag="--clauses", low=1),
    Option("penalty", "number", "Score lost for each literal (π).", low=0),
    Option("shrinkage", "number", "Of weights: half of it times their squares is lost.", low=0),
    Option("dangling", "word", "Rules with a variable that occurs once; best: as predicts worlds "
           "that are left out better.", words=("keep", "drop", "best")),
    Option("redundant", "word", "Rules that a shorter one says as well.", words=("keep", "drop")),
    Option("final", "word", "How rules enter the model.", words=("lazy", "greedy", "l1", "l2")),
    Option("sample_share", "number", "Share of the atoms to score on (σ).", 1.0, "--share", low=0,
           high=1, above=True),
    Option("cluster_prior", "number", "lhl: price of a cluster combination (λ).", low=0),
    Option("min_support", "integer", "lhl: true atoms in a hyperedge of a path, on average (μ).",
           flag="--support", low=0),
    Option("max_atoms", "integer", "lhl: atoms of a path to try it on first (ν).", flag="--atoms",
           low=0),
    Option("max_examples", "integer", "lhl: paths of the hypergraph that a path with variables is "
           "extended from (0: all, as in the paper).", flag="--examples", low=0),
    Option("first_penalty", "number", "lhl: penalty in that trial (π′).", low=0),
    Option("flips", "integer", "lhl: positive literals at most (else: all signs).", low=0),
    Option("lifting", "word", "lhl: search the lifted or the ground hypergraph.",
           words=("lifted", "ground")),
    Option("significance", "number", "busl: of the χ² tests.", low=0, high=1, above=True),
    Option("min_weight", "number", "busl: rules of smaller weights are dropped (minWeight).",
           low=0),
    Option("beam", "integer", "msl: clauses kept at each step.", low=1),
)  # fmt: skip
EXAMPLES = Option(
    "explain", "flag", "Say each rule in words, with examples and counterexamples.", False,
    is_keyword=False,
)  # fmt: skip
DRAW = Option(
    "draw", "path", "Draw the lifted hypergraph (.svg, .dot, .png, .pdf).", is_keyword=False
)

MODEL = Argument("model", "MODEL", "A Markov logic file (.mln).")
FIELD = Argument("field", "FIELD", "A recursive random field (.rrf).")
WORLDS = Argument(
    "worlds", "DATA", "Facts: .db, .db.gz, or a folder of CSV or Parquet files. Several files are "
    "several worlds, unless --merge.", many=True, is_required=False,
)  # fmt: skip

ANY_MODEL = Argument(
    "model", "MODEL", "A Markov logic file (.mln) or a network (.bif, .uai, .tbn)."
)
ANY_DATA = Argument(
    "data", "DATA", "Facts for a Markov logic file; a .evid file for a network.", many=True,
    is_required=False,
)  # fmt: skip
EVIDENCE = Option("evidence", "texts", "States of a network's variables, as in smoke=yes.", ())
CIRCUIT_OUT = Option(
    "output", "path", "Write the circuit: .npz, .ac or .dot.", flag="-o --output",
    is_keyword=False,
)  # fmt: skip

CIRCUIT = Argument(
    "circuit", "CIRCUIT", "A circuit (.npz or .ac), or a network with decision trees (.tbn)."
)
BURN_IN = Option(
    "burn_in", "integer", "Of a network: sweeps of Gibbs sampling that are left out.", 100, low=0,
)  # fmt: skip
ROWS = Argument("table", "TABLE", "Rows: .csv, with or without a header, .gz, .parquet or .npy.")
HEADER = Option(
    "header", "word", "Whether the first row of a CSV file names its columns.", "auto",
    words=("auto", "yes", "no"),
)  # fmt: skip
GIVEN = replace(EVIDENCE, help="States of variables that are known, as in smoke=yes.")
CIRCUIT_COMMANDS: Mapping[str, tuple[Option, ...]] = {
    "circuit learn": (
        Option("valid", "path", "Rows to score circuits on, and to choose by."),
        Option("edge_costs", "numbers", "What an edge costs, in nats (k_e); of several, as in "
               "1,0.1, --valid chooses. 0: no circuit is kept, only the network with decision "
               "trees.", (0.1,), "--edge-cost", low=0),
        Option("parameter_costs", "numbers", "What a parameter costs, in nats (k_p), in the same "
               "way.", (0.0,), "--param-cost", low=0),
        Option("prior", "prior", "Counts added to a distribution: thesis (1 for each state), "
               "libra (1 in total) or a number in total.", "libra"),
        Option("method", "word", "greedy: the best split in every step. quick: nearly so. tree: a "
               "tree of hidden variables, by EM.", "quick", words=("greedy", "quick", "tree")),
        Option("num_components", "integer", "Circuits in a mixture (1); of a tree the states of a "
               "hidden variable (16).", None, "--components", low=1),
        Option("num_starts", "integer", "Results from different starts that are averaged.", 1,
               "--starts", low=1),
        Option("max_edges", "integer", "Edges at most.", None, "--edges-max", low=1),
        TIME_LIMIT,
        replace(CIRCUIT_OUT, help="Write the circuit (.npz, .ac or .dot), or the network with "
                "decision trees (.tbn)."),
        Option("network", "path", "Write the equivalent Bayesian network with decision trees.",
               is_keyword=False),
        HEADER, SEED, AS_JSON,
    ),
    "circuit score": (
        Option("per_example", "path", "Write the log-likelihood of each row, one a line.",
               is_keyword=False),
        HEADER, AS_JSON,
    ),
    "circuit query": (
        Option("query", "texts", "States or variables asked for, as in cancer=yes or cancer.", (),
               "-q --query"),
        GIVEN,
        Option("rows", "path", "Queries, one a row; what is not asked is missing.",
               is_keyword=False),
        Option("given", "path", "Evidence for each of --rows.", is_keyword=False),
        Option("most_likely", "flag", "The most likely states given the evidence.", False, "--mpe"),
        replace(CHAINS, help="Of a network: chains of Gibbs sampling.", default=10),
        BURN_IN,
        Option("num_sweeps", "integer", "Of a network: sweeps of each chain that are counted.",
               1000, "--sweeps", low=1),
        HEADER, SEED, AS_JSON,
    ),
    "circuit sample": (
        Option("num_samples", "integer", "Samples.", 10, "-n --samples", low=1),
        GIVEN,
        replace(BURN_IN, help="Of a network given evidence: sweeps of Gibbs sampling before a "
                "sample."),
        Option("output", "path", "Write a CSV file.", flag="-o --output", is_keyword=False),
        SEED, AS_JSON,
    ),
    "circuit info": (
        replace(CIRCUIT_OUT, help="Write it in another form: .npz, .ac, .dot; a network .tbn."),
        Option("max_edges", "integer", "Of a network: compile it to a circuit of at most this many "
               "edges, to find its size.", 1_000_000, "--edges-max", low=1),
        Option("plot", "path", "Draw a small circuit (.svg, .dot, .png, .pdf).", is_keyword=False),
        AS_JSON,
    ),
}  # fmt: skip

INFERRING = (METHOD, PRECISION, TIME_LIMIT, MAX_MEMORY)

FIELD_OUT = Option("output", "path", "", flag="-o --output", is_keyword=False)
FIELD_COMMANDS: Mapping[str, tuple[Option, ...]] = {
    "field infer": (
        QUERY, OPEN, METHOD, PRECISION, TIME_LIMIT, MAX_SAMPLES, CHAINS, MAX_MEMORY, MERGE, STRICT,
        SEED, AS_JSON,
    ),
    "field map": (
        QUERY, OPEN, MAP_METHOD,
        replace(TIME_LIMIT, default=60.0, help="Seconds after which the best so far is given."),
        MAX_MEMORY, MERGE, STRICT, SEED, AS_JSON,
    ),
    "field from": (
        Option("sharpness", "number", "How hard connectives are: weights below the root.", 8.0,
               low=0, high=1e6, above=True),
        Option("others", "flag", "Give every parfeature all other predicates, with small weights.",
               False),
        Option("num_random", "integer", "Parfeatures of all predicates, with small weights.", 0,
               "--random", low=0),
        replace(FIELD_OUT, help="Write the field (.rrf)."), SEED,
    ),
    "field extract": (
        Option("threshold", "number", "Weights below it, within a parfeature, are left out.", 1.0,
               low=0, above=True),
        replace(FIELD_OUT, help="Write the formulas (.mln)."),
    ),
    "field learn": (
        LEARN_QUERY, HIDDEN,
        replace(FIELD_OUT, help="Write the learned field (.rrf)."),
        Option("objective", "word", "What to maximise", "pseudo"),
        Option("optimizer", "word", "lbfgs where values are exact, adam elsewhere.",
               words=("lbfgs", "vp", "cd", "vp-pw", "cd-pw", "dn", "scg", "pscg", "adam",
                      "adagrad")),
        Option("expectation", "word", "Expected derivatives: by all worlds where they are few and "
               "by chains elsewhere (auto), by one of these, or by the most likely world (map, "
               "which vp and vp-pw imply).", "auto", words=("auto", "exact", "gibbs", "map")),
        Option("rate", "number", "Of vp, cd, vp-pw, cd-pw, adam and adagrad.", low=0, above=True),
        *(option for option in LEARNING if option.name in ("prior", "prior_mean", "num_samples")),
        Option("restarts", "integer", "Climbs from other weights; the best is kept.", 0, low=0),
        *(option for option in LEARNING if option.name in ("max_iterations", "tolerance")),
        TIME_LIMIT, MAX_MEMORY,
        CHECKPOINT,
        MERGE, STRICT, SEED, AS_JSON,
    ),
    "field draw": (replace(FIELD_OUT, help="The picture: .svg, .dot, .png or .pdf (FIELD.svg)."),),
    "field score": (
        LEARN_QUERY, HIDDEN, METHOD, PRECISION, TIME_LIMIT, MAX_MEMORY, NO_LIKELIHOOD,
        replace(NO_LIKELIHOOD, name="predictions", flag="--no-predictions",
                help="Leave out CLL and AUC-PR of the query."),
        MERGE, STRICT, SEED, AS_JSON,
    ),
}  # fmt: skip

FIELD_ARGUMENTS: Mapping[str, tuple[Argument, ...]] = {
    **dict.fromkeys(FIELD_COMMANDS, (FIELD, WORLDS)),
    "field from": (MODEL,),
    "field extract": (FIELD,),
    "field draw": (FIELD,),
}

COMMANDS: Mapping[str, tuple[Option, ...]] = {
    **FIELD_COMMANDS,
    **CIRCUIT_COMMANDS,
    "demo": (AS_JSON,),
    "warm": (),
    "check": (CNF, MERGE, STRICT, AS_JSON),
    "count": (
        COUNTS, *PROPAGATION, MEASURE_ERROR, ENGINE, TABLES, EXPLAIN, CNF, MERGE, STRICT, AS_JSON,
    ),
    "ground": (QUERY, OPEN, NETWORK_OUT, CACHE, MAX_MEMORY, CNF, MERGE, STRICT, AS_JSON),
    "infer": (
        QUERY, OPEN, SOFT, METHOD, PRECISION, TIME_LIMIT, MAX_SAMPLES, CHAINS, MAX_MEMORY,
        COUNT_BOUND, BOUNDS, RELAX, *AVERAGE, ENGINE, TABLES, LEFT_AT, JOBS, CNF, MERGE, STRICT,
        SEED, AS_JSON,
    ),
    "map": (
        QUERY, OPEN, SOFT, MAP_METHOD,
        replace(TIME_LIMIT, default=60.0, help="Seconds after which the best so far is given."),
        MAX_MEMORY, RELAX, ENGINE, TABLES, LEFT_AT, JOBS, CNF, MERGE, STRICT, SEED, AS_JSON,
    ),
    "lift": (
        replace(QUERY, help="Predicates that are unknown (else: all where the data is silent)."),
        replace(METHOD, default="auto", help="How to sum over all worlds"),
        Option("sizes", "settings", "Constants of a type, as in person=30000.", flag="--size"),
        Option("classes", "flag", "A row for each class of equally probable groundings.", False),
        Option("tree", "flag", "Print the circuit as a text.", False, is_keyword=False),
        Option("draw", "path", "Draw the circuit (.svg, .dot, .png, .pdf).", is_keyword=False),
        CNF, MERGE, STRICT, AS_JSON,
    ),
    "learn": (
        LEARN_QUERY,
        Option("output", "path", "Write the learned model (.mln).", flag="-o --output",
               is_keyword=False),
        *LEARNING, *ESTIMATE, MEASURE_ERROR, HIDDEN, LISTED, ENGINE, TABLES, TIME_LIMIT, MAX_MEMORY,
        CHECKPOINT, CNF, MERGE, STRICT, SEED, AS_JSON,
    ),
    "structure": (
        replace(LEARN_QUERY, help="Predicates to find rules for (else: all)."),
        Option("output", "path", "Write the rules (.mln).", flag="-o --output", is_keyword=False),
        replace(METHOD, help="How to search", default="lapis"), *STRUCTURE,
        JOBS, ENGINE, TABLES, TIME_LIMIT, CHECKPOINT, EXAMPLES, DRAW, MERGE, STRICT, SEED, AS_JSON,
    ),
    "score": (QUERY, HIDDEN, LISTED, *INFERRING, NO_LIKELIHOOD, CNF, MERGE, STRICT, SEED, AS_JSON),
    "evaluate": (
        LEARN_QUERY,
        Option("folds", "integer", "Groups of data files that are tested in turn.", low=2),
        Option("leave_one_out", "flag", "Test each data file once (the default).", False),
        Option("generative", "flag", "Learn to explain everything, not only the query.", False),
        *LEARNING, HIDDEN, LISTED, *INFERRING, JOBS,
        Option("plot", "path", "Draw precision-recall and calibration (.png, .svg, .pdf).",
               is_keyword=False),
        CNF, STRICT, SEED, AS_JSON,
    ),
    "circuit approximate": (
        QUERY, OPEN, EVIDENCE, CIRCUIT_OUT,
        Option("max_edges", "integer", "Edges at most.", 10_000, "--edges-max", low=1),
        Option("parameters", "word", "How parameters are found: F (learned), G (Gibbs samples), "
               "V (variational), VI (V, its worlds weighed), E (drawn exactly) or P (particles); "
               "auto: E where that fits, else P or VI, whichever is surer.", "auto",
               words=("auto", "F", "G", "V", "VI", "E", "P")),
        Option("num_samples", "integer", "Samples that the structure is learned from.", 50_000,
               "--samples", low=1),
        TIME_LIMIT, MERGE, STRICT, SEED, AS_JSON,
    ),
    "circuit marginals": (QUERY, OPEN, EVIDENCE, TIME_LIMIT, MERGE, STRICT, SEED, AS_JSON),
    "circuit compile": (
        QUERY, OPEN, EVIDENCE, CIRCUIT_OUT, TIME_LIMIT, MERGE, STRICT, SEED, AS_JSON,
        Option("max_edges", "integer", "Edges at most.", 1 << 26, "--edges-max", low=1),
    ),
}  # fmt: skip

# Commands that are given other things than a model and data; a name in two words is of a group.
ARGUMENTS: Mapping[str, tuple[Argument, ...]] = {
    "demo": (),
    "warm": (),
    **dict.fromkeys(CIRCUIT_COMMANDS, (CIRCUIT,)),
    "circuit learn": (ROWS,),
    "circuit score": (CIRCUIT, ROWS),
    **FIELD_ARGUMENTS,
    **dict.fromkeys(
        ("circuit compile", "circuit marginals", "circuit approximate"), (ANY_MODEL, ANY_DATA)
    ),
}
# What each group of commands is for.
GROUPS: Mapping[str, str] = {
    "field": "Recursive random fields: every connective and quantifier soft.",
    "circuit": "Arithmetic circuits: learned, compiled, approximated, queried.",
}


def arguments_of(command: str) -> tuple[Argument, ...]:
    """What a command is given by its place."""
    return ARGUMENTS.get(command, (MODEL, WORLDS))

"""The options of each command and of the function behind it, one frozen dataclass each.

Fields that several commands share are declared once, in the small dataclasses at the top. The
docstring of a dataclass is the title of its group in the help.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from lapis.registry.option_field import NumberPairs, PriorLike, option

CountKind = Literal["exact", "ijgp"]
CountDifferences = Literal["substituted", "subtracted"]
SoftAs = Literal["virtual", "posterior"]
Missing = Literal["error", "skip"]
ChainStart = Literal["data", "last", "random"]
FactsWithout = Literal["removed", "unknown", "false"]

# Groups that commands share.


@dataclass(frozen=True, kw_only=True)
class JsonOptions:
    """Output."""

    as_json: bool = option(False, "Print JSON.", only_flag="--json", cli_only=True)


@dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """Output."""

    random_state: int = option(0, "Seed of everything random.", only_flag="--seed", low=0)

    @property
    def seed(self) -> int:
        """The random state; functions draw one from a generator first."""
        return self.random_state


@dataclass(frozen=True, kw_only=True)
class StrictOptions:
    """Data."""

    strict: bool = option(False, "Refuse data that the model does not declare.")


@dataclass(frozen=True, kw_only=True)
class MissingOptions:
    """Data."""

    missing: Missing = option(
        "error", "Numbers that the data lack: an error, or skip such groundings."
    )


@dataclass(frozen=True, kw_only=True)
class MergeOptions(StrictOptions):
    """Data."""

    merge: bool = option(False, "Read all data files as one world.", cli_only=True)


@dataclass(frozen=True, kw_only=True)
class CnfOptions:
    """Data."""

    cnf: bool = option(
        False,
        "Split formulas into clauses that share the weight, as Alchemy does.",
        cli_only=True,
    )


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Engine."""

    engine: str | None = option(
        None,
        "Where joins are run: duckdb, duckdb:FILE, postgresql://…, spark, spark://… (else: here).",
    )
    tables: str | None = option(
        None,
        "The engine's own tables as data: a schema, a folder of Parquet files, or a TOML file.",
    )


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """Query."""

    query: Sequence[str] | str = option(
        (), "Predicates, atoms or formulas to query, separated by commas.", flag="-q"
    )


@dataclass(frozen=True, kw_only=True)
class OpenOptions(QueryOptions):
    """Query."""

    open_predicates: Sequence[str] = option(
        (), "Predicates whose atoms are unknown unless the data states them.", flag="--open"
    )


@dataclass(frozen=True, kw_only=True)
class UnobservedOptions:
    """Query."""

    unobserved: Sequence[str] = option((), "Predicates that the data does not observe.")


@dataclass(frozen=True, kw_only=True)
class LearnQueryOptions(QueryOptions, UnobservedOptions):
    """Query."""

    query: Sequence[str] | str = option(
        (), "Predicates to predict from the others (else: all).", flag="-q"
    )


@dataclass(frozen=True, kw_only=True)
class ListedOptions:
    """Query."""

    only_listed: bool = option(False, "Answer only query atoms that the data mentions.")


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """Limits."""

    time_limit: float | None = option(None, "Seconds for the whole command.", above=0)
    max_memory: int | None = option(
        None, "Memory limit, as in 8GB (default: 70% of the machine).", is_size=True, above=0
    )


@dataclass(frozen=True, kw_only=True)
class MapLimitOptions(LimitOptions):
    """Limits."""

    time_limit: float | None = option(
        None, "Seconds for the whole command (else: 60 for the search).", above=0
    )


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Limits."""

    jobs: int | None = option(None, "Processes (default: one per core).", low=1)


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions:
    """Limits."""

    checkpoint: Path | None = option(
        None, "File that keeps the state; if it exists, resume from it.", is_output=True
    )


@dataclass(frozen=True, kw_only=True)
class InferringOptions(LimitOptions):
    """Inference."""

    method: str = option("auto", "How to infer.", task="infer")
    precision: float = option(0.01, "Target standard error of every sampled marginal.", low=0)


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """Inference."""

    max_samples: int = option(
        400_000,
        "Samples in all chains after warm-up, at least two each (ais: sweeps, at least one round).",
        low=1,
    )
    num_chains: int = option(4, "Chains, run on all cores.", low=1)


@dataclass(frozen=True, kw_only=True)
class RelaxOptions:
    """Inference."""

    relax: bool = option(
        False, "Break the fewest hard formulas where they contradict, and list them."
    )


@dataclass(frozen=True, kw_only=True)
class ObservationOptions:
    """Query."""

    evidence: Sequence[str] | str = option(
        (), "Facts beside the data: Smokes(Anna), !Cancer(Bob), or smoke=yes for a network."
    )
    soft_evidence: Mapping[str, float] | None = option(
        None,
        'A probability for an atom, as in "Smokes(Anna)=0.7".',
        pairs=NumberPairs("soft evidence", 'as in "Smokes(Anna)=0.7"', "ATOM=P"),
    )
    soft_as: SoftAs = option(
        "virtual",
        "What soft evidence states: virtual (odds are multiplied), or the posterior probability.",
    )


@dataclass(frozen=True, kw_only=True)
class ReasonOptions:
    """Explanation."""

    change_to: float | None = option(
        None,
        "Find a smallest set of facts whose change moves the probability across this.",
        above=0,
        high=0.999999,
    )
    facts: FactsWithout = option(
        "removed",
        "What becomes of a fact that is taken away: removed (as if the data were silent), "
        "unknown or false.",
    )


@dataclass(frozen=True, kw_only=True)
class WhyOptions:
    """Explanation."""

    why: str | None = option(
        None, "Explain this atom or ground formula: why it is as probable as it is.", cli_only=True
    )
    change_to: float | None = option(
        None,
        "With --why: find a smallest set of facts whose change moves the probability across this.",
        above=0,
        high=0.999999,
        cli_only=True,
    )
    facts: FactsWithout = option(
        "removed",
        "With --why, what becomes of a fact that is taken away: removed (as if the data were "
        "silent), unknown or false.",
        cli_only=True,
    )
    fit: Path | None = option(
        None,
        "With --why: a fit (.json) whose standard errors give one of the probability.",
        cli_only=True,
    )
    draw: Path | None = option(
        None,
        "With --why: draw what is near the atom (.svg, .dot, .graphml, .png, .pdf).",
        cli_only=True,
        is_output=True,
    )


@dataclass(frozen=True, kw_only=True)
class StoreOutputOptions:
    """Engine."""

    output: str | None = option(
        None,
        "Leave answers in table:NAME, X.parquet or FOLDER/.",
        flag="-o",
        cli_only=True,
        is_output=True,
    )


@dataclass(frozen=True, kw_only=True)
class IjgpOptions:
    """Counting."""

    counts: CountKind = option("exact", "How to count.", task="counts")
    ibound: int = option(2, "Variables in a cluster of IJGP.", low=1)
    ijgp_iterations: int = option(50, "IJGP: updates of each message at most (T).", low=1)
    ijgp_tolerance: float = option(
        1e-4, "IJGP: relative change of a message at convergence.", above=0
    )
    ijgp_damping: float = option(
        0.0, "IJGP: share of the old message kept at an update.", low=0, high=0.99
    )


@dataclass(frozen=True, kw_only=True)
class LikelihoodOptions:
    """Measures."""

    likelihood: bool = option(True, "Leave out the exact log-likelihood of all facts.")


@dataclass(frozen=True, kw_only=True)
class ErrorOptions:
    """Counting."""

    measure_error: bool = option(False, "Count exactly too, and compare.")


@dataclass(frozen=True, kw_only=True)
class OptimizerOptions:
    """Learning."""

    rate: float | None = option(None, "The optimiser's learning rate.", above=0)
    prior: str | PriorLike | None = option(None, "none, gaussian[:width] or l1[:strength].")
    prior_mean: Literal["zero", "initial"] = option(
        "zero", "Where the prior is centred: zero, or the weights in the model."
    )
    num_samples: int = option(5, "Samples of each chain an iteration.", low=1)
    max_iterations: int | None = option(None, "Iterations at most.", low=1)
    tolerance: float | None = option(None, "Stop when the largest gradient is below this.", above=0)


@dataclass(frozen=True, kw_only=True)
class LearningOptions(IjgpOptions, OptimizerOptions):
    """Learning."""

    objective: str | None = option(None, "What to maximise.", task="objective")
    optimizer: str | None = option(None, "How to maximise it.", task="optimizer")
    optimizer_options: Mapping[str, float] | None = option(
        None,
        "An option of the optimiser, as in damping=2.",
        pairs=NumberPairs("an option", "as in damping=2"),
    )
    expectation: str = option("auto", "Expected counts.", task="expectation")
    num_steps: int | None = option(
        None,
        "count-*: steps of the chains or flips of the search an iteration (N; else: from "
        "the data).",
        low=1,
    )
    num_records: int | None = option(
        None,
        "count-gibbs, count-map: worlds of a chain whose counts are averaged (K; else: from "
        "the data).",
        low=1,
    )
    chain_start: ChainStart | None = option(
        None,
        "count-*: where a chain starts in an iteration: in the data, in its last world, or "
        "in a random one (count-maxwalksat).",
    )
    differences: CountDifferences = option(
        "substituted",
        "IJGP: how counts change with an atom: substituted (estimate the groundings with "
        "the atom) or subtracted (two estimated counts, equation 5).",
    )
    margin: float = option(1.0, "max-margin: price of a wrong atom (C).", above=0)
    unit_formulas: bool = option(False, "Add a formula P(x) for each predicate without one.")
    standardize: bool = option(
        False,
        "Apply the prior as if numbers were divided by their standard deviation; weights stay "
        "those of the raw numbers.",
    )

    @property
    def of_optimizer(self) -> dict[str, float]:
        """The optimiser's own options, `rate` among them."""
        rate: dict[str, float] = {} if self.rate is None else {"rate": self.rate}
        return {**(self.optimizer_options or {}), **rate}


# Markov logic.


@dataclass(frozen=True, kw_only=True)
class DemoOptions(JsonOptions):
    """Options."""


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """Options."""


@dataclass(frozen=True, kw_only=True)
class WarmOptions(JsonOptions):
    """Options."""


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(JsonOptions):
    """Options."""

    engine: str | None = option(
        None, "Also connect to this engine: postgresql://…, spark, spark://…, duckdb:FILE."
    )


@dataclass(frozen=True, kw_only=True)
class ExplainErrorOptions(JsonOptions):
    """Options."""


@dataclass(frozen=True, kw_only=True)
class NewOptions(JsonOptions):
    """Options."""


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Server."""

    folder: Path | None = option(
        None, "The only folder that is read and written (else: that of MODEL, or this one)."
    )
    host: str = option("127.0.0.1", "Address to listen on; 0.0.0.0 for other machines too.")
    port: int = option(0, "Port (else: 8765, or any free one).", low=0, high=65535)
    browser: bool = option(True, "Do not open a browser.")
    max_upload: int = option(200 << 20, "Size of an upload, as in 1GB.", is_size=True, above=0)
    jobs: int = option(2, "Runs at once; others wait.", low=1)
    run_seconds: float = option(3600.0, "Time limit of a run.", above=0)
    run_memory: int | None = option(
        None, "Memory limit of a run, as in 8GB (default: 60% of the machine).",
        is_size=True, above=0,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CheckOptions(LimitOptions, CnfOptions, MergeOptions, JsonOptions):
    """Options."""


@dataclass(frozen=True, kw_only=True)
class CountOptions(
    IjgpOptions, ErrorOptions, EngineOptions, LimitOptions, CnfOptions, MergeOptions,
    MissingOptions, JsonOptions,
):  # fmt: skip
    """Options."""

    explain: bool = option(
        False, "Print the count plans, and their SQL on an engine, instead.", cli_only=True
    )


@dataclass(frozen=True, kw_only=True)
class GroundOptions(
    OpenOptions, LimitOptions, CnfOptions, MergeOptions, MissingOptions, JsonOptions
):  # fmt: skip
    """Options."""

    output: Path | None = option(
        None,
        "Write the network: .wcnf, .uai or .json, or draw it: .dot, .graphml or .svg.",
        flag="-o",
        cli_only=True,
        is_output=True,
    )
    cache: Path | None = option(None, "Keep and reuse groundings in this folder.", cli_only=True)


@dataclass(frozen=True, kw_only=True)
class PlanOptions(
    OpenOptions, ListedOptions, ObservationOptions, InferringOptions, SamplingOptions,
    RelaxOptions, CnfOptions, MergeOptions, MissingOptions, SeedOptions, JsonOptions,
):  # fmt: skip
    """Inference."""


@dataclass(frozen=True, kw_only=True)
class InferOptions(
    OpenOptions, ListedOptions, ObservationOptions, InferringOptions, SamplingOptions,
    RelaxOptions, WhyOptions, EngineOptions, StoreOutputOptions, JobOptions, CnfOptions,
    MergeOptions, MissingOptions, SeedOptions, JsonOptions,
):  # fmt: skip
    """Inference."""

    ibound: int | None = option(
        None, "count-gibbs: estimate counts by IJGP with this bound.", low=1
    )
    bounds: bool = option(False, "Certified lower and upper bounds of answers that are not exact.")
    plan: bool = option(
        False, "Print the plan, as it was carried out, above the answer.", cli_only=True
    )
    posterior: Path | None = option(
        None, "Average over a posterior that learn --posterior wrote.", cli_only=True
    )
    num_draws: int = option(200, "Draws of a posterior to average over.", low=2)


@dataclass(frozen=True, kw_only=True)
class MapOptions(
    OpenOptions, ListedOptions, ObservationOptions, MapLimitOptions, RelaxOptions, WhyOptions,
    EngineOptions, StoreOutputOptions, JobOptions, CnfOptions, MergeOptions, MissingOptions,
    SeedOptions, JsonOptions,
):  # fmt: skip
    """Inference."""

    method: str = option("auto", "How to search.", task="map")


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(
    OpenOptions, ListedOptions, ObservationOptions, LimitOptions, ReasonOptions, StrictOptions,
    SeedOptions,
):  # fmt: skip
    """Explanation."""


@dataclass(frozen=True, kw_only=True)
class LiftOptions(
    QueryOptions, LimitOptions, CnfOptions, MergeOptions, MissingOptions, JsonOptions
):  # fmt: skip
    """Options."""

    query: Sequence[str] | str = option(
        (), "Predicates that are unknown (else: all atoms that the data does not state).", flag="-q"
    )
    method: str = option("auto", "How to sum over all worlds.", task="lift")
    sizes: Mapping[str, int] | None = option(
        None,
        "Constants of a type, as in person=30000.",
        pairs=NumberPairs("a type with its number of constants", "as in person=30000", "TYPE=N"),
    )
    classes: bool = option(False, "A row for each class of equally probable groundings.")
    tree: bool = option(False, "Print the circuit as a text.", cli_only=True)
    draw: Path | None = option(
        None, "Draw the circuit (.svg, .dot, .png, .pdf).", cli_only=True, is_output=True
    )


@dataclass(frozen=True, kw_only=True)
class LearnOptions(
    LearningOptions, LearnQueryOptions, ListedOptions, ErrorOptions, EngineOptions, LimitOptions,
    CheckpointOptions, CnfOptions, MergeOptions, MissingOptions, SeedOptions, JsonOptions,
):  # fmt: skip
    """Posterior."""

    estimate: Literal["mode", "mean"] = option(
        "mode", "Which weights to return: the mode of the posterior, or its mean."
    )
    posterior_method: str = option(
        "nuts", "Estimate mean: how to approximate the posterior.", task="posterior"
    )
    num_draws: int = option(1000, "Estimate mean: draws of each chain.", low=10)
    num_chains: int = option(4, "Estimate mean: chains.", low=1)
    level: float = option(
        0.9, "Estimate mean: probability of the credible intervals.", above=0, high=0.9999
    )
    posterior: Path | None = option(
        None,
        "Estimate mean: write the posterior (.npz) for infer --posterior.",
        cli_only=True,
        is_output=True,
    )
    output: Path | None = option(
        None, "Write the learned model (.mln).", flag="-o", cli_only=True, is_output=True
    )


@dataclass(frozen=True, kw_only=True)
class StructureOptions(
    QueryOptions, JobOptions, EngineOptions, LimitOptions, CheckpointOptions, MergeOptions,
    SeedOptions, JsonOptions,
):  # fmt: skip
    """Rules."""

    query: Sequence[str] | str = option((), "Predicates to find rules for (else: all).", flag="-q")
    output: Path | None = option(
        None, "Write the rules (.mln).", flag="-o", cli_only=True, is_output=True
    )
    method: str = option("lapis", "How to search.", task="structure")
    conditioning: Literal["atoms", "predicates"] | None = option(
        None, "What atoms are predicted from: all other atoms, or the other predicates."
    )
    joint_targets: Sequence[str] | str | None = option(
        None, "Predicates to predict jointly, as in actor,director; the others are given."
    )
    max_literals: int | None = option(None, "Literals of a rule (ω).", low=2, high=8)
    max_variables: int | None = option(None, "Variables of a rule (0: any number).", low=0)
    max_clauses: int | None = option(None, "Rules at most.", low=1)
    penalty: float | None = option(None, "Score lost for each literal (π).", low=0)
    shrinkage: float | None = option(
        None, "Penalty on weights: half of it times their squares.", low=0
    )
    dangling: Literal["keep", "drop", "best"] | None = option(
        None,
        "Rules with a variable that occurs once; best: whichever predicts left-out worlds better.",
    )
    redundant: Literal["keep", "drop"] | None = option(
        None, "Rules that add nothing to a shorter one."
    )
    final: Literal["lazy", "greedy", "l1", "l2"] | None = option(None, "How rules enter the model.")
    sample_share: float = option(1.0, "Share of the atoms to score on (σ).", above=0, high=1)
    cluster_prior: float | None = option(None, "lhl: price of a cluster combination (λ).", low=0)
    min_support: int | None = option(
        None, "lhl: true atoms in a hyperedge of a path, on average (μ).", low=0
    )
    max_atoms: int | None = option(None, "lhl: atoms of a path to try it on first (ν).", low=0)
    max_examples: int | None = option(
        None,
        "lhl: paths of the hypergraph that a path with variables is extended from (0: all, "
        "as in the paper).",
        low=0,
    )
    first_penalty: float | None = option(None, "lhl: penalty in that trial (π′).", low=0)
    flips: int | None = option(None, "lhl: positive literals at most (else: all signs).", low=0)
    lifting: Literal["lifted", "ground"] | None = option(
        None, "lhl: search the lifted or the ground hypergraph."
    )
    significance: float | None = option(
        None, "busl: significance level of the χ² tests.", above=0, high=1
    )
    min_weight: float | None = option(
        None, "busl: rules of smaller weights are dropped (minWeight).", low=0
    )
    beam: int | None = option(None, "msl: clauses kept at each step.", low=1)
    explain: bool = option(
        False, "Describe each rule in words, with examples and counterexamples.", cli_only=True
    )
    draw: Path | None = option(
        None, "Draw the lifted hypergraph (.svg, .dot, .png, .pdf).", cli_only=True, is_output=True
    )


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(
    QueryOptions, UnobservedOptions, ListedOptions, LikelihoodOptions, InferringOptions,
    CnfOptions, MergeOptions, MissingOptions, SeedOptions, JsonOptions,
):  # fmt: skip
    """Options."""


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(
    LearnQueryOptions, ListedOptions, InferringOptions, JobOptions, LearningOptions, CnfOptions,
    StrictOptions, MissingOptions, SeedOptions, JsonOptions,
):  # fmt: skip
    """Folds."""

    # Options of learning and those of inference are read apart: `ibound` is one of learning.
    parts: ClassVar = (LearningOptions, InferringOptions)

    folds: int | None = option(None, "Groups of data files that are tested in turn.", low=2)
    leave_one_out: bool = option(False, "Test each data file once (the default).")
    generative: bool = option(False, "Learn a model of all predicates, not only of the query.")
    plot: Path | None = option(
        None,
        "Draw precision-recall and calibration (.png, .svg, .pdf).",
        cli_only=True,
        is_output=True,
    )


# Arithmetic circuits.

Header = Literal["auto", "yes", "no"]
CircuitLearner = Literal["greedy", "quick", "tree"]
CircuitParameters = Literal["auto", "F", "G", "V", "VI", "E", "P"]


@dataclass(frozen=True, kw_only=True)
class HeaderOptions:
    """Data."""

    header: Header = option("auto", "Whether the first row of a CSV file names its columns.")


@dataclass(frozen=True, kw_only=True)
class EvidenceOptions:
    """Query."""

    evidence: Sequence[str] | str = option(
        (), "States of variables that are known, as in smoke=yes."
    )


@dataclass(frozen=True, kw_only=True)
class CircuitLearnOptions(LimitOptions, HeaderOptions, SeedOptions, JsonOptions):
    """Learning."""

    valid: Path | None = option(None, "Rows to score circuits on, and to choose by.")
    edge_costs: tuple[float, ...] = option(
        (0.1,),
        "What an edge costs, in nats (k_e); of several, as in 1,0.1, --valid chooses. 0: no "
        "circuit is kept, only the network with decision trees.",
        low=0,
    )
    parameter_costs: tuple[float, ...] = option(
        (0.0,), "What a parameter costs, in nats (k_p), in the same way.", low=0
    )
    prior: str = option(
        "libra",
        "Counts added to a distribution: thesis (1 for each state), libra (1 in total) or a "
        "number in total.",
    )
    method: CircuitLearner = option(
        "quick",
        "greedy: the best split in every step. quick: nearly so. tree: a tree of hidden "
        "variables, by EM.",
    )
    num_components: int | None = option(
        None, "Circuits in a mixture (1); of a tree the states of a hidden variable (16).", low=1
    )
    num_starts: int = option(1, "Results from different starts that are averaged.", low=1)
    max_edges: int | None = option(None, "Edges at most.", low=1)
    output: Path | None = option(
        None,
        "Write the circuit (.npz, .ac or .dot), or the network with decision trees (.tbn).",
        flag="-o",
        cli_only=True,
        is_output=True,
    )
    network: Path | None = option(
        None,
        "Write the equivalent Bayesian network with decision trees.",
        cli_only=True,
        is_output=True,
    )


@dataclass(frozen=True, kw_only=True)
class CircuitScoreOptions(HeaderOptions, LimitOptions, JsonOptions):
    """Options."""

    per_example: Path | None = option(
        None, "Write the log-likelihood of each row, one per line.", cli_only=True, is_output=True
    )


@dataclass(frozen=True, kw_only=True)
class CircuitQueryOptions(EvidenceOptions, HeaderOptions, LimitOptions, SeedOptions, JsonOptions):
    """Query."""

    query: Sequence[str] | str = option(
        (), "States or variables to query, as in cancer=yes or cancer.", flag="-q"
    )
    rows: Path | None = option(
        None, "Queries, one per row; variables that are not queried are missing.", cli_only=True
    )
    evidence_rows: Path | None = option(None, "Evidence for each of --rows.", cli_only=True)
    most_likely: bool = option(False, "The most likely states given the evidence.")
    num_chains: int = option(10, "Networks: chains of Gibbs sampling.", low=1)
    burn_in: int = option(100, "Networks: sweeps of Gibbs sampling that are discarded.", low=0)
    num_sweeps: int = option(1000, "Networks: sweeps of each chain that are counted.", low=1)


@dataclass(frozen=True, kw_only=True)
class CircuitSampleOptions(EvidenceOptions, LimitOptions, SeedOptions, JsonOptions):
    """Options."""

    num_samples: int = option(10, "Samples.", flag="-n", low=1)
    burn_in: int = option(
        100, "Networks with evidence: sweeps of Gibbs sampling before a sample.", low=0
    )
    output: Path | None = option(
        None, "Write a CSV file.", flag="-o", cli_only=True, is_output=True
    )


@dataclass(frozen=True, kw_only=True)
class CircuitInfoOptions(LimitOptions, JsonOptions):
    """Options."""

    output: Path | None = option(
        None,
        "Convert to another format: .npz, .ac, .dot; a network .tbn.",
        flag="-o",
        cli_only=True,
        is_output=True,
    )
    max_edges: int = option(
        1_000_000,
        "Networks: compile to a circuit of at most this many edges to find its size.",
        low=1,
    )
    plot: Path | None = option(
        None, "Draw a small circuit (.svg, .dot, .png, .pdf).", cli_only=True, is_output=True
    )


@dataclass(frozen=True, kw_only=True)
class FactorOptions(
    OpenOptions, EvidenceOptions, LimitOptions, MergeOptions, SeedOptions, JsonOptions
):  # fmt: skip
    """Options."""

    evidence: Sequence[str] | str = option((), "States of a network's variables, as in smoke=yes.")


@dataclass(frozen=True, kw_only=True)
class CircuitOutputOptions:
    """Output."""

    output: Path | None = option(
        None, "Write the circuit: .npz, .ac or .dot.", flag="-o", cli_only=True, is_output=True
    )


@dataclass(frozen=True, kw_only=True)
class CircuitMarginalsOptions(FactorOptions):
    """Options."""


@dataclass(frozen=True, kw_only=True)
class CircuitCompileOptions(FactorOptions, CircuitOutputOptions):
    """Options."""

    max_edges: int = option(1 << 26, "Edges at most.", low=1)


@dataclass(frozen=True, kw_only=True)
class CircuitApproximateOptions(FactorOptions, CircuitOutputOptions):
    """Options."""

    max_edges: int = option(10_000, "Edges at most.", low=1)
    parameters: CircuitParameters = option(
        "auto",
        "How parameters are found: F (learned), G (Gibbs samples), V (variational), VI (V, "
        "its worlds weighed), E (drawn exactly) or P (particles); auto: E where that fits, "
        "else P or VI, whichever is surer.",
    )
    num_samples: int = option(50_000, "Samples that the structure is learned from.", low=1)


# Recursive random fields.

FieldOptimizer = Literal[
    "lbfgs", "vp", "cd", "vp-pw", "cd-pw", "dn", "scg", "pscg", "adam", "adagrad"
]
FieldExpectation = Literal["auto", "exact", "gibbs", "map"]


@dataclass(frozen=True, kw_only=True)
class FieldInferOptions(
    OpenOptions, InferringOptions, SamplingOptions, MergeOptions, SeedOptions, JsonOptions
):  # fmt: skip
    """Inference."""

    method: str = option("auto", "How to infer.", task="field infer")


@dataclass(frozen=True, kw_only=True)
class FieldMapOptions(
    OpenOptions, MapLimitOptions, MergeOptions, SeedOptions, JsonOptions
):  # fmt: skip
    """Inference."""

    method: str = option("auto", "How to search.", task="field map")


@dataclass(frozen=True, kw_only=True)
class FieldFromOptions(LimitOptions, SeedOptions, JsonOptions):
    """Options."""

    sharpness: float = option(
        8.0, "Size of the weights below the root: how sharp connectives are.", above=0, high=1e6
    )
    others: bool = option(
        False, "Add all other predicates to every parfeature, with small weights."
    )
    num_random: int = option(0, "Parfeatures of all predicates, with small weights.", low=0)
    output: Path | None = option(
        None, "Write the field (.rrf).", flag="-o", cli_only=True, is_output=True
    )


@dataclass(frozen=True, kw_only=True)
class FieldExtractOptions(LimitOptions, JsonOptions):
    """Options."""

    threshold: float = option(1.0, "Omit smaller weights within a parfeature.", above=0)
    output: Path | None = option(
        None, "Write the formulas (.mln).", flag="-o", cli_only=True, is_output=True
    )


@dataclass(frozen=True, kw_only=True)
class FieldDrawOptions(LimitOptions, JsonOptions):
    """Options."""

    output: Path | None = option(
        None,
        "The picture: .svg, .dot, .png or .pdf (FIELD.svg).",
        flag="-o",
        cli_only=True,
        is_output=True,
    )


@dataclass(frozen=True, kw_only=True)
class FieldLearnOptions(
    LearnQueryOptions, OptimizerOptions, LimitOptions, CheckpointOptions,
    MergeOptions, SeedOptions, JsonOptions,
):  # fmt: skip
    """Learning."""

    objective: str = option("pseudo", "What to maximise.", task="field objective")
    optimizer: FieldOptimizer | None = option(None, "lbfgs where values are exact, adam elsewhere.")
    expectation: FieldExpectation = option(
        "auto",
        "Expected derivatives: by all worlds where they are few and by chains elsewhere "
        "(auto), by one of these, or by the most likely world (map, which vp and vp-pw "
        "imply).",
    )
    rate: float | None = option(None, "Of vp, cd, vp-pw, cd-pw, adam and adagrad.", above=0)
    restarts: int = option(0, "Further runs from other weights; the best is kept.", low=0)
    output: Path | None = option(
        None, "Write the learned field (.rrf).", flag="-o", cli_only=True, is_output=True
    )


@dataclass(frozen=True, kw_only=True)
class FieldScoreOptions(
    LearnQueryOptions, LikelihoodOptions, InferringOptions, MergeOptions, SeedOptions, JsonOptions
):  # fmt: skip
    """Options."""

    method: str = option("auto", "How to infer.", task="field infer")
    predictions: bool = option(True, "Leave out the measures of the query (CLL, AUC-PR, …).")


# Recipes.


@dataclass(frozen=True, kw_only=True)
class RecipeOptions(LimitOptions, SeedOptions, JsonOptions):
    """Output."""

    output: Path | None = option(
        None,
        "A new folder for the model, the data and the tables of the result.",
        flag="-o",
        cli_only=True,
        is_output=True,
    )


@dataclass(frozen=True, kw_only=True)
class ResolveOptions(RecipeOptions):
    """Resolution."""

    comparisons: Sequence[str] | str = option(
        (), "Columns to compare, with a kind or without, as in name=words (else: all columns)."
    )
    blocking: Sequence[str] | str = option(
        (),
        "A rule that proposes pairs: columns that must agree, or a condition on l and r; all: "
        "every pair (else: guessed).",
    )
    id_column: str = option("id", "The column of the ids.")
    ignore: Sequence[str] = option((), "Columns that are not compared.")
    label_column: str | None = option(None, "A column of known entities, to learn from.")
    truth_column: str | None = option(None, "A column of true entities, for scores only.")
    related: bool = option(True, "Do not allow pairs of related entities as a kind.")
    transitive: bool = option(True, "Treat pairs as independent.")
    one_to_one: bool = option(False, "Records of one table are of different entities.")
    min_probability: float = option(
        0.1, "Pairs of at least this probability connect records.", above=0, high=1
    )
    max_pairs: int = option(20_000_000, "Candidate pairs at most.", low=1)
    num_random_pairs: int = option(
        1_000_000, "Random pairs, which show how often values agree by chance.", low=1
    )
    labels: Path | None = option(
        None, "Pairs that are known: columns left, right and same (1 or 0).", cli_only=True
    )
    count: bool = option(
        False, "Count the pairs of each blocking rule, and compare none.", cli_only=True
    )
    explain: Sequence[str] = option(
        (), "Explain the pair of these two ids, as in R1,R2.", cli_only=True
    )
    plot: Path | None = option(
        None,
        "Draw weights, probabilities and, with the truth, precision and recall (.png, .svg, .pdf).",
        cli_only=True,
        is_output=True,
    )


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions(RecipeOptions):
    """Classification."""

    features: Sequence[str] = option(
        (), "Tables of pairs, an item and a feature, named after their predicates.", cli_only=True
    )
    links: Sequence[str] = option(
        (), "Tables of pairs of items, named after their predicates.", cli_only=True
    )
    id_column: str = option("id", "The column of the ids.")
    label_column: str = option("label", "The column of the classes, empty for new items.")
    truth_column: str | None = option(None, "A column of true classes, for scores only.")
    ignore: Sequence[str] = option((), "Columns of the items that are no features.")
    levels: int = option(8, "Parts that a column of numbers is cut into.", low=2)
    prior: float | None = option(
        None, "Width of the prior of feature weights (else: by cross-validation).", above=0
    )
    near_prior: float | None = option(
        None,
        "Width of the prior of features of linked items, 0: none (else: by cross-validation).",
        low=0,
    )
    link_prior: float | None = option(
        None, "Width of the prior of link weights (else: by cross-validation).", above=0
    )
    folds: int = option(3, "Parts of the labelled items in cross-validation.", low=2)
    method: str = option("auto", "How to infer.", task="infer")
    precision: float = option(0.01, "Standard error of a sampled probability.", above=0)
    max_iterations: int | None = option(None, "Iterations of learning at most.", low=1)
    explain: str | None = option(None, "Explain the class of this item.", cli_only=True)
    plot: Path | None = option(
        None,
        "Draw calibration and confusion, or the explanation (.png, .svg, .pdf).",
        cli_only=True,
        is_output=True,
    )


@dataclass(frozen=True, kw_only=True)
class LinkOptions(RecipeOptions):
    """Completion."""

    relations: Sequence[str] = option((), "Relations to complete (else: all).")
    valid: Path | None = option(
        None,
        "A table of further facts, to calibrate by (else: a part of the facts).",
        cli_only=True,
    )
    test: Path | None = option(None, "A table of facts to be found, for scores.", cli_only=True)
    max_literals: int = option(2, "Literals of a rule.", low=2, high=8)
    penalty: float | None = option(None, "Score lost for each literal.", low=0)
    held_out: float = option(
        0.1, "Share of the facts to calibrate by, without valid.", above=0, high=0.5
    )
    jobs: int | None = option(None, "Processes (default: one per core).", low=1)
    limit: int = option(100, "Predicted facts that are listed.", low=1)
    explain: str | None = option(None, "Explain a fact: HEAD,RELATION,TAIL.", cli_only=True)
    plot: Path | None = option(
        None,
        "Draw ranks and calibration, or the explanation (.png, .svg, .pdf).",
        cli_only=True,
        is_output=True,
    )

"""The options of each command and of the function behind it, one frozen dataclass each.

Fields that several commands share are declared once, in the small dataclasses at the top; the
docstring of each is the title of a group in the help. Annotations are evaluated here (there is no
`from __future__ import annotations`), since `options_of` reads them.
The options of fields and circuits are in modules of their own.

Options of the commands and functions of arithmetic circuits.

Options of the commands and functions of recursive random fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from lapis.registry.option_field import (
    Bytes,
    CommandLineOnly,
    Flag,
    Help,
    MethodOf,
    NumberPairs,
    PriorLike,
    Range,
)

# fmt: off



CountKind = Literal["exact", "ijgp"]
CountDifferences = Literal["substituted", "subtracted"]
ChainStart = Literal["data", "last", "random"]

# --- groups that commands share


@dataclass(frozen=True, kw_only=True)
class JsonOptions:
    """Output"""
    as_json: Annotated[bool, Flag("--json", alone=True), CommandLineOnly(), Help(
        "Print JSON."
    )] = False


@dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """Output"""
    random_state: Annotated[int, Flag("--seed", alone=True), Range(0), Help(
        "Seed of everything random."
    )] = 0

    @property
    def seed(self) -> int:
        """The random state; functions draw one from a generator first."""
        return self.random_state


@dataclass(frozen=True, kw_only=True)
class StrictOptions:
    """Data"""
    strict: Annotated[bool, Help("Refuse data that the model does not declare.")] = False


@dataclass(frozen=True, kw_only=True)
class MergeOptions(StrictOptions):
    """Data"""
    merge: Annotated[bool, CommandLineOnly(), Help("Read all data files as one world.")] = False


@dataclass(frozen=True, kw_only=True)
class CnfOptions:
    """Data"""
    cnf: Annotated[bool, CommandLineOnly(), Help(
        "Split formulas into clauses that share the weight, as Alchemy does."
    )] = False


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Engine"""
    engine: Annotated[str | None, Help(
        "Where joins are run: duckdb, duckdb:FILE, postgresql://…, spark, spark://… (else: "
        "here)."
    )] = None
    tables: Annotated[str | None, Help(
        "The engine's own tables as data: a schema, a folder of Parquet files, or a TOML file."
    )] = None


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """Query"""
    query: Annotated[Sequence[str] | str, Flag("-q"), Help(
        "Predicates, atoms or formulas asked for, separated by commas."
    )] = ()


@dataclass(frozen=True, kw_only=True)
class OpenOptions(QueryOptions):
    """Query"""
    open_predicates: Annotated[Sequence[str], Flag("--open"), Help(
        "Predicates that are unknown where the data is silent."
    )] = ()


@dataclass(frozen=True, kw_only=True)
class UnobservedOptions:
    """Query"""
    unobserved: Annotated[Sequence[str], Help("Predicates that the data does not show.")] = ()


@dataclass(frozen=True, kw_only=True)
class LearnQueryOptions(QueryOptions, UnobservedOptions):
    """Query"""
    query: Annotated[Sequence[str] | str, Flag("-q"), Help(
        "Predicates to predict from the others (else: all)."
    )] = ()


@dataclass(frozen=True, kw_only=True)
class ListedOptions:
    """Query"""
    only_listed: Annotated[bool, Help("Ask only about query atoms that the data mentions.")] = False


@dataclass(frozen=True, kw_only=True)
class TimeOptions:
    """Limits"""
    time_limit: Annotated[float | None, Range(0, above=True), Help(
        "Seconds after which to stop."
    )] = None


@dataclass(frozen=True, kw_only=True)
class MapTimeOptions(TimeOptions):
    """Limits"""
    time_limit: Annotated[float, Range(0, above=True), Help(
        "Seconds after which the best so far is given."
    )] = 60.0


@dataclass(frozen=True, kw_only=True)
class MemoryOptions:
    """Limits"""
    max_memory: Annotated[int | None, Bytes(), Range(0, above=True), Help(
        "Limit, as in 8GB (default: 70% of the machine)."
    )] = None


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Limits"""
    jobs: Annotated[int | None, Range(1), Help("Processes (default: one a core).")] = None


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions:
    """Limits"""
    checkpoint: Annotated[Path | None, Help(
        "Keep the state here, and go on from it if it exists."
    )] = None


@dataclass(frozen=True, kw_only=True)
class InferringOptions(TimeOptions, MemoryOptions):
    """Inference"""
    method: Annotated[str, MethodOf("infer"), Help("How to infer.")] = "auto"
    precision: Annotated[float, Range(0), Help(
        "Standard error wanted on every sampled marginal."
    )] = 0.01


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """Inference"""
    max_samples: Annotated[int, Range(1), Help(
        "Samples in all chains after warm-up, at least two each (ais: sweeps, at least one "
        "round)."
    )] = 400_000
    num_chains: Annotated[int, Range(1), Help("Chains, run on all cores.")] = 4


@dataclass(frozen=True, kw_only=True)
class RelaxOptions:
    """Inference"""
    relax: Annotated[bool, Help(
        "Break the fewest hard formulas where they contradict, and list them."
    )] = False


@dataclass(frozen=True, kw_only=True)
class SoftOptions:
    """Query"""
    soft_evidence: Annotated[
        Mapping[str, float] | None,
        NumberPairs("soft evidence", 'as in "Smokes(Anna)=0.7"', "ATOM=P"), Help(
        'A probability for an atom, as in "Smokes(Anna)=0.7".'
    )] = None


@dataclass(frozen=True, kw_only=True)
class StoreOutputOptions:
    """Engine"""
    output: Annotated[str | None, Flag("-o"), CommandLineOnly(), Help(
        "Leave answers in table:NAME, X.parquet or FOLDER/."
    )] = None


@dataclass(frozen=True, kw_only=True)
class IjgpOptions:
    """Counting"""
    counts: Annotated[CountKind, MethodOf("counts"), Help("How to count.")] = "exact"
    ibound: Annotated[int, Range(1), Help("Variables in a cluster of IJGP.")] = 2
    ijgp_iterations: Annotated[int, Range(1), Help(
        "IJGP: updates of each message at most (T)."
    )] = 50
    ijgp_tolerance: Annotated[float, Range(0, above=True), Help(
        "IJGP: relative change of a message at convergence."
    )] = 1e-4
    ijgp_damping: Annotated[float, Range(0, 0.99), Help(
        "IJGP: share of the old message kept at an update."
    )] = 0.0


@dataclass(frozen=True, kw_only=True)
class LikelihoodOptions:
    """Measures"""
    likelihood: Annotated[bool, Help("Leave out the exact log-likelihood of all facts.")] = True


@dataclass(frozen=True, kw_only=True)
class ErrorOptions:
    """Counting"""
    measure_error: Annotated[bool, Help("Count exactly too, and compare.")] = False


@dataclass(frozen=True, kw_only=True)
class ClimbOptions:
    """Learning"""
    rate: Annotated[float | None, Range(0, above=True), Help(
        "The optimiser's learning rate."
    )] = None
    prior: Annotated[str | PriorLike | None, Help(
        "none, gaussian[:width] or l1[:strength]."
    )] = None
    prior_mean: Annotated[Literal["zero", "initial"], Help(
        "Where the prior is centred: zero, or the weights in the model."
    )] = "zero"
    num_samples: Annotated[int, Range(1), Help("Samples of each chain an iteration.")] = 5
    max_iterations: Annotated[int | None, Range(1), Help("Iterations at most.")] = None
    tolerance: Annotated[float | None, Range(0, above=True), Help(
        "Where to stop: the largest gradient left."
    )] = None


@dataclass(frozen=True, kw_only=True)
class LearningOptions(IjgpOptions, ClimbOptions):
    """Learning"""
    objective: Annotated[str | None, MethodOf("objective"), Help("What to maximise.")] = None
    optimizer: Annotated[str | None, MethodOf("optimizer"), Help("How to climb.")] = None
    optimizer_options: Annotated[
        Mapping[str, float] | None, NumberPairs("an option", "as in damping=2"), Help(
        "An option of the optimiser, as in damping=2."
    )] = None
    expectation: Annotated[str, MethodOf("expectation"), Help("Expected counts.")] = "auto"
    num_steps: Annotated[int | None, Range(1), Help(
        "count-*: steps of the chains or flips of the search an iteration (N; else: from the "
        "data)."
    )] = None
    num_records: Annotated[int | None, Range(1), Help(
        "count-gibbs, count-map: worlds of a chain whose counts are averaged (K; else: from the "
        "data)."
    )] = None
    chain_start: Annotated[ChainStart | None, Help(
        "count-*: where a chain starts in an iteration: in the data, in its last world, or in a "
        "random one (count-maxwalksat)."
    )] = None
    differences: Annotated[CountDifferences, Help(
        "IJGP: how counts change with an atom: substituted (estimate the groundings with the "
        "atom) or subtracted (two estimated counts, equation 5)."
    )] = "substituted"
    margin: Annotated[float, Range(0, above=True), Help(
        "max-margin: price of a wrong atom (C)."
    )] = 1.0
    unit_formulas: Annotated[bool, Help(
        "Add a formula P(x) for each predicate without one."
    )] = False

    @property
    def of_optimizer(self) -> dict[str, float]:
        """The optimiser's own options, `rate` among them."""
        rate: dict[str, float] = {} if self.rate is None else {"rate": self.rate}
        return {**(self.optimizer_options or {}), **rate}


# --- Markov logic


@dataclass(frozen=True, kw_only=True)
class DemoOptions(JsonOptions):
    """Options"""


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """Options"""


@dataclass(frozen=True, kw_only=True)
class CheckOptions(CnfOptions, MergeOptions, JsonOptions):
    """Options"""


@dataclass(frozen=True, kw_only=True)
class CountOptions(IjgpOptions, ErrorOptions, EngineOptions, CnfOptions, MergeOptions, JsonOptions):
    """Options"""
    explain: Annotated[bool, CommandLineOnly(), Help(
        "Print the count plans, and their SQL on an engine, instead."
    )] = False


@dataclass(frozen=True, kw_only=True)
class GroundOptions(OpenOptions, MemoryOptions, CnfOptions, MergeOptions, JsonOptions):
    """Options"""
    output: Annotated[Path | None, Flag("-o"), CommandLineOnly(), Help(
        "Write the network: .wcnf, .uai or .json."
    )] = None
    cache: Annotated[Path | None, CommandLineOnly(), Help(
        "Keep and reuse groundings in this folder."
    )] = None


@dataclass(frozen=True, kw_only=True)
class PlanOptions(
    OpenOptions, SoftOptions, InferringOptions, SamplingOptions, RelaxOptions, CnfOptions,
    MergeOptions, SeedOptions, JsonOptions,
):
    """Inference"""


@dataclass(frozen=True, kw_only=True)
class InferOptions(
    OpenOptions, SoftOptions, InferringOptions, SamplingOptions, RelaxOptions, EngineOptions,
    StoreOutputOptions, JobOptions, CnfOptions, MergeOptions, SeedOptions, JsonOptions,
):
    """Inference"""
    ibound: Annotated[int | None, Range(1), Help(
        "count-gibbs: estimate counts by IJGP with this bound."
    )] = None
    bounds: Annotated[bool, Help(
        "Certified lower and upper bounds beside what is not exact."
    )] = False
    plan: Annotated[bool, CommandLineOnly(), Help(
        "Print the plan, as it was carried out, above the answer."
    )] = False
    posterior: Annotated[Path | None, CommandLineOnly(), Help(
        "Average over a posterior that learn --posterior wrote."
    )] = None
    num_draws: Annotated[int, Range(2), Help("Draws of a posterior to average over.")] = 200


@dataclass(frozen=True, kw_only=True)
class MapOptions(
    OpenOptions, SoftOptions, MapTimeOptions, MemoryOptions, RelaxOptions, EngineOptions,
    StoreOutputOptions, JobOptions, CnfOptions, MergeOptions, SeedOptions, JsonOptions,
):
    """Inference"""
    method: Annotated[str, MethodOf("map"), Help("How to search.")] = "auto"


@dataclass(frozen=True, kw_only=True)
class LiftOptions(QueryOptions, CnfOptions, MergeOptions, JsonOptions):
    """Options"""
    query: Annotated[Sequence[str] | str, Flag("-q"), Help(
        "Predicates that are unknown (else: all where the data is silent)."
    )] = ()
    method: Annotated[str, MethodOf("lift"), Help("How to sum over all worlds.")] = "auto"
    sizes: Annotated[
        Mapping[str, int] | None,
        NumberPairs("a type with its number of constants", "as in person=30000", "TYPE=N"), Help(
        "Constants of a type, as in person=30000."
    )] = None
    classes: Annotated[bool, Help("A row for each class of equally probable groundings.")] = False
    tree: Annotated[bool, CommandLineOnly(), Help("Print the circuit as a text.")] = False
    draw: Annotated[Path | None, CommandLineOnly(), Help(
        "Draw the circuit (.svg, .dot, .png, .pdf)."
    )] = None


@dataclass(frozen=True, kw_only=True)
class LearnOptions(
    LearningOptions, LearnQueryOptions, ListedOptions, ErrorOptions, EngineOptions, TimeOptions,
    MemoryOptions, CheckpointOptions, CnfOptions, MergeOptions, SeedOptions, JsonOptions,
):
    """Posterior"""
    estimate: Annotated[Literal["mode", "mean"], Help(
        "Which weights to give: the posterior's mode, or its mean."
    )] = "mode"
    posterior_method: Annotated[str, MethodOf("posterior"), Help(
        "Estimate mean: how the posterior is found."
    )] = "nuts"
    num_draws: Annotated[int, Range(10), Help("Estimate mean: draws of each chain.")] = 1000
    num_chains: Annotated[int, Range(1), Help("Estimate mean: chains.")] = 4
    level: Annotated[float, Range(0, 0.9999, above=True), Help(
        "Estimate mean: probability of the credible intervals."
    )] = 0.9
    posterior: Annotated[Path | None, CommandLineOnly(), Help(
        "Estimate mean: write the posterior (.npz) for infer --posterior."
    )] = None
    output: Annotated[Path | None, Flag("-o"), CommandLineOnly(), Help(
        "Write the learned model (.mln)."
    )] = None


@dataclass(frozen=True, kw_only=True)
class StructureOptions(
    QueryOptions, JobOptions, EngineOptions, TimeOptions, CheckpointOptions, MergeOptions,
    SeedOptions, JsonOptions,
):
    """Rules"""
    query: Annotated[Sequence[str] | str, Flag("-q"), Help(
        "Predicates to find rules for (else: all)."
    )] = ()
    output: Annotated[Path | None, Flag("-o"), CommandLineOnly(), Help(
        "Write the rules (.mln)."
    )] = None
    method: Annotated[str, MethodOf("structure"), Help("How to search.")] = "lapis"
    conditioning: Annotated[Literal["atoms", "predicates"] | None, Help(
        "What atoms are explained from: all others, or the other predicates."
    )] = None
    joint_targets: Annotated[Sequence[str] | str | None, Help(
        "Asked at once, as in actor,director; the others are given."
    )] = None
    max_literals: Annotated[int | None, Range(2, 8), Help("Literals of a rule (ω).")] = None
    max_variables: Annotated[int | None, Range(0), Help(
        "Variables of a rule (0: any number)."
    )] = None
    max_clauses: Annotated[int | None, Range(1), Help("Rules at most.")] = None
    penalty: Annotated[float | None, Range(0), Help("Score lost for each literal (π).")] = None
    shrinkage: Annotated[float | None, Range(0), Help(
        "Of weights: half of it times their squares is lost."
    )] = None
    dangling: Annotated[Literal["keep", "drop", "best"] | None, Help(
        "Rules with a variable that occurs once; best: as predicts worlds that are left out "
        "better."
    )] = None
    redundant: Annotated[Literal["keep", "drop"] | None, Help(
        "Rules that a shorter one says as well."
    )] = None
    final: Annotated[Literal["lazy", "greedy", "l1", "l2"] | None, Help(
        "How rules enter the model."
    )] = None
    sample_share: Annotated[float, Range(0, 1, above=True), Help(
        "Share of the atoms to score on (σ)."
    )] = 1.0
    cluster_prior: Annotated[float | None, Range(0), Help(
        "lhl: price of a cluster combination (λ)."
    )] = None
    min_support: Annotated[int | None, Range(0), Help(
        "lhl: true atoms in a hyperedge of a path, on average (μ)."
    )] = None
    max_atoms: Annotated[int | None, Range(0), Help(
        "lhl: atoms of a path to try it on first (ν)."
    )] = None
    max_examples: Annotated[int | None, Range(0), Help(
        "lhl: paths of the hypergraph that a path with variables is extended from (0: all, as "
        "in the paper)."
    )] = None
    first_penalty: Annotated[float | None, Range(0), Help(
        "lhl: penalty in that trial (π′)."
    )] = None
    flips: Annotated[int | None, Range(0), Help(
        "lhl: positive literals at most (else: all signs)."
    )] = None
    lifting: Annotated[Literal["lifted", "ground"] | None, Help(
        "lhl: search the lifted or the ground hypergraph."
    )] = None
    significance: Annotated[float | None, Range(0, 1, above=True), Help(
        "busl: of the χ² tests."
    )] = None
    min_weight: Annotated[float | None, Range(0), Help(
        "busl: rules of smaller weights are dropped (minWeight)."
    )] = None
    beam: Annotated[int | None, Range(1), Help("msl: clauses kept at each step.")] = None
    explain: Annotated[bool, CommandLineOnly(), Help(
        "Say each rule in words, with examples and counterexamples."
    )] = False
    draw: Annotated[Path | None, CommandLineOnly(), Help(
        "Draw the lifted hypergraph (.svg, .dot, .png, .pdf)."
    )] = None


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(
    QueryOptions, UnobservedOptions, ListedOptions, LikelihoodOptions, InferringOptions,
    CnfOptions, MergeOptions, SeedOptions, JsonOptions,
):
    """Options"""



@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(
    LearnQueryOptions, ListedOptions, InferringOptions, JobOptions, LearningOptions, CnfOptions,
    StrictOptions, SeedOptions, JsonOptions,
):
    """Folds"""
    # Options of learning and those of inference are read apart: `ibound` is one of learning.
    parts: ClassVar = (LearningOptions, InferringOptions)

    folds: Annotated[int | None, Range(2), Help(
        "Groups of data files that are tested in turn."
    )] = None
    leave_one_out: Annotated[bool, Help("Test each data file once (the default).")] = False
    generative: Annotated[bool, Help("Learn to explain everything, not only the query.")] = False
    plot: Annotated[Path | None, CommandLineOnly(), Help(
        "Draw precision-recall and calibration (.png, .svg, .pdf)."
    )] = None


# fmt: off




Header = Literal["auto", "yes", "no"]
CircuitLearner = Literal["greedy", "quick", "tree"]
CircuitParameters = Literal["auto", "F", "G", "V", "VI", "E", "P"]


@dataclass(frozen=True, kw_only=True)
class HeaderOptions:
    """Data"""
    header: Annotated[Header, Help(
        "Whether the first row of a CSV file names its columns."
    )] = "auto"


@dataclass(frozen=True, kw_only=True)
class EvidenceOptions:
    """Query"""
    evidence: Annotated[Sequence[str] | str, Help(
        "States of variables that are known, as in smoke=yes."
    )] = ()


@dataclass(frozen=True, kw_only=True)
class CircuitLearnOptions(TimeOptions, HeaderOptions, SeedOptions, JsonOptions):
    """Learning"""
    valid: Annotated[Path | None, Help(
        "Rows to score circuits on, and to choose by."
    )] = None
    edge_costs: Annotated[tuple[float, ...], Range(0), Help(
        "What an edge costs, in nats (k_e); of several, as in 1,0.1, --valid chooses. 0: no "
        "circuit is kept, only the network with decision trees."
    )] = (0.1,)
    parameter_costs: Annotated[tuple[float, ...], Range(0), Help(
        "What a parameter costs, in nats (k_p), in the same way."
    )] = (0.0,)
    prior: Annotated[str, Help(
        "Counts added to a distribution: thesis (1 for each state), libra (1 in total) or a "
        "number in total."
    )] = "libra"
    method: Annotated[CircuitLearner, Help(
        "greedy: the best split in every step. quick: nearly so. tree: a tree of hidden "
        "variables, by EM."
    )] = "quick"
    num_components: Annotated[int | None, Range(1), Help(
        "Circuits in a mixture (1); of a tree the states of a hidden variable (16)."
    )] = None
    num_starts: Annotated[int, Range(1), Help(
        "Results from different starts that are averaged."
    )] = 1
    max_edges: Annotated[int | None, Range(1), Help("Edges at most.")] = None
    output: Annotated[Path | None, Flag("-o"), CommandLineOnly(), Help(
        "Write the circuit (.npz, .ac or .dot), or the network with decision trees (.tbn)."
    )] = None
    network: Annotated[Path | None, CommandLineOnly(), Help(
        "Write the equivalent Bayesian network with decision trees."
    )] = None


@dataclass(frozen=True, kw_only=True)
class CircuitScoreOptions(HeaderOptions, JsonOptions):
    """Options"""
    per_example: Annotated[Path | None, CommandLineOnly(), Help(
        "Write the log-likelihood of each row, one a line."
    )] = None


@dataclass(frozen=True, kw_only=True)
class CircuitQueryOptions(EvidenceOptions, HeaderOptions, SeedOptions, JsonOptions):
    """Query"""
    query: Annotated[Sequence[str] | str, Flag("-q"), Help(
        "States or variables asked for, as in cancer=yes or cancer."
    )] = ()
    rows: Annotated[Path | None, CommandLineOnly(), Help(
        "Queries, one a row; what is not asked is missing."
    )] = None
    evidence_rows: Annotated[Path | None, CommandLineOnly(), Help(
        "Evidence for each of --rows."
    )] = None
    most_likely: Annotated[bool, Help(
        "The most likely states given the evidence."
    )] = False
    num_chains: Annotated[int, Range(1), Help(
        "Of a network: chains of Gibbs sampling."
    )] = 10
    burn_in: Annotated[int, Range(0), Help(
        "Of a network: sweeps of Gibbs sampling that are left out."
    )] = 100
    num_sweeps: Annotated[int, Range(1), Help(
        "Of a network: sweeps of each chain that are counted."
    )] = 1000


@dataclass(frozen=True, kw_only=True)
class CircuitSampleOptions(EvidenceOptions, SeedOptions, JsonOptions):
    """Options"""
    num_samples: Annotated[int, Flag("-n"), Range(1), Help("Samples.")] = 10
    burn_in: Annotated[int, Range(0), Help(
        "Of a network given evidence: sweeps of Gibbs sampling before a sample."
    )] = 100
    output: Annotated[Path | None, Flag("-o"), CommandLineOnly(), Help("Write a CSV file.")] = None


@dataclass(frozen=True, kw_only=True)
class CircuitInfoOptions(JsonOptions):
    """Options"""
    output: Annotated[Path | None, Flag("-o"), CommandLineOnly(), Help(
        "Write it in another form: .npz, .ac, .dot; a network .tbn."
    )] = None
    max_edges: Annotated[int, Range(1), Help(
        "Of a network: compile it to a circuit of at most this many edges, to find its size."
    )] = 1_000_000
    plot: Annotated[Path | None, CommandLineOnly(), Help(
        "Draw a small circuit (.svg, .dot, .png, .pdf)."
    )] = None


@dataclass(frozen=True, kw_only=True)
class FactorOptions(
    OpenOptions, EvidenceOptions, TimeOptions, MergeOptions, SeedOptions, JsonOptions
):
    """Options"""
    evidence: Annotated[Sequence[str] | str, Help(
        "States of a network's variables, as in smoke=yes."
    )] = ()


@dataclass(frozen=True, kw_only=True)
class CircuitOutputOptions:
    """Output"""
    output: Annotated[Path | None, Flag("-o"), CommandLineOnly(), Help(
        "Write the circuit: .npz, .ac or .dot."
    )] = None


@dataclass(frozen=True, kw_only=True)
class CircuitMarginalsOptions(FactorOptions):
    """Options"""


@dataclass(frozen=True, kw_only=True)
class CircuitCompileOptions(FactorOptions, CircuitOutputOptions):
    """Options"""
    max_edges: Annotated[int, Range(1), Help("Edges at most.")] = 1 << 26


@dataclass(frozen=True, kw_only=True)
class CircuitApproximateOptions(FactorOptions, CircuitOutputOptions):
    """Options"""
    max_edges: Annotated[int, Range(1), Help("Edges at most.")] = 10_000
    parameters: Annotated[CircuitParameters, Help(
        "How parameters are found: F (learned), G (Gibbs samples), V (variational), VI (V, its "
        "worlds weighed), E (drawn exactly) or P (particles); auto: E where that fits, else P "
        "or VI, whichever is surer."
    )] = "auto"
    num_samples: Annotated[int, Range(1), Help(
        "Samples that the structure is learned from."
    )] = 50_000


# fmt: off




FieldOptimizer = Literal[
    "lbfgs", "vp", "cd", "vp-pw", "cd-pw", "dn", "scg", "pscg", "adam", "adagrad"
]
FieldExpectation = Literal["auto", "exact", "gibbs", "map"]


@dataclass(frozen=True, kw_only=True)
class FieldInferOptions(
    OpenOptions, InferringOptions, SamplingOptions, MergeOptions, SeedOptions, JsonOptions
):
    """Inference"""
    method: Annotated[str, MethodOf("field infer"), Help("How to infer.")] = "auto"


@dataclass(frozen=True, kw_only=True)
class FieldMapOptions(
    OpenOptions, MapTimeOptions, MemoryOptions, MergeOptions, SeedOptions, JsonOptions
):
    """Inference"""
    method: Annotated[str, MethodOf("field map"), Help("How to search.")] = "auto"


@dataclass(frozen=True, kw_only=True)
class FieldFromOptions(SeedOptions):
    """Options"""
    sharpness: Annotated[float, Range(0, 1e6, above=True), Help(
        "How hard connectives are: weights below the root."
    )] = 8.0
    others: Annotated[bool, Help(
        "Give every parfeature all other predicates, with small weights."
    )] = False
    num_random: Annotated[int, Range(0), Help(
        "Parfeatures of all predicates, with small weights."
    )] = 0
    output: Annotated[Path | None, Flag("-o"), CommandLineOnly(), Help(
        "Write the field (.rrf)."
    )] = None


@dataclass(frozen=True, kw_only=True)
class FieldExtractOptions:
    """Options"""
    threshold: Annotated[float, Range(0, above=True), Help(
        "Weights below it, within a parfeature, are left out."
    )] = 1.0
    output: Annotated[Path | None, Flag("-o"), CommandLineOnly(), Help(
        "Write the formulas (.mln)."
    )] = None


@dataclass(frozen=True, kw_only=True)
class FieldDrawOptions:
    """Options"""
    output: Annotated[Path | None, Flag("-o"), CommandLineOnly(), Help(
        "The picture: .svg, .dot, .png or .pdf (FIELD.svg)."
    )] = None


@dataclass(frozen=True, kw_only=True)
class FieldLearnOptions(
    LearnQueryOptions, ClimbOptions, TimeOptions, MemoryOptions, CheckpointOptions, MergeOptions,
    SeedOptions, JsonOptions,
):
    """Learning"""
    objective: Annotated[str, MethodOf("field objective"), Help("What to maximise.")] = "pseudo"
    optimizer: Annotated[FieldOptimizer | None, Help(
        "lbfgs where values are exact, adam elsewhere."
    )] = None
    expectation: Annotated[FieldExpectation, Help(
        "Expected derivatives: by all worlds where they are few and by chains elsewhere (auto), "
        "by one of these, or by the most likely world (map, which vp and vp-pw imply)."
    )] = "auto"
    rate: Annotated[float | None, Range(0, above=True), Help(
        "Of vp, cd, vp-pw, cd-pw, adam and adagrad."
    )] = None
    restarts: Annotated[int, Range(0), Help("Climbs from other weights; the best is kept.")] = 0
    output: Annotated[Path | None, Flag("-o"), CommandLineOnly(), Help(
        "Write the learned field (.rrf)."
    )] = None


@dataclass(frozen=True, kw_only=True)
class FieldScoreOptions(
    LearnQueryOptions, LikelihoodOptions, InferringOptions, MergeOptions, SeedOptions, JsonOptions
):
    """Options"""
    method: Annotated[str, MethodOf("field infer"), Help("How to infer.")] = "auto"
    predictions: Annotated[bool, Help("Leave out CLL and AUC-PR of the query.")] = True

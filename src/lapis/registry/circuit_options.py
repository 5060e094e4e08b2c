"""Options of the commands and functions of arithmetic circuits."""

# fmt: off

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from lapis.registry.option import CommandLineOnly, Flag, Help, Range
from lapis.registry.options import (
    JsonOptions,
    MergeOptions,
    OpenOptions,
    SeedOptions,
    TimeOptions,
)

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

"""Options of the commands and functions of recursive random fields."""

# fmt: off

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from lapis.registry.option import CommandLineOnly, Flag, Help, MethodOf, Range
from lapis.registry.options import (
    CheckpointOptions,
    ClimbOptions,
    InferringOptions,
    JsonOptions,
    LearnQueryOptions,
    LikelihoodOptions,
    MapTimeOptions,
    MemoryOptions,
    MergeOptions,
    OpenOptions,
    SamplingOptions,
    SeedOptions,
    TimeOptions,
)

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

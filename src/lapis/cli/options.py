"""The options that several commands share, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A Markov logic file (.mln).")]
DataPaths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[DATA]...",
        help="Facts: .db, .db.gz, or a folder of CSV or Parquet files. Several files are several "
        "worlds, unless --merge.",
    ),
]
QueryNames = Annotated[
    list[str] | None,
    typer.Option("-q", "--query", help="Predicates or atoms asked for, separated by commas."),
]
OpenNames = Annotated[
    list[str] | None,
    typer.Option("--open", help="Predicates that are unknown where the data is silent."),
]
Merge = Annotated[bool, typer.Option("--merge", help="Read all data files as one world.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]
Method = Annotated[
    str,
    typer.Option(
        "--method", help="auto, exact, enumerate, gibbs, mcsat, tempering, bp, count-gibbs."
    ),
]
MapMethod = Annotated[
    str,
    typer.Option("--method", help="auto, ilp, lazy, maxwalksat, icm, exact or enumerate."),
]
MapTimeLimit = Annotated[
    float, typer.Option("--time-limit", help="Seconds after which the best world so far is given.")
]
Precision = Annotated[
    float, typer.Option("--precision", help="Standard error wanted on every marginal.")
]
TimeLimit = Annotated[
    float | None, typer.Option("--time-limit", help="Seconds after which to stop.")
]
MaxSamples = Annotated[int, typer.Option("--max-samples", help="Samples in all chains.")]
Chains = Annotated[int, typer.Option("--chains", help="Chains, run on all cores.")]
SoftEvidence = Annotated[
    list[str] | None,
    typer.Option("--soft", help='A probability for an atom, as in "Smokes(Anna)=0.7".'),
]
CountMethod = Annotated[str, typer.Option("--counts", help="exact, or ijgp for estimates.")]
IBound = Annotated[int, typer.Option("--ibound", help="Variables in a cluster of IJGP.")]
MeasureError = Annotated[
    bool, typer.Option("--measure-error", help="Count exactly too, and compare.")
]
Explain = Annotated[bool, typer.Option("--explain", help="Print the count plans instead.")]
NetworkPath = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Write the network: .wcnf, .uai or .json."),
]
CacheFolder = Annotated[
    Path | None, typer.Option("--cache", help="Keep and reuse groundings in this folder.")
]
MaxMemory = Annotated[
    str | None, typer.Option("--max-memory", help="Limit, as in 8GB (default: 70% of the machine).")
]
CountBound = Annotated[
    int | None,
    typer.Option("--ibound", help="count-gibbs: estimate counts by IJGP with this bound."),
]

LearnQuery = Annotated[
    list[str] | None,
    typer.Option("-q", "--query", help="Predicates to predict from the others (else: all)."),
]
ModelOut = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write the learned model (.mln).")
]
ObjectiveName = Annotated[
    str | None,
    typer.Option(
        "--objective", help="pseudo, weighted-pseudo, conditional, likelihood or max-margin."
    ),
]
OptimizerName = Annotated[
    str | None,
    typer.Option(
        "--optimizer", help="lbfgs, newton, vp, cd, vp-pw, cd-pw, dn, scg, pscg, adam or adagrad."
    ),
]
PriorText = Annotated[
    str | None, typer.Option("--prior", help="none, gaussian[:width] or l1[:strength].")
]
PriorMean = Annotated[
    str, typer.Option("--prior-mean", help="zero, or initial: the weights in the model.")
]
ExpectationName = Annotated[
    str,
    typer.Option(
        "--expectation",
        help="Expected counts: auto, exact, mcsat, gibbs, map, count-gibbs or count-map.",
    ),
]
HiddenNames = Annotated[
    list[str] | None, typer.Option("--hidden", help="Predicates that the data does not show.")
]
Listed = Annotated[
    bool, typer.Option("--listed", help="Ask only about query atoms that the data mentions.")
]
AddUnits = Annotated[
    bool, typer.Option("--units", help="Add a formula P(x) for each predicate without one.")
]
Samples = Annotated[int, typer.Option("--samples", help="Samples of each chain an iteration.")]
Rate = Annotated[float | None, typer.Option("--rate", help="Learning rate.")]
Margin = Annotated[
    float, typer.Option("--margin", help="max-margin: the price of a wrong atom (C).")
]
Iterations = Annotated[int | None, typer.Option("--iterations", help="Iterations at most.")]
Tolerance = Annotated[
    float | None, typer.Option("--tolerance", help="Where to stop: the largest gradient left.")
]
CheckpointPath = Annotated[
    Path | None,
    typer.Option("--checkpoint", help="Keep the state here, and go on from it if it exists."),
]
Folds = Annotated[
    int | None, typer.Option("--folds", help="Groups of data files that are tested in turn.")
]
LeaveOneOut = Annotated[
    bool, typer.Option("--leave-one-out", help="Test each data file once (the default).")
]
Generative = Annotated[
    bool, typer.Option("--generative", help="Learn to explain everything, not only the query.")
]
Jobs = Annotated[int | None, typer.Option("--jobs", help="Processes (default: one a core).")]
PlotPath = Annotated[
    Path | None,
    typer.Option("--plot", help="Draw precision-recall and calibration (.png, .svg, .pdf)."),
]
NoLikelihood = Annotated[
    bool, typer.Option("--no-likelihood", help="Leave out the exact log-likelihood of all facts.")
]

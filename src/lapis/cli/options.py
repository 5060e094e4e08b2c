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

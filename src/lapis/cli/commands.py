"""The commands: each reads its input, calls the library, and shows or prints the result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from lapis.cli.options import (
    AddUnits,
    AsJson,
    CacheFolder,
    Chains,
    CheckpointPath,
    CountBound,
    CountMethod,
    DataPaths,
    ExpectationName,
    Explain,
    Folds,
    Generative,
    HiddenNames,
    IBound,
    Iterations,
    Jobs,
    LearnQuery,
    LeaveOneOut,
    Listed,
    MapMethod,
    MapTimeLimit,
    Margin,
    MaxMemory,
    MaxSamples,
    MeasureError,
    Merge,
    Method,
    ModelOut,
    ModelPath,
    NetworkPath,
    NoLikelihood,
    ObjectiveName,
    OpenNames,
    OptimizerName,
    PlotPath,
    Precision,
    PriorMean,
    PriorText,
    QueryNames,
    Rate,
    Samples,
    Seed,
    SoftEvidence,
    TimeLimit,
    Tolerance,
)
from lapis.cli.sizes import parse_size
from lapis.data.database import Database
from lapis.errors import LapisError
from lapis.language import read_model

COUNT_METHODS: dict[str, Literal["exact", "ijgp"]] = {"exact": "exact", "ijgp": "ijgp"}


def demo(as_json: AsJson = False) -> None:
    """The smokers example, end to end: marginals, the most likely world, learned weights."""
    from lapis.cli.demo import run_demo

    run_demo(as_json)


def check(
    model: ModelPath, data: DataPaths = None, merge: Merge = False, as_json: AsJson = False
) -> None:
    """Parse and type-check a model and its data, warn, and explain each formula."""
    from lapis.checks import check as check_model
    from lapis.cli.render import print_json, show_report

    report = check_model(read_model(model), read_worlds(data, merge))
    if as_json:
        print_json(report.to_json())
    else:
        show_report(report)


def count(
    model: ModelPath,
    data: DataPaths = None,
    counts: CountMethod = "exact",
    ibound: IBound = 2,
    measure_error: MeasureError = False,
    explain: Explain = False,
    merge: Merge = False,
    as_json: AsJson = False,
) -> None:
    """Count the true groundings of each formula in the data."""
    from lapis.api import count as count_rules
    from lapis.cli.render import print_json, show_counts, show_text

    check_counts(counts)
    worlds = read_worlds(data, merge)
    if explain:
        from lapis.counting.rule_counts import explain_counts

        show_text(explain_counts(read_model(model), worlds or [Database({}, {})]))
        return
    rows = count_rules(
        model,
        worlds or None,
        counts=COUNT_METHODS[counts],
        ibound=ibound,
        measure_error=measure_error,
    )
    if as_json:
        print_json({"formulas": [row.to_json() for row in rows]})
    else:
        show_counts(rows)


def ground(
    model: ModelPath,
    data: DataPaths = None,
    query: QueryNames = None,
    opened: OpenNames = None,
    output: NetworkPath = None,
    cache: CacheFolder = None,
    max_memory: MaxMemory = None,
    merge: Merge = False,
    as_json: AsJson = False,
) -> None:
    """The ground network: its size, and a file of it (.wcnf, .uai or .json)."""
    from lapis.cli.ground import run_ground

    run_ground(model, read_worlds(data, merge), query or (), split(opened), output, cache,
               max_memory, as_json)  # fmt: skip


def infer(
    model: ModelPath,
    data: DataPaths = None,
    query: QueryNames = None,
    opened: OpenNames = None,
    soft: SoftEvidence = None,
    method: Method = "auto",
    precision: Precision = 0.01,
    time_limit: TimeLimit = None,
    max_samples: MaxSamples = 400_000,
    chains: Chains = 4,
    max_memory: MaxMemory = None,
    ibound: CountBound = None,
    merge: Merge = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Marginal probabilities of the unknown query atoms."""
    from lapis.api import infer as infer_marginals
    from lapis.cli.progress import progress_bar
    from lapis.cli.render import print_json, show_answer

    worlds = read_worlds(data, merge)
    with progress_bar("sampling") as progress:
        answer = infer_marginals(
            model,
            worlds or None,
            query or (),
            opened=split(opened),
            soft_evidence=parse_beliefs(soft or ()),
            method=method,
            precision=precision,
            time_limit=time_limit,
            max_samples=max_samples,
            num_chains=chains,
            random_state=seed,
            max_memory=None if max_memory is None else parse_size(max_memory),
            ibound=ibound,
            progress=progress,
        )
    if as_json:
        print_json(answer.to_json())
    else:
        show_answer(answer)


def map_(
    model: ModelPath,
    data: DataPaths = None,
    query: QueryNames = None,
    opened: OpenNames = None,
    soft: SoftEvidence = None,
    method: MapMethod = "auto",
    time_limit: MapTimeLimit = 60.0,
    max_memory: MaxMemory = None,
    merge: Merge = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """The most likely world; MODEL may also be a .wcnf file."""
    from lapis.api import map as most_likely_world
    from lapis.cli.progress import progress_bar
    from lapis.cli.render import print_json, show_world
    from lapis.cli.wcnf import is_wcnf, map_wcnf

    if is_wcnf(model):
        world = map_wcnf(model, method, time_limit, seed)
    else:
        worlds = read_worlds(data, merge)
        with progress_bar("most likely world") as progress:
            world = most_likely_world(
                model,
                worlds or None,
                query or (),
                opened=split(opened),
                soft_evidence=parse_beliefs(soft or ()),
                method=method,
                time_limit=time_limit,
                random_state=seed,
                max_memory=None if max_memory is None else parse_size(max_memory),
                progress=progress,
            )
    if as_json:
        print_json(world.to_json())
    else:
        show_world(world)


map_.__name__ = "map"


def learn(
    model: ModelPath,
    data: DataPaths = None,
    output: ModelOut = None,
    query: LearnQuery = None,
    objective: ObjectiveName = None,
    optimizer: OptimizerName = None,
    prior: PriorText = None,
    prior_mean: PriorMean = "zero",
    expectation: ExpectationName = "auto",
    counts: CountMethod = "exact",
    ibound: IBound = 2,
    measure_error: MeasureError = False,
    hidden: HiddenNames = None,
    listed: Listed = False,
    units: AddUnits = False,
    samples: Samples = 5,
    rate: Rate = None,
    margin: Margin = 1.0,
    iterations: Iterations = None,
    tolerance: Tolerance = None,
    time_limit: TimeLimit = None,
    max_memory: MaxMemory = None,
    checkpoint: CheckpointPath = None,
    merge: Merge = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Learn the weights of a model's formulas from data."""
    from lapis.api import learn as learn_weights
    from lapis.cli.learn import show_fit
    from lapis.cli.progress import progress_bar
    from lapis.cli.render import print_json

    check_counts(counts)
    worlds = read_worlds(data, merge)
    if not worlds:
        raise LapisError("nothing to learn from", code="no-data", hint="name data files")
    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        # Said now, not after hours.
        wrong = "it is a folder" if output.is_dir() else f"no folder {output.parent}"
        raise LapisError(f"{output}: cannot be written: {wrong}", code="unwritable")
    with progress_bar("learning") as progress:
        fit = learn_weights(
            model,
            worlds,
            split(query),
            objective=objective,
            optimizer=optimizer,
            prior=prior,
            prior_mean=prior_mean,
            expectation=expectation,
            counts=COUNT_METHODS[counts],
            ibound=ibound,
            measure_error=measure_error,
            hidden=split(hidden),
            listed=listed,
            units=units,
            num_samples=samples,
            rate=rate,
            margin=margin,
            max_iterations=iterations,
            tolerance=tolerance,
            time_limit=time_limit,
            max_memory=None if max_memory is None else parse_size(max_memory),
            random_state=seed,
            checkpoint=checkpoint,
            progress=progress,
        )
    if output is not None:
        fit.save(output)
    if as_json:
        print_json(fit.to_json())
    else:
        show_fit(fit)


def score(
    model: ModelPath,
    data: DataPaths = None,
    query: QueryNames = None,
    hidden: HiddenNames = None,
    listed: Listed = False,
    method: Method = "auto",
    precision: Precision = 0.01,
    time_limit: TimeLimit = None,
    max_memory: MaxMemory = None,
    no_likelihood: NoLikelihood = False,
    merge: Merge = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """How well a model explains data: (pseudo-)log-likelihood, CLL and AUC-PR."""
    from lapis.api import score as score_model
    from lapis.cli.evaluate import show_score
    from lapis.cli.render import print_json

    found = score_model(
        model,
        read_worlds(data, merge) or None,
        query or (),
        hidden=split(hidden),
        listed=listed,
        method=method,
        precision=precision,
        time_limit=time_limit,
        max_memory=None if max_memory is None else parse_size(max_memory),
        likelihood=not no_likelihood,
        random_state=seed,
    )
    if as_json:
        print_json(found.to_json())
    else:
        show_score(found)


def evaluate(
    model: ModelPath,
    data: DataPaths = None,
    query: LearnQuery = None,
    folds: Folds = None,
    leave_one_out: LeaveOneOut = False,
    generative: Generative = False,
    objective: ObjectiveName = None,
    optimizer: OptimizerName = None,
    prior: PriorText = None,
    prior_mean: PriorMean = "zero",
    expectation: ExpectationName = "auto",
    counts: CountMethod = "exact",
    ibound: IBound = 2,
    hidden: HiddenNames = None,
    listed: Listed = False,
    units: AddUnits = False,
    samples: Samples = 5,
    rate: Rate = None,
    margin: Margin = 1.0,
    iterations: Iterations = None,
    tolerance: Tolerance = None,
    method: Method = "auto",
    precision: Precision = 0.01,
    time_limit: TimeLimit = None,
    max_memory: MaxMemory = None,
    jobs: Jobs = None,
    plot: PlotPath = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Cross-validate: learn on some data files, predict the query in the others, in turn."""
    from lapis.cli.evaluate import run_evaluate

    check_counts(counts)
    learn_options = {
        "objective": objective,
        "optimizer": optimizer,
        "prior": prior,
        "prior_mean": prior_mean,
        "expectation": expectation,
        "counts": counts,
        "ibound": ibound,
        "units": units,
        "num_samples": samples,
        "rate": rate,
        "margin": margin,
        "max_iterations": iterations,
        "tolerance": tolerance,
    }
    run_evaluate(
        model,
        read_worlds(data, merge=False),
        split(query),
        folds=folds,
        leave_one_out=leave_one_out,
        learn_options=learn_options,
        generative=generative,
        hidden=split(hidden),
        listed=listed,
        method=method,
        precision=precision,
        time_limit=time_limit,
        max_memory=max_memory,
        jobs=jobs,
        seed=seed,
        plot=plot,
        as_json=as_json,
    )


ALL = (demo, check, count, ground, infer, map_, learn, score, evaluate)


def read_worlds(paths: Sequence[Path] | None, merge: bool) -> list[Database]:
    """The databases named on the command line."""
    if not paths:
        return []
    return [Database.read(*paths)] if merge else [Database.read(path) for path in paths]


def check_counts(counts: str) -> None:
    if counts not in COUNT_METHODS:
        raise LapisError(f"counts are exact or ijgp, not {counts!r}", code="counts")


def parse_beliefs(texts: Sequence[str]) -> dict[str, float]:
    """Soft evidence from texts like "Smokes(Anna)=0.7"."""
    beliefs: dict[str, float] = {}
    for text in texts:
        atom, _, value = text.rpartition("=")
        try:
            beliefs[atom.strip()] = float(value)
        except ValueError:
            raise LapisError(
                f"{text!r} is not soft evidence",
                code="soft-evidence",
                hint='as in --soft "Smokes(Anna)=0.7"',
            ) from None
    return beliefs


def split(names: Sequence[str] | None) -> list[str]:
    return [name.strip() for text in names or () for name in text.split(",") if name.strip()]

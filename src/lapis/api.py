"""The functions people call: counts, marginals, most likely worlds, weights, rules and scores.

`model` is a Model or the path of one; `data` is a Database, the path of one, None, or a list of
these. Several databases are several independent worlds, each with its own constants. Facts of
predicates that the model does not declare are left out with a warning; `strict` refuses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from lapis import operations
from lapis.problem.task import DataLike, ModelLike
from lapis.progress import Report, Wish
from lapis.registry.check import check_options, known_keywords, seed_of
from lapis.registry.options import (
    ChainStart,
    CountDifferences,
    CountKind,
    CountOptions,
    InferOptions,
    LearnOptions,
    LiftOptions,
    MapOptions,
    ScoreOptions,
    StructureOptions,
)
from lapis.results.answer import Answer
from lapis.results.counts import Counts
from lapis.results.most_likely_world import MostLikelyWorld
from lapis.stores.stored_answer import StoredAnswer

if TYPE_CHECKING:
    import threading

    from lapis.evaluation.score import Score
    from lapis.learning.fit import Fit
    from lapis.learning.objectives.priors import Prior
    from lapis.learning.weight_posterior import WeightPosterior
    from lapis.lifted.answer import Lifted
    from lapis.structure.learned_rules import LearnedRules


@known_keywords
def infer(
    model: ModelLike | WeightPosterior,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    open_predicates: Sequence[str] = (),
    soft_evidence: Mapping[str, float] | None = None,
    method: str = "auto",
    precision: float = 0.01,
    time_limit: float | None = None,
    max_samples: int = 400_000,
    num_chains: int = 4,
    random_state: int | np.random.Generator = 0,
    max_memory: int | None = None,
    ibound: int | None = None,
    bounds: bool = False,
    strict: bool = False,
    relax: bool = False,
    num_draws: int = 200,
    engine: str | None = None,
    tables: str | None = None,
    jobs: int | None = None,
    progress: Report | None = None,
    stop: Wish | threading.Event | None = None,
) -> Answer:
    """Marginal probabilities P(atom = true | data) of the unknown query atoms.

    `query` names predicates, single atoms or formulas ("Smokes(x) ^ Cancer(x)"); without it,
    every atom the data marks unknown is asked. `soft_evidence` gives probabilities of atoms, as
    an unsure observer would. `auto` is exact where that is affordable and samples the rest until
    every standard error is below `precision` (or the time or the samples are used up); `bounds`
    adds certified lower and upper bounds to what is not exact. `progress`
    is called with `lapis.progress.Progress` events; Ctrl-C and `stop` (a callable or an event) end
    sampling with what there is, marked interrupted. Raises TooLarge where the method cannot do it
    within its limits.

    `engine` names a database or cluster that grounds the rules and finds the components, which its
    tasks or `jobs` processes here then solve (docs/scale.md), and `tables` which of its tables are
    the data. `infer_to_store` leaves the answer there.

    `model` may be the posterior of a model's weights (`fit.posterior` of `learn` with `estimate`
    "mean"): marginals are then averaged over about `num_draws` of its draws, each answered by
    `method`, and standard errors are those of the average.

    >>> import lapis
    >>> model = lapis.parse("H(i)\\nS(o)\\ni = {A}\\no = {B}\\n1 H(x) ^ S(y)")
    >>> answer = lapis.infer(model, query=["H", "S"])
    >>> answer.exact, round(answer["H(A)"], 4)
    (True, 0.6502)
    """
    options = InferOptions(
        query=query,
        open_predicates=open_predicates,
        soft_evidence=soft_evidence,
        method=method,
        precision=precision,
        time_limit=time_limit,
        max_samples=max_samples,
        num_chains=num_chains,
        random_state=seed_of(random_state),
        max_memory=max_memory,
        ibound=ibound,
        bounds=bounds,
        strict=strict,
        relax=relax,
        num_draws=num_draws,
        engine=engine,
        tables=tables,
        jobs=jobs,
    )
    check_options(options)
    return operations.infer(model, data, options, progress, stop)


@known_keywords
def infer_to_store(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    output: str,
    open_predicates: Sequence[str] = (),
    soft_evidence: Mapping[str, float] | None = None,
    method: str = "auto",
    precision: float = 0.01,
    time_limit: float | None = None,
    max_samples: int = 400_000,
    num_chains: int = 4,
    random_state: int | np.random.Generator = 0,
    max_memory: int | None = None,
    strict: bool = False,
    engine: str | None = None,
    tables: str | None = None,
    jobs: int | None = None,
    progress: Report | None = None,
    stop: Wish | threading.Event | None = None,
) -> StoredAnswer:
    """Marginal probabilities as by `infer`, left in a store or written from there.

    `output` is a table of the engine ("table:NAME"), a file ("FILE.parquet") or a folder of Parquet
    files ("FOLDER/"). The engine is the one named by `engine`, or the one that has the data.
    """
    options = InferOptions(
        query=query,
        open_predicates=open_predicates,
        soft_evidence=soft_evidence,
        method=method,
        precision=precision,
        time_limit=time_limit,
        max_samples=max_samples,
        num_chains=num_chains,
        random_state=seed_of(random_state),
        max_memory=max_memory,
        strict=strict,
        engine=engine,
        tables=tables,
        jobs=jobs,
    )
    check_options(options)
    return operations.infer_to_store(model, data, options, output, progress, stop)


@known_keywords
def map(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    open_predicates: Sequence[str] = (),
    soft_evidence: Mapping[str, float] | None = None,
    method: str = "auto",
    time_limit: float = 60.0,
    random_state: int | np.random.Generator = 0,
    max_memory: int | None = None,
    strict: bool = False,
    relax: bool = False,
    engine: str | None = None,
    tables: str | None = None,
    jobs: int | None = None,
    progress: Report | None = None,
    stop: Wish | threading.Event | None = None,
) -> MostLikelyWorld:
    """A most likely truth assignment to the unknown atoms, given the data.

    `optimal` says whether it is proven; if not, `bound` and `gap` say how much better another
    world could be. `engine`, `tables` and `jobs` are as for `infer`; there the time limit
    is for each component.

    >>> import lapis
    >>> model = lapis.parse("t = {A, B}\\nP(t)\\n2 P(A)\\n-1 P(B)")
    >>> lapis.map(model, query="P").true_atoms
    ['P(A)']
    """
    options = MapOptions(
        query=query,
        open_predicates=open_predicates,
        soft_evidence=soft_evidence,
        method=method,
        time_limit=time_limit,
        random_state=seed_of(random_state),
        max_memory=max_memory,
        strict=strict,
        relax=relax,
        engine=engine,
        tables=tables,
        jobs=jobs,
    )
    check_options(options)
    return operations.map(model, data, options, progress, stop)


@known_keywords
def map_to_store(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    output: str,
    open_predicates: Sequence[str] = (),
    soft_evidence: Mapping[str, float] | None = None,
    method: str = "auto",
    time_limit: float = 60.0,
    random_state: int | np.random.Generator = 0,
    max_memory: int | None = None,
    strict: bool = False,
    engine: str | None = None,
    tables: str | None = None,
    jobs: int | None = None,
    progress: Report | None = None,
    stop: Wish | threading.Event | None = None,
) -> StoredAnswer:
    """A most likely world as by `map`, left in a store or written from there.

    `output` is as for `infer_to_store`.
    """
    options = MapOptions(
        query=query,
        open_predicates=open_predicates,
        soft_evidence=soft_evidence,
        method=method,
        time_limit=time_limit,
        random_state=seed_of(random_state),
        max_memory=max_memory,
        strict=strict,
        engine=engine,
        tables=tables,
        jobs=jobs,
    )
    check_options(options)
    return operations.map_to_store(model, data, options, output, progress, stop)


@known_keywords
def lift(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    method: str = "auto",
    sizes: Mapping[str, int] | None = None,
    classes: bool = False,
    strict: bool = False,
) -> Lifted:
    """log Z and the expected count of every formula, in time polynomial in the domains' sizes.

    The sum runs over all worlds that agree with the data: every predicate is open where the data is
    silent, or only those of the `query`. `sizes` gives types more constants than model and data
    name, at no cost. `classes` tells the groundings of a formula apart that may differ in
    probability. The result has the circuit as text (`tree`) and as a picture (`draw`). Raises
    TooLarge where the model cannot be lifted, and says which formulas are why.

    >>> import lapis
    >>> model = lapis.parse("Smokes(person)\\nFriends(person, person)\\n"
    ...                     "1 Smokes(x) ^ Friends(x, y) => Smokes(y)")
    >>> round(lapis.lift(model, sizes={"person": 10_000}).log_partition, 5)
    169314718.74914
    """
    options = LiftOptions(
        query=query,
        method=method,
        sizes=sizes,
        classes=classes,
        strict=strict,
    )
    check_options(options)
    return operations.lift(model, data, options)


@known_keywords
def count(
    model: ModelLike,
    data: DataLike = None,
    *,
    counts: CountKind = "exact",
    ibound: int = 2,
    ijgp_iterations: int = 50,
    ijgp_tolerance: float = 1e-4,
    ijgp_damping: float = 0.0,
    measure_error: bool = False,
    engine: str | None = None,
    tables: str | None = None,
    strict: bool = False,
    progress: Report | None = None,
) -> Counts:
    """True groundings of each formula in the data, all predicates closed.

    Several worlds are added up; formulas with + variables have a row for each constant. With
    counts="ijgp" they are estimated by IJGP(ibound), whose messages are updated at most
    `ijgp_iterations` times each, until none changes by more than `ijgp_tolerance`; `ijgp_damping`
    is the share of the old message that an update keeps. With an `engine` ("duckdb:facts.duckdb",
    "postgresql://…", "spark") they are counted there, and `tables` (a schema, a folder of Parquet
    files, a TOML file) says which of its tables are the data.

    >>> import lapis
    >>> model = lapis.parse("Smokes(person)\\nFriends(person, person)\\n"
    ...                     "1 Friends(x, y) ^ Smokes(x) => Smokes(y)")
    >>> data = lapis.Database.parse("Smokes(Anna) Friends(Anna,Bob) Friends(Bob,Anna)")
    >>> [(row.true, row.groundings) for row in lapis.count(model, data)]
    [(3, 4)]
    """
    options = CountOptions(
        counts=counts,
        ibound=ibound,
        ijgp_iterations=ijgp_iterations,
        ijgp_tolerance=ijgp_tolerance,
        ijgp_damping=ijgp_damping,
        measure_error=measure_error,
        engine=engine,
        tables=tables,
        strict=strict,
    )
    check_options(options)
    return operations.count(model, data, options, progress)


@known_keywords
def score(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    unobserved: Sequence[str] = (),
    only_listed: bool = False,
    method: str = "auto",
    precision: float = 0.01,
    time_limit: float | None = None,
    max_memory: int | None = None,
    likelihood: bool = True,
    strict: bool = False,
    random_state: int | np.random.Generator = 0,
    progress: Report | None = None,
    stop: Wish | threading.Event | None = None,
) -> Score:
    """How well the model explains data: likelihood, pseudo-likelihood, CLL and AUC-PR.

    The (pseudo-)log-likelihood is that of all atoms; CLL and AUC-PR are those of the atoms of
    the query predicates, whose facts are hidden and predicted from the rest by `method`, as
    `infer` does. `only_listed` asks only about the query atoms that the data mentions, `unobserved`
    names predicates the data does not show. `likelihood=False` leaves the log-likelihood out, which
    is exact or nothing and can take long.
    """
    options = ScoreOptions(
        query=query,
        unobserved=unobserved,
        only_listed=only_listed,
        method=method,
        precision=precision,
        time_limit=time_limit,
        max_memory=max_memory,
        likelihood=likelihood,
        strict=strict,
        random_state=seed_of(random_state),
    )
    check_options(options)
    return operations.score(model, data, options, progress, stop)


@known_keywords
def learn(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    objective: str | None = None,
    optimizer: str | None = None,
    optimizer_options: Mapping[str, float] | None = None,
    prior: Prior | str | None = None,
    prior_mean: Literal["zero", "initial"] = "zero",
    expectation: str = "auto",
    counts: CountKind = "exact",
    measure_error: bool = False,
    ibound: int = 2,
    ijgp_iterations: int = 50,
    ijgp_tolerance: float = 1e-4,
    ijgp_damping: float = 0.0,
    differences: CountDifferences = "substituted",
    num_steps: int | None = None,
    num_records: int | None = None,
    chain_start: ChainStart | None = None,
    unobserved: Sequence[str] = (),
    only_listed: bool = False,
    unit_formulas: bool = False,
    num_samples: int = 5,
    rate: float | None = None,
    margin: float = 1.0,
    max_iterations: int | None = None,
    tolerance: float | None = None,
    time_limit: float | None = None,
    max_memory: int | None = None,
    random_state: int | np.random.Generator = 0,
    checkpoint: str | Path | None = None,
    engine: str | None = None,
    tables: str | None = None,
    estimate: Literal["mode", "mean"] = "mode",
    posterior_method: str = "nuts",
    num_draws: int = 1000,
    num_chains: int = 4,
    level: float = 0.9,
    strict: bool = False,
    progress: Report | None = None,
    stop: Wish | threading.Event | None = None,
) -> Fit:
    """Learn the weights of a model's soft rules from data; rules marked @fixed keep theirs.

    Without a query, all atoms are explained (generative learning, by pseudo-likelihood unless
    `objective` says otherwise); with one, the query predicates given the others. Weights written
    in the model are where the search starts. `unobserved` names predicates the data does not show,
    `only_listed` asks only about the query atoms that the data mentions, `unit_formulas` adds a
    formula `P(x)` for predicates without one. `lapis.methods` lists objectives, expectations and
    optimisers, with the options of each (`optimizer_options={"damping": 2}`).

    With an expectation by counts ("count-gibbs", "count-map", "count-maxwalksat") an iteration
    makes `num_steps` steps or flips, averages the counts of `num_records` worlds and starts in the
    world `chain_start` names. With counts="ijgp" counts are estimated as by `count`, and
    `differences` says how their change with an atom is (docs/approximate-counting.md).

    With an `engine` ("duckdb",
    "postgresql://…", "spark") the (weighted) pseudo-likelihood is counted there; only classes of
    atoms come back, and the weights are the same; `tables` says which of its tables are the data.

    `estimate` "mean" gives the means of the posterior Pr(weights | data) instead of its mode, and
    `fit.posterior` the posterior: `num_draws` draws of each of `num_chains` chains by
    `posterior_method`, credible intervals of probability `level`. It needs a likelihood with exact
    values, and raises LapisError or TooLarge where there is none.

    >>> import lapis
    >>> model = lapis.parse("Smokes(person)\\nCancer(person)\\nSmokes(x) => Cancer(x)")
    >>> data = lapis.Database.parse("Smokes(A) Cancer(A) Smokes(B) Cancer(B) Smokes(C) !Cancer(C)")
    >>> fit = lapis.learn(model, data, "Cancer", prior="none")
    >>> round(fit["Smokes(x) => Cancer(x)"], 4)  # log 2: two of three smokers
    0.6931
    """
    options = LearnOptions(
        query=query,
        objective=objective,
        optimizer=optimizer,
        optimizer_options=optimizer_options,
        prior=prior,
        prior_mean=prior_mean,
        expectation=expectation,
        counts=counts,
        measure_error=measure_error,
        ibound=ibound,
        ijgp_iterations=ijgp_iterations,
        ijgp_tolerance=ijgp_tolerance,
        ijgp_damping=ijgp_damping,
        differences=differences,
        num_steps=num_steps,
        num_records=num_records,
        chain_start=chain_start,
        unobserved=unobserved,
        only_listed=only_listed,
        unit_formulas=unit_formulas,
        num_samples=num_samples,
        rate=rate,
        margin=margin,
        max_iterations=max_iterations,
        tolerance=tolerance,
        time_limit=time_limit,
        max_memory=max_memory,
        random_state=seed_of(random_state),
        checkpoint=Path(checkpoint) if isinstance(checkpoint, str) else checkpoint,
        engine=engine,
        tables=tables,
        estimate=estimate,
        posterior_method=posterior_method,
        num_draws=num_draws,
        num_chains=num_chains,
        level=level,
        strict=strict,
    )
    check_options(options)
    return operations.learn(model, data, options, progress, stop)


@known_keywords
def learn_structure(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    method: str = "lapis",
    conditioning: Literal["atoms", "predicates"] | None = None,
    joint_targets: Sequence[str] | str | None = None,
    max_literals: int | None = None,
    max_variables: int | None = None,
    max_clauses: int | None = None,
    penalty: float | None = None,
    shrinkage: float | None = None,
    dangling: Literal["keep", "drop", "best"] | None = None,
    redundant: Literal["keep", "drop"] | None = None,
    final: Literal["lazy", "greedy", "l1", "l2"] | None = None,
    sample_share: float = 1.0,
    cluster_prior: float | None = None,
    min_support: int | None = None,
    max_atoms: int | None = None,
    max_examples: int | None = None,
    first_penalty: float | None = None,
    flips: int | None = None,
    lifting: Literal["lifted", "ground"] | None = None,
    significance: float | None = None,
    min_weight: float | None = None,
    beam: int | None = None,
    jobs: int | None = None,
    time_limit: float | None = None,
    checkpoint: str | Path | None = None,
    engine: str | None = None,
    tables: str | None = None,
    random_state: int | np.random.Generator = 0,
    strict: bool = False,
    progress: Report | None = None,
    stop: Wish | threading.Event | None = None,
) -> LearnedRules:
    """Learn rules from data; the model declares the predicates.

    With a query, only rules for its predicates are sought, given all other predicates (by `lapis`;
    `conditioning="atoms"` takes their own other atoms too). Scores are weighted
    pseudo-log-likelihoods, exact on all atoms of the data: of each atom given all others, or given
    the other predicates (`conditioning="predicates"`), but the `joint_targets` of its own group.
    What is None is chosen by the method (`lapis.methods` lists them with the options that each
    reads). Ctrl-C, `stop` and `time_limit` end the search with the rules so far, marked
    interrupted; resumed from its checkpoint, a search ends with the rules of one that was never
    stopped. With an `engine` ("duckdb", "postgresql://…") clauses are scored there, by one process;
    `tables` says which of its tables are the data.

    >>> import lapis
    >>> model = lapis.parse("Smokes(person)\\nCancer(person)")
    >>> facts = [f"Smokes(P{i})" for i in range(40)] + [f"Cancer(P{i})" for i in range(3, 42)]
    >>> people = " ".join(f"!Smokes(P{i})" for i in range(40, 80))
    >>> found = lapis.learn_structure(model, lapis.Database.parse(" ".join(facts) + " " + people))
    >>> found.rules[0].text
    'Smokes(p) => Cancer(p)'
    """
    options = StructureOptions(
        query=query,
        method=method,
        conditioning=conditioning,
        joint_targets=joint_targets,
        max_literals=max_literals,
        max_variables=max_variables,
        max_clauses=max_clauses,
        penalty=penalty,
        shrinkage=shrinkage,
        dangling=dangling,
        redundant=redundant,
        final=final,
        sample_share=sample_share,
        cluster_prior=cluster_prior,
        min_support=min_support,
        max_atoms=max_atoms,
        max_examples=max_examples,
        first_penalty=first_penalty,
        flips=flips,
        lifting=lifting,
        significance=significance,
        min_weight=min_weight,
        beam=beam,
        jobs=jobs,
        time_limit=time_limit,
        checkpoint=Path(checkpoint) if isinstance(checkpoint, str) else checkpoint,
        engine=engine,
        tables=tables,
        random_state=seed_of(random_state),
        strict=strict,
    )
    check_options(options)
    return operations.learn_structure(model, data, options, progress, stop)

"""The public functions: counts, marginals, most likely worlds, weights, rules and scores.

`model` is a Model or the path of one; `data` is a Database, the path of one, None, or a list of
these. Several databases are independent worlds, each with its own constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from lapis import operations
from lapis.problem.state_names import EvidenceRows, StatesLike, list_states, split_rows
from lapis.problem.task import DataLike, ModelLike
from lapis.registry.method_table import check_options, front_door, seed_of
from lapis.registry.options import (
    ChainStart,
    CountDifferences,
    CountKind,
    CountOptions,
    ExplainOptions,
    FactsWithout,
    InferOptions,
    LearnOptions,
    LiftOptions,
    MapOptions,
    Missing,
    PlanOptions,
    ScoreOptions,
    SoftAs,
    StructureOptions,
)
from lapis.results.answer import Answer, Counts, MostLikelyWorld, WorldValues
from lapis.results.atom_groups import Key
from lapis.results.explanation import Explanation
from lapis.results.plan_report import PlanReport
from lapis.runtime.progress import StopCallback
from lapis.runtime.progress_bars import ProgressOption, as_report
from lapis.stores.stored_answer import StoredAnswer

if TYPE_CHECKING:
    import threading

    from lapis.evaluation.score import Score
    from lapis.learning.fit import Fit
    from lapis.learning.objectives.priors import Prior
    from lapis.learning.weight_posterior import WeightPosterior
    from lapis.lifted.lifted_answer import Lifted
    from lapis.structure.learned_rules import LearnedRules


@front_door
def infer(
    model: ModelLike | WeightPosterior,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    open_predicates: Sequence[str] = (),
    evidence: StatesLike | EvidenceRows = (),
    only_listed: bool = False,
    soft_evidence: Mapping[str, float] | None = None,
    soft_as: SoftAs = "virtual",
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
    missing: Missing = "error",
    relax: bool = False,
    num_draws: int = 200,
    engine: str | None = None,
    tables: str | None = None,
    jobs: int | None = None,
    progress: ProgressOption = True,
    stop: StopCallback | threading.Event | None = None,
) -> Answer:
    """Infer marginal probabilities P(atom = true | data) of the unknown query atoms.

    Parameters
    ----------
    model
        A model, the path of one, or a posterior of weights (`fit.posterior` of `learn` with
        `estimate` "mean"). Marginals are then averaged over its draws, each answered by `method`,
        and standard errors are those of the average.
    data
        Facts: a database, the path of one, None, or a list of these as independent worlds.
    query
        Predicates, atoms or formulas ("P(x) ^ Q(x)"); if empty, the atoms marked unknown (?).
    open_predicates
        Further predicates whose atoms are unknown unless the data states them.
    evidence
        Facts beside the data ("Smokes(Anna), !Cancer(Bob)"), or the states of variables of a
        network: {"smoke": "yes"} or "smoke=yes". A frame with a column for each observed variable,
        or a list of dictionaries, is a question a row: the answer has a world for each, "1" first.
    only_listed
        Ask only the query atoms that the data marks unknown (?P(A)); the others are as in the data,
        false if it does not state them.
    soft_evidence
        Probabilities of atoms, as in {"Smokes(Anna)": 0.7}.
    soft_as
        What soft evidence states: "virtual" (an uncertain observation, which multiplies the odds),
        or "posterior" (the probability of the atom given all evidence; weights are fitted).
    method
        Name of a method (`lapis.methods`); "auto" is exact if affordable and samples the rest.
    precision
        Largest standard error of a sampled marginal.
    time_limit
        Seconds after which the result so far is returned, marked interrupted.
    max_samples
        Number of samples in all chains after warm-up.
    num_chains
        Number of chains, run on all cores.
    random_state
        Seed of everything random, or a generator to draw one from.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    ibound
        Method "count-gibbs": estimate counts by IJGP with this bound.
    bounds
        Whether to add certified lower and upper bounds to marginals that are not exact.
    strict
        Refuse facts of undeclared predicates, which are ignored with a warning otherwise.
    missing
        What a number means that the data lack and a formula needs: "error", or "skip" (such
        groundings are left out).
    relax
        Violate the fewest hard formulas if they contradict each other, and list them.
    num_draws
        Number of draws of a posterior that are averaged over.
    engine
        A database or cluster ("duckdb", "postgresql://…", "spark") that grounds the rules and finds
        the components. Tasks of the cluster or `jobs` local processes solve them.
    tables
        The engine's own tables as data: a schema, a folder of Parquet files, or a TOML file.
    jobs
        Number of processes; one for each core if absent.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.
    stop
        A callable or an event; if true, the result so far is returned, marked interrupted.

    Returns
    -------
    Answer
        A probability for each atom, how it was found, and diagnostics.

    Raises
    ------
    LapisError
        If an input or an option is wrong, or the hard formulas contradict each other or the data.
    TooLarge
        If the method cannot answer within its limits.

    Examples
    --------
    >>> import lapis
    >>> model = lapis.parse("H(i)\\nS(o)\\ni = {A}\\no = {B}\\n1 H(x) ^ S(y)")
    >>> answer = lapis.infer(model, query=["H", "S"])
    >>> answer.exact, round(answer["H(A)"], 4)
    (True, 0.6502)
    """
    states, rows = split_rows(evidence)
    options = InferOptions(
        query=query,
        open_predicates=open_predicates,
        evidence=list_states(states),
        only_listed=only_listed,
        soft_evidence=soft_evidence,
        soft_as=soft_as,
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
        missing=missing,
        relax=relax,
        num_draws=num_draws,
        engine=engine,
        tables=tables,
        jobs=jobs,
    )
    check_options(options)
    if rows is not None:
        return operations.infer_rows(model, data, rows, options, as_report(progress), stop)
    return operations.infer(model, data, options, as_report(progress), stop)


@front_door
def plan(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    open_predicates: Sequence[str] = (),
    evidence: StatesLike = (),
    only_listed: bool = False,
    soft_evidence: Mapping[str, float] | None = None,
    soft_as: SoftAs = "virtual",
    method: str = "auto",
    precision: float = 0.01,
    time_limit: float | None = None,
    max_samples: int = 400_000,
    num_chains: int = 4,
    random_state: int | np.random.Generator = 0,
    max_memory: int | None = None,
    strict: bool = False,
    missing: Missing = "error",
    relax: bool = False,
    progress: ProgressOption = True,
) -> PlanReport:
    """Plan inference: which solver `infer` uses for which components, at what cost and why.

    Nothing is solved. The model is grounded, unless lifting comes first.

    Parameters
    ----------
    model
        A model or the path of one.
    data
        Facts: a database, the path of one, None, or a list of these as independent worlds.
    query
        Predicates, atoms or formulas ("P(x) ^ Q(x)"); if empty, the atoms marked unknown (?).
    open_predicates
        Further predicates whose atoms are unknown unless the data states them.
    evidence
        Facts beside the data ("Smokes(Anna), !Cancer(Bob)"), or the states of variables of a
        network: {"smoke": "yes"} or "smoke=yes".
    only_listed
        Ask only the query atoms that the data marks unknown (?P(A)); the others are as in the data,
        false if it does not state them.
    soft_evidence
        Probabilities of atoms, as in {"Smokes(Anna)": 0.7}.
    soft_as
        What soft evidence states: "virtual" (an uncertain observation, which multiplies the odds),
        or "posterior" (the probability of the atom given all evidence; weights are fitted).
    method
        Name of a method (`lapis.methods`); "auto" is exact if affordable and samples the rest.
    precision
        Largest standard error of a sampled marginal.
    time_limit
        Seconds that `infer` would be given.
    max_samples
        Number of samples in all chains after warm-up.
    num_chains
        Number of chains, run on all cores.
    random_state
        Seed of everything random, or a generator to draw one from.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    strict
        Refuse facts of undeclared predicates, which are ignored with a warning otherwise.
    missing
        What a number means that the data lack and a formula needs: "error", or "skip" (such
        groundings are left out).
    relax
        Violate the fewest hard formulas if they contradict each other, and list them.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.

    Returns
    -------
    PlanReport
        The steps. A step with several solvers chooses among them at run time; `answer.plan` is the
        plan as carried out.

    Raises
    ------
    LapisError
        If an input or an option is wrong, or the hard formulas contradict each other or the data.
    TooLarge
        If the ground network does not fit in memory.

    Examples
    --------
    >>> import lapis
    >>> model = lapis.parse("H(i)\\nS(o)\\ni = {A}\\no = {B}\\n1 H(x) ^ S(y)")
    >>> [step.solvers for step in lapis.plan(model, query=["H", "S"]).rows]
    [('ground',), ('enumerate',)]
    """
    options = PlanOptions(
        query=query,
        open_predicates=open_predicates,
        evidence=list_states(evidence),
        only_listed=only_listed,
        soft_evidence=soft_evidence,
        soft_as=soft_as,
        method=method,
        precision=precision,
        time_limit=time_limit,
        max_samples=max_samples,
        num_chains=num_chains,
        random_state=seed_of(random_state),
        max_memory=max_memory,
        strict=strict,
        missing=missing,
        relax=relax,
    )
    check_options(options)
    return operations.plan(model, data, options, as_report(progress))


@front_door
def explain(
    model: ModelLike,
    data: DataLike,
    atom: Key,
    query: Sequence[str] | str = (),
    *,
    world: WorldValues | None = None,
    change_to: float | None = None,
    facts: FactsWithout = "removed",
    fit: Fit | None = None,
    open_predicates: Sequence[str] = (),
    evidence: StatesLike = (),
    only_listed: bool = False,
    soft_evidence: Mapping[str, float] | None = None,
    soft_as: SoftAs = "virtual",
    time_limit: float | None = None,
    max_memory: int | None = None,
    strict: bool = False,
    random_state: int | np.random.Generator = 0,
) -> Explanation:
    """Explain why an atom or a ground formula has its probability.

    Only what is near the atom is grounded and inferred. `answer.explain` does the same for an
    answer that there is already.

    Parameters
    ----------
    model
        A model or the path of one.
    data
        Facts: a database, the path of one, None, or a list of these as independent worlds.
    atom
        An atom ("Smokes(Anna)"), a formula over atoms ("Smokes(Anna) ^ !Cancer(Anna)"), or the name
        of its data and its text if there are several worlds.
    query
        Predicates, atoms or formulas that are inferred, as for `infer`.
    world
        The world that contributions refer to: truth values of atoms, the true atoms, or a most
        likely world; the most likely one if absent.
    change_to
        A probability: find a smallest set of facts whose change moves the atom across it.
    facts
        What becomes of a fact that is taken away: "removed" (as if the data were silent), "unknown"
        or "false".
    fit
        The `Fit` that the weights are from: its standard errors give one of the probability.
    open_predicates
        Further predicates whose atoms are unknown unless the data states them.
    evidence
        Facts beside the data ("Smokes(Anna), !Cancer(Bob)").
    only_listed
        Infer only the query atoms that the data marks unknown (?P(A)).
    soft_evidence
        Probabilities of atoms, as in {"Smokes(Anna)": 0.7}.
    soft_as
        What soft evidence states: "virtual" (an uncertain observation, which multiplies the odds),
        or "posterior" (the probability of the atom given all evidence; weights are fitted).
    time_limit
        Seconds after which the call ends with an error.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    strict
        Refuse facts of undeclared predicates, which are ignored with a warning otherwise.
    random_state
        Seed of everything random, or a generator to draw one from.

    Returns
    -------
    Explanation
        What ground formulas add, what holds without facts and rules, and derivatives.

    Raises
    ------
    LapisError
        If an input or an option is wrong, or the text is not a ground atom or formula.
    TooLarge
        If too many ground formulas touch the atom.

    Examples
    --------
    >>> import lapis
    >>> model = lapis.parse("S(p)\\nF(p, p)\\n2 F(x, y) ^ S(x) => S(y)")
    >>> data = lapis.Database.parse("F(Anna, Bob) S(Anna)")
    >>> found = lapis.explain(model, data, "S(Bob)", query="S")
    >>> [(row.log_odds, row.because) for row in found.contributions]
    [(2.0, ('F(Anna,Bob)', 'S(Anna)'))]
    """
    options = ExplainOptions(
        query=query,
        change_to=change_to,
        facts=facts,
        open_predicates=open_predicates,
        evidence=list_states(evidence),
        only_listed=only_listed,
        soft_evidence=soft_evidence,
        soft_as=soft_as,
        time_limit=time_limit,
        max_memory=max_memory,
        strict=strict,
        random_state=seed_of(random_state),
    )
    check_options(options)
    return operations.explain(model, data, atom, options, world, fit)


@front_door
def infer_to_store(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    output: str,
    open_predicates: Sequence[str] = (),
    evidence: StatesLike = (),
    only_listed: bool = False,
    soft_evidence: Mapping[str, float] | None = None,
    soft_as: SoftAs = "virtual",
    method: str = "auto",
    precision: float = 0.01,
    time_limit: float | None = None,
    max_samples: int = 400_000,
    num_chains: int = 4,
    random_state: int | np.random.Generator = 0,
    max_memory: int | None = None,
    strict: bool = False,
    missing: Missing = "error",
    engine: str | None = None,
    tables: str | None = None,
    jobs: int | None = None,
    progress: ProgressOption = True,
    stop: StopCallback | threading.Event | None = None,
) -> StoredAnswer:
    """Infer marginal probabilities as by `infer`, and leave them in a store.

    Parameters
    ----------
    model
        A model or the path of one.
    data
        Facts: a database, the path of one, None, or a list of these as independent worlds.
    query
        Predicates, atoms or formulas ("P(x) ^ Q(x)"); if empty, the atoms marked unknown (?).
    output
        A table of the engine ("table:NAME"), a file ("FILE.parquet") or a folder of Parquet files
        ("FOLDER/").
    open_predicates
        Further predicates whose atoms are unknown unless the data states them.
    evidence
        Facts beside the data ("Smokes(Anna), !Cancer(Bob)"), or the states of variables of a
        network: {"smoke": "yes"} or "smoke=yes".
    only_listed
        Ask only the query atoms that the data marks unknown (?P(A)); the others are as in the data,
        false if it does not state them.
    soft_evidence
        Probabilities of atoms, as in {"Smokes(Anna)": 0.7}.
    soft_as
        What soft evidence states: "virtual" (an uncertain observation, which multiplies the odds),
        or "posterior" (the probability of the atom given all evidence; weights are fitted).
    method
        Name of a method (`lapis.methods`); "auto" is exact if affordable and samples the rest.
    precision
        Largest standard error of a sampled marginal.
    time_limit
        Seconds after which the result so far is returned, marked interrupted.
    max_samples
        Number of samples in all chains after warm-up.
    num_chains
        Number of chains, run on all cores.
    random_state
        Seed of everything random, or a generator to draw one from.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    strict
        Refuse facts of undeclared predicates, which are ignored with a warning otherwise.
    missing
        What a number means that the data lack and a formula needs: "error", or "skip" (such
        groundings are left out).
    engine
        The database or cluster; the one that has the data if absent.
    tables
        The engine's own tables as data: a schema, a folder of Parquet files, or a TOML file.
    jobs
        Number of processes; one for each core if absent.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.
    stop
        A callable or an event; if true, the result so far is returned, marked interrupted.

    Returns
    -------
    StoredAnswer
        The place of the answer, and its diagnostics.

    Raises
    ------
    LapisError
        If an input or an option is wrong, or the hard formulas contradict each other or the data.
    TooLarge
        If the method cannot answer within its limits.
    """
    options = InferOptions(
        query=query,
        open_predicates=open_predicates,
        evidence=list_states(evidence),
        only_listed=only_listed,
        soft_evidence=soft_evidence,
        soft_as=soft_as,
        method=method,
        precision=precision,
        time_limit=time_limit,
        max_samples=max_samples,
        num_chains=num_chains,
        random_state=seed_of(random_state),
        max_memory=max_memory,
        strict=strict,
        missing=missing,
        engine=engine,
        tables=tables,
        jobs=jobs,
    )
    check_options(options)
    return operations.infer_to_store(model, data, options, output, as_report(progress), stop)


@front_door
def map(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    open_predicates: Sequence[str] = (),
    evidence: StatesLike = (),
    only_listed: bool = False,
    soft_evidence: Mapping[str, float] | None = None,
    soft_as: SoftAs = "virtual",
    method: str = "auto",
    time_limit: float | None = None,
    random_state: int | np.random.Generator = 0,
    max_memory: int | None = None,
    strict: bool = False,
    missing: Missing = "error",
    relax: bool = False,
    engine: str | None = None,
    tables: str | None = None,
    jobs: int | None = None,
    progress: ProgressOption = True,
    stop: StopCallback | threading.Event | None = None,
) -> MostLikelyWorld:
    """Find a most likely truth assignment to the unknown atoms, given the data.

    Parameters
    ----------
    model
        A model or the path of one.
    data
        Facts: a database, the path of one, None, or a list of these as independent worlds.
    query
        Predicates, atoms or formulas ("P(x) ^ Q(x)"); if empty, the atoms marked unknown (?).
    open_predicates
        Further predicates whose atoms are unknown unless the data states them.
    evidence
        Facts beside the data ("Smokes(Anna), !Cancer(Bob)"), or the states of variables of a
        network: {"smoke": "yes"} or "smoke=yes".
    only_listed
        Ask only the query atoms that the data marks unknown (?P(A)); the others are as in the data,
        false if it does not state them.
    soft_evidence
        Probabilities of atoms, as in {"Smokes(Anna)": 0.7}.
    soft_as
        What soft evidence states: "virtual" (an uncertain observation, which multiplies the odds),
        or "posterior" (the probability of the atom given all evidence; weights are fitted).
    method
        Name of a method (`lapis.methods`); "auto" proves the world if affordable.
    time_limit
        Seconds after which the best world so far is returned; on an engine for each component.
    random_state
        Seed of everything random, or a generator to draw one from.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    strict
        Refuse facts of undeclared predicates, which are ignored with a warning otherwise.
    missing
        What a number means that the data lack and a formula needs: "error", or "skip" (such
        groundings are left out).
    relax
        Violate the fewest hard formulas if they contradict each other, and list them.
    engine
        A database or cluster that does the joins: "duckdb", "duckdb:FILE", "postgresql://…",
        "spark", "spark://…".
    tables
        The engine's own tables as data: a schema, a folder of Parquet files, or a TOML file.
    jobs
        Number of processes; one for each core if absent.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.
    stop
        A callable or an event; if true, the result so far is returned, marked interrupted.

    Returns
    -------
    MostLikelyWorld
        The world; `optimal` if it is proven, else `bound` and `gap` bound a better one.

    Raises
    ------
    LapisError
        If an input or an option is wrong, or the hard formulas contradict each other or the data.
    TooLarge
        If the method cannot answer within its limits.

    Examples
    --------
    >>> import lapis
    >>> model = lapis.parse("t = {A, B}\\nP(t)\\n2 P(A)\\n-1 P(B)")
    >>> lapis.map(model, query="P").true_atoms
    ['P(A)']
    """
    options = MapOptions(
        query=query,
        open_predicates=open_predicates,
        evidence=list_states(evidence),
        only_listed=only_listed,
        soft_evidence=soft_evidence,
        soft_as=soft_as,
        method=method,
        time_limit=time_limit,
        random_state=seed_of(random_state),
        max_memory=max_memory,
        strict=strict,
        missing=missing,
        relax=relax,
        engine=engine,
        tables=tables,
        jobs=jobs,
    )
    check_options(options)
    return operations.map(model, data, options, as_report(progress), stop)


@front_door
def map_to_store(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    output: str,
    open_predicates: Sequence[str] = (),
    evidence: StatesLike = (),
    only_listed: bool = False,
    soft_evidence: Mapping[str, float] | None = None,
    soft_as: SoftAs = "virtual",
    method: str = "auto",
    time_limit: float | None = None,
    random_state: int | np.random.Generator = 0,
    max_memory: int | None = None,
    strict: bool = False,
    missing: Missing = "error",
    engine: str | None = None,
    tables: str | None = None,
    jobs: int | None = None,
    progress: ProgressOption = True,
    stop: StopCallback | threading.Event | None = None,
) -> StoredAnswer:
    """Find a most likely world as by `map`, and leave it in a store.

    Parameters
    ----------
    model
        A model or the path of one.
    data
        Facts: a database, the path of one, None, or a list of these as independent worlds.
    query
        Predicates, atoms or formulas ("P(x) ^ Q(x)"); if empty, the atoms marked unknown (?).
    output
        A table of the engine ("table:NAME"), a file ("FILE.parquet") or a folder of Parquet files
        ("FOLDER/").
    open_predicates
        Further predicates whose atoms are unknown unless the data states them.
    evidence
        Facts beside the data ("Smokes(Anna), !Cancer(Bob)"), or the states of variables of a
        network: {"smoke": "yes"} or "smoke=yes".
    only_listed
        Ask only the query atoms that the data marks unknown (?P(A)); the others are as in the data,
        false if it does not state them.
    soft_evidence
        Probabilities of atoms, as in {"Smokes(Anna)": 0.7}.
    soft_as
        What soft evidence states: "virtual" (an uncertain observation, which multiplies the odds),
        or "posterior" (the probability of the atom given all evidence; weights are fitted).
    method
        Name of a method (`lapis.methods`).
    time_limit
        Seconds for each component after which its best world so far is taken.
    random_state
        Seed of everything random, or a generator to draw one from.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    strict
        Refuse facts of undeclared predicates, which are ignored with a warning otherwise.
    missing
        What a number means that the data lack and a formula needs: "error", or "skip" (such
        groundings are left out).
    engine
        The database or cluster; the one that has the data if absent.
    tables
        The engine's own tables as data: a schema, a folder of Parquet files, or a TOML file.
    jobs
        Number of processes; one for each core if absent.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.
    stop
        A callable or an event; if true, the result so far is returned, marked interrupted.

    Returns
    -------
    StoredAnswer
        The place of the world, and its diagnostics.

    Raises
    ------
    LapisError
        If an input or an option is wrong, or the hard formulas contradict each other or the data.
    TooLarge
        If the method cannot answer within its limits.
    """
    options = MapOptions(
        query=query,
        open_predicates=open_predicates,
        evidence=list_states(evidence),
        only_listed=only_listed,
        soft_evidence=soft_evidence,
        soft_as=soft_as,
        method=method,
        time_limit=time_limit,
        random_state=seed_of(random_state),
        max_memory=max_memory,
        strict=strict,
        missing=missing,
        engine=engine,
        tables=tables,
        jobs=jobs,
    )
    check_options(options)
    return operations.map_to_store(model, data, options, output, as_report(progress), stop)


@front_door
def lift(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    method: str = "auto",
    sizes: Mapping[str, int] | None = None,
    classes: bool = False,
    time_limit: float | None = None,
    max_memory: int | None = None,
    strict: bool = False,
    missing: Missing = "error",
) -> Lifted:
    """Compute log Z and expected counts in time polynomial in the domains' sizes.

    Parameters
    ----------
    model
        A model or the path of one.
    data
        Facts: a database, the path of one, None, or a list of these as independent worlds.
    query
        Predicates that are unknown; if empty, all atoms that the data does not state.
    method
        "auto", or the name of a method (`lapis.methods`).
    sizes
        Numbers of constants by type, in place of the constants of model and data.
    classes
        Whether to give a row for each class of groundings of equal probability.
    time_limit
        Seconds after which the call ends.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    strict
        Refuse facts of undeclared predicates, which are ignored with a warning otherwise.
    missing
        What a number means that the data lack and a formula needs: "error", or "skip" (such
        groundings are left out).

    Returns
    -------
    Lifted
        log Z with an error bound, the expected count of every formula, and the circuit as text
        (`tree`) and picture (`draw`).

    Raises
    ------
    LapisError
        If an input or an option is wrong.
    TooLarge
        If the model cannot be lifted; the message names the formulas.

    Examples
    --------
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
        missing=missing,
        time_limit=time_limit,
        max_memory=max_memory,
    )
    check_options(options)
    return operations.lift(model, data, options)


@front_door
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
    time_limit: float | None = None,
    max_memory: int | None = None,
    strict: bool = False,
    missing: Missing = "error",
    progress: ProgressOption = True,
) -> Counts:
    """Count the true groundings of each formula in the data, all predicates closed.

    Parameters
    ----------
    model
        A model or the path of one.
    data
        Facts: a database, the path of one, None, or a list of these as independent worlds.
    counts
        "exact", or "ijgp" for estimates by IJGP.
    ibound
        IJGP: variables in a cluster.
    ijgp_iterations
        IJGP: upper limit of the updates of each message.
    ijgp_tolerance
        IJGP: relative change of a message at convergence.
    ijgp_damping
        IJGP: share of the old message that an update keeps.
    measure_error
        Whether to count exactly too, and to compare.
    engine
        A database or cluster that counts: "duckdb:facts.duckdb", "postgresql://…", "spark".
    tables
        The engine's own tables as data: a schema, a folder of Parquet files, or a TOML file.
    time_limit
        Seconds after which the call ends.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    strict
        Refuse facts of undeclared predicates, which are ignored with a warning otherwise.
    missing
        What a number means that the data lack and a formula needs: "error", or "skip" (such
        groundings are left out).
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.

    Returns
    -------
    Counts
        A row for each formula, or for each constant of its + variables; several worlds are added
        up.

    Raises
    ------
    LapisError
        If an input or an option is wrong.
    TooLarge
        If a count does not fit in memory.

    Examples
    --------
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
        missing=missing,
        time_limit=time_limit,
        max_memory=max_memory,
    )
    check_options(options)
    return operations.count(model, data, options, as_report(progress))


@front_door
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
    missing: Missing = "error",
    random_state: int | np.random.Generator = 0,
    progress: ProgressOption = True,
    stop: StopCallback | threading.Event | None = None,
) -> Score:
    """Score a model on data: likelihood, pseudo-likelihood, CLL, AUC-PR and AUC-ROC.

    Parameters
    ----------
    model
        A model or the path of one.
    data
        Facts: a database, the path of one, None, or a list of these as independent worlds.
    query
        Predicates whose facts are predicted from the other facts.
    unobserved
        Predicates that are unknown in the data.
    only_listed
        Predict only the query atoms that the data mentions.
    method
        Name of a method (`lapis.methods`); "auto" is exact if affordable and samples the rest.
    precision
        Largest standard error of a sampled marginal.
    time_limit
        Seconds after which predictions end with the samples so far.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    likelihood
        Whether to compute the exact log-likelihood, which can take long.
    strict
        Refuse facts of undeclared predicates, which are ignored with a warning otherwise.
    missing
        What a number means that the data lack and a formula needs: "error", or "skip" (such
        groundings are left out).
    random_state
        Seed of everything random, or a generator to draw one from.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.
    stop
        A callable or an event; if true, the result so far is returned, marked interrupted.

    Returns
    -------
    Score
        The (pseudo-)log-likelihood of all atoms, and CLL, AUC-PR and AUC-ROC of the query atoms.

    Raises
    ------
    LapisError
        If an input or an option is wrong.
    TooLarge
        If the method cannot predict within its limits.
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
        missing=missing,
        random_state=seed_of(random_state),
    )
    check_options(options)
    return operations.score(model, data, options, as_report(progress), stop)


@front_door
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
    standardize: bool = False,
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
    missing: Missing = "error",
    progress: ProgressOption = True,
    stop: StopCallback | threading.Event | None = None,
) -> Fit:
    """Learn the weights of a model's soft rules from data; rules marked @fixed keep theirs.

    The search starts at the weights in the model. `lapis.methods` lists objectives, expectations
    and optimisers, with the options of each.

    Parameters
    ----------
    model
        A model or the path of one.
    data
        Facts: a database, the path of one, None, or a list of these as independent worlds.
    query
        Predicates that are predicted from the others; if empty, learning is generative.
    objective
        Function to maximise; "pseudo" without a query and "conditional" with one if absent.
    optimizer
        Name of the optimiser; chosen by the objective if absent.
    optimizer_options
        Options of the optimiser, as in {"damping": 2}.
    prior
        A prior, or a text: "none", "gaussian[:width]" or "l1[:strength]".
    prior_mean
        Centre of the prior: "zero", or "initial" for the weights in the model.
    expectation
        How expected counts are computed.
    counts
        "exact", or "ijgp" for estimates by IJGP.
    measure_error
        Whether to count exactly too, and to compare.
    ibound
        IJGP: variables in a cluster.
    ijgp_iterations
        IJGP: upper limit of the updates of each message.
    ijgp_tolerance
        IJGP: relative change of a message at convergence.
    ijgp_damping
        IJGP: share of the old message that an update keeps.
    differences
        IJGP: how counts change with an atom: "substituted" (estimate the groundings with the atom)
        or "subtracted" (two estimated counts).
    num_steps
        Expectations by counts: steps of the chains, or flips of the search, in an iteration.
    num_records
        Expectations "count-gibbs" and "count-map": worlds whose counts are averaged.
    chain_start
        Expectations by counts: where a chain starts in an iteration: "data", "last" or "random".
    unobserved
        Predicates that are unknown in the data.
    only_listed
        Predict only the query atoms that the data mentions.
    unit_formulas
        Whether to add a formula P(x) for each predicate without one.
    standardize
        Whether the prior of a formula with numbers counts in their standard deviations: the fit is
        that of numbers divided by them, and the weights are for the numbers as they are.
    num_samples
        Samples of each chain in an iteration.
    rate
        Learning rate of the optimiser.
    margin
        Objective "max-margin": price of a wrong atom.
    max_iterations
        Upper limit of the iterations.
    tolerance
        Largest component of the gradient at convergence.
    time_limit
        Seconds after which the result so far is returned, marked interrupted.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    random_state
        Seed of everything random, or a generator to draw one from.
    checkpoint
        A file for the state; the run resumes from it if it exists.
    engine
        A database or cluster that counts the (weighted) pseudo-likelihood; only classes of atoms
        are fetched. The weights are the same.
    tables
        The engine's own tables as data: a schema, a folder of Parquet files, or a TOML file.
    estimate
        "mode" of the posterior of the weights, or its "mean".
    posterior_method
        Estimate "mean": method of the posterior.
    num_draws
        Estimate "mean": draws of each chain.
    num_chains
        Estimate "mean": number of chains.
    level
        Estimate "mean": probability of the credible intervals.
    strict
        Refuse facts of undeclared predicates, which are ignored with a warning otherwise.
    missing
        What a number means that the data lack and a formula needs: "error", or "skip" (such
        groundings are left out).
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.
    stop
        A callable or an event; if true, the result so far is returned, marked interrupted.

    Returns
    -------
    Fit
        The learned model, its weights with standard errors, the curve, and with `estimate` "mean"
        the posterior.

    Raises
    ------
    LapisError
        If an input or an option is wrong, options do not go together, or the data is empty.
    TooLarge
        If an expectation or a posterior cannot be computed within the limits.

    Examples
    --------
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
        standardize=standardize,
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
        missing=missing,
    )
    check_options(options)
    return operations.learn(model, data, options, as_report(progress), stop)


@front_door
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
    max_memory: int | None = None,
    checkpoint: str | Path | None = None,
    engine: str | None = None,
    tables: str | None = None,
    random_state: int | np.random.Generator = 0,
    strict: bool = False,
    progress: ProgressOption = True,
    stop: StopCallback | threading.Event | None = None,
) -> LearnedRules:
    """Learn rules from data; the model declares the predicates.

    Scores are exact on all atoms of the data: log-likelihoods of each predicate given the others
    (`lapis`), or weighted pseudo-log-likelihoods. The method chooses options that are None. A
    search that resumes from its checkpoint ends with the same rules as one without interruption.

    Parameters
    ----------
    model
        A model or the path of one.
    data
        Facts: a database, the path of one, None, or a list of these as independent worlds.
    query
        Predicates to find rules for; without a query all.
    method
        Name of a learner (`lapis.methods`).
    conditioning
        What an atom is predicted from: all other "atoms", or the other "predicates" (the default of
        `lapis`, if there are any).
    joint_targets
        Predicates that are predicted together, as in "actor,director".
    max_literals
        Upper limit of the literals of a rule.
    max_variables
        Upper limit of the variables of a rule; 0 for any number.
    max_clauses
        Upper limit of the rules.
    penalty
        Score lost for each literal.
    shrinkage
        Strength of the penalty on squared weights; half of it times the square is lost.
    dangling
        Rules with a variable that occurs once: "keep", "drop", or "best" by held-out worlds.
    redundant
        Rules to which a shorter rule is equivalent in the data: "keep" or "drop".
    final
        How rules enter the model: "lazy", "greedy", "l1" or "l2".
    sample_share
        Share of the atoms to score on.
    cluster_prior
        lhl: price of a cluster combination.
    min_support
        lhl: true atoms in a hyperedge of a path, on average.
    max_atoms
        lhl: atoms of a path to try it on first.
    max_examples
        lhl: paths of the hypergraph that a path with variables is extended from; 0 for all.
    first_penalty
        lhl: penalty in that trial.
    flips
        lhl: upper limit of positive literals; all signs if absent.
    lifting
        lhl: search the "lifted" or the "ground" hypergraph.
    significance
        busl: level of the χ² tests.
    min_weight
        busl: rules of smaller weights are dropped.
    beam
        msl: clauses kept at each step.
    jobs
        Number of processes; one for each core if absent.
    time_limit
        Seconds after which the rules so far are returned, marked interrupted.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    checkpoint
        A file for the state; the run resumes from it if it exists.
    engine
        A database on which clauses are scored, by one process.
    tables
        The engine's own tables as data: a schema, a folder of Parquet files, or a TOML file.
    random_state
        Seed of everything random, or a generator to draw one from.
    strict
        Refuse facts of undeclared predicates, which are ignored with a warning otherwise.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.
    stop
        A callable or an event; if true, the result so far is returned, marked interrupted.

    Returns
    -------
    LearnedRules
        The rules with weights, gains and support, and the model of them.

    Raises
    ------
    LapisError
        If an input or an option is wrong, or the data is empty.
    TooLarge
        If the data does not fit the limits.

    Examples
    --------
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
        max_memory=max_memory,
    )
    check_options(options)
    return operations.learn_structure(model, data, options, as_report(progress), stop)

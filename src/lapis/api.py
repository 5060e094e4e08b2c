"""The functions people call: counts, marginals, most likely worlds and scores.

`model` is a Model or the path of one; `data` is a Database, the path of one, None, or a list of
these. Several databases are several independent worlds, each with its own constants. Facts of
predicates that the model does not declare are left out with a warning; `strict` refuses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from lapis.errors import LapisError
from lapis.language.model import Model
from lapis.methods import check_options
from lapis.option import options_of, seed_of
from lapis.problem.query import query_predicates
from lapis.problem.task import DataLike, ModelLike, build_task, is_elsewhere, open_inputs
from lapis.progress import Report, Stop, Wish, work_clock
from lapis.results.answer import Answer
from lapis.results.counts import Counts
from lapis.results.most_likely_world import MostLikelyWorld
from lapis.stores.stored_answer import StoredAnswer

NUM_DRAWS = 200  # of a posterior that are averaged over
TASK = ("model", "data", "query", "opened", "soft_evidence", "strict")  # that a task is built of

if TYPE_CHECKING:
    import threading

    from lapis.counting.ijgp.propagation import Differences
    from lapis.counting.rule_counts import CountKind
    from lapis.evaluation.score import Score
    from lapis.learning.fit import Fit
    from lapis.learning.objectives.priors import Prior
    from lapis.learning.options import ChainStart
    from lapis.learning.weight_posterior import WeightPosterior
    from lapis.lifted.answer import Lifted
    from lapis.structure.learned_rules import LearnedRules


@overload
def infer(
    model: ModelLike | WeightPosterior, data: DataLike = None, query: Sequence[str] | str = (), *,
    output: None = None, **options: Any,
) -> Answer: ...  # fmt: skip
@overload
def infer(
    model: ModelLike | WeightPosterior, data: DataLike = None, query: Sequence[str] | str = (), *,
    output: str, **options: Any,
) -> StoredAnswer: ...  # fmt: skip
def infer(  # type: ignore[misc]  # the keywords are those below
    model: ModelLike | WeightPosterior,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    opened: Sequence[str] = (),
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
    num_draws: int = NUM_DRAWS,
    engine: str | None = None,
    tables: str | None = None,
    output: str | None = None,
    jobs: int | None = None,
    progress: Report | None = None,
    stop: Wish | threading.Event | None = None,
) -> Answer | StoredAnswer:
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
    the data; with `output` the answer stays there as a table ("table:NAME") or is written
    ("FILE.parquet", "FOLDER/"), and a `StoredAnswer` says where it is.

    `model` may be the posterior of a model's weights (`fit.posterior` of `learn` with `estimate`
    "mean"): marginals are then averaged over about `num_draws` of its draws, each answered by
    `method`, and standard errors are those of the average.

    >>> import lapis
    >>> model = lapis.parse("H(i)\\nS(o)\\ni = {A}\\no = {B}\\n1 H(x) ^ S(y)")
    >>> answer = lapis.infer(model, query=["H", "S"])
    >>> answer.exact, round(answer["H(A)"], 4)
    (True, 0.6502)
    """
    given = dict(locals())
    if not isinstance(model, Model | str | Path):
        from lapis.learning.weight_posterior import WeightPosterior

        if isinstance(model, WeightPosterior):
            return _average(model, given)
    return _ask("infer", infer, given)


@overload
def map(
    model: ModelLike, data: DataLike = None, query: Sequence[str] | str = (), *,
    output: None = None, **options: Any,
) -> MostLikelyWorld: ...  # fmt: skip
@overload
def map(
    model: ModelLike, data: DataLike = None, query: Sequence[str] | str = (), *,
    output: str, **options: Any,
) -> StoredAnswer: ...  # fmt: skip
def map(  # type: ignore[misc]  # the keywords are those below
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    opened: Sequence[str] = (),
    soft_evidence: Mapping[str, float] | None = None,
    method: str = "auto",
    time_limit: float = 60.0,
    random_state: int | np.random.Generator = 0,
    max_memory: int | None = None,
    strict: bool = False,
    relax: bool = False,
    engine: str | None = None,
    tables: str | None = None,
    output: str | None = None,
    jobs: int | None = None,
    progress: Report | None = None,
    stop: Wish | threading.Event | None = None,
) -> MostLikelyWorld | StoredAnswer:
    """A most likely truth assignment to the unknown atoms, given the data.

    `optimal` says whether it is proven; if not, `bound` and `gap` say how much better another
    world could be. `engine`, `tables`, `output` and `jobs` are as for `infer`; there the time limit
    is for each component.

    >>> import lapis
    >>> model = lapis.parse("t = {A, B}\\nP(t)\\n2 P(A)\\n-1 P(B)")
    >>> lapis.map(model, query="P").true_atoms
    ['P(A)']
    """
    return _ask("map", map, dict(locals()))


def _ask(command: str, function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """What `infer` or `map` answers to its keywords: here, or where the data or an engine is."""
    check_options(command, given)
    if given.get("num_draws", NUM_DRAWS) != NUM_DRAWS:
        raise LapisError(
            "num_draws is for a posterior, and a model has one set of weights",
            code="unread-option",
            hint="give a posterior (fit.posterior, --posterior FILE), or leave out num_draws",
        )
    engine, tables, output, jobs = (given[n] for n in ("engine", "tables", "output", "jobs"))
    if engine is not None or tables is not None:
        from lapis.stores.mapped_tables import ask_in_place, refuse_together

        refuse_together(given["data"], engine, tables)
        if tables is not None:
            return ask_in_place(function, given)
    from lapis.inference import worlds
    from lapis.inference.marginals import InferenceOptions

    options = options_of(InferenceOptions, given, stop=Stop(given["stop"]))
    task = build_task(**{name: given[name] for name in TASK})
    if engine is not None or is_elsewhere(task):
        from lapis.stores.components import answers
        from lapis.stores.components.packing import Limits

        there = answers.infer_on_engine if command == "infer" else answers.map_on_engine
        limits = Limits(jobs=jobs)
        return there(task, engine, given["method"], options, output=output, limits=limits)
    worlds.refuse_without_engine(output=output, jobs=jobs)
    here = worlds.infer_task if command == "infer" else worlds.map_task
    return here(task, given["method"], options)


def _average(posterior: WeightPosterior, given: Mapping[str, Any]) -> Answer:
    """What `infer` answers of a posterior in place of a model."""
    check_options("infer", given)
    from lapis.inference.marginals import InferenceOptions
    from lapis.learning.averaging import infer_average, refuse_unread

    refuse_unread(given)
    options = options_of(InferenceOptions, given, stop=Stop(given["stop"]))
    task = build_task(**{**{name: given[name] for name in TASK}, "model": posterior.model})
    return infer_average(posterior, task, given["method"], options, given["num_draws"])


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
    check_options("lift", locals())
    from lapis.lifted.answer import lift_worlds

    inputs = open_inputs(model, data, strict=strict, probabilities=False)
    return lift_worlds(
        inputs.model,
        inputs.databases,
        query_predicates(query, inputs.model),
        method=method,
        sizes=sizes or {},
        classes=classes,
    )


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
    check_options("count", locals())
    from lapis.counting.ijgp import IjgpSettings
    from lapis.counting.rule_counts import count_rules
    from lapis.stores.load_to_store import place_on
    from lapis.stores.mapped_tables import open_on_engine

    opened = open_on_engine(model, data, engine, tables, strict=strict, probabilities=False)
    with opened as (inputs, store):
        return count_rules(
            inputs.model,
            inputs.databases,
            counts=counts,
            ijgp=IjgpSettings(ibound, ijgp_tolerance, ijgp_iterations, ijgp_damping),
            measure_error=measure_error,
            place=place_on(store),
            progress=progress,
        )


def score(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    hidden: Sequence[str] = (),
    listed: bool = False,
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
    `infer` does. `listed` asks only about the query atoms that the data mentions, `hidden` names
    predicates the data does not show. `likelihood=False` leaves the log-likelihood out, which
    is exact or nothing and can take long.
    """
    given = dict(locals())
    check_options("score", given)
    from lapis.evaluation.score import score_worlds
    from lapis.inference.marginals import InferenceOptions

    inputs = open_inputs(model, data, strict=strict)
    return score_worlds(
        inputs.model,
        inputs.databases,
        query_predicates(query, inputs.model),
        method=method,
        options=options_of(InferenceOptions, given, stop=Stop(stop)),
        hidden=hidden,
        listed=listed,
        likelihood=likelihood,
    )


def learn(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    objective: str | None = None,
    optimizer: str | None = None,
    optimizer_options: Mapping[str, float] | None = None,
    prior: Prior | str | None = None,
    prior_mean: str = "zero",
    expectation: str = "auto",
    counts: CountKind = "exact",
    measure_error: bool = False,
    ibound: int = 2,
    ijgp_iterations: int = 50,
    ijgp_tolerance: float = 1e-4,
    ijgp_damping: float = 0.0,
    differences: Differences = "substituted",
    num_steps: int | None = None,
    num_records: int | None = None,
    chain_start: ChainStart | None = None,
    hidden: Sequence[str] = (),
    listed: bool = False,
    units: bool = False,
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
    estimate: str = "mode",
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
    in the model are where the search starts. `hidden` names predicates the data does not show,
    `listed` asks only about the query atoms that the data mentions, `units` adds a formula `P(x)`
    for predicates without one. `lapis.methods` lists objectives, expectations and optimisers, with
    the options of each (`optimizer_options={"damping": 2}`).

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
    given = dict(locals())
    check_options("learn", given)
    from lapis.learning.learn import learn_weights
    from lapis.learning.options import Options
    from lapis.stores.load_to_store import place_on
    from lapis.stores.mapped_tables import open_on_engine

    options = options_of(
        Options, given, checkpoint=None if checkpoint is None else Path(checkpoint)
    )
    with open_on_engine(model, data, engine, tables, strict=strict, max_memory=max_memory) as (
        inputs,
        store,
    ):
        return learn_weights(
            inputs.model,
            inputs.databases,
            query_predicates(query, inputs.model),
            options,
            hidden=hidden,
            listed=listed,
            units=units,
            place=place_on(store),
            progress=progress,
            stop=Stop(stop),
        )


def learn_structure(
    model: ModelLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    method: str = "lapis",
    given: str | None = None,
    together: Sequence[str] | str | None = None,
    max_length: int | None = None,
    max_variables: int | None = None,
    max_clauses: int | None = None,
    penalty: float | None = None,
    shrinkage: float | None = None,
    dangling: str | None = None,
    redundant: str | None = None,
    final: str | None = None,
    sample_share: float = 1.0,
    cluster_prior: float | None = None,
    min_support: int | None = None,
    max_atoms: int | None = None,
    max_examples: int | None = None,
    first_penalty: float | None = None,
    flips: int | None = None,
    lifting: str | None = None,
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
    `given="atoms"` takes their own other atoms too). Scores are weighted
    pseudo-log-likelihoods, exact on all atoms of the data: of each atom given all others, or given
    the other predicates (`given="predicates"`), but those asked `together`. What is None is chosen
    by the method (`lapis.methods` lists them with the options that each reads). Ctrl-C, `stop` and
    `time_limit` end the search with the rules so far, marked interrupted; resumed from its
    checkpoint, a search ends with the rules of one that was never stopped. With an `engine`
    ("duckdb", "postgresql://…") clauses are scored there, by one process; `tables` says which
    of its tables are the data.

    >>> import lapis
    >>> model = lapis.parse("Smokes(person)\\nCancer(person)")
    >>> facts = [f"Smokes(P{i})" for i in range(40)] + [f"Cancer(P{i})" for i in range(3, 42)]
    >>> people = " ".join(f"!Smokes(P{i})" for i in range(40, 80))
    >>> found = lapis.learn_structure(model, lapis.Database.parse(" ".join(facts) + " " + people))
    >>> found.rules[0].text
    'Smokes(p) => Cancer(p)'
    """
    options = dict(locals())
    check_options("structure", options)
    from lapis.cores import num_cores
    from lapis.stores.counting.paths import joins_on
    from lapis.stores.mapped_tables import open_on_engine
    from lapis.structure.learn_rules import learn_rules

    inputs_of = ("model", "data", "query", "engine", "tables", "strict")
    for name in (*inputs_of, "time_limit", "random_state", "stop", "jobs"):
        del options[name]
    texts = [together] if isinstance(together, str) else together or ()
    deadline = math.inf if time_limit is None else work_clock() + time_limit
    with open_on_engine(model, data, engine, tables, strict=strict) as (inputs, store):
        options["together"] = [query_predicates(text, inputs.model) for text in texts]
        return learn_rules(
            inputs.model,
            inputs.databases,
            query_predicates(query, inputs.model),
            jobs=jobs or (num_cores() if store is None else 1),
            seed=seed_of(random_state),
            open_joins=joins_on(store),
            stop=Stop(stop, deadline),
            **options,
        )

"""The functions people call: counts, marginals, most likely worlds and scores.

`model` is a Model or the path of one; `data` is a Database, the path of one, None, or a list of
these. Several databases are several independent worlds, each with its own constants.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lapis.data.database import Database
from lapis.errors import LapisError, raise_all
from lapis.evaluation.score import Score, score_worlds
from lapis.inference.answer import Answer, MostLikelyWorld
from lapis.language.model import Model
from lapis.language.resolution.gather import gather_instances
from lapis.language.resolution.resolve import read_model
from lapis.methods import check_options
from lapis.problem.problem import Problem, build_problem
from lapis.problem.query import (
    Query,
    add_formula_queries,
    add_soft_evidence,
    opened_by_formulas,
    parse_queries,
    select_atoms,
)
from lapis.progress import Report, Stop, Wish

if TYPE_CHECKING:
    import threading

    from lapis.counting.rule_counts import Counts, RuleCount
    from lapis.learning.fit import Fit
    from lapis.learning.objectives.priors import Prior

ModelLike = Model | str | Path
World = Database | str | Path
DataLike = World | Sequence[World] | None


def infer(
    model: ModelLike,
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
    progress: Report | None = None,
    stop: Wish | threading.Event | None = None,
) -> Answer:
    """Marginal probabilities P(atom = true | data) of the unknown query atoms.

    `query` names predicates, single atoms or formulas ("Smokes(x) ^ Cancer(x)"); without it,
    every atom the data marks unknown is asked. `soft_evidence` gives probabilities of atoms, as
    an unsure observer would. `auto` is exact where that is affordable and samples the rest until
    every standard error is below `precision` (or the time or the samples are used up). `progress`
    is called with `lapis.progress.Progress` events; Ctrl-C and `stop` (a callable or an event) end
    sampling with what there is, marked interrupted. Raises TooLarge where the method cannot do it
    within its limits.

    >>> import lapis
    >>> model = lapis.parse("H(i)\\nS(o)\\ni = {A}\\no = {B}\\n1 H(x) ^ S(y)")
    >>> answer = lapis.infer(model, query=["H", "S"])
    >>> answer.exact, round(answer["H(A)"], 4)
    (True, 0.6502)
    """
    check_options("infer", locals())
    from lapis.inference.marginals import Options, infer_problem

    options = Options(
        precision,
        max_samples,
        num_chains,
        time_limit,
        seed_of(random_state),
        max_memory,
        ibound,
        progress,
        Stop(stop),
    )
    parts: list[Answer] = []
    for problem, queries in problems(model, data, query, opened, soft_evidence):
        network, found = infer_problem(problem, method, options)
        if found.diagnostics.get("interrupted") and options.stop is not None:
            options.stop.press()  # the worlds that follow are not sampled to the end either
        names, atom_ids, known = select_atoms(network, problem, queries)
        certain = np.where(known >= 0, 0.0, -1.0)
        stderr = None if found.stderr is None else known_or(certain, found.stderr, atom_ids)
        sampled = None if found.sampled is None else found.sampled[atom_ids] & (known < 0)
        traced: tuple[str, ...] = ()
        trace = None
        if found.trace is not None:
            traced, trace = tuple(network.atom_names(found.trace.atoms)), found.trace.values
        parts.append(
            Answer(
                found.method, found.exact, found.log_partition, names,
                known_or(known, found.marginal, atom_ids), stderr, found.expected_count,
                sampled=sampled, diagnostics=found.diagnostics, traced=traced, trace=trace,
            )
        )  # fmt: skip
    return merge_answers(parts, world_names(data))


def seed_of(random_state: int | np.random.Generator) -> int:
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(1 << 31))
    return random_state


def map(
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
    progress: Report | None = None,
    stop: Wish | threading.Event | None = None,
) -> MostLikelyWorld:
    """A most likely truth assignment to the unknown atoms, given the data.

    `optimal` says whether it is proven; if not, `bound` and `gap` say how much better another
    world could be.

    >>> import lapis
    >>> model = lapis.parse("t = {A, B}\\nP(t)\\n2 P(A)\\n-1 P(B)")
    >>> lapis.map(model, query="P").true_atoms
    ['P(A)']
    """
    check_options("map", locals())
    from lapis.inference.map.problem import map_problem

    seed, halt = seed_of(random_state), Stop(stop)
    parts: list[MostLikelyWorld] = []
    for problem, queries in problems(model, data, query, opened, soft_evidence):
        network, found = map_problem(
            problem, method, time_limit, seed, max_memory=max_memory, progress=progress,
            should_stop=halt,
        )  # fmt: skip
        if found.interrupted:
            halt.press()
        names, atom_ids, known = select_atoms(network, problem, queries)
        diagnostics = {
            "bound": found.bound,
            "gap": found.gap,
            "cost": found.cost,
            "cost_bound": found.cost - found.gap,
            "interrupted": found.interrupted,
            **found.diagnostics,
        }
        value = known_or(known, found.world, atom_ids) > 0
        parts.append(
            MostLikelyWorld(
                found.method, found.optimal, found.score, names, value, diagnostics=diagnostics
            )
        )
    return merge_worlds(parts, world_names(data))


def count(
    model: ModelLike,
    data: DataLike = None,
    *,
    counts: Counts = "exact",
    ibound: int = 2,
    measure_error: bool = False,
) -> list[RuleCount]:
    """True groundings of each formula in the data, all predicates closed.

    Several worlds are added up; formulas with + variables have a row for each constant. With
    counts="ijgp" they are estimated by IJGP(ibound).

    >>> import lapis
    >>> model = lapis.parse("Smokes(person)\\nFriends(person, person)\\n"
    ...                     "1 Friends(x, y) ^ Smokes(x) => Smokes(y)")
    >>> data = lapis.Database.parse("Smokes(Anna) Friends(Anna,Bob) Friends(Bob,Anna)")
    >>> [(row.true, row.groundings) for row in lapis.count(model, data)]
    [(3, 4)]
    """
    check_options("count", locals())
    from lapis.counting.rule_counts import count_rules

    return count_rules(
        read_if_path(model),
        databases(data),
        counts=counts,
        ibound=ibound,
        measure_error=measure_error,
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
    check_options("score", locals())
    from lapis.inference.marginals import Options

    resolved, worlds = read_if_path(model), databases(data)
    refuse_unsupported(resolved)
    queries = query_predicates(query, resolved)
    return score_worlds(
        gather_instances(resolved, type_sizes(resolved, worlds)),
        worlds,
        queries,
        method=method,
        options=Options(
            precision=precision,
            time_limit=time_limit,
            seed=seed_of(random_state),
            max_memory=max_memory,
            progress=progress,
            stop=Stop(stop),
        ),
        hidden=hidden,
        listed=listed,
        likelihood=likelihood,
    )


def learn(
    model: ModelLike,
    data: DataLike,
    query: Sequence[str] | str = (),
    *,
    objective: str | None = None,
    optimizer: str | None = None,
    optimizer_options: Mapping[str, float] | None = None,
    prior: Prior | str | None = None,
    prior_mean: str = "zero",
    expectation: str = "auto",
    counts: Counts = "exact",
    measure_error: bool = False,
    ibound: int = 2,
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

    >>> import lapis
    >>> model = lapis.parse("Smokes(person)\\nCancer(person)\\nSmokes(x) => Cancer(x)")
    >>> data = lapis.Database.parse("Smokes(A) Cancer(A) Smokes(B) Cancer(B) Smokes(C) !Cancer(C)")
    >>> fit = lapis.learn(model, data, "Cancer", prior="none")
    >>> round(fit["Smokes(x) => Cancer(x)"], 4)  # log 2: two of three smokers
    0.6931
    """
    check_options("learn", locals())
    from lapis.learning.learn import learn_weights
    from lapis.learning.options import Options

    resolved = read_if_path(model)
    refuse_unsupported(resolved)
    options = Options(
        objective, optimizer, prior, prior_mean, expectation, counts, measure_error, ibound,
        num_samples, rate, margin, max_iterations, tolerance, time_limit, max_memory,
        seed_of(random_state), None if checkpoint is None else Path(checkpoint),
        optimizer_options or {},
    )  # fmt: skip
    return learn_weights(
        resolved,
        databases(data),
        query_predicates(query, resolved),
        options,
        hidden=hidden,
        listed=listed,
        units=units,
        progress=progress,
        stop=Stop(stop),
    )


def read_if_path(model: ModelLike) -> Model:
    return model if isinstance(model, Model) else read_model(model)


def databases(data: DataLike) -> list[Database]:
    if data is None:
        return [Database({}, {})]
    worlds = [data] if isinstance(data, Database | str | Path) else data
    return [world if isinstance(world, Database) else Database.read(world) for world in worlds]


def type_sizes(model: Model, worlds: Sequence[Database]) -> dict[str, int]:
    """How many constants the data gives to each type, at least."""
    sizes: dict[str, int] = {}
    for world in worlds:
        for name, relation in world.relations.items():
            predicate = model.predicates.get(name)
            if predicate is not None and predicate.arity == relation.arity:
                for type_name, own in zip(predicate.types, relation.types, strict=True):
                    size = len(world.domains[own])
                    sizes[type_name] = max(size, sizes.get(type_name, 0))
    return sizes


def world_names(data: DataLike) -> list[str]:
    if data is None or isinstance(data, Database | str | Path) or len(data) < 2:
        return []
    return [w.name if isinstance(w, Database) else str(w) for w in data]


def problems(
    model: ModelLike,
    data: DataLike,
    query: Sequence[str] | str,
    opened: Sequence[str],
    soft_evidence: Mapping[str, float] | None = None,
) -> list[tuple[Problem, list[Query]]]:
    """The model on each world, with what is asked of it."""
    resolved, worlds = read_if_path(model), databases(data)
    resolved = gather_instances(resolved, type_sizes(resolved, worlds))
    resolved = add_soft_evidence(resolved, soft_evidence or {})
    queries = parse_queries([query] if isinstance(query, str) else query)
    resolved, queries = add_formula_queries(resolved, queries)
    names = builtins.list(dict.fromkeys(q.predicate for q in queries))
    opened = [*opened, *opened_by_formulas(resolved, queries)]
    found = [(build_problem(resolved, world, names, opened=opened), queries) for world in worlds]
    if not queries and not any(has_unknown(problem) for problem, _ in found):
        raise LapisError(
            "nothing is asked: every atom is known",
            code="no-query",
            hint="name the predicates to predict (-q P,Q), or mark facts unknown (?fact)",
        )
    refuse_unsupported(resolved)
    return found


def has_unknown(problem: Problem) -> bool:
    return any(e.open or len(e.unknown) for e in problem.evidence.values())


def query_predicates(query: Sequence[str] | str, model: Model) -> list[str]:
    queries = parse_queries([query] if isinstance(query, str) else query)
    if any(q.formula is not None or q.constants is not None for q in queries):
        raise LapisError("this is about whole predicates, not atoms or formulas", code="query")
    return list(dict.fromkeys(q.predicate for q in queries))


def refuse_unsupported(model: Model) -> None:
    """Constructs that parse but have no ground meaning yet are refused, never ignored."""
    errors = [
        LapisError(
            "cardinality constraints cannot be used in ground inference",
            code="cardinality",
            span=constraint.span,
        )
        for constraint in model.constraints
    ]
    errors += [
        LapisError(
            f"predicate {predicate.name!r} has a factor {min(predicate.factors):g}: "
            "only positive factors define probabilities",
            code="factor",
            span=predicate.span,
        )
        for predicate in model.predicates.values()
        if predicate.factors is not None
    ]
    raise_all(errors)


def known_or(known: np.ndarray, found: np.ndarray, atom_ids: np.ndarray) -> np.ndarray:
    """float64[num_asked]: the known value where there is one, else what was found."""
    values = known.copy()
    unknown = known < 0
    values[unknown] = found[atom_ids[unknown]]
    return values


def merge_answers(parts: list[Answer], worlds: list[str]) -> Answer:
    """The answers of independent worlds, put one after another."""
    if len(parts) == 1:
        return parts[0]
    return Answer(
        parts[0].method,
        all(part.exact for part in parts),
        sum(part.log_partition or 0.0 for part in parts),
        tuple(atom for part in parts for atom in part.atoms),
        np.concatenate([part.probability for part in parts]),
        None
        if all(part.exact for part in parts)
        else np.concatenate([part.errors for part in parts]),
        np.concatenate([part.expected_counts for part in parts]),
        tuple(world for part, world in zip(parts, worlds, strict=True) for _ in part.atoms),
    )


def merge_worlds(parts: list[MostLikelyWorld], worlds: list[str]) -> MostLikelyWorld:
    if len(parts) == 1:
        return parts[0]
    return MostLikelyWorld(
        parts[0].method,
        all(part.optimal for part in parts),
        sum(part.score for part in parts),
        tuple(name for part in parts for name in part.names),
        np.concatenate([part.value for part in parts]),
        tuple(world for part, world in zip(parts, worlds, strict=True) for _ in part.names),
        {
            name: sum(part.diagnostics[name] for part in parts)
            for name in ("bound", "gap", "cost", "cost_bound")
        },
    )

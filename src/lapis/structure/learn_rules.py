"""The front door of structure learning: declarations and data in, rules out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lapis.counting.path_counts import path_counts
from lapis.data.database import Database
from lapis.errors import LapisError, Warning, announce
from lapis.language.model import Model
from lapis.language.model_text import print_model
from lapis.language.resolution.resolve import parse_model
from lapis.language.syntax import Variable
from lapis.logic.clauses import Literal
from lapis.methods import find_method
from lapis.problem.problem import build_problem
from lapis.progress import Report, Stop, pressed_by_interrupt
from lapis.relational.engines.store import Store
from lapis.structure.candidates import Search
from lapis.structure.clauses import Candidate, variable_types, write_clause, write_failure
from lapis.structure.explain import examples, say_clause
from lapis.structure.learned_rules import CONDITIONAL, PSEUDO, LearnedRules, Rule
from lapis.structure.learners.lift_graph import ClusterModel
from lapis.structure.paths.path_differences import PartSums
from lapis.structure.scores import Scorer, draw_atoms
from lapis.structure.select import Selection
from lapis.structure.tape import Tape, fingerprint
from lapis.structure.training_data import TrainingData, join_worlds


def learn_rules(
    model: Model,
    databases: Sequence[Database],
    targets: Sequence[str] = (),
    *,
    method: str = "lapis",
    given: str | None = None,
    together: Sequence[Sequence[str]] = (),
    sample_share: float = 1.0,
    jobs: int = 1,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    store: Store | None = None,
    progress: Report | None = None,
    stop: Stop | None = None,
    **options: Any,
) -> LearnedRules:
    """Rules for the predicates of a model, learned from complete worlds.

    `targets` are the predicates to predict (all without any); every rule then mentions one. Each
    atom is explained `given` all other atoms, or all other predicates, but those that are asked
    `together` with its own. `options` are those of the method. A checkpoint
    that exists is continued. On a store, if there is one, clauses are scored there.
    """
    started = time.monotonic()
    if store is not None and jobs > 1:
        raise LapisError(
            "clauses are scored on the engine, which one process asks",
            code="engine-jobs",
            hint="leave out --engine, or --jobs",
        )
    refuse_blocks(model)
    model = leave_rules_out(model)
    names = with_arguments(model, targets)
    problems = [build_problem(model, database) for database in databases]
    groups = group_targets(names, given, together)
    data = join_worlds(model, problems, names, groups)
    if not any(data.num_atoms[name] for name in names):
        raise LapisError(
            "there are no atoms to explain: the data names no constants",
            code="no-atoms",
            hint="lapis check MODEL DATA says what was read",
        )
    chosen = find_method("structure", method)
    own = {name: options[name] for name in chosen.options if options.get(name) is not None}
    if method in ("lapis", "lhl"):
        own["seed"] = seed
    sample = None
    if sample_share < 1.0:
        sample = draw_atoms(data, sample_share, np.random.default_rng(seed))
    wish = stop if stop is not None else Stop()
    tape = Tape(
        None if checkpoint is None else Path(checkpoint),
        fingerprint(
            data, method, {**own, "seed": seed, "sample_share": sample_share, "groups": groups}
        ),
        wish,
    )
    search = Search(
        model, databases, Scorer(data, sample, store), jobs, started, progress, wish, tape
    )
    with pressed_by_interrupt(wish):
        try:
            found = chosen.load()(search, **own)
        finally:
            tape.save()
    seconds = time.monotonic() - started
    if isinstance(found, ClusterModel):
        return account_clusters(model, found, method, seconds)
    return account(model, data, search.scorer.sums, found, method, seconds)


def group_targets(
    targets: Sequence[str], given: str | None, together: Sequence[Sequence[str]]
) -> list[tuple[str, ...]]:
    """The targets that are unknown at once; none where an atom is explained by all others."""
    joined = [name for group in together for name in group]
    for name in joined:
        if given == "atoms" or name not in targets or joined.count(name) > 1:
            why = "no target" if name not in targets else "in two groups"
            raise LapisError(
                "predicates are asked together only where others are given, not other atoms"
                if given == "atoms"
                else f"{name!r} cannot be asked together with others: it is {why}",
                code="together",
                hint="say --given predicates" if given == "atoms" else None,
            )
    if given != "predicates" and not joined:
        return []
    return [*map(tuple, together), *((name,) for name in targets if name not in joined)]


def refuse_blocks(model: Model) -> None:
    for predicate in model.predicates.values():
        if predicate.block:
            raise LapisError(
                f"rules are learned for single atoms, but {predicate.name!r} has blocks",
                code="structure-blocks",
                span=predicate.span,
                hint="drop the mark (! or ?) of its declaration",
            )


def with_arguments(model: Model, targets: Sequence[str]) -> tuple[str, ...]:
    """The predicates to find rules for: paths lead from one to the next by their arguments."""
    without = [p for p in model.predicates.values() if not p.arity]
    for predicate in without:
        message = f"{predicate.name!r} has no arguments: no rule is sought for it, nor with it"
        if predicate.name in targets:
            raise LapisError(message, code="no-arguments", span=predicate.span)
        announce([Warning(message, "no-arguments", predicate.span)])
    return tuple(targets) or tuple(n for n, p in model.predicates.items() if p.arity)


def leave_rules_out(model: Model) -> Model:
    """The declarations. Weights are learned for new rules alone, as if there were no others."""
    if model.rules:
        n, first = len(model.rules), model.rules[0]
        announce(
            [
                Warning(
                    f"{n} rule{'s' * (n > 1)} of the model {'are' if n > 1 else 'is'} left out: "
                    "rules are learned from the declarations alone",
                    "rules-left-out",
                    first.span,
                    hint="add them to the learned ones and run lapis learn: the weights depend "
                    "on each other",
                )
            ]
        )
    return model.with_rules(())


def account(
    model: Model,
    data: TrainingData,
    sums: PartSums,
    found: Selection,
    method: str,
    seconds: float,
) -> LearnedRules:
    """The result, with counts of every rule in the data."""
    rules = [
        count_rule(data, sums, clause.candidate, clause.weight, clause.gain)
        for clause in found.clauses
    ]
    for name, weight in found.units.items():
        arguments = ", ".join(f"x{number}" for number in range(data.predicates[name].arity))
        rules.append(
            Rule(f"{name}({arguments})", weight, None, None, len(data.tuples[name]),
                 data.num_atoms[name])
        )  # fmt: skip
    return LearnedRules(
        method, tuple(rules), with_learned(model, rules), found.value, found.unit_value,
        not found.is_whole, seconds, measure=CONDITIONAL if data.groups else PSEUDO,
    )  # fmt: skip


def account_clusters(
    model: Model, found: ClusterModel, method: str, seconds: float
) -> LearnedRules:
    learned = with_learned(model, found.rules, found.declarations)
    return LearnedRules(
        method, found.rules, learned, found.value, found.unit_value, not found.is_whole, seconds,
        details={"clusters": found.members},
    )  # fmt: skip


def with_learned(model: Model, rules: Sequence[Rule], declarations: str = "") -> Model:
    lines = [f"{rule.weight!r} {rule.text}\n" for rule in rules]
    learned = parse_model(print_model(model) + declarations + "".join(lines))
    return replace(learned, name=model.name)


def count_rule(
    data: TrainingData, sums: PartSums, candidate: Candidate, weight: float, gain: float
) -> Rule:
    """A clause with the number of groundings that are true, and that show all its atoms.

    One of negative weight is given as the conjunction that breaks it, whose weight is positive.
    """
    path = candidate.path
    types = variable_types(path, data.predicates)
    variables = tuple((str(number), type_name) for number, type_name in types.items())
    literals = [
        Literal(atom.predicate, tuple(Variable(str(number)) for number in atom.variables), True)
        for atom in path
    ]
    groundings = support = false = 0
    for world in data.worlds:
        counts = path_counts(literals, variables, world)
        groundings += sum(counts)
        support += counts[-1]
        false += counts[len(counts) - 1 & ~candidate.positive]
    kept, broken = examples(data, sums, candidate)
    words = say_clause(candidate, data.predicates, fails=weight < 0)
    if weight < 0:  # said the other way round
        text = write_failure(candidate, data.predicates)
        return Rule(
            text, -weight, gain, support, false, groundings, words, tuple(broken), tuple(kept)
        )
    text = write_clause(candidate, data.predicates)
    true = groundings - false
    return Rule(text, weight, gain, support, true, groundings, words, tuple(kept), tuple(broken))

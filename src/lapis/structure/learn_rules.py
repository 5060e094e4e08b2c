"""The front door of structure learning: declarations and data in, rules out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lapis.counting.path import path_counts
from lapis.data.database import Database
from lapis.errors import LapisError
from lapis.language.model import Model
from lapis.language.model_text import print_model
from lapis.language.resolution.resolve import parse_model
from lapis.language.syntax import Variable
from lapis.logic.clauses import Literal
from lapis.methods import find_method
from lapis.problem.problem import build_problem
from lapis.progress import Report, Stop
from lapis.structure.candidates import Search
from lapis.structure.clauses import Candidate, variable_types, write_clause, write_failure
from lapis.structure.explain import examples, say_clause
from lapis.structure.learned_rules import LearnedRules, Rule
from lapis.structure.path_differences import PartSums
from lapis.structure.scores import Scorer, draw_atoms
from lapis.structure.select import Selection
from lapis.structure.training_data import TrainingData, join_worlds


def learn_rules(
    model: Model,
    databases: Sequence[Database],
    targets: Sequence[str] = (),
    *,
    method: str = "forward",
    sample_share: float = 1.0,
    jobs: int = 1,
    seed: int = 0,
    progress: Report | None = None,
    stop: Stop | None = None,
    **options: Any,
) -> LearnedRules:
    """Rules for the predicates of a model, learned from complete worlds.

    `targets` are the predicates to predict (all without any); every rule then mentions one.
    `options` are those of the method.
    """
    started = time.monotonic()
    refuse_blocks(model)
    names = tuple(targets) or tuple(n for n, p in model.predicates.items() if p.arity)
    problems = [build_problem(model.with_rules(()), database) for database in databases]
    data = join_worlds(model, problems, names)
    chosen = find_method("structure", method)
    own = {name: options[name] for name in chosen.options if options.get(name) is not None}
    if "max_atoms" in chosen.options:
        own["seed"] = seed
    sample = None
    if sample_share < 1.0:
        sample = draw_atoms(data, sample_share, np.random.default_rng(seed))
    wish = stop if stop is not None else Stop()
    search = Search(Scorer(data, sample), jobs, started, progress, wish)
    found = chosen.load()(search, **own)
    return account(model, data, search.scorer.sums, found, method, time.monotonic() - started)


def refuse_blocks(model: Model) -> None:
    for predicate in model.predicates.values():
        if predicate.block:
            raise LapisError(
                f"rules are learned for single atoms, but {predicate.name!r} has blocks",
                code="structure-blocks",
                span=predicate.span,
                hint="drop the mark (! or ?) of its declaration",
            )


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
    lines = [f"{rule.weight!r} {rule.text}" for rule in rules]
    learned = parse_model(print_model(model) + "\n".join(lines) + "\n")
    return LearnedRules(
        method, tuple(rules), replace(learned, name=model.name), found.value, found.unit_value,
        not found.is_whole, seconds,
    )  # fmt: skip


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

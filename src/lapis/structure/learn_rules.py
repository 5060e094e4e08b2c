"""The front door of structure learning: declarations and data in, rules out."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lapis.counting.totals import count_sign_patterns
from lapis.data.database import Database
from lapis.errors import LapisError, Warning, announce
from lapis.language.model import Model
from lapis.language.printer import print_model
from lapis.language.resolve import parse_model
from lapis.language.syntax import Variable
from lapis.logic.clauses import Literal
from lapis.optimisation.checkpoint import CheckpointFile, mismatch_error
from lapis.optimisation.replay_log import ReplayMismatchError, open_log
from lapis.problem.problem import build_problem
from lapis.registry.method_table import find_method
from lapis.registry.options import StructureOptions
from lapis.runtime.progress import Report, Stop, pressed_by_interrupt
from lapis.structure.candidates import RuleSearch
from lapis.structure.clauses import (
    Candidate,
    spell_unit,
    variable_types,
    write_clause,
    write_failure,
)
from lapis.structure.dangling_choice import learn_best_way
from lapis.structure.explain import examples, say_clause
from lapis.structure.learned_rules import CONDITIONAL, PSEUDO, LearnedRule, LearnedRules, Penalty
from lapis.structure.learners.lift_graph import ClusterModel
from lapis.structure.path_differences import Joins, PartSums
from lapis.structure.scores import Scorer, draw_atoms
from lapis.structure.select import Selection
from lapis.structure.training_data import TrainingData, join_worlds


def learn_rules(
    model: Model,
    databases: Sequence[Database],
    targets: Sequence[str],
    options: StructureOptions,
    *,
    joint_targets: Sequence[Sequence[str]] = (),
    jobs: int = 1,
    open_joins: Callable[[TrainingData], Joins[Any]] | None = None,
    progress: Report | None = None,
    stop: Stop | None = None,
) -> LearnedRules:
    """Rules for the predicates of a model, learned from complete worlds.

    `targets` are the predicates to predict (all without any); every rule then mentions one. Each
    atom is explained from all other atoms, or from all other predicates (`options.conditioning`)
    but those in the same group of `joint_targets`. Where nothing is given, `lapis` explains targets
    by the other predicates. A checkpoint that exists is continued. `open_joins` gives the joins
    that clauses are scored on, where these are not in memory.
    """
    started = time.monotonic()
    conditioning = options.conditioning
    if open_joins is not None and jobs > 1:
        raise LapisError(
            "clauses are scored on the engine, which one process asks",
            code="engine-jobs",
            hint="leave out --engine, or --jobs",
        )
    refuse_blocks(model)
    model, method = leave_rules_out(model), options.method
    names = choose_targets(model, targets, method)
    problems = [build_problem(model, database) for database in databases]
    if conditioning is None and method == "lapis" and targets:
        conditioning = "predicates"  # what is asked is asked as a whole
    data = join_worlds(model, problems, names, group_targets(names, conditioning, joint_targets))
    if not any(data.num_atoms[name] for name in names):
        raise LapisError(
            "there are no atoms to explain: the data names no constants",
            code="no-atoms",
            hint="lapis check MODEL DATA says what was read",
        )
    sample = None
    if options.sample_share < 1.0:
        sample = draw_atoms(data, options.sample_share, np.random.default_rng(options.seed))
    wish = stop if stop is not None else Stop()
    file = CheckpointFile(options.checkpoint, method, fingerprint(data, options))
    log = open_log(file, wish)
    scorer = Scorer(data, sample, None if open_joins is None else open_joins(data))
    search = RuleSearch(model, databases, scorer, jobs, started, progress, wish, log)
    with pressed_by_interrupt(wish):
        try:
            learner = find_method("structure", method).load()
            if options.dangling == "best":
                found = learn_best_way(learner, search, options)
            else:
                found = learner(search, options)
        except ReplayMismatchError:
            assert file.path is not None
            raise mismatch_error(file.path, "another search, or of another version") from None
        finally:
            file.write()
    seconds = time.monotonic() - started
    if isinstance(found, ClusterModel):
        return build_cluster_result(model, found, method, seconds)
    return build_result(model, data, search.scorer.sums, found, method, seconds)


def fingerprint(data: TrainingData, options: StructureOptions) -> str:
    """Names what is learned from what, so that the log of another search is not replayed."""
    names = ("sample_share", "seed", *find_method("structure", options.method).options)
    how = [(name, getattr(options, name)) for name in sorted(set(names))]
    found = hashlib.sha256(repr((options.method, how, data.targets, data.groups)).encode())
    for name, offset in data.offset.items():
        found.update(f"{name} {offset.tolist()}".encode())
    for name, predicate in data.predicates.items():
        found.update(f"{name} {predicate.types}".encode())
        found.update(np.ascontiguousarray(data.tuples[name]).tobytes())
        if not predicate.arity:
            found.update(data.holds(name).tobytes())
    return found.hexdigest()[:16]


def group_targets(
    targets: Sequence[str], conditioning: str | None, joint_targets: Sequence[Sequence[str]]
) -> list[tuple[str, ...]]:
    """The targets that are unknown at once; none where an atom is explained by all others."""
    joined = [name for group in joint_targets for name in group]
    for name in joined:
        if conditioning == "atoms" or name not in targets or joined.count(name) > 1:
            why = "no target" if name not in targets else "in two groups"
            raise LapisError(
                "predicates are asked together only where others are given, not other atoms"
                if conditioning == "atoms"
                else f"{name!r} cannot be asked together with others: it is {why}",
                code="together",
                hint="say --conditioning predicates" if conditioning == "atoms" else None,
            )
    if conditioning != "predicates" and not joined:
        return []
    return [*map(tuple, joint_targets), *((name,) for name in targets if name not in joined)]


def refuse_blocks(model: Model) -> None:
    for predicate in model.predicates.values():
        if predicate.block:
            raise LapisError(
                f"rules are learned for single atoms, but {predicate.name!r} has blocks",
                code="structure-blocks",
                span=predicate.span,
                hint="drop the mark (! or ?) of its declaration",
            )


def choose_targets(model: Model, targets: Sequence[str], method: str) -> tuple[str, ...]:
    """The predicates to find rules for: those asked, or all.

    Predicates without arguments are literals of rules for `lapis` and `msl`. Paths of the other
    methods lead from one atom to the next by their arguments: a proposition has its unit clause
    alone, and no place among clusters.
    """
    names = tuple(targets) or tuple(model.predicates)
    if method in ("lapis", "msl"):
        return names
    for predicate in model.predicates.values():
        if not predicate.arity:
            kept = "" if method == "lift-graph" else ", but its unit clause"
            message = f"{predicate.name!r} has no arguments: {method} finds no rule with it{kept}"
            if predicate.name in targets:
                raise LapisError(
                    message, code="no-arguments", span=predicate.span, hint="--method lapis does"
                )
            announce([Warning(message, "no-arguments", predicate.span)])
    if method == "lift-graph":
        return tuple(name for name in names if model.predicates[name].arity)
    return names


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


def build_result(
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
        text, true = spell_unit(data.predicates[name]), len(data.tuples[name])
        rules.append(LearnedRule(text, weight, None, None, true, data.num_atoms[name]))
    return LearnedRules(
        method, tuple(rules), with_learned(model, rules), found.value, found.unit_value,
        not found.is_whole, seconds, warnings=tuple(warn_of_loss(found)),
        measure=CONDITIONAL if data.groups else PSEUDO, penalties=spell_penalties(data, found),
        held_out=found.held_out,
    )  # fmt: skip


def spell_penalties(data: TrainingData, found: Selection) -> dict[str, Penalty]:
    """The prices that were chosen, by predicate; none where they were given."""
    if found.prices is None:
        return {}
    plain, coupling = found.prices
    return {
        name: Penalty(nats, nats * data.atom_share[name], coupling[name])
        for name, nats in plain.items()
    }


def warn_of_loss(found: Selection) -> Iterator[str]:
    """Say which gains do not carry over, or that it is not known which do."""
    if found.prices is None or not found.is_whole or not found.clauses:
        return
    if found.held_out is None:
        yield (
            "nothing was held out, the only world is too small: how far the gain carries over to "
            "other worlds is not known"
        )
        return
    for name in found.held_out.lost:
        own = found.held_out.predicates[name]
        yield (
            f"the gain for {name} does not carry over: {own.training:.4f} an atom where rules are "
            f"learned, {own.held_out:.4f} in parts held out"
        )


def build_cluster_result(
    model: Model, found: ClusterModel, method: str, seconds: float
) -> LearnedRules:
    learned = with_learned(model, found.rules, found.declarations)
    return LearnedRules(
        method, found.rules, learned, found.value, found.unit_value, not found.is_whole, seconds,
        details={"clusters": found.members},
    )  # fmt: skip


def with_learned(model: Model, rules: Sequence[LearnedRule], declarations: str = "") -> Model:
    lines = [f"{rule.weight!r} {rule.text}\n" for rule in rules]
    learned = parse_model(print_model(model) + declarations + "".join(lines))
    return replace(learned, name=model.name)


def count_rule(
    data: TrainingData, sums: PartSums, candidate: Candidate, weight: float, gain: float
) -> LearnedRule:
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
        counts = count_sign_patterns(literals, variables, world)
        groundings += sum(counts)
        support += counts[-1]
        false += counts[len(counts) - 1 & ~candidate.positive]
    kept, broken = examples(data, sums, candidate)
    words = say_clause(candidate, data.predicates, fails=weight < 0)
    if weight < 0:  # said the other way round
        text = write_failure(candidate, data.predicates)
        return LearnedRule(
            text, -weight, gain, support, false, groundings, words, tuple(broken), tuple(kept)
        )
    text = write_clause(candidate, data.predicates)
    true = groundings - false
    return LearnedRule(
        text, weight, gain, support, true, groundings, words, tuple(kept), tuple(broken)
    )

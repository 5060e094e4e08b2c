"""Answers where the hard formulas contradict each other or the data: violate as few as possible.

Every hard ground formula gets the same weight, larger than all soft formulas of a component
together. A most likely world of that network violates the fewest hard ground formulas, and among
such worlds has the highest score. The formulas it violates are dropped and listed; the others stay
hard. The same seed gives the same choice among equally good worlds.

If the world is not proven best, its gap still bounds the fewest: with W the weight of a hard
formula, B the number violated and G = Σ |w| of the soft ones, every world violates at least
B − (gap + G) / W.

A formula of several clauses must be dropped with all of them, so each of its groundings gets a
guard atom: guard ⇒ formula is hard, and the guard has the weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lapis.data.database import empty_tuples
from lapis.grounding.assembly import HARD, count_decided
from lapis.grounding.bottom_up import GroundingSession, ground
from lapis.grounding.hard_formulas import GroundFormula, describe_grounding, describe_origin
from lapis.inference.map.solver import MapResult, most_likely_world
from lapis.inference.marginals import InferenceOptions
from lapis.language.model import Predicate, Rule
from lapis.language.syntax import Atom, Implies, Variable
from lapis.logic.normalize import normalize
from lapis.network.csr import take_rows
from lapis.network.merge import EMPTY, TAUTOLOGY
from lapis.network.network import Network
from lapis.problem.problem import Evidence, Problem, refuse_network


@dataclass(frozen=True)
class Relaxation:
    """A network without the hard ground formulas that a best world violates."""

    network: Network
    best: MapResult  # on that network
    broken: tuple[GroundFormula, ...]
    at_least: int  # hard ground formulas broken in every world

    @property
    def diagnostics(self) -> dict[str, Any]:
        return {
            "relaxed": [formula.to_json() for formula in self.broken],
            "relaxed_groundings": sum(formula.groundings for formula in self.broken),
            "relaxed_fewest": self.best.optimal,
            "relaxed_at_least": self.at_least,
        }


def relax(problem: Problem, method: str, options: InferenceOptions) -> Relaxation:
    """Drop the fewest hard ground formulas; proven fewest if `best.optimal`."""
    refuse_network(problem.model)
    soft = weight_hard_rules(problem)
    session = GroundingSession(soft.problem, max_memory=options.max_memory)
    rows = session.ground_all(options.progress)
    network, clause_of_row = session.assemble(
        rows, count_decided(session.problem, rows), session.distinct
    )
    weight, gain = dominating_weight(network)
    network = network.with_weights(np.where(soft.is_hard, weight, network.weights))
    found = most_likely_world(network, method, options)
    is_broken = weight_is_in(network.weight_id, soft.is_hard)
    is_broken &= ~network.is_satisfied(found.world)
    in_network = np.append(is_broken, False)[np.maximum(clause_of_row, TAUTOLOGY)]
    fails = (clause_of_row == EMPTY) | in_network
    is_listed = fails & weight_is_in(rows.weight_id, soft.is_hard & ~soft.is_guard)
    broken = [describe_origin(session, int(row)) for row in np.flatnonzero(is_listed)]
    broken += broken_guards(session, soft, network, found.world)
    world = found.world
    if soft.guards:
        soft = close_guards(soft, network, world)
        network = ground(soft.problem, max_memory=options.max_memory)
        world = network.complete(world[: network.num_base_atoms])
        is_broken = weight_is_in(network.weight_id, soft.is_hard) & ~network.is_satisfied(world)
    network = restore_hard(network, soft.is_hard, is_broken)
    score = network.score(world)
    best = replace(found, world=world, score=score, bound=score + found.gap)
    at_least = sum(formula.groundings for formula in broken)
    if not found.optimal:
        excess = (found.gap + gain) / weight
        at_least = math.ceil(at_least - excess - 1e-9) if excess < at_least else 0
    return Relaxation(network, best, tuple(broken), at_least)


@dataclass(frozen=True)
class WeightedProblem:
    """A problem whose hard rules have weights."""

    problem: Problem  # hard rules of one clause with a weight, the others guarded
    original: Problem
    guards: Mapping[int, Predicate]  # by rule

    @property
    def is_hard(self) -> np.ndarray:
        """bool[num_weights], the weights of hard formulas and of guards."""
        hard = [rule.hard for rule in self.original.model.rules]
        return self.by_weight(hard + [True] * (len(self.problem.model.rules) - len(hard)))

    @property
    def is_guard(self) -> np.ndarray:
        """bool[num_weights], the weights of guards."""
        first = len(self.original.model.rules)
        return self.by_weight([n >= first for n in range(len(self.problem.model.rules))])

    def by_weight(self, rules: list[bool]) -> np.ndarray:
        """Return the flags of rules as flags of weights, bool[num_weights]."""
        return np.repeat(np.array(rules, bool), np.diff(self.problem.weight_table.offset))


def weight_hard_rules(problem: Problem) -> WeightedProblem:
    """Give each hard rule a weight, so that its groundings are counted."""
    model = problem.model
    rules = [replace(rule, hard=False, weight=0.0) if rule.hard else rule for rule in model.rules]
    features = normalize(replace(model, rules=tuple(rules))).features
    guards: dict[int, Predicate] = {}
    for number, rule in enumerate(model.rules):
        if rule.hard and len(features[number].clauses) > 1:
            types = tuple(type_name for _, type_name in rule.variables)
            guard = Predicate(f"_holds_{number}", types)
            atom = Atom(guard.name, tuple(Variable(name) for name, _ in rule.variables))
            guards[number] = guard
            rules[number] = replace(rule, formula=Implies(atom, rule.formula))
            rules.append(replace(rule, formula=atom, bound=(), hard=False, weight=0.0))
    evidence = {guard.name: guard_evidence(guard, None) for guard in guards.values()}
    return build_guarded(problem, tuple(rules), guards, evidence)


def build_guarded(
    problem: Problem,
    rules: tuple[Rule, ...],
    guards: Mapping[int, Predicate],
    evidence: Mapping[str, Evidence],
) -> WeightedProblem:
    """Return the problem with these rules, guard predicates and their evidence."""
    names = {guard.name: guard for guard in guards.values()}
    model = replace(problem.model, rules=rules, predicates={**problem.model.predicates, **names})
    softened = replace(
        problem,
        model=model,
        normal_form=normalize(model),
        evidence={**problem.evidence, **evidence},
    )
    return WeightedProblem(softened, problem, guards)


def guard_evidence(guard: Predicate, true: np.ndarray | None) -> Evidence:
    """Return the evidence of a guard: open if `true` is None."""
    none = empty_tuples(guard.arity)
    return Evidence(guard, true is None, none if true is None else true, none, none)


def guard_tuples(network: Network, guard: Predicate, world: np.ndarray, value: bool) -> np.ndarray:
    """Return the groundings whose guard has this value, int32[..., arity]."""
    if guard.name not in network.atoms.predicates:
        return empty_tuples(guard.arity)
    number = network.atoms.predicates.index(guard.name)
    first, last = network.atoms.offset[number : number + 2]
    return network.atoms.tuples[number][world[first:last] == value]


def close_guards(soft: WeightedProblem, network: Network, world: np.ndarray) -> WeightedProblem:
    """Make the guards evidence, with their values in the world."""
    evidence = {
        guard.name: guard_evidence(guard, guard_tuples(network, guard, world, True))
        for guard in soft.guards.values()
    }
    rules = soft.problem.model.rules[: len(soft.original.model.rules)]
    return build_guarded(soft.original, rules, soft.guards, evidence)


def broken_guards(
    session: GroundingSession, soft: WeightedProblem, network: Network, world: np.ndarray
) -> list[GroundFormula]:
    """Describe the groundings whose guards are false."""
    found: list[GroundFormula] = []
    for number, guard in soft.guards.items():
        features = [f for f in session.problem.normal_form.features if f.rule == number]
        literals = [
            literal
            for feature in features
            for clause in feature.clauses
            for literal in clause.literals
            if literal.predicate != guard.name
        ]
        rule = soft.original.model.rules[number]
        names = [name for name, _ in rule.variables]
        for row in guard_tuples(network, guard, world, False).tolist():
            values = dict(zip(names, row, strict=True))
            formula = describe_grounding(session, features[0], literals, values)
            found.append(formula._replace(rule=rule))
    return found


def weight_is_in(weight_id: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return whether each row's weight is chosen, bool[num_rows]; `chosen` is bool[num_weights]."""
    return (weight_id >= 0) & np.append(chosen, False)[weight_id]


def dominating_weight(network: Network) -> tuple[float, float]:
    """Return a weight above the soft formulas of any component together, and Σ |w| of all."""
    gain = np.abs(np.append(network.weights, 0.0)[network.weight_id] * network.coefficient)
    owner = network.component[network.first_atom]
    in_component = np.bincount(owner, weights=gain, minlength=1)
    return 1.0 + float(in_component.max()), float(in_component.sum())


def restore_hard(network: Network, is_hard: np.ndarray, is_broken: np.ndarray) -> Network:
    """Make the formulas that hold hard again; drop the others."""
    kept = np.flatnonzero(~is_broken)
    start, literal = take_rows(network.clause_start, network.literal, kept)
    number = np.append(np.where(is_hard, HARD, np.cumsum(~is_hard) - 1), HARD)
    weight_id = number[network.weight_id].astype(np.int32)
    return replace(
        network,
        clause_start=start,
        literal=literal,
        weight_id=weight_id[kept],
        coefficient=np.where(weight_id == HARD, 1.0, network.coefficient)[kept],
        weights=network.weights[~is_hard],
        constant_count=network.constant_count[~is_hard],
    )

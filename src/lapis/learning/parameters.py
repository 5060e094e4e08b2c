"""The weights to learn: one for each rule and constants of its plus variables, in all worlds.

Worlds have their own constants, so the weight of `Has(p, +w) => Course(p)` at the word "java" has
another number in each of them (`WeightTable`). A parameter is identified by its rule and the names
of the constants; a rule has a parameter for each constant of any world.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lapis.data.database import Domain
from lapis.language.instances import print_instances
from lapis.language.model import InstanceWeights, Model
from lapis.problem.problem import Problem, count_weights, weights_of_rule

WeightKey = tuple[int, tuple[str, ...]]  # a rule, and the constants of its plus variables


@dataclass(frozen=True)
class Parameters:
    """The parameters, in the order of a weight table over the constants of all worlds."""

    model: Model
    domains: tuple[tuple[Domain, ...], ...]  # for each rule, of its plus variables in order
    offset: np.ndarray  # int64[num_rules + 1], first parameter of each rule
    world_index: tuple[np.ndarray, ...]  # for each world int64[num_weights], the parameters
    initial: np.ndarray  # float64[num_parameters]
    fixed: np.ndarray  # bool[num_parameters], not learned

    def __len__(self) -> int:
        return int(self.offset[-1])

    def of_world(self, world: int, values: np.ndarray) -> np.ndarray:
        """float64[num_weights of the world], its weights."""
        return values[self.world_index[world]]

    def to_parameters(self, world: int, values: np.ndarray) -> np.ndarray:
        """float64[num_parameters], the values of a world's weights summed by parameter."""
        return np.bincount(self.world_index[world], values, len(self))

    def rule_of(self) -> np.ndarray:
        """int64[num_parameters], the rule of each parameter."""
        return np.repeat(np.arange(len(self.model.rules)), np.diff(self.offset))

    def keys(self) -> list[WeightKey]:
        """List the rule and the constants of its plus variables for each parameter."""
        return [
            (number, constants)
            for number, rule in enumerate(self.model.rules)
            if not rule.hard
            for constants in itertools.product(*(d.constants for d in self.domains[number]))
        ]

    def names(self) -> list[str]:
        """List the formula of each parameter, plus variables replaced by their constants."""
        found: list[str] = []
        for rule, domains in zip(self.model.rules, self.domains, strict=True):
            if rule.hard:
                continue
            if not rule.plus:
                found.append(rule.text)
            else:
                found += print_instances(rule, [domain.constants for domain in domains])
        return found


def weighted_model(model: Model, keys: Sequence[WeightKey], weights: np.ndarray) -> Model:
    """Return the model with weights float64[num_keys] by rule and constants."""
    own: list[dict[tuple[str, ...], float]] = [{} for _ in model.rules]
    for (number, constants), weight in zip(keys, weights.tolist(), strict=True):
        own[number][constants] = weight
    rules = []
    for rule, found in zip(model.rules, own, strict=True):
        if rule.hard or rule.weight_by is not None:
            rules.append(rule)
        elif rule.plus:
            table = InstanceWeights(tuple(found), tuple(found.values()))
            rules.append(replace(rule, weight=0.0, instance_weights=table))
        else:
            rules.append(replace(rule, weight=found[()]))
    return model.with_rules(tuple(rules))


def share_parameters(model: Model, problems: Sequence[Problem]) -> Parameters:
    """Number the parameters of a model on several worlds.

    >>> import lapis
    >>> model = lapis.parse("Has(page, word)\\nCourse(page)\\nHas(p, +w) => Course(p)")
    >>> worlds = [lapis.Database.parse(text) for text in ("Has(A,Java)", "Has(B,Art) Has(B,Java)")]
    >>> found = share_parameters(model, [lapis.build_problem(model, world) for world in worlds])
    >>> found.names()
    ['Has(p, Java) => Course(p)', 'Has(p, Art) => Course(p)']
    >>> [index.tolist() for index in found.world_index]
    [[0], [1, 0]]
    """
    plus = {dict(rule.variables)[name] for rule in model.rules for name in rule.plus}
    unions = {name: union_domain(name, problems) for name in model.types if name in plus}
    numbered = number_parameters(model, unions)
    index = tuple(
        world_index(model, problem, numbered.domains, numbered.offset) for problem in problems
    )
    return replace(numbered, world_index=index)


def number_parameters(model: Model, constants: Mapping[str, Domain]) -> Parameters:
    """Number the parameters of a model on no world; `constants` are of the types of + variables."""
    types = [dict(rule.variables) for rule in model.rules]
    domains = [
        tuple(constants[kinds[name]] for name in rule.plus)
        for rule, kinds in zip(model.rules, types, strict=True)
    ]
    sizes = [count_weights(rule, constants) for rule in model.rules]
    offset = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
    initial = [weights_of_rule(r, own) for r, own in zip(model.rules, domains, strict=True)]
    return Parameters(
        model,
        tuple(domains),
        offset,
        (),
        np.concatenate([np.empty(0), *initial]),
        np.repeat([rule.fixed for rule in model.rules], sizes).astype(bool),
    )


def union_domain(type_name: str, problems: Sequence[Problem]) -> Domain:
    """Unite the constants of a type in all worlds, in order of appearance."""
    constants: dict[str, None] = {}
    for problem in problems:
        constants.update(dict.fromkeys(problem.domains[type_name].constants))
    return Domain(type_name, tuple(constants))


def world_index(
    model: Model, problem: Problem, domains: Sequence[tuple[Domain, ...]], offset: np.ndarray
) -> np.ndarray:
    """int64[num_weights], the parameter of each weight of a world."""
    parts = [np.empty(0, np.int64)]
    for rule, own, start in zip(model.rules, domains, offset, strict=False):
        if rule.hard:
            continue
        types = dict(rule.variables)
        number = np.zeros(1, np.int64)
        for name, domain in zip(rule.plus, own, strict=True):
            local = problem.domains[types[name]].constants
            codes = np.array([domain.index[constant] for constant in local], np.int64)
            number = (number[:, None] * len(domain) + codes).ravel()
        parts.append(start + number)
    return np.concatenate(parts)

"""The likelihood of a group of predicates given all others, where clauses couple its atoms.

    log P(X_G | X_rest) = w·n − log Z(X_rest)

Rules are asked about whole predicates: all atoms of the group G are unknown at once. Where no
clause has two atoms of G, they are independent given the rest, and this is the pseudo-likelihood
of G, on classes. Where one has, the pseudo-likelihood claims too much: it lets an atom lean on
others that nobody will know. So a clause is scored only for predicates of which it has one unknown
atom, and it enters only if the networks of the groups that it couples can be summed exactly. In
the end all weights maximise the sum over groups of these likelihoods, each divided by the number
of its atoms: what a clause does for one predicate is weighed against what it does to the others, in
one model.

What did not work: refusing such clauses (on IMDB nothing says who worked under whom but the movies
that two people share); keeping the weights of their scores (movies were then predicted with
overconfidence); the prior of all other clauses for them (see `Ensemble.scales`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapis.errors import TooLarge
from lapis.language.model_text import print_model
from lapis.language.resolution.resolve import parse_model
from lapis.learning.examples import build_examples
from lapis.learning.objectives.conditional import ConditionalObjective, conditional_objective
from lapis.learning.parameters import share_parameters
from lapis.structure.candidates import Search
from lapis.structure.clauses import Candidate, spell_unit, write_clause
from lapis.structure.ensemble import Ensemble

MAX_TABLES = 1 << 24  # bytes, of a group in one world: every step goes through them
TOLERANCE = 1e-7  # of the gradient


class CoupledGroup(NamedTuple):
    """A group's likelihood as a function of the weights of clauses, then units."""

    predicates: tuple[str, ...]
    objective: ConditionalObjective
    share: float  # of one atom

    def at(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """The value and its gradient."""
        point = self.objective.evaluate(weights)
        assert point.value is not None
        return self.share * point.value, self.share * point.gradient


def coupled_groups(search: Search, clauses: Sequence[Candidate]) -> list[tuple[str, ...]]:
    """The groups of which some clause has several atoms."""
    data = search.data
    return [group for group in data.groups if any(data.couples(c.path, group[0]) for c in clauses)]


def ground_group(
    search: Search, clauses: Sequence[Candidate], units: Sequence[str], group: tuple[str, ...]
) -> CoupledGroup:
    """The group's networks; raises TooLarge where they cannot be summed exactly."""
    data = search.data
    lines = [f"1 {write_clause(clause, data.predicates)}" for clause in clauses]
    lines += [f"1 {spell_unit(data.predicates[name])}" for name in units]
    model = parse_model(print_model(search.model) + "\n".join(lines) + "\n")
    examples = build_examples(model, search.databases, group)
    parameters = share_parameters(model, [example.complete for example in examples])
    objective = conditional_objective(
        examples, parameters, expectation="exact", max_memory=MAX_TABLES
    )
    return CoupledGroup(group, objective, data.atom_share[group[0]])


def is_summable(search: Search, ensemble: Ensemble, candidate: Candidate) -> bool:
    """Whether all coupled groups can still be summed exactly when a clause enters.

    The networks are those that `refit_groups` sums.
    """
    clauses = [*ensemble.clauses, candidate]
    names = [target.predicate for target in ensemble.targets]
    mentioned = {atom.predicate for atom in candidate.path}
    for group in coupled_groups(search, clauses):
        if mentioned.isdisjoint(group):
            continue
        try:
            ground_group(search, clauses, names, group)
        except TooLarge:
            return False
    return True


def refit_groups(search: Search, ensemble: Ensemble, l2: float | None) -> None:
    """Weights and value of the ensemble by the likelihoods of all groups."""
    from scipy.optimize import minimize

    names = [target.predicate for target in ensemble.targets]
    groups = [
        ground_group(search, ensemble.clauses, names, group)
        for group in coupled_groups(search, ensemble.clauses)
    ]
    if not groups:
        return
    apart = {name for group in groups for name in group.predicates}
    scale, ridge = ensemble.scales(l2)

    def value_at(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = ensemble.value_at(point, apart)
        for group in groups:
            own, slope = group.at(point)
            value, gradient = value + own, gradient + slope
        return value, gradient

    def loss(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_at(scaled / scale)
        return float(ridge @ scaled**2) / 2 - value, ridge * scaled - gradient / scale

    start = np.concatenate([ensemble.weights, ensemble.units]) * scale
    options = {"maxiter": 500, "gtol": TOLERANCE, "ftol": 0.0}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x / scale
    size = len(ensemble.clauses)
    ensemble.weights, ensemble.units = found[:size], found[size:]
    ensemble.value = value_at(found)[0]

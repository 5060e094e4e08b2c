"""The likelihood of databases, exact and without grounding.

Van den Broeck, Meert & Davis 2013, "Lifted Generative Parameter Learning".

    log P(data) = Σ_databases  w·n(data) − log Z(w, sizes of its domains)
    gradient      Σ_databases  n(data) − E[n]

Generative learning has no evidence, so only formulas distinguish constants: one first-order circuit
serves databases of any size and is evaluated at the sizes of each. With a query the evidence may
distinguish a few constants. The paper compiles a circuit for each class of groundings besides that
of Z; here one backward sweep of Z's circuit gives all expected counts, and a second derivative the
curvature.

True groundings are counted (`counting`), never listed: 900 million atoms are a circuit with one sum
over thirty thousand terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lapis.counting.totals import (
    build_complete_world,
    count_weights,
    find_violated_rules,
    number_weights,
)
from lapis.learning.examples import Example, is_generative
from lapis.learning.parameters import Parameters
from lapis.optimisation.objective import Point
from lapis.problem.problem import Problem

if TYPE_CHECKING:
    from lapis.lifted.lift import LiftedProblem


@dataclass(frozen=True)
class LiftedObjective:
    """The log-likelihood of all databases."""

    parameters: Parameters
    circuits: tuple[LiftedProblem, ...]  # of each database
    true_counts: np.ndarray  # float64[num_parameters]
    name: str  # "conditional", or "likelihood" if nothing is given
    is_exact: bool = True
    is_fixed: bool = True

    @property
    def num_parameters(self) -> int:
        return len(self.parameters)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why constants of some types are distinguished, if they are."""
        return tuple(dict.fromkeys(why for circuit in self.circuits for why in circuit.reasons))

    def evaluate(self, weights: np.ndarray) -> Point:
        value, gradient = float(weights @ self.true_counts), self.true_counts.copy()
        for world, circuit in enumerate(self.circuits):
            found = circuit.at(self.parameters.of_world(world, weights))
            value -= found.log_partition
            gradient -= self.parameters.to_parameters(world, found.expected_count)
        return Point(
            weights,
            value,
            gradient,
            lambda: self.count_variance(weights),
            lambda direction: self.covariance_product(weights, direction),
        )

    def count_variance(self, weights: np.ndarray) -> np.ndarray:
        """float64[num_parameters], Var[n]."""
        units = np.eye(len(weights))
        found = [unit @ self.covariance_product(weights, unit) for unit in units]
        return np.maximum(np.array(found, float), 0.0)

    def covariance_product(self, weights: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """float64[num_parameters], Cov[n]·d."""
        parameters, total = self.parameters, np.zeros(len(direction))
        for world, circuit in enumerate(self.circuits):
            along = parameters.of_world(world, direction)
            own = circuit.hessian_product(along, parameters.of_world(world, weights))
            total += parameters.to_parameters(world, own)
        return total


def lifted_objective(
    examples: Sequence[Example], parameters: Parameters, max_elements: int | None = None
) -> LiftedObjective:
    """Build the likelihood of complete databases; example k is world k of the parameters.

    Formulas and evidence may distinguish at most `max_elements` constants. Raises TooLarge
    (`not-liftable`), with the formulas and the reason, if the model cannot be lifted, and
    LapisError if the data violate a hard rule or a block.

    >>> import lapis
    >>> from lapis.learning.examples import build_examples
    >>> from lapis.learning.parameters import share_parameters
    >>> model = lapis.parse("Smokes(person)\\nCancer(person)\\nSmokes(x) => Cancer(x)")
    >>> data = lapis.Database.parse("Smokes(Ann) Cancer(Ann) Smokes(Bob) Smokes(Eve) Cancer(Eve)")
    >>> examples = build_examples(model, [data])
    >>> parameters = share_parameters(model, [example.free for example in examples])
    >>> objective = lifted_objective(examples, parameters)
    >>> round(objective.evaluate(np.zeros(1)).value, 6)  # 6 atoms: log 2^-6
    -4.158883
    """
    from lapis.lifted.lift import lift_problems

    circuits = tuple(lift_problems([e.free for e in examples], max_elements))
    total = np.zeros(len(parameters))
    for world, example in enumerate(examples):
        total += parameters.to_parameters(world, count_data(example.complete))
    name = "likelihood" if all(map(is_generative, examples)) else "conditional"
    objective = LiftedObjective(parameters, circuits, total, name)
    objective.evaluate(parameters.initial)  # raises if its terms cancel
    return objective


def count_data(problem: Problem) -> np.ndarray:
    """float64[num_weights], the true groundings in complete data; refuses violated hard rules."""
    relations = {name: evidence.true for name, evidence in problem.evidence.items()}
    form = problem.normal_form
    world = build_complete_world(form, problem.model, problem.domains, relations)
    has_blocks = any(predicate.block for predicate in problem.model.predicates.values())
    if has_blocks or find_violated_rules(form.features, world):
        from lapis.grounding.bottom_up import ground

        ground(problem)  # raises, with the rule or block that the data violate
    return np.array(count_weights(form.features, number_weights(problem), world), float)

"""Exact probabilities of the explained atom under conditions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.explanation.local_network import ConditionedPart, Impossible, LocalNetwork, add_units
from lapis.inference.marginals import InferenceOptions, Marginals
from lapis.inference.solve import infer_network
from lapis.network.network import Network
from lapis.runtime.progress import deadline_in

EXACT_SECONDS = 2.0  # for one exact solution
EXACT_MEMORY = 1 << 28  # bytes of its tables


class ProbabilityEstimate(NamedTuple):
    """A probability of the explained atom."""

    probability: float
    log_odds: float
    stderr: float | None  # None if exact
    exact: bool  # for the component that was solved
    method: str
    closed: bool  # the component is the whole one


@dataclass(frozen=True)
class LocalSolver:
    """Solves the component of the explained atom of a local network."""

    local: LocalNetwork
    seed: int = 0

    def solve(self, part: ConditionedPart) -> ProbabilityEstimate | None:
        """Return the probability of the explained atom in its component; None if it is costly."""
        found = self.exact(part.network)
        return None if found is None else self.estimate(part, found)

    def estimate(self, part: ConditionedPart, found: Marginals) -> ProbabilityEstimate:
        """Return the probability of the explained atom among the marginals of its component."""
        at = part.explained
        return ProbabilityEstimate(
            float(found.marginal[at]), float(found.log_odds[at]), None, True, found.method,
            self.local.is_closed(part),
        )  # fmt: skip

    def exact(self, network: Network) -> Marginals | None:
        """Return exact marginals; None if they are too expensive."""
        options = InferenceOptions(
            max_memory=EXACT_MEMORY, exact_until=deadline_in(EXACT_SECONDS), seed=self.seed
        )
        try:
            return infer_network(network, "exact", options)
        except TooLarge:
            return None
        except LapisError as error:
            if error.code == "unsatisfiable":
                raise Impossible from None
            raise

    def given(
        self, value: np.ndarray, network: Network | None = None
    ) -> ProbabilityEstimate | None:
        """Return the probability given values int8[num_atoms]; raise Impossible if none fit."""
        return self.solve(self.local.conditioned(value, network))

    def without(self, instances: np.ndarray) -> ProbabilityEstimate | None:
        """Return the probability without some ground formulas, given by their numbers."""
        weight, is_hard = self.local.weight.copy(), self.local.is_hard.copy()
        weight[instances], is_hard[instances] = 0.0, False
        return self.given(self.local.value, self.local.hard_network(weight, is_hard))

    def expected_counts(self, part: ConditionedPart, value: bool) -> np.ndarray | None:
        """Return E[n | the explained atom has a value], float64[num_instances]; None if costly."""
        unit = np.array([(part.explained + 1) * (1 if value else -1)], np.int32)
        found = self.exact(add_units(replace(part.network), unit))
        return None if found is None else found.expected_count[: self.local.num_instances]

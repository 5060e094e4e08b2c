"""The protocol of samplers.

A sampler is a frozen object with options. `prepare` returns the plan that all chains share. `start`
returns a world for each chain, far from those of the other chains. `init` returns the state of a
chain at a world, which comes from `start`, from training data, or from an earlier run. `step` moves
the chain and records samples; it changes the arrays of the state in place. `reweigh` continues with
other weights from the same world. Plans and states are opaque outside the sampler.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy as np

from lapis.inference.sampling.tally import Tallies
from lapis.network.network import Network


class SamplerPlan(Protocol):
    """The data that all chains share."""

    @property
    def ergodic(self) -> bool | None:
        """True if the chains reach every world; None if unknown."""


class StepInfo(Protocol):
    """A NamedTuple of numbers of events during a step; they are summed over steps."""

    def _asdict(self) -> dict[str, Any]: ...


PlanType = TypeVar("PlanType", bound=SamplerPlan)
StateType = TypeVar("StateType")


class Sampler(Protocol[PlanType, StateType]):
    """A Markov chain over the worlds of a network."""

    @property
    def name(self) -> str: ...

    def prepare(self, network: Network) -> PlanType: ...

    def start(self, plan: PlanType, chain: int, rng: np.ndarray) -> np.ndarray:
        """Return bool[num_atoms], a feasible world for chain number `chain`.

        Raises LapisError: `unsatisfiable`, or `no-initial-state` if satisfiability is unknown.
        """

    def init(self, plan: PlanType, world: np.ndarray, rng: np.ndarray) -> StateType:
        """Return the state at a feasible world bool[≥ num_base_atoms], with rng uint64[4]."""

    def reweigh(
        self, plan: PlanType, state: StateType, weights: np.ndarray
    ) -> tuple[PlanType, StateType]:
        """Continue a chain with other weights, float64[num_weights]."""

    def step(
        self, plan: PlanType, state: StateType, tallies: Tallies, num_samples: int
    ) -> StepInfo:
        """Draw samples and record them."""

    def work(self, plan: PlanType, state: StateType) -> float:
        """Return the cost of a sample in visits of literals, which does not depend on timing."""

    def counts(self, state: StateType) -> np.ndarray:
        """Return float64[num_weights], true groundings in the current world without evidence."""

    def world(self, state: StateType) -> np.ndarray:
        """Return bool[num_atoms], the current world."""

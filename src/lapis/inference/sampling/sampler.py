"""The one protocol of samplers: start at a world, change the weights, step, record.

A sampler is a frozen object with options. `prepare` makes the plan that all chains share,
`start` a world for each chain, far from those of the others, and `init` the state of a chain at a
world, whether found by `start`, given by training data, or kept from an earlier run. `step` moves
the chain and records what it sees; it changes the arrays of the state in place, so that a chain
costs no memory but its own. `reweigh` goes on with other weights from the same world.

Nothing outside the samplers knows what a plan or a state is made of.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy as np

from lapis.inference.sampling.tally import Tallies
from lapis.network.network import Network


class SamplerPlan(Protocol):
    """What all chains share."""

    @property
    def ergodic(self) -> bool | None:
        """True if the chains reach every world; None where that is not known."""


class StepInfo(Protocol):
    """A NamedTuple of numbers: what happened during a step. Those of several steps add up."""

    def _asdict(self) -> dict[str, Any]: ...


PlanType = TypeVar("PlanType", bound=SamplerPlan)
StateType = TypeVar("StateType")


class Sampler(Protocol[PlanType, StateType]):
    """A Markov chain over the worlds of a network."""

    @property
    def name(self) -> str: ...

    def prepare(self, network: Network) -> PlanType: ...

    def start(self, plan: PlanType, chain: int, rng: np.ndarray) -> np.ndarray:
        """bool[num_atoms], a feasible world for chain number `chain`.

        Raises LapisError (`unsatisfiable`, or `no-initial-state` where that is not known).
        """

    def init(self, plan: PlanType, world: np.ndarray, rng: np.ndarray) -> StateType:
        """The chain at a feasible world, bool[≥ num_base_atoms], with its generator uint64[4]."""

    def reweigh(
        self, plan: PlanType, state: StateType, weights: np.ndarray
    ) -> tuple[PlanType, StateType]:
        """The same chain under other weights, float64[num_weights]."""

    def step(
        self, plan: PlanType, state: StateType, tallies: Tallies, num_samples: int
    ) -> StepInfo:
        """Draw samples and record them."""

    def work(self, plan: PlanType, state: StateType) -> float:
        """What a sample costs, in visits of literals; measured beforehand, not by the clock."""

    def counts(self, state: StateType) -> np.ndarray:
        """float64[num_weights], true groundings in the current world, evidence left out."""

    def world(self, state: StateType) -> np.ndarray:
        """bool[num_atoms], the current world."""

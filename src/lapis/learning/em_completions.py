"""Completions of hidden atoms, drawn from their distribution given all that is known.

Components whose tables fit in memory give independent samples; on the others a chain runs, which
goes on from round to round of EM while the weights change. Independent samples use the same
random numbers in every round: the completions then change only as far as the weights do, and the
rounds can come to rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.data.database import empty_tuples
from lapis.data.keys import union
from lapis.grounding.evidence import close_blocks
from lapis.inference.exact.by_components import ExactPlan, plan_exact
from lapis.learning.em import Completion
from lapis.learning.examples import Example
from lapis.learning.objectives.conditional import AUTO_MEMORY, suited_sampler
from lapis.learning.parameters import Parameters
from lapis.network.network import Network
from lapis.network.parts import Subnetwork
from lapis.optimisation.objective import Objective
from lapis.registry.method import find_method

if TYPE_CHECKING:
    from lapis.inference.moments.persistent_chain import PersistentChain

NUM_COMPLETIONS = 10
CHAIN_SAMPLES = 20  # from one completion of a chain to the next


@dataclass(frozen=True)
class SampledCompletions:
    """The E-step of a pseudo-likelihood."""

    examples: tuple[Example, ...]
    parameters: Parameters
    hidden: tuple[HiddenWorlds | None, ...]  # of each example; None where nothing is hidden
    build: Callable[[Sequence[Example], Parameters, Sequence[float]], Objective]
    num_completions: int
    seed: int

    @property
    def is_exact(self) -> bool:
        return False

    @property
    def observed(self) -> None:
        return None

    def keep(self) -> dict[str, np.ndarray]:
        return {
            f"{number}.{place}": array
            for number, hidden in enumerate(self.hidden)
            if hidden is not None and hidden.chain is not None
            for place, array in enumerate(hidden.chain.keep())
        }

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        for number, hidden in enumerate(self.hidden):
            if hidden is not None and hidden.chain is not None:
                hidden.chain.resume([kept[f"{number}.0"], kept[f"{number}.1"]])

    def complete(self, weights: np.ndarray) -> Completion:
        examples: list[Example] = []
        worlds: list[int] = []
        share: list[float] = []
        for number, (example, hidden) in enumerate(zip(self.examples, self.hidden, strict=True)):
            completed = [example]
            if hidden is not None:
                own = self.parameters.of_world(number, weights)
                rng = np.random.default_rng((self.seed, number))
                drawn = hidden.draw(own, self.num_completions, rng)
                completed = [complete_example(example, hidden.network, world) for world in drawn]
            examples += completed
            worlds += [number] * len(completed)
            share += [1.0 / len(completed)] * len(completed)
        index = tuple(self.parameters.world_index[world] for world in worlds)
        repeated = replace(self.parameters, world_index=index)
        return Completion(self.build(examples, repeated, share), None)


def pseudo_completions(
    examples: Sequence[Example],
    parameters: Parameters,
    *,
    weighted: bool = False,
    num_completions: int = NUM_COMPLETIONS,
    max_memory: int | None = None,
    seed: int = 0,
) -> SampledCompletions:
    """The E-step for EM of a (weighted) pseudo-likelihood, with hidden atoms in its sum too."""
    from lapis.learning.objectives.pseudo import pseudo_objective

    def build(
        completed: Sequence[Example], repeated: Parameters, share: Sequence[float]
    ) -> Objective:
        return pseudo_objective(completed, repeated, weighted=weighted, world_weights=share)

    hidden = tuple(
        hidden_worlds(example, max_memory, seed + number) if example.has_hidden else None
        for number, example in enumerate(examples)
    )
    return SampledCompletions(tuple(examples), parameters, hidden, build, num_completions, seed)


@dataclass(frozen=True)
class HiddenWorlds:
    """The network of an example's hidden atoms, and ways to draw their values."""

    network: Network
    plan: ExactPlan  # of the components that can be solved
    rest: Subnetwork  # of the others
    chain: PersistentChain[Any, Any] | None  # on the rest

    def draw(self, weights: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
        """bool[size, num_atoms], worlds under weights float64[num_weights]."""
        plan = replace(self.plan, network=self.network.with_weights(weights))
        worlds = plan.sample(size, rng)
        if self.chain is not None:
            for world in worlds:
                self.chain.draw(weights, CHAIN_SAMPLES, 1)
                world[self.rest.atom] = self.chain.world()
        return worlds


def hidden_worlds(example: Example, max_memory: int | None, seed: int) -> HiddenWorlds:
    from lapis.grounding.bottom_up import ground

    network = ground(example.complete, max_memory=max_memory)
    plan = plan_exact(network, min(max_memory or AUTO_MEMORY, AUTO_MEMORY), merge_copies=False)
    rest = plan.rest()
    chain = None
    if rest.network.num_atoms:
        from lapis.inference.moments.persistent_chain import PersistentChain
        from lapis.inference.random_numbers import random_states

        method = suited_sampler(rest.network)
        stream = random_states(seed, 1)[0]
        chain = PersistentChain(find_method("infer", method).make(), rest.network, None, 0, stream)
    return HiddenWorlds(network, plan, rest, chain)


def complete_example(example: Example, network: Network, world: np.ndarray) -> Example:
    """The example with its hidden atoms as in a world, bool[num_atoms], of their network.

    Predicates with hidden atoms are asked from now on: a completion is judged as a whole.
    """
    evidence = dict(close_blocks(example.complete))  # what blocks decide is not in the network
    asked = dict.fromkeys(example.asked)
    for name, known in evidence.items():
        before = example.complete.evidence[name]
        if not (before.open or len(before.unknown)):
            continue
        true = known.true
        if name in network.atoms.predicates:
            place = network.atoms.predicates.index(name)
            first, last = network.atoms.offset[place : place + 2]
            true = union(true, network.atoms.tuples[place][world[first:last]])
        none = empty_tuples(known.predicate.arity)
        evidence[name] = replace(known, open=False, true=true, false=none, unknown=none)
        # Where a block is given but for some values, no sum over whole blocks can be asked.
        if example.free.evidence[name].open or not known.predicate.block:
            asked[name] = None
    complete = replace(example.complete, evidence=evidence)
    return replace(example, complete=complete, asked=tuple(asked))

"""Tree-blocked Gibbs: a random forest of atoms is drawn at once, exactly, given all the others.

Hamze and de Freitas (From fields to trees, UAI 2004): the atoms of a tree can be drawn from their
joint distribution given the rest by one pass to the root and one back, at the cost of visiting
them. Theirs are two fixed trees that cover a grid; here every sample has a forest of its own,
grown in random order as long as no cycle closes. It is *induced*: two atoms of the forest
that are coupled are neighbours in it, and all other couplings are with atoms that are held. Which
atoms it takes does not depend on the world, so each draw keeps the model's distribution.

Atoms in blocks, in hard clauses or in clauses of three and more are not in a forest; a Gibbs sweep
before each forest moves them, and lets every atom take part in every sample. What is tallied of an
atom in the forest is its probability given what is outside, which varies less than given its
neighbours.

Trees and chains do not outlast elimination, and on what does, grids and random graphs of four to
twenty neighbours, attractive or frustrated, a forest cost three sweeps and was never worth more
than these: `auto` has no pilot for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.inference.sampling import gibbs
from lapis.inference.sampling.couplings.pairs import Coupled, CoupledSampler
from lapis.inference.sampling.gibbs import Gibbs
from lapis.inference.sampling.kernels.forest import Forest, new_forest, run_forests
from lapis.inference.sampling.kernels.tally import Tallies

PAIR_WORK, ATOM_WORK = 3.0, 12.0  # literals of a sweep that a pair and an atom cost, as measured


class State(NamedTuple):
    """One chain; `step` changes its arrays in place."""

    gibbs: gibbs.State
    forest: Forest


class Info(NamedTuple):
    drawn: int  # atoms of forests
    turned: int  # of which changed
    changes: int  # units that changed in the sweeps


@dataclass(frozen=True)
class TreeGibbs(CoupledSampler):
    """Gibbs sweeps and draws of random forests; one sample is one of each."""

    name: str = "forest"

    def init(self, plan: Coupled, world: np.ndarray, rng: np.ndarray) -> State:
        eligible = np.flatnonzero(plan.pairs.plain)
        state = Gibbs().init(plan.gibbs, world, rng)
        return State(state, new_forest(eligible, plan.gibbs.network.num_base_atoms))

    def step(self, plan: Coupled, state: State, tallies: Tallies, num_samples: int) -> Info:
        chain = state.gibbs
        done = run_forests(
            plan.gibbs.graph, plan.gibbs.units, plan.pairs.field, plan.near, plan.plain, plan.order,
            chain.world, chain.estimate, chain.rng, chain.score, chain.digit, state.forest, tallies,
            num_samples,
        )  # fmt: skip
        return Info(*done)

    def work(self, plan: Coupled, state: State) -> float:
        forest = PAIR_WORK * len(plan.pairs.one) + ATOM_WORK * int(plan.pairs.plain.sum())
        return plan.sweep_work + forest

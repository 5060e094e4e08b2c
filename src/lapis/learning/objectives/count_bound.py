"""How much likelihood approximate counts can cost: Lemma 1 and Theorem 1 of Sarkhel et al. 2016.

Let M_i(ω) stand in for the true counts N_i(ω), with |M_i(ω) − N_i(ω)| ≤ ε_i in every world ω; ℓ is
the log-likelihood with N, ℓ̂ with M. The score of a world is off by at most Σ |w_i| ε_i, and so is
log Z; hence

    |ℓ(w) − ℓ̂(w)| ≤ 2 Σ |w_i| ε_i                       (Lemma 1)

and if α maximises ℓ and β maximises ℓ̂,

    ℓ(α) − ℓ(β) ≤ ℓ̂(α) − ℓ̂(β) + 2 Σ (|α_i| + |β_i|) ε_i ≤ 2 Σ (|α_i| + |β_i|) ε_i   (Theorem 1).

The paper has one ε for all formulas and positive weights; an error for each parameter and absolute
values need nothing else in the proof and are tighter. Several worlds add up their errors, as they
add up their likelihoods.

The ε of the theorem is over *all* worlds. `measure_errors` compares the counts in the data only.
With these, what is computed is an indication of the size of the loss, not a bound: `Bound.words`
says so to the user. It is that of the lemma: the weights of exact counts are not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lapis.counting.ijgp import IjgpSettings, count_ijgp
from lapis.learning.examples import Example
from lapis.learning.parameters import Parameters


@dataclass(frozen=True)
class Bound:
    """2 Σ |w_i| ε_i, as far as ε is that of all worlds."""

    value: float  # in nats, of the whole data
    largest_error: float  # max ε_i

    @property
    def words(self) -> str:
        return (
            f"the log-likelihood by approximate counts is off by at most {self.value:.4g}, if no "
            "world's counts are off by more than those of the data "
            f"(at most {self.largest_error:.4g}); other worlds were not measured"
        )


def likelihood_bound(weights: np.ndarray, errors: np.ndarray) -> Bound:
    """Lemma 1 for `weights` and the ε_i, float64[num_parameters].

    >>> likelihood_bound(np.array([1.0, -2.0]), np.array([0.5, 0.25])).value
    2.0
    """
    return Bound(2.0 * float(np.abs(weights) @ errors), float(errors.max(initial=0.0)))


def measure_errors(
    examples: Sequence[Example], parameters: Parameters, settings: IjgpSettings
) -> np.ndarray:
    """float64[num_parameters], |M_i − N_i| in the data, added up over the examples."""
    errors = np.zeros(len(parameters))
    for number, example in enumerate(examples):
        problem = example.complete
        world = {name: known.true for name, known in problem.evidence.items()}
        found = count_ijgp(
            problem.normal_form, problem.model, problem.domains, world, settings, measure_error=True
        )
        assert found.error is not None
        exact = np.array([float(count) for count in found.error.exact])
        errors += parameters.to_parameters(number, np.abs(found.count - exact))
    return errors

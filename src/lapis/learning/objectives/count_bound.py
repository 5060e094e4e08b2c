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
With these, what is computed is an indication of the size of the loss, not a bound: `Bound.holds`
says which it is, `Bound.words` says it to the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lapis.errors import LapisError
from lapis.learning.examples import Example
from lapis.learning.parameters import Parameters


@dataclass(frozen=True)
class Bound:
    """2 Σ |w_i| ε_i, over the learned weights and those they are compared with."""

    value: float  # in nats, of the whole data
    parts: np.ndarray  # float64[num_parameters], what each parameter adds
    largest_error: float  # max ε_i
    is_comparison: bool  # Theorem 1, with the weights of exact counts; else Lemma 1
    holds: bool  # ε covers all worlds, so that it is a bound

    @property
    def words(self) -> str:
        if self.is_comparison:
            what = "the weights lose at most {:.4g} of log-likelihood to approximate counts"
        else:
            what = "the log-likelihood by approximate counts is off by at most {:.4g}"
        stated = what.format(self.value)
        if self.holds:
            return f"{stated} (counts off by at most {self.largest_error:.4g} in any world)"
        return (
            f"{stated}, if no world's counts are off by more than those of the data "
            f"(at most {self.largest_error:.4g}); other worlds were not measured"
        )


def likelihood_bound(
    weights: np.ndarray,
    errors: np.ndarray,
    reference_weights: np.ndarray | None = None,
    *,
    all_worlds: bool = False,
) -> Bound:
    """Theorem 1 for `weights` learned with approximate counts and `reference_weights` with exact.

    Without the reference, Lemma 1. `errors` float64[num_parameters] are the ε_i; `all_worlds` says
    that they hold in every world and not only in the data.

    >>> likelihood_bound(np.array([1.0, -2.0]), np.array([0.5, 0.25])).value
    2.0
    >>> likelihood_bound(np.array([1.0]), np.array([0.5]), np.array([2.0])).value
    3.0
    """
    if errors.shape != weights.shape or (errors < 0).any():
        raise LapisError("an error of counts is needed for each weight", code="invalid-errors")
    size = np.abs(weights)
    if reference_weights is not None:
        size = size + np.abs(reference_weights)
    parts = 2.0 * size * errors
    return Bound(
        float(parts.sum()),
        parts,
        float(errors.max(initial=0.0)),
        reference_weights is not None,
        all_worlds,
    )


def measure_errors(examples: Sequence[Example], parameters: Parameters, ibound: int) -> np.ndarray:
    """float64[num_parameters], |M_i − N_i| in the data, added up over the examples."""
    from lapis.counting.ijgp import count_ijgp

    errors = np.zeros(len(parameters))
    for number, example in enumerate(examples):
        problem = example.complete
        world = {name: known.true for name, known in problem.evidence.items()}
        found = count_ijgp(
            problem.normal_form, problem.model, problem.domains, world, ibound, measure_error=True
        )
        assert found.error is not None
        exact = np.array([float(count) for count in found.error.exact])
        errors += parameters.to_parameters(number, np.abs(found.count - exact))
    return errors

"""What can be asked of a learner, and what is taken where nothing is asked.

objective         what is maximised
pseudo            Σ log P(atom | all others), by counting: no inference, no grounding
weighted-pseudo   the same, each predicate's sum divided by its number of atoms
conditional       log P(query atoms | the rest)
likelihood        log P(all atoms)
max-margin        the data's score over that of the best other world, less its errors

expectation       how a (conditional) likelihood's expected counts are had
exact             by components, value included
mcsat, gibbs      by a few samples of persistent chains
map               by the most likely world (voted perceptron)
count-gibbs, count-map   the same two without grounding
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lapis.errors import LapisError, check_word
from lapis.learning.objectives.priors import Prior, parse_prior

OBJECTIVES = ("pseudo", "weighted-pseudo", "conditional", "likelihood", "max-margin")
OPTIMIZERS = (
    "lbfgs", "newton", "vp", "cd", "vp-pw", "cd-pw", "dn", "scg", "pscg", "adam", "adagrad",
)  # fmt: skip
EXPECTATIONS = ("auto", "exact", "mcsat", "gibbs", "map", "count-gibbs", "count-map")
Counts = Literal["exact", "ijgp"]
COUNTS: tuple[Counts, ...] = ("exact", "ijgp")
CUTTING_PLANE = "cutting-plane"
PRIOR_WIDTH = {"pseudo": 10.0, "conditional": 5.0, "likelihood": 10.0, "max-margin": 1.0}


@dataclass(frozen=True)
class Options:
    """How to learn; None stands for what suits the rest."""

    objective: str | None = None
    optimizer: str | None = None
    prior: Prior | str | None = None
    prior_mean: str = "zero"  # or "initial": the weights written in the model
    expectation: str = "auto"
    counts: Counts = "exact"
    measure_error: bool = False  # of ijgp counts, and what it may cost
    ibound: int = 2
    num_samples: int = 5  # of each chain, an iteration
    rate: float | None = None  # of gradient ascent
    margin: float = 1.0  # price of a wrong atom in max-margin learning
    max_iterations: int | None = None
    tolerance: float | None = None
    time_limit: float | None = None
    max_memory: int | None = None
    seed: int = 0
    checkpoint: Path | None = None


def check_words(options: Options) -> None:
    """Refuse words that name nothing."""
    words: tuple[tuple[str, str | None, Sequence[str]], ...] = (
        ("objective", options.objective, OBJECTIVES),
        ("optimizer", options.optimizer, (*OPTIMIZERS, CUTTING_PLANE)),
        ("expectation", options.expectation, EXPECTATIONS),
        ("counts", options.counts, COUNTS),
        ("prior mean", options.prior_mean, ("zero", "initial")),
    )
    for what, word, known in words:
        if word is not None:
            check_word(what, word, known, code="learn-option")
    if isinstance(options.prior, str):
        parse_prior(options.prior)
    for name, number in (
        ("rate", options.rate),
        ("margin", options.margin),
        ("max_iterations", options.max_iterations),
        ("tolerance", options.tolerance),
        ("time_limit", options.time_limit),
        ("num_samples", options.num_samples),
        ("ibound", options.ibound),
    ):
        if number is not None and not number > 0:
            raise LapisError(f"{name.replace('_', ' ')} must be positive", code="learn-option")


def check_together(options: Options, objective: str) -> None:
    """Refuse choices that exclude each other."""
    is_pseudo = objective in ("pseudo", "weighted-pseudo")
    optimizer = options.optimizer
    if objective == "max-margin":
        refuse(
            optimizer not in (None, CUTTING_PLANE),
            "max-margin learning has its own optimiser: cutting planes",
            "leave out --optimizer",
        )
        refuse(
            isinstance(options.prior, str) and not options.prior.startswith("gaussian"),
            "max-margin learning needs a Gaussian prior: it is the width of the margin",
            "as in --prior gaussian:2",
        )
    else:
        refuse(
            optimizer == CUTTING_PLANE,
            "cutting planes learn max-margin weights only",
            "add --objective max-margin",
        )
    refuse(
        is_pseudo and options.expectation != "auto",
        "a pseudo-likelihood needs no expectation",
        "leave out --expectation, or choose --objective conditional",
    )
    wants_value = optimizer in ("lbfgs", "newton") and not is_pseudo
    refuse(
        wants_value and options.expectation not in ("auto", "exact"),
        f"{optimizer} needs exact values, and expectation {options.expectation!r} has none",
        "choose --optimizer pscg, or --expectation exact",
    )
    refuse(
        options.expectation in ("map", "count-map") and optimizer in ("dn", "scg", "pscg"),
        f"{optimizer} needs the counts' variances, and a most likely world has none",
        "choose vp, vp-pw, adam or adagrad, or another --expectation",
    )
    refuse(
        optimizer == "newton" and str(options.prior or "").startswith("l1"),
        "newton does not climb over the corners of an l1 prior",
        "choose --optimizer lbfgs",
    )
    refuse(
        options.counts == "ijgp" and objective == "max-margin",
        "max-margin learning does not count by ijgp",
        "choose another --objective, or --counts exact",
    )


def refuse(wrong: bool, message: str, hint: str) -> None:
    if wrong:
        raise LapisError(message, code="learn-option", hint=hint)

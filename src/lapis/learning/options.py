"""Which choices of a learner exclude each other.

The options by themselves are in `lapis.registry.options`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lapis.errors import LapisError
from lapis.learning.objectives.priors import Prior, parse_prior
from lapis.registry.method_table import check_options, find_method, refuse_unread
from lapis.registry.options import LearnOptions

if TYPE_CHECKING:
    from lapis.counting.ijgp import IjgpSettings

CUTTING_PLANE = "cutting-plane"
OF_THE_MEAN = ("posterior_method", "num_draws", "num_chains", "level")
PRIOR_WIDTH = {"pseudo": 10.0, "conditional": 5.0, "likelihood": 10.0, "max-margin": 1.0}


def ijgp_settings(options: LearnOptions) -> IjgpSettings:
    """How counts are estimated, where they are."""
    from lapis.counting.ijgp import IjgpSettings

    return IjgpSettings(
        options.ibound,
        options.ijgp_tolerance,
        options.ijgp_iterations,
        options.ijgp_damping,
        options.differences,
    )


def given_prior(options: LearnOptions) -> Prior | None:
    """The prior that was given, if one was."""
    if isinstance(options.prior, str):
        return parse_prior(options.prior)
    if options.prior is not None and not isinstance(options.prior, Prior):
        raise LapisError(f"{options.prior!r} is not a prior", code="prior")
    return options.prior


def check_words(options: LearnOptions) -> None:
    """Refuse what is wrong whatever the rest."""
    check_options(options)
    prior = given_prior(options)
    if prior is not None and options.prior_mean == "initial":
        refuse(prior.kind == "none", "no prior has no mean", "leave out --prior-mean")
        refuse(bool(np.any(prior.mean)), "the mean of the prior is given twice", "leave out one")
    if options.rate is not None and "rate" in (options.optimizer_options or {}):
        raise LapisError("the rate is given twice", code="learn-option")
    if options.optimizer is not None:
        find_method("optimizer", options.optimizer).check_own(options.of_optimizer)


def check_together(options: LearnOptions, objective: str) -> None:
    """Refuse choices that exclude each other."""
    is_pseudo = objective in ("pseudo", "weighted-pseudo")
    optimizer = options.optimizer
    if objective == "max-margin":
        find_method("optimizer", CUTTING_PLANE).check_own(options.of_optimizer)
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
    if options.engine is not None:
        refuse(
            not is_pseudo,
            f"an engine counts classes of atoms, and objective {objective!r} needs inference",
            "choose --objective pseudo or weighted-pseudo, or leave out --engine",
        )
        refuse(
            options.counts != "exact",
            "an engine counts exactly",
            "leave out --counts, or --engine",
        )
    if options.counts == "ijgp":
        refuse(
            options.expectation in ("exact", "lifted", "mcsat"),
            f"expectation {options.expectation!r} does not go by estimated counts",
            "leave out --counts, or choose --expectation count-gibbs or count-map",
        )
        refuse(
            optimizer in ("lbfgs", "newton") and not is_pseudo,
            f"{optimizer} needs exact values, and estimated counts have none",
            "choose --optimizer pscg, or leave out --counts",
        )
    if options.estimate == "mode":
        for name in OF_THE_MEAN:
            refuse(
                getattr(options, name) != getattr(LearnOptions, name),
                f"{name} is for a posterior, which estimate 'mode' does not need",
                "add --estimate mean",
            )
    wants_value = optimizer in ("lbfgs", "newton") and not is_pseudo
    refuse(
        wants_value and options.expectation not in ("auto", "exact", "lifted"),
        f"{optimizer} needs exact values, and expectation {options.expectation!r} has none",
        "choose --optimizer pscg, or --expectation exact",
    )
    refuse(
        options.expectation == "lifted" and objective != "likelihood",
        "only the likelihood of all atoms is lifted: what is given tells constants apart",
        "add --objective likelihood and leave out the query",
    )
    refuse(
        options.expectation in ("map", "count-maxwalksat") and optimizer in ("dn", "scg", "pscg"),
        f"{optimizer} needs the counts' variances, and a most likely world has none",
        "choose vp, vp-pw, adam or adagrad, or another --expectation",
    )
    refuse(
        options.chain_start == "random" and options.expectation != "count-maxwalksat",
        "chains whose counts are averaged start in the data or in their last world",
        "choose --chain-start data or last, or --expectation count-maxwalksat",
    )
    refuse(
        optimizer == "newton" and str(options.prior or "").startswith("l1"),
        "newton does not climb over the corners of an l1 prior",
        "choose --optimizer lbfgs",
    )
    refuse_unread(LearnOptions, {**vars(options), "objective": objective})


def refuse(wrong: bool, message: str, hint: str) -> None:
    if wrong:
        raise LapisError(message, code="learn-option", hint=hint)

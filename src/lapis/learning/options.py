"""What can be asked of a learner, and which choices exclude each other.

The words and numbers by themselves stand in `lapis.methods` and `lapis.options`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lapis.counting.ijgp import IjgpSettings
from lapis.counting.ijgp.propagation import Differences
from lapis.errors import LapisError
from lapis.learning.objectives.priors import Prior, parse_prior
from lapis.methods import check_options, find_method, refuse_unread

Counts = Literal["exact", "ijgp"]
ChainStart = Literal["data", "last", "random"]
CUTTING_PLANE = "cutting-plane"
OF_THE_MEAN = ("posterior_method", "num_draws", "num_chains", "level")
PRIOR_WIDTH = {"pseudo": 10.0, "conditional": 5.0, "likelihood": 10.0, "max-margin": 1.0}


@dataclass(frozen=True)
class LearnOptions:
    """How to learn; None stands for what suits the rest."""

    objective: str | None = None
    optimizer: str | None = None
    prior: Prior | str | None = None
    prior_mean: str = "zero"  # or "initial": the weights written in the model
    expectation: str = "auto"
    counts: Counts = "exact"
    measure_error: bool = False  # of ijgp counts, and what it may cost
    ibound: int = 2
    ijgp_iterations: int = 50
    ijgp_tolerance: float = 1e-4
    ijgp_damping: float = 0.0
    differences: Differences = "substituted"  # how estimated counts change with an atom
    num_steps: int | None = None  # of chains by counts, an iteration
    num_records: int | None = None  # worlds of such a chain whose counts are averaged
    chain_start: ChainStart | None = None
    num_samples: int = 5  # of each chain, an iteration
    rate: float | None = None  # of gradient ascent
    margin: float = 1.0  # price of a wrong atom in max-margin learning
    max_iterations: int | None = None
    tolerance: float | None = None
    time_limit: float | None = None
    max_memory: int | None = None
    seed: int = 0
    checkpoint: Path | None = None
    optimizer_options: Mapping[str, float] | None = None  # its own
    engine: str | None = None  # where classes of atoms are counted
    estimate: str = "mode"  # of the posterior, or its "mean"
    posterior_method: str = "nuts"
    num_draws: int = 1000  # from the posterior, of each chain
    num_chains: int = 4
    level: float = 0.9  # of credible intervals

    @property
    def of_optimizer(self) -> dict[str, float]:
        """The optimiser's own options, `rate` among them."""
        rate: dict[str, float] = {} if self.rate is None else {"rate": self.rate}
        return {**(self.optimizer_options or {}), **rate}

    @property
    def ijgp(self) -> IjgpSettings:
        """How counts are estimated, where they are."""
        return IjgpSettings(
            self.ibound,
            self.ijgp_tolerance,
            self.ijgp_iterations,
            self.ijgp_damping,
            self.differences,
        )

    def by_keyword(self) -> dict[str, Any]:
        """The values by the keywords of `lapis.learn`."""
        values = {option.name: getattr(self, option.name) for option in fields(self)}
        return {"random_state": values.pop("seed"), **values}


def check_words(options: LearnOptions) -> None:
    """Refuse what is wrong whatever the rest."""
    check_options("learn", options.by_keyword())
    prior = parse_prior(options.prior) if isinstance(options.prior, str) else options.prior
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
    refuse_unread("learn", {**options.by_keyword(), "objective": objective})


def refuse(wrong: bool, message: str, hint: str) -> None:
    if wrong:
        raise LapisError(message, code="learn-option", hint=hint)

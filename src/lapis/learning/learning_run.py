"""What is to be learned, from what and how: what was said, and what is taken where nothing was.

Without a query the pseudo-likelihood, by Newton's method or L-BFGS; with one the conditional
likelihood, by L-BFGS where it can be had exactly and by preconditioned scaled conjugate gradients
where it must be sampled; by Adam where most likely worlds stand in for expectations.

Which choices of a learner exclude each other.

The options by themselves are in `lapis.registry.options`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.errors import LapisError
from lapis.grounding.cache import grounding_key
from lapis.learning.examples import Example
from lapis.learning.objectives.priors import Prior
from lapis.learning.parameters import Parameters
from lapis.optimisation.newton import MAX_WEIGHTS
from lapis.problem.problem import LazyEvidence, Problem
from lapis.registry.options import LearnOptions
from lapis.runtime.progress import Report, Stop

if TYPE_CHECKING:
    from lapis.optimisation.objective import Objective
from typing import TYPE_CHECKING

from lapis.learning.objectives.priors import parse_prior
from lapis.registry.method_table import check_options, find_method, refuse_unread

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


IMPLIED = {"vp": "map", "vp-pw": "map", "lbfgs": "exact", "newton": "exact"}
BY_WORLD = ("map", "count-map", "count-maxwalksat")  # expectations that are most likely worlds
BEST_WORLD = ("map", "count-maxwalksat")  # without noise: they leave the length of weights open
BY_COUNTS = ("count-gibbs", "count-map", "count-maxwalksat")  # of chains by counts
# Options that a trajectory depends on, beside objective, optimiser and prior.
OF_THE_COURSE = (
    "prior_mean", "expectation", "counts", "ibound", "ijgp_iterations", "ijgp_tolerance",
    "ijgp_damping", "differences", "num_samples", "num_steps", "num_records", "chain_start",
    "margin", "random_state",
)  # fmt: skip


@dataclass(frozen=True)
class Notes:
    """What is said of a run beside its weights."""

    seconds: dict[str, float] = field(default_factory=dict)  # wall time by phase
    warnings: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


@dataclass(frozen=True)
class LearningRun:
    """One run of learning."""

    examples: Sequence[Example]
    parameters: Parameters
    objective: str  # its name
    options: LearnOptions
    notes: Notes
    progress: Report | None
    stop: Stop | None

    @property
    def is_pseudo(self) -> bool:
        return self.objective in ("pseudo", "weighted-pseudo")

    @property
    def has_hidden(self) -> bool:
        return any(example.has_hidden for example in self.examples)

    @property
    def expectation(self) -> str:
        """What optimiser or estimate implies, unless it is said; "" for what needs none."""
        if self.is_pseudo or self.objective == "max-margin":
            return ""
        options, kind = self.options, self.options.expectation
        if kind == "auto":
            otherwise = "exact" if options.estimate == "mean" else "auto"
            kind = IMPLIED.get(options.optimizer or "", otherwise)
        if options.counts == "ijgp" and kind not in BY_COUNTS:
            return "count-map" if kind in BY_WORLD else "count-gibbs"
        return kind

    @property
    def fingerprint(self) -> str:
        """Names what is learned from what and how, so that only its own checkpoint is resumed.

        How long to go on (iterations, seconds, tolerance) may change from one run to the next.
        """
        options, parameters = self.options, self.parameters
        if options.checkpoint is None:
            return ""
        import hashlib

        prior = options.prior
        how = {name: getattr(options, name) for name in OF_THE_COURSE}
        own = sorted(options.of_optimizer.items())
        words = self.objective, str(prior), how, own, parameters.names()
        found = hashlib.sha256(repr(words).encode())
        each = (prior.strength, prior.mean) if isinstance(prior, Prior) else ()
        for numbers in (parameters.initial, parameters.fixed, *each):
            found.update(np.ascontiguousarray(numbers).tobytes())
        for example in self.examples:
            found.update(repr([key_of(example.complete), key_of(example.free)]).encode())
        return found.hexdigest()[:16]


def key_of(problem: Problem) -> str:
    """A hash of a world's clauses, constants and facts; on a store, of how many there are."""
    facts = problem.evidence.items()
    stored = {name: len(known.rows) for name, known in facts if isinstance(known, LazyEvidence)}
    if not stored:
        return grounding_key(problem)
    sizes = {name: len(domain) for name, domain in problem.domains.items()}
    return repr((problem.name, problem.normal_form, sizes, stored))


def choose_objective(options: LearnOptions, query: Sequence[str]) -> str:
    """The name of the objective; refuses a query where there can be none, and none where one is."""
    name = options.objective or ("conditional" if query else "pseudo")
    if name == "conditional" and not query:
        raise LapisError(
            "a conditional likelihood is that of some predicates given the others",
            code="no-query",
            hint="name the predicates to predict (-q P,Q), or use --objective likelihood",
        )
    if name == "likelihood" and query:
        raise LapisError(
            "the likelihood is that of all atoms, not of a query",
            code="query",
            hint="leave out the query, or use --objective conditional",
        )
    return name


def choose_optimizer(run: LearningRun, objective: Objective, prior: Prior) -> str:
    if run.options.optimizer is not None:
        return run.options.optimizer
    if not objective.is_fixed:
        return "vp" if run.expectation in BEST_WORLD else "pscg"
    few = int((~run.parameters.fixed).sum()) <= MAX_WEIGHTS
    return "newton" if run.is_pseudo and few and prior.kind != "l1" else "lbfgs"


def choose_prior(run: LearningRun, objective: Objective | None) -> Prior:
    """The prior asked for, or a Gaussian wide enough to matter only where data is scarce."""
    prior = given_prior(run.options)
    if prior is None:
        width = PRIOR_WIDTH.get(run.objective, PRIOR_WIDTH["pseudo"])
        if run.objective == "weighted-pseudo":
            # The value is a mean over atoms: so must be the prior's share in it.
            atoms = max(1, getattr(objective, "num_atoms", 1))
            terms = max(1, len(getattr(objective, "terms", ())))
            width *= float(f"{np.sqrt(atoms / terms):.2g}")
        prior = Prior("gaussian", width)
    if run.options.prior_mean == "initial":
        prior = replace(prior, mean=run.parameters.initial)
    return prior

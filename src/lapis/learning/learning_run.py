"""A learning run: examples, parameters, options, and the defaults that depend on them.

Defaults: without a query the pseudo-likelihood, by Newton's method or L-BFGS; with a query the
conditional likelihood, by L-BFGS if it is exact and by preconditioned scaled conjugate gradients if
it is sampled; the voted perceptron if most likely worlds replace expectations.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.errors import LapisError
from lapis.learning.examples import Example
from lapis.learning.objectives.priors import Prior, parse_prior
from lapis.learning.parameters import Parameters
from lapis.optimisation.newton import MAX_WEIGHTS
from lapis.problem.problem import LazyEvidence, Problem
from lapis.registry.method_table import check_options, find_method, refuse_unread
from lapis.registry.options import LearnOptions
from lapis.runtime.progress import Progress, Report, Stop, report_progress

if TYPE_CHECKING:
    from lapis.counting.ijgp import IjgpSettings
    from lapis.optimisation.objective import Objective

CUTTING_PLANE = "cutting-plane"
MEAN_OPTIONS = ("posterior_method", "num_draws", "num_chains", "level")  # of estimate "mean"
PRIOR_WIDTH = {"pseudo": 10.0, "conditional": 5.0, "likelihood": 10.0, "max-margin": 1.0}
IMPLIED = {"vp": "map", "vp-pw": "map", "lbfgs": "exact", "newton": "exact"}
BY_WORLD = ("map", "count-map", "count-maxwalksat")  # expectations by most likely worlds
BEST_WORLD = ("map", "count-maxwalksat")  # without noise: they do not determine |w|
BY_COUNTS = ("count-gibbs", "count-map", "count-maxwalksat")  # expectations without grounding
# Options that a trajectory depends on, beside objective, optimiser and prior.
TRAJECTORY_OPTIONS = (
    "prior_mean", "expectation", "counts", "ibound", "ijgp_iterations", "ijgp_tolerance",
    "ijgp_damping", "differences", "num_samples", "num_steps", "num_records", "chain_start",
    "margin", "random_state", "standardize",
)  # fmt: skip


@dataclass(frozen=True)
class Notes:
    """Times, warnings and details of a run, which become those of its fit."""

    seconds: dict[str, float] = field(default_factory=dict)  # wall time by phase
    warnings: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    progress: Report | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the time of a stage, and report its beginning."""
        report_progress(self.progress, Progress(name, 0))
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
    # float64[num_parameters], the standard deviations that priors count in; None: all are 1
    spread: np.ndarray | None = None

    @property
    def is_pseudo(self) -> bool:
        return self.objective in ("pseudo", "weighted-pseudo")

    @property
    def has_hidden(self) -> bool:
        return any(example.has_hidden for example in self.examples)

    @property
    def expectation(self) -> str:
        """The given expectation, or the one that optimiser or estimate imply; "" for none."""
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
        """A hash of examples, parameters and options; a checkpoint is resumed by an equal run.

        Limits (iterations, seconds, tolerance) are left out: they may change between runs.
        """
        options, parameters = self.options, self.parameters
        if options.checkpoint is None:
            return ""
        import hashlib

        prior = options.prior
        how = {name: getattr(options, name) for name in TRAJECTORY_OPTIONS}
        own = sorted(options.of_optimizer.items())
        words = self.objective, str(prior), how, own, parameters.names()
        found = hashlib.sha256(repr(words).encode())
        each = (prior.strength, prior.mean) if isinstance(prior, Prior) else ()
        for numbers in (parameters.initial, parameters.fixed, *each):
            found.update(np.ascontiguousarray(numbers).tobytes())
        for example in self.examples:
            found.update(repr([hash_world(example.complete), hash_world(example.free)]).encode())
        return found.hexdigest()[:16]


def hash_world(problem: Problem) -> str:
    """Hash a world's clauses, constants and facts; of facts on a store, their number only."""
    facts = problem.evidence.items()
    stored = {name: len(known.rows) for name, known in facts if isinstance(known, LazyEvidence)}
    if not stored:
        from lapis.grounding.cache import grounding_key

        return grounding_key(problem)
    sizes = {name: len(domain) for name, domain in problem.domains.items()}
    return repr((problem.name, problem.normal_form, sizes, stored))


def ijgp_settings(options: LearnOptions) -> IjgpSettings:
    from lapis.counting.ijgp import IjgpSettings

    return IjgpSettings(
        options.ibound,
        options.ijgp_tolerance,
        options.ijgp_iterations,
        options.ijgp_damping,
        options.differences,
    )


def given_prior(options: LearnOptions) -> Prior | None:
    if isinstance(options.prior, str):
        return parse_prior(options.prior)
    if options.prior is not None and not isinstance(options.prior, Prior):
        raise LapisError(f"{options.prior!r} is not a prior", code="prior")
    return options.prior


def choose_objective(options: LearnOptions, query: Sequence[str]) -> str:
    """Choose the objective by name; refuse a query that it cannot have, or a missing one."""
    name = options.objective or ("conditional" if query else "pseudo")
    if name == "conditional" and not query:
        raise LapisError(
            "objective 'conditional' needs a query: it is the likelihood of some predicates "
            "given the others",
            code="no-query",
            hint="name the predicates to predict (-q P,Q), or use --objective likelihood",
        )
    if name == "likelihood" and query:
        raise LapisError(
            "objective 'likelihood' takes no query",
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
    """Choose the given prior, or a Gaussian so wide that it matters only if data is scarce."""
    prior = given_prior(run.options)
    if prior is None:
        width = PRIOR_WIDTH.get(run.objective, PRIOR_WIDTH["pseudo"])
        if run.objective == "weighted-pseudo":
            # The value is a mean over atoms, so the prior is divided by their number too.
            atoms = max(1, getattr(objective, "num_atoms", 1))
            terms = max(1, len(getattr(objective, "terms", ())))
            width *= float(f"{np.sqrt(atoms / terms):.2g}")
        prior = Prior("gaussian", width)
    if run.options.prior_mean == "initial":
        prior = replace(prior, mean=run.parameters.initial)
    return prior if run.spread is None else standardize_prior(prior, run.spread)


def standardize_prior(prior: Prior, spread: np.ndarray) -> Prior:
    """Return the prior of weights whose numbers were divided by their standard deviations s.

    The weight of x/s is w·s if that of x is w, so a width is divided by s, a strength multiplied.

    >>> standardize_prior(Prior("gaussian", 2.0), np.array([1.0, 4.0])).strength.tolist()
    [2.0, 0.5]
    """
    if prior.kind == "none":
        return prior
    strength = prior.strength * spread if prior.kind == "l1" else prior.strength / spread
    return replace(prior, strength=strength, text=f"{prior} in standard deviations")


def check_learning_options(options: LearnOptions, objective: str) -> None:
    """Refuse options that are wrong by themselves or exclude each other."""
    check_options(options)
    check_prior(options)
    if options.rate is not None and "rate" in (options.optimizer_options or {}):
        raise LapisError("the rate is given twice", code="learn-option")
    if options.optimizer is not None:
        find_method("optimizer", options.optimizer).check_own(options.of_optimizer)
    if objective == "max-margin":
        find_method("optimizer", CUTTING_PLANE).check_own(options.of_optimizer)
    if options.estimate == "mode":
        for name in MEAN_OPTIONS:
            refuse(
                getattr(options, name) != getattr(LearnOptions, name),
                f"{name} is for a posterior, which estimate 'mode' does not need",
                "add --estimate mean",
            )
    check_engine(options, objective)
    check_expectation(options, objective)
    check_optimizer(options, objective)
    refuse_unread(LearnOptions, {**vars(options), "objective": objective})


def check_prior(options: LearnOptions) -> None:
    prior = given_prior(options)
    if prior is not None and options.prior_mean == "initial":
        refuse(prior.kind == "none", "prior 'none' has no mean", "leave out --prior-mean")
        refuse(bool(np.any(prior.mean)), "the mean of the prior is given twice", "leave out one")


def check_engine(options: LearnOptions, objective: str) -> None:
    if options.engine is None:
        return
    refuse(
        objective not in ("pseudo", "weighted-pseudo"),
        f"an engine counts classes of atoms, and objective {objective!r} needs inference",
        "choose --objective pseudo or weighted-pseudo, or leave out --engine",
    )
    refuse(options.counts != "exact", "an engine counts exactly", "leave out --counts, or --engine")


def check_expectation(options: LearnOptions, objective: str) -> None:
    expectation = options.expectation
    refuse(
        options.counts == "ijgp" and expectation in ("exact", "lifted", "mcsat"),
        f"expectation {expectation!r} does not use estimated counts",
        "leave out --counts, or choose --expectation count-gibbs or count-map",
    )
    refuse(
        expectation == "lifted" and objective != "likelihood",
        "only the likelihood of all atoms is lifted: evidence distinguishes constants",
        "add --objective likelihood and leave out the query",
    )
    refuse(
        options.chain_start == "random" and expectation != "count-maxwalksat",
        "chains whose counts are averaged start in the data or in their last world",
        "choose --chain-start data or last, or --expectation count-maxwalksat",
    )


def check_optimizer(options: LearnOptions, objective: str) -> None:
    optimizer, expectation = options.optimizer, options.expectation
    if objective == "max-margin":
        refuse(
            optimizer not in (None, CUTTING_PLANE),
            "max-margin learning has its own optimiser: cutting planes",
            "leave out --optimizer",
        )
        refuse(
            isinstance(options.prior, str) and not options.prior.startswith("gaussian"),
            "max-margin learning needs a Gaussian prior: its width scales the margin",
            "as in --prior gaussian:2",
        )
    else:
        refuse(
            optimizer == CUTTING_PLANE,
            "cutting planes learn max-margin weights only",
            "add --objective max-margin",
        )
    if optimizer in ("lbfgs", "newton") and objective not in ("pseudo", "weighted-pseudo"):
        refuse(
            options.counts == "ijgp",
            f"{optimizer} needs exact values, and estimated counts have none",
            "choose --optimizer pscg, or leave out --counts",
        )
        refuse(
            expectation not in ("auto", "exact", "lifted"),
            f"{optimizer} needs exact values, and expectation {expectation!r} has none",
            "choose --optimizer pscg, or --expectation exact",
        )
    refuse(
        expectation in BEST_WORLD and optimizer in ("dn", "scg", "pscg"),
        f"{optimizer} needs the counts' variances, and a most likely world has none",
        "choose vp, vp-pw, adam or adagrad, or another --expectation",
    )
    refuse(
        optimizer == "newton" and str(options.prior or "").startswith("l1"),
        "newton needs a smooth prior, and l1 has corners",
        "choose --optimizer lbfgs",
    )


def refuse(wrong: bool, message: str, hint: str) -> None:
    if wrong:
        raise LapisError(message, code="learn-option", hint=hint)

"""What is to be learned, from what and how: what was said, and what is taken where nothing was.

Without a query the pseudo-likelihood, by Newton's method or L-BFGS; with one the conditional
likelihood, by L-BFGS where it can be had exactly and by preconditioned scaled conjugate gradients
where it must be sampled; by Adam where most likely worlds stand in for expectations.
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
from lapis.learning.options import PRIOR_WIDTH, given_prior
from lapis.learning.parameters import Parameters
from lapis.optimisation.newton import MAX_WEIGHTS
from lapis.problem.problem import LazyEvidence, Problem
from lapis.registry.options import LearnOptions
from lapis.runtime.progress import Report, Stop

if TYPE_CHECKING:
    from lapis.optimisation.objective import Objective

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

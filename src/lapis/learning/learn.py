"""Learning weights: examples, objective, prior, optimiser, and an account of how it went.

Objectives and optimisers are separate and combine (`options` lists both). What is chosen where
nothing is said: pseudo-likelihood without a query, by Newton's method or L-BFGS; conditional
likelihood with one, by L-BFGS where it can be had exactly and by preconditioned scaled conjugate
gradients (PSCG) where it must be sampled.

A weight that the data drives to infinity is found and kept within bounds (`doubts`); without a
prior it would end wherever the optimiser got tired.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.data.database import Database
from lapis.errors import LapisError
from lapis.language.model import Model
from lapis.learning.em import (
    SPREAD,
    WIDE_SPREAD,
    Completer,
    ExpectedCounts,
    fit_em,
    start_weights,
)
from lapis.learning.examples import Example, build_examples
from lapis.learning.fit import FARTHEST, Fit, Unbounded
from lapis.learning.objectives.conditional import ConditionalObjective
from lapis.learning.objectives.posterior import Posterior, with_prior
from lapis.learning.objectives.priors import Prior, parse_prior
from lapis.learning.objectives.pseudo import PseudoObjective
from lapis.learning.options import (
    CUTTING_PLANE,
    PRIOR_WIDTH,
    Options,
    check_together,
    check_words,
)
from lapis.learning.parameters import Parameters, share_parameters
from lapis.learning.reliability import (
    FAR,
    find_errors,
    find_unbounded,
    measure_bound,
    still_growing,
)
from lapis.learning.unit_formulas import add_units
from lapis.optimisation.newton import MAX_WEIGHTS
from lapis.progress import Report, Stop

if TYPE_CHECKING:
    from lapis.optimisation.logbook import Course
    from lapis.optimisation.objective import Objective

EM_ROUNDS = 200
MARGIN_CUTS = 500
MARGIN_TOLERANCE = 1e-3  # of the objective


@dataclass
class Stopwatch:
    """Wall time by phase."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


def learn_weights(
    model: Model,
    databases: Sequence[Database],
    query: Sequence[str] = (),
    options: Options | None = None,
    *,
    hidden: Sequence[str] = (),
    listed: bool = False,
    units: bool = False,
    progress: Report | None = None,
    stop: Stop | None = None,
) -> Fit:
    """Weights for the soft rules of a model that are not @fixed."""
    options = options or Options()
    check_words(options)
    objective_name = options.objective or ("conditional" if query else "pseudo")
    check_together(options, objective_name)
    if objective_name == "conditional" and not query:
        raise LapisError(
            "a conditional likelihood is that of some predicates given the others",
            code="no-query",
            hint="name the predicates to predict (-q P,Q), or use --objective likelihood",
        )
    if objective_name == "likelihood" and query:
        raise LapisError(
            "the likelihood is that of all atoms, not of a query",
            code="query",
            hint="leave out the query, or use --objective conditional",
        )
    clock = Stopwatch()
    with clock.phase("data"):
        if units:
            model = add_units(model, query or [n for n in model.predicates if n not in hidden])
        examples = build_examples(model, databases, query, hidden=hidden, listed=listed)
        parameters = share_parameters(model, [example.complete for example in examples])
    empty = empty_types(model, examples)
    learner = Learner(examples, parameters, objective_name, options, clock, progress, stop)
    if parameters.fixed.all():
        learner.warnings.append("nothing is learned: every rule is hard or @fixed")
    learner.warnings += [
        f"type {name!r} has no constants: formulas over it have no groundings" for name in empty
    ]
    return learner.fit()


def empty_types(model: Model, examples: Sequence[Example]) -> list[str]:
    """The types without constants in any example; refuses data in which nothing can be asked."""
    empty = [
        name
        for name in model.types
        if not any(len(example.complete.domains[name]) for example in examples)
    ]
    asked = [model.predicates[name] for example in examples for name in example.asked]
    if all(set(predicate.types) & set(empty) for predicate in asked):
        raise LapisError(
            "there is nothing to learn from: the data names no constants of what is asked",
            code="empty-data",
            hint="give facts, or list the constants of the types in the model",
        )
    return empty


@dataclass
class Learner:
    """One run of learning."""

    examples: list[Example]
    parameters: Parameters
    objective_name: str
    options: Options
    clock: Stopwatch
    progress: Report | None
    stop: Stop | None
    warnings: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def fit(self) -> Fit:
        if self.objective_name == "max-margin":
            return self.fit_margin()
        if self.has_hidden and self.is_pseudo:
            return self.fit_em(self.pseudo_completer())
        with self.clock.phase("objective"):
            objective = self.build_objective()
        if self.has_hidden and isinstance(objective, ConditionalObjective) and objective.is_exact:
            return self.fit_em(ExpectedCounts(objective))
        prior = self.choose_prior(objective)
        optimizer = self.choose_optimizer(objective, prior)
        posterior = self.with_prior(objective, prior)
        with self.clock.phase("optimisation"):
            unbounded = find_unbounded(posterior, self.parameters, prior, self.warnings)
            course = self.climb(posterior, optimizer, prior, unbounded)
        return self.account(course, posterior, optimizer, prior, unbounded)

    def pseudo_completer(self) -> Completer:
        from lapis.learning.em_completions import pseudo_completions

        with self.clock.phase("objective"):
            return pseudo_completions(
                self.examples,
                self.parameters,
                weighted=self.objective_name == "weighted-pseudo",
                max_memory=self.options.max_memory,
                seed=self.options.seed,
            )

    def fit_em(self, completer: Completer) -> Fit:
        """Rounds of EM; each M-step is a climb of its own.

        A sampled likelihood is climbed directly instead: its gradient, the expected counts with
        the answers less those without, is all that an M-step would use of the samples.
        """
        self.refuse_checkpoint("EM")
        options = self.options
        start = self.start()
        objective = completer.complete(start).objective
        prior = self.choose_prior(objective)
        optimizer = self.choose_optimizer(objective, prior)

        def maximise(
            posterior: Posterior, start: np.ndarray, tolerance: float, seconds: float | None
        ) -> Course:
            return self.run_climb(posterior, optimizer, start, tolerance, seconds)

        with self.clock.phase("optimisation"):
            course = fit_em(
                completer,
                self.parameters,
                prior,
                start,
                maximise,
                max_rounds=options.max_iterations or EM_ROUNDS,
                tolerance=options.tolerance,
                time_limit=options.time_limit,
                progress=self.progress,
                should_stop=self.stop,
            )
        posterior = self.with_prior(completer.complete(course.weights).objective, prior)
        self.details["em"] = True
        self.details["standard_errors_note"] = "as if what was hidden were known"
        own = course._replace(weights=posterior.free_weights(course.weights))
        fit = self.account(own, posterior, f"em+{optimizer}", prior, ())
        return replace(fit, exact=completer.is_exact)

    def start(self) -> np.ndarray:
        """float64[num_parameters], where the search begins."""
        if not self.has_hidden:
            return self.parameters.initial
        spread = WIDE_SPREAD if self.is_pseudo else SPREAD
        return start_weights(self.parameters, self.examples, self.options.seed, spread)

    def fit_margin(self) -> Fit:
        """Cutting planes; the value is the margin's share of the objective, not a likelihood."""
        self.refuse_checkpoint("max-margin learning")
        from lapis.learning.max_margin import fit_max_margin

        options = self.options
        prior = self.choose_prior(None)
        with self.clock.phase("optimisation"):
            found = fit_max_margin(
                self.examples,
                self.parameters,
                prior,
                slack_cost=options.margin,
                tolerance=options.tolerance or MARGIN_TOLERANCE,
                max_iterations=options.max_iterations or MARGIN_CUTS,
                time_limit=options.time_limit,
                max_memory=options.max_memory,
                seed=options.seed,
                progress=self.progress,
                should_stop=self.stop,
            )
        course = found.course
        self.details |= {"gap": found.gap, "proven": found.proven, "cuts": found.num_cuts}
        free = ~self.parameters.fixed
        away = course.weights - prior.means(len(self.parameters))
        log_prior = -0.5 * float(prior.precision(len(away))[free] @ away[free] ** 2)
        value = None if course.value is None else course.value - log_prior
        return self.finish(
            course, course.weights, CUTTING_PLANE, prior, value, log_prior, None, (), found.proven
        )

    @property
    def is_pseudo(self) -> bool:
        return self.objective_name in ("pseudo", "weighted-pseudo")

    @property
    def has_curvature(self) -> bool:
        """Whether the curvature is that of a likelihood, so that it tells standard errors."""
        by_map = self.details.get("expectation") in ("map", "count-map")
        return self.objective_name != "weighted-pseudo" and not by_map

    @property
    def has_hidden(self) -> bool:
        return any(example.has_hidden for example in self.examples)

    def build_objective(self) -> Objective:
        options = self.options
        if self.is_pseudo:
            weighted = self.objective_name == "weighted-pseudo"
            if options.counts == "ijgp":
                from lapis.learning.objectives.count_pseudo import count_pseudo_objective

                return count_pseudo_objective(
                    self.examples,
                    self.parameters,
                    ibound=options.ibound,
                    weighted=weighted,
                    random_state=options.seed,
                )
            from lapis.learning.objectives.pseudo import pseudo_objective

            return pseudo_objective(
                self.examples, self.parameters, weighted=weighted, random_state=options.seed
            )
        expectation = self.choose_expectation()
        self.details["expectation"] = expectation
        if expectation.startswith("count-"):
            from lapis.learning.objectives.count_based import count_objective

            return count_objective(
                self.examples,
                self.parameters,
                counts=options.counts,
                ibound=options.ibound,
                expectation="map" if expectation == "count-map" else "gibbs",
                seed=options.seed,
            )
        return self.build_conditional(expectation)

    def build_conditional(self, expectation: str) -> ConditionalObjective:
        from lapis.learning.objectives.conditional import conditional_objective

        options = self.options
        objective = conditional_objective(
            self.examples,
            self.parameters,
            expectation=expectation,
            num_samples=options.num_samples,
            num_chains=2 if len(self.examples) == 1 else 1,
            max_memory=options.max_memory,
            seed=options.seed,
        )
        self.details["methods"] = list(objective.methods)
        return objective

    def with_prior(self, objective: Objective, prior: Prior) -> Posterior:
        return with_prior(objective, prior, self.parameters.initial, self.parameters.fixed)

    def choose_expectation(self) -> str:
        """What the optimiser's name implies, unless it is said."""
        options = self.options
        kind = options.expectation
        if kind == "auto":
            implied = {"vp": "map", "vp-pw": "map", "lbfgs": "exact", "newton": "exact"}
            kind = implied.get(options.optimizer or "", "auto")
        if options.counts == "ijgp":
            return "count-map" if kind in ("map", "count-map") else "count-gibbs"
        return kind

    def choose_optimizer(self, objective: Objective, prior: Prior) -> str:
        if self.options.optimizer is not None:
            return self.options.optimizer
        if not objective.is_fixed:
            return "adam" if self.details.get("expectation") in ("map", "count-map") else "pscg"
        few = int((~self.parameters.fixed).sum()) <= MAX_WEIGHTS
        return "newton" if self.is_pseudo and few and prior.kind != "l1" else "lbfgs"

    def choose_prior(self, objective: Objective | None) -> Prior:
        """The prior asked for, or a Gaussian wide enough to matter only where data is scarce."""
        prior = self.options.prior
        if isinstance(prior, str):
            prior = parse_prior(prior)
        if prior is None:
            width = PRIOR_WIDTH.get(self.objective_name, PRIOR_WIDTH["pseudo"])
            if self.objective_name == "weighted-pseudo":
                # The value is a mean over atoms: so must be the prior's share in it.
                atoms = max(1, getattr(objective, "num_atoms", 1))
                terms = max(1, len(getattr(objective, "terms", ())))
                width *= float(f"{np.sqrt(atoms / terms):.2g}")
            prior = Prior("gaussian", width)
        if self.options.prior_mean == "initial":
            prior = replace(prior, mean=self.parameters.initial)
        return prior

    def climb(
        self, posterior: Posterior, name: str, prior: Prior, unbounded: Sequence[Unbounded]
    ) -> Course:
        far = None
        if prior.kind == "none":
            far = np.full(len(self.parameters), FARTHEST)
            far[[weight.parameter for weight in unbounded]] = FAR
            far = far[posterior.free]
        return self.run_climb(
            posterior,
            name,
            posterior.free_weights(self.start()),
            self.options.tolerance,
            self.options.time_limit,
            far=far,
            progress=self.progress,
            checkpoint=self.options.checkpoint,
        )

    def run_climb(
        self,
        posterior: Posterior,
        name: str,
        start: np.ndarray,
        tolerance: float | None,
        time_limit: float | None,
        *,
        far: np.ndarray | None = None,
        progress: Report | None = None,
        checkpoint: Path | None = None,
    ) -> Course:
        from lapis.optimisation.climb import climb, make_optimizer

        options = self.options
        return climb(
            posterior,
            make_optimizer(name, **options.of_optimizer),
            start,
            l1=posterior.l1,
            lower=None if far is None else -far,
            upper=far,
            max_iterations=options.max_iterations,
            tolerance=tolerance,
            time_limit=time_limit,
            progress=progress,
            should_stop=self.stop,
            checkpoint=checkpoint,
            fingerprint=self.fingerprint(),
        )

    def refuse_checkpoint(self, what: str) -> None:
        if self.options.checkpoint is not None:
            raise LapisError(
                f"{what} keeps no checkpoints",
                code="learn-option",
                hint="write the model (-o) and start again from its weights",
            )

    def fingerprint(self) -> str:
        """Names what is learned, so that a checkpoint of something else is not resumed."""
        import hashlib

        words = [self.objective_name, *self.parameters.names()]
        words += [example.complete.name for example in self.examples]
        return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]

    def account(
        self,
        course: Course,
        posterior: Posterior,
        optimizer: str,
        prior: Prior,
        unbounded: Sequence[Unbounded],
    ) -> Fit:
        """The course as a fit: value without the prior, standard errors, what went wrong."""
        objective, options = posterior.objective, self.options
        weights = posterior.all_weights(course.weights)
        if not isinstance(objective, PseudoObjective):  # where it was known before
            unbounded = still_growing(posterior, self.parameters, course, prior)
        errors = None
        if self.has_curvature:
            with self.clock.phase("standard errors"):
                errors, method = find_errors(posterior, self.parameters, course, unbounded)
            self.details["standard_errors"] = method
        if options.counts == "ijgp" and options.measure_error:
            with self.clock.phase("error of counts"):
                bound = measure_bound(self.examples, self.parameters, options.ibound, weights)
            self.details["count_error"] = bound.largest_error
            self.details["bound"] = {"value": bound.value, "holds": bound.holds}
            self.warnings.append(bound.words)
        if isinstance(objective, PseudoObjective):
            self.warnings += objective.notes
        log_prior = posterior.log_prior(course.weights)
        value = None if course.value is None else course.value - log_prior
        exact = objective.is_exact and options.counts == "exact"
        return self.finish(
            course, weights, optimizer, prior, value, log_prior, errors, unbounded, exact
        )

    def finish(
        self,
        course: Course,
        weights: np.ndarray,
        optimizer: str,
        prior: Prior,
        value: float | None,
        log_prior: float,
        errors: np.ndarray | None,
        unbounded: Sequence[Unbounded],
        exact: bool,
    ) -> Fit:
        return Fit(
            self.objective_name,
            optimizer,
            str(prior),
            value,
            log_prior,
            exact,
            course.converged,
            course.interrupted,
            course.reason,
            course.iterations,
            course.gradient_norm,
            self.parameters,
            weights,
            errors,
            course.curve,
            self.clock.seconds,
            tuple(unbounded),
            tuple(self.warnings),
            self.details,
        )

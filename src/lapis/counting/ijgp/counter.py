"""Estimated counts of a model's formulas in a world, updated as the world changes.

A feature's count is constant·N + Σ_clauses (N − solutions of the clause's cube), N its number of
groundings. With a weight for each constant (+x) the same holds for each constant, where the
solutions with x = c are the estimated total times the belief in c of the cluster with the plus
variables.

Every estimate is clipped to certain bounds: 0 and the smallest number of solutions that the tables
of a single cluster allow. A diagnostic (`bounded`) reports clipping.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from lapis.counting.complete_world import add_derived
from lapis.counting.ijgp.contraction import to_dense
from lapis.counting.ijgp.encoding import encode_cube, negate_clause
from lapis.counting.ijgp.join_graph import build_join_graph
from lapis.counting.ijgp.propagation import IjgpSettings, Propagation
from lapis.counting.totals import count_true_groundings
from lapis.data.database import Domain
from lapis.errors import LapisError
from lapis.language.model import Model
from lapis.logic.clauses import Clause, Cube, Feature, NormalForm, TypedVariable
from lapis.relational.interpretation import Extension, Interpretation, build_interpretation


@dataclass(frozen=True, slots=True)
class ClauseDiagnostics:
    rule: int  # index in Model.rules
    clause: int  # index in the rule's clauses
    groundings: int
    false: float  # estimated groundings in which the clause is false
    iterations: float  # updates per message
    converged: bool
    exact: bool
    bounded: bool  # the estimate was clipped to a certain bound
    ibound: int
    clusters: tuple[tuple[str, ...], ...]  # the variables of each cluster


@dataclass(frozen=True, slots=True)
class FeatureEstimate:
    rule: int
    true: float  # over all constants of plus variables
    groundings: int
    exact: bool


@dataclass(frozen=True)
class MeasuredError:
    """Exact counts and the errors of the estimates, by weight id."""

    exact: tuple[float, ...]
    relative_true: np.ndarray  # float64[num_weights], |estimate − exact| / exact

    @property
    def largest(self) -> float:
        """The largest relative error of a count."""
        return float(self.relative_true.max(initial=0.0))


@dataclass(frozen=True)
class IjgpEstimate:
    """Estimated true groundings. Weight ids are those of `WeightTable`."""

    count: np.ndarray  # float64[num_weights]
    features: tuple[FeatureEstimate, ...]  # one for each rule, hard ones too
    clauses: tuple[ClauseDiagnostics, ...]
    exact: bool  # every count is
    error: MeasuredError | None = None


class CubeCounter:
    """The solutions of one cube's network in the current world."""

    def __init__(
        self,
        cube: Cube,
        variables: tuple[TypedVariable, ...],
        plus: tuple[str, ...],
        world: Interpretation,
        settings: IjgpSettings,
    ) -> None:
        self.network = encode_cube(cube, variables, world)
        self.settings = settings
        self.plus = plus
        sizes = {name: world.size(type_name) for name, type_name in variables}
        self._plus_shape = tuple(sizes[name] for name in self.plus)
        self._plus_scope = tuple(
            self.network.names.index(name) for name in self.plus if name in self.network.names
        )
        self.groundings = math.prod(sizes.values())
        self.graph = build_join_graph(
            self.network.scopes(),
            settings.ibound,
            len(self.network.names),
            tuple(sorted(self._plus_scope)),
        )
        self.bounded = False
        self._propagation: Propagation | None = None
        if self.groundings:
            self._propagation = Propagation(
                self.graph,
                self.network.sizes,
                self.network.tables(world),
                settings,
                tuple(sorted(self._plus_scope)),
            )

    @property
    def is_exact(self) -> bool:
        propagation = self._propagation
        return propagation is None or self.graph.is_tree or propagation.is_empty or self._is_void()

    def with_atom(self, predicate: str, row: np.ndarray, value: bool) -> CubeCounter:
        """Return a counter of the world with one atom set, which starts from these messages.

        It is this counter if the cube does not depend on the atom.
        """
        changes = [
            (number, code, float(value == pattern.positive))
            for number, pattern in enumerate(self.network.literals)
            if pattern.predicate == predicate
            for code in pattern.codes(row[None, :]).tolist()
        ]
        if not changes or self._propagation is None:
            return self
        other = copy(self)
        other._propagation = self._propagation.branch()
        other._propagation.assign(changes)
        return other

    def solutions(self) -> float:
        """Estimate the number of groundings in which the cube is true."""
        propagation = self._propagation
        self.bounded = False
        if propagation is None or self._is_void():
            return 0.0
        propagation.run()
        log_count = propagation.log_count()
        if not self.is_exact:
            bound = propagation.log_upper_bound()
            self.bounded = log_count > bound
            log_count = min(log_count, bound)
        count = math.exp(log_count)
        # An exact count is an integer up to rounding.
        count = float(round(count)) if self.is_exact else count
        return count * self.network.multiplicity

    def solutions_by_plus(self) -> np.ndarray:
        """Estimate float64[sizes of the plus variables], the solutions for each of their values."""
        total = self.solutions()
        if not self._plus_scope or total == 0.0 or self._propagation is None:
            return np.full(self._plus_shape, total / max(1, math.prod(self._plus_shape)))
        scope = tuple(sorted(self._plus_scope))
        belief = np.maximum(
            to_dense(self._propagation.belief(scope), scope, self.network.sizes), 0.0
        )
        missing = math.prod(
            size
            for name, size in zip(self.plus, self._plus_shape, strict=True)
            if name not in self.network.names
        )
        share = belief * (total / belief.sum() / missing)
        ordered = share.transpose(np.argsort(np.argsort(self._plus_scope)).tolist())
        largest = self.groundings / math.prod(self._plus_shape)
        if self.is_exact:
            ordered = np.round(ordered)
        elif ordered.max(initial=0.0) > largest:
            self.bounded = True
            ordered = np.minimum(ordered, largest)
        shape = [
            size if name in self.network.names else 1
            for name, size in zip(self.plus, self._plus_shape, strict=True)
        ]
        return np.broadcast_to(ordered.reshape(shape), self._plus_shape)

    def sample(self, plus: tuple[int, ...], rng: np.random.Generator) -> dict[str, int] | None:
        """Draw a grounding in which the cube is true, by the values of its variables.

        `plus` are the values of the plus variables. Variables that the cube does not mention are
        left out. None if the draw fails.
        """
        if self._propagation is None or self._is_void():
            return None
        names, given = self.network.names, dict(zip(self.plus, plus, strict=True))
        known = {names.index(name): code for name, code in given.items() if name in names}
        self._propagation.run()
        found = self._propagation.sample(rng, known)
        return None if found is None else {names[number]: code for number, code in found.items()}

    def diagnose(self, rule: int, clause: int, false: float) -> ClauseDiagnostics:
        propagation = self._propagation
        names = self.network.names
        return ClauseDiagnostics(
            rule=rule,
            clause=clause,
            groundings=self.groundings,
            false=false,
            iterations=propagation.num_iterations if propagation else 0.0,
            converged=propagation is None or propagation.converged,
            exact=self.is_exact,
            bounded=self.bounded,
            ibound=self.settings.ibound,
            clusters=tuple(
                tuple(names[each] for each in cluster.scope) for cluster in self.graph.clusters
            ),
        )

    def _is_void(self) -> bool:
        """Return whether a literal or condition without variables is false."""
        assert self._propagation is not None
        return any(not each.scope and not each.values[0] for each in self._propagation.tables)


class IjgpCounter:
    """Counts in one world after another, reusing join graphs and messages.

    `count` takes a whole world; `update` then changes one atom at a time. A `branch` continues from
    the same messages without changing its origin: counters of cubes are replaced, never modified.
    """

    def __init__(
        self,
        normal_form: NormalForm,
        model: Model,
        domains: Mapping[str, Domain],
        settings: IjgpSettings,
    ) -> None:
        refuse_numbers(normal_form.features, model)
        self.normal_form = normal_form
        self.domains = domains
        self.settings = settings
        self._predicates = model.predicates
        sizes = [0 if each.hard else num_weights(each, domains) for each in normal_form.features]
        self._offset = np.cumsum([0, *sizes]).tolist()  # of each feature's weights
        self._world: Interpretation | None = None  # kept up to date only if there are definitions
        self._counters: list[list[CubeCounter]] = []
        self._solutions: dict[tuple[int, int], np.ndarray] = {}

    def count(self, world: Mapping[str, np.ndarray]) -> IjgpEstimate:
        """Estimate the counts in a world, given by its true tuples int32[num_true, arity]."""
        base = build_interpretation(self._predicates, self.domains, world)
        self._world = add_derived(base, self.normal_form.definitions)
        self._counters = [
            [
                new_cube_counter(feature, clause, self._world, self.settings)
                for clause in feature.clauses
            ]
            for feature in self.normal_form.features
        ]
        self._solutions.clear()
        return self._estimate()

    def update(self, predicate: str, row: Iterable[int], value: bool) -> IjgpEstimate:
        """Set one ground atom and estimate again; only clauses that mention it send messages."""
        self.assign(predicate, row, value)
        return self._estimate()

    def assign(self, predicate: str, row: Iterable[int], value: bool) -> None:
        """Set one ground atom; messages are sent when a count is computed."""
        if self._world is None:
            raise LapisError("no world has been counted yet", code="no-world")
        atom = np.asarray(tuple(row), np.int32)
        self._apply(predicate, [(atom, value)])
        if self.normal_form.definitions:
            self._update_derived(self._world, set_atom(self._world, predicate, atom, value))

    def branch(self) -> IjgpCounter:
        """Return a counter that continues from the same world and the same messages."""
        other = copy(self)
        other._counters = [list(counters) for counters in self._counters]
        other._solutions = dict(self._solutions)
        return other

    def change_since(self, other: IjgpCounter) -> tuple[np.ndarray, np.ndarray]:
        """Compute M(this world) − M(other's world), for a branch of the other.

        Return the weights whose counts differ, int64[k], and the differences, float64[k].
        """
        weight, value = [np.empty(0, np.int64)], [np.empty(0)]
        for rule, pairs in enumerate(zip(self._counters, other._counters, strict=True)):
            # A clause's count is N − false, so differences of false groundings change sign.
            changes = [
                other.false_groundings(rule, clause) - self.false_groundings(rule, clause)
                for clause, (mine, theirs) in enumerate(zip(*pairs, strict=True))
                if mine is not theirs
            ]
            if changes and not self.normal_form.features[rule].hard:
                change = np.sum(changes, axis=0).ravel()
                found = np.flatnonzero(change)
                weight.append(self._offset[rule] + found)
                value.append(change[found])
        return np.concatenate(weight), np.concatenate(value)

    def counts(self) -> np.ndarray:
        """Return float64[num_weights], the estimates in the current world."""
        return self._estimate().count

    def sample_false(
        self, feature: int, clause: int, plus: tuple[int, ...], rng: np.random.Generator
    ) -> dict[str, int] | None:
        """Draw a grounding in which a clause of a feature is false (`CubeCounter.sample`)."""
        return self._counters[feature][clause].sample(plus, rng)

    def false_groundings(self, feature: int, clause: int) -> np.ndarray:
        """Estimate the groundings in which a clause is false, float64[sizes of plus variables]."""
        if (feature, clause) not in self._solutions:
            found = self._counters[feature][clause].solutions_by_plus()
            self._solutions[feature, clause] = found
        return self._solutions[feature, clause]

    def _update_derived(self, before: Interpretation, base: Interpretation) -> None:
        """Update the derived predicates after a change of the base predicates."""
        self._world = add_derived(base, self.normal_form.definitions)
        for definition in self.normal_form.definitions:
            name = definition.predicate.name
            old, new = before.relations[name], self._world.relations[name]
            if old.complemented == new.complemented:
                self._apply(name, _changed_atoms(old, new))
            else:
                self._rebuild(name, self._world)

    def _apply(self, predicate: str, changes: Iterable[tuple[np.ndarray, bool]]) -> None:
        for row, value in changes:
            for rule, counters in enumerate(self._counters):
                for clause, counter in enumerate(counters):
                    counters[clause] = counter.with_atom(predicate, row, value)
                    if counters[clause] is not counter:
                        self._solutions.pop((rule, clause), None)

    def _rebuild(self, predicate: str, world: Interpretation) -> None:
        """Create new counters for the clauses with a predicate that changed almost completely."""
        for rule, feature in enumerate(self.normal_form.features):
            for number, clause in enumerate(feature.clauses):
                if any(literal.predicate == predicate for literal in clause.literals):
                    self._counters[rule][number] = new_cube_counter(
                        feature, clause, world, self.settings
                    )
                    self._solutions.pop((rule, number), None)

    def _estimate(self) -> IjgpEstimate:
        counts: list[np.ndarray] = []
        features: list[FeatureEstimate] = []
        clauses: list[ClauseDiagnostics] = []
        for rule, (feature, counters) in enumerate(
            zip(self.normal_form.features, self._counters, strict=True)
        ):
            shape = plus_shape(feature, self.domains)
            groundings = num_groundings(feature, self.domains)
            each = groundings / math.prod(shape) if groundings else 0.0
            true = np.full(shape, feature.constant * each)
            for clause, counter in enumerate(counters):
                false = self.false_groundings(rule, clause)
                true += each - false
                clauses.append(counter.diagnose(feature.rule, clause, float(false.sum())))
            exact = all(counter.is_exact for counter in counters)
            features.append(FeatureEstimate(feature.rule, float(true.sum()), groundings, exact))
            if not feature.hard:
                counts.append(true.ravel())
        return IjgpEstimate(
            np.concatenate(counts) if counts else np.empty(0),
            tuple(features),
            tuple(clauses),
            all(feature.exact for feature in features),
        )


def refuse_numbers(features: Iterable[Feature], model: Model) -> None:
    """Raise for formulas that are multiplied by numbers."""
    for feature in features:
        if feature.numbers:
            rule = model.rules[feature.rule]
            raise LapisError(
                f"IJGP estimates numbers of groundings, but {rule.text!r} is multiplied by numbers",
                code="number-ijgp",
                span=rule.span,
                hint="count exactly: leave out --counts ijgp and --ibound",
            )


def count_ijgp(
    normal_form: NormalForm,
    model: Model,
    domains: Mapping[str, Domain],
    relations: Mapping[str, np.ndarray],
    settings: IjgpSettings,
    *,
    measure_error: bool = False,
) -> IjgpEstimate:
    """Estimate the true groundings of every weight in the world with these true tuples.

    With `measure_error` exact counts are computed too, for the estimate's `error`.
    """
    counter = IjgpCounter(normal_form, model, domains, settings)
    estimate = counter.count(relations)
    if not measure_error:
        return estimate
    return replace(
        estimate, error=compare_with_exact(estimate.count, normal_form, model, domains, relations)
    )


def compare_with_exact(
    estimate: np.ndarray,  # float64[num_weights]
    normal_form: NormalForm,
    model: Model,
    domains: Mapping[str, Domain],
    relations: Mapping[str, np.ndarray],
) -> MeasuredError:
    """Count exactly and compare; for an exact count of 0 the relative error is 0 or infinite."""
    exact, _ = count_true_groundings(normal_form, model, domains, relations)
    difference = np.abs([float(e) - float(t) for e, t in zip(estimate, exact, strict=True)])
    scale = np.array([float(each) for each in exact])
    largest = np.where(difference > 0.0, np.inf, 0.0)
    relative = np.divide(difference, scale, out=largest, where=scale != 0.0)
    return MeasuredError(tuple(exact), relative)


def new_cube_counter(
    feature: Feature, clause: Clause, world: Interpretation, settings: IjgpSettings
) -> CubeCounter:
    """Create a counter of the groundings in which a clause is false."""
    cube = negate_clause(clause)
    return CubeCounter(cube, feature.variables, feature.plus, world, settings)


def num_groundings(feature: Feature, domains: Mapping[str, Domain]) -> int:
    return math.prod(len(domains[type_name]) for _, type_name in feature.variables)


def num_weights(feature: Feature, domains: Mapping[str, Domain]) -> int:
    return math.prod(plus_shape(feature, domains))


def plus_shape(feature: Feature, domains: Mapping[str, Domain]) -> tuple[int, ...]:
    """Return the sizes of the plus variables' domains; () means one weight."""
    types = dict(feature.variables)
    return tuple(len(domains[types[name]]) for name in feature.plus)


def set_atom(world: Interpretation, predicate: str, row: np.ndarray, value: bool) -> Interpretation:
    """Return the world with one ground atom of a base predicate set."""
    extension = world.relations[predicate]
    present = (extension.tuples == row).all(axis=1)
    if present.any() == value:
        return world
    tuples = (
        np.concatenate([extension.tuples, row[None, :]]) if value else extension.tuples[~present]
    )
    return world.with_relation(predicate, Extension(extension.types, tuples))


def _changed_atoms(old: Extension, new: Extension) -> list[tuple[np.ndarray, bool]]:
    """List the atoms whose truth changed, with their new value."""
    before, after = set(map(tuple, old.tuples.tolist())), set(map(tuple, new.tuples.tolist()))
    return [
        (np.asarray(row, np.int32), (row in after) != new.complemented)
        for row in sorted(before ^ after)
    ]

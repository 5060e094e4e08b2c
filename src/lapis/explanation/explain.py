"""Explain the probability of an atom or a ground formula of a task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from lapis.errors import LapisError
from lapis.explanation.absences import AbsenceFinder, AbsenceSearch
from lapis.explanation.changes import ChangeSearch
from lapis.explanation.contributions import (
    MAX_ASSIGNMENTS,
    changed_atoms,
    choose_worlds,
    complete,
    find_contributions,
    near_atoms,
    number_atoms,
)
from lapis.explanation.ground_truth import FormulaInstance, GroundAtom
from lapis.explanation.importance import DrawnWorlds, draw_worlds
from lapis.explanation.known_atoms import (
    FALSE,
    SILENT,
    TRUE,
    KnownAtoms,
)
from lapis.explanation.local_network import (
    ConditionedPart,
    Impossible,
    LocalNetwork,
    add_units,
    build_local_network,
    refuse_false,
)
from lapis.explanation.nearby_graph import draw_nearby
from lapis.explanation.neighbourhood import OPEN, GrowthLimits, Neighbourhood
from lapis.explanation.probabilities import LocalSolver
from lapis.explanation.sensitivity import (
    find_derivatives,
    rule_sensitivities,
    with_weight_errors,
)
from lapis.inference.map.solver import most_likely_world
from lapis.inference.marginals import InferenceOptions
from lapis.language.instances import ground_name
from lapis.language.names import format_atom, format_state
from lapis.language.syntax import Atom, Constant, Formula
from lapis.logic.clauses import TypedVariable
from lapis.network.components import fix_atoms
from lapis.problem.query import Query, read_queries, resolve_queries
from lapis.registry.options import FactsWithout
from lapis.results.answer import Answer, LearnedWeights, MostLikelyWorld, WorldValues
from lapis.results.explanation import Absence, Explanation, GivenWorld

WorldName = Literal["most likely", "best found", "given"]

MAP_SECONDS = 5.0
LEAST_PROBABILITY = 1e-9
MAX_TOLD = 1000  # atoms of a world that are listed


class ExplainedFormula(NamedTuple):
    """The atom or ground formula to explain."""

    name: str
    formula: Formula
    bound: tuple[TypedVariable, ...]
    atoms: tuple[GroundAtom, ...]


class ExplanationRequest(NamedTuple):
    """What an explanation contains."""

    world: WorldValues | None = None  # contributions refer to it; None: the most likely one
    change_to: float | None = None
    facts: FactsWithout = "removed"
    fit: LearnedWeights | None = None
    seed: int = 0


def explain_in_world(
    known: KnownAtoms,
    text: str,
    data: str | None,
    answer: Answer | MostLikelyWorld | None,
    options: ExplanationRequest,
) -> Explanation:
    """Explain an atom or ground formula, given by its text, of one world of a task."""
    return Explainer(known, resolve_explained(known, text), data, answer, options).explain()


def resolve_explained(known: KnownAtoms, text: str) -> ExplainedFormula:
    """Resolve the text of an atom or ground formula; raise LapisError if it is none."""
    problem, model = known.problem, known.problem.model
    formulas = read_queries(model, [text]) if text.strip() else []
    if len(formulas) != 1:
        raise LapisError(
            f"explain one atom or ground formula, not {text!r}",
            code="explain",
            hint='as in "Smokes(Anna)" or "Smokes(Anna) ^ !Cancer(Anna)"',
        )
    [query] = resolve_queries(model, [problem.domains], formulas)
    if query.rule is None and not model.predicates[query.predicate].types:
        query = query._replace(constants=())
    variables = () if query.rule is None else query.rule.variables
    if (query.constants is None and query.formula is None) or variables:
        raise LapisError(
            f"{text!r} is not ground: only single atoms and formulas of them can be explained",
            code="explain",
            hint=f"name constants{'' if not variables else ' for ' + variables[0][0]}, as in "
            f"{example_atom(known, query)}",
        )
    if query.rule is None:
        predicate = model.predicates[query.predicate]
        constants = query.constants or ()
        formula: Formula = Atom(predicate.name, tuple(map(Constant, constants)))
        name = (
            format_state(predicate.name, constants)
            if predicate.variable
            else format_atom(predicate.name, constants, predicate.function)
        )
        return ExplainedFormula(name, formula, (), ((predicate.name, constants),))
    assert query.formula is not None
    instance = FormulaInstance(query.rule.formula, {}, query.rule.bound, problem.domains)
    if instance.num_leaves > MAX_ASSIGNMENTS:
        raise LapisError(
            f"{text!r} is over too many atoms to be explained",
            code="explain",
            hint="explain a formula without quantifiers over large types",
        )
    return ExplainedFormula(
        ground_name(query.formula), query.rule.formula, query.rule.bound, tuple(instance.atoms())
    )


def example_atom(known: KnownAtoms, query: Query) -> str:
    """Return a ground atom as an example for a message."""
    name = query.predicate if query.formula is None else next(iter(known.problem.model.predicates))
    predicate = known.problem.model.predicates[name]
    constants = [next(iter(known.problem.domains[kind].constants), "A") for kind in predicate.types]
    return format_atom(name, constants, predicate.function)


class Explainer:
    """One explanation."""

    def __init__(
        self,
        known: KnownAtoms,
        explained: ExplainedFormula,
        data: str | None,
        answer: Answer | MostLikelyWorld | None,
        options: ExplanationRequest,
    ) -> None:
        self.known, self.explained, self.data = known, explained, data
        self.answer, self.options = answer, options

    def explain(self) -> Explanation:
        """Return the explanation."""
        start = self.start_atoms()
        every_fact = self.options.facts == "unknown"
        near = Neighbourhood(self.known, GrowthLimits(), every_fact)
        certain = self.certain(near, start)
        if certain is not None and not near.atoms:
            return certain
        self.why_known = "" if certain is None else certain.known
        near.grow(start)
        self.local = build_local_network(near, self.explained.formula)
        try:
            self.solve()
            return self.describe()
        except Impossible:
            raise LapisError(
                "no world satisfies the hard formulas around the atom",
                code="unsatisfiable",
                hint="lapis infer names the contradiction",
            ) from None

    def solve(self) -> None:
        """Solve the component of the explained atom."""
        self.part = self.local.conditioned(self.local.value)
        if not self.local.is_closed(self.part) and isinstance(self.answer, Answer):
            self.local = with_boundary(self.local, self.part, self.answer, self.data)
            self.part = self.local.conditioned(self.local.value)
        self.solver = LocalSolver(self.local, self.options.seed)
        self.drawn: DrawnWorlds | None = None
        found = self.solver.exact(self.part.network)
        if found is not None:
            self.base = self.solver.estimate(self.part, found)
            self.marginal = found.marginal
            self.derivative = find_derivatives(self.solver, self.part, self.base)
        else:
            self.drawn = draw_worlds(self.local, self.part, self.options.seed)
            self.base = self.drawn.base
            self.marginal = self.drawn.worlds[:, self.part.atom].mean(axis=0)
            self.derivative = self.drawn.derivatives()

    def describe(self) -> Explanation:
        """Return the explanation of the solved component."""
        found = Explanation(
            self.explained.name, self.data, self.base.probability, self.base.stderr,
            self.base.exact and self.base.closed, "" if self.why_known else self.base.method,
            self.why_known, whole=self.base.closed,
        )  # fmt: skip
        if not self.why_known:
            found = self.with_contributions(found)
        finder = AbsenceFinder(self.solver, self.part, self.base, self.drawn, self.derivative)
        without = finder.find(self.options.facts)
        found = replace(found, without=without.rows)
        if self.derivative is not None:
            found = self.with_sensitivity(found, self.derivative)
        if self.options.change_to is not None:
            search = ChangeSearch(
                self.solver, self.base, without.facts, self.options.change_to, self.drawn
            )
            found = replace(found, changes=search.find())
        found = self.with_graph(found)
        return self.as_answered(replace(found, notes=tuple(self.notes(without))))

    def notes(self, without: AbsenceSearch) -> list[str]:
        """Return caveats."""
        found = []
        if not self.base.closed:
            size = len(self.part.atom)
            found.append(
                f"the atom's component is too large: the {size:,} atoms nearest to it were "
                "considered, the others only by their probabilities"
                if len(self.local.field)
                else f"the atom's component is too large: only the {size:,} atoms nearest to it "
                "were considered"
            )
        if without.untried:
            found.append(
                f"facts, rules and ground formulas farther away that were not tried: "
                f"{without.untried:,}"
            )
        if self.derivative is None:
            found.append("derivatives by weights are too expensive here")
        return found

    def with_sensitivity(self, found: Explanation, derivative: np.ndarray) -> Explanation:
        """Add the derivatives by weights and the error that those of the weights imply."""
        errors = None
        if self.drawn is not None:
            ids = np.unique(self.local.weight_id, return_inverse=True)[1].reshape(-1)
            errors = self.drawn.derivative_errors(ids)
        rows = rule_sensitivities(self.local, derivative, errors)
        with_errors, implied = with_weight_errors(rows, self.options.fit)
        return replace(
            found, sensitivity=with_errors, weights_stderr=implied.stderr, weights_note=implied.note
        )

    def with_graph(self, found: Explanation) -> Explanation:
        """Add the graph of what is near."""
        local = self.local
        probability = np.full(local.network.num_base_atoms, np.nan)
        base = self.part.atom < local.network.num_base_atoms
        known = self.marginal[: int(base.sum())]
        probability[self.part.atom[base][: len(known)]] = known
        importance = np.abs(local.weight)
        if self.derivative is not None:
            importance = importance * np.abs(self.derivative) + 1e-12 * importance
        nodes, edges = draw_nearby(local, found.atom, probability, importance)
        return replace(found, nodes=nodes, edges=edges)

    def as_answered(self, found: Explanation) -> Explanation:
        """Move a local result to the probability that the whole network's answer has."""
        if found.whole or not isinstance(self.answer, Answer):
            return found
        key = found.atom if self.data is None else (self.data, found.atom)
        try:
            place = self.answer.asked.find(key)
        except LapisError:
            return found
        answered = float(self.answer.probability[place])
        error = None if self.answer.stderr is None else float(self.answer.stderr[place])
        rows = tuple(shift_absence(row, found.probability, answered) for row in found.without)
        note = f"the atoms nearest to it alone give {found.probability:.4f}"
        return replace(
            found, probability=answered, stderr=error, exact=False, without=rows,
            method=self.answer.method_of(place), notes=(*found.notes, note),
        )  # fmt: skip

    def start_atoms(self) -> dict[str, np.ndarray]:
        """Return the atoms of the explained formula, int32[num_atoms, arity] by predicate."""
        found: dict[str, list[list[int]]] = {}
        for predicate, constants in self.explained.atoms:
            types = self.known.problem.model.predicates[predicate].types
            domains = self.known.problem.domains
            codes = [domains[t].index[c] for t, c in zip(types, constants, strict=True)]
            found.setdefault(predicate, []).append(codes)
        return {
            name: np.unique(np.array(rows, np.int32).reshape(len(rows), -1), axis=0)
            if rows[0]
            else np.empty((1, 0), np.int32)
            for name, rows in found.items()
        }

    def certain(self, near: Neighbourhood, start: Mapping[str, np.ndarray]) -> Explanation | None:
        """Return the explanation of a formula whose atoms the data decides."""
        found = near.add_atoms(start)
        near.atoms = {name: rows for name, rows in found.items() if len(rows)}
        truth: dict[GroundAtom, bool] = {}
        reasons: list[str] = []
        domains = self.known.problem.domains
        for atom in self.explained.atoms:
            types = self.known.problem.model.predicates[atom[0]].types
            codes = [domains[t].index[c] for t, c in zip(types, atom[1], strict=True)]
            row = np.array([codes], np.int32).reshape(1, len(codes))
            state = int(self.known.states(atom[0], row)[0])
            value = int(self.value_of(near, atom[0], row))
            if value == OPEN:
                return None
            truth[atom] = bool(value)
            reasons.append(tell_known(state, bool(value)))
        formula = FormulaInstance(self.explained.formula, {}, self.explained.bound, domains)
        held = formula.holds(truth.__getitem__)
        known = reasons[0] if len(truth) == 1 else "the data decides all its atoms"
        return Explanation(self.explained.name, self.data, float(held), None, True, "", known)

    def value_of(self, near: Neighbourhood, predicate: str, row: np.ndarray) -> int:
        rows = near.atoms.get(predicate)
        if rows is None:
            return 0
        at = np.flatnonzero((rows == row).all(axis=1))
        return int(near.values(predicate, rows)[at[0]]) if len(at) else 0

    def explained_atoms(self) -> list[int]:
        """Return the explained formula's atoms in the local network."""
        numbers = number_atoms(self.local)
        return [numbers[atom] for atom in self.explained.atoms if atom in numbers]

    def with_contributions(self, found: Explanation) -> Explanation:
        """Add the contributions in the chosen world."""
        local, atoms = self.local, self.explained_atoms()
        world, name = self.choose_world()
        worlds = choose_worlds(local, world, atoms)
        value = bool(world[local.explained])
        here = worlds.true if value else worlds.false
        rows = find_contributions(local, worlds, here)
        near = near_atoms(local, changed_atoms(local, worlds))[:MAX_TOLD]
        names = local.names(near)
        given = GivenWorld(
            name, value, worlds.alternative, rows.log_odds, logistic(rows.log_odds),
            tuple(n for n, a in zip(names, near.tolist(), strict=True) if here[a]),
            tuple(n for n, a in zip(names, near.tolist(), strict=True) if not here[a]),
        )  # fmt: skip
        return replace(found, world=given, contributions=rows.rows, neutral=rows.neutral)

    def choose_world(self) -> tuple[np.ndarray, WorldName]:
        """Return the world that contributions refer to, bool[num_atoms], and what it is."""
        value, given = self.local.value.copy(), self.options.world
        if given is None:
            world, optimal = self.most_likely(value)
            return world, "most likely" if optimal else "best found"
        stated = self.stated_values(given)
        is_open = value == OPEN
        value[is_open] = stated[is_open]
        try:
            return self.most_likely(value)[0], "given"
        except Impossible:  # the given world violates hard formulas
            base = (value == 1)[: self.local.network.num_base_atoms]
            return complete(self.local, base), "given"

    def most_likely(self, value: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return a most likely world bool[num_atoms] with these values; whether it is proven."""
        local = self.local
        fixed, units = local.condition_blocks(value)
        part = fix_atoms(add_units(local.whole, units), fixed)
        refuse_false(part.network)
        options = InferenceOptions(time_limit=MAP_SECONDS, seed=self.options.seed)
        try:
            found = most_likely_world(part.network, "auto", options)
        except LapisError as error:
            raise Impossible from error
        whole = fixed == 1
        whole[part.atom] = found.world[: len(part.atom)]
        return complete(local, whole[: local.network.num_base_atoms]), found.optimal

    def stated_values(self, given: WorldValues) -> np.ndarray:
        """Return int8[num_atoms], the values of a given world, OPEN where it has none."""
        local = self.local
        numbers = number_atoms(local)
        if isinstance(given, MostLikelyWorld):
            return answered_values(local, numbers, given, self.data)
        listed = given if isinstance(given, Mapping) else dict.fromkeys(given, True)
        value = np.full(local.network.num_atoms, OPEN, np.int8)
        if not isinstance(given, Mapping):
            value[list(numbers.values())] = 0
        for text, truth in listed.items():
            explained = resolve_explained(self.known, text)
            if not isinstance(explained.formula, Atom):
                raise LapisError(
                    f"a world gives values to atoms, and {text!r} is none",
                    code="explain",
                    hint='as in {"Smokes(Anna)": True}',
                )
            number = numbers.get(explained.atoms[0])
            if number is not None:
                value[number] = bool(truth)
        return value


def answered_values(
    local: LocalNetwork,
    numbers: Mapping[GroundAtom, int],
    answer: MostLikelyWorld,
    data: str | None,
) -> np.ndarray:
    """Return int8[num_atoms], the values that a most likely world has, OPEN elsewhere."""
    value = np.full(local.network.num_atoms, OPEN, np.int8)
    asked = answer.asked
    for number, group in enumerate(asked.groups):
        if not group.is_atom or (data is not None and group.world != data):
            continue
        rows = {atom[1]: place for atom, place in numbers.items() if atom[0] == group.predicate}
        for constants, place in rows.items():
            row = group.find(constants)
            if row is not None:
                value[place] = bool(answer.value[int(asked.offset[number]) + row])
    return value


def shift_absence(row: Absence, local: float, answered: float) -> Absence:
    """Move a probability near the atom by the difference of log-odds to the whole answer."""
    if row.probability is None:
        return row
    moved = logistic(log_odds_of(row.probability) - log_odds_of(local) + log_odds_of(answered))
    return row._replace(probability=moved, change=moved - answered)


def log_odds_of(probability: float) -> float:
    """Return log-odds, bounded."""
    bounded = min(max(probability, LEAST_PROBABILITY), 1.0 - LEAST_PROBABILITY)
    return math.log(bounded) - math.log1p(-bounded)


def with_boundary(
    local: LocalNetwork, part: ConditionedPart, answer: Answer, data: str | None
) -> LocalNetwork:
    """Give atoms that were not grown from the log-odds that they have in the answer."""
    atoms, weights = [], []
    asked = answer.asked
    for (predicate, constants), number in number_atoms(local).items():
        if local.grown[number] or local.value[number] != OPEN:
            continue
        for place, group in enumerate(asked.groups):
            if group.predicate != predicate or not group.is_atom:
                continue
            if data is not None and group.world != data:
                continue
            row = group.find(constants)
            if row is not None:
                p = float(answer.probability[int(asked.offset[place]) + row])
                is_block = local.block_number[number] >= 0
                bounded = max(p, LEAST_PROBABILITY)
                atoms.append(number)
                weights.append(math.log(bounded) if is_block else log_odds_of(p))
    return local.with_fields(np.array(atoms, np.int64), np.array(weights))


def tell_known(state: int, value: bool) -> str:
    """Tell why an atom is certain."""
    if state == TRUE:
        return "the data states it"
    if state == FALSE:
        return "the data states that it is false"
    if state == SILENT:
        return "its predicate is closed, and the data does not state it"
    return "the data states another value"


def logistic(log_odds: float) -> float:
    """Return the probability with these log-odds."""
    if math.isnan(log_odds):
        return math.nan
    if log_odds >= 0:
        return 1.0 / (1.0 + math.exp(-log_odds))
    return math.exp(log_odds) / (1.0 + math.exp(log_odds))

"""Without it: the probability if a rule, a ground formula or a fact were not there.

Each absence is one more exact inference on the component of the explained atom, which has a few
atoms in most networks, so hundreds take a fraction of a second. If exact inference is too
expensive, worlds drawn once are weighed anew (`importance`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lapis.explanation.contributions import instance_text, rule_text
from lapis.explanation.fact_values import ChangedFact, apply_changes, fact_text, take_away
from lapis.explanation.importance import DrawnWorlds
from lapis.explanation.known_atoms import FALSE, TRUE
from lapis.explanation.local_network import ConditionedPart, Impossible, LocalNetwork
from lapis.explanation.probabilities import LocalSolver, ProbabilityEstimate
from lapis.registry.options import FactsWithout
from lapis.results.explanation import Absence
from lapis.runtime.progress import work_clock

MAX_FACTS, MAX_FORMULAS, MAX_RULES = 400, 40, 400
SECONDS = 3.0  # for all absences
NO_CHANGE = 1e-12


class Removal(NamedTuple):
    """Something that may be absent: ground formulas, or a fact."""

    kind: str
    text: str
    distance: int
    instances: np.ndarray | None = None  # int64[...]
    fact: ChangedFact | None = None


class AbsenceSearch(NamedTuple):
    rows: tuple[Absence, ...]
    facts: tuple[int, ...]  # the facts that were tried, nearest first
    untried: int


class AbsenceFinder:
    """Finds what holds without rules, ground formulas and facts near the explained atom."""

    def __init__(
        self,
        solver: LocalSolver,
        part: ConditionedPart,
        base: ProbabilityEstimate,
        drawn: DrawnWorlds | None,
        derivative: np.ndarray | None,
    ) -> None:
        self.solver, self.local, self.part, self.base = solver, solver.local, part, base
        self.drawn, self.derivative = drawn, derivative

    def find(self, mode: FactsWithout) -> AbsenceSearch:
        """Return all absences that change the probability, the largest change first."""
        facts = near_facts(self.local, self.part)
        removals = [
            *self.facts(facts[:MAX_FACTS], mode),
            *self.rules(),
            *self.formulas(),
        ]
        rows: list[Absence] = []
        began, untried = work_clock(), max(0, len(facts) - MAX_FACTS)
        for removal in removals:
            if work_clock() - began > SECONDS:
                untried += 1
                continue
            row = self.row(removal)
            if row.change is None or abs(row.change) > NO_CHANGE:
                rows.append(row)
        rows.sort(key=lambda row: -abs(row.change or 0.0))
        return AbsenceSearch(tuple(rows), tuple(facts[:MAX_FACTS]), untried)

    def facts(self, facts: list[int], mode: FactsWithout) -> Iterator[Removal]:
        for atom in facts:
            change = take_away(self.local, atom, mode)
            if change is not None:
                distance = int(self.local.steps[atom])
                yield Removal("fact", fact_text(self.local, atom), distance, fact=change)

    def rules(self) -> Iterator[Removal]:
        """Yield the rules with ground formulas in the component, + variables as constants."""
        local = self.local
        touching = self.touching()
        key = np.array([self.rule_key(number) for number in touching.tolist()], np.int64)
        for number in np.unique(key)[:MAX_RULES].tolist():
            own = touching[key == number]
            first = int(own[0])
            text = rule_text(local, local.instance(first)[0], first)
            distance = min(self.distance(number) for number in own.tolist())
            yield Removal("rule", text, distance, self.of_rule(first))

    def rule_key(self, number: int) -> int:
        """Number the weight of a ground formula; hard rules are negative."""
        weight = int(self.local.weight_id[number])
        return weight if weight >= 0 else -1 - self.local.group_of(number).rule

    def of_rule(self, number: int) -> np.ndarray:
        """Return all ground formulas with the weight of this one, or of its hard rule."""
        weight = self.local.weight_id[number]
        if weight >= 0:
            return np.flatnonzero(self.local.weight_id == weight)
        group = self.local.group_of(number)
        return np.arange(group.first, group.first + len(group.rows))

    def formulas(self) -> Iterator[Removal]:
        """Yield the ground formulas of the component, those of most influence first."""
        local, touching = self.local, self.touching()
        if self.derivative is not None:
            influence = np.abs(self.derivative * local.weight)[touching]
            influence[local.is_hard[touching]] = np.inf
            touching = touching[np.argsort(-influence, kind="stable")]
        else:
            far = [self.distance(number) for number in touching.tolist()]
            touching = touching[np.argsort(far, kind="stable")]
        for number in touching[:MAX_FORMULAS].tolist():
            rule, values = local.instance(number)
            if values:  # a rule without variables is its only ground formula
                text = instance_text(rule, values)
                yield Removal("formula", text, self.distance(number), np.array([number]))

    def touching(self) -> np.ndarray:
        """Return the ground formulas that contain atoms of the component."""
        formula, atom = self.local.incidence
        return np.unique(formula[np.isin(atom, self.part.atom)])

    def distance(self, number: int) -> int:
        """Return the number of ground formulas from the explained atom to this one, itself too."""
        formula, atom = self.local.incidence
        first, last = np.searchsorted(formula, (number, number + 1))
        steps = self.local.steps[atom[first:last]]
        return 1 + int(steps[steps >= 0].min(initial=len(steps)))

    def row(self, removal: Removal) -> Absence:
        """Return the probability without something."""
        try:
            found = self.solve(removal)
        except Impossible:
            return self.unknown(removal, "no world satisfies the hard formulas")
        if found is None:
            note = "exact inference is too expensive" if self.drawn is None else "draws cannot tell"
            return self.unknown(removal, note)
        becomes = "" if removal.fact is None else removal.fact.becomes
        exact = found.exact and found.closed and not self.is_narrow(removal)
        return Absence(
            removal.kind, removal.text, becomes, found.probability,  # type: ignore[arg-type]
            found.probability - self.base.probability, found.stderr, exact, removal.distance,
        )  # fmt: skip

    def is_narrow(self, removal: Removal) -> bool:
        """Return whether some ground formulas were left out that a fact takes part in."""
        if removal.fact is None:
            return False
        return self.local.known.is_narrow(self.local.predicate_of(removal.fact.atom))

    def unknown(self, removal: Removal, note: str) -> Absence:
        becomes = "" if removal.fact is None else removal.fact.becomes
        kind = removal.kind
        return Absence(kind, removal.text, becomes, None, None, None, False, removal.distance, note)  # type: ignore[arg-type]

    def solve(self, removal: Removal) -> ProbabilityEstimate | None:
        if removal.fact is not None:
            value = apply_changes(self.local, [removal.fact])
            if self.drawn is not None:
                return self.drawn.given([removal.fact])
            return self.solver.given(value)
        assert removal.instances is not None
        if self.drawn is not None:
            return self.drawn.without(removal.instances)
        return self.solver.without(removal.instances)


def near_facts(local: LocalNetwork, part: ConditionedPart) -> list[int]:
    """Return the facts in ground formulas of the component, the nearest first."""
    formula, atom = local.incidence
    base = np.union1d(part.atom[part.atom < local.network.num_base_atoms], local.target)
    inside = np.isin(formula, formula[np.isin(atom, base)])
    found = local.with_blocks_of(np.concatenate([atom[inside], local.target, base]))
    stated = (local.state[found] == TRUE) | (local.state[found] == FALSE)
    found = found[stated]
    steps = local.steps[found]
    order = np.lexsort((found, np.where(steps < 0, np.iinfo(np.int64).max, steps)))
    return [int(number) for number in found[order]]

"""Find a smallest set of facts whose change moves the probability across a threshold.

Facts are reversed: a true one becomes false, a false one true; a value of a block leaves the other
values open. Sets are tried by size. All sets of a size are tried while they are few; then facts
are added greedily, each the one that moves the probability most, and superfluous ones are dropped.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal

from lapis.explanation.fact_values import ChangedFact, apply_changes, reverse
from lapis.explanation.importance import DrawnWorlds
from lapis.explanation.local_network import Impossible
from lapis.explanation.probabilities import LocalSolver, ProbabilityEstimate
from lapis.results.explanation import FactChanges
from lapis.runtime.progress import work_clock

MAX_SETS = 3000  # that are tried one by one
MAX_GREEDY = 12  # facts of a set that is found greedily
CANDIDATES = 60  # facts that greedy steps try, those that move the probability most alone
SECONDS = 5.0


class ChangeSearch:
    """A search for changes of facts that move the probability across a threshold."""

    def __init__(
        self,
        solver: LocalSolver,
        base: ProbabilityEstimate,
        facts: Sequence[int],
        goal: float,
        drawn: DrawnWorlds | None,
    ) -> None:
        self.solver, self.local, self.goal, self.drawn = solver, solver.local, goal, drawn
        self.above = base.probability >= goal
        found = (reverse(self.local, atom) for atom in facts)
        self.changes = [change for change in found if change is not None]
        self.tried: dict[tuple[int, ...], float] = {}
        self.began = work_clock()

    def find(self) -> FactChanges:
        """Return a smallest set, or one that was found greedily."""
        size, sets = 1, 0
        while size <= len(self.changes):
            sets += math.comb(len(self.changes), size)
            if sets > MAX_SETS or self.is_late():
                break
            found = self.best_of_size(size)
            if found is not None:
                return self.result(found, True, "exact")
            size += 1
        if size > len(self.changes):
            return self.result((), False, "exact")
        return self.greedy()

    def is_late(self) -> bool:
        return work_clock() - self.began > SECONDS

    def best_of_size(self, size: int) -> tuple[int, ...] | None:
        """Return the set of a size that crosses the threshold farthest; None if none does."""
        best: tuple[int, ...] | None = None
        for chosen in itertools.combinations(range(len(self.changes)), size):
            probability = self.probability(chosen)
            if self.crosses(probability) and (best is None or self.is_better(probability, best)):
                best = chosen
        return best

    def is_better(self, probability: float, other: tuple[int, ...]) -> bool:
        before = self.probability(other)
        return probability < before if self.above else probability > before

    def crosses(self, probability: float) -> bool:
        """Return whether a probability is on the other side of the threshold than the base."""
        if math.isnan(probability):
            return False
        return probability < self.goal if self.above else probability >= self.goal

    def probability(self, chosen: tuple[int, ...]) -> float:
        """Return the probability with some facts reversed; NaN if there is none."""
        if chosen not in self.tried:
            self.tried[chosen] = self.solve([self.changes[number] for number in chosen])
        return self.tried[chosen]

    def solve(self, changes: list[ChangedFact]) -> float:
        members = [atom for change in changes for atom in change.members.tolist()]
        if len(set(members)) < len(members):
            return math.nan  # two facts of one block
        try:
            if self.drawn is not None:
                found = self.drawn.given(changes)
            else:
                found = self.solver.given(apply_changes(self.local, changes))
        except Impossible:
            return math.nan
        return math.nan if found is None else found.probability

    def greedy(self) -> FactChanges:
        """Add the fact that moves the probability most until the threshold is crossed."""
        alone = sorted(range(len(self.changes)), key=lambda n: self.distance((n,)))[:CANDIDATES]
        chosen: tuple[int, ...] = ()
        while len(chosen) < MAX_GREEDY and not self.is_late():
            more = [tuple(sorted((*chosen, n))) for n in alone if n not in chosen]
            if not more:
                break
            best = min(more, key=self.distance)
            if chosen and self.distance(best) >= self.distance(chosen):
                break
            chosen = best
            if self.crosses(self.probability(chosen)):
                return self.result(self.drop_superfluous(chosen), True, "greedy")
        return self.result((), False, "greedy")

    def distance(self, chosen: tuple[int, ...]) -> float:
        """Return how far the probability is on the side of the base; infinite if impossible."""
        found = self.probability(chosen)
        if math.isnan(found):
            return math.inf
        return found - self.goal if self.above else self.goal - found

    def drop_superfluous(self, chosen: tuple[int, ...]) -> tuple[int, ...]:
        """Drop facts without which the threshold is still crossed."""
        for number in chosen:
            fewer = tuple(n for n in chosen if n != number)
            if fewer and self.crosses(self.probability(fewer)):
                return self.drop_superfluous(fewer)
        return chosen

    def result(
        self, chosen: tuple[int, ...], reached: bool, search: Literal["exact", "greedy"]
    ) -> FactChanges:
        texts = tuple(self.changes[number].text for number in chosen)
        probability = self.probability(chosen) if chosen else None
        return FactChanges(
            self.goal,
            reached,
            texts,
            probability,
            search,
            len(self.changes),
        )

"""A world whose atoms flip one at a time, with exact counts kept up to date.

`World.delta` is the change of every count if an atom flipped; `World.flip` flips it. Both look at
the groundings around the atom only (`lapis.counting.nested_loops`), so count-based samplers never
need a ground network.

Derived atoms are kept as atoms of their own, together with their witness counts. Flipping a base
atom changes witness counts; a derived atom whose count becomes zero or stops being zero flips in
turn, in the order of definitions. Each single flip changes the counts by the difference of
`counting.differences` with all other atoms, derived ones too, held where they are, so the
changes of the whole cascade just add up, however deep the quantifiers are nested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lapis.counting.complete_world import base_world
from lapis.counting.derived import count_witnesses
from lapis.counting.differences.atom_differences import chosen_features, needed_definitions
from lapis.counting.differences.differences import (
    Difference,
    Target,
    clause_difference,
    cube_difference,
)
from lapis.counting.indexed_relation import IndexedRelation, Row
from lapis.counting.nested_loops import (
    Compiler,
    Count,
    Counter,
    Emit,
    Source,
    Values,
    read_sources,
)
from lapis.counting.weight_keys import WeightKey, count_violations, count_weights, number_weights
from lapis.errors import TooLarge
from lapis.logic.clauses import Definition
from lapis.problem.problem import Problem
from lapis.relational.conjunction import Scope
from lapis.relational.exact_sums import narrow
from lapis.relational.interpretation import Extension

MOST_LOOPS = 100_000  # that follow witnesses: they are compiled in half a minute


class Change(NamedTuple):
    """What a flip changes: difference[i] more true groundings of weight_id[i]."""

    weight_id: tuple[int, ...]  # increasing
    difference: tuple[int, ...]  # nonzero
    violations: int  # more violated groundings of hard rules


class _Effect(NamedTuple):
    """One signed conjunction of what flipping an atom of a predicate changes."""

    counter: Counter
    num_slots: int
    owner: str | None  # the derived predicate whose witnesses change
    weight: Count | None  # the weight of a match, where true groundings change


class World:
    """Truth of all atoms, and n_w for every weight w.

    `violations` is the number of violated groundings of hard rules, `violated_rules` the hard
    rules that were violated at the start.

    >>> import lapis
    >>> model = lapis.parse('''
    ... person = {Anna, Bob}
    ... Smokes(person)
    ... Friends(person, person)
    ... 1.1 Friends(x,y) ^ Smokes(x) => Smokes(y)
    ... ''')
    >>> data = lapis.Database.parse("Smokes(Anna) Friends(Anna,Bob)")
    >>> world = World(lapis.build_problem(model, data))
    >>> world.counts.tolist(), world.delta("Smokes", [1])
    ([3], Change(weight_id=(0,), difference=(1,), violations=0))
    >>> world.flip("Friends", [0, 1]).difference, world.counts.tolist()
    ((1,), [4])
    """

    def __init__(
        self,
        problem: Problem,
        *,
        rules: Sequence[int] | None = None,
        world: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self._features = chosen_features(problem, rules)
        self._definitions = needed_definitions(problem, self._features)
        _require_followable(self._definitions)
        self._domains = problem.domains
        self._keys = number_weights(problem)
        interpretation = base_world(problem, world)
        self._predicates = dict(problem.model.predicates)
        self._witnesses: dict[str, dict[Row, int]] = {}
        for definition in self._definitions:
            predicate = definition.predicate
            counts = count_witnesses(definition, interpretation)
            extension = Extension(predicate.types, counts.rows)
            interpretation = interpretation.with_relation(predicate.name, extension)
            rows = map(tuple, counts.rows.tolist())
            self._predicates[predicate.name] = predicate
            self._witnesses[predicate.name] = dict(zip(rows, counts.value.tolist(), strict=True))
        self._relations = {
            name: IndexedRelation(len(relation.types), map(tuple, relation.tuples.tolist()))
            for name, relation in interpretation.relations.items()
        }
        self._types = {name: predicate.types for name, predicate in self._predicates.items()}
        self._effects: dict[tuple[str, bool], list[_Effect]] = {}
        self._counts = count_weights(self._features, self._keys, interpretation)
        hard = [feature for feature in self._features if feature.hard]  # some of one rule
        violations = [count_violations(feature, interpretation) for feature in hard]
        self.violations = sum(violations)
        broken = [f.rule for f, count in zip(hard, violations, strict=True) if count]
        self.violated_rules = tuple(dict.fromkeys(broken))

    @property
    def counts(self) -> np.ndarray:
        """int64[num_weights], true groundings of each weight; object beyond 64 bits."""
        return narrow(np.array(self._counts, dtype=object))

    def is_true(self, predicate: str, arguments: Sequence[int]) -> bool:
        return tuple(arguments) in self._relations[predicate]

    def delta(self, predicate: str, arguments: Sequence[int]) -> Change:
        """How the counts would change if the atom flipped. The world stays as it is."""
        atom = tuple(map(int, arguments))
        journal = _Journal()
        if not self._definitions:  # nothing follows, so that nothing need be flipped and undone
            changed: dict[int, int] = {}
            self._add_effects(predicate, atom, changed, {}, journal)
            return self._change(changed)
        change = self._cascade(predicate, atom, journal)
        self._undo(journal)
        return change

    def flip(self, predicate: str, arguments: Sequence[int]) -> Change:
        """Flips the atom, and returns how the counts have changed."""
        change = self._cascade(predicate, tuple(map(int, arguments)), _Journal())
        for weight, difference in zip(change.weight_id, change.difference, strict=True):
            self._counts[weight] += difference
        self.violations += change.violations
        return change

    def _cascade(self, predicate: str, atom: Row, journal: _Journal) -> Change:
        """Flips the atom and every derived atom that follows."""
        changed: dict[int, int] = {}
        touched: dict[str, set[Row]] = {}
        self._flip_one(predicate, atom, changed, touched, journal)
        for definition in self._definitions:
            name = definition.predicate.name
            for derived in touched.pop(name, ()):
                if (self._witnesses[name].get(derived, 0) > 0) != self.is_true(name, derived):
                    self._flip_one(name, derived, changed, touched, journal)
        return self._change(changed)

    def _change(self, changed: dict[int, int]) -> Change:
        violations = -changed.pop(self._keys.hard, 0)
        weights = tuple(sorted(weight for weight, difference in changed.items() if difference))
        return Change(weights, tuple(changed[weight] for weight in weights), violations)

    def _flip_one(
        self,
        predicate: str,
        atom: Row,
        changed: dict[int, int],
        touched: dict[str, set[Row]],
        journal: _Journal,
    ) -> None:
        """Flips one base or derived atom; others are touched but not yet flipped."""
        self._add_effects(predicate, atom, changed, touched, journal)
        self._relations[predicate].toggle(atom)
        journal.flips.append((predicate, atom))

    def _add_effects(
        self,
        predicate: str,
        atom: Row,
        changed: dict[int, int],
        touched: dict[str, set[Row]],
        journal: _Journal,
    ) -> None:
        """Adds up what flipping one atom changes."""
        truth = atom in self._relations[predicate].rows
        sign = -1 if truth else 1
        effects = self._effects_of(predicate, truth)
        num_slots = max((effect.num_slots for effect in effects), default=0)
        values: Values = [*atom, *[0] * (num_slots - len(atom))]
        for counter, _, owner, weight in effects:
            if weight is not None:
                if counter.run is not None:
                    counter.run(values, _weigher(weight, sign, changed))
                elif counter.total is not None and (number := counter.total(values)):
                    own = weight(values)
                    changed[own] = changed.get(own, 0) + sign * number
            elif owner is not None:
                found: dict[Row, int] = {}
                if counter.run is not None:
                    counter.run(values, _collector(counter.outputs, found))
                elif counter.total is not None and (number := counter.total(values)):
                    found[read_sources(counter.outputs, values)] = number
                self._add_witnesses(owner, found, sign, touched, journal)

    def _add_witnesses(
        self,
        predicate: str,
        found: Mapping[Row, int],
        sign: int,
        touched: dict[str, set[Row]],
        journal: _Journal,
    ) -> None:
        witnesses = self._witnesses[predicate]
        for derived, number in found.items():
            witnesses[derived] = witnesses.get(derived, 0) + sign * number
            journal.witnesses.append((predicate, derived, sign * number))
        touched.setdefault(predicate, set()).update(found)

    def _undo(self, journal: _Journal) -> None:
        for predicate, atom in journal.flips:
            self._relations[predicate].toggle(atom)
        for predicate, derived, number in journal.witnesses:
            self._witnesses[predicate][derived] -= number

    def _effects_of(self, predicate: str, truth: bool) -> list[_Effect]:
        if (predicate, truth) not in self._effects:
            target = Target(self._predicates[predicate], {}, self._domains)
            effects: list[_Effect] = []
            for feature in self._features:
                own = [clause_difference(c, feature.variables, target) for c in feature.clauses]
                key = self._keys.of_rule[feature.rule]
                effects += self._compile(own, truth, target, key, key.plus)
            for definition in self._definitions:
                name = definition.predicate.name
                heads = tuple(head for head, _ in definition.variables)
                variables = (*definition.variables, *definition.bound)
                own = [cube_difference(cube, variables, target) for cube in definition.cubes]
                effects += self._compile(own, truth, target, name, heads)
            self._effects[predicate, truth] = effects
        return self._effects[predicate, truth]

    def _compile(
        self,
        differences: Sequence[Difference],  # over the same variables
        truth: bool,
        target: Target,
        owner: WeightKey | str,
        outputs: tuple[str, ...],
    ) -> Iterator[_Effect]:
        """What the differences are together: much of what clauses of one formula say cancels."""
        if not differences:
            return
        types = {**target.types, **differences[0].variables}  # the atom fills the first slots
        kept = (*target.positions, *outputs)
        scope = Scope(types, kept, self._domains)
        known = frozenset(target.positions)
        compiler = Compiler(scope, known, self._relations, self._types)
        signed = (c for each in differences for c in (each.when_true if truth else each.when_false))
        for counter in compiler.compile(signed, outputs):
            if isinstance(owner, str):
                yield _Effect(counter, len(types), owner, None)
            else:
                weight = _weight_reader(owner, counter.outputs)
                yield _Effect(counter, len(types), None, weight)


def _require_followable(definitions: Sequence[Definition]) -> None:
    """Raise TooLarge where flips would touch too many cubes: each literal looks for the others."""
    loops = sum(len(cube.literals) ** 2 for each in definitions for cube in each.cubes)
    if loops > MOST_LOOPS:
        number = max(len(definition.cubes) for definition in definitions)
        raise TooLarge(
            f"a quantified part of a formula falls into {number:,} conjunctions, too many to see "
            "what each atom changes in it",
            code="too-many-clauses",
            hint="introduce a predicate for a part of it, defined by a hard equivalence",
        )


def _weight_reader(key: WeightKey, outputs: Sequence[Source]) -> Count:
    """The weight id of the constants that the outputs stand for, as one sum."""
    offset, stride = key.offset, 1
    terms: list[tuple[int, int]] = []  # (slot, stride)
    for (is_slot, number), size in zip(reversed(outputs), reversed(key.shape), strict=True):
        if is_slot:
            terms.append((number, stride))
        else:
            offset += number * stride
        stride *= size
    if not terms:
        return lambda values: offset
    if len(terms) == 1:
        ((slot, step),) = terms
        return lambda values: offset + step * values[slot]
    if len(terms) == 2:
        (slot, step), (other, stretch) = terms
        return lambda values: offset + step * values[slot] + stretch * values[other]
    return lambda values: offset + sum([step * values[slot] for slot, step in terms])


def _weigher(weight: Count, sign: int, changed: dict[int, int]) -> Emit:
    """Adds up signed counts by weight."""

    def collect(values: Values, number: int) -> None:
        own = weight(values)
        changed[own] = changed.get(own, 0) + sign * number

    return collect


def _collector(outputs: Sequence[Source], found: dict[Row, int]) -> Emit:
    """Adds up counts by the outputs."""

    def collect(values: Values, number: int) -> None:
        key = read_sources(outputs, values)
        found[key] = found.get(key, 0) + number

    return collect


class _Journal:
    """What a cascade has done, to be undone."""

    def __init__(self) -> None:
        self.flips: list[tuple[str, Row]] = []
        self.witnesses: list[tuple[str, Row, int]] = []

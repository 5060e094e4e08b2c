"""In this world: what each ground formula adds to the log-odds of the explained atom.

With all other atoms as in a world x, the log-odds of an atom a are

    log P(a | rest) − log P(¬a | rest) = Σ_f w_f (n_f(x with a) − n_f(x without a)),

a sum over the ground formulas f that contain a. Where a is a value of a block, the world without it
has the best other value, and the sum compares these two values. A formula over several atoms is
compared likewise: the best assignment to its atoms that makes it true, and the best that makes it
false. A hard formula that only one side satisfies adds ±∞.

Ground formulas of one rule that add the same, and differ in one place only, become one line with
their number.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lapis.data.keys import number_rows
from lapis.errors import LapisError, TooLarge
from lapis.explanation.ground_truth import FormulaInstance, GroundAtom
from lapis.explanation.local_network import LocalNetwork
from lapis.explanation.neighbourhood import OPEN
from lapis.language.instances import put_constants, substitute
from lapis.language.model import Rule
from lapis.language.names import format_atom, format_constant, format_state
from lapis.language.parser import parse_formula
from lapis.language.printer import print_product
from lapis.language.sugar import without_plus
from lapis.language.syntax import Formula
from lapis.results.explanation import Contribution

MAX_ASSIGNMENTS = 4096  # of the atoms of an explained formula
MAX_LISTED = 5  # ground formulas of a rule with the same contribution that have lines of their own
MAX_LINES = 1000  # with reasons
MAX_LEAVES = 400  # ground atoms of a quantified formula whose reasons are computed
MAX_EXAMPLES = 10


class TwoWorlds(NamedTuple):
    """The world with the explained atom, and the one without it; bool[num_atoms] each."""

    true: np.ndarray
    false: np.ndarray
    alternative: str | None  # the other value of the atom's block
    only: bool | None = None  # the one value that the explained atom can have


def choose_worlds(local: LocalNetwork, world: np.ndarray, atoms: Sequence[int]) -> TwoWorlds:
    """Return the best worlds that differ from a world in some atoms only, for and against.

    `atoms` are the base atoms of the explained formula. Its truth is that of `explained`.
    """
    best: dict[bool, tuple[tuple[int, float], np.ndarray]] = {}
    for candidate in assignments(local, world, atoms):
        value = bool(candidate[local.explained])
        broken, score = weigh(local, candidate)
        rank = (-broken, score)
        if value not in best or rank > best[value][0]:
            best[value] = rank, candidate
    if len(best) < 2:  # the formula has one value only
        [(value, (_, only))] = best.items()
        return TwoWorlds(only, only, None, value)
    true, false = best[True][1], best[False][1]
    differ = np.flatnonzero((true != false)[: local.network.num_base_atoms])
    others = [a for a in differ.tolist() if false[a] and a != local.explained and a not in atoms]
    alternative = local.names(np.array(others[:1]))[0] if others and len(atoms) == 1 else None
    return TwoWorlds(true, false, alternative)


def weigh(local: LocalNetwork, world: np.ndarray) -> tuple[int, float]:
    """Return the number of violated hard formulas, and the score of the others."""
    counts = local.network.counts(world)[: local.num_instances]
    broken = local.is_hard & (counts < local.total)
    return int(broken.sum()), float(local.weight @ counts)


def assignments(
    local: LocalNetwork, world: np.ndarray, atoms: Sequence[int]
) -> Iterator[np.ndarray]:
    """Yield the worlds that differ from a world in the open ones of some atoms and their blocks."""
    groups = list(alternatives(local, atoms))
    number = math.prod(len(values) for _, values in groups)
    if number > MAX_ASSIGNMENTS:
        raise TooLarge(
            f"the explained formula has {number:,} assignments to its atoms; at most "
            f"{MAX_ASSIGNMENTS:,} are compared",
            code="explain-too-large",
            hint="explain a formula over fewer unknown atoms",
        )
    size = local.network.num_base_atoms
    for choice in itertools.product(*(values for _, values in groups)):
        base = world[:size].copy()
        for (members, _), values in zip(groups, choice, strict=True):
            base[members] = values
        yield complete(local, base)


def complete(local: LocalNetwork, base: np.ndarray) -> np.ndarray:
    """Complete a world bool[num_base_atoms]: auxiliary atoms, and the explained one."""
    base = base.copy()
    base[local.explained] = True
    found = local.network.complete(base)
    if not local.network.is_satisfied(found)[local.network.weight_id < 0].all():
        base[local.explained] = False
        found = local.network.complete(base)
    return found


def alternatives(
    local: LocalNetwork, atoms: Sequence[int]
) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Yield groups of open atoms with their possible values, bool[size of the group] each."""
    network, done = local.network, set[int]()
    value, units = local.condition_blocks(local.value)
    barred = set((-units - 1).tolist())
    owner = np.repeat(np.arange(network.num_blocks), np.diff(network.block_start))
    for atom in atoms:
        if value[atom] != OPEN or atom in done:
            continue
        blocks = owner[network.block_atom == atom]
        if not len(blocks):
            done.add(atom)
            yield np.array([atom]), [np.array([False]), np.array([True])]
            continue
        block = int(blocks[0])
        first, last = network.block_start[block], network.block_start[block + 1]
        members = network.block_atom[first:last]
        done |= set(members.tolist())
        values = [
            np.arange(len(members)) == place
            for place, member in enumerate(members.tolist())
            if member not in barred
        ]
        if not network.block_exact[block]:
            values.append(np.zeros(len(members), bool))
        yield members, values


class Contributions(NamedTuple):
    rows: tuple[Contribution, ...]
    neutral: int
    log_odds: float


def find_contributions(local: LocalNetwork, worlds: TwoWorlds, here: np.ndarray) -> Contributions:
    """Return the contributions of the ground formulas that contain the explained atom.

    `here` is the one of `worlds` whose literals are given as reasons.
    """
    true, false = (local.network.counts(world)[: local.num_instances] for world in worlds[:2])
    difference = true - false
    is_held = [(counts >= local.total).astype(float) for counts in (true, false)]
    broken = is_held[0] - is_held[1]
    with np.errstate(invalid="ignore"):
        hard = np.where(broken == 0, 0.0, np.inf * broken)
    amount = np.where(local.is_hard, hard, local.weight * difference)
    if worlds.only is not None:
        return Contributions((forced_row(worlds.only),), 0, np.inf if worlds.only else -np.inf)
    changed = np.flatnonzero(worlds.true != worlds.false)
    formula, atom = local.incidence
    touching = np.unique(formula[np.isin(atom, changed)])
    chosen = touching[amount[touching] != 0]
    reasons = Reasons(local, worlds, here)
    rows = list(contribution_rows(local, chosen, amount, reasons))
    rows.sort(key=lambda row: -abs(row.log_odds))
    finite = amount[chosen][np.isfinite(amount[chosen])]
    infinite = amount[chosen][~np.isfinite(amount[chosen])]
    total = math.fsum(finite.tolist())
    if len(infinite):
        total = float(infinite[0]) if (infinite == infinite[0]).all() else math.nan
    return Contributions(tuple(rows), len(touching) - len(chosen), total)


def forced_row(value: bool) -> Contribution:
    """Return the line of an atom that has one possible value."""
    reason = "it has no other value" if value else "other values are certain"
    return Contribution(
        reason, "the blocks and the data", None, np.inf if value else -np.inf, 1, ()
    )


def contribution_rows(
    local: LocalNetwork, chosen: np.ndarray, amount: np.ndarray, reasons: Reasons
) -> Iterator[Contribution]:
    """Yield a line for each ground formula, or for several that differ in one constant."""
    for group in local.groups:
        last = group.first + len(group.rows)
        own = chosen[(chosen >= group.first) & (chosen < last)]
        if not len(own):
            continue
        rule = local.known.rules[group.rule]
        for members in alike(group.rows[own - group.first], amount[own], local.weight_id[own]):
            part = own[members]
            if len(part) == 1:
                number = int(part[0])
                yield single_row(local, rule, number, float(amount[number]), reasons)
            else:
                rows = group.rows[part - group.first]
                yield joint_row(local, rule, rows, part, float(amount[part[0]]))


def alike(rows: np.ndarray, amount: np.ndarray, weight_id: np.ndarray) -> Iterator[np.ndarray]:
    """Yield groups of rows with one contribution that differ in one column at most.

    A row joins the column in which most rows agree with it in all others.
    """
    rank = np.unique(amount, return_inverse=True)[1]
    columns = [*rows.T, rank, weight_id + 1]
    size, label = np.zeros((2, rows.shape[1] + 1, len(rows)), np.int64)
    for place in range(rows.shape[1]):
        others = [column for n, column in enumerate(columns) if n != place]
        label[place] = number_rows(others, len(rows))[1]
        size[place] = np.bincount(label[place])[label[place]]
    chosen = size.argmax(axis=0)
    alone = size.max(axis=0) <= MAX_LISTED
    yield from (np.array([number]) for number in np.flatnonzero(alone))
    joint = np.flatnonzero(~alone)
    _, group = number_rows([chosen[joint], label[chosen[joint], joint]], len(joint))
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    yield from (part for part in np.split(joint[order], cuts) if len(part))


class Reasons:
    """Tells on which literals the contribution of a ground formula depends."""

    def __init__(self, local: LocalNetwork, worlds: TwoWorlds, here: np.ndarray) -> None:
        self.local, self.here, self.told = local, here, 0
        self.sides = worlds.true, worlds.false
        self.changed = set(np.flatnonzero(worlds.true != worlds.false).tolist())

    @cached_property
    def number(self) -> Mapping[GroundAtom, int]:
        """The atoms of the local network by predicate and constants."""
        return number_atoms(self.local)

    def truth(self, atom: GroundAtom, world: np.ndarray) -> bool:
        if self.local.known.problem.model.predicates[atom[0]].is_number:
            return self.local.known.holds(*atom)
        number = self.number.get(atom)
        return number is not None and bool(world[number])

    def because(self, rule: Rule, values: Mapping[str, str]) -> tuple[str, ...]:
        """Return the literals whose change would change the contribution.

        If none would, all literals of the ground formula are returned.
        """
        domains = self.local.known.problem.domains
        formula = FormulaInstance(rule.formula, values, rule.bound, domains)
        self.told += 1
        if self.told > MAX_LINES or formula.num_leaves > MAX_LEAVES:
            return ()
        atoms = [a for a in formula.atoms() if self.number.get(a, -1) not in self.changed]
        whole = self.difference(formula, None)
        pivots = [atom for atom in atoms if self.difference(formula, atom) != whole]
        chosen = pivots or (atoms if not rule.bound else [])
        return tuple(self.literal(atom) for atom in chosen)

    def difference(self, formula: FormulaInstance, flipped: GroundAtom | None) -> int:
        """Return the formula's count with minus without the explained atom, one atom flipped."""
        one, other = (
            formula.holds(lambda atom, world=world: self.truth(atom, world) != (atom == flipped))  # type: ignore[misc]
            for world in self.sides
        )
        return int(one) - int(other)

    def literal(self, atom: GroundAtom) -> str:
        name = atom_name(self.local, atom)
        return name if self.truth(atom, self.here) else f"!{name}"


def number_atoms(local: LocalNetwork) -> dict[GroundAtom, int]:
    """Return the base atoms of a local network by predicate and constants."""
    table, domains = local.network.atoms, local.known.problem.domains
    found: dict[GroundAtom, int] = {}
    for place, name in enumerate(table.predicates):
        predicate = local.known.problem.model.predicates.get(name)
        if predicate is None:
            continue
        columns = [
            domains[kind].names[table.tuples[place][:, n]].tolist()
            for n, kind in enumerate(predicate.types)
        ]
        rows = zip(*columns, strict=True) if columns else iter([()])
        first = int(table.offset[place])
        found |= {(name, tuple(row)): first + number for number, row in enumerate(rows)}
    return found


def atom_name(local: LocalNetwork, atom: GroundAtom) -> str:
    """Format an atom as a fact, or as the state of a variable."""
    predicate = local.known.problem.model.predicates[atom[0]]
    if predicate.variable:
        return format_state(predicate.name, atom[1])
    return format_atom(predicate.name, atom[1], predicate.function)


def single_row(
    local: LocalNetwork, rule: Rule, number: int, amount: float, reasons: Reasons
) -> Contribution:
    """Return the line of one ground formula."""
    values = local.instance(number)[1]
    return Contribution(
        instance_text(rule, values), rule_text(local, rule, number), weight_of(local, number),
        amount, 1, reasons.because(rule, values),
    )  # fmt: skip


def joint_row(
    local: LocalNetwork, rule: Rule, rows: np.ndarray, numbers: np.ndarray, amount: float
) -> Contribution:
    """Return the line of ground formulas that differ in one constant."""
    varies = [name for (name, _), column in zip(rule.variables, rows.T, strict=True)
              if (column != column[0]).any()]  # fmt: skip
    values = local.constants(rule, rows[0])
    fixed = {name: value for name, value in values.items() if name not in varies}
    number = int(numbers[0])
    examples = [
        format_constant(local.constants(rule, row)[name])
        for row in rows[:MAX_EXAMPLES]
        for name in varies[:1]
    ]
    return Contribution(
        instance_text(rule, fixed), rule_text(local, rule, number), weight_of(local, number),
        amount * len(rows), len(rows), (), tuple(examples),
    )  # fmt: skip


def weight_of(local: LocalNetwork, number: int) -> float | None:
    """Return the weight of a ground formula's rule; None if it is hard."""
    weight_id = int(local.weight_id[number])
    return None if weight_id < 0 else float(local.known.problem.weight_table.value[weight_id])


def instance_text(rule: Rule, values: Mapping[str, str]) -> str:
    """Print a rule with constants for its variables."""
    numbers = [
        replace(each, terms=tuple(put_constants(term, values) for term in each.terms))
        for each in rule.numbers
    ]
    return print_product(numbers, substitute(written_formula(rule), values))


def written_formula(rule: Rule) -> Formula:
    """Return the formula as it is written, with functions and without resolved names."""
    if rule.numbers:
        return rule.formula
    try:
        return without_plus(parse_formula(rule.text))
    except LapisError:  # names of a network's variables may be any text
        return rule.formula


def rule_text(local: LocalNetwork, rule: Rule, number: int) -> str:
    """Print the rule of a ground formula; + variables are constants."""
    if not rule.plus:
        return rule.text
    values = local.instance(number)[1]
    return instance_text(rule, {name: values[name] for name in rule.plus})


def changed_atoms(local: LocalNetwork, worlds: TwoWorlds) -> np.ndarray:
    """Return the base atoms that differ between two worlds, without the explained one."""
    differ = (worlds.true != worlds.false)[: local.network.num_base_atoms]
    found = np.flatnonzero(differ)
    return found[found != local.explained]


def near_atoms(local: LocalNetwork, atoms: np.ndarray) -> np.ndarray:
    """Return some atoms, and the open atoms that share a ground formula with them."""
    formula, atom = local.incidence
    touching = np.isin(formula, formula[np.isin(atom, atoms)])
    found = np.union1d(atoms, atom[touching])
    return found[(local.value[found] == OPEN) & (found != local.explained)]

"""The ground network of a neighbourhood, in which each ground formula has a weight of its own.

The rules of the neighbourhood are grounded like any others. Each has a guard that is true for the
ground formulas found, numbered by a + variable:

    w  _near_3(+i, x, y) => F(x, y)

so each ground formula has a weight id: its count is 0 or 1, removing it means weight 0, and the
expected counts are probabilities of ground formulas. Facts are atoms like unknown ones, and are
conditioned on: a fact that is not there is the same network under another condition. Hard formulas
are grounded with weights too, so that they can be counted, and become hard clauses for inference.

The explained formula is the atom `_explained`, by a hard equivalence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lapis.data.database import Domain, empty_tuples
from lapis.data.keys import share_keys
from lapis.explanation.known_atoms import UNKNOWN, KnownAtoms
from lapis.explanation.neighbourhood import OPEN, Neighbourhood
from lapis.grounding.assembly import HARD
from lapis.grounding.bottom_up import ground
from lapis.language.model import Model, Predicate, Rule
from lapis.language.syntax import Atom, Formula, Iff, Implies, Variable
from lapis.logic.clauses import simple_term
from lapis.logic.normalize import normalize
from lapis.network.components import Subnetwork, fix_atoms, keep_part
from lapis.network.csr import row_starts, row_sums, take_rows
from lapis.network.network import Network
from lapis.problem.problem import Evidence, Problem
from lapis.relational.numbers import scale_numbers

EXPLAINED = "_explained"


class InstanceGroup(NamedTuple):
    """The ground formulas of a rule."""

    rule: int
    rows: np.ndarray  # int32[num_instances, num_variables]
    first: int  # the weight id of the first


class ConditionedPart(NamedTuple):
    """The component of the explained atom under a condition."""

    network: Network
    atom: np.ndarray  # int64[num_atoms], the numbers in the local network
    explained: int  # the explained atom in the part


@dataclass(frozen=True)
class LocalNetwork:
    """A neighbourhood as a network; `network` has hard formulas as soft ones of weight 0."""

    known: KnownAtoms
    network: Network
    groups: tuple[InstanceGroup, ...]
    is_hard: np.ndarray  # bool[num_instances]
    weight: np.ndarray  # float64[num_instances], times the numbers of the formula; 0 if hard
    factor: np.ndarray  # float64[num_instances], the numbers that multiply it, else 1
    weight_id: np.ndarray  # int64[num_instances], in the problem's weight table; −1 if hard
    value: np.ndarray  # int8[num_atoms], what the evidence decides; OPEN elsewhere
    state: np.ndarray  # int8[num_atoms], as `KnownAtoms.states`; UNKNOWN for others
    grown: np.ndarray  # bool[num_atoms]
    explained: int  # the atom that stands for the explained formula
    # float64[num_fields], weights of unit clauses on atoms that were not grown from: what the rest
    # of the network adds to their log-odds
    field: np.ndarray

    @property
    def num_instances(self) -> int:
        return len(self.weight)

    @property
    def all_weights(self) -> np.ndarray:
        """float64[num_weights], the weights of ground formulas, then those of the boundary."""
        return np.concatenate((self.weight, self.field))

    @property
    def hard_ids(self) -> np.ndarray:
        """bool[num_weights], the weights that stand for hard formulas."""
        return np.concatenate((self.is_hard, np.zeros(len(self.field), bool)))

    @cached_property
    def total(self) -> np.ndarray:
        """float64[num_instances], the count at which all clauses of a formula are true."""
        found = np.zeros(len(self.network.weights))
        own = self.network.weight_id >= 0
        np.add.at(found, self.network.weight_id[own], self.network.coefficient[own])
        return found[: self.num_instances]

    def hard_network(self, weight: np.ndarray, is_hard: np.ndarray) -> Network:
        """Return the network with these weights, float64[num_instances], and hard formulas."""
        ids = self.network.weight_id
        hard = np.concatenate((is_hard, np.zeros(len(self.field), bool)))
        own = (ids >= 0) & hard[np.maximum(ids, 0)] if len(hard) else ids < -1
        return replace(
            self.network,
            weights=np.concatenate((weight, self.field)),
            weight_id=np.where(own, HARD, ids).astype(np.int32),
            coefficient=np.where(own, 1.0, self.network.coefficient),
        )

    @cached_property
    def whole(self) -> Network:
        """The network with its weights and hard formulas."""
        return self.hard_network(self.weight, self.is_hard)

    def with_fields(self, atoms: np.ndarray, field: np.ndarray) -> LocalNetwork:
        """Add unit clauses of these weights on some atoms, int64[num_fields]."""
        network, first = self.network, self.num_instances
        added = add_units(network, (atoms + 1).astype(np.int32))
        ids = first + np.arange(len(atoms), dtype=np.int32)
        more = np.zeros(first + len(atoms))
        added = replace(
            added,
            weight_id=np.concatenate((network.weight_id, ids)).astype(np.int32),
            weights=more,
            constant_count=more,
        )
        return replace(self, network=added, field=field)

    def conditioned(self, value: np.ndarray, network: Network | None = None) -> ConditionedPart:
        """Return the component of the explained atom, given values int8[num_atoms]."""
        fixed, units = self.condition_blocks(value)
        given = add_units(self.whole if network is None else network, units)
        part = fix_atoms(given, fixed)
        refuse_false(part.network)
        at = int(np.flatnonzero(part.atom == self.explained)[0])
        kept = keep_part(part.network, part.network.component == part.network.component[at])
        place = int(np.flatnonzero(kept.atom == at)[0])
        return ConditionedPart(kept.network, part.atom[kept.atom], place)

    def condition_blocks(self, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Complete blocks: return values, and literals int32[...] of values in open blocks."""
        network, fixed = self.network, value.copy()
        if not network.num_blocks:
            return fixed, np.empty(0, np.int32)
        start, atom = network.block_start, network.block_atom
        owner = np.repeat(np.arange(network.num_blocks), np.diff(start))
        has_true = row_sums(start, fixed[atom] == 1) > 0
        fixed[atom[has_true[owner] & (fixed[atom] != 1)]] = 0
        left = row_sums(start, fixed[atom] == OPEN)
        forced = network.block_exact & (left == 1) & ~has_true
        fixed[atom[forced[owner] & (fixed[atom] == OPEN)]] = 1
        is_open = (left > 0) & ~forced & ~has_true
        partly = is_open[owner] & (fixed[atom] == 0)
        units = -(atom[partly].astype(np.int32) + 1)
        fixed[atom[partly]] = OPEN
        return fixed, units

    def open_part(self) -> Subnetwork:
        """Return the network of all open atoms, given the evidence."""
        fixed, units = self.condition_blocks(self.value)
        return fix_atoms(add_units(self.whole, units), fixed)

    def is_closed(self, part: ConditionedPart) -> bool:
        """Return whether a component is the whole component of the answer's network."""
        base = part.atom[part.atom < self.network.num_base_atoms]
        return bool(self.grown[base[base != self.explained]].all())

    def predicate_of(self, atom: int) -> str:
        table = self.network.atoms
        return table.predicates[int(table.predicate_of(np.array([atom]))[0])]

    @cached_property
    def block_number(self) -> np.ndarray:
        """int64[num_atoms], the block of each atom; −1 if it has none."""
        found = np.full(self.network.num_atoms, -1, np.int64)
        size = np.diff(self.network.block_start)
        found[self.network.block_atom] = np.repeat(np.arange(len(size)), size)
        return found

    def block_of(self, atom: int) -> np.ndarray:
        """Return the atoms of an atom's block, itself among them, int64[num_members]."""
        number = int(self.block_number[atom])
        if number < 0:
            return np.array([atom])
        first, last = self.network.block_start[number : number + 2]
        return self.network.block_atom[first:last].astype(np.int64)

    @cached_property
    def steps(self) -> np.ndarray:
        """int64[num_base_atoms], ground formulas between each atom and the explained one.

        Facts lead no further. Atoms of a block are equally far. −1 where nothing leads.
        """
        size = self.network.num_base_atoms
        steps = np.full(size, -1, np.int64)
        formula, atom = self.incidence
        start = np.unique(self.target)
        level, reached = 0, start
        seen = np.zeros(self.num_instances, bool)
        while len(reached):
            steps[reached] = level
            passing = reached if level == 0 else reached[self.value[reached] == OPEN]
            found = np.unique(formula[np.isin(atom, passing)])
            found = found[~seen[found]]
            seen[found] = True
            level += 1
            new = np.unique(atom[np.isin(formula, found)])
            new = self.with_blocks_of(new)
            reached = new[steps[new] < 0]
        return steps

    def with_blocks_of(self, atoms: np.ndarray) -> np.ndarray:
        """Add the blocks of atoms, int64[num_atoms]."""
        blocks = np.unique(self.block_number[atoms])
        inside = np.isin(self.block_number, blocks[blocks >= 0])
        return np.union1d(atoms, np.flatnonzero(inside))

    @cached_property
    def target(self) -> np.ndarray:
        """The atoms of the explained formula with their blocks, int64[num_atoms]."""
        network = self.network
        hard = np.flatnonzero(network.weight_id < 0)
        start, literal = take_rows(network.clause_start, network.literal, hard)
        atom = np.abs(literal) - 1
        owner = np.repeat(np.arange(len(hard)), np.diff(start))
        own = np.isin(owner, owner[atom == self.explained])
        found = np.unique(atom[own])
        while (found >= network.num_base_atoms).any():
            inner = found[found >= network.num_base_atoms] - network.num_base_atoms
            more = take_rows(network.definition_start, network.definition_literal, inner)[1]
            found = np.union1d(found[found < network.num_base_atoms], np.abs(more) - 1)
        return self.with_blocks_of(found[found != self.explained])

    def names(self, atoms: np.ndarray) -> list[str]:
        return self.network.atom_names(atoms)

    def instance(self, number: int) -> tuple[Rule, dict[str, str]]:
        """Return the rule of a ground formula, and its constants by variable."""
        group = self.group_of(number)
        rule = self.known.rules[group.rule]
        return rule, self.constants(rule, group.rows[number - group.first])

    def group_of(self, number: int) -> InstanceGroup:
        """Return the group that a ground formula is in."""
        return next(group for group in reversed(self.groups) if group.first <= number)

    def constants(self, rule: Rule, row: np.ndarray) -> dict[str, str]:
        domains = self.known.problem.domains
        return {
            name: domains[kind].constants[code]
            for (name, kind), code in zip(rule.variables, row.tolist(), strict=True)
        }

    @cached_property
    def incidence(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a ground formula and a base atom in it, int64[num_pairs] each, distinct."""
        network = self.network
        owner = np.repeat(np.arange(network.num_clauses), np.diff(network.clause_start))
        ids, atom = network.weight_id[owner].astype(np.int64), np.abs(network.literal) - 1
        while len(atom) and int(atom.max()) >= network.num_base_atoms:  # follow definitions
            derived = atom >= network.num_base_atoms
            start, literal = take_rows(
                network.definition_start,
                network.definition_literal,
                atom[derived] - network.num_base_atoms,
            )
            ids = np.concatenate((ids[~derived], np.repeat(ids[derived], np.diff(start))))
            atom = np.concatenate((atom[~derived], np.abs(literal) - 1))
        kept = (ids >= 0) & (ids < self.num_instances)
        code = np.unique(ids[kept] * network.num_atoms + atom[kept])
        return code // max(1, network.num_atoms), code % max(1, network.num_atoms)


def refuse_false(network: Network) -> None:
    """Raise Impossible if a hard clause has no literal left."""
    if (np.diff(network.clause_start)[network.weight_id < 0] == 0).any():
        raise Impossible


class Impossible(Exception):
    """No world satisfies the hard formulas under a condition."""


def add_units(network: Network, units: np.ndarray) -> Network:
    """Add hard unit clauses, int32[num_units] literals."""
    if not len(units):
        return network
    lengths = np.concatenate((np.diff(network.clause_start), np.ones(len(units), np.int64)))
    return replace(
        network,
        clause_start=row_starts(lengths),
        literal=np.concatenate((network.literal, units)).astype(np.int32),
        weight_id=np.concatenate((network.weight_id, np.full(len(units), HARD, np.int32))),
        coefficient=np.concatenate((network.coefficient, np.ones(len(units)))),
    )


def build_local_network(near: Neighbourhood, target: Formula) -> LocalNetwork:
    """Ground a neighbourhood and the formula that is explained."""
    problem = near.known.problem
    numbers = [number for number in near.known.rules if len(near.rows.get(number, ()))]
    groups: list[InstanceGroup] = []
    for number in numbers:
        first = groups[-1].first + len(groups[-1].rows) if groups else 0
        groups.append(InstanceGroup(number, near.rows[number], first))
    local = local_problem(near, groups, target)
    network = ground(local, check=False)
    is_hard = np.concatenate(
        [np.empty(0, bool), *(np.full(len(g.rows), near.known.rules[g.rule].hard) for g in groups)]
    )
    weight_id = np.concatenate(
        [np.empty(0, np.int64), *(find_weights(near.known, group) for group in groups)]
    )
    table = problem.weight_table.value
    factor = np.concatenate([np.empty(0), *(find_factors(near.known, group) for group in groups)])
    weight = np.where(weight_id >= 0, table[np.maximum(weight_id, 0)] if len(table) else 0.0, 0.0)
    weight = weight * factor
    zero = np.zeros(len(weight))
    network = replace(network, weights=zero, constant_count=network.constant_count[: len(zero)] * 0)
    network = with_blocks(network, near)
    value = np.full(network.num_atoms, OPEN, np.int8)
    state = np.full(network.num_atoms, UNKNOWN, np.int8)
    grown = np.zeros(network.num_atoms, bool)
    for predicate, rows in near.uncertain().items():
        atom = network.atom_index(predicate, rows)
        value[atom] = near.values(predicate, rows)
        state[atom] = near.known.states(predicate, rows)
        grown[network.atom_index(predicate, near.grown.get(predicate, rows[:0]))] = True
    explained = int(network.atom_index(EXPLAINED, np.empty((1, 0), np.int32))[0])
    return LocalNetwork(
        near.known, network, tuple(groups), is_hard, weight, factor, weight_id, value, state, grown,
        explained, np.empty(0),
    )  # fmt: skip


def find_weights(known: KnownAtoms, group: InstanceGroup) -> np.ndarray:
    """Return int64[num_instances], ids in the problem's weight table; −1 for hard rules."""
    rule, table = known.rules[group.rule], known.problem.weight_table
    if rule.hard:
        return np.full(len(group.rows), -1, np.int64)
    names = [name for name, _ in rule.variables]
    code = np.zeros(len(group.rows), np.int64)
    for name, size in zip(rule.plus, table.shape[group.rule], strict=True):
        code = code * size + group.rows[:, names.index(name)]
    return table.offset[group.rule] + code


def find_factors(known: KnownAtoms, group: InstanceGroup) -> np.ndarray:
    """Return float64[num_instances], the product of the numbers that multiply each formula."""
    rule, problem = known.rules[group.rule], known.problem
    factor = np.ones(len(group.rows))
    names = [name for name, _ in rule.variables]
    for number in rule.numbers:
        listed = problem.evidence[number.function].true
        types = problem.model.predicates[number.function].types
        columns = [
            group.rows[:, names.index(term.name)]
            if isinstance(term, Variable)
            else np.full(len(factor), problem.domains[kind].index[simple_term(term).name])
            for term, kind in zip(number.terms, types, strict=False)
        ]
        keys, wanted = share_keys(listed.T[:-1], columns).parts
        place = np.minimum(np.searchsorted(keys, wanted), max(0, len(keys) - 1))
        found = keys[place] == wanted if len(keys) else np.zeros(len(wanted), bool)
        value = problem.domains[types[-1]].numeric[listed[place, -1]] if len(keys) else wanted
        own = scale_numbers(value, number.scale)
        factor *= np.where(found, own, 0.0)  # a formula without its number is skipped
    return factor


def with_blocks(network: Network, near: Neighbourhood) -> Network:
    """Add the blocks of the neighbourhood's atoms."""
    lengths, members, exact = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.empty(0, bool)]
    for predicate, rows in near.uncertain().items():
        shape = near.known.block(predicate)
        if shape is None or not len(rows):
            continue
        keys = shape.keys(rows)
        order = np.argsort(keys, kind="stable")
        length = np.unique(keys, return_counts=True)[1]
        atom = network.atom_index(predicate, rows)[order]
        is_exact = near.known.evidence(predicate).predicate.exactly_one
        if not is_exact:
            atom, length = atom[np.repeat(length > 1, length)], length[length > 1]
        lengths.append(length)
        members.append(atom.astype(np.int32))
        exact.append(np.full(len(length), is_exact))
    return replace(
        network,
        block_start=row_starts(np.concatenate(lengths)),
        block_atom=np.concatenate(members),
        block_exact=np.concatenate(exact),
    )


def local_problem(near: Neighbourhood, groups: Sequence[InstanceGroup], target: Formula) -> Problem:
    """Return the problem of guarded rules; every atom that is not false by silence is unknown."""
    problem = near.known.problem
    predicates: dict[str, Predicate] = {
        name: replace(problem.model.predicates[name], block=(), factors=None) for name in used(near)
    }
    evidence = {
        name: closed_evidence(found, true=near.atoms.get(name))
        if found.is_number
        else closed_evidence(found, unknown=near.atoms.get(name))
        for name, found in predicates.items()
    }
    domains = dict(problem.domains)
    rules: list[Rule] = []
    for group in groups:
        rule, kind = near.known.rules[group.rule], f"_instance_{group.rule}"
        guard = Predicate(f"_near_{group.rule}", (kind, *(t for _, t in rule.variables)))
        number = np.arange(len(group.rows), dtype=np.int32)
        domains[kind] = Domain(kind, tuple(map(str, number.tolist())))
        rows = np.column_stack((number, group.rows)).astype(np.int32)
        predicates[guard.name] = guard
        evidence[guard.name] = closed_evidence(guard, true=rows)
        names = ["_i", *(name for name, _ in rule.variables)]
        formula = Implies(Atom(guard.name, tuple(map(Variable, names))), rule.formula)
        variables = (("_i", kind), *rule.variables)
        rules.append(Rule(formula, variables, rule.bound, 0.0, False, rule.text, plus=("_i",)))
    explained = Predicate(EXPLAINED, ())
    predicates[EXPLAINED] = explained
    evidence[EXPLAINED] = closed_evidence(explained, unknown=np.empty((1, 0), np.int32))
    definition = Iff(Atom(EXPLAINED, ()), target)
    rules.append(Rule(definition, (), (), None, True, EXPLAINED))
    model = Model(dict.fromkeys(domains, ()), predicates, tuple(rules), name="<explained>")
    return Problem(model, normalize(model), domains, evidence)


def used(near: Neighbourhood) -> list[str]:
    """Return the predicates of the model that rules or atoms of the neighbourhood mention."""
    found = dict.fromkeys(near.atoms)
    for number, rows in near.rows.items():
        if len(rows):
            found |= dict.fromkeys(each.atom.predicate for each in near.known.by_rule[number])
    return list(found)


def closed_evidence(
    predicate: Predicate, *, true: np.ndarray | None = None, unknown: np.ndarray | None = None
) -> Evidence:
    none = empty_tuples(predicate.arity)
    return Evidence(
        predicate,
        False,
        none if true is None else true,
        none,
        none if unknown is None else unknown,
    )

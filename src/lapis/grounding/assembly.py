"""Assemble rows of literals to a Network.

Auxiliary atoms that no clause uses are dropped. An auxiliary atom a ⇔ l₁ ∨ … ∨ l_k is enforced by
the clauses a ∨ ¬l_i and ¬a ∨ l₁ ∨ … ∨ l_k. Blocks are groups of unknown atoms, of which at most
one, or exactly one, is true.

Clauses over constants need no join and are grounded together (`ground_rows`). A Bayesian network
written as rules has tens of thousands of them over a few hundred atoms; each atom is looked up
once. A literal that the evidence makes true satisfies its clause, which is dropped; a false literal
is dropped; an unknown one stays as the number of its atom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, compress
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError, Note
from lapis.grounding.blocks import block_shape
from lapis.grounding.counters import Auxiliaries
from lapis.grounding.ground_atoms import PredicateAtoms, build_atom_table
from lapis.language.model import Predicate, Rule
from lapis.language.names import format_atom
from lapis.logic.clauses import Clause, Feature, Literal
from lapis.network.csr import row_starts, take_rows
from lapis.network.merge import TAUTOLOGY, MergedRows, merge_rows, sort_rows
from lapis.network.network import AtomTable, Network
from lapis.problem.problem import Problem
from lapis.relational.interpretation import Interpretation
from lapis.relational.numbers import number_world, sum_numbers

HARD = -1


class FlatRows(NamedTuple):
    """Ground clauses with their weights, not merged yet."""

    length: np.ndarray  # int64[num_rows], entries of each row in `literal`
    literal: np.ndarray  # int32[...], entries 0 are ignored
    weight_id: np.ndarray  # int32[num_rows], HARD or the id
    multiplicity: np.ndarray  # float64[num_rows], groundings that became this row

    def take(self, kept: np.ndarray) -> FlatRows:
        """Select rows by a mask bool[num_rows]."""
        literal = self.literal[np.repeat(kept, self.length)]
        return FlatRows(self.length[kept], literal, self.weight_id[kept], self.multiplicity[kept])


class Assembled(NamedTuple):
    network: Network
    clause_of_row: np.ndarray  # int32[num_rows], the clause of each row, or TAUTOLOGY or EMPTY


def concatenate_rows(parts: Sequence[FlatRows]) -> FlatRows:
    parts = [part for part in parts if len(part.length)]
    if len(parts) == 1:
        return parts[0]
    return FlatRows(
        np.concatenate([np.empty(0, np.int64), *(part.length for part in parts)]),
        np.concatenate([np.empty(0, np.int32), *(part.literal for part in parts)]),
        np.concatenate([np.empty(0, np.int32), *(part.weight_id for part in parts)]),
        np.concatenate([np.empty(0), *(part.multiplicity for part in parts)]),
    )


def sum_multiplicities(
    rows: FlatRows, num_weights: int, chosen: np.ndarray | None = None
) -> np.ndarray:
    """Return float64[num_weights], the multiplicities of the chosen rows summed by weight."""
    weight_id, count = rows.weight_id, rows.multiplicity
    if chosen is not None:
        index = np.flatnonzero(chosen)
        weight_id, count = weight_id[index], count[index]
    sums = np.bincount(weight_id - HARD, weights=count, minlength=num_weights + 1)[1:]
    return sums.astype(np.float64, copy=False)  # bincount of an empty array is an integer array


def count_all_groundings(problem: Problem, world: Interpretation | None = None) -> np.ndarray:
    """Return float64[num_weights], the count of each weight if every clause were true.

    J clauses come with a constant 1 − J, so this is the number of groundings of the formula, or the
    sum of its numbers over them. `world` has the relations of numbers (`number_world`).
    """
    table = problem.weight_table
    total = np.zeros(len(table.value))
    offset = table.offset.tolist()
    for feature in problem.normal_form.features:
        first, last = offset[feature.rule], offset[feature.rule + 1]
        if last > first:
            always = feature.constant + len(feature.clauses)
            if feature.numbers:
                total[first:last] += always * sum_numbers(feature, world or number_world(problem))
            else:
                groundings = problem.num_groundings(feature.variables) // (last - first)
                total[first:last] += always * groundings
    total[offset[-1] :] = [grounded.log_scale for grounded in problem.model.tables]
    return total


def count_decided(problem: Problem, rows: FlatRows) -> np.ndarray:
    """Return float64[num_weights], the groundings that evidence makes true: all but the rows."""
    total = count_all_groundings(problem)
    return total - sum_multiplicities(rows, len(total))


def predicate_signatures(problem: Problem) -> Mapping[str, Predicate]:
    """Return base and derived predicates by name."""
    derived = {d.predicate.name: d.predicate for d in problem.normal_form.definitions}
    return {**problem.model.predicates, **derived}


def assemble_network(
    problem: Problem,
    base: Mapping[str, PredicateAtoms],
    auxiliaries: Auxiliaries,
    rows: FlatRows,
    constant_count: np.ndarray,
    distinct: np.ndarray | None = None,
) -> Assembled:
    """Merge rows and add the clauses of definitions and the blocks.

    `constant_count` counts the groundings that are in no row; tautological rows are added to it,
    and empty rows are dropped. `distinct`, bool[num_weights], marks weights whose rows all differ.
    """
    atoms = build_atom_table(base)
    num_base_atoms = len(atoms)
    literal, definition_start = rows.literal, np.zeros(1, np.int64)
    definition_literal = np.empty(0, np.int32)
    if auxiliaries.count:
        used = keep_used(auxiliaries, atoms, literal)
        atoms, literal = used.atoms, used.literal
        definition_start, definition_literal = used.definition_start, used.definition_literal
    rows = rows._replace(literal=literal)
    definitions = num_base_atoms, definition_start, definition_literal
    merged = merge_with_definitions(rows, definitions, distinct)
    blocks = network_blocks(problem, base)
    network = Network(
        atoms=atoms,
        num_base_atoms=num_base_atoms,
        clause_start=merged.start,
        literal=merged.literal,
        weight_id=merged.weight_id,
        coefficient=merged.coefficient,
        weights=problem.weight_table.value.copy(),
        constant_count=constant_count
        + sum_multiplicities(rows, len(constant_count), merged.merged == TAUTOLOGY),
        block_start=blocks.start,
        block_atom=blocks.atom,
        block_exact=blocks.exact,
        definition_start=definition_start,
        definition_literal=definition_literal,
        domains=problem.domains,
        signatures=predicate_signatures(problem),
    )
    return Assembled(network, merged.merged)


def merge_with_definitions(
    rows: FlatRows,
    definitions: tuple[int, np.ndarray, np.ndarray],
    distinct: np.ndarray | None = None,
) -> MergedRows:
    """Merge equal rows and hard clauses of definitions, and sort them; `merged` refers to the rows.

    `definitions` are the first auxiliary atom and, as CSR, the literals that define each.
    """
    start, literal = definition_clauses(*definitions)
    num_hard = len(start) - 1
    merged = sort_rows(
        merge_rows(
            row_starts(np.concatenate((rows.length, np.diff(start)))),
            np.concatenate((rows.literal, literal)),
            np.concatenate((rows.weight_id, np.full(num_hard, HARD, np.int32))),
            np.concatenate((rows.multiplicity, np.ones(num_hard))),
            distinct,
        )
    )
    return merged._replace(
        coefficient=np.where(merged.weight_id == HARD, 1.0, merged.coefficient),
        merged=merged.merged[: len(rows.length)],
    )


class UsedAuxiliaries(NamedTuple):
    atoms: AtomTable  # base atoms, then the auxiliary ones
    literal: np.ndarray  # int32[...], the given literals with the new atom numbers
    definition_start: np.ndarray  # int64[num_auxiliary + 1]
    definition_literal: np.ndarray  # int32[...]


def keep_used(auxiliaries: Auxiliaries, base: AtomTable, literal: np.ndarray) -> UsedAuxiliaries:
    """Drop the auxiliary atoms that no literal reaches, directly or through definitions."""
    first, total = auxiliaries.first, auxiliaries.count
    used = np.zeros(first + total + 1, bool)
    used[np.abs(literal)] = True
    begin = first + total
    for group in reversed(auxiliaries.groups):  # later groups refer to earlier ones only
        begin -= len(group.tuples)
        wanted = used[begin + 1 : begin + 1 + len(group.tuples)]
        used[np.abs(group.member[np.repeat(wanted, np.diff(group.start))])] = True
    renumber = np.arange(first + total + 1, dtype=np.int32)
    renumber[first + 1 :] = first + np.cumsum(used[first + 1 :])

    names, tuples, counts = list(base.predicates), list(base.tuples), []
    lengths, members = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for group in auxiliaries.groups:
        wanted = np.flatnonzero(used[begin + 1 : begin + 1 + len(group.tuples)])
        begin += len(group.tuples)
        if len(wanted):
            start, member = take_rows(group.start, group.member, wanted)
            names.append(group.predicate)
            tuples.append(group.tuples[wanted])
            counts.append(len(wanted))
            lengths.append(np.diff(start))
            members.append(np.sign(member) * renumber[np.abs(member)])
    offset = np.concatenate((base.offset, base.offset[-1] + np.cumsum(counts, dtype=np.int64)))
    return UsedAuxiliaries(
        AtomTable(tuple(names), offset, tuple(tuples)),
        np.sign(literal) * renumber[np.abs(literal)],
        row_starts(np.concatenate(lengths)),
        np.concatenate(members).astype(np.int32),
    )


def definition_clauses(
    first: int, start: np.ndarray, member: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return as CSR (start, literal) the clauses that define the auxiliary atoms."""
    length = np.diff(start)
    own = np.arange(first + 1, first + 1 + len(length), dtype=np.int32)
    pairs = np.stack((np.repeat(own, length), -member), axis=1).ravel()
    long_start = start[:-1] + np.arange(len(length))  # a long clause has one literal more
    longs = np.empty(len(member) + len(length), np.int32)
    longs[long_start] = -own
    is_member = np.ones(len(longs), bool)
    is_member[long_start] = False
    longs[is_member] = member
    lengths = np.concatenate((np.full(len(member), 2, np.int64), length + 1))
    return (
        row_starts(lengths),
        np.concatenate((pairs, longs)).astype(np.int32),
    )


class GroundBlocks(NamedTuple):
    start: np.ndarray  # int64[num_blocks + 1]
    atom: np.ndarray  # int32[...]
    exact: np.ndarray  # bool[num_blocks]


def network_blocks(problem: Problem, atoms: Mapping[str, PredicateAtoms]) -> GroundBlocks:
    """Group unknown atoms by their arguments outside the block positions.

    After `apply_blocks` no other atom of such a block is true. An at-most-one block of one atom
    restricts nothing and is left out.
    """
    lengths, members, exact = [np.empty(0, np.int64)], [np.empty(0, np.int32)], []
    for name, predicate in problem.model.predicates.items():
        if not predicate.block or atoms[name].num_unknown == 0:
            continue
        keys = block_shape(predicate, problem.domains).keys(atoms[name].unknown)
        order = np.argsort(keys, kind="stable")
        _, length = np.unique(keys, return_counts=True)
        atom = (atoms[name].first + order).astype(np.int32)
        if not predicate.exactly_one:
            atom = atom[np.repeat(length > 1, length)]
            length = length[length > 1]
        lengths.append(length)
        members.append(atom)
        exact.append(np.full(len(length), predicate.exactly_one))
    return GroundBlocks(
        row_starts(np.concatenate(lengths)),
        np.concatenate(members),
        np.concatenate([np.empty(0, bool), *exact]),
    )


SATISFIED = np.iinfo(np.int32).min
HINT = (
    "correct the data, or give a rule a weight instead of its final period; infer and map can "
    "break as few as possible (relax=True, --relax)"
)


def split_ground(problem: Problem) -> tuple[list[Feature], list[Feature]]:
    """Separate the features over constants and base predicates from the others."""
    derived = problem.normal_form.derived
    ground: list[Feature] = []
    others: list[Feature] = []
    for feature in problem.normal_form.features:
        plain = not feature.variables and not any(
            clause.conditions
            or (derived and any(literal.predicate in derived for literal in clause.literals))
            for clause in feature.clauses
        )
        (ground if plain else others).append(feature)
    return ground, others


def ground_rows(
    features: Sequence[Feature], problem: Problem, base: Mapping[str, PredicateAtoms]
) -> tuple[FlatRows, list[tuple[Feature, Clause]]]:
    """Ground clauses over constants; return the remaining rows and the clause of each."""
    clauses = [(feature, clause) for feature in features for clause in feature.clauses]
    literals = list(chain.from_iterable(clause.literals for _, clause in clauses))
    value_of = look_up_literals({id(literal): literal for literal in literals}, problem, base)
    value = np.fromiter(map(value_of.__getitem__, map(id, literals)), np.int32, len(literals))
    length = np.fromiter((len(clause.literals) for _, clause in clauses), np.int64, len(clauses))
    row_of = np.repeat(np.arange(len(length)), length)
    alive = np.bincount(row_of, value == SATISFIED, len(length)) == 0
    left = np.bincount(row_of, value != 0, len(length))
    for row in np.flatnonzero(alive & (left == 0)).tolist():
        if clauses[row][0].hard:
            feature, clause = clauses[row]
            facts = [false_fact(literal, problem) for literal in clause.literals]
            raise hard_contradiction(problem.model.rules[feature.rule], "", facts)
    offset = problem.weight_table.offset.tolist()
    weight_id = np.fromiter(
        (HARD if feature.hard else offset[feature.rule] for feature, _ in clauses),
        np.int32,
        len(clauses),
    )
    ones = np.ones(np.count_nonzero(alive))
    rows = FlatRows(length[alive], value[alive[row_of]], weight_id[alive], ones)
    return rows, list(compress(clauses, alive))


def look_up_literals(
    literals: Mapping[int, Literal], problem: Problem, base: Mapping[str, PredicateAtoms]
) -> dict[int, int]:
    """Return by key the signed number of an unknown atom, SATISFIED, or 0 for a false literal."""
    keys: dict[str, list[int]] = {}
    for key, literal in literals.items():
        keys.setdefault(literal.predicate, []).append(key)
    found: dict[int, int] = {}
    for predicate, own in keys.items():
        atoms = base[predicate]
        indexes = [problem.domains[t].index for t in problem.model.predicates[predicate].types]
        rows = [
            [index[t.name] for index, t in zip(indexes, literals[key].terms, strict=True)]
            for key in own
        ]
        codes = atoms.codes(np.array(rows, np.int32).reshape(len(own), len(indexes)))
        sign = np.where([literals[key].positive for key in own], 1, -1)
        number = atoms.literal(codes)
        known = np.where(np.isin(codes, atoms.codes(atoms.true)), 1, -1)
        value = np.where(number != 0, sign * number, np.where(known == sign, SATISFIED, 0))
        found.update(zip(own, value.tolist(), strict=True))
    return found


def false_fact(literal: Literal, problem: Problem) -> str:
    """Format the fact that makes a literal over constants false."""
    predicate = problem.model.predicates[literal.predicate]
    constants = [term.name for term in literal.terms]
    name = format_atom(predicate.name, constants, predicate.function)
    return f"!{name}" if literal.positive else name


def hard_contradiction(rule: Rule, where: str, facts: Sequence[str]) -> LapisError:
    """Create the error for evidence that makes all literals of a hard clause false."""
    return LapisError(
        f"the data contradict the hard rule '{rule.text}'{where}",
        code="hard-contradiction",
        span=rule.span,
        hint=HINT,
        notes=[Note(f"given {', '.join(facts)}")] if facts else (),
    )

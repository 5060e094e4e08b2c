"""Pseudo-log-likelihood, plain and weighted: the objective that needs no inference.

    PLL(w)  = Σ_worlds Σ_r PLL_r(w),   PLL_r = Σ_{atoms g of r} log P_w(g | all other atoms)
    WPLL(w) = Σ_r PLL_r(w) / (number of ground atoms of r)

(Besag 1975; weighted: Kok & Domingos 2005, section 3, so that a predicate of many arguments does
not dominate the others.) A block, which has one value at a time, counts as one many-valued atom.
With query predicates, only their atoms are in the sum.

The term of an atom depends only on the difference that the atom makes to the counts, and few
differences are distinct. So atoms are grouped in classes (`counting/differences`); the classes of
all worlds are stacked to one matrix for each predicate, with the worlds' weights mapped to the
shared parameters. An evaluation is two products with it, for any number of atoms. Value, gradient
and curvature are exact; the objective is concave.

If the atoms of a predicate fall into too many classes to be listed, its true atoms are kept and its
false ones sampled, with weights. Uniform sampling would draw hardly any true atom of a sparse
relation. The sample is drawn once: the objective is then a fixed, concave estimate, and not
`is_exact`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from operator import add
from typing import NamedTuple

import numpy as np

from lapis.counting.differences.atom_classes import (
    AtomRows,
    AtomStack,
    BlockStack,
    atom_rows,
    find_difference_classes,
    stack_atoms,
    stack_blocks,
)
from lapis.counting.differences.atom_differences import Differences, open_differences
from lapis.counting.differences.block_classes import BlockClasses, find_block_classes
from lapis.counting.differences.signed_conjunctions import FlipTarget
from lapis.counting.differences.sparse_vectors import SparseVectors, split_column
from lapis.counting.rule_counts import build_closed_world
from lapis.counting.totals import count_feature
from lapis.data.keys import contains
from lapis.errors import LapisError, TooLarge, raise_all
from lapis.learning.examples import Example
from lapis.learning.parameters import Parameters
from lapis.logic.clauses import Clause, Feature
from lapis.optimisation.objective import Point
from lapis.problem.problem import Problem
from lapis.relational.conjunction import falsify_clause
from lapis.relational.interpretation import Interpretation
from lapis.relational.numbers import sum_weighed
from lapis.relational.plan_compiler import plan_violations

MAX_DECIDED_CLAUSES = 6  # clauses of a rule up to which groundings decided by evidence are found
SAMPLE_SIZE = 100_000  # atoms drawn if there are too many classes


@dataclass(frozen=True)
class PredicateTerm:
    """The term scale · PLL of one predicate."""

    predicate: str
    scale: float  # 1, or one over the number of atoms
    stack: AtomStack | BlockStack
    num_atoms: float  # ground atoms, or blocks, weighted by the worlds' weights


@dataclass(frozen=True)
class PseudoObjective:
    """The sum over predicates of scale · PLL, a concave function of the parameters."""

    name: str
    parameters: Parameters
    terms: tuple[PredicateTerm, ...]
    true_counts: np.ndarray  # float64[num_parameters]
    notes: tuple[str, ...] = ()  # of what was sampled or estimated
    is_fixed: bool = True

    @property
    def num_parameters(self) -> int:
        return len(self.parameters)

    @property
    def is_exact(self) -> bool:
        return not self.notes

    @property
    def num_atoms(self) -> int:
        """Number of ground atoms in the sum; a block counts as one."""
        return round(sum(term.num_atoms for term in self.terms))

    def evaluate(self, weights: np.ndarray) -> Point:
        parts = [(term.scale, term.stack.at(weights)) for term in self.terms]

        def total(vectors: Iterable[np.ndarray]) -> np.ndarray:
            return reduce(add, vectors, np.zeros(len(weights)))

        return Point(
            weights,
            sum(scale * part.value for scale, part in parts),
            total(scale * part.gradient for scale, part in parts),
            lambda: total(scale * part.curvature_diagonal() for scale, part in parts),
            lambda direction: total(
                scale * part.curvature_product(direction) for scale, part in parts
            ),
        )


def pseudo_objective(
    examples: Sequence[Example],
    parameters: Parameters,
    *,
    weighted: bool = False,
    world_weights: Sequence[float] | None = None,
    random_state: int | np.random.Generator = 0,
) -> PseudoObjective:
    """Build the (weighted) pseudo-log-likelihood of the query predicates.

    `world_weights` are factors of the examples (1 by default); `random_state` seeds the sample of
    atoms. Raises LapisError if atoms are unknown, or the data violate a hard rule or a block.

    >>> import lapis
    >>> from lapis.learning.examples import build_examples
    >>> from lapis.learning.parameters import share_parameters
    >>> model = lapis.parse("person = {Ann, Bob, Cid}\\nSmokes(person)\\n0 Smokes(x)")
    >>> examples = build_examples(model, [lapis.Database.parse("Smokes(Ann)")])
    >>> shared = share_parameters(model, [example.complete for example in examples])
    >>> point = pseudo_objective(examples, shared).evaluate(np.array([0.0]))
    >>> round(point.value, 4), point.gradient.tolist()  # three times log ½, and 1 − 3·½
    (-2.0794, [-0.5])
    """
    weights = [1.0] * len(examples) if world_weights is None else list(world_weights)
    require_complete(examples)
    generator = np.random.default_rng(random_state)
    terms: list[PredicateTerm] = []
    notes: list[str] = []
    for name in asked_predicates(examples):
        if parameters.model.predicates[name].block:
            terms.append(block_term(name, examples, parameters, weights))
        else:
            sets = [world_atoms(example, name, generator) for example in examples]
            terms.append(atom_term(name, sets, parameters, weights))
            notes += [atoms.note for atoms in sets if atoms.note is not None]
    return sum_terms(examples, parameters, terms, notes, weights, weighted=weighted)


def asked_predicates(examples: Sequence[Example]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for example in examples for name in example.asked))


def sum_terms(
    examples: Sequence[Example],
    parameters: Parameters,
    terms: Sequence[PredicateTerm],
    notes: Sequence[str],
    weights: Sequence[float],  # of the examples
    *,
    weighted: bool,
    counted: str = "",  # how, for the title
) -> PseudoObjective:
    """Add up the predicates' terms; if `weighted`, their means over atoms."""
    if weighted:
        terms = [replace(t, scale=1.0 / t.num_atoms if t.num_atoms else 0.0) for t in terms]
    counts = np.zeros(len(parameters))
    for world, example in enumerate(examples):
        own = undecided_counts(example.complete, asked_predicates(examples))
        counts += weights[world] * parameters.to_parameters(world, own)
    title = ("weighted " if weighted else "") + "pseudo-log-likelihood" + counted
    return PseudoObjective(title, parameters, tuple(terms), counts, tuple(notes))


def require_complete(examples: Sequence[Example]) -> None:
    for example in examples:
        for evidence in example.complete.evidence.values():
            if evidence.open or len(evidence.unknown):
                raise LapisError(
                    "pseudo-likelihood needs complete data, but atoms of "
                    f"{evidence.predicate.name!r} are unknown",
                    code="incomplete-data",
                    hint="state the unknown facts, or learn by EM",
                )


class AtomSet(NamedTuple):
    """The query atoms of a predicate in one world."""

    rows: AtomRows
    num_atoms: int
    note: str | None


def atom_term(
    predicate: str, sets: Sequence[AtomSet], parameters: Parameters, weights: Sequence[float]
) -> PredicateTerm:
    """Stack the atoms of all worlds, weighted by the worlds' weights."""
    parts = [
        AtomRows(
            rename_columns(atoms.rows.vectors, parameters.world_index[world]),
            atoms.rows.truth,
            weights[world] * atoms.rows.multiplicity,
        )
        for world, atoms in enumerate(sets)
    ]
    num_atoms = sum(weight * atoms.num_atoms for weight, atoms in zip(weights, sets, strict=True))
    return PredicateTerm(predicate, 1.0, stack_atoms(parts, len(parameters)), num_atoms)


def world_atoms(example: Example, predicate: str, generator: np.random.Generator) -> AtomSet:
    """Collect the atoms of a predicate: all, or the listed ones if only these are asked."""
    problem = example.complete
    asked = example.free.evidence[predicate]
    if predicate in example.asked and not asked.open:
        differences = open_differences(problem, predicate)
        require_consistent(problem, differences.violated)
        ones = np.ones(len(asked.unknown))
        return AtomSet(rows_at(differences, asked.unknown, ones), len(asked.unknown), None)
    try:
        classes = find_difference_classes(problem, predicate)
    except TooLarge:
        return sample_atoms(problem, predicate, generator)
    require_consistent(problem, classes.violated_rules)
    return AtomSet(atom_rows(classes), sum(classes.multiplicity.tolist()), None)


def sample_atoms(problem: Problem, predicate: str, generator: np.random.Generator) -> AtomSet:
    """Collect the true atoms and a uniform sample of the false ones, with weights."""
    differences = open_differences(problem, predicate)
    require_consistent(problem, differences.violated)
    true = problem.evidence[predicate].true
    num_atoms = differences.interpretation.num_atoms(predicate)
    num_true = len(true)
    if num_true > SAMPLE_SIZE:
        true = true[np.sort(generator.choice(num_true, SAMPLE_SIZE, replace=False))]
    drawn = np.stack([generator.integers(n, size=SAMPLE_SIZE) for n in differences.sizes], axis=1)
    false = drawn.astype(np.int32)
    false = false[~contains(problem.evidence[predicate].true, false)]
    share = [
        np.full(len(rows), total / max(1, len(rows)))
        for rows, total in ((true, num_true), (false, num_atoms - num_true))
    ]
    rows = rows_at(differences, np.concatenate([true, false]), np.concatenate(share))
    note = f"{len(true) + len(false):,} of {num_atoms:,} atoms of {predicate!r}, a sample"
    return AtomSet(rows, num_atoms, note)


def rows_at(differences: Differences, atoms: np.ndarray, multiplicity: np.ndarray) -> AtomRows:
    """Find the differences of atoms int32[n, arity], without atoms that hard rules decide."""
    vectors, truth = differences.at_rows(np.ascontiguousarray(atoms, np.int32))
    soft, hard = split_column(vectors, differences.keys.num_weights)
    free = np.flatnonzero(np.where(truth, hard <= 0, hard >= 0))
    return AtomRows(soft.take(free), truth[free], multiplicity[free])


def block_term(
    predicate: str,
    examples: Sequence[Example],
    parameters: Parameters,
    weights: Sequence[float],
) -> PredicateTerm:
    parts: list[BlockClasses] = []
    num_blocks = 0.0
    for world, example in enumerate(examples):
        classes = world_blocks(example, predicate)
        vectors = rename_columns(classes.vectors, parameters.world_index[world])
        num_blocks += weights[world] * int(classes.multiplicity.sum())
        parts.append(
            replace(
                classes,
                weight_id=vectors.column,
                difference=vectors.value,
                multiplicity=weights[world] * classes.multiplicity,
            )
        )
    return PredicateTerm(predicate, 1.0, stack_blocks(parts, len(parameters)), num_blocks)


def world_blocks(example: Example, predicate: str) -> BlockClasses:
    problem = example.complete
    declared = problem.model.predicates[predicate]
    refuse_listed_blocks(example, predicate)
    classes = find_block_classes(problem, predicate)
    require_consistent(problem, classes.violated_rules)
    if classes.broken_blocks:
        wanted = "exactly one value" if declared.exactly_one else "at most one value"
        raise LapisError(
            f"learning is impossible: {classes.broken_blocks:,} blocks of {predicate!r} in "
            f"{problem.name} do not have {wanted}",
            code="data-breaks-block",
            span=declared.span,
            hint="correct the data, or remove the mark of the declaration",
        )
    return classes


def refuse_listed_blocks(example: Example, predicate: str) -> None:
    if predicate in example.asked and not example.free.evidence[predicate].open:
        raise LapisError(
            f"blocks of {predicate!r} are asked as a whole, not only the listed atoms",
            code="listed-blocks",
            span=example.complete.model.predicates[predicate].span,
            hint="remove the marks (! or ?) of its declaration, or ask for all of its atoms",
        )


def require_consistent(problem: Problem, violated: Sequence[int]) -> None:
    """Refuse data that violates hard rules."""
    rules = [problem.model.rules[number] for number in dict.fromkeys(violated)]
    raise_all(
        [
            LapisError(
                f"learning is impossible: {problem.name} contradicts the hard rule {rule.text!r}",
                code="data-breaks-hard-rule",
                span=rule.span,
                hint="correct the data, or give the rule a weight instead of the final period",
            )
            for rule in rules
        ]
    )


def rename_columns(vectors: SparseVectors, index: np.ndarray) -> SparseVectors:
    """Rename column j of the vectors to index[j] and sort columns again."""
    column = index[vectors.column]
    if np.all(index[1:] > index[:-1]):
        return vectors._replace(column=column)
    order = np.lexsort((column, vectors.row))
    return SparseVectors(vectors.start, column[order], vectors.value[order])


def undecided_counts(problem: Problem, asked: Sequence[str]) -> np.ndarray:
    """float64[num_weights], true groundings that evidence alone does not make true.

    They are the n of per-weight learning rates (Lowd & Domingos 2007). Groundings of
    `Professor(p) ^ Student(s) => !Advises(s,p)` in which p is no professor are left out. Every
    query literal counts as open, also where two of them (P v !P) make the grounding true whatever
    the values, and so does a quantified part that mentions an asked predicate.
    """
    world = build_closed_world(problem)
    derived = problem.normal_form.derived
    targets = [
        FlipTarget(problem.model.predicates[name], derived, problem.domains) for name in asked
    ]
    counts: list[float] = []
    for feature in problem.normal_form.features:
        if not feature.hard:
            true = count_feature(feature, world).true
            decided = decided_counts(feature, world, targets)
            counts += [one - other for one, other in zip(true, decided, strict=True)]
    return np.array(counts, np.float64)


def decided_counts(
    feature: Feature, world: Interpretation, asked: Sequence[FlipTarget]
) -> list[float]:
    """Count the groundings of each weight that evidence alone makes true.

    Evidence then satisfies each of the rule's clauses c₁…c_J. With e_j the part of c_j that is
    evidence, a grounding is undecided if some e_j is false, so by inclusion–exclusion

        decided = Σ_{S ⊆ {1…J}} (−1)^|S| · violations(⋁_{j ∈ S} e_j).

    A rule of more than MAX_DECIDED_CLAUSES clauses counts as undecided everywhere.
    """
    parts = [
        Clause(
            tuple(
                literal
                for literal in clause.literals
                if not any(target.touches(literal.predicate) for target in asked)
            ),
            clause.conditions,
        )
        for clause in feature.clauses
    ]
    types = dict(feature.variables)
    shape = [world.size(types[name]) for name in feature.plus]
    decided = np.zeros(shape, object)
    guards = tuple(guard.negate() for guard in feature.guards)
    if len(parts) <= MAX_DECIDED_CLAUSES and all(p.literals or p.conditions for p in parts):
        for size in range(len(parts) + 1):
            for chosen in combinations(parts, size):
                either = Clause(
                    tuple(dict.fromkeys((*guards, *(n for part in chosen for n in part.literals)))),
                    tuple(dict.fromkeys(each for part in chosen for each in part.conditions)),
                )
                if feature.numbers:
                    false = sum_weighed(feature, [falsify_clause(either)], world)
                    decided += (-1) ** size * false.reshape(shape)
                else:
                    plan = plan_violations(either, feature.variables, world, feature.plus)
                    decided += (-1) ** size * world.count_table(plan)
    return decided.reshape(-1).tolist()

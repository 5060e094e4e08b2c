"""Pseudo-log-likelihood with the differences of atoms estimated by IJGP(i).

The term of an atom depends on d = n(g = 1) − n(g = 0) alone. Sarkhel et al. (2016) run IJGP once
for each atom and value (differences "subtracted"); "substituted" differences of all atoms of a
predicate come from one propagation for each clause and literal. Estimates do not depend on the
weights, so they are made once, grouped in classes, and maximised like exact ones (`pseudo`): a
fixed and concave function.

Up to MAX_LISTED atoms of a predicate and world are listed; beyond that its true atoms are kept and
the false ones sampled, with weights. Estimates are rounded to `DECIMALS`, far below their error, so
that equal atoms fall into the same class.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lapis.counting.differences.atom_classes import AtomRows, BlockStack, to_matrix
from lapis.counting.differences.sparse_vectors import SparseVectors, number_vectors, stack_vectors
from lapis.counting.ijgp import IjgpSettings
from lapis.counting.ijgp.estimated_differences import (
    DifferenceEstimator,
    SubtractedDifferences,
    are_differences_exact,
    depends_on_quantifiers,
)
from lapis.data.keys import contains, unpack
from lapis.errors import TooLarge
from lapis.grounding.blocks import apply_blocks, block_shape
from lapis.learning.examples import Example
from lapis.learning.objectives.pseudo import (
    SAMPLE_SIZE,
    AtomSet,
    PredicateTerm,
    PseudoObjective,
    asked_predicates,
    atom_term,
    refuse_listed_blocks,
    rename_columns,
    require_complete,
    sum_terms,
)
from lapis.learning.parameters import Parameters
from lapis.network.csr import row_starts

Estimator = DifferenceEstimator | SubtractedDifferences

MAX_LISTED = 2_000_000  # atoms of a predicate in one world
DECIMALS = 6


def count_pseudo_objective(
    examples: Sequence[Example],
    parameters: Parameters,
    *,
    ijgp: IjgpSettings,
    weighted: bool = False,
    random_state: int | np.random.Generator = 0,
) -> PseudoObjective:
    """Build the pseudo-log-likelihood as `pseudo_objective` does, with differences by IJGP.

    Hard rules are refused.
    """
    require_complete(examples)
    weights = [1.0] * len(examples)
    is_subtracted = ijgp.differences == "subtracted"
    new_estimator = SubtractedDifferences if is_subtracted else DifferenceEstimator
    estimators = [new_estimator(example.complete, ijgp) for example in examples]
    generator = np.random.default_rng(random_state)
    terms: list[PredicateTerm] = []
    notes: list[str] = []
    estimated = False
    for name in asked_predicates(examples):
        if parameters.model.predicates[name].block:
            terms.append(estimated_block_term(name, examples, estimators, parameters))
        else:
            sets = [
                estimated_atoms(example, name, estimator, generator)
                for example, estimator in zip(examples, estimators, strict=True)
            ]
            terms.append(atom_term(name, sets, parameters, weights))
            notes += [atoms.note for atoms in sets if atoms.note is not None]
        if not all(are_differences_exact(each.complete, name, ijgp) for each in examples):
            notes.append(f"differences of {name!r} are estimated by IJGP({ijgp.ibound})")
            estimated = True
    counted = f" by ijgp({ijgp.ibound}) counts" + ("" if estimated else ", which are exact")
    return sum_terms(
        examples, parameters, terms, notes, weights, weighted=weighted, counted=counted
    )


def estimated_atoms(
    example: Example,
    predicate: str,
    estimator: Estimator,
    generator: np.random.Generator,
) -> AtomSet:
    """Collect the query atoms of a predicate, with estimated differences."""
    problem = example.complete
    asked = example.free.evidence[predicate]
    sizes = [len(problem.domains[name]) for name in problem.model.predicates[predicate].types]
    total = int(np.prod(sizes, dtype=object))
    true = problem.evidence[predicate].true
    note = None
    if predicate in example.asked and not asked.open:
        rows, share = asked.unknown, np.ones(len(asked.unknown))
    elif total <= MAX_LISTED:
        rows, share = unpack(np.arange(total), sizes), np.ones(total)
    else:
        drawn = np.stack([generator.integers(size, size=SAMPLE_SIZE) for size in sizes], axis=1)
        false = drawn.astype(np.int32)
        false = false[~contains(true, false)]
        rows = np.concatenate([true, false])
        shares = [1.0, (total - len(true)) / max(1, len(false))]
        share = np.repeat(shares, [len(true), len(false)])
        note = f"{len(rows):,} of {total:,} atoms of {predicate!r}, a sample"
    truth = contains(true, rows)
    vectors = estimate_vectors(estimator, predicate, rows, truth)
    num_atoms = len(rows) if note is None else total
    return AtomSet(AtomRows(vectors, truth, share), num_atoms, note)


def estimate_vectors(
    estimator: Estimator, predicate: str, rows: np.ndarray, truth: np.ndarray
) -> SparseVectors:
    """Estimate the differences of atoms int32[n, arity] in the data, rounded."""
    problem = estimator.problem
    world = {name: known.true for name, known in problem.evidence.items()}
    if problem.model.predicates[predicate].block and depends_on_quantifiers(problem, predicate):
        # The estimate of a quantified part needs the world with the atom's block left empty.
        world[predicate] = world[predicate][~contains(rows[truth], world[predicate])]
    found = estimator.differences(predicate, rows, truth, world)
    found.data = np.round(found.data, DECIMALS)
    found.eliminate_zeros()
    return SparseVectors(
        found.indptr.astype(np.int64), found.indices.astype(np.int64), found.data + 0.0
    )


def estimated_block_term(
    predicate: str,
    examples: Sequence[Example],
    estimators: Sequence[Estimator],
    parameters: Parameters,
) -> PredicateTerm:
    """Stack the blocks of a predicate, each as its own class.

    Vectors are differences to the empty block; the first vector, 0, is that of the empty block.
    """
    nothing = SparseVectors(np.zeros(2, np.int64), np.empty(0, np.int64), np.empty(0))
    vectors, lengths, observed = [nothing], [], []
    first = 1
    for world, example in enumerate(examples):
        found, length, own = estimate_blocks(example, predicate, estimators[world])
        vectors.append(rename_columns(found, parameters.world_index[world]))
        lengths.append(length)
        observed.append(np.where(own < 0, 0, own + first))
        first += len(found.start) - 1
    stacked = stack_vectors(vectors)
    some, number = number_vectors(stacked)
    length = np.concatenate(lengths)
    candidate = np.arange(1, first)
    if not parameters.model.predicates[predicate].exactly_one:
        candidate = np.insert(candidate, np.cumsum(length), 0)
        length = length + 1
    return PredicateTerm(
        predicate,
        1.0,
        BlockStack(
            to_matrix(stacked.take(some), len(parameters)),
            row_starts(length),
            number[candidate],
            np.ones(len(candidate)),
            number[np.concatenate(observed)],
            np.ones(len(length)),
        ),
        float(len(length)),
    )


def estimate_blocks(
    example: Example, predicate: str, estimator: Estimator
) -> tuple[SparseVectors, np.ndarray, np.ndarray]:
    """Return the vectors of all values by block, the blocks' sizes, and their values or −1."""
    problem = example.complete
    declared = problem.model.predicates[predicate]
    refuse_listed_blocks(example, predicate)
    true = apply_blocks(problem)[predicate].true
    shape = block_shape(declared, problem.domains)
    total = shape.num_keys * shape.num_values
    if total > MAX_LISTED:
        raise TooLarge(
            f"{total:,} atoms in blocks of {predicate!r}",
            code="too-many-atoms",
            hint="count exactly: differences are then found for classes of blocks",
        )
    rows = shape.rows(*np.divmod(np.arange(total), max(1, shape.num_values)))
    truth = contains(true, rows)
    observed = np.full(shape.num_keys, -1)
    observed[np.flatnonzero(truth) // max(1, shape.num_values)] = np.flatnonzero(truth)
    if depends_on_quantifiers(problem, predicate):
        blocks = np.split(np.arange(total), shape.num_keys) if shape.num_keys else []
        parts = [estimate_vectors(estimator, predicate, rows[b], truth[b]) for b in blocks]
        none = SparseVectors(np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0))
        vectors = stack_vectors([none, *parts])
    else:
        vectors = estimate_vectors(estimator, predicate, rows, truth)
    return vectors, np.full(shape.num_keys, shape.num_values), observed

"""Compare classes of blocks, and the pseudo-likelihood from them, with the definition."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
from counting.small_worlds import (
    PREDICATES,
    Small,
    all_atoms,
    build,
    count_true,
    small_problems,
)
from lapis.counting.differences.atom_classes import (
    DifferenceClasses,
    find_difference_classes,
    pseudo_log_likelihood,
)
from lapis.counting.differences.block_classes import BlockClasses, find_block_classes
from lapis.language.model import Predicate

pytestmark = pytest.mark.usefixtures("price_everything")

BLOCKS = (
    Predicate("N", ()),
    Predicate("S", ("t",), block=(0,)),
    Predicate("C", ("u",)),
    Predicate("F", ("t", "t"), block=(1,)),
    Predicate("G", ("t", "u"), block=(1,), exactly_one=False),
    Predicate("H", ("t", "u", "t"), block=(0, 2), exactly_one=False),
)
CHOICES = [Predicate("H", ("t", "u", "t"), block=(1,)), BLOCKS[5]]
blocked = st.sampled_from(["S", "F", "G", "H"])
variants = st.sampled_from(CHOICES).map(lambda last: (*BLOCKS[:5], last))


def blocks_of(small: Small, predicate: Predicate) -> list[list[tuple[int, ...]]]:
    grouped: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    unmarked = [place for place in range(predicate.arity) if place not in predicate.block]
    sizes = [len(small.problem.domains[predicate.types[place]]) for place in unmarked]
    for arguments in itertools.product(*map(range, sizes)):
        grouped[arguments] = []
    for arguments in all_atoms(small.problem, predicate):
        grouped[tuple(arguments[place] for place in unmarked)].append(arguments)
    return list(grouped.values())


def vector_at(classes: BlockClasses, candidate: int) -> tuple[tuple[int, ...], int]:
    vector = [0] * classes.num_weights
    number = classes.candidate_vector[candidate]
    for entry in range(classes.vector_start[number], classes.vector_start[number + 1]):
        vector[classes.weight_id[entry]] = int(classes.difference[entry])
    return tuple(vector), int(classes.hard[number])


def check_blocks(small: Small, name: str) -> None:
    predicate = small.problem.model.predicates[name]
    expected: Counter[object] = Counter()
    broken = 0
    for atoms in blocks_of(small, predicate):
        empty = small.true - {(name, arguments) for arguments in atoms}
        counts, violations = count_true(small.problem, empty)
        values = {}
        for arguments in atoms:
            after, violated = count_true(small.problem, empty | {(name, arguments)})
            values[arguments] = tuple(np.subtract(after, counts).tolist()), violations - violated
        true = [arguments for arguments in atoms if (name, arguments) in small.true]
        if len(true) > 1 or (not true and predicate.exactly_one):
            broken += 1
        if len(true) <= 1:
            observed = values[true[0]] if true else None
            expected[frozenset(Counter(values.values()).items()), observed] += 1
    classes = find_block_classes(small.problem, name)
    assert classes.broken_blocks == broken
    found: Counter[object] = Counter()
    for number in range(len(classes)):
        candidates = {
            vector_at(classes, entry): int(classes.candidate_count[entry])
            for entry in range(classes.class_start[number], classes.class_start[number + 1])
        }
        at = classes.observed[number]
        key = frozenset(candidates.items()), None if at < 0 else vector_at(classes, at)
        found[key] += int(classes.multiplicity[number])
    if all(
        len([a for a in atoms if (name, a) in small.true]) <= 1
        for atoms in blocks_of(small, predicate)
    ):
        assert found == expected
    assert bool(classes.violated_rules) == bool(count_true(small.problem, small.true)[1])


@st.composite
def block_problems(draw: st.DrawFn, quantifiers: bool = False) -> Small:
    """Problems in which most blocks hold at most one true atom."""
    small = draw(small_problems(predicates=draw(variants), quantifiers=quantifiers))
    if draw(st.sampled_from((True, True, True, False))):
        true = set(small.true)
        for predicate in small.problem.model.predicates.values():
            if predicate.block:
                for atoms in blocks_of(small, predicate):
                    held = [a for a in atoms if (predicate.name, a) in true]
                    if not held and predicate.exactly_one:
                        held = atoms[:1]
                        true |= {(predicate.name, a) for a in held}
                    true -= {(predicate.name, a) for a in held[1:]}
        constants = {name: found.constants for name, found in small.problem.domains.items()}
        return build(
            constants,
            tuple(small.problem.model.predicates.values()),
            small.problem.normal_form.features,
            true,
            small.problem.normal_form.definitions,
        )
    return small


@given(block_problems(), blocked)
def test_blocks_match_brute_force(small: Small, name: str) -> None:
    check_blocks(small, name)


@given(block_problems(quantifiers=True), blocked)
def test_blocks_with_quantifiers_match_brute_force(small: Small, name: str) -> None:
    check_blocks(small, name)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None)
@given(st.booleans().flatmap(lambda with_them: block_problems(quantifiers=with_them)), blocked)
def test_blocks_match_brute_force_long(small: Small, name: str) -> None:
    check_blocks(small, name)


def score(small: Small, true: frozenset[object], weights: np.ndarray) -> float:
    """w · n, or −∞ where a hard rule is broken."""
    counts, violations = count_true(small.problem, true)  # type: ignore[arg-type]
    return -math.inf if violations else float(np.dot(weights, counts))


def log_conditional(scores: list[float], chosen: float) -> float:
    top = max(scores)
    return chosen - top - math.log(sum(math.exp(value - top) for value in scores))


def brute_force(small: Small, name: str, weights: np.ndarray) -> float:
    """Σ log P(atom or block | everything else), by scoring every alternative world."""
    predicate = small.problem.model.predicates[name]
    here = score(small, small.true, weights)
    if here == -math.inf:
        return here
    total = 0.0
    if predicate.block:
        for atoms in blocks_of(small, predicate):
            own = {(name, arguments) for arguments in atoms}
            num_true = len(own & small.true)
            if num_true > 1 or (num_true == 0 and predicate.exactly_one):
                return -math.inf
            rest = small.true - own
            worlds = [rest | {atom} for atom in own]
            worlds += [] if predicate.exactly_one else [rest]
            total += log_conditional([score(small, each, weights) for each in worlds], here)
    else:
        for arguments in all_atoms(small.problem, predicate):
            worlds = [small.true | {(name, arguments)}, small.true - {(name, arguments)}]
            total += log_conditional([score(small, each, weights) for each in worlds], here)
    return total


def check_likelihood(
    small: Small, name: str, classes: DifferenceClasses | BlockClasses, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    weights = generator.normal(size=classes.num_weights)
    value, gradient = pseudo_log_likelihood(classes, weights)
    assert value == pytest.approx(brute_force(small, name, weights), rel=1e-9, abs=1e-9)
    if math.isinf(value):
        assert not gradient.any()
        return
    step = 1e-5
    for number in range(classes.num_weights):
        moved = np.zeros(classes.num_weights)
        moved[number] = step
        above = pseudo_log_likelihood(classes, weights + moved).value
        below = pseudo_log_likelihood(classes, weights - moved).value
        assert gradient[number] == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-5)


@given(small_problems(), st.sampled_from([found.name for found in PREDICATES]), st.integers(0, 9))
def test_likelihood_of_atoms_is_the_definition(small: Small, name: str, seed: int) -> None:
    check_likelihood(small, name, find_difference_classes(small.problem, name), seed)


@given(block_problems(), blocked, st.integers(0, 9))
def test_likelihood_of_blocks_is_the_definition(small: Small, name: str, seed: int) -> None:
    check_likelihood(small, name, find_block_classes(small.problem, name), seed)


HARD_RULES = """
person = {Anna, Bob, Cid}
topic = {Logic, Music}
Friends(person,person)
Smokes(person)
Topic(person,topic!)
Likes(person,topic?)
0.7 Friends(x,y) ^ Smokes(x) => Smokes(y)
-0.4 Topic(x,t) ^ Friends(x,y) => Topic(y,t)
0.3 Likes(x,t) => Topic(x,t)
Friends(x,y) => Friends(y,x).
Smokes(x) => Topic(x,Music).
Likes(x,t) => Topic(x,t).
"""
KEEPS_HARD_RULES = """
Friends(Anna,Bob) Friends(Bob,Anna) Friends(Cid,Cid) Smokes(Anna) Likes(Bob,Logic)
Topic(Anna,Music) Topic(Bob,Logic) Topic(Cid,Logic)
"""


@pytest.mark.parametrize("name", ["Friends", "Smokes", "Topic", "Likes"])
def test_hard_rules_force_values(name: str) -> None:
    """Friends(Anna,Bob) cannot change alone, nor Bob start to smoke, nor Anna leave Music."""
    problem = lapis.build_problem(lapis.parse(HARD_RULES), lapis.Database.parse(KEEPS_HARD_RULES))
    true = frozenset(
        (predicate, tuple(row))
        for predicate, evidence in problem.evidence.items()
        for row in evidence.true.tolist()
    )
    find = find_block_classes if problem.model.predicates[name].block else find_difference_classes
    classes = find(problem, name)
    assert math.isfinite(pseudo_log_likelihood(classes, np.zeros(3)).value)
    for seed in range(3):
        check_likelihood(Small(problem, true), name, classes, seed)

"""True groundings that are not decided by what is given: the n of per-weight learning rates.

A grounding of `Professor(p) ^ Student(s) => !Advises(s,p)` in which nobody is asked about the
atoms that matter (p is no professor) is true at any weights. Lowd (thesis, section 4.2.3)
leaves such groundings out when a weight's rate is divided by its number of true groundings.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from lapis.counting.differences.differences import FlipTarget
from lapis.counting.rule_counts import world_of
from lapis.counting.totals import count_feature
from lapis.logic.clauses import Clause, Feature
from lapis.problem.problem import Problem
from lapis.relational.compile import plan_violations
from lapis.relational.interpretation import Interpretation

MAX_DECIDED_CLAUSES = 6  # of a rule, up to which groundings that evidence decides are found


def undecided_counts(problem: Problem, asked: Sequence[str]) -> np.ndarray:
    """float64[num_weights], true groundings in which some asked atom is needed to say so.

    Every asked literal counts as open, also where two of them (P v !P) make the grounding true
    whatever the values, and so does a quantified part that mentions an asked predicate.
    """
    world = world_of(problem)
    derived = problem.normal_form.derived
    targets = [
        FlipTarget(problem.model.predicates[name], derived, problem.domains) for name in asked
    ]
    counts: list[int] = []
    for feature in problem.normal_form.features:
        if not feature.hard:
            true = count_feature(feature, world).true
            decided = decided_counts(feature, world, targets)
            counts += [one - other for one, other in zip(true, decided, strict=True)]
    return np.array(counts, np.float64)


def decided_counts(
    feature: Feature, world: Interpretation, asked: Sequence[FlipTarget]
) -> list[int]:
    """Groundings of each weight that evidence alone makes true.

    That is where it satisfies each of the rule's clauses c₁…c_J. With e_j the part of c_j that
    is evidence, it fails to where some e_j is false, so by inclusion–exclusion over those

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
    if len(parts) <= MAX_DECIDED_CLAUSES and all(p.literals or p.conditions for p in parts):
        for size in range(len(parts) + 1):
            for chosen in combinations(parts, size):
                either = Clause(
                    tuple(dict.fromkeys(literal for part in chosen for literal in part.literals)),
                    tuple(dict.fromkeys(each for part in chosen for each in part.conditions)),
                )
                plan = plan_violations(either, feature.variables, world, feature.plus)
                decided += (-1) ** size * world.count_table(plan)
    return decided.reshape(-1).tolist()

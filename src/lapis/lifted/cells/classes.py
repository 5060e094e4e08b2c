"""Marginals of atoms by cells, a class of equally probable atoms at a time.

Atoms of one predicate are of one class if their arguments are of the same groups, and equal or
not: a permutation of each group leaves model and evidence as they are. A class gets a factor of
weight zero on its atoms, so that ∂log Z/∂w is the expected number of true ones. Where that is close
to none or to all of them, the same is done with the false atoms, and the logarithm of the two
numbers' ratio is right however near to 0 or 1 the probability is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from lapis.inference.marginals import Answered, InferenceOptions, Marginals
from lapis.inference.sampling.count_gibbs import unknown_atoms
from lapis.language.syntax import And, Atom, Comparison, Formula, Not, Variable
from lapis.lifted.cells.count import CellSum
from lapis.lifted.cells.numbers import FEW_STEPS
from lapis.lifted.cells.scott import Builder, refuse
from lapis.lifted.cells.sentence import CellFormula, Sentence, WeightParameter
from lapis.lifted.evaluation.evaluate import impossible
from lapis.network.network import AtomTable
from lapis.problem.problem import Problem, refuse_factors

CENTRAL = 1e-3  # a probability between this and 1 − this is as good as that of its complement


class AtomClass(NamedTuple):
    predicate: str
    groups: tuple[int, ...]  # of the arguments
    loop: bool  # whether two arguments are the same element

    def num_atoms(self, sentence: Sentence) -> int:
        sizes = [sentence.groups[group].size for group in self.groups]
        if len(sizes) < 2 or self.groups[0] != self.groups[1]:
            return math.prod(sizes)
        return sizes[0] if self.loop else sizes[0] * (sizes[0] - 1)


def by_cells(problem: Problem, options: InferenceOptions) -> Answered:
    """log Z and the marginals of a problem of two variables.

    Raises
    ------
    LapisError
        If a formula ties more than two elements together, or has a weight for each constant.
    TooLarge
        If a sum over cells is long.
    """
    refuse_factors(problem.model)
    for rule in problem.model.rules:
        if rule.plus:
            raise refuse("has a weight for each constant", rule)
    builder = Builder(problem, {})
    sentence = builder.build()
    cells = CellSum.of_sentence(sentence, FEW_STEPS)
    found = cells.evaluate()
    if not found.sign:
        raise impossible()
    atoms = unknown_atoms(problem, options.max_memory)
    log_odds = np.empty(len(atoms.atoms))
    known: dict[AtomClass, float] = {}
    for place, name in enumerate(classes_of(problem, builder, atoms.atoms)):
        if name not in known:
            options.exact_stop.check("summing over cells")
            known[name] = class_log_odds(sentence, name)
        log_odds[place] = known[name]
    expected = np.zeros(len(problem.weight_table))
    for number, count in cells.expected_counts().items():
        expected[problem.weight_table.offset[number]] = count
    with np.errstate(over="ignore"):
        marginal = 1 / (1 + np.exp(-log_odds))
    numbers = "balls" if found.count is None else "rationals"
    notes = {
        "classes": len(known),
        "error_bound": found.error_bound,
        "arithmetic": f"{found.method} in {numbers}",
        "reasons": [],
    }
    return atoms, Marginals.by(
        "cells",
        exact=True,
        log_partition=found.log_partition,
        marginal=marginal,
        log_odds=log_odds,
        expected_count=expected,
        diagnostics=notes,
    )


def classes_of(problem: Problem, builder: Builder, atoms: AtomTable) -> Iterator[AtomClass]:
    """The class of each unknown atom."""
    groups = {
        name: np.array(found, np.int64) for name, found in builder.groups.of_constants.items()
    }
    for predicate, rows in zip(atoms.predicates, atoms.tuples, strict=False):
        types = problem.model.predicates[predicate].types
        columns = [groups[t][rows[:, i]].tolist() for i, t in enumerate(types)]
        equal = len(types) == 2 and types[0] == types[1]
        loops = (rows[:, 0] == rows[:, 1]).tolist() if equal else [False] * len(rows)
        for place, loop in enumerate(loops):
            yield AtomClass(predicate, tuple(column[place] for column in columns), loop)


def class_log_odds(sentence: Sentence, name: AtomClass) -> float:
    """log P(atom) − log P(¬atom) for the atoms of a class."""
    number = name.num_atoms(sentence)
    true = expected_number(sentence, name, positive=True)
    if CENTRAL * number < true < (1 - CENTRAL) * number:
        return math.log(true) - math.log(number - true)
    false = expected_number(sentence, name, positive=False)
    if not true or not false:
        return -math.inf if not true else math.inf
    return math.log(true) - math.log(false)


def expected_number(sentence: Sentence, name: AtomClass, *, positive: bool) -> float:
    """The expected number of atoms of a class that are true, or false."""
    variables = [f"{place}.class" for place in range(1 if name.loop else len(name.groups))]
    terms = tuple(Variable(v) for v in (variables * 2 if name.loop else variables))
    atom: Formula = Atom(name.predicate, terms)
    body: Formula = atom if positive else Not(atom)
    if not name.loop and len(terms) == 2 and name.groups[0] == name.groups[1]:
        body = And((Not(Comparison("=", terms[0], terms[1])), body))
    own = max((p.rule for p in sentence.parameters), default=-1) + 1
    factor = CellFormula(body, tuple(variables), len(sentence.parameters))
    reach = {v: frozenset({group}) for v, group in zip(variables, name.groups, strict=False)}
    counted = replace(
        sentence,
        reach={**sentence.reach, **reach},
        factors=(*sentence.factors, factor),
        parameters=(*sentence.parameters, WeightParameter(own, 0.0, Fraction(1))),
    )
    return CellSum.of_sentence(counted, FEW_STEPS).slope(own, relative=True)

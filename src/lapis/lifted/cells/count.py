"""Weighted model counting by cells: the number of worlds, log Z and expected counts of a problem.

Propositions are decided one way and the other, and each leaves a sentence about elements and
pairs. `closed_form` sums it over compositions, `elimination` takes one element after another where
something is counted down or totalled, `insertion` where there is an order, `two_orders` where there
are neighbours in a second. With rational weights the sum is a rational number, else a ball around
the true value, at a precision that is doubled until the ball is small: the error is certified.

Expected counts are ∂log Z/∂w, by central differences in that precision. With step h their error is
at most h² κ/6, where κ, the third cumulant of a count between 0 and N, is at most N³;
h = 2^−80/N puts it far below rounding. (A reverse sweep over states would be faster with many
weights, and needs all states in memory.)

The method `cells` of `lapis lift`.

Marginals of atoms by cells, a class of equally probable atoms at a time.

Atoms of one predicate are of one class if their arguments are of the same groups, and equal or
not: a permutation of each group leaves model and evidence as they are. A class gets a factor of
weight zero on its atoms, so that ∂log Z/∂w is the expected number of true ones. Where that is close
to none or to all of them, the same is done with the false atoms, and the logarithm of the two
numbers' ratio is right however near to 0 or 1 the probability is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.inference.marginals import Answered, InferenceOptions, Marginals
from lapis.inference.sampling.count_gibbs import unknown_atoms
from lapis.language.syntax import And, Atom, Comparison, Formula, Iff, Not, Variable
from lapis.lifted.answer import Lifted, LiftedFormula
from lapis.lifted.cells.cell_tables import CellTables, evaluate_formula, split_requirement
from lapis.lifted.cells.closed_form import has_closed_form, sum_compositions
from lapis.lifted.cells.elimination import eliminate_elements
from lapis.lifted.cells.insertion import insert_elements, insert_in_two_orders
from lapis.lifted.cells.numbers import (
    FEW_STEPS,
    MAX_STEPS,
    Number,
    Numbers,
    TooManyDigits,
    balls,
    exact_numbers,
    fraction,
)
from lapis.lifted.cells.scott import SentenceBuilder, two_variable_error
from lapis.lifted.cells.sentence import HARD, CellFormula, Sentence, Total, WeightParameter
from lapis.lifted.evaluation.evaluate import unsatisfiable_error
from lapis.network.network import AtomTable
from lapis.problem.problem import Problem, refuse_factors

MAX_PROPOSITIONS = 12
PRECISION = 128  # bits
MAX_PRECISION = 1 << 16
BITS = 60  # of a ball that is good enough


METHODS = {
    "two orders": insert_in_two_orders,
    "insertion": insert_elements,
    "elimination": eliminate_elements,
    "compositions": sum_compositions,
}


def choose_sum(tables: CellTables) -> str:
    if tables.sentence.order is not None:
        return "two orders" if tables.sentence.order.path else "insertion"
    return "compositions" if has_closed_form(tables) else "elimination"


class Piece(NamedTuple):
    """A part of the sum: its sign, exponents of the parameters, and a sentence of elements."""

    sign: int
    exponents: tuple[int, ...]
    tables: CellTables


@dataclass(frozen=True)
class CellCount:
    """Z and its logarithm. With negative weights Z may be negative: `sign` says it."""

    count: Fraction | None  # Z, where all weights are rational and it has not too many digits
    log_partition: float  # log |Z|
    sign: int
    error_bound: float  # of log_partition, certified
    num_cells: int
    method: str  # a name of METHODS


@dataclass(frozen=True)
class CellSum:
    """A problem as sums over cells, for any weights.

    >>> import lapis
    >>> model = lapis.parse("p = {A, B, C}\\nF(p, p)\\nEXIST{=1} y F(x, y).")
    >>> CellSum.of(lapis.build_problem(model, query=["F"])).evaluate().count
    Fraction(27, 1)
    """

    sentence: Sentence
    pieces: tuple[Piece, ...]
    max_steps: int = MAX_STEPS  # of each sum

    @staticmethod
    def of(
        problem: Problem, sizes: Mapping[str, int] | None = None, max_steps: int = MAX_STEPS
    ) -> CellSum:
        """With more constants where `sizes` says so.

        Raises a LapisError for formulas of more than two variables, TooLarge for many atoms.
        """
        return CellSum.of_sentence(SentenceBuilder(problem, sizes or {}).build(), max_steps)

    @staticmethod
    def of_sentence(sentence: Sentence, max_steps: int = MAX_STEPS) -> CellSum:
        return CellSum(sentence, tuple(split_propositions(sentence)), max_steps)

    def balls(self, moved: int = -1, by: Number = 0) -> Numbers:
        """The parameters as balls; the weight of one rule may be moved."""
        return balls(self.sentence.parameters, moved, by, self.max_steps)

    def evaluate(self) -> CellCount:
        """Z at the problem's weights."""
        count = self.exact_count()
        if count is not None:
            sign = (count > 0) - (count < 0)
            log, error = log_fraction(abs(count)) if count else (-math.inf, 0.0)
        else:
            sign, log, error = self.certified_log()
            count = None if sign else Fraction(0)
        names = {choose_sum(piece.tables) for piece in self.pieces}
        method = next((name for name in METHODS if name in names), "compositions")
        num_cells = max((len(piece.tables.kinds) for piece in self.pieces), default=0)
        return CellCount(count, log, sign, error, num_cells, method)

    def exact_count(self) -> Fraction | None:
        """Z, where all weights are rational and its digits are not too many."""
        numbers = exact_numbers(self.sentence.parameters, self.max_steps)
        try:
            return None if numbers is None else fraction(self.total(numbers))
        except TooManyDigits:
            return None

    def total(self, numbers: Numbers) -> Number:
        """Z with the parameters' values given."""
        found = 0 * numbers.one
        for sign, exponents, tables in self.pieces:
            inner = METHODS[choose_sum(tables)]
            found += sign * numbers.of({exponents: 1}) * inner(tables, numbers)
        return found

    def certified_log(self) -> tuple[int, float, float]:
        """(sign, log |Z|, error) in a precision that suffices."""
        from flint import ctx

        precision = PRECISION
        while precision <= MAX_PRECISION:
            with ctx.workprec(precision):
                total = self.total(self.balls())
                if not total.contains(0) and float(total.rel_accuracy_bits()) > BITS:
                    sign = 1 if total > 0 else -1
                    return sign, *round_ball(abs(total).log())
            if total == 0 or (precision == PRECISION and self.has_no_world()):
                return 0, -math.inf, 0.0
            precision *= 2
        raise TooLarge("the terms of the sum cancel beyond all precision", code="cancellation")

    def has_no_world(self) -> bool:
        """Z = 0 whatever the weights are; said only where all of them are positive."""
        parameters = [p._replace(value=p.value or Fraction(1)) for p in self.sentence.parameters]
        numbers = exact_numbers(parameters, self.max_steps)
        assert numbers is not None
        try:
            return all(value > 0 for value in numbers.values) and self.total(numbers) == 0
        except TooManyDigits:
            return False

    def depends_on(self, rule: int) -> bool:
        """Whether a grounding of a rule is true in some world; the rule's factor is one by itself.

        With positive parameters every world counts, so Z grows with this one if it is so.
        """
        totals = []
        for value in (1, 2):
            parameters = [
                p._replace(value=Fraction(value) if p.rule == rule else p.value or Fraction(1))
                for p in self.sentence.parameters
            ]
            numbers = exact_numbers(parameters, self.max_steps)
            assert numbers is not None
            try:
                totals.append(self.total(numbers))
            except TooManyDigits:
                return True
        return bool(totals[0] != totals[1])

    def expected_counts(self) -> dict[int, float]:
        """∂log Z/∂w of each soft rule, by its number: how many groundings are true on average."""
        return {p.rule: self.slope(p.rule) for p in self.sentence.parameters if p.rule >= 0}

    def slope(self, rule: int, *, relative: bool = False) -> float:
        """∂log Z/∂w of a rule, to 1e-12; with `relative`, to 1e-12 of itself."""
        from flint import arb, ctx

        groundings = sum(
            factor.times
            * math.prod(
                self.sentence.num_elements(self.sentence.reach[name]) for name in factor.variables
            )
            for factor in self.sentence.factors
            if factor.parameter != HARD and self.sentence.parameters[factor.parameter].rule == rule
        )
        bits = 80 + groundings.bit_length()
        precision = PRECISION + 2 * bits
        while precision <= MAX_PRECISION:
            with ctx.workprec(precision):
                step = arb(2) ** -bits
                ends = [self.total(self.balls(rule, by)) for by in (step, -step)]
                if not any(end.contains(0) for end in ends):
                    found = (abs(ends[0]).log() - abs(ends[1]).log()) / (2 * step)
                    if relative and found.contains(0) and not self.depends_on(rule):
                        return 0.0
                    scale = abs(float(found.mid())) if relative else 1.0
                    if float(found.rad()) < 1e-12 * scale:
                        return float(found.mid())
            precision *= 2
        raise TooLarge("the terms of the sum cancel beyond all precision", code="cancellation")


def split_propositions(sentence: Sentence) -> Iterator[Piece]:
    """One piece for each way to decide the propositions and what is said of whole domains."""
    open_names = [
        name
        for name, places in sentence.places.items()
        if not places and name not in sentence.known_propositions
    ]
    if len(open_names) > MAX_PROPOSITIONS:
        raise TooLarge(
            f"{len(open_names)} propositions are open, and at most {MAX_PROPOSITIONS} can be "
            "decided both ways",
            code="cells",
        )
    for values in product((True, False), repeat=len(open_names)):
        chosen = {**sentence.known_propositions, **dict(zip(open_names, values, strict=True))}
        exponents = proposition_exponents(sentence, chosen)
        if exponents is None:
            continue
        for sign, decided in decide_domains(sentence, chosen):
            yield Piece(sign, exponents, CellTables(decided, chosen))


def proposition_exponents(sentence: Sentence, chosen: Mapping[str, bool]) -> tuple[int, ...] | None:
    """Of formulas and weights of propositions alone; None where a hard one fails."""
    exponents = [0] * len(sentence.parameters)

    def atom(found: Atom) -> np.ndarray:
        return np.array(chosen[found.predicate])

    for factor in sentence.factors:
        if not factor.variables:
            held = bool(evaluate_formula(factor.formula, atom, {}))
            if factor.parameter == HARD and not held:
                return None
            if factor.parameter != HARD:
                exponents[factor.parameter] += factor.times * held
    for name, parameters in sentence.literal_parameters.items():
        if name in chosen:
            exponents[parameters[0] if chosen[name] else parameters[1]] += 1
    return tuple(exponents)


def decide_domains(
    sentence: Sentence, chosen: Mapping[str, bool]
) -> Iterator[tuple[int, Sentence]]:
    """(sign, sentence) without quantities of whole domains, such as ∃x P(x), and propositions."""
    totals = [
        Total(
            tuple((c, name) for c, name in total.parts if name not in chosen),
            total.operator,
            total.bound - sum(c * chosen[name] for c, name in total.parts if name in chosen),
        )
        for total in sentence.totals
    ]
    whole = [counted for counted in sentence.counted if counted.of is None]
    choices = [
        split_requirement(
            counted,
            counted.predicate is None or chosen[counted.predicate],
            0,
            sentence.num_elements(sentence.reach[counted.counted]),
        )
        for counted in whole
    ]
    for picked in product(*choices):
        factors, places, more = list(sentence.factors), dict(sentence.places), list(totals)
        for counted, (_, tracked, number) in zip(whole, picked, strict=True):
            name = counted.counted
            if tracked and not number:
                factors.append(CellFormula(Not(counted.body), (name,), HARD))
            elif tracked:
                own = f"_total{len(more)}"
                places[own] = (sentence.reach[name],)
                meaning: Formula = Iff(Atom(own, (Variable(name),)), counted.body)
                factors.append(CellFormula(meaning, (name,), HARD))
                more.append(Total(((1, own),), tracked, number))
        decided = replace(sentence, factors=tuple(factors), places=places, totals=tuple(more))
        yield math.prod(sign for sign, _, _ in picked), decided


def log_fraction(number: Fraction) -> tuple[float, float]:
    from flint import arb, ctx, fmpq

    with ctx.workprec(PRECISION):
        return round_ball(arb(fmpq(number.numerator, number.denominator)).log())


def round_ball(ball: Number) -> tuple[float, float]:
    """The float next to a ball's middle, and how far the true value may be from it."""
    value = float(ball.mid())
    return value, float(abs(ball - value).upper()) * (1 + 1e-15)


def lift_by_cells(
    problem: Problem, sizes: Mapping[str, int], classes: bool, max_steps: int = MAX_STEPS
) -> Lifted:
    """log Z, as a rational number where the weights are, and expected counts."""
    assert not classes  # the registry refuses it
    cells = CellSum.of(problem, sizes, max_steps)
    found = cells.evaluate()
    if found.sign < 0:
        raise LapisError("with these weights the worlds sum to a negative number", code="negative")
    expected = cells.expected_counts() if found.sign else None
    rules = {i: rule for i, rule in enumerate(problem.model.rules) if not rule.hard}
    # Where there is no world nothing is expected.
    counts = [math.nan if expected is None else expected.get(number, 0.0) for number in rules]
    rows = [
        LiftedFormula(
            number,
            rule.text,
            rule.weight or 0.0,
            count,
            prod(num_cell_constants(problem, sizes, type_name) for _, type_name in rule.variables),
        )
        for (number, rule), count in zip(rules.items(), counts, strict=True)
    ]
    numbers = "balls" if found.count is None else "rationals"
    return Lifted(
        "cells",
        True,
        found.log_partition,
        found.error_bound,
        tuple((number, rule.text) for number, rule in rules.items()),
        np.array(counts),
        tuple(rows),
        f"{found.method} in {numbers}",
        count=found.count,
    )


def num_cell_constants(problem: Problem, sizes: Mapping[str, int], type_name: str) -> int:
    return max(len(problem.domains[type_name]), sizes.get(type_name, 0))


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


def infer_by_cells(problem: Problem, options: InferenceOptions) -> Answered:
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
            raise two_variable_error("has a weight for each constant", rule)
    builder = SentenceBuilder(problem, {})
    sentence = builder.build()
    cells = CellSum.of_sentence(sentence, FEW_STEPS)
    found = cells.evaluate()
    if not found.sign:
        raise unsatisfiable_error()
    atoms = unknown_atoms(problem, options.max_memory)
    log_odds = np.empty(len(atoms.atoms))
    known: dict[AtomClass, float] = {}
    for place, name in enumerate(classify_atoms(problem, builder, atoms.atoms)):
        if name not in known:
            options.exact_stop.check("summing over cells")
            known[name] = find_log_odds(sentence, name)
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


def classify_atoms(
    problem: Problem, builder: SentenceBuilder, atoms: AtomTable
) -> Iterator[AtomClass]:
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


def find_log_odds(sentence: Sentence, name: AtomClass) -> float:
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

"""Weighted model counting by cells: Z, expected counts and marginals of a two-variable problem.

Z is a sum over the truth values of propositions; each leaves a sentence about elements and pairs.
`closed_form` sums the sentence over compositions; `elimination` is for counting quantifiers and
totals, `insertion` for one or two linear orders. With rational weights Z is a rational number.
Otherwise it is a ball around the true value, whose precision is doubled until the ball is small, so
that the error is certified.

Expected counts are ∂log Z/∂w, by central differences in that precision. With step h their error is
at most h² κ/6, where κ, the third cumulant of a count between 0 and N, is at most N³;
h = 2^−80/N makes it far smaller than rounding. (A reverse sweep over states would be faster with
many weights, but keeps all states in memory.)

Marginals are computed by classes of equally probable atoms. Atoms of one predicate are of one class
if their arguments are of the same groups, and equal or not: a permutation of each group maps model
and evidence to themselves. A factor of weight 0 on the atoms of a class makes ∂log Z/∂w the
expected number of true atoms. If it is close to none or all of them, the false atoms are counted
too, and the log-odds are the logarithm of the ratio, which is accurate for probabilities near 0 and
1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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
from lapis.lifted.cells.cell_elimination import eliminate_elements
from lapis.lifted.cells.cell_tables import CellTables, evaluate_formula, split_requirement
from lapis.lifted.cells.closed_form import has_closed_form, sum_compositions
from lapis.lifted.cells.insertion import insert_elements, insert_in_two_orders
from lapis.lifted.cells.numbers import (
    FEW_STEPS,
    MAX_STEPS,
    Number,
    Numbers,
    TooManyDigits,
    balls,
    exact_numbers,
)
from lapis.lifted.cells.scott import SentenceBuilder, two_variable_error
from lapis.lifted.cells.sentence import HARD, CellFormula, Sentence, Total, WeightParameter
from lapis.lifted.evaluation.evaluate import unsatisfiable_error
from lapis.lifted.lifted_answer import Lifted, LiftedFormula
from lapis.network.network import AtomTable
from lapis.problem.problem import Problem, refuse_factors

MAX_PROPOSITIONS = 12
PRECISION = 128  # bits
MAX_PRECISION = 1 << 16
BITS = 60  # accuracy of a ball that is small enough
CENTRAL = 1e-3  # for probabilities in [CENTRAL, 1 − CENTRAL], P(¬atom) = 1 − P(atom) is accurate
ALGORITHMS = {
    "two orders": insert_in_two_orders,
    "insertion": insert_elements,
    "elimination": eliminate_elements,
    "compositions": sum_compositions,
}


def choose_algorithm(tables: CellTables) -> str:
    if tables.sentence.order is not None:
        return "two orders" if tables.sentence.order.path else "insertion"
    return "compositions" if has_closed_form(tables) else "elimination"


class SumTerm(NamedTuple):
    """A term of Z: sign · Π parameter^exponent · (the sum of the tables)."""

    sign: int
    exponents: tuple[int, ...]
    tables: CellTables


@dataclass(frozen=True)
class CellCount:
    """Z and its logarithm. With negative weights Z may be negative."""

    count: Fraction | None  # Z, if all weights are rational and it does not have too many digits
    log_partition: float  # log |Z|
    sign: int
    error_bound: float  # of log_partition, certified
    num_cells: int
    algorithm: str  # a name of ALGORITHMS

    @property
    def arithmetic(self) -> str:
        return f"{self.algorithm} in {'balls' if self.count is None else 'rationals'}"


@dataclass(frozen=True)
class CellSum:
    """Z of a problem as a sum over cells, for any weights.

    >>> import lapis
    >>> model = lapis.parse("p = {A, B, C}\\nF(p, p)\\nEXIST{=1} y F(x, y).")
    >>> CellSum.of(lapis.build_problem(model, query=["F"])).evaluate().count
    Fraction(27, 1)
    """

    sentence: Sentence
    terms: tuple[SumTerm, ...]
    max_steps: int = MAX_STEPS  # of each term

    @staticmethod
    def of(
        problem: Problem, sizes: Mapping[str, int] | None = None, max_steps: int = MAX_STEPS
    ) -> CellSum:
        """Build the sum; `sizes` gives types more constants.

        Raises LapisError for formulas of more than two variables, TooLarge for many atoms.
        """
        return CellSum.of_sentence(SentenceBuilder(problem, sizes or {}).build(), max_steps)

    @staticmethod
    def of_sentence(sentence: Sentence, max_steps: int = MAX_STEPS) -> CellSum:
        return CellSum(sentence, tuple(split_propositions(sentence)), max_steps)

    def evaluate(self) -> CellCount:
        """Evaluate Z at the problem's weights."""
        total = self.exact_total(self.sentence.parameters)
        count = None if total is None else Fraction(int(total.p), int(total.q))
        if count is not None:
            sign = (count > 0) - (count < 0)
            log, error = log_fraction(abs(count)) if count else (-math.inf, 0.0)
        else:
            sign, log, error = self.certified_log()
            count = None if sign else Fraction(0)
        used = {choose_algorithm(term.tables) for term in self.terms}
        algorithm = next((name for name in ALGORITHMS if name in used), "compositions")
        num_cells = max((len(term.tables.kinds) for term in self.terms), default=0)
        return CellCount(count, log, sign, error, num_cells, algorithm)

    def total(self, numbers: Numbers) -> Number:
        """Return Z at the values of the parameters."""
        found = 0 * numbers.one
        for sign, exponents, tables in self.terms:
            algorithm = ALGORITHMS[choose_algorithm(tables)]
            found += sign * numbers.of({exponents: 1}) * algorithm(tables, numbers)
        return found

    def exact_total(self, parameters: Sequence[WeightParameter]) -> Number | None:
        """Return Z as a rational; None if a parameter is irrational or Z has too many digits."""
        numbers = exact_numbers(parameters, self.max_steps)
        try:
            return None if numbers is None else self.total(numbers)
        except TooManyDigits:
            return None

    def certified_log(self) -> tuple[int, float, float]:
        """Return sign, log |Z| and its error, in a sufficient precision."""
        from flint import ctx

        precision = PRECISION
        while precision <= MAX_PRECISION:
            with ctx.workprec(precision):
                total = self.total(balls(self.sentence.parameters, self.max_steps))
                if not total.contains(0) and float(total.rel_accuracy_bits()) > BITS:
                    sign = 1 if total > 0 else -1
                    return sign, *round_ball(abs(total).log())
            if total == 0 or (precision == PRECISION and self.has_no_world()):
                return 0, -math.inf, 0.0
            precision *= 2
        raise cancellation_error()

    def has_no_world(self) -> bool:
        """Return whether Z = 0 at all weights; False if a parameter is not positive."""
        parameters = [p._replace(value=p.value or Fraction(1)) for p in self.sentence.parameters]
        is_positive = all(p.value > 0 for p in parameters if p.value is not None)
        return is_positive and bool(self.exact_total(parameters) == 0)

    def depends_on(self, rule: int) -> bool:
        """Return whether a grounding of a rule is true in some world.

        Z grows with the rule's parameter then, if all parameters are positive.
        """
        totals = [
            self.exact_total(
                [
                    p._replace(value=Fraction(value) if p.rule == rule else p.value or Fraction(1))
                    for p in self.sentence.parameters
                ]
            )
            for value in (1, 2)
        ]
        return None in totals or bool(totals[0] != totals[1])

    def expected_counts(self) -> dict[int, float]:
        """Return ∂log Z/∂w of each soft rule: its expected number of true groundings."""
        return {p.rule: self.slope(p.rule) for p in self.sentence.parameters if p.rule >= 0}

    def slope(self, rule: int, *, relative: bool = False) -> float:
        """Return ∂log Z/∂w of a rule, to 1e-12; with `relative`, to 1e-12 of itself."""
        from flint import arb, ctx

        sentence = self.sentence
        groundings = sum(
            factor.times
            * prod(sentence.num_elements(sentence.reach[name]) for name in factor.variables)
            for factor in sentence.factors
            if factor.parameter != HARD and sentence.parameters[factor.parameter].rule == rule
        )
        bits = 80 + groundings.bit_length()
        precision = PRECISION + 2 * bits
        while precision <= MAX_PRECISION:
            with ctx.workprec(precision):
                step = arb(2) ** -bits
                ends = [
                    self.total(balls(sentence.parameters, self.max_steps, rule, by))
                    for by in (step, -step)
                ]
                if not any(end.contains(0) for end in ends):
                    found = (abs(ends[0]).log() - abs(ends[1]).log()) / (2 * step)
                    if relative and found.contains(0) and not self.depends_on(rule):
                        return 0.0
                    scale = abs(float(found.mid())) if relative else 1.0
                    if float(found.rad()) < 1e-12 * scale:
                        return float(found.mid())
            precision *= 2
        raise cancellation_error()


def cancellation_error() -> TooLarge:
    return TooLarge(
        f"positive and negative terms cancel beyond {MAX_PRECISION:,} bits", code="cancellation"
    )


def split_propositions(sentence: Sentence) -> Iterator[SumTerm]:
    """Yield a term for each assignment to the propositions and to counts over whole domains."""
    open_names = [
        name
        for name, places in sentence.places.items()
        if not places and name not in sentence.known_propositions
    ]
    if len(open_names) > MAX_PROPOSITIONS:
        raise TooLarge(
            f"{len(open_names)} propositions are unknown, and at most {MAX_PROPOSITIONS} can be "
            "enumerated",
            code="cells",
        )
    for values in product((True, False), repeat=len(open_names)):
        chosen = {**sentence.known_propositions, **dict(zip(open_names, values, strict=True))}
        exponents = proposition_exponents(sentence, chosen)
        if exponents is None:
            continue
        for sign, decided in decide_domains(sentence, chosen):
            yield SumTerm(sign, exponents, CellTables(decided, chosen))


def proposition_exponents(sentence: Sentence, chosen: Mapping[str, bool]) -> tuple[int, ...] | None:
    """Return the exponents of factors over propositions alone; None if a hard one is violated."""
    exponents = [0] * len(sentence.parameters)
    for factor in sentence.factors:
        if not factor.variables:
            holds = bool(
                evaluate_formula(factor.formula, lambda atom: np.array(chosen[atom.predicate]), {})
            )
            if factor.parameter == HARD and not holds:
                return None
            if factor.parameter != HARD:
                exponents[factor.parameter] += factor.times * holds
    for name, parameters in sentence.literal_parameters.items():
        if name in chosen:
            exponents[parameters[0] if chosen[name] else parameters[1]] += 1
    return tuple(exponents)


def decide_domains(
    sentence: Sentence, chosen: Mapping[str, bool]
) -> Iterator[tuple[int, Sentence]]:
    """Yield (sign, sentence): counts over whole domains, such as ∃x P(x), become totals."""
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
        for counted, (_, tracked, missing) in zip(whole, picked, strict=True):
            name = counted.counted
            if tracked and not missing:
                factors.append(CellFormula(Not(counted.body), (name,), HARD))
            elif tracked:
                own = f"_total{len(more)}"
                places[own] = (sentence.reach[name],)
                meaning: Formula = Iff(Atom(own, (Variable(name),)), counted.body)
                factors.append(CellFormula(meaning, (name,), HARD))
                more.append(Total(((1, own),), tracked, missing))
        decided = replace(sentence, factors=tuple(factors), places=places, totals=tuple(more))
        yield math.prod(sign for sign, _, _ in picked), decided


def log_fraction(number: Fraction) -> tuple[float, float]:
    from flint import arb, ctx, fmpq

    with ctx.workprec(PRECISION):
        return round_ball(arb(fmpq(number.numerator, number.denominator)).log())


def round_ball(ball: Number) -> tuple[float, float]:
    """Return the float nearest to a ball's midpoint, and a bound on its distance to the value."""
    value = float(ball.mid())
    return value, float(abs(ball - value).upper()) * (1 + 1e-15)


def lift_by_cells(
    problem: Problem, sizes: Mapping[str, int], classes: bool, max_steps: int = MAX_STEPS
) -> Lifted:
    """Run the method `cells` of `lapis lift`."""
    assert not classes  # refused by the registry
    cells = CellSum.of(problem, sizes, max_steps)
    found = cells.evaluate()
    if found.sign < 0:
        raise LapisError("with these weights the worlds sum to a negative number", code="negative")
    expected = cells.expected_counts() if found.sign else None
    rules = {i: rule for i, rule in enumerate(problem.model.rules) if not rule.hard}
    # If there is no world, expected counts are undefined.
    counts = [math.nan if expected is None else expected.get(number, 0.0) for number in rules]
    rows = [
        LiftedFormula(
            number,
            rule.text,
            rule.weight or 0.0,
            count,
            prod(max(len(problem.domains[t]), sizes.get(t, 0)) for _, t in rule.variables),
        )
        for (number, rule), count in zip(rules.items(), counts, strict=True)
    ]
    return Lifted(
        "cells",
        True,
        found.log_partition,
        found.error_bound,
        tuple((number, rule.text) for number, rule in rules.items()),
        np.array(counts),
        tuple(rows),
        found.arithmetic,
        count=found.count,
    )


class AtomClass(NamedTuple):
    predicate: str
    groups: tuple[int, ...]  # of the arguments
    is_loop: bool  # whether two arguments are the same element

    def num_atoms(self, sentence: Sentence) -> int:
        sizes = [sentence.groups[group].size for group in self.groups]
        if len(sizes) < 2 or self.groups[0] != self.groups[1]:
            return math.prod(sizes)
        return sizes[0] if self.is_loop else sizes[0] * (sizes[0] - 1)


def infer_by_cells(problem: Problem, options: InferenceOptions) -> Answered:
    """Compute log Z and the marginals of a two-variable problem.

    Raises LapisError for formulas about more than two elements or with a weight for each constant,
    TooLarge for long sums.
    """
    refuse_factors(problem.model)
    for rule in problem.model.rules:
        if rule.plus:
            raise two_variable_error("has a weight for each constant", rule)
    atoms = unknown_atoms(problem, options.max_memory)
    builder = SentenceBuilder(problem, {})
    sentence = builder.build()
    cells = CellSum.of_sentence(sentence, FEW_STEPS)
    found = cells.evaluate()
    if not found.sign:
        raise unsatisfiable_error()
    log_odds = np.empty(len(atoms.atoms))
    known: dict[AtomClass, float] = {}
    for place, atom_class in enumerate(classify_atoms(problem, builder, atoms.atoms)):
        if atom_class not in known:
            options.exact_stop.check("summing over cells")
            known[atom_class] = find_log_odds(sentence, atom_class)
        log_odds[place] = known[atom_class]
    expected = np.zeros(len(problem.weight_table))
    for number, count in cells.expected_counts().items():
        expected[problem.weight_table.offset[number]] = count
    diagnostics = {
        "classes": len(known),
        "error_bound": found.error_bound,
        "arithmetic": found.arithmetic,
        "reasons": [],
    }
    return atoms, build_marginals("cells", found.log_partition, log_odds, expected, diagnostics)


def build_marginals(
    method: str,
    log_partition: float,
    log_odds: np.ndarray,
    expected_count: np.ndarray,
    diagnostics: dict[str, object],
) -> Marginals:
    """Build exact marginals from the log-odds of atoms."""
    with np.errstate(over="ignore"):
        marginal = 1 / (1 + np.exp(-log_odds))
    return Marginals.by(
        method,
        exact=True,
        log_partition=log_partition,
        marginal=marginal,
        log_odds=log_odds,
        expected_count=expected_count,
        diagnostics=diagnostics,
    )


def classify_atoms(
    problem: Problem, builder: SentenceBuilder, atoms: AtomTable
) -> Iterator[AtomClass]:
    """Yield the class of each unknown atom."""
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


def find_log_odds(sentence: Sentence, atoms: AtomClass) -> float:
    """Return log P(atom) − log P(¬atom) for the atoms of a class."""
    number = atoms.num_atoms(sentence)
    true = expect_atoms(sentence, atoms, positive=True)
    if CENTRAL * number < true < (1 - CENTRAL) * number:
        return math.log(true) - math.log(number - true)
    false = expect_atoms(sentence, atoms, positive=False)
    if not true or not false:
        return -math.inf if not true else math.inf
    return math.log(true) - math.log(false)


def expect_atoms(sentence: Sentence, atoms: AtomClass, *, positive: bool) -> float:
    """Return the expected number of true atoms, or of false atoms, of a class."""
    variables = [f"{place}.class" for place in range(1 if atoms.is_loop else len(atoms.groups))]
    terms = tuple(Variable(v) for v in (variables * 2 if atoms.is_loop else variables))
    atom: Formula = Atom(atoms.predicate, terms)
    body: Formula = atom if positive else Not(atom)
    if not atoms.is_loop and len(terms) == 2 and atoms.groups[0] == atoms.groups[1]:
        body = And((Not(Comparison("=", terms[0], terms[1])), body))
    own = max((p.rule for p in sentence.parameters), default=-1) + 1
    factor = CellFormula(body, tuple(variables), len(sentence.parameters))
    reach = {v: frozenset({group}) for v, group in zip(variables, atoms.groups, strict=False)}
    counted = replace(
        sentence,
        reach={**sentence.reach, **reach},
        factors=(*sentence.factors, factor),
        parameters=(*sentence.parameters, WeightParameter(own, 0.0, Fraction(1))),
    )
    return CellSum.of_sentence(counted, FEW_STEPS).slope(own, relative=True)

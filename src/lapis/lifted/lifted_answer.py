"""`Lifted`, the result of `lapis lift`, and the method `circuit`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.data.binding import bind
from lapis.data.database import Database
from lapis.errors import LapisError, raise_all
from lapis.language.model import Model
from lapis.lifted.compilation.compiler import MAX_WORK
from lapis.lifted.lift import LiftedProblem, lift_problem, num_constants
from lapis.problem.problem import Problem, problem_on
from lapis.registry.method_table import find_method
from lapis.results.answer import ExpectedCountTable, expected_rows
from lapis.results.result import Columns, Result
from lapis.runtime.views import View, new_view

if TYPE_CHECKING:
    from lapis.lifted.drawing import Drawing
    from lapis.results.graph import Picture

MAX_SHOWN = 10**40  # a larger Z is shown by its logarithm only


@dataclass(frozen=True)
class LiftedFormula:
    """The groundings of a formula with one weight, or one class of them."""

    rule: int  # its number in the model
    formula: str
    weight: float
    expected: float  # number of true groundings
    groundings: int
    group: str = ""  # description of the class


@dataclass(frozen=True, repr=False)
class Lifted(Result):
    """log Z over all worlds that agree with the data, and expected counts.

    `error_bound` bounds the error of log_partition. It is rigorous for balls; for floats it follows
    every rounding and assumes that exp and log err by at most two units in the last place.
    """

    method: str
    liftable: bool  # no type was grounded
    log_partition: float
    error_bound: float
    weights: tuple[tuple[int, str], ...]  # the rule's number and the formula of each weight
    expected_counts: np.ndarray  # float64[num_weights]
    formulas: tuple[LiftedFormula, ...]
    arithmetic: str = ""
    reasons: tuple[str, ...] = ()  # why types were grounded
    circuits: tuple[LiftedProblem, ...] = ()  # one for each world, of the method `circuit`
    count: Fraction | None = None  # Z, if it is rational and of moderate length
    with_tree: bool = False  # whether `document` contains the tree

    @property
    def expected(self) -> ExpectedCountTable:
        """The expected count of each weight's formula."""
        names = [name for _, name in self.weights]
        return ExpectedCountTable(expected_rows(names, self.expected_counts))

    def columns(self) -> Columns:
        """Return a row for each formula with a weight, or for each class of its groundings."""
        names = ["formula", *["class"] * self.has_groups, "weight", "expected", "groundings"]
        fields = [(name, "group" if name == "class" else name) for name in names]
        return {name: [getattr(row, own) for row in self.formulas] for name, own in fields}

    @property
    def has_groups(self) -> bool:
        return any(row.group for row in self.formulas)

    def views(self) -> list[View]:
        headings = ["weight", "formula", *["group"] * self.has_groups]
        numbers = ["weight", "probability", "expected", "groundings"]
        cells = [
            (
                f"{row.weight:g}",
                row.formula,
                *[row.group] * self.has_groups,
                f"{row.expected / row.groundings:.6f}" if row.groundings else "–",
                f"{row.expected:,.10g}",
                f"{row.groundings:,}",
            )
            for row in self.formulas
        ]
        return [new_view([*headings, *numbers[1:]], cells, numbers=numbers)]

    def summary(self) -> str:
        how = "lifted" if self.liftable else "lifted in part"
        exactly = "" if self.count is None or self.count >= MAX_SHOWN else f"Z = {self.count}, "
        return (
            f"{exactly}log Z = {self.log_partition:.15g} ± {self.error_bound:.1g}, {how} "
            f"(by {self.method}, {self.arithmetic})"
        )

    def remarks(self) -> list[str]:
        if self.formulas and not any(row.groundings for row in self.formulas):
            return ["there are no constants: name some in the data, or give --sizes type=100"]
        return list(self.reasons)

    def document(self) -> dict[str, Any]:
        """Return the JSON document of `lapis lift --json`."""
        columns = self.columns()
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return {
            "liftable": self.liftable,
            "log_partition": self.log_partition,
            "expected_counts": self.expected_counts.tolist(),
            "expected": self.expected.document()["rows"],
            "method": self.method,
            "error_bound": self.error_bound,
            "arithmetic": self.arithmetic,
            "reasons": list(self.reasons),
            "formulas": rows,
            **({} if self.count is None else {"count": write_fraction(self.count)}),
            **({"tree": self.tree} if self.with_tree else {}),
        }

    @property
    def tree(self) -> str:
        """The circuit as an indented text."""
        return self.drawing.text()

    @property
    def drawing(self) -> Drawing:
        from lapis.lifted.drawing import Drawing

        found = [Drawing(one.root, one.encoding) for one in self.circuits]
        if found and len({one.text() for one in found}) == 1:
            return found[0]
        if self.method == "circuit":
            raise LapisError(
                "these worlds have different circuits",
                code="no-circuit",
                hint="draw the circuit of one world, or read them as one world (--merge)",
            )
        raise LapisError(
            f"the method {self.method!r} has no circuit",
            code="no-circuit",
            hint="use the method 'circuit'",
        )

    def draw(self) -> Picture:
        """Draw the circuit.

        Returns
        -------
        Picture
            The picture: notebooks show it, `save` writes it as `.svg`, `.dot`, `.png` or `.pdf`.

        Raises
        ------
        LapisError
            If the method has no circuit, or the worlds have different ones.
        """
        return self.drawing.graph()


def write_fraction(number: Fraction) -> str:
    """Return a fraction as text, also beyond Python's limit of 4,300 digits."""
    from flint import fmpq

    return str(fmpq(number.numerator, number.denominator))


def lift_worlds(
    model: Model,
    databases: Sequence[Database],
    query: Sequence[str],
    *,
    method: str,
    sizes: Mapping[str, int],
    classes: bool,
) -> Lifted:
    """Lift a model on each database; sum log partitions and expected counts.

    Without a query every predicate is open that is not declared closed.
    """
    names = query or [
        name for name in model.uncertain_predicates if not model.predicates[name].closed
    ]
    entry = find_method("lift", method).load()
    found = [
        entry(problem_on(model, bind(database, model), names), sizes, classes)
        for database in databases
    ]
    return found[0] if len(found) == 1 else sum_lifted_worlds(found)


def sum_lifted_worlds(parts: Sequence[Lifted]) -> Lifted:
    rows: dict[tuple[int, str, str], LiftedFormula] = {}
    counts: dict[tuple[int, str], float] = {}
    for part in parts:
        for row in part.formulas:
            key = row.rule, row.formula, row.group
            old = rows.get(key)
            if old is not None:
                expected, groundings = old.expected + row.expected, old.groundings + row.groundings
                row = replace(row, expected=expected, groundings=groundings)
            rows[key] = row
        for weight, count in zip(part.weights, part.expected_counts.tolist(), strict=True):
            counts[weight] = counts.get(weight, 0.0) + count
    weights = sorted(counts, key=lambda weight: weight[0])  # a later world may add constants
    log_partition = math.fsum(part.log_partition for part in parts)
    return replace(
        parts[0],
        circuits=tuple(one for part in parts for one in part.circuits),
        liftable=all(part.liftable for part in parts),
        log_partition=log_partition,
        error_bound=sum(part.error_bound for part in parts) + unit_in_last_place(log_partition),
        weights=tuple(weights),
        expected_counts=np.array([counts[weight] for weight in weights]),
        formulas=tuple(sorted(rows.values(), key=lambda row: row.rule)),
        count=multiply_partitions([part.count for part in parts]),
        arithmetic=", ".join(dict.fromkeys(part.arithmetic for part in parts)),
        reasons=tuple(dict.fromkeys(reason for part in parts for reason in part.reasons)),
    )


def unit_in_last_place(number: float) -> float:
    return math.ulp(number) if math.isfinite(number) else 0.0


def multiply_partitions(counts: Sequence[Fraction | None]) -> Fraction | None:
    known = [count for count in counts if count is not None]
    return prod(known, start=Fraction(1)) if len(known) == len(counts) else None


def lift_by_circuit(
    problem: Problem,
    sizes: Mapping[str, int],
    classes: bool,
    *,
    max_work: int = MAX_WORK,
    may_search: bool = True,
) -> Lifted:
    """Run the method `circuit` of `lapis lift`; see `lift_problem` for the two limits."""
    raise_all(
        [
            LapisError(
                "circuits do not support cardinality constraints",
                code="cardinality",
                span=constraint.span,
                hint="use the method 'cells', with formulas of two variables",
            )
            for constraint in problem.model.constraints
        ]
    )
    lifted = lift_problem(
        problem,
        sizes,
        classes=() if classes else None,
        max_work=max_work,
        may_search=may_search,
    )
    found = lifted.columns_at()
    counts = lifted.by_weight(found.expected_count)
    rows = class_rows(lifted, found.expected_count) if classes else all_rows(lifted, counts)
    return Lifted(
        "circuit",
        lifted.is_liftable,
        found.log_partition,
        found.error_bound,
        weight_names(lifted.problem),
        counts,
        tuple(rows),
        found.arithmetic,
        lifted.reasons,
        (lifted,),
    )


def all_rows(lifted: LiftedProblem, counts: np.ndarray) -> Iterator[LiftedFormula]:
    """Yield a row for each weight of a circuit's problem."""
    return weight_rows(lifted.problem, counts, partial(num_constants, lifted.encoding))


def weight_names(problem: Problem) -> tuple[tuple[int, str], ...]:
    """Return the rule's number and the formula of each weight."""
    return tuple(
        (number, name)
        for number, rule in enumerate(problem.model.rules)
        for name in problem.rule_weight_names(rule)
    )


def weight_rows(
    problem: Problem, counts: np.ndarray, size_of: Callable[[str], int]
) -> Iterator[LiftedFormula]:
    """Yield a row for each weight; `size_of` returns the number of constants of a type."""
    table = problem.weight_table
    for number, rule in enumerate(problem.model.rules):
        types = [type_name for name, type_name in rule.variables if name not in rule.plus]
        groundings = prod(map(size_of, types))
        for place, name in enumerate(problem.rule_weight_names(rule)):
            weight = int(table.offset[number]) + place
            value, count = float(table.value[weight]), float(counts[weight])
            yield LiftedFormula(number, name, value, count, groundings)


def class_rows(lifted: LiftedProblem, counts: np.ndarray) -> Iterator[LiftedFormula]:
    """Yield a row for each class of equally probable groundings."""
    sizes = {
        region: np.asarray(size, object) for region, size in lifted.encoding.kinds.sizes.items()
    }
    for column, count in zip(lifted.encoding.columns, counts.tolist(), strict=True):
        yield LiftedFormula(
            column.rule,
            lifted.problem.model.rules[column.rule].text,
            float(lifted.problem.weight_table.value[column.weight]),
            count,
            int(column.size.at(sizes)),
            column.text,
        )

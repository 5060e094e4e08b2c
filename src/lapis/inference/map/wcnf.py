"""Weighted partial MaxSAT files (.wcnf, .wcnf.gz) as networks.

Variables are atoms x(1), x(2), …. The network has one weight of value 1, which every soft clause
carries with its own weight as coefficient, so the score is the weight of true soft clauses.

Both dialects of DIMACS. Classic: `p wcnf VARIABLES CLAUSES [TOP]`, then `WEIGHT LITERAL... 0`, hard
if WEIGHT ≥ TOP. Since 2022: no header, hard clauses start with `h`. Lines that start with `c` are
comments. A clause ends with 0, not necessarily at the end of a line.

Weights are at most 2^63, and may be decimal numbers. They are added as integers. The solvers
compute with doubles, so weights of more than 11 digits are first replaced by smaller ones with the
same optimum, if there are any (`WeightLevels`; Argelich, Lynce and Marques-Silva, On Solving
Boolean Multilevel Optimization Problems, 2009). Otherwise the bound allows for rounding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from lapis.errors import LapisError, Source, Span
from lapis.inference.map.solver import MapResult, most_likely_world
from lapis.inference.marginals import InferenceOptions
from lapis.network.csr import row_starts, take_rows
from lapis.network.network import AtomTable, Network
from lapis.runtime.text_files import read_source

TOLERANCE = 1e-12  # of the solvers, of all weights
EXACT_TOTAL = 10**11  # sum of weights below which a proof within 10^-12 is exact
MAX_WEIGHT = 2**63
MAX_EXPONENT = 30  # of a weight in scientific notation
MAX_UNUSED = 10**6  # variables without a literal


@dataclass(frozen=True)
class WcnfResult:
    """The solution of a MaxSAT problem. Costs are integers if all weights are."""

    found: MapResult
    cost: float  # Σ weights of false soft clauses
    bound: float  # no world costs less
    network: Network


def solve_wcnf(
    path: str | Path, method: str = "auto", options: InferenceOptions | None = None
) -> WcnfResult:
    """Return the assignment of least cost of a .wcnf or .wcnf.gz file."""
    clauses = read_wcnf(path)
    levels = split_levels(clauses)
    network = network_of_clauses(clauses, levels.weight)
    found = most_likely_world(network, method, options)
    is_false = false_clauses(clauses, found.world)
    cost = sum_weights(clauses.weight[is_false])
    solved_cost = float(sum_weights(levels.weight[is_false]))
    bound = cost
    if not (found.optimal and levels.is_exact):
        slack = found.gap + TOLERANCE * sum_weights(levels.weight)
        bound = min(cost, levels.decode(math.ceil(solved_cost - slack - 0.5)))
        bound = cost if cost - bound < levels.step else bound
    total = sum_weights(clauses.weight)

    def number(value: int) -> float:
        return value if clauses.scale == 1 else value / clauses.scale

    gap, score = float(number(cost - bound)), float(number(total - cost))
    found = replace(
        found, score=score, bound=score + gap, gap=gap, cost=number(cost), optimal=bound == cost
    )
    return WcnfResult(found, number(cost), number(bound), network)


class WeightLevels(NamedTuple):
    """Smaller integer weights with the same cheapest assignments.

    The soft clauses are divided into levels. Costs of a level are multiples of its `step`, and
    outweigh all lighter levels together: the greatest common divisor of the weights of a level and
    of those above is larger than the sum of all below. So levels are compared one after another,
    the heaviest first, and a level may count in units of the sum of those below, plus one.
    """

    weight: np.ndarray  # float64[num_clauses], the weights to solve with, 0 where hard
    steps: tuple[int, ...]  # of each level, from the heaviest
    units: tuple[int, ...]  # of each level in `weight`
    is_exact: bool  # the solvers prove costs of this size within less than one

    @property
    def step(self) -> int:
        """The least difference of two costs."""
        return math.gcd(*self.steps) or 1

    def decode(self, solved: int) -> int:
        """Return the cost that corresponds to a cost of `weight`, which is 0 or more.

        Lower bounds give lower bounds.
        """
        cost, rest = 0, max(0, solved)
        for step, unit in zip(self.steps, self.units, strict=True):
            count, rest = divmod(rest, unit)
            cost += count * step
        return cost


def split_levels(clauses: WeightedClauses) -> WeightLevels:
    """Return weights that solvers handle exactly, if there are any."""
    weights = clauses.weight.tolist()
    step = math.gcd(*weights) or 1
    total = sum(weights)
    if total // step <= EXACT_TOTAL:
        return WeightLevels(np.array([w // step for w in weights], float), (step,), (1,), True)
    distinct, counts = np.unique(clauses.weight[clauses.weight > 0], return_counts=True)
    levels: list[list[int]] = [[]]
    divisor, below = 0, total
    for value, count in zip(distinct[::-1].tolist(), counts[::-1].tolist(), strict=True):
        levels[-1].append(value)
        divisor, below = math.gcd(divisor, value), below - value * count
        if divisor > below > 0:
            levels.append([])
    number = dict(zip(distinct.tolist(), counts.tolist(), strict=True))
    unit, units, small = 1, [], dict[int, int]()
    for level in reversed(levels):
        own = math.gcd(*level)
        units.append(unit)
        small |= {value: value // own * unit for value in level}
        unit += sum(small[value] * number[value] for value in level)
    return WeightLevels(
        np.array([float(small.get(weight, 0)) for weight in weights]),
        tuple(math.gcd(*level) for level in levels),
        tuple(reversed(units)),
        unit <= EXACT_TOTAL,
    )


def false_clauses(clauses: WeightedClauses, world: np.ndarray) -> np.ndarray:
    """bool[num_clauses], whether no literal of a clause is true."""
    row = np.repeat(np.arange(len(clauses.weight)), np.diff(clauses.clause_start))
    is_true = world[np.abs(clauses.literal) - 1] == (clauses.literal > 0)
    return np.bincount(row[is_true], minlength=len(clauses.weight)) == 0


def sum_weights(weights: np.ndarray) -> int:
    """Return a sum of integers of any size, exactly; of floats, their sum as an integer."""
    return int(sum(weights.tolist()))


def network_of_clauses(clauses: WeightedClauses, weight: np.ndarray) -> Network:
    """Return the network of clauses; repeated literals are merged, tautologies always true.

    `weight` has the weights of the soft clauses, float64[num_clauses].
    """
    count = len(clauses.weight)
    row = np.repeat(np.arange(count), np.diff(clauses.clause_start))
    pairs = np.unique(np.column_stack((row, np.abs(clauses.literal), clauses.literal)), axis=0)
    pairs = pairs.reshape(-1, 3)
    clash = (pairs[1:, :2] == pairs[:-1, :2]).all(axis=1)
    always = np.zeros(count, bool)
    always[pairs[1:, 0][clash]] = True
    length = np.bincount(pairs[:, 0], minlength=count)
    hard = clauses.is_hard
    if (hard & (length == 0)).any():
        raise LapisError(
            "no assignment satisfies the hard clauses: one of them is empty", code="unsatisfiable"
        )
    kept = np.flatnonzero(~always & (length > 0))
    start, literal = take_rows(row_starts(length), pairs[:, 2].astype(np.int32), kept)
    atoms = np.arange(1, clauses.num_variables + 1, dtype=np.int32)[:, None]
    return Network(
        AtomTable(("x",), np.array([0, len(atoms)], np.int64), (atoms,)),
        len(atoms),
        start,
        literal,
        np.where(hard[kept], -1, 0).astype(np.int32),
        np.where(hard[kept], 1.0, weight[kept]),
        np.ones(1),
        np.array([float(weight[always & ~hard].sum())]),
    )


WORD = re.compile(r"\S+")
INTEGER = re.compile(r"[0-9]{1,40}")
DECIMAL = re.compile(r"(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE]([+-]?[0-9]{1,9}))?")
LITERAL = re.compile(r"-?[0-9]{1,9}")


def parse_count(word: str) -> int:
    """Parse a number of a header; ValueError for other words."""
    if INTEGER.fullmatch(word) is None:
        raise ValueError(word)
    return int(word)


class WeightedClauses(NamedTuple):
    """Clauses and their weights."""

    num_variables: int
    clause_start: np.ndarray  # int64[num_clauses + 1]
    literal: np.ndarray  # int32[num_literals], variable, negative if negated
    weight: np.ndarray  # uint64[num_clauses], in units of 1 / scale; 0 where hard
    is_hard: np.ndarray  # bool[num_clauses]
    scale: int  # a power of ten, 1 if the weights are integers


def read_wcnf(path: str | Path) -> WeightedClauses:
    """Read a .wcnf or .wcnf.gz file."""
    return parse_wcnf(read_source(Path(path), "replace").text, str(path))


def parse_wcnf(text: str, name: str = "<wcnf>") -> WeightedClauses:
    """Return the clauses of a file.

    >>> recent, classic = "h 1 2 0\\n3 -1 0\\n", "p wcnf 2 2 9\\n9 1 2 0\\n3 -1 0\\n"
    >>> parse_wcnf(recent).weight.tolist(), parse_wcnf(classic).weight.tolist()
    ([0, 3], [0, 3])
    """
    return WcnfReader(Source(name, text)).read()


class WcnfReader:
    """A reader of clauses that reports errors with their places."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.top: int | None = None
        self.variables: int | None = None
        self.promised: int | None = None
        self.starts: list[int] = [0]
        self.literals: list[int] = []
        self.weights: list[int | Fraction | None] = []  # None where hard
        self.weight_places: list[int] = []
        self.largest = (0, 0, 0)  # the largest variable, and where it was found
        self.is_open = False  # inside a clause

    def read(self) -> WeightedClauses:
        last = (0, 0)
        for words in self.lines():
            if words[0][0] == "p" and not self.is_open:
                self.read_header(words)
                continue
            for word, start in words:
                last = (start, start + len(word))
                if self.is_open:
                    self.add_literal(word, start)
                else:
                    self.begin_clause(word, start)
        if self.is_open:
            self.refuse("the last clause has no end", *last, "a clause ends with 0")
        return self.finish()

    def lines(self) -> Iterator[list[tuple[str, int]]]:
        """Return the words of each line that is not a comment, with their offsets."""
        offset = 0
        for line in self.source.text.splitlines(keepends=True):
            if not line.lstrip().startswith("c"):
                words = [(found.group(), offset + found.start()) for found in WORD.finditer(line)]
                if words:
                    yield words
            offset += len(line)

    def read_header(self, words: list[tuple[str, int]]) -> None:
        names = [word for word, _ in words]
        start, end = words[0][1], words[-1][1] + len(words[-1][0])
        if self.promised is not None:
            self.refuse("a second header", start, end)
        if self.weights:
            self.refuse("the header comes after clauses", start, end)
        try:
            if names[1] != "wcnf" or len(names) not in (4, 5):
                raise ValueError
            self.variables, self.promised = map(parse_count, names[2:4])
            if len(names) == 5:
                self.top = parse_count(names[4])
        except (ValueError, IndexError):
            self.refuse(
                "this is not a header", start, end, "a header is `p wcnf VARIABLES CLAUSES TOP`"
            )
        self.largest = (self.variables, start, end)

    def begin_clause(self, word: str, start: int) -> None:
        weight = None if word == "h" else self.parse_weight(word, start)
        is_hard = weight is None or (self.top is not None and weight >= self.top)
        if not is_hard and weight is not None and weight > MAX_WEIGHT:
            self.refuse("weights are at most 2^63", start, start + len(word))
        self.weights.append(None if is_hard else weight)
        self.weight_places.append(start)
        self.is_open = True

    def parse_weight(self, word: str, start: int) -> int | Fraction:
        if INTEGER.fullmatch(word):
            return int(word)
        found = DECIMAL.fullmatch(word)
        if found is None:
            self.refuse(
                "this is not a weight",
                start,
                start + len(word),
                "a clause is a weight that is not negative (or h), literals, and a final 0",
            )
        if abs(int(found[1] or 0)) > MAX_EXPONENT:
            self.refuse(
                f"exponents of weights are at most {MAX_EXPONENT}", start, start + len(word)
            )
        return Fraction(word)

    def add_literal(self, word: str, start: int) -> None:
        if LITERAL.fullmatch(word) is None:
            self.refuse(
                "this is not a literal",
                start,
                start + len(word),
                "a literal is the number of a variable (at most 9 digits), negative if negated",
            )
        literal = int(word)
        if abs(literal) > self.largest[0]:
            self.largest = (abs(literal), start, start + len(word))
        if self.variables is not None and abs(literal) > self.variables:
            self.refuse(
                f"the header announces {self.variables} variables", start, start + len(word)
            )
        if literal:
            self.literals.append(literal)
        else:
            self.starts.append(len(self.literals))
            self.is_open = False

    def finish(self) -> WeightedClauses:
        if self.promised is not None and len(self.weights) != self.promised:
            end = len(self.source.text)
            self.refuse(
                f"the header announces {self.promised} clauses, there are {len(self.weights)}",
                end,
                end,
            )
        num_variables, start, end = self.largest
        if num_variables > len(self.literals) + MAX_UNUSED:
            self.refuse(
                f"{num_variables:,} variables, and only {len(self.literals):,} literals", start, end
            )
        weight, scale = self.scale_weights()
        return WeightedClauses(
            num_variables,
            np.array(self.starts, np.int64),
            np.array(self.literals, np.int32),
            weight,
            np.array([weight is None for weight in self.weights], bool),
            scale,
        )

    def scale_weights(self) -> tuple[np.ndarray, int]:
        """Return the weights as integers, and the power of ten that they are multiplied by."""
        denominators = {w.denominator for w in self.weights if isinstance(w, Fraction)}
        scale = 1
        while any(scale % denominator for denominator in denominators):
            scale *= 10
        scaled = [0 if weight is None else int(weight * scale) for weight in self.weights]
        if max(scaled, default=0) > MAX_WEIGHT:
            start = self.weight_places[int(np.argmax(np.array(scaled, object)))]
            self.refuse(
                "this weight and the smallest digit of another need more than 64 bits", start,
                start + 1, "weights are added exactly: multiply them by a power of ten, and round",
            )  # fmt: skip
        return np.array(scaled, np.uint64), scale

    def refuse(self, message: str, start: int, end: int, hint: str | None = None) -> NoReturn:
        raise LapisError(message, code="wcnf-syntax", span=Span(self.source, start, end), hint=hint)

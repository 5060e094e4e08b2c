"""Weighted partial MaxSAT files (.wcnf, .wcnf.gz) as networks.

Variables are atoms x(1), x(2), …. The network has one weight of value 1, which every soft clause
carries with its own weight as coefficient, so the score is the weight of true soft clauses.

Both dialects of DIMACS. Classic: `p wcnf VARIABLES CLAUSES [TOP]`, then `WEIGHT LITERAL... 0`, hard
if WEIGHT ≥ TOP. Since 2022: no header, hard clauses start with `h`. Lines that start with `c` are
comments. A clause ends with 0, not necessarily at the end of a line.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from lapis.errors import LapisError, Source, Span
from lapis.inference.map.solver import MapResult, most_likely_world
from lapis.inference.marginals import InferenceOptions
from lapis.network.csr import row_starts, take_rows
from lapis.network.network import AtomTable, Network


@dataclass(frozen=True)
class WcnfResult:
    """The solution of a MaxSAT problem."""

    found: MapResult
    cost: float  # Σ weights of false soft clauses
    bound: float  # no world costs less
    network: Network


def solve_wcnf(
    path: str | Path, method: str = "auto", options: InferenceOptions | None = None
) -> WcnfResult:
    """Return the assignment of least cost of a .wcnf or .wcnf.gz file."""
    clauses = read_wcnf(path)
    network = network_of_clauses(clauses)
    found = most_likely_world(network, method, options)
    total = float(clauses.weight[np.isfinite(clauses.weight)].sum())
    return WcnfResult(found, total - found.score, total - found.score - found.gap, network)


def network_of_clauses(clauses: WeightedClauses) -> Network:
    """Return the network of clauses; repeated literals are merged, tautologies always true."""
    count = len(clauses.weight)
    row = np.repeat(np.arange(count), np.diff(clauses.clause_start))
    pairs = np.unique(np.column_stack((row, np.abs(clauses.literal), clauses.literal)), axis=0)
    pairs = pairs.reshape(-1, 3)
    clash = (pairs[1:, :2] == pairs[:-1, :2]).all(axis=1)
    always = np.zeros(count, bool)
    always[pairs[1:, 0][clash]] = True
    length = np.bincount(pairs[:, 0], minlength=count)
    hard = np.isinf(clauses.weight)
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
        np.where(hard[kept], 1.0, clauses.weight[kept]),
        np.ones(1),
        np.array([float(clauses.weight[always & ~hard].sum())]),
    )


WORD = re.compile(r"\S+")


class WeightedClauses(NamedTuple):
    """Clauses and their weights."""

    num_variables: int
    clause_start: np.ndarray  # int64[num_clauses + 1]
    literal: np.ndarray  # int32[num_literals], variable, negative if negated
    weight: np.ndarray  # float64[num_clauses], +inf where hard


def read_wcnf(path: str | Path) -> WeightedClauses:
    """Read a .wcnf or .wcnf.gz file."""
    path = Path(path)
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("ascii", "replace")
    except (OSError, EOFError, zlib.error) as error:
        raise LapisError(f"cannot read {path}: {error}", code="unreadable-file") from None
    return parse_wcnf(text, str(path))


def parse_wcnf(text: str, name: str = "<wcnf>") -> WeightedClauses:
    """Return the clauses of a file.

    >>> parse_wcnf("h 1 2 0\\n3 -1 0\\n").weight.tolist()
    [inf, 3.0]
    >>> parse_wcnf("p wcnf 2 2 9\\n9 1 2 0\\n3 -1 0\\n").weight.tolist()
    [inf, 3.0]
    """
    return WcnfReader(Source(name, text)).read()


class WcnfReader:
    """A reader of clauses that reports errors with their places."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.top = np.inf
        self.variables: int | None = None
        self.promised: int | None = None
        self.starts: list[int] = [0]
        self.literals: list[int] = []
        self.weights: list[float] = []
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
            self.variables, self.promised = int(names[2]), int(names[3])
            if len(names) == 5:
                self.top = float(names[4])
        except (ValueError, IndexError):
            self.refuse(
                "this is not a header", start, end, "a header is `p wcnf VARIABLES CLAUSES TOP`"
            )

    def begin_clause(self, word: str, start: int) -> None:
        try:
            weight = np.inf if word == "h" else float(word)
        except ValueError:
            weight = np.nan
        if not weight >= 0 or (weight == np.inf and word != "h"):
            self.refuse(
                "this is not a weight",
                start,
                start + len(word),
                "a clause is a weight that is not negative (or h), literals, and a final 0",
            )
        self.weights.append(np.inf if weight >= self.top else weight)
        self.is_open = True

    def add_literal(self, word: str, start: int) -> None:
        try:
            literal = int(word)
        except ValueError:
            self.refuse(
                "this is not a literal",
                start,
                start + len(word),
                "a literal is the number of a variable, negative if it is negated",
            )
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
        literal = np.array(self.literals, np.int32)
        largest = int(np.abs(literal).max(initial=0))
        return WeightedClauses(
            max(self.variables or 0, largest),
            np.array(self.starts, np.int64),
            literal,
            np.array(self.weights, np.float64),
        )

    def refuse(self, message: str, start: int, end: int, hint: str | None = None) -> NoReturn:
        raise LapisError(message, code="wcnf-syntax", span=Span(self.source, start, end), hint=hint)

"""Weighted partial MaxSAT files (.wcnf, .wcnf.gz), both dialects of DIMACS.

Classic: `p wcnf VARIABLES CLAUSES TOP`, then `WEIGHT LITERAL... 0`, hard where WEIGHT ≥ TOP.
Since 2022: no header, hard clauses start with `h`.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError, Source, Span


class WeightedClauses(NamedTuple):
    num_variables: int
    clause_start: np.ndarray  # int64[num_clauses + 1]
    literal: np.ndarray  # int32[num_literals], variable, negative if negated
    weight: np.ndarray  # float64[num_clauses], +inf where hard


def read_wcnf(path: str | Path) -> WeightedClauses:
    path = Path(path)
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("ascii", "replace")
    except (OSError, EOFError) as error:
        raise LapisError(f"cannot read {path}: {error}", code="unreadable-file") from None
    return parse_wcnf(text, str(path))


def parse_wcnf(text: str, name: str = "<wcnf>") -> WeightedClauses:
    """The clauses of a file; a clause is a line.

    >>> parse_wcnf("h 1 2 0\\n3 -1 0\\n").weight.tolist()
    [inf, 3.0]
    """
    source = Source(name, text)
    top, variables = np.inf, 0
    starts, literals, weights = [0], [], []
    offset = 0
    for line in text.splitlines(keepends=True):
        fields = line.split()
        if fields and fields[0] not in ("c",) and not fields[0].startswith("c"):
            try:
                if fields[0] == "p":
                    variables = int(fields[2])
                    top = float(fields[4]) if len(fields) > 4 else np.inf
                else:
                    weight = np.inf if fields[0] == "h" else float(fields[0])
                    clause = [int(field) for field in fields[1:]]
                    if clause[-1] != 0 or 0 in clause[:-1]:
                        raise ValueError
                    literals += clause[:-1]
                    weights.append(np.inf if weight >= top else weight)
                    starts.append(len(literals))
            except (ValueError, IndexError):
                raise LapisError(
                    "this is not a clause",
                    code="wcnf-syntax",
                    span=Span(source, offset, offset + len(line.rstrip())),
                    hint="a clause is a weight (or h), literals, and a final 0",
                ) from None
        offset += len(line)
    literal = np.array(literals, np.int32)
    largest = int(np.abs(literal).max(initial=0))
    return WeightedClauses(
        max(variables, largest), np.array(starts, np.int64), literal, np.array(weights, np.float64)
    )

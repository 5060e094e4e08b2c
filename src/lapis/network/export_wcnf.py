"""Weighted partial MaxSAT, in the format of the evaluations since 2022.

A clause of positive weight w costs w when it is false. One of negative weight costs |w| when it is
true: with one literal l that is the clause ¬l of weight |w|; with more, a new variable b ⇔ the
clause is defined by hard clauses and ¬b costs |w|. Each block is a hard at-least-one clause (if
exactly one is true) and a hard clause for each pair. With

    −score(world) = offset + cost(world) / scale

a cheapest assignment is a most likely world. Weights in the format are integers, so costs are
scaled by a power of ten: the smallest that makes all of them whole, or the largest that keeps
their sum below 2⁵³; the comments at the top say scale, offset and the rounding error.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lapis.errors import TooLarge
from lapis.network.network import Network

LARGEST_TOTAL = 2.0**53  # sums up to this are exact in every solver, integer or floating
MOST_DIGITS = 12
MOST_PAIRS = 50_000_000


def wcnf_lines(network: Network) -> Iterator[str]:
    soft = network.weight_id >= 0
    # What a clause adds to the score when it is true.
    value = np.append(network.weights, 0.0)[network.weight_id] * network.coefficient
    cost, scale = scale_costs(np.abs(value))
    offset = -(network.constant_score + float(value[value > 0].sum()))
    rounding = float(np.abs(cost / scale - np.abs(value)).sum())
    length = np.diff(network.clause_start)
    defined = np.flatnonzero((cost > 0) & (value < 0) & (length > 1))
    yield "c ground network written by lapis\n"
    yield f"c -score = offset + cost / scale, within {rounding:.3g}\n"
    yield f"c scale {scale}\n"
    yield f"c offset {offset!r}\n"
    for atom, name in enumerate(network.atom_names(np.arange(network.num_atoms)), 1):
        yield f"c atom {atom} {name}\n"
    variable = dict(zip(defined.tolist(), range(network.num_atoms + 1, 2**62), strict=False))
    yield from _block_lines(network)
    starts = network.clause_start.tolist()
    literals = network.literal.tolist()
    for clause, (amount, positive, is_soft) in enumerate(
        zip(cost.tolist(), (value > 0).tolist(), soft.tolist(), strict=True)
    ):
        row = literals[starts[clause] : starts[clause + 1]]
        if not is_soft:
            yield _clause("h", row)
        elif amount and positive:
            yield _clause(amount, row)
        elif amount and len(row) == 1:
            yield _clause(amount, [-row[0]])
        elif amount:
            own = variable[clause]
            yield _clause("h", [-own, *row])
            for literal in row:
                yield _clause("h", [own, -literal])
            yield _clause(amount, [-own])


def scale_costs(cost: np.ndarray) -> tuple[np.ndarray, int]:
    """Costs as whole numbers, int64[num_costs], and the power of ten they were multiplied by."""
    total = float(cost.sum())
    digits = 0
    while digits < MOST_DIGITS and total * 10.0 ** (digits + 1) < LARGEST_TOTAL:
        scaled = cost * 10.0**digits
        if np.abs(scaled - np.rint(scaled)).max(initial=0.0) <= 1e-9:
            break
        digits += 1
    return np.rint(cost * 10.0**digits).astype(np.int64), 10**digits


def _block_lines(network: Network) -> Iterator[str]:
    length = np.diff(network.block_start)
    pairs = int((length * (length - 1) // 2).sum())
    if pairs > MOST_PAIRS:
        raise TooLarge(
            f"the blocks need {pairs:,} clauses in a .wcnf file",
            code="too-large",
            hint="write .json, which has blocks as such",
        )
    for block, exact in enumerate(network.block_exact.tolist()):
        start, end = network.block_start[block : block + 2]
        atoms = (network.block_atom[start:end] + 1).tolist()
        if exact:
            yield _clause("h", atoms)
        for position, atom in enumerate(atoms):
            for other in atoms[position + 1 :]:
                yield _clause("h", [-atom, -other])


def _clause(weight: int | str, literals: list[int]) -> str:
    return f"{weight} {' '.join(map(str, literals))} 0\n"

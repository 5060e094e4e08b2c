"""Markov networks in the UAI format.

Every atom is a variable with values 0 and 1. A soft clause is a factor with exp(weight ·
coefficient) where it is true and 1 where it is false; a hard clause and a block are factors of
zeros and ones. The product of all factors in a world is exp(score − constant_score), so log Z of
the file is the log partition function minus `Network.constant_score`, which the format has no
place for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.network.network import Network

LARGEST_SCOPE = 25  # variables of a factor; its table has 2^scope entries
LARGEST_EXPONENT = 700.0  # exp of more is not a floating-point number


class _Factor(NamedTuple):
    atoms: list[int]
    special: np.ndarray  # int64[...], entries of the table that get the other value
    base: str
    other: str


def uai_lines(network: Network) -> Iterator[str]:
    length = np.concatenate((np.diff(network.clause_start), np.diff(network.block_start)))
    if length.max(initial=0) > LARGEST_SCOPE:
        raise TooLarge(
            f"a clause or block has {length.max()} atoms; its table would have "
            f"2^{length.max()} entries",
            code="too-large",
            hint="write .wcnf or .json instead",
        )
    value = np.append(network.weights, 0.0)[network.weight_id] * network.coefficient
    if np.abs(value).max(initial=0.0) > LARGEST_EXPONENT:
        raise LapisError(
            f"a clause adds {value[np.abs(value).argmax()]:g} to the score; its factor is not a "
            "floating-point number",
            code="not-representable",
            hint="write .wcnf or .json instead, or make the rule hard",
        )
    yield "MARKOV\n"
    yield f"{network.num_atoms}\n"
    yield " ".join(["2"] * network.num_atoms) + "\n"
    yield f"{network.num_clauses + network.num_blocks}\n"
    for factor in _factors(network, value):
        yield f"{len(factor.atoms)} {' '.join(map(str, factor.atoms))}\n"
    for factor in _factors(network, value):
        table = [factor.base] * 2 ** len(factor.atoms)
        for entry in factor.special.tolist():
            table[entry] = factor.other
        yield f"\n{len(table)}\n{' '.join(table)}\n"


def _factors(network: Network, value: np.ndarray) -> Iterator[_Factor]:
    """In a table the last variable varies fastest; a clause is false in one entry of it."""
    for clause in range(network.num_clauses):
        start, end = network.clause_start[clause : clause + 2]
        literal = network.literal[start:end]
        atoms = (np.abs(literal) - 1).tolist()
        false = 0
        for negated in (literal < 0).tolist():
            false = 2 * false + negated
        if network.weight_id[clause] < 0:
            yield _Factor(atoms, np.array([false]), "1", "0")
        else:
            yield _Factor(atoms, np.array([false]), repr(float(np.exp(value[clause]))), "1")
    for block in range(network.num_blocks):
        start, end = network.block_start[block : block + 2]
        atoms = network.block_atom[start:end].tolist()
        allowed = [2**position for position in range(len(atoms))]
        if not network.block_exact[block]:
            allowed.append(0)
        yield _Factor(atoms, np.array(allowed), "0", "1")

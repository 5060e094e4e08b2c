"""Write networks as .wcnf (MaxSAT), .uai (graphical models) or .json files, or draw them.

UAI. Every atom is a variable with values 0 and 1. A soft clause is a factor with exp(weight ·
coefficient) where it is true and 1 where it is false; a hard clause and a block are factors of
zeros and ones. The product of all factors in a world is exp(score − constant_score), so log Z of
the file is the log partition function minus `Network.constant_score`, which the format has no
place for.

WCNF (weighted partial MaxSAT, in the format of the evaluations since 2022). A clause of positive
weight w costs w when it is false. One of negative weight costs |w| when it is true: with one
literal l that is the clause ¬l of weight |w|; with more, a new variable b ⇔ the clause is defined
by hard clauses and ¬b costs |w|. Each block is a hard at-least-one clause (if exactly one is
true) and a hard clause for each pair. With

    −score(world) = offset + cost(world) / scale

a cheapest assignment is a most likely world. Weights in the format are integers, so costs are
scaled by a power of ten: the smallest that makes all of them whole, or the largest that keeps
their sum below 2⁵³; the comments at the top contain scale, offset and rounding error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lapis.data.atomic_write import replace_path, require_writable
from lapis.errors import LapisError, TooLarge
from lapis.network.network import Network
from lapis.results.graph import check_drawing

DRAWINGS = (".dot", ".graphml", ".svg")


def check_network_file(path: Path) -> None:
    """Refuse a file that a network cannot be written to, before grounding."""
    if path.suffix in DRAWINGS:
        return check_drawing(path)
    if path.suffix not in (".wcnf", ".uai", ".json"):
        raise LapisError(
            f"{path}: unknown file format",
            code="unknown-format",
            hint="write to a .wcnf, .uai, .json, .dot, .graphml or .svg file",
        )
    require_writable(path)


def write_network(network: Network, path: str | Path) -> None:
    """Write a network atomically, in the format given by the file's suffix."""
    path = Path(path)
    check_network_file(path)
    if path.suffix in DRAWINGS:
        return network.draw().save(path)
    writers = {".wcnf": wcnf_lines, ".uai": uai_lines, ".json": json_lines}

    def write(place: Path) -> None:
        with place.open("wb") as stream:
            for line in writers[path.suffix](network):
                stream.write(line.encode())

    replace_path(path, write)


def json_lines(network: Network) -> Iterator[str]:
    """Format all arrays of a network, as `Network` documents them, and the names of its atoms.

    A world's score is `constant_score` plus Σ weights[weight_id] · coefficient over the soft
    clauses that are true.
    """
    fields: dict[str, object] = {
        "format": "lapis-network",
        "version": 1,
        "num_base_atoms": network.num_base_atoms,
        "constant_score": network.constant_score,
        "atoms": network.atom_names(np.arange(network.num_atoms)),
    }
    for name in (
        "clause_start",
        "literal",
        "weight_id",
        "coefficient",
        "weights",
        "constant_count",
        "block_start",
        "block_atom",
        "block_exact",
        "definition_start",
        "definition_literal",
    ):
        fields[name] = getattr(network, name).tolist()
    separator = "{"
    for name, value in fields.items():
        yield f"{separator}\n{json.dumps(name)}: {json.dumps(value)}"
        separator = ","
    yield "\n}\n"


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
    for factor in _list_factors(network, value):
        yield f"{len(factor.atoms)} {' '.join(map(str, factor.atoms))}\n"
    for factor in _list_factors(network, value):
        table = [factor.base] * 2 ** len(factor.atoms)
        for entry in factor.special.tolist():
            table[entry] = factor.other
        yield f"\n{len(table)}\n{' '.join(table)}\n"


def _list_factors(network: Network, value: np.ndarray) -> Iterator[_Factor]:
    """List the factors; in their tables the last variable varies fastest."""
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
            yield _format_clause("h", row)
        elif amount and positive:
            yield _format_clause(amount, row)
        elif amount and len(row) == 1:
            yield _format_clause(amount, [-row[0]])
        elif amount:
            own = variable[clause]
            yield _format_clause("h", [-own, *row])
            for literal in row:
                yield _format_clause("h", [own, -literal])
            yield _format_clause(amount, [-own])


def scale_costs(cost: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the costs as integers, int64[num_costs], and the power of ten that scales them."""
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
            hint="write .json, which represents blocks directly",
        )
    for block, exact in enumerate(network.block_exact.tolist()):
        start, end = network.block_start[block : block + 2]
        atoms = (network.block_atom[start:end] + 1).tolist()
        if exact:
            yield _format_clause("h", atoms)
        for position, atom in enumerate(atoms):
            for other in atoms[position + 1 :]:
                yield _format_clause("h", [-atom, -other])


def _format_clause(weight: int | str, literals: list[int]) -> str:
    return f"{weight} {' '.join(map(str, literals))} 0\n"

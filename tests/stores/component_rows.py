"""A network as the rows of a parcel, as engines deliver them."""

from __future__ import annotations

import numpy as np

from lapis.grounding.assembly import HARD
from lapis.network.csr import row_starts
from lapis.network.network import Network
from lapis.stores.grounding.stored_atoms import AT_MOST_ONE, DEFINITION, EXACTLY_ONE


def write_columns(network: Network, width: int) -> dict[str, np.ndarray]:
    """Write a network as columns of rows, long rows in pieces of `width` literals."""
    start, literal = network.clause_start, network.literal.astype(np.int64)
    blocks, members = network.block_start, network.block_atom.astype(np.int64)
    definitions, others = network.definition_start, network.definition_literal.astype(np.int64)
    first_atom = np.minimum.reduceat(members, blocks[:-1]) if len(members) else members
    auxiliary = network.num_base_atoms + np.arange(len(definitions) - 1)
    block_kind = np.where(network.block_exact, EXACTLY_ONE, AT_MOST_ONE)
    defined = np.full(len(auxiliary), DEFINITION)
    numbers = np.arange(network.num_clauses)
    parts = [
        cut_rows(start, literal, network.weight_id, numbers, network.coefficient, width),
        cut_rows(blocks, members + 1, block_kind, first_atom, np.ones(len(first_atom)), width),
        cut_rows(definitions, others, defined, auxiliary, np.ones(len(auxiliary)), width),
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def cut_rows(
    start: np.ndarray,
    literal: np.ndarray,
    weight: np.ndarray,
    piece: np.ndarray,
    times: np.ndarray,
    width: int,
) -> dict[str, np.ndarray]:
    """Split rows of any length into pieces of `width` literals."""
    length = np.diff(start)
    pieces = -(-length // width)
    row = np.repeat(np.arange(len(length)), pieces)
    begin = np.repeat(start[:-1], pieces)
    begin += width * (np.arange(len(row)) - np.repeat(row_starts(pieces)[:-1], pieces))
    at = begin[:, None] + np.arange(width)
    inside = at < start[row + 1][:, None]
    table = np.zeros(at.shape, np.int64)
    table[inside] = literal[at[inside]]
    whole = (pieces == 1) & (weight >= HARD)
    columns = {
        "weight": weight.astype(np.int64)[row],
        "piece": np.where(whole, -1, piece)[row].astype(np.int64),
        "n": times.astype(np.float64)[row],
    }
    return columns | {f"l{place}": table[:, place] for place in range(width)}

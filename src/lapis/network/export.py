"""Networks as files that other programs read: .wcnf (MaxSAT), .uai (graphical models), .json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lapis.data.whole_path import require_writable, whole_path
from lapis.errors import LapisError
from lapis.network.export_uai import uai_lines
from lapis.network.export_wcnf import wcnf_lines
from lapis.network.network import Network


def check_network_file(path: Path) -> None:
    """Refuse a file that a network cannot be written to: before it is ground, not after."""
    if path.suffix not in (".wcnf", ".uai", ".json"):
        raise LapisError(
            f"{path}: do not know how to write this",
            code="unknown-format",
            hint="write to a .wcnf, .uai or .json file",
        )
    require_writable(path)


def write_network(network: Network, path: str | Path) -> None:
    """Write a network in the format that the name ends in. The file appears whole or not at all."""
    path = Path(path)
    check_network_file(path)
    writers = {".wcnf": wcnf_lines, ".uai": uai_lines, ".json": json_lines}
    try:
        with whole_path(path) as temporary, temporary.open("wb") as stream:
            for line in writers[path.suffix](network):
                stream.write(line.encode())
    except OSError as error:
        raise LapisError(
            f"cannot write {path}: {error.strerror or error}", code="unwritable-file"
        ) from None


def json_lines(network: Network) -> Iterator[str]:
    """All arrays of a network, as `Network` documents them, and the names of its atoms.

    `constant_score` is the score of the groundings that evidence decides: a world's score is that
    plus Σ weights[weight_id] · coefficient over the soft clauses that are true.
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

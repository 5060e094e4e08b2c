"""Groundings kept on disk, found again by what they were made from.

The key is a hash of the clauses and definitions, the domains and the evidence. Weights are not
part of it: a network is the same whatever they are, and gets the problem's own when it is read.
A file that cannot be read is as good as none.
"""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import numpy as np

from lapis.data.whole_path import whole_path
from lapis.grounding.assembly import signatures
from lapis.network.network import AtomTable, Network
from lapis.problem.problem import Problem

FORMAT = 1  # part of every key; raise it when the meaning of a stored array changes
ARRAYS = (
    "clause_start",
    "literal",
    "weight_id",
    "coefficient",
    "constant_count",
    "block_start",
    "block_atom",
    "block_exact",
    "definition_start",
    "definition_literal",
)


def grounding_key(problem: Problem) -> str:
    """A hash of all that a problem's network depends on, except weights."""
    digest = hashlib.sha256(f"lapis network {FORMAT}\n".encode())
    digest.update(repr(problem.normal_form).encode())
    for name, domain in problem.domains.items():
        digest.update(repr((name, domain.constants)).encode())
    for name, evidence in problem.evidence.items():
        digest.update(repr((name, evidence.predicate, evidence.open)).encode())
        for rows in (evidence.true, evidence.false, evidence.unknown):
            digest.update(repr(rows.shape).encode())
            digest.update(np.ascontiguousarray(rows, np.int32).tobytes())
    return digest.hexdigest()


def save_network(problem: Problem, network: Network, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {name: getattr(network, name) for name in ARRAYS}
    for number, tuples in enumerate(network.atoms.tuples):
        arrays[f"tuples_{number}"] = tuples
    with whole_path(_path(problem, folder)) as temporary, temporary.open("wb") as stream:
        np.savez(
            stream,
            predicates=np.array(network.atoms.predicates, dtype=np.str_),
            offset=network.atoms.offset,
            num_base_atoms=np.int64(network.num_base_atoms),
            **arrays,
        )


def load_network(problem: Problem, folder: Path) -> Network | None:
    """The network saved for the same content, with the problem's weights; None if there is none."""
    try:
        with (
            _path(problem, folder).open("rb") as stream,
            np.load(stream, allow_pickle=False) as stored,
        ):
            predicates = tuple(str(name) for name in stored["predicates"])
            tuples = tuple(stored[f"tuples_{number}"] for number in range(len(predicates)))
            return Network(
                atoms=AtomTable(predicates, stored["offset"], tuples),
                num_base_atoms=int(stored["num_base_atoms"]),
                weights=problem.weight_table.value.copy(),
                domains=problem.domains,
                signatures=signatures(problem),
                **{name: stored[name] for name in ARRAYS},
            )
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _path(problem: Problem, folder: Path) -> Path:
    return folder / f"{grounding_key(problem)}.npz"

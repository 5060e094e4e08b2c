"""Store groundings on disk under a hash of their input.

The key is a hash of the clauses and definitions, the domains and the evidence. Weights are not part
of it; a loaded network gets the problem's weights.

A file is an .npz archive whose comment, its last bytes, is the checksum of the key and of all bytes
before it. The checksum is compared before the file is parsed. Indices are checked against the sizes
of the arrays they refer to, since kernels do not check them. A damaged file is ignored, and the
next grounding replaces it.
"""

from __future__ import annotations

import hashlib
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np

from lapis.data.archives import write_arrays
from lapis.data.atomic_write import replace_path
from lapis.errors import LapisError, Warning, issue_warnings
from lapis.grounding.assembly import predicate_signatures
from lapis.network.network import AtomTable, Network
from lapis.problem.problem import Problem

CHECKSUM_BYTES = 64  # in hexadecimal
FORMAT = 2  # part of every key; raise it when the meaning of a stored array changes
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
    """Return a hash of all that a problem's network depends on, except weights."""
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


def save_grounding(problem: Problem, network: Network, folder: Path) -> None:
    """Store a network; a folder that is full afterwards is a warning, not an error."""
    require_cache(folder)
    key = grounding_key(problem)
    arrays = {
        "predicates": np.array(network.atoms.predicates, dtype=np.str_),
        "offset": network.atoms.offset,
        "num_base_atoms": np.array(network.num_base_atoms),
        **{name: getattr(network, name) for name in ARRAYS},
        **{f"tuples_{number}": rows for number, rows in enumerate(network.atoms.tuples)},
    }

    def write(place: Path) -> None:
        write_arrays(place, arrays)
        with zipfile.ZipFile(place, "a") as archive:
            archive.comment = bytes(CHECKSUM_BYTES)
        with place.open("r+b") as stream:
            content = stream.read()[:-CHECKSUM_BYTES]
            stream.seek(len(content))
            stream.write(_checksum(key, content))

    try:
        replace_path(_path(key, folder), write)
    except LapisError as error:
        issue_warnings([Warning(f"{error.message}; the grounding is not kept", "no-cache")])


def require_cache(folder: Path) -> None:
    """Create a folder of groundings; raise LapisError if it cannot be created."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LapisError(
            f"{folder}: cannot store groundings here: {error.strerror}", code="unwritable"
        ) from None


def load_grounding(problem: Problem, folder: Path) -> Network | None:
    """Load the network stored for the same input, with the problem's weights, or return None."""
    key = grounding_key(problem)
    try:
        stored = _path(key, folder).read_bytes()
    except OSError:
        return None
    if stored[-CHECKSUM_BYTES:] != _checksum(key, memoryview(stored)[:-CHECKSUM_BYTES]):
        return None
    with np.load(BytesIO(stored), allow_pickle=False) as arrays:
        predicates = tuple(str(name) for name in arrays["predicates"])
        tuples = tuple(arrays[f"tuples_{number}"] for number in range(len(predicates)))
        network = Network(
            atoms=AtomTable(predicates, arrays["offset"], tuples),
            num_base_atoms=int(arrays["num_base_atoms"]),
            weights=problem.weight_table.value.copy(),
            domains=problem.domains,
            signatures=predicate_signatures(problem),
            **{name: arrays[name] for name in ARRAYS},
        )
    return network if has_valid_indices(network) else None


def has_valid_indices(network: Network) -> bool:
    """Return whether every index is within the array that it refers to."""
    num_atoms, num_weights = len(network.atoms), len(network.weights)
    num_auxiliary = num_atoms - network.num_base_atoms
    lengths = np.array([len(rows) for rows in network.atoms.tuples], np.int64)

    def are_rows(start: np.ndarray, num_rows: int, members: np.ndarray) -> bool:
        whole = len(start) == num_rows + 1 and start[0] == 0 and start[-1] == len(members)
        return bool(whole and (np.diff(start) >= 0).all())

    def are_within(values: np.ndarray, low: int, high: int) -> bool:
        return bool(((values >= low) & (values < high)).all())

    literals = np.abs(np.concatenate((network.literal, network.definition_literal)))
    return (
        np.array_equal(np.diff(network.atoms.offset), lengths)
        and are_within(np.array([num_auxiliary]), 0, num_atoms + 1)
        and are_rows(network.clause_start, network.num_clauses, network.literal)
        and are_rows(network.block_start, network.num_blocks, network.block_atom)
        and are_rows(network.definition_start, num_auxiliary, network.definition_literal)
        and len(network.coefficient) == network.num_clauses
        and len(network.constant_count) == num_weights
        and are_within(literals, 1, num_atoms + 1)
        and are_within(network.block_atom, 0, num_atoms)
        and are_within(network.weight_id, -1, num_weights)
    )


def _checksum(key: str, content: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(key.encode(), digest_size=CHECKSUM_BYTES // 2)
    digest.update(content)
    return digest.hexdigest().encode()


def _path(key: str, folder: Path) -> Path:
    return folder / f"{key}.npz"

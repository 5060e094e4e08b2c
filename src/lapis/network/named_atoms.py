"""Atoms of a network as results show them: codes and domains, spelled out when asked."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from lapis.data.database import Domain
from lapis.network.network import Network
from lapis.results.atoms import AtomGroup, Atoms, predicate_group


def name_atoms(network: Network, atoms: np.ndarray, world: str = "") -> Atoms:
    """Atoms of a network, int64[num_atoms], in the order given."""
    owner = network.atoms.predicate_of(atoms)
    cuts = np.flatnonzero(np.diff(owner)) + 1
    bounds = [0, *cuts.tolist(), len(atoms)] if len(atoms) else [0]
    return Atoms(
        tuple(
            name_group(network, int(owner[first]), atoms[first:last], world)
            for first, last in pairwise(bounds)
        )
    )


def name_group(network: Network, owner: int, atoms: np.ndarray, world: str) -> AtomGroup:
    """Atoms of one predicate."""
    table = network.atoms
    predicate = table.predicates[owner]
    codes = table.tuples[owner][atoms - table.offset[owner]]
    signature = network.signatures.get(predicate)
    if signature is None:  # auxiliary atoms that stand for failing cubes have numbers
        size = int(codes.max(initial=-1)) + 1
        numbers = Domain("number", tuple(map(str, range(size))))
        columns = (numbers,) * codes.shape[1]
        return predicate_group(predicate, codes, columns, ("number",) * codes.shape[1], world=world)
    domains = [network.domains[name] for name in signature.types]
    return predicate_group(
        predicate, codes, domains, signature.types, function=signature.function, world=world
    )

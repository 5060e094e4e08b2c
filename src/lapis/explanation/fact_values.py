"""The values that atoms have when a fact is taken away or reversed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.explanation.known_atoms import FALSE, SILENT, TRUE
from lapis.explanation.local_network import LocalNetwork
from lapis.explanation.neighbourhood import OPEN
from lapis.registry.options import FactsWithout


class ChangedFact(NamedTuple):
    """A fact, and the values of its atom and its block without it."""

    atom: int
    text: str  # as it is written in the data
    becomes: str
    members: np.ndarray  # int64[num_members], the atom and its block
    value: np.ndarray  # int8[num_members]


def fact_text(local: LocalNetwork, atom: int) -> str:
    """Write a fact as in a data file."""
    name = local.names(np.array([atom]))[0]
    return name if local.state[atom] == TRUE else f"!{name}"


def opposite_text(local: LocalNetwork, atom: int) -> str:
    """Write the opposite of a fact."""
    name = local.names(np.array([atom]))[0]
    return f"!{name}" if local.state[atom] == TRUE else name


def take_away(local: LocalNetwork, atom: int, mode: FactsWithout) -> ChangedFact | None:
    """Return what holds without a fact; None if that changes nothing.

    A removed fact is false if its predicate is closed, and unknown otherwise. A closed block that
    has exactly one value is unknown without its fact.
    """
    may_be_unknown = local.known.may_be_unknown(local.predicate_of(atom))
    unknown = mode == "unknown" or (mode == "removed" and may_be_unknown)
    stated = local.state[atom] == TRUE
    if not unknown and not stated:
        return None
    members = local.block_of(atom)
    value = open_block(local, members, may_be_unknown)
    if not stated and (value == 1).any():
        return None
    value[members == atom] = OPEN if unknown else 0
    becomes = "unknown" if unknown else "false"
    return ChangedFact(atom, fact_text(local, atom), becomes, members, value)


def reverse(local: LocalNetwork, atom: int) -> ChangedFact | None:
    """Return what holds if a fact is false instead of true, or the reverse; None if impossible."""
    members = local.block_of(atom)
    if local.state[atom] == TRUE:
        value = open_block(local, members, local.known.may_be_unknown(local.predicate_of(atom)))
        value[members == atom] = 0
        return ChangedFact(atom, opposite_text(local, atom), "false", members, value)
    others = local.state[members[members != atom]]
    if (others == TRUE).any():
        return None
    value = np.zeros(len(members), np.int8)
    value[members == atom] = 1
    return ChangedFact(atom, opposite_text(local, atom), "true", members, value)


def open_block(local: LocalNetwork, members: np.ndarray, may_be_unknown: bool) -> np.ndarray:
    """Return int8[num_members], the values that the data gives the atoms of a block apart."""
    state = local.state[members]
    value = np.full(len(members), OPEN, np.int8)
    value[state == TRUE] = 1
    value[state == FALSE] = 0
    if not may_be_unknown:
        value[state == SILENT] = 0
    return value


def apply_changes(local: LocalNetwork, changes: list[ChangedFact]) -> np.ndarray:
    """Return int8[num_atoms], the evidence with these changes."""
    value = local.value.copy()
    for change in changes:
        value[change.members] = change.value
    return value

"""The sufficient statistics of a network, and protocols of their moments.

A model with a weight for each word and class has millions of unit ground clauses on a few thousand
atoms. They act on an atom through one number, its *field*. So the weights w enter a network through
a sparse matrix, the design A:

    θ = A·w          n(x) = constant + Aᵀ·z(x)          log Z(w) = w·constant + log Σ_x exp θ·z(x)

with one statistic z for each weight of longer clauses (their true groundings), and one for each
class of atoms with the same unit clauses (the number of true ones). Inference sees a small network
with weights θ; expected counts are Aᵀ·E[z], covariances Aᵀ·Cov[z]·A. The network is grounded once,
and an iteration of learning costs two products with A.

Learning needs E[z], log Z if known, products with Cov[z], and the variances of the counts Aᵀz.
Independent parts of a network (lone atoms, components solved exactly, components sampled) have
moments over the same statistics, which add up. Lone atoms, in no longer clause and no block, are
not in the network: the atoms of a field are independent coins (`ClosedForm`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lapis.network.network import Network

if TYPE_CHECKING:
    from scipy.sparse import csr_array

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Statistics:
    """A network in the form that learning uses."""

    design: csr_array  # float64[num_statistics, num_parameters], A
    constant: np.ndarray  # float64[num_parameters]
    network: Network  # of all atoms but lone ones; its weights are θ, its constant counts 0
    atom: np.ndarray  # int64[network.num_atoms], the atom of the ground network each one is
    field: np.ndarray  # int64[num_ground_atoms], the statistic that counts the atom, −1 for none
    lone_atom: np.ndarray  # int64[num_lone], ground atoms outside `network`
    lone_sign: np.ndarray  # int8[num_lone], 1 or −1 where a hard clause decides, else 0
    num_base_atoms: int  # of the ground network

    @property
    def num_statistics(self) -> int:
        return int(self.design.shape[0])

    @cached_property
    def lone_count(self) -> np.ndarray:
        """float64[num_statistics], the undecided lone atoms of each field."""
        counted = self.field[self.lone_atom[self.lone_sign == 0]]
        return np.bincount(counted[counted >= 0], minlength=self.num_statistics).astype(float)

    @cached_property
    def num_loose(self) -> int:
        """The number of undecided lone atoms without a field: fair coins."""
        return int((self.field[self.lone_atom[self.lone_sign == 0]] < 0).sum())

    @cached_property
    def squared_design(self) -> csr_array:
        """The entries of A squared: the variance of Aᵀz for uncorrelated z is (A∘A)ᵀ·Var[z]."""
        squared = self.design.copy()
        squared.data **= 2
        return squared

    def natural(self, weights: np.ndarray) -> np.ndarray:
        """Return θ = A·w, float64[num_statistics]."""
        return self.design @ weights

    def to_parameters(self, statistics: np.ndarray) -> np.ndarray:
        """Return Aᵀ·z, float64[num_parameters]; of rows float64[…, num_statistics], row by row."""
        return (self.design.T @ statistics.T).T


def gather_statistics(
    network: Network, parameter_of_weight: np.ndarray, num_parameters: int
) -> Statistics:
    """Return the statistics of a ground network; its weights are parameters int64[num_weights]."""
    from scipy.sparse import csr_array, vstack

    from lapis.inference.exact.by_components import single_atoms
    from lapis.network.components import select_components

    is_soft = network.weight_id >= 0
    is_unit = is_soft & (np.diff(network.clause_start) == 1)
    tied = np.unique(network.weight_id[is_soft & ~is_unit])
    ones = np.ones(len(tied))
    columns = parameter_of_weight[tied]
    tied_rows = csr_array((ones, (np.arange(len(tied)), columns)), (len(tied), num_parameters))
    fields, field, offset = find_unit_fields(network, is_unit, parameter_of_weight, num_parameters)
    field[field >= 0] += len(tied)
    design = csr_array(vstack([tied_rows, fields], format="csr"))

    merged = merge_units(network, np.flatnonzero(~is_unit), tied, field, design.shape[0])
    single = single_atoms(merged)
    lone_atom = np.flatnonzero(single)
    lone_sign = decided_signs(merged, single)[lone_atom]
    core = select_components(merged, ~single)
    sure = field[lone_atom[lone_sign > 0]]
    sure_counts = np.bincount(sure[sure >= 0], minlength=design.shape[0]).astype(float)
    decided = np.bincount(parameter_of_weight, network.constant_count, num_parameters)
    return Statistics(
        design,
        decided + offset + design.T @ sure_counts,
        core.network,
        core.atom,
        field,
        lone_atom,
        lone_sign,
        network.num_base_atoms,
    )


def find_unit_fields(
    network: Network, is_unit: np.ndarray, parameter_of_weight: np.ndarray, num_parameters: int
) -> tuple[csr_array, np.ndarray, np.ndarray]:
    """Return the distinct rows of unit clauses, the row of each atom (−1: none), and the constants.

    A clause a of coefficient c counts c·x, a clause ¬a counts c − c·x.
    """
    from scipy.sparse import csr_array

    from lapis.inference.exact.by_components import first_equal

    literal = network.literal[network.clause_start[:-1][is_unit]]
    parameter = parameter_of_weight[network.weight_id[is_unit]]
    size = network.coefficient[is_unit]
    offset = np.bincount(parameter, np.where(literal < 0, size, 0.0), num_parameters)
    entries = (np.sign(literal) * size, (np.abs(literal) - 1, parameter))
    rows = csr_array(entries, (network.num_atoms, num_parameters))
    rows.sum_duplicates()
    rows.eliminate_zeros()
    weighed = np.flatnonzero(np.diff(rows.indptr))
    rows = rows[weighed]
    words = np.empty((rows.nnz, 2), np.int64)
    words[:, 0] = rows.indices
    words[:, 1] = rows.data.view(np.int64)
    first = first_equal(2 * rows.indptr.astype(np.int64), words.reshape(-1))
    distinct, number = np.unique(first, return_inverse=True)
    field = np.full(network.num_atoms, -1, np.int64)
    field[weighed] = number
    return rows[distinct], field, offset


def merge_units(
    network: Network, kept: np.ndarray, tied: np.ndarray, field: np.ndarray, num_statistics: int
) -> Network:
    """Return the kept clauses, weights renumbered, and a unit clause for each atom with a field."""
    from lapis.network.csr import take_rows

    start, literal = take_rows(network.clause_start, network.literal, kept)
    weight_id = network.weight_id[kept]
    number = np.where(weight_id < 0, -1, np.searchsorted(tied, weight_id))
    atom = np.flatnonzero(field >= 0)
    return replace(
        network,
        clause_start=np.concatenate((start, start[-1] + np.arange(1, len(atom) + 1))),
        literal=np.concatenate((literal, atom + 1)).astype(np.int32),
        weight_id=np.concatenate((number, field[atom])).astype(np.int32),
        coefficient=np.concatenate((network.coefficient[kept], np.ones(len(atom)))),
        weights=np.zeros(num_statistics),
        constant_count=np.zeros(num_statistics),
    )


def decided_signs(network: Network, single: np.ndarray) -> np.ndarray:
    """Return 1 or −1 for single atoms that a hard clause makes true or false, int8[num_atoms].

    Else 0.
    """
    from lapis.network.satisfiability import contradiction_error

    hard = (network.weight_id < 0) & (np.diff(network.clause_start) == 1)
    literal = network.literal[network.clause_start[:-1][hard]]
    literal = literal[single[np.abs(literal) - 1]]
    signs = np.zeros(network.num_atoms, np.int8)
    signs[literal[literal > 0] - 1] = 1
    denied = -literal[literal < 0] - 1
    both = denied[signs[denied] > 0]
    if len(both):
        raise contradiction_error(network, int(network.component[both[0]]))
    signs[denied] = -1
    return signs


class Moments(Protocol):
    """The moments of a part of a network at natural parameters θ."""

    @property
    def log_partition(self) -> float | None:
        """None if unknown."""

    @property
    def mean(self) -> np.ndarray:
        """float64[num_statistics], E[z]."""

    def mean_variance(self) -> np.ndarray | None:
        """Return the squared standard error of Aᵀ·E[z], float64[num_parameters]; None if exact."""

    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        """Return Cov[z]·v, float64[num_statistics]."""

    def count_variance(self) -> np.ndarray:
        """Return the diagonal of Aᵀ·Cov[z]·A, float64[num_parameters]."""


class MomentSource(Protocol):
    """A method that computes the moments of a part of a network."""

    @property
    def name(self) -> str: ...

    @property
    def is_exact(self) -> bool: ...

    def moments(self, natural: np.ndarray) -> Moments: ...


@runtime_checkable
class ResumableSource(Protocol):
    """A source that continues from its last state: a chain or a search."""

    def keep(self) -> list[np.ndarray]:
        """Return its state."""

    def resume(self, kept: Sequence[np.ndarray]) -> None:
        """Restore the state of another source of the same network."""


@dataclass(frozen=True)
class ClosedForm:
    """The moments of lone atoms; with `most_likely` those of their best values."""

    statistics: Statistics
    most_likely: bool = False
    name: str = "closed form"

    @property
    def is_exact(self) -> bool:
        return not self.most_likely

    def moments(self, natural: np.ndarray) -> LoneMoments:
        if self.most_likely:
            return LoneMoments(self.statistics, natural, (natural > 0).astype(float))
        return LoneMoments(self.statistics, natural, np.exp(-np.logaddexp(0.0, -natural)))


@dataclass(frozen=True)
class LoneMoments:
    """m_f atoms in field f, each true with probability p_f = 1 / (1 + exp(−θ_f))."""

    statistics: Statistics
    natural: np.ndarray  # float64[num_statistics]
    probability: np.ndarray  # float64[num_statistics], p

    @property
    def log_partition(self) -> float:
        coins = self.statistics.lone_count @ np.logaddexp(0.0, self.natural)
        return float(coins + self.statistics.num_loose * np.log(2.0))

    @property
    def mean(self) -> np.ndarray:
        return self.statistics.lone_count * self.probability

    @property
    def variance(self) -> np.ndarray:
        """float64[num_statistics]; statistics of lone atoms are independent."""
        return self.mean * np.exp(-np.logaddexp(0.0, self.natural))

    def mean_variance(self) -> None:
        return None

    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        return self.variance * direction

    def count_variance(self) -> np.ndarray:
        return self.statistics.squared_design.T @ self.variance

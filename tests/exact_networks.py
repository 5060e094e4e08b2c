"""Small random networks of clauses, blocks and definitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lapis.grounding.assembly import definition_clauses
from lapis.network.network import AtomTable, Network

WEIGHTS = (1.0, -0.5, 0.0, 2.5, -20.0, 20.0, 0.3)


def starts(rows: Sequence[Sequence[int]]) -> np.ndarray:
    return np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)


def flat(rows: Sequence[Sequence[int]]) -> np.ndarray:
    return np.array([entry for row in rows for entry in row], np.int32)


def make_network(
    num_base: int,
    clauses: Sequence[tuple[Sequence[int], int, float]],  # literals, weight id, coefficient
    weights: Sequence[float] = WEIGHTS,
    blocks: Sequence[tuple[Sequence[int], bool]] = (),
    definitions: Sequence[Sequence[int]] = (),
    constant_count: np.ndarray | None = None,
) -> Network:
    """A network of atoms `Atom(0)`, …; definitions get their hard clauses here."""
    rows = [list(literals) for literals, _, _ in clauses]
    hard_start, hard_literal = definition_clauses(num_base, starts(definitions), flat(definitions))
    hard = len(hard_start) - 1
    names = ["Atom"] + [f"some{k}" for k in range(len(definitions))]
    sizes = [num_base] + [1] * len(definitions)
    table = AtomTable(
        tuple(names),
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        tuple(np.arange(size, dtype=np.int32)[:, None] for size in sizes),
    )
    start = starts(rows)
    return Network(
        table,
        num_base,
        np.concatenate((start, hard_start[1:] + start[-1])),
        np.concatenate((flat(rows), hard_literal)),
        np.array([w for _, w, _ in clauses] + [-1] * hard, np.int32),
        np.array([c for _, _, c in clauses] + [1.0] * hard, np.float64),
        np.array(weights, np.float64),
        np.zeros(len(weights)) if constant_count is None else constant_count,
        starts([atoms for atoms, _ in blocks]),
        flat([atoms for atoms, _ in blocks]),
        np.array([exact for _, exact in blocks], bool),
        starts(definitions),
        flat(definitions),
    )


def random_network(
    rng: np.random.Generator,
    num_base: int | None = None,
    num_clauses: int | None = None,
    max_length: int = 4,
    hard: float = 0.1,
) -> Network:
    """Draw a network with blocks, nested definitions, hard clauses and varied weights."""
    num_base = int(rng.integers(1, 11)) if num_base is None else num_base
    blocks, free = [], list(rng.permutation(num_base))
    while len(free) > 1 and rng.random() < 0.4:
        size = min(len(free), int(rng.integers(1, 5)))
        blocks.append(([int(a) for a in free[:size]], bool(rng.random() < 0.5)))
        free = free[size:]
    definitions: list[list[int]] = []
    for _ in range(int(rng.integers(0, 4)) if rng.random() < 0.5 else 0):
        definitions.append(random_literals(rng, num_base + len(definitions), max_length))
    clauses = []
    num_clauses = int(rng.integers(0, 14)) if num_clauses is None else num_clauses
    for _ in range(num_clauses):
        weight_id = -1 if rng.random() < hard else int(rng.integers(len(WEIGHTS)))
        literals = random_literals(rng, num_base + len(definitions), max_length)
        clauses.append((literals, weight_id, float(rng.choice([1.0, 2.0, 0.5]))))
    constants = rng.integers(-2, 5, len(WEIGHTS)).astype(np.float64)
    return make_network(num_base, clauses, WEIGHTS, blocks, definitions, constants)


def random_literals(rng: np.random.Generator, num_atoms: int, max_length: int) -> list[int]:
    length = min(num_atoms, int(rng.integers(1, max_length + 1)))
    atoms = np.sort(rng.choice(num_atoms, length, replace=False)) + 1
    return [int(a) for a in atoms * rng.choice([-1, 1], length)]


def scored_worlds(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """All possible worlds, bool[num_worlds, num_atoms], and their scores."""
    number = np.arange(2**network.num_base_atoms)
    assignments = (number[:, None] >> np.arange(network.num_base_atoms)) & 1 == 1
    worlds = np.array([network.complete(base) for base in assignments])
    worlds = worlds[[network.is_feasible(world) for world in worlds]]
    return worlds, np.array([network.score(world) for world in worlds])


def possible_worlds(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """All possible worlds, bool[num_worlds, num_atoms], and their probabilities."""
    worlds, score = scored_worlds(network)
    weight = np.exp(score - score.max())
    return worlds, weight / weight.sum()


def log_reference(network: Network) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """log Z, marginals, log-odds and expected counts, by log Σ exp; ValueError without a world."""
    worlds, score = scored_worlds(network)
    log_partition = log_sum_exp(score)
    probability = np.exp(score - log_partition)
    base = worlds[:, : network.num_base_atoms]
    log_odds = [
        (log_sum_exp(score[own]) if own.any() else -np.inf)
        - (log_sum_exp(score[~own]) if not own.all() else -np.inf)
        for own in base.T
    ]
    counts = np.array([network.counts(world) for world in worlds])
    return log_partition, probability @ base, np.array(log_odds), probability @ counts


def log_sum_exp(score: np.ndarray) -> float:
    return float(score.max() + np.log(np.exp(score - score.max()).sum()))


def chance_of(samples: np.ndarray, worlds: np.ndarray, probability: np.ndarray) -> float:
    """The p-value of the samples by a χ² test over worlds, the rare ones pooled."""
    from scipy.stats import chi2

    place = {world.tobytes(): index for index, world in enumerate(worlds)}
    observed = np.bincount([place[s.tobytes()] for s in samples], minlength=len(worlds))
    expected = probability * len(samples)
    rare = expected < 8
    pooled = [np.append(values[~rare], values[rare].sum()) for values in (observed, expected)]
    keep = pooled[1] >= 8
    if not keep[-1] and pooled[0][-1] > 100:
        return 0.0
    statistic = ((pooled[0][keep] - pooled[1][keep]) ** 2 / pooled[1][keep]).sum()
    return float(chi2.sf(statistic, max(1, keep.sum() - 1)))

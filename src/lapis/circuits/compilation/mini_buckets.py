"""Mini-bucket elimination: an upper bound of log Z, and particles that satisfy hard tables.

If elimination would make a table too large, the tables that meet at a variable are partitioned into
groups that fit, and each group is summed out by itself, in a norm. With weights w_j > 0 that sum to
1 (Hölder's inequality),

    Σ_v Π_j f_j(v, S_j)  ≤  Π_j [ Σ_v f_j(v, S_j)^{1/w_j} ]^{w_j}

(Dechter and Rish, Mini-Buckets, 2003; weighted: Liu and Ihler, 2011). The result is an upper bound
of log Z, exact if no bucket was split. The messages also define a proposal: variables are set in
the reverse order, each given those set before,

    q(v | later) ∝ Π f(v, later),

and the weight of a particle is multiplied by Σ_v Π f(v, later) over the messages that the variable
had sent; the factor is 1 where the bucket was not split. Particles are resampled when their weights
have diverged (sequential Monte Carlo). The mean weight is an unbiased estimate of Z. Zeros of
tables and messages are kept, so a surviving particle is a possible world. Cost shifting between
groups and optimised weights would tighten the bound; they are not implemented.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lapis.circuits.compilation.numeric_elimination import (
    axis_strides,
    elimination_times,
    find_elimination_order,
    next_row,
)
from lapis.circuits.compilation.partition import Placed, group_tables
from lapis.circuits.factor_graph import FactorGraph
from lapis.runtime.kernels import entry
from lapis.runtime.progress import Stop

MAX_ENTRIES = 3e7  # of all messages
LARGEST = 1 << 21  # entries of one message in the first plan
NUM_PARTICLES, NUM_RUNS = 10_000, 4
WORK = "drawing particles"
WORN = 0.5  # share of effective particles below which they are resampled


class Message(NamedTuple):
    scope: np.ndarray  # int32[...]
    value: np.ndarray  # float64[...], the last variable of the scope fastest; the largest is 1
    log_scale: float


class Bucket(NamedTuple):
    variable: int
    tables: list[Message]  # of the model, and received
    sent: list[Message]


class Buckets(NamedTuple):
    bucket: list[Bucket]  # in the order of elimination
    log_bound: float  # at least log Z
    num_splits: int  # messages beyond one for each variable
    size: np.ndarray  # int32[num_variables]


class Particles(NamedTuple):
    rows: np.ndarray  # int32[num_particles, num_variables], worlds
    weight: np.ndarray  # float64[num_particles], adding up to 1
    log_mean: float  # an estimate of log Z; −inf if none survived


def fill_buckets(graph: FactorGraph, seed: int = 0, stop: Stop | None = None) -> Buckets:
    """Compute the messages of a model without impossible states, none too large."""
    stop = stop or Stop()
    order = find_elimination_order(graph, np.inf, seed, 1).variable
    constant, _, tables = group_tables(graph, order)
    largest = LARGEST
    while True:
        stop.check(WORK)
        groups = plan_groups(graph.size, order, tables, largest)
        scopes = [scope for step in groups for _, scope in step]
        entries = sum(float(np.prod(graph.size[scope], dtype=np.float64)) for scope in scopes)
        if entries <= MAX_ENTRIES or largest <= 2:
            break
        largest //= 2
    return send_messages(graph.size, order, tables, groups, constant, stop)


Groups = list[list[tuple[list[int], np.ndarray]]]  # of each step: members, and the scope sent


def plan_groups(size: np.ndarray, order: np.ndarray, tables: list[Placed], largest: int) -> Groups:
    """Partition the tables of each bucket into groups: widest first, each where it fits best."""
    time = elimination_times(order)
    waiting: list[list[np.ndarray]] = [[] for _ in order]
    for step, scope, _ in tables:
        waiting[step].append(scope)
    groups: Groups = []
    for step, v in enumerate(order.tolist()):
        scopes = waiting[step]
        grouped: list[tuple[list[int], np.ndarray]] = []
        for number in sorted(range(len(scopes)), key=lambda n: -len(scopes[n])):
            own = scopes[number]
            best, added = -1, math.inf
            for place, (_, joined) in enumerate(grouped):
                union = np.union1d(joined, own)
                entries = float(np.prod(size[union], dtype=np.float64)) / size[v]
                if entries <= largest and len(union) - len(joined) < added:
                    best, added = place, len(union) - len(joined)
            if best < 0:
                grouped.append(([number], own))
            else:
                members, joined = grouped[best]
                grouped[best] = [*members, number], np.union1d(joined, own)
        sent = []
        for members, joined in grouped:
            rest = joined[joined != v]
            rest = rest[np.argsort(-time[rest], kind="stable")].astype(np.int32)
            sent.append((members, rest))
            if len(rest):
                waiting[int(time[rest].min())].append(rest)
        groups.append(sent)
    return groups


def send_messages(
    size: np.ndarray,
    order: np.ndarray,
    tables: list[Placed],
    groups: Groups,
    log_bound: float,
    stop: Stop,
) -> Buckets:
    """Compute the messages of a plan."""
    time = elimination_times(order)
    waiting: list[list[Message]] = [[] for _ in order]
    for step, scope, value in tables:
        waiting[step].append(Message(scope.astype(np.int32), value, 0.0))
    buckets, num_splits = [], 0
    for step, v in enumerate(order.tolist()):
        stop.check(WORK)
        received, sent = waiting[step], []
        if not groups[step]:
            log_bound += math.log(size[v])
        num_splits += max(0, len(groups[step]) - 1)
        for members, rest in groups[step]:
            axes = np.concatenate((rest, [v])).astype(np.int32)
            shape = size[axes].astype(np.int64)
            parts = [received[number] for number in members]
            strides = np.array([axis_strides(part.scope, axes, size) for part in parts], np.int64)
            begins = np.cumsum([0, *(len(part.value) for part in parts)])[:-1]
            value = np.empty(int(np.prod(shape[:-1])))
            sum_norm(
                np.concatenate([part.value for part in parts]), shape, strides, begins,
                1.0 / len(groups[step]), value, np.zeros(len(shape), np.int64),
            )  # fmt: skip
            top = float(value.max())
            if top == 0.0:
                return Buckets([], -math.inf, num_splits, size)
            value /= top
            log_bound += math.log(top)
            message = Message(rest, value, math.log(top))
            sent.append(message)
            if len(rest):
                waiting[int(time[rest].min())].append(message)
        buckets.append(Bucket(v, received, sent))
        waiting[step] = []
    return Buckets(buckets, log_bound, num_splits, size)


def draw_particles(
    buckets: Buckets, seed: int, num_particles: int, stop: Stop | None = None
) -> Particles:
    """Draw particles in the reverse order of elimination."""
    rng = np.random.default_rng(seed)
    size = buckets.size
    rows = np.zeros((num_particles, len(size)), np.int32)
    log_weight = np.zeros(num_particles)
    if buckets.log_bound == -math.inf:
        return Particles(rows, np.zeros(num_particles), -math.inf)
    log_mean = buckets.log_bound
    for bucket in reversed(buckets.bucket):
        if stop is not None:
            stop.check(WORK)
        v = bucket.variable
        likely = np.ones((num_particles, size[v]))
        for table in bucket.tables:
            likely *= read_entries(table, rows, v, size)
        total = likely.sum(axis=1)
        edges = np.cumsum(likely, axis=1)
        drawn = rng.random(num_particles) * total
        rows[:, v] = np.minimum((drawn[:, None] >= edges).sum(axis=1), size[v] - 1)
        if len(bucket.sent) < 2 and total.min() > 0.0:
            continue  # the factor is 1
        with np.errstate(divide="ignore", invalid="ignore"):
            log_weight += np.log(total)
            for message in bucket.sent:
                log_weight -= message.log_scale + np.log(
                    read_entries(message, rows, None, size)[:, 0]
                )
        log_weight[total <= 0.0] = -math.inf
        top = log_weight.max()
        if top == -math.inf:
            return Particles(rows, np.zeros(num_particles), -math.inf)
        weight = np.exp(log_weight - top)
        if weight.sum() ** 2 < WORN * num_particles * np.square(weight).sum():
            log_mean += top + math.log(weight.mean())
            rows = rows[resample(weight, num_particles, rng)]
            log_weight = np.zeros(num_particles)
    top = log_weight.max()
    weight = np.exp(log_weight - top)
    return Particles(rows, weight / weight.sum(), log_mean + top + math.log(weight.mean()))


def resample(weight: np.ndarray, num_particles: int, rng: np.random.Generator) -> np.ndarray:
    """int64[num_particles], particles drawn by their weights (systematic resampling)."""
    places = (rng.random() + np.arange(num_particles)) / num_particles
    chosen = np.searchsorted(np.cumsum(weight) / weight.sum(), places)
    return np.minimum(chosen, len(weight) - 1)


class Estimate(NamedTuple):
    log_partition: float  # of the mean of several runs; −inf if no particle survived
    stderr: float
    bound: float  # at least log Z
    exact: bool  # no bucket was split
    rows: np.ndarray  # int32[num_particles, num_variables], worlds drawn by their weights
    runs: list[Particles]


def estimate_partition(
    graph: FactorGraph, seed: int, num_particles: int = NUM_PARTICLES, stop: Stop | None = None
) -> Estimate:
    """Estimate log Z by independent runs, and return their worlds.

    The model has no impossible states. TooLarge (`stopped`) if the runs do not end in time: the
    standard error needs all of them.
    """
    buckets = fill_buckets(graph, seed, stop)
    num_runs = NUM_RUNS if buckets.num_splits else 1
    runs = [draw_particles(buckets, seed + n, num_particles, stop) for n in range(num_runs)]
    log_mean = np.array([run.log_mean for run in runs])
    top = float(log_mean.max())
    if top == -math.inf:
        nothing = runs[0].rows[:0]
        return Estimate(top, math.inf, buckets.log_bound, buckets.num_splits == 0, nothing, [])
    share = np.exp(log_mean - top)
    mean = float(share.mean())
    spread = float(share.std(ddof=1)) / math.sqrt(num_runs) / mean if num_runs > 1 else 0.0
    weight = np.concatenate([run.weight * own for run, own in zip(runs, share, strict=True)])
    chosen = resample(weight, num_particles, np.random.default_rng(seed))
    rows = np.concatenate([run.rows for run in runs])[chosen]
    return Estimate(
        top + math.log(mean), spread, buckets.log_bound, buckets.num_splits == 0, rows, runs
    )


def read_entries(
    table: Message, rows: np.ndarray, variable: int | None, size: np.ndarray
) -> np.ndarray:
    """Return the entries of a table for all rows, [num_rows, states of the variable or 1]."""
    place = np.zeros((len(rows), 1), np.int64)
    for v in table.scope.tolist():
        state = np.arange(size[v])[None] if v == variable else rows[:, v, None]
        place = place * size[v] + state
    return np.asarray(table.value[place])


@entry
def sum_norm(memory, shape, strides, at, weight, message, digit):  # type: ignore[no-untyped-def]
    """Fill the message: the norm of the last axis with exponent 1/weight."""
    num_axes, num_tables, num_states = len(shape), len(at), shape[-1]
    for row in range(len(message)):
        total, top = 0.0, 0.0
        for state in range(num_states):
            term = 1.0
            for number in range(num_tables):
                term *= memory[at[number] + state * strides[number, num_axes - 1]]
            if weight == 1.0:
                total += term
            elif term > top:
                total = total * (top / term) ** (1.0 / weight) + 1.0
                top = term
            elif term > 0.0:
                total += (term / top) ** (1.0 / weight)
        message[row] = total if weight == 1.0 else top * total**weight
        next_row(at, strides, shape, digit)

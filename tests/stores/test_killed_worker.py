"""Killing a worker among a hundred thousand components does not change the answers."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from lapis.stores import Store, fetch_all, open_store
from lapis.stores.components.packing import PackedComponents, StoreLimits
from lapis.stores.components.solving import ATOM, SolveRequest, solve_parcels
from lapis.stores.spark import SparkStore
from lapis.stores.store import ScratchTables

pytestmark = pytest.mark.spark

NUM_COMPONENTS = 100_000


def load_components(store: Store) -> PackedComponents:
    """Load rings of 12 to 20 atoms with chords: 100,000 components with different counts."""
    rng = np.random.default_rng(0)
    size = rng.integers(12, 21, NUM_COMPONENTS)
    first = np.concatenate(([0], np.cumsum(size)[:-1]))
    component = np.repeat(np.arange(NUM_COMPONENTS), size)
    place = np.arange(size.sum()) - first[component]
    literal, weight = [], []
    for step, kind in ((0, 0), (1, 1), (5, 2)):
        other = first[component] + (place + step) % size[component]
        one = first[component] + place
        literal.append(np.stack((-(one + 1), np.where(step == 0, 0, other + 1)), axis=1))
        weight.append(np.full(len(one), kind))
    literals, weights = np.concatenate(literal), np.concatenate(weight)
    parcels = 64
    table = store.load(
        "components",
        {
            "parcel": np.tile(component, 3) % parcels,
            "weight": weights,
            "piece": np.full(len(weights), -1),
            "n": rng.integers(1, 4, len(weights)).astype(float),
            "l0": literals[:, 0],
            "l1": literals[:, 1],
        },
    )
    return PackedComponents(table, parcels, NUM_COMPONENTS)


def solve_all(store: Store, packed: PackedComponents) -> dict[str, np.ndarray]:
    request = SolveRequest("infer", "auto", np.array([0.4, 0.9, -0.7]))
    with ScratchTables(store) as scratch:
        answers = solve_parcels(scratch, packed, request, StoreLimits())
        return fetch_all(
            store, f"SELECT number, value FROM {answers} WHERE kind = {ATOM} ORDER BY number"
        )


def executors() -> list[int]:
    """Return the worker processes of a local cluster: descendants of this process."""
    parent = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The name, in parentheses, may contain any text; the state and the parent follow.
            parent[int(process.name)] = int(
                (process / "stat").read_text().rpartition(")")[2].split()[1]
            )

    def is_ours(process: int) -> bool:
        while process in parent and process != os.getpid():
            process = parent[process]
        return process == os.getpid()

    found = []
    for process in filter(is_ours, parent):
        with suppress(OSError):
            if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_bytes():
                found.append(process)
    return found


def test_a_killed_worker_changes_nothing() -> None:
    with open_store("local-cluster[2,1,1024]") as store:
        packed = load_components(store)
        killed: list[int] = []
        done = threading.Event()

        def kill() -> None:
            """Kills a worker once some answers are there, in the middle of the others."""
            assert isinstance(store, SparkStore)
            tracker = store.session.sparkContext.statusTracker()
            while not done.is_set():
                for stage in tracker.getActiveStageIds():
                    told = tracker.getStageInfo(stage)
                    if told and told.numTasks == packed.num_parcels and told.numCompletedTasks > 5:
                        killed.append(executors()[0])
                        os.kill(killed[0], signal.SIGKILL)
                        return
                time.sleep(0.05)

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            with_a_death = solve_all(store, packed)
        finally:
            done.set()
            thread.join()
        assert len(killed) == 1
        without = solve_all(store, packed)
    assert len(without["number"]) > 12 * NUM_COMPONENTS
    for name in ("number", "value"):
        np.testing.assert_array_equal(with_a_death[name], without[name])

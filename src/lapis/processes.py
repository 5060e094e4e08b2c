"""Processes that work for this one and do not run the user's script again.

They are spawned, not forked: the threads of compiled code survive no fork. A spawned process
imports the main module of its parent before anything else, for functions that may have been
defined there. So a plain script that asks for two jobs would be run a second time by each of them,
and Python ends it with a page about `if __name__ == "__main__"`. What we send is defined in Lapis,
so our processes are told of no main module, unless the script hands over a function of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from pickle import PicklingError
from types import ModuleType
from typing import Any


class WorkerProcess(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # the hook of multiprocessing for how processes start
        try:
            with hidden_main():
                return SpawnProcess._Popen(process_obj)
        except PicklingError:  # it takes something of the script's along
            return SpawnProcess._Popen(process_obj)


class WorkerContext(SpawnContext):
    Process = WorkerProcess


WORKERS = WorkerContext()


@contextmanager
def hidden_main() -> Iterator[None]:
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main

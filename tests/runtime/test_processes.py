"""Scripts without `if __name__ == "__main__":` can use several jobs."""

from __future__ import annotations

import math
import multiprocessing
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from lapis.runtime.processes import as_completed, worker_pool
from lapis.runtime.progress import Stop

WORLDS = """
    import lapis
    print("begun")
    model = lapis.parse("Smokes(person)\\nPerson(person)\\nSmokes(x)")
    worlds = [lapis.Database.parse(f"Smokes(A{i}) Person(A{i}) Person(B{i})") for i in range(2)]
"""
SCRIPTS = {
    "cross_validate": """
        result = lapis.cross_validate(model, worlds, query=["Smokes"], jobs=2)
        print(len(result.folds))
    """,
    "pool": """
        from lapis.runtime.processes import worker_pool
        with worker_pool(2) as pool:
            print(len(list(pool.map(lapis.parse, ["P(t)", "Q(t)"]))))
    """,
}
OWN_LEARNER = """
    from lapis.evaluation.cross_validation import LearnerOutput
    def learn(task):
        return LearnerOutput(task.model, {"mine": task.number})
    result = lapis.cross_validate(model, worlds, query=["Smokes"], jobs=2, learn=learn)
    print([fold.account["mine"] for fold in result.folds])
"""


def run_script(folder: Path, *parts: str) -> list[str]:
    script = folder / "script.py"
    script.write_text("".join(textwrap.dedent(part) for part in parts), encoding="utf-8")
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_plain_script_is_run_once(name: str, tmp_path: Path) -> None:
    assert run_script(tmp_path, WORLDS, SCRIPTS[name]) == ["begun", "2"]


def test_a_function_of_the_script_goes_to_other_processes(tmp_path: Path) -> None:
    assert run_script(tmp_path, WORLDS, OWN_LEARNER) == ["begun", "[1,", "2]"]


def test_the_main_module_stays_as_it_is() -> None:
    main = sys.modules["__main__"]
    with worker_pool(1) as pool:
        assert pool.submit(math.sqrt, 4.0).result() == 2.0
        assert sys.modules["__main__"] is main


def test_an_error_arrives_with_the_traceback_of_its_process() -> None:
    with worker_pool(1) as pool, pytest.raises(ValueError, match="math domain error") as caught:
        pool.submit(math.sqrt, -1.0).result()
    assert "Traceback" in str(caught.value.__cause__)


def test_processes_end_with_the_block_however_busy() -> None:
    began = time.monotonic()
    with worker_pool(2) as pool:
        assert pool.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN
        waiting = [pool.submit(time.sleep, 3600) for _ in range(4)]
        stop = Stop(lambda: time.monotonic() > began + 0.5)
        with pytest.raises(KeyboardInterrupt):
            next(as_completed(waiting, stop))
    assert multiprocessing.active_children() == []

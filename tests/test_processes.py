"""Scripts as people write them: no `if __name__ == "__main__":` around them, and several jobs."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

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
        from concurrent.futures import ProcessPoolExecutor
        from lapis.processes import WORKERS
        with ProcessPoolExecutor(2, mp_context=WORKERS) as pool:
            print(len(list(pool.map(lapis.parse, ["P(t)", "Q(t)"]))))
    """,
}
OWN_LEARNER = """
    from lapis.evaluation.fold_jobs import Learned
    def learn(task):
        return Learned(task.model, {"mine": task.number})
    if __name__ == "__main__":
        result = lapis.cross_validate(model, worlds, query=["Smokes"], jobs=2, learn=learn)
        print(len(result.folds))
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


def test_a_learner_of_the_script_is_found_by_other_processes(tmp_path: Path) -> None:
    assert run_script(tmp_path, WORLDS, OWN_LEARNER)[-1] == "2"

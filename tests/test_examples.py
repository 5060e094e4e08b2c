"""Every script of `examples/` runs in a folder of its own, without the data of benchmarks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lapis

EXAMPLES = Path(__file__).parents[1] / "examples"
SOURCE = Path(lapis.__file__).parents[1]


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_runs(script: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES, tmp_path / "examples")
    environment = {name: value for name, value in os.environ.items() if name != "LAPIS_DATA"}
    environment["PYTHONPATH"] = str(SOURCE)
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(folder / script.name)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout


def test_the_diagnosis_of_asia_is_the_known_one() -> None:
    """The figures of the paper: P(bronc | asia, dysp), and the marginals without evidence."""
    model = lapis.read(EXAMPLES / "asia.bif")
    answer = lapis.infer(model)
    for state, probability in (("tub=yes", 0.0104), ("lung=yes", 0.055), ("bronc=yes", 0.45)):
        assert answer[state] == pytest.approx(probability, abs=1e-12)
    assert answer["either=yes"] == pytest.approx(0.055 + 0.0104 - 0.055 * 0.0104, abs=1e-12)

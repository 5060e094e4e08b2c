"""What a release is made of: one version, one list of dependencies, files that tools can read."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import lapis

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIREMENTS = [re.sub(r"\[.*?\]", "", line) for line in PROJECT["dependencies"]]
CONDA_NAMES = {"duckdb": "python-duckdb"}  # where conda-forge has another name


def read_yaml(name: str) -> dict[str, object]:
    found = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def name_of(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match is not None
    return match[0]


def test_there_is_one_version() -> None:
    recipe = read_yaml("conda/recipe.yaml")
    assert lapis.__version__ == PROJECT["version"]
    assert recipe["context"] == {"version": PROJECT["version"]}
    assert read_yaml("CITATION.cff")["version"] == PROJECT["version"]
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_conda_recipe_has_the_dependencies_of_the_project() -> None:
    recipe = read_yaml("conda/recipe.yaml")
    found = recipe["requirements"]
    assert isinstance(found, dict)
    names = {CONDA_NAMES.get(name_of(line), name_of(line)): line for line in REQUIREMENTS}
    wanted = {f"{name} {line[len(name_of(line)) :]}" for name, line in names.items()}
    assert set(found["run"]) == {*wanted, f"python {PROJECT['requires-python']}"}


def test_all_extras_are_in_all() -> None:
    extras = PROJECT["optional-dependencies"]
    (whole,) = extras["all"]
    assert set(re.findall(r"[\w-]+", whole.partition("[")[2])) == set(extras) - {
        "all", "dev", "docs", "test-web",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["oldest", "newest"])
def test_a_lock_file_has_every_dependency_and_names_no_host(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert "--" not in text
    pinned = set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE))
    assert pinned >= {name_of(line) for line in REQUIREMENTS}
    assert pinned >= {"pytest", "pandas", "matplotlib"}


def test_the_image_runs_as_a_user_and_keeps_kernels() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER \d+$", text, re.MULTILINE)
    assert "NUMBA_CACHE_DIR" in text
    extras = re.search(r"\*\.whl\)\[([\w,]+)\]", text)
    assert extras is not None
    assert set(extras[1].split(",")) <= set(PROJECT["optional-dependencies"])


def test_the_workflow_runs_the_lock_files_and_the_site() -> None:
    jobs = read_yaml(".github/workflows/ci.yml")["jobs"]
    assert isinstance(jobs, dict)
    assert {"lint", "test", "bounds", "site", "package"} <= set(jobs)
    assert jobs["bounds"]["strategy"]["matrix"]["lock"] == ["oldest", "newest"]

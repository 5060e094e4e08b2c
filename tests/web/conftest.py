"""One server for all tests of the workbench that do not break it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from web.workbench import DATA, MODEL, Bench, serving

# make test-web installs what these import.
collect_ignore = [
    name
    for name, package in (("test_page.py", "playwright"), ("test_schema_fuzz.py", "schemathesis"))
    if importlib.util.find_spec(package) is None
]


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    root = tmp_path_factory.mktemp("workbench") / "inside"
    root.mkdir()
    (root / "model.mln").write_text(MODEL)
    (root / "people.db").write_text(DATA)
    with serving(root) as found:
        yield found

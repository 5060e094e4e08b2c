"""What `lapis doctor` reports: versions, cores, memory, libraries, kernels, extras and stores."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any, cast

from lapis import __version__
from lapis.errors import LapisError
from lapis.results.result import Columns, Result
from lapis.runtime.limits import format_bytes, machine_memory, memory_limit
from lapis.runtime.processes import num_cores
from lapis.runtime.views import View, new_view

DISTRIBUTION = "lapis-mln"
REQUIREMENT = re.compile(r"([\w.-]+)[^;]*(?:;.*\bextra == ['\"]([\w-]+)['\"])?")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
HIDDEN_EXTRAS = ("dev", "docs", "test-web", "all")  # for developers; the sum of the others


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `problem` is empty if all is well."""

    topic: str
    name: str
    value: str
    problem: str = ""


@dataclass(frozen=True, repr=False)
class InstallationReport(Result):
    """The state of an installation."""

    findings: tuple[Finding, ...]

    @property
    def problems(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.problem]

    def columns(self) -> Columns:
        names = ("topic", "name", "value", "problem")
        return {name: [getattr(finding, name) for finding in self.findings] for name in names}

    def views(self) -> list[View]:
        rows = [(f.topic, f.name, f"{f.value}{'  !' * bool(f.problem)}") for f in self.findings]
        return [new_view(("topic", "name", "state"), rows, num_rows=len(rows))]

    def summary(self) -> str:
        number = len(self.problems)
        return f"{number} problem{'s' * (number != 1)}" if number else "no problems"

    def remarks(self) -> list[str]:
        return [f"{finding.name}: {finding.problem}" for finding in self.problems]

    def document(self) -> dict[str, Any]:
        """The contract of `lapis doctor --json`."""
        names = ("topic", "name", "value", "problem")
        findings = [{name: getattr(f, name) or None for name in names} for f in self.findings]
        return {"version": __version__, "problems": len(self.problems), "findings": findings}


def examine(engine: str | None = None) -> InstallationReport:
    """Examine the installation; `engine` is the URL of a further store to connect to."""
    stores = ["duckdb"] if engine in (None, "duckdb") else ["duckdb", str(engine)]
    found = [
        *examine_machine(),
        *examine_packages(),
        examine_blas(),
        examine_kernels(),
        *examine_extras(),
        find_java(),
        *map(examine_store, stores),
    ]
    return InstallationReport(tuple(found))


def examine_machine() -> Iterator[Finding]:
    yield Finding("version", "lapis", __version__)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Finding("version", "python", f"{python}, {sys.platform} {platform.machine()}")
    yield Finding("machine", "cores", f"{num_cores()} usable of {os.cpu_count()}")
    total, limit = machine_memory(), memory_limit(None)
    text = f"{format_bytes(total)}; without --max-memory at most {format_bytes(limit)} are used"
    yield Finding("machine", "memory", text)


def requirements() -> list[tuple[str, str]]:
    """Return the names of required packages, each with its extra ("" if always required)."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # run from a source tree
        return []
    found = (REQUIREMENT.match(line) for line in lines)
    return [(match[1], match[2] or "") for match in found if match is not None]


def installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def examine_packages() -> Iterator[Finding]:
    """Yield the packages that Lapis always needs."""
    for name, extra in requirements():
        if not extra:
            version = installed_version(name)
            problem = "" if version else f"pip install {name}"
            yield Finding("package", name, version or "not installed", problem)


def examine_extras() -> Iterator[Finding]:
    """Yield the extras; one that is not installed is no problem."""
    extras: dict[str, list[str]] = {}
    for name, extra in requirements():
        if extra and extra not in HIDDEN_EXTRAS and name != DISTRIBUTION:
            extras.setdefault(extra, []).append(name)
    for extra, names in sorted(extras.items()):
        missing = [name for name in names if installed_version(name) is None]
        have = [f"{name} {installed_version(name)}" for name in names if name not in missing]
        install = f"not installed: {', '.join(missing)} (pip install '{DISTRIBUTION}[{extra}]')"
        yield Finding("extra", extra, install if missing else ", ".join(have))


def examine_blas() -> Finding:
    """Return the library of linear algebra that numpy calls, and its threads."""
    import numpy as np

    found = cast(dict[str, Any], np.show_config(mode="dicts"))
    blas = found.get("Build Dependencies", {}).get("blas", {})
    name = f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()
    limits = [f"{v}={os.environ[v]}" for v in THREAD_VARIABLES if v in os.environ]
    return Finding("library", "BLAS", f"{name}, {', '.join(limits) or 'threads not limited'}")


def examine_kernels() -> Finding:
    """Return how many kernels are compiled and kept on disk."""
    from lapis.runtime.kernels import stored_kernels

    number, is_lasting = stored_kernels()
    hint = "" if number else "; the first use compiles them, or lapis warm"
    problem = "" if is_lasting else "the folder of kernels is temporary; set NUMBA_CACHE_DIR"
    return Finding("library", "kernels", f"{number} compiled and stored{hint}", problem)


def find_java() -> Finding:
    """Return whether Java is found, which a local Spark needs."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    return Finding("store", "java", "found" if found else "not found (needed by a local Spark)")


def examine_store(url: str) -> Finding:
    """Connect to a store and run a query."""
    from lapis.stores.store import fetch_number, open_store

    try:
        with open_store(url) as store:
            fetch_number(store, "SELECT 1 AS number")
    except LapisError as error:
        return Finding("store", url, "not reachable", error.message)
    return Finding("store", url, "reachable, a query runs")

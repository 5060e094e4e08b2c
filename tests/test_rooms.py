"""Check that folders import only those before them, and that every definition is used."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import lapis

SOURCE = Path(lapis.__file__).parent
REPOSITORY = SOURCE.parents[1]
MODULES = sorted(SOURCE.rglob("*.py"))

# Each may import those before it.
LEAVES = ("errors", "runtime", "registry")
ROOMS = (
    *LEAVES, "language", "logic", "data", "results", "problem", "relational", "counting", "network",
    "grounding", "inference", "circuits", "lifted", "optimisation", "learning", "structure",
    "stores", "evaluation", "fields", "methods", "operations", "api", "examples",
    "cli", "__main__",
)  # fmt: skip
# Of inference, in the same order.
INFERENCE = (
    "exact", "reduction", "sampling", "map", "propagation", "moments", "symmetry", "bounds",
)  # fmt: skip


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(path): path for path in MODULES}


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Every import of the package's own modules, wherever it stands in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "lapis":
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            if module.partition(".")[0] == "lapis":
                for alias in node.names:
                    inner = f"{module}.{alias.name}"
                    yield node.lineno, inner if inner in NAMES else module


def rank(name: str, rooms: tuple[str, ...], depth: int) -> int | None:
    """The place of a module's room, `depth` levels down; None for a module outside them."""
    parts = name.split(".")
    return rooms.index(parts[depth]) if len(parts) > depth and parts[depth] in rooms else None


def upward(path: Path) -> list[str]:
    name = module_name(path)
    own, inner = rank(name, ROOMS, 1), None
    if name.startswith("lapis.inference."):
        inner = rank(name, INFERENCE, 2)
    found = []
    for line, other in imports_of(path):
        place = rank(other, ROOMS, 1)
        wrong = own is not None and place is not None and place > own
        if inner is not None and other.startswith("lapis.inference."):
            below = rank(other, INFERENCE, 2)
            wrong |= below is not None and below > inner
        if wrong:
            found.append(f"{path.relative_to(SOURCE)}:{line} imports {other}")
    return found


def test_every_module_has_a_room() -> None:
    assert {name.split(".")[1] for name in NAMES if "." in name} <= set(ROOMS)


def test_folders_import_downward_only() -> None:
    """At the top, within functions and for types alike; the package's own door is lazy."""
    assert [line for path in MODULES if path.parent != SOURCE or path.name != "__init__.py"
            for line in upward(path)] == []  # fmt: skip


def test_only_the_top_names_stores() -> None:
    """Not in imports, nor in texts that are loaded when used."""
    top = {"__init__", "stores", "operations", "api", "cli"}
    named = [
        name
        for name, path in NAMES.items()
        if "lapis.stores" in path.read_text(encoding="utf-8")
        and ((path.parent == SOURCE and path.stem) or name.split(".")[1]) not in top
    ]
    assert named == []


def definitions(path: Path) -> Iterator[str]:
    """Functions and classes; a decorator `@command(…)` is a use."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            calls = [each.func for each in node.decorator_list if isinstance(each, ast.Call)]
            if not any(isinstance(call, ast.Name) and call.id == "command" for call in calls):
                yield node.name


def words_of(path: Path) -> Counter[str]:
    """Names that are read or imported, and the attributes that texts like "module:name" name."""
    words: Counter[str] = Counter()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            words[node.id] += 1
        elif isinstance(node, ast.Attribute):
            words[node.attr] += 1
        elif isinstance(node, ast.alias):
            words[node.name.rpartition(".")[2]] += 1
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.update(node.value.rpartition(":")[2].split())
    return words


def used_words() -> Counter[str]:
    """In the package, its pages and its benchmarks."""
    used: Counter[str] = Counter()
    for path in (*MODULES, *(REPOSITORY / "benchmarks").glob("*.py")):
        used += words_of(path)
    for path in (REPOSITORY / "docs").glob("*.md"):
        used.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return used


def test_everything_is_used() -> None:
    """What only tests would use is used or deleted."""
    used = used_words()
    unused = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path in MODULES
        for name in definitions(path)
        if not (used[name] or name.startswith("__"))
    ]
    assert unused == []


def test_every_module_is_imported() -> None:
    """By another module, or named in a text that is loaded when it is used."""
    imported = {other for path in MODULES for _, other in imports_of(path)}
    for path in MODULES:
        imported |= set(re.findall(r"lapis(?:\.\w+)+", path.read_text(encoding="utf-8")))
    files = {name for name, path in NAMES.items() if not path.name.startswith("__")}
    assert files - imported == set()

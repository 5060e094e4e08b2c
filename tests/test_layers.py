"""Folders import only folders before them, also by texts that are loaded when they are used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import lapis

SOURCE = Path(lapis.__file__).parent

# Each may import itself and those before it. ARCHITECTURE.md says what is in them.
LAYERS = (
    "errors", "runtime", "registry", "language", "logic", "data", "results", "problem",
    "relational", "counting", "network", "grounding", "inference", "circuits", "lifted",
    "optimisation", "learning", "structure", "stores", "evaluation", "fields", "methods",
    "model_files", "explanation", "operations", "session", "api", "installation", "recipes",
    "sklearn", "examples", "web", "cli", "__main__",
)  # fmt: skip
INFERENCE_LAYERS = ("exact", "reduction", "sampling", "map", "moments", "symmetry", "bounds")


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def is_below(one: str, other: str) -> bool:
    """Whether module `other` may be imported by module `one`."""
    for prefix, layers in (("lapis", LAYERS), ("lapis.inference", INFERENCE_LAYERS)):
        ranks = [
            layers.index(name.removeprefix(prefix + ".").partition(".")[0])
            for name in (one, other)
            if name.startswith(prefix + ".")
            and name.removeprefix(prefix + ".").partition(".")[0] in layers
        ]
        if len(ranks) == 2 and ranks[1] > ranks[0]:
            return False
    return True


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, module) of every import of the package's own modules, also within functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else str(node.module) for name in inner]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.partition(".")[0] == "lapis")


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, module) of texts such as "lapis.inference.sampling.gibbs:Gibbs"."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if found := re.fullmatch(r"(lapis(?:\.\w+)+)(?::\w+)?", node.value):
            yield node.lineno, found[1]


def test_every_module_has_a_layer() -> None:
    assert {name.split(".")[1] for name in MODULES if "." in name} <= set(LAYERS)


def test_imports_go_downward() -> None:
    """The package's own `__init__` is exempt: it loads what it names when it is used."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{line} imports {other}"
        for name, path in MODULES.items()
        if name != "lapis"
        for line, other in imports_of(path)
        if not is_below(name, other)
    ]
    assert wrong == []


def test_loaded_texts_go_downward() -> None:
    texts = [
        (name, other, f"{path.relative_to(SOURCE)}:{line} names {other}")
        for name, path in MODULES.items()
        if name != "lapis"
        for line, other in texts_of(path)
    ]
    assert texts
    assert [place for name, other, place in texts if not is_below(name, other)] == []
    modules = {other if other in MODULES else other.rpartition(".")[0] for _, other, _ in texts}
    assert modules <= MODULES.keys()

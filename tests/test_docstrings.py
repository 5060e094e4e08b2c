"""Docstrings of everything public, against the signatures: NumPy-style sections, name by name."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lapis

BUILTINS = {"map", "compile"}  # public, and not in __all__
SECTIONS = ("Parameters", "Returns", "Raises", "Examples", "Notes")
HEAD = re.compile(rf"^({'|'.join(SECTIONS)})\n-+$", re.MULTILINE)


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions, and the methods that the package's own classes define, each once."""
    seen = set()
    for module in (lapis, lapis.circuits, lapis.fields, lapis.recipes):
        for name in sorted({*module.__all__, *BUILTINS & {*dir(module)}}):
            thing = getattr(module, name)
            found = [(name, thing)]
            if inspect.isclass(thing):
                found = [(f"{name}.{n}", m) for n, m in inspect.getmembers(thing)]
            for label, one in found:
                function = inspect.unwrap(getattr(one, "__func__", one))
                hidden = label.rpartition(".")[2].startswith("_")
                if not inspect.isfunction(function) or hidden or function in seen:
                    continue
                if function.__module__.startswith("lapis"):
                    seen.add(function)
                    yield f"{module.__name__}.{label}", function


def sections(text: str) -> dict[str, str]:
    """The text of each section; what stands before the first has the name ""."""
    parts = HEAD.split(text)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section: str) -> dict[str, str]:
    """The names that stand at the margin, and what stands below each."""
    found = re.split(r"^(?=\S)", section.strip("\n"), flags=re.MULTILINE)
    pairs = (part.partition("\n") for part in found if part.strip())
    return {name.strip(): text.strip() for name, _, text in pairs}


def raises_itself(function: Callable[..., Any]) -> bool:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) for node in ast.walk(tree))


PUBLIC = dict(public())


@pytest.mark.parametrize("name", PUBLIC)
def test_docstring(name: str) -> None:
    function = PUBLIC[name]
    signature = inspect.signature(function)
    wanted = [parameter for parameter in signature.parameters if parameter != "self"]
    found = sections(inspect.getdoc(function) or "")
    is_function = len(re.sub(r"circuits\.|fields\.|recipes\.", "", name).split(".")) == 2
    assert found[""].strip().endswith((".", ":")), "no summary"
    parameters = entries(found.get("Parameters", ""))
    assert list(parameters) == wanted
    assert all(text.endswith(".") for text in parameters.values())
    gives = signature.return_annotation not in (None, "None", inspect.Signature.empty)
    if gives and (wanted or is_function):
        assert len(entries(found.get("Returns", ""))) == 1
    assert gives or "Returns" not in found
    raised = entries(found.get("Raises", ""))
    assert all(text.endswith(".") for text in raised.values())
    if is_function and wanted and not name.endswith("print_field"):
        assert raised, "every function checks what it is given"
    if raises_itself(function):
        assert raised

"""Every code in the source has a cause and a cure, and every entry is a code of the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lapis
from cli_run import Run
from lapis.errors import LapisError, LapisErrors
from lapis.registry.error_codes import error_codes, find_error_code
from lapis.registry.method_table import OPTION_OF_TASK

SOURCE = Path(lapis.__file__).parent
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}
RAISED_BY = ("LapisError", "TooLarge", "Warning", "check_word")  # called with a keyword `code`
BY_PLACE = ("Warning", "fail", "warn")  # called with (message, code, …)
KINDS = ("checkpoint", "posterior")
GIVES_CODE = (ast.Constant, ast.IfExp, ast.Name, ast.JoinedStr)
FORMATTED = {  # code=f"…"
    "unknown-{what}": {f"unknown-{what}" for what in {"method", *OPTION_OF_TASK.values()}},
    "damaged-{kind}": {f"damaged-{kind}" for kind in KINDS},
    "foreign-{kind}": {f"foreign-{kind}" for kind in KINDS},
}


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def texts_by_name(tree: ast.Module) -> dict[str, set[str]]:
    """The texts that are assigned to each name of a module, or imported under it."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and is_text(node.value):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, set()).add(node.value.value)  # type: ignore[attr-defined]
    return found


TEXTS = {path: texts_by_name(tree) for path, tree in TREES.items()}
CONSTANTS = {
    name: texts for found in TEXTS.values() for name, texts in found.items() if name.isupper()
}


def codes_of(node: ast.AST, path: Path) -> set[str]:
    """The codes that an expression stands for; none if it passes on the code of an error."""
    if is_text(node):
        return {node.value}  # type: ignore[attr-defined]
    if isinstance(node, ast.IfExp):
        return codes_of(node.body, path) | codes_of(node.orelse, path)
    if isinstance(node, ast.JoinedStr):
        return FORMATTED[ast.unparse(node)[2:-1]]
    if isinstance(node, ast.Name):
        found = TEXTS[path].get(node.id) or CONSTANTS.get(node.id, set())
        return {text for text in found if " " not in text}
    assert ast.unparse(node).endswith(".code"), f"{path.name}: code={ast.unparse(node)}"
    return set()


def expressions(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the expressions that give a code."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
        if given and (name in RAISED_BY or is_text(given[0])):
            yield from given
        elif name in BY_PLACE and len(node.args) > 1 and isinstance(node.args[1], GIVES_CODE):
            yield node.args[1]


def codes_in_source() -> set[str]:
    return {
        code
        for path, tree in TREES.items()
        for node in expressions(tree)
        for code in codes_of(node, path)
    }


def test_every_code_is_explained_and_every_entry_is_a_code() -> None:
    assert codes_in_source() == set(error_codes())


@pytest.mark.parametrize("code", error_codes())
def test_an_entry_is_whole(code: str) -> None:
    found = error_codes()[code]
    assert re.fullmatch(r"[a-z]+([-_][a-z]+)*", code)
    for text in (found.cause, found.cure):
        assert text.endswith(".")
        assert text == text.strip()


def test_an_unknown_code_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(LapisError, match="did you mean 'arity'") as caught:
        find_error_code("arty")
    assert caught.value.code == "unknown-code"


def test_a_code_is_explained(run: Run) -> None:
    code, out, err = run("explain-error", "too-deep", "unlisted-constant")
    assert (code, err) == (0, "")
    assert out == (
        "too-deep (error; the text of a model)\n"
        "  cause  A formula or a parfeature is nested too deeply.\n"
        "  cure   Split it, or introduce a predicate for a part of it.\n"
        "\n"
        "unlisted-constant (warning; the text of a model)\n"
        "  cause  A constant of a formula is not in the list of constants of its type.\n"
        "  cure   Correct the name, or add it to the list.\n"
    )


def test_without_a_code_all_are_listed(run: Run) -> None:
    code, out, err = run("explain-error")
    assert (code, err) == (0, "")
    assert set(re.findall(r"[\w-]+(?=,|\n)", out)) >= set(error_codes())
    assert {each["code"] for each in run.json("explain-error")["codes"]} == set(error_codes())


def test_an_error_names_its_code_in_the_last_line(run: Run) -> None:
    run.write("bad.mln", "P(t)\n1 P(x, y)\n1 (P(x)\n1 P(x, z)\n")
    code, _, _ = run("check", "bad.mln")
    assert code == 1
    assert run.codes == ["arity", "unclosed-bracket"]
    assert run.printed.splitlines()[-1] == "more: lapis explain-error arity unclosed-bracket"


def test_the_codes_of_several_errors_are_each_named_once() -> None:
    errors = [LapisError("one", code=code) for code in ("arity", "type", "arity")]
    assert LapisErrors(errors).codes == ["arity", "type"]

"""Writes the tables of methods and options into the pages of this folder, and the pages of errors.

A table stands between `<!-- methods infer -->` or `<!-- options infer -->` and `<!-- end -->`.
`python docs/tables.py` (or `make docs`) writes them; a test compares. The pages
`reference/errors*.md` are written from the table of error codes.
"""

from __future__ import annotations

import re
from pathlib import Path

from lapis.cli import commands  # noqa: F401  (fills COMMANDS)
from lapis.cli.command_line import COMMANDS, show_default
from lapis.methods import methods_of
from lapis.registry.error_codes import ErrorCode, error_codes
from lapis.registry.option_field import NOUNS, Option, options_of

TABLE = re.compile(r"(<!-- (methods|options) ([\w ]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def write_tables(text: str) -> str:
    """A page with its tables as the registry has them."""

    def write(found: re.Match[str]) -> str:
        head, kind, name, _, end = found.groups()
        rows = list_methods(name) if kind == "methods" else list_options(name)
        return head + "\n" + "\n".join(rows) + "\n\n" + end

    return TABLE.sub(write, text)


def list_methods(task: str) -> list[str]:
    methods = methods_of(task).values()
    if task == "optimizer":
        rows = ["| optimizer | what it does | its own options |", "|---|---|---|"]
        return rows + [
            f"| `{m.name}` | {m.help} | {'; '.join(describe_own(o) for o in m.own)} |"
            for m in methods
        ]
    word = "method" if "infer" in task or "map" in task else task.split()[-1]
    return [f"| {word} | what it does | exact |", "|---|---|---|"] + [
        f"| `{m.name}` | {m.help} | {m.exact} |" for m in methods
    ]


def describe_own(option: Option) -> str:
    default = "" if option.default is None else f" ({option.default:g})"
    return f"`{option.name}`{default}: {option.help}"


def list_options(command: str) -> list[str]:
    rows = ["| flag | keyword | default | |", "|---|---|---|---|"]
    for option in options_of(COMMANDS[command].options):
        flags = ", ".join(f"`{flag}`" for flag in option.flags)
        keyword = f"`{option.name}`" if not option.cli_only else ""
        default = "" if option.kind == "flag" else show_default(option)
        limits = option.wanted.removeprefix(NOUNS[option.kind]).strip()
        limits = f" ({limits})" if option.kind in ("integer", "number", "numbers") else ""
        rows.append(f"| {flags} | {keyword} | {default} | {option.help.rstrip('.')}{limits} |")
    return rows


def error_pages() -> dict[str, str]:
    """The texts of the pages of errors, by file name in `reference/`."""
    groups: dict[str, list[ErrorCode]] = {}
    for code in error_codes().values():
        groups.setdefault(code.group, []).append(code)
    pages = {f"errors-{group}.md": list_errors(codes) for group, codes in groups.items()}
    rows = [
        f"- [{codes[0].title}](errors-{group}.md): "
        + ", ".join(f"[{c.code}](errors-{group}.md#{c.code})" for c in sorted(codes, key=by_code))
        for group, codes in groups.items()
    ]
    return {"errors.md": ERRORS + "\n".join(rows) + "\n", **pages}


def by_code(code: ErrorCode) -> str:
    return code.code


def list_errors(codes: list[ErrorCode]) -> str:
    lines = [GENERATED, f"# Errors: {codes[0].title.lower()}", ""]
    for each in sorted(codes, key=by_code):
        kind = " *(warning)*" if each.is_warning else ""
        cure = f"**Cure.** {plain(each.cure)}"
        lines += [f"## {each.code}", "", f"{plain(each.cause)}{kind}", cure, ""]
    return "\n".join(lines).rstrip() + "\n"


def plain(text: str) -> str:
    """A text in which no character means anything to Markdown."""
    return re.sub(r"([\\`*_<>\[\]|{}$])", r"\\\1", text).replace("--", "\\-\\-")


GENERATED = "<!-- Written by docs/tables.py from src/lapis/registry/errors.toml. -->\n"
ERRORS = f"""{GENERATED}
# Error codes

Each error and warning has a code. The code names the kind of mistake and does not change between
versions. The last line of an error on the command line names it: `lapis explain-error CODE` prints
the entry of this list without a network. In Python it is `error.code`:

```python
>>> import lapis
>>> try:
...     lapis.parse("Smokes(person)\\n1.5 Smoks(x)")
... except lapis.LapisError as error:
...     print(error.code)
unknown-predicate

```

An error is something that the user can correct (exit code 1), or work that exceeds the limits (exit
code 3). Any other exception is a mistake in Lapis, and a report of it is welcome. A warning is a
legal text that is probably a mistake. Several codes in one line belong to several errors, which are
shown together.

"""


def main() -> None:
    for name, text in error_pages().items():
        (Path(__file__).parent / "reference" / name).write_text(text, encoding="utf-8")
    for page in sorted(Path(__file__).parent.glob("*.md")):
        old = page.read_text(encoding="utf-8")
        new = write_tables(old)
        if new != old:
            page.write_text(new, encoding="utf-8")
            print(f"{page.name}: tables written")


if __name__ == "__main__":
    main()

"""Writes the tables of methods and options into the pages of this folder.

A table stands between `<!-- methods infer -->` or `<!-- options infer -->` and `<!-- end -->`.
`python docs/tables.py` (or `make docs`) writes them; a test compares.
"""

from __future__ import annotations

import re
from pathlib import Path

from lapis.cli import commands  # noqa: F401  (fills COMMANDS)
from lapis.cli.command_line import COMMANDS, show_default
from lapis.methods import methods_of
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


def main() -> None:
    for page in sorted(Path(__file__).parent.glob("*.md")):
        old = page.read_text(encoding="utf-8")
        new = write_tables(old)
        if new != old:
            page.write_text(new, encoding="utf-8")
            print(f"{page.name}: tables written")


if __name__ == "__main__":
    main()

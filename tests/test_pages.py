"""What pages show of the command line: commands exist, and their output is what is printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_run import Run
from lapis.cli import commands  # noqa: F401  (fills COMMANDS)
from lapis.cli.command_line import COMMANDS, GROUPS, find_command
from lapis.registry.option_field import options_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {
    "README.md": ROOT / "README.md",
    **{
        path.relative_to(DOCS).as_posix(): path
        for path in sorted(DOCS.rglob("*.md"))
        if not path.relative_to(DOCS).parts[0].startswith("_")  # written by make site
    },
}
BLOCK = re.compile(r"(?:^(?: {4}.*)?\n)*^ {4}.*\n", re.MULTILINE)
NAMED_FILE = re.compile(r"^`([\w./-]+\.\w+)`[^`]*:$")  # "`smoking.db` holds the known facts:"
COMMAND = re.compile(r"^ {4}(?:\$ )?(lapis .*)$", re.MULTILINE)


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The indented blocks of a page, each with the paragraph before it."""
    for found in BLOCK.finditer(text):
        before = text[: found.start()].rstrip().rpartition("\n\n")[2]
        yield (
            " ".join(before.split()),
            re.sub(r"^ {4}", "", found[0], flags=re.MULTILINE).strip("\n"),
        )


def clean(output: str) -> str:
    """An output without spaces at the ends of lines, and empty lines around it."""
    return "\n".join(line.rstrip() for line in output.splitlines()).strip("\n")


@pytest.mark.parametrize("page", [n for n, p in PAGES.items() if "\n    $ lapis " in p.read_text()])
def test_the_output_shown_is_what_is_printed(page: str, run: Run) -> None:
    """Files that a paragraph names are written; commands run in the order of the page."""
    for before, block in blocks(PAGES[page].read_text(encoding="utf-8")):
        named = NAMED_FILE.search(before)
        if named is not None:
            (run.folder / named[1]).parent.mkdir(parents=True, exist_ok=True)
            run.write(named[1], block + "\n")
        for session in re.split(r"^\$ (?=lapis )", block, flags=re.MULTILINE)[1:]:
            words, _, shown = session.partition("\n")
            run(*shlex.split(words)[1:])
            assert clean(shown) == clean(run.printed), words


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_that_are_shown_exist(page: str) -> None:
    for line in COMMAND.findall(PAGES[page].read_text(encoding="utf-8")):
        words = re.split(r" {2,}", line)[0].split()[1:]
        group_or_name = words[0]
        if "|" in line.split("  ")[0] and group_or_name in GROUPS:
            continue  # lists the commands of a group
        command = find_command(words)
        assert command is not None, line
        flags = {flag for option in options_of(command.options) for flag in option.flags}
        used = {word.strip("[]").partition("=")[0] for word in words if word.strip("[")[:1] == "-"}
        assert used <= flags | {"--help"}, line


def test_the_list_of_commands_is_whole() -> None:
    listed = PAGES["commands.md"].read_text(encoding="utf-8").partition("\n## ")[0]
    for name in COMMANDS:
        first, _, second = name.partition(" ")
        line = next(line for line in listed.splitlines() if line.startswith(f"    lapis {first} "))
        assert not second or second in line, name

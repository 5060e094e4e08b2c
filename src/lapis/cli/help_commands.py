"""The commands about Lapis itself: error codes, the installation, a new project."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lapis.cli.command_line import Argument, command, help_width, list_rows
from lapis.errors import LapisError
from lapis.registry.options import DoctorOptions, ExplainErrorOptions, NewOptions

if TYPE_CHECKING:
    from lapis.registry.error_codes import ErrorCode

CODES = Argument(
    "codes", "CODE", "Codes of errors or warnings; none lists all codes.", many=True,
    is_required=False, is_word=True,
)  # fmt: skip
FOLDER = Argument("folder", "NAME", "The folder to create.")


@command("explain-error", ExplainErrorOptions, CODES)
def explain_error(codes: Sequence[str] | None, options: ExplainErrorOptions) -> None:
    """Explain the code of an error or warning: its cause and its cure."""
    from lapis.cli.render import print_json
    from lapis.registry.error_codes import error_codes, find_error_code

    found = [find_error_code(code) for code in codes] if codes else list(error_codes().values())
    if options.as_json:
        keys = ("code", "group", "cause", "cure", "is_warning")
        print_json({"codes": [{key: getattr(each, key) for key in keys} for each in found]})
    elif codes:
        print("\n\n".join("\n".join(describe(each)) for each in found))
    else:
        print("\n".join(list_codes(found)))


def describe(found: ErrorCode) -> Iterator[str]:
    """Yield the lines that explain one code."""
    kind = "warning" if found.is_warning else "error"
    yield f"{found.code} ({kind}; {found.title.lower()})"
    yield from list_rows([("cause", found.cause), ("cure", found.cure)], help_width(), first=5)


def list_codes(found: Sequence[ErrorCode]) -> Iterator[str]:
    """Yield the codes of each group."""
    for title in dict.fromkeys(each.title for each in found):
        yield f"{title}:"
        codes = ", ".join(each.code for each in found if each.title == title)
        indent = " " * 2
        yield from textwrap.wrap(
            codes, help_width(), initial_indent=indent, subsequent_indent=indent,
            break_on_hyphens=False,
        )  # fmt: skip


@command("doctor", DoctorOptions)
def doctor(options: DoctorOptions) -> None:
    """Report versions, cores, memory, libraries, compiled kernels, extras and stores."""
    from lapis.cli.render import present
    from lapis.installation import examine

    report = examine(options.engine)
    present(report, options.as_json)
    if report.problems:
        names = ", ".join(finding.name for finding in report.problems)
        raise LapisError(f"the installation has problems: {names}", code="installation")


@command("new", NewOptions, FOLDER)
def new(folder: Path, options: NewOptions) -> None:
    """Create a folder with a model, facts, a notebook and a test."""
    from lapis.cli.render import print_json
    from lapis.examples import copy_template

    files = [str(path) for path in copy_template(folder)]
    if options.as_json:
        print_json({"folder": str(folder), "files": files})
        return
    print("\n".join(files))
    print(f"next: cd {shlex.quote(str(folder))} && lapis infer model.mln facts -q Smokes,Cancer")

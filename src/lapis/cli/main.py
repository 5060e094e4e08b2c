"""The command line. Exit codes: 0 done, 1 wrong input, 2 wrong usage, 3 beyond the limits."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from typing import TextIO

from lapis.cli.commands import run


def main(arguments: list[str] | None = None) -> None:
    """Run a command; user mistakes end in a message and an exit code, never in a traceback."""
    from lapis.errors import LapisError, LapisWarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if isinstance(message, LapisWarning):
            tell(str(message.warning))
        else:
            show_others(message, category, filename, lineno, file, line)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", LapisWarning)
            show_others, warnings.showwarning = warnings.showwarning, show
            run(sys.argv[1:] if arguments is None else arguments)
            sys.stdout.flush()
    except LapisError as error:
        tell(f"error: {error}" if error.span is None else str(error))
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        if error.errno == errno.ENOSPC:
            tell(f"error: the output is not whole: {error.strerror}")
        # Nobody reads on, or nothing more can be written: Python's last flush must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(0)


def tell(note: str) -> None:
    from lapis.cli.render import show_notes

    show_notes([note])


if __name__ == "__main__":
    main()

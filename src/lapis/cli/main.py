"""The command line. Exit codes: 0 done, 1 wrong input, 2 wrong usage, 3 beyond the limits."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from typing import TextIO

from lapis.cli.command_line import show_notes
from lapis.cli.commands import run


def main(arguments: list[str] | None = None) -> None:
    """Run a command. A LapisError ends in a message and an exit code, without a traceback."""
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
            show_notes([str(message.warning)])
        else:
            show_others(message, category, filename, lineno, file, line)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", LapisWarning)
            show_others, warnings.showwarning = warnings.showwarning, show
            run(sys.argv[1:] if arguments is None else arguments)
            sys.stdout.flush()
    except LapisError as error:
        show_notes([f"error: {error}" if error.span is None else str(error)])
        show_notes([f"more: lapis explain-error {' '.join(error.codes)}"])
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        if error.errno == errno.ENOSPC:
            show_notes([f"error: output is incomplete: {error.strerror}"])
        # The pipe is closed or the disk is full: Python's last flush must not fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(0)


if __name__ == "__main__":
    main()

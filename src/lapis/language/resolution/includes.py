"""Includes, replaced by the statements of the files they name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lapis.errors import LapisError
from lapis.language.parser import parse_statements, read_text
from lapis.language.syntax import Include, Statement


@dataclass
class IncludeReader:
    """Replaces includes by the statements of their files."""

    errors: list[LapisError]

    def expand(
        self, statements: Sequence[Statement], folder: Path, open_files: list[Path]
    ) -> Iterator[Statement]:
        for statement in statements:
            if not isinstance(statement, Include):
                yield statement
                continue
            path = folder / statement.path
            try:
                text = self.text(statement, path, open_files)
            except LapisError as error:
                self.errors.append(error)
                continue
            included, errors = parse_statements(text, str(path))
            self.errors += errors
            yield from self.expand(included, path.parent, [*open_files, path.resolve()])

    def text(self, statement: Include, path: Path, open_files: list[Path]) -> str:
        refusal = None
        if "\0" in statement.path:
            refusal = "this is not a file name"
        elif path.suffix == ".cpp":
            refusal = "functions linked in from C++ are not supported"
        elif path.suffix in (".db", ".gz"):
            refusal = "a model includes models; give data files to the command instead"
        elif path.resolve() in open_files:
            refusal = f"{statement.path!r} includes itself"
        if refusal:
            raise LapisError(refusal, code="include", span=statement.span)
        try:
            return read_text(path)
        except LapisError as error:
            raise LapisError(error.message, code="include", span=statement.span) from None

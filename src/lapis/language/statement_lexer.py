"""The tokens of a statement as lark wants them, in a class that can be pickled with its tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lark import Token
from lark.lexer import Lexer


class StatementLexer(Lexer):
    """Hands the tokens of one statement to the parser."""

    def __init__(self, conf: object) -> None:
        pass

    def lex(self, data: Any, *_: object) -> Iterator[Token]:
        for kind, text, start, end in data:
            yield Token("OR" if kind == "BAR" else kind, text, start, end_pos=end)

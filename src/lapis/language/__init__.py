"""Text ↔ syntax tree → model: lexer, parser, printer, resolution of names and types."""

from lapis.language.parser import parse_formula, parse_program
from lapis.language.printer import print_formula, print_program
from lapis.language.resolve import parse_model, read_model

__all__ = [
    "parse_formula",
    "parse_model",
    "parse_program",
    "print_formula",
    "print_program",
    "read_model",
]

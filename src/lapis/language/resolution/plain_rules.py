"""Rules of plain lines, checked atom by atom rather than formula by formula."""

from __future__ import annotations

from dataclasses import dataclass, field

from lapis.language.lexer import tokenize
from lapis.language.model import Rule
from lapis.language.parser import parse_weighted, readable
from lapis.language.plain_lines import PlainLine
from lapis.language.resolution.type_inference import TypeInference, argument
from lapis.language.syntax import Constant, Variable, WeightedFormula


@dataclass
class PlainRules:
    """The atoms of plain lines that were checked so far."""

    inference: TypeInference
    # variables and types of atoms on plain lines, by the atoms' identity
    written: dict[int, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    def rule(self, statement: WeightedFormula, line: PlainLine) -> Rule | None:
        """The rule of a plain line; None if something is wrong, or no declaration tells."""
        types: dict[str, str] = {}
        for number, written in enumerate(line.atoms):
            known = self.written.get(id(written))
            if known is None:
                known = self.check_written(statement, line, number)
                if known is None:
                    return None
            for name, type_name in known:
                if types.setdefault(name, type_name) != type_name:
                    return None
        return Rule(
            statement.formula, tuple(types.items()), (), statement.weight, statement.hard,
            line.text, (), False, None, statement.span,
        )  # fmt: skip

    def check_written(
        self, statement: WeightedFormula, line: PlainLine, number: int
    ) -> tuple[tuple[str, str], ...] | None:
        """The variables of an atom met for the first time, with their types."""
        written = line.atoms[number]
        predicate = self.inference.declared.predicates.get(written.atom.predicate)
        terms = written.atom.terms
        if predicate is None or predicate.arity != len(terms):
            return None
        found: list[tuple[str, str]] = []
        for position, term in enumerate(terms):
            if isinstance(term, Variable):
                found.append((term.name, predicate.types[position]))
                continue
            assert isinstance(term, Constant)
            assert statement.span is not None
            span = line.term_span(statement.span, number, position)
            self.inference.constants.append((term.name, argument(predicate.name, position), span))
        self.written[id(written)] = tuple(found)
        return self.written[id(written)]


def parse_again(statement: WeightedFormula) -> WeightedFormula:
    """A formula read by its form, with the places of all its parts."""
    assert statement.span is not None
    source, start, end = statement.span.source, statement.span.start, statement.span.end
    tokens = readable(list(tokenize(source, start=start, end=end)))
    return parse_weighted(tokens, source, statement.span)

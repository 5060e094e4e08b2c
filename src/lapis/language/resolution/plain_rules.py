"""Rules of plain lines, checked atom by atom rather than formula by formula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from lapis.errors import did_you_mean
from lapis.language.lexer import tokenize
from lapis.language.model import Rule
from lapis.language.parser import parse_weighted, readable
from lapis.language.plain_lines import PlainLine, WordPlaces, find_words
from lapis.language.resolution.type_inference import TypeInference, argument
from lapis.language.resolution.type_slots import Slot
from lapis.language.syntax import Constant, Variable, WeightedFormula


@dataclass
class PlainRules:
    """The atoms of plain lines that were checked so far."""

    inference: TypeInference
    # variables of atoms on plain lines and what tells their types, by the atoms' identity
    written: dict[int, tuple[tuple[str, Slot], ...]] = field(default_factory=dict)

    def rule(self, statement: WeightedFormula, line: PlainLine) -> Callable[[], Rule] | None:
        """The rule of a plain line, once all types are known; None if something is wrong."""
        slots: dict[str, Slot] = {}
        words: WordPlaces | None = None
        for number, written in enumerate(line.atoms):
            known = self.written.get(id(written))
            if known is None:
                if words is None:
                    assert statement.span is not None
                    words = find_words(statement.span)
                known = self.check_written(words, line, number)
                if known is None:
                    return None
            for name, slot in known:
                other = slots.setdefault(name, slot)
                if other != slot and self.inference.slots.unify(other, slot):
                    return None
        return partial(self.finish, statement, line, slots)

    def finish(self, statement: WeightedFormula, line: PlainLine, slots: dict[str, Slot]) -> Rule:
        variables: tuple[tuple[str, str], ...] = ()
        if slots:
            type_of = self.inference.slots.type_of
            variables = tuple([(name, type_of(slot) or "") for name, slot in slots.items()])
        return Rule(
            statement.formula, variables, (), statement.weight, statement.hard,
            line.text, (), False, None, statement.span,
        )  # fmt: skip

    def check_written(
        self, words: WordPlaces, line: PlainLine, number: int
    ) -> tuple[tuple[str, Slot], ...] | None:
        """The variables of an atom met for the first time, with what tells their types."""
        inference, written = self.inference, line.atoms[number]
        name, terms = written.atom.predicate, written.atom.terms
        declared = inference.declared.predicates.get(name)
        whole, *places = line.atom_spans(words, number)
        if declared is None and name not in inference.undeclared:
            if did_you_mean(name, inference.declared.predicates):
                return None
            inference.undeclared[name] = replace(written.atom, span=whole)
        arity = declared.arity if declared else len(inference.undeclared[name].terms)
        if arity != len(terms):
            return None
        found: list[tuple[str, Slot]] = []
        for position, (term, span) in enumerate(zip(terms, places, strict=True)):
            slot = argument(name, position)
            if isinstance(term, Variable):
                found.append((term.name, ("type", declared.types[position]) if declared else slot))
                continue
            assert isinstance(term, Constant)
            inference.constants.append((term.name, slot, span))
        self.written[id(written)] = tuple(found)
        return self.written[id(written)]


def parse_again(statement: WeightedFormula) -> WeightedFormula:
    """A formula read by its form, with the places of all its parts."""
    assert statement.span is not None
    source, start, end = statement.span.source, statement.span.start, statement.span.end
    tokens = readable(list(tokenize(source, start=start, end=end)))
    return parse_weighted(tokens, source, statement.span)

"""What a model declares: types with their constants, predicates, functions."""

from __future__ import annotations

from dataclasses import dataclass, field

from lapis.errors import LapisError, Note, Span, Warning, did_you_mean
from lapis.language.model import Predicate
from lapis.language.syntax import (
    Cardinality,
    FunctionDeclaration,
    PredicateDeclaration,
    Statement,
    TypeDeclaration,
)


@dataclass
class Declarations:
    """What is declared, and the mistakes and warnings met so far."""

    errors: list[LapisError]
    warnings: list[Warning] = field(default_factory=list)
    types: dict[str, dict[str, None]] = field(default_factory=dict)
    predicates: dict[str, Predicate] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)  # types with declared constants

    def fail(self, message: str, code: str, span: Span | None, **more: object) -> None:
        self.errors.append(LapisError(message, code=code, span=span, **more))  # type: ignore[arg-type]

    def declare(self, statement: Statement) -> None:
        match statement:
            case TypeDeclaration(name, constants):
                self.types.setdefault(name, {}).update(dict.fromkeys(constants))
                self.listed.add(name)
            case PredicateDeclaration(name, parameters, closed, factors, span):
                marks = {p.mark for p in parameters} - {""}
                if len(marks) == 2:
                    self.fail("use either ! or ? in a predicate, not both", "mixed-marks", span)
                self.add(
                    Predicate(
                        name,
                        tuple(p.type for p in parameters),
                        tuple(i for i, p in enumerate(parameters) if p.mark),
                        exactly_one="?" not in marks,
                        closed=closed,
                        factors=factors,
                        span=span,
                    )
                )
            case FunctionDeclaration(value, name, parameters, span):
                types = (*parameters, value)
                self.add(Predicate(name, types, (len(parameters),), function=True, span=span))

    def add(self, predicate: Predicate) -> None:
        earlier = self.predicates.setdefault(predicate.name, predicate)
        if earlier != predicate:
            self.fail(
                f"predicate {predicate.name!r} is declared twice, differently",
                "declared-twice",
                predicate.span,
                notes=[Note("it was first declared here", earlier.span)],
            )
        elif earlier is not predicate and not predicate.types and in_one_file(earlier, predicate):
            self.warnings.append(
                Warning(
                    f"{predicate.name!r} is declared already: this line says nothing",
                    "repeated-declaration",
                    predicate.span,
                    f"the formula without a weight is written ({predicate.name})",
                )
            )

    def check_cardinality(self, statement: Cardinality) -> None:
        for _, name in statement.parts:
            if name not in self.predicates:
                self.unknown_predicate(name, statement.span)

    def unknown_predicate(self, name: str, span: Span | None) -> None:
        close = did_you_mean(name, self.predicates)
        hint = None
        if close:
            where = self.predicates[close].span
            hint = f"did you mean {close!r}, declared at {where}?" if where else None
        self.fail(f"unknown predicate {name!r}", "unknown-predicate", span, hint=hint)


def in_one_file(first: Predicate, second: Predicate) -> bool:
    return bool(first.span and second.span and first.span.source is second.span.source)

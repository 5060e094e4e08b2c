"""More rules for a model, checked against its declarations."""

from __future__ import annotations

from dataclasses import replace

from lapis.language.model import Model, Predicate
from lapis.language.resolution.resolve import resolve
from lapis.language.syntax import (
    FunctionDeclaration,
    Parameter,
    PredicateDeclaration,
    Statement,
    TypeDeclaration,
)


def with_statements(model: Model, *added: Statement) -> Model:
    """The model with further declarations and formulas, resolved like those of a file.

    >>> from lapis.language import parse_formula, parse_model
    >>> from lapis.language.syntax import WeightedFormula
    >>> model = parse_model("Smokes(person)\\n1 Smokes(x)")
    >>> more = with_statements(model, WeightedFormula(parse_formula("Smokes(Anna)"), 2.0))
    >>> [rule.text for rule in more.rules], more.types["person"]
    (['Smokes(x)', 'Smokes(Anna)'], ('Anna',))
    """
    declared: list[Statement] = [
        TypeDeclaration(name, constants) for name, constants in model.types.items()
    ]
    declared += [declaration(predicate) for predicate in model.predicates.values()]
    extended = resolve([*declared, *added], name=model.name)
    predicates = {**extended.predicates, **model.predicates}
    return replace(
        extended,
        predicates=predicates,
        rules=model.rules + extended.rules,
        constraints=model.constraints,
        warnings=model.warnings,
    )


def declaration(predicate: Predicate) -> Statement:
    """A statement that declares the predicate again."""
    if predicate.function:
        *arguments, value = predicate.types
        return FunctionDeclaration(value, predicate.name, tuple(arguments), predicate.span)
    marked = Parameter("", "!") if predicate.exactly_one else Parameter("", "?")
    parameters = tuple(
        replace(marked, type=type_name) if i in predicate.block else Parameter(type_name)
        for i, type_name in enumerate(predicate.types)
    )
    return PredicateDeclaration(
        predicate.name, parameters, predicate.closed, predicate.factors, predicate.span
    )

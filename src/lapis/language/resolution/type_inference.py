"""The types of variables, of undeclared predicates and of constants, from where they stand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lapis.errors import Note, Span, Warning, did_you_mean, suggestion
from lapis.language.model import Predicate
from lapis.language.resolution.declarations import Declarations
from lapis.language.resolution.type_slots import Slot, TypeSlots
from lapis.language.syntax import (
    Atom,
    Comparison,
    Constant,
    Formula,
    Offset,
    Term,
    subformulas,
    term_variables,
)


@dataclass
class TypeInference:
    """Slots of arguments and variables, unified formula by formula."""

    declared: Declarations
    undeclared: dict[str, Atom] = field(default_factory=dict)
    slots: TypeSlots = field(default_factory=TypeSlots)
    constants: list[tuple[str, Slot, Span | None]] = field(default_factory=list)

    def start(self) -> None:
        """Give the arguments of declared predicates their types."""
        for predicate in self.declared.predicates.values():
            for position, type_name in enumerate(predicate.types):
                self.declared.types.setdefault(type_name, {})
                self.slots.unify(argument(predicate.name, position), ("type", type_name))

    def unify(self, formula: Formula, scope: str) -> None:
        """Give every variable of a formula the type of the positions it stands in."""
        for node in subformulas(formula):
            if isinstance(node, Atom):
                self.unify_atom(node, scope)
            elif isinstance(node, Comparison):
                self.unify_sides(node, scope)

    def unify_atom(self, atom: Atom, scope: str) -> None:
        predicate = self.declared.predicates.get(atom.predicate)
        if predicate is None and atom.predicate not in self.undeclared:
            if did_you_mean(atom.predicate, self.declared.predicates):
                self.declared.unknown_predicate(atom.predicate, name_span(atom))
                return
            self.undeclared[atom.predicate] = atom
        arity = predicate.arity if predicate else len(self.undeclared[atom.predicate].terms)
        if arity != len(atom.terms):
            declared = predicate.span if predicate else self.undeclared[atom.predicate].span
            self.declared.fail(
                f"{atom.predicate!r} takes {count(arity, 'argument')}, "
                f"here it has {len(atom.terms)}",
                "arity",
                atom.span,
                notes=[
                    Note("it is declared here" if predicate else "it is first used here", declared)
                ],
            )
            return
        for position, term in enumerate(atom.terms):
            self.unify_term(term, argument(atom.predicate, position), scope)

    def unify_term(self, term: Term, slot: Slot, scope: str) -> None:
        if isinstance(term, Constant):
            self.constants.append((term.name, slot, term.span))
            return
        for variable in term_variables(term):
            clash = self.slots.unify(("variable", scope, variable.name), slot)
            if clash:
                self.declared.fail(
                    f"variable {variable.name!r} is of type {clash[0]!r}, "
                    f"but {clash[1]!r} is expected here",
                    "type",
                    variable.span or term.span,
                )

    def unify_sides(self, comparison: Comparison, scope: str) -> None:
        """Both sides of a comparison are of one type; a bound of numbers need not be of any."""
        terms = (comparison.left, comparison.right)
        variables = [variable for term in terms for variable in term_variables(term)]
        if not variables:
            return
        names = comparison.operator in ("=", "!=") and not any(isinstance(t, Offset) for t in terms)
        slot: Slot = ("variable", scope, variables[0].name)
        for term in terms:
            if names or not isinstance(term, Constant):
                self.unify_term(term, slot, scope)

    def finish_predicates(self) -> dict[str, Predicate]:
        """Name the types nothing determined, add the constants of formulas to their types."""
        predicates = dict(self.declared.predicates)
        for name, atom in self.undeclared.items():
            types = tuple(
                self.slots.name_rest(argument(name, i), f"{variable_like(name)}_{i + 1}")
                for i in range(len(atom.terms))
            )
            predicates[name] = Predicate(name, types, span=atom.span)
            for type_name in types:
                self.declared.types.setdefault(type_name, {})
            shape = f"{name}({', '.join(types)})" if types else name
            self.declared.warnings.append(
                Warning(
                    f"predicate {name!r} is not declared; taken as {shape}", "undeclared", atom.span
                )
            )
        for constant, slot, span in self.constants:
            owner = self.slots.type_of(slot)
            if owner is None:
                continue
            known = self.declared.types.setdefault(owner, {})
            if owner in self.declared.listed and constant not in known:
                self.declared.warnings.append(
                    Warning(
                        f"{constant!r} is not among the constants listed for type {owner!r}",
                        "unlisted-constant",
                        span,
                        suggestion(constant, known),
                    )
                )
            known.setdefault(constant)
        return predicates


def argument(predicate: str, position: int) -> Slot:
    return ("argument", predicate, str(position))


def name_span(atom: Atom) -> Span | None:
    """Where the predicate's name stands."""
    span = atom.span
    return span and replace(span, end=span.start + len(atom.predicate))


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def variable_like(name: str) -> str:
    """A name that starts with a lower-case letter, as those of variables and types do."""
    found = name[0].lower() + name[1:]
    return found if found[0].islower() else f"t{found}"

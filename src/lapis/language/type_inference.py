"""Collect the declarations of a model, and infer undeclared types by unification.

Every argument position and every variable of a formula is a slot. Declared positions have a type.
Slots that must agree are merged; merging two different types is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lapis.errors import LapisError, Note, Span, Warning, did_you_mean, suggestion
from lapis.language.model import NUMBER_TYPE, Predicate
from lapis.language.names import lower_first_letter
from lapis.language.syntax import (
    Atom,
    Cardinality,
    Comparison,
    Constant,
    Formula,
    FunctionDeclaration,
    Offset,
    PredicateDeclaration,
    Statement,
    Term,
    TypeDeclaration,
    subformulas,
    term_variables,
)

Slot = tuple[str, ...]  # ("type", name), ("argument", predicate, position), ("variable", …)


@dataclass
class TypeSlots:
    """Union–find over slots; a class that contains a declared type is of that type."""

    parent: dict[Slot, Slot] = field(default_factory=dict)

    def find(self, slot: Slot) -> Slot:
        root = slot
        while (above := self.parent.setdefault(root, root)) != root:
            root = above
        while slot != root:
            self.parent[slot], slot = root, self.parent[slot]
        return root

    def type_of(self, slot: Slot) -> str | None:
        root = self.find(slot)
        return root[1] if root[0] == "type" else None

    def unify(self, first: Slot, second: Slot) -> tuple[str, str] | None:
        """Merge two slots; return the two types if they clash."""
        a, b = self.find(first), self.find(second)
        if a == b:
            return None
        if a[0] == "type" and b[0] == "type":
            return a[1], b[1]
        if a[0] == "type":
            self.parent[b] = a
        else:
            self.parent[a] = b
        return None

    def name_rest(self, slot: Slot, name: str) -> str:
        """Return the type of a slot; if it has none, its class becomes the type `name`."""
        known = self.type_of(slot)
        if known is not None:
            return known
        self.parent[self.find(slot)] = self.find(("type", name))
        return name


@dataclass
class Declarations:
    """The declarations, errors and warnings so far."""

    errors: list[LapisError]
    warnings: list[Warning] = field(default_factory=list)
    types: dict[str, dict[str, None]] = field(default_factory=dict)
    predicates: dict[str, Predicate] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)  # types with declared constants
    sizes: dict[str, int] = field(default_factory=dict)  # of types with a number of constants

    def fail(self, message: str, code: str, span: Span | None, **more: object) -> None:
        self.errors.append(LapisError(message, code=code, span=span, **more))  # type: ignore[arg-type]

    def warn(self, message: str, code: str, span: Span | None, hint: str | None = None) -> None:
        self.warnings.append(Warning(message, code, span, hint))

    def declare(self, statement: Statement) -> None:
        match statement:
            case TypeDeclaration(name, constants, size):
                self.types.setdefault(name, {}).update(dict.fromkeys(constants))
                if size is None:
                    self.listed.add(name)
                else:
                    self.sizes[name] = size
            case PredicateDeclaration(name, parameters, closed, factors, span=span):
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
            case FunctionDeclaration(value, name, parameters, span=span):
                types = (*parameters, value)
                is_number = value == NUMBER_TYPE  # one may be missing
                self.add(
                    Predicate(
                        name,
                        types,
                        (len(parameters),),
                        exactly_one=not is_number,
                        function=True,
                        span=span,
                    )
                )

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
            self.warn(
                f"{predicate.name!r} is declared already: this line has no effect",
                "repeated-declaration",
                predicate.span,
                f"a formula without a weight is written ({predicate.name})",
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
    if first.span is None or second.span is None:
        return False
    files = [span.source.locate(span.start)[0] for span in (first.span, second.span)]
    return files[0] is files[1]


@dataclass
class TypeInference:
    """Type inference: slots of arguments and variables, unified formula by formula."""

    declared: Declarations
    undeclared: dict[str, Atom] = field(default_factory=dict)
    slots: TypeSlots = field(default_factory=TypeSlots)
    constants: list[tuple[str, Slot, Span | None]] = field(default_factory=list)

    def start(self) -> None:
        """Give the arguments of declared predicates their types."""
        for predicate in self.declared.predicates.values():
            for position, type_name in enumerate(predicate.types):
                self.declared.types.setdefault(type_name, {})
                self.slots.unify(argument_slot(predicate.name, position), ("type", type_name))

    def unify(self, formula: Formula, scope: str) -> None:
        """Unify every variable of a formula with the positions in which it occurs."""
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
                f"{atom.predicate!r} takes {format_count(arity, 'argument')}, "
                f"here it has {len(atom.terms)}",
                "arity",
                atom.span,
                notes=[
                    Note("it is declared here" if predicate else "it is first used here", declared)
                ],
            )
            return
        for position, term in enumerate(atom.terms):
            self.unify_term(term, argument_slot(atom.predicate, position), scope)

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
        """Unify both sides of a comparison; a number that is compared by < needs no type."""
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
        """Name undetermined types, add constants of formulas to their types, return predicates."""
        predicates = dict(self.declared.predicates)
        for name, atom in self.undeclared.items():
            types = tuple(
                self.slots.name_rest(argument_slot(name, i), f"{lower_first_letter(name)}_{i + 1}")
                for i in range(len(atom.terms))
            )
            predicates[name] = Predicate(name, types, span=atom.span)
            for type_name in types:
                self.declared.types.setdefault(type_name, {})
            shape = f"{name}({', '.join(types)})" if types else name
            self.declared.warn(
                f"predicate {name!r} is not declared; taken as {shape}", "undeclared", atom.span
            )
        for constant, slot, span in self.constants:
            owner = self.slots.type_of(slot)
            if owner is None:
                continue
            known = self.declared.types.setdefault(owner, {})
            if owner in self.declared.listed and constant not in known:
                self.declared.warn(
                    f"{constant!r} is not among the constants listed for type {owner!r}",
                    "unlisted-constant",
                    span,
                    suggestion(constant, known),
                )
            known.setdefault(constant)
            size = self.declared.sizes.get(owner, len(known))
            if len(known) > size:
                raise LapisError(
                    f"the size of type {owner!r} is {size}, but {len(known)} constants are named",
                    code="domain-size",
                    span=span,
                )
        return predicates


def argument_slot(predicate: str, position: int) -> Slot:
    return ("argument", predicate, str(position))


def name_span(atom: Atom) -> Span | None:
    """Return the span of the predicate's name."""
    span = atom.span
    return span and replace(span, end=span.start + len(atom.predicate))


def format_count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

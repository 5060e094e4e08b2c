"""What the text of a field means: names resolved, types told, cycles and strangers refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lapis.errors import LapisError, Note, Span, did_you_mean, raise_all
from lapis.fields.field import COMPARISONS, ROOT, Child, Field, Parfeature, Term
from lapis.language.model import Model
from lapis.language.syntax import Constant, Variable


@dataclass
class Header:
    """A parfeature as it stands in a file."""

    name: str
    parameters: tuple[tuple[str, Span | None], ...]
    span: Span | None
    children: list[Child] = field(default_factory=list)


def build_field(declarations: Model, headers: Sequence[Header], name: str) -> Field:
    """A field of parfeatures over a model's predicates, checked."""
    errors = find_clashes(headers, declarations)
    raise_all(errors)
    features = {header.name: header for header in headers}
    raise_all([e for header in headers for e in find_mistakes(header, features, declarations)])
    raise_all(find_cycle(features))
    raise_all(find_unused(features))
    table = infer_types(features, declarations)
    parfeatures = tuple(
        Parfeature(
            header.name,
            tuple(parameter for parameter, _ in header.parameters),
            tuple(header.children),
            table.of_parameters(header),
            table.of_children(header),
            header.span,
        )
        for header in headers
    )
    return with_constants(Field(declarations, parfeatures, name))


def find_clashes(headers: Sequence[Header], declarations: Model) -> list[LapisError]:
    """Names used twice, and a root that is missing or has parameters."""
    errors: list[LapisError] = []
    seen: dict[str, Header] = {}
    for header in headers:
        earlier = seen.setdefault(header.name, header)
        predicate = declarations.predicates.get(header.name)
        if earlier is not header or predicate is not None:
            what = "parfeature" if predicate is None else "predicate"
            where = earlier.span if predicate is None else predicate.span
            errors.append(
                LapisError(
                    f"there is already a {what} {header.name!r}",
                    code="declared-twice",
                    span=header.span,
                    notes=[Note("it is declared here", where)],
                )
            )
        names = [name for name, _ in header.parameters]
        errors += [
            LapisError(f"parameter {name!r} stands twice", code="parameter", span=span)
            for place, (name, span) in enumerate(header.parameters)
            if name in names[:place]
        ]
        if header.name == ROOT and names:
            errors.append(LapisError("the root has no parameters", code="root", span=header.span))
    if ROOT not in seen:
        hint = "start one with a line 'root:'; its children are what the distribution is made of"
        errors.append(LapisError("the field has no root", code="no-root", hint=hint))
    return errors


def find_mistakes(
    header: Header, features: dict[str, Header], declarations: Model
) -> list[LapisError]:
    """Unknown names, wrong numbers of arguments, parameters that nothing uses."""
    errors: list[LapisError] = []
    for child in header.children:
        if child.target in COMPARISONS:
            continue
        feature, predicate = features.get(child.target), declarations.predicates.get(child.target)
        if feature is None and predicate is None:
            errors.append(unknown_name(child, features, declarations))
            continue
        arity = len(feature.parameters) if feature else predicate.arity if predicate else 0
        if len(child.terms) != arity:
            errors.append(
                LapisError(
                    f"{child.target!r} takes {arity} argument{'s' * (arity != 1)}, "
                    f"not {len(child.terms)}",
                    code="arity",
                    span=child.span,
                )
            )
    used = {name for child in header.children for name in child.variables}
    errors += [
        LapisError(
            f"parameter {name!r} of {header.name!r} is in none of its children",
            code="unbound-parameter",
            span=span,
            hint="a parfeature is the same for all its values: leave it out",
        )
        for name, span in header.parameters
        if name not in used
    ]
    return errors


def unknown_name(child: Child, features: dict[str, Header], declarations: Model) -> LapisError:
    close = did_you_mean(child.target, [*features, *declarations.predicates])
    hint = f"{child.target!r} is neither declared as a predicate nor a parfeature of this field"
    if close is not None:
        place = features[close].span if close in features else declarations.predicates[close].span
        hint = (
            f"did you mean {close!r}, declared at {place}?" if place else f"did you mean {close!r}?"
        )
    return LapisError(
        f"unknown predicate or parfeature {child.target!r}",
        code="unknown-predicate",
        span=child.span,
        hint=hint,
    )


def find_cycle(features: dict[str, Header]) -> list[LapisError]:
    """The first cycle met, told at the child that closes it."""
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> LapisError | None:
        if name in done:
            return None
        for child in features[name].children:
            if child.target in (*path, name):
                cycle = (*path, name)[(*path, name).index(child.target) :]
                return LapisError(
                    f"a parfeature cannot be made of itself: {' → '.join((*cycle, child.target))}",
                    code="cycle",
                    span=child.span,
                )
            if child.target in features:
                wrong = visit(child.target, (*path, name))
                if wrong is not None:
                    return wrong
        done.add(name)
        return None

    for name in features:
        wrong = visit(name, ())
        if wrong is not None:
            return [wrong]
    return []


def find_unused(features: dict[str, Header]) -> list[LapisError]:
    """Parfeatures that the root does not reach."""
    reached: set[str] = set()
    pending = [ROOT]
    while pending:
        name = pending.pop()
        if name in features and name not in reached:
            reached.add(name)
            pending += [child.target for child in features[name].children]
    return [
        LapisError(
            f"nothing that the root is made of refers to {name!r}",
            code="unused-parfeature",
            span=header.span,
            hint="give it a weight in the root or in another parfeature, or leave it out",
        )
        for name, header in features.items()
        if name not in reached
    ]


def infer_types(features: dict[str, Header], declarations: Model) -> TypeTable:
    """The type of each variable of each parfeature, from the predicates below and around it.

    A comparison says nothing of its variables' types. Constants beside them do, and so does a
    variable of the same name in another child, if all of that name are of one type.
    """
    table = TypeTable(features, declarations)
    table.spread()
    while table.guess_comparisons():
        table.spread()
    raise_all(
        [
            LapisError(
                f"nothing tells the type of {variable!r} in {name!r}",
                code="untyped-variable",
                span=features[name].span,
                hint="use it in an atom of a declared predicate",
            )
            for name, variable in dict.fromkeys((key[0], key[2]) for key in table.untyped())
        ]
    )
    return table


VariableKey = tuple[str, int, str]  # parfeature, child (PARAMETER: of all children), variable
PARAMETER = -1


@dataclass
class TypeTable:
    """The types of variables that are known so far, and the child that each was seen in."""

    features: dict[str, Header]
    declarations: Model
    types: dict[VariableKey, str] = field(default_factory=dict)
    source: dict[VariableKey, Child] = field(default_factory=dict)

    def key(self, header: Header, number: int, variable: str) -> VariableKey:
        is_parameter = any(variable == name for name, _ in header.parameters)
        return header.name, PARAMETER if is_parameter else number, variable

    def known(self, header: Header, number: int, term: Term) -> str | None:
        """The type of a term of a child, if it is known or only one type has the constant."""
        if isinstance(term, Variable):
            return self.types.get(self.key(header, number, term.name))
        having = [name for name, names in self.declarations.types.items() if term.name in names]
        return having[0] if len(having) == 1 else None

    def of_parameters(self, header: Header) -> tuple[str, ...]:
        return tuple(self.types[header.name, PARAMETER, name] for name, _ in header.parameters)

    def of_children(self, header: Header) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple(self.types[self.key(header, number, name)] for name in child.variables)
            for number, child in enumerate(header.children)
        )

    def untyped(self) -> list[VariableKey]:
        keys = [
            self.key(header, number, name)
            for header in self.features.values()
            for number, child in enumerate(header.children)
            for name in child.variables
        ]
        return [key for key in dict.fromkeys(keys) if key not in self.types]

    def spread(self) -> None:
        """Carry types along children until nothing changes."""
        before = -1
        while before != len(self.types):
            before = len(self.types)
            for header in self.features.values():
                for number, child in enumerate(header.children):
                    self.spread_child(header, number, child)

    def spread_child(self, header: Header, number: int, child: Child) -> None:
        feature = self.features.get(child.target)
        own = [self.known(header, number, term) for term in child.terms]
        slots: list[str | None]
        if child.target in self.declarations.predicates:
            slots = list(self.declarations.predicates[child.target].types)
        elif feature is not None:
            parameters = [(feature.name, PARAMETER, name) for name, _ in feature.parameters]
            slots = [self.types.get(key) for key in parameters]
            for key, term, slot, given in zip(parameters, child.terms, slots, own, strict=True):
                if slot is None and given is not None and isinstance(term, Variable):
                    self.add(key, given, child)
        else:
            slots = [own[0] or own[1], own[1] or own[0]]
        for term, slot in zip(child.terms, slots, strict=True):
            if slot is not None and isinstance(term, Variable):
                self.add(self.key(header, number, term.name), slot, child)

    def add(self, key: VariableKey, type_name: str, child: Child) -> None:
        """Raises LapisError where the variable is of another type."""
        known = self.types.setdefault(key, type_name)
        if known != type_name:
            raise LapisError(
                f"{key[2]!r} stands for a {known!r} and for a {type_name!r}",
                code="type-clash",
                span=child.span,
                notes=[Note(f"here for a {known!r}", self.source[key].span)],
            )
        self.source.setdefault(key, child)

    def guess_comparisons(self) -> bool:
        """Give variables of comparisons the type of those of the same name in other children."""
        found = False
        for key in self.untyped():
            name, number, variable = key
            alike = {
                found_type
                for other, found_type in self.types.items()
                if other[0] == name and other[2] == variable
            }
            if number != PARAMETER and len(alike) == 1:
                child = self.features[name].children[number]
                if child.target in COMPARISONS:
                    self.add(key, alike.pop(), child)
                    found = True
        return found


def with_constants(field: Field) -> Field:
    """The field whose declarations have the constants that atoms and parfeatures name."""
    named = {name: dict.fromkeys(known) for name, known in field.declarations.types.items()}
    for _, child in field.edges():
        if child.target not in COMPARISONS:
            for term, type_name in zip(
                child.terms, field.argument_types(child.target), strict=True
            ):
                if isinstance(term, Constant):
                    named[type_name].setdefault(term.name)
    types = {name: tuple(found) for name, found in named.items()}
    return replace(field, declarations=replace(field.declarations, types=types))

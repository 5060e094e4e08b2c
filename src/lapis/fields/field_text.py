"""The text of a field (.rrf): parse, check, print and draw.

The text has declarations as in a Markov logic file, then parfeatures:

    Smokes(person)
    Friends(person, person)

    root:
      -1.2   lonely(x)
      0.3    Smokes(x)

    lonely(x):
      -4     friend(x, y)

    friend(x, y):
      5      Friends(x, y)
      5      Smokes(y)

A line that ends in a colon starts a parfeature. Each line below it is a child: a weight and an
atom, another parfeature or a comparison. Names in lower case are variables. Variables that are not
parameters are summed over. Learning does not change a weight after `@fixed`. Printing and parsing
gives the same field.

`build_field` resolves names, infers the types of variables, and rejects cycles and parfeatures that
the root does not reach.

`draw` shows the root at the top, as in Figure 3.1 of the thesis. A parfeature is drawn once,
an atom or a comparison once for each of its parents. Edges of positive weights are blue, those of
negative weights red; the width grows with the size of the weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lapis.errors import LapisError, Note, Source, Span, did_you_mean, raise_all
from lapis.fields.field import COMPARISONS, ROOT, Child, Field, FieldTerm, Parfeature
from lapis.language.lexer import Token, split_statements, tokenize
from lapis.language.model import Model
from lapis.language.names import format_constant
from lapis.language.parser import (
    Declared,
    listed_types,
    parse_statement,
    parse_weighted,
    read_model_text,
)
from lapis.language.printer import print_model
from lapis.language.resolve import resolve_statements
from lapis.language.syntax import (
    Atom,
    Comparison,
    Constant,
    FunctionDeclaration,
    PredicateDeclaration,
    Statement,
    Term,
    TypeDeclaration,
    Variable,
    WeightedFormula,
)
from lapis.results.graph import GraphEdge, GraphNode, Picture

WIDTH = 10  # of the weights' column
MAX_DEPTH = 150  # of nested parfeatures; converted formulas have up to 100
MAX_CYCLE = 400  # characters of a cycle in a message
FieldLike = Field | str | Path


def read_field(path: str | Path) -> Field:
    """Read a field from a file.

    Parameters
    ----------
    path
        Of the file, `.rrf`.

    Returns
    -------
    Field
        The field.

    Raises
    ------
    LapisError
        If the file is missing, or its text is wrong.
    """
    return parse_field(read_model_text(Path(path)), str(path))


def open_field(field: FieldLike) -> Field:
    return field if isinstance(field, Field) else read_field(field)


def parse_field(text: str, name: str = "<field>") -> Field:
    """Parse a field from its text.

    Parameters
    ----------
    text
        Declarations and parfeatures.
    name
        Name of the text in messages.

    Returns
    -------
    Field
        The field.

    Raises
    ------
    LapisError
        If the text is wrong; all mistakes are reported together.

    Examples
    --------
    >>> field = parse_field("Smokes(person)\\nroot:\\n 1.5 quiet(x)\\nquiet(x):\\n -2 Smokes(x)")
    >>> field.order, field.weights
    (('quiet', 'root'), array([ 1.5, -2. ]))
    """
    source = Source(name, text)
    errors: list[LapisError] = []
    declarations: list[Statement] = []
    groups = list(split_statements(list(tokenize(source))))
    declared = Declared(listed_types(groups))
    headers: list[Header] = []
    for statement in groups:
        tokens = [token for token in statement if isinstance(token, Token)]
        if len(tokens) < len(statement):
            errors += [token for token in statement if isinstance(token, LapisError)]
            continue
        try:
            if tokens[-1].kind == "COLON":
                headers.append(parse_header(tokens, source))
            elif headers:
                headers[-1].children.append(parse_child(tokens, source))
            else:
                declarations.append(parse_declaration(tokens, source, declared))
        except LapisError as error:
            errors.append(error)
    if errors:
        raise_all(errors)
    return build_field(resolve_statements(declarations, name=name), headers, name)


def parse_declaration(tokens: list[Token], source: Source, declared: Declared) -> Statement:
    statement = parse_statement(tokens, source, declared)
    if not isinstance(statement, TypeDeclaration | PredicateDeclaration | FunctionDeclaration):
        raise LapisError(
            "expected a declaration of a type, a predicate or a function",
            code="field-declaration",
            span=Span(source, tokens[0].start, tokens[-1].end),
            hint="weights belong to the children of a parfeature, below a line like 'root:'",
        )
    return statement


def parse_header(tokens: list[Token], source: Source) -> Header:
    """Parse `name(x, y):` or `root:`."""
    kinds = [token.kind for token in tokens]
    span = Span(source, tokens[0].start, tokens[-2].end) if len(tokens) > 1 else None
    names = tokens[2:-2:2]
    plain = kinds == ["NAME", "COLON"]
    listed = len(tokens) > 4 and kinds == [
        "NAME", "LPAR", *["NAME", "COMMA"] * (len(names) - 1), "NAME", "RPAR", "COLON",
    ]  # fmt: skip
    if not (plain or listed) or any(not name.text[0].islower() for name in names):
        raise LapisError(
            "expected the name and the parameters of a parfeature",
            code="parfeature",
            span=span or Span(source, tokens[0].start, tokens[-1].end),
            hint="write for example 'lonely(x):', with parameters in lower case",
        )
    parameters = tuple((name.text, Span(source, name.start, name.end)) for name in names)
    return Header(tokens[0].text, parameters, span)


def parse_child(tokens: list[Token], source: Source) -> Child:
    """Parse `[@fixed] weight target`; the target is an atom or a comparison."""
    found: WeightedFormula = parse_weighted(
        tokens, source, Span(source, tokens[0].start, tokens[-1].end)
    )
    formula, span = found.formula, found.formula.span
    if found.hard or found.weight is None or found.utility is not None or found.at:
        raise LapisError(
            "unexpected text around the child: expected a weight and a target",
            code="child-weight",
            span=found.span,
            hint="write for example '-1.5 Smokes(x)'",
        )
    if isinstance(formula, Comparison):
        target: str = formula.operator
        terms: tuple[Term, ...] = (formula.left, formula.right)
    elif isinstance(formula, Atom) and not formula.starred:
        target, terms = formula.predicate, formula.terms
    else:
        raise LapisError(
            "a child must be an atom, a parfeature or a comparison, not a formula",
            code="child",
            span=span,
            hint="write a parfeature for each connective, or convert a model by 'lapis field from'",
        )
    plain = tuple(t for t in terms if isinstance(t, Variable | Constant))
    if len(plain) < len(terms) or any(isinstance(t, Variable) and t.plus for t in plain):
        raise LapisError(
            "arguments of a child must be variables or constants",
            code="child",
            span=span,
            hint="write a function as a predicate: Mother(x, y), where y is the mother of x",
        )
    return Child(found.weight, target, plain, found.fixed, span)


def print_field(field: Field, title: str = "") -> str:
    """Print a field as a text that `parse` reads.

    Parameters
    ----------
    field
        The field.
    title
        A comment at the head.

    Returns
    -------
    str
        The text.
    """
    parts = [print_model(field.declarations, title=title)]
    for parfeature in field.parfeatures:
        head = print_call(parfeature.name, parfeature.parameters)
        parts.append("\n".join([f"{head}:", *(f"  {print_child(c)}" for c in parfeature.children)]))
    return "\n".join(part if part.endswith("\n") else part + "\n" for part in parts)


def print_child(child: Child) -> str:
    """Print `[@fixed] weight target`."""
    mark = "@fixed " if child.fixed else ""
    return f"{mark}{repr(child.weight).removesuffix('.0'):<{WIDTH}} {print_target(child)}"


def print_target(child: Child) -> str:
    """Print a child without its weight."""
    terms = [t.name if isinstance(t, Variable) else format_constant(t.name) for t in child.terms]
    if not child.target[0].isalpha() and child.target[0] != "_":
        return f"{terms[0]} {child.target} {terms[1]}"
    return print_call(child.target, terms)


def edge_names(field: Field) -> list[str]:
    """Name each child of each parfeature, as in "root: Smokes(x)"."""
    return [
        f"{print_call(parfeature.name, parfeature.parameters)}: {print_target(child)}"
        for parfeature, child in field.edges()
    ]


def print_call(name: str, arguments: tuple[str, ...] | list[str]) -> str:
    return f"{name}({', '.join(arguments)})" if arguments else name


POSITIVE, NEGATIVE = "#4c72b0", "#c44e52"
PARFEATURE = "#e8edf5"
STRONG = 8.0  # least weight that is drawn at the greatest width


def draw(field: FieldLike) -> Picture:
    """Draw a field.

    Parameters
    ----------
    field
        A field or the path of one.

    Returns
    -------
    Picture
        The picture: notebooks show it, `save` writes it as `.svg`, `.dot`, `.png` or `.pdf`.

    Raises
    ------
    LapisError
        If the field cannot be read.

    Examples
    --------
    >>> from lapis import fields
    >>> picture = fields.draw(fields.parse("P(t)\\nroot:\\n 2 some\\nsome:\\n 3 P(x)"))
    >>> [node.label for node in picture.nodes]
    ['root', 'some', 'P(x)']
    """
    return field_graph(open_field(field))


def field_graph(field: Field) -> Picture:
    """Build the graph of a field, parents before children."""
    order = list(reversed(field.order))
    number = {name: place for place, name in enumerate(order)}
    nodes = [
        GraphNode(print_call(name, field.by_name[name].parameters), PARFEATURE) for name in order
    ]
    edges = []
    for name in order:
        for child in field.by_name[name].children:
            target = number.get(child.target, len(nodes))
            if target == len(nodes):
                nodes.append(GraphNode(print_target(child)))
            colour = POSITIVE if child.weight >= 0 else NEGATIVE
            width = 0.6 + 2.4 * min(abs(child.weight), STRONG) / STRONG
            edges.append(GraphEdge(number[name], target, f"{child.weight:.3g}", colour, width))
    return Picture(tuple(nodes), tuple(edges))


@dataclass
class Header:
    """A parfeature as written in a file."""

    name: str
    parameters: tuple[tuple[str, Span | None], ...]
    span: Span | None
    children: list[Child] = field(default_factory=list)


def build_field(declarations: Model, headers: Sequence[Header], name: str) -> Field:
    """Build and check a field of parfeatures over a model's predicates."""
    raise_all(find_clashes(headers, declarations))
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
    """Return errors for names used twice, and for a root that is missing or has parameters."""
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
                    f"a {what} {header.name!r} already exists",
                    code="declared-twice",
                    span=header.span,
                    notes=[Note("declared here", where)],
                )
            )
        names = [name for name, _ in header.parameters]
        errors += [
            LapisError(f"parameter {name!r} occurs twice", code="parameter", span=span)
            for place, (name, span) in enumerate(header.parameters)
            if name in names[:place]
        ]
        if header.name == ROOT and names:
            message = "the root must not have parameters"
            errors.append(LapisError(message, code="root", span=header.span))
    if ROOT not in seen:
        hint = "add a line 'root:' and its children, which define the distribution"
        errors.append(LapisError("the field has no root", code="no-root", hint=hint))
    return errors


def find_mistakes(
    header: Header, features: dict[str, Header], declarations: Model
) -> list[LapisError]:
    """Return errors for unknown names, wrong numbers of arguments and unused parameters."""
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
            f"no child of {header.name!r} uses the parameter {name!r}",
            code="unbound-parameter",
            span=span,
            hint="remove the parameter: the parfeature does not depend on it",
        )
        for name, span in header.parameters
        if name not in used
    ]
    return errors


def unknown_name(child: Child, features: dict[str, Header], declarations: Model) -> LapisError:
    close = did_you_mean(child.target, [*features, *declarations.predicates])
    hint = "declare it as a predicate, or define a parfeature of this name"
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
    """Return an error for the first cycle, at the child that closes it, or for deep nesting."""
    done: dict[str, int] = {}  # the depth below each parfeature
    for start in features:
        # Parfeatures from `start` on, each with the children that were not visited yet.
        path = {} if start in done else {start: iter(features[start].children)}
        while path:
            name = next(reversed(path))
            for child in path[name]:
                if child.target in path:
                    names = list(path)
                    cycle = " → ".join((*names[names.index(child.target) :], child.target))
                    return [
                        LapisError(
                            f"parfeatures form a cycle: {shorten_cycle(cycle)}",
                            code="cycle",
                            span=child.span,
                        )
                    ]
                if child.target in features and child.target not in done:
                    path[child.target] = iter(features[child.target].children)
                    break
            else:
                del path[name]
                below = (done.get(child.target, 0) for child in features[name].children)
                done[name] = 1 + max(below, default=0)
    deep = [name for name, depth in done.items() if depth > MAX_DEPTH]
    return [
        LapisError(
            f"parfeatures are nested more than {MAX_DEPTH} deep",
            code="too-deep",
            span=features[name].span,
        )
        for name in deep[:1]
    ]


def shorten_cycle(text: str) -> str:
    """Omit the middle of a long list of names."""
    return (
        text if len(text) <= MAX_CYCLE else f"{text[: MAX_CYCLE // 2]} … {text[-MAX_CYCLE // 2 :]}"
    )


def find_unused(features: dict[str, Header]) -> list[LapisError]:
    """Return errors for parfeatures that the root does not reach."""
    reached: set[str] = set()
    pending = [ROOT]
    while pending:
        name = pending.pop()
        if name in features and name not in reached:
            reached.add(name)
            pending += [child.target for child in features[name].children]
    return [
        LapisError(
            f"parfeature {name!r} is unused: the root does not reach it",
            code="unused-parfeature",
            span=header.span,
            hint="make it a child of the root or of another parfeature, or remove it",
        )
        for name, header in features.items()
        if name not in reached
    ]


def infer_types(features: dict[str, Header], declarations: Model) -> TypeTable:
    """Infer the type of each variable of each parfeature from predicates above and below it.

    A comparison does not determine the types of its variables. They follow from a constant on the
    other side, or from variables of the same name in other children if these have only one type.
    """
    table = TypeTable(features, declarations)
    table.propagate()
    while table.guess_comparisons():
        table.propagate()
    raise_all(
        [
            LapisError(
                f"cannot infer the type of {variable!r} in {name!r}",
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
    """The inferred types of variables, and the child from which each was inferred."""

    features: dict[str, Header]
    declarations: Model
    types: dict[VariableKey, str] = field(default_factory=dict)
    source: dict[VariableKey, Child] = field(default_factory=dict)

    def key(self, header: Header, number: int, variable: str) -> VariableKey:
        is_parameter = any(variable == name for name, _ in header.parameters)
        return header.name, PARAMETER if is_parameter else number, variable

    def known(self, header: Header, number: int, term: FieldTerm) -> str | None:
        """Return the type of a term; None if it is a variable without a type yet, or ambiguous."""
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

    def propagate(self) -> None:
        """Propagate types between parents and children until nothing changes."""
        parents: dict[str, set[str]] = {name: set() for name in self.features}
        for header in self.features.values():
            for child in header.children:
                if child.target in parents:
                    parents[child.target].add(header.name)
        waiting = dict.fromkeys(self.features)
        while waiting:
            name = next(iter(waiting))
            del waiting[name]
            header = self.features[name]
            before = len(self.types)
            changed = {
                found
                for number, child in enumerate(header.children)
                for found in self.propagate_child(header, number, child)
            }
            if before != len(self.types):  # its own children and parents may learn from it
                changed |= {name, *parents[name]}
            waiting |= dict.fromkeys(changed)

    def propagate_child(self, header: Header, number: int, child: Child) -> list[str]:
        """Propagate types along an edge; return the child if it is a parfeature and changed."""
        before = len(self.types)
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
        return [feature.name] if feature is not None and len(self.types) != before else []

    def add(self, key: VariableKey, type_name: str, child: Child) -> None:
        """Set the type of a variable; raise LapisError if it has another type."""
        known = self.types.setdefault(key, type_name)
        if known != type_name:
            raise LapisError(
                f"variable {key[2]!r} is used with two types, {known!r} and {type_name!r}",
                code="type-clash",
                span=child.span,
                notes=[Note(f"used as a {known!r} here", self.source[key].span)],
            )
        self.source.setdefault(key, child)

    def guess_comparisons(self) -> bool:
        """Set types of variables in comparisons from equal names in other children."""
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
    """Add the constants in the children of parfeatures to the declarations."""
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

"""The text of a field (.rrf): declarations as in a Markov logic file, then parfeatures.

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

A line that ends in a colon starts a parfeature; the lines below it are its children, a weight and
an atom, another parfeature or a comparison. Names in lower case are variables, those that are no
parameters are summed out. `@fixed` before a weight keeps it as it is while others are learned.
Parsing what is printed gives the same field back.

A field as a picture, like Figure 3.1: the root above, what parfeatures are made of below.

Parfeatures are drawn once, however many parents they have; atoms and comparisons once for each
parfeature that has them. Edges are blue where a weight is positive, red where it is negative, and
the wider the larger it is.
"""

from __future__ import annotations

from pathlib import Path

from lapis.errors import LapisError, Source, Span, raise_all
from lapis.fields.field import Child, Field
from lapis.fields.resolve import Header, build_field
from lapis.language.lexer import Token, split_statements, tokenize
from lapis.language.names import format_constant
from lapis.language.parser import parse_statement, parse_weighted, read_model_text
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
    declared: dict[str, PredicateDeclaration | FunctionDeclaration] = {}
    headers: list[Header] = []
    for statement in split_statements(list(tokenize(source))):
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


def parse_declaration(
    tokens: list[Token],
    source: Source,
    declared: dict[str, PredicateDeclaration | FunctionDeclaration],
) -> Statement:
    statement = parse_statement(tokens, source, declared)
    if isinstance(statement, PredicateDeclaration | FunctionDeclaration):
        declared.setdefault(statement.name, statement)
    elif not isinstance(statement, TypeDeclaration):
        raise LapisError(
            "only types, predicates and functions stand here",
            code="field-declaration",
            span=Span(source, tokens[0].start, tokens[-1].end),
            hint="weights belong to the children of a parfeature, below a line like 'root:'",
        )
    return statement


def parse_header(tokens: list[Token], source: Source) -> Header:
    """name(x, y): or root:"""
    kinds = [token.kind for token in tokens]
    span = Span(source, tokens[0].start, tokens[-2].end) if len(tokens) > 1 else None
    names = tokens[2:-2:2]
    plain = kinds == ["NAME", "COLON"]
    listed = len(tokens) > 4 and kinds == [
        "NAME", "LPAR", *["NAME", "COMMA"] * (len(names) - 1), "NAME", "RPAR", "COLON",
    ]  # fmt: skip
    if not (plain or listed) or any(not name.text[0].islower() for name in names):
        raise LapisError(
            "a parfeature starts with its name and its parameters",
            code="parfeature",
            span=span or Span(source, tokens[0].start, tokens[-1].end),
            hint="as in 'lonely(x):', parameters in lower case",
        )
    parameters = tuple((name.text, Span(source, name.start, name.end)) for name in names)
    return Header(tokens[0].text, parameters, span)


def parse_child(tokens: list[Token], source: Source) -> Child:
    """[@fixed] weight atom, or a comparison."""
    found: WeightedFormula = parse_weighted(
        tokens, source, Span(source, tokens[0].start, tokens[-1].end)
    )
    formula, span = found.formula, found.formula.span
    if found.hard or found.weight is None or found.utility is not None or found.at:
        raise LapisError(
            "a child has a weight, and no more",
            code="child-weight",
            span=found.span,
            hint="as in '-1.5 Smokes(x)'",
        )
    if isinstance(formula, Comparison):
        target: str = formula.operator
        terms: tuple[Term, ...] = (formula.left, formula.right)
    elif isinstance(formula, Atom) and not formula.starred:
        target, terms = formula.predicate, formula.terms
    else:
        raise LapisError(
            "a child is an atom, a parfeature or a comparison, not a formula",
            code="child",
            span=span,
            hint="give each connective a parfeature of its own; 'lapis field from' does",
        )
    plain = tuple(t for t in terms if isinstance(t, Variable | Constant))
    if len(plain) < len(terms) or any(isinstance(t, Variable) and t.plus for t in plain):
        raise LapisError(
            "arguments of a child are variables and constants",
            code="child",
            span=span,
            hint="of a function write the graph: Mother(x, y), y being the mother of x",
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
        head = call(parfeature.name, parfeature.parameters)
        parts.append("\n".join([f"{head}:", *(f"  {print_child(c)}" for c in parfeature.children)]))
    return "\n".join(part if part.endswith("\n") else part + "\n" for part in parts)


def print_child(child: Child) -> str:
    """[@fixed] weight atom."""
    mark = "@fixed " if child.fixed else ""
    return f"{mark}{repr(child.weight).removesuffix('.0'):<{WIDTH}} {print_target(child)}"


def print_target(child: Child) -> str:
    """The child without its weight."""
    terms = [t.name if isinstance(t, Variable) else format_constant(t.name) for t in child.terms]
    if not child.target[0].isalpha() and child.target[0] != "_":
        return f"{terms[0]} {child.target} {terms[1]}"
    return call(child.target, terms)


def call(name: str, arguments: tuple[str, ...] | list[str]) -> str:
    return f"{name}({', '.join(arguments)})" if arguments else name


POSITIVE, NEGATIVE = "#4c72b0", "#c44e52"
PARFEATURE = "#e8edf5"
STRONG = 8.0  # a weight drawn as wide as can be


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
    """The root first, every parfeature after what it is a part of."""
    order = list(reversed(field.order))
    number = {name: place for place, name in enumerate(order)}
    nodes = [GraphNode(call(name, field.by_name[name].parameters), PARFEATURE) for name in order]
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

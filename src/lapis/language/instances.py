"""Instances of formulas: names of ground instances, and rules gathered from instances.

**Names.** A formula with a + variable stands for one formula for each constant. Each ground atom
and ground formula has one canonical name, by which answers are looked up. In facts, queries and
lookups a name is a constant, quoted or not: `Smokes(anna)`, `Smokes( "anna" )` and `Smokes("anna")`
are the same atom.

**Gathering.** A learned model may have thousands of formulas that differ only in constants:
`0.7 Has(p,Java) => Course(p)`. Each would need a join. Gathered, they are one rule
`Has(p,+c) => Course(p)` with a table of weights, and one join. Constants without a formula have
weight 0, so the meaning is the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import NamedTuple

from lapis.errors import LapisError
from lapis.language.model import InstanceWeights, Model, Rule
from lapis.language.names import format_atom, format_constant, read_number
from lapis.language.parser import parse_formula, parse_rule_text
from lapis.language.printer import print_formula, print_product
from lapis.language.sugar import without_plus
from lapis.language.syntax import (
    Application,
    Atom,
    Comparison,
    Constant,
    CountExists,
    Formula,
    Offset,
    Quantifier,
    Term,
    Variable,
    children,
    free_variables,
    map_children,
    map_terms,
    subformulas,
    terms_of,
)


def print_instances(rule: Rule, constants: Sequence[Sequence[str]]) -> list[str]:
    """Print a rule for each combination of constants of its plus variables."""
    rows = itertools.product(*constants)
    numbers, formula = parse_rule_text(rule.text)

    def print_at(row: Sequence[str]) -> str:
        values = dict(zip(rule.plus, row, strict=True))
        fixed = [
            replace(number, terms=tuple(put_constants(term, values) for term in number.terms))
            for number in numbers
        ]
        return print_product(fixed, substitute(formula, values))

    if any(moved_by_offset(node, rule.plus) for node in subformulas(formula)):
        return list(map(print_at, rows))
    # Print once with placeholders and fill them in: there may be many thousands.
    marks = [f"\0{i}\0" for i in range(len(rule.plus))]
    template = print_at(marks)
    for mark in marks:
        template = template.replace(format_constant(mark), mark)
    found: list[str] = []
    for row in rows:
        text = template
        for mark, constant in zip(marks, row, strict=True):
            text = text.replace(mark, format_constant(constant))
        found.append(text)
    return found


def moved_by_offset(node: Formula, names: Sequence[str]) -> bool:
    """Return whether an atom or comparison contains one of the variables plus a number."""
    return any(is_moved(term, names) for term in terms_of(node))


def is_moved(term: Term, names: Sequence[str]) -> bool:
    if isinstance(term, Application):
        return any(is_moved(inner, names) for inner in term.terms)
    return isinstance(term, Offset) and term.variable.name in names


def substitute(formula: Formula, values: Mapping[str, str]) -> Formula:
    """Replace free occurrences of variables by constants."""
    if isinstance(formula, Quantifier):
        values = {name: value for name, value in values.items() if name not in formula.variables}
    inner = map_children(formula, lambda child: substitute(child, values))
    return map_terms(inner, lambda term: put_constants(term, values))


def put_constants(term: Term, values: Mapping[str, str]) -> Term:
    match term:
        case Variable(name) if name in values:
            return Constant(values[name])
        case Offset(variable, amount) if variable.name in values:
            return Constant(f"{require_number(values[variable.name]) + amount:.17g}")
        case Application(_, terms):
            return replace(term, terms=tuple(put_constants(t, values) for t in terms))
    return term


def require_number(constant: str) -> float:
    value = read_number(constant)
    if isnan(value):
        raise LapisError(
            f"{constant!r} is not a number, so no offset can be added", code="not-a-number"
        )
    return value


def canonical_name(text: str) -> str:
    """Return the canonical name of a ground atom or formula.

    >>> canonical_name('Friends( anna, "Bob, the second" )')
    'Friends("anna","Bob, the second")'
    >>> canonical_name("P(A,B)^P(B,A)"), canonical_name("MotherOf(Ann)=Eve")
    ('P(A, B) ^ P(B, A)', 'Eve = MotherOf(Ann)')
    """
    formula = parse_formula(text, "<name>")
    names = [
        name
        for name in free_variables(formula)
        if not any(moved_by_offset(node, (name,)) for node in subformulas(formula))
    ]
    return ground_name(substitute(formula, {name: name for name in names}))


def ground_name(formula: Formula) -> str:
    """Format a ground atom as a fact; print any other formula."""
    atom = as_atom(formula)
    if atom is not None:
        constants = [term.name for term in atom.terms if isinstance(term, Constant)]
        if len(constants) == len(atom.terms):
            return format_atom(atom.predicate, constants, function=not isinstance(formula, Atom))
    return print_formula(formula)


def as_atom(formula: Formula) -> Atom | None:
    """Return the formula as an atom, `Value = f(x)` as f(x, Value); None if it is no atom."""
    if isinstance(formula, Comparison) and formula.operator == "=":
        value, application = formula.left, formula.right
        if isinstance(value, Application):
            value, application = application, value
        if isinstance(application, Application) and not isinstance(value, Application):
            return Atom(application.function, (*application.terms, value), span=formula.span)
    return formula if isinstance(formula, Atom) else None


MIN_GATHERED = 8
MAX_TABLE_RATIO = 64  # entries of the table per gathered formula


Form = Hashable  # nested tuples: predicates, terms and connectives


class Skeleton(NamedTuple):
    """A formula without the constants in its atoms."""

    form: Form
    variables: tuple[tuple[str, str], ...]
    bound: tuple[tuple[str, str], ...]


class Gathered(NamedTuple):
    """A model with gathered rules, and the place of each original rule in it."""

    model: Model
    # For each original rule: its rule in `model`, and the constants of the plus variables there
    # (None if the rule is unchanged).
    places: tuple[tuple[int, tuple[str, ...] | None], ...]


def gather_instances(
    model: Model, sizes: Mapping[str, int] | None = None, *, over_constants: bool = True
) -> Gathered:
    """Gather formulas of the same form into one rule, at the place of the first.

    `sizes` are the numbers of constants that data may add to each type; formulas stay apart if the
    table would be too sparse. `over_constants` also gathers rules without variables. Grounding
    leaves these alone, since they need no join.

    >>> from lapis.language import parse_model
    >>> words = "".join(f"0.{i} Has(p,W{i}) => Course(p)\\n" for i in range(1, 10))
    >>> model = parse_model("Has(page,word)\\nCourse(page)\\n" + words)
    >>> [rule] = gather_instances(model).model.rules
    >>> rule.text, rule.instance_weights.constants[:2], rule.instance_weights.value[:2]
    ('Has(p, +c1) => Course(p)', (('W1',), ('W2',)), (0.1, 0.2))
    """
    groups: dict[Skeleton, list[tuple[int, tuple[str, ...]]]] = {}
    known: dict[int, tuple[Form, tuple[str, ...]]] = {}
    for number, rule in enumerate(model.rules):
        if can_be_gathered(rule) and (over_constants or rule.variables):
            constants: list[str] = []
            form = take_constants(rule.formula, constants, known)
            if constants:
                skeleton = Skeleton(form, rule.variables, rule.bound)
                groups.setdefault(skeleton, []).append((number, tuple(constants)))
    gathered: dict[int, Rule] = {}  # by the number of the first member
    first: dict[int, tuple[int, tuple[str, ...]]] = {}  # of each member, and its constants
    for skeleton, members in groups.items():
        if len(members) >= MIN_GATHERED:
            whole = gather_rules(model, skeleton, members, sizes or {})
            if whole is not None:
                gathered[members[0][0]], keys = whole
                for (number, _), key in zip(members, keys, strict=True):
                    first[number] = members[0][0], key
    kept = [n for n in range(len(model.rules)) if n in gathered or n not in first]
    position = {number: place for place, number in enumerate(kept)}
    places = tuple(
        (position[first[n][0]], first[n][1]) if n in first else (position[n], None)
        for n in range(len(model.rules))
    )
    if not gathered:
        return Gathered(model, places)
    rules = tuple(gathered.get(number, model.rules[number]) for number in kept)
    return Gathered(model.with_rules(rules), places)


def can_be_gathered(rule: Rule) -> bool:
    """Return whether a rule is soft, weighted and without plus variables."""
    plain = rule.weight is not None and not rule.hard and rule.utility is None
    plain = plain and not rule.numbers
    return plain and not rule.plus and not rule.fixed


def take_constants(
    formula: Formula, constants: list[str], known: dict[int, tuple[Form, tuple[str, ...]]]
) -> Form:
    """Return the form of a formula without the constants in its atoms; append these to `constants`.

    `known` caches atoms by identity.
    """
    if isinstance(formula, Atom):
        found = known.get(id(formula))
        if found is None:
            names = [term.name for term in formula.terms if isinstance(term, Constant)]
            others = tuple(None if isinstance(term, Constant) else term for term in formula.terms)
            found = known[id(formula)] = (formula.predicate, others), tuple(names)
        constants.extend(found[1])
        return found[0]
    inner = children(formula)
    if not inner:
        return formula
    own: Form = formula.variables if isinstance(formula, Quantifier) else ()
    if isinstance(formula, CountExists):
        own = (own, formula.operator, formula.bound)
    return type(formula), own, tuple([take_constants(part, constants, known) for part in inner])


def change_atoms(formula: Formula, change: Callable[[Atom], Formula]) -> Formula:
    if isinstance(formula, Atom):
        return change(formula)
    return map_children(formula, lambda part: change_atoms(part, change))


def gather_rules(
    model: Model,
    skeleton: Skeleton,
    members: list[tuple[int, tuple[str, ...]]],
    sizes: Mapping[str, int],
) -> tuple[Rule, list[tuple[str, ...]]] | None:
    """Return one rule for all members and their constants; None if its table is too sparse."""
    first = model.rules[members[0][0]]
    if print_formula(first.formula) != first.text:  # its sugar contains constants
        return None
    columns = list(zip(*(constants for _, constants in members), strict=True))
    varying = [place for place, column in enumerate(columns) if len(set(column)) > 1]
    if not varying:
        return None
    taken = {name for name, _ in skeleton.variables + skeleton.bound}
    names = fresh_names(len(varying), taken)
    type_of: dict[str, str] = {}
    places = iter(range(len(columns)))

    def put_constants(atom: Atom) -> Formula:
        terms = list(atom.terms)
        for position, term in enumerate(terms):
            if isinstance(term, Constant):
                place = next(places)
                if place in varying:
                    name = names[varying.index(place)]
                    type_of[name] = model.predicates[atom.predicate].types[position]
                    terms[position] = Variable(name, True)
                else:
                    terms[position] = Constant(columns[place][0])
        return replace(atom, terms=tuple(terms))

    marked = change_atoms(first.formula, put_constants)
    table_size = 1
    for name in names:
        own = len(model.types[type_of[name]])
        table_size *= own + sizes.get(type_of[name], 0)
    if table_size > MAX_TABLE_RATIO * len(members):
        return None
    weight: dict[tuple[str, ...], float] = {}
    formula = without_plus(marked)
    free = free_variables(formula)
    keys: list[tuple[str, ...]] = []
    for number, constants in members:
        key = tuple([constants[place] for place in varying])  # as the plus variables occur
        keys.append(key)
        weight[key] = weight.get(key, 0.0) + (model.rules[number].weight or 0.0)
    types = dict(skeleton.variables) | type_of
    whole = replace(
        first,
        formula=formula,
        variables=tuple((name, types[name]) for name in free),
        weight=0.0,
        text=print_formula(marked),
        plus=tuple(name for name in free if name in type_of),
        instance_weights=InstanceWeights(tuple(weight), tuple(weight.values())),
    )
    return whole, keys


def fresh_names(number: int, taken: set[str]) -> list[str]:
    names: list[str] = []
    candidate = 0
    while len(names) < number:
        candidate += 1
        if f"c{candidate}" not in taken:
            names.append(f"c{candidate}")
    return names

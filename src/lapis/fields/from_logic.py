"""A Markov logic network as a field that mirrors its connectives and quantifiers (Figure 3.1).

A conjunction becomes a parfeature with a child for each part, +S for what is to be true and −S for
what is to be false, S being the sharpness: it is 1 where all hold and at most e^−S otherwise.
Everything else is a conjunction after De Morgan:

    A ∨ B       the negation of (¬A ∧ ¬B): a parfeature that its parent weighs negatively
    ∀y F(x,y)   the parts of F, summed over y
    ∃y F(x,y)   the negation of ∀y ¬F(x,y)
    A ⇔ B       neither (A ∧ ¬B) nor (¬A ∧ B), which exclude each other

A formula of weight w is one child of the root: w times a conjunction, −w times the conjunction that
a disjunction denies (up to a constant, which no distribution sees), −w times each of the two of an
equivalence. So the distribution is that of the network in the limit: a sum over n groundings that
are all false is n e^−S instead of 0, and the exponent of its parent is off by at most S n e^−S. A
hard formula gets the weight 2S, which excludes its violation in the same limit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lapis.errors import LapisError, Span
from lapis.fields.field import ROOT, Child, Field, Term
from lapis.fields.resolve import Header, build_field
from lapis.fields.to_logic import variables_of_atoms
from lapis.language.instances import substitute
from lapis.language.model import Model, Predicate, Rule
from lapis.language.resolve import read_model
from lapis.language.syntax import (
    And,
    Atom,
    Comparison,
    Constant,
    Exists,
    ForAll,
    Formula,
    Iff,
    Not,
    Or,
    Truth,
    Variable,
    free_variables,
    map_children,
    subformulas,
    terms_of,
)
from lapis.logic.passes import expand_counts, normalize_comparisons, simplify
from lapis.problem.problem import refuse_unsupported
from lapis.registry.method_table import check_options, known_keywords, seed_of
from lapis.registry.options import FieldFromOptions

SHARPNESS = 8.0
SMALL = 0.01  # standard deviation of the weights that theory revision starts from
UNLEARNED = 1.0  # of a formula without a weight: at 0 nothing below it could be learned


@dataclass(frozen=True)
class FeatureConjunction:
    """A conjunction that becomes a parfeature: ± what holds or not."""

    parts: tuple[Part, ...]
    variables: tuple[str, ...]  # its parameters


Leaf = Atom | Comparison | FeatureConjunction
Part = tuple[int, Leaf]  # 1: holds, −1: does not, 0: whether it does is left open


@known_keywords
def from_model(
    model: Model | str | Path,
    *,
    sharpness: float = SHARPNESS,
    others: bool = False,
    num_random: int = 0,
    random_state: int | np.random.Generator = 0,
) -> Field:
    """Build the field that mirrors the connectives and quantifiers of a Markov logic model.

    Parameters
    ----------
    model
        A Markov logic model or the path of one.
    sharpness
        How hard connectives are: the weights below the root.
    others
        For theory revision: give every parfeature all predicates as children that it does not have,
        with small random weights.
    num_random
        For theory revision: number of further parfeatures of all predicates, with small random
        weights.
    random_state
        Seed of everything random, or a generator to draw one from.

    Returns
    -------
    Field
        The field.

    Raises
    ------
    LapisError
        If the model or an option is wrong, or a formula has no field.

    Examples
    --------
    >>> import lapis
    >>> from lapis import fields
    >>> model = lapis.parse("Fr(p, p)\\nSm(p)\\n1.5 EXIST y Fr(x, y) ^ Sm(y)")
    >>> print(fields.print_field(fields.from_model(model, sharpness=9)))
    Fr(p, p)
    Sm(p)
    <BLANKLINE>
    root:
      -1.5       f1(x)
    <BLANKLINE>
    f1(x):
      -9         f1_1(x, y)
    <BLANKLINE>
    f1_1(x, y):
      9          Fr(x, y)
      9          Sm(y)
    <BLANKLINE>
    """
    options = FieldFromOptions(
        sharpness=sharpness,
        others=others,
        num_random=num_random,
        random_state=seed_of(random_state),
    )
    check_options(options)
    resolved = model if isinstance(model, Model) else read_model(model)
    refuse_unsupported(resolved)
    declarations = replace(resolved, rules=(), constraints=(), warnings=())
    writer = FeatureWriter(sharpness, resolved.predicates, {*resolved.predicates, ROOT})
    for number, (rule, formula, weight) in enumerate(weighted_formulas(resolved, sharpness), 1):
        writer.add_rule(f"f{number}", rule, formula, weight)
    if not writer.root.children:
        raise LapisError(
            "the model has no formulas that a field could be made of",
            code="empty-field",
            hint="write at least one formula, P(x) say",
        )
    rng = np.random.default_rng(options.seed)
    field = build_field(declarations, [writer.root, *writer.headers], resolved.name)
    if others or num_random:
        headers = [header_of(field, name) for name in field.by_name]
        if others:
            for header in headers[1:]:
                add_others(header, field, rng)
        headers += [random_parfeature(field, headers[0], k, rng) for k in range(1, num_random + 1)]
        field = build_field(declarations, headers, resolved.name)
    return field


def weighted_formulas(model: Model, sharpness: float) -> Iterator[tuple[Rule, Formula, float]]:
    """Every formula with its weight; rules with plus variables one for each constant."""
    for rule in model.rules:
        weight = UNLEARNED if rule.weight is None else rule.weight
        if rule.hard:
            yield rule, rule.formula, 2 * sharpness
        elif not rule.plus:
            yield rule, rule.formula, weight
        else:
            table: dict[tuple[str, ...], float] = {}
            types = dict(rule.variables)
            named = [model.types[types[name]] for name in rule.plus]
            if rule.weight is not None or rule.instance_weights is None:
                table = dict.fromkeys(itertools.product(*named), weight)
            if rule.instance_weights is not None:
                written = rule.instance_weights
                table |= dict(zip(written.constants, written.value, strict=True))
            if not table:
                raise LapisError(
                    f"{rule.text!r} has a weight for each constant, but the model names none",
                    code="plus-without-constants",
                    span=rule.span,
                    hint="list the constants of the type in the model, or learn its weights first",
                )
            for constants, value in table.items():
                own = dict(zip(rule.plus, constants, strict=True))
                yield rule, substitute(rule.formula, own), value


@dataclass
class FeatureWriter:
    """Collects parfeatures."""

    sharpness: float
    predicates: Mapping[str, Predicate]
    taken: set[str]

    def __post_init__(self) -> None:
        self.root = Header(ROOT, (), None)
        self.headers: list[Header] = []

    def add_rule(self, name: str, rule: Rule, formula: Formula, weight: float) -> None:
        formula = settle(simplify(normalize_comparisons(expand_counts(formula))))
        if isinstance(formula, Truth):
            return  # the same in all worlds
        if any(not isinstance(t, Variable | Constant) for t in all_terms(formula)):
            raise LapisError(
                "a field compares constants, it does not add to them",
                code="field-offset",
                span=rule.span,
            )
        if not any(isinstance(node, Atom) for node in subformulas(formula)):
            return  # comparisons alone: the same in all worlds
        types, in_atoms = dict(rule.variables + rule.bound), variables_of_atoms(formula)
        free = free_variables(formula)
        parts = conjuncts(formula, True)
        body = formula.body if isinstance(formula, Not) else formula
        single = len(parts) == 1 and set(leaf_variables(parts[0][1])) <= set(free)
        if not (single or isinstance(body, Iff)):
            parts = [(1, FeatureConjunction(tuple(parts), free))]
        # A variable that the simple form does not mention still multiplies the count.
        unseen = [v for v, _ in rule.variables if v not in free and v not in rule.plus]
        if unseen:
            mentions = [(0, self.mention(v, types[v])) for v in unseen]
            parts = [
                (sign, FeatureConjunction(((1, leaf), *mentions), (*leaf_variables(leaf), *unseen)))
                for sign, leaf in parts
            ]
        untyped = {v: types[v] for v in types if v not in in_atoms and v not in rule.plus}
        parts = [(sign, self.with_types(leaf, untyped)) for sign, leaf in parts]
        for place, (sign, leaf) in enumerate(parts, 1):
            own = name if len(parts) == 1 else f"{name}_{place}"
            self.root.children.append(self.child(own, sign * weight, leaf, rule.span))

    def child(self, name: str, weight: float, leaf: Leaf, span: Span | None) -> Child:
        """A child that a parfeature is made for where it is a group."""
        if isinstance(leaf, Atom):
            return Child(weight, leaf.predicate, plain_terms(leaf.terms), span=span)
        if isinstance(leaf, Comparison):
            return Child(weight, leaf.operator, plain_terms((leaf.left, leaf.right)), span=span)
        name = self.fresh(name)
        header = Header(name, tuple((spell(v), span) for v in leaf.variables), span)
        self.headers.append(header)
        groups = itertools.count(1)
        for sign, part in leaf.parts:
            below = f"{name}_{next(groups)}" if isinstance(part, FeatureConjunction) else ""
            child = self.child(below, sign * self.sharpness, part, span)
            header.children.append(child if sign else replace(child, fixed=True))
        return Child(weight, name, tuple(Variable(spell(v)) for v in leaf.variables), span=span)

    def with_types(self, leaf: Leaf, untyped: Mapping[str, str]) -> Leaf:
        """The leaf with an atom beside each comparison of variables that no atom has."""
        if not isinstance(leaf, FeatureConjunction):
            return leaf
        parts = [(sign, self.with_types(part, untyped)) for sign, part in leaf.parts]
        compared = [
            v for _, part in parts if isinstance(part, Comparison) for v in leaf_variables(part)
        ]
        named = [v for v in dict.fromkeys(compared) if v in untyped]
        parts += [(0, self.mention(v, untyped[v])) for v in named]
        return replace(leaf, parts=tuple(parts))

    def mention(self, variable: str, type_name: str) -> Atom:
        """An atom that tells the type of a variable."""
        fitting = (p for p in self.predicates.values() if type_name in p.types)
        predicate = min(fitting, key=lambda p: p.arity)
        names = [f"any{place}_{other}" for place, other in enumerate(predicate.types, 1)]
        names[predicate.types.index(type_name)] = variable
        return Atom(predicate.name, tuple(map(Variable, names)))

    def fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def settle(formula: Formula) -> Formula:
    """Quantifiers over what is always true or false left out: types are taken to have constants."""
    formula = simplify(map_children(formula, settle))
    if isinstance(formula, Exists | ForAll) and isinstance(formula.body, Truth):
        return formula.body
    return formula


def conjuncts(formula: Formula, wanted: bool) -> list[Part]:
    """What must hold, or not, for the formula to be as wanted."""
    match formula:
        case Atom() | Comparison():
            return [(1 if wanted else -1, formula)]
        case Not(body):
            return conjuncts(body, not wanted)
        case And(parts) | Or(parts):
            if isinstance(formula, And) == wanted:
                return [found for part in parts for found in conjuncts(part, wanted)]
            found = [each for part in parts for each in conjuncts(part, not wanted)]
            return [(-1, FeatureConjunction(tuple(found), free_variables(formula)))]
        case Iff(left, right):
            return [
                (-1, FeatureConjunction(tuple(cube), free_variables(formula)))
                for cube in iff_cubes(left, right, not wanted)
            ]
        case ForAll(_, body) | Exists(_, body):
            if isinstance(formula, ForAll) == wanted:
                return conjuncts(body, wanted)
            return [
                (
                    -1,
                    FeatureConjunction(tuple(conjuncts(body, not wanted)), free_variables(formula)),
                )
            ]
        case _:
            raise AssertionError(f"not simplified: {formula}")


def iff_cubes(left: Formula, right: Formula, equal: bool) -> list[list[Part]]:
    """The two ways for both to be equal, or to differ."""
    return [conjuncts(left, value) + conjuncts(right, value == equal) for value in (True, False)]


def leaf_variables(leaf: Leaf) -> Sequence[str]:
    if isinstance(leaf, FeatureConjunction):
        return leaf.variables
    return [term.name for term in terms_of(leaf) if isinstance(term, Variable)]


def all_terms(formula: Formula) -> Iterator[object]:
    return (term for node in subformulas(formula) for term in terms_of(node))


def plain_terms(terms: Sequence[object]) -> tuple[Term, ...]:
    return tuple(
        Variable(spell(t.name)) if isinstance(t, Variable) else Constant(t.name)
        for t in terms
        if isinstance(t, Variable | Constant)
    )


def spell(variable: str) -> str:
    """A name that can be written: those of counted variables have a # in them."""
    return variable.replace("#", "_")


def header_of(field: Field, name: str) -> Header:
    """A parfeature as it could stand in a file."""
    parfeature = field.by_name[name]
    parameters = tuple((parameter, parfeature.span) for parameter in parfeature.parameters)
    return Header(name, parameters, parfeature.span, list(parfeature.children))


def add_others(header: Header, field: Field, rng: np.random.Generator) -> None:
    """All predicates that a parfeature does not have, with small random weights."""
    parfeature = field.by_name[header.name]
    parameters = dict(zip(parfeature.parameters, parfeature.types, strict=True))
    present = {(child.target, child.terms) for child in header.children}
    header.children += [
        child
        for child in predicate_children(field, parameters, rng)
        if (child.target, child.terms) not in present
    ]


def predicate_children(
    field: Field, parameters: dict[str, str], rng: np.random.Generator
) -> Iterator[Child]:
    """Every predicate of the parameters that fit it; other arguments are summed over."""
    for name, predicate in field.declarations.predicates.items():
        choices = []
        for place, type_name in enumerate(predicate.types):
            fitting = [p for p, own in parameters.items() if own == type_name]
            choices.append(fitting or [f"any{place + 1}_{type_name}"])
        for chosen in itertools.product(*choices):
            terms = tuple(Variable(variable) for variable in chosen)
            yield Child(float(rng.normal(0.0, SMALL)), name, terms)


def random_parfeature(field: Field, root: Header, number: int, rng: np.random.Generator) -> Header:
    """A parfeature of all predicates over the arguments of one of them; it joins the root."""
    predicates = list(field.declarations.predicates.values())
    predicate = predicates[int(rng.integers(len(predicates)))]
    parameters = {f"x{i}": type_name for i, type_name in enumerate(predicate.types, 1)}
    taken = {*field.by_name, *field.declarations.predicates}
    name = f"random{number}"
    while name in taken:
        name += "_"
    header = Header(name, tuple((p, None) for p in parameters), None)
    header.children += predicate_children(field, parameters, rng)
    terms = tuple(Variable(parameter) for parameter in parameters)
    root.children.append(Child(float(rng.normal(0.0, 1.0)), name, terms))
    return header

"""Convert between Markov logic models and fields: `from_model` and `to_model`.

`from_model` builds a field that mirrors the connectives and quantifiers of a model (thesis, Figure
3.1). A conjunction becomes a parfeature with a child for each conjunct, of weight S if it should be
true and −S if false. S is the sharpness: the parfeature is 1 if all conjuncts hold and at most e^−S
otherwise. Other formulas become conjunctions by De Morgan's laws:

    A ∨ B       the negation of (¬A ∧ ¬B): a parfeature with a negative weight in its parent
    ∀y F(x,y)   the conjuncts of F, summed over y
    ∃y F(x,y)   the negation of ∀y ¬F(x,y)
    A ⇔ B       neither (A ∧ ¬B) nor (¬A ∧ B), which are mutually exclusive

A formula of weight w becomes one child of the root: w times a conjunction, or −w times the negated
conjunction of a disjunction (equal up to a constant). An equivalence has two children of weight −w.
The distribution is that of the model in the limit of large S: a sum over n groundings that are all
false is n e^−S instead of 0, and the exponent of its parent has an error of at most S n e^−S. A
hard formula has the weight 2S.

`to_model` is an approximate inverse. It reads a parfeature as the conjunction of its children whose
weight exceeds a threshold in size: true if positive, false if negative; a sum over y is ∀y, a
negative one ¬∃y. Its weight in the root is that of the formula. Weak children and the sizes of
inner weights are lost. (Section 3.7 of the thesis mentions such an extraction without details.)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from lapis.errors import LapisError, Span
from lapis.fields.field import COMPARISONS, ROOT, Child, Field, FieldTerm, Parfeature
from lapis.fields.field_text import FieldLike, Header, build_field, open_field
from lapis.language.instances import substitute
from lapis.language.model import Model, Predicate, Rule
from lapis.language.resolve import read_model, with_statements
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
    WeightedFormula,
    free_variables,
    map_children,
    subformulas,
    terms_of,
)
from lapis.logic.passes import (
    conjunction,
    expand_counts,
    negate,
    normalize_comparisons,
    push_negations,
    simplify,
)
from lapis.problem.problem import refuse_network, refuse_unsupported
from lapis.problem.task import refuse_stated
from lapis.registry.method_table import check_options, front_door, seed_of
from lapis.registry.options import FieldExtractOptions, FieldFromOptions

SHARPNESS = 8.0
SMALL = 0.01  # standard deviation of the weights that theory revision starts from
UNLEARNED = 1.0  # of a formula without a weight: at 0 nothing below it could be learned


@dataclass(frozen=True)
class FeatureConjunction:
    """A conjunction that becomes a parfeature."""

    parts: tuple[Part, ...]
    variables: tuple[str, ...]  # its parameters


Leaf = Atom | Comparison | FeatureConjunction
Part = tuple[int, Leaf]  # 1: must hold, −1: must not hold, 0: only determines types


@front_door
def from_model(
    model: Model | str | Path,
    *,
    sharpness: float = SHARPNESS,
    others: bool = False,
    num_random: int = 0,
    time_limit: float | None = None,
    max_memory: int | None = None,
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
    time_limit
        Seconds after which the call ends.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
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
        time_limit=time_limit,
        max_memory=max_memory,
    )
    check_options(options)
    resolved = model if isinstance(model, Model) else read_model(model)
    refuse_unsupported(resolved)
    refuse_network(resolved)
    refuse_stated(resolved)
    declarations = replace(resolved, rules=(), constraints=(), warnings=())
    writer = FeatureWriter(sharpness, resolved.predicates, {*resolved.predicates, ROOT})
    for number, (rule, formula, weight) in enumerate(weighted_formulas(resolved, sharpness), 1):
        writer.add_rule(f"f{number}", rule, formula, weight)
    if not writer.root.children:
        raise LapisError(
            "the model has no formula that depends on the world",
            code="empty-field",
            hint="add at least one formula, for example P(x)",
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
    """Yield each formula with its weight; a rule with plus variables once for each constant."""
    for rule in model.rules:
        weight = UNLEARNED if rule.weight is None else rule.weight
        if rule.weight_by is not None:
            raise LapisError(
                f"fields do not support weights from data: {rule.text!r}",
                code="weight-by",
                span=rule.span,
            )
        if rule.numbers:
            raise LapisError(
                f"fields do not support formulas that are multiplied by numbers: {rule.text!r}",
                code="number-field",
                span=rule.span,
            )
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
                    f"{rule.text!r} has a weight for each constant, but the model has no constants",
                    code="plus-without-constants",
                    span=rule.span,
                    hint="list the constants of the type in the model, or learn its weights first",
                )
            for constants, value in table.items():
                own = dict(zip(rule.plus, constants, strict=True))
                yield rule, substitute(rule.formula, own), value


@dataclass
class FeatureWriter:
    """Converts formulas to parfeatures."""

    sharpness: float
    predicates: Mapping[str, Predicate]
    taken: set[str]

    def __post_init__(self) -> None:
        self.root = Header(ROOT, (), None)
        self.headers: list[Header] = []

    def add_rule(self, name: str, rule: Rule, formula: Formula, weight: float) -> None:
        formula = drop_constant_quantifiers(simplify(normalize_comparisons(expand_counts(formula))))
        if isinstance(formula, Truth):
            return  # constant
        if any(not isinstance(t, Variable | Constant) for t in all_terms(formula)):
            raise LapisError(
                "fields do not support offsets such as i+1",
                code="field-offset",
                span=rule.span,
            )
        if not any(isinstance(node, Atom) for node in subformulas(formula)):
            return  # only comparisons: constant
        types, in_atoms = dict(rule.variables + rule.bound), variables_of_atoms(formula)
        free = free_variables(formula)
        parts = signed_conjuncts(formula, True)
        body = formula.body if isinstance(formula, Not) else formula
        single = len(parts) == 1 and set(leaf_variables(parts[0][1])) <= set(free)
        if not (single or isinstance(body, Iff)):
            parts = [(1, FeatureConjunction(tuple(parts), free))]
        # A variable that the simplified formula does not contain still multiplies the count.
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
        """Build the child of a leaf, and the parfeature of a conjunction."""
        if isinstance(leaf, Atom):
            return Child(weight, leaf.predicate, plain_terms(leaf.terms), span=span)
        if isinstance(leaf, Comparison):
            return Child(weight, leaf.operator, plain_terms((leaf.left, leaf.right)), span=span)
        name = self.fresh(name)
        header = Header(name, tuple((writable_name(v), span) for v in leaf.variables), span)
        self.headers.append(header)
        groups = itertools.count(1)
        for sign, part in leaf.parts:
            below = f"{name}_{next(groups)}" if isinstance(part, FeatureConjunction) else ""
            child = self.child(below, sign * self.sharpness, part, span)
            header.children.append(child if sign else replace(child, fixed=True))
        return Child(
            weight, name, tuple(Variable(writable_name(v)) for v in leaf.variables), span=span
        )

    def with_types(self, leaf: Leaf, untyped: Mapping[str, str]) -> Leaf:
        """Add an atom for each variable that occurs in comparisons only, to give it a type."""
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
        """Return an atom that determines the type of a variable."""
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


def drop_constant_quantifiers(formula: Formula) -> Formula:
    """Remove quantifiers over constant formulas; assumes that no type is empty."""
    formula = simplify(map_children(formula, drop_constant_quantifiers))
    if isinstance(formula, Exists | ForAll) and isinstance(formula.body, Truth):
        return formula.body
    return formula


def signed_conjuncts(formula: Formula, wanted: bool) -> list[Part]:
    """Return the signed conjuncts that are equivalent to the formula being as wanted."""
    match formula:
        case Atom() | Comparison():
            return [(1 if wanted else -1, formula)]
        case Not(body):
            return signed_conjuncts(body, not wanted)
        case And(parts) | Or(parts):
            if isinstance(formula, And) == wanted:
                return [found for part in parts for found in signed_conjuncts(part, wanted)]
            found = [each for part in parts for each in signed_conjuncts(part, not wanted)]
            return [(-1, FeatureConjunction(tuple(found), free_variables(formula)))]
        case Iff(left, right):
            return [
                (-1, FeatureConjunction(tuple(cube), free_variables(formula)))
                for cube in iff_cubes(left, right, not wanted)
            ]
        case ForAll(_, body) | Exists(_, body):
            if isinstance(formula, ForAll) == wanted:
                return signed_conjuncts(body, wanted)
            return [
                (
                    -1,
                    FeatureConjunction(
                        tuple(signed_conjuncts(body, not wanted)), free_variables(formula)
                    ),
                )
            ]
        case _:
            raise AssertionError(f"not simplified: {formula}")


def iff_cubes(left: Formula, right: Formula, equal: bool) -> list[list[Part]]:
    """Return the two conjunctions in which both are equal, or differ."""
    return [
        signed_conjuncts(left, value) + signed_conjuncts(right, value == equal)
        for value in (True, False)
    ]


def leaf_variables(leaf: Leaf) -> Sequence[str]:
    if isinstance(leaf, FeatureConjunction):
        return leaf.variables
    return [term.name for term in terms_of(leaf) if isinstance(term, Variable)]


def all_terms(formula: Formula) -> Iterator[object]:
    return (term for node in subformulas(formula) for term in terms_of(node))


def plain_terms(terms: Sequence[object]) -> tuple[FieldTerm, ...]:
    return tuple(
        Variable(writable_name(t.name)) if isinstance(t, Variable) else Constant(t.name)
        for t in terms
        if isinstance(t, Variable | Constant)
    )


def writable_name(variable: str) -> str:
    """Replace the # in names of counted variables, which cannot be written in a file."""
    return variable.replace("#", "_")


def header_of(field: Field, name: str) -> Header:
    """Return a parfeature as written in a file."""
    parfeature = field.by_name[name]
    parameters = tuple((parameter, parfeature.span) for parameter in parfeature.parameters)
    return Header(name, parameters, parfeature.span, list(parfeature.children))


def add_others(header: Header, field: Field, rng: np.random.Generator) -> None:
    """Add all predicates that a parfeature lacks, with small random weights."""
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
    """Yield each predicate with parameters of fitting types; other arguments are summed over."""
    for name, predicate in field.declarations.predicates.items():
        choices = []
        for place, type_name in enumerate(predicate.types):
            fitting = [p for p, own in parameters.items() if own == type_name]
            choices.append(fitting or [f"any{place + 1}_{type_name}"])
        for chosen in itertools.product(*choices):
            terms = tuple(Variable(variable) for variable in chosen)
            yield Child(float(rng.normal(0.0, SMALL)), name, terms)


def random_parfeature(field: Field, root: Header, number: int, rng: np.random.Generator) -> Header:
    """Add a parfeature of all predicates over the arguments of a random one to the root."""
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


THRESHOLD = 1.0


@front_door
def to_model(
    field: FieldLike,
    *,
    threshold: float = THRESHOLD,
    time_limit: float | None = None,
    max_memory: int | None = None,
) -> Model:
    """Read the strongest parts of a field as Markov logic formulas, an approximation.

    Parameters
    ----------
    field
        A field or the path of one.
    threshold
        Weights below it, within a parfeature, are left out.
    time_limit
        Seconds after which the call ends.
    max_memory
        Limit in bytes; 70 % of the machine if absent.

    Returns
    -------
    Model
        Formulas for the children of the root, the strongest first.

    Raises
    ------
    LapisError
        If the field or the threshold is wrong, or no weight reaches the threshold.

    Examples
    --------
    >>> from lapis import fields
    >>> field = fields.parse('''
    ... Sm(p)
    ... Ca(p)
    ... root:
    ...   -1.4  f(x)
    ... f(x):
    ...   5     Sm(x)
    ...   -4    Ca(x)
    ... ''')
    >>> [(rule.weight, rule.text) for rule in fields.to_model(field).rules]
    [(1.4, '!Sm(x) v Ca(x)')]
    """
    check_options(
        FieldExtractOptions(threshold=threshold, time_limit=time_limit, max_memory=max_memory)
    )
    found = open_field(field)
    reader = FormulaReader(found, threshold)
    formulas = []
    for child in sorted(found.root.children, key=lambda child: -abs(child.weight)):
        reader.taken = set(child.variables)
        formula, weight = simplify(reader.read(child)), child.weight
        if isinstance(formula, Truth) or not weight:
            continue
        if weight < 0 and not isinstance(formula, Atom):
            formula, weight = push_negations(negate(formula)), -weight
        reader.types |= found.root.types_in(child)
        formulas.append(WeightedFormula(reader.with_types(formula, child.variables), weight))
    if not formulas:
        raise LapisError(
            "no weight reaches the threshold",
            code="nothing-extracted",
            hint=f"lower the threshold, which is {threshold:g}",
        )
    bare = replace(found.declarations, name=found.name)
    return with_statements(bare, *formulas)


@dataclass
class FormulaReader:
    """Converts parfeatures to formulas, with fresh names for quantified variables."""

    found: Field
    threshold: float
    taken: set[str] = field(default_factory=set)
    types: dict[str, str] = field(default_factory=dict)  # of variables

    def read(self, child: Child) -> Formula:
        """Convert a child to a formula of the variables in its terms."""
        terms = child.terms
        if child.target in COMPARISONS:
            return Comparison(child.target, terms[0], terms[1])  # type: ignore[arg-type]
        parfeature = self.found.by_name.get(child.target)
        if parfeature is None:
            return Atom(child.target, terms)
        below = dict(zip(parfeature.parameters, terms, strict=True))
        return conjunction(tuple(self.conjuncts(parfeature, below)))

    def conjuncts(
        self, parfeature: Parfeature, below: Mapping[str, FieldTerm]
    ) -> Iterator[Formula]:
        for child in parfeature.children:
            if abs(child.weight) < self.threshold:
                continue
            summed = {name: self.fresh(name) for name in parfeature.summed(child)}
            types = parfeature.types_in(child)
            self.types |= {own: types[name] for name, own in summed.items()}
            inside = {**below, **{name: Variable(own) for name, own in summed.items()}}
            terms = (inside[t.name] if isinstance(t, Variable) else t for t in child.terms)
            formula = self.read(replace(child, terms=tuple(terms)))
            if child.weight < 0:
                formula = Exists(tuple(summed.values()), formula) if summed else formula
                yield negate(formula)
            else:
                yield ForAll(tuple(summed.values()), formula) if summed else formula

    def with_types(self, formula: Formula, variables: Sequence[str]) -> Formula:
        """Add tautologies such that each variable occurs in an atom, which determines its type.

        A rule counts once for each value of a free variable, even if its strong children do not
        contain it.
        """
        formula = self.type_bound(formula)
        named = variables_of_atoms(formula)
        always = [self.tautology(name) for name in variables if name not in named]
        return conjunction((formula, *always))

    def type_bound(self, formula: Formula) -> Formula:
        formula = map_children(formula, self.type_bound)
        if isinstance(formula, Exists | ForAll):
            return replace(formula, body=self.with_types(formula.body, formula.variables))
        return formula

    def tautology(self, variable: str) -> Formula:
        """Return a formula of the variable that is always true."""
        type_name = self.types[variable]
        predicates = self.found.declarations.predicates.values()
        predicate = min((p for p in predicates if type_name in p.types), key=lambda p: p.arity)
        place = predicate.types.index(type_name)
        names = [
            variable if position == place else self.fresh("any")
            for position in range(predicate.arity)
        ]
        formula: Formula = Atom(predicate.name, tuple(Variable(name) for name in names))
        others = tuple(name for name in names if name != variable)
        if others:
            formula = Exists(others, formula)
        return Or((formula, Not(formula)))

    def fresh(self, name: str) -> str:
        for number in itertools.chain([""], itertools.count(2)):
            if f"{name}{number}" not in self.taken:
                self.taken.add(f"{name}{number}")
                return f"{name}{number}"
        raise AssertionError


def variables_of_atoms(formula: Formula) -> set[str]:
    return {
        term.name
        for node in subformulas(formula)
        if isinstance(node, Atom)
        for term in node.terms
        if isinstance(term, Variable)
    }

"""The strongest parts of a field as a Markov logic network, to be read by people.

The inverse of `from_logic`, and an approximation where that is exact only in the limit. A
parfeature is read as the conjunction of its strong children, those whose weight is beyond a
threshold: true where it is positive, false where it is negative; a sum over y is ∀y, and a negative
one ¬∃y. Its weight in the root is the formula's. What is lost is everything that makes it a field:
how much two are better than one, and that weights of 1 and 4 are not the same. (The thesis names
such an extraction in its section 3.7, without saying how.)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lapis.errors import LapisError
from lapis.fields.field import COMPARISONS, Child, Field, Parfeature, Term
from lapis.fields.field_text import FieldLike, open_field
from lapis.language.model import Model
from lapis.language.resolve import with_statements
from lapis.language.syntax import (
    Atom,
    Comparison,
    Exists,
    ForAll,
    Formula,
    Not,
    Or,
    Truth,
    Variable,
    WeightedFormula,
    map_children,
    subformulas,
)
from lapis.logic.passes import conjunction, negate, push_negations, simplify
from lapis.registry.method_table import check_options, known_keywords
from lapis.registry.options import FieldExtractOptions

THRESHOLD = 1.0


@known_keywords
def to_model(field: FieldLike, *, threshold: float = THRESHOLD) -> Model:
    """Read the strongest parts of a field as Markov logic formulas, an approximation.

    Parameters
    ----------
    field
        A field or the path of one.
    threshold
        Weights below it, within a parfeature, are left out.

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
    check_options(FieldExtractOptions(threshold=threshold))
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
    """Reads parfeatures as formulas, with names of their own for what they quantify."""

    found: Field
    threshold: float
    taken: set[str] = field(default_factory=set)
    types: dict[str, str] = field(default_factory=dict)  # of variables

    def read(self, child: Child) -> Formula:
        """The child as a formula of the variables in its terms."""
        terms = child.terms
        if child.target in COMPARISONS:
            return Comparison(child.target, terms[0], terms[1])  # type: ignore[arg-type]
        parfeature = self.found.by_name.get(child.target)
        if parfeature is None:
            return Atom(child.target, terms)
        below = dict(zip(parfeature.parameters, terms, strict=True))
        return conjunction(tuple(self.conjuncts(parfeature, below)))

    def conjuncts(self, parfeature: Parfeature, below: Mapping[str, Term]) -> Iterator[Formula]:
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
        """The formula with each variable in an atom, which tells its type.

        A rule counts once for each value of a free variable, also where its strong parts do not
        mention it.
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
        """A formula of the variable that is always true."""
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

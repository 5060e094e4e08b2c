"""A recursive random field: parfeatures whose children are atoms and other parfeatures.

Thesis section 3.2.2 (Lowd and Domingos 2007, "Recursive random fields"). A parfeature has a value
for each assignment g of constants to its parameters,

    f_g(x) = exp( Σ_j w_j Σ_g' f_j,g,g'(x) ) / Z

Its children j are atoms R(g, g') and comparisons of constants (value 0 or 1), and other
parfeatures. The variables of a child that are not parameters are summed over. The root has no
parameters and defines the distribution, P(x) = exp(Σ_j w_j Σ_g f_j,g(x)) / Z_0.

The thesis leaves Z open, since it only rescales the weights of the parents. We use the largest
value of the exponential. Each child is in [0, 1] and child j has n_j terms, so

    log Z = Σ_j max(w_j, 0) n_j

Then every parfeature is in [0, 1] for all domain sizes. It is 1 if all children with positive
weights are 1 and all with negative weights are 0. What did not work: Π (1 + e^w), which is smooth
at w = 0, but makes the value 2^−1000 for a thousand children of small weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from lapis.errors import Span, Warning
from lapis.language.model import Model
from lapis.language.syntax import Constant, Variable
from lapis.runtime.views import count_noun, short_repr

ROOT = "root"
COMPARISONS = ("=", "!=", "<", ">", "<=", ">=")

FieldTerm = Variable | Constant


@dataclass(frozen=True, slots=True)
class Child:
    """A term of the sum in a parfeature's exponent."""

    weight: float
    target: str  # a predicate, a parfeature, or one of COMPARISONS
    terms: tuple[FieldTerm, ...]
    fixed: bool = False  # written @fixed: learning does not change the weight
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def variables(self) -> tuple[str, ...]:
        """The distinct variables, in order."""
        return tuple(dict.fromkeys(t.name for t in self.terms if isinstance(t, Variable)))


@dataclass(frozen=True)
class Parfeature:
    """The exponential of a weighted sum of children.

    A variable that is not a parameter is local to its child: another child may use the same name
    for a variable of another type.
    """

    name: str
    parameters: tuple[str, ...]
    children: tuple[Child, ...]
    types: tuple[str, ...]  # of the parameters
    child_types: tuple[tuple[str, ...], ...]  # for each child the types of its variables
    span: Span | None = field(default=None, compare=False, repr=False)

    @cached_property
    def variable_types(self) -> dict[tuple[str, tuple[FieldTerm, ...]], dict[str, str]]:
        """The type of each parameter and variable of a child, by the child's target and terms."""
        own = dict(zip(self.parameters, self.types, strict=True))
        return {
            (child.target, child.terms): own | dict(zip(child.variables, types, strict=True))
            for child, types in zip(self.children, self.child_types, strict=True)
        }

    def types_in(self, child: Child) -> dict[str, str]:
        """Return the type of each parameter and of each variable of a child."""
        return self.variable_types[child.target, child.terms]

    def summed(self, child: Child) -> tuple[str, ...]:
        """Return the variables over which a child is summed."""
        return tuple(name for name in child.variables if name not in self.parameters)


@dataclass(frozen=True, repr=False)
class Field:
    """Declarations as in a Markov logic file, and parfeatures; the last of `order` is the root."""

    declarations: Model  # without rules
    parfeatures: tuple[Parfeature, ...]
    name: str = field(default="<field>", compare=False)
    warnings: tuple[Warning, ...] = field(default=(), compare=False, repr=False)

    def __repr__(self) -> str:
        size = sum(len(parfeature.children) for parfeature in self.parfeatures)
        counts = [
            count_noun(len(self.declarations.predicates), "predicate"),
            count_noun(len(self.parfeatures), "parfeature"),
            count_noun(size, "weight"),
        ]
        return short_repr("Field", self.name, counts)

    @cached_property
    def by_name(self) -> dict[str, Parfeature]:
        return {parfeature.name: parfeature for parfeature in self.parfeatures}

    @property
    def root(self) -> Parfeature:
        return self.by_name[ROOT]

    def argument_types(self, target: str) -> tuple[str, ...]:
        """Return the types of the arguments of a parfeature or a predicate.

        Parameters
        ----------
        target
            Its name.

        Returns
        -------
        tuple[str, ...]
            A type for each argument.
        """
        if target not in self.by_name:
            return self.declarations.predicates[target].types
        return self.by_name[target].types

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The names of the parfeatures, children before parents."""
        found: dict[str, None] = {}

        def visit(name: str) -> None:
            if name in self.by_name and name not in found:
                for child in self.by_name[name].children:
                    visit(child.target)
                found[name] = None

        visit(ROOT)
        return tuple(found)

    def edges(self) -> Iterator[tuple[Parfeature, Child]]:
        """Yield each parfeature with each of its children, in the order of the weights."""
        for parfeature in self.parfeatures:
            for child in parfeature.children:
                yield parfeature, child

    @property
    def weights(self) -> np.ndarray:
        """float64[num_weights]."""
        return np.array([child.weight for _, child in self.edges()], np.float64)

    @property
    def fixed(self) -> np.ndarray:
        """bool[num_weights]."""
        return np.array([child.fixed for _, child in self.edges()], bool)

    def with_weights(self, weights: np.ndarray) -> Field:
        """Replace the weights.

        Parameters
        ----------
        weights
            float64[num_weights], in the order of `edges`.

        Returns
        -------
        Field
            The same structure with these weights.
        """
        values = iter(weights.tolist())
        parfeatures = tuple(
            replace(
                parfeature,
                children=tuple(
                    replace(child, weight=next(values)) for child in parfeature.children
                ),
            )
            for parfeature in self.parfeatures
        )
        return replace(self, parfeatures=parfeatures)

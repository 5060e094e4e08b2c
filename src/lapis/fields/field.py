"""A recursive random field: parfeatures that sum atoms and other parfeatures.

Thesis section 3.2.2. A parfeature with parameters g is, for each assignment of constants to them,

    f_g(x) = exp( Σ_j w_j Σ_g' f_j,g,g'(x) ) / Z

over its children j: atoms R(g, g') (value 0 or 1), comparisons of constants (0 or 1), and other
parfeatures. Variables of a child that are no parameters are summed out. The root has no parameters,
P(x) = exp(Σ_j w_j Σ_g f_j,g(x)) / Z_0.

The thesis leaves Z free; it only rescales the weights of the parents. Here it is the largest value
that the exponential can take, each child lying in [0, 1] and child j having n_j terms:

    log Z = Σ_j max(w_j, 0) n_j

so that every parfeature lies in [0, 1] for domains of any size, and is 1 where all children with
positive weights are 1 and all with negative ones are 0. What did not work: Π (1 + e^w), which is
smooth at w = 0, makes a sum over a thousand children of small weight 2^−1000.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from lapis.errors import Span, Warning
from lapis.language.model import Model
from lapis.language.syntax import Constant, Variable

ROOT = "root"
COMPARISONS = ("=", "!=", "<", ">", "<=", ">=")

Term = Variable | Constant


@dataclass(frozen=True, slots=True)
class Child:
    """A term of the sum in a parfeature's exponent."""

    weight: float
    target: str  # a predicate, a parfeature, or one of COMPARISONS
    terms: tuple[Term, ...]
    fixed: bool = False  # written @fixed: learning leaves the weight alone
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def variables(self) -> tuple[str, ...]:
        """Each once, in order."""
        return tuple(dict.fromkeys(t.name for t in self.terms if isinstance(t, Variable)))


@dataclass(frozen=True)
class Parfeature:
    """A weighted sum of children, exponentiated.

    A variable that is no parameter is summed over within one child. Another child may use the same
    name for a variable of another type.
    """

    name: str
    parameters: tuple[str, ...]
    children: tuple[Child, ...]
    types: tuple[str, ...]  # of the parameters
    child_types: tuple[tuple[str, ...], ...]  # for each child the types of its variables
    span: Span | None = field(default=None, compare=False, repr=False)

    @cached_property
    def variable_types(self) -> dict[tuple[str, tuple[Term, ...]], dict[str, str]]:
        """The type of each parameter and variable of a child, by the child's target and terms."""
        own = dict(zip(self.parameters, self.types, strict=True))
        return {
            (child.target, child.terms): own | dict(zip(child.variables, types, strict=True))
            for child, types in zip(self.children, self.child_types, strict=True)
        }

    def types_in(self, child: Child) -> dict[str, str]:
        """The type of each parameter and of each variable of a child."""
        return self.variable_types[child.target, child.terms]

    def summed(self, child: Child) -> tuple[str, ...]:
        """The variables that a child sums over."""
        return tuple(name for name in child.variables if name not in self.parameters)


@dataclass(frozen=True)
class Field:
    """Declarations, as in a Markov logic file, and parfeatures; the last of `order` is the root."""

    declarations: Model  # without rules
    parfeatures: tuple[Parfeature, ...]
    name: str = field(default="<field>", compare=False)
    warnings: tuple[Warning, ...] = field(default=(), compare=False, repr=False)

    @cached_property
    def by_name(self) -> dict[str, Parfeature]:
        return {parfeature.name: parfeature for parfeature in self.parfeatures}

    @property
    def root(self) -> Parfeature:
        return self.by_name[ROOT]

    def argument_types(self, target: str) -> tuple[str, ...]:
        """Types of the arguments of a parfeature or a predicate.

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
        """The parfeatures, each after those it refers to."""
        found: dict[str, None] = {}

        def visit(name: str) -> None:
            if name in self.by_name and name not in found:
                for child in self.by_name[name].children:
                    visit(child.target)
                found[name] = None

        visit(ROOT)
        return tuple(found)

    def edges(self) -> Iterator[tuple[Parfeature, Child]]:
        """Every parfeature with each of its children: one for each weight, in order."""
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

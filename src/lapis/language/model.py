"""A model: predicates, types and weighted rules with all names resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lapis.errors import Span, Warning
from lapis.language.syntax import Cardinality, Formula


@dataclass(frozen=True, slots=True)
class Predicate:
    """A typed relation symbol; a function is the predicate of its graph, value last."""

    name: str
    types: tuple[str, ...]
    block: tuple[int, ...] = ()  # positions marked ! or ?: their value is unique given the rest
    exactly_one: bool = True  # a block has exactly one true atom (!), or at most one (?)
    closed: bool = False  # declared *P(t): evidence unless queried
    function: bool = False  # written Value = f(arguments)
    factors: tuple[float, float] | None = None  # WFOMC weights of a true and a false atom
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def arity(self) -> int:
        return len(self.types)


@dataclass(frozen=True, slots=True)
class InstanceWeights:
    """The weights of a rule with plus variables, by the constants of these variables."""

    constants: tuple[tuple[str, ...], ...]  # of the plus variables, in the order of `Rule.plus`
    value: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A formula with its weight.

    In `formula` every term is a variable or a constant (offsets occur in comparisons only), no atom
    is starred, and no two quantifiers bind the same name. Each assignment of constants to
    `variables` is one Boolean feature.
    """

    formula: Formula
    variables: tuple[tuple[str, str], ...]  # free variables in order of occurrence: (name, type)
    bound: tuple[tuple[str, str], ...]  # quantified variables: (name, type)
    weight: float | None  # None: to be learned
    hard: bool
    text: str  # the formula as printed, without weight and final period
    plus: tuple[str, ...] = ()  # free variables with one weight for each constant
    fixed: bool = False
    utility: float | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    # Weights of a rule with plus variables; all other constants have `weight`.
    instance_weights: InstanceWeights | None = None


@dataclass(frozen=True)
class Model:
    """Types, predicates and weighted rules.

    `types` maps every type to the constants that the model itself names, in order; data may add
    more.
    """

    types: Mapping[str, tuple[str, ...]]
    predicates: Mapping[str, Predicate]
    rules: tuple[Rule, ...]
    constraints: tuple[Cardinality, ...] = ()
    warnings: tuple[Warning, ...] = field(default=(), compare=False, repr=False)
    name: str = field(default="<model>", compare=False)

    def with_rules(self, rules: tuple[Rule, ...]) -> Model:
        """Replace the rules.

        Parameters
        ----------
        rules
            The new rules.

        Returns
        -------
        Model
            The same declarations with these rules.
        """
        return replace(self, rules=rules)

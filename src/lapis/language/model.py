"""A model: predicates, types and weighted rules with all names resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Literal

from lapis.errors import Span, Warning
from lapis.language.syntax import Cardinality, Formula, ProbabilityConstraint, Term
from lapis.runtime.views import REPR_ROWS, count_noun, draw_html, new_view, short_repr, shorten

if TYPE_CHECKING:
    import numpy as np


NUMBER_TYPE = "float"  # of the values of functions that are numbers
Scale = Literal["", "log", "logit"]  # v, log v, log v/(1 − v)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A typed relation symbol; a function is the predicate of its graph, value last."""

    name: str
    types: tuple[str, ...]
    block: tuple[int, ...] = ()  # positions marked ! or ?: their value is unique given the rest
    exactly_one: bool = True  # a block has exactly one true atom (!), or at most one (?)
    closed: bool = False  # declared *P(t): evidence unless queried
    function: bool = False  # written Value = f(arguments)
    # A variable of a network or a ground program: always open, its states are fixed, its name may
    # be any text. It has one argument, its state, or none: true or false.
    variable: bool = False
    factors: tuple[float, float] | None = None  # WFOMC weights of a true and a false atom
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def arity(self) -> int:
        return len(self.types)

    @property
    def is_number(self) -> bool:
        """Whether this is a function whose values are numbers, declared float f(t)."""
        return self.function and self.types[-1] == NUMBER_TYPE


@dataclass(frozen=True, slots=True, eq=False)
class StateTable:
    """A factor over variables of a network: the table of a Bayesian or Markov network."""

    variables: tuple[str, ...]
    log_value: np.ndarray  # float64[states of each variable], at most 0; −inf: impossible
    log_scale: float  # added to every entry


@dataclass(frozen=True, slots=True)
class InstanceWeights:
    """The weights of a rule with plus variables, by the constants of these variables."""

    constants: tuple[tuple[str, ...], ...]  # of the plus variables, in the order of `Rule.plus`
    value: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RuleNumber:
    """A number that multiplies the count of a rule: the value of a function on some scale."""

    function: str
    terms: tuple[Term, ...]  # variables of the rule and constants
    scale: Scale = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A formula with its weight.

    In `formula` every term is a variable or a constant (offsets occur in comparisons only), no atom
    is starred, and no two quantifiers bind the same name. Each assignment of constants to
    `variables` is one Boolean feature, times the product of `numbers` for these constants.
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
    weight_by: str | None = None  # the plus variable whose constants, numbers, are the weights
    numbers: tuple[RuleNumber, ...] = ()  # `text` has them, `formula` does not


@dataclass(frozen=True, repr=False)
class Model:
    """Types, predicates and weighted rules.

    `types` maps every type to the constants that the model itself names, in order; data may add
    more.
    """

    types: Mapping[str, tuple[str, ...]]
    predicates: Mapping[str, Predicate]
    rules: tuple[Rule, ...]
    constraints: tuple[Cardinality, ...] = ()
    # Their formulas are as written: `with_statements` makes rules of them.
    probability_constraints: tuple[ProbabilityConstraint, ...] = ()
    tables: tuple[StateTable, ...] = ()  # of a network
    queries: tuple[str, ...] = ()  # predicates that are queried if nothing else is
    # Types with a number of constants; names are generated for constants that data do not name.
    sizes: Mapping[str, int] = field(default_factory=dict)
    # What a missing number means: an error, or no grounding ("skip").
    missing: Literal["error", "skip"] = "error"
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

    @property
    def uncertain_predicates(self) -> tuple[str, ...]:
        """The names of the predicates that can be queried: all but functions of numbers."""
        return tuple(name for name, each in self.predicates.items() if not each.is_number)

    @property
    def has_variables(self) -> bool:
        """Whether this is a network or a ground program, whose predicates are variables."""
        return any(predicate.variable for predicate in self.predicates.values())

    def __repr__(self) -> str:
        if self.tables:
            lines = [f"{name}: {states}" for name, states in self._first_states()]
            return short_repr("Model", self.name, self._counts(), lines, len(self.predicates))
        from lapis.language.printer import declare_predicate, print_statement

        declared = [print_statement(declare_predicate(p)) for p in self._first_predicates()]
        rest = ["…"] if len(self.predicates) > len(declared) else []
        rules = [
            f"{rule.text}." if rule.hard else f"{show_weight(rule)} {rule.text}".strip()
            for rule in self.rules[:REPR_ROWS]
        ]
        lines = [", ".join([*declared, *rest]), *rules]
        return short_repr("Model", self.name, self._counts(), lines, 1 + len(self.rules))

    def _first_states(self) -> list[tuple[str, str]]:
        """Return the first variables of a network with their states."""
        names = [predicate.name for predicate in self._first_predicates()]
        return [(name, shorten(", ".join(self.types[name]), 80)) for name in names]

    def _repr_html_(self) -> str:
        if self.tables:
            view = new_view(
                ["variable", "states"], self._first_states(), num_rows=len(self.predicates)
            )
            return draw_html([view], [f"{self.name}: {', '.join(self._counts())}"])
        predicates = new_view(
            ["predicate", "types"],
            [(p.name, ", ".join(p.types)) for p in self._first_predicates()],
            num_rows=len(self.predicates),
        )
        rules = new_view(
            ["weight", "formula"],
            [(show_weight(rule), shorten(rule.text, 200)) for rule in self.rules[:REPR_ROWS]],
            numbers=["weight"],
            num_rows=len(self.rules),
        )
        return draw_html([predicates, rules], [f"{self.name}: {', '.join(self._counts())}"])

    def _first_predicates(self) -> list[Predicate]:
        return list(islice(self.predicates.values(), REPR_ROWS))

    def _counts(self) -> list[str]:
        if self.tables:
            variables = count_noun(len(self.predicates), "variable")
            size = sum(table.log_value.size for table in self.tables)
            return [variables, f"{count_noun(len(self.tables), 'table')} of {size:,} numbers"]
        hard = sum(rule.hard for rule in self.rules)
        rules = count_noun(len(self.rules), "rule") + (f" ({hard:,} hard)" if hard else "")
        constants = sum(map(len, self.types.values()))
        return [
            count_noun(len(self.predicates), "predicate"), rules, count_noun(constants, "constant")
        ]  # fmt: skip


def show_weight(rule: Rule) -> str:
    """Return the weight of a rule for a table; empty if it is to be learned."""
    if rule.instance_weights is not None:
        return f"{min(rule.instance_weights.value):g} … {max(rule.instance_weights.value):g}"
    if rule.weight_by is not None:
        return rule.weight_by
    if rule.hard:
        return "hard"
    return "" if rule.weight is None else f"{rule.weight:g}"

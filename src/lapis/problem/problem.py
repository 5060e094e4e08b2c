"""A problem: a model on one world, with every ground atom true, false or unknown.

The closed-world assumption is made here. A predicate is open if it is queried or listed in
`open_predicates`: its atoms are unknown unless the data states them. All other predicates are
closed: their atoms are false unless the data states them or marks them unknown (?).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

import numpy as np

from lapis.data.database import Database, Domain, empty_tuples
from lapis.data.keys import sorted_unique
from lapis.data.lazy_database import LazyRelation, LazyRows
from lapis.errors import LapisError, TooLarge, issue_warnings, raise_all, suggestion
from lapis.language.model import Model, Predicate, Rule
from lapis.language.names import format_constant
from lapis.language.syntax import Comparison, Constant, Formula, Offset, Variable, children
from lapis.logic.clauses import NormalForm, TypedVariable
from lapis.logic.normalize import normalize
from lapis.runtime.limits import format_bytes
from lapis.runtime.processes import pause_collector
from lapis.runtime.views import REPR_ROWS, count_noun, draw_html, new_view, short_repr


@dataclass(frozen=True)
class Evidence:
    """The evidence on one predicate's atoms. Rows are unique and sorted lexicographically.

    Open: unknown except `true` and `false`. Closed: false except `true` and `unknown`.
    """

    predicate: Predicate
    open: bool
    true: np.ndarray  # int32[num_true, arity]
    false: np.ndarray  # int32[num_false, arity], empty if closed
    unknown: np.ndarray  # int32[num_unknown, arity], empty if open

    @property
    def num_true(self) -> int:
        return len(self.true)


class LazyEvidence(Evidence):
    """A closed predicate whose true atoms are read on first use."""

    def __init__(self, predicate: Predicate, rows: LazyRows) -> None:
        none = empty_tuples(predicate.arity)
        fields = {"predicate": predicate, "open": False, "false": none, "unknown": none}
        for name, value in {**fields, "rows": rows}.items():
            object.__setattr__(self, name, value)

    rows: LazyRows

    @property
    def num_true(self) -> int:
        return len(self.rows)

    @cached_property
    def true(self) -> np.ndarray:
        return self.rows.fetch(self.predicate.name)


@dataclass(frozen=True)
class WeightTable:
    """The numbering of weights: rule r with plus variables over domains d₁…d_m has Π d_i weights.

    The id of rule r at constants (c₁…c_m) is offset[r] + the mixed-radix value of the c_i in the
    order of `Rule.plus`, the last varying fastest. Hard rules have none.
    """

    offset: np.ndarray  # int64[num_rules + 1]
    shape: tuple[tuple[int, ...], ...]  # for each rule, the sizes of its plus variables' domains
    # float64[num_weights + num_tables]; 0 where the weight is to be learned, 1 for each table
    value: np.ndarray

    def __len__(self) -> int:
        return int(self.offset[-1])


@dataclass(frozen=True, repr=False)
class Problem:
    model: Model
    normal_form: NormalForm
    domains: Mapping[str, Domain]  # all constants of model and data, by type
    evidence: Mapping[str, Evidence]  # for each predicate of the model
    query: tuple[str, ...] = ()
    name: str = field(default="<problem>", compare=False)
    # float64[num_weights], in place of those written in the model
    weights: np.ndarray | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        lines = [
            f"{name}({types}): {world}, {counts[0]} true, {counts[1]} false, {counts[2]} unknown"
            for name, types, world, *counts in self._rows()
        ]
        return short_repr("Problem", self.name, self._counts(), lines, len(self.evidence))

    def _repr_html_(self) -> str:
        headings = ["predicate", "types", "world", "true", "false", "unknown"]
        view = new_view(headings, self._rows(), numbers=headings[3:], num_rows=len(self.evidence))
        return draw_html([view], [f"{self.name}: {', '.join(self._counts())}"])

    def _rows(self) -> list[tuple[str, ...]]:
        """Return the first predicates with their facts."""
        return [
            (
                name,
                ", ".join(found.predicate.types),
                "open" if found.open else "closed",
                *(f"{n:,}" for n in (found.num_true, len(found.false), len(found.unknown))),
            )
            for name, found in islice(self.evidence.items(), REPR_ROWS)
        ]

    def _counts(self) -> list[str]:
        num_open = sum(found.open for found in self.evidence.values())
        constants = sum(map(len, self.domains.values()))
        return [
            f"{count_noun(len(self.evidence), 'predicate')} ({num_open:,} open)",
            count_noun(len(self.model.rules), "rule"),
            count_noun(constants, "constant"),
            f"query {', '.join(self.query[:REPR_ROWS]) or '–'}",
        ]

    def with_weights(self, weights: np.ndarray) -> Problem:
        """Replace the weights.

        Parameters
        ----------
        weights
            float64[num_weights], in the order of `weight_table`.

        Returns
        -------
        Problem
            The same problem with these weights.
        """
        return replace(self, weights=weights)

    def num_groundings(self, variables: tuple[TypedVariable, ...]) -> int:
        """Count groundings: the product of the numbers of constants over the types of variables.

        Parameters
        ----------
        variables
            The variables with their types.

        Returns
        -------
        int
            The number of groundings.
        """
        return math.prod(len(self.domains[type_name]) for _, type_name in variables)

    @cached_property
    def weight_table(self) -> WeightTable:
        rules = self.model.rules
        shapes = tuple(self._plus_shape(rule) for rule in rules)
        sizes = [count_weights(rule, self.domains) for rule in rules]
        offset = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        soft = [0.0 if rule.weight is None else rule.weight for rule in rules if not rule.hard]
        value = np.repeat(soft, [s for r, s in zip(rules, sizes, strict=True) if not r.hard])
        for number, rule in enumerate(rules):
            if rule.instance_weights is not None or rule.weight_by is not None:
                domains = [self.domains[dict(rule.variables)[name]] for name in rule.plus]
                value[offset[number] : offset[number + 1]] = weights_of_rule(rule, domains)
        value = np.concatenate([value, np.ones(len(self.model.tables))])
        return WeightTable(offset, shapes, value if self.weights is None else self.weights)

    def _plus_shape(self, rule: Rule) -> tuple[int, ...]:
        """Return the sizes of the domains of a rule's + variables."""
        types = dict(rule.variables)
        return tuple(len(self.domains[types[name]]) for name in rule.plus)

    def require_complete(self) -> None:
        """Raise if the data marks facts unknown.

        Raises
        ------
        LapisError
            If the data marks facts unknown.
        """
        for evidence in self.evidence.values():
            if len(evidence.unknown):
                raise LapisError(
                    f"this needs complete data, but facts of {evidence.predicate.name!r} "
                    "are marked unknown (?)",
                    code="incomplete-data",
                )

    def rule_weight_names(self, rule: Rule) -> list[str]:
        """Name each weight of a rule by the formula with its + variables' constants.

        Parameters
        ----------
        rule
            The rule.

        Returns
        -------
        list[str]
            A name for each weight; none of a hard rule.
        """
        if rule.hard:
            return []
        if not rule.plus:
            return [rule.text]
        from lapis.language.instances import print_instances

        types = dict(rule.variables)
        return print_instances(rule, [self.domains[types[name]].constants for name in rule.plus])


MAX_WEIGHTS = 50_000_000  # of a rule: every method has several arrays over them


def count_weights(rule: Rule, domains: Mapping[str, Domain]) -> int:
    """Return the number of weights of a rule: Π |domain| over its plus variables, 0 if it is hard.

    Raises
    ------
    TooLarge
        If they are more than `MAX_WEIGHTS`.
    """
    if rule.hard:
        return 0
    types = dict(rule.variables)
    number = math.prod(len(domains[types[name]]) for name in rule.plus)
    if number > MAX_WEIGHTS:
        raise TooLarge(
            f"{rule.text!r} has {number:,} weights, one for each combination of constants of "
            f"{', '.join('+' + name for name in rule.plus)}: {format_bytes(8 * number)} for each "
            f"array of them; at most {MAX_WEIGHTS:,} are possible",
            code="too-many-weights",
            span=rule.span,
            hint="mark fewer variables with +, or give types fewer constants",
        )
    return number


def weights_of_rule(rule: Rule, domains: Sequence[Domain]) -> np.ndarray:
    """Return float64[Π domain sizes], the weights at all constants; a hard rule has none."""
    if rule.hard:
        return np.empty(0)
    sizes = [len(domain) for domain in domains]
    if rule.weight_by is not None:
        place = rule.plus.index(rule.weight_by)
        own = domains[place].numeric.reshape([-1 if i == place else 1 for i in range(len(sizes))])
        return np.broadcast_to(own, sizes).reshape(-1).copy()
    values = np.full(int(np.prod(sizes, dtype=np.int64)), rule.weight or 0.0)
    if rule.instance_weights is not None:
        for constants, value in zip(
            rule.instance_weights.constants, rule.instance_weights.value, strict=True
        ):
            number = 0
            for constant, domain in zip(constants, domains, strict=True):
                code = domain.index.get(constant)
                if code is None:
                    break
                number = number * len(domain) + code
            else:
                values[number] = value
    return values


@pause_collector
def build_problem(
    model: Model,
    database: Database | None = None,
    query: Sequence[str] = (),
    *,
    open_predicates: Sequence[str] = (),
) -> Problem:
    """Build the problem of a model on data; predicates not queried or open are closed.

    Parameters
    ----------
    model
        The model.
    database
        The facts of one world.
    query
        Predicates that are queried, and therefore open.
    open_predicates
        Further predicates whose atoms are unknown unless the data states them.

    Returns
    -------
    Problem
        Model, domains and evidence.

    Raises
    ------
    LapisError
        If a predicate is unknown, or data and model contradict each other.

    Examples
    --------
    >>> from lapis.language import parse_model
    >>> model = parse_model("person = {Anna, Bob}\\nSmokes(person)\\n1 Smokes(x)")
    >>> build_problem(model, query=["Smokes"]).num_groundings(model.rules[0].variables)
    2
    """
    from lapis.data.binding import bind, keep_known

    [known], warnings = keep_known([database if database is not None else Database({}, {})], model)
    issue_warnings(warnings)
    return problem_on(model, bind(known, model), query, open_predicates=open_predicates)


def problem_on(
    model: Model,
    bound: Database,
    query: Sequence[str] = (),
    *,
    open_predicates: Sequence[str] = (),
    unknown: Mapping[str, np.ndarray] | None = None,
    normal_form: NormalForm | None = None,
) -> Problem:
    """Build the problem on data bound to the model; `unknown` are rows of further unknown atoms.

    The model may have predicates that the data was not bound to.
    """
    names = (*query, *open_predicates)
    places = [
        *((name, "the query") for name in query),
        *((name, "--open") for name in open_predicates),
    ]
    raise_all(
        [
            unknown_predicate_error(n, model, where)
            for n, where in places
            if n not in model.predicates
        ]
    )
    raise_all(
        [
            number_query_error(model.predicates[n], where)
            for n, where in places
            if model.predicates[n].is_number
        ]
    )
    normal_form = normalize(model) if normal_form is None else normal_form
    raise_all(check_numbers(model, bound.domains))
    for rule in model.rules:
        count_weights(rule, bound.domains)
    evidence = {
        name: predicate_evidence(
            predicate, bound, predicate.variable or name in names, (unknown or {}).get(name)
        )
        for name, predicate in model.predicates.items()
    }
    return Problem(model, normal_form, bound.domains, evidence, tuple(query), bound.name)


def predicate_evidence(
    predicate: Predicate, database: Database, is_open: bool, unknown: np.ndarray | None
) -> Evidence:
    relation = database.relations.get(predicate.name)
    none = empty_tuples(predicate.arity)
    if relation is None:
        return Evidence(predicate, is_open, none, none, none)
    if isinstance(relation, LazyRelation) and not is_open and unknown is None:
        return LazyEvidence(predicate, relation.rows)
    if is_open:
        return Evidence(predicate, True, relation.true, relation.false, none)
    if unknown is not None:
        unknown = sorted_unique(np.concatenate([relation.unknown, unknown]))
    marked = relation.unknown if unknown is None else unknown
    return Evidence(predicate, False, relation.true, none, marked)


def refuse_unsupported(model: Model) -> None:
    """Raise for cardinality constraints, and for factors that are not positive."""
    errors = [
        LapisError(
            "cardinality constraints cannot be used here",
            code="cardinality",
            span=constraint.span,
            hint="lapis infer, lapis map and lapis lift support them",
        )
        for constraint in model.constraints
    ]
    raise_all([*errors, *factor_errors(model)])


def refuse_factors(model: Model) -> None:
    """Raise if a predicate has factors that are not positive: they define no probabilities."""
    raise_all(factor_errors(model))


def refuse_network(model: Model) -> None:
    """Raise if the model is a Bayesian or Markov network."""
    if model.tables:
        raise LapisError(
            f"{model.name} is a network: it has tables, and no formulas",
            code="network",
            hint="infer, map, plan, check and ground take networks; so does lapis circuit",
        )


def factor_errors(model: Model) -> list[LapisError]:
    return [
        LapisError(
            f"predicate {predicate.name!r} has a factor {min(predicate.factors):g}: "
            "only positive factors define probabilities",
            code="factor",
            span=predicate.span,
        )
        for predicate in model.predicates.values()
        if predicate.factors is not None
    ]


def unknown_predicate_error(name: str, model: Model, where: str = "the query") -> LapisError:
    known = ", ".join(model.predicates)
    otherwise = f"the model has: {known}" if known else "the model declares no predicates"
    return LapisError(
        f"unknown predicate {name!r} in {where}",
        code="unknown-query",
        hint=suggestion(name, model.predicates, otherwise),
    )


def number_query_error(predicate: Predicate, where: str) -> LapisError:
    return LapisError(
        f"{predicate.name} in {where} is a function of numbers, which are known: "
        "they are neither queried nor sampled",
        code="number-query",
        hint=f"declared at {predicate.span}" if predicate.span else None,
    )


def check_numbers(model: Model, domains: Mapping[str, Domain]) -> list[LapisError]:
    """Return errors for comparisons by < or with offsets over constants that are not numbers.

    This includes comparisons that no clause contains, such as i >= i and i < i+1.
    """
    errors: dict[tuple[int, str], LapisError] = {}
    for index, rule in enumerate(model.rules):
        types = dict(rule.variables + rule.bound)
        if rule.weight_by is not None:
            word = not_a_number(Variable(rule.weight_by), types, domains)
            if word is not None:
                errors[index, word] = LapisError(
                    f"{rule.text!r} has the weight {rule.weight_by}, but {word} is not a number",
                    code="not-a-number",
                    span=rule.span,
                )
        for comparison in comparisons_in(rule.formula):
            terms = comparison.left, comparison.right
            if comparison.operator in ("=", "!=") and not any(isinstance(t, Offset) for t in terms):
                continue
            for term in terms:
                plain = term.variable if isinstance(term, Offset) else term
                assert isinstance(plain, Variable | Constant)
                word = not_a_number(plain, types, domains)
                if word is not None:
                    errors[index, word] = LapisError(
                        f"{rule.text!r} compares numbers, but {word} is not a number",
                        code="not-a-number",
                        span=rule.span,
                    )
    return list(errors.values())


def comparisons_in(formula: Formula) -> Iterator[Comparison]:
    """Yield the comparisons of a formula from left to right."""
    if isinstance(formula, Comparison):
        yield formula
    for part in children(formula):
        yield from comparisons_in(part)


def not_a_number(
    term: Variable | Constant, types: Mapping[str, str], domains: Mapping[str, Domain]
) -> str | None:
    """Describe a constant that the term may denote and that is not a number; None if all are."""
    is_constant = isinstance(term, Constant)
    domain = Domain("", (term.name,)) if is_constant else domains[types[term.name]]
    bad = np.flatnonzero(np.isnan(domain.numeric))
    if not len(bad):
        return None
    constant = format_constant(domain.constants[int(bad[0])])
    return f"{constant} of type {domain.name!r}" if domain.name else constant

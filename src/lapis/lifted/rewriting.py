"""Rewrite a problem to an equivalent one that is easier to lift.

Neither of the two rewritings changes the weight of a world.

`separate_parts`. A hard clause A(x) ∨ B(y) whose parts have no common variable holds in a world
where ∀x A(x) or ∀y B(y) holds. With the proposition E ⇔ ∃x ¬A(x), an exception to A, it is

    ¬E ∨ B(y),

so that no clause mixes the variables of two parts. A sum over E is the inclusion–exclusion of
Van den Broeck et al. (2011), Z(∀A) + Z(∀B) − Z(∀A ∧ ∀B). They apply it to parts without a common
*region*, after clauses are shattered; here the parts may range over the same constants, because
clauses are not shattered yet. A clause of n parts gets n − 1 propositions.

`split_types`. Two arguments that no variable joins, in any formula, may have different types of
equal size: `p(x) v q(y)` with x and y of one type has the same meaning if q has a copy of that
type. Each class of joined arguments gets a copy, a *sort*. Then clauses are not split by which
variables of different sorts are equal, and counts of p and q are independent sums instead of one
sum over four kinds of constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from lapis.language.model import Predicate, Rule
from lapis.language.syntax import ComparisonOperator, Variable
from lapis.logic.clauses import (
    Clause,
    Condition,
    Cube,
    Definition,
    Feature,
    Literal,
    NormalForm,
    TypedVariable,
)
from lapis.problem.problem import Evidence, Problem

COPY = "\0"  # separates a type from the number of its sort
NEGATED: Mapping[ComparisonOperator, ComparisonOperator] = {
    "=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
}  # fmt: skip
MAX_SEPARATED = 6  # propositions: each may triple the circuit
Place = tuple[str, int | str]  # an argument of a predicate, or a variable of a clause
Piece = Literal | Condition
T = TypeVar("T")


def separate_parts(problem: Problem) -> Problem:
    """Replace hard clauses of parts without a common variable by one clause for each part.

    >>> import lapis
    >>> model = lapis.parse("p(d)\\nq(d)\\np(x) v q(y).")
    >>> form = separate_parts(lapis.build_problem(model, query=["p", "q"])).normal_form
    >>> [literal.predicate for literal in form.features[0].clauses[0].literals]
    ['exception 1', 'p']
    """
    form = problem.normal_form
    added: list[Definition] = []
    features: list[Feature] = []
    for feature in form.features:
        for clause in feature.clauses if feature.hard else ():
            parts = split_clause_parts(clause)
            if len(parts) < 2 or len(added) + len(parts) - 1 > MAX_SEPARATED:
                features.append(replace(feature, clauses=(clause,)))
                continue
            kept, *others = sorted(parts, key=len, reverse=True)
            new = [
                define_exception(part, feature, len(added) + i + 1) for i, part in enumerate(others)
            ]
            added += new
            bound = {variable for each in new for variable in each.bound}
            propositions = [Literal(each.predicate.name, (), False) for each in new]
            rest = clause_of([*propositions, *kept, *ground_pieces(clause)])
            left = tuple(variable for variable in feature.variables if variable not in bound)
            features.append(replace(feature, variables=left, clauses=(rest,)))
        if not feature.hard:
            features.append(feature)
    if not added:
        return problem
    return replace(problem, normal_form=NormalForm(tuple(features), (*form.definitions, *added)))


def pieces_of(clause: Clause | Cube) -> tuple[Piece, ...]:
    return (*clause.literals, *clause.conditions)


def piece_terms(piece: Piece) -> tuple[object, ...]:
    return piece.terms if isinstance(piece, Literal) else (piece.left, piece.right)


def piece_variables(piece: Piece) -> set[str]:
    return {term.name for term in piece_terms(piece) if isinstance(term, Variable)}


def ground_pieces(clause: Clause) -> list[Piece]:
    return [piece for piece in pieces_of(clause) if not piece_variables(piece)]


def split_clause_parts(clause: Clause) -> list[list[Piece]]:
    """Group the literals and conditions with common variables; ground ones are in no group."""
    groups: list[tuple[set[str], list[Piece]]] = []
    for piece in pieces_of(clause):
        variables, own = piece_variables(piece), [piece]
        if not variables:
            continue
        for group in [group for group in groups if group[0] & variables]:
            groups.remove(group)
            variables, own = variables | group[0], group[1] + own
        groups.append((variables, own))
    return [own for _, own in groups]


def define_exception(part: Iterable[Piece], feature: Feature, number: int) -> Definition:
    """Define the proposition "some assignment makes all pieces of a part false"."""
    literals = tuple(piece.negate() for piece in part if isinstance(piece, Literal))
    conditions = tuple(
        piece._replace(operator=NEGATED[piece.operator])
        for piece in part
        if isinstance(piece, Condition)
    )
    used = {name for piece in part for name in piece_variables(piece)}
    bound = tuple(variable for variable in feature.variables if variable[0] in used)
    proposition = Predicate(f"exception {number}", ())
    return Definition(proposition, (), bound, (Cube(literals, conditions),))


def clause_of(pieces: Iterable[Piece]) -> Clause:
    found = list(pieces)
    return Clause(
        tuple(piece for piece in found if isinstance(piece, Literal)),
        tuple(piece for piece in found if isinstance(piece, Condition)),
    )


def declared_type(sort: str) -> str:
    """Return the type of the model that a sort is a copy of."""
    return sort.partition(COPY)[0]


def split_types(problem: Problem) -> Problem:
    """Give arguments that no variable joins different sorts, which are copies of their type.

    >>> import lapis
    >>> model = lapis.parse("p(d)\\nq(d)\\nr(d)\\n1 p(x) ^ q(y)\\n1 q(x) ^ r(x)")
    >>> found = split_types(lapis.build_problem(model, query=["p", "q", "r"])).model.predicates
    >>> found["p"].types == found["q"].types, found["q"].types == found["r"].types
    (False, True)
    """
    sorts = find_sorts(problem)
    if all(sort == declared_type(sort) for sort in sorts.values()):
        return problem
    form = problem.normal_form

    def sort_predicate(predicate: Predicate) -> Predicate:
        places = ((predicate.name, position) for position in range(predicate.arity))
        return replace(predicate, types=tuple(sorts[place] for place in places))

    def sort_variables(
        scope: str, variables: tuple[TypedVariable, ...]
    ) -> tuple[TypedVariable, ...]:
        return tuple((name, sorts[scope, name]) for name, _ in variables)

    features = tuple(
        replace(feature, variables=sort_variables(scope, feature.variables))
        for scope, feature in scopes(form.features)
    )
    definitions = tuple(
        replace(
            each,
            predicate=sort_predicate(each.predicate),
            variables=sort_variables(scope, each.variables),
            bound=sort_variables(scope, each.bound),
        )
        for scope, each in scopes(form.definitions)
    )
    predicates = {name: sort_predicate(p) for name, p in problem.model.predicates.items()}
    rules = list(problem.model.rules)
    for feature in features:
        rules[feature.rule] = sort_rule(rules[feature.rule], feature.variables)
    evidence = {
        name: Evidence(predicates[name], each.open, each.true, each.false, each.unknown)
        for name, each in problem.evidence.items()
    }
    copies = {
        sort: replace(problem.domains[declared_type(sort)], name=sort) for sort in sorts.values()
    }
    return replace(
        problem,
        model=replace(problem.model, predicates=predicates, rules=tuple(rules)),
        normal_form=NormalForm(features, definitions),
        domains={**problem.domains, **copies},
        evidence=evidence,
    )


def sort_rule(rule: Rule, variables: tuple[TypedVariable, ...]) -> Rule:
    sort_of = dict(variables)
    return replace(
        rule, variables=tuple((name, sort_of.get(name, t)) for name, t in rule.variables)
    )


def find_sorts(problem: Problem) -> Mapping[Place, str]:
    """Return the sort of each argument of a predicate and of each variable of a clause."""
    leader: dict[Place, Place] = {}
    type_of: dict[Place, str] = {}

    def find(place: Place) -> Place:
        while leader.setdefault(place, place) != place:
            place = leader[place]
        return place

    for place, type_name in typed_places(problem):
        type_of[place] = type_name
    for one, other in joined_places(problem):
        leader[find(other)] = find(one)
    sorts: dict[tuple[Place, str], str] = {}
    number: dict[str, int] = {}
    found: dict[Place, str] = {}
    for place, type_name in type_of.items():
        key = find(place), type_name
        if key not in sorts:
            number[type_name] = number.get(type_name, 0) + 1
            first = number[type_name] == 1
            sorts[key] = type_name if first else f"{type_name}{COPY}{number[type_name]}"
        found[place] = sorts[key]
    return found


def scopes(parts: Iterable[T]) -> Iterator[tuple[str, T]]:
    """Yield each feature or definition with a unique name for the scope of its variables."""
    return ((f"{COPY}{type(part).__name__} {i}", part) for i, part in enumerate(parts))


def typed_places(problem: Problem) -> Iterator[tuple[Place, str]]:
    form = problem.normal_form
    derived = (definition.predicate for definition in form.definitions)
    for predicate in (*problem.model.predicates.values(), *derived):
        yield from (((predicate.name, i), t) for i, t in enumerate(predicate.types))
    for scope, feature in scopes(form.features):
        yield from (((scope, name), t) for name, t in feature.variables)
    for scope, definition in scopes(form.definitions):
        yield from (((scope, name), t) for name, t in (*definition.variables, *definition.bound))


def joined_places(problem: Problem) -> Iterator[tuple[Place, Place]]:
    """Yield pairs of arguments and variables that denote the same constant, or are compared."""
    form = problem.normal_form
    for scope, feature in scopes(form.features):
        for clause in feature.clauses:
            yield from joined_in_clause(scope, clause)
    for scope, definition in scopes(form.definitions):
        for position, (name, _) in enumerate(definition.variables):
            yield (definition.predicate.name, position), (scope, name)
        for cube in definition.cubes:
            yield from joined_in_clause(scope, cube)


def joined_in_clause(scope: str, part: Clause | Cube) -> Iterator[tuple[Place, Place]]:
    for literal in part.literals:
        for position, term in enumerate(literal.terms):
            if isinstance(term, Variable):
                yield (literal.predicate, position), (scope, term.name)
    for condition in part.conditions:
        left, right = condition.left, condition.right
        if isinstance(left, Variable) and isinstance(right, Variable):
            yield (scope, left.name), (scope, right.name)

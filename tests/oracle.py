"""All worlds of a small problem, straight from the definition; what every engine is held to.

    P(world) = exp(Σ_i w_i n_i(world)) / Z

where n_i is the number of assignments of constants to the free variables of formula i that make
it true, and the sum for Z runs over the worlds that agree with the evidence, the hard formulas,
the blocks and the cardinality constraints. Nothing here knows of clauses, normal forms, counting
or networks: a formula is evaluated by recursion over its syntax tree, a quantifier by trying
every constant of its type, a constraint by looking at each world.

The worlds are the rows of one Boolean matrix with a column for each ground atom, and a formula
is evaluated in all of them at once. That is the only liberty taken for speed.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lapis.language.model import Model, Predicate, Rule
from lapis.language.syntax import (
    And,
    Atom,
    Comparison,
    Constant,
    CountExists,
    Exists,
    ForAll,
    Formula,
    Iff,
    Implies,
    Not,
    Offset,
    Or,
    Term,
    Truth,
    Variable,
)

GroundAtom = tuple[str, tuple[str, ...]]  # predicate and constants; a function's value is last
WeightKey = tuple[int, tuple[str, ...]]  # rule, and the constants of its plus variables
Domains = Mapping[str, Sequence[str]]
Binding = Mapping[str, str]

Comparable = Any  # two constants, two numbers, or an array of totals and a bound

COMPARE: Mapping[str, Callable[[Comparable, Comparable], Comparable]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


class NoWorld(Exception):
    """Evidence, hard formulas and blocks leave no world."""


@dataclass(frozen=True)
class Facts:
    """What the data says, in the order of a data file."""

    true: tuple[GroundAtom, ...] = ()
    false: tuple[GroundAtom, ...] = ()
    unknown: tuple[GroundAtom, ...] = ()

    def all(self) -> tuple[GroundAtom, ...]:
        return self.true + self.false + self.unknown


@dataclass(frozen=True)
class Worlds:
    """Rows are worlds, columns are ground atoms."""

    column: Mapping[GroundAtom, int]
    truth: np.ndarray  # bool[num_worlds, num_atoms]

    def __getitem__(self, atom: GroundAtom) -> np.ndarray:
        return self.truth[:, self.column[atom]]

    def constantly(self, value: bool) -> np.ndarray:
        return np.full(len(self.truth), value)


@dataclass(frozen=True)
class Weighing:
    """What each world scores."""

    counts: Mapping[WeightKey, np.ndarray]  # [num_worlds] for each weight: int64, or float64
    possible: np.ndarray  # bool[num_worlds]: no hard constraint is broken
    score: np.ndarray  # float64[num_worlds], Σ w n

    @property
    def log_weight(self) -> np.ndarray:
        """The score, minus infinity where a hard constraint is broken."""
        return np.where(self.possible, self.score, -np.inf)


@dataclass(frozen=True)
class OracleAnswer:
    log_partition: float
    marginals: Mapping[str, float]  # of every ground atom, known ones too
    log_odds: Mapping[str, float]  # log Σ exp over the worlds with the atom less that without it
    unknown: frozenset[str]  # the atoms that evidence leaves open
    expected_counts: Mapping[WeightKey, float]
    map_score: float
    map_worlds: tuple[frozenset[str], ...]  # the true atoms of each best world


def constants_of(model: Model, facts: Facts) -> dict[str, tuple[str, ...]]:
    """The constants of each type: those the model names, then those of the data."""
    found = {name: dict.fromkeys(constants) for name, constants in model.types.items()}
    for predicate, arguments in facts.all():
        for type_name, constant in zip(model.predicates[predicate].types, arguments, strict=True):
            found[type_name].setdefault(constant)
    return {name: tuple(constants) for name, constants in found.items()}


def infer(model: Model, facts: Facts, query: Iterable[str]) -> OracleAnswer:
    """log Z, marginals, expected counts and most likely worlds, the predicates of `query` open."""
    domains = constants_of(model, facts)
    known = known_atoms(model, facts, domains, set(query))
    worlds = worlds_agreeing_with(known)
    weighing = weigh(model, domains, worlds)
    log_weight = weighing.log_weight
    log_partition = log_sum_exp(log_weight)
    if log_partition == -np.inf:
        raise NoWorld
    probability = np.exp(log_weight - log_partition)
    map_score = float(log_weight.max())
    names = {atom: atom_text(model.predicates[atom[0]], atom[1]) for atom in known}
    return OracleAnswer(
        log_partition,
        {name: float(probability @ worlds[atom]) for atom, name in names.items()},
        {
            name: log_sum_exp(log_weight[worlds[atom]]) - log_sum_exp(log_weight[~worlds[atom]])
            for atom, name in names.items()
        },
        frozenset(names[atom] for atom, value in known.items() if value is None),
        {key: float(probability @ count) for key, count in weighing.counts.items()},
        map_score,
        tuple(
            frozenset(name for atom, name in names.items() if world[worlds.column[atom]])
            for world in worlds.truth[log_weight >= map_score - 1e-9]
        ),
    )


def pseudo_log_likelihood(
    model: Model, facts: Facts, predicates: Iterable[str] | None = None
) -> float:
    """Σ over ground atoms of log P(atom's value | all the others), of these or all predicates.

    The atoms of a block are one many-valued variable: its value given everything outside it.
    """
    domains = constants_of(model, facts)
    observed = observed_world(model, facts, domains)
    observed_log_weight = weigh(model, domains, observed).log_weight[0]
    if observed_log_weight == -np.inf:
        raise NoWorld
    total = 0.0
    for name in model.uncertain_predicates if predicates is None else predicates:
        for cell in cells_of(model.predicates[name], domains):
            columns = [observed.column[atom] for atom in cell.atoms]
            alternatives = np.repeat(observed.truth, len(cell.values), axis=0)
            alternatives[:, columns] = cell.values
            log_weight = weigh(model, domains, Worlds(observed.column, alternatives)).log_weight
            total += float(observed_log_weight) - log_sum_exp(log_weight)
    return total


def log_likelihood(model: Model, facts: Facts, query: Iterable[str] | None = None) -> float:
    """log P(world), of all predicates or of the query's given the rest of the data."""
    domains = constants_of(model, facts)
    observed = observed_world(model, facts, domains)
    open_predicates = set(model.uncertain_predicates if query is None else query)
    known = {
        atom: None if atom[0] in open_predicates else bool(observed[atom][0])
        for atom in observed.column
    }
    log_weight = weigh(model, domains, worlds_agreeing_with(known)).log_weight
    observed_log_weight = float(weigh(model, domains, observed).log_weight[0])
    if observed_log_weight == -np.inf:
        raise NoWorld
    return observed_log_weight - log_sum_exp(log_weight)


def count_true(model: Model, facts: Facts) -> dict[WeightKey, tuple[float, int]]:
    """True groundings in the data, and groundings, of each weight; a hard rule has one key.

    A true grounding of a rule with numbers counts as their product.
    """
    domains = constants_of(model, facts)
    observed = observed_world(model, facts, domains)
    counts: dict[WeightKey, tuple[float, int]] = {}
    for index, rule in enumerate(model.rules):
        for choice in plus_choices(rule, domains):
            counts[index, choice] = (0, 0)
        for binding in bindings(rule.variables, domains):
            key = index, tuple(binding[name] for name in rule.plus)
            true, groundings = counts[key]
            held = bool(holds(rule, binding, observed, domains)[0])
            weighed = held * product_of(rule, binding, observed, domains) if rule.numbers else held
            counts[key] = true + weighed, groundings + 1
    return counts


def weight_keys(model: Model, domains: Domains) -> list[WeightKey]:
    """All weights in order of weight id: rule-major, the last plus variable varying fastest."""
    return [
        (index, choice)
        for index, rule in enumerate(model.rules)
        if not rule.hard
        for choice in plus_choices(rule, domains)
    ]


def plus_choices(rule: Rule, domains: Domains) -> list[tuple[str, ...]]:
    types = dict(rule.variables)
    return list(itertools.product(*(domains[types[name]] for name in rule.plus)))


def render_database(predicates: Mapping[str, Predicate], facts: Facts) -> str:
    """The facts as the text of a data file."""
    signs = (("", facts.true), ("!", facts.false), ("?", facts.unknown))
    return "".join(
        f"{sign}{atom_text(predicates[name], arguments)}\n"
        for sign, group in signs
        for name, arguments in group
    )


def atom_text(predicate: Predicate, arguments: Sequence[str]) -> str:
    constants = [constant_text(argument) for argument in arguments]
    if predicate.function:
        inner = f"({','.join(constants[:-1])})" if constants[:-1] else "()"
        return f"{constants[-1]} = {predicate.name}{inner}"
    return f"{predicate.name}({','.join(constants)})" if constants else predicate.name


def constant_text(constant: str) -> str:
    bare = re.fullmatch(r"[A-Z0-9][A-Za-z0-9_]*|-?\d+(\.\d+)?", constant)
    return constant if bare else f'"{constant}"'


def ground_atoms(model: Model, domains: Domains) -> list[GroundAtom]:
    return [
        (predicate.name, arguments)
        for predicate in model.predicates.values()
        for arguments in itertools.product(*(domains[name] for name in predicate.types))
    ]


def known_atoms(
    model: Model, facts: Facts, domains: Domains, open_predicates: set[str]
) -> dict[GroundAtom, bool | None]:
    """Each ground atom true, false or unknown (None), under the closed-world assumption."""
    known: dict[GroundAtom, bool | None] = {
        atom: None if atom[0] in open_predicates else False for atom in ground_atoms(model, domains)
    }
    known.update(dict.fromkeys(facts.true, True))
    known.update(dict.fromkeys(facts.false, False))
    known.update(dict.fromkeys(facts.unknown))
    return known


def observed_world(model: Model, facts: Facts, domains: Domains) -> Worlds:
    """The one world in which only the facts are true."""
    if facts.unknown:
        raise ValueError("facts marked ? leave more than one world")
    return worlds_agreeing_with(known_atoms(model, facts, domains, set()))


def worlds_agreeing_with(known: Mapping[GroundAtom, bool | None]) -> Worlds:
    column = {atom: index for index, atom in enumerate(known)}
    free = [column[atom] for atom, value in known.items() if value is None]
    truth = np.zeros((2 ** len(free), len(known)), np.bool_)
    for atom, value in known.items():
        truth[:, column[atom]] = value is True
    number = np.arange(len(truth))
    for position, index in enumerate(free):
        truth[:, index] = number >> position & 1
    return Worlds(column, truth)


def weigh(model: Model, domains: Domains, worlds: Worlds) -> Weighing:
    """The score Σ w n of each world, unknown weights as 0, and whether it is possible at all."""
    zero = np.zeros(len(worlds.truth), np.int64)
    counts = {
        key: zero.astype(np.float64 if model.rules[key[0]].numbers else np.int64)
        for key in weight_keys(model, domains)
    }
    possible = satisfies_blocks(model, domains, worlds) & satisfies_cardinalities(model, worlds)
    for index, rule in enumerate(model.rules):
        for binding in bindings(rule.variables, domains):
            held = holds(rule, binding, worlds, domains)
            if rule.hard:
                possible &= held
            else:
                key = index, tuple(binding[name] for name in rule.plus)
                if rule.numbers:
                    counts[key] += held * product_of(rule, binding, worlds, domains)
                else:
                    counts[key] += held
    score = np.zeros(len(worlds.truth))
    for (index, _), count in counts.items():
        score += (model.rules[index].weight or 0.0) * count
    return Weighing(counts, possible, score)


def holds(rule: Rule, binding: Binding, worlds: Worlds, domains: Domains) -> np.ndarray:
    """In which worlds the rule's formula is true, its free variables bound: bool[num_worlds]."""
    bound_types = dict(rule.bound)

    def evaluate(formula: Formula, binding: Binding) -> np.ndarray:
        held: np.ndarray
        match formula:
            case Atom(predicate, terms):
                held = worlds[predicate, tuple(constant_of(term, binding) for term in terms)]
            case Comparison(comparison, left, right):
                held = worlds.constantly(compare(comparison, left, right, binding))
            case Truth(value):
                held = worlds.constantly(value)
            case Not(body):
                held = ~evaluate(body, binding)
            case And(parts):
                held = every([evaluate(part, binding) for part in parts])
            case Or(parts):
                held = some([evaluate(part, binding) for part in parts])
            case Implies(premise, conclusion):
                held = ~evaluate(premise, binding) | evaluate(conclusion, binding)
            case Iff(first, second):
                held = evaluate(first, binding) == evaluate(second, binding)
            case Exists(names, body):
                held = some([evaluate(body, inner) for inner in extend(names, binding)])
            case CountExists(names, body, operator, bound):
                found = [evaluate(body, inner) for inner in extend(names, binding)]
                number = sum((part.astype(np.int64) for part in found), worlds.constantly(False))
                held = COMPARE[operator](number, bound)
            case ForAll(names, body):
                held = every([evaluate(body, inner) for inner in extend(names, binding)])
        return held

    def extend(names: Sequence[str], binding: Binding) -> list[dict[str, str]]:
        typed = [(name, bound_types[name]) for name in names]
        return [{**binding, **inner} for inner in bindings(typed, domains)]

    def every(parts: Sequence[np.ndarray]) -> np.ndarray:
        held = worlds.constantly(True)
        for part in parts:
            held &= part
        return held

    def some(parts: Sequence[np.ndarray]) -> np.ndarray:
        held = worlds.constantly(False)
        for part in parts:
            held |= part
        return held

    return evaluate(rule.formula, binding)


def product_of(rule: Rule, binding: Binding, worlds: Worlds, domains: Domains) -> float:
    """The product of the numbers of a rule, its variables bound; 0 if one is not in the data."""
    product = 1.0
    for number in rule.numbers:
        arguments = tuple(constant_of(term, binding) for term in number.terms)
        stated = [v for v in domains["float"] if worlds[number.function, (*arguments, v)].all()]
        if not stated:
            return 0.0
        (value,) = map(float, stated)
        product *= math.log(value) if number.scale == "log" else value
    return product


def bindings(variables: Iterable[tuple[str, str]], domains: Domains) -> list[dict[str, str]]:
    """All assignments of constants to typed variables."""
    typed = list(variables)
    choices = itertools.product(*(domains[type_name] for _, type_name in typed))
    return [dict(zip((name for name, _ in typed), choice, strict=True)) for choice in choices]


def constant_of(term: Term, binding: Binding) -> str:
    match term:
        case Constant(name):
            return name
        case Variable(name):
            return binding[name]
        case _:
            raise TypeError(f"a resolved formula has no {term} in an atom")


def compare(comparison: str, left: Term, right: Term, binding: Binding) -> bool:
    """Constants are equal as names; an order or an offset compares numbers, or is false."""
    numeric = comparison not in ("=", "!=") or Offset in (type(left), type(right))
    value_of = number_of if numeric else constant_of
    values = value_of(left, binding), value_of(right, binding)
    return None not in values and bool(COMPARE[comparison](*values))


def number_of(term: Term, binding: Binding) -> float | None:
    if isinstance(term, Offset):
        value = number_of(term.variable, binding)
        return None if value is None else value + term.amount
    constant = constant_of(term, binding)
    return float(constant) if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", constant) else None


@dataclass(frozen=True)
class Cell:
    """Atoms that take their values together, and the values they may take."""

    atoms: tuple[GroundAtom, ...]
    values: np.ndarray  # bool[num_values, num_atoms]


def cells_of(predicate: Predicate, domains: Domains) -> list[Cell]:
    """A block of atoms with at most one true; without blocks each atom alone, true or false."""
    spread = predicate.block
    fixed = [position for position in range(predicate.arity) if position not in spread]
    cells = []
    for outer in itertools.product(*(domains[predicate.types[p]] for p in fixed)):
        arguments = [
            dict(zip((*fixed, *spread), outer + inner, strict=True))
            for inner in itertools.product(*(domains[predicate.types[p]] for p in spread))
        ]
        atoms = tuple(
            (predicate.name, tuple(chosen[p] for p in range(predicate.arity)))
            for chosen in arguments
        )
        one = np.eye(len(atoms), dtype=np.bool_)
        none = np.zeros((1, len(atoms)), np.bool_)
        only_one = bool(spread) and predicate.exactly_one
        cells.append(Cell(atoms, one if only_one else np.vstack([one, none])))
    return cells


def satisfies_blocks(model: Model, domains: Domains, worlds: Worlds) -> np.ndarray:
    good = worlds.constantly(True)
    for predicate in model.predicates.values():
        if not predicate.block:
            continue
        for cell in cells_of(predicate, domains):
            number = worlds.truth[:, [worlds.column[atom] for atom in cell.atoms]].sum(axis=1)
            good &= number == 1 if predicate.exactly_one else number <= 1
    return good


def satisfies_cardinalities(model: Model, worlds: Worlds) -> np.ndarray:
    good = worlds.constantly(True)
    for constraint in model.constraints:
        total = np.zeros(len(worlds.truth), np.int64)
        for coefficient, name in constraint.parts:
            columns = [column for atom, column in worlds.column.items() if atom[0] == name]
            total += coefficient * worlds.truth[:, columns].sum(axis=1)
        good &= COMPARE[constraint.operator](total, constraint.bound)
    return good


def log_sum_exp(values: np.ndarray) -> float:
    top = values.max(initial=-np.inf)
    if top == -np.inf:
        return -np.inf
    return float(top + np.log(np.exp(values - top).sum()))

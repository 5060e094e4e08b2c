"""Lift a problem: log Z and its derivatives, in time polynomial in the number of constants.

    lifted = lift_problem(problem)         encode and compile, once
    found = lifted.at(weights)             log Z, error bound, expected counts
    lifted.at(weights, {"person": 500})    the same circuit with another number of constants
    lifted.hessian_product(v, weights)     ∂²log Z/∂w² · v, without the Hessian
    lift_problems(problems)                one circuit for all problems whose theories are equal

Weights are float64[num_weights] in the order of `problem.weight_table`. `expected_count`, the
gradient of log Z, has the same order. For learning from databases, build a problem for each with
every predicate open and no facts (only its domains depend on the database), call `lift_problems`
once, and `at(weights)` on each at every step. Facts in a problem are evidence. Facts about single
constants, and relations that are complete or empty between groups of constants, divide constants
into regions (`kinds`); other facts make them elements.

If no rule of compilation applies, the smallest type that the clauses range over is grounded: its
constants become elements, and the problem is compiled again. The circuit then branches on ground
atoms, with components and a cache of isomorphic theories, up to `MAX_WORK` literals. It holds for
that type's constants only (`grounded`, `reasons`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lapis.data.database import Domain
from lapis.errors import LapisError, TooLarge
from lapis.language.model import Rule
from lapis.lifted.compilation.compilation_rules import compile_theory
from lapis.lifted.compilation.compiler import (
    MAX_STATES,
    MAX_WORK,
    NotLiftable,
    TooManyStates,
    TooManyTheories,
)
from lapis.lifted.compilation.lifted_circuit import FactorNode, GroundingNode, Node, multiply_nodes
from lapis.lifted.compilation.theory import Region, Theory, clause_key
from lapis.lifted.encode import Encoding, encode_problem, encoding_work
from lapis.lifted.evaluation.evaluate import LiftedPartition, evaluate_circuit, hessian_product
from lapis.lifted.evaluation.sweep import Weights, count_index_states
from lapis.lifted.kinds import (
    Kinds,
    extra_constants,
    group_kinds,
    listed_types,
    refuse_many_constants,
    refuse_new_numbers,
)
from lapis.lifted.rewriting import declared_type, separate_parts, split_types
from lapis.problem.problem import Problem
from lapis.runtime.progress import Report, Stop

ALTERNATIVES = "learn by pseudo-likelihood, infer by sampling (--method auto)"
FEW_STATES = 5_000_000  # of a circuit's sums, if lifting is tried automatically
MAX_GROUNDED = 12  # constants of a type that is grounded
CANNOT = "this model cannot be lifted: "
NOT_LIFTABLE = "not-liftable"  # the code of errors that another method may avoid
Cache = dict[object, Node]


@dataclass(frozen=True)
class LiftedProblem:
    """A circuit for a problem."""

    problem: Problem
    encoding: Encoding
    root: Node
    grounded: tuple[str, ...]  # types
    reasons: tuple[str, ...]  # for grounding, one for each type

    @property
    def is_liftable(self) -> bool:
        return not self.grounded

    @cached_property
    def weight_of_column(self) -> np.ndarray:
        """int64[num_columns], the problem's weight; −1 for atoms."""
        return np.array([column.weight for column in self.encoding.columns], np.int64)

    def weights_at(self, weights: np.ndarray | None) -> Weights:
        value = self.problem.weight_table.value if weights is None else weights
        of_column = np.append(value, 0.0)[self.weight_of_column]
        return Weights(of_column, self.encoding.literal_weights)

    def sizes_at(self, sizes: Mapping[str, int] | None) -> Mapping[Region, int]:
        """Return the sizes of regions, with other numbers of constants of some types."""
        found = dict(self.encoding.kinds.sizes)
        for type_name, size in sizes_of_sorts(self.problem, sizes or {}).items():
            if size == num_constants(self.encoding, type_name):
                continue
            kind = self.encoding.kinds.of_type[type_name]
            if len(kind.regions) != 1 or size < len(kind.elements):
                name = declared_type(type_name)
                raise ValueError(f"type {name!r} cannot have {size} constants in this circuit")
            found[kind.regions[0]] = size - len(kind.elements)
        return found

    def columns_at(
        self, weights: np.ndarray | None = None, sizes: Mapping[str, int] | None = None
    ) -> LiftedPartition:
        """Return log Z and the expected count of each column of the encoding."""
        try:
            return evaluate_circuit(self.root, self.weights_at(weights), self.sizes_at(sizes))
        except LapisError as error:
            factors = [p.factors for p in self.problem.model.predicates.values() if p.factors]
            if error.code == "unsatisfiable" and any(min(pair) <= 0 for pair in factors):
                message = "Z is 0 with these literal weights"
                raise LapisError(message, code="unsatisfiable") from None
            raise

    def at(
        self, weights: np.ndarray | None = None, sizes: Mapping[str, int] | None = None
    ) -> LiftedPartition:
        """Return log Z and expected counts, by default at the problem's weights and sizes."""
        found = self.columns_at(weights, sizes)
        return replace(found, expected_count=self.by_weight(found.expected_count))

    def by_weight(self, of_column: np.ndarray) -> np.ndarray:
        """Return float64[num_weights], the sum of the columns of each weight."""
        counted = self.weight_of_column >= 0
        found = np.zeros(len(self.problem.weight_table))
        np.add.at(found, self.weight_of_column[counted], of_column[counted])
        return found

    def hessian_product(
        self,
        direction: np.ndarray,
        weights: np.ndarray | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> np.ndarray:
        """Return float64[num_weights], the covariance matrix of the counts times a direction."""
        along = np.append(direction, 0.0)[self.weight_of_column]
        found = hessian_product(self.root, self.weights_at(weights), self.sizes_at(sizes), along)
        return self.by_weight(found)


def lift_problem(
    problem: Problem,
    sizes: Mapping[str, int] | None = None,
    *,
    classes: Iterable[str] | None = None,
    cache: Cache | None = None,
    max_elements: int | None = None,
    max_work: int = MAX_WORK,
    may_search: bool = True,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> LiftedProblem:
    """Compile a problem. Raises TooLarge if the circuit would be too large.

    `sizes` gives types more constants than the problem names. With `classes`, each class of
    groundings is counted, and the atoms of these predicates. `cache` holds circuits of theories
    compiled before. `max_elements` is for callers that try lifting first: it refuses problems with
    more distinguished constants (each may double the circuit), with grounded types, or with long
    sums. `max_work` limits the literals that are encoded and compiled. Without `may_search` a
    problem is refused if all its constants would be elements, because the circuit would be a search
    over ground atoms.

    >>> import lapis
    >>> model = lapis.parse("p = {A, B, C}\\nF(p, p)\\n(EXIST y F(x, y)).")
    >>> lifted = lift_problem(lapis.build_problem(model, query=["F"]))
    >>> round(np.exp(lifted.at().log_partition))  # (2³ − 1)³
    343
    >>> round(np.exp(lifted.at(sizes={"p": 2}).log_partition))
    9
    """
    refuse_numbers(problem)
    grounded: list[str] = []
    reasons: list[str] = []
    cache = {} if cache is None else cache
    sizes = sizes or {}
    refuse_new_numbers(problem, extra_constants(problem, sizes))
    problem = split_types(separate_parts(problem))
    sizes = sizes_of_sorts(problem, sizes)
    for type_name in listed_types(problem) & set(sizes):
        refuse_many_constants(type_name, sizes[type_name])
        problem, sizes = name_constants(problem, type_name, sizes)
    classes = None if classes is None else tuple(classes)
    while True:
        kinds = group_kinds(problem, grounded, sizes, max_elements)
        refuse_encoding_work(problem, kinds, max_work)
        encoding = encode_problem(problem, kinds, classes)
        key = encoding.theory, encoding.certain, encoding.free
        try:
            if key not in cache:
                most = MAX_STATES if max_elements is None else FEW_STATES
                cache[key] = compile_encoding(problem, encoding, most, max_work, stop, progress)
        except NotLiftable as stuck:
            type_name, reason = choose_grounded_type(problem, encoding, stuck.theory)
            left = {name for name, kind in kinds.of_type.items() if kind.regions} - {type_name}
            if max_elements is not None or not (may_search or left):
                raise not_liftable_error(
                    reason, widest_rules(problem, encoding, stuck.theory)
                ) from None
            problem, sizes = name_constants(problem, type_name, sizes)
            grounded.append(type_name)
            reasons.append(reason)
            continue
        root = cache[key]
        for type_name in grounded:
            root = GroundingNode(root, declared_type(type_name), len(problem.domains[type_name]))
        types = tuple(dict.fromkeys(map(declared_type, grounded)))
        lifted = LiftedProblem(problem, encoding, root, types, tuple(reasons))
        if max_elements is not None:
            refuse_long_sums(lifted)
        return lifted


def refuse_numbers(problem: Problem) -> None:
    """Raise TooLarge for formulas that are multiplied by numbers."""
    for rule in problem.model.rules:
        if rule.numbers:
            raise TooLarge(
                f"{CANNOT}{rule.text!r} is multiplied by numbers, which tell its constants apart",
                code=NOT_LIFTABLE,
                span=rule.span,
            )


def refuse_long_sums(lifted: LiftedProblem) -> None:
    states = count_index_states(lifted.root, lifted.sizes_at(None))
    if states > FEW_STATES:
        raise TooLarge(
            f"this is not lifted automatically: its circuit has sums over {states:,} combinations "
            "of numbers of constants",
            code=NOT_LIFTABLE,
            hint="use --method lifted, or another method",
        )


def lift_problems(
    problems: Sequence[Problem], max_elements: int | None = None
) -> list[LiftedProblem]:
    """Compile problems, once for all whose theories differ only in sizes."""
    cache: Cache = {}
    return [lift_problem(p, cache=cache, max_elements=max_elements) for p in problems]


def refuse_encoding_work(problem: Problem, kinds: Kinds, max_work: int) -> None:
    """Refuse formulas whose variables have too many assignments to elements and regions."""
    work = encoding_work(problem, kinds)
    if sum(work.values()) > max_work:
        worst = max(work, key=lambda number: work[number])
        rule = problem.model.rules[worst]
        reason = (
            f"{rule.text!r} is {work[worst]:,} literals when its {num_variables(rule)} variables "
            f"are equal or different in all ways, and at most {max_work:,} are compiled"
        )
        raise not_liftable_error(reason, [rule])


def not_liftable_error(reason: str, rules: Sequence[Rule]) -> TooLarge:
    """Return the refusal, with the rules that are the reason."""
    return TooLarge(
        f"{CANNOT}{reason}",
        code=NOT_LIFTABLE,
        span=rules[0].span if rules else None,
        hint=ALTERNATIVES,
    )


def compile_encoding(
    problem: Problem,
    encoding: Encoding,
    max_states: int,
    max_work: int,
    stop: Stop | None,
    progress: Report | None,
) -> Node:
    free = tuple((shape.predicate, shape.num_atoms) for shape in encoding.free)
    kinds = encoding.kinds
    try:
        node = compile_theory(
            encoding.theory,
            kinds.names,
            kinds.sizes,
            max_states=max_states,
            max_work=max_work,
            stop=stop,
            progress=progress,
        )
    except TooManyStates as reached:
        raise too_many_states_error(
            reached, widest_rules(problem, encoding, reached.theory)
        ) from None
    except TooManyTheories as reached:
        rules = widest_rules(problem, encoding, reached.theory)
        texts = " and ".join(repr(rule.text) for rule in rules[:3])
        reason = f"its circuit is not complete after {reached}"
        raise not_liftable_error(
            f"{reason}, the last of {texts}" if texts else reason, rules
        ) from None
    return multiply_nodes(FactorNode(encoding.certain, free=free), node)


def too_many_states_error(reached: TooManyStates, rules: Sequence[Rule]) -> TooLarge:
    """Return the refusal, with the formulas whose variables are in the sum."""
    texts = " and ".join(repr(rule.text) for rule in rules[:3]) or "a block"
    more = f" and {len(rules) - 3} more" if len(rules) > 3 else ""
    return TooLarge(
        f"{CANNOT}log Z is a sum over {reached.num_states:,} or more combinations of numbers of "
        f"constants, because of {texts}{more}",
        code="too-many-combinations",
        span=rules[0].span if rules else None,
        hint=f"take smaller domains or fewer predicates; or {ALTERNATIVES}",
    )


def widest_rules(problem: Problem, encoding: Encoding, theory: Theory) -> list[Rule]:
    """Return the rules with the most variables among those that a theory comes from."""
    clauses = theory.clauses
    predicates = {literal.atom.predicate for clause in clauses for literal in clause.literals}
    rules = [problem.model.rules[n] for n in source_rules(problem, encoding, theory, predicates)]
    most = max(map(num_variables, rules), default=0)
    return [rule for rule in rules if num_variables(rule) == most]


def choose_grounded_type(problem: Problem, encoding: Encoding, stuck: Theory) -> tuple[str, str]:
    """Choose the smallest type that the stuck clauses range over; return it and the reason."""
    kinds = encoding.kinds
    clause = max(stuck.clauses, key=lambda c: (len(c.regions), clause_key(c)))
    predicates = {literal.atom.predicate for literal in clause.literals}
    rules = source_rules(problem, encoding, stuck, predicates)
    largest = max((num_variables(problem.model.rules[rule]) for rule in rules), default=0)
    rules = [rule for rule in rules if num_variables(problem.model.rules[rule]) == largest]
    types = {
        type_name
        for rule in rules
        for _, type_name in (*problem.model.rules[rule].variables, *problem.model.rules[rule].bound)
        if kinds.of_type[type_name].regions
    }
    candidates = types or {name for name, kind in kinds.of_type.items() if kind.regions}
    size = {name: num_constants(encoding, name) for name in candidates}
    type_name = min(sorted(candidates), key=lambda name: size[name])
    named = [problem.model.rules[rule] for rule in rules]
    texts = " and ".join(repr(rule.text) for rule in named[:3]) or "a block"
    ties = "ties" if len(named) < 2 else "tie"
    through = " and ".join(sorted(p for p in predicates if p in problem.model.predicates))
    reason = (
        f"{texts} {ties} {len(clause.regions)} or more different constants together"
        f"{f' through {through}' if through else ''}, and none of them can be summed over by itself"
    )
    if size[type_name] > MAX_GROUNDED:
        raise not_liftable_error(
            f"{reason}; grounding the {size[type_name]:,} constants of type "
            f"{declared_type(type_name)!r} would be too many (at most {MAX_GROUNDED})",
            named,
        )
    return type_name, reason


def source_rules(
    problem: Problem, encoding: Encoding, stuck: Theory, predicates: set[str]
) -> list[int]:
    """Return the numbers of the rules that the stuck clauses come from."""
    soft = {encoding.columns[column].rule for part in stuck.soft for column, _ in part.exponent}
    found = {rule for rule in soft if rule >= 0}
    form = problem.normal_form
    within: dict[str, set[str]] = {}  # the predicates that a derived one is defined by
    for each in form.definitions:
        own = {x.predicate for cube in each.cubes for x in cube.literals}
        within[each.predicate.name] = own.union(*(within.get(name, ()) for name in own))
    for feature in form.features:
        used = {x.predicate for clause in feature.clauses for x in clause.literals}
        used |= {name for derived in used for name in within.get(derived, ())}
        if feature.hard and used & predicates:
            found.add(feature.rule)
    return sorted(found)


def num_variables(rule: Rule) -> int:
    return len(rule.variables) + len(rule.bound)


def num_constants(encoding: Encoding, type_name: str) -> int:
    kind = encoding.kinds.of_type[type_name]
    return len(kind.elements) + sum(encoding.kinds.sizes[region] for region in kind.regions)


def sizes_of_sorts(problem: Problem, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes of sorts, given those of types."""
    declared = {sort: declared_type(sort) for sort in problem.domains}
    unknown = {name: size for name, size in sizes.items() if name not in problem.domains}
    return unknown | {s: sizes[t] for s, t in declared.items() if t in sizes}


def name_constants(
    problem: Problem, type_name: str, sizes: Mapping[str, int]
) -> tuple[Problem, dict[str, int]]:
    """Name the constants that a size adds to a type; return the problem and the other sizes."""
    domain = problem.domains[type_name]
    missing = sizes.get(type_name, 0) - len(domain)
    rest = {name: size for name, size in sizes.items() if name != type_name}
    if missing <= 0:
        return problem, rest
    prefix = declared_type(type_name)
    new = (f"{prefix}{number}" for number in range(1, len(domain) + missing + 1))
    names = [name for name in new if name not in domain.index][:missing]
    longer = Domain(type_name, (*domain.constants, *names))
    return replace(problem, domains={**problem.domains, type_name: longer}), rest

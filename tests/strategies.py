"""Random models and data as text, small enough for the oracle to enumerate.

What is drawn is text in Alchemy's syntax, so a sweep goes through the parser and the readers as
a user's files do. Every choice is made so that the size stays bounded by construction: a type
has at most three constants, the ground atoms of all predicates together at most `MAX_ATOMS`, a
formula at most three names for its variables (which it may quantify again and again).
Earlier choices are the simpler ones: a failing case shrinks towards one rule and no data.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, prod

from hypothesis import strategies as st

import lapis
import oracle
from lapis.language.model import Predicate
from lapis.language.syntax import (
    And,
    Application,
    Atom,
    Comparison,
    ComparisonOperator,
    Constant,
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
    free_variables,
    map_children,
    map_terms,
)
from oracle import Facts, GroundAtom, constant_text, render_database

MAX_ATOMS = 10

# Two types share a constant; one name needs quotes, one is a word in lower case.
CONSTANTS = {
    "person": ("A", "B", "C"),
    "thing": ("A", "anna", "New York"),
    "number": ("1", "2", "10"),
}
# A few names are what a compiler may make up for values of the functions fP and fQ.
VARIABLES = {
    "person": ("x", "y", "fP_1"),
    "thing": ("s", "t", "fQ_1"),
    "number": ("i", "j", "k"),
}
WEIGHTS = {
    "1": 1.0,
    "-1": -1.0,
    "0.5": 0.5,
    "2": 2.0,
    "-2.5": -2.5,
    "0": 0.0,
    "1.25e-1": 0.125,
    "3": 3.0,
    "-0.75": -0.75,
    "log(3)/2": log(3) / 2,
}
TYPE_OF = {name: type_name for type_name, names in VARIABLES.items() for name in names}

Pools = Mapping[str, Sequence[str]]  # the constants that a type may have


@dataclass(frozen=True)
class DrawnRule:
    """A rule as drawn, and the line that says it."""

    text: str
    formula: Formula
    weight: float | None
    hard: bool
    fixed: bool
    plus: frozenset[str]
    head: str = ""  # the weight and what stands before it


@dataclass(frozen=True)
class Case:
    """A model, its data and a question, as a user would write them."""

    declarations: str  # the part of the model before its rules
    model: str
    facts: Facts
    data: str
    query: tuple[str, ...]
    rules: tuple[DrawnRule, ...]


@st.composite
def cases(draw: st.DrawFn, *, observed: bool = False) -> Case:
    """A case with partial evidence; with `observed`, data that fixes every ground atom."""
    pools = draw(pools_of_constants())
    predicates = draw(predicates_over(pools))
    names = sorted(predicates)
    closed = draw(st.lists(st.sampled_from(names), max_size=len(names) - 1, unique=True))
    query = tuple(name for name in names if name not in closed)
    number = draw(st.integers(1, 3))
    rules = draw(st.lists(rules_over(predicates, pools), min_size=number, max_size=number))
    statuses = ("true", "false") if observed else ("true", "false", "unknown")
    given: dict[str, list[GroundAtom]] = {status: [] for status in ("true", "false", "unknown")}
    for predicate in predicates.values():
        complete = observed or predicate.name not in query
        for atom, status in draw(facts_of(predicate, pools, statuses, complete=complete)):
            given[status].append(atom)
    facts = Facts(*(tuple(group) for group in given.values()))
    declared = [draw(type_declaration(name, pools[name])) for name in pools]
    lines = [*filter(None, declared), *map(declaration, predicates.values())]
    declarations = "".join(f"{line}\n" for line in lines)
    return Case(
        declarations,
        declarations + "".join(f"{rule.text}\n" for rule in rules),
        facts,
        render_database(predicates, facts),
        query,
        tuple(rules),
    )


NUMBERS = ("0.5", "-1.25", "2", "0", "1", "0.83", "1e-05", "3.5")
POSITIVE = ("0.5", "2", "1", "0.83", "3.5")


@st.composite
def numbered_cases(draw: st.DrawFn, *, observed: bool = False) -> Case:
    """A case in which rules are multiplied by numbers, or compare them; some may be missing."""
    case = draw(cases(observed=observed))
    types = sorted({TYPE_OF[name] for rule in case.rules for name in free_variables(rule.formula)})
    model = lapis.parse(case.model)
    pools = oracle.constants_of(model, case.facts)
    functions: dict[str, tuple[str, ...]] = {}
    facts: list[GroundAtom] = []
    for name in ("size", "near")[: draw(st.integers(1, 2))]:
        known = types or sorted(model.types) or ["person"]
        arity = draw(st.integers(1, 2))
        functions[name] = tuple(draw(st.sampled_from(known)) for _ in range(arity))
        values = POSITIVE if name == "size" else NUMBERS
        for row in itertools.product(*(pools.get(t, ()) for t in functions[name])):
            if draw(st.integers(0, 4)):
                facts.append((name, (*row, draw(st.sampled_from(values)))))
    declared = "".join(f"float {name}({', '.join(t)})\n" for name, t in functions.items())
    rules = [draw(numbered_rules(rule, functions, pools)) for rule in case.rules]
    predicates = {
        **model.predicates,
        **{n: Predicate(n, (*t, "float"), (len(t),), function=True) for n, t in functions.items()},
    }
    given = replace(case.facts, true=(*case.facts.true, *facts))
    declarations = case.declarations + declared
    return Case(
        declarations,
        declarations + "".join(f"{rule.text}\n" for rule in rules),
        given,
        oracle.render_database(predicates, given),
        case.query,
        tuple(rules),
    )


@st.composite
def numbered_rules(
    draw: st.DrawFn,
    rule: DrawnRule,
    functions: Mapping[str, tuple[str, ...]],
    pools: Pools,
) -> DrawnRule:
    """The rule times up to two numbers, or beside a comparison of numbers."""
    used = sorted(free_variables(rule.formula))

    def call(name: str) -> str:
        terms = []
        for of_type in functions[name]:
            own = [v for v in used if TYPE_OF[v] == of_type] or [VARIABLES[of_type][0]]
            constants = [constant_text(c) for c in pools.get(of_type, ())]
            terms.append(draw(st.sampled_from([*own, *own, *constants])))
        return f"{name}({', '.join(terms)})"

    names = sorted(functions)
    kind = draw(st.sampled_from(("number", "number", "number", "compare", "plain")))
    head, body = rule.head, show(rule.formula, rule.plus)
    if kind == "compare":
        side = call(draw(st.sampled_from(names)))
        other = draw(st.sampled_from(("0.5", "1", call(names[0]), call(names[0]) + " - 0.5")))
        operator = draw(st.sampled_from(("=", "!=", "<", ">", "<=", ">=")))
        joint = draw(st.sampled_from(("^", "v", "=>")))
        body = f"({side} {operator} {other}) {joint} ({body})"
        return replace(rule, text=f"{head}({body}){'.' * rule.hard}")
    if kind == "number" and not rule.hard:
        factors = []
        for _ in range(draw(st.integers(1, 2))):
            name = draw(st.sampled_from(names))
            is_log = name == "size" and draw(st.booleans())
            factors.append(f"log({call(name)})" if is_log else call(name))
        return replace(rule, text=f"{head}{' * '.join(factors)} * ({body})")
    return rule


@st.composite
def pools_of_constants(draw: st.DrawFn) -> Pools:
    names = list(CONSTANTS)[: draw(st.integers(1, 3))]
    sizes = {name: draw(st.sampled_from((2, 1, 3, 2, 3, 0))) for name in names}
    return {name: CONSTANTS[name][:size] for name, size in sizes.items()}


@st.composite
def type_declaration(draw: st.DrawFn, name: str, pool: Sequence[str]) -> str:
    """All of the constants, some, or none: the others are left to data and formulas."""
    declared = pool[: draw(st.sampled_from((len(pool), len(pool), 1, 0)))]
    constants = ", ".join(map(constant_text, declared))
    return f"{name} = {{{constants}}}" if declared else ""


@st.composite
def predicates_over(draw: st.DrawFn, pools: Pools) -> dict[str, Predicate]:
    """One to four predicates, now and then a function, within `MAX_ATOMS` ground atoms."""
    predicates: dict[str, Predicate] = {}
    budget = MAX_ATOMS
    for name in ("P", "Q", "R", "S")[: draw(st.integers(1, 4))]:
        signatures = [
            types
            for arity in (1, 0, 2, 3)
            for types in itertools.product(pools, repeat=arity)
            if prod(len(pools[type_name]) for type_name in types) <= budget
        ]
        if not signatures:
            break
        types = draw(st.sampled_from(signatures))
        budget -= prod(len(pools[type_name]) for type_name in types)
        kind = draw(st.sampled_from(("plain", "plain", "plain", "block", "function")))
        if kind == "function" and len(types) > 1:
            last = (len(types) - 1,)
            predicates["f" + name] = Predicate("f" + name, types, last, function=True)
        elif kind == "block" and types:
            spread = draw(st.lists(st.integers(0, len(types) - 1), min_size=1, unique=True))
            exactly_one = draw(st.booleans())
            predicates[name] = Predicate(name, types, tuple(sorted(spread)), exactly_one)
        else:
            predicates[name] = Predicate(name, types)
    return predicates


def declaration(predicate: Predicate) -> str:
    if predicate.function:
        *arguments, value = predicate.types
        return f"{value} {predicate.name}({', '.join(arguments)})"
    mark = "!" if predicate.exactly_one else "?"
    parameters = [
        name + (mark if position in predicate.block else "")
        for position, name in enumerate(predicate.types)
    ]
    return f"{predicate.name}({', '.join(parameters)})" if parameters else predicate.name


@st.composite
def facts_of(
    draw: st.DrawFn,
    predicate: Predicate,
    pools: Pools,
    statuses: Sequence[str],
    *,
    complete: bool,
) -> list[tuple[GroundAtom, str]]:
    """Facts of one predicate. `complete`: the data alone satisfies the predicate's blocks."""
    rows = list(itertools.product(*(pools[name] for name in predicate.types)))
    if not rows:
        return []
    if predicate.block and complete:
        outside = [p for p in range(predicate.arity) if p not in predicate.block]
        cells = {tuple(row[p] for p in outside): row for row in draw(st.permutations(rows))}
        chosen = sorted(cells.values())
        number = len(chosen) if predicate.exactly_one else draw(st.integers(0, len(chosen)))
        return [((predicate.name, row), "true") for row in chosen[:number]]
    if predicate.function:
        statuses = ("true",)
    given = draw(st.lists(st.sampled_from(rows), unique=True))
    if predicate.block:
        # A second true fact in a block would leave no world.
        first, others = given[:1], given[1:] if not predicate.function else []
        marks = [draw(st.sampled_from(statuses)) for _ in first]
        marks += [draw(st.sampled_from(statuses[1:])) for _ in others]
        return list(zip([(predicate.name, row) for row in first + others], marks, strict=True))
    return [((predicate.name, row), draw(st.sampled_from(statuses))) for row in sorted(given)]


@st.composite
def rules_over(draw: st.DrawFn, predicates: Mapping[str, Predicate], pools: Pools) -> DrawnRule:
    """A line of a model: soft, hard or without weight, with plus variables at times."""
    names = [(name, type_name) for type_name in pools for name in VARIABLES[type_name]]
    allowed = draw(st.lists(st.sampled_from(names), max_size=3, unique=True))
    formula = draw(formulas_over(predicates, pools, allowed, depth=draw(st.integers(0, 3))))
    kind = draw(st.sampled_from(("soft", "soft", "soft", "soft", "fixed", "hard", "learned")))
    if kind == "hard":
        return DrawnRule(f"{show(formula)}.", formula, None, True, False, frozenset())
    markable = sorted(plain_variables(formula))
    plus = frozenset(draw(st.lists(st.sampled_from(markable), max_size=2)) if markable else ())
    if kind == "learned":
        # A bare atom over variables would read as a declaration.
        return DrawnRule(f"({show(formula, plus)})", formula, None, False, False, plus)
    weight = draw(st.sampled_from(list(WEIGHTS)))
    fixed = kind == "fixed"
    head = f"{'@fixed ' * fixed}{weight} "
    text = f"{head}{show(formula, plus)}"
    return DrawnRule(text, formula, WEIGHTS[weight], False, fixed, plus, head)


def plain_variables(formula: Formula) -> set[str]:
    """The free variables that stand somewhere without an offset: there they can have a plus."""

    def fixed(node: Formula) -> Formula:
        return map_terms(map_children(node, fixed), plain)

    def plain(term: Term) -> Term:
        if isinstance(term, Application):
            return Application(term.function, tuple(map(plain, term.terms)))
        return Constant("1") if isinstance(term, Offset) else term

    return set(free_variables(fixed(formula)))


@st.composite
def formulas_over(
    draw: st.DrawFn,
    predicates: Mapping[str, Predicate],
    pools: Pools,
    allowed: Sequence[tuple[str, str]],
    depth: int,
) -> Formula:
    """A formula whose every variable stands in an atom of its scope, so that it has a type."""
    if depth == 0:
        return draw(atoms_over(predicates, pools, allowed))

    def smaller() -> Formula:
        return draw(formulas_over(predicates, pools, allowed, depth - 1))

    kinds = ("and", "or", "not", "implies", "iff", "exists", "forall", "compare", "exists", "atom")
    match draw(st.sampled_from(kinds)):
        case "and":
            return And((smaller(), smaller()))
        case "or":
            return Or((smaller(), smaller()))
        case "not":
            return Not(smaller())
        case "implies":
            return Implies(smaller(), smaller())
        case "iff":
            return Iff(smaller(), smaller())
        case "compare":
            body = smaller()
            comparison = draw(comparisons_over(body, predicates, pools))
            if comparison is None:
                return body
            first, second = draw(st.permutations((comparison, body)))
            joined: list[Formula] = [And((first, second)), Or((first, second))]
            return draw(st.sampled_from([*joined, Implies(first, second)]))
        case "exists" | "forall" as quantifier:
            body = smaller()
            free = free_variables(body)
            if not free:
                return body
            bound = tuple(draw(st.lists(st.sampled_from(free), min_size=1, unique=True)))
            return Exists(bound, body) if quantifier == "exists" else ForAll(bound, body)
        case _:
            return draw(atoms_over(predicates, pools, allowed))


@st.composite
def atoms_over(
    draw: st.DrawFn,
    predicates: Mapping[str, Predicate],
    pools: Pools,
    allowed: Sequence[tuple[str, str]],
) -> Formula:
    predicate = draw(st.sampled_from(sorted(predicates.values(), key=lambda p: p.name)))

    def term_of(type_name: str, *, nest: bool) -> Term:
        variables = [Variable(name) for name, of_type in allowed if of_type == type_name]
        choices: list[Term] = [*variables, *map(Constant, pools[type_name])]
        term = draw(st.sampled_from(choices or [Variable(VARIABLES[type_name][0])]))
        if type_name == "number" and isinstance(term, Variable) and draw(st.integers(0, 3)) == 3:
            return Offset(term, draw(st.sampled_from((1, -1, 8))))
        functions = [p for p in predicates.values() if p.function and p.types[-1] == type_name]
        if nest and functions and draw(st.integers(0, 3)) == 3:
            function = draw(st.sampled_from(functions))
            terms = tuple(term_of(name, nest=False) for name in function.types[:-1])
            return Application(function.name, terms)
        return term

    if predicate.function:
        *terms, value = [term_of(name, nest=False) for name in predicate.types]
        return Comparison("=", value, Application(predicate.name, tuple(terms)))
    return Atom(predicate.name, tuple(term_of(name, nest=True) for name in predicate.types))


@st.composite
def comparisons_over(
    draw: st.DrawFn, body: Formula, predicates: Mapping[str, Predicate], pools: Pools
) -> Formula | None:
    """A comparison of a free variable of `body` with one of its type, or with a constant."""
    free = free_variables(body)
    if not free:
        return None
    left = draw(st.sampled_from(free))
    kind = TYPE_OF[left]
    others: list[Term] = [Variable(name) for name in free if TYPE_OF[name] == kind]
    right = draw(st.sampled_from([*others, *map(Constant, pools[kind])]))
    operators: list[ComparisonOperator] = ["=", "!=", "<", ">", "<=", ">="]
    if kind != "number":
        return Comparison(draw(st.sampled_from(operators[:2])), Variable(left), right)
    if isinstance(right, Variable):
        amount = draw(st.sampled_from((0, 1, -1, 8)))
        right = Offset(right, amount) if amount else right
    return Comparison(draw(st.sampled_from(operators)), Variable(left), right)


def show(formula: Formula, plus: frozenset[str] = frozenset()) -> str:
    """Alchemy's syntax, every operand that is not an atom or a negation in parentheses."""

    def operand(part: Formula) -> str:
        text = show(part, plus)
        return text if isinstance(part, (Atom, Comparison, Truth, Not)) else f"({text})"

    match formula:
        case Atom(name, terms):
            inner = ", ".join(show_term(term, plus) for term in terms)
            return f"{name}({inner})" if terms else name
        case Comparison(operator, left, right):
            # A function atom may carry the only occurrence of a plus variable; plain
            # comparisons never do.
            marked = plus if isinstance(right, Application) else frozenset()
            return f"{show_term(left, marked)} {operator} {show_term(right, marked)}"
        case Truth(value):
            return "true" if value else "false"
        case Not(body):
            return (
                f"!{operand(body)}" if isinstance(body, (Atom, Not)) else f"!({show(body, plus)})"
            )
        case And(parts) | Or(parts):
            return (" ^ " if isinstance(formula, And) else " v ").join(map(operand, parts))
        case Implies(premise, conclusion):
            return f"{operand(premise)} => {operand(conclusion)}"
        case Iff(left_side, right_side):
            return f"{operand(left_side)} <=> {operand(right_side)}"
        case Exists(names, body) | ForAll(names, body):
            word = "EXIST" if isinstance(formula, Exists) else "FORALL"
            return f"{word} {','.join(names)} ({show(body, plus - set(names))})"


def show_term(term: Term, plus: frozenset[str]) -> str:
    match term:
        case Variable(name):
            return f"+{name}" if name in plus else name
        case Constant(name):
            return constant_text(name)
        case Offset(variable, amount):
            return f"{variable.name}{amount:+d}"
        case Application(name, terms):
            return f"{name}({', '.join(show_term(inner, plus) for inner in terms)})"

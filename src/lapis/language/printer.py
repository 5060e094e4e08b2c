"""Print syntax trees and models.

Parsing the text gives the same tree, or a model of the same meaning. A rule whose weights differ by
the constants of plus variables becomes a line for each weight. Lines of weight 0 have no effect and
are only counted. The constants follow @; in the formula they would become constants of every
world.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lapis.errors import LapisError
from lapis.language.model import NUMBER_TYPE, Model, Predicate, Rule, RuleNumber
from lapis.language.names import INTEGER, format_constant, quote_text
from lapis.language.parser import parse_formula
from lapis.language.syntax import (
    And,
    Application,
    Atom,
    Cardinality,
    Comparison,
    Constant,
    CountExists,
    Exists,
    ForAll,
    Formula,
    FunctionDeclaration,
    Iff,
    Implies,
    Include,
    Not,
    NumberFactor,
    Offset,
    Or,
    Parameter,
    PredicateDeclaration,
    ProbabilityConstraint,
    Program,
    Quantifier,
    Statement,
    Term,
    Truth,
    TypeDeclaration,
    Variable,
    WeightedFormula,
)

# Binding strength, loosest first. A quantifier extends to the end of its surroundings, so it is
# bracketed if something may follow.
QUANTIFIER, IFF, IMPLIES, OR, AND, NOT, ATOM = range(7)


def print_program(program: Program) -> str:
    declared: dict[str, tuple[str, ...]] = {}
    lines: list[str] = []
    for statement in program.statements:
        if isinstance(statement, PredicateDeclaration):
            declared.setdefault(statement.name, tuple(p.type for p in statement.parameters))
        elif isinstance(statement, FunctionDeclaration):
            declared.setdefault(statement.name, statement.parameters)
        elif isinstance(statement, WeightedFormula) and reads_as_declaration(statement, declared):
            lines.append(f"({print_formula(statement.formula)})\n")
            continue
        lines.append(print_statement(statement) + "\n")
    return "".join(lines)


def reads_as_declaration(
    statement: WeightedFormula, declared: Mapping[str, tuple[str, ...]]
) -> bool:
    """Return whether the text of an atom may be read as a declaration of its predicate."""
    atom = statement.formula
    if not isinstance(atom, Atom) or statement != WeightedFormula(atom):
        return False
    if atom.predicate not in declared:
        return True
    names = tuple(t.name for t in atom.terms if not isinstance(t, Application | Offset))
    return declared[atom.predicate] == names


def print_statement(statement: Statement) -> str:
    match statement:
        case Include(path):
            return f"#include {quote_text(path)}"
        case TypeDeclaration(name, constants, size):
            return print_type(name, constants, size)
        case PredicateDeclaration(name, parameters, closed, factors):
            arguments = ", ".join(p.type + p.mark for p in parameters)
            text = f"{'*' if closed else ''}{name}{f'({arguments})' if parameters else ''}"
            return text if factors is None else f"{text} {factors[0]!r} {factors[1]!r}"
        case FunctionDeclaration(value, name, parameters):
            return f"{value} {name}({', '.join(parameters)})"
        case ProbabilityConstraint(formula, probability, posterior):
            return f"{'R' if posterior else 'P'}({print_formula(formula)}) = {probability!r}"
        case Cardinality(parts, operator, bound):
            return f"{print_cardinalities(parts)} {operator} {bound}"
        case WeightedFormula():
            return print_weighted(statement)


def print_type(name: str, constants: tuple[str, ...], size: int | None = None) -> str:
    number = "" if size is None else f"{size} "
    return f"{name} = {number}{{{print_constants(constants)}}}"


def print_weighted(statement: WeightedFormula) -> str:
    text = print_product(statement.numbers, statement.formula)
    weight = statement.weight_text
    if weight is None and statement.weight is not None:
        weight = repr(statement.weight)
    if statement.utility is not None:
        weight = f"{weight or ''}:{statement.utility!r}"
    head = f"{'@fixed ' if statement.fixed else ''}{weight + ' ' if weight else ''}"
    at = print_settings([(s.variable, s.constant) for s in statement.at])
    if statement.weight_by is not None:
        return f"{statement.weight_by}: {text}"
    return f"{head}{text}{'.' if statement.hard else ''}{at}"


def print_settings(settings: Iterable[tuple[str, str]]) -> str:
    """Print the constants that a weight is for, as in "  @ w = Java"; empty if there are none."""
    parts = [f"{variable} = {format_constant(constant)}" for variable, constant in settings]
    return f"  @ {', '.join(parts)}" if parts else ""


def print_constants(constants: tuple[str, ...]) -> str:
    """Print the constants of a type; three or more consecutive integers become a range."""
    if len(constants) > 2 and INTEGER.fullmatch(constants[0]):
        first = int(constants[0])
        if constants == tuple(str(first + i) for i in range(len(constants))):
            return f"{first}, ..., {constants[-1]}"
    return ", ".join(map(format_constant, constants))


def print_cardinalities(parts: tuple[tuple[int, str], ...]) -> str:
    text = ""
    for coefficient, predicate in parts:
        sign = "-" if coefficient < 0 else "+"
        size = "" if abs(coefficient) == 1 else f"{abs(coefficient)} "
        joint = f" {sign} " if text else ("-" if coefficient < 0 else "")
        text += f"{joint}{size}|{predicate}|"
    return text


def print_formula(formula: Formula) -> str:
    return print_within(formula, QUANTIFIER)


def print_product(numbers: Sequence[NumberFactor | RuleNumber], formula: Formula) -> str:
    """Print a formula and the numbers that it is multiplied by."""
    if not numbers:
        return print_formula(formula)
    return " * ".join((*print_numbers(numbers), print_within(formula, NOT)))


def print_numbers(numbers: Sequence[NumberFactor | RuleNumber]) -> list[str]:
    """Print the numbers that a formula is multiplied by."""
    found = []
    for number in numbers:
        text = print_term(Application(number.function, number.terms))
        scale = "log" * number.logarithm if isinstance(number, NumberFactor) else number.scale
        found.append(f"{scale}({text})" if scale else text)
    return found


def print_within(formula: Formula, outer: int) -> str:
    """Print a formula, in brackets if it binds looser than its surroundings."""
    text, strength = print_alone(formula)
    return f"({text})" if strength < outer else text


def print_alone(formula: Formula) -> tuple[str, int]:
    """Print a formula without brackets around it; return the text and its binding strength."""
    match formula:
        case Atom(predicate, terms, starred):
            return f"{'*' if starred else ''}{predicate}{print_arguments(terms)}", ATOM
        case Comparison(operator, left, right):
            return f"{print_term(left)} {operator} {print_term(right)}", NOT
        case Truth(value):
            return ("true" if value else "false"), ATOM
        case Not(body):
            return f"!{print_within(body, ATOM if isinstance(body, Comparison) else NOT)}", NOT
        case And(parts):
            return print_chain(parts, " ^ ", AND), AND
        case Or(parts):
            return print_chain(parts, " v ", OR), OR
        case Implies(premise, conclusion):
            return print_chain((premise, conclusion), " => ", IMPLIES), IMPLIES
        case Iff(left, right):
            return print_chain((left, right), " <=> ", IFF), IFF
        case _:
            return print_quantifier(formula), QUANTIFIER


def print_chain(parts: tuple[Formula, ...], connective: str, strength: int) -> str:
    """Print operands of a left-associative connective."""
    first, *others = parts
    texts = [print_within(first, strength), *(print_within(p, strength + 1) for p in others)]
    return connective.join(texts)


def print_quantifier(formula: Quantifier) -> str:
    names = ",".join(formula.variables)
    match formula:
        case Exists():
            head = f"EXIST {names}"
        case ForAll():
            head = f"FORALL {names}"
        case CountExists():
            head = f"EXIST{{{formula.operator}{formula.bound}}} {names}"
    return f"{head} {print_within(formula.body, QUANTIFIER)}"


def print_arguments(terms: tuple[Term, ...]) -> str:
    return f"({', '.join(map(print_term, terms))})" if terms else ""


def print_term(term: Term) -> str:
    match term:
        case Variable(name, plus):
            return f"{'+' if plus else ''}{name}"
        case Constant(name):
            return format_constant(name)
        case Application(function, terms, amount):
            return f"{function}({', '.join(map(print_term, terms))}){print_amount(amount)}"
        case Offset(variable, amount):
            return f"{variable.name}{print_amount(amount) or '+0'}"


def print_amount(amount: float) -> str:
    """Print a number that is added to a term; nothing for 0."""
    if not amount:
        return ""
    return f"{'+' if amount >= 0 else '-'}{abs(amount)}"


def declare_predicate(predicate: Predicate) -> Statement:
    """Return the statement that declares a predicate."""
    if predicate.function:
        *arguments, value = predicate.types
        return FunctionDeclaration(value, predicate.name, tuple(arguments), span=predicate.span)
    marked = Parameter("", "!") if predicate.exactly_one else Parameter("", "?")
    parameters = tuple(
        replace(marked, type=type_name) if i in predicate.block else Parameter(type_name)
        for i, type_name in enumerate(predicate.types)
    )
    return PredicateDeclaration(
        predicate.name, parameters, predicate.closed, predicate.factors, span=predicate.span
    )


WEIGHT_WIDTH = 19  # of the column of weights


def print_model(model: Model, *, title: str = "", notes: Sequence[Sequence[str]] = ()) -> str:
    """Print a model: declarations, then formulas with their weights.

    `notes` has a comment for each weight of each rule, in the order of `instance_weights`. `title`
    becomes comments at the top.

    >>> from lapis.language import parse_model
    >>> text = "person = {Ann}\\nSmokes(person)\\nCancer(person)\\n1.5 Smokes(x) => Cancer(x)"
    >>> print(print_model(parse_model(text), notes=[["± 0.1"]]))
    person = {Ann}
    <BLANKLINE>
    Smokes(person)
    Cancer(person)
    <BLANKLINE>
    1.5             Smokes(x) => Cancer(x)  // ± 0.1
    <BLANKLINE>
    """
    if model.has_variables:
        raise LapisError(
            f"{model.name} has no text in Markov logic: its atoms may have any names",
            code="no-text",
            hint="`lapis ground` writes its ground network",
        )
    heading = [f"// {line}".rstrip() for line in title.splitlines()]
    types = [
        print_type(name, constants, model.sizes.get(name))
        for name, constants in model.types.items()
        if name != NUMBER_TYPE or not any(p.is_number for p in model.predicates.values())
        if constants or name in model.sizes or name[0].isupper()  # an upper-case type is listed
    ]
    predicates = [print_statement(declare_predicate(p)) for p in model.predicates.values()]
    constraints = [print_statement(constraint) for constraint in model.constraints]
    constraints += [print_statement(each) for each in model.probability_constraints]
    rules = [
        line
        for number, rule in enumerate(model.rules)
        for line in print_rule(rule, notes[number] if notes else ())
    ]
    parts = ["\n".join(part) for part in (heading, types, predicates, constraints, rules) if part]
    return "\n\n".join(parts) + "\n"


def print_rule(rule: Rule, notes: Sequence[str]) -> Iterator[str]:
    if rule.instance_weights is None:
        yield print_rule_line(rule, rule.text, rule.weight, notes[0] if notes else "")
        return
    # A weight of 0 may be dropped if constants without a line have weight 0 too.
    table = rule.instance_weights
    chosen = notes or [""] * len(table.value)
    dropped = 0
    for constants, weight, note in zip(table.constants, table.value, chosen, strict=True):
        if weight == 0.0 and not rule.weight:
            dropped += 1
        else:
            settings = print_settings(zip(rule.plus, constants, strict=True))
            yield print_rule_line(rule, rule.text + settings, weight, note)
    if dropped:
        yield f"// {dropped:,} more of weight 0: {rule.text}"


def print_rule_line(rule: Rule, text: str, weight: float | None, note: str) -> str:
    comment = f"  // {note}" if note else ""
    if rule.weight_by is not None:
        return f"{rule.weight_by + ':':<{WEIGHT_WIDTH}}  {text}{comment}"
    if rule.hard:
        return f"{text}.{comment}"
    if weight is None:
        # An atom would be read as a declaration.
        is_atom = not rule.numbers and isinstance(parse_formula(text), Atom)
        return f"{f'({text})' if is_atom else text}{comment}"
    head = f"{'@fixed ' if rule.fixed else ''}{format_weight(weight)}"
    if rule.utility is not None:
        head += f":{rule.utility!r}"
    return f"{head:<{WEIGHT_WIDTH}}  {text}{comment}"


def format_weight(weight: float) -> str:
    """Return the shortest text that is read as the same number."""
    short = f"{weight:.10g}"
    return short if float(short) == weight else repr(float(weight))

"""Syntax tree to text. Printing, then parsing, gives the same tree back.

A model as the text of a file: declarations, then formulas with their weights.

Reading the text gives a model of the same meaning. Rules with plus variables whose weights differ
by constants are written out, a line for each; those of weight 0, which mean nothing, are only
counted. Constants stand behind @, not in the formula, which would add them to worlds without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lapis.language.model import Model, Predicate, Rule
from lapis.language.names import format_constant, quote_text
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
    Offset,
    Or,
    Parameter,
    PredicateDeclaration,
    Program,
    Statement,
    Term,
    Truth,
    TypeDeclaration,
    Variable,
    WeightedFormula,
)

# Binding strength, loosest first. A quantifier swallows all that follows it, so it is bracketed
# wherever something may follow.
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
    """Whether a bare atom, printed as it is, would declare its predicate."""
    atom = statement.formula
    if not isinstance(atom, Atom) or statement != WeightedFormula(atom):
        return False
    names = tuple(t.name for t in atom.terms if isinstance(t, Variable) and not t.plus)
    if len(names) < len(atom.terms):
        return False
    return declared.get(atom.predicate, names) == names


def print_statement(statement: Statement) -> str:
    match statement:
        case Include(path):
            return f"#include {quote_text(path)}"
        case TypeDeclaration(name, constants):
            return f"{name} = {{{print_constants(constants)}}}"
        case PredicateDeclaration(name, parameters, closed, factors):
            arguments = ", ".join(p.type + p.mark for p in parameters)
            text = f"{'*' if closed else ''}{name}{f'({arguments})' if parameters else ''}"
            return text if factors is None else f"{text} {factors[0]!r} {factors[1]!r}"
        case FunctionDeclaration(value, name, parameters):
            return f"{value} {name}({', '.join(parameters)})"
        case Cardinality(parts, operator, bound):
            return f"{print_cardinalities(parts)} {operator} {bound}"
        case WeightedFormula():
            return print_weighted(statement)


def print_weighted(statement: WeightedFormula) -> str:
    text = print_formula(statement.formula)
    weight = statement.weight_text
    if weight is None and statement.weight is not None:
        weight = repr(statement.weight)
    if statement.utility is not None:
        weight = f"{weight or ''}:{statement.utility!r}"
    head = f"{'@fixed ' if statement.fixed else ''}{weight + ' ' if weight else ''}"
    at = print_settings([(s.variable, s.constant) for s in statement.at])
    return f"{head}{text}{'.' if statement.hard else ''}{at}"


def print_settings(settings: Iterable[tuple[str, str]]) -> str:
    """The constants that a weight is for, as they stand behind its formula; nothing if none."""
    parts = [f"{variable} = {format_constant(constant)}" for variable, constant in settings]
    return f"  @ {', '.join(parts)}" if parts else ""


def print_constants(constants: tuple[str, ...]) -> str:
    """Constants of a type; consecutive integers, if more than two, as a range."""
    if len(constants) > 2 and constants[0].isdecimal():
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
    return print_bracketed(formula, QUANTIFIER)


def print_bracketed(formula: Formula, outer: int) -> str:
    """The formula, in brackets where it binds looser than its surroundings."""
    text, strength = print_unbracketed(formula)
    return f"({text})" if strength < outer else text


def print_unbracketed(formula: Formula) -> tuple[str, int]:
    match formula:
        case Atom(predicate, terms, starred):
            return f"{'*' if starred else ''}{predicate}{print_arguments(terms)}", ATOM
        case Comparison(operator, left, right):
            return f"{print_term(left)} {operator} {print_term(right)}", NOT
        case Truth(value):
            return ("true" if value else "false"), ATOM
        case Not(body):
            return f"!{print_bracketed(body, ATOM if isinstance(body, Comparison) else NOT)}", NOT
        case And(parts):
            return " ^ ".join(
                [print_bracketed(parts[0], AND), *(print_bracketed(p, NOT) for p in parts[1:])]
            ), AND
        case Or(parts):
            return " v ".join(
                [print_bracketed(parts[0], OR), *(print_bracketed(p, AND) for p in parts[1:])]
            ), OR
        case Implies(premise, conclusion):
            return (
                f"{print_bracketed(premise, IMPLIES)} => {print_bracketed(conclusion, OR)}",
                IMPLIES,
            )
        case Iff(left, right):
            return f"{print_bracketed(left, IFF)} <=> {print_bracketed(right, IMPLIES)}", IFF
        case Exists(variables, body):
            return f"EXIST {','.join(variables)} {print_bracketed(body, QUANTIFIER)}", QUANTIFIER
        case CountExists(variables, body, operator, bound):
            head = f"EXIST{{{operator}{bound}}} {variables[0]}"
            return f"{head} {print_bracketed(body, QUANTIFIER)}", QUANTIFIER
        case ForAll(variables, body):
            return f"FORALL {','.join(variables)} {print_bracketed(body, QUANTIFIER)}", QUANTIFIER


def print_arguments(terms: tuple[Term, ...]) -> str:
    return f"({', '.join(map(print_term, terms))})" if terms else ""


def print_term(term: Term) -> str:
    match term:
        case Variable(name, plus):
            return f"{'+' if plus else ''}{name}"
        case Constant(name):
            return format_constant(name)
        case Application(function, terms):
            return f"{function}({', '.join(map(print_term, terms))})"
        case Offset(variable, amount):
            return f"{variable.name}{'+' if amount >= 0 else '-'}{abs(amount)}"


def declare_predicate(predicate: Predicate) -> Statement:
    """A statement that declares the predicate again."""
    if predicate.function:
        *arguments, value = predicate.types
        return FunctionDeclaration(value, predicate.name, tuple(arguments), predicate.span)
    marked = Parameter("", "!") if predicate.exactly_one else Parameter("", "?")
    parameters = tuple(
        replace(marked, type=type_name) if i in predicate.block else Parameter(type_name)
        for i, type_name in enumerate(predicate.types)
    )
    return PredicateDeclaration(
        predicate.name, parameters, predicate.closed, predicate.factors, predicate.span
    )


WIDTH = 19  # of the weights' column


def print_model(model: Model, *, title: str = "", notes: Sequence[Sequence[str]] = ()) -> str:
    """The text of a model.

    `notes` holds, for each rule, a comment for each of its weights: one, or in the order of
    `instance_weights`. `title` is put in front, as comments.

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
    heading = [f"// {line}".rstrip() for line in title.splitlines()]
    types = [
        f"{name} = {{{print_constants(constants)}}}"
        for name, constants in model.types.items()
        if constants
    ]
    predicates = [print_statement(declare_predicate(p)) for p in model.predicates.values()]
    constraints = [print_statement(constraint) for constraint in model.constraints]
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
    # Constants without a weight of their own keep the rule's; where that is 0 nothing is lost.
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
    if rule.hard:
        return f"{text}.{comment}"
    if weight is None:
        is_atom = isinstance(parse_formula(text), Atom)  # would be read as a declaration
        return f"{f'({text})' if is_atom else text}{comment}"
    head = f"{'@fixed ' if rule.fixed else ''}{format_weight(weight)}"
    if rule.utility is not None:
        head += f":{rule.utility!r}"
    return f"{head:<{WIDTH}}  {text}{comment}"


def format_weight(weight: float) -> str:
    """As short as reads back to the same number."""
    short = f"{weight:.10g}"
    return short if float(short) == weight else repr(float(weight))

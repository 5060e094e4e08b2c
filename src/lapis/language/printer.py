"""Syntax tree to text. Printing, then parsing, gives the same tree back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lapis.language.names import format_constant, quote
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
            return f"#include {quote(path)}"
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
    return render(formula, QUANTIFIER)


def render(formula: Formula, outer: int) -> str:
    """The formula, in brackets where it binds looser than its surroundings."""
    text, strength = bare(formula)
    return f"({text})" if strength < outer else text


def bare(formula: Formula) -> tuple[str, int]:
    match formula:
        case Atom(predicate, terms, starred):
            return f"{'*' if starred else ''}{predicate}{print_arguments(terms)}", ATOM
        case Comparison(operator, left, right):
            return f"{print_term(left)} {operator} {print_term(right)}", NOT
        case Truth(value):
            return ("true" if value else "false"), ATOM
        case Not(body):
            return f"!{render(body, ATOM if isinstance(body, Comparison) else NOT)}", NOT
        case And(parts):
            return " ^ ".join([render(parts[0], AND), *(render(p, NOT) for p in parts[1:])]), AND
        case Or(parts):
            return " v ".join([render(parts[0], OR), *(render(p, AND) for p in parts[1:])]), OR
        case Implies(premise, conclusion):
            return f"{render(premise, IMPLIES)} => {render(conclusion, OR)}", IMPLIES
        case Iff(left, right):
            return f"{render(left, IFF)} <=> {render(right, IMPLIES)}", IFF
        case Exists(variables, body):
            return f"EXIST {','.join(variables)} {render(body, QUANTIFIER)}", QUANTIFIER
        case CountExists(variables, body, operator, bound):
            head = f"EXIST{{{operator}{bound}}} {variables[0]}"
            return f"{head} {render(body, QUANTIFIER)}", QUANTIFIER
        case ForAll(variables, body):
            return f"FORALL {','.join(variables)} {render(body, QUANTIFIER)}", QUANTIFIER


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

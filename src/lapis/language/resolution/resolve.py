"""Syntax tree to model: declarations gathered, names and types resolved, sugar removed.

What is sugar: includes, starred atoms (one rule for each choice of signs), functions (the
predicate of their graph, `P(f(x))` meaning ∃v (f(x)=v ∧ P(v))), and offsets in atoms (`P(i+1)`
meaning ∀j (j = i+1 ⇒ …) around the scope of i, so true where i+1 is no constant).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lapis.errors import LapisError, Note, Span, Warning, did_you_mean, raise_all
from lapis.language.includes import IncludeReader
from lapis.language.lexer import tokenize
from lapis.language.model import Model, Predicate, Rule
from lapis.language.parser import parse_statements, parse_weighted, read_text, readable
from lapis.language.plain_lines import PlainLine
from lapis.language.printer import print_formula
from lapis.language.resolution.sugar import (
    all_variables,
    bound_variables,
    compile_offsets,
    expand_stars,
    fresh_name,
    plus_variables,
    rename_apart,
    without_plus,
)
from lapis.language.resolution.types import Slot, TypeSlots
from lapis.language.syntax import (
    And,
    Application,
    Atom,
    Cardinality,
    Comparison,
    Constant,
    Exists,
    ForAll,
    Formula,
    FunctionDeclaration,
    Not,
    PredicateDeclaration,
    Statement,
    Term,
    TypeDeclaration,
    Variable,
    WeightedFormula,
    children,
    free_variables,
    map_terms,
    subformulas,
    term_variables,
    with_children,
)


def parse_model(text: str, name: str = "<text>") -> Model:
    """A model from its text.

    >>> model = parse_model("Smokes(person)\\nCancer(person)\\n1.5 Smokes(x) => Cancer(x)")
    >>> model.rules[0].variables
    (('x', 'person'),)
    """
    return resolve(*parse_statements(text, name), name=name)


def read_model(path: str | Path) -> Model:
    """A model from a file; includes are read relative to it."""
    path = Path(path)
    found = parse_statements(read_text(path), str(path))
    return resolve(*found, name=str(path), folder=path.parent)


def resolve(
    statements: Sequence[Statement],
    errors: Sequence[LapisError] = (),
    *,
    name: str = "<text>",
    folder: Path | None = None,
) -> Model:
    """Check and resolve all statements; raises their mistakes together with those given."""
    resolver = Resolver(errors=list(errors))
    includes = IncludeReader(resolver.errors)
    statements = list(includes.expand(statements, folder or Path(), [Path(name).resolve()]))
    for statement in statements:
        resolver.declare(statement)
    resolver.check_types()
    pending: list[Callable[[], Rule]] = []
    for statement in statements:
        if isinstance(statement, WeightedFormula):
            pending += resolver.prepare(statement)
        elif isinstance(statement, Cardinality):
            resolver.check_cardinality(statement)
    raise_all(sorted(resolver.errors, key=place))
    predicates = resolver.finish_predicates()
    rules = [finish() for finish in pending]
    rules += factor_rules(predicates.values())
    return Model(
        types={type_name: tuple(constants) for type_name, constants in resolver.types.items()},
        predicates={p.name: without_factors(p) for p in predicates.values()},
        rules=tuple(rules),
        constraints=tuple(s for s in statements if isinstance(s, Cardinality)),
        warnings=tuple(resolver.warnings),
        name=name,
    )


def place(error: LapisError) -> tuple[str, int]:
    return (error.span.source.name, error.span.start) if error.span else ("", 0)


@dataclass
class Resolver:
    """What is known of types, predicates and their arguments while a model is resolved."""

    types: dict[str, dict[str, None]] = field(default_factory=dict)
    predicates: dict[str, Predicate] = field(default_factory=dict)
    undeclared: dict[str, Atom] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)  # types with declared constants
    slots: TypeSlots = field(default_factory=TypeSlots)
    errors: list[LapisError] = field(default_factory=list)
    warnings: list[Warning] = field(default_factory=list)
    constants: list[tuple[str, Slot, Span | None]] = field(default_factory=list)
    num_formulas: int = 0
    # variables and types of atoms on plain lines, by the atoms' identity
    written: dict[int, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    def fail(self, message: str, code: str, span: Span | None, **more: object) -> None:
        self.errors.append(LapisError(message, code=code, span=span, **more))  # type: ignore[arg-type]

    # Declarations

    def declare(self, statement: Statement) -> None:
        match statement:
            case TypeDeclaration(name, constants):
                self.types.setdefault(name, {}).update(dict.fromkeys(constants))
                self.listed.add(name)
            case PredicateDeclaration(name, parameters, closed, factors, span):
                marks = {p.mark for p in parameters} - {""}
                if len(marks) == 2:
                    self.fail("use either ! or ? in a predicate, not both", "mixed-marks", span)
                self.add(
                    Predicate(
                        name,
                        tuple(p.type for p in parameters),
                        tuple(i for i, p in enumerate(parameters) if p.mark),
                        exactly_one="?" not in marks,
                        closed=closed,
                        factors=factors,
                        span=span,
                    )
                )
            case FunctionDeclaration(value, name, parameters, span):
                types = (*parameters, value)
                self.add(Predicate(name, types, (len(parameters),), function=True, span=span))

    def add(self, predicate: Predicate) -> None:
        earlier = self.predicates.setdefault(predicate.name, predicate)
        if earlier != predicate:
            self.fail(
                f"predicate {predicate.name!r} is declared twice, differently",
                "declared-twice",
                predicate.span,
                notes=[Note("it was first declared here", earlier.span)],
            )

    def check_types(self) -> None:
        for predicate in self.predicates.values():
            for position, type_name in enumerate(predicate.types):
                self.types.setdefault(type_name, {})
                self.slots.unify(argument(predicate.name, position), ("type", type_name))

    def check_cardinality(self, statement: Cardinality) -> None:
        for _, name in statement.parts:
            if name not in self.predicates:
                self.unknown_predicate(name, statement.span)

    def unknown_predicate(self, name: str, span: Span | None) -> None:
        close = did_you_mean(name, self.predicates)
        hint = None
        if close:
            where = self.predicates[close].span
            hint = f"did you mean {close!r}, declared at {where}?" if where else None
        self.fail(f"unknown predicate {name!r}", "unknown-predicate", span, hint=hint)

    # Formulas

    def prepare(self, statement: WeightedFormula) -> list[Callable[[], Rule]]:
        """Check a formula and unify its types; the rules follow once all types are known."""
        if statement.line is not None:
            rule = self.plain_rule(statement, statement.line)
            if rule is not None:
                return [lambda: rule]
            statement = parse_again(statement)
        before = len(self.errors)
        original = self.drop_unused(self.spell_predicates(statement.formula))
        expanded = expand_stars(original, self.errors)
        finished: list[Callable[[], Rule]] = []
        for formula in expanded:
            formula = rename_apart(formula)
            formula = self.compile_terms(formula, all_variables(formula))
            formula = compile_offsets(formula)
            formula = rename_apart(formula)
            if len(self.errors) > before:
                return []
            scope = str(self.num_formulas)
            self.num_formulas += 1
            self.unify(formula, scope)
            self.check_plus(original, formula, statement)
            text = print_formula(formula if len(expanded) > 1 else original)
            finished.append(self.finisher(statement, formula, scope, text))
        return finished if len(self.errors) == before else []

    def plain_rule(self, statement: WeightedFormula, line: PlainLine) -> Rule | None:
        """The rule of a plain line; None if something is wrong, or no declaration tells."""
        types: dict[str, str] = {}
        for number, written in enumerate(line.atoms):
            known = self.written.get(id(written))
            if known is None:
                known = self.check_written(statement, line, number)
                if known is None:
                    return None
            for name, type_name in known:
                if types.setdefault(name, type_name) != type_name:
                    return None
        return Rule(
            statement.formula, tuple(types.items()), (), statement.weight, statement.hard,
            line.text, (), False, None, statement.span,
        )  # fmt: skip

    def check_written(
        self, statement: WeightedFormula, line: PlainLine, number: int
    ) -> tuple[tuple[str, str], ...] | None:
        """The variables of an atom met for the first time, with their types."""
        written = line.atoms[number]
        predicate = self.predicates.get(written.atom.predicate)
        terms = written.atom.terms
        if predicate is None or predicate.arity != len(terms):
            return None
        found: list[tuple[str, str]] = []
        for position, term in enumerate(terms):
            if isinstance(term, Variable):
                found.append((term.name, predicate.types[position]))
                continue
            assert isinstance(term, Constant)
            assert statement.span is not None
            span = line.term_span(statement.span, number, position)
            self.constants.append((term.name, argument(predicate.name, position), span))
        self.written[id(written)] = tuple(found)
        return self.written[id(written)]

    def spell_predicates(self, formula: Formula) -> Formula:
        """Resolve predicates whose spelling differs from the declared one in case only."""
        if isinstance(formula, Atom) and formula.predicate not in self.predicates:
            close = did_you_mean(formula.predicate, self.predicates)
            if close and close.lower() == formula.predicate.lower():
                self.warnings.append(
                    Warning(
                        f"{formula.predicate!r} is read as the declared predicate {close!r}",
                        "case",
                        formula.span,
                    )
                )
                return replace(formula, predicate=close)
        return with_children(formula, tuple(map(self.spell_predicates, children(formula))))

    def drop_unused(self, formula: Formula) -> Formula:
        """Leave out quantified variables that do nothing: they have no type either."""
        formula = with_children(formula, tuple(map(self.drop_unused, children(formula))))
        if not isinstance(formula, Exists | ForAll):
            return formula
        used = set(free_variables(formula.body))
        for name in formula.variables:
            if name not in used:
                self.warnings.append(
                    Warning(
                        f"variable {name!r} is used only in its quantifier, which is left out",
                        "unused-variable",
                        formula.span,
                    )
                )
        kept = tuple(name for name in formula.variables if name in used)
        return replace(formula, variables=kept) if kept else formula.body

    def compile_terms(self, formula: Formula, taken: set[str]) -> Formula:
        """Functions in atoms and comparisons to the predicates of their graphs."""
        inner = tuple(self.compile_terms(child, taken) for child in children(formula))
        formula = with_children(formula, inner)
        if isinstance(formula, Comparison) and formula.operator in ("=", "!="):
            graph = self.compile_equation(formula)
            if graph is not None:
                return self.compile_terms(graph, taken)
        if not isinstance(formula, Atom | Comparison):
            return formula
        conditions: list[Atom] = []

        def flatten(term: Term) -> Term:
            if not isinstance(term, Application):
                return term
            inner = tuple(map(flatten, term.terms))
            value = Variable(fresh_name(variable_like(term.function), taken))
            taken.add(value.name)
            conditions.append(self.graph(term, (*inner, value)))
            return value

        flat = map_terms(formula, flatten)
        if not conditions:
            return flat
        names = tuple(str(atom.terms[-1].name) for atom in conditions)  # type: ignore[union-attr]
        return Exists(names, And((*conditions, flat)), formula.span)

    def compile_equation(self, formula: Comparison) -> Formula | None:
        """f(x) = t as the atom f(x,t)."""
        left, right = formula.left, formula.right
        if not isinstance(left, Application):
            left, right = right, left
        if not isinstance(left, Application):
            return None
        atom = self.graph(left, (*left.terms, right))
        return atom if formula.operator == "=" else Not(atom, formula.span)

    def graph(self, term: Application, terms: tuple[Term, ...]) -> Atom:
        predicate = self.predicates.get(term.function)
        if predicate is None or not predicate.function:
            close = did_you_mean(
                term.function, (p.name for p in self.predicates.values() if p.function)
            )
            self.fail(
                f"unknown function {term.function!r}",
                "unknown-function",
                term.span,
                hint=f"did you mean {close!r}?"
                if close
                else "declare it, as in person MotherOf(person)",
            )
        return Atom(term.function, terms, False, term.span)

    def unify(self, formula: Formula, scope: str) -> None:
        """Give every variable of a formula the type of the positions it stands in."""
        for node in subformulas(formula):
            if isinstance(node, Atom):
                self.unify_atom(node, scope)
            elif isinstance(node, Comparison):
                self.unify_terms(node.left, node.right, scope, node.span)

    def unify_atom(self, atom: Atom, scope: str) -> None:
        predicate = self.predicates.get(atom.predicate)
        if predicate is None and atom.predicate not in self.undeclared:
            if did_you_mean(atom.predicate, self.predicates):
                self.unknown_predicate(atom.predicate, name_span(atom))
                return
            self.undeclared[atom.predicate] = atom
        arity = predicate.arity if predicate else len(self.undeclared[atom.predicate].terms)
        if arity != len(atom.terms):
            declared = predicate.span if predicate else self.undeclared[atom.predicate].span
            self.fail(
                f"{atom.predicate!r} takes {count(arity, 'argument')}, "
                f"here it has {len(atom.terms)}",
                "arity",
                atom.span,
                notes=[
                    Note("it is declared here" if predicate else "it is first used here", declared)
                ],
            )
            return
        for position, term in enumerate(atom.terms):
            self.unify_term(term, argument(atom.predicate, position), scope)

    def unify_term(self, term: Term, slot: Slot, scope: str) -> None:
        if isinstance(term, Constant):
            self.constants.append((term.name, slot, term.span))
            return
        for variable in term_variables(term):
            clash = self.slots.unify(("variable", scope, variable.name), slot)
            if clash:
                self.fail(
                    f"variable {variable.name!r} is of type {clash[0]!r}, "
                    f"but {clash[1]!r} is expected here",
                    "type",
                    variable.span or term.span,
                )

    def unify_terms(self, left: Term, right: Term, scope: str, span: Span | None) -> None:
        sides = [next(iter(term_variables(t)), None) for t in (left, right)]
        if sides[0] is None and sides[1] is None:
            return
        slot: Slot = ("variable", scope, (sides[0] or sides[1]).name)  # type: ignore[union-attr]
        for term in (left, right):
            self.unify_term(term, slot, scope)

    def check_plus(self, original: Formula, formula: Formula, statement: WeightedFormula) -> None:
        free = set(free_variables(formula))
        for variable in plus_variables(original):
            if variable.name not in free:
                self.fail(
                    f"'+{variable.name}' is quantified: only free variables can have a weight each",
                    "plus-quantified",
                    variable.span,
                )
            elif statement.hard:
                self.fail(
                    "a hard formula has no weights to tell apart by '+'", "plus-hard", variable.span
                )

    def finisher(
        self, statement: WeightedFormula, formula: Formula, scope: str, text: str
    ) -> Callable[[], Rule]:
        def type_of(name: str) -> tuple[str, str]:
            known = self.slots.type_of(("variable", scope, name))
            if known is None:
                raise LapisError(
                    f"nothing tells the type of variable {name!r}",
                    code="untyped-variable",
                    span=statement.span,
                    hint="use it in an atom of a declared predicate",
                )
            return name, known

        def finish() -> Rule:
            free = free_variables(formula)
            marked = {variable.name for variable in plus_variables(formula)}
            bound = [v for node in subformulas(formula) for v in bound_variables(node)]
            only_utility = statement.utility is not None and statement.weight is None
            return Rule(
                without_plus(formula),
                tuple(map(type_of, free)),
                tuple(map(type_of, bound)),
                0.0 if only_utility else statement.weight,
                statement.hard,
                text,
                tuple(name for name in free if name in marked),
                statement.fixed or only_utility,
                statement.utility,
                statement.span,
            )

        return finish

    def finish_predicates(self) -> dict[str, Predicate]:
        """Name the types nothing determined, add the constants of formulas to their types."""
        predicates = dict(self.predicates)
        for name, atom in self.undeclared.items():
            types = tuple(
                self.slots.name_rest(argument(name, i), f"{variable_like(name)}_{i + 1}")
                for i in range(len(atom.terms))
            )
            predicates[name] = Predicate(name, types, span=atom.span)
            for type_name in types:
                self.types.setdefault(type_name, {})
            shape = f"{name}({', '.join(types)})" if types else name
            self.warnings.append(
                Warning(
                    f"predicate {name!r} is not declared; taken as {shape}", "undeclared", atom.span
                )
            )
        for constant, slot, span in self.constants:
            owner = self.slots.type_of(slot)
            if owner is None:
                continue
            known = self.types.setdefault(owner, {})
            if owner in self.listed and constant not in known:
                close = did_you_mean(constant, known)
                self.warnings.append(
                    Warning(
                        f"{constant!r} is not among the constants listed for type {owner!r}",
                        "unlisted-constant",
                        span,
                        f"did you mean {close!r}?" if close else None,
                    )
                )
            known.setdefault(constant)
        return predicates


def parse_again(statement: WeightedFormula) -> WeightedFormula:
    """A formula read by its form, with the places of all its parts."""
    assert statement.span is not None
    source, start, end = statement.span.source, statement.span.start, statement.span.end
    tokens = readable(list(tokenize(source, start=start, end=end)))
    return parse_weighted(tokens, source, statement.span)


def argument(predicate: str, position: int) -> Slot:
    return ("argument", predicate, str(position))


def name_span(atom: Atom) -> Span | None:
    """Where the predicate's name stands."""
    span = atom.span
    return span and replace(span, end=span.start + len(atom.predicate))


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def variable_like(name: str) -> str:
    return name[0].lower() + name[1:]


def factor_rules(predicates: Iterable[Predicate]) -> list[Rule]:
    """WFOMC weights of a predicate's atoms as two fixed unit rules: log t on P, log f on ¬P."""
    rules: list[Rule] = []
    for predicate in predicates:
        if predicate.factors is None or min(predicate.factors) <= 0:
            continue
        names = tuple(f"x{i + 1}" for i in range(predicate.arity))
        atom = Atom(predicate.name, tuple(Variable(name) for name in names))
        signed: tuple[Formula, Formula] = (atom, Not(atom))
        for factor, formula in zip(predicate.factors, signed, strict=True):
            if factor != 1.0:
                variables = tuple(zip(names, predicate.types, strict=True))
                rules.append(
                    Rule(
                        formula, variables, (), math.log(factor), False, print_formula(formula),
                        fixed=True, span=predicate.span,
                    )
                )  # fmt: skip
    return rules


def without_factors(predicate: Predicate) -> Predicate:
    """Positive factors have become rules; others have no Markov logic meaning and stay."""
    if predicate.factors is None or min(predicate.factors) <= 0:
        return predicate
    return replace(predicate, factors=None)

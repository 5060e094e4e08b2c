"""Resolve a syntax tree to a model: collect declarations, infer types, remove sugar.

    *P(x)              one rule for each choice of signs
    f(x) = t           the atom f(x,t) of the predicate of the function's graph
    P(f(x))            ∃v (f(x,v) ∧ P(v))
    P(i+1)             ∀j (j = i+1 ⇒ P(j)) around the scope of i: true if i+1 is no constant

`with_statements` adds rules to a model and checks them against its declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path

from lapis.errors import (
    LapisError,
    Note,
    Source,
    Warning,
    did_you_mean,
    misplaced_file_error,
    raise_all,
    suggestion,
)
from lapis.language.builtins import evaluate_builtins
from lapis.language.model import InstanceWeights, Model, Rule, RuleNumber
from lapis.language.names import format_number, lower_first_letter, read_number
from lapis.language.parser import expand_includes, parse_statements, read_model_text
from lapis.language.printer import declare_predicate, print_product
from lapis.language.sugar import (
    compile_offsets,
    expand_stars,
    factor_rules,
    has_sugar,
    plus_variables,
    rename_apart,
    without_factors,
    without_plus,
)
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
    Not,
    NumberFactor,
    Offset,
    ProbabilityConstraint,
    Statement,
    Term,
    TypeDeclaration,
    Variable,
    WeightedFormula,
    all_variables,
    bound_variables,
    free_variables,
    fresh_name,
    map_children,
    map_terms,
    subformulas,
    term_variables,
)
from lapis.language.type_inference import Declarations, TypeInference, format_count
from lapis.runtime.processes import pause_collector

# Files of data. Their facts would be read as declarations.
DATA_SUFFIXES = (".db", ".db.gz", ".csv", ".csv.gz", ".parquet")
PROGRAM_SUFFIXES = (".pl", ".problog")


@pause_collector
def parse_model(text: str, name: str = "<text>") -> Model:
    """Parse a Markov logic model from its text.

    Parameters
    ----------
    text
        Declarations and weighted formulas.
    name
        Name of the text in messages.

    Returns
    -------
    Model
        The model.

    Raises
    ------
    LapisError
        If the text has errors; all are reported together.

    Examples
    --------
    >>> model = parse_model("Smokes(person)\\nCancer(person)\\n1.5 Smokes(x) => Cancer(x)")
    >>> model.rules[0].variables
    (('x', 'person'),)
    """
    return resolve_text(Source(name, text), Path())


@pause_collector
def read_model(path: str | Path) -> Model:
    """Read a Markov logic model from a file.

    Parameters
    ----------
    path
        The `.mln` file, or a ProbLog program (`.pl`, `.problog`); paths of includes are relative
        to it.

    Returns
    -------
    Model
        The model.

    Raises
    ------
    LapisError
        If the file is missing, or its text is wrong.
    """
    path = Path(path)
    if path.name.endswith(DATA_SUFFIXES):
        raise misplaced_file_error(path, "data", "a model")
    if path.name.endswith(PROGRAM_SUFFIXES):
        from lapis.language.problog.program_model import read_program

        return read_program(path)
    return resolve_text(Source(str(path), read_model_text(path)), path.parent)


def resolve_text(source: Source, folder: Path) -> Model:
    """Parse and resolve a text; includes are relative to the folder."""
    whole, missing = expand_includes(source, folder, [Path(source.name).resolve()])
    found = parse_statements(whole)
    errors = [*missing, *found.errors]
    return resolve_statements(found.statements, errors, name=source.name, notes=found.notes)


def resolve_statements(
    statements: Sequence[Statement],
    errors: Sequence[LapisError] = (),
    *,
    name: str = "<text>",
    notes: Sequence[Warning] = (),
) -> Model:
    """Check and resolve statements; raise their errors together with those given.

    `notes` become warnings of the model.
    """
    declared = Declarations(list(errors), list(notes))
    for statement in statements:
        declared.declare(statement)
    inference = TypeInference(declared)
    inference.start()
    resolver = Resolver(declared, inference)
    pending: list[Callable[[], Rule]] = []
    for statement in statements:
        if isinstance(statement, WeightedFormula):
            pending += resolver.prepare(statement)
        elif isinstance(statement, Cardinality):
            declared.check_cardinality(statement)
        elif isinstance(statement, ProbabilityConstraint):
            resolver.check_probability(statement)
    raise_all(sorted(declared.errors, key=error_position))
    predicates = inference.finish_predicates()
    rules = [finish() for finish in pending]
    rules += factor_rules(predicates.values())
    return Model(
        types={type_name: tuple(constants) for type_name, constants in declared.types.items()},
        predicates={p.name: without_factors(p) for p in predicates.values()},
        rules=tuple(rules),
        constraints=tuple(s for s in statements if isinstance(s, Cardinality)),
        probability_constraints=tuple(
            s for s in statements if isinstance(s, ProbabilityConstraint)
        ),
        sizes=declared.sizes,
        warnings=tuple(declared.warnings),
        name=name,
    )


def error_position(error: LapisError) -> tuple[str, int]:
    return (error.span.source.name, error.span.start) if error.span else ("", 0)


TableKey = tuple[Formula, tuple[str, ...], bool, float | None, tuple[NumberFactor, ...]]


@dataclass
class Resolver:
    """Turn formulas into rules, after all declarations."""

    declared: Declarations
    inference: TypeInference
    num_formulas: int = 0
    # For each formula with settings (@ x = A): the weights by their constants.
    tables: dict[TableKey, dict[tuple[str, ...], float]] = field(default_factory=dict)

    def prepare(self, statement: WeightedFormula) -> list[Callable[[], Rule]]:
        """Check a formula and unify its types; return functions that make its rules later."""
        if statement.at and self.add_to_table(statement):
            return []
        before = len(self.declared.errors)
        plain = evaluate_builtins(statement.formula, self.declared)
        if len(self.declared.errors) > before:
            return []
        original = self.drop_unused(self.correct_case(plain))
        numbers = [self.check_number(number) for number in statement.numbers]
        outside = {v.name for atom in numbers for term in atom.terms for v in term_variables(term)}
        expanded = self.without_sugar(original, outside) if has_sugar(original) else [original]
        finished: list[Callable[[], Rule]] = []
        for formula in expanded:
            if len(self.declared.errors) > before:
                return []
            scope = str(self.num_formulas)
            self.num_formulas += 1
            self.inference.unify(formula, scope)
            for place, atom in enumerate(numbers):
                value = Variable(f"#{place}")  # no variable of a file has such a name
                self.inference.unify_atom(replace(atom, terms=(*atom.terms, value)), scope)
            self.check_plus((*numbers, original), (*numbers, formula), statement)
            shown = formula if len(expanded) > 1 else original
            text = print_product(statement.numbers, shown)
            finished.append(self.make_finisher(statement, formula, scope, text))
        return finished if len(self.declared.errors) == before else []

    def check_probability(self, statement: ProbabilityConstraint) -> None:
        """Check the formula of a probability constraint, which becomes no rule."""
        for variable in plus_variables(statement.formula):
            problem = "a probability is stated for one formula, which takes no '+'"
            self.declared.fail(problem, "probability-plus", variable.span)
        self.prepare(WeightedFormula(statement.formula, 0.0, span=statement.span))

    def check_number(self, number: NumberFactor) -> Atom:
        """Return the function and terms of a number as an atom; report it if it is none."""
        predicate = self.declared.predicates.get(number.function)
        known = [p.name for p in self.declared.predicates.values() if p.is_number]
        if predicate is None or not predicate.is_number:
            what = "no function of numbers" if predicate is not None else "not declared"
            self.declared.fail(
                f"a formula is multiplied by {number.function!r}, which is {what}",
                "product",
                number.span,
                hint=suggestion(
                    number.function, known, f"declare it, as in float {number.function}(person)"
                ),
            )
        elif len(number.terms) != predicate.arity - 1:
            self.declared.fail(
                f"{number.function!r} takes {format_count(predicate.arity - 1, 'argument')}, "
                f"here it has {len(number.terms)}",
                "arity",
                number.span,
                notes=[Note("it is declared here", predicate.span)],
            )
        for term in number.terms:
            if not isinstance(term, Variable | Constant):
                self.declared.fail(
                    "the arguments of a number are variables and constants",
                    "product",
                    term.span or number.span,
                )
        return Atom(number.function, number.terms, span=number.span)

    def without_sugar(self, formula: Formula, outside: Collection[str] = ()) -> list[Formula]:
        """Return formulas without stars, functions and offsets, with unique quantified names.

        `outside` are the variables of the numbers of the formula.
        """
        found = []
        for signed in expand_stars(formula, self.declared.errors):
            apart = rename_apart(signed, outside)
            flat = compile_terms(self.declared, apart, {*all_variables(apart), *outside})
            found.append(rename_apart(compile_offsets(flat, outside), outside))
        return found

    def add_to_table(self, statement: WeightedFormula) -> bool:
        """Record the weight at its constants; return whether its rule exists already."""
        key = table_key(statement)
        known = key in self.tables
        table = self.tables.setdefault(key, {})
        constants = tuple([setting.constant for setting in statement.at])
        table[constants] = table.get(constants, 0.0) + (statement.weight or 0.0)
        return known

    def correct_case(self, formula: Formula) -> Formula:
        """Resolve predicates whose spelling differs from the declared one in case only."""
        if isinstance(formula, Atom) and formula.predicate not in self.declared.predicates:
            close = did_you_mean(formula.predicate, self.declared.predicates)
            if close and close.lower() == formula.predicate.lower():
                self.declared.warn(
                    f"{formula.predicate!r} is read as the declared predicate {close!r}",
                    "case",
                    formula.span,
                )
                return replace(formula, predicate=close)
        return map_children(formula, self.correct_case)

    def drop_unused(self, formula: Formula) -> Formula:
        """Drop quantified variables that do not occur in the body: they have no type."""
        formula = map_children(formula, self.drop_unused)
        if not isinstance(formula, Exists | ForAll):
            return formula
        used = set(free_variables(formula.body))
        for name in formula.variables:
            if name not in used:
                self.declared.warn(
                    f"variable {name!r} is used only in its quantifier, which is dropped",
                    "unused-variable",
                    formula.span,
                )
        kept = tuple(name for name in formula.variables if name in used)
        return replace(formula, variables=kept) if kept else formula.body

    def check_plus(
        self,
        original: Sequence[Formula],
        formula: Sequence[Formula],
        statement: WeightedFormula,
    ) -> None:
        """Check + and @; both formulas stand after the numbers."""
        free = {name for part in formula for name in free_variables(part)}
        marked = [variable for part in original for variable in plus_variables(part)]
        for variable in marked:
            if variable.name not in free:
                self.declared.fail(
                    f"'+{variable.name}' is quantified: only free variables can have a weight each",
                    "plus-quantified",
                    variable.span,
                )
            elif statement.hard:
                self.declared.fail(
                    "a hard formula has no weights, so it takes no '+'", "plus-hard", variable.span
                )
            elif statement.at and variable.name not in (s.variable for s in statement.at):
                self.declared.fail(
                    f"'@' gives no constant for '+{variable.name}'", "settings", variable.span
                )
        seen: set[str] = set()
        for setting in statement.at:
            if setting.variable in seen:
                problem = f"{setting.variable!r} is given twice"
                self.declared.fail(problem, "settings", setting.span)
            elif setting.variable not in (v.name for v in marked):
                problem = f"this formula has no '+{setting.variable}'"
                self.declared.fail(problem, "settings", setting.span)
            seen.add(setting.variable)

    def make_finisher(
        self, statement: WeightedFormula, formula: Formula, scope: str, text: str
    ) -> Callable[[], Rule]:
        def type_of(name: str) -> tuple[str, str]:
            known = self.inference.slots.type_of(("variable", scope, name))
            if known is None:
                raise LapisError(
                    f"cannot infer the type of variable {name!r}",
                    code="untyped-variable",
                    span=statement.span,
                    hint="use it in an atom of a declared predicate",
                )
            return name, known

        def finish() -> Rule:
            parts = [*(Atom(n.function, n.terms) for n in statement.numbers), formula]
            free = tuple(dict.fromkeys(name for part in parts for name in free_variables(part)))
            marked = {variable.name for part in parts for variable in plus_variables(part)}
            bound = [v for node in subformulas(formula) for v in bound_variables(node)]
            plus = tuple(name for name in free if name in marked)
            only_utility = statement.utility is not None and statement.weight is None
            return Rule(
                without_plus(formula),
                tuple(map(type_of, free)),
                tuple(map(type_of, bound)),
                0.0 if only_utility or statement.at else statement.weight,
                statement.hard,
                text,
                plus,
                statement.fixed or only_utility,
                statement.utility,
                statement.span,
                self.weights_at(statement, plus) if statement.at else None,
                statement.weight_by,
                tuple(map(rule_number, statement.numbers)),
            )

        return finish

    def weights_at(self, statement: WeightedFormula, plus: Sequence[str]) -> InstanceWeights:
        """Return the weights of all statements of this formula, by the constants of `plus`."""
        names = [setting.variable for setting in statement.at]
        order = [names.index(name) for name in plus]
        table = self.tables[table_key(statement)]
        rows = tuple([tuple([constants[i] for i in order]) for constants in table])
        return InstanceWeights(rows, tuple(table.values()))


def table_key(statement: WeightedFormula) -> TableKey:
    """Return a key that is equal for statements that differ only in their settings and weight."""
    names = tuple([setting.variable for setting in statement.at])
    return statement.formula, names, statement.fixed, statement.utility, statement.numbers


def rule_number(number: NumberFactor) -> RuleNumber:
    """Return a number of a formula without marks of + variables."""
    terms = tuple(
        replace(term, plus=False) if isinstance(term, Variable) else term for term in number.terms
    )
    return RuleNumber(number.function, terms, "log" if number.logarithm else "")


def with_statements(model: Model, *added: Statement) -> Model:
    """Add declarations and formulas to a model, resolved like those of a file.

    >>> from lapis.language import parse_formula, parse_model
    >>> from lapis.language.syntax import WeightedFormula
    >>> model = parse_model("Smokes(person)\\n1 Smokes(x)")
    >>> more = with_statements(model, WeightedFormula(parse_formula("Smokes(Anna)"), 2.0))
    >>> [rule.text for rule in more.rules], more.types["person"]
    (['Smokes(x)', 'Smokes(Anna)'], ('Anna',))
    """
    declared: list[Statement] = [
        TypeDeclaration(name, constants) for name, constants in model.types.items()
    ]
    declared += [declare_predicate(predicate) for predicate in model.predicates.values()]
    extended = resolve_statements([*declared, *added], name=model.name)
    predicates = {**extended.predicates, **model.predicates}
    return replace(
        extended,
        predicates=predicates,
        rules=model.rules + extended.rules,
        constraints=model.constraints,
        probability_constraints=model.probability_constraints,
        sizes=model.sizes,
        warnings=model.warnings,
    )


def compile_terms(declared: Declarations, formula: Formula, taken: set[str]) -> Formula:
    """Replace functions in atoms and comparisons by the predicates of their graphs."""
    formula = map_children(formula, lambda child: compile_terms(declared, child, taken))
    if isinstance(formula, Comparison) and formula.operator in ("=", "!="):
        graph = compile_equation(declared, formula)
        if graph is not None:
            return compile_terms(declared, graph, taken)
    if not isinstance(formula, Atom | Comparison):
        return formula
    conditions: list[Atom] = []

    def flatten(term: Term) -> Term:
        if not isinstance(term, Application):
            return term
        inner = tuple(map(flatten, term.terms))
        value = Variable(fresh_name(lower_first_letter(term.function), taken))
        taken.add(value.name)
        conditions.append(graph_atom(declared, term, (*inner, value)))
        return Offset(value, term.amount, span=term.span) if term.amount else value

    flat = map_terms(formula, flatten)
    if not conditions:
        return flat
    names = tuple(str(atom.terms[-1].name) for atom in conditions)  # type: ignore[union-attr]
    return Exists(names, And((*conditions, flat)), span=formula.span)


def canonical_value(declared: Declarations, term: Term) -> Term:
    """Return a constant that a number is compared with as numbers are written in data."""
    if not isinstance(term, Constant):
        return term
    value = read_number(term.name)
    if not isfinite(value):
        declared.fail(f"{term.name!r} is not a number", "not-a-number", term.span)
        return term
    return replace(term, name=format_number(value))


def compile_equation(declared: Declarations, formula: Comparison) -> Formula | None:
    """Return f(x) = t as the atom f(x,t); None if no side is a function."""
    left, right = formula.left, formula.right
    if not isinstance(left, Application):
        left, right = right, left
    if not isinstance(left, Application):
        return None
    if left.amount or (isinstance(right, Application) and right.amount):
        return None
    predicate = declared.predicates.get(left.function)
    if predicate is not None and predicate.is_number:
        right = canonical_value(declared, right)
    atom = graph_atom(declared, left, (*left.terms, right))
    return atom if formula.operator == "=" else Not(atom, span=formula.span)


def graph_atom(declared: Declarations, term: Application, terms: tuple[Term, ...]) -> Atom:
    predicate = declared.predicates.get(term.function)
    if predicate is None or not predicate.function:
        known = [p.name for p in declared.predicates.values() if p.function]
        declared.fail(
            f"unknown function {term.function!r}",
            "unknown-function",
            term.span,
            hint=suggestion(term.function, known, "declare it, as in person MotherOf(person)"),
        )
    return Atom(term.function, terms, False, span=term.span)

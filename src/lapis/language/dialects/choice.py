"""Parse a model file statement by statement, in the grammar that its constructs give away."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lapis.errors import LapisError, Source, Span, Warning
from lapis.language.dialects import lomrf, pracmln, rockit
from lapis.language.dialects.forclift import merge_subdomains
from lapis.language.formulas import USUAL, Grammar
from lapis.language.lexer import Token, split_statements, tokenize
from lapis.language.parser import (
    Declared,
    Parsed,
    declared_functions,
    keep_tokens,
    listed_types,
    parse_predicate,
    parse_statement,
)
from lapis.language.syntax import (
    Formula,
    Implies,
    Offset,
    Parameter,
    PredicateDeclaration,
    Statement,
    TypeDeclaration,
    Variable,
    WeightedFormula,
    atoms,
)

Group = list[Token | LapisError]


@dataclass
class FileParser:
    """The statements, errors and notes of a file so far."""

    source: Source
    statements: list[Statement] = field(default_factory=list)
    errors: list[LapisError] = field(default_factory=list)
    clauses: list[Implies] = field(default_factory=list)  # definite clauses
    definitions: dict[str, rockit.Definition] = field(default_factory=dict)
    directives: list[Token] = field(default_factory=list)  # about the next formula
    uniques: dict[int, tuple[str, ...]] = field(default_factory=dict)  # by place of the formula
    notes: dict[str, list[Span]] = field(default_factory=dict)  # the formulas each is about
    grammar: Grammar = USUAL
    marked: bool = False  # variables are marked ?x
    rockit: bool = False
    standard: bool = False  # the standard grammar of pracmln
    note_clauses: bool = False  # the file is one of LoMRF
    kinds: frozenset[str] = frozenset()  # of the tokens of the file

    def parse(self) -> Parsed:
        """Parse all statements."""
        groups = self.read_groups()
        functions = declared_functions(groups)
        declared = Declared(listed_types(groups), functions, grammar=self.grammar)
        for group in groups:
            unreadable = [token for token in group if isinstance(token, LapisError)]
            self.errors += unreadable
            if not unreadable:
                self.parse_group(keep_tokens(group), declared)
        self.finish()
        return Parsed(self.statements, self.errors, self.make_notes())

    def read_groups(self) -> list[Group]:
        """Split the file into statements, and choose its grammar."""
        tokens = list(tokenize(self.source))
        groups = list(split_statements(tokens))
        readable = [keep_tokens(group) for group in groups]
        self.kinds = frozenset(t.kind for t in tokens if isinstance(t, Token))
        self.marked = "QUESTION" in self.kinds and pracmln.has_marked_variables(keep_tokens(tokens))
        self.rockit = not self.marked and rockit.is_rockit(readable, self.source)
        self.standard = not self.marked and pracmln.is_standard(readable, self.source)
        if self.marked:
            self.grammar = pracmln.MARKED
            return [self.join_words(group) for group in groups]
        if self.rockit:
            self.grammar = rockit.UPPER_OR_LOWER
        elif self.standard:
            self.grammar = pracmln.STANDARD
        return groups

    def join_words(self, group: Group) -> Group:
        readable = keep_tokens(group)
        is_clean = len(readable) == len(group)
        return [*pracmln.join_words(readable, self.source)] if is_clean else group

    def parse_group(self, tokens: list[Token], declared: Declared) -> None:
        """Parse one statement; keep its error if it is wrong."""
        if tokens[0].kind == "DIRECTIVE":
            self.directives.append(tokens[0])
            return
        span = Span(self.source, tokens[0].start, tokens[-1].end)
        try:
            variants = pracmln.expand_groups(tokens, span) if self.marked else [tokens]
            for variant in variants:
                statement = self.parse_one(variant, declared, span)
                if self.marked and statement is not None:
                    pracmln.check_marked_names(statement)
                self.add(statement, variant)
        except LapisError as error:
            self.errors.append(error)
        self.directives.clear()

    def parse_one(self, tokens: list[Token], declared: Declared, span: Span) -> Statement | None:
        """Parse a statement; None if it only defines a name."""
        if not self.rockit and not self.standard and not self.kinds & {"COLON", "BAR"}:
            return parse_statement(tokens, self.source, declared)
        grammar = declared.grammar
        if rockit.is_definition(tokens):
            name, definition = rockit.parse_definition(tokens, self.source, grammar, span)
            self.definitions[name] = definition
            return None
        if rockit.is_bound(tokens):
            closed = {
                name
                for name, predicate in declared.predicates.items()
                if isinstance(predicate, PredicateDeclaration) and predicate.closed
            }
            return rockit.parse_bound(tokens, self.source, grammar, closed, span)
        if [token.kind for token in tokens[:2]] == ["NAME", "COLON"] and len(tokens) > 2:
            return self.parse_column_weight(tokens, declared, span)
        if self.rockit:
            lowered = rockit.lower_types(tokens)
            declaration = parse_predicate(lowered, span)
            if declaration is not None and declaration.name not in declared.predicates:
                tokens = lowered
        statement = parse_statement(tokens, self.source, declared)
        if self.rockit and isinstance(statement, WeightedFormula):
            rockit.check_case(statement.formula, tokens, self.source)
        if self.standard and isinstance(statement, WeightedFormula):
            self.compare_precedence(statement, tokens, declared)
        return statement

    def parse_column_weight(
        self, tokens: list[Token], declared: Declared, span: Span
    ) -> WeightedFormula:
        """Parse `w: F`, the weight of each feature being a number of the data."""
        found = parse_statement(tokens[2:], self.source, declared)
        if not isinstance(found, WeightedFormula) or found.hard or found.weight is not None:
            raise LapisError(
                "a formula with its weight in the data has no other weight and no period",
                code="weight-variable",
                span=span,
            )
        name = tokens[0].text
        return rockit.weigh_by_column(found.formula, name[0].lower() + name[1:], span)

    def compare_precedence(
        self, statement: WeightedFormula, tokens: list[Token], declared: Declared
    ) -> None:
        usual = replace(declared, grammar=USUAL, predicates=dict(declared.predicates))
        try:
            same = parse_statement(tokens, self.source, usual)
        except LapisError:
            return
        if isinstance(same, WeightedFormula) and same.formula != statement.formula:
            self.note(PRECEDENCE, statement)

    def add(self, statement: Statement | None, tokens: Sequence[Token]) -> None:
        """Add a statement with the directives before it."""
        if statement is None:
            return
        if isinstance(statement, WeightedFormula):
            statement = self.direct(statement)
            turnstile = lomrf.find_turnstile(tokens)
            if turnstile is not None and isinstance(statement.formula, Implies):
                self.clauses.append(statement.formula)
            self.note_meaning(statement, tokens, turnstile is not None)
        self.statements.append(statement)

    def direct(self, statement: WeightedFormula) -> WeightedFormula:
        """Apply the directives before a formula to it."""
        for token in self.directives:
            if token.text.lower().startswith("#unique"):
                span = Span(self.source, token.start, token.end)
                names = pracmln.unique_variables(token.text, span)
                self.uniques[len(self.statements)] = names
            elif statement.weight is not None:
                statement = replace(statement, fixed=True)
        return statement

    def note_meaning(
        self, statement: WeightedFormula, tokens: Sequence[Token], is_clause: bool
    ) -> None:
        """Note where LoMRF or RockIt means something else."""
        if self.kinds & {"PLUS", "MINUS"} and not self.note_clauses:
            pairs = list(itertools.pairwise(token.kind for token in tokens))
            self.note_clauses = ("PLUS", "PLUS") in pairs or ("MINUS", "MINUS") in pairs
        if is_clause:
            self.note_clauses = True
        if self.rockit and any(
            isinstance(term, Offset) for atom in atoms(statement.formula) for term in atom.terms
        ):
            self.note(NEW_NUMBERS, statement)

    def note(self, message: str, statement: Statement) -> None:
        if statement.span is not None:
            self.notes.setdefault(message, []).append(statement.span)

    def finish(self) -> None:
        """Replace what needs the whole file: definitions, unique instances, sub-domains."""
        found: list[Statement] = []
        for place, statement in enumerate(self.statements):
            if isinstance(statement, WeightedFormula):
                try:
                    found += self.finish_formula(place, statement)
                except LapisError as error:
                    self.errors.append(error)
            else:
                found.append(statement)
        completed = lomrf.complete(self.clauses)
        found += completed
        if completed:
            names = name_all([lomrf.completed_predicate(formula) for formula in completed])
            verb = "needs" if len(completed) == 1 else "need"
            self.note(f"{names} {verb} {COMPLETED}", completed[0])
        try:
            self.statements = merge_subdomains(found, has_members=" in " in self.source.text)
        except LapisError as error:
            self.errors.append(error)
        if self.note_clauses:
            for statement in self.statements:
                if (
                    isinstance(statement, WeightedFormula)
                    and statement.weight is not None
                    and lomrf.count_shares(statement.formula) > 1
                ):
                    self.note(DIVIDED, statement)

    def finish_formula(self, place: int, statement: WeightedFormula) -> list[WeightedFormula]:
        if self.definitions:
            formula = rockit.insert_definitions(statement.formula, self.definitions)
            statement = replace(statement, formula=formula)
        names = self.uniques.get(place)
        if names is None:
            return [statement]
        types = {s.name: s.constants for s in self.statements if isinstance(s, TypeDeclaration)}
        predicates = {
            s.name: s.parameters for s in self.statements if isinstance(s, PredicateDeclaration)
        }
        own = types_of_variables(statement.formula, predicates)
        listed = {name: types[kind] for name, kind in own.items() if kind in types}
        return pracmln.keep_unique(statement, names, listed)

    def make_notes(self) -> list[Warning]:
        """Return a line for each note, with the number of formulas and the first place."""
        return [
            Warning(f"{spans[0]}: {message}{count_others(len(spans))}", "dialect")
            for message, spans in self.notes.items()
        ]


PRECEDENCE = "pracmln's standard grammar binds v before ^, and so it is read here"
NEW_NUMBERS = (
    "RockIt adds the number to the domain; here the formula is true where it is no constant"
)
COMPLETED = "the body of a clause, as in LoMRF (predicate completion)"
DIVIDED = (
    "LoMRF divides the weight of this formula among its clauses; here it is one feature "
    "(--cnf divides)"
)


def name_all(words: Sequence[str]) -> str:
    """Return "A", "A and B" or "A, B and C"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def count_others(number: int) -> str:
    if number == 1:
        return ""
    return f" (and {number - 1} more formula{'s' * (number > 2)})"


def types_of_variables(
    formula: Formula, predicates: dict[str, tuple[Parameter, ...]]
) -> dict[str, str]:
    """Return the types of variables that are arguments of declared predicates."""
    return {
        term.name: parameter.type
        for atom in atoms(formula)
        for term, parameter in zip(atom.terms, predicates.get(atom.predicate, ()), strict=False)
        if isinstance(term, Variable)
    }

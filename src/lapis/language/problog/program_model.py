"""ProbLog programs as models: hard rules for the logic, weights for the choices.

Each ground atom is a predicate without arguments. A probabilistic fact is an atom with the weights
log p (true) and log(1 − p) (false), so log Z is the log probability of the evidence. An annotated
disjunction is a variable with a state for each head. An atom is true exactly if the body of one of
its clauses holds (Clark 1978, Negation as Failure): its least model, if no atom depends on itself.

**Cycles.** Atoms that depend on each other positively (path in a graph with cycles) have the least
fixpoint of their rules. Let F be atoms of such a component whose removal breaks all its cycles. The
others are functions of F, and the rules of F are a monotone map from sets of atoms of F to such
sets. Its least fixpoint is reached from the empty set in at most |F| applications, so the component
is unrolled |F| times. A component with negation inside has no unique least model and is refused.

Certain facts are substituted before rules are made, so a deterministic graph costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lapis.errors import LapisError, Source, Span, TooLarge
from lapis.language.model import Model, Predicate, Rule
from lapis.language.parser import read_model_text
from lapis.language.printer import print_formula
from lapis.language.problog.dependencies import break_cycles, order_components, sort_others
from lapis.language.problog.ground_program import (
    GroundClause,
    GroundGoal,
    ground_clauses,
    match_terms,
)
from lapis.language.problog.program import Goal, Statement, parse_problog
from lapis.language.syntax import Atom, Constant, Formula, Not, Or
from lapis.runtime.progress import check_time

Value = Formula | bool  # a literal, or what is certain
Body = list[Value]
MAX_UNROLLED = 400_000  # clauses of unrolled components


def read_program(path: Path) -> Model:
    """Read a ProbLog program as a model."""
    return program_model(read_model_text(path), str(path))


def program_model(text: str, name: str = "<program>") -> Model:
    """Return the model of a program.

    >>> program_model("0.4::heads. win :- heads. query(win).").queries
    ('win',)
    """
    program = parse_problog(Source(name, text))
    builder = ProgramModel(ground_clauses(program.clauses), program.statements)
    return builder.build(name)


def goal_name(goal: GroundGoal) -> str:
    """Format a ground atom as ProbLog does."""
    functor, constants = goal
    return f"{functor}({','.join(constants)})" if constants else functor


@dataclass
class ProgramModel:
    """The rules of a program, made component by component."""

    clauses: Sequence[GroundClause]
    statements: Sequence[Statement]
    rules: list[Rule] = field(default_factory=list)
    types: dict[str, tuple[str, ...]] = field(default_factory=dict)
    predicates: dict[str, Predicate] = field(default_factory=dict)
    value: dict[GroundGoal, Value] = field(default_factory=dict)
    choices: list[list[Value]] = field(default_factory=list)  # the literal of each head
    num_hidden: int = 0
    num_unrolled: int = 0

    def build(self, name: str) -> Model:
        bodies = self.bodies()
        self.declare(bodies)
        for component in order_components(list(bodies), bodies.parents):
            check_time("reading the program")
            self.add_component(component, bodies)
        queries = self.add_statements()
        return Model(
            types=self.types,
            predicates=self.predicates,
            rules=tuple(self.rules),
            queries=tuple(queries),
            name=name,
        )

    def declare(self, bodies: Mapping[GroundGoal, Sequence[object]]) -> None:
        """Declare the atoms that may hold, and those that are queried or observed."""
        stated = [ground_goal(s.goal) for s in self.statements]
        for goal in dict.fromkeys([*bodies, *filter(None, stated)]):
            self.predicates[goal_name(goal)] = Predicate(goal_name(goal), (), variable=True)

    def bodies(self) -> BodyIndex:
        """Return the clauses of each atom: (clause, head)."""
        found: dict[GroundGoal, list[tuple[int, int]]] = {}
        for number, clause in enumerate(self.clauses):
            self.choices.append([])
            for place, (probability, goal) in enumerate(clause.heads):
                if probability != 0.0:
                    found.setdefault(goal, []).append((number, place))
                else:
                    found.setdefault(goal, [])
        return BodyIndex(found, self.clauses)

    def choice(self, number: int, place: int) -> Value:
        """Return the literal of a head's choice; the variable is made at its first use."""
        clause = self.clauses[number]
        if not self.choices[number]:
            probabilities = [1.0 if p is None else p for p, _ in clause.heads]
            self.choices[number] = self.make_choice(probabilities)
        return self.choices[number][place]

    def make_choice(self, probabilities: Sequence[float]) -> list[Value]:
        rest = 1.0 - math.fsum(probabilities)
        if len(probabilities) == 1:
            if rest <= 0:
                return [True]
            atom = self.hide("choice")
            self.weigh(atom, probabilities[0])
            return [atom]
        name = f"_choice_{self.num_hidden}"
        self.num_hidden += 1
        states = [str(place + 1) for place in range(len(probabilities))]
        weights = list(probabilities)
        if rest > 1e-12:
            states.append("none")
            weights.append(rest)
        self.types[name] = tuple(states)
        self.predicates[name] = Predicate(name, (name,), block=(0,), variable=True)
        atoms = [Atom(name, (Constant(state),)) for state in states]
        for atom, weight in zip(atoms, weights, strict=True):
            if weight > 0:
                self.add_rule(atom, math.log(weight))
            else:
                self.add_rule(Not(atom), None)
        return list(atoms[: len(probabilities)])

    def weigh(self, atom: Atom, probability: float) -> None:
        self.add_rule(atom, math.log(probability))
        self.add_rule(Not(atom), math.log1p(-probability))

    def hide(self, kind: str) -> Atom:
        """Return a new atom that is not shown."""
        name = f"_{kind}_{self.num_hidden}"
        self.num_hidden += 1
        self.predicates[name] = Predicate(name, (), variable=True)
        return Atom(name, ())

    def add_rule(
        self, formula: Formula, weight: float | None, span: Span | None = None, text: str = ""
    ) -> None:
        text = text or print_formula(formula)
        self.rules.append(
            Rule(formula, (), (), weight, weight is None, text, fixed=True, span=span)
        )

    def add_clause(self, literals: Iterable[Formula]) -> None:
        parts = tuple(dict.fromkeys(literals))
        self.add_rule(parts[0] if len(parts) == 1 else Or(parts), None)

    # Components of atoms that depend on each other.

    def add_component(self, component: Sequence[GroundGoal], bodies: BodyIndex) -> None:
        """Define the atoms of a component by their clauses."""
        inside = set(component)
        if not self.is_cyclic(component, inside, bodies):
            self.add_atom(component[0], bodies)
            return
        broken = break_cycles(component, bodies.parents)
        order = sort_others(component, broken, bodies.parents)
        size = (len(broken) + 1) * sum(len(bodies[goal]) for goal in component)
        self.num_unrolled += size
        if self.num_unrolled > MAX_UNROLLED:
            raise TooLarge(
                f"cycles through {len(component):,} atoms such as {goal_name(component[0])} "
                f"unroll to {self.num_unrolled:,} clauses, more than {MAX_UNROLLED:,}",
                code="too-large",
                hint="query fewer atoms of the cycle, or remove clauses",
            )
        current: dict[GroundGoal, Value] = dict.fromkeys(broken, False)
        for _ in range(len(broken)):
            copies = dict(current)
            for goal in order:
                copies[goal] = self.define(self.list_bodies(goal, bodies, copies))
            after = {goal: self.define(self.list_bodies(goal, bodies, copies)) for goal in broken}
            if after == current:
                break
            current = after
        for goal in broken:
            self.show(goal, current[goal])
        for goal in order:
            self.define_shown(goal, self.list_bodies(goal, bodies, {}))

    def add_atom(self, goal: GroundGoal, bodies: BodyIndex) -> None:
        """Define an atom that does not depend on itself; a probabilistic fact is its own choice."""
        own = [self.clauses[number] for number, _ in bodies[goal]]
        if len(own) == 1 and len(own[0].heads) == 1 and not own[0].body:
            probability = own[0].heads[0][0]
            if probability is not None and probability < 1:
                atom = Atom(goal_name(goal), ())
                self.weigh(atom, probability)
                self.value[goal] = atom
                return
        self.define_shown(goal, self.list_bodies(goal, bodies, {}))

    def is_cyclic(
        self,
        component: Sequence[GroundGoal],
        inside: set[GroundGoal],
        bodies: BodyIndex,
    ) -> bool:
        """Return whether atoms depend on themselves; raise if through a negation."""
        cyclic = len(component) > 1
        for goal in component:
            for number, _ in bodies[goal]:
                for other, positive in self.clauses[number].body:
                    if other in inside and not positive:
                        raise LapisError(
                            f"{goal_name(goal)} depends on the negation of {goal_name(other)}, "
                            "which depends on it: the program has no unique least model",
                            code="problog-negative-cycle",
                            span=self.clauses[number].span,
                            hint="remove the negation from the cycle",
                        )
                    cyclic = cyclic or other in inside
        return cyclic

    def list_bodies(
        self,
        goal: GroundGoal,
        bodies: BodyIndex,
        copies: Mapping[GroundGoal, Value],
    ) -> list[Body]:
        """Return the bodies of an atom that may hold, with certain literals left out."""
        found: list[Body] = []
        for number, place in bodies[goal]:
            body: Body = []
            for other, positive in self.clauses[number].body:
                value = copies.get(other, self.value.get(other, False))
                body.append(value if positive else negate_value(value))
            if False not in body:
                body = [self.choice(number, place), *body]
                found.append([literal for literal in body if literal is not True])
        return found

    def define(self, bodies: list[Body]) -> Value:
        """Return a literal that holds exactly if one of the bodies does."""
        if not bodies:
            return False
        if any(not body for body in bodies):
            return True
        if len(bodies) == 1 and len(bodies[0]) == 1:
            return bodies[0][0]
        head = self.hide("copy")
        self.equate(head, bodies)
        return head

    def define_shown(self, goal: GroundGoal, bodies: list[Body]) -> None:
        """Define an atom of the program itself."""
        if bodies and all(bodies):
            atom = Atom(goal_name(goal), ())
            self.equate(atom, bodies)
            self.value[goal] = atom
        else:
            self.show(goal, bool(bodies))

    def show(self, goal: GroundGoal, value: Value) -> None:
        """Make an atom of the program equal to a literal."""
        atom = Atom(goal_name(goal), ())
        self.value[goal] = value
        if isinstance(value, bool):
            self.add_rule(atom if value else Not(atom), None)
        else:
            self.equate(atom, [[value]])

    def equate(self, head: Formula, bodies: Sequence[Sequence[Value]]) -> None:
        """Add the clauses of head ⇔ body ∨ … ∨ body."""
        sides: list[Formula] = []
        for body in bodies:
            literals = [literal for literal in body if not isinstance(literal, bool)]
            side = literals[0]
            if len(literals) > 1:
                side = head if len(bodies) == 1 else self.hide("body")
                self.add_clause([side, *(flip_literal(literal) for literal in literals)])
                for literal in literals:
                    self.add_clause([flip_literal(side), literal])
            sides.append(side)
        if sides == [head]:
            return
        for side in sides:
            self.add_clause([flip_literal(side), head])
        self.add_clause([flip_literal(head), *sides])

    def add_statements(self) -> list[str]:
        """Add the evidence as hard rules; return the queried atoms."""
        queries: dict[str, None] = {}
        for statement in self.statements:
            goal = ground_goal(statement.goal)
            if statement.truth is None:
                known = [goal] if goal is not None else self.matching(statement.goal)
                queries |= dict.fromkeys(map(goal_name, known))
            elif goal is None:
                raise LapisError(
                    "evidence must be a ground atom", code="problog-unbound", span=statement.span
                )
            else:
                atom = Atom(goal_name(goal), ())
                formula = atom if statement.truth else Not(atom)
                self.add_rule(formula, None, statement.span)
            if goal is not None and goal not in self.value:
                self.show(goal, False)
        if any(statement.truth is None for statement in self.statements):
            return list(queries)
        return [name for name in self.predicates if not name.startswith("_")]

    def matching(self, goal: Goal) -> list[GroundGoal]:
        """Return the atoms that may hold and match a goal with variables."""
        same = (g for g in self.value if g[0] == goal.functor and len(g[1]) == len(goal.terms))
        return [g for g in same if match_terms(goal.terms, g[1], {}) is not None]


class BodyIndex(dict[GroundGoal, list[tuple[int, int]]]):
    """The clauses of each atom, and the atoms that each atom depends on."""

    def __init__(
        self, found: Mapping[GroundGoal, list[tuple[int, int]]], clauses: Sequence[GroundClause]
    ) -> None:
        super().__init__(found)
        self.clauses = clauses

    def parents(self, goal: GroundGoal) -> list[GroundGoal]:
        """Return the atoms in the bodies of an atom."""
        return list(
            dict.fromkeys(
                other
                for number, _ in self[goal]
                for other, _ in self.clauses[number].body
                if other in self
            )
        )


def ground_goal(goal: Goal) -> GroundGoal | None:
    """Return a goal as a ground atom, None if it has variables."""
    if any(term.is_variable for term in goal.terms):
        return None
    return goal.functor, tuple(term.text for term in goal.terms)


def negate_value(value: Value) -> Value:
    return not value if isinstance(value, bool) else flip_literal(value)


def flip_literal(literal: Formula) -> Formula:
    return literal.body if isinstance(literal, Not) else Not(literal)

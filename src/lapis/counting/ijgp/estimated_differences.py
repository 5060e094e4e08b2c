"""Estimate by IJGP(i) how counts change with one ground atom: d(g) = n(g = 1) − n(g = 0).

**Substituted** (`DifferenceEstimator`). Only groundings in which some literal is g can change:

    d(g) = − Σ_{∅ ≠ U} (1 − 2p)^{|U|+1} Π_{i∈U} s_i · C_U(g)

is the identity of `counting.differences`. U runs over the sets of literals of the cube (the negated
clause) that are g, s_i = ±1 is the sign of a literal, p the truth of g, and C_U(g) counts the
solutions of the remaining literals in the current world. The arguments of g stay variables of the
network, and the join graph keeps them in one cluster that does not count them towards i. So one
propagation gives C_U for all atoms: the belief of that cluster without the literals in U (a cavity
marginal). The belief is a product of small tables (`contraction`), evaluated at the given atoms.

A block's values exclude each other. There d is what a value adds to its block left empty: every
other literal of the predicate loses its matches in the block, which adds terms in which a literal
shares the block's key with g.

A clause with a quantified part over the predicate has no such form. It is counted in both worlds,
atom by atom.

**Subtracted** (`SubtractedDifferences`, `estimate_flip`). Equation 5 of Sarkhel, Venugopal, Pham,
Singla and Gogate 2016, "Scalable Training of Markov Logic Networks using Approximate Counting":

    P(g = s | rest) ∝ exp Σ_j w_j M_j(rest, g = s),      d(g) = M(g = 1) − M(g = 0)

M_j is the count of formula j that IJGP(i) estimates on the network of the whole formula. The
propagation of the flipped world starts from the messages of the current one; the residual schedule
(`propagation`) recomputes only the messages that change. Messages that have not converged, or that
have several fixed points, depend on the worlds visited before.

Substitution estimates only the groundings that can change, and often breaks the formula's cycles:
for transitivity it is exact at i = 1, where the error of subtraction is as large as d. For a square
of four literals at i = 1 subtraction is more accurate (`benchmarks/ijgp_differences.py`). Both are
exact if i exceeds the treewidth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.counting.complete_world import add_derived
from lapis.counting.ijgp.contraction import sum_all
from lapis.counting.ijgp.counter import (
    IjgpCounter,
    new_cube_counter,
    num_weights,
    refuse_numbers,
    set_atom,
)
from lapis.counting.ijgp.encoding import encode_cube, negate_clause
from lapis.counting.ijgp.join_graph import JoinGraph, build_join_graph
from lapis.counting.ijgp.message_table import MessageTable, pack_assignments
from lapis.counting.ijgp.propagation import IjgpSettings, Propagation
from lapis.counting.totals import build_complete_world
from lapis.errors import LapisError, TooLarge
from lapis.language.model import Predicate
from lapis.language.syntax import Constant, Variable
from lapis.logic.clauses import (
    Clause,
    Condition,
    Cube,
    Feature,
    Literal,
    NormalForm,
    SimpleTerm,
    TypedVariable,
)
from lapis.problem.problem import Problem
from lapis.relational.interpretation import Interpretation, build_interpretation

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

TrueTuples = Mapping[str, np.ndarray]  # for each predicate int32[num_true, arity]

CHUNK = 2_000_000  # atoms × constants of plus variables evaluated at once
MAX_TERMS = 1000  # of a clause
FLIPPED, HELD, IN_BLOCK = "flipped", "held", "in block"  # the role of a literal in a term


class CubeTerm(NamedTuple):
    """One C_U with its sign: the remaining cube over the arguments of g and the other variables."""

    cube: Cube
    variables: tuple[TypedVariable, ...]
    plus: tuple[str, ...]  # of the rule; those bound by g have the name of its argument
    sign: int
    is_even: bool  # |U| is even, so that the sign depends on the truth of g


class Share(NamedTuple):
    """C_U as a function: scale · Π pieces."""

    scale: float
    pieces: tuple[MessageTable, ...]
    names: tuple[str, ...]  # of the network's variables, which the pieces' scopes number


class SparseEntries(NamedTuple):
    row: np.ndarray  # int64[num_entries]
    weight: np.ndarray  # int64[num_entries]
    value: np.ndarray  # float64[num_entries], not zero


class DifferenceEstimator:
    """Differences by IJGP(ibound) with the atom substituted, in one world after another.

    Join graphs are built once. A term is propagated again only if a predicate that it mentions has
    changed: the arrays of true tuples are compared by identity.
    """

    def __init__(self, problem: Problem, settings: IjgpSettings) -> None:
        refuse_hard_rules(problem)
        refuse_numbers(problem.normal_form.features, problem.model)
        self.problem, self.settings = problem, settings
        features = problem.normal_form.features
        sizes = (num_weights(feature, problem.domains) for feature in features)
        self._offset = list(accumulate(sizes, initial=0))  # of each feature's weights
        self._terms: dict[str, list[TermEstimate]] = {}

    def differences(
        self, predicate: str, rows: np.ndarray, truth: np.ndarray, world: TrueTuples
    ) -> csr_matrix:
        """Estimate d of atoms int32[num_rows, arity]: float64[num_rows, num_weights], sparse.

        `truth` bool[num_rows] is their value in the world. For a predicate with blocks, d is what
        each value adds to its block left empty; if a quantified part depends on the predicate, the
        block must be empty in `world`.
        """
        from scipy.sparse import csr_matrix

        target = self.problem.model.predicates[predicate]
        extensions = build_extensions(self.problem, world)
        if predicate not in self._terms:
            self._terms[predicate] = list(self.build_terms(target, extensions))
        parts = [SparseEntries(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        for estimate in self._terms[predicate]:
            share = estimate.share(world, extensions)
            if share is not None:
                sign = np.full(len(rows), float(estimate.term.sign))
                if estimate.term.is_even and not target.block:
                    sign[truth] *= -1.0
                for found in evaluate_share(share, estimate.term, rows, extensions):
                    weight = estimate.offset + found.weight
                    value = sign[found.row] * found.value
                    parts.append(SparseEntries(found.row, weight, value))
        parts += self._count_both_worlds(predicate, rows, world)
        row, weight, value = (np.concatenate(column) for column in zip(*parts, strict=True))
        summed = csr_matrix((value, (row, weight)), shape=(len(rows), self._offset[-1]))
        summed.eliminate_zeros()
        summed.sort_indices()
        return summed

    def build_terms(self, target: Predicate, world: Interpretation) -> Iterator[TermEstimate]:
        """Build the terms of the clauses without a quantified part over the predicate."""
        dependent = find_dependent_predicates(self.problem.normal_form, target.name)
        for feature, offset in zip(self.problem.normal_form.features, self._offset, strict=False):
            for clause in feature.clauses:
                if not mentions_any(clause, dependent):
                    for term in difference_terms(clause, feature, target):
                        used = base_predicates(term, self.problem)
                        yield TermEstimate(term, offset, used, world, self.settings)

    def _count_both_worlds(
        self, predicate: str, rows: np.ndarray, world: TrueTuples
    ) -> Iterator[SparseEntries]:
        """Subtract the counts of the clauses with a quantified part, with the atom true and false.

        A clause counts the groundings in which it is false, so d = false(g = 0) − false(g = 1).
        """
        problem, settings = self.problem, self.settings
        dependent = find_dependent_predicates(problem.normal_form, predicate)
        if not dependent:
            return
        base = build_interpretation(problem.model.predicates, problem.domains, world)
        for number, row in enumerate(rows):
            without, with_atom = (
                add_derived(set_atom(base, predicate, row, value), problem.normal_form.definitions)
                for value in (False, True)
            )
            for feature, offset in zip(problem.normal_form.features, self._offset, strict=False):
                for clause in feature.clauses:
                    if mentions_any(clause, dependent):
                        before = new_cube_counter(feature, clause, without, settings)
                        after = new_cube_counter(feature, clause, with_atom, settings)
                        change = before.solutions_by_plus() - after.solutions_by_plus()
                        weight = np.flatnonzero(change)
                        at = np.full(len(weight), number)
                        yield SparseEntries(at, offset + weight, change.ravel()[weight])


class TermEstimate:
    """C_U of one term, kept until a predicate that it mentions changes."""

    def __init__(
        self,
        term: CubeTerm,
        offset: int,
        used: Sequence[str],
        world: Interpretation,
        settings: IjgpSettings,
    ) -> None:
        self.term = term
        self.offset = offset  # of the rule's weights
        self._used = used
        self._network = encode_cube(term.cube, term.variables, world)
        names = self._network.names
        # The arguments of g and the variables that select the weight.
        self._scope = tuple(
            number for number, name in enumerate(names) if name.startswith("@") or name in term.plus
        )
        self.graph = build_join_graph(
            self._network.scopes(), settings.ibound, len(names), self._scope
        )
        self._settings = settings
        self._seen: list[np.ndarray] | None = None
        self._share: Share | None = None

    def share(self, world: TrueTuples, extensions: Interpretation) -> Share | None:
        """Return C_U by the arguments of g and the rule's plus variables; None if it is zero."""
        now = [world[name] for name in self._used]
        if self._seen is None or any(a is not b for a, b in zip(now, self._seen, strict=True)):
            self._share, self._seen = self._propagate(extensions), now
        return self._share

    def _propagate(self, world: Interpretation) -> Share | None:
        """Return C_U as a function of the atom and the weight; None if it is 0."""
        network, term, scope = self._network, self.term, self._scope
        if 0 in network.sizes or not network.multiplicity:
            return None
        tables = network.tables(world)
        if any(not table.scope and not table.values[0] for table in tables):
            return None
        propagation = Propagation(self.graph, network.sizes, tables, self._settings, scope)
        propagation.run()
        log_count = propagation.log_count()
        if not self.graph.is_tree:
            log_count = min(log_count, propagation.log_upper_bound())
        if log_count == -math.inf:
            return None
        # Every output has a value in each atom, also one that no table mentions.
        absent = math.prod(
            world.size(type_name)
            for name, type_name in term.variables
            if (name.startswith("@") or name in term.plus) and name not in network.names
        )
        count = math.exp(log_count) * network.multiplicity / absent
        if not scope:
            return Share(count, (), network.names)
        pieces = propagation.belief(scope)
        weight = sum_all(pieces, scope, network.sizes)
        return Share(count / weight, tuple(pieces), network.names) if weight > 0.0 else None


def build_extensions(problem: Problem, world: TrueTuples) -> Interpretation:
    """Extend the world by its derived predicates."""
    return build_complete_world(problem.normal_form, problem.model, problem.domains, world)


def base_predicates(term: CubeTerm, problem: Problem) -> list[str]:
    """List the predicates that the term depends on, directly or through definitions."""
    used = {literal.predicate for literal in term.cube.literals}
    for definition in reversed(problem.normal_form.definitions):
        if definition.predicate.name in used:
            used |= {literal.predicate for cube in definition.cubes for literal in cube.literals}
    return [name for name in problem.model.predicates if name in used]


def find_dependent_predicates(normal_form: NormalForm, predicate: str) -> set[str]:
    """Find the derived predicates whose truth may change with an atom of the predicate."""
    found: set[str] = set()
    for definition in normal_form.definitions:
        used = {literal.predicate for cube in definition.cubes for literal in cube.literals}
        if predicate in used or used & found:
            found.add(definition.predicate.name)
    return found


def mentions_any(clause: Clause, predicates: set[str]) -> bool:
    """Return whether a literal of the clause has one of the predicates."""
    return any(literal.predicate in predicates for literal in clause.literals)


def depends_on_quantifiers(problem: Problem, predicate: str) -> bool:
    """Return whether a quantified part of some formula may change with the predicate's atoms."""
    return bool(find_dependent_predicates(problem.normal_form, predicate))


def are_differences_exact(problem: Problem, predicate: str, settings: IjgpSettings) -> bool:
    """Return whether i exceeds the treewidth of every network that d is estimated on."""
    if depends_on_quantifiers(problem, predicate):
        return False
    world = build_extensions(
        problem, {name: known.true[:0] for name, known in problem.evidence.items()}
    )
    graphs: Iterator[JoinGraph]
    if settings.differences == "subtracted":
        graphs = (
            new_cube_counter(feature, clause, world, settings).graph
            for feature in problem.normal_form.features
            for clause in feature.clauses
        )
    else:
        target = problem.model.predicates[predicate]
        terms = DifferenceEstimator(problem, settings).build_terms(target, world)
        graphs = (term.graph for term in terms)
    return all(graph.is_tree for graph in graphs)


def refuse_hard_rules(problem: Problem) -> None:
    """Raise `hard-ijgp` if the model has a hard rule."""
    for rule in problem.model.rules:
        if rule.hard:
            raise LapisError(
                "hard rules need exact counts: an estimate cannot tell whether one is violated",
                code="hard-ijgp",
                span=rule.span,
                hint="count exactly, or give the rule a large weight",
            )


def difference_terms(clause: Clause, feature: Feature, target: Predicate) -> Iterator[CubeTerm]:
    """List the terms of d(g) for one clause."""
    cube = negate_clause(clause)
    own = [n for n, literal in enumerate(cube.literals) if literal.predicate == target.name]
    roles = (FLIPPED, HELD, IN_BLOCK) if target.block else (FLIPPED, HELD)
    if len(roles) ** len(own) > MAX_TERMS:
        raise TooLarge(
            f"a clause mentions {target.name!r} {len(own)} times, too often for estimated counts",
            code="too-many-literals",
            hint="count exactly, or split the formula",
        )
    for chosen in product(roles, repeat=len(own)):
        if FLIPPED in chosen:
            yield _build_term(cube, dict(zip(own, chosen, strict=True)), feature, target)


def _build_term(
    cube: Cube, roles: Mapping[int, str], feature: Feature, target: Predicate
) -> CubeTerm:
    """Remove the flipped literals and add the equalities that they and blocks require."""
    binding: dict[str, SimpleTerm] = {}
    equalities: list[Condition] = []
    literals: list[Literal] = []
    sign = -1
    positions = [Variable(f"@{number}") for number in range(target.arity)]
    for number, literal in enumerate(cube.literals):
        role = roles.get(number, HELD)
        if role == FLIPPED:
            shared: Sequence[int] = range(target.arity)
            sign *= 1 if literal.positive else -1
        elif role == IN_BLOCK:
            # L − L·1[in the block], and 1 − L likewise with the other sign.
            shared = [place for place in range(target.arity) if place not in target.block]
            sign *= -1 if literal.positive else 1
            literals.append(literal._replace(positive=True))
        else:
            shared = ()
            literals.append(literal)
        for place in shared:
            term = literal.terms[place]
            if isinstance(term, Variable) and term.name not in binding:
                binding[term.name] = positions[place]
            else:
                known = term if isinstance(term, Constant) else binding[term.name]
                # Conditions of a negated clause must be false.
                equalities.append(Condition("!=", positions[place], known))

    def name(variable: str) -> str:
        bound = binding.get(variable)
        return bound.name if bound is not None else variable

    rest = Cube(tuple(literals), cube.conditions).substitute(binding)
    arguments = zip((each.name for each in positions), target.types, strict=True)
    return CubeTerm(
        rest._replace(conditions=rest.conditions + tuple(equalities)),
        (*arguments, *(each for each in feature.variables if each[0] not in binding)),
        tuple(map(name, feature.plus)),
        sign,
        sum(role == FLIPPED for role in roles.values()) % 2 == 0,
    )


def evaluate_share(
    share: Share, term: CubeTerm, rows: np.ndarray, world: Interpretation
) -> Iterator[SparseEntries]:
    """Evaluate C_U at atoms int32[n, arity], for each weight of the rule, without zeros."""
    types = dict(term.variables)
    free = [name for name in dict.fromkeys(term.plus) if not name.startswith("@")]
    sizes = [world.size(types[name]) for name in free]
    num_choices = math.prod(sizes)
    choices = np.indices(sizes).reshape(len(sizes), num_choices)
    step = max(1, CHUNK // max(1, num_choices))
    for begin in range(0, len(rows), step):
        part = rows[begin : begin + step]
        columns = {
            f"@{place}": np.repeat(part[:, place].astype(np.int64), num_choices)
            for place in range(rows.shape[1])
        }
        for number, name in enumerate(free):
            columns[name] = np.tile(choices[number], len(part))
        length = len(part) * num_choices
        value = np.full(length, share.scale)
        for piece in share.pieces:
            own = [columns[share.names[variable]] for variable in piece.scope]
            value *= piece.lookup(pack_assignments(own, piece.shape, length))
        kept = np.flatnonzero(value)
        weight = np.zeros(len(kept), np.int64)
        for name in term.plus:
            weight = weight * world.size(types[name]) + columns[name][kept]
        yield SparseEntries(begin + kept // max(1, num_choices), weight, value[kept])


class EstimatedFlip(NamedTuple):
    """The difference of one atom, and the counter of the world in which it is flipped."""

    weight_id: np.ndarray  # int64[k]
    value: np.ndarray  # float64[k]
    flipped: IjgpCounter


def estimate_flip(
    counter: IjgpCounter, predicate: str, row: tuple[int, ...], truth: bool
) -> EstimatedFlip:
    """Estimate M(g = 1) − M(g = 0) for one ground atom g.

    `row` are the codes of the atom's arguments and `truth` its value in the counter's world. The
    counter is not changed; that of the flipped world starts from its messages.
    """
    flipped = counter.branch()
    flipped.assign(predicate, row, not truth)
    weight, change = flipped.change_since(counter)
    return EstimatedFlip(weight, -change if truth else change, flipped)


def new_counter(problem: Problem, settings: IjgpSettings) -> IjgpCounter:
    """Create a counter of the problem's formulas; refuse hard rules."""
    refuse_hard_rules(problem)
    return IjgpCounter(problem.normal_form, problem.model, problem.domains, settings)


class SubtractedDifferences:
    """Differences by IJGP(ibound), each from two estimated counts."""

    def __init__(self, problem: Problem, settings: IjgpSettings) -> None:
        self.problem = problem
        self._counter = new_counter(problem, settings)

    def differences(
        self, predicate: str, rows: np.ndarray, truth: np.ndarray, world: TrueTuples
    ) -> csr_matrix:
        """Estimate d of atoms int32[num_rows, arity]: float64[num_rows, num_weights], sparse.

        `truth` bool[num_rows] is their value in the world. For a predicate with blocks, d is what
        each value adds to its block left empty.
        """
        from scipy.sparse import csr_matrix

        self._counter.count(world)
        block = self.problem.model.predicates[predicate].block
        start, weight, value = [0], [np.empty(0, np.int64)], [np.empty(0)]
        for row, is_true in zip(map(tuple, rows.tolist()), truth.tolist(), strict=True):
            counter, holds = self._counter, is_true
            if block:
                counter, holds = self._empty_block(predicate, row, world[predicate]), False
            found = estimate_flip(counter, predicate, row, holds)
            weight.append(found.weight_id)
            value.append(found.value)
            start.append(start[-1] + len(found.weight_id))
        features, domains = self.problem.normal_form.features, self.problem.domains
        shape = (len(rows), sum(num_weights(each, domains) for each in features))
        entries = np.concatenate(value), np.concatenate(weight), np.array(start)
        return csr_matrix(entries, shape=shape)

    def _empty_block(self, predicate: str, row: tuple[int, ...], true: np.ndarray) -> IjgpCounter:
        """Return the counter of the world without the true atoms of an atom's block."""
        key = [
            n for n in range(len(row)) if n not in self.problem.model.predicates[predicate].block
        ]
        counter = self._counter.branch()
        for own in true[(true[:, key] == np.array(row)[key]).all(axis=1)].tolist():
            counter.assign(predicate, own, False)
        return counter

"""Differences of many atoms at once from IJGP(i): one propagation a clause, not one an atom.

    d(g) = − Σ_{∅ ≠ U} (1 − 2p)^{|U|+1} Π_{i∈U} s_i · C_U(g)

is the identity of `counting.differences`: U runs over the literals of the cube (the negated
clause) that are g, s_i = ±1 is their sign, p the truth of g, and C_U(g) counts the solutions of the
remaining literals in the world at hand. g's arguments are left as variables of the network,
the output of the propagation, instead of being substituted one atom after the other. The join
graph keeps them in one cluster and does not count them towards i, so what arrives there is
what IJGP(i) finds with the arguments given, for all atoms in one go: the belief of that cluster
without the table of the literal itself, a cavity in the words of message passing. The belief comes
as a product of small tables (`contraction`), which is looked up at the atoms that are asked for.

The values of a block exclude each other. There the question is what a value adds to its block
left empty: every other literal of the predicate loses its matches in the block, which adds terms
in which a held literal shares the block's key with g.

A formula with a quantified part over the predicate has no such form; its atoms are estimated one
by one (`ijgp_delta`).

The change of every estimated count when one ground atom becomes true.

Subtracting two estimates of whole clauses would drown a small difference in the error of two large
numbers. Instead the clause is *substituted*: only groundings in which some literal is the atom g
can change. Let U be the set of literals that are g in a grounding. A cube with U ≠ ∅ is true only
for the value of g that all of U ask for, so

    n(g=1) − n(g=0) = Σ_{U negative in the cube} C_U − Σ_{U positive in the cube} C_U,

where C_U counts the solutions of the cube without U, with g's arguments substituted, in which no
other literal is g. That last condition is a change of one entry in the tables of the remaining
literals of the predicate: both R and 1 − R become 0 at g. Each C_U is one IJGP count of a smaller
network; sets with both signs contribute nothing.

A clause with a quantified part over the predicate has no such form: it is estimated in both
worlds.

Differences of estimated counts: equation 5 of Sarkhel et al. 2016 as the paper has it.

    P(g = s | rest) ∝ exp Σ_j w_j M_j(rest, g = s),      d(g) = M(g = 1) − M(g = 0)

M_j is the count of a formula as IJGP(i) estimates it on the constraint network of the whole
formula. A counter holds the messages of the world at hand. M in the world in which g is flipped
starts from these messages: the networks of two such worlds differ in a few entries, and the
residual schedule of `propagation` recomputes only the messages that change. If g does flip, the
flipped world's messages are those that the next atom starts from.

`differences` substitutes the atom into the formula instead, which estimates only the groundings
that can change, and often breaks the formula's cycles. Here the errors of two estimates of all
groundings enter d, as far as they do not cancel. `benchmarks/ijgp_differences.py` compares: for
transitivity substitution is exact at i = 1, and subtraction is wrong by as much as d; for a square
of four literals at i = 1 subtraction is the better one. Both are exact where i exceeds the
treewidth.

A block's values exclude each other: d is what a value adds to its block left empty.

Messages that have not converged, or that have several fixed points, depend on the worlds on the
way. `settle` of a world by counts (`inference.sampling.counted_world`) starts from messages of the
world alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.counting.complete_world import extend
from lapis.counting.ijgp.contraction import sum_all
from lapis.counting.ijgp.counter import (
    CubeCounter,
    IjgpCounter,
    new_cube_counter,
    num_weights,
    plus_shape,
    set_atom,
)
from lapis.counting.ijgp.encoding import constant_code, encode_cube, negate_clause
from lapis.counting.ijgp.join_graph import build_join_graph
from lapis.counting.ijgp.propagation import IjgpSettings, Propagation
from lapis.counting.ijgp.table import MessageTable, pack_codes
from lapis.counting.totals import build_complete_world, number_weights
from lapis.data.database import Domain
from lapis.errors import LapisError, TooLarge
from lapis.language.model import Model, Predicate
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
if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


World = Mapping[str, np.ndarray]  # for each predicate int32[num_true, arity]

CHUNK = 2_000_000  # atoms × constants of plus variables looked up at once
MAX_TERMS = 1000  # of a clause
FLIPPED, HELD, IN_BLOCK = "flipped", "held", "in block"  # what a literal is in a term


class CubeTerm(NamedTuple):
    """One C_U with its sign: the cube that remains, over the atom's arguments and the rest."""

    cube: Cube
    variables: tuple[TypedVariable, ...]
    plus: tuple[str, ...]  # of the rule, those that g binds by the name of its argument
    sign: int
    is_even: bool  # |U| is even, so that the sign depends on the truth of g


class Share(NamedTuple):
    """C_U as a function: scale · Π pieces."""

    scale: float
    pieces: tuple[MessageTable, ...]
    names: tuple[str, ...]  # of the network's variables, which the pieces' scopes number


class DifferenceEstimator:
    """Differences by IJGP(ibound) in one world after another.

    Join graphs are built once, and a term is propagated again only where a predicate that it
    mentions has changed: the world's arrays of true tuples are compared by identity.
    """

    def __init__(self, problem: Problem, settings: IjgpSettings) -> None:
        refuse_hard_rules(problem)
        self.problem, self.settings = problem, settings
        self._keys = number_weights(problem)
        self._terms: dict[str, list[TermEstimate]] = {}

    def differences(
        self, predicate: str, rows: np.ndarray, truth: np.ndarray, world: World
    ) -> csr_matrix:
        """float64[num_rows, num_weights] sparse: d of atoms int32[num_rows, arity].

        `truth` bool[num_rows] is their value in the world. For a predicate with blocks, what each
        value adds to its block left empty; where a quantified part depends on it, the world
        must come with the block left empty.
        """
        if depends_on_quantifiers(self.problem, predicate):
            return estimate_each_atom(self.problem, predicate, rows, world, self.settings)
        from scipy.sparse import csr_matrix

        target = self.problem.model.predicates[predicate]
        extensions = complete(self.problem, world)
        if predicate not in self._terms:
            self._terms[predicate] = list(self.build_terms(target, extensions))
        at, weight, value = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
        for estimate in self._terms[predicate]:
            term, share = estimate.term, estimate.share(world, extensions)
            if share is None:
                continue
            sign = np.full(len(rows), float(term.sign))
            if term.is_even and not target.block:
                sign[truth] *= -1.0
            for found in evaluate_share(share, term, rows, extensions):
                at.append(found.row)
                weight.append(estimate.offset + found.weight)
                value.append(sign[found.row] * found.value)
        shape = (len(rows), self._keys.num_weights)
        entries = np.concatenate(value), (np.concatenate(at), np.concatenate(weight))
        summed = csr_matrix(entries, shape=shape)
        summed.eliminate_zeros()
        summed.sort_indices()
        return summed

    def build_terms(self, target: Predicate, world: Interpretation) -> Iterator[TermEstimate]:
        for feature in self.problem.normal_form.features:
            offset = self._keys.of_rule[feature.rule].offset
            for clause in feature.clauses:
                for term in difference_terms(clause, feature, target):
                    used = base_predicates(term, self.problem)
                    yield TermEstimate(term, offset, used, world, self.settings)


class TermEstimate:
    """One term's C_U, kept for as long as the predicates it mentions stay the same."""

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
        self._scope = output_scope(self._network.names, term)
        names = self._network.names
        self._graph = build_join_graph(
            self._network.scopes(), settings.ibound, len(names), self._scope
        )
        self._settings = settings
        self._seen: list[np.ndarray] | None = None
        self._share: Share | None = None

    @property
    def is_exact(self) -> bool:
        return self._graph.is_tree

    def share(self, world: World, extensions: Interpretation) -> Share | None:
        """C_U by the arguments of g and the rule's plus variables; None where it is zero."""
        now = [world[name] for name in self._used]
        if self._seen is None or any(a is not b for a, b in zip(now, self._seen, strict=True)):
            self._share, self._seen = self._propagate(extensions), now
        return self._share

    def _propagate(self, world: Interpretation) -> Share | None:
        network, term, scope = self._network, self.term, self._scope
        if 0 in network.sizes or not network.multiplicity:
            return None
        tables = network.tables(world)
        if any(not table.scope and not table.values[0] for table in tables):
            return None
        propagation = Propagation(self._graph, network.sizes, tables, self._settings, scope)
        propagation.run()
        log_count = propagation.log_count()
        if not self.is_exact:
            log_count = min(log_count, propagation.log_upper_bound())
        if log_count == -math.inf:
            return None
        # Outputs that nothing mentions are asked for by value all the same.
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


def complete(problem: Problem, world: World) -> Interpretation:
    """The world with its derived predicates."""
    return build_complete_world(problem.normal_form, problem.model, problem.domains, world)


def base_predicates(term: CubeTerm, problem: Problem) -> list[str]:
    """Those that the term's literals depend on, directly or through definitions."""
    used = {literal.predicate for literal in term.cube.literals}
    for definition in reversed(problem.normal_form.definitions):
        if definition.predicate.name in used:
            used |= {literal.predicate for cube in definition.cubes for literal in cube.literals}
    return [name for name in problem.model.predicates if name in used]


def depends_on_quantifiers(problem: Problem, predicate: str) -> bool:
    """Whether a quantified part of some formula may change with the predicate's atoms."""
    return bool(find_dependent_predicates(problem.normal_form, predicate))


def propagates_exactly(problem: Problem, predicate: str, settings: IjgpSettings) -> bool:
    """Whether i exceeds the treewidth of every clause, so that the differences are no estimates."""
    if depends_on_quantifiers(problem, predicate):
        return False
    estimator = DifferenceEstimator(problem, settings)
    target = problem.model.predicates[predicate]
    nothing = {name: known.true[:0] for name, known in problem.evidence.items()}
    terms = estimator.build_terms(target, complete(problem, nothing))
    return all(estimate.is_exact for estimate in terms)


def output_scope(names: Sequence[str], term: CubeTerm) -> tuple[int, ...]:
    """The variables of a network that are arguments of g or select the weight."""
    return tuple(n for n, name in enumerate(names) if name.startswith("@") or name in term.plus)


def refuse_hard_rules(problem: Problem) -> None:
    for rule in problem.model.rules:
        if rule.hard:
            raise LapisError(
                "hard rules need exact counts: an estimate cannot tell whether one is broken",
                code="hard-ijgp",
                span=rule.span,
                hint="count exactly, or give the rule a large weight",
            )


def difference_terms(clause: Clause, feature: Feature, target: Predicate) -> Iterator[CubeTerm]:
    """The terms of d(g) for one clause."""
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
    """The cube with flipped literals gone, and what they and blocks demand as equalities."""
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
                # Conditions of a negated clause must come out false.
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


class SparseEntries(NamedTuple):
    row: np.ndarray  # int64[num_entries]
    weight: np.ndarray  # int64[num_entries], among the rule's weights
    value: np.ndarray  # float64[num_entries], not zero


def evaluate_share(
    share: Share, term: CubeTerm, rows: np.ndarray, world: Interpretation
) -> Iterator[SparseEntries]:
    """C_U at the atoms int32[n, arity], for each weight of the rule; zeros left out."""
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
            value *= piece.lookup(pack_codes(own, piece.shape, length))
        kept = np.flatnonzero(value)
        weight = np.zeros(len(kept), np.int64)
        for name in term.plus:
            weight = weight * world.size(types[name]) + columns[name][kept]
        yield SparseEntries(begin + kept // max(1, num_choices), weight, value[kept])


def estimate_each_atom(
    problem: Problem, predicate: str, rows: np.ndarray, world: World, settings: IjgpSettings
) -> csr_matrix:
    from scipy.sparse import csr_matrix

    found = np.zeros((len(rows), len(problem.weight_table)))
    form, model, domains = problem.normal_form, problem.model, problem.domains
    for number, row in enumerate(rows.tolist()):
        found[number] = ijgp_delta(form, model, domains, world, predicate, row, settings)
    return csr_matrix(found)


def ijgp_delta(
    normal_form: NormalForm,
    model: Model,
    domains: Mapping[str, Domain],
    relations: Mapping[str, np.ndarray],
    predicate: str,
    row: Iterable[int],
    settings: IjgpSettings,
) -> np.ndarray:
    """float64[num_weights], n(atom true) − n(atom false) with all other atoms as in the world."""
    atom = np.asarray(tuple(row), np.int32)
    base = build_interpretation(model.predicates, domains, relations)
    without, with_atom = (
        extend(set_atom(base, predicate, atom, value), normal_form.definitions)
        for value in (False, True)
    )
    changing = find_dependent_predicates(normal_form, predicate)
    deltas = []
    for feature in normal_form.features:
        if feature.hard:
            continue
        shape = plus_shape(feature, domains)
        delta = np.zeros(shape)
        for clause in feature.clauses:
            if any(literal.predicate in changing for literal in clause.literals):
                delta += new_cube_counter(feature, clause, without, settings).solutions_by_plus()
                delta -= new_cube_counter(feature, clause, with_atom, settings).solutions_by_plus()
            else:
                _add_substituted(delta, clause, feature, without, predicate, atom, settings)
        deltas.append(delta.ravel())
    return np.concatenate(deltas) if deltas else np.empty(0)


def find_dependent_predicates(normal_form: NormalForm, predicate: str) -> set[str]:
    """The derived predicates whose truth may change with an atom of the predicate."""
    found: set[str] = set()
    for definition in normal_form.definitions:
        used = {literal.predicate for cube in definition.cubes for literal in cube.literals}
        if predicate in used or used & found:
            found.add(definition.predicate.name)
    return found


def _add_substituted(
    delta: np.ndarray,
    clause: Clause,
    feature: Feature,
    world: Interpretation,
    predicate: str,
    atom: np.ndarray,
    settings: IjgpSettings,
) -> None:
    """Add ± C_U for every set U of like-signed literals that can all be the atom."""
    cube = negate_clause(clause)
    candidates = [
        number for number, literal in enumerate(cube.literals) if literal.predicate == predicate
    ]
    domains = [world.domains[each] for each in world.relations[predicate].types]
    for size in range(1, len(candidates) + 1):
        for chosen in combinations(candidates, size):
            signs = {cube.literals[number].positive for number in chosen}
            if len(signs) == 2:
                continue
            binding = _bind_literals((cube.literals[number] for number in chosen), atom, domains)
            if binding is None:
                continue
            left = (each for number, each in enumerate(cube.literals) if number not in chosen)
            rest = Cube(tuple(left), cube.conditions).substitute(binding)
            variables = tuple(each for each in feature.variables if each[0] not in binding)
            plus = tuple(name for name in feature.plus if name not in binding)
            counter = CubeCounter(rest, variables, plus, world, settings)
            counter.exclude(predicate, atom)
            # Plus variables that the atom binds select one slice of the weights.
            types = dict(feature.variables)
            index = tuple(
                world.domains[types[name]].index[binding[name].name]
                if name in binding
                else slice(None)
                for name in feature.plus
            )
            delta[index] += (-1.0 if signs == {True} else 1.0) * counter.solutions_by_plus()


def _bind_literals(
    literals: Iterable[Literal], atom: np.ndarray, domains: list[Domain]
) -> dict[str, Constant] | None:
    """The constants that make all literals the atom, if any do."""
    binding: dict[str, Constant] = {}
    for literal in literals:
        for term, code, domain in zip(literal.terms, atom.tolist(), domains, strict=True):
            if isinstance(term, Constant):
                if constant_code(term, domain) != code:
                    return None
            elif (
                binding.setdefault(term.name, Constant(domain.constants[code])).name
                != (domain.constants[code])
            ):
                return None
    return binding


class EstimatedFlip(NamedTuple):
    """d(g) of one atom, and the counter of the world in which it is flipped."""

    weight_id: np.ndarray  # int64[k]
    value: np.ndarray  # float64[k]
    flipped: IjgpCounter


def estimate_flip(
    counter: IjgpCounter, predicate: str, row: tuple[int, ...], truth: bool
) -> EstimatedFlip:
    """Estimate M(g = 1) − M(g = 0) for one ground atom g.

    Parameters
    ----------
    counter
        Of the world at hand; it stays as it is.
    predicate, row
        The atom: a predicate of the model and the codes of its arguments.
    truth
        Of the atom in the counter's world.

    Returns
    -------
    EstimatedFlip
        The weights whose counts differ, the differences, and a counter of the world in which the
        atom is flipped, whose messages started from those of `counter`.
    """
    flipped = counter.branch()
    flipped.assign(predicate, row, not truth)
    weight, change = flipped.change_since(counter)
    return EstimatedFlip(weight, -change if truth else change, flipped)


def new_counter(problem: Problem, settings: IjgpSettings) -> IjgpCounter:
    """A counter of a problem's formulas; refuses hard rules."""
    refuse_hard_rules(problem)
    return IjgpCounter(problem.normal_form, problem.model, problem.domains, settings)


class SubtractedDifferences:
    """Differences of atoms in one world, each from two estimated counts."""

    def __init__(self, problem: Problem, settings: IjgpSettings) -> None:
        self.problem = problem
        self._counter = new_counter(problem, settings)

    def differences(
        self, predicate: str, rows: np.ndarray, truth: np.ndarray, world: Mapping[str, np.ndarray]
    ) -> csr_matrix:
        """Estimate d of many atoms in one world.

        Parameters
        ----------
        predicate, rows
            The atoms, int32[num_rows, arity].
        truth
            bool[num_rows], the value of each in the world.
        world
            The true tuples of each predicate, int32[num_true, arity].

        Returns
        -------
        csr_matrix
            float64[num_rows, num_weights]. For a predicate with blocks, what each value adds to
            its block left empty.
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
        """The counter of the world without the value that the block of an atom has."""
        key = [
            n for n in range(len(row)) if n not in self.problem.model.predicates[predicate].block
        ]
        counter = self._counter.branch()
        for own in true[(true[:, key] == np.array(row)[key]).all(axis=1)].tolist():
            counter.assign(predicate, own, False)
        return counter


def counts_exactly(problem: Problem, predicate: str, settings: IjgpSettings) -> bool:
    """Whether i exceeds the treewidth of every clause, so that counts are no estimates."""
    if find_dependent_predicates(problem.normal_form, predicate):
        return False
    nothing = {name: known.true[:0] for name, known in problem.evidence.items()}
    world = complete(problem, nothing)
    return all(
        new_cube_counter(feature, clause, world, settings).graph.is_tree
        for feature in problem.normal_form.features
        for clause in feature.clauses
    )

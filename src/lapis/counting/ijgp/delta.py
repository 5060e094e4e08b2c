"""The change of every estimated count when one ground atom becomes true.

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
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np

from lapis.counting.derived import extend
from lapis.counting.ijgp.counter import CubeCounter, new_cube_counter, plus_shape, set_atom
from lapis.counting.ijgp.encoding import constant_code, negate_clause
from lapis.counting.ijgp.propagation import IjgpSettings
from lapis.data.database import Domain
from lapis.language.model import Model
from lapis.language.syntax import Constant
from lapis.logic.clauses import Clause, Cube, Feature, Literal, NormalForm
from lapis.relational.interpretation import Interpretation, interpret


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
    base = interpret(model.predicates, domains, relations)
    without, with_atom = (
        extend(set_atom(base, predicate, atom, value), normal_form.definitions)
        for value in (False, True)
    )
    changing = depending(normal_form, predicate)
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


def depending(normal_form: NormalForm, predicate: str) -> set[str]:
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
            binding = _unify((cube.literals[number] for number in chosen), atom, domains)
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


def _unify(
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

"""The kernels of `self_avoiding`: intervals of log-odds, node by node of a walk."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.runtime.kernels import entry, inner

FREE, FALSE, TRUE = 0, -1, -2  # values of `fixed`; positive: node + 1 on the path
ROUNDING = 2.0**-48  # relative error of a clause's λ, for each of its literals
SUMS = 2.0**-51  # relative error of a sum, for each of its terms
TINY = 1e-300
NEVER_TIGHT = -2.0


class TermGraph(NamedTuple):
    """The terms and their index by atom, and intervals of walks of length 0."""

    field: np.ndarray  # float64[num_atoms]
    slack: np.ndarray  # float64[num_atoms]
    start: np.ndarray  # int64[num_clauses + 1]
    literal: np.ndarray  # int32[num_literals]
    weight: np.ndarray  # float64[num_clauses]
    atom_start: np.ndarray  # int64[num_atoms + 1]
    atom_clause: np.ndarray  # int32[num_literals], clause + 1, negative if negated there
    without: np.ndarray  # float64[num_literals, 2], the atom's interval without the clause


class SelfAvoidingWalk(NamedTuple):
    """The state of a walk: one node for each step, and marks of atoms and clauses."""

    atom: np.ndarray  # int32[max_depth]
    place: np.ndarray  # int64[max_depth], in `atom_clause`
    at: np.ndarray  # int64[max_depth], in `literal`
    num_fixed: np.ndarray  # int64[max_depth], atoms fixed before the node's clause
    sums: np.ndarray  # float64[max_depth, 3], low, high, Σ |terms|
    false: np.ndarray  # float64[max_depth, 4], bounds of q, and of 1 − q
    fixed: np.ndarray  # int64[num_atoms]
    used: np.ndarray  # bool[num_clauses], of the path
    fixed_atom: np.ndarray  # int32[num_atoms], the atoms fixed beside the path


@entry
def bound_roots(graph, walk, roots, budget, tight, low, high):  # type: ignore[no-untyped-def]
    """Tighten intervals of log-odds, each by deeper walks until its budget is spent.

    `low` and `high` of the roots must be valid bounds.
    """
    for root in roots:
        box = _deepen_walk(graph, walk, root, budget, tight, low[root], high[root])
        low[root], high[root] = box


@entry
def bound_chain(graph, walk, order, value, budget, component, box):  # type: ignore[no-untyped-def]
    """Bound Σ log P(value of an atom | those before it) over the atoms in an order.

    box[num_components, 2] gets the lower and upper bounds. Each atom is fixed for the next ones.
    """
    for root in order:
        least, most = _deepen_walk(graph, walk, root, budget, NEVER_TIGHT, -np.inf, np.inf)
        if value[root]:
            worst, best = log_logistic(least), log_logistic(most)
        else:
            worst, best = log_logistic(-most), log_logistic(-least)
        own = component[root]
        # One rounding of each number, the others of the sums.
        box[own, 0] += worst - len(order) * SUMS * abs(worst)
        box[own, 1] += best * (1.0 - len(order) * SUMS)
        walk.fixed[root] = TRUE if value[root] else FALSE


@entry
def score_by_component(graph, value, component, score, total_size):  # type: ignore[no-untyped-def]
    """Add the score of a world by component, without the constant, and Σ |terms|."""
    for atom in range(len(graph.field)):
        if value[atom] and abs(graph.field[atom]) < np.inf:
            score[component[atom]] += graph.field[atom]
            total_size[component[atom]] += abs(graph.field[atom])
    for clause in range(len(graph.weight)):
        weight, own, is_true = graph.weight[clause], 0, False
        for at in range(graph.start[clause], graph.start[clause + 1]):
            atom = abs(graph.literal[at]) - 1
            own = component[atom]
            is_true = is_true or value[atom] == (graph.literal[at] > 0)
        if is_true and weight < np.inf:
            score[own] += weight
            total_size[own] += abs(weight)


@inner
def _deepen_walk(graph, walk, root, budget, tight, least, most):  # type: ignore[no-untyped-def]
    """Bound an atom by longer and longer walks, until it is tight or the budget is spent."""
    before, spent = 1, 0
    for depth in range(1, len(walk.atom) + 1):
        one, two, cost, cut = walk_from(graph, walk, root, depth, budget - spent)
        least, most = max(least, one), min(most, two)
        spent += cost
        growth = max(2.0, cost / before)
        before = cost
        width = logistic(most) - logistic(least)
        if not cut or width <= tight or spent + growth * cost > budget:
            break
    return least, most


@inner
def walk_from(graph, walk, root, depth, budget):  # type: ignore[no-untyped-def]
    """Return an interval from walks of at most `depth` steps, its cost, and whether any was cut."""
    top, visits, cut, num_fixed = 0, 1, False, 0
    _enter_node(graph, walk, 0, root, 0)
    while True:
        atom, place = walk.atom[top], walk.place[top]
        if place == graph.atom_start[atom + 1]:
            least, most = _leave_node(graph, walk, top)
            if top == 0:
                return least, most, visits, cut
            top -= 1
            at = walk.at[top]
            last = graph.start[abs(graph.atom_clause[walk.place[top]])]
            num_fixed = _multiply_false(graph, walk, top, at, least, most, last, num_fixed)
            walk.at[top] = at + 1
            continue
        signed = graph.atom_clause[place]
        clause = abs(signed) - 1
        if walk.at[top] < 0:  # a new clause
            if walk.used[clause] or _is_kept(graph, walk, clause, atom):
                walk.place[top] += 1
                continue
            walk.used[clause] = True
            walk.at[top] = graph.start[clause]
            walk.num_fixed[top] = num_fixed
            walk.false[top, 0], walk.false[top, 1] = 1.0, 1.0
            walk.false[top, 2], walk.false[top, 3] = 0.0, 0.0
        end = graph.start[clause + 1]
        deeper = False
        at = walk.at[top]
        while at < end:
            other = abs(graph.literal[at]) - 1
            if other != atom and walk.fixed[other] == FREE:
                visits += 1
                if top + 1 < depth and visits < budget:
                    walk.at[top] = at
                    top += 1
                    _enter_node(graph, walk, top, other, num_fixed)
                    deeper = True
                    break
                if graph.atom_start[other + 1] - graph.atom_start[other] > 1:
                    cut = True
                least, most = graph.without[at, 0], graph.without[at, 1]
                num_fixed = _multiply_false(graph, walk, top, at, least, most, end, num_fixed)
            at += 1
        if deeper:
            continue
        _add_clause(graph, walk, top, clause, signed > 0)
        while num_fixed > walk.num_fixed[top]:
            num_fixed -= 1
            walk.fixed[walk.fixed_atom[num_fixed]] = FREE
        walk.used[clause] = False
        walk.at[top] = -1
        walk.place[top] = place + 1


@inner
def _enter_node(graph, walk, top, atom, num_fixed):  # type: ignore[no-untyped-def]
    """Start a node of the walk at an atom."""
    walk.atom[top] = atom
    walk.place[top] = graph.atom_start[atom]
    walk.at[top] = -1
    walk.num_fixed[top] = num_fixed
    walk.sums[top, 0], walk.sums[top, 1] = graph.field[atom], graph.field[atom]
    walk.sums[top, 2] = abs(graph.field[atom]) if abs(graph.field[atom]) < np.inf else 0.0
    walk.fixed[atom] = top + 1


@inner
def _leave_node(graph, walk, top):  # type: ignore[no-untyped-def]
    """Return the interval of a node after all of its clauses."""
    atom = walk.atom[top]
    walk.fixed[atom] = FREE
    doubt = graph.slack[atom] + ROUNDING * walk.sums[top, 2]
    least, most = walk.sums[top, 0] - doubt, walk.sums[top, 1] + doubt
    if np.isnan(least):
        least = -np.inf
    if np.isnan(most):
        most = np.inf
    return least, most


@inner
def _is_kept(graph, walk, clause, own):  # type: ignore[no-untyped-def]
    """Return whether a fixed literal, or one of the path, makes the clause true.

    An atom of the path is true in its clauses before the one that was followed, false after it.
    """
    for at in range(graph.start[clause], graph.start[clause + 1]):
        signed = graph.literal[at]
        atom = abs(signed) - 1
        state = walk.fixed[atom]
        if atom == own or state == FREE:
            continue
        if state > 0:
            followed = abs(graph.atom_clause[walk.place[state - 1]]) - 1
            state = TRUE if clause < followed else FALSE
        if (state == TRUE) == (signed > 0):
            return True
    return False


@inner
def _multiply_false(graph, walk, top, at, least, most, end, num_fixed):  # type: ignore[no-untyped-def]
    """Multiply in P(literal false); fix the literal to false if more literals follow."""
    signed = graph.literal[at]
    if signed > 0:
        least, most = -most, -least
    false = walk.false[top]
    # 1 − q·f = (1 − q) + q·(1 − f), without cancellation; possible events do not underflow.
    false[2] += false[1] * logistic(-most)
    false[3] += false[0] * logistic(-least)
    false[0] *= logistic(least)
    false[1] *= logistic(most)
    if most > -np.inf:
        false[1] = max(false[1], TINY)
    if least < np.inf:
        false[3] = max(false[3], TINY)
    for later in range(at + 1, end):
        other = abs(graph.literal[later]) - 1
        if other != walk.atom[top] and walk.fixed[other] == FREE:
            atom = abs(signed) - 1
            walk.fixed[atom] = FALSE if signed > 0 else TRUE
            walk.fixed_atom[num_fixed] = atom
            return num_fixed + 1
    return num_fixed


@inner
def _add_clause(graph, walk, top, clause, positive):  # type: ignore[no-untyped-def]
    """Add a clause's ±λ to the node's interval; λ is monotone in q."""
    weight = graph.weight[clause]
    false = walk.false[top]
    one, two = (
        clause_log_odds(weight, false[0], false[3]),
        clause_log_odds(weight, false[1], false[2]),
    )
    doubt = ROUNDING * (graph.start[clause + 1] - graph.start[clause])
    low, high = min(one, two), max(one, two)
    low -= doubt * (1.0 + abs(low)) if abs(low) < np.inf else 0.0
    high += doubt * (1.0 + abs(high)) if abs(high) < np.inf else 0.0
    if not positive:
        low, high = -high, -low
    sums = walk.sums[top]
    sums[0] += low
    sums[1] += high
    size = max(abs(low), abs(high))
    if size < np.inf:
        sums[2] += size


@inner
def clause_log_odds(weight, false, true):  # type: ignore[no-untyped-def]
    """Return λ = −log(1 − q + q·exp(−w)) for q = P(all other literals are false)."""
    if weight >= 0:
        return -np.log(true + false * np.exp(-weight))
    if false == 0:
        return -np.log(true)
    return weight - np.log(true * np.exp(weight) + false)


@inner
def logistic(odds):  # type: ignore[no-untyped-def]
    """Return 1 / (1 + exp(−odds))."""
    if odds >= 0:
        return 1.0 / (1.0 + np.exp(-odds))
    small = np.exp(odds)
    return small / (1.0 + small)


@inner
def log_logistic(odds):  # type: ignore[no-untyped-def]
    """Return the logarithm of the logistic function."""
    if odds >= 0:
        return -np.log1p(np.exp(-odds))
    return odds - np.log1p(np.exp(odds))


@entry
def bound_without_walks(graph, box):  # type: ignore[no-untyped-def]
    """Fill `without` and box[num_atoms, 2]: an atom's log-odds for any values of the others.

    A clause of weight w adds between 0 and ±w. Sums over all clauses but one are those before it
    plus those after it, so that nothing is subtracted. ∞ − ∞ gives NaN.
    """
    for atom in range(len(graph.field)):
        begin, end = graph.atom_start[atom], graph.atom_start[atom + 1]
        low, high = graph.field[atom] - graph.slack[atom], graph.field[atom] + graph.slack[atom]
        for place in range(begin, end):
            at = _literal_of(graph, atom, graph.atom_clause[place])
            graph.without[at, 0], graph.without[at, 1] = low, high
            one, two = _clause_range(graph, graph.atom_clause[place])
            low, high = low + one, high + two
        box[atom, 0], box[atom, 1] = low, high
        low, high = 0.0, 0.0
        for place in range(end - 1, begin - 1, -1):
            at = _literal_of(graph, atom, graph.atom_clause[place])
            graph.without[at, 0] += low
            graph.without[at, 1] += high
            one, two = _clause_range(graph, graph.atom_clause[place])
            low, high = low + one, high + two


@inner
def _literal_of(graph, atom, signed):  # type: ignore[no-untyped-def]
    """Return the place of an atom's literal in a clause."""
    clause = abs(signed) - 1
    at = graph.start[clause]
    while abs(graph.literal[at]) - 1 != atom:
        at += 1
    return at


@inner
def _clause_range(graph, signed):  # type: ignore[no-untyped-def]
    """Return the least and the most that a clause adds to the log-odds of its atom."""
    weight = graph.weight[abs(signed) - 1]
    if signed < 0:
        weight = -weight
    doubt = ROUNDING * abs(weight) if abs(weight) < np.inf else 0.0
    return min(0.0, weight) - doubt, max(0.0, weight) + doubt

"""The kernels of `belief_propagation`: messages between clauses and variables, as log-odds.

θ_a is the sum of all factors' messages about atom a: its log-odds, or its log weight among the
states of its block. A variable's message to a factor is computed from θ, less the factor's own
message.

The literals of one block in a clause form one group. Positive literals only: one of these atoms is
true. A negative literal ¬a: any state but a (positive literals beside it add nothing). Two negative
ones, or all atoms of an exactly-one block: the clause is always true.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.runtime.kernels import entry, inner


class MessageFactors(NamedTuple):
    """Clauses (`own` is −1) and definitions of auxiliary atoms (`own` is the atom)."""

    factor_start: np.ndarray  # int64[num_factors + 1], groups of a factor
    group_start: np.ndarray  # int64[num_groups + 1], literals of a group
    group_literal: np.ndarray  # int32[...], all positive, or one negative
    weight: np.ndarray  # float64[num_factors], +inf where hard; 0 for a definition
    own: np.ndarray  # int64[num_factors]
    weight_id: np.ndarray  # int32[num_factors], −1 where hard or a definition
    coefficient: np.ndarray  # float64[num_factors]
    variable_start: np.ndarray  # int64[num_variables + 1]
    variable_atom: np.ndarray  # int32[num_atoms]
    variable_of_atom: np.ndarray  # int32[num_atoms]
    is_block: np.ndarray  # bool[num_variables]
    may_be_empty: np.ndarray  # bool[num_variables], blocks with at most one true atom
    near_start: np.ndarray  # int64[num_variables + 1]
    near: np.ndarray  # int32[...], the factors of each variable
    limit: float  # messages stay within ±limit; hard clauses would make them infinite


class Messages(NamedTuple):
    """The messages from factors to variables, and their sums."""

    group: np.ndarray  # float64[num_groups], λ, from factor to variable
    own: np.ndarray  # float64[num_factors], from a definition to its auxiliary atom
    theta: np.ndarray  # float64[num_atoms]
    pending: np.ndarray  # float64[num_factors], changes since the factor's last update


@inner
def _add_exp(one, other):  # type: ignore[no-untyped-def]
    """Return log(exp(one) + exp(other))."""
    high, low = max(one, other), min(one, other)
    if high == -np.inf:
        return high
    return high + np.log1p(np.exp(low - high))


@inner
def _log_no(odds):  # type: ignore[no-untyped-def]
    """Return log(1 − p) for the probability p with these log-odds."""
    return -_add_exp(0.0, odds)


@inner
def _group_odds(factors, messages, group):  # type: ignore[no-untyped-def]
    """Return the log-odds that a group holds, by all factors."""
    begin, end = factors.group_start[group], factors.group_start[group + 1]
    signed = factors.group_literal[begin]
    atom = abs(signed) - 1
    variable = factors.variable_of_atom[atom]
    if not factors.is_block[variable]:
        return messages.theta[atom] if signed > 0 else -messages.theta[atom]
    inside, outside = -np.inf, 0.0 if factors.may_be_empty[variable] else -np.inf
    for at in range(factors.variable_start[variable], factors.variable_start[variable + 1]):
        other = factors.variable_atom[at]
        is_member = False
        for place in range(begin, end):
            is_member = is_member or abs(factors.group_literal[place]) - 1 == other
        if is_member:
            inside = _add_exp(inside, messages.theta[other])
        else:
            outside = _add_exp(outside, messages.theta[other])
    odds = inside - outside if signed > 0 else outside - inside
    return max(-2 * factors.limit, min(2 * factors.limit, odds))


@inner
def _incoming(factors, messages, group):  # type: ignore[no-untyped-def]
    """Return the variable's message: log-odds that the group holds, by all other factors."""
    return _group_odds(factors, messages, group) - messages.group[group]


@inner
def _factor_weight(factors, messages, factor):  # type: ignore[no-untyped-def]
    """Return the weight of a clause, or the log-odds of a defined atom by the other factors."""
    own = factors.own[factor]
    if own < 0:
        return factors.weight[factor]
    return messages.theta[own] - messages.own[factor]


@inner
def _log_none_and_some(factors, messages, factor):  # type: ignore[no-untyped-def]
    """Return the log-probabilities that no group, and that some group, makes the clause true."""
    no, yes = 0.0, -np.inf
    for group in range(factors.factor_start[factor], factors.factor_start[factor + 1]):
        odds = _incoming(factors, messages, group)
        no, yes = no + _log_no(odds), _add_exp(yes, no + _log_no(-odds))
    return no, yes


@inner
def _change_theta(factors, messages, atom, change):  # type: ignore[no-untyped-def]
    """Change θ of an atom and mark the factors of its variable."""
    messages.theta[atom] += change
    variable = factors.variable_of_atom[atom]
    for at in range(factors.near_start[variable], factors.near_start[variable + 1]):
        messages.pending[factors.near[at]] += abs(change)


@inner
def _update_factor(factors, messages, factor, damping, fresh):  # type: ignore[no-untyped-def]
    """Compute new messages from one factor to all its variables.

    The other groups of a group are those before and those after it: dividing its own probability
    out of the product of all would cancel if it is nearly 1.
    """
    begin, end = factors.factor_start[factor], factors.factor_start[factor + 1]
    weight = _factor_weight(factors, messages, factor)
    no, yes = 0.0, -np.inf
    for group in range(begin, end):
        odds = _incoming(factors, messages, group)
        place = group - begin
        fresh[0, place], fresh[1, place], fresh[2, place] = odds, no, yes
        no, yes = no + _log_no(odds), _add_exp(yes, no + _log_no(-odds))
    all_no, some_yes = no, yes
    no, yes = 0.0, -np.inf
    for place in range(end - begin - 1, -1, -1):
        odds, before_no, before_yes = fresh[0, place], fresh[1, place], fresh[2, place]
        others_yes = _add_exp(before_yes, before_no + yes)
        value = -_add_exp(others_yes, before_no + no - weight)
        fresh[0, place] = max(-factors.limit, min(factors.limit, value))
        no, yes = no + _log_no(odds), _add_exp(_log_no(-odds), _log_no(odds) + yes)
    for group in range(begin, end):
        old = messages.group[group]
        new = damping * old + (1 - damping) * fresh[0, group - begin]
        messages.group[group] = new
        for at in range(factors.group_start[group], factors.group_start[group + 1]):
            signed = factors.group_literal[at]
            _change_theta(
                factors, messages, abs(signed) - 1, new - old if signed > 0 else old - new
            )
    if factors.own[factor] >= 0:
        value = max(-factors.limit, min(factors.limit, some_yes - all_no))
        old = messages.own[factor]
        messages.own[factor] = damping * old + (1 - damping) * value
        _change_theta(factors, messages, factors.own[factor], messages.own[factor] - old)
    # A damped message has not reached its new value yet.
    left = 0.0
    for place in range(end - begin):
        left = max(left, abs(fresh[0, place] - messages.group[begin + place]))
    messages.pending[factor] = left


@entry
def pass_messages(factors, messages, damping, tolerance, max_passes, fresh):  # type: ignore[no-untyped-def]
    """Update factors by pending changes; return (passes, largest change left)."""
    for number in range(max_passes):
        worst = 0.0
        for factor in range(len(messages.pending)):
            worst = max(worst, messages.pending[factor])
        if worst <= tolerance:
            return number, worst
        threshold = max(0.1 * worst, tolerance) if worst < np.inf else 0.0
        for factor in range(len(messages.pending)):
            if messages.pending[factor] >= threshold:
                _update_factor(factors, messages, factor, damping, fresh)
    worst = 0.0
    for factor in range(len(messages.pending)):
        worst = max(worst, messages.pending[factor])
    return max_passes, worst


@inner
def _log_states(factors, messages, variable):  # type: ignore[no-untyped-def]
    """Return log Σ_states exp θ of a variable."""
    total = 0.0 if factors.may_be_empty[variable] or not factors.is_block[variable] else -np.inf
    for at in range(factors.variable_start[variable], factors.variable_start[variable + 1]):
        total = _add_exp(total, messages.theta[factors.variable_atom[at]])
    return total


@entry
def read_beliefs(factors, messages, log_odds, truth):  # type: ignore[no-untyped-def]
    """Fill the log-odds of atoms and P(clause true)."""
    for variable in range(len(factors.is_block)):
        total = _log_states(factors, messages, variable)
        first = factors.variable_atom[factors.variable_start[variable]]
        if not factors.is_block[variable]:
            log_odds[first] = messages.theta[first]
            continue
        top, rest = first, 0.0 if factors.may_be_empty[variable] else -np.inf
        for at in range(factors.variable_start[variable], factors.variable_start[variable + 1]):
            atom = factors.variable_atom[at]
            if messages.theta[atom] > messages.theta[top]:
                top = atom
        for at in range(factors.variable_start[variable], factors.variable_start[variable + 1]):
            atom = factors.variable_atom[at]
            if atom != top:  # p below one half: 1 − p does not cancel
                rest = _add_exp(rest, messages.theta[atom])
                share = messages.theta[atom] - total
                log_odds[atom] = share - np.log(-np.expm1(share))
        log_odds[top] = messages.theta[top] - rest
    for factor in range(len(factors.weight)):
        no, yes = _log_none_and_some(factors, messages, factor)
        truth[factor] = np.exp(_log_no(no - yes - _factor_weight(factors, messages, factor)))


@entry
def bethe_log_partition(factors, messages):  # type: ignore[no-untyped-def]
    """Return Σ log Z_factor + Σ log Z_variable − Σ log Z_edge."""
    total = 0.0
    for variable in range(len(factors.is_block)):
        total += _log_states(factors, messages, variable)
    for factor in range(len(factors.weight)):
        all_no, yes = _log_none_and_some(factors, messages, factor)
        own = factors.own[factor]
        if own >= 0:
            odds, message = messages.theta[own] - messages.own[factor], messages.own[factor]
            total += _add_exp(_log_no(-odds) + yes, _log_no(odds) + all_no)
            total -= _add_exp(_log_no(-odds) + message, _log_no(odds))
        elif np.isinf(factors.weight[factor]):
            total += yes
        else:
            total += _add_exp(factors.weight[factor] + yes, all_no)
        for group in range(factors.factor_start[factor], factors.factor_start[factor + 1]):
            odds, message = _incoming(factors, messages, group), messages.group[group]
            total -= _add_exp(_log_no(-odds) + message, _log_no(odds))
            if factors.group_literal[factors.group_start[group]] < 0:
                total += message  # θ has −λ on one state instead of λ on all others
    return total


@entry
def fill_groups(
    row_start, literal, variable_of_atom, variable_start, is_block, exactly_one, last_row,
    factor_start, group_start, group_literal, always_true,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Fill the CSR arrays rows → groups → literals; `last_row` starts as −1."""
    groups, literals = 0, 0
    for row in range(len(row_start) - 1):
        for at in range(row_start[row], row_start[row + 1]):
            variable = variable_of_atom[abs(literal[at]) - 1]
            if last_row[variable] == row:
                continue
            last_row[variable] = row
            begin = literals
            if not is_block[variable]:
                group_literal[literals] = literal[at]
                literals += 1
            else:
                literals = _fill_block(
                    row_start, literal, row, at, variable_of_atom, group_literal, literals
                )
                size = variable_start[variable + 1] - variable_start[variable]
                if literals == begin or (
                    exactly_one[variable] and group_literal[begin] > 0 and literals - begin == size
                ):
                    always_true[row] = True
            groups += 1
            group_start[groups] = literals
        factor_start[row + 1] = groups
    return groups, literals


@inner
def _fill_block(row_start, literal, row, first, variable_of_atom, group_literal, literals):  # type: ignore[no-untyped-def]
    """Write the literals of one block; none if the clause is always true."""
    variable = variable_of_atom[abs(literal[first]) - 1]
    begin, negative = literals, 0
    for at in range(first, row_start[row + 1]):
        if variable_of_atom[abs(literal[at]) - 1] != variable:
            continue
        if literal[at] < 0:
            if negative == 0:
                group_literal[begin] = literal[at]
            negative += 1
        elif negative == 0:
            group_literal[literals] = literal[at]
            literals += 1
    if negative == 0:
        return literals
    return begin + 1 if negative == 1 else begin

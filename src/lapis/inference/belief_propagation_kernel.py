"""Messages between clauses and variables, as log odds (see `belief_propagation`).

θ_a, the sum of what all factors say about atom a, is kept for every atom: an atom's log odds, or
its log weight among the states of its block. A variable's message to a factor is what θ says
about the factor's question, less what the factor said itself.

Clauses as questions to variables: does your state make me true?

The literals of one block in a clause are one question. Only positive ones: is one of these atoms
the true one? With a negative one, ¬a: is it any state but a? (Positive literals beside it add
nothing.) With two negative ones, or all atoms of an exactly-one block: always true.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.runtime.kernels import entry, inner


class MessageFactors(NamedTuple):
    """Clauses (`own` −1) and definitions of auxiliary atoms (`own` the atom)."""

    factor_start: np.ndarray  # int64[num_factors + 1], questions of a factor
    question_start: np.ndarray  # int64[num_questions + 1], literals of a question
    question_literal: np.ndarray  # int32[...], all positive, or one negative
    weight: np.ndarray  # float64[num_factors], +inf where hard; 0 for a definition
    own: np.ndarray  # int64[num_factors]
    weight_id: np.ndarray  # int32[num_factors], −1 where hard or a definition
    coefficient: np.ndarray  # float64[num_factors]
    variable_start: np.ndarray  # int64[num_variables + 1]
    variable_atom: np.ndarray  # int32[num_atoms]
    variable_of_atom: np.ndarray  # int32[num_atoms]
    is_block: np.ndarray  # bool[num_variables]
    may_be_empty: np.ndarray  # bool[num_variables]
    near_start: np.ndarray  # int64[num_variables + 1]
    near: np.ndarray  # int32[...], the factors of a variable
    limit: float  # no message is beyond ±limit, where hard clauses would make it infinite


class Messages(NamedTuple):
    question: np.ndarray  # float64[num_questions], λ, from factor to variable
    own: np.ndarray  # float64[num_factors], from a definition to its auxiliary atom
    theta: np.ndarray  # float64[num_atoms]
    waiting: np.ndarray  # float64[num_factors], change since the factor was last updated


@inner
def _add_exp(one, other):  # type: ignore[no-untyped-def]
    """log(exp(one) + exp(other))."""
    high, low = max(one, other), min(one, other)
    if high == -np.inf:
        return high
    return high + np.log1p(np.exp(low - high))


@inner
def _log_no(odds):  # type: ignore[no-untyped-def]
    """log(1 − p), p being the probability with these log odds."""
    return -_add_exp(0.0, odds)


@inner
def _group_odds(factors, messages, question):  # type: ignore[no-untyped-def]
    """Log odds that the variable answers yes, by all factors together."""
    begin, end = factors.question_start[question], factors.question_start[question + 1]
    signed = factors.question_literal[begin]
    atom = abs(signed) - 1
    variable = factors.variable_of_atom[atom]
    if not factors.is_block[variable]:
        return messages.theta[atom] if signed > 0 else -messages.theta[atom]
    inside, outside = -np.inf, 0.0 if factors.may_be_empty[variable] else -np.inf
    for at in range(factors.variable_start[variable], factors.variable_start[variable + 1]):
        other = factors.variable_atom[at]
        asked = False
        for place in range(begin, end):
            asked = asked or abs(factors.question_literal[place]) - 1 == other
        if asked:
            inside = _add_exp(inside, messages.theta[other])
        else:
            outside = _add_exp(outside, messages.theta[other])
    odds = inside - outside if signed > 0 else outside - inside
    return max(-2 * factors.limit, min(2 * factors.limit, odds))


@inner
def _incoming(factors, messages, question):  # type: ignore[no-untyped-def]
    """The variable's message: log odds of yes, by all the other factors."""
    return _group_odds(factors, messages, question) - messages.question[question]


@inner
def _factor_weight(factors, messages, factor):  # type: ignore[no-untyped-def]
    own = factors.own[factor]
    if own < 0:
        return factors.weight[factor]
    return messages.theta[own] - messages.own[factor]


@inner
def _log_none_and_some(factors, messages, factor):  # type: ignore[no-untyped-def]
    """log of the probabilities that no variable, and that some variable, makes the clause true."""
    no, yes = 0.0, -np.inf
    for question in range(factors.factor_start[factor], factors.factor_start[factor + 1]):
        odds = _incoming(factors, messages, question)
        no, yes = no + _log_no(odds), _add_exp(yes, no + _log_no(-odds))
    return no, yes


@inner
def _change_theta(factors, messages, atom, change):  # type: ignore[no-untyped-def]
    """Change θ of an atom and tell the factors of its variable."""
    messages.theta[atom] += change
    variable = factors.variable_of_atom[atom]
    for at in range(factors.near_start[variable], factors.near_start[variable + 1]):
        messages.waiting[factors.near[at]] += abs(change)


@inner
def _update_factor(factors, messages, factor, damping, fresh):  # type: ignore[no-untyped-def]
    """New messages from one factor to all its variables.

    The others' answers to a question are those before it and those after it: dividing the answer
    itself out of all of them would cancel where one variable is nearly sure.
    """
    begin, end = factors.factor_start[factor], factors.factor_start[factor + 1]
    weight = _factor_weight(factors, messages, factor)
    no, yes = 0.0, -np.inf
    for question in range(begin, end):
        odds = _incoming(factors, messages, question)
        place = question - begin
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
    for question in range(begin, end):
        old = messages.question[question]
        new = damping * old + (1 - damping) * fresh[0, question - begin]
        messages.question[question] = new
        for at in range(factors.question_start[question], factors.question_start[question + 1]):
            signed = factors.question_literal[at]
            _change_theta(
                factors, messages, abs(signed) - 1, new - old if signed > 0 else old - new
            )
    if factors.own[factor] >= 0:
        value = max(-factors.limit, min(factors.limit, some_yes - all_no))
        old = messages.own[factor]
        messages.own[factor] = damping * old + (1 - damping) * value
        _change_theta(factors, messages, factors.own[factor], messages.own[factor] - old)
    # With damping part of the way is still to go, even if no neighbour moves.
    left = 0.0
    for place in range(end - begin):
        left = max(left, abs(fresh[0, place] - messages.question[begin + place]))
    messages.waiting[factor] = left


@entry
def pass_messages(factors, messages, damping, tolerance, max_passes, fresh):  # type: ignore[no-untyped-def]
    """Passes over the factors that wait with most; (number of passes, what still waits)."""
    for number in range(max_passes):
        worst = 0.0
        for factor in range(len(messages.waiting)):
            worst = max(worst, messages.waiting[factor])
        if worst <= tolerance:
            return number, worst
        threshold = max(0.1 * worst, tolerance) if worst < np.inf else 0.0
        for factor in range(len(messages.waiting)):
            if messages.waiting[factor] >= threshold:
                _update_factor(factors, messages, factor, damping, fresh)
    worst = 0.0
    for factor in range(len(messages.waiting)):
        worst = max(worst, messages.waiting[factor])
    return max_passes, worst


@inner
def _log_states(factors, messages, variable):  # type: ignore[no-untyped-def]
    """log Σ_states exp θ."""
    total = 0.0 if factors.may_be_empty[variable] or not factors.is_block[variable] else -np.inf
    for at in range(factors.variable_start[variable], factors.variable_start[variable + 1]):
        total = _add_exp(total, messages.theta[factors.variable_atom[at]])
    return total


@entry
def read_beliefs(factors, messages, log_odds, truth):  # type: ignore[no-untyped-def]
    """Log-odds of the atoms and P(clause true) by the messages."""
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
            if atom != top:  # below one half, so that 1 − p does not cancel
                rest = _add_exp(rest, messages.theta[atom])
                share = messages.theta[atom] - total
                log_odds[atom] = share - np.log(-np.expm1(share))
        log_odds[top] = messages.theta[top] - rest
    for factor in range(len(factors.weight)):
        no, yes = _log_none_and_some(factors, messages, factor)
        truth[factor] = np.exp(_log_no(no - yes - _factor_weight(factors, messages, factor)))


@entry
def bethe_log_partition(factors, messages):  # type: ignore[no-untyped-def]
    """Σ log Z_factor + Σ log Z_variable − Σ log Z_edge."""
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
        for question in range(factors.factor_start[factor], factors.factor_start[factor + 1]):
            odds, message = _incoming(factors, messages, question), messages.question[question]
            total -= _add_exp(_log_no(-odds) + message, _log_no(odds))
            if factors.question_literal[factors.question_start[question]] < 0:
                total += message  # θ holds −λ on one state instead of λ on all others
    return total


@entry
def fill_groups(
    row_start, literal, variable_of_atom, variable_start, is_block, exactly_one, last_row,
    factor_start, question_start, question_literal, always_true,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Fill the CSR arrays rows → questions → literals; `last_row` is all −1."""
    questions, literals = 0, 0
    for row in range(len(row_start) - 1):
        for at in range(row_start[row], row_start[row + 1]):
            variable = variable_of_atom[abs(literal[at]) - 1]
            if last_row[variable] == row:
                continue
            last_row[variable] = row
            begin = literals
            if not is_block[variable]:
                question_literal[literals] = literal[at]
                literals += 1
            else:
                literals = _fill_block(
                    row_start, literal, row, at, variable_of_atom, question_literal, literals
                )
                size = variable_start[variable + 1] - variable_start[variable]
                if literals == begin or (
                    exactly_one[variable]
                    and question_literal[begin] > 0
                    and literals - begin == size
                ):
                    always_true[row] = True
            questions += 1
            question_start[questions] = literals
        factor_start[row + 1] = questions
    return questions, literals


@inner
def _fill_block(row_start, literal, row, first, variable_of_atom, question_literal, literals):  # type: ignore[no-untyped-def]
    """Write the literals of one block; none where the answer is always yes."""
    variable = variable_of_atom[abs(literal[first]) - 1]
    begin, negative = literals, 0
    for at in range(first, row_start[row + 1]):
        if variable_of_atom[abs(literal[at]) - 1] != variable:
            continue
        if literal[at] < 0:
            if negative == 0:
                question_literal[begin] = literal[at]
            negative += 1
        elif negative == 0:
            question_literal[literals] = literal[at]
            literals += 1
    if negative == 0:
        return literals
    return begin + 1 if negative == 1 else begin

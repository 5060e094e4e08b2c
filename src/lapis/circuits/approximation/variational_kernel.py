"""Compiled sums over the entries of tables under a family (`variational.py`)."""

from __future__ import annotations

import math

from lapis.circuits.circuit import INDICATOR, SUM
from lapis.runtime.kernels import entry, inner


@entry
def sum_entries(  # type: ignore[no-untyped-def]
    family, terms, share, gain, value, slope, before, touched, is_touched, digit, place, found
):
    """Return Σ_k u_k Q(g_k); add its derivatives to `gain`, or write all Q(g_k) to `found`."""
    total = 0.0
    for factor in range(len(terms.scope_start) - 1):
        first, last = terms.scope_start[factor], terms.scope_start[factor + 1]
        if first == last:
            for at in range(terms.entry_start[factor], terms.entry_start[factor + 1]):
                total += terms.weight[at]
            continue
        for at in range(first, last):
            place[terms.scope[at]] = at - first
        num_touched = _find_touched(family, place, touched, is_touched)
        nodes = touched[:num_touched]
        at = terms.entry_start[factor]
        while at < terms.entry_start[factor + 1]:
            count = _read_entries(terms, factor, at, digit)
            _evaluate_entries(family, share, nodes, is_touched, place, digit, count, value)
            root = nodes[num_touched - 1]
            if len(found):
                for b in range(count):
                    found[at + b] = value[root, b]
                at += count
                continue
            for n in nodes:
                for b in range(count):
                    slope[n, b] = 0.0
            for b in range(count):
                slope[root, b] = terms.weight[at + b]
                total += terms.weight[at + b] * value[root, b]
            _backpropagate(family, share, nodes, is_touched, count, value, slope, before, gain)
            at += count
        for at in range(first, last):
            place[terms.scope[at]] = -1
    return total


@inner
def _read_entries(terms, factor, at, digit):  # type: ignore[no-untyped-def]
    """Write the states of the variables in a batch of entries; return the number of entries."""
    first, last = terms.scope_start[factor], terms.scope_start[factor + 1]
    count = min(digit.shape[1], terms.entry_start[factor + 1] - at)
    for b in range(count):
        rest = terms.entry_place[at + b]
        for axis in range(last - first - 1, -1, -1):
            size = terms.size[terms.scope[first + axis]]
            digit[axis, b] = rest % size
            rest //= size
    return count


@inner
def _find_touched(family, place, touched, is_touched):  # type: ignore[no-untyped-def]
    """List the nodes above a variable of the scope; return their number."""
    count = 0
    for n in range(len(family.kind)):
        if family.kind[n] == INDICATOR:
            is_above = place[family.variable_of_state[family.leaf[n]]] >= 0
        else:
            is_above = False
            for e in range(family.start[n], family.start[n + 1]):
                if is_touched[family.child[e]]:
                    is_above = True
                    break
        is_touched[n] = is_above
        if is_above:
            touched[count] = n
            count += 1
    return count


@inner
def _evaluate_entries(family, share, nodes, is_touched, place, digit, count, value):  # type: ignore[no-untyped-def]
    """Write the probabilities of a batch of entries below each node; untouched nodes have 1."""
    for n in nodes:
        if family.kind[n] == INDICATOR:
            v = family.variable_of_state[family.leaf[n]]
            state = family.leaf[n] - family.state_start[v]
            for b in range(count):
                value[n, b] = 1.0 if digit[place[v], b] == state else 0.0
        elif family.kind[n] == SUM:
            idle = 0.0
            for e in range(family.start[n], family.start[n + 1]):
                if not is_touched[family.child[e]]:
                    idle += share[e]
            for b in range(count):
                value[n, b] = idle
            for e in range(family.start[n], family.start[n + 1]):
                c = family.child[e]
                if is_touched[c]:
                    for b in range(count):
                        value[n, b] += share[e] * value[c, b]
        else:
            for b in range(count):
                value[n, b] = 1.0
            for e in range(family.start[n], family.start[n + 1]):
                c = family.child[e]
                if is_touched[c]:
                    for b in range(count):
                        value[n, b] *= value[c, b]


@inner
def _backpropagate(family, share, nodes, is_touched, count, value, slope, before, gain):  # type: ignore[no-untyped-def]
    """Write the weighted derivatives by the nodes; add those by the shares to `gain`."""
    for place in range(len(nodes) - 1, -1, -1):
        n = nodes[place]
        if family.kind[n] == SUM:
            for e in range(family.start[n], family.start[n + 1]):
                c = family.child[e]
                added = 0.0
                if is_touched[c]:
                    for b in range(count):
                        added += slope[n, b] * value[c, b]
                        slope[c, b] += share[e] * slope[n, b]
                else:
                    for b in range(count):
                        added += slope[n, b]
                gain[e] += added
        elif family.kind[n] != INDICATOR:
            # Prefix products of the children, then suffix products.
            number = 0
            for b in range(count):
                before[0, b] = slope[n, b]
            for e in range(family.start[n], family.start[n + 1]):
                c = family.child[e]
                if is_touched[c]:
                    for b in range(count):
                        before[number + 1, b] = before[number, b] * value[c, b]
                    number += 1
            after = number  # row of the suffix products
            for b in range(count):
                before[after, b] = 1.0
            for e in range(family.start[n + 1] - 1, family.start[n] - 1, -1):
                c = family.child[e]
                if is_touched[c]:
                    number -= 1
                    for b in range(count):
                        slope[c, b] += before[number, b] * before[after, b]
                        before[after, b] *= value[c, b]


@entry
def add_entropies(family, share, log_share, gain, entropy, reach):  # type: ignore[no-untyped-def]
    """Turn derivatives by shares into B + H: divide by p(n), add the entropies below."""
    kind, start, child = family.kind, family.start, family.child
    num_nodes = len(kind)
    for n in range(num_nodes):
        for e in range(start[n], start[n + 1]):
            if kind[n] == SUM:
                if share[e] > 0.0:
                    entropy[n] += share[e] * (entropy[child[e]] - log_share[e])
            else:
                entropy[n] += entropy[child[e]]
    reach[num_nodes - 1] = 1.0
    for n in range(num_nodes - 1, -1, -1):
        for e in range(start[n], start[n + 1]):
            if kind[n] == SUM:
                reach[child[e]] += share[e] * reach[n]
                if reach[n] > 1e-280:
                    gain[e] = gain[e] / reach[n] + entropy[child[e]]
                else:
                    gain[e] = log_share[e]
            else:
                reach[child[e]] += reach[n]


@entry
def normalise_shares(family, log_share):  # type: ignore[no-untyped-def]
    """Normalise the shares of each sum in place."""
    for n in range(len(family.kind)):
        if family.kind[n] == SUM:
            best, total = -math.inf, 0.0
            for e in range(family.start[n], family.start[n + 1]):
                best = max(best, log_share[e])
            for e in range(family.start[n], family.start[n + 1]):
                total += math.exp(log_share[e] - best)
            for e in range(family.start[n], family.start[n + 1]):
                log_share[e] -= best + math.log(total)
        else:
            for e in range(family.start[n], family.start[n + 1]):
                log_share[e] = 0.0

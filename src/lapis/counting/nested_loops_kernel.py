"""Interpret a program of nested loops (`nested_loops`) around one atom.

A program is a list of words. Each instruction is its code and the operands listed below; `key` is a
linear form of the variables' values: a constant, the number of terms, and a slot and a stride for
each. Slot 0 is always 0, register 0 always 1. `jump` is the next instruction if a test fails or a
loop ends.

    MEMBER   expected, jump, key          the atom is, or is not, true
    EQUAL    jump, key                    the form is 0
    COMPARE  jump, operator, expected, left, slot, right, slot      of numbers of constants
    OPEN     cursor, key                  start at the first row of a bucket
    NEXT     cursor, jump, link, n, n × (position, slot, is new)    bind the row's arguments
    START    cursor
    EACH     cursor, jump, slot, size     bind the next constant
    CLEAR    register
    SIZE     register, key                rows of a bucket
    MEET     register, slot, inside, all, all × (length, link, position, bucket key, atom key)
                                          values of a slot for which the first atoms, `inside` of
                                          them, are true and the others are not
    MULTIPLY register, register
    ADD      register, register, jump
    EMPTY    register, jump               if it is 0
    WEIGHT   factor, register, key        a weight's count changes
    WITNESS  factor, register, predicate, key       a derived atom's witnesses change
    JUMP     jump
    END

The true atoms are stored in flat arrays: hash tables for membership, linked lists for buckets.
Hash tables use open addressing with linear probing; their size is a power of two and they are at
most half full. An atom is removed by moving the following entries back (Knuth, The Art of Computer
Programming, vol. 3, section 6.4, algorithm R), so there are no tombstones. Empty buckets stay.

In wide worlds, where numbers may exceed 64 bits, arrays hold Python integers and these functions
run as Python functions; so there are no casts to a width.
"""

from __future__ import annotations

from lapis.runtime.kernels import entry, inner

(
    MEMBER, EQUAL, COMPARE, OPEN, NEXT, START, EACH, CLEAR, SIZE, MEET, MULTIPLY, ADD, EMPTY,
    WEIGHT, WITNESS, JUMP, END,
) = range(17)  # fmt: skip
OPERATORS = ("=", "!=", "<", ">", "<=", ">=")

# Entries of the state's `level`.
NUM_CHANGED, NUM_FLIPS, NUM_TOUCHED, NUM_WITNESSES, SHORTAGE = 0, 1, 2, 3, 4
# Reasons why a kernel stopped.
NO_ROOM_FOR_ATOMS, NO_ROOM_FOR_FLIPS, NO_ROOM_FOR_DIFFERENCES = 1, 2, 3


@inner
def evaluate_form(code, at, value):  # type: ignore[no-untyped-def]
    """Return the value of the linear form at a position of the program."""
    total = code[at]
    for term in range(at + 2, at + 2 + 2 * code[at + 1], 2):
        total += value[code[term]] * code[term + 1]
    return total


@inner
def skip_form(code, at):  # type: ignore[no-untyped-def]
    """Return the end of the linear form."""
    return at + 2 + 2 * code[at + 1]


@inner
def run_program(program, relations, state, sign, at):  # type: ignore[no-untyped-def]
    """Run the program and add its counts, times the sign, to the state's changes."""
    code, number = program.code, program.number
    value, total, cursor = state.value, state.total, state.cursor
    while True:
        kind = code[at]
        if kind == NEXT:
            row = cursor[code[at + 1]]
            if row < 0:
                at = code[at + 2]
                continue
            cursor[code[at + 1]] = relations.following[code[at + 3], row]
            end = at + 5 + 3 * code[at + 4]
            matches = True
            for bind in range(at + 5, end, 3):
                constant = relations.argument[row, code[bind]]
                if code[bind + 2]:
                    value[code[bind + 1]] = constant
                elif value[code[bind + 1]] != constant:
                    matches = False
                    break
            if matches:
                at = end
        elif kind == MEMBER:
            if contains_atom(relations, evaluate_form(code, at + 3, value)) == (code[at + 1] == 1):
                at = skip_form(code, at + 3)
            else:
                at = code[at + 2]
        elif kind == ADD:
            total[code[at + 1]] += total[code[at + 2]]
            at = code[at + 3]
        elif kind == OPEN:
            place = find_place(relations.bucket, evaluate_form(code, at + 2, value))
            cursor[code[at + 1]] = relations.head[place]
            at = skip_form(code, at + 2)
        elif kind == SIZE:
            place = find_place(relations.bucket, evaluate_form(code, at + 2, value))
            total[code[at + 1]] = relations.size[place]
            at = skip_form(code, at + 2)
        elif kind == MEET:
            at = _count_intersection(code, at, value, total, relations)
        elif kind == EMPTY:
            at = code[at + 2] if total[code[at + 1]] == 0 else at + 3
        elif kind == CLEAR:
            total[code[at + 1]] = 0
            at += 2
        elif kind == WEIGHT:
            found = sign * code[at + 1] * total[code[at + 2]]
            _add_weight(state, evaluate_form(code, at + 3, value), found)
            at = skip_form(code, at + 3)
        elif kind == EQUAL:
            at = (
                skip_form(code, at + 2) if evaluate_form(code, at + 2, value) == 0 else code[at + 1]
            )
        elif kind == MULTIPLY:
            total[code[at + 1]] *= total[code[at + 2]]
            at += 3
        elif kind == JUMP:
            at = code[at + 1]
        elif kind == START:
            cursor[code[at + 1]] = 0
            at += 2
        elif kind == EACH:
            constant = cursor[code[at + 1]]
            if constant >= code[at + 4]:
                at = code[at + 2]
            else:
                value[code[at + 3]] = constant
                cursor[code[at + 1]] = constant + 1
                at += 5
        elif kind == COMPARE:
            left = number[code[at + 4] + value[code[at + 5]]]
            right = number[code[at + 6] + value[code[at + 7]]]
            passes = _compare_numbers(code[at + 2], left, right) == (code[at + 3] == 1)
            at = at + 8 if passes else code[at + 1]
        elif kind == WITNESS:
            found = sign * code[at + 1] * total[code[at + 2]]
            if not _add_witnesses(state, code[at + 3], evaluate_form(code, at + 4, value), found):
                state.level[SHORTAGE] = NO_ROOM_FOR_FLIPS
                return
            at = skip_form(code, at + 4)
        else:
            return


@inner
def _count_intersection(code, at, value, total, relations):  # type: ignore[no-untyped-def]
    """Count a set of constants: iterate over the smallest bucket and test the other atoms."""
    inside, end, first = code[at + 3], at + 5, at + 5
    smallest, chosen, row, fewest = 0, first, -1, -1
    for which in range(code[at + 4]):
        if which < inside:
            place = find_place(relations.bucket, evaluate_form(code, end + 3, value))
            if fewest < 0 or relations.size[place] < fewest:
                fewest, row = relations.size[place], relations.head[place]
                smallest, chosen = which, end
        end += code[end]
    found = 0
    if code[at + 4] == 2:  # one other atom: its number is base + stride · constant
        entry = first + code[first] if smallest == 0 else first
        holds, key = (1 - smallest) < inside, skip_form(code, entry + 3)
        value[code[at + 2]] = 0
        base = evaluate_form(code, key, value)
        value[code[at + 2]] = 1
        stride = evaluate_form(code, key, value) - base
        while row >= 0:
            atom = base + stride * relations.argument[row, code[chosen + 2]]
            if contains_atom(relations, atom) == holds:
                found += 1
            row = relations.following[code[chosen + 1], row]
    while row >= 0:
        value[code[at + 2]] = relations.argument[row, code[chosen + 2]]
        row = relations.following[code[chosen + 1], row]
        entry, matches = first, True
        for which in range(code[at + 4]):
            if which != smallest:
                atom = evaluate_form(code, skip_form(code, entry + 3), value)
                if contains_atom(relations, atom) != (which < inside):
                    matches = False
                    break
            entry += code[entry]
        if matches:
            found += 1
    total[code[at + 1]] = found
    return end


@inner
def _compare_numbers(operator, left, right):  # type: ignore[no-untyped-def]
    """Compare two numbers; every comparison with NaN is false."""
    if operator == 0:
        return left == right
    if operator == 1:
        return left < right or left > right
    if operator == 2:
        return left < right
    if operator == 3:
        return left > right
    if operator == 4:
        return left <= right
    return left >= right


@inner
def _add_weight(state, weight, number):  # type: ignore[no-untyped-def]
    if not state.is_changed[weight]:
        state.is_changed[weight] = 1
        state.changed[state.level[NUM_CHANGED]] = weight
        state.level[NUM_CHANGED] += 1
    state.change[weight] += number


@inner
def _add_witnesses(state, predicate, atom, number):  # type: ignore[no-untyped-def]
    """Change the witness count of a derived atom; return False if an array is full."""
    level, touched = state.level, state.level[NUM_TOUCHED]
    if touched == len(state.touched) or 2 * (level[NUM_WITNESSES] + 1) > len(state.derived):
        return False
    place = find_place(state.derived, atom)
    if state.derived[place] < 0:
        state.derived[place], state.witnesses[place] = atom, 0
        level[NUM_WITNESSES] += 1
    state.witnesses[place] += number
    state.touched_predicate[touched] = predicate
    state.touched[touched], state.touched_number[touched] = atom, number
    level[NUM_TOUCHED] += 1
    return True


GOLDEN = -7046029254386353131  # 2⁶⁴/φ, odd, as a signed number
FREE_ROWS, NUM_BUCKETS = 0, 1  # entries of `level`


@inner
def find_place(table, key):  # type: ignore[no-untyped-def]
    """Return the place of a key, or the free place for it."""
    mask = len(table) - 1
    place = (key * GOLDEN >> 32) & mask
    while table[place] != key and table[place] >= 0:
        place = (place + 1) & mask
    return place


@inner
def contains_atom(relations, atom):  # type: ignore[no-untyped-def]
    return relations.atom[find_place(relations.atom, atom)] >= 0


@inner
def has_room(layout, relations, predicate):  # type: ignore[no-untyped-def]
    """Return whether an atom of the predicate can be inserted."""
    buckets = relations.level[NUM_BUCKETS] + layout.num_links[predicate]
    return relations.level[FREE_ROWS] > 0 and 2 * buckets <= len(relations.bucket)


@inner
def toggle_atom(layout, relations, predicate, atom):  # type: ignore[no-untyped-def]
    """Insert an atom, or remove it if it is there."""
    place = find_place(relations.atom, atom)
    level, argument = relations.level, relations.argument
    if relations.atom[place] >= 0:
        row = relations.row[place]
        for link in range(layout.num_links[predicate]):
            _unlink(layout, relations, predicate, link, row)
        relations.free[level[FREE_ROWS]] = row
        level[FREE_ROWS] += 1
        _remove_key(relations.atom, relations.row, place)
        return
    level[FREE_ROWS] -= 1
    row = relations.free[level[FREE_ROWS]]
    relations.atom[place], relations.row[place] = atom, row
    rest = atom - layout.offset[predicate]
    for position in range(layout.arity[predicate] - 1, -1, -1):
        argument[row, position] = rest % layout.size[predicate, position]
        rest //= layout.size[predicate, position]
    for link in range(layout.num_links[predicate]):
        _link(layout, relations, predicate, link, row)


@inner
def _bucket_of(layout, relations, predicate, link, row):  # type: ignore[no-untyped-def]
    key = layout.index_offset[predicate, link]
    for position in range(layout.arity[predicate]):
        key += layout.index_stride[predicate, link, position] * relations.argument[row, position]
    return key, find_place(relations.bucket, key)


@inner
def _link(layout, relations, predicate, link, row):  # type: ignore[no-untyped-def]
    key, place = _bucket_of(layout, relations, predicate, link, row)
    if relations.bucket[place] < 0:
        relations.bucket[place] = key
        relations.level[NUM_BUCKETS] += 1
    first = relations.head[place]
    relations.following[link, row], relations.preceding[link, row] = first, -1
    if first >= 0:
        relations.preceding[link, first] = row
    relations.head[place] = row
    relations.size[place] += 1


@inner
def _unlink(layout, relations, predicate, link, row):  # type: ignore[no-untyped-def]
    _, place = _bucket_of(layout, relations, predicate, link, row)
    following, before = relations.following[link, row], relations.preceding[link, row]
    if before >= 0:
        relations.following[link, before] = following
    else:
        relations.head[place] = following
    if following >= 0:
        relations.preceding[link, following] = before
    relations.size[place] -= 1


@inner
def _remove_key(table, row, place):  # type: ignore[no-untyped-def]
    """Empty a place and move later keys back, so that probing still finds them."""
    mask = len(table) - 1
    hole, at = place, (place + 1) & mask
    while table[at] >= 0:
        home = (table[at] * GOLDEN >> 32) & mask
        if ((at - home) & mask) >= ((at - hole) & mask):
            table[hole], row[hole] = table[at], row[at]
            hole = at
        at = (at + 1) & mask
    table[hole] = -1


@entry
def insert_atoms(layout, relations, predicate, atoms):  # type: ignore[no-untyped-def]
    """Insert new atoms, word[n]; there must be room for them."""
    for number in range(len(atoms)):
        toggle_atom(layout, relations, predicate, atoms[number])


@entry
def insert_keys(table, number, keys, numbers):  # type: ignore[no-untyped-def]
    """Insert keys with their numbers into a table; there must be room for them."""
    for at in range(len(keys)):
        place = find_place(table, keys[at])
        table[place], number[place] = keys[at], numbers[at]

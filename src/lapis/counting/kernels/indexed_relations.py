"""Atoms that come and go in flat arrays: membership by hashing, buckets as linked lists.

Tables are open-addressing with linear probing, a power of two long and at most half full; an atom
is taken out by moving back what stands behind it (Knuth 6.4, algorithm R), so that there are no
tombstones and tables never need cleaning. A bucket stays when its last atom has gone.

In wide worlds, where numbers may pass 64 bits, arrays hold Python's integers and all this runs as
Python functions; so nothing here is cast to a width.
"""

from __future__ import annotations

from lapis.runtime.kernels import entry, inner

GOLDEN = -7046029254386353131  # 2⁶⁴/φ, odd, as a signed number
FREE_ROWS, NUM_BUCKETS = 0, 1  # entries of `level`


@inner
def place_of(table, key):  # type: ignore[no-untyped-def]
    """Where a key stands, or the free place where it would."""
    mask = len(table) - 1
    place = (key * GOLDEN >> 32) & mask
    while table[place] != key and table[place] >= 0:
        place = (place + 1) & mask
    return place


@inner
def contains(relations, atom):  # type: ignore[no-untyped-def]
    return relations.atom[place_of(relations.atom, atom)] >= 0


@inner
def has_room(layout, relations, predicate):  # type: ignore[no-untyped-def]
    """Whether an atom of the predicate can come in."""
    buckets = relations.level[NUM_BUCKETS] + layout.num_links[predicate]
    return relations.level[FREE_ROWS] > 0 and 2 * buckets <= len(relations.bucket)


@inner
def toggle(layout, relations, predicate, atom):  # type: ignore[no-untyped-def]
    """Put an atom in that is not there, take it out if it is."""
    place = place_of(relations.atom, atom)
    level, argument = relations.level, relations.argument
    if relations.atom[place] >= 0:
        row = relations.row[place]
        for link in range(layout.num_links[predicate]):
            _unlink(layout, relations, predicate, link, row)
        relations.free[level[FREE_ROWS]] = row
        level[FREE_ROWS] += 1
        _remove(relations.atom, relations.row, place)
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
    return key, place_of(relations.bucket, key)


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
    after, before = relations.following[link, row], relations.preceding[link, row]
    if before >= 0:
        relations.following[link, before] = after
    else:
        relations.head[place] = after
    if after >= 0:
        relations.preceding[link, after] = before
    relations.size[place] -= 1


@inner
def _remove(table, row, place):  # type: ignore[no-untyped-def]
    """Empty a place, and let what stands behind it stay in reach of where it belongs."""
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
def load(layout, relations, predicate, atoms):  # type: ignore[no-untyped-def]
    """Put in atoms that are not there, word[n], for which there is room."""
    for number in range(len(atoms)):
        toggle(layout, relations, predicate, atoms[number])


@entry
def insert(table, number, keys, numbers):  # type: ignore[no-untyped-def]
    """Put keys with their numbers into a table that has room for them."""
    for at in range(len(keys)):
        place = place_of(table, keys[at])
        table[place], number[place] = keys[at], numbers[at]

"""Texts of facts to a database.

Every name of a text is interned once, in one dictionary, by the plain and by the exact reader
alike. Since the two take turns within a chunk, each fact keeps its place in the text, and
constants are put in the order of their places at the end. So the result depends on the text
alone, not on which reader saw which line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from lapis.data.database import Database
from lapis.data.formats.assembly import FactGroup, build_database
from lapis.data.formats.diagnosis import raise_syntax_errors
from lapis.data.formats.facts import PREDICATE, SIGNS, Declaration, Fact, Unfinished, scan_facts
from lapis.data.formats.plain_facts import may_be_plain, split_plain
from lapis.data.formats.sources import READ_ERRORS, Origin, open_origin, source_text, unreadable

CHUNK_BYTES = 1 << 18  # larger chunks leave the cache, smaller ones pay for calls of numpy
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_text(origin: Origin, *, chunk_bytes: int = CHUNK_BYTES, plain: bool = True) -> Database:
    """The database that a text of facts states; `plain=False` uses the exact reader throughout."""
    found = _Collected()
    try:
        with open_origin(origin) as stream:
            _collect_stream(found, stream, chunk_bytes, plain)
    except READ_ERRORS as error:
        raise unreadable(Path(str(origin)), error) from None
    except (_Malformed, UnicodeDecodeError):
        if (source := source_text(origin)) is not None:
            raise_syntax_errors(source)
        raise
    names = list(map(bytes.decode, found.index))
    return build_database(names, found.groups(), found.declared, (origin,))


class _Malformed(Exception):
    """There is a mistake; a second reading finds and explains all of them."""


def _collect_stream(found: _Collected, stream: BinaryIO, chunk_bytes: int, plain: bool) -> None:
    offset, carried = 0, b""
    for chunk in _line_chunks(stream, chunk_bytes):
        chunk = carried + chunk
        if plain and may_be_plain(chunk) and _collect_plain(found, chunk, offset):
            used = len(chunk)
        else:
            text = chunk.decode()
            unfinished = _collect_exact(found, [(text, offset)])
            used = len(chunk) if unfinished is None else len(text[:unfinished].encode())
        offset += used
        carried = chunk[used:]
    if carried:
        raise _Malformed


def _line_chunks(stream: BinaryIO, chunk_bytes: int) -> Iterator[bytes]:
    """The stream in pieces that end with a newline."""
    start = stream.read(len(BYTE_ORDER_MARK))
    tail = b"" if start == BYTE_ORDER_MARK else start
    while block := stream.read(chunk_bytes):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield tail + block[:cut]
            tail = block[cut:]
        else:
            tail += block
    if tail:
        yield tail + b"\n"


Kind = tuple[int, str, bool, int]  # truth, predicate, function, arity


@dataclass
class _Collected:
    """Names interned and facts coded so far."""

    index: defaultdict[bytes, int] = field(default_factory=defaultdict)
    coded: dict[Kind, list[tuple[np.ndarray, np.ndarray]]] = field(default_factory=dict)
    declared: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.index.default_factory = self.index.__len__

    def intern(self, names: list[bytes]) -> np.ndarray:
        return np.fromiter(map(self.index.__getitem__, names), np.int32, len(names))

    def add(self, kind: Kind, rows: np.ndarray, places: np.ndarray) -> None:
        self.coded.setdefault(kind, []).append((rows, places))

    def groups(self) -> list[FactGroup]:
        """The facts by kind, kinds in the order of their first facts."""
        groups = []
        for kind, parts in self.coded.items():
            rows, places = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            groups.append(FactGroup(*kind, rows, places))
        return sorted(groups, key=lambda group: int(group.places.min()))


def _collect_plain(found: _Collected, chunk: bytes, offset: int) -> bool:
    """Collect what a chunk states; False, with nothing collected, if its lines are not plain."""
    split = split_plain(chunk, found.intern)
    if split is None:
        return False
    (names, codes, head, arity, line), others = split
    newlines = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
    line_start = np.concatenate([np.zeros(1, np.int64), newlines + 1])
    # Facts with the same predicate and arity become the rows of one array.
    suspect = _has_empty_constant(found, codes, head, arity)
    _, first, kind_of = np.unique(
        codes[head] * np.int64(2**31) + arity, return_index=True, return_inverse=True
    )
    for kind, sample in enumerate(first.tolist()):
        name, width = names[head[sample]], int(arity[sample])
        if not name and not width:
            continue  # a blank line
        chosen = (kind_of == kind) & ~suspect
        if not chosen.any():
            continue
        if predicate := PREDICATE.fullmatch(name.decode()):
            rows = codes[head[chosen][:, None] + np.arange(1, width + 1)]
            truth = SIGNS[predicate.group(1)]
            places = offset + line_start[line[chosen]]
            found.add((truth, predicate.group(2), False, width), rows, places)
        else:
            suspect |= chosen

    others = np.concatenate([others, line[suspect]])
    spans = zip(line_start[others].tolist(), line_start[others + 1].tolist(), strict=True)
    _collect_exact(found, ((chunk[start:end].decode(), offset + start) for start, end in spans))
    return True


def _has_empty_constant(
    found: _Collected, codes: np.ndarray, head: np.ndarray, arity: np.ndarray
) -> np.ndarray:
    """bool[num_lines]: lines such as P(,A) that look plain but lack a constant."""
    empty = found.index.get(b"")
    if empty is None:
        return np.zeros(len(head), np.bool_)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(codes == empty)])
    return before[head + 1 + arity] > before[head + 1]


def _collect_exact(found: _Collected, texts: Iterable[tuple[str, int]]) -> int | None:
    """Collect what texts at given offsets state.

    Returns the character of the last text at which something begins that it leaves unfinished.
    """
    names: list[bytes] = []
    starts: dict[Kind, list[int]] = {}
    places: dict[Kind, list[int]] = {}
    unfinished = None
    for text, offset in texts:
        for item in scan_facts(text):
            if isinstance(item, Fact):
                kind = (item.truth, item.predicate, item.function, len(item.constants))
                starts.setdefault(kind, []).append(len(names))
                places.setdefault(kind, []).append(offset + item.start)
                names.extend(map(str.encode, item.constants))
            elif isinstance(item, Declaration):
                known = found.declared.get(item.type, ())
                found.declared[item.type] = tuple(dict.fromkeys((*known, *item.constants)))
            elif isinstance(item, Unfinished):
                unfinished = item.start
            else:
                raise _Malformed
    codes = found.intern(names)
    for kind, first in starts.items():
        rows = codes[np.array(first)[:, None] + np.arange(kind[3])]
        found.add(kind, rows, np.array(places[kind], np.int64))
    return unfinished

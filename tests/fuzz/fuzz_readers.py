"""Read damaged files: each is read or refused by a `LapisError`, in bounded time and memory.

    python tests/fuzz/fuzz_readers.py --seconds 60 [--reader uai] [--seed 1]

Valid files of each format are damaged: numbers replaced, lines and pieces repeated, dropped or
swapped, texts truncated, bytes flipped, members of archives replaced. A reader must not raise
anything but a `LapisError`, take more than a second of processor time, or grow by more than 100 MB.
Files that fail are kept, and their paths printed. After a crash of the interpreter the last input
is the file `last…` in the printed folder.
"""

from __future__ import annotations

import argparse
import gzip
import io
import math
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

import lapis
from lapis import circuits, fields
from lapis.circuits.circuit_files import load_circuit, load_stored_network
from lapis.circuits.evaluation import posteriors
from lapis.circuits.factor_files import parse_uai, read_evidence, read_factor_file
from lapis.circuits.row_table import read_table
from lapis.data.database import Database
from lapis.errors import LapisError, LapisWarning
from lapis.inference.map.wcnf import network_of_clauses, read_wcnf, split_levels
from lapis.language import names, parse_program, print_program, read_model
from lapis.language.dialects import forclift, wfomc
from lapis.learning.weight_posterior import WeightPosterior
from lapis.optimisation.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

MAX_SECONDS = 1.0  # of processor time for one file
MAX_GROWTH = 100 * 2**20  # bytes
PATIENCE = 10.0  # seconds of processor time after which a reader is ended
ADDRESS_SPACE = 8 * 2**30  # bytes beyond those at the start, when run as a program
PEERS = Path(__file__).parent.parent / "peers"
MAX_KEPT = 20  # files
MAX_RANGE = 100_000  # constants


class Reader(NamedTuple):
    """A format: its suffix, valid files, and how it is read."""

    suffix: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], object]


def texts(*found: str) -> Callable[[], list[bytes]]:
    return lambda: [text.encode() for text in found]


def peers(suffix: str) -> Callable[[], list[bytes]]:
    """Return the files of other systems that the tests of their dialects read."""
    return lambda: [path.read_bytes() for path in sorted(PEERS.glob(f"*/*{suffix}"))]


def zipped(seeds: Callable[[], list[bytes]]) -> Callable[[], list[bytes]]:
    return lambda: [gzip.compress(seed, mtime=0) for seed in seeds()]


MODELS = (
    "person = {Anna, Bob}\nSmokes(person)\nCancer(person)\n1.5 Smokes(x) => Cancer(x)\n",
    "T(page, topic!)\nHas(word, page)\nHas(+w, p) => T(p, +t)\nT(p, X) v !T(p, t).\n",
    "person MotherOf(person)\nP(person)\n2 P(MotherOf(x)) ^ MotherOf(x) != y => P(y)\n",
    "n = {1,...,5}\nA(n)\n1 A(i) ^ i < 3 => A(i+1)\n@fixed 2 EXIST i,j (A(i) ^ i <= j)\n",
    "p(X,Y) -> q(Y).\n\\exists_{=1} Y: (p(X,Y)).\nd = 3\n|q| = 1\nq(d0), ~q(d1)\n",
    "1.5 \\exists_{=1} Y: (p(X,Y)) & r\nPd = 3\n|q| - 2 |p| <= 1\n2 p(X,Y) | X=Y\nExactlyOne[q,s].",
    '/* c */ Rain\nRain v Wet("a b")\n#include "x.mln"\nlog(2)/3 *Rain ^ Rain\n-2:20 Rain\n',
)
FACTS = (
    "Friends(Anna,Bob)\n!Smokes(Anna)\n?Cancer(Bob)\nMary = MotherOf(Anna)\nRain\n",
    'n = {1, ..., 4}\n// a comment\nP("a b", 3) P(c,4)\n/* two\nlines */ Q(1)\n',
)
TABLES = ("a,b\nAnna,Bob\nBob,\"a b\"\nEve,Bob\n", "x\n1\n2.5\n-3\n")  # fmt: skip
ROWS = ("0,1,1\n1,0,1\n0,0,?\n", "rain,wet,season\nyes,wet,spring\nno,dry,summer\nno,wet,\n")
UAI = (
    "MARKOV\n2\n2 3\n2\n2 0 1\n1 0\n\n6\n 1 2 3\n 4 5 0\n\n2\n 0.5 2\n",
    "BAYES\n3\n2 2 2\n3\n1 0\n2 0 1\n3 0 1 2\n2\n .5 .5\n4\n 1 0 .25 .75\n8\n"
    " .1 .9 .2 .8 1e-3 .999 0 1\n",
)
BIF = (
    "network n {\n}\nvariable a {\n  type discrete [ 2 ] { yes, no };\n}\n"
    "variable b {\n  type discrete [ 3 ] { low, mid, high };\n}\n"
    "probability ( a ) {\n  table 0.4, 0.6;\n}\n// comment\n"
    "probability ( b | a ) {\n  (yes) 0.1, 0.2, 0.7;\n  default 0.3, 0.3, 0.4; /* c */\n}\n",
)
EVIDENCE = ("1\n2 0 1 1 2\n", "1 0 1", "2 0 1\n1 2\n")
TBN = (
    "network learned {\n}\nvariable rain {\n  type discrete [ 2 ] { no, yes };\n}\n"
    'variable "w t" {\n  type discrete [ 2 ] { no, yes };\n}\n'
    "probability ( rain ) {\n  table 0.25, 0.75;\n}\n"
    'probability ( "w t" | rain ) {\n  split 1:\n  case rain = no:\n    table 0.9, 0.1;\n'
    "  case rain = yes:\n    table 0.3, 0.7;\n}\n",
)
AC = ("(2 2)\nv 0 0\nv 0 1\nn 0.3\nn 0.7\n* 0 2\n* 1 3\n+ 4 5\nv 1 0\nv 1 1\n+ 7 8\n* 6 9\nEOF\n",)
RRF = (
    "Smokes(person)\nFriends(person, person)\nroot:\n  -1.2   lonely(x)\n  0.3    Smokes(x)\n\n"
    "lonely(x):\n  -4     friend(x, y)\n\nfriend(x, y):\n  5      Friends(x, y)\n"
    "  @fixed 5      Smokes(y)\n  1 x != y\n",
)
WCNF = (
    "c comment\np wcnf 3 4 9\n9 1 2 0\n3 -1 0\n2 -2 3 0\n1 -3 0\n",
    "h 1 2 0\n3 -1 0\n2.5 -2 3\n0 1 1 -1 0\n",
)


def circuit_seeds() -> list[bytes]:
    rows = np.array([[0, 1, 0], [1, 1, 1], [0, 0, 0], [1, 0, 1]] * 10)
    learned = circuits.learn(rows, edge_costs=(0.1,))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.npz"
        circuits.save(circuits.parse(AC[0]), path)
        plain = path.read_bytes()
        learned.save(path)
        return [plain, path.read_bytes()]


@cache
def posterior_model() -> lapis.Model:
    return lapis.parse("t = {A, B, C}\nP(t)\nQ(t)\nP(x) => Q(x)\nQ(+x)")


def posterior_seeds() -> list[bytes]:
    facts = Database.parse("P(A) P(B) Q(A)")
    found = lapis.learn(posterior_model(), facts, estimate="mean", num_chains=2, random_state=0)
    assert found.posterior is not None
    with tempfile.TemporaryDirectory() as folder:
        found.posterior.save(Path(folder) / "p.npz")
        return [(Path(folder) / "p.npz").read_bytes()]


def checkpoint_seeds() -> list[bytes]:
    arrays = {"state.weights": np.ones(3), "log.length": np.array([1, 2]),
              "log.result": np.ones(3), "log.digest": np.arange(2)}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(Path(folder) / "c", Checkpoint("pscg", "data", 1.5, arrays))
        return [(Path(folder) / "c").read_bytes()]


def table_seeds(suffix: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        facts = Database.parse("P(A,B) P(B,C) P(C,A) P(D,A)")
        with tempfile.TemporaryDirectory() as folder:
            facts.write(Path(folder) / "d", format="parquet")
            return [path.read_bytes() for path in (Path(folder) / "d").glob(f"P{suffix}")]

    return seeds


def array_seeds() -> list[bytes]:
    found = []
    for array in (np.eye(4, dtype=np.int8), np.array([["a", "b"], ["b", ""]]), np.eye(3)):
        stream = io.BytesIO()
        np.save(stream, array)
        found.append(stream.getvalue())
    return found


def read_program(path: Path) -> None:
    """Parse a program; it must print and parse back to itself."""
    text = path.read_bytes().decode("utf-8", "replace")
    program = parse_program(text)
    assert parse_program(print_program(program)) == program


def read_circuit(path: Path) -> None:
    circuit = load_circuit(path)
    load_stored_network(path, circuit)
    if circuit.properties.decomposable and circuit.properties.smooth:
        posteriors(circuit, np.full((1, circuit.num_variables), -1, np.int32))


def read_problem(path: Path) -> object:
    clauses = read_wcnf(path)
    return network_of_clauses(clauses, split_levels(clauses).weight)


def read_observations(path: Path) -> object:
    return read_evidence(path, parse_uai(UAI[0]))


PARQUET = table_seeds(".parquet")
READERS: dict[str, Reader] = {
    "mln": Reader(".mln", texts(*MODELS), read_model),
    "program": Reader(".mln", texts(*MODELS), read_program),
    "peers": Reader(".mln", peers(".mln"), read_model),
    "wmc": Reader(".wmc", peers(".wmc"), read_model),
    "fg": Reader(".fg", peers(".fg"), read_model),
    "problog": Reader(".pl", peers(".pl"), read_model),
    "db": Reader(".db", texts(*FACTS), Database.read),
    "db.gz": Reader(".db.gz", zipped(texts(*FACTS)), Database.read),
    "csv": Reader(".csv", texts(*TABLES), Database.read),
    "csv.gz": Reader(".csv.gz", zipped(texts(*TABLES)), Database.read),
    "parquet": Reader(".parquet", PARQUET, Database.read),
    "rows": Reader(".csv", texts(*ROWS), read_table),
    "rows.gz": Reader(".csv.gz", zipped(texts(*ROWS)), read_table),
    "rows.npy": Reader(".npy", array_seeds, read_table),
    "rows.parquet": Reader(".parquet", PARQUET, read_table),
    "uai": Reader(".uai", texts(*UAI), read_factor_file),
    "uai.gz": Reader(".uai.gz", zipped(texts(*UAI)), read_factor_file),
    "bif": Reader(".bif", texts(*BIF), read_factor_file),
    "evid": Reader(".evid", texts(*EVIDENCE), read_observations),
    "tbn": Reader(".tbn", texts(*TBN), read_factor_file),
    "ac": Reader(".ac", texts(*AC), read_circuit),
    "npz": Reader(".npz", circuit_seeds, read_circuit),
    "rrf": Reader(".rrf", texts(*RRF), fields.read),
    "wcnf": Reader(".wcnf", texts(*WCNF), read_problem),
    "wcnf.gz": Reader(".wcnf.gz", zipped(texts(*WCNF)), read_wcnf),
    "posterior": Reader(
        ".npz", posterior_seeds, lambda path: WeightPosterior.read(path, posterior_model())
    ),
    "checkpoint": Reader(
        ".npz", checkpoint_seeds, lambda path: read_checkpoint(path, "pscg", "data")
    ),
}

NUMBERS = (
    "0", "-1", "-0", "00", "1e999", "1e-999", "inf", "-inf", "nan", "²", "٣", "1_0", "0x10", "--3",
    "2147483647", "2147483648", "4294967296", "9223372036854775808", "1000000000", "1e18", "1.5.2",
    "9" * 30, "9" * 5000, "0." + "1" * 5000, "1e-99999999999999999999999", "1e99999999999999999999",
    "", "x", "0.1", "7", "3.0",
)  # fmt: skip
PIECES = (
    "(", ")", "[", "]", "{", "}", ",", ".", "...", "!", "?", "+", "*", "@", ":", ";", "=", "!=",
    "<=", "=>", "<=>", "^", "v", "|", "&", "~", "EXIST x ", "FORALL ", "#include ", '"', "\\", "//",
    "/*", "*/", "\n", "\r\n", " ", "x", "X", "P(x)", "1", "1e999", "-", "0x", "é", "∀", "\t", "\0",
    "'", "\ufeff", "\u2028", "\x1c", "case rain = no:\n", "probability ( a | a ) {", "table ",
    "split 1:\n", "root:\n", "h ", "p wcnf 1 1\n", "EOF\n", "v 0 0\n", "a,b\n",
)  # fmt: skip
MUCH_AT_ONCE = 20_000  # characters
NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?")


def damage(reader: Reader, seed: bytes, rng: random.Random) -> bytes:
    """Return a damaged file."""
    if reader.suffix.endswith(".gz"):
        if rng.random() < 0.3:
            return damage_bytes(seed, rng)
        return gzip.compress(damage_text(gzip.decompress(seed), rng), mtime=0)
    if reader.suffix == ".npz":
        return damage_archive(seed, rng)
    if reader.suffix == ".npy":
        return damage_bytes(seed, rng) if rng.random() < 0.5 else damage_array(seed, rng)
    if reader.suffix == ".parquet":
        return damage_bytes(seed, rng)
    return damage_text(seed, rng)


def damage_bytes(content: bytes, rng: random.Random) -> bytes:
    """Flip, drop, repeat or insert bytes, or truncate."""
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5, 30))):
        at = rng.randint(0, len(found))
        match rng.randint(0, 4):
            case 0 | 1 if found:
                found[at % len(found)] ^= 1 << rng.randint(0, 7)
            case 2:
                found[at:at] = rng.randbytes(rng.randint(1, 8))
            case 3:
                del found[at : at + rng.randint(1, 20)]
            case 4 if rng.random() < 0.2:
                del found[at:]
    return bytes(found)


def damage_text(content: bytes, rng: random.Random) -> bytes:
    """Damage a text in a few places."""
    if rng.random() < 0.1:
        return damage_bytes(content, rng)
    text = content.decode("utf-8", "replace")
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        text = rng.choice((replace_number, change_lines, insert_piece, drop_part, move_word))(
            text, rng
        )
    return text.encode("utf-8", "surrogatepass")


def replace_number(text: str, rng: random.Random) -> str:
    found = [*NUMBER.finditer(text)]
    if not found:
        return text
    place = rng.choice(found)
    return text[: place.start()] + rng.choice(NUMBERS) + text[place.end() :]


def change_lines(text: str, rng: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    at = rng.randrange(len(lines))
    match rng.randint(0, 3):
        case 0:
            del lines[at]
        case 1:
            lines[at:at] = [lines[at]] * repetitions(lines[at], rng)
        case 2:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at:] = [lines[at][: rng.randint(0, len(lines[at]))]]
    return "".join(lines)


def repetitions(piece: str, rng: random.Random) -> int:
    return rng.choice((2, 3, 300, MUCH_AT_ONCE)) // max(1, len(piece)) or 2


def insert_piece(text: str, rng: random.Random) -> str:
    at = rng.randint(0, len(text))
    piece = rng.choice(PIECES) if rng.random() < 0.9 else chr(rng.randint(1, 0x2FFF))
    return text[:at] + piece * rng.choice((1, repetitions(piece, rng))) + text[at:]


def drop_part(text: str, rng: random.Random) -> str:
    at = rng.randint(0, len(text))
    return text[:at] + text[at + rng.choice((1, 1, 2, 4, 20)) :]


def move_word(text: str, rng: random.Random) -> str:
    """Replace a word by another word of the text."""
    found = [*re.finditer(r"\w+", text)]
    if not found:
        return text
    place, other = rng.choice(found), rng.choice(found)
    return text[: place.start()] + other[0] + text[place.end() :]


def damage_archive(content: bytes, rng: random.Random) -> bytes:
    """Damage the bytes of an archive, or replace, drop or rename its members."""
    if rng.random() < 0.3:
        return damage_bytes(content, rng)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice([*members])
    match rng.randint(0, 5):
        case 0:
            del members[name]
        case 1:
            members[name] = members[rng.choice([*members])]
        case 2:
            members[name] = damage_bytes(members[name], rng)
        case _:
            members[name] = damage_array(members[name], rng)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", rng.choice((0, 8))) as archive:
        for own, member in members.items():
            archive.writestr(own, member)
    return stream.getvalue()


def damage_array(content: bytes, rng: random.Random) -> bytes:
    """Replace an array by one of other entries, another type or shape, or a huge declared shape."""
    array = np.load(io.BytesIO(content))
    stream = io.BytesIO()
    if rng.random() < 0.15:
        shape = rng.choice(((10**12,), (2**32, 2**32), (10**9, 3), (-1,), ()))
        head = {"descr": array.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, head)
        stream.write(array.tobytes())
        return stream.getvalue()
    if array.dtype.kind == "U" and array.ndim == 0:
        text = damage_text(str(array).encode(), rng).decode("utf-8", "replace").replace("\0", "")
        np.save(stream, np.array(text))
        return stream.getvalue()
    flat = array.copy().reshape(-1)
    if len(flat) and array.dtype.kind in "if":
        values = (
            (0, -1, 1, 2, 127, -128) if array.dtype.kind == "i" else (0, np.nan, np.inf, -1e300)
        )
        for _ in range(rng.choice((1, 1, 3))):
            flat[rng.randrange(len(flat))] = rng.choice(values)
    shapes: list[Callable[[np.ndarray], np.ndarray]] = [
        lambda a: a.reshape(array.shape), lambda a: a.reshape(-1, 1), lambda a: a[:-1],
        lambda a: a[:0], lambda a: np.concatenate((a, a)), lambda a: a.astype(str),
        lambda a: a.astype(float) if a.dtype.kind in "iuf" else a, lambda a: a == a,
    ]  # fmt: skip
    np.save(stream, rng.choice([shapes[0], *shapes])(flat))
    return stream.getvalue()


class Late(BaseException):
    """A reader took far too long; no handler of `Exception` catches it."""


@contextmanager
def patience() -> Iterator[None]:
    """Raise `Late` in a block that takes too long."""

    def raise_late(number: int, frame: FrameType | None) -> None:
        raise Late

    before = signal.signal(signal.SIGPROF, raise_late)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def small_ranges() -> Iterator[None]:
    """Limit the constants that a range declares: ten million are legal, and take a gigabyte."""
    limits = ((names, "MAX_RANGE"), (wfomc, "MAX_SIZE"), (forclift, "MAX_SIZE"))
    with ExitStack() as patches:
        for module, name in limits:
            patches.enter_context(patch.object(module, name, MAX_RANGE))
        yield


def memory(field: str) -> int:
    """Return bytes of this process: VmRSS, or VmHWM since the last reset."""
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"{field}:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) << 10


def find_failure(reader: Reader, path: Path) -> str | None:
    """Read a file; return what is wrong with the reader, None if nothing is."""
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    size, start = memory("VmRSS"), time.process_time()
    try:
        with patience(), small_ranges(), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", LapisWarning)
            reader.read(path)
    except LapisError as error:
        str(error).encode()
    except (Exception, Late):
        return traceback.format_exc().strip()
    seconds, growth = time.process_time() - start, memory("VmHWM") - size
    if seconds > MAX_SECONDS:
        return f"{seconds:.1f} seconds"
    return f"{growth >> 20} MB" if growth > MAX_GROWTH else None


def fuzz(reader: Reader, folder: Path, seed: str) -> Iterator[tuple[bytes, str | None]]:
    """Yield damaged files without end, each with the failure that it causes."""
    rng = random.Random(seed)
    seeds = reader.seeds()
    path = folder / f"last{reader.suffix}"
    for content in seeds:
        path.write_bytes(content)
        find_failure(reader, path)  # compiles kernels and imports modules
    while True:
        content = damage(reader, rng.choice(seeds), rng)
        path.write_bytes(content)
        yield content, find_failure(reader, path)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="for all readers together")
    parser.add_argument("--reader", choices=[*READERS], action="append", help="only this one")
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else time.time_ns()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (memory("VmSize") + ADDRESS_SPACE, hard))
    folder = Path(tempfile.mkdtemp(prefix="lapis-fuzz-"))
    print(f"seed {seed}, files in {folder}", flush=True)
    chosen = given.reader or [*READERS]
    kept: dict[str, Path] = {}
    for number, name in enumerate(chosen):
        reader, tried = READERS[name], 0
        end = math.inf  # set by the first file: seeds are made before
        for content, failure in fuzz(reader, folder, f"{seed} {name}"):
            end = min(end, time.monotonic() + given.seconds / len(chosen))
            tried += 1
            kind = f"{name}: {failure.splitlines()[-1][:60]}" if failure else ""
            if failure and kind not in kept and len(kept) < MAX_KEPT:
                kept[kind] = folder / f"{name}-{tried}{reader.suffix}"
                kept[kind].write_bytes(content)
                print(f"\n{kept[kind]}\n{failure}", file=sys.stderr, flush=True)
            if time.monotonic() > end:
                break
        print(f"{name}: {tried:,} files ({number + 1} of {len(chosen)})", flush=True)
    print(f"{len(kept)} kinds of failures (seed {seed})")
    return 1 if kept else 0


if __name__ == "__main__":
    sys.exit(main())

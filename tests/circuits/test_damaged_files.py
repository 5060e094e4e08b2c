"""Kinds of damage to files of networks, circuits and evidence, each refused with its place."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lapis.circuits.circuit_files import load_circuit, parse_ac, save_circuit
from lapis.circuits.factor_files import parse_bif, parse_uai, parse_uai_evidence, read_factor_file
from lapis.circuits.row_table import read_table
from lapis.circuits.tree_networks.tbn_files import parse_network
from lapis.errors import LapisError, TooLarge

UAI = "MARKOV {n} {sizes} 1 1 0 {count} {entries}"


def uai(n: str = "1", sizes: str = "2", count: str = "2", entries: str = "1 1") -> str:
    return UAI.format(n=n, sizes=sizes, count=count, entries=entries)


def bif_variable(name: str) -> str:
    return f"variable {name} {{ type discrete [ 2 ] {{ x, y }}; }}\n"


def bif(*tables: str) -> str:
    return "".join(map(bif_variable, "abc")) + "\n".join(tables)


def many_parents(number: int) -> str:
    names = [f"v{i}" for i in range(number)]
    return (
        "".join(map(bif_variable, [*names, "c"]))
        + "".join(f"probability ( {name} ) {{ table 0.5, 0.5; }}\n" for name in names)
        + f"probability ( c | {', '.join(names)} ) {{ default 0.5, 0.5; }}"
    )


def tbn(table: str, size: str = "2", parents: str = "") -> str:
    return (
        f"variable a {{ type discrete [ {size} ] {{ x, y }}; }}\n"
        f"probability ( a{parents} ) {{ {table} }}"
    )


def deep_tree(depth: int) -> str:
    """Return a tree that is split on variables with one state."""
    names = [f"p{i}" for i in range(depth)]
    return (
        "".join(f"variable {n} {{ type discrete [ 1 ] {{ x }}; }}\n" for n in [*names, "a"])
        + "".join(f"probability ( {name} ) {{ table 1; }}\n" for name in names)
        + f"probability ( a | {', '.join(names)} ) {{\n"
        + "".join(f"case {name} = x:\n" for name in names)
        + "table 1; }"
    )


NOT_NUMBERS = ("--3", "²", "٣", "9" * 5000, "1_0", "x", "-3")
WRONG_SIZES = [
    (parse_uai, uai(n=word), 8, "expected a number of variables") for word in NOT_NUMBERS
] + [(parse_uai, uai(sizes=word), 10, "expected a number of states") for word in NOT_NUMBERS]
WRONG_ENTRIES = [
    (parse_uai, uai(entries=f"1 {word}"), 22, "an entry of a table must be a number, finite")
    for word in ("inf", "nan", "1e999", "-1", "²", "1_0", "infinity", "0x1")
]
WRONG_PROBABILITIES = [
    (parse_bif, bif(f"probability ( a ) {{ table 1, {word}; }}"), 30, "this is not a probability")
    for word in ("inf", "nan", "1e999", "-1", "²", "1_0")
]
WRONG_NODES = [
    (parse_ac, f"(2)\nv 0 0\n{line}\nEOF", 1, "this is not a node of a circuit")
    for line in (
        "n 1e-99999999999999999999999", "n inf", "n nan", "n -1", "n 1_0", "n ²", "n " + "9" * 5000,
        "v 0 ²", "v 0 2", "v -1 0", "v 0", "+ 5", "+ 1", "+ -1", "+", "* " + "9" * 5000, "x", "",
    )
]  # fmt: skip
Wrong = tuple[Callable[[str], object], str, int, str]  # parser, text, column, message
WRONG: list[Wrong] = [
    *WRONG_SIZES, *WRONG_ENTRIES, *WRONG_PROBABILITIES, *WRONG_NODES,
    (parse_uai, "", 1, "the file ends too early"),
    (parse_uai, "MARKOV\n-1\n0\n", 1, "expected a number of variables"),
    (parse_uai, "MARKOV 1 2 -3", 12, "expected a number of tables"),
    (parse_uai, "MARKOV 1 0 1 1 0 0", 10, "expected a number of states"),
    (parse_uai, "MARKOV 1 2 1000000000 -1", 23, "expected a number of variables"),
    (parse_uai, "MARKOV 1000000000 2", 19, "the file ends too early"),
    (parse_uai, "MARKOV 1 2 1 1 1 2 1 1", 16, "expected a variable below 1"),
    (parse_uai, "MARKOV 1 2 1 2 0 0 4 1 1 1 1", 18, "a variable occurs twice in this scope"),
    (parse_uai, "MARKOV 1 1000000000 0", 10, "more than 1,000,000 states of variables without"),
    (parse_uai, "MARKOV 2 4294967296 4294967296 1 2 0 1 0", 40,
     "this table should have 18,446,744,073,709,551,616 entries"),
    (parse_uai, uai(entries="1 1 1"), 24, "unexpected text after the last table"),
    (parse_bif, "", 1, "no variables"),
    (parse_bif, "/* never closed", 1, "this comment is never closed"),
    (parse_bif, "/*/", 1, "this comment is never closed"),
    (parse_bif, bif("probability () { table 0.25, 0.75; }"), 13, "a table needs a variable"),
    (parse_bif, bif("probability ( a | a ) { (x) 1, 0; (y) 0, 1; }"), 13, "a is its own parent"),
    (parse_bif, bif("probability ( a | b, b ) { default 1, 0; }"), 13, "b is a parent twice"),
    (parse_bif, "variable a { type discrete [ " + "9" * 5000 + " ] { x }; }", 5035,
     "a should have 999"),
    (parse_bif, bif_variable("a") + "probability ( a ) {" * 3, 1, "this block has no closing"),
    (parse_network, "", 1, "the network has no variables"),
    (parse_network, tbn("table 1, 0;", "9" * 5000), 5035, "a should have 999"),
    (parse_network, tbn("table 1, 0;", "²"), 36, "a should have ² different states"),
    (parse_network, tbn("table 1e-99999999999999999999999, 1;"), 27, "expected a probability"),
    (parse_network, tbn("table nan, 1;"), 27, "expected a probability"),
    (parse_network, tbn("table 1e999, 1;"), 21, "these probabilities do not sum to 1"),
    (parse_network, tbn("split " + "9" * 5000 + ": table 0, 1;"), 27, "expected the number of a"),
    (parse_network, deep_tree(1000), 1, "decision trees are at most 400 splits deep"),
    (parse_ac, "", 1, "the first line must have the numbers of states"),
    (parse_ac, "(-2 2)\nv 1 0\nEOF", 1, "the first line must have the numbers of states"),
    (parse_ac, "(0)\nn 1\nEOF", 1, "the first line must have the numbers of states"),
    (parse_ac, "(²)\nn 1\nEOF", 1, "the first line must have the numbers of states"),
    (parse_ac, "(1000000000)\nv 0 0\nEOF", 1, "more than 1,000,000 states are not supported"),
    (parse_ac, f"({'9' * 5000})\nv 0 0\nEOF", 1, "more than 1,000,000 states are not supported"),
    (parse_ac, "(2)\nEOF", 4, "a circuit needs at least one node"),
    (parse_ac, "(2)\nv 0 0\n", 1, "this is not a node of a circuit"),
    (parse_ac, "(2)\nv 0 0", 6, "the last line, EOF, is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("parse", "text", "column", "message"), WRONG, ids=range(len(WRONG)))
def test_kinds_of_damage_are_located(
    parse: Callable[[str], object], text: str, column: int, message: str
) -> None:
    with pytest.raises(LapisError) as raised:
        parse(text)
    assert raised.value.message.startswith(message)
    span = raised.value.span
    assert span is not None
    assert span.source.line_column(span.start)[1] == column


@pytest.mark.parametrize("number", [30, 70])
def test_a_table_of_many_parents_is_too_large(number: int) -> None:
    with pytest.raises(TooLarge, match=f"the table of c with {number} parents has"):
        parse_bif(many_parents(number))


def test_sizes_are_shared_by_variables() -> None:
    """Unused variables of a few states each are read, a million states at most."""
    assert parse_uai("MARKOV 3 2 1000 2 0").num_variables == 3


NET = "MARKOV 3 2 2 3 1 1 0 2 1 1"
EVIDENCE = {
    "2 1 0 2 1": {1: 0, 2: 1},  # UAI 2014 and merlin
    "2\n1 0\n2 1\n": {1: 0, 2: 1},
    "1\n2 1 0 2 1\n": {1: 0, 2: 1},  # UAI 2008: one sample
    "1 1 1 0": {1: 0},
    "1 1 0": {1: 0},
    "2 1 0 1 0": {1: 0},  # twice the same
    "0": {},
    "1 0": {},
    "": {},
}
WRONG_EVIDENCE = {
    "2 1 0": (5, "expected a number, and as many pairs of variable and state"),
    "x": (1, "expected a number, a variable or a state"),
    "1 -1 0": (3, "expected a number, a variable or a state"),
    "1 ² 0": (3, "expected a number, a variable or a state"),
    f"1 {'9' * 5000} 0": (3, "expected a number, a variable or a state"),
    "1 3 0": (3, "there is no variable 3, only 3"),
    "1 2 3": (5, "there is no state 3 of variable 2"),
    "2 1 0 1 1": (7, "variable 1 has another state above"),
    "2 1 1 0 1 1 1": (1, "this file has 2 samples of evidence, and only one is read"),
    "1000000000 1 0": (14, "expected a number, and as many pairs of variable and state"),
}


@pytest.mark.parametrize("text", EVIDENCE)
def test_evidence_of_all_dialects(text: str) -> None:
    assert parse_uai_evidence(text, parse_uai(NET)) == EVIDENCE[text]


@pytest.mark.parametrize("text", WRONG_EVIDENCE, ids=range(len(WRONG_EVIDENCE)))
def test_wrong_evidence_is_located(text: str) -> None:
    column, message = WRONG_EVIDENCE[text]
    with pytest.raises(LapisError) as raised:
        parse_uai_evidence(text, parse_uai(NET), "f.evid")
    assert str(raised.value).startswith(f"f.evid:1:{column}: {message}")


@pytest.fixture
def stored(tmp_path: Path) -> dict[str, np.ndarray]:
    """Return the arrays in the file of a coin."""
    coin = parse_ac("(2)\nv 0 0\nv 0 1\nn 0.3\nn 0.7\n* 0 2\n* 1 3\n+ 4 5\nEOF")
    save_circuit(coin, tmp_path / "coin.npz")
    with np.load(tmp_path / "coin.npz") as found:
        return dict(found)


def headed(stored: dict[str, np.ndarray], **changes: object) -> dict[str, np.ndarray]:
    head = {**json.loads(str(stored["head"])), **changes}
    return {**stored, "head": np.array(json.dumps(head))}


Arrays = dict[str, np.ndarray]
DAMAGE: dict[str, Callable[[Arrays], Arrays]] = {
    "deep head": lambda a: {**a, "head": np.array("[" * 100_000)},
    "head is a list": lambda a: {**a, "head": np.array("[]")},
    "no names": lambda a: headed(a, names=[]),
    "a name twice": lambda a: headed(a, names=["x", "x"], states=[["0", "1"]] * 2),
    "names are a number": lambda a: headed(a, names=7),
    "no states": lambda a: headed(a, states=[[]]),
    "a state twice": lambda a: headed(a, states=[["0", "0"]]),
    "more states": lambda a: headed(a, states=[["0", "1"], ["0"]]),
    "properties missing": lambda a: headed(a, properties={}),
    "array missing": lambda a: {name: array for name, array in a.items() if name != "child"},
    "two dimensions": lambda a: {**a, "start": a["start"].reshape(-1, 1)},
    "no start": lambda a: {**a, "start": a["start"][:0]},
    "fewer nodes": lambda a: {**a, "kind": a["kind"][:-1]},
    "unknown kind": lambda a: {**a, "kind": a["kind"] + 9},
    "negative child": lambda a: {**a, "child": a["child"] - 9},
    "child above its parent": lambda a: {**a, "child": a["child"] + 4},
    "leaf out of range": lambda a: {**a, "leaf": a["leaf"] + 7},
    "fractions": lambda a: {**a, "child": a["child"] + 0.5},
    "NaN": lambda a: {**a, "log_parameter": a["log_parameter"] * np.nan},
    "infinity": lambda a: {**a, "log_parameter": a["log_parameter"] * 0 + np.inf},
    "texts": lambda a: {**a, "log_parameter": a["log_parameter"].astype(str)},
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_circuits_are_refused(kind: str, stored: Arrays, tmp_path: Path) -> None:
    path = tmp_path / "damaged.npz"
    with path.open("wb") as file:
        np.savez(file, **DAMAGE[kind](stored))
    refuse_circuit(path)


def refuse_circuit(path: Path) -> None:
    with pytest.raises(LapisError) as raised:
        load_circuit(path)
    assert str(raised.value) == (
        f"{path}: this is not a circuit, or a damaged one\n    circuits are .npz files, as "
        "`lapis circuit learn -o` writes them, or .ac files"
    )


def test_damaged_archives_are_refused(stored: Arrays, tmp_path: Path) -> None:
    coin, path = (tmp_path / "coin.npz").read_bytes(), tmp_path / "damaged.npz"
    method = bytearray(coin)
    method[coin.index(b"PK\x03\x04") + 8] = method[coin.index(b"PK\x01\x02") + 10] = 77
    flipped = bytes(byte ^ 0xFF if 60 <= place < 90 else byte for place, byte in enumerate(coin))
    for content in (
        b"",
        b"PK",
        coin[:100],
        coin[:-1],
        coin[1:],
        bytes(method),
        flipped,
        b"\0" * 99,
    ):
        path.write_bytes(content)
        refuse_circuit(path)
    with zipfile.ZipFile(path, "w") as archive:
        for name in stored:
            stream = io.BytesIO()
            head = {"descr": "<i8", "fortran_order": False, "shape": (10**12,)}
            np.lib.format.write_array_header_1_0(stream, head)
            archive.writestr(f"{name}.npy", stream.getvalue())
    refuse_circuit(path)


TEXTS = {
    ".uai": uai(),
    ".bif": bif("probability ( a ) { table 1, 0; }"),
    ".tbn": tbn("table 1, 0;"),
}


@pytest.mark.parametrize("suffix", [".uai", ".bif", ".tbn", ".uai.gz", ".bif.gz"])
def test_files_of_another_encoding_or_cut_ones(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"n{suffix}"
    text = TEXTS[suffix.removesuffix(".gz")]
    pack = gzip.compress if suffix.endswith(".gz") else bytes
    path.write_bytes(pack(text.encode() + b"\n\xff"))
    with pytest.raises(LapisError) as raised:
        read_factor_file(path)
    line = text.count("\n") + 2
    assert str(raised.value).startswith(f"{path}:{line}:1: the file is not UTF-8 text\n")
    if suffix.endswith(".gz"):
        path.write_bytes(pack(text.encode())[:-9])
        with pytest.raises(LapisError, match="cannot be read: Compressed file ended"):
            read_factor_file(path)
    with pytest.raises(LapisError, match="there is no such file"):
        read_factor_file(tmp_path / f"none{suffix}")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.npy", b"", "cannot be read"),
        ("t.npy", b"\x93NUMPY\x01\x00\x05\x00abc", "cannot be read"),
        ("t.csv.gz", b"\x1f\x8b\x08", "cannot be read"),
        ("t.csv", b"a,b\n\xff,1\n", "this is not a table"),
        ("t.csv", b"a,b\n" + b'"' + b"x" * 200_000 + b'",1\n', "this is not a table: field larger"),
        ("t.csv", b"\n\n", "the file is empty"),
        ("t.csv", b"", "the file is empty"),
        ("t.csv", b"a,b\n1\n", "row 2 has 1 column, the first has 2"),
        ("t.parquet", b"PAR1", "Invalid Input Error|too small"),
    ],
)
def test_damaged_tables_are_refused(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(LapisError, match=message) as raised:
        read_table(path)
    assert str(raised.value).startswith(str(path))

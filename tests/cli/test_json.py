"""Every command prints one JSON document with --json, and docs/commands.md lists its keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from cli_run import Run
from lapis.cli import commands  # noqa: F401  (fills COMMANDS)
from lapis.cli.command_line import COMMANDS
from lapis.cli.precompile import JOBS
from lapis.methods import methods_of
from lapis.registry.option_field import options_of

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
NO_JSON = {"completion": "prints a script for a shell", "serve": "serves a page"}

# Calls of each command that together print all keys of its document.
CALLS: Mapping[str, Sequence[str]] = {
    "demo": [""],
    "warm": [""],
    "doctor": [""],
    "explain-error": ["arity"],
    "new": ["mine"],
    "check": ["m.mln", "m.mln d.db", "odd.mln"],
    "count": ["m.mln d.db", "m.mln d.db --counts ijgp --measure-error"],
    "ground": ["m.mln d.db -q Smokes", "m.mln d.db -q Smokes -o n.uai"],
    "infer": [
        "m.mln d.db e.db -q Smokes,Cancer",
        "m.mln d.db e.db -q Smokes --method gibbs --max-samples 400",
        "m.mln d.db -q Smokes --method mcsat --max-samples 400 --plan --bounds",
        *(f"m.mln e.db -q Smokes --method {name}" for name in methods_of("infer")),
        "m.mln d.db -q Smokes,Cancer --posterior p.npz --num-draws 4",
        "hard.mln d.db -q Smokes --relax",
        "m.mln d.db -q Smokes --engine duckdb -o a.parquet",
        "m.mln d.db -q Smokes --why Smokes(Bob) --change-to 0.5",
    ],
    "plan": ["m.mln d.db -q Smokes"],
    "map": [
        "m.mln d.db e.db -q Smokes --method maxwalksat",
        *(f"m.mln e.db -q Smokes,Cancer --method {name}" for name in methods_of("map")),
        "hard.mln d.db -q Smokes --relax",
        "m.mln d.db -q Smokes --engine duckdb -o b.parquet",
    ],
    "lift": ["m.mln d.db", "m.mln --sizes person=4 --classes --tree", "count.mln --method cells"],
    "learn": [
        "m.mln d.db e.db",
        "one.mln one.db -q Cancer --prior none",
        "m.mln d.db e.db -q Cancer --estimate mean --posterior-method laplace --num-draws 10",
    ],
    "structure": ["bare.mln e.db --max-literals 2"],
    "score": ["m.mln d.db -q Smokes"],
    "evaluate": ["m.mln d.db e.db -q Smokes --objective pseudo --jobs 1"],
    "recipe classify": [
        "items.csv --links links.csv --prior 1 --near-prior 0 --link-prior 1 --truth-column truth",
    ],
    "recipe link": ["facts.csv --test facts.csv --penalty 0.001 --jobs 1"],
    "field from": ["m.mln", "m.mln -o f.rrf"],
    "field extract": ["f.rrf"],
    "field draw": ["f.rrf"],
    "field infer": [
        "f.rrf d.db -q Smokes",
        "f.rrf d.db -q Smokes --method gibbs --max-samples 400",
    ],
    "field map": ["f.rrf d.db -q Smokes", "f.rrf d.db -q Smokes --method icm"],
    "field learn": ["f.rrf d.db -q Smokes --max-iterations 5"],
    "field score": ["f.rrf d.db -q Smokes"],
    "circuit learn": [
        "rows.csv -o c.npz --network c.tbn",
        "rows.csv --edge-costs 0.1,1 --valid rows.csv",
    ],
    "circuit score": ["c.npz rows.csv"],
    "circuit query": [
        "c.npz -q a=1 --most-likely", "c.npz --rows rows.csv", "c.tbn -q a=1 --evidence b=1",
        "c.tbn --rows rows.csv --evidence-rows some.csv",
    ],
    "circuit sample": ["c.npz -n 3"],
    "circuit info": ["c.npz", "c.tbn"],
    "circuit compile": ["m.mln d.db -q Smokes"],
    "circuit marginals": ["m.mln d.db -q Smokes"],
    "circuit approximate": ["m.mln d.db -q Smokes --num-samples 100"],
    "recipe resolve": [
        "people.csv --blocking all --truth-column who",
        "people.csv --blocking all --explain 1,2",
        "people.csv --blocking town --count",
    ],
}  # fmt: skip

RARE = "modes"  # only if chains stay apart: tests/inference/sampling/test_mode_weights.py

FILES = {
    "items.csv": "id,x,label,truth\nA,1,u,u\nB,2,v,v\nC,1,,u\n",
    "links.csv": "a,b\nA,C\n",
    "facts.csv": "head,relation,tail\n"
    + "".join(f"M{k},husband,W{k}\nW{k},wife,M{k}\n" for k in range(30)),
    "e.db": "Friends(A, B) Smokes(A) Cancer(A) Smokes(B) Cancer(C) Friends(C, D)",
    "odd.mln": "P(t)\nQ(t)\n1 P(x) v !P(x)\nt = {A}\n",
    "hard.mln": "Friends(person, person)\nSmokes(person)\n1 Smokes(x)\nSmokes(x).\n!Smokes(x).\n",
    "count.mln": "P(t)\nt = {A, B}\nP(x) v P(y).\n",
    "one.mln": "Smokes(t)\nCancer(t)\nSmokes(x) => Cancer(x)\n",
    "one.db": "Smokes(A) Cancer(A) Smokes(B) Cancer(B) !Smokes(C) Cancer(D)",
    "bare.mln": "Friends(person, person)\nSmokes(person)\nCancer(person)\n",
    "rows.csv": "a,b,c\n0,0,1\n1,1,1\n1,1,0\n0,0,0\n1,0,1\n",
    "people.csv": "id,name,town,who\n1,anna berg,rome,A\n2,ana berg,rome,A\n3,bob cole,oslo,B\n",
    "some.csv": "a,b,c\n*,0,*\n*,1,*\n*,*,*\n*,*,0\n*,*,*\n",
}


def write_files(run: Run) -> None:
    for name, text in FILES.items():
        run.write(name, text)


def prepare(run: Run, command: str) -> None:
    """Write what the calls read; other commands make fields, circuits and posteriors."""
    write_files(run)
    text = " ".join(CALLS[command])
    if "p.npz" in text:
        learned = "learn m.mln d.db e.db -o m.mln --estimate mean --posterior-method laplace"
        assert run(*learned.split(), "--num-draws", "10", "--posterior", "p.npz")[0] == 0
    if command.startswith("field ") and command != "field from":
        assert run("field", "from", "m.mln", "-o", "f.rrf")[0] == 0
    if "c.npz" in text or "c.tbn" in text:
        made = run("circuit", "learn", "rows.csv", "-o", "c.npz", "--network", "c.tbn")
        assert made[0] == 0


class Documented(NamedTuple):
    """The keys that the page lists for a command."""

    keys: set[str]  # paths; those of the entries of a list follow []
    open: set[str]  # paths of objects whose keys depend on the input
    like: str | None  # a command whose keys it shares


def read_page() -> dict[str, Documented]:
    """Read the keys of each command; text in parentheses explains."""
    text = PAGE.read_text(encoding="utf-8").partition("<!-- keys -->")[2]
    block = text.partition("<!-- end keys -->")[0]
    found: dict[str, Documented] = {}
    for name, body in re.findall(r"^    (\S.*)\n((?: {8}.*\n)+)", block, re.MULTILINE):
        plain = re.sub(r"\([^()]*\)", "", re.sub(r"\n {9,}", " ", body))
        like = re.search(r"^ *as ([\w ]+)", plain)
        own = Documented(set(), set(), like and like[1])
        for line in re.sub(r"^ *as [\w ]+", "", plain).splitlines():
            add_line(own, line.strip(" ;"))
        found[name] = own
    return found


def add_line(own: Documented, line: str) -> None:
    """Add the keys of a line "key, key" or "list[]: key, key"."""
    head, colon, rest = line.partition(":")
    path = head.strip() if colon else ""
    parts = [part.removesuffix("[]") for part in path.split(".")] if path else []
    own.keys.update(
        ".".join(path.split(".")[: i + 1]).removesuffix("[]") for i in range(len(parts))
    )
    for key in re.split(r"[,;]", rest if colon else head):
        name = key.strip()
        if name:
            full = f"{path}.{name}" if path else name
            bare = full.removesuffix("{}").removesuffix("[]")
            own.keys.add(bare)
            if full.endswith("{}"):
                own.open.add(bare)


def find_keys(value: object, open_paths: set[str], path: str = "") -> Iterator[str]:
    """Yield the paths of all keys of a document, not of those within open objects."""
    if isinstance(value, list):
        for inner in value:
            yield from find_keys(inner, open_paths, f"{path}[]")
    elif isinstance(value, dict):
        for key, inner in value.items():
            own = f"{path}.{key}" if path else key
            yield own
            if own not in open_paths:
                yield from find_keys(inner, open_paths, own)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_one_document_with_the_keys_of_the_page(
    name: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = {flag for option in options_of(COMMANDS[name].options) for flag in option.flags}
    if name in NO_JSON:
        assert "--json" not in flags
        return
    monkeypatch.setattr("lapis.cli.precompile.JOBS", {"sampling": JOBS["sampling"]})
    prepare(run, name)
    listed = read_page()
    own = listed[name]
    more = listed[own.like] if own.like else Documented(set(), set(), None)
    printed: set[str] = set()
    for call in CALLS[name]:
        # One document on the output stream, and nothing else.
        document = run.json(*name.split(), *call.split())
        assert isinstance(document, dict)
        printed.update(find_keys(document, own.open | more.open))
    assert {
        "not on the page": printed - own.keys - more.keys,
        "not printed": {key for key in own.keys - printed if not key.startswith(RARE)},
    } == {"not on the page": set(), "not printed": set()}


def test_every_command_is_called() -> None:
    assert set(CALLS) | set(NO_JSON) == set(COMMANDS) == set(read_page()) | set(NO_JSON)

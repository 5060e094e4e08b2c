"""Mistakes of a new user: each ends in a message that says what is wrong, and in an exit code."""

from __future__ import annotations

import pytest

from cli_run import Run

FILES = {
    "empty.mln": b"",
    "latin.db": b"Smokes(J\xf6rg)\n",
    "latin.mln": b"// Z\xfcrich\nSmokes(p)\n",
    "Smokes.csv": b"who\nAnna\n",
    "rows.csv": b"a,b\n0,1\n0\n",
}
NO_CIRCUIT = "circuits are .npz files, as `lapis circuit learn -o` writes them, or .ac files"
ORDER = "    the model (.mln) comes first, then the data (.db, or tables)\n"
UNKNOWN = "error: unknown predicate {!r} in the query\n    did you mean 'Smokes'?\n"

MESSAGES: dict[str, tuple[int, str]] = {
    # Files.
    "infer none.mln d.db -q Smokes": (
        1, "error: cannot read none.mln: No such file or directory\n"),
    "infer m.mln none.db -q Smokes": (1, "error: none.db: there is no such file or folder\n"),
    "infer folder d.db -q Smokes": (1, "error: cannot read folder: Is a directory\n"),
    "infer m.mln folder -q Smokes": (1, "error: folder: there is no CSV or Parquet file here\n"),
    "infer d.db m.mln -q Smokes": (
        1, f"error: m.mln: this is a model, not data\n{ORDER}"),
    "infer m.mln m.mln -q Smokes": (1, f"error: m.mln: this is a model, not data\n{ORDER}"),
    "infer Smokes.csv d.db -q Smokes": (
        1, f"error: Smokes.csv: this is data, not a model\n{ORDER}"),
    "infer empty.mln -q Smokes": (
        1, "error: unknown predicate 'Smokes' in the query\n"
        "    the model declares no predicates\n"),
    "infer m.mln latin.db -q Smokes": (
        1, "latin.db:1:9: the file is not UTF-8 text\n    Smokes(J\N{REPLACEMENT CHARACTER}rg)\n"
        "            ^\n    save the file as UTF-8\n"),
    "infer latin.mln -q Smokes": (
        1, "latin.mln:1:5: the file is not UTF-8 text\n    // Z\N{REPLACEMENT CHARACTER}rich\n"
        "        ^\n    save the file as UTF-8\n"),
    "circuit learn rows.csv": (1, "error: rows.csv: row 3 has 1 column, the first has 2\n"),
    "circuit info d.db": (
        1, f"error: d.db: this is not a circuit, or a damaged one\n    {NO_CIRCUIT}\n"),
    # Queries.
    "infer m.mln d.db -q Smoks": (1, UNKNOWN.format("Smoks")),
    "infer m.mln d.db -q smokes": (1, UNKNOWN.format("smokes")),
    "infer m.mln d.db -q SMOKES": (1, UNKNOWN.format("SMOKES")),
    "infer m.mln d.db -q smokes(Anna)": (1, UNKNOWN.format("smokes")),
    "score m.mln d.db -q Smoks": (1, UNKNOWN.format("Smoks")),
    "infer m.mln d.db -q Smokes(anna)": (
        1, "<query>:1:1: unknown constant 'anna' of type 'person' in the query Smokes(anna)\n"
        "    Smokes(anna)\n    ^^^^^^^^^^^^\n    did you mean 'Anna'?\n"),
    "infer m.mln d.db -q Smokes(Zed)": (
        1, "<query>:1:1: unknown constant 'Zed' of type 'person' in the query Smokes(Zed)\n"
        "    Smokes(Zed)\n    ^^^^^^^^^^^\n"),
    "infer m.mln -q Smokes(Zed)": (
        1, "<query>:1:1: unknown constant 'Zed' of type 'person' in the query Smokes(Zed)\n"
        "    Smokes(Zed)\n    ^^^^^^^^^^^\n"
        "    'person' has no constants: name some in the data or the model\n"),
    "infer m.mln d.db -q Smokes(": (
        1, "<query>:1:7: '(' is never closed\n    Smokes(\n          ^\n"),
    "infer m.mln d.db": (
        1, "error: there is no query, and every atom is known\n"
        "    name the predicates to predict (-q P,Q), or mark facts unknown (?fact)\n"),
    # Options and commands.
    "infer m.mln d.db -q Smokes --method gibs": (
        1, "error: unknown method 'gibs'\n    did you mean 'gibbs'?\n"),
    "infer m.mln d.db -q Smokes --methd gibbs": (
        2, "error: unknown option --methd\n    did you mean --method?\n"),
    "infer m.mln d.db -q Smokes --method": (
        2, "error: --method needs a value\n    see lapis infer --help\n"),
    "infr m.mln d.db": (2, "error: no command 'infr'\n    did you mean infer?\n"),
    "infer": (2, "error: missing MODEL\n    see lapis infer --help\n"),
    "lift m.mln --sizes persn=3": (1, "error: unknown type 'persn'\n    did you mean 'person'?\n"),
    "learn m.mln": (1, "error: nothing to learn from\n    name data files\n"),
}  # fmt: skip


@pytest.mark.parametrize("typed", MESSAGES)
def test_a_mistake_ends_in_its_message(typed: str, run: Run) -> None:
    for name, content in FILES.items():
        (run.folder / name).write_bytes(content)
    (run.folder / "folder").mkdir()
    code, out, err = run(*typed.split())
    assert (code, out, err) == (MESSAGES[typed][0], "", MESSAGES[typed][1])


def test_a_long_line_is_shown_around_the_mistake(run: Run) -> None:
    """The caret stands below the word."""
    text = "1 " + " v ".join(f"Smokes(P{i})" for i in range(3000)) + " v Smoks(A)"
    run.write("long.mln", f"Smokes(person)\n{text}\n")
    code, out, err = run("infer", "long.mln", "-q", "Smokes")
    first, shown, carets, hint = err.splitlines()
    assert (code, out) == (1, "")
    assert first == f"long.mln:2:{text.index('Smoks') + 1}: unknown predicate 'Smoks'"
    assert len(shown) < 420
    assert shown[carets.index("^") : carets.rindex("^") + 1] == "Smoks"
    assert hint.startswith("    did you mean 'Smokes'")


def test_an_atom_that_the_data_decides_is_answered(run: Run) -> None:
    (row,) = run.json("infer", "m.mln", "d.db", "-q", "Smokes(Anna)")["atoms"]
    assert (row["atom"], row["probability"]) == ("Smokes(Anna)", 1.0)


@pytest.mark.parametrize("words", ["infer m.mln d.db -q Smokes", "learn m.mln d.db"])
def test_control_c_ends_without_a_traceback(
    words: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"lapis.operations.{words.split()[0]}", press)
    assert run(*words.split()) == (130, "", "stopped\n")

"""Formulas that expand into very much: every command answers or refuses, after bounded work."""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from pathlib import Path

import pytest

import lapis
import lapis.counting.differences.signed_conjunctions as differences
import lapis.inference.exact.elimination_order as elimination_order
import lapis.relational.plan_compiler as compiler
from cli_run import Run
from lapis.counting.rule_counts import count_rules
from lapis.errors import TooLarge

MOST_WORK = 50_000  # conjunctions multiplied, terms contracted, orders tried

TYPES = "t = {A, B, C, D, E, F, G}\nP(t)\nR(t, t)\nC(t)\n" + "".join(f"P{i}(t)\n" for i in range(8))
FACTS = "P(A) P(C) R(A,B) R(B,C) R(C,C) C(A) C(B) P0(A) P1(A) P1(B) P2(C) P3(G)"
FORMULAS = {
    "equivalences": "EXIST x (C(x) <=> P0(x) <=> P1(x) <=> P2(x) <=> P3(x))",
    "many equivalences": "EXIST x (C(x) <=> " + " <=> ".join(f"P{i}(x)" for i in range(7)) + ")",
    "one predicate": " v ".join(f"P(x{i})" for i in range(24)),
    "a conjunction": " ^ ".join(f"P(x{i})" for i in range(14)),
    "a ring": " v ".join(f"R(x{i}, x{(i + 1) % 12})" for i in range(12)),
    "stars": " v ".join(f"R(x{i}, y) v R(y, x{i})" for i in range(7)),
    "existentials": "EXIST y (" + " v ".join(f"(R(x{i},y) ^ R(y,x{i}))" for i in range(3)) + ")",
}
COMMANDS = [
    ("count", "m.mln", "d.db"),
    ("infer", "m.mln", "-q", "{query}", "--method", "exact"),
    ("map", "m.mln", "-q", "{query}", "--time-limit", "1"),
    ("ground", "m.mln", "-q", "{query}", "-o", "out.json"),
    ("score", "m.mln", "d.db"),
    ("learn", "m.mln", "d.db", "-o", "out.mln"),
    *(
        ("learn", "m.mln", "d.db", "-q", "{query}", "-o", "out.mln", "--objective", objective)
        for objective in ("conditional", "max-margin")
    ),
    ("learn", "m.mln", "d.db", "-o", "out.mln", "--objective", "likelihood"),
]


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails as soon as more is expanded than the limits allow, however fast the machine is."""
    done = 0

    def counted(module: object, name: str) -> None:
        original: Callable[..., object] = getattr(module, name)

        def count(*arguments: object, **options: object) -> object:
            nonlocal done
            done += 1
            assert done <= MOST_WORK, f"{name} and others were called too often"
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, count)

    counted(differences, "conjoin")
    counted(compiler, "plan_contraction")
    counted(elimination_order, "_greedy_order")


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: f"{words[0]} {words[-1]}")
@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.slow
def test_every_command_answers_or_refuses(
    name: str,
    command: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Run(tmp_path, capsys)
    formula = FORMULAS[name]
    run.write("m.mln", f"{TYPES}1 {formula}\n")
    run.write("d.db", FACTS)
    query = next(word for word in ("R", "P", "C") if f"{word}(" in formula)
    quick = ("--max-iterations", "2", "--time-limit", "5") if command[0] == "learn" else ()
    words = [word.format(query=query) for word in command]
    code, _, err = run(*words, *quick)
    assert code in (0, 3), err
    if code == 3:
        assert any(digit.isdigit() for digit in err)  # the estimate


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("size", [14, 24])
def test_literals_without_a_shared_variable_are_counted(size: int) -> None:
    model = lapis.parse(f"{TYPES}1 " + " v ".join(f"P(x{i})" for i in range(size)))
    [row] = count_rules(model, [lapis.Database.parse(FACTS)])
    assert row.true == 7**size - 5**size


@pytest.mark.usefixtures("bounded")
def test_a_ring_of_false_atoms_is_counted() -> None:
    model = lapis.parse(f"{TYPES}1 {FORMULAS['a ring']}")
    [row] = count_rules(model, [lapis.Database.parse(FACTS)])
    absent = [[1.0] * 7 for _ in range(7)]
    for one, other in ((0, 1), (1, 2), (2, 2)):
        absent[one][other] = 0.0
    closed_walks = [row[:] for row in absent]
    for _ in range(11):
        closed_walks = [
            [sum(row[k] * absent[k][j] for k in range(7)) for j in range(7)] for row in closed_walks
        ]
    assert row.true == 7**12 - sum(closed_walks[i][i] for i in range(7))


@pytest.mark.usefixtures("bounded")
def test_differences_refuse_with_their_number() -> None:
    model = lapis.parse(f"{TYPES}1 {FORMULAS['one predicate']}")
    with pytest.raises(TooLarge, match=f"{2**24 - 1:,} terms; the limit is 2,048") as refused:
        lapis.learn(model, lapis.Database.parse(FACTS))
    assert refused.value.code == "too-many-terms"


@pytest.mark.usefixtures("bounded")
def test_differences_of_many_literals_are_exact() -> None:
    """d(g) of the conjunction of k atoms P(x): with n true it has n^k true groundings."""
    from lapis.counting.differences.atom_classes import find_difference_classes

    size = 7
    model = lapis.parse(f"{TYPES}1 " + " ^ ".join(f"P(x{i})" for i in range(size)))
    found = find_difference_classes(lapis.build_problem(model, lapis.Database.parse(FACTS)), "P")
    gained = {True: 2**size - 1, False: 3**size - 2**size}
    assert sum(comb(size, k) * 2**k for k in range(size)) == gained[False]
    assert dict(zip(found.truth.tolist(), found.difference.tolist(), strict=True)) == gained

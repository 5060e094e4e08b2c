"""Work that is slow in one stage, for the sweep of time and memory limits.

Each case is a command line without limits. Its files are made by functions named after the stage
that they make slow. With no limit, most of the cases take minutes, hours or more memory than a
machine has.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

Maker = Callable[[Path], None]


@dataclass(frozen=True)
class SlowCase:
    name: str
    words: str  # the command line
    make: Maker  # the files, in a folder


def write(folder: Path, name: str, lines: Iterable[str]) -> None:
    with open(folder / name, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


# ---------------------------------------------------------------------------------- reading


def many_facts(folder: Path) -> None:
    numbers = random.Random(1)
    pairs = ((numbers.randrange(10**6), numbers.randrange(10**6)) for _ in range(3_000_000))
    write(folder, "many.db", (f"Friends(P{a},P{b})" for a, b in pairs))
    smokers(folder)


def many_rules(folder: Path) -> None:
    names = [f"P{i}" for i in range(2000)]
    rules = (
        f"0.{i} {names[i % 2000]}(x) ^ {names[7 * i % 2000]}(x) => {names[13 * i % 2000]}(x)"
        for i in range(1, 60_000)
    )
    write(folder, "rules.mln", [*(f"{name}(t)" for name in names), *rules])
    write(folder, "few.db", ["P1(A)", "P2(B)"])


def many_rows(folder: Path) -> None:
    numbers = random.Random(2)
    rows = (",".join("01"[numbers.random() < 0.3] for _ in range(60)) for _ in range(150_000))
    write(folder, "rows.csv", rows)


def wide_table(folder: Path) -> None:
    """A folder of tables as data."""
    smokers(folder)
    (folder / "tables").mkdir()
    numbers = random.Random(3)
    rows = (f"P{numbers.randrange(10**6)},P{numbers.randrange(10**6)}" for _ in range(3_000_000))
    write(folder / "tables", "Friends.csv", ["a,b", *rows])


def large_wcnf(folder: Path) -> None:
    numbers = random.Random(4)

    def clause() -> str:
        literals = " ".join(
            str(numbers.choice((-1, 1)) * numbers.randint(1, 200_000)) for _ in "abc"
        )
        return f"{numbers.randint(1, 9)} {literals} 0"

    write(folder, "large.wcnf", (clause() for _ in range(800_000)))


def large_uai(folder: Path) -> None:
    """A Markov network of a grid, whose treewidth is 40."""
    size = 40
    numbers = random.Random(5)
    cells = [(i, j) for i in range(size) for j in range(size)]
    edges = [(i * size + j, i * size + j + 1) for i, j in cells if j + 1 < size]
    edges += [(i * size + j, i * size + size + j) for i, j in cells if i + 1 < size]
    tables = [f"4 {' '.join(str(numbers.uniform(0.1, 9)) for _ in range(4))}" for _ in edges]
    write(
        folder,
        "grid.uai",
        [
            "MARKOV",
            str(size * size),
            " ".join(["2"] * size * size),
            str(len(edges)),
            *(f"2 {a} {b}" for a, b in edges),
            *tables,
        ],
    )


def deep_field(folder: Path) -> None:
    """A field of 400 parfeatures over 4 predicates."""
    features = [f"f{i}(x):\n  1.0 P{i % 4}(x)\n  -0.5 P{(i + 1) % 4}(y)" for i in range(400)]
    root = ["root:", *(f"  0.5 f{i}(x)" for i in range(400))]
    write(folder, "deep.rrf", [*(f"P{i}(t)" for i in range(4)), "", *root, *features])
    facts = (f"P{i % 4}(C{i // 4 * 3})" for i in range(400))
    write(folder, "deep.db", facts)


def small_field(folder: Path) -> None:
    rules = ["1.5 Smokes(x) => Cancer(x)", "1.1 Friends(x,y) ^ Smokes(x) => Smokes(y)"]
    write(
        folder, "small.mln", ["Friends(person,person)", "Smokes(person)", "Cancer(person)", *rules]
    )
    write(folder, "small.db", graph_facts(400, 5, 11))


# ------------------------------------------------------------------- resolution and clauses


def many_cubes(folder: Path) -> None:
    """A formula whose negation has 2^23 disjoint cubes."""
    names = [f"P{i}" for i in range(24)]
    write(
        folder,
        "parity.mln",
        [
            *(f"{name}(t)" for name in names),
            "t = {A, B}",
            "1 " + " <=> ".join(f"{name}(x)" for name in names),
        ],
    )


def counted_quantifier(folder: Path) -> None:
    write(
        folder,
        "counted.mln",
        [
            "t = {1, ..., 40}",
            "U(t)",
            "V(t, t)",
            "1 EXIST{>=9} x U(x)",
            "0.3 V(x, y) ^ U(x) => U(y)",
        ],
    )
    write(folder, "counted.db", [f"V({1 + i * i % 40},{1 + 7 * i % 40})" for i in range(60)])


def plus_table(folder: Path) -> None:
    constants = ",".join(f"A{i}" for i in range(60))
    write(folder, "plus.mln", ["P(t,t,t,t)", f"t = {{{constants}}}", "1 P(+a,+b,+c,+d)"])
    write(folder, "plus.db", ["P(A1,A2,A3,A4)"])


# -------------------------------------------------------------------- planning and grounding


def wide_arity(folder: Path) -> None:
    variables = [f"x{i}" for i in range(120)]
    write(
        folder,
        "arity.mln",
        [
            f"P({','.join('t' * 120)})",
            "t = {A}",
            "Q(t)",
            *(f"0.{i} P({','.join(variables)}) ^ Q(x{i}) => Q(x{i + 1})" for i in range(1, 60)),
        ],
    )


def long_join(folder: Path) -> None:
    """A rule whose body is a grid of 6 × 6 variables."""
    atoms = [f"R(x{i}{j},x{i}{j + 1})" for i in range(6) for j in range(5)]
    atoms += [f"R(x{i}{j},x{i + 1}{j})" for i in range(5) for j in range(6)]
    write(folder, "grid.mln", ["R(t,t)", "Q(t)", f"1 {' ^ '.join(atoms)} => Q(x00)"])
    numbers = random.Random(6)
    write(
        folder,
        "grid.db",
        (f"R(C{numbers.randrange(60)},C{numbers.randrange(60)})" for _ in range(700)),
    )


def dense_graph(folder: Path) -> None:
    """Cliques of five in a dense graph."""
    numbers = random.Random(7)
    pairs = ((a, b) for a in range(250) for b in range(250) if numbers.random() < 0.5)
    write(folder, "dense.db", (f"R(C{a},C{b})" for a, b in pairs))
    names = "abcde"
    atoms = [f"R({x},{y})" for x in names for y in names if x < y]
    write(folder, "dense.mln", ["R(t,t)", "Q(t)", f"1 {' ^ '.join(atoms)} => Q(a)"])


def transitive(folder: Path) -> None:
    """An open relation of 500 constants, transitive: 125 million groundings."""
    constants = ", ".join(f"C{i}" for i in range(500))
    rules = ["1 R(x,y) ^ R(y,z) => R(x,z)", "-1 R(x,y)"]
    write(folder, "transitive.mln", ["R(t,t)", f"t = {{{constants}}}", *rules])
    write(folder, "transitive.db", (f"R(C{i},C{i * i % 500})" for i in range(250)))


# --------------------------------------------------------------------------------- inference


def graph_facts(people: int, friends: int, seed: int) -> list[str]:
    numbers = random.Random(seed)
    lines = [
        f"Friends(P{a},P{numbers.randrange(people)})" for a in range(people) for _ in range(friends)
    ]
    known = [a for a in range(people) if numbers.random() < 0.2]
    return lines + [("" if numbers.random() < 0.5 else "!") + f"Smokes(P{a})" for a in known]


def smokers(folder: Path) -> None:
    rules = ["1.5 Smokes(x) => Cancer(x)", "1.1 Friends(x,y) ^ Smokes(x) => Smokes(y)"]
    head = ["Friends(person,person)", "Smokes(person)", "Cancer(person)"]
    write(folder, "smokers.mln", [*head, *rules])


def large_smokers(folder: Path) -> None:
    smokers(folder)
    write(folder, "large.db", graph_facts(20_000, 10, 8))


def spin_glass(folder: Path) -> None:
    """A square of 35 × 35 spins with random couplings and fields: exact sums need 2^35 states."""
    size = 35
    numbers = random.Random(9)
    lines = ["S(site)", f"site = {{0, ..., {size * size - 1}}}"]
    for i in range(size):
        for j in range(size):
            here = i * size + j
            lines.append(f"{numbers.gauss(0, 0.3):.3f} S({here})")
            for there in ([here + 1] if j + 1 < size else []) + (
                [here + size] if i + 1 < size else []
            ):
                lines.append(f"{numbers.gauss(0, 2):.3f} S({here}) <=> S({there})")
    write(folder, "glass.mln", lines)


def hard_colours(folder: Path) -> None:
    """A random graph of 400 nodes with hard colours and soft wishes."""
    numbers = random.Random(10)
    write(
        folder,
        "colours.mln",
        [
            "E(n,n)",
            "C(n,k!)",
            "k = {R, G, B, Y}",
            "E(x,y) => !(C(x,c) ^ C(y,c)).",
            "0.7 E(x,y) ^ E(y,z) ^ C(x,c) => C(z,c)",
        ],
    )
    write(
        folder,
        "colours.db",
        (f"E(N{first},N{numbers.randrange(first)})" for first in range(1, 400) for _ in range(4)),
    )


def unliftable(folder: Path) -> None:
    """Rules that compile to large first-order circuits."""
    atoms = ["P(x)", "Q(x)", "R(x,y)", "S(x,y)", "T(x,y)", "U(y)"]
    numbers = random.Random(11)
    rules = []
    for _ in range(14):
        chosen = [("!" if numbers.random() < 0.5 else "") + a for a in numbers.sample(atoms, 4)]
        rules.append(f"{numbers.uniform(-1, 1):.2f} {' v '.join(chosen)}")
    write(
        folder, "unliftable.mln", [*("P(t)", "Q(t)", "R(t,t)", "S(t,t)", "T(t,t)", "U(t)"), *rules]
    )


# ---------------------------------------------------------------------------------- learning


def records(folder: Path) -> None:
    """Entity resolution of 1,400 records."""
    numbers = random.Random(12)
    write(
        folder,
        "records.mln",
        [
            "Word(rec, word)",
            "Dup(rec, rec)",
            "Word(x,+w) ^ Word(y,+w) => Dup(x,y)",
            "Dup(x,y) ^ Dup(y,z) => Dup(x,z)",
            "Dup(x,y)",
        ],
    )
    facts = [f"Word(R{r},W{numbers.randrange(300)})" for r in range(1400) for _ in range(6)]
    facts += [f"Dup(R{r},R{r + 1})" for r in range(0, 1400, 2)]
    write(folder, "records.db", facts)


def department(folder: Path) -> None:
    """People, courses and papers, with several relations."""
    numbers = random.Random(13)
    head = [
        "adv(p,p)",
        "teach(p,c)",
        "assist(p,c)",
        "wrote(p,q)",
        "tall(p)",
        "prof(p)",
        "year(p,y)",
    ]
    write(folder, "department.mln", head)
    write(
        folder,
        "department-rules.mln",
        [
            *head,
            "adv(x,y) => prof(y)",
            "wrote(x,q) ^ wrote(y,q) ^ prof(y) => adv(x,y)",
            "teach(y,c) ^ assist(x,c) => adv(x,y)",
            "prof(x)",
            "adv(x,y)",
            "tall(x)",
        ],
    )
    for number in range(3):
        facts = []
        for s in range(120):
            facts += [
                f"adv(S{s},F{s % 15})",
                f"assist(S{s},C{numbers.randrange(40)})",
                f"wrote(S{s},Q{numbers.randrange(60)})",
                f"year(S{s},Y{s % 5})",
            ]
            facts += [f"tall(S{s})"] * (numbers.random() < 0.5)
        for f in range(15):
            facts += [f"prof(F{f})", f"teach(F{f},C{numbers.randrange(40)})", f"year(F{f},Y0)"]
            facts += [f"wrote(F{f},Q{numbers.randrange(60)})" for _ in range(6)]
        write(folder, f"department{number}.db", facts)


def coupled_worlds(folder: Path) -> None:
    """Complete worlds of coupled people, too wide for exact sums."""
    smokers(folder)
    numbers = random.Random(14)
    facts = graph_facts(1500, 8, 14)
    facts = [fact for fact in facts if "Friends" in fact]
    facts += [f"Smokes(P{a})" for a in range(1500) if numbers.random() < 0.4]
    facts += [f"Cancer(P{a})" for a in range(1500) if numbers.random() < 0.3]
    write(folder, "coupled.db", facts)
    write(
        folder,
        "part.db",
        [fact for fact in facts if "Cancer" not in fact or numbers.random() < 0.5],
    )


# ----------------------------------------------------------------------------------- circuits


def circuit_rows(folder: Path) -> None:
    """Rows of 100 dependent columns."""
    numbers = random.Random(15)
    rows = []
    for _ in range(8000):
        row = [numbers.random() < 0.5]
        while len(row) < 100:
            row.append(
                numbers.random()
                < (0.85 if row[numbers.randrange(max(0, len(row) - 4), len(row))] else 0.2)
            )
        rows.append(",".join("01"[value] for value in row))
    write(folder, "learn.csv", rows)
    write(folder, "valid.csv", rows[:2000])


INFER = (
    "auto", "exact", "enumerate", "gibbs", "mcsat", "tempering", "cluster", "ais", "bp",
    "count-gibbs", "circuit", "lifted", "cells",
)  # fmt: skip
SAMPLED = ("auto", "gibbs", "mcsat", "tempering", "cluster", "ais", "count-gibbs")
MAP = ("auto", "flow", "ilp", "lazy", "maxwalksat", "icm", "exact", "enumerate")
OBJECTIVES = ("pseudo", "weighted-pseudo", "conditional", "max-margin")
EXPECTATIONS = (
    "exact", "mcsat", "gibbs", "map", "count-gibbs", "count-map", "count-maxwalksat",
)  # fmt: skip
OPTIMIZERS = ("newton", "vp", "cd", "vp-pw", "cd-pw", "dn", "scg", "pscg", "adam", "adagrad")
LEARNERS = ("lapis", "lhl", "busl", "msl")
COUPLED = "smokers.mln coupled.db -o out.mln"
DEPARTMENTS = "department.mln department0.db department1.db -o out.mln"
TESTED = "department-rules.mln department0.db department1.db department2.db"

COMMANDS: dict[Maker, dict[str, str]] = {
    many_facts: {
        "read facts": "infer smokers.mln many.db -q Smokes",
        "read facts, check": "check smokers.mln many.db",
        "read facts, count": "count smokers.mln many.db",
        "read facts, store": "infer smokers.mln many.db -q Smokes --engine duckdb",
    },
    many_rules: {
        "read rules": "check rules.mln",
        "read rules, infer": "infer rules.mln few.db -q P0",
        "read rules, plan": "plan rules.mln few.db -q P0",
        "read rules, field": "field from rules.mln -o out.rrf",
    },
    many_rows: {"read rows": "circuit learn rows.csv -o out.npz"},
    wide_table: {"read tables": "infer smokers.mln tables -q Smokes"},
    large_wcnf: {"read clauses": "map large.wcnf"},
    large_uai: {"read factors": "circuit compile grid.uai -o out.npz"},
    many_cubes: {
        "cubes": "infer parity.mln -q P0,P1",
        "cubes, check": "check parity.mln",
        "cubes, map": "map parity.mln -q P0,P1",
        "cubes, lift": "lift parity.mln",
        "cubes, count": "count parity.mln",
    },
    counted_quantifier: {
        "counted": "infer counted.mln counted.db -q U",
        "counted, open": "infer counted.mln -q U,V",
        "counted, map": "map counted.mln counted.db -q U",
        "counted, lift": "lift counted.mln",
    },
    plus_table: {
        "plus": "infer plus.mln plus.db -q P",
        "plus, count": "count plus.mln plus.db",
        "plus, learn": "learn plus.mln plus.db -o out.mln",
    },
    wide_arity: {
        "arity": "infer arity.mln -q P,Q",
        "arity, map": "map arity.mln -q P,Q",
        "arity, lift": "lift arity.mln",
    },
    long_join: {
        "join": "infer grid.mln grid.db -q Q",
        "join, count": "count grid.mln grid.db",
        "join, store": "count grid.mln grid.db --engine duckdb",
        "join, learn": "learn grid.mln grid.db -o out.mln",
    },
    dense_graph: {
        "dense": "infer dense.mln dense.db -q Q",
        "dense, count": "count dense.mln dense.db",
        "dense, ijgp": "count dense.mln dense.db --counts ijgp --measure-error",
        "dense, store": "count dense.mln dense.db --engine duckdb",
        "dense, score": "score dense.mln dense.db",
        "dense, learn": "learn dense.mln dense.db -o out.mln --counts ijgp",
    },
    transitive: {
        "transitive": "infer transitive.mln transitive.db -q R",
        "transitive, ground": "ground transitive.mln transitive.db -q R -o out.json",
        "transitive, map": "map transitive.mln transitive.db -q R",
        "transitive, score": "score transitive.mln transitive.db",
    },
    large_smokers: {
        "large": "infer smokers.mln large.db -q Smokes,Cancer --precision .001",
        "large, bounds": "infer smokers.mln large.db -q Smokes,Cancer --bounds",
        "large, store": "infer smokers.mln large.db -q Smokes,Cancer --engine duckdb",
        "large, open": "infer smokers.mln large.db -q Smokes,Friends",
        "large, plan": "plan smokers.mln large.db -q Smokes,Friends",
        "large, map": "map smokers.mln large.db -q Smokes,Cancer",
    },
    spin_glass: {
        **{
            f"glass, {method}": f"infer glass.mln -q S --method {method}"
            + " --precision .0001" * (method in SAMPLED)
            for method in INFER
        },
        **{f"glass, map {method}": f"map glass.mln -q S --method {method}" for method in MAP},
        "glass, bounds": "infer glass.mln -q S --method bp --bounds",
        "glass, compile": "circuit compile glass.mln -q S -o out.npz",
    },
    hard_colours: {
        "colours": "infer colours.mln colours.db -q C",
        "colours, mcsat": "infer colours.mln colours.db -q C --method mcsat",
        "colours, map": "map colours.mln colours.db -q C",
        "colours, lazy": "map colours.mln colours.db -q C --method lazy",
        "colours, relax": "map colours.mln colours.db -q C --relax",
    },
    unliftable: {
        "lift": "lift unliftable.mln --sizes t=300",
        "lift, circuit": "lift unliftable.mln --sizes t=300 --method circuit",
        "lift, cells": "lift unliftable.mln --sizes t=300 --method cells",
        "lift, ground": "lift unliftable.mln --sizes t=30 --method ground",
    },
    records: {
        "records": "learn records.mln records.db -q Dup -o out.mln",
        "records, all": "learn records.mln records.db -o out.mln",
        "records, score": "score records.mln records.db -q Dup",
    },
    coupled_worlds: {
        **{
            f"learn {name}": f"learn {COUPLED} -q Smokes,Cancer --objective {name}"
            for name in OBJECTIVES
        },
        **{
            f"learn by {name}": f"learn {COUPLED} -q Smokes,Cancer --expectation {name}"
            for name in EXPECTATIONS
        },
        **{
            f"learn with {name}": f"learn {COUPLED} -q Smokes,Cancer --optimizer {name}"
            for name in OPTIMIZERS
        },
        "learn likelihood": f"learn {COUPLED} --objective likelihood",
        "learn by lifted": f"learn {COUPLED} --objective likelihood --expectation lifted",
        "learn unobserved": "learn smokers.mln part.db -q Smokes,Cancer --unobserved Cancer "
        "-o out.mln",
        "learn mean, nuts": f"learn {COUPLED} -q Smokes,Cancer --objective pseudo --estimate mean",
        "learn mean, laplace": f"learn {COUPLED} --objective pseudo --estimate mean "
        "--posterior-method laplace",
    },
    department: {
        "evaluate": f"evaluate {TESTED} -q adv",
        **{
            f"structure {name}": f"structure {DEPARTMENTS} --method {name} --max-literals 5"
            for name in LEARNERS
        },
        "structure lift-graph": f"structure {DEPARTMENTS} --method lift-graph",
        "structure for": f"structure {DEPARTMENTS} -q adv --max-literals 5",
    },
    circuit_rows: {
        "circuit learn greedy": "circuit learn learn.csv --method greedy --edge-costs 0.01 "
        "-o out.npz",
        "circuit learn quick": "circuit learn learn.csv --method quick --edge-costs 0.01 "
        "-o out.npz",
        "circuit learn tree": "circuit learn learn.csv --valid valid.csv --method tree "
        "--num-components 20 -o out.npz",
        "circuit mixture": "circuit learn learn.csv --valid valid.csv --num-components 8 "
        "--edge-costs 0.1,0.05,0.01 -o out.npz",
        "circuit network": "circuit learn learn.csv --network out.tbn --edge-costs 0.01 -o out.npz",
    },
    small_field: {"field from": "field from small.mln --others --num-random 3000 -o out.rrf"},
    deep_field: {
        "field infer": "field infer deep.rrf deep.db -q P0 --precision .0001",
        "field map": "field map deep.rrf deep.db -q P0",
        "field learn": "field learn deep.rrf deep.db -o out.rrf",
        "field learn likelihood": "field learn deep.rrf deep.db --objective likelihood -o out.rrf",
        "field score": "field score deep.rrf deep.db -q P0",
    },
}
CASES = tuple(
    SlowCase(name, words, make)
    for make, commands in COMMANDS.items()
    for name, words in commands.items()
)

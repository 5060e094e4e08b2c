"""Weighted first-order model counting by cells: published problems, structures, friends and
smokers.

    python benchmarks/wfomc.py            every table
    python benchmarks/wfomc.py math       one of them: math, files, structures, smokers

The problem files are read from LAPIS_DATA (wfomc/). Seconds are CPU seconds of one run, reading
included. A file that takes more than LIMIT seconds is not solved.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from protocol import DATA

import lapis
from lapis.errors import LapisError
from lapis.lifted.lifted_answer import Lifted

PROBLEMS = DATA / "wfomc"
LIMIT = 120  # seconds

GRAPH = "E(v_, v_)\n!E(x,x).\nE(x,y) => E(y,x).\n"
FUNCTION = "F(t, t)\nEXIST{=1} y F(x,y).\n"
STRUCTURES = {
    "everyone has someone": "F(t, t)\nEXIST y F(x,y).\n",
    "functions": FUNCTION,
    "permutations": FUNCTION + "EXIST{=1} x F(x,y).\n",
    "derangements": FUNCTION + "EXIST{=1} x F(x,y).\n!F(x,x).\n",
    "2-regular graphs": GRAPH + "EXIST{=2} y E(x,y).\n",
    "3-regular graphs": GRAPH + "EXIST{=3} y E(x,y).\n",
    "4-regular graphs": GRAPH + "EXIST{=4} y E(x,y).\n",
    "graphs without isolated vertices": GRAPH + "EXIST y E(x,y).\n",
    "3-coloured graphs": GRAPH
    + "R(v_)\nG(v_)\nB(v_)\nR(x) v G(x) v B(x).\n!(R(x) ^ G(x)).\n!(R(x) ^ B(x)).\n"
    + "!(G(x) ^ B(x)).\n"
    + "E(x,y) => !(R(x) ^ R(y)) ^ !(G(x) ^ G(y)) ^ !(B(x) ^ B(y)).\n",
}

SMOKERS = """Smokes(person)
Friends(person, person)
Cancer(person)
1.0 Smokes(x) ^ Friends(x,y) => Smokes(y)
1.5 Smokes(x) => Cancer(x)
-1 Smokes(x)
-0.5 Cancer(x)
-0.3 Friends(x,y)
"""
# log Z of the model above, as given in the anchors, and the seconds of WFOMC (cell graphs).
KNOWN = {
    10: ("175.294385731735", "2.9"),
    100: ("15740.9601431033", "156"),
    1000: ("1556329.32145271", ""),
    10000: ("155455265.216695", ""),
    30000: ("1398978942.33120", ""),
}


def main(arguments: list[str]) -> None:
    tables: dict[str, Callable[[], None]] = {
        "math": math_problems,
        "files": files,
        "structures": structures,
        "smokers": smokers,
    }
    for name in arguments or tables:
        print(f"\n{name}: {tables[name].__doc__}")
        tables[name]()


def math_problems() -> None:
    """the MATH problems with published answers."""
    folder = PROBLEMS / "wfomc-models" / "MATH"
    if not folder.is_dir():
        print(f"no data: {folder} is missing")
        return
    lines = (folder / "answers.tsv").read_text(encoding="utf-8").splitlines()[1:]
    answers = dict(line.split("\t") for line in lines)
    solved, spent = 0, 0.0
    print(f"{'file':>12} {'published':>20} {'ours':>20} {'seconds':>8}")
    for name, answer in answers.items():
        found, seconds = solve(folder / name)
        ours = str(found.count) if isinstance(found, Lifted) else found
        solved += ours == answer
        spent += seconds
        print(f"{name:>12} {answer:>20} {ours:>20} {seconds:8.2f}")
    print(f"{solved} of {len(answers)} as published, {spent:.1f} s")


def files() -> None:
    """all other problem files: solved, or refused and why."""
    if not PROBLEMS.is_dir():
        print(f"no data: {PROBLEMS} is missing")
        return
    paths = sorted({*PROBLEMS.rglob("*.wfomcs"), *PROBLEMS.rglob("*.mln")})
    reasons: Counter[str] = Counter()
    solved = 0
    print(f"{'file':58} {'log Z':>16} {'± at most':>10} {'seconds':>8}")
    for path in paths:
        if path.parent.name == "MATH":
            continue
        found, seconds = solve(path)
        name = str(path.relative_to(PROBLEMS))
        if isinstance(found, Lifted):
            solved += 1
            row = f"{found.log_partition:16.10g} {found.error_bound:10.1e}"
        else:
            reasons[found] += 1
            row = f"{found[:27]:>27}"
        print(f"{name:58} {row} {seconds:8.2f}")
    print(f"{solved} solved; refused:")
    for reason, number in reasons.most_common():
        print(f"{number:4} {reason}")


def structures() -> None:
    """exact numbers of structures on n elements: digits, and seconds."""
    sizes = (10, 30, 60, 100)
    print(f"{'':34}" + "".join(f"{f'n={n}':>18}" for n in sizes))
    for name, text in STRUCTURES.items():
        row = f"{name:34}"
        for n in sizes:
            type_name = "v_" if "v_" in text else "t"
            found, seconds = solve(lapis.parse(text), {type_name: n})
            digits = len(str(found.count)) if isinstance(found, Lifted) else 0
            row += f"{f'{digits} in {seconds:.2f} s' if digits else '–':>18}"
        print(row)


def smokers() -> None:
    """friends and smokers with all five weights: log Z, certified error, all derivatives."""
    print(f"{'n':>6} {'anchor':>18} {'ours':>18} {'± at most':>10} {'seconds':>8} {'WFOMC':>6}")
    model = lapis.parse(SMOKERS)
    for n, (anchor, seconds_then) in KNOWN.items():
        found, seconds = solve(model, {"person": n})
        assert isinstance(found, Lifted)
        ours = f"{found.log_partition:.15g}"
        print(
            f"{n:6} {anchor:>18} {ours:>18} {found.error_bound:10.1e} {seconds:8.2f} "
            f"{seconds_then:>6}"
        )


def solve(
    model: Path | lapis.Model, sizes: dict[str, int] | None = None
) -> tuple[Lifted | str, float]:
    """Return the result, or the reason why there is none, and CPU seconds."""
    start = time.process_time()
    found: Lifted | str
    try:
        with limited(LIMIT):
            read = lapis.read(model) if isinstance(model, Path) else model
            found = lapis.lift(read, method="cells", sizes=sizes)
            used = {t for predicate in read.predicates.values() for t in predicate.types}
            if not sizes and not (used and all(read.types[t] for t in used)):
                found = "the file leaves types without constants"
    except TimeoutError:
        found = f"more than {LIMIT} s"
    except LapisError as error:
        found = reason_of(error.message)
    return found, time.process_time() - start


def reason_of(message: str) -> str:
    """Return a message without the formula at its start."""
    return message.rpartition("' ")[2] if message.startswith("'") else message


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


if __name__ == "__main__":
    main(sys.argv[1:])

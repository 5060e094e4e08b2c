"""Throw mutated and random text at the parser: every input is accepted or refused politely.

    python tests/fuzz/fuzz_parser.py --seconds 60 [--seed 1]

Stops with the offending text if anything but a LapisError escapes, or if an accepted program
does not print and parse back to itself.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from lapis.data.database import Database
from lapis.errors import LapisError
from lapis.language import parse_model, parse_program, print_program

SEEDS = [
    "person = {Anna, Bob}\nSmokes(person)\n1.5 Smokes(x) => Cancer(x)\n",
    "T(page, topic!)\nHas(word, page)\nHas(+w, p) => T(p, +t)\nT(p, X) v !T(p, t).\n",
    "person MotherOf(person)\nP(person)\n2 P(MotherOf(x)) ^ MotherOf(x) != y => P(y)\n",
    "n = {1,...,5}\nA(n)\n1 A(i) ^ i < 3 => A(i+1)\n@fixed 2 EXIST i,j (A(i) ^ i <= j)\n",
    "p(X,Y) -> q(Y).\n\\exists_{=1} Y: (p(X,Y)).\nd = 3\n|q| = 1\nq(d0), ~q(d1)\n",
    "1.5 \\exists_{=1} Y: (p(X,Y)) & r\nPd = 3\n|q| - 2 |p| <= 1\n2 p(X,Y) | X=Y\nExactlyOne[q,s].",
    '/* c */ Rain\nRain v Wet("a b")\n#include "x.mln"\nlog(2)/3 *Rain ^ Rain\n-2:20 Rain\n',
    "Friends(Anna,Bob)\n!Smokes(Anna)\n?Cancer(Bob)\nMary = MotherOf(Anna)\nRain\n",
]
PIECES = [
    "(", ")", "[", "]", "{", "}", ",", ".", "...", "!", "?", "+", "*", "@", ":", "=", "!=", "<=",
    "=>", "<=>", "^", "v", "|", "&", "~", "EXIST x ", "FORALL ", "#include ", '"', "\\", "//",
    "/*", "*/", "\n", " ", "x", "X", "P(x)", "1", "1e999", "-", "0x", "é", "∀", "\t", "\0", "'",
]  # fmt: skip


def mutate(text: str, rng: random.Random) -> str:
    characters = list(text)
    for _ in range(rng.randint(1, 6)):
        at = rng.randint(0, len(characters))
        match rng.randint(0, 4):
            case 0:
                characters[at:at] = rng.choice(PIECES)
            case 1:
                del characters[at : at + rng.randint(1, 4)]
            case 2:
                other = rng.choice(SEEDS)
                start = rng.randint(0, len(other))
                characters[at:at] = other[start : start + rng.randint(1, 30)]
            case 3:
                characters[at:at] = rng.choice(PIECES) * rng.randint(1, 300)
            case 4:
                characters[at:at] = chr(rng.randint(1, 0x2FFF))
    return "".join(characters)


def try_text(text: str) -> None:
    """Raises anything but a LapisError if the text breaks the parser."""
    try:
        program = parse_program(text)
    except LapisError as error:
        str(error)
    else:
        assert parse_program(print_program(program)) == program
    for read in (parse_model, Database.parse):
        try:
            read(text)
        except LapisError as error:
            str(error)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--seed", type=int, default=None)
    given = options.parse_args()
    seed = given.seed if given.seed is not None else time.time_ns()
    rng = random.Random(seed)
    end = time.monotonic() + given.seconds
    tried = 0
    while time.monotonic() < end:
        text = mutate(rng.choice(SEEDS), rng)
        try:
            try_text(text)
        except Exception:
            print(f"seed {seed}, input {tried}:\n{text!r}", file=sys.stderr)
            raise
        tried += 1
    print(f"{tried:,} inputs, no traceback (seed {seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())

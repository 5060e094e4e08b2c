r"""The distribution semantics of ProbLog, by enumeration of all total choices.

A program is instantiated over all its constants. Each instance of a probabilistic clause chooses
one of its heads, or none; a total choice is a logic program, whose model is its well-founded model
by alternating fixpoints (van Gelder 1989), the same as the perfect model of a stratified program.
Nothing here is shared with the reader of programs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

Literal = tuple[bool, str]  # sign and ground atom
Chosen = tuple[str, tuple[Literal, ...]]  # a head and a body
NAME = re.compile(r"[A-Z_]\w*|[a-z]\w*|\d+(?:\.\d+)?|'[^']*'")
TESTS = {
    "=\\=": lambda a, b: float(a) != float(b), "=:=": lambda a, b: float(a) == float(b),
    "\\==": lambda a, b: a != b, "==": lambda a, b: a == b, "=<": lambda a, b: float(a) <= float(b),
    ">=": lambda a, b: float(a) >= float(b), "<": lambda a, b: float(a) < float(b),
    ">": lambda a, b: float(a) > float(b),
}  # fmt: skip


class Impossible(Exception):
    """The evidence has probability 0."""


def split_top(text: str, mark: str) -> list[str]:
    """Split outside of parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def enumerate_program(text: str) -> dict[str, float]:
    """P(query | evidence) of each ground query; queries with variables match derivable atoms."""
    text = re.sub(r"%[^\n]*", "", text)
    clauses = [part.strip() for part in re.split(r"\.(?=\s|$)", text) if part.strip()]
    queries, evidence, rules = [], [], []
    for clause in clauses:
        if clause.startswith("query("):
            queries.append(clean(clause[6:-1]))
        elif clause.startswith("evidence("):
            atom, *truth = split_top(clause[9:-1], ",")
            negated = atom.startswith("\\+")
            value = (truth != ["false"]) != negated
            evidence.append((value, clean(atom.removeprefix("\\+"))))
        else:
            heads, _, body = clause.partition(":-")
            rules.append((heads, split_top(body, ",")))
    instances = list(instantiate(rules))
    possible = derivable([(h, b) for heads, b in instances for _, h in heads if h])
    total, mass = 0.0, dict.fromkeys(expand(queries, possible), 0.0)
    for probability, program in total_choices(instances, possible):
        model = well_founded(program)
        if all((atom in model) == value for value, atom in evidence):
            total += probability
            for query in mass:
                mass[query] += probability * (query in model)
    if not total:
        raise Impossible
    return {query: value / total for query, value in mass.items()}


def clean(text: str) -> str:
    return re.sub(r"\s", "", text)


def expand(queries: Sequence[str], possible: set[str]) -> list[str]:
    """The ground atoms that the queries ask for."""
    found: dict[str, None] = {}
    for query in queries:
        if not re.search(r"[(,][A-Z_]", query):
            found[query] = None
            continue
        pattern = re.sub(r"(?<=[(,])[A-Z_]\w*", "\0", query)
        matcher = re.compile(re.escape(pattern).replace("\0", "[^,()]+").replace("\\[", "["))
        found |= dict.fromkeys(atom for atom in sorted(possible) if matcher.fullmatch(atom))
    return list(found)


def instantiate(
    rules: Sequence[tuple[str, list[str]]],
) -> Iterator[tuple[list[tuple[float, str]], tuple[Literal, ...]]]:
    """All instances over the constants, with probabilities; a certain head has 1."""
    constants = sorted(
        {
            name
            for heads, body in rules
            for text in [*split_top(heads, ";"), *body]
            for inside in re.findall(r"\((.*)\)", text)
            for name in NAME.findall(inside)
            if not re.match(r"[A-Z_]", name)
        }
    )
    for heads, body in rules:
        names = sorted(set(re.findall(r"\b[A-Z]\w*", heads + " " + " , ".join(body))))
        for values in itertools.product(constants, repeat=len(names)):
            binding = dict(zip(names, values, strict=True))
            literals = ground_body(body, binding)
            if literals is not None:
                chosen = [split_head(put(head, binding)) for head in split_top(heads, ";")]
                yield chosen, literals


def put(text: str, binding: Mapping[str, str]) -> str:
    return re.sub(r"\b[A-Z]\w*", lambda found: binding[found.group()], text)


def split_head(head: str) -> tuple[float, str]:
    probability, mark, atom = head.partition("::")
    return (float(Fraction(clean(probability))), clean(atom)) if mark else (1.0, clean(head))


def ground_body(body: Sequence[str], binding: Mapping[str, str]) -> tuple[Literal, ...] | None:
    literals = []
    for goal in body:
        text = clean(put(goal, binding))
        test = next((sign for sign in TESTS if sign in text), None)
        if test is not None:
            left, _, right = text.partition(test)
            try:
                if not TESTS[test](left, right):
                    return None
            except ValueError:
                return None
        else:
            literals.append((not text.startswith("\\+"), text.removeprefix("\\+")))
    return tuple(literals)


def derivable(program: Sequence[Chosen]) -> set[str]:
    """The atoms that may hold, whatever is negated."""
    known: set[str] = set()
    while True:
        new = {h for h, b in program if all(a in known for sign, a in b if sign)} - known
        if not new:
            return known
        known |= new


def total_choices(
    instances: Sequence[tuple[list[tuple[float, str]], tuple[Literal, ...]]], possible: set[str]
) -> Iterator[tuple[float, list[Chosen]]]:
    options: list[list[tuple[float, Chosen | None]]] = []
    for heads, body in instances:
        if any(sign and atom not in possible for sign, atom in body):
            continue
        own: list[tuple[float, Chosen | None]] = [(p, (head, body)) for p, head in heads if p > 0]
        rest = 1.0 - sum(p for p, _ in own)
        if rest > 1e-12:
            own.append((rest, None))
        options.append(own)
    for combination in itertools.product(*options):
        probability = 1.0
        for p, _ in combination:
            probability *= p
        yield probability, [chosen for _, chosen in combination if chosen is not None]


def well_founded(program: Sequence[Chosen]) -> set[str]:
    """The true atoms of the well-founded model, which must be total."""

    def consequences(assumed: set[str]) -> set[str]:
        known: set[str] = set()
        while True:
            new = {
                h
                for h, b in program
                if all((a in known) if sign else (a not in assumed) for sign, a in b)
            } - known
            if not new:
                return known
            known |= new

    below: set[str] = set()
    while True:
        above = consequences(below)
        after = consequences(above)
        if after == below:
            assert above == below, "the program is not stratified"
            return below
        below = after

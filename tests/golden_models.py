"""Models that hold their own expected answers, in comments (`tests/models/*.mln`).

    // query Smokes,Cancer         the open predicates
    // data smokers.db             facts from a file beside the model
    // fact Friends(Anna,Bob)      or a line of data right here
    // refused by enumerate        methods for which the model is too large; every other is run
    // learn Cancer                learn from the facts, with that query; `// learn` without one
    // let a = (1 + exp(-2)) / 2   a name for the formulas below
    // expect logZ = log(exp(1) + 3)
    // expect P Smokes(Anna) = exp(1.5) / (1 + exp(1.5))
    // expect E 0 = 2 * a          the expected count of the weight with id 0
    // expect map score = 1.5
    // expect map Smokes(Anna) = true      in every most likely world
    // expect count 0 = 2 of 4     true groundings and groundings of rule 0
    // expect pll = …              pseudo-log-likelihood; ll: log-likelihood
    // expect weight 0 = log(2)    where every likelihood of the facts has its maximum
    // expect margin 0 = 1         the max-margin weight, with a Gaussian prior of width 1
    // expect impossible           evidence and hard formulas leave no world

A value is arithmetic with exp, log, sqrt and comb, so it says where it is from; `=` means equal
to 1e-9, `~ 0.5794` equal to the digits shown. Nothing in these files was computed by Lapis.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from oracle import Facts, GroundAtom

MODELS = Path(__file__).parent / "models"

FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "comb": math.comb,
}
OPERATORS: Mapping[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}


@dataclass(frozen=True)
class Expected:
    """A figure to be met within `tolerance`."""

    value: float
    tolerance: float

    def is_met_by(self, value: float) -> bool:
        return abs(value - self.value) <= self.tolerance


@dataclass(frozen=True)
class GoldenModel:
    path: Path
    text: str
    data: str  # the text of a data file
    query: tuple[str, ...]
    refused_by: tuple[str, ...]  # methods
    learned: tuple[str, ...] | None  # the query of learning; None: nothing is learned
    marginals: Mapping[str, Expected]
    expected_counts: Mapping[int, Expected]
    figures: Mapping[str, Expected]  # logZ, map score, pll, ll
    map_atoms: Mapping[str, bool]
    counts: Mapping[int, tuple[int, int]]
    weights: Mapping[int, Expected]
    margins: Mapping[int, Expected]
    impossible: bool

    @property
    def name(self) -> str:
        return self.path.stem

    def applies_to(self, method: str) -> bool:
        return method not in self.refused_by

    @property
    def asserts(self) -> bool:
        """Whether a method is held to anything."""
        of_inference = self.marginals or self.expected_counts or self.figures or self.map_atoms
        return bool(of_inference or self.counts or self.weights or self.impossible)

    @property
    def facts(self) -> Facts:
        return read_facts(self.data)


def golden_models() -> list[GoldenModel]:
    return [read_golden_model(path) for path in sorted(MODELS.glob("*.mln"))]


def read_golden_model(path: Path) -> GoldenModel:
    text = path.read_text(encoding="utf-8")
    data: list[str] = []
    query: tuple[str, ...] = ()
    refused_by: tuple[str, ...] = ()
    learned: tuple[str, ...] | None = None
    weights: dict[int, Expected] = {}
    margins: dict[int, Expected] = {}
    names: dict[str, float] = {}
    marginals: dict[str, Expected] = {}
    expected_counts: dict[int, Expected] = {}
    figures: dict[str, Expected] = {}
    map_atoms: dict[str, bool] = {}
    counts: dict[int, tuple[int, int]] = {}
    impossible = False
    words = "query|data|fact|refused by|learn|let|expect"
    for line in re.findall(rf"^// ({words})(?: (.*))?$", text, re.MULTILINE):
        match line:
            case ("query", rest):
                query = tuple(rest.split(","))
            case ("data", rest):
                data.append((path.parent / rest).read_text(encoding="utf-8"))
            case ("fact", rest):
                data.append(rest + "\n")
            case ("refused by", rest):
                refused_by = tuple(rest.split())
            case ("learn", rest):
                learned = tuple(rest.split(",")) if rest else ()
            case ("let", rest):
                name, _, value = rest.partition(" = ")
                names[name] = evaluate(value, names)
            case ("expect", "impossible"):
                impossible = True
            case (_, rest):
                found = re.fullmatch(r"(.*) ([=~]) (.*)", rest)
                if found is None:
                    raise ValueError(f"{path.name}: cannot read '// expect {rest}'")
                subject, sign, value = found.groups()
                kind, _, what = subject.partition(" ")
                if kind == "P":
                    marginals[what] = expected(sign, value, names)
                elif kind == "E":
                    expected_counts[int(what)] = expected(sign, value, names)
                elif kind == "weight":
                    weights[int(what)] = expected(sign, value, names)
                elif kind == "margin":
                    margins[int(what)] = expected(sign, value, names)
                elif kind == "count":
                    true, groundings = value.split(" of ")
                    counts[int(what)] = int(true), int(groundings)
                elif value in ("true", "false") and kind == "map":
                    map_atoms[what] = value == "true"
                elif subject in ("logZ", "map score", "pll", "ll"):
                    figures[subject] = expected(sign, value, names)
                else:
                    raise ValueError(f"{path.name}: cannot read '// expect {rest}'")
    return GoldenModel(
        path,
        text,
        "".join(data),
        query,
        refused_by,
        learned,
        marginals,
        expected_counts,
        figures,
        map_atoms,
        counts,
        weights,
        margins,
        impossible,
    )


def expected(sign: str, value: str, names: Mapping[str, float]) -> Expected:
    if sign == "=":
        return Expected(evaluate(value, names), 1e-9)
    # Half a unit of the last digit shown, but no more digits than a sum in doubles can hold.
    half_unit = 0.5 * 10.0 ** -len(value.partition(".")[2])
    return Expected(float(value), max(half_unit, 1e-12 * abs(float(value))))


def evaluate(text: str, names: Mapping[str, float]) -> float:
    """The value of an arithmetic formula over the names bound so far."""

    def value(node: ast.AST) -> float:
        match node:
            case ast.Expression(body):
                return value(body)
            case ast.Constant(int() | float() as number):
                return number
            case ast.Name(name):
                return names[name]
            case ast.BinOp(left, sign, right):
                return OPERATORS[type(sign)](value(left), value(right))
            case ast.UnaryOp(sign, operand):
                return OPERATORS[type(sign)](value(operand))
            case ast.Call(ast.Name(name), arguments):
                return FUNCTIONS[name](*map(value, arguments))
            case _:
                raise ValueError(f"not arithmetic: {text}")

    return float(value(ast.parse(text, mode="eval")))


FACT = re.compile(r"([!?]?)(?:(\w+) = )?(\w+)(?:\(([^()]*)\))?")


def read_facts(data: str) -> Facts:
    """The plain data files of the golden models, apart from Lapis's reader."""
    groups: dict[str, list[GroundAtom]] = {"": [], "!": [], "?": []}
    for line in data.splitlines():
        if not line.strip() or line.startswith("//"):
            continue
        found = FACT.fullmatch(line.strip())
        if found is None:
            raise ValueError(f"cannot read the fact {line!r}")
        sign, value, name, inside = found.groups()
        arguments = tuple(inside.split(",")) if inside else ()
        groups[sign].append((name, arguments + ((value,) if value else ())))
    return Facts(*map(tuple, groups.values()))

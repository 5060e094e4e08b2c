"""Networks with decision trees as text (`.tbn`): like .bif, with trees in place of tables.

    variable wet {
      type discrete [ 2 ] { no, yes };
    }
    probability ( wet | rain ) {
      split 1:
      case rain = no:
        table 0.9, 0.1;
      case rain = yes:
        table 0.3, 0.7;
    }

    file   := block*
    block  := "network" name "{" "}"
            | "variable" name "{" "type" "discrete" "[" n "]" "{" name ("," name)* "}" ";" "}"
            | "probability" "(" name ["|" name ("," name)*] ")" "{" tree "}"
    tree   := "table" number ("," number)* ";"
            | ["split" n ":"] ("case" name "=" name ":" tree)+

A tree has one case for each state of the variable on which it is split, one of the parents behind
the bar. The number of a split is its place in the order of splits, on which the size of a compiled
circuit depends; splits without a number come last, level by level. A name with a space or one of
{}()[]|,;:=" is written as a JSON string. Numbers are written so that reading them gives the same
number. `//` begins a comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import numpy as np

from lapis.circuits.circuit_files import format_exp, parse_log
from lapis.circuits.tree_networks.tree_network import (
    UNNUMBERED,
    DecisionTree,
    TreeNetwork,
    join_trees,
)
from lapis.errors import LapisError, Source, Span, suggestion
from lapis.runtime.text_files import read_source

SUFFIX = ".tbn"
TOKEN = re.compile(
    r"""\s*(?://[^\n]*\s*)*("(?:[^"\\]|\\.)*"|[{}()\[\]|,;:=]|[^\s{}()\[\]|,;:="]+|")?"""
)
PLAIN = re.compile(r"""(?!//)[^\s{}()\[\]|,;:="]+""")
TOLERANCE = 1e-6  # of the sum of a distribution
MAX_DEPTH = 400  # of a tree


def format_network(network: TreeNetwork) -> str:
    """Format a network as text."""
    names = [quote_name(name) for name in network.names]
    splits = np.flatnonzero(network.split_on >= 0)
    made = splits[np.argsort(network.first_child[splits])].tolist()
    number = {node: place + 1 for place, node in enumerate(made)}
    lines = ["network learned {", "}"]
    for name, states in zip(names, network.states, strict=True):
        listed = ", ".join(map(quote_name, states))
        lines += [
            f"variable {name} {{", f"  type discrete [ {len(states)} ] {{ {listed} }};", "}"
        ]  # fmt: skip
    for own, parents in enumerate(network.parents()):
        given = ", ".join(names[p] for p in sorted(parents))
        lines.append(f"probability ( {names[own]}{' | ' if given else ''}{given} ) {{")
        stack: list[tuple[int, str, str]] = [(own, "", "  ")]
        while stack:
            node, case, indent = stack.pop()
            lines += [case] if case else []
            parent = int(network.split_on[node])
            if parent < 0:
                first = int(network.first_parameter[node])
                size = len(network.states[own])
                numbers = map(format_exp, network.log_parameter[first : first + size].tolist())
                lines.append(f"{indent}table {', '.join(numbers)};")
                continue
            lines.append(f"{indent}split {number[node]}:")
            for state, called in reversed([*enumerate(network.states[parent])]):
                line = f"{indent}case {names[parent]} = {quote_name(called)}:"
                stack.append((int(network.first_child[node]) + state, line, indent + "  "))
        lines.append("}")
    return "\n".join([*lines, ""])


def quote_name(name: str) -> str:
    """Quote a name as a JSON string if needed."""
    return name if PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def load_tree_network(path: str | Path) -> TreeNetwork:
    """Read a network from a `.tbn` file."""
    path = Path(path)
    return parse_network(read_source(path).text, str(path))


def parse_network(text: str, name: str = "<tbn>") -> TreeNetwork:
    """Parse a network.

    >>> coin = "variable c { type discrete [ 2 ] { h, t }; } probability ( c ) { table 0.4, 0.6; }"
    >>> parse_network(coin).names
    ('c',)
    """
    return TreeReader(Source(name, text)).read()


class TreeReader:
    """A recursive descent parser of networks."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.names: dict[str, int] = {}
        self.called: list[str] = []  # the names by number
        self.states: list[list[str]] = []
        self.codes: list[dict[str, int]] = []  # the states of each variable
        self.trees: dict[int, DecisionTree] = {}
        self.begin = self.end = 0
        self.token = ""
        self.advance()

    def advance(self) -> str:
        """Move to the next token, "" at the end; return the current one."""
        taken = self.token
        found = TOKEN.match(self.source.text, self.end)
        assert found is not None
        self.token = found.group(1) or ""
        self.begin, self.end = found.span(1) if self.token else (found.end(), found.end())
        return taken

    def read(self) -> TreeNetwork:
        while self.token:
            if self.token not in ("network", "variable", "probability"):
                self.refuse(
                    "expected a block of a network",
                    "a file has blocks `network`, `variable` and `probability`",
                )
            word = self.advance()
            if word == "variable":
                self.read_variable()
            elif word == "probability":
                self.read_probability()
            else:
                self.read_name("a name")
                self.expect("{", "}")
        for own, name in enumerate(self.names):
            if own not in self.trees:
                self.refuse(f"{name} has no distribution", "add a block `probability`")
        if not self.names:
            self.refuse("the network has no variables")
        trees = [self.trees[own] for own in range(len(self.names))]
        network = join_trees(self.called, self.states, trees)
        if network.is_cyclic():
            self.refuse_at(0, 0, "the parents form a cycle")
        return network

    def expect(self, *tokens: str) -> None:
        for token in tokens:
            if self.token != token:
                self.refuse(f"expected `{token}`")
            self.advance()

    def read_name(self, what: str) -> str:
        if not self.token or (len(self.token) == 1 and self.token in '{}()[]|,;:="'):
            self.refuse(f"expected {what}")
        if not self.token.startswith('"'):
            return self.advance()
        try:
            return str(json.loads(self.advance()))
        except ValueError:
            self.refuse("this is not a JSON string")

    def read_variable(self) -> None:
        begin, end = self.begin, self.end
        name = self.read_name("the name of a variable")
        if name in self.names:
            self.refuse_at(begin, end, f"a second variable {name}")
        self.expect("{", "type", "discrete", "[")
        size = self.read_name("a number of states")
        self.expect("]", "{")
        begin = self.begin
        states = [self.read_name("a state")]
        while self.token == ",":
            self.advance()
            states.append(self.read_name("a state"))
        if str(len(states)) != size or len(set(states)) < len(states):
            self.refuse_at(begin, self.begin, f"{name} should have {size:.20} different states")
        self.expect("}", ";", "}")
        self.names[name] = len(self.names)
        self.called.append(name)
        self.states.append(states)
        self.codes.append({state: code for code, state in enumerate(states)})

    def read_known(self, what: str, known: Mapping[str, int]) -> int:
        begin, end = self.begin, self.end
        name = self.read_name(what)
        if name not in known:
            self.refuse_at(begin, end, f"unknown {what} {name!r}", suggestion(name, known))
        return known[name]

    def read_probability(self) -> None:
        begin = self.begin
        self.expect("(")
        own = self.read_known("variable", self.names)
        called = self.called[own]
        parents: set[int] = set()
        while self.token == ("," if parents else "|"):
            self.advance()
            parents.add(self.read_known("variable", self.names))
        self.expect(")")
        if own in self.trees:
            self.refuse_at(begin, self.begin, f"a second distribution of {called}")
        if own in parents:
            self.refuse_at(begin, self.begin, f"{called} is its own parent")
        self.expect("{")
        self.trees[own] = self.read_tree(own, parents)
        self.expect("}")

    def read_tree(self, own: int, open_: set[int], depth: int = 0) -> DecisionTree:
        """Read a table, or a tree for each state of one of the open variables."""
        if depth > MAX_DEPTH:
            self.refuse(f"decision trees are at most {MAX_DEPTH} splits deep")
        if self.token == "table":
            return DecisionTree(table=self.read_table(len(self.states[own])))
        number = UNNUMBERED
        if self.token == "split":
            self.advance()
            if not re.fullmatch("[0-9]{1,9}", self.token):
                self.refuse("expected the number of a split")
            number = int(self.advance())
            self.expect(":")
        cases: dict[int, DecisionTree] = {}
        parent = -1
        while len(cases) < (len(self.states[parent]) if parent >= 0 else 1):
            self.expect("case")
            begin, end = self.begin, self.end
            variable = self.read_known("variable", self.names)
            if variable not in open_:
                self.refuse_at(
                    begin, end, f"{self.called[variable]} is no parent, or was split on above",
                    "parents stand behind the bar in `probability ( x | parents )`",
                )  # fmt: skip
            if parent not in (-1, variable):
                self.refuse_at(begin, end, f"expected a case of {self.called[parent]}")
            parent = variable
            self.expect("=")
            begin, end = self.begin, self.end
            state = self.read_known(f"state of {self.called[parent]}", self.codes[parent])
            if state in cases:
                self.refuse_at(begin, end, "this state has a case already")
            self.expect(":")
            cases[state] = self.read_tree(own, open_ - {parent}, depth + 1)
        return DecisionTree(parent, [cases[state] for state in range(len(cases))], None, number)

    def read_table(self, size: int) -> np.ndarray:
        begin = self.begin
        self.expect("table")
        logs: list[float] = []
        while True:
            try:
                logs.append(parse_log(self.token))
            except ValueError:
                self.refuse("expected a probability")
            self.advance()
            if self.token != ",":
                break
            self.advance()
        self.expect(";")
        if len(logs) != size:
            self.refuse_at(begin, self.begin, f"{size} numbers expected, not {len(logs)}")
        if max(logs) > TOLERANCE or abs(np.exp(logs).sum() - 1) > TOLERANCE:
            self.refuse_at(begin, self.begin, "these probabilities do not sum to 1")
        return np.array(logs)

    def refuse(self, message: str, hint: str | None = None) -> NoReturn:
        self.refuse_at(self.begin, self.end, message, hint)

    def refuse_at(self, begin: int, end: int, message: str, hint: str | None = None) -> NoReturn:
        text = self.source.text[begin:end].rstrip()
        span = Span(self.source, begin, begin + max(len(text), 1))
        raise LapisError(message, code="tbn-syntax", span=span, hint=hint)

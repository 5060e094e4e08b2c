"""Bayesian and Markov networks in the UAI format, and its evidence files.

After the kind (BAYES or MARKOV) come the number of variables, their sizes, the scopes, and the
tables with the last variable fastest; in a Bayesian network the last variable of a scope is the
one that the table is the distribution of. An evidence file is a number of pairs of variable and
state; the older form has a number of samples, 1, before it.
"""

from __future__ import annotations

import re
from typing import NoReturn

import numpy as np

from lapis.circuits.factors.factor_graph import FactorGraph, graph_of_tables, parents_first
from lapis.errors import LapisError, Source, Span

WORD = re.compile(r"\S+")


def parse_uai(text: str, name: str = "<uai>") -> FactorGraph:
    """The network of a text.

    >>> parse_uai("MARKOV 1 2 1 1 0 2 0.5 1.5").log_value.tolist() == [np.log(0.5), np.log(1.5)]
    True
    """
    words = Words(text, name)
    kind = words.take(1)[0].upper()
    if kind not in ("BAYES", "MARKOV"):
        words.refuse("a file begins with BAYES or MARKOV", 0)
    num_variables = words.whole(1)[0]
    sizes = words.whole(num_variables)
    if any(size < 1 for size in sizes):
        words.refuse("a variable has at least one state", words.at - 1)
    scopes: list[list[int]] = []
    for _ in range(words.whole(1)[0]):
        scope = words.whole(words.whole(1)[0])
        if len(set(scope)) < len(scope) or any(not 0 <= v < num_variables for v in scope):
            words.refuse(f"a scope has different variables below {num_variables}", words.at - 1)
        scopes.append(scope)
    tables = []
    for scope in scopes:
        shape = [sizes[v] for v in scope]
        entries = words.whole(1)[0]
        if entries != int(np.prod(shape)):
            words.refuse(f"this table should have {int(np.prod(shape))} entries", words.at - 1)
        value = words.numbers(entries)
        if not (value >= 0).all():
            words.refuse("an entry of a table is negative", words.at - 1)
        with np.errstate(divide="ignore"):
            tables.append((scope, np.log(value).reshape(shape)))
    names = [f"x{v}" for v in range(num_variables)]
    states = [[str(state) for state in range(size)] for size in sizes]
    graph = graph_of_tables(names, states, tables)
    if kind == "BAYES" and sorted(scope[-1] for scope in scopes if scope) == list(
        range(num_variables)
    ):
        children = [scope[-1] for scope in scopes]
        return parents_first(graph_of_tables(names, states, tables, children)) or graph
    return graph


def parse_evidence(text: str, graph: FactorGraph, name: str = "<evidence>") -> dict[int, int]:
    """The state of each observed variable.

    >>> coin = parse_uai("MARKOV 1 2 1 1 0 2 0.5 1.5")
    >>> parse_evidence("1 0 1", coin), parse_evidence("1 1 0 1", coin), parse_evidence("", coin)
    ({0: 1}, {0: 1}, {})
    """
    words = Words(text, name)
    numbers = words.whole(len(words.found))
    if numbers[:1] == [1] and len(numbers) != 3:
        numbers = numbers[1:]
    if numbers and len(numbers) != 1 + 2 * numbers[0]:
        words.refuse("pairs of variable and state follow their number", len(words.found) - 1)
    observed = dict(zip(numbers[1::2], numbers[2::2], strict=True))
    for variable, state in observed.items():
        if not (0 <= variable < graph.num_variables and 0 <= state < len(graph.states[variable])):
            words.refuse(f"there is no state {state} of variable {variable}", len(words.found) - 1)
    return observed


class Words:
    """The words of a text, one after another."""

    def __init__(self, text: str, name: str) -> None:
        self.source = Source(name, text)
        self.found = text.split()
        self.at = 0

    def take(self, count: int) -> list[str]:
        if self.at + count > len(self.found):
            self.refuse("the file ends too early", len(self.found) - 1)
        self.at += count
        return self.found[self.at - count : self.at]

    def whole(self, count: int) -> list[int]:
        taken = self.take(count)
        try:
            return [int(word) for word in taken]
        except ValueError:
            wrong = next(i for i, word in enumerate(taken) if not word.lstrip("-").isdigit())
            self.refuse("this is not a whole number", self.at - count + wrong)

    def numbers(self, count: int) -> np.ndarray:
        try:
            return np.array(self.take(count), np.float64)
        except ValueError:
            self.refuse("a table holds something that is not a number", self.at - count)

    def refuse(self, message: str, word: int) -> NoReturn:
        """The offsets of words are found only now: files have millions of them."""
        span = None
        for number, match in enumerate(WORD.finditer(self.source.text)):
            if number == word:
                span = Span(self.source, *match.span())
        raise LapisError(message, code="uai-syntax", span=span or Span(self.source, 0, 0))

"""Networks in files: .bif and .uai, plain or compressed, and .tbn where trees fit in tables.

**BIF** (Cozman's interchange format for Bayesian networks, as bnlearn writes it):

    variable X { type discrete [ 2 ] { yes, no }; }
    probability ( X | A, B ) { (a1, b2) 0.1, 0.9; default 0.5, 0.5; }

In a `table` with parents the variable itself varies slowest, the last parent fastest. A column
whose sum differs from 1 by more than `TOLERANCE` is refused; others are taken as written.

**UAI.** After the kind (BAYES or MARKOV) come the number of variables, their sizes, the scopes, and
the tables with the last variable fastest. In a Bayesian network a table is the distribution of the
last variable of its scope. An evidence file has a number of pairs of variable and state, then the
pairs, on one or several lines (UAI 2014, merlin). The older form (UAI 2008) has a number of samples
before them, which must be 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NoReturn

import numpy as np

from lapis.circuits.circuit_files import MAX_STATES, NUMBER, number_states
from lapis.circuits.factor_graph import FactorGraph, graph_of_tables, parents_first
from lapis.errors import LapisError, Source, Span, TooLarge, suggestion
from lapis.runtime.text_files import read_source

SUFFIXES = (".bif", ".bif.gz", ".uai", ".uai.gz", ".tbn")


def is_factor_file(path: Path) -> bool:
    """Whether a path has the suffix of a network."""
    return path.name.lower().endswith(SUFFIXES)


def read_factor_file(path: str | Path) -> FactorGraph:
    """Read the network of a .bif, .uai or .tbn file."""
    path = Path(path)
    text = read_source(path).text
    if path.name.lower().endswith(".tbn"):
        from lapis.circuits.tree_networks.compile_network import tables_of
        from lapis.circuits.tree_networks.tbn_files import parse_network

        return tables_of(parse_network(text, str(path)))
    if path.name.lower().endswith((".bif", ".bif.gz")):
        return parse_bif(text, str(path))
    return parse_uai(text, str(path))


def read_evidence(path: str | Path, graph: FactorGraph) -> dict[int, int]:
    """Read the observed states of a .evid file."""
    return parse_uai_evidence(read_source(Path(path)).text, graph, str(path))


TOLERANCE = 0.02
MAX_ENTRIES = 10**7  # of a table of which a text names some entries
COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
BLOCK = re.compile(r"\s*(network|variable|probability)\b([^{]*)\{")
TYPE = re.compile(r"type\s+discrete\s*\[\s*(\d+)\s*\]\s*\{([^}]*)\}\s*;")
SPACE = re.compile(r"\s*")
ROW = re.compile(r"\s*(?:\(([^)]*)\)|(table|default)\b|(property)\b)([^;]*);", re.DOTALL)


def parse_bif(text: str, name: str = "<bif>") -> FactorGraph:
    """Parse a network in the BIF format.

    >>> coin = "variable c { type discrete [ 2 ] { h, t }; } probability ( c ) { table 0.4, 0.6; }"
    >>> parse_bif(coin).names
    ('c',)
    """
    for found in COMMENT.finditer(text):
        if found[0].startswith("/*") and (len(found[0]) < 4 or not found[0].endswith("*/")):
            span = Span(Source(name, text), found.start(), found.start() + 2)
            raise LapisError("this comment is never closed", code="bif-syntax", span=span)
    return BifReader(Source(name, COMMENT.sub(lambda m: " " * len(m.group()), text))).read()


class BifReader:
    """Read the blocks of a BIF text; errors point into the text."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.number: dict[str, int] = {}
        self.states: list[list[str]] = []
        self.tables: dict[int, tuple[list[int], np.ndarray]] = {}

    def read(self) -> FactorGraph:
        text, at = self.source.text, self.skip(0)
        while at < len(text):
            found = BLOCK.match(text, at)
            if found is None:
                self.refuse(
                    "expected a block of a network", at, at + 16,
                    "a file has blocks `network`, `variable` and `probability`",
                )  # fmt: skip
            word, head = found.group(1), found.group(2)
            end = self.end_of_block(found.end(), found.start(1))
            if word == "variable":
                self.read_variable(head.strip(), found.start(2), found.end(), end)
            elif word == "probability":
                self.read_table(head, found.start(2), found.end(), end)
            at = self.skip(end + 1)
        return self.finish()

    def skip(self, at: int) -> int:
        """Return the place of the next character that is no space."""
        space = SPACE.match(self.source.text, at)
        assert space is not None
        return space.end()

    def end_of_block(self, start: int, word: int) -> int:
        """Return the place of the closing brace."""
        text, depth = self.source.text, 1
        for found in re.compile(r"[{}]").finditer(text, start):
            depth += 1 if found.group() == "{" else -1
            if depth == 0:
                return found.start()
        self.refuse("this block has no closing brace", word, word + 8)

    def read_variable(self, name: str, at: int, start: int, end: int) -> None:
        name = name.strip('"')
        kind = TYPE.search(self.source.text, start, end)
        if kind is None:
            self.refuse(
                f"{name} has no states", at + 1, at + 1 + len(name),
                "as in `type discrete [ 2 ] { yes, no };`",
            )  # fmt: skip
        states = [state.strip().strip('"') for state in kind.group(2).split(",")]
        if str(len(states)) != kind.group(1).lstrip("0") or len(set(states)) < len(states):
            self.refuse(
                f"{name} should have {kind.group(1):.20} different states",
                kind.start(2),
                kind.end(2),
            )
        if name in self.number:
            self.refuse(f"a second variable {name}", at + 1, at + 1 + len(name))
        self.number[name] = len(self.states)
        self.states.append(states)

    def read_table(self, head: str, at: int, start: int, end: int) -> None:
        scope = self.read_scope(head, at)
        sizes = [len(self.states[v]) for v in scope]
        if math.prod(sizes) > MAX_ENTRIES:
            raise TooLarge(
                f"{self.source.name}: the table of {self.names[scope[0]]} with {len(scope) - 1} "
                f"parents has {math.prod(sizes):.3g} entries, more than {MAX_ENTRIES:,}",
                code="too-large",
                hint="a .tbn file has decision trees in place of tables",
            )
        table = np.full((*sizes[1:], sizes[0]), np.nan)
        place = self.skip(start)
        while place < end:
            row = ROW.match(self.source.text, place, end)
            if row is None:
                self.refuse(
                    "expected a row of probabilities", place, end, "as in `(a, b) 0.1, 0.9;`"
                )
            self.read_row(row, scope, table)
            place = self.skip(row.end())
        if np.isnan(table).any():
            self.refuse("not all states of the parents have a row", at, at + len(head.rstrip()))
        if (np.abs(table.sum(axis=-1) - 1) > TOLERANCE).any() or (table < 0).any():
            self.refuse("a row does not sum to 1", at, at + len(head.rstrip()))
        self.tables[scope[0]] = ([*scope[1:], scope[0]], table)

    def read_scope(self, head: str, at: int) -> list[int]:
        """Return the variable of a table and its parents."""
        end = at + len(head.rstrip())
        names = head.strip().strip("()").replace("|", ",").split(",")
        scope = [self.find(name.strip().strip('"'), at) for name in names if name]
        if not scope:
            self.refuse(
                "a table needs a variable", at, end, "as in `probability ( x | a, b ) { … }`"
            )
        if scope[0] in scope[1:]:
            self.refuse(f"{self.names[scope[0]]} is its own parent", at, end)
        if len(set(scope)) < len(scope):
            twice = next(v for place, v in enumerate(scope) if v in scope[:place])
            self.refuse(f"{self.names[twice]} is a parent twice", at, end)
        if scope[0] in self.tables:
            self.refuse("a second table for this variable", at, end)
        return scope

    @property
    def names(self) -> list[str]:
        return list(self.number)

    def read_row(self, row: re.Match[str], scope: list[int], table: np.ndarray) -> None:
        """Set entries of a table, whose axes are the parents and then the variable."""
        if row.group(3):
            return
        values = self.read_numbers(row.start(4), row.end(4))
        wanted = table.size if row.group(2) == "table" else table.shape[-1]
        if len(values) != wanted:
            self.refuse(f"{wanted} numbers expected, not {len(values)}", row.start(4), row.end(4))
        if row.group(2) == "table":
            own_first = values.reshape(table.shape[-1], *table.shape[:-1])
            table[...] = np.moveaxis(own_first, 0, -1)
        elif row.group(2) == "default":
            table[np.isnan(table).any(axis=-1)] = values
        else:
            named = [state.strip().strip('"') for state in row.group(1).split(",")]
            parents = [self.states[v] for v in scope[1:]]
            if len(named) != len(parents) or any(
                state not in known for state, known in zip(named, parents, strict=True)
            ):
                self.refuse("these are not states of the parents", row.start(1), row.end(1))
            table[tuple(p.index(s) for s, p in zip(named, parents, strict=True))] = values

    def read_numbers(self, start: int, end: int) -> np.ndarray:
        """Return the probabilities in a part of the text."""
        words = [*PROBABILITY_WORD.finditer(self.source.text, start, end)]
        values = parse_entries([found[0] for found in words])
        wrong = np.flatnonzero(np.isnan(values))
        if len(wrong):
            self.refuse("this is not a probability", *words[wrong[0]].span())
        return values

    def find(self, name: str, at: int) -> int:
        if name not in self.number:
            start = self.source.text.index(name, at) if name else at
            hint = suggestion(name, self.number)
            self.refuse(f"unknown variable {name!r}", start, start + len(name), hint)
        return self.number[name]

    def finish(self) -> FactorGraph:
        for name, v in self.number.items():
            if v not in self.tables:
                self.refuse(f"{name} has no table of probabilities", 0, 0)
        if not self.number:
            self.refuse("no variables", 0, 0)
        children = sorted(self.tables)
        with np.errstate(divide="ignore"):
            tables = [(self.tables[v][0], np.log(self.tables[v][1])) for v in children]
        found = parents_first(graph_of_tables(list(self.number), self.states, tables, children))
        if found is None:
            self.refuse("the parents form a cycle", 0, 0)
        return found

    def refuse(self, message: str, start: int, end: int, hint: str | None = None) -> NoReturn:
        """Raise an error at a part of the text, without surrounding spaces."""
        text = self.source.text[start:end]
        start += len(text) - len(text.lstrip())
        end = start + len(text.strip())
        raise LapisError(message, code="bif-syntax", span=Span(self.source, start, end), hint=hint)


WORD = re.compile(r"\S+")
DIGITS = re.compile(r"[0-9]{1,18}")
LARGEST = 10**18
PROBABILITY_WORD = re.compile(r"[^\s,]+")


def parse_entries(words: Sequence[str]) -> np.ndarray:
    """Parse numbers that are finite and not negative; NaN for other words.

    >>> parse_entries(["0.5", "1e-3", "inf", "-1", "²", "1_0"])
    array([0.5  , 0.001,   nan,   nan,   nan,   nan])
    """
    try:
        found = np.array(words, np.float64) if words else np.empty(0)
        if "_" in "".join(words):
            raise ValueError
    except ValueError:
        found = np.array([float(w) if NUMBER.fullmatch(w) else np.nan for w in words])
    return np.where((found >= 0) & (found < np.inf), found, np.nan)


def parse_uai(text: str, name: str = "<uai>") -> FactorGraph:
    """Parse a network in the UAI format.

    >>> parse_uai("MARKOV 1 2 1 1 0 2 0.5 1.5").log_value.tolist() == [np.log(0.5), np.log(1.5)]
    True
    """
    words = TokenReader(text, name)
    kind = words.take(1)[0].upper()
    if kind not in ("BAYES", "MARKOV"):
        words.refuse("expected BAYES or MARKOV", 0)
    num_variables = words.count("variables")
    sizes = words.integers(num_variables, "a number of states", least=1)
    scopes: list[list[int]] = []
    for _ in range(words.count("tables")):
        scope = words.integers(
            words.count("variables"), f"a variable below {num_variables}", below=num_variables
        )
        if len(set(scope)) < len(scope):
            words.refuse("a variable occurs twice in this scope", words.at - 1)
        scopes.append(scope)
    tables = []
    for scope in scopes:
        shape = [sizes[v] for v in scope]
        entries = words.count("entries")
        if entries != math.prod(shape):
            words.refuse(f"this table should have {math.prod(shape):,} entries", words.at - 1)
        value = words.numbers(entries)
        with np.errstate(divide="ignore"):
            tables.append((scope, np.log(value).reshape(shape)))
    words.finish()
    without = set(range(num_variables)).difference(*scopes)
    if sum(sizes[v] for v in without) > MAX_STATES:
        words.refuse(f"more than {MAX_STATES:,} states of variables without a table", 2)
    names = [f"x{v}" for v in range(num_variables)]
    states = number_states(sizes)
    graph = graph_of_tables(names, states, tables)
    if kind == "BAYES" and sorted(scope[-1] for scope in scopes if scope) == list(
        range(num_variables)
    ):
        children = [scope[-1] for scope in scopes]
        return parents_first(graph_of_tables(names, states, tables, children)) or graph
    return graph


def parse_uai_evidence(text: str, graph: FactorGraph, name: str = "<evidence>") -> dict[int, int]:
    """Parse the state of each observed variable.

    >>> coin = parse_uai("MARKOV 1 2 1 1 0 2 0.5 1.5")
    >>> [parse_uai_evidence(text, coin) for text in ("1 0 1", "1 1 0 1", "1 0", "")]
    [{0: 1}, {0: 1}, {}, {}]
    """
    words = TokenReader(text, name)
    if not words.found:
        return {}
    numbers = words.integers(len(words.found), "a number, a variable or a state")
    samples = split_samples(numbers)
    if samples is None:
        words.refuse(
            "expected a number, and as many pairs of variable and state", len(words.found) - 1
        )
    if len(samples) > 1:
        words.refuse(
            f"this file has {len(samples)} samples of evidence, and only one is read", 0,
            "write each sample to a file of its own",
        )  # fmt: skip
    observed: dict[int, int] = {}
    for place in samples[0]:
        variable, state = numbers[place : place + 2]
        if variable >= graph.num_variables:
            words.refuse(f"there is no variable {variable}, only {graph.num_variables}", place)
        if state >= len(graph.states[variable]):
            words.refuse(f"there is no state {state} of variable {variable}", place + 1)
        if observed.setdefault(variable, state) != state:
            words.refuse(f"variable {variable} has another state above", place)
    return observed


def split_samples(numbers: Sequence[int]) -> list[range] | None:
    """Return the places of the pairs of each sample; None if the numbers do not fit.

    Without a number of samples, the first number is that of the pairs.

    >>> split_samples([2, 0, 1, 3, 0]), split_samples([2, 1, 0, 1, 0])
    ([range(1, 5, 2)], [range(1, 5, 2)])
    >>> split_samples([1, 1, 0, 1]), split_samples([2, 1, 0, 1, 1, 3, 0]), split_samples([2, 1])
    ([range(2, 4, 2)], [range(2, 4, 2), range(5, 7, 2)], None)
    """
    if len(numbers) == 1 + 2 * numbers[0]:
        return [range(1, len(numbers), 2)]
    samples: list[range] = []
    at = 1
    while at < len(numbers):
        end = at + 1 + 2 * numbers[at]
        samples.append(range(at + 1, end, 2))
        at = end
    return samples if at == len(numbers) and len(samples) == numbers[0] else None


class TokenReader:
    """The words of a text, read in order."""

    def __init__(self, text: str, name: str) -> None:
        self.source = Source(name, text)
        self.found = text.split()
        self.at = 0

    def take(self, count: int) -> list[str]:
        """Return the next words."""
        if self.at + count > len(self.found):
            self.refuse("the file ends too early", len(self.found) - 1)
        self.at += count
        return self.found[self.at - count : self.at]

    def count(self, what: str) -> int:
        """Return the next word, a number of things."""
        return self.integers(1, f"a number of {what}")[0]

    def integers(
        self, count: int, what: str, least: int = 0, below: int | None = None
    ) -> list[int]:
        """Return the next words as integers of a range."""
        taken = self.take(count)
        high = LARGEST if below is None else below - 1
        for place, word in enumerate(taken, self.at - count):
            if DIGITS.fullmatch(word) is None or not least <= int(word) <= high:
                self.refuse(f"expected {what}", place)
        return [int(word) for word in taken]

    def numbers(self, count: int) -> np.ndarray:
        """Return the next words as entries of a table."""
        values = parse_entries(self.take(count))
        wrong = np.flatnonzero(np.isnan(values))
        if len(wrong):
            self.refuse(
                "an entry of a table must be a number, finite and not negative",
                self.at - count + int(wrong[0]),
            )
        return values

    def finish(self) -> None:
        """Refuse words that are left."""
        if self.at < len(self.found):
            self.refuse("unexpected text after the last table", self.at)

    def refuse(self, message: str, word: int, hint: str | None = None) -> NoReturn:
        """Raise an error at a word; its offset is searched only now, since files are large."""
        found = next(islice(WORD.finditer(self.source.text), max(word, 0), None), None)
        span = Span(self.source, *(found.span() if found else (0, 0)))
        raise LapisError(message, code="uai-syntax", span=span, hint=hint)

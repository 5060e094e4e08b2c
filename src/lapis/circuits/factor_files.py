"""Networks in files: .bif and .uai, plain or compressed, and .tbn where trees fit in tables.

**BIF** (Cozman's interchange format for Bayesian networks, as bnlearn writes it):

    variable X { type discrete [ 2 ] { yes, no }; }
    probability ( X | A, B ) { (a1, b2) 0.1, 0.9; default 0.5, 0.5; }

In a `table` with parents the variable itself varies slowest, the last parent fastest. A column
whose sum differs from 1 by more than `TOLERANCE` is refused; others are taken as written.

**UAI.** After the kind (BAYES or MARKOV) come the number of variables, their sizes, the scopes, and
the tables with the last variable fastest. In a Bayesian network a table is the distribution of the
last variable of its scope. An evidence file has a number of pairs of variable and state; the older
form has a number of samples, 1, before it.
"""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path
from typing import NoReturn

import numpy as np

from lapis.circuits.factor_graph import FactorGraph, graph_of_tables, parents_first
from lapis.errors import LapisError, Source, Span, suggestion

SUFFIXES = (".bif", ".bif.gz", ".uai", ".uai.gz", ".tbn")


def is_factor_file(path: Path) -> bool:
    """Whether a path has the suffix of a network."""
    return path.name.lower().endswith(SUFFIXES)


def read_factor_file(path: str | Path) -> FactorGraph:
    """Read the network of a .bif, .uai or .tbn file."""
    path = Path(path)
    text = read_factor_text(path)
    if path.name.lower().endswith(".tbn"):
        from lapis.circuits.tree_networks.compile_network import tables_of
        from lapis.circuits.tree_networks.tbn_files import parse_network

        return tables_of(parse_network(text, str(path)))
    if path.name.lower().endswith((".bif", ".bif.gz")):
        return parse_bif(text, str(path))
    return parse_uai(text, str(path))


def read_evidence(path: str | Path, graph: FactorGraph) -> dict[int, int]:
    """Read the observed states of a .evid file."""
    return parse_uai_evidence(read_factor_text(Path(path)), graph, str(path))


def read_factor_text(path: Path) -> str:
    """Read a plain or gzip-compressed text."""
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8", "replace")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise LapisError(f"cannot read {path}: {reason}", code="unreadable-file") from None


TOLERANCE = 0.02
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
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
        if len(states) != int(kind.group(1)) or len(set(states)) < len(states):
            self.refuse(
                f"{name} should have {kind.group(1)} different states", kind.start(2), kind.end(2)
            )
        if name in self.number:
            self.refuse(f"a second variable {name}", at + 1, at + 1 + len(name))
        self.number[name] = len(self.states)
        self.states.append(states)

    def read_table(self, head: str, at: int, start: int, end: int) -> None:
        inside = head.strip().strip("()").replace("|", ",")
        scope = [self.find(name.strip().strip('"'), at) for name in inside.split(",") if name]
        sizes = [len(self.states[v]) for v in scope]
        if scope[0] in self.tables:
            self.refuse("a second table for this variable", at, at + len(head.rstrip()))
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

    def read_row(self, row: re.Match[str], scope: list[int], table: np.ndarray) -> None:
        """Set entries of a table, whose axes are the parents and then the variable."""
        if row.group(3):
            return
        try:
            values = np.array(row.group(4).replace(",", " ").split(), np.float64)
        except ValueError:
            self.refuse("these are not numbers", row.start(4), row.end(4))
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


def parse_uai(text: str, name: str = "<uai>") -> FactorGraph:
    """Parse a network in the UAI format.

    >>> parse_uai("MARKOV 1 2 1 1 0 2 0.5 1.5").log_value.tolist() == [np.log(0.5), np.log(1.5)]
    True
    """
    words = TokenReader(text, name)
    kind = words.take(1)[0].upper()
    if kind not in ("BAYES", "MARKOV"):
        words.refuse("expected BAYES or MARKOV", 0)
    num_variables = words.whole(1)[0]
    sizes = words.whole(num_variables)
    if any(size < 1 for size in sizes):
        words.refuse("a variable needs at least one state", words.at - 1)
    scopes: list[list[int]] = []
    for _ in range(words.whole(1)[0]):
        scope = words.whole(words.whole(1)[0])
        if len(set(scope)) < len(scope) or any(not 0 <= v < num_variables for v in scope):
            words.refuse(
                f"expected different variables below {num_variables} in a scope", words.at - 1
            )
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


def parse_uai_evidence(text: str, graph: FactorGraph, name: str = "<evidence>") -> dict[int, int]:
    """Parse the state of each observed variable.

    >>> coin = parse_uai("MARKOV 1 2 1 1 0 2 0.5 1.5")
    >>> [parse_uai_evidence(text, coin) for text in ("1 0 1", "1 1 0 1", "")]
    [{0: 1}, {0: 1}, {}]
    """
    words = TokenReader(text, name)
    numbers = words.whole(len(words.found))
    if numbers[:1] == [1] and len(numbers) != 3:
        numbers = numbers[1:]
    if numbers and len(numbers) != 1 + 2 * numbers[0]:
        words.refuse(
            "expected a number, and as many pairs of variable and state", len(words.found) - 1
        )
    observed = dict(zip(numbers[1::2], numbers[2::2], strict=True))
    for variable, state in observed.items():
        if not (0 <= variable < graph.num_variables and 0 <= state < len(graph.states[variable])):
            words.refuse(f"there is no state {state} of variable {variable}", len(words.found) - 1)
    return observed


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

    def whole(self, count: int) -> list[int]:
        taken = self.take(count)
        try:
            return [int(word) for word in taken]
        except ValueError:
            wrong = next(i for i, word in enumerate(taken) if not word.lstrip("-").isdigit())
            self.refuse("this is not an integer", self.at - count + wrong)

    def numbers(self, count: int) -> np.ndarray:
        try:
            return np.array(self.take(count), np.float64)
        except ValueError:
            self.refuse("an entry of a table is not a number", self.at - count)

    def refuse(self, message: str, word: int) -> NoReturn:
        """Raise an error at a word; its offset is searched only now, since files are large."""
        span = None
        for number, match in enumerate(WORD.finditer(self.source.text)):
            if number == word:
                span = Span(self.source, *match.span())
        raise LapisError(message, code="uai-syntax", span=span or Span(self.source, 0, 0))

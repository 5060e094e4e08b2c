"""The Markov logic network of a resolution, and its facts.

    FirstName(record, record, first_name_level)   how alike the first names of two records are
    Found(record, record, rules)                  the blocking rules that found the pair
    Linked(record, record)                        pairs among which transitivity holds
    Same(record, record), Related(record, record) what is asked

A level has a weight with Same and one with Related, a set of rules too; a pair that is neither has
weight 0. Records of a pair stand in the order of the tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lapis.data.database import TRUE, UNKNOWN, Database, Domain
from lapis.data.formats.build_database import build_relation, provisional_type
from lapis.recipes.match_mixture import RELATED, SAME, MatchModel
from lapis.recipes.records import Records

if TYPE_CHECKING:
    from lapis.recipes.blocking import CandidatePairs

RESERVED = ("Same", "Related", "Found", "Linked")
NO_RULE = "No_rule"
TRANSITIVITY = (
    "Linked(x, y) ^ Linked(y, z) ^ Linked(x, z) ^ Same(x, y) ^ Same(y, z) => Same(x, z).",
    "Linked(x, y) ^ Linked(y, z) ^ Linked(x, z) ^ Same(x, y) ^ Same(x, z) => Same(y, z).",
    "Linked(x, y) ^ Linked(y, z) ^ Linked(x, z) ^ Same(x, z) ^ Same(y, z) => Same(x, y).",
)


def name_predicates(columns: Sequence[str]) -> list[str]:
    """Return a predicate for each column: first_name becomes FirstName.

    >>> name_predicates(["first_name", "same", "2nd", "first name"])
    ['FirstName', 'Same2', 'Column3', 'FirstName4']
    """
    found: list[str] = []
    for number, column in enumerate(columns, start=1):
        words = re.findall(r"[A-Za-z0-9]+", column)
        name = "".join(word[0].upper() + word[1:] for word in words)
        if not name or not name[0].isalpha():
            name = f"Column{number}"
        if name in found or name in RESERVED:
            name = f"{name}{number}"
        found.append(name)
    return found


def name_rule_set(bits: int) -> str:
    """Return the constant of a set of rules.

    >>> name_rule_set(0b101), name_rule_set(0)
    ('Rules_1_3', 'No_rule')
    """
    numbers = [str(number + 1) for number in range(bits.bit_length()) if bits >> number & 1]
    if not numbers:
        return NO_RULE
    return f"Rule{'s' * (len(numbers) > 1)}_{'_'.join(numbers)}"


def level_type(predicate: str) -> str:
    return f"{predicate[0].lower()}{predicate[1:]}_level"


def write_model(match: MatchModel, *, transitive: bool) -> tuple[str, list[list[str]]]:
    """Return the text of the model, and a note for each of its rules."""
    predicates = name_predicates([each.column for each in match.comparisons])
    declared = [
        f"{level_type(predicate)} = {{{', '.join(n for n, _ in each.levels() if n)}}}"
        for predicate, each in zip(predicates, match.comparisons, strict=True)
    ]
    sets = [*map(name_rule_set, match.sets.bits.tolist()), NO_RULE]
    declared += [f"rules = {{{', '.join(dict.fromkeys(sets))}}}", ""]
    declared += [f"{p}(record, record, {level_type(p)})" for p in predicates]
    declared += ["Found(record, record, rules)", "Same(record, record)"]
    declared += ["Related(record, record)"] * match.with_related
    declared += ["Linked(record, record)"] * transitive
    rules = [*found_rules(match, sets), *level_rules(match, predicates)]
    hard = ["!(Same(x, y) ^ Related(x, y))."] * match.with_related
    hard += list(TRANSITIVITY) * transitive
    text = "\n".join([*declared, *(rule for rule, _ in rules), *hard])
    return text, [*([note] for _, note in rules), *([""] for _ in hard)]


def found_rules(match: MatchModel, sets: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the rule of each set of blocking rules, with a note."""
    weights = dict(zip(sets, [*match.rule_weight.tolist(), match.outside_weight], strict=True))
    for name, weight in weights.items():
        yield f"{weight + match.prior[SAME]:.6f} Found(x, y, {name}) ^ Same(x, y)", "prior odds"
        if match.with_related:
            yield f"{weight + match.prior[RELATED]:.6f} Found(x, y, {name}) ^ Related(x, y)", ""


def level_rules(match: MatchModel, predicates: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the rules of each level of each column, with a note."""
    kinds = ("Same", "Related")[: 1 + match.with_related]
    for column, (predicate, comparison) in enumerate(
        zip(predicates, match.comparisons, strict=True)
    ):
        for kind, name in enumerate(kinds):
            weights = match.level_weights[column][kind]
            for level, (constant, words) in enumerate(comparison.levels(), start=1):
                if constant:
                    yield (
                        f"{weights[level]:.6f} {predicate}(x, y, {constant}) ^ {name}(x, y)",
                        f"{comparison.column}: {words}" if kind == SAME else "",
                    )


def build_facts(
    records: Records,
    match: MatchModel,
    pairs: CandidatePairs,
    extended: np.ndarray,
    compared: np.ndarray,
    unknown: np.ndarray,
    linked: np.ndarray | None,
) -> Database:
    """Build the facts.

    Pairs that are `compared` have levels, `unknown` ones are asked, the others are false;
    transitivity holds among those that are `linked`.
    """
    domain = tuple(records.names.tolist())
    builder = FactBuilder(domain)
    ends = np.column_stack([pairs.left, pairs.right])
    predicates = name_predicates([each.column for each in match.comparisons])
    for column, (predicate, comparison) in enumerate(
        zip(predicates, match.comparisons, strict=True)
    ):
        names = [name for name, _ in comparison.levels()]
        level = extended[:, column]
        rows = np.flatnonzero(compared & (level > 0) & (level != comparison.num_plain))
        builder.add(predicate, ends[rows], TRUE, level[rows] - 1, names)
    rows = np.flatnonzero(compared)
    number = match.sets.index(pairs.found_by[rows])
    names = [*map(name_rule_set, match.sets.bits.tolist()), NO_RULE]
    number[number < 0] = len(names) - 1
    builder.add("Found", ends[rows], TRUE, number, names)
    builder.add("Same", ends[unknown], UNKNOWN)
    if match.with_related:
        builder.add("Related", ends[rows], UNKNOWN)
    if linked is not None:
        builder.add("Linked", ends[linked], TRUE)
    return builder.build()


class FactBuilder:
    """Relations over pairs of records, some with a third argument."""

    def __init__(self, records: tuple[str, ...]) -> None:
        self.records = records
        self.domains: dict[str, Domain] = {}
        self.rows: dict[str, tuple[np.ndarray, int]] = {}

    def add(
        self,
        predicate: str,
        ends: np.ndarray,
        truth: int,
        value: np.ndarray | None = None,
        names: Sequence[str] = (),
    ) -> None:
        """Add the facts of a predicate: pairs, and the number of the third argument."""
        columns = [ends] if value is None else [ends, value[:, None]]
        codes = np.concatenate(columns, axis=1).astype(np.int32)
        for argument in range(codes.shape[1]):
            type_name = provisional_type(predicate, argument)
            constants = self.records if argument < 2 else tuple(names)
            self.domains[type_name] = Domain(type_name, constants)
        self.rows[predicate] = codes, truth

    def build(self) -> Database:
        relations = {}
        for predicate, (codes, truth) in self.rows.items():
            types = tuple(provisional_type(predicate, n) for n in range(codes.shape[1]))
            relations[predicate] = build_relation(
                predicate, types, codes, np.full(len(codes), truth), False
            )
        return Database(self.domains, relations)

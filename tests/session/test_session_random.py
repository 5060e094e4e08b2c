"""Random changes of random models: each answer is that of a fresh run, and of the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
import oracle
from lapis.language.model import Model
from oracle import Facts, GroundAtom, NoWorld, atom_text
from strategies import CONSTANTS, MAX_ATOMS, Case, cases

Statements = dict[GroundAtom, str]  # the sign of each fact

# Atoms of their own beside those of a case: with them the network is not tiny.
ITEMS = ", ".join(f"I{number}" for number in range(201))
FILLER = f"item = {{{ITEMS}}}\nFiller(item)\n0.5 Filler(x)\n"


@dataclass(frozen=True)
class Change:
    """A change as a user would make it."""

    action: str  # add, remove, unknown, weight, undo or ask
    atom: GroundAtom = ("", ())
    sign: str = ""
    rule: int = 0
    weight: float = 0.0


@st.composite
def changes(draw: st.DrawFn, case: Case, *, most: int) -> list[Change]:
    """A sequence of changes over the constants of a case, and at times a new one."""
    model = lapis.parse(case.model)
    atoms = list(itertools.chain.from_iterable(
        ((name, row) for row in itertools.product(*(CONSTANTS[t] for t in predicate.types)))
        for name, predicate in model.predicates.items()
    ))  # fmt: skip
    soft = [place for place, rule in enumerate(model.rules) if not rule.hard]
    actions = ["add", "add", "add", "remove", "remove", "unknown", "undo", "ask"]
    actions += ["weight"] * bool(soft)
    found = []
    for _ in range(draw(st.integers(1, most))):
        action = draw(st.sampled_from(actions))
        if action == "weight":
            weight = draw(st.sampled_from((0.0, 1.0, -2.0, 0.3)))
            found.append(Change(action, rule=draw(st.sampled_from(soft)), weight=weight))
        elif action in ("undo", "ask") or not atoms:
            found.append(Change("ask" if action == "ask" else "undo"))
        else:
            sign = draw(st.sampled_from(("", "", "!"))) if action != "unknown" else ""
            found.append(Change(action, draw(st.sampled_from(atoms)), sign))
    return found


@st.composite
def sequences(draw: st.DrawFn, most: int = 6) -> tuple[Case, list[Change]]:
    case = draw(cases())
    return case, draw(changes(case, most=most))


def state(statements: Statements, model: Model, change: Change) -> Statements | None:
    """The facts after a change by its definition, None if it must be refused."""
    found, atom, sign = dict(statements), change.atom, change.sign
    known = found.get(atom)
    if change.action == "unknown":
        return {**found, atom: "?"}
    if change.action == "remove":
        if known != sign:
            return None
        del found[atom]
        return found
    if known not in (None, "?", sign):
        return None
    name, row = atom
    values = [r for (n, r), s in found.items() if n == name and r[:-1] == row[:-1] and s == ""]
    if model.predicates[name].function and sign == "" and known != "" and values:
        return None
    return {**found, atom: sign}


def facts_of(statements: Statements) -> Facts:
    groups = [[a for a, sign in statements.items() if sign == mark] for mark in ("", "!", "?")]
    return Facts(*(tuple(group) for group in groups))


def make(session: lapis.Session, model: Model, change: Change) -> None:
    text = "" if not change.atom[0] else atom_text(model.predicates[change.atom[0]], change.atom[1])
    match change.action:
        case "add":
            session.add(change.sign + text)
        case "remove":
            session.remove(change.sign + text)
        case "unknown":
            session.unknown(text)


def check_answer(
    session: lapis.Session, answer: lapis.Answer, statements: Statements, query: Sequence[str]
) -> None:
    """The answer equals a fresh one bit for bit, and that of the oracle."""
    fresh = lapis.infer(session.model, session.data, query)
    assert answer.atoms == fresh.atoms
    assert answer.exact
    assert fresh.exact
    assert np.array_equal(answer.probability, fresh.probability)
    assert answer.method == fresh.method
    assert answer.log_partition == pytest.approx(fresh.log_partition, rel=1e-12, abs=1e-12)
    assert answer.expected_counts == pytest.approx(fresh.expected_counts, rel=1e-9, abs=1e-9)
    if len(answer.atoms) <= MAX_ATOMS:
        domains = {name: domain.constants for name, domain in session.data.domains.items()}
        model = replace(session.model, types=domains)
        expected = oracle.infer(model, facts_of(statements), query)
        assert set(answer.atoms) <= set(expected.marginals)
        for name, value in answer.marginals.items():
            assert value == pytest.approx(expected.marginals[name], abs=1e-9)


def is_possible(session: lapis.Session, statements: Statements, query: Sequence[str]) -> bool:
    """Whether the oracle finds a world, over the constants of the session and of the facts."""
    domains = {name: domain.constants for name, domain in session.data.domains.items()}
    try:
        oracle.infer(replace(session.model, types=domains), facts_of(statements), query)
    except NoWorld:
        return False
    return True


def count_atoms(session: lapis.Session, statements: Statements) -> int:
    """The number of ground atoms, with the constants of the facts."""
    types = {name: domain.constants for name, domain in session.data.domains.items()}
    model = replace(session.model, types=types)
    domains = oracle.constants_of(model, facts_of(statements))
    domains.pop("item", None)
    return sum(
        int(np.prod([len(domains[t]) for t in p.types]))
        for p in model.predicates.values()
        if "item" not in p.types
    )


def check_sequence(case: Case, steps: Sequence[Change], *, tiny: bool) -> None:
    text = case.model if tiny else case.model + FILLER
    model, data = lapis.parse(text), lapis.Database.parse(case.data)
    query = [*case.query, *([] if tiny else ["Filler"])]
    signs = {name: sign for sign, name in (("", "true"), ("!", "false"), ("?", "unknown"))}
    statements = {a: signs[n] for n in signs for a in getattr(case.facts, n)}
    plain = lapis.parse(case.model)
    try:
        oracle.infer(plain, case.facts, case.query)
    except NoWorld:
        with pytest.raises(lapis.LapisError):
            lapis.Session(model, data, query).ask()
        return
    session = lapis.Session(model, data, query)
    earlier: list[tuple[Statements, lapis.Answer | None]] = []
    last: lapis.Answer | None = None
    for change in steps:
        if change.action == "undo":
            if not earlier:
                continue
            statements, last = earlier.pop()
            session.undo()
            answer = session.ask()
            if last is not None:
                assert np.array_equal(answer.probability, last.probability)
        elif change.action == "weight":
            session.set_weight(change.rule, change.weight)
            earlier.append((statements, last))
        elif change.action != "ask":
            after = state(statements, session.model, change)
            if after is not None and count_atoms(session, after) > MAX_ATOMS + 4:
                continue
            if after is None or (tiny and not is_possible(session, after, case.query)):
                before = session.data
                with pytest.raises(lapis.LapisError):
                    make(session, session.model, change)
                assert session.data is before
                continue
            if not tiny:
                try:
                    make(session, session.model, change)
                except lapis.LapisError:
                    continue
            else:
                make(session, session.model, change)
            earlier.append((statements, last))
            statements = after
        answer = session.ask()
        last = answer
        check_answer(session, answer, statements, query if not tiny else case.query)


@settings(max_examples=20)
@given(sequences())
def test_sequences(drawn: tuple[Case, list[Change]]) -> None:
    check_sequence(*drawn, tiny=True)


@settings(max_examples=20)
@given(sequences())
def test_sequences_in_a_larger_network(drawn: tuple[Case, list[Change]]) -> None:
    check_sequence(*drawn, tiny=False)


@pytest.mark.slow
@settings(max_examples=5000)
@given(sequences(10))
def test_sequences_long(drawn: tuple[Case, list[Change]]) -> None:
    check_sequence(*drawn, tiny=True)
    check_sequence(*drawn, tiny=False)

"""The size of an expansion is computed first; too large ones are errors that name the formula."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
import oracle
from cli_run import Run
from lapis.errors import TooLarge
from lapis.language.parser import parse_formula
from lapis.language.syntax import And, Atom, Not, Or
from lapis.logic.normalize import disjoint_cubes, truth_values

NUM_PARTS = 16


def chain(size: int) -> str:
    return " <=> ".join(f"P{i}(x)" for i in range(size))


def model_text(formula: str, size: int) -> str:
    return "t = {A, B, C}\n" + "".join(f"P{i}(t)\n" for i in range(size)) + formula


FORMULAS = [f"1.5 EXIST x ({chain(NUM_PARTS)})", f"1.5 {chain(NUM_PARTS)}", f"{chain(NUM_PARTS)}."]

LITERALS = st.lists(
    st.tuples(st.sampled_from("ABCDE"), st.booleans()),
    min_size=2,
    max_size=5,
    unique_by=itemgetter(0),
)


@given(LITERALS, st.sampled_from((And, Or)), st.booleans())
def test_literals_are_expanded_as_by_splitting(
    literals: list[tuple[str, bool]], kind: type[And | Or], value: bool
) -> None:
    atoms = [(Atom(name, ()), sign) for name, sign in literals]
    formula = kind(tuple(atom if sign else Not(atom) for atom, sign in atoms))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lapis.logic.normalize.cubes_of_literals", lambda formula, value: None)
        split = disjoint_cubes(formula, value)
    assert disjoint_cubes(formula, value) == split


@pytest.mark.parametrize(("connective", "number"), [(" v ", 1), (" ^ ", 1000)])
def test_formulas_of_a_thousand_literals_are_read_and_expanded(
    connective: str, number: int
) -> None:
    formula = parse_formula(connective.join(f"P(C{i})" for i in range(1000)))
    cubes = disjoint_cubes(formula, False)
    assert (len(cubes), max(map(len, cubes))) == (number, 1000)


def test_paths_are_as_long_as_the_formula_has_leaves() -> None:
    pairs = [And((Atom(f"P{i}", ()), Atom(f"Q{i}", ()))) for i in range(25)]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 40)
    try:
        values = truth_values(Or(tuple(pairs)))
    finally:
        sys.setrecursionlimit(limit)
    assert values == {True, False}


CALLS: dict[str, Callable[[lapis.Model, lapis.Database], object]] = {
    "count": lambda model, data: lapis.count(model, data),
    "infer": lambda model, data: lapis.infer(model, data, "P0"),
    "map": lambda model, data: lapis.map(model, data, "P0"),
    "learn": lambda model, data: lapis.learn(model, data),
    "score": lambda model, data: lapis.score(model, data, "P0"),
}


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("call", CALLS)
def test_parity_of_many_atoms_is_refused_by_its_price(call: str, formula: str) -> None:
    model = lapis.parse(model_text(formula, NUM_PARTS), "m.mln")
    with pytest.raises(TooLarge) as refused:
        CALLS[call](model, lapis.Database.parse("P0(A)"))
    # Half of the 2^16 assignments make a parity false (or true).
    assert f"{2 ** (NUM_PARTS - 1):,} clauses" in refused.value.message
    assert model.rules[0].text in refused.value.message
    assert refused.value.span is not None
    assert refused.value.hint is not None


@pytest.mark.parametrize("command", CALLS)
def test_the_command_ends_with_code_3(command: str, run: Run) -> None:
    run.write("m.mln", model_text(FORMULAS[0], NUM_PARTS))
    run.write("d.db", "P0(A)\n")
    asked = ["-o", "out.mln"] if command == "learn" else [] if command == "count" else ["-q", "P0"]
    code, _, err = run(command, "m.mln", "d.db", *asked)
    assert code == 3
    assert "becomes 32,768 clauses" in err
    assert not (run.folder / "out.mln").exists()


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_quantified_parity_has_the_likelihood_of_the_definition(size: int) -> None:
    """From three parts on its witnesses change in more ways than products are expanded for."""
    model = lapis.parse(model_text(f"1.5 EXIST x ({chain(size)})\n0.3 P0(x)", size))
    true = [("P0", ("A",)), ("P1", ("B",)), ("P0", ("C",)), ("P1", ("C",))]
    facts = oracle.Facts(true=tuple(true))
    data = lapis.Database.parse(oracle.render_database(model.predicates, facts))
    found = lapis.score(model, data)
    expected = oracle.pseudo_log_likelihood(model, facts)
    assert found.pseudo_log_likelihood == pytest.approx(expected, abs=1e-9)

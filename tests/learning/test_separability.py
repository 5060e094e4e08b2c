"""Unbounded weights: hand-made cases, and random ones decided by the dual (Farkas) instead."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
from lapis.counting.differences.atom_classes import AtomStack, BlockStack
from lapis.learning import separability
from lapis.learning.examples import build_examples
from lapis.learning.objectives.pseudo import PredicateTerm, PseudoObjective, pseudo_objective
from lapis.learning.parameters import share_parameters
from lapis.learning.reliability import curvature_matrix
from lapis.learning.separability import Separation, separating_direction, unbounded_parameters


def with_stack(stack: AtomStack | BlockStack, num_parameters: int) -> PseudoObjective:
    """An objective with given classes, for formulas R0, R1, …"""
    names = [f"R{number}" for number in range(num_parameters)]
    model = lapis.parse("".join(f"{name}\n" for name in names) + "".join(f"0 {n}\n" for n in names))
    parameters = share_parameters(model, [lapis.build_problem(model)])
    term = PredicateTerm("R0", 1.0, stack, float(len(stack)))
    return PseudoObjective("test", parameters, (term,), np.zeros(num_parameters))


def of_margins(rows: Sequence[Sequence[float]], free: Sequence[bool] | None = None) -> Separation:
    matrix = np.array(rows, np.float64)
    objective = with_stack(AtomStack(matrix, np.ones(len(matrix))), matrix.shape[1])
    mask = np.ones(matrix.shape[1], bool) if free is None else np.array(free)
    return unbounded_parameters(objective, mask)


def signs(found: Separation) -> dict[int, int]:
    return dict(zip(found.parameter.tolist(), found.sign.tolist(), strict=True))


def on_data(
    model_text: str, data: str, query: Sequence[str] = (), free: Sequence[bool] | None = None
) -> tuple[Separation, list[str]]:
    model = lapis.parse(model_text)
    examples = build_examples(model, [lapis.Database.parse(data)], query)
    shared = share_parameters(model, [example.complete for example in examples])
    objective = pseudo_objective(examples, shared)
    mask = np.ones(len(shared), bool) if free is None else np.array(free)
    return unbounded_parameters(objective, mask), shared.names()


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[1], [2]], {0: 1}),
        ([[-1], [-2]], {0: -1}),
        ([[1], [-2]], {}),
        ([[1, 0], [-5, 1]], {0: 1, 1: 1}),  # the second frees the first
        ([[1, -1], [-1, 2]], {0: 1, 1: 1}),  # only together
        ([[-1, 1], [1, -2]], {0: -1, 1: -1}),
        ([[1, -1], [-1, 1]], {}),
        ([[1, 1], [-1, -1]], {}),  # indistinguishable, but bounded in every way that matters
        ([[1, -1, 0], [-1, 2, 0], [0, 0, 1], [0, 0, -1]], {0: 1, 1: 1}),
        # A second combination shows only once the first has made its rows certain.
        (
            [[1, -1, 0, 0], [-1, 2, 0, 0], [-9, 0, 1, -1], [9, -9, -1, 2]],
            dict.fromkeys(range(4), 1),
        ),
        ([[1, 0], [-1, 10_000_000], [0, -1]], {}),  # within a solver's tolerance, yet bounded
        ([], {}),
    ],
    ids=str,
)
def test_margins_by_hand(rows: list[list[float]], expected: dict[int, int]) -> None:
    matrix = rows or np.empty((0, 2))
    assert signs(of_margins(matrix)) == expected


def test_reasons_and_idle_weights() -> None:
    found = of_margins([[1, -1, 0, 0, 0], [-1, 2, 0, 0, 0], [0, 0, -3, 0, 0], [0, 0, 0, 1, 0]] * 2)
    assert found.complete
    assert found.idle.tolist() == [4]
    assert signs(found) == {0: 1, 1: 1, 2: -1, 3: 1}
    assert "together with 'R1' it separates 4 values" in found.reason[0]
    assert "together with 'R0'" in found.reason[1]
    assert "opposes" in found.reason[2]
    assert "supports it wherever it makes a difference (2 times)" in found.reason[3]


def test_a_fixed_weight_takes_no_part() -> None:
    rows = [[1, -1], [-1, 2]]
    assert signs(of_margins(rows, [True, False])) == {}
    assert signs(of_margins([[1, 0], [-5, 1]], [True, False])) == {}
    assert of_margins([[1, 0]], [True, False]).idle.tolist() == []


def test_too_large_for_a_program_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separability, "MAX_PROGRAM", 3)
    found = of_margins([[1, -1, 0], [-1, 2, 0], [0, 0, 1]])
    assert (signs(found), found.complete) == ({2: 1}, False)


def is_separable(matrix: np.ndarray, row: int) -> bool:
    """Whether some d has M d ≥ 0 and m_row · d > 0: unless −m_row is in the cone of the rows."""
    from scipy.optimize import nnls

    _, residual = nnls(matrix.T, -matrix[row])
    return bool(residual > 1e-8)


def ridge_maximum(objective: PseudoObjective, ridge: float, weights: np.ndarray) -> np.ndarray:
    """The maximum of objective − ridge/2 · |w|², by damped Newton steps."""

    def height(at: np.ndarray) -> float:
        return objective.evaluate(at).value - ridge / 2 * float(at @ at)

    for _ in range(200):
        point = objective.evaluate(weights)
        gradient = point.gradient - ridge * weights
        if np.abs(gradient).max() < 1e-15:
            break
        step = np.linalg.solve(curvature_matrix(point) + ridge * np.eye(len(weights)), gradient)
        while height(weights + step) < height(weights) - 1e-15 and np.abs(step).max() > 1e-12:
            step = step / 2
        weights = weights + step
    return weights


@st.composite
def integer_margins(draw: st.DrawFn) -> np.ndarray:
    width = draw(st.integers(1, 3))
    entry = st.integers(-3, 3)
    rows = draw(st.lists(st.lists(entry, min_size=width, max_size=width), min_size=1, max_size=7))
    return np.array(rows, np.float64)


@given(integer_margins())
def test_random_margins_against_the_dual(matrix: np.ndarray) -> None:
    num_rows, width = matrix.shape
    objective = with_stack(AtomStack(matrix, np.ones(num_rows)), width)
    found = unbounded_parameters(objective, np.ones(width, bool))
    certain = np.array([is_separable(matrix, row) for row in range(num_rows)])
    assert found.complete
    assert (len(found.parameter) > 0) == certain.any()
    assert found.idle.tolist() == np.flatnonzero(~matrix.any(axis=0)).tolist()
    # The weights found, moved only where their signs say, make all these values certain.
    signed = matrix[:, found.parameter] * found.sign
    within = np.vstack([signed, np.eye(len(found.parameter))])
    assert all(is_separable(within, row) for row in np.flatnonzero(certain))
    # With less and less of a prior, the log-odds of just these values run away.
    near = ridge_maximum(objective, 1e-7, np.zeros(width))
    far = ridge_maximum(objective, 1e-11, near)
    assert ((matrix @ far - matrix @ near) > 3.0).tolist() == certain.tolist()


@given(integer_margins())
def test_a_direction_is_one_of_recession(matrix: np.ndarray) -> None:
    from scipy.sparse import csr_array

    rows = matrix[matrix.any(axis=1)]
    if not len(rows):
        return
    direction = separating_direction(csr_array(rows))
    assert direction is not None
    assert np.all(rows @ direction >= -1e-7)
    certain = [is_separable(rows, row) for row in range(len(rows))]
    assert np.any(rows @ direction > 1e-6) == any(certain)
    assert np.any(direction) == any(certain)


@given(integer_margins(), st.data())
def test_blocks_are_margins_against_every_rival(vector: np.ndarray, data: st.DataObject) -> None:
    """A class per block: the same answer as for the differences D(data) − D(rival) as atoms."""
    num_vectors, width = vector.shape
    choices = st.lists(st.integers(0, num_vectors - 1), min_size=1, max_size=4, unique=True)
    blocks = data.draw(st.lists(choices, min_size=1, max_size=4))
    stack = BlockStack(
        vector,
        np.cumsum([0, *map(len, blocks)]),
        np.concatenate(blocks),
        np.ones(sum(map(len, blocks))),
        np.array([block[0] for block in blocks]),
        np.ones(len(blocks)),
    )
    found = unbounded_parameters(with_stack(stack, width), np.ones(width, bool))
    rows = [vector[block[0]] - vector[rival] for block in blocks for rival in block[1:]]
    expected = of_margins(np.reshape(rows, (len(rows), width)))
    assert signs(found) == signs(expected)
    assert found.idle.tolist() == expected.idle.tolist()


def test_a_rule_that_the_data_never_contradicts() -> None:
    found, names = on_data(
        """
        person = {A, B, C, D}
        Smokes(person)
        Cancer(person)
        Smokes(x) => Cancer(x)
        0 Smokes(x)
        0 Cancer(x)
        """,
        "Smokes(A) Cancer(A) Cancer(B)",
    )
    assert [names[number] for number in found.parameter] == ["Smokes(x) => Cancer(x)"]
    assert found.sign.tolist() == [1]


def test_words_that_tell_topics_without_exception() -> None:
    """Each block must choose; `Song` stands on Music pages only, `Page` on both kinds."""
    found, names = on_data(
        """
        Topic(page, topic!)
        Has(page, word)
        Has(p,+w) ^ Topic(p,+t)
        """,
        """
        Topic(P1,Logic) Topic(P2,Music) Topic(P3,Music) Topic(P4,Logic)
        Has(P1,Page) Has(P2,Page) Has(P2,Song) Has(P3,Song) Has(P3,Page) Has(P4,Proof)
        Has(P3,Proof)
        """,
        ["Topic"],
    )
    told = {names[number]: sign for number, sign in signs(found).items()}
    assert told["Has(p, Song) ^ Topic(p, Music)"] == 1
    assert told["Has(p, Song) ^ Topic(p, Logic)"] == -1
    # Then only P1 and P4 are left, both about Logic.
    assert told["Has(p, Page) ^ Topic(p, Logic)"] == 1
    assert told["Has(p, Proof) ^ Topic(p, Logic)"] == 1


def test_a_rule_about_given_predicates_is_idle() -> None:
    found, names = on_data(
        "Smokes(person)\nCancer(person)\n0 Smokes(x)\n0 Cancer(x)\n",
        "Smokes(A) Cancer(A) !Cancer(B)",
        ["Cancer"],
    )
    assert [names[number] for number in found.idle] == ["Smokes(x)"]
    assert found.parameter.tolist() == []

"""Known numbers of combinatorial structures, exactly, up to thirty elements."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import comb, factorial

import pytest

import lapis
from lapis.lifted.cells.count import CellSum

SIZES = [1, 2, 3, 4, 7, 30]
GRAPH = "~e(X,X).\ne(X,Y) -> e(Y,X).\n"
PERMUTATION = "\\exists_{=1} Y: (f(X,Y)).\n\\exists_{=1} X: (f(X,Y)).\n"


def count(text: str, size: int) -> Fraction | None:
    model = lapis.parse(f"{text}\nd = {size}\n")
    return CellSum.of(lapis.build_problem(model, query=list(model.predicates))).evaluate().count


@cache
def derangements(n: int) -> int:
    return [1, 0][n] if n < 2 else (n - 1) * (derangements(n - 1) + derangements(n - 2))


@cache
def cycle_covers(n: int) -> int:
    """Count 2-regular graphs by the cycle of the last vertex: (k − 1)!/2 orders of k − 1 others."""
    if n == 0:
        return 1
    return sum(
        comb(n - 1, k - 1) * factorial(k - 1) // 2 * cycle_covers(n - k) for k in range(3, n + 1)
    )


def cubic_graphs(n: int) -> Fraction:
    """Return the coefficient of x₁³…x_n³ in Π_{i<j} (1 + x_i x_j), by power sums p₁, p₂, p₃.

    It is the scalar product of h₃ⁿ, h₃ = p₁³/6 + p₁p₂/2 + p₃/3, and the part in these of
    exp Σ_k (−1)^{k+1} (p_k² − p_2k) / 2k, where ⟨p_k^a, p_k^a⟩ = k^a a!.
    """

    def exponential(a: int, linear: Fraction, square: Fraction) -> Fraction:
        """Return the coefficient of p^a in exp(linear p + square p²)."""
        return sum(
            (
                linear ** (a - 2 * s) / factorial(a - 2 * s) * square**s / factorial(s)
                for s in range(a // 2 + 1)
            ),
            Fraction(0),
        )

    total = Fraction(0)
    for i in range(n + 1):
        for j in range(n + 1 - i):
            k = n - i - j
            ways = Fraction(factorial(n), factorial(i) * factorial(j) * factorial(k))
            ways /= 6**i * 2**j * 3**k
            ones = 3 * i + j
            ways *= exponential(ones, Fraction(0), Fraction(1, 2)) * factorial(ones)
            ways *= exponential(j, Fraction(-1, 2), Fraction(-1, 4)) * 2**j * factorial(j)
            ways *= exponential(k, Fraction(0), Fraction(1, 6)) * 3**k * factorial(k)
            total += ways
    return total


@cache
def ordered_partitions(n: int) -> int:
    return 1 if n == 0 else sum(comb(n, k) * ordered_partitions(n - k) for k in range(1, n + 1))


def colourings(n: int, colours: int) -> int:
    """Count pairs of a graph and a proper colouring with two colours."""
    if colours == 1:
        return 1
    return sum(
        comb(n, k) * 2 ** (k * (n - k)) * colourings(n - k, colours - 1) for k in range(n + 1)
    )


@pytest.mark.parametrize("n", SIZES)
def test_everyone_has_someone(n: int) -> None:
    assert count("\\exists Y: (f(X,Y)).", n) == (2**n - 1) ** n


@pytest.mark.parametrize("n", SIZES)
def test_functions_and_permutations(n: int) -> None:
    assert count("\\exists_{=1} Y: (f(X,Y)).", n) == n**n
    assert count(PERMUTATION, n) == factorial(n)
    assert count(f"~f(X,X).\n{PERMUTATION}", n) == derangements(n)


@pytest.mark.parametrize("n", SIZES)
def test_functions_by_their_number_of_pairs(n: int) -> None:
    assert count(f"\\exists Y: (f(X,Y)).\n|f| = {n}", n) == n**n


@pytest.mark.parametrize("n", SIZES)
def test_regular_graphs(n: int) -> None:
    assert count(GRAPH + "\\exists_{=1} Y: (e(X,Y)).", n) == (
        factorial(n) // (2 ** (n // 2) * factorial(n // 2)) if n % 2 == 0 else 0
    )
    assert count(GRAPH + "\\exists_{=2} Y: (e(X,Y)).", n) == cycle_covers(n)


@pytest.mark.parametrize("n", [4, 6, 7, 8, 30])
def test_cubic_graphs(n: int) -> None:
    assert count(GRAPH + "\\exists_{=3} Y: (e(X,Y)).", n) == cubic_graphs(n)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("colours", ["rg", "rgb", "rgby"])
def test_colourings(n: int, colours: str) -> None:
    edges = "".join(f"e(X,Y) -> ~(c{c}(X) & c{c}(Y)).\n" for c in colours)
    one = f"ExactlyOne[{', '.join(f'c{c}' for c in colours)}].\n"
    assert count(GRAPH + one + edges, n) == colourings(n, len(colours))


@pytest.mark.parametrize("n", SIZES)
def test_graphs_by_edges(n: int) -> None:
    pairs = comb(n, 2)
    assert count(f"{GRAPH}|e| = 6", n) == comb(pairs, 3)
    assert count(f"{GRAPH}|e| <= 5", n) == 1 + pairs + comb(pairs, 2)
    assert count(f"{GRAPH}|e| > 2", n) == 2**pairs - 1 - pairs


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20])
def test_orders(n: int) -> None:
    """Count prefixes, and binary sequences and circles without two adjacent ones."""
    assert count("h(Y) & LEQ(X,Y) -> h(X).", n) == factorial(n) * (n + 1)
    fibonacci = [1, 2]
    while len(fibonacci) <= n:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    assert count("~(h(X) & h(Y) & PRED(X,Y)).", n) == factorial(n) * fibonacci[n]
    if n > 2:
        lucas = fibonacci[n - 1] + fibonacci[n - 3]
        assert count("~(h(X) & h(Y) & CIRCULAR_PRED(X,Y)).", n) == factorial(n) * lucas


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20])
def test_neighbours_in_another_order(n: int) -> None:
    """Permutations with marks on some of their descents are ordered set partitions."""
    assert count("q(X,Y) <-> SUC(X,Y).", n) == factorial(n) ** 2
    marks = "q(X,Y) -> SUC(X,Y).\nSUC(X,Y) & LEQ(X,Y) -> q(X,Y)."
    assert count(marks, n) == factorial(n) * ordered_partitions(n)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_places_two_apart(n: int) -> None:
    """Odd and even positions are independent."""
    fibonacci = [1, 2, 3, 5]
    expected = factorial(n) * fibonacci[n // 2] * fibonacci[n - n // 2]
    assert count("~(h(X) & h(Y) & PRED2(X,Y)).", n) == expected

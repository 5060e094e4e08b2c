"""The pseudo-likelihood objective against the definition, evaluated in the oracle's worlds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
import oracle
from lapis.counting.differences import atom_classes
from lapis.errors import LapisError, LapisErrors, TooLarge
from lapis.language.model import Model
from lapis.learning.examples import build_examples
from lapis.learning.objectives import pseudo
from lapis.learning.objectives.pseudo import PseudoObjective, pseudo_objective
from lapis.learning.parameters import share_parameters
from lapis.learning.reliability import curvature_matrix
from oracle import Facts, GroundAtom, WeightKey
from strategies import Case, cases

SMOKERS = """
Friends(person, person)
Smokes(person)
Cancer(person)
Smokes(x) => Cancer(x)
Friends(x,y) ^ Smokes(x) => Smokes(y)
0 Smokes(x)
0 Cancer(x)
0 Friends(x,y)
"""
PEOPLE = "Smokes(A) Smokes(C) Cancer(A) Cancer(D) Friends(A,C) Friends(A,B) Friends(B,C)"
OTHERS = "Smokes(A) Cancer(E) Cancer(A) Friends(E,A) Friends(A,E) Friends(A,A)"

PAGES = """
Topic(page, topic!)
Home(page, site?)
Links(page, page)
Has(page, word)
Has(p,+w) => Topic(p,+t)
Topic(p,+t) ^ Links(p,q) => Topic(q,+t)
Home(p,s) ^ Links(p,q) => Home(q,s)
0 Links(p,q)
0 Home(p,s)
!Links(p,p).
!(Home(p,S1) ^ Topic(p,Music)).
"""
FIRST_PAGES = """
Topic(P1,Logic) Topic(P2,Logic) Topic(P3,Music) Links(P1,P2) Links(P2,P3) Links(P3,P1)
Home(P1,S1) Home(P3,S2) Has(P1,Proof) Has(P2,Proof) Has(P3,Song) Has(P2,Song)
"""
OTHER_PAGES = "Topic(P9,Music) Topic(P8,Art) Links(P9,P8) Has(P8,Paint) Has(P9,Song) Home(P8,S2)"


def objective_of(
    model: Model, texts: Sequence[str], query: Sequence[str] = (), **options: object
) -> PseudoObjective:
    listed = bool(options.pop("only_listed", False))
    worlds = [lapis.Database.parse(text) for text in texts]
    examples = build_examples(model, worlds, query, only_listed=listed)
    parameters = share_parameters(model, [example.complete for example in examples])
    return pseudo_objective(examples, parameters, **options)  # type: ignore[arg-type]


def facts_of(model: Model, text: str) -> Facts:
    """The true facts of a line of data without quotes or function values."""
    atoms = []
    for word in text.split():
        name, _, rest = word.partition("(")
        arguments = tuple(rest.rstrip(")").split(",")) if rest else ()
        atoms.append((name, arguments))
        assert len(arguments) == model.predicates[name].arity
    return Facts(true=tuple(atoms))


def union_keys(model: Model, worlds: Sequence[Facts]) -> list[WeightKey]:
    """The parameters in order: the constants of a type are those of all worlds together."""
    domains: dict[str, dict[str, None]] = {name: {} for name in model.types}
    for facts in worlds:
        for name, constants in oracle.constants_of(model, facts).items():
            domains[name].update(dict.fromkeys(constants))
    return oracle.weight_keys(model, {name: tuple(found) for name, found in domains.items()})


class Cells(NamedTuple):
    """What the definition needs of a world: the counts of each cell's values, the data's first."""

    counts: list[np.ndarray]  # of each cell float64[num_values + 1, num_parameters]
    possible: list[np.ndarray]  # bool[num_values + 1]

    def value(self, weights: np.ndarray) -> float:
        """Σ log P(cell's value | the rest)."""
        total = 0.0
        for counts, possible in zip(*self, strict=True):
            score = np.where(possible, counts @ weights, -np.inf)
            if score[0] == -np.inf:
                raise oracle.NoWorld
            total += float(score[0]) - oracle.log_sum_exp(score[1:])
        return total


def defined_cells(
    model: Model,
    facts: Facts,
    keys: Sequence[WeightKey],
    predicates: Iterable[str],
    chosen: Callable[[GroundAtom], bool] = lambda atom: True,
) -> Cells:
    """Every value of every cell, tried in the oracle's worlds."""
    domains = oracle.constants_of(model, facts)
    observed = oracle.observed_world(model, facts, domains)
    found = Cells([], [])
    for name in predicates:
        for cell in oracle.cells_of(model.predicates[name], domains):
            if not all(map(chosen, cell.atoms)):
                continue
            columns = [observed.column[atom] for atom in cell.atoms]
            truth = np.repeat(observed.truth, len(cell.values) + 1, axis=0)
            truth[1:, columns] = cell.values
            weighing = oracle.weigh(model, domains, oracle.Worlds(observed.column, truth))
            none = np.zeros(len(truth))
            table = [weighing.counts.get(key, none) for key in keys]
            found.counts.append(np.stack([none, *table], axis=1)[:, 1:])
            found.possible.append(weighing.possible)
    return found


def some_weights(number: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, 1.0, number)


def check_derivatives(objective: PseudoObjective, weights: np.ndarray) -> None:
    """Gradient and curvature against central differences of value and gradient."""
    point = objective.evaluate(weights)
    step = 1e-5
    full = curvature_matrix(point)
    for number in range(objective.num_parameters):
        unit = np.zeros(len(weights))
        unit[number] = 1.0
        above, below = (
            objective.evaluate(weights + step * unit),
            objective.evaluate(weights - step * unit),
        )
        slope = (above.value - below.value) / (2 * step)
        assert point.gradient[number] == pytest.approx(slope, rel=1e-6, abs=1e-6)
        bend = -(above.gradient - below.gradient) / (2 * step)
        product = point.curvature_product(unit)
        np.testing.assert_allclose(product, bend, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(full[number], product, rtol=1e-9, atol=1e-9)
        assert point.curvature_diagonal()[number] == pytest.approx(product[number], abs=1e-9)
    direction = some_weights(len(weights), seed=2)
    np.testing.assert_allclose(point.curvature_product(direction), full @ direction, atol=1e-8)


def second_world(case: Case, kept: Sequence[bool]) -> Facts:
    """Some of the facts: blocks stay as they are, so that they stay whole."""
    model = lapis.parse(case.model)
    true = tuple(
        atom
        for atom, stays in zip(case.facts.true, kept, strict=True)
        if stays or model.predicates[atom[0]].block
    )
    return Facts(true=true)


@given(cases(observed=True), st.data())
def test_values_and_derivatives_on_random_models(case: Case, data: st.DataObject) -> None:
    model = lapis.parse(case.model)
    size = len(case.facts.true)
    kept = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    worlds = [case.facts, second_world(case, kept)]
    texts = [case.data, oracle.render_database(model.predicates, worlds[1])]
    keys = union_keys(model, worlds)
    weights = some_weights(len(keys))
    try:
        for facts in worlds:
            oracle.pseudo_log_likelihood(model, facts, [])  # the data itself is possible
        cells = [
            defined_cells(model, facts, keys, [name])
            for name in model.predicates
            for facts in worlds
        ]
        found = [(each.value(weights), len(each.counts)) for each in cells]
    except oracle.NoWorld:
        with pytest.raises(LapisError) as error:
            objective_of(model, texts)
        assert error.value.code in ("data-breaks-hard-rule", "data-breaks-block")
        return
    objective = objective_of(model, texts)
    assert objective.is_exact
    assert objective.num_atoms == sum(cells for _, cells in found)
    expected = sum(value for value, _ in found)
    assert objective.evaluate(weights).value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    check_derivatives(objective, weights)

    weighted = objective_of(model, texts, weighted=True)
    pairs = list(zip(found[::2], found[1::2], strict=True))
    parts = [(one[0] + two[0]) / max(1, one[1] + two[1]) for one, two in pairs]
    assert weighted.evaluate(weights).value == pytest.approx(sum(parts), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("text", "worlds"),
    [(SMOKERS, (PEOPLE, OTHERS)), (PAGES, (FIRST_PAGES, OTHER_PAGES))],
    ids=["smokers", "pages"],
)
def test_worlds_with_their_own_constants(
    text: str,
    worlds: Sequence[str],
    sparse: bool,
    weighted: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Plus rules over different words, blocks with ! and ?, hard rules; both kinds of matrix."""
    if sparse:
        monkeypatch.setattr(atom_classes, "DENSE_ENTRIES", 0)
        monkeypatch.setattr(atom_classes, "DENSE_RATIO", 0)
    model = lapis.parse(text)
    facts = [facts_of(model, world) for world in worlds]
    keys = union_keys(model, facts)
    objective = objective_of(model, worlds, weighted=weighted)
    assert objective.num_parameters == len(keys)
    weights = some_weights(len(keys))
    expected = 0.0
    for name in model.predicates:
        found = [defined_cells(model, each, keys, [name]) for each in facts]
        total = sum(cells.value(weights) for cells in found)
        expected += total / sum(len(cells.counts) for cells in found) if weighted else total
    assert objective.evaluate(weights).value == pytest.approx(expected, rel=1e-12)
    check_derivatives(objective, weights)


def test_only_the_asked_predicates_are_in_the_sum() -> None:
    model = lapis.parse(SMOKERS)
    facts = facts_of(model, PEOPLE)
    weights = some_weights(5)
    cells = defined_cells(model, facts, union_keys(model, [facts]), ["Cancer"])
    objective = objective_of(model, [PEOPLE], ["Cancer"])
    assert objective.num_atoms == len(cells.counts) == 4
    assert objective.evaluate(weights).value == pytest.approx(cells.value(weights), rel=1e-12)
    assert objective.evaluate(weights).gradient[[1, 2, 4]].tolist() == [0.0, 0.0, 0.0]


def test_listed_atoms_alone_are_asked() -> None:
    """Candidate pairs as facts and negated facts; all other pairs are known, and not counted."""
    model = lapis.parse(SMOKERS + "!Friends(x,x).\n")
    text = PEOPLE + " !Friends(C,A) !Friends(B,B)"
    facts = facts_of(model, PEOPLE)
    pairs = {("A", "C"), ("A", "B"), ("B", "C"), ("C", "A"), ("B", "B")}
    weights = some_weights(5)
    keys = union_keys(model, [facts])
    cells = defined_cells(model, facts, keys, ["Friends"], lambda atom: atom[1] in pairs)
    objective = objective_of(model, [text], ["Friends"], only_listed=True)
    assert objective.num_atoms == len(cells.counts) == 5
    assert objective.evaluate(weights).value == pytest.approx(cells.value(weights), rel=1e-12)


def test_worlds_count_by_their_weights() -> None:
    model = lapis.parse(PAGES)
    both = objective_of(model, [FIRST_PAGES, OTHER_PAGES], world_weights=[0.25, 2.0])
    weights = some_weights(both.num_parameters)
    facts = [facts_of(model, text) for text in (FIRST_PAGES, OTHER_PAGES)]
    keys = union_keys(model, facts)
    values = [defined_cells(model, f, keys, model.predicates).value(weights) for f in facts]
    expected = 0.25 * values[0] + 2.0 * values[1]
    assert both.evaluate(weights).value == pytest.approx(expected, rel=1e-12)


def test_equal_classes_of_worlds_are_merged() -> None:
    model = lapis.parse(PAGES)
    one = objective_of(model, [FIRST_PAGES])
    many = objective_of(model, [FIRST_PAGES] * 3)
    assert [len(term.stack) for term in many.terms] == [len(term.stack) for term in one.terms]
    weights = some_weights(one.num_parameters)
    tripled = 3 * one.evaluate(weights).value
    assert many.evaluate(weights).value == pytest.approx(tripled, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_the_maximum_is_that_of_the_definition(weighted: bool) -> None:
    from scipy.optimize import minimize

    model = lapis.parse(SMOKERS)
    facts = [facts_of(model, text) for text in (PEOPLE, OTHERS)]
    keys = union_keys(model, facts)
    objective = objective_of(model, [PEOPLE, OTHERS], weighted=weighted)

    worlds = [
        [defined_cells(model, each, keys, [name]) for each in facts] for name in model.predicates
    ]

    def defined(weights: np.ndarray) -> float:
        total = 0.0
        for cells in worlds:
            scale = sum(len(each.counts) for each in cells) if weighted else 1
            total -= sum(each.value(weights) for each in cells) / scale
        return total

    def ours(weights: np.ndarray) -> tuple[float, np.ndarray]:
        point = objective.evaluate(weights)
        return -point.value, -point.gradient

    found = minimize(
        ours, np.zeros(5), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 1e-15}
    )
    assert np.abs(objective.evaluate(found.x).gradient).max() <= 1e-5
    brute = minimize(defined, np.zeros(5), method="Powell", options={"xtol": 1e-7, "ftol": 1e-14})
    assert -found.fun == pytest.approx(-brute.fun, abs=1e-7)
    np.testing.assert_allclose(found.x, brute.x, atol=1e-3)

    # Newton's method needs the curvature right, and then converges in a few steps.
    weights = np.zeros(5)
    for _ in range(12):
        point = objective.evaluate(weights)
        weights = weights + np.linalg.solve(curvature_matrix(point), point.gradient)
    assert np.abs(objective.evaluate(weights).gradient).max() <= 1e-10
    np.testing.assert_allclose(weights, found.x, atol=1e-4)


@given(cases(observed=True))
def test_true_counts_leave_out_what_evidence_decides(case: Case) -> None:
    """A grounding is decided where no values of the asked atoms make it false."""
    model = lapis.parse(case.model)
    asked = case.query
    domains = oracle.constants_of(model, case.facts)
    observed = oracle.observed_world(model, case.facts, domains)
    # Blocks are no reason to call a grounding decided: each atom is varied by itself.
    known = {
        atom: None if atom[0] in asked else bool(observed[atom][0]) for atom in observed.column
    }
    worlds = oracle.worlds_agreeing_with(known)
    try:
        objective = objective_of(model, [case.data], asked)
    except LapisError:
        return
    expected = dict.fromkeys(oracle.weight_keys(model, domains), 0)
    for index, rule in enumerate(model.rules):
        if rule.hard:
            continue
        for binding in oracle.bindings(rule.variables, domains):
            key = index, tuple(binding[name] for name in rule.plus)
            now = bool(oracle.holds(rule, binding, observed, domains)[0])
            always = bool(oracle.holds(rule, binding, worlds, domains).all())
            expected[key] += now and not always
    # A quantified part that mentions an asked predicate counts as open even where evidence
    # decides it, and so does one atom against itself (P v !P): then fewer are left out.
    totals = oracle.count_true(model, case.facts)
    for (key, least), count in zip(expected.items(), objective.true_counts.tolist(), strict=True):
        rule = model.rules[key[0]]
        repeated = any(len(re.findall(rf"\b{name}\b", rule.text)) > 1 for name in asked)
        if rule.bound or repeated:
            assert least <= count <= totals[key][0]
        else:
            assert count == least


def test_generative_true_counts_are_all_true_groundings() -> None:
    model = lapis.parse(SMOKERS)
    objective = objective_of(model, [PEOPLE, OTHERS])
    totals = [oracle.count_true(model, facts_of(model, text)) for text in (PEOPLE, OTHERS)]
    expected = [sum(total[rule, ()][0] for total in totals) for rule in range(5)]
    assert objective.true_counts.tolist() == expected


def refuse(*arguments: object, **options: object) -> None:
    raise TooLarge("too many", code="too-many-classes")


def test_a_sample_where_classes_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """All true atoms, some false ones; its mean over seeds is the exact value."""
    model = lapis.parse(SMOKERS)
    exact = objective_of(model, [PEOPLE])
    monkeypatch.setattr(pseudo, "find_difference_classes", refuse)
    monkeypatch.setattr(pseudo, "SAMPLE_SIZE", 12)
    weights = some_weights(5)
    values, gradients = [], []
    for seed in range(60):
        sampled = objective_of(model, [PEOPLE], random_state=seed)
        point = sampled.evaluate(weights)
        values.append(point.value)
        gradients.append(point.gradient)
    assert not sampled.is_exact
    assert "16 atoms of 'Friends', a sample" in "; ".join(sampled.notes)
    assert sampled.num_atoms == exact.num_atoms
    point = exact.evaluate(weights)
    for found, wanted in (
        (np.array(values)[:, None], [point.value]),
        (np.array(gradients), point.gradient),
    ):
        stderr = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        assert np.all(np.abs(found.mean(axis=0) - wanted) <= 4.5 * stderr + 1e-9)
    again = objective_of(model, [PEOPLE], random_state=7)
    same = objective_of(model, [PEOPLE], random_state=7)
    assert again.evaluate(weights).value == same.evaluate(weights).value
    check_derivatives(again, weights)


def test_a_sample_of_many_true_atoms(monkeypatch: pytest.MonkeyPatch) -> None:
    model = lapis.parse("t = {A, B, C, D}\nP(t, t)\n0 P(x,y)\n")
    text = " ".join(f"P({a},{b})" for a in "ABCD" for b in "ABC")
    monkeypatch.setattr(pseudo, "find_difference_classes", refuse)
    monkeypatch.setattr(pseudo, "SAMPLE_SIZE", 10)
    objective = objective_of(model, [text])
    # Each of the 12 true atoms is 1.2 of the 10 kept, so the optimum stays at 12 against 4.
    point = objective.evaluate(np.array([np.log(3.0)]))
    assert point.gradient[0] == pytest.approx(0.0, abs=1e-12)


def test_data_that_breaks_hard_rules_and_blocks() -> None:
    model = lapis.parse("P(t)\nQ(t)\nP(x) => Q(x).\nP(x) => !P(x).\n1 P(x)\n", name="m.mln")
    with pytest.raises(LapisErrors) as errors:
        objective_of(model, ["P(A) Q(B)"])
    for error, text in zip(errors.value.errors, ("P(x) => Q(x)", "P(x) => !P(x)"), strict=True):
        assert error.code == "data-breaks-hard-rule"
        assert text in error.message
        assert error.span is not None
        assert str(error.span).startswith("m.mln:")
    blocks = lapis.parse("Topic(page, topic!)\nHome(page, site?)\n1 Topic(p,t)\n")
    for text, number in (("Topic(P,A) Topic(P,B)", "1 block"), ("Home(P,S) Home(P,T)", "1 block")):
        with pytest.raises(LapisError) as error:
            objective_of(blocks, [text])
        assert error.value.code == "data-breaks-block"
        assert number in error.value.message


def test_unknown_atoms_are_refused() -> None:
    model = lapis.parse(SMOKERS)
    with pytest.raises(LapisError, match="complete data") as error:
        objective_of(model, ["Smokes(A) ?Cancer(A)"])
    assert error.value.code == "incomplete-data"
    assert "EM" in str(error.value.hint)
    examples = build_examples(model, [lapis.Database.parse("Smokes(A)")], unobserved=["Cancer"])
    shared = share_parameters(model, [example.complete for example in examples])
    with pytest.raises(LapisError, match="'Cancer'"):
        pseudo_objective(examples, shared)


def test_listed_blocks_are_refused() -> None:
    model = lapis.parse("Topic(page, topic!)\n1 Topic(p,t)\n")
    with pytest.raises(LapisError) as error:
        objective_of(model, ["Topic(P,A) !Topic(P,B)"], ["Topic"], only_listed=True)
    assert error.value.code == "listed-blocks"


def test_no_constants_no_rules_no_worlds() -> None:
    empty = objective_of(lapis.parse("P(t)\nRain\nTopic(t, s!)\n0 P(x)\n0 Rain\n"), [""])
    point = empty.evaluate(np.zeros(2))
    assert (empty.num_atoms, point.value) == (1, pytest.approx(-np.log(2.0)))
    assert point.gradient.tolist() == [0.0, -0.5]
    assert empty.true_counts.tolist() == [0.0, 0.0]
    bare = objective_of(lapis.parse("P(t)\n"), ["P(A) !P(B)"], weighted=True)
    assert bare.evaluate(np.empty(0)).value == pytest.approx(-np.log(2.0))
    assert curvature_matrix(bare.evaluate(np.empty(0))).shape == (0, 0)
    none = objective_of(lapis.parse("P(t)\n0 P(x)\n"), [])
    assert none.evaluate(np.zeros(1)).value == 0.0


def test_large_weights_do_not_overflow() -> None:
    model = lapis.parse(PAGES)
    objective = objective_of(model, [FIRST_PAGES])
    point = objective.evaluate(2000.0 * some_weights(objective.num_parameters))
    assert np.isfinite(point.value)
    assert np.all(np.isfinite(point.gradient))
    assert np.all(point.curvature_diagonal() >= 0.0)


def test_estimated_differences_are_told_apart_as_floats() -> None:
    """Classes from counting estimates: 0.25 and 0.75 must not be merged as integers."""
    vectors = atom_classes.SparseVectors(
        np.arange(5), np.zeros(4, np.int64), np.array([0.25, 0.75, -0.25, 0.25])
    )
    rows = atom_classes.AtomRows(
        vectors, np.array([True, True, False, False]), np.array([1.0, 2.0, 3.0, 4.0])
    )
    stack = atom_classes.stack_atoms([rows], 1)
    merged = dict(zip(np.asarray(stack.margin)[:, 0], stack.multiplicity, strict=True))
    assert merged == {0.25: 4.0, 0.75: 2.0, -0.25: 4.0}
    value = stack.at(np.array([2.0])).value
    margins = np.array([0.5, 1.5, 0.5, -0.5])
    assert value == pytest.approx(-np.array([1, 2, 3, 4]) @ np.log1p(np.exp(-margins)))


def test_points_and_objectives_fit_the_protocols() -> None:
    from lapis.optimisation.objective import Objective, Point

    objective: Objective = objective_of(lapis.parse(SMOKERS), [PEOPLE])
    point: Point = objective.evaluate(np.zeros(5))
    assert point.gradient_stderr is None
    assert objective.name == "pseudo-log-likelihood"
    assert replace(objective, notes=("x",)).is_exact is False  # type: ignore[type-var]

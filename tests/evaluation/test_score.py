"""Scores against all worlds of small models, straight from the definition."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lapis
import oracle
from lapis.evaluation.predictions import Predictions
from lapis.evaluation.score import measure, score_worlds
from lapis.inference.marginals import InferenceOptions
from lapis.language.model import Model
from lapis.results.atom_groups import Atoms
from oracle import Facts, GroundAtom, NoWorld
from strategies import Case, cases

SMOKERS = """
Smokes(person)
Cancer(person)
Friends(person, person)
1.5 Smokes(x) => Cancer(x)
0.7 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.4 Smokes(x)
"""
PEOPLE = "Smokes(Ann) Cancer(Ann) Friends(Ann,Bob) Friends(Bob,Cid) Smokes(Cid)"


def close(value: float) -> object:
    return pytest.approx(value, abs=1e-9, rel=1e-9)


def marginals_given_the_rest(
    model: Model, facts: Facts, query: tuple[str, ...]
) -> dict[str, tuple[GroundAtom, float, bool]]:
    """P(atom | all facts of the other predicates) of each query atom, and its truth."""
    domains = oracle.constants_of(model, facts)
    observed = oracle.observed_world(model, facts, domains)
    known = {
        atom: None if atom[0] in query else bool(observed[atom][0]) for atom in observed.column
    }
    worlds = oracle.worlds_agreeing_with(known)
    log_weight = oracle.weigh(model, domains, worlds).log_weight
    probability = np.exp(log_weight - oracle.log_sum_exp(log_weight))
    return {
        oracle.atom_text(model.predicates[atom[0]], atom[1]): (
            atom,
            float(probability @ worlds[atom]),
            bool(observed[atom][0]),
        )
        for atom, value in known.items()
        if value is None
    }


def average_precision(predicted: list[tuple[float, bool]]) -> float | None:
    """Average precision by its definition; probabilities equal up to rounding are one point."""
    num_true = sum(truth for _, truth in predicted)
    if not num_true:
        return None
    area, last = 0.0, 0.0
    for threshold in sorted({round(p, 9) for p, _ in predicted}, reverse=True):
        called = [truth for p, truth in predicted if round(p, 9) >= threshold]
        recall = sum(called) / num_true
        area += (recall - last) * sum(called) / len(called)
        last = recall
    return area


def share_in_order(predicted: list[tuple[float, bool]]) -> object:
    """The share of pairs (true, false) in which the true atom is likelier; ties count half."""
    true = [round(p, 9) for p, value in predicted if value]
    false = [round(p, 9) for p, value in predicted if not value]
    if not (true and false):
        return None
    wins = sum((high > low) + 0.5 * (high == low) for high in true for low in false)
    return pytest.approx(wins / (len(true) * len(false)))


def separated(values: list[float]) -> bool:
    """Any two are equal but for rounding, or clearly different."""
    pairs = itertools.pairwise(sorted(values))
    return all(b - a <= 5e-13 * b or b - a > 1e-7 for a, b in pairs)


@given(cases(observed=True))
def test_every_predicate_against_the_definition(case: Case) -> None:
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    try:
        pseudo = {n: oracle.pseudo_log_likelihood(model, case.facts, [n]) for n in model.predicates}
    except NoWorld:
        with pytest.raises(lapis.LapisError):
            score_worlds(model, [data], case.query, likelihood=False)
        return
    found = score_worlds(model, [data], case.query)
    assert found.exact
    assert found.max_stderr is None
    domains = oracle.constants_of(model, case.facts)
    cells = {n: len(oracle.cells_of(p, domains)) for n, p in model.predicates.items()}
    assert found.pseudo_log_likelihood == close(sum(pseudo.values()))
    assert found.weighted_pseudo_log_likelihood == close(
        sum(pseudo[name] / cells[name] for name in pseudo if cells[name])
    )
    expected = marginals_given_the_rest(model, case.facts, case.query)
    predictions = found.predictions
    assert predictions is not None
    named = dict(zip(predictions.atoms, predictions.probability.tolist(), strict=True))
    truth = dict(zip(predictions.atoms, predictions.truth.tolist(), strict=True))
    for name, (atom, probability, value) in expected.items():
        if name in named:
            assert named[name] == close(probability)
            assert truth[name] == value
        else:  # a block of one value leaves nothing to predict
            assert model.predicates[atom[0]].block
            assert probability == close(float(value))
    assert set(named) <= set(expected)
    assert [part.predicate for part in found.predicates] == list(case.query)
    for part in found.predicates:
        assert part.pseudo_log_likelihood == close(pseudo[part.predicate])
        own = [
            (probability, value)
            for name, (atom, probability, value) in expected.items()
            if name in named and atom[0] == part.predicate
        ]
        check_quality(part.to_json(), own, "average_precision")
    everything = [(p, value) for name, (_, p, value) in expected.items() if name in named]
    check_quality(found.to_json(), everything, "auc_pr")


def check_quality(found: dict[str, object], own: list[tuple[float, bool]], area: str) -> None:
    assert (found["num_atoms"], found["num_true"]) == (len(own), sum(t for _, t in own))
    if not own:
        assert found["cll"] is found["brier"] is found[area] is None
        return
    logs = [math.log(p if value else 1 - p) for p, value in own]
    assert found["cll"] == close(sum(logs) / len(own))
    assert found["brier"] == close(sum((p - value) ** 2 for p, value in own) / len(own))
    if separated([p for p, _ in own]):
        expected = average_precision(own)
        assert found[area] == (None if expected is None else pytest.approx(expected))
        assert found["auc_roc"] == share_in_order(own)


@given(cases())
def test_unknown_facts_are_summed_out(case: Case) -> None:
    """The facts marked ? are neither asked nor given."""
    assume(case.facts.unknown)
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    facts = case.facts
    try:
        known = oracle.infer(model, facts, ())
    except NoWorld:
        return
    open_facts = Facts(
        tuple(a for a in facts.true if a[0] not in case.query),
        tuple(a for a in facts.false if a[0] not in case.query),
        tuple(a for a in facts.all() if a in facts.unknown or a[0] in case.query),
    )
    free = oracle.infer(model, open_facts, case.query)
    found = score_worlds(model, [data], case.query)
    assert found.pseudo_log_likelihood is None
    assert any("pseudo" in note for note in found.notes)
    assert found.conditional_log_likelihood == close(known.log_partition - free.log_partition)
    everything = Facts((), (), facts.all())
    total = oracle.infer(model, everything, model.predicates).log_partition
    assert found.log_likelihood == close(known.log_partition - total)
    assert found.predictions is not None
    unknown = {oracle.atom_text(model.predicates[n], args) for n, args in facts.unknown}
    for atom, probability in zip(
        found.predictions.atoms, found.predictions.probability, strict=True
    ):
        assert atom not in unknown
        assert probability == close(free.marginals[atom])


def test_hidden_predicates_are_summed_out() -> None:
    """What the data states of a hidden predicate is given, the rest of it is unknown."""
    model, data = lapis.parse(SMOKERS), lapis.Database.parse(PEOPLE)
    found = score_worlds(model, [data], ["Cancer"], unobserved=["Smokes"])
    friends = (("Friends", ("Ann", "Bob")), ("Friends", ("Bob", "Cid")))
    smokers = (("Smokes", ("Ann",)), ("Smokes", ("Cid",)))
    given = Facts((*friends, *smokers))
    free = oracle.infer(model, given, ["Smokes", "Cancer"])
    known = oracle.infer(model, Facts((*given.true, ("Cancer", ("Ann",)))), ["Smokes"])
    assert found.predictions is not None
    assert found.predictions.atoms == ("Cancer(Ann)", "Cancer(Bob)", "Cancer(Cid)")
    expected = [free.marginals[atom] for atom in found.predictions.atoms]
    assert found.predictions.probability.tolist() == close(expected)
    assert found.conditional_log_likelihood == close(known.log_partition - free.log_partition)
    assert found.pseudo_log_likelihood is None
    assert "no pseudo-log-likelihood: this needs complete data, but 'Smokes' is hidden" in (
        found.notes
    )


@given(cases(), st.data())
def test_the_likelihood_is_that_of_all_facts_stated(case: Case, data: st.DataObject) -> None:
    """Of hidden predicates too: log Z with the facts less log Z with nothing known."""
    model, database = lapis.parse(case.model), lapis.Database.parse(case.data)
    hidden = data.draw(st.lists(st.sampled_from(sorted(model.predicates)), unique=True))
    domains = oracle.constants_of(model, case.facts)
    # All constants stay, whatever is known of them.
    bare = replace(model, types=domains)
    try:
        known = oracle.infer(model, case.facts, hidden)
        nothing = oracle.infer(bare, Facts(), model.predicates)
    except NoWorld:
        with pytest.raises(lapis.LapisError):
            score_worlds(model, [database], unobserved=hidden, pseudo=False)
        return
    found = score_worlds(model, [database], unobserved=hidden, pseudo=False)
    assert found.log_likelihood == close(known.log_partition - nothing.log_partition)


def test_worlds_are_pooled() -> None:
    model = lapis.parse(SMOKERS)
    worlds = [lapis.Database.parse(PEOPLE, "one"), lapis.Database.parse("Cancer(Zoe)", "two")]
    both = score_worlds(model, worlds, ["Cancer", "Smokes"])
    alone = [score_worlds(model, [world], ["Cancer", "Smokes"]) for world in worlds]
    for name in (
        "log_likelihood", "pseudo_log_likelihood", "conditional_log_likelihood", "num_atoms",
        "num_true",
    ):  # fmt: skip
        assert getattr(both, name) == close(sum(getattr(part, name) for part in alone))
    sizes = [part.num_atoms for part in alone]
    assert both.cll == close(np.average([part.cll for part in alone], weights=sizes))
    assert both.predictions is not None
    frame = both.predictions.to_pandas()
    assert frame.groupby("world")["atom"].count().to_dict() == {"one": 6, "two": 2}
    assert both.of("Cancer").num_atoms == 4


def test_listed_atoms_only_are_asked() -> None:
    model = lapis.parse("Same(ref, ref)\n1 Same(x, y) ^ Same(y, z) => Same(x, z)\n-1 Same(x, y)")
    data = lapis.Database.parse("Same(A,B) !Same(A,C) Same(B,A)")
    found = score_worlds(model, [data], ["Same"], only_listed=True)
    assert found.predictions is not None
    assert found.predictions.atoms == ("Same(A,B)", "Same(A,C)", "Same(B,A)")
    asked = lapis.Database.parse("?Same(A,B) ?Same(A,C) ?Same(B,A)")
    answer = lapis.infer(model, asked, method="enumerate")
    assert dict(answer.marginals) == close(
        dict(zip(found.predictions.atoms, found.predictions.probability.tolist(), strict=True))
    )
    assert score_worlds(model, [data], ["Same"]).num_atoms == 9


@pytest.mark.parametrize("method", ["gibbs", "mcsat", "tempering"])
def test_sampled_scores_lie_within_their_error(method: str) -> None:
    crowd = [f"P{i}" for i in range(9)]
    facts = " ".join(f"Friends({a},{b})" for a in crowd for b in crowd if a != b)
    data = lapis.Database.parse(f"{facts} Smokes(P0) Smokes(P3) Cancer(P3)")
    model = lapis.parse(SMOKERS.replace("0.7 Friends", "0.1 Friends"))
    query = ["Smokes", "Cancer"]
    exact = score_worlds(model, [data], query, method="exact", likelihood=False)
    found = score_worlds(
        model,
        [data],
        query,
        method=method,
        options=InferenceOptions(precision=0.004),
        likelihood=False,
    )
    assert (found.exact, found.method) == (False, method)
    assert found.conditional_log_likelihood is None
    assert exact.conditional_log_likelihood is not None
    assert found.predictions is not None
    assert exact.predictions is not None
    assert found.predictions.atoms == exact.predictions.atoms
    error = np.abs(found.predictions.probability - exact.predictions.probability)
    assert (error <= 5 * found.predictions.stderr + 1e-12).all()
    assert found.max_stderr == pytest.approx(float(found.predictions.stderr.max()))
    # |log p − log q| ≤ |p − q| / min(p, q)
    assert found.cll is not None
    assert found.cll == pytest.approx(exact.cll, abs=float(error.max()) / 0.05)


@pytest.mark.parametrize("weight", [1.0, 20.0, 37.0, 700.0])
@pytest.mark.parametrize("method", ["auto", "exact", "enumerate", "bp"])
def test_cll_keeps_its_digits_at_large_weights(weight: float, method: str) -> None:
    """One atom: its CLL is its log-likelihood, −log(1 + e^w) where the truth is unlikely."""
    for sign, data in ((1, "!P(A)"), (-1, "P(A)")):
        model = lapis.parse(f"P(t)\n{sign * weight} P(x)")
        found = score_worlds(model, [lapis.Database.parse(data)], ["P"], method=method)
        assert found.cll == pytest.approx(-np.logaddexp(0.0, weight), rel=1e-12)
        assert found.cll == pytest.approx(found.conditional_log_likelihood, rel=1e-12)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("low", "high"), [(1, 2), (30, 31), (40, 50), (700, 701)])
def test_atoms_that_are_nearly_certain_are_ranked(low: float, high: float, sign: int) -> None:
    """Beyond log-odds of 37 probabilities are all 1; they were one point of the curve."""
    text = f"P(t)\n{sign * low} P(A)\n{sign * high} P(B)\n{sign * low} P(C)"
    truth = "P(B) !P(A) !P(C)" if sign > 0 else "!P(B) P(A) P(C)"
    found = score_worlds(lapis.parse(text), [lapis.Database.parse(truth)], ["P"])
    assert (found.auc_pr, found.auc_pr_trapezoid) == (1.0, 1.0)
    missed = "!P(B) P(A) !P(C)" if sign > 0 else "P(B) !P(A) !P(C)"
    found = score_worlds(lapis.parse(text), [lapis.Database.parse(missed)], ["P"])
    assert found.auc_pr == pytest.approx(1 / 3)  # A and C are equally likely


@pytest.mark.parametrize(
    ("options", "label"),
    [({"only_listed": True}, "--only-listed"), ({"method": "gibbs"}, "--method gibbs"),
     ({"precision": 0.5}, "--precision")],
)  # fmt: skip
def test_what_is_said_of_predictions_without_any_is_refused(
    options: dict[str, object], label: str
) -> None:
    with pytest.raises(lapis.LapisError) as refused:
        lapis.score(lapis.parse("P(t)\n1 P(x)"), lapis.Database.parse("P(A)"), **options)
    assert str(refused.value) == (
        f"{label} is for predictions, and nothing is predicted\n"
        "    name the predicates to predict (-q P,Q)"
    )


def test_what_is_said_of_estimates_needs_no_query() -> None:
    model, data = lapis.parse("P(t)\n1 P(x)"), lapis.Database.parse("P(A)")
    assert lapis.score(model, data, method="ais").log_likelihood is not None


def test_nothing_asked_has_no_quality() -> None:
    nothing = np.empty(0)
    predictions = Predictions(("P",), nothing, nothing, nothing, nothing, nothing, Atoms(()))
    assert measure(predictions) == (None, None, None, None, None, 0, 0)


def test_an_impossible_exact_prediction_is_not_softened() -> None:
    model = lapis.parse("P(t)\nQ(t)\nP(x) => Q(x).\n1 Q(x)")
    found = score_worlds(model, [lapis.Database.parse("P(A) Q(A) Q(B)")], ["Q"])
    assert found.predictions is not None
    assert found.predictions.log_odds[0] == np.inf


@pytest.mark.parametrize(
    ("method", "query"),
    [("auto", []), *itertools.product(("auto", "mcsat"), (["P"], ["Q"], ["P", "Q"]))],
)
def test_data_that_break_a_hard_rule_are_named(method: str, query: list[str]) -> None:
    model = lapis.parse("P(t)\nQ(t)\nP(x) => Q(x).\n1 Q(x)")
    with pytest.raises(lapis.LapisError, match="contradict the hard rule"):
        score_worlds(
            model, [lapis.Database.parse("P(A) Q(B)")], query, method=method, likelihood=not query
        )


def test_what_is_too_large_is_left_out_with_a_note() -> None:
    crowd = " ".join(f"Friends(P{i},P{(i * 7 + 3) % 40})" for i in range(40))
    own = "".join(f"{0.01 * (i + 1)} Smokes(P{i})\n" for i in range(40))  # all differ
    model, data = lapis.parse(f"{SMOKERS}\n{own}"), lapis.Database.parse(crowd)
    found = score_worlds(model, [data], ["Cancer"])
    assert found.log_likelihood is None
    assert any(note.startswith("no log-likelihood") for note in found.notes)
    assert found.pseudo_log_likelihood is not None
    assert found.exact
    skipped = score_worlds(model, [data], ["Cancer"], likelihood=False, pseudo=False)
    assert (skipped.log_likelihood, skipped.pseudo_log_likelihood) == (None, None)
    assert (skipped.notes, skipped.cll) == ((), found.cll)


def test_a_rule_too_large_to_ground_is_predicted_by_counts() -> None:
    """Probabilities agree with exact ones; the note has the reason; named methods refuse."""
    generator = np.random.default_rng(0)
    model = lapis.parse("P(t)\nR(t, t)\n0.05 R(x, y) ^ R(y, z) ^ R(z, w) ^ P(w) => P(x)\n0.3 P(x)")
    facts = [f"R(A{i},A{j})" for i in range(9) for j in range(9) if generator.random() < 0.5]
    data = lapis.Database.parse(" ".join([*facts, *(f"P(A{i})" for i in range(0, 9, 2))]))
    exact = score_worlds(model, [data], ["P"], likelihood=False)
    assert exact.exact
    assert exact.predictions is not None
    small = InferenceOptions(max_memory=5_000, precision=0.01)
    found = score_worlds(model, [data], ["P"], options=small, likelihood=False)
    assert (found.method, found.exact) == ("count-gibbs", False)
    assert found.predictions is not None
    assert found.predictions.probability == pytest.approx(exact.predictions.probability, abs=0.05)
    assert [note.partition(" would give")[0] for note in found.notes] == [
        "<data>: predicted by counts: grounding 'R(x, y) ^ R(y, z) ^ R(z, w) ^ P(w) => P(x)'"
    ]
    with pytest.raises(lapis.TooLarge):
        score_worlds(model, [data], ["P"], method="gibbs", options=small, likelihood=False)


def test_the_contract() -> None:
    model, data = lapis.parse(SMOKERS), lapis.Database.parse(PEOPLE)
    found = score_worlds(model, [data], ["Cancer", "Cancer"]).to_json()
    assert {
        "log_likelihood", "pseudo_log_likelihood", "weighted_pseudo_log_likelihood", "cll",
        "auc_pr", "auc_pr_trapezoid", "auc_roc", "method", "exact", "predicates",
    } <= set(found)  # fmt: skip
    (part,) = found["predicates"]
    assert part["predicate"] == "Cancer"
    assert (part["cll"], part["average_precision"]) == (found["cll"], found["auc_pr"])
    generative = score_worlds(model, [data]).to_json()
    assert (generative["cll"], generative["method"], generative["exact"]) == (None, None, None)
    assert [row["predicate"] for row in generative["predicates"]] == ["Smokes", "Cancer", "Friends"]


def test_nothing_to_predict() -> None:
    model = lapis.parse("P(t)\nQ(s)\n1 P(x)")
    found = score_worlds(model, [lapis.Database.parse("P(A)")], ["Q"])
    assert (found.cll, found.auc_pr, found.num_atoms) == (None, None, 0)
    assert found.conditional_log_likelihood == close(0.0)
    with pytest.raises(KeyError):
        found.of("P")


def test_unknown_names_are_refused() -> None:
    model, data = lapis.parse(SMOKERS), lapis.Database.parse(PEOPLE)
    with pytest.raises(lapis.LapisError, match="unknown predicate 'Cancr'"):
        score_worlds(model, [data], ["Cancr"])
    with pytest.raises(lapis.LapisError, match="unknown method"):
        score_worlds(model, [data], ["Cancer"], method="magic")

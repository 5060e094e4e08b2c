"""Learned weights are where the definition's gradient vanishes; options, errors and accounts."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lapis
import oracle
from lapis.counting.ijgp import IjgpSettings
from lapis.errors import LapisError
from lapis.language.model import Model
from lapis.language.names import format_atom, format_constant
from lapis.learning.learning_run import ijgp_settings
from lapis.optimisation.history import OptimizerState
from lapis.registry.options import LearnOptions
from lapis.runtime.progress import call_deadline, work_clock

SMOKERS = """
Friends(person, person)
Smokes(person)
Cancer(person)
Smokes(x) => Cancer(x)
Friends(x,y) ^ Smokes(x) => Smokes(y)
Smokes(x) ^ Cancer(x)
0.3 !Smokes(x)
"""
FACTS = oracle.Facts(
    true=(
        ("Smokes", ("A",)), ("Smokes", ("C",)), ("Cancer", ("A",)), ("Cancer", ("B",)),
        ("Friends", ("A", "C")), ("Friends", ("B", "A")), ("Friends", ("C", "B")),
    ),
)  # fmt: skip

SAMPLED_OPTIMIZERS = ("cd", "cd-pw", "dn", "scg", "pscg", "adam", "adagrad")


def data_of(facts: oracle.Facts) -> lapis.Database:
    model = lapis.parse(SMOKERS)
    return lapis.Database.parse(oracle.render_database(model.predicates, facts))


def weighted(model: Model, weights: np.ndarray) -> Model:
    rules = [replace(r, weight=float(w)) for r, w in zip(model.rules, weights, strict=True)]
    return model.with_rules(tuple(rules))


def defined(objective: str, model: Model, facts: oracle.Facts) -> float:
    """The objective's value from the definition, by trying all worlds."""
    if objective == "conditional":
        return oracle.log_likelihood(model, facts, ["Smokes", "Cancer"])
    if objective == "likelihood":
        return oracle.log_likelihood(model, facts)
    total = 0.0
    for name, predicate in model.predicates.items():
        atoms = 3**predicate.arity
        scale = 1 / atoms if objective == "weighted-pseudo" else 1.0
        total += scale * oracle.pseudo_log_likelihood(model, facts, [name])
    return total


def penalty(prior: str, weights: np.ndarray) -> float:
    if prior == "gaussian:2":
        return float((weights**2).sum() / 8)
    return 0.2 * float(np.abs(weights).sum()) if prior == "l1:0.2" else 0.0


@pytest.mark.parametrize("prior", ["none", "gaussian:2", "l1:0.2"])
@pytest.mark.parametrize("objective", ["pseudo", "weighted-pseudo", "conditional", "likelihood"])
def test_weights_are_the_maximum_of_the_definition(objective: str, prior: str) -> None:
    model = lapis.parse(SMOKERS)
    query = ["Smokes", "Cancer"] if objective == "conditional" else []
    fit = lapis.learn(model, data_of(FACTS), query, objective=objective, prior=prior)
    assert fit.exact
    assert fit.converged == fit.bounded.all(), fit.reason
    value = defined(objective, weighted(model, fit.weights), FACTS)
    assert fit.value == pytest.approx(value, abs=1e-8)

    def posterior(weights: np.ndarray) -> float:
        return defined(objective, weighted(model, weights), FACTS) - penalty(prior, weights)

    step = 1e-4
    best = posterior(fit.weights)
    for number, weight in enumerate(fit.weights):
        unit = np.zeros(len(fit.weights))
        unit[number] = step
        up, down = posterior(fit.weights + unit), posterior(fit.weights - unit)
        if weight == 0.0 and prior == "l1:0.2":
            assert max(up, down) <= best
        else:
            assert (up - down) / (2 * step) == pytest.approx(0.0, abs=1e-5)
    assert fit.log_prior == pytest.approx(-penalty(prior, fit.weights))


def test_several_worlds_share_weights_by_names_of_constants() -> None:
    model = lapis.parse("Has(page, word)\nCourse(page)\nHas(p, +w) => Course(p)")
    first = lapis.Database.parse("Has(A,Java) Course(A) Has(B,Java) Has(C,Java) Course(C)")
    second = lapis.Database.parse(
        "Has(A,Art) Has(B,Java) Course(B) Has(C,Art) Course(C) Has(D,Art)"
    )
    fit = lapis.learn(model, [first, second], "Course", prior="none")
    assert fit["Has(p, Java) => Course(p)"] == pytest.approx(np.log(3))
    assert fit["Has(p, Art) => Course(p)"] == pytest.approx(np.log(1 / 2), abs=1e-6)
    assert lapis.parse(fit.text).rules == fit.model.rules


TEMPLATES = {
    "one": "P(+x) => Q(+x)",
    "two": "P(+x) ^ R(x, +y)\n@fixed 0.5 Q(+x)",
    "offsets": "P(+x) => P(x+1)\nQ(x)",
    "functions": "Q(f(+x))\nP(y)\nt f(t)",
    "quantified": "EXIST y R(+x, y) ^ P(y)\n*Q(+x) v P(x)",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_file_means_what_was_learned(name: str) -> None:
    """Constants written into formulas joined the worlds that lack them: a log-likelihood of −0.18
    was −25 by the file. And P(2) => P(3) made a constant 3 of what is true at the last number."""
    model = lapis.parse(f"P(t)\nQ(t)\nR(t, t)\n{TEMPLATES[name]}")
    rng = np.random.default_rng(0)
    pool = ["1", "2", "3", "4"] if name == "offsets" else ["A", "b c", "2", "d"]

    def draw() -> lapis.Database:
        own = rng.choice(pool, 2, replace=False).tolist()
        facts = [f"t = {{{', '.join(map(format_constant, own))}}}"]
        for predicate, arity in (("P", 1), ("Q", 1), ("R", 2)):
            for row in itertools.product(own, repeat=arity):
                if rng.random() < 0.5:
                    facts.append(format_atom(predicate, row))
        if name == "functions":
            facts += [format_atom("f", (c, rng.choice(own)), function=True) for c in own]
        return lapis.Database.parse("\n".join(facts))

    worlds, others = [draw() for _ in range(3)], [draw() for _ in range(3)]
    fit = lapis.learn(model, worlds)
    again = lapis.parse(fit.text)
    assert again.types == model.types
    for data in (worlds, others):  # and those that have constants without a weight, and lack some
        assert lapis.score(again, data).log_likelihood == pytest.approx(
            lapis.score(fit.model, data).log_likelihood, abs=1e-9
        )


def test_fixed_and_hard_rules_stay() -> None:
    model = lapis.parse("P(t)\nQ(t)\n@fixed 0.7 P(x)\nQ(x)\nP(A).\n-0.5 P(x) ^ Q(x)")
    fit = lapis.learn(model, lapis.Database.parse("P(A) P(B) Q(B) Q(C)"))
    assert fit["P(x)"] == 0.7
    assert fit.model.rules[2].hard
    assert [row[3] for row in fit.rows()] == [True, False, False]
    assert "@fixed 0.7" in fit.text
    assert fit.standard_errors is not None
    assert np.isnan(fit.standard_errors).tolist() == [True, False, False]


def test_weights_that_want_to_be_infinite_are_explained() -> None:
    model = lapis.parse("P(t)\nQ(t)\nP(x) => Q(x)\n0 Q(x)")
    data = lapis.Database.parse("P(A) Q(A) P(B) Q(B) Q(C) !Q(D)")
    fit = lapis.learn(model, data, "Q", objective="pseudo", prior="none")
    assert [(u.formula, u.sign) for u in fit.unbounded] == [("P(x) => Q(x)", 1)]
    assert "give a prior, or make the rule hard" in fit.unbounded[0].reason
    assert 10 < fit["P(x) => Q(x)"] <= 25
    assert fit["Q(x)"] == pytest.approx(0.0, abs=1e-4)
    held = lapis.learn(model, data, "Q", prior="gaussian:1")
    assert not held.unbounded
    assert 0 < held["P(x) => Q(x)"] < 3
    conditional = lapis.learn(model, data, "Q", prior="none")
    assert [u.formula for u in conditional.unbounded] == ["P(x) => Q(x)"]


def test_units_are_added_where_they_are_missing() -> None:
    model = lapis.parse("P(t)\nQ(t)\nP(x) => Q(x)\n1 !P(y)")
    fit = lapis.learn(model, lapis.Database.parse("P(A) Q(B)"), unit_formulas=True)
    assert [name for name, *_ in fit.rows()] == ["P(x) => Q(x)", "!P(y)", "Q(x1)"]


def test_only_listed_atoms_are_asked() -> None:
    model = lapis.parse("Same(t, t)\n0 Same(x,y)")
    data = lapis.Database.parse("Same(A,B) Same(B,C) !Same(A,C) !Same(C,D)")
    fit = lapis.learn(model, data, "Same", only_listed=True, prior="none")
    assert fit["Same(x, y)"] == pytest.approx(0.0, abs=1e-6)
    everywhere = lapis.learn(model, data, "Same", prior="none")
    assert everywhere["Same(x, y)"] == pytest.approx(np.log(2 / 14), abs=1e-6)


@pytest.mark.parametrize(
    "optimizer",
    ["vp", "cd", "vp-pw", "cd-pw", "dn", "scg", "pscg", "adam", "adagrad", "lbfgs", "newton"],
)
def test_every_optimiser_climbs(optimizer: str) -> None:
    model = lapis.parse(SMOKERS)
    data = data_of(FACTS)
    best = lapis.learn(model, data, ["Smokes", "Cancer"], prior="gaussian:1")
    fit = lapis.learn(
        model, data, ["Smokes", "Cancer"], optimizer=optimizer, prior="gaussian:1",
        max_iterations=200,
    )  # fmt: skip
    start = defined("conditional", weighted(model, np.array([0, 0, 0, 0.3])), FACTS)
    reached = defined("conditional", weighted(model, fit.weights), FACTS)
    assert reached > start - 0.3
    if optimizer not in ("vp", "vp-pw"):  # which climb something else
        assert reached == pytest.approx(best.value, abs=0.1)


@pytest.mark.parametrize("prior", ["gaussian:1", "l1:0.2"])
@pytest.mark.parametrize("optimizer", ["vp", "vp-pw"])
def test_a_perceptrons_weights_have_the_length_of_greatest_likelihood(
    optimizer: str, prior: str
) -> None:
    model = lapis.parse(SMOKERS.replace("0.3 !", "!"))
    fit = lapis.learn(model, data_of(FACTS), ["Smokes", "Cancer"], optimizer=optimizer, prior=prior)
    assert fit.details["length"] == pytest.approx(np.abs(fit.weights).max())

    def value(scale: float) -> float:
        weights = scale * fit.weights
        defined_value = defined("conditional", weighted(model, weights), FACTS)
        taken = (weights**2).sum() / 2 if prior == "gaussian:1" else 0.2 * np.abs(weights).sum()
        return defined_value - float(taken)

    assert value(1.0) >= max(value(0.98), value(1.02), value(0.0))


def test_most_likely_worlds_are_learned_from_by_a_perceptron_with_a_length() -> None:
    """Steps of a size of their own, as Adam's, leave weights that are as long as the run was."""
    model = lapis.parse(SMOKERS.replace("0.3 !", "!"))
    fit = lapis.learn(model, data_of(FACTS), ["Smokes", "Cancer"], expectation="map")
    assert fit.optimizer == "vp"
    assert fit.details["length"] == pytest.approx(np.abs(fit.weights).max())
    nothing = defined("conditional", weighted(model, 0.0 * fit.weights), FACTS)
    assert defined("conditional", weighted(model, fit.weights), FACTS) > nothing


def test_worlds_of_noisy_scores_give_weights_a_length_by_themselves() -> None:
    """Three in ten are true: without noise the best world has none of them, or all."""
    facts = " ".join(f"P({number})" for number in range(30))
    data = lapis.Database.parse(f"t = {{0, ..., 99}} {facts}")
    model = lapis.parse("P(t)\n0 P(x)")
    fit = lapis.learn(model, data, "P", expectation="count-map")
    assert (fit.optimizer, "length" in fit.details) == ("pscg", False)
    assert fit.weights == pytest.approx([np.log(3 / 7)], abs=0.15)


@pytest.mark.parametrize("optimizer", ["vp", "vp-pw", "adam"])
def test_most_likely_worlds_say_what_they_learn_nothing_about(optimizer: str) -> None:
    """Q is never true: at weight 0 the world without Q ties, and it is that of the data."""
    model = lapis.parse("P(t)\nQ(t)\n0 P(x)\n0 Q(x)")
    data = lapis.Database.parse("P(A) P(B) P(C) !P(D)")
    fit = lapis.learn(model, data, ["P", "Q"], optimizer=optimizer, expectation="map")
    assert fit["Q(x)"] == 0.0
    assert fit["P(x)"] > 0
    assert fit.warnings == (
        "no most likely world was wrong about 'Q(x)': the weight is still 0, which means "
        "probability 1/2; a likelihood, without --expectation map, learns how rare it is",
    )


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "cd"},
        {"objective": "max-margin"},
        {"objective": "pseudo"},
        {"objective": "likelihood", "query": ()},
        {"unobserved": ["Smokes"], "query": ["Cancer"]},
        {"estimate": "mean"},
    ],
    ids=str,
)
def test_no_iteration_within_the_time_limit_is_an_error(options: dict[str, object]) -> None:
    given = {"query": ["Smokes", "Cancer"], **options}
    with pytest.raises(lapis.TooLarge, match=r"no weight was learned|did not end") as caught:
        lapis.learn(lapis.parse(SMOKERS), data_of(FACTS), time_limit=1e-9, **given)  # type: ignore[arg-type]
    assert caught.value.exit_code == 3


def run_out_of_time(monkeypatch: pytest.MonkeyPatch, iterations: int) -> None:
    """End the time of the call after some iterations, as seen by every stage."""
    from lapis.optimisation.history import History

    record = History.record

    def record_and_end(self: History, state: OptimizerState) -> None:
        if state.iteration == iterations:
            call_deadline.set(work_clock() - 1.0)
        record(self, state)

    monkeypatch.setattr(History, "record", record_and_end)


def test_standard_errors_beyond_the_time_limit_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_out_of_time(monkeypatch, 2)
    fit = lapis.learn(lapis.parse(SMOKERS), data_of(FACTS), ["Smokes", "Cancer"], time_limit=600)
    assert (fit.iterations, fit.converged, fit.standard_errors) == (2, False, None)
    assert fit.reason == "time limit; set --time-limit 2400"
    assert any("left no time for" in line and "standard errors" in line for line in fit.warnings)
    assert "±" not in fit.text


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"optimizer": "cd"}, "2 iterations; set --max-iterations 8, or --optimizer lbfgs"),
        (
            {"optimizer": "cd-pw", "expectation": "gibbs"},
            "2 iterations; set --max-iterations 8, or --optimizer pscg",
        ),
        (
            {"optimizer": "pscg", "expectation": "gibbs"},
            "2 iterations; set --max-iterations 8, or --num-samples 20",
        ),
        (
            {"optimizer": "vp"},
            "2 iterations; most likely worlds may cycle; set --optimizer pscg, which maximises "
            "a likelihood",
        ),
    ],
    ids=["exact", "sampled", "pscg", "perceptron"],
)
def test_what_ends_at_a_limit_says_what_to_set(options: dict[str, object], reason: str) -> None:
    model, query = lapis.parse(SMOKERS), ["Smokes", "Cancer"]
    fit = lapis.learn(model, data_of(FACTS), query, max_iterations=2, **options)  # type: ignore[arg-type]
    assert (fit.converged, fit.reason) == (False, reason)
    assert f"not converged, {reason}" in fit.summary()


@pytest.mark.parametrize("optimizer", ["vp", "vp-pw"])
def test_the_tolerance_that_a_perceptron_names_accepts_its_average(optimizer: str) -> None:
    rng = np.random.default_rng(0)
    rows = [(f"A{i}", rng.random() < 0.5, rng.random()) for i in range(60)]
    facts = [f"S({a})" for a, smokes, _ in rows if smokes]
    facts += [f"C({a})" for a, smokes, u in rows if u < (0.7 if smokes else 0.2)]
    domain = ", ".join(a for a, _, _ in rows)
    model = lapis.parse(f"t = {{{domain}}}\nS(t)\nC(t)\nS(x) => C(x)\nC(x)")
    data = lapis.Database.parse(" ".join(facts))
    fit = lapis.learn(model, data, "C", optimizer=optimizer)
    assert not fit.converged
    named = re.search(r"--tolerance ([\d.e-]+)", fit.reason)
    assert named is not None
    accepted = lapis.learn(model, data, "C", optimizer=optimizer, tolerance=float(named[1]))
    assert accepted.converged, accepted.reason


LOWER = "standard errors are lower bounds: each as if the other weights were known"
KNOWN = "standard errors are as if hidden atoms were known"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, []),
        ({"objective": "likelihood", "expectation": "gibbs", "max_iterations": 3}, [LOWER]),
        ({"objective": "likelihood", "unobserved": ["Cancer"]}, [KNOWN]),
        ({"objective": "weighted-pseudo"}, []),  # which has none
    ],
)
def test_what_standard_errors_leave_out_is_said(
    options: dict[str, object], said: list[str]
) -> None:
    """The diagonal of the curvature was shown as ± like the inverse of the whole."""
    fit = lapis.learn(lapis.parse(SMOKERS), data_of(FACTS), **options)
    assert [text for text in fit.remarks() if text.startswith("standard errors")] == said
    for line in said:
        assert f"// {line}\n" in fit.text


def test_a_given_rate_is_the_perceptrons_length() -> None:
    model, data = lapis.parse(SMOKERS.replace("0.3 !", "!")), data_of(FACTS)
    short, long = (
        lapis.learn(
            model, data, ["Smokes", "Cancer"], optimizer="vp", rate=rate, prior="none",
            max_iterations=10,
        )
        for rate in (1e-3, 1e-1)
    )  # fmt: skip
    assert "length" not in long.details
    assert long.weights == pytest.approx(100 * short.weights)


@pytest.mark.parametrize(
    ("expectation", "optimizer"),
    [
        *itertools.product(("gibbs", "mcsat", "exact"), SAMPLED_OPTIMIZERS),
        *itertools.product(("map",), ("vp", "vp-pw", "adam", "adagrad")),
        *itertools.product(("count-gibbs", "count-map"), ("vp", "dn", "pscg")),
    ],
)
def test_stopped_and_resumed_is_uninterrupted(
    expectation: str, optimizer: str, tmp_path: Path
) -> None:
    """Chains and searches go on from the worlds they had reached, rejected steps included."""
    model, data = lapis.parse(SMOKERS), data_of(FACTS)
    options = {"optimizer": optimizer, "expectation": expectation, "tolerance": 1e-9}

    def learn(iterations: int, **more: object) -> lapis.Fit:
        return lapis.learn(
            model, data, ["Smokes", "Cancer"], max_iterations=iterations, **options, **more
        )

    straight = learn(12)
    for iterations in (4, 9, 12):
        resumed = learn(iterations, checkpoint=tmp_path / "run")
    assert resumed.weights.tolist() == straight.weights.tolist()
    assert [point[2:] for point in resumed.curve] == [point[2:] for point in straight.curve]


def test_a_checkpoint_is_taken_up_again(tmp_path: Path) -> None:
    model, data = lapis.parse(SMOKERS), data_of(FACTS)
    path = tmp_path / "learning.npz"
    options = {"optimizer": "dn", "checkpoint": path}
    first = lapis.learn(model, data, max_iterations=3, **options)
    assert first.iterations == 3
    second = lapis.learn(model, data, max_iterations=6, **options)
    straight = lapis.learn(model, data, max_iterations=6, optimizer="dn")
    assert second.weights == pytest.approx(straight.weights, abs=0.0)
    assert [point.iteration for point in second.curve] == list(range(7))
    other = lapis.parse("Smokes(person)\nSmokes(x)")
    with pytest.raises(LapisError, match="another"):
        lapis.learn(other, lapis.Database.parse("Smokes(A)"), **options)


FEWER = lapis.Database.parse("P(A) Q(A) P(B) !P(C) !P(D)", "w")
MORE = lapis.Database.parse("P(A) Q(A) P(B) P(C) P(D) Q(B) !P(E)", "w")
RULE = "P(t)\nQ(t)\n0 P(x)\n{weight} P(x) => Q(x)\n"


@pytest.mark.parametrize("objective", ["pseudo", "likelihood", "max-margin"])
def test_a_checkpoint_of_anything_else_is_refused(objective: str, tmp_path: Path) -> None:
    """A run that goes on from elsewhere may call converged what is the answer to another question:
    cutting planes did, with the weights of the data before."""
    plain = lapis.parse(RULE.format(weight=0))
    others: list[tuple[lapis.Model, lapis.Database, dict[str, object]]] = [
        (plain, MORE, {}),
        (lapis.parse(RULE.format(weight=1)), FEWER, {}),
        (lapis.parse(RULE.format(weight="@fixed 0")), FEWER, {}),
        (lapis.parse(RULE.format(weight=0) + "P(A).\n"), FEWER, {}),
        (plain, FEWER, {"prior": "gaussian:0.1"}),
        (plain, FEWER, {"prior": lapis.Prior("gaussian", np.array([1.0, 2.0]))}),
        (plain, FEWER, {"prior_mean": "initial"}),
        (plain, FEWER, {"only_listed": True}),
        (plain, FEWER, {"random_state": 1}),
    ]
    path = tmp_path / "run"
    first = lapis.learn(plain, FEWER, objective=objective, checkpoint=path)
    for model, data, more in others:
        with pytest.raises(LapisError, match="other rules, data or options"):
            lapis.learn(model, data, objective=objective, checkpoint=path, **more)
    renamed = lapis.Database.parse("P(A) Q(A) P(B) !P(C) !P(D)", "elsewhere")
    again = lapis.learn(plain, renamed, objective=objective, checkpoint=path, max_iterations=900)
    assert again.weights.tolist() == first.weights.tolist()


def test_missing_facts_are_learned_by_em() -> None:
    # With Q(A) missing, only B and C speak of the rule: one of two.
    model = lapis.parse("P(t)\nQ(t)\nP(x) => Q(x)")
    data = lapis.Database.parse("P(A) ?Q(A) P(B) Q(B) P(C) !Q(C)")
    fit = lapis.learn(model, data, "Q", prior="none", tolerance=1e-7)
    assert fit.optimizer == "em+lbfgs"
    assert fit["P(x) => Q(x)"] == pytest.approx(0.0, abs=1e-5)
    assert fit.value == pytest.approx(2 * np.log(1 / 2), abs=1e-9)
    sampled = lapis.learn(model, data, "Q", objective="pseudo", prior="gaussian:1")
    assert not sampled.exact


@pytest.mark.parametrize(
    ("objective", "hides"),
    [
        ("conditional", True), ("likelihood", True), ("pseudo", True), ("weighted-pseudo", True),
        ("max-margin", False),
    ],
)  # fmt: skip
def test_em_and_cutting_planes_are_resumed(objective: str, hides: bool, tmp_path: Path) -> None:
    """Leaps of EM and the cuts met so far are part of what is kept."""
    model, facts = lapis.parse(SMOKERS), data_of(FACTS)
    text = oracle.render_database(model.predicates, FACTS)
    for atom in ("Smokes(C)", "Cancer(B)"):
        text = text.replace(atom, f"?{atom}")
    data = lapis.Database.parse(text) if hides else facts
    more = {} if hides else {"prior": "gaussian:20", "margin": 3.0}
    asked = ["Smokes", "Cancer"] if objective in ("conditional", "max-margin") else ()

    def learn(rounds: int, checkpoint: Path | None = None) -> lapis.Fit:
        return lapis.learn(
            model, data, asked, objective=objective, max_iterations=rounds, tolerance=1e-12,
            checkpoint=checkpoint, **more,
        )  # fmt: skip

    straight = learn(11)
    for rounds in (2, 4, 11):
        resumed = learn(rounds, tmp_path / "run")
    assert resumed.iterations == straight.iterations > 4
    assert resumed.weights.tolist() == straight.weights.tolist()
    assert [point[2:] for point in resumed.curve] == [point[2:] for point in straight.curve]
    with pytest.raises(LapisError, match="a checkpoint of"):
        lapis.learn(model, facts, checkpoint=tmp_path / "run")


def test_what_converged_by_cutting_planes_needs_no_further_cut(tmp_path: Path) -> None:
    model, data = lapis.parse(SMOKERS), data_of(FACTS)
    first, again = (
        lapis.learn(
            model, data, ["Smokes", "Cancer"], objective="max-margin", checkpoint=tmp_path / "run"
        )
        for _ in range(2)
    )
    assert first.converged
    assert again.converged
    assert again.iterations == first.iterations
    assert again.weights.tolist() == first.weights.tolist()


def test_max_margin_separates_by_one() -> None:
    model = lapis.parse("P(t)\nQ(t)\nP(x) => Q(x)\n@fixed 0.25 Q(x)")
    data = lapis.Database.parse("P(A) Q(A) P(B) Q(B) Q(C)")
    fit = lapis.learn(
        model, data, "Q", objective="max-margin", prior="gaussian:1", margin=10.0, tolerance=1e-7
    )
    # Without Q(A) the score falls by w + 0.25, which must be one error at least.
    assert fit["P(x) => Q(x)"] == pytest.approx(0.75, abs=1e-3)
    assert fit["Q(x)"] == 0.25
    assert fit.details["proven"] is True
    assert fit.optimizer == "cutting-plane"


def test_estimated_counts_say_what_they_may_cost() -> None:
    model = lapis.parse("F(t,t)\nF(x,y) ^ F(y,z) => F(x,z)\n0 F(x,y)")
    data = lapis.Database.parse("F(A,B) F(B,C) F(C,A) F(A,A) F(B,B)")
    fit = lapis.learn(model, data, counts="ijgp", ibound=1, measure_error=True)
    assert not fit.exact
    error = fit.details["count_error"]
    assert error > 0
    bound = fit.details["bound"]["value"]
    assert bound == pytest.approx(2 * abs(fit.weights[0]) * error)
    exact = lapis.learn(model, data, counts="ijgp", ibound=3, measure_error=True)
    assert exact.details["count_error"] == 0.0
    assert exact.weights == pytest.approx(lapis.learn(model, data).weights, abs=1e-5)


def test_settings_of_estimates_arrive() -> None:
    options = LearnOptions(
        ibound=3, ijgp_iterations=4, ijgp_tolerance=0.01, ijgp_damping=0.3, differences="subtracted"
    )
    assert ijgp_settings(options) == IjgpSettings(
        ibound=3, max_iterations=4, tolerance=0.01, damping=0.3, differences="subtracted"
    )
    assert ijgp_settings(LearnOptions()) == IjgpSettings()
    model = lapis.parse("F(t,t)\nF(x,y) ^ F(y,z) => F(x,z)\n0 F(x,y)")
    data = lapis.Database.parse("F(A,B) F(B,C) F(C,A) F(A,A) F(B,B) F(C,D)")
    substituted, subtracted = (
        lapis.learn(model, data, counts="ijgp", ibound=1, differences=way).weights[0]
        for way in ("substituted", "subtracted")
    )
    # Substitution breaks the cycle; the difference of two estimates has the error of both.
    assert substituted == pytest.approx(lapis.learn(model, data).weights[0], abs=1e-4)
    assert subtracted != pytest.approx(substituted, abs=1e-2)


ERRORS = {
    "objective": ({"objective": "psuedo"}, "unknown objective 'psuedo'", "did you mean 'pseudo'?"),
    "optimizer": ({"optimizer": "sgd"}, "unknown optimizer 'sgd'", None),
    "prior": ({"prior": "gaussian:-1"}, "'gaussian:-1' is not a prior", None),
    "no query": ({"objective": "conditional"}, "of some predicates given the others", None),
    "margin": (
        {"objective": "max-margin", "optimizer": "cd"},
        "max-margin learning has its own optimiser",
        None,
    ),
    "cuts": ({"optimizer": "cutting-plane"}, "cutting planes learn max-margin", None),
    "expectation": (
        {"expectation": "mcsat"},
        "objective 'pseudo' does not read expectation",
        "it belongs to conditional, likelihood",
    ),
    "variances": (
        {"optimizer": "pscg", "objective": "likelihood", "expectation": "map"},
        "pscg needs the counts' variances",
        None,
    ),
    "corners": (
        {"optimizer": "newton", "prior": "l1"},
        "newton needs a smooth prior, and l1 has corners",
        None,
    ),
    "mean of none": (
        {"prior": "none", "prior_mean": "initial"},
        "prior 'none' has no mean",
        "leave out --prior-mean",
    ),
    "two means": (
        {"prior": lapis.Prior("gaussian", 1.0, mean=3.0), "prior_mean": "initial"},
        "the mean of the prior is given twice",
        "leave out one",
    ),
    "estimated exactly": (
        {"counts": "ijgp", "objective": "likelihood", "expectation": "exact"},
        "expectation 'exact' does not use estimated counts",
        "leave out --counts, or choose --expectation count-gibbs or count-map",
    ),
    "estimated values": (
        {"counts": "ijgp", "objective": "likelihood", "optimizer": "lbfgs"},
        "lbfgs needs exact values, and estimated counts have none",
        "choose --optimizer pscg, or leave out --counts",
    ),
    "estimated and hidden": (
        {"counts": "ijgp", "unobserved": ["Cancer"]},
        "estimated counts need complete data; some atoms are unknown",
        "leave out --counts, or state the unknown facts",
    ),
    "iterations": (
        {"max_iterations": 0},
        "max_iterations must be a whole number of at least 1, not 0",
        None,
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_cannot_be_asked(name: str) -> None:
    options, message, hint = ERRORS[name]
    with pytest.raises(LapisError, match=message) as error:
        lapis.learn(lapis.parse(SMOKERS), data_of(FACTS), **options)
    if hint is not None:
        assert error.value.hint == hint


@pytest.mark.parametrize(
    ("kind", "strength", "mean"),
    [
        ("gauss", 1.0, 0.0),  # was no prior at all
        ("gaussian", -1.0, 0.0), ("gaussian", 0.0, 0.0), ("gaussian", np.inf, 0.0),
        ("gaussian", np.nan, 0.0), ("gaussian", np.array([1.0, 0.0]), 0.0),
        ("l1", -1.0, 0.0), ("l1", np.array([0.0, -1.0]), 0.0), ("gaussian", 1.0, np.nan),
    ],
)  # fmt: skip
def test_what_is_no_prior(kind: str, strength: float | np.ndarray, mean: float) -> None:
    with pytest.raises(LapisError, match="is not a prior"):
        lapis.Prior(kind, strength, mean)


def test_where_everything_is_hidden_what_is_stated_is_explained() -> None:
    """P(A) alone is known: it is as likely as it can be where the weight grows."""
    model, data = lapis.parse("P(t)\n0 P(x)"), lapis.Database.parse("P(A) ?P(B)")
    fit = lapis.learn(model, data, objective="likelihood", unobserved=["P"], prior="gaussian:1")
    # log P(A) − w²/2 is largest where 1 − 1/(1 + exp(−w)) = w
    assert 1 / (1 + np.exp(fit.weights[0])) == pytest.approx(fit.weights[0], abs=1e-4)


def test_a_likelihood_has_no_query() -> None:
    with pytest.raises(LapisError, match="takes no query"):
        lapis.learn(lapis.parse(SMOKERS), data_of(FACTS), "Smokes", objective="likelihood")


def test_lbfgs_does_not_climb_samples() -> None:
    with pytest.raises(LapisError, match="lbfgs needs exact values"):
        lapis.learn(
            lapis.parse(SMOKERS), data_of(FACTS), "Smokes", optimizer="lbfgs", expectation="mcsat"
        )


def test_entity_resolution_with_transitivity_converges_by_default() -> None:
    """Sampled, since exact parts would hide the sampler; groups of records with random links."""
    rng = np.random.default_rng(0)
    person = rng.integers(0, 15, 50)
    pairs = {(a, b) for a in range(50) for b in range(a) if person[a] == person[b]}
    while len(pairs) < 110:
        b, a = sorted(rng.choice(50, 2, replace=False).tolist())
        pairs.add((a, b))
    facts = []
    for a, b in sorted(pairs):
        same = person[a] == person[b]
        facts.append(f"{'' if same else '!'}Dup(R{a}, R{b})")
        facts += [f"SameName(R{a}, R{b})"] * (rng.random() < (0.85 if same else 0.1))
        facts += [f"SameCity(R{a}, R{b})"] * (rng.random() < (0.7 if same else 0.2))
    model = lapis.parse(
        "SameName(r, r)\nSameCity(r, r)\nDup(r, r)\nDup(x, y)\nSameName(x, y) => Dup(x, y)\n"
        "SameCity(x, y) => Dup(x, y)\nDup(x, y) ^ Dup(y, z) => Dup(x, z)"
    )
    data = lapis.Database.parse(" ".join(facts))
    fit = lapis.learn(model, data, query="Dup", only_listed=True, expectation="mcsat")
    exact = lapis.learn(model, data, query="Dup", only_listed=True, expectation="exact")
    assert (fit.optimizer, fit.converged) == ("pscg", True)
    assert exact.converged
    errors = np.asarray(exact.standard_errors, float)
    assert np.abs((fit.weights - exact.weights) / errors).max() < 1.0

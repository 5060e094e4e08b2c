"""Completions drawn for hidden atoms, and EM of a pseudo-likelihood with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from em_by_lbfgs import fit_em

import lapis
from lapis.inference.exact.by_components import ExactPlan, Refusal, exact, no_duplicates
from lapis.learning import em
from lapis.learning.em import complete_example, hidden_worlds, pseudo_completions, start_weights
from lapis.learning.examples import Example, build_examples
from lapis.learning.objectives.priors import Prior, with_prior
from lapis.learning.objectives.pseudo import pseudo_objective
from lapis.learning.parameters import Parameters, share_parameters
from lapis.network import Network
from lapis.optimisation.lbfgs import Lbfgs
from lapis.optimisation.maximize import maximize

SMOKING = """
Smokes(person)
Cancer(person)
Friends(person, person)
Smokes(x) => Cancer(x)
Friends(x, y) ^ Smokes(x) => Smokes(y)
Smokes(x)
"""
PARTLY = "Smokes(A) Cancer(A) ?Smokes(B) Friends(A,B) Friends(B,C) ?Cancer(C) Cancer(B) ?Smokes(C)"
WHOLE = "Smokes(D) Friends(D,E) Cancer(E)"


def set_up(
    text: str, data: list[str], asked: tuple[str, ...] = (), hidden: tuple[str, ...] = ()
) -> tuple[list[Example], Parameters]:
    model = lapis.parse(text)
    examples = build_examples(
        model, [lapis.Database.parse(d) for d in data], asked, unobserved=hidden
    )
    return examples, share_parameters(model, [example.free for example in examples])


@pytest.mark.parametrize("chained", [False, True], ids=["exact", "chain"])
def test_draws_follow_the_model(chained: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if chained:
        monkeypatch.setattr(em, "plan_exact", plan_of_nothing)
    [example], _ = set_up(SMOKING, [PARTLY], hidden=("Friends",))
    weights = np.array([0.7, 0.4, -0.5])
    hidden = hidden_worlds(example, None, seed=1)
    assert (hidden.chain is not None) == chained
    drawn = hidden.draw(weights, 1500, np.random.default_rng(0))
    marginal = exact(hidden.network.with_weights(weights)).marginal
    mean = drawn[:, : len(marginal)].mean(axis=0)
    stderr = np.sqrt(marginal * (1.0 - marginal) / len(drawn))
    assert (np.abs(mean - marginal) <= 4.5 * stderr).all()


def plan_of_nothing(network: Network, memory: int, *, merge_copies: bool) -> ExactPlan:
    """A plan that leaves every component to a chain."""
    number = np.bincount(network.component)
    refused = tuple(Refusal(i, int(n), 30, 1e9) for i, n in enumerate(number))
    alone = np.zeros(network.num_atoms, bool)
    return ExactPlan(network, alone, no_duplicates(network), (), refused, memory)


def test_completed_examples_say_what_the_world_says() -> None:
    text = "topic = {Art, Law, Maths}\nTopic(page, topic!)\nHas(page, word)\n"
    text += "1 Has(p, w) ^ Topic(p, Art)"
    data = "Topic(P,Art) ?Topic(Q,Law) ?Topic(Q,Maths) ?Topic(R,Law) Has(P,X) ?Has(Q,X)"
    [example], _ = set_up(text, [data], ("Topic",))
    hidden = hidden_worlds(example, None, seed=0)
    seen = set()
    for world in hidden.draw(np.array([1.0]), 40, np.random.default_rng(2)):
        completed = complete_example(example, hidden.network, world)
        assert not completed.has_hidden
        assert completed.asked == ("Topic", "Has")
        facts = {
            name: [tuple(row) for row in known.true.tolist()]
            for name, known in completed.complete.evidence.items()
        }
        pages = completed.complete.domains["page"].index
        topics = completed.complete.domains["topic"].index
        assert (pages["P"], topics["Art"]) in facts["Topic"]
        assert (pages["R"], topics["Law"]) in facts["Topic"]  # the only value left
        assert sorted(page for page, _ in facts["Topic"]) == sorted(pages.values())
        [other] = [topic for page, topic in facts["Topic"] if page == pages["Q"]]
        seen.add((other, len(facts["Has"])))
    assert seen == {(topics[t], n) for t in ("Law", "Maths") for n in (1, 2)}


def test_what_is_not_hidden_is_the_pseudo_likelihood() -> None:
    """Without hidden atoms one round is all there is, and ends at the maximum."""
    examples, parameters = set_up(SMOKING, [WHOLE])
    prior = Prior("gaussian", 2.0)
    completer = pseudo_completions(examples, parameters)
    trajectory = fit_em(completer, parameters, prior, parameters.initial)
    posterior = with_prior(
        pseudo_objective(examples, parameters), prior, parameters.initial, parameters.fixed
    )
    best = maximize(posterior, Lbfgs(), parameters.initial, tolerance=1e-8)
    assert trajectory.converged
    assert trajectory.weights == pytest.approx(best.weights, abs=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
def test_hidden_atoms_that_rules_decide(weighted: bool) -> None:
    """Where hard rules leave a hidden atom one value, EM learns as from complete data."""
    text = "A(t)\nB(t)\nC(t)\nA(x) <=> B(x).\n0 A(x) => C(x)\n0 C(x)\n0 B(x)"
    known, parameters = set_up(text, ["A(X) B(X) C(X) C(Y) A(Z) B(Z)"])
    partly, _ = set_up(text, ["?A(X) B(X) C(X) C(Y) ?A(Z) B(Z)"])
    prior = Prior("gaussian", 2.0)
    completer = pseudo_completions(partly, parameters, weighted=weighted)
    trajectory = fit_em(completer, parameters, prior, parameters.initial)
    objective = pseudo_objective(known, parameters, weighted=weighted)
    posterior = with_prior(objective, prior, parameters.initial, parameters.fixed)
    best = maximize(posterior, Lbfgs(), parameters.initial, tolerance=1e-8)
    assert trajectory.converged
    assert trajectory.weights == pytest.approx(best.weights, abs=1e-3)


def test_mean_over_completions() -> None:
    """Each world counts once, however many completions it has."""
    examples, parameters = set_up(SMOKING, [PARTLY, WHOLE])
    weights = np.array([0.3, 0.2, -0.4])
    one = pseudo_completions(examples, parameters, num_completions=7, seed=3)
    objective = one.complete(weights).objective
    point = objective.evaluate(weights)
    total = pseudo_objective(examples[1:], share_of(parameters, 1)).evaluate(weights).value
    hidden = hidden_worlds(examples[0], None, seed=3)
    drawn = hidden.draw(weights, 7, np.random.default_rng((3, 0)))
    for world in drawn:
        completed = complete_example(examples[0], hidden.network, world)
        own = pseudo_objective([completed], share_of(parameters, 0)).evaluate(weights)
        total += own.value / 7
    assert point.value == pytest.approx(total)


def share_of(parameters: Parameters, world: int) -> Parameters:
    return replace(parameters, world_index=(parameters.world_index[world],))


def test_classes_are_found_from_pseudo_likelihood() -> None:
    """A hidden predicate that ties two visible ones together gets weights of one sign."""
    people = [f"P{i}" for i in range(40)]
    rng = np.random.default_rng(2)
    kind = rng.random(40) < 0.5
    seen = [
        f"{name}({person})"
        for name in ("Tall", "Loud", "Fast", "Neat")
        for person, is_kind in zip(people, kind, strict=True)
        if is_kind != (rng.random() < 0.1)
    ]
    names = ("Tall", "Loud", "Fast", "Neat")
    text = f"person = {{{', '.join(people)}}}\nKind(person)\n"
    text += "".join(f"{name}(person)\nKind(x) <=> {name}(x)\n" for name in names)
    examples, parameters = set_up(text, [" ".join(seen)], hidden=("Kind",))
    completer = pseudo_completions(examples, parameters, num_completions=4, seed=1)
    start = start_weights(parameters, examples, seed=1)
    trajectory = fit_em(completer, parameters, Prior("gaussian", 2.0), start, max_rounds=12)
    signs = np.sign(trajectory.weights)
    assert abs(signs.sum()) == 4
    assert (np.abs(trajectory.weights) > 1.0).all()

"""Fields with blocks and functions (one of several atoms is true), against enumerated worlds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from field_worlds import GroundAtom, World, ground_atoms, log_weight, pseudo
from hypothesis import given, settings
from hypothesis import strategies as st

from lapis import fields
from lapis.data.database import Database
from lapis.errors import LapisError
from lapis.fields.field import Field
from lapis.fields.field_objectives import FieldExample, make_field_example
from lapis.learning.examples import build_examples

TEXT = """\
person = {Anna, Bob}
topic = {Art, Bio, Chem}
Likes(person, topic!)
Reads(person, topic?)
Friends(person, person)
root:
  1.5  agree(x, y)
  -0.5 Reads(x, t)
  0.7  Likes(Anna, t)
  -1   Likes(x, Bio)
agree(x, y):
  2    Friends(x, y)
  1    both(x, y, t)
  -1   x = y
both(x, y, t):
  2    Likes(x, t)
  1.5  Reads(y, t)
"""
FIELD = fields.parse(TEXT)
DOMAINS = {"person": ("Anna", "Bob"), "topic": ("Art", "Bio", "Chem")}
FRIENDS = {
    ("Friends", pair): pair == ("Anna", "Bob") for pair in itertools.product(*[("Anna", "Bob")] * 2)
}


def worlds(field: Field, known: World) -> Iterator[dict[GroundAtom, bool]]:
    """List all worlds that agree with the known atoms and the blocks."""
    free = [atom for atom in ground_atoms(field, DOMAINS) if atom not in known]
    for values in itertools.product([False, True], repeat=len(free)):
        world = {**known, **dict(zip(free, values, strict=True))}
        likes, reads = (
            [sum(world[name, (p, t)] for t in DOMAINS["topic"]) for p in DOMAINS["person"]]
            for name in ("Likes", "Reads")
        )
        if likes == [1, 1] and max(reads) <= 1:
            yield world


def facts(world: World) -> str:
    return " ".join(f"{'' if v else '!'}{name}({','.join(c)})" for (name, c), v in world.items())


STATED: tuple[dict[GroundAtom, bool], ...] = (
    {},
    {("Likes", ("Anna", "Bio")): True},
    {("Likes", ("Anna", "Bio")): False, ("Reads", ("Bob", "Art")): True},
    {("Likes", ("Bob", "Bio")): False, ("Likes", ("Bob", "Art")): False},  # only one is left
    {("Reads", ("Anna", t)): False for t in DOMAINS["topic"]},
)


@pytest.mark.parametrize("stated", STATED)
def test_marginals_and_modes(stated: dict[GroundAtom, bool]) -> None:
    known = {**FRIENDS, **stated}
    possible = list(worlds(FIELD, known))
    scores = np.array([log_weight(FIELD, DOMAINS, world) for world in possible])
    share = np.exp(scores - scores.max())
    data = Database.parse(facts(known))
    answer = fields.infer(FIELD, data, "Likes, Reads")
    assert answer.exact
    assert answer.log_partition == pytest.approx(scores.max() + math.log(share.sum()))
    sampled = fields.infer(FIELD, data, "Likes, Reads", method="gibbs")
    for name, probability in zip(answer.names, answer.probability, strict=True):
        predicate, _, rest = name.partition("(")
        atom = predicate, tuple(rest[:-1].split(","))
        true = np.array([world[atom] for world in possible])
        assert probability == pytest.approx(share @ true / share.sum()), name
    assert (np.abs(sampled.probability - answer.probability) < 0.05).all()
    for method in ("enumerate", "icm"):
        best = fields.map(FIELD, data, "Likes, Reads", method=method)
        assert best.score == pytest.approx(scores.max())


def field_example_of(field: Field, world: World, query: list[str]) -> FieldExample:
    [example] = build_examples(field.declarations, [Database.parse(facts(world))], query)
    return make_field_example(field, example)


def states(world: World, name: str, person: str, exact: bool) -> Iterator[dict[GroundAtom, bool]]:
    """The world with the block in each of its states."""
    for chosen in [*DOMAINS["topic"], *[""] * (not exact)]:
        yield {**world, **{(name, (person, t)): t == chosen for t in DOMAINS["topic"]}}


@given(st.integers(0, 10**6), st.lists(st.floats(-3, 3), min_size=9, max_size=9), st.booleans())
@settings(max_examples=15)
def test_pseudo_likelihood_of_blocks(seed: int, weights: list[float], all_asked: bool) -> None:
    # A feature is divided by its largest value, which has an edge where a weight is zero.
    field = FIELD.with_weights(np.where(np.abs(weights) < 0.01, 0.01, weights))
    rng = np.random.default_rng(seed)
    world = dict.fromkeys(ground_atoms(field, DOMAINS), False)
    for person in DOMAINS["person"]:
        world["Likes", (person, str(rng.choice(DOMAINS["topic"])))] = True
        if rng.random() < 0.6:
            world["Reads", (person, str(rng.choice(DOMAINS["topic"])))] = True
        world["Friends", (person, "Bob")] = bool(rng.random() < 0.5)
    field_example = field_example_of(field, world, [] if all_asked else ["Likes", "Reads"])
    value, gradient = pseudo(field_example, field.weights)
    now, expected = log_weight(field, DOMAINS, world), 0.0
    for name, person in itertools.product(("Likes", "Reads"), DOMAINS["person"]):
        others = [
            log_weight(field, DOMAINS, w) for w in states(world, name, person, name == "Likes")
        ]
        expected += now - np.logaddexp.reduce(others)
    if all_asked:
        for atom in FRIENDS:
            other = log_weight(field, DOMAINS, world | {atom: not world[atom]})
            expected += now - np.logaddexp(now, other)
    assert value == pytest.approx(expected, abs=1e-9)
    step = 1e-6 * rng.normal(size=len(gradient))
    sides = [pseudo(field_example, field.weights + sign * step)[0] for sign in (1, -1)]
    assert gradient @ step == pytest.approx((sides[0] - sides[1]) / 2, abs=1e-12, rel=1e-4)


def test_learning_over_blocks() -> None:
    data = Database.parse("Likes(Anna,Art) Likes(Bob,Art) Reads(Bob,Art) Friends(Anna,Bob)")
    for objective, query in (("pseudo", ()), ("conditional", ("Likes", "Reads"))):
        fit = fields.learn(FIELD, data, query, objective=objective, prior="gaussian:1")
        assert fit.exact
        assert fit.converged
    possible = list(worlds(fit.field, FRIENDS))
    scores = [log_weight(fit.field, DOMAINS, world) for world in possible]
    own = next(
        score
        for world, score in zip(possible, scores, strict=True)
        if {a for a, v in world.items() if v and a[0] != "Friends"}
        == {("Likes", ("Anna", "Art")), ("Likes", ("Bob", "Art")), ("Reads", ("Bob", "Art"))}
    )
    assert fit.value == pytest.approx(own - np.logaddexp.reduce(scores))


def test_data_that_break_a_block_are_refused() -> None:
    with pytest.raises(LapisError, match="two true values for Likes\\(Anna, _\\)"):
        fields.learn(FIELD, Database.parse("Likes(Anna,Art) Likes(Anna,Bio) Likes(Bob,Art)"))
    with pytest.raises(LapisError, match="no possible value for Likes\\(Bob, _\\)"):
        fields.score(FIELD, Database.parse("Likes(Anna,Art)"))


def test_a_function_is_the_predicate_of_its_graph() -> None:
    text = "person = {Ann, Eve}\nperson Mother(person)\nTall(person)\nroot:\n 2 f(x, y)\nf(x, y):\n"
    field = fields.parse(text + " 3 Mother(x, y)\n 3 Tall(x)\n 3 Tall(y)\n")
    assert fields.parse(fields.print_field(field)) == field
    data = Database.parse("Eve = Mother(Ann)\nAnn = Mother(Eve)\nTall(Eve)")
    answer = fields.infer(field, data, "Tall(Ann)")
    # Two mothers and two who are not their own: f is e^−3 for each thing that is missing.
    tall, small = 2 + 2 * math.exp(-3), 3 * math.exp(-3) + math.exp(-9)
    odds = math.exp(2 * (tall - small))
    assert answer.exact
    assert answer["Tall(Ann)"] == pytest.approx(odds / (1 + odds))

"""Combinations of options and unusual inputs: small domains, extreme weights, evidence, errors."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from field_worlds import (
    DECLARATIONS,
    DOMAINS,
    enumerate_worlds,
    field_texts,
    ground_atoms,
    log_weight,
    pseudo,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_run import Run
from lapis import fields
from lapis.cli.render import json_pieces
from lapis.data.database import Database
from lapis.fields.field_objectives import make_field_example
from lapis.fields.field_text import parse_field
from lapis.learning.examples import build_examples
from lapis.results.result import Result

EXTREME = (0.0, 1000.0, -1000.0, 1e-9)


@given(field_texts(), st.booleans(), st.data())
@settings(max_examples=20)
def test_extreme_weights_and_partial_evidence(text: str, alone: bool, data: st.DataObject) -> None:
    """One person or two, some weights 0 or huge, some atoms stated: marginals and flips."""
    domains = dict(DOMAINS)
    if alone:
        domains["person"] = ("Anna",)
        text = text.replace(DECLARATIONS, DECLARATIONS.replace("{Anna, Bob}", "{Anna}"))
    field = parse_field(text)
    size = len(field.weights)
    changed = data.draw(st.dictionaries(st.integers(0, size - 1), st.sampled_from(EXTREME)))
    weights = field.weights
    weights[list(changed)] = list(changed.values())
    field = field.with_weights(weights)
    atoms = ground_atoms(field, domains)
    world = {atom: data.draw(st.booleans()) for atom in atoms}
    stated = {
        atom: v for atom, v in world.items() if atom[0] in ("Q", "R") or data.draw(st.booleans())
    }
    spelled = {a: f"{a[0]}({','.join(a[1])})" if a[1] else a[0] for a in atoms}
    facts = " ".join(f"{'' if v else '!'}{spelled[a]}" for a, v in stated.items())
    answer = fields.infer(field, Database.parse(facts), "Rain, P, Q, R", method="enumerate")
    log_partition, marginals = enumerate_worlds(field, domains, stated)
    assert answer.log_partition == pytest.approx(log_partition, rel=1e-9, abs=1e-9)
    for atom, probability in marginals.items():
        assert answer[spelled[atom]] == pytest.approx(probability, abs=1e-9)
    every = " ".join(spelled[a] for a, v in world.items() if v)
    [example] = build_examples(field.declarations, [Database.parse(every)])
    value, gradient = pseudo(make_field_example(field, example), weights)
    now = log_weight(field, domains, world)
    others = [log_weight(field, domains, world | {atom: not world[atom]}) for atom in world]
    expected = sum(now - np.logaddexp(now, other) for other in others)
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert np.isfinite(gradient).all()


def test_orders_are_counted_in_classes() -> None:
    text = "t = {1, 2, 10, 20}\nP(t)\nQ(t, t)\nroot:\n 1 f(x, y)\n -1 Q(x, y)\nf(x, y):\n"
    field = parse_field(text + " 2 x < y\n 1 P(x)\n -1 Q(y, x)\n 1.5 x >= 10\n")
    data = Database.parse("P(1) P(10) Q(1,2) Q(10,2) Q(20,20)")
    domains = {"t": ("1", "2", "10", "20")}
    true = {
        ("P", ("1",)),
        ("P", ("10",)),
        ("Q", ("1", "2")),
        ("Q", ("10", "2")),
        ("Q", ("20", "20")),
    }
    world = {atom: atom in true for atom in ground_atoms(field, domains)}
    # The oracle compares words; as numbers they stand in this order.
    order = {name: f"{place}" for place, name in enumerate(domains["t"])}
    text = text.replace("{1, 2, 10, 20}", "{0, 1, 2, 3}")
    renamed = parse_field(text + " 2 x < y\n 1 P(x)\n -1 Q(y, x)\n 1.5 x >= 2\n")
    moved = {(name, tuple(order[c] for c in terms)): v for (name, terms), v in world.items()}
    places = {"t": tuple(order.values())}
    now = log_weight(renamed, places, moved)
    others = [log_weight(renamed, places, moved | {a: not v}) for a, v in moved.items()]
    found = fields.score(field, data, likelihood=False).pseudo_log_likelihood
    assert found == pytest.approx(sum(now - np.logaddexp(now, other) for other in others))


def test_worlds_of_different_sizes_add_up() -> None:
    """An empty one, one of one person, one of three: values and gradients are sums."""
    field = fields.parse(
        "Smokes(p)\nFriends(p, p)\nroot:\n -2 f(x)\n 1 Smokes(x)\nf(x):\n -1 g(x, y)\n"
        "g(x, y):\n 2 Friends(x, y)\n 1 Smokes(y)\n"
    )
    worlds = [Database.parse(t) for t in ("", "Smokes(One)", "Friends(X,Y) Friends(Y,Z) Smokes(Z)")]
    parts = [fields.score(field, world) for world in worlds]
    both = fields.score(field, worlds)
    for name in ("log_likelihood", "pseudo_log_likelihood", "atoms"):
        assert getattr(both, name) == pytest.approx(sum(getattr(part, name) for part in parts))
    assert parts[0].atoms == 0
    fit = fields.learn(field, worlds)
    assert fit.value == pytest.approx(fields.score(fit.field, worlds).pseudo_log_likelihood)


def test_a_parfeature_without_children_is_one() -> None:
    field = fields.parse("t = {A}\nP(t)\nroot:\n 1 f(x)\n 2 g\nf(x):\n 1 P(x)\n 1 g\ng:\n")
    answer = fields.infer(field, query="P")
    assert answer["P(A)"] == pytest.approx(1 / (1 + np.exp(np.exp(-1) - 1)))
    found = fields.score(field, Database.parse("P(A)"))
    assert found.pseudo_log_likelihood == pytest.approx(np.log(answer["P(A)"]))


REFUSED = {
    "from m.mln --sharpness 0": "--sharpness must be a number between 0 and 1e+06, not 0.0",
    "from m.mln --sharpness -1": "--sharpness must be a number between 0 and 1e+06, not -1.0",
    "from m.mln --sharpness nan": "--sharpness must be a number between 0 and 1e+06, not nan",
    "from m.mln --sharpness inf": "--sharpness must be a number between 0 and 1e+06, not inf",
    "learn f.rrf f.db --unobserved Nope": "unknown predicate 'Nope'",
    "learn f.rrf f.db -q P(A)": "expected predicate names, got an atom or formula: P(A)",
    "score f.rrf f.db -q P --method icm": "unknown method 'icm'",
    "score f.rrf f.db -q P --method enumerate --precision 0.1": "does not read --precision",
    "infer f.rrf f.db -q P(Zed)": "unknown constant 'Zed' of type 't' in the query P(Zed)",
    "infer huge.rrf": "this weight has no finite value",
}


@pytest.mark.parametrize("line", REFUSED)
def test_refusals_have_a_message(line: str, run: Run) -> None:
    run.write("m.mln", "P(t)\n1 P(x) v P(y)\n")
    run.write("f.rrf", "P(t)\nroot:\n 1 P(x)\n")
    run.write("huge.rrf", "P(t)\nroot:\n 1e400 P(x)\n")
    run.write("f.db", "P(A)")
    code, _, err = run("field", *line.split())
    assert code == 1
    assert REFUSED[line] in err


FIELD = "Smokes(p)\nFriends(p, p)\nroot:\n -2 lonely(x)\n 1 Smokes(x)\n"
FIELD += "lonely(x):\n -2 friend(x, y)\nfriend(x, y):\n 3 Friends(x, y)\n 2 Smokes(y)\n"
COMMANDS: dict[str, Callable[[], Result]] = {
    "infer f.rrf f.db -q Smokes": lambda: fields.infer("f.rrf", "f.db", "Smokes"),
    "infer f.rrf f.db -q Smokes --method gibbs --max-samples 4000 --seed 2": lambda: fields.infer(
        "f.rrf", "f.db", "Smokes", method="gibbs", max_samples=4000, random_state=2
    ),
    "map f.rrf f.db -q Smokes,Friends": lambda: fields.map("f.rrf", "f.db", ["Smokes", "Friends"]),
    "learn f.rrf f.db --prior gaussian:2": lambda: fields.learn(
        "f.rrf", "f.db", prior="gaussian:2"
    ),
    "score f.rrf f.db -q Smokes": lambda: fields.score("f.rrf", "f.db", "Smokes"),
}


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_prints_what_the_function_returns(line: str, run: Run) -> None:
    run.write("f.rrf", FIELD)
    run.write("f.db", "Friends(Anna,Bob) Friends(Bob,Cid) Smokes(Bob) ?Smokes(Anna) ?Smokes(Cid)")
    if not line.startswith(("infer", "map")):
        run.write("f.db", "Friends(Anna,Bob) Friends(Bob,Cid) Smokes(Bob)")
    printed, found = run.json("field", *line.split()), COMMANDS[line]().to_json()
    for timed in ("seconds", "curve"):
        printed.pop(timed, None)
        found.pop(timed, None)
    assert json.loads("".join(json_pieces(found))) == printed

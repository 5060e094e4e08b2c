"""The model of clusters: probabilities compared with the mixture, by enumeration."""

from __future__ import annotations

from itertools import product

import pytest

import lapis

MODEL = lapis.parse("likes(person, thing)\nold(person)")
FACTS = [f"likes(P{i},T{j})" for i in range(6) for j in range(6) if i % 2 == j % 2]
DATA = lapis.Database.parse(" ".join([*FACTS, *(f"old(P{i})" for i in range(0, 6, 2)), "!old(P9)"]))
FOUND = lapis.learn_structure(MODEL, DATA, method="lift-graph")
CLUSTERS = FOUND.details["clusters"]


def test_clusters_are_those_planted() -> None:
    assert {frozenset(own) for own in CLUSTERS["person"].values()} == {
        frozenset({"P0", "P2", "P4"}), frozenset({"P1", "P3", "P5"})
    }  # fmt: skip
    assert len(CLUSTERS["thing"]) == 2
    [old] = [rule for rule in FOUND.rules if rule.gain is not None and "old" in rule.text]
    assert (old.true, old.groundings, old.words) == (3, 7, "3 of 3 old(x0), x0 like P0, P2, P4")


def cluster_of(kind: str, constant: str) -> str:
    """Return the cluster of a constant; the first is that of constants without true atoms."""
    own = [name for name, members in CLUSTERS[kind].items() if constant in members]
    return own[0] if own else f"{kind.capitalize()}0"


def chance(predicate: str, clusters: tuple[str, ...]) -> float:
    """Return (t + ½)/(n + 1) of a combination; those without a true atom are one."""
    pairs = {
        "likes": [(f"P{i}", f"T{j}") for i in (*range(6), 9) for j in range(6)],
        "old": [(f"P{i}",) for i in (*range(6), 9)],
    }[predicate]
    facts = {"likes": set(FACTS), "old": {f"old(P{i})" for i in (0, 2, 4)}}[predicate]

    def kind_of(atom: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(cluster_of(t, c) for t, c in zip(("person", "thing"), atom, strict=False))

    is_true = {atom: f"{predicate}({','.join(atom)})" in facts for atom in pairs}
    seen = {kind_of(atom) for atom in pairs if is_true[atom]}
    if clusters in seen:
        own = [atom for atom in pairs if kind_of(atom) == clusters]
    else:
        own = [atom for atom in pairs if kind_of(atom) not in seen]
    return (sum(is_true[atom] for atom in own) + 0.5) / (len(own) + 1)


def test_given_clusters_an_atom_has_the_share_of_its_combination() -> None:
    known = lapis.Database.parse(
        " ".join(
            f"in_{kind}({constant},{name})"
            for kind, named in CLUSTERS.items()
            for name, members in named.items()
            for constant in members
        )
    )
    answer = lapis.infer(FOUND.model, known, query=["likes"])
    assert answer.exact
    for atom, probability in zip(answer.names, answer.probability, strict=True):
        person, thing = atom[6:-1].split(",")
        clusters = cluster_of("person", person), cluster_of("thing", thing)
        assert probability == pytest.approx(chance("likes", clusters), abs=1e-9)


def test_a_new_constant_is_assigned_by_its_facts() -> None:
    """Σ over clusters of P(clusters) Π P(atoms given clusters), written out."""
    world = lapis.Database.parse("old(New) likes(New,One) ?likes(New,Two)")
    answer = lapis.infer(FOUND.model, world, query=["likes(New, Two)", "in_person", "in_thing"])
    sizes = {"person": {"Person0": 1}, "thing": {"Thing0": 0}}
    for kind, named in CLUSTERS.items():
        sizes[kind] |= {name: len(members) for name, members in named.items()}
    total = liked = 0.0
    for person, one, two in product(sizes["person"], sizes["thing"], sizes["thing"]):
        weight = (sizes["person"][person] + 0.5) * (sizes["thing"][one] + 0.5)
        weight *= (sizes["thing"][two] + 0.5) * chance("old", (person,))
        weight *= chance("likes", (person, one))
        total += weight
        liked += weight * chance("likes", (person, two))
    assert answer.exact
    assert answer["likes(New, Two)"] == pytest.approx(liked / total, abs=1e-9)


def test_the_file_is_read_back_and_says_the_same() -> None:
    again = lapis.parse(FOUND.text).rules
    assert [rule.text for rule in again] == [rule.text for rule in FOUND.rules]
    assert [rule.weight for rule in again] == pytest.approx([r.weight for r in FOUND.rules])
    assert "3 of 3 old(x0), x0 like P0, P2, P4" in FOUND.explain()
    assert FOUND.value > FOUND.unit_value

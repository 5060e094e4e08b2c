"""Results about atoms: columns for joins, lookup by name, several worlds."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lapis
from lapis.cli.render import json_pieces
from lapis.data.database import Domain
from lapis.language.names import format_atom
from lapis.results.answer import Answer
from lapis.results.atom_groups import AtomGroup, Atoms, join_atoms, predicate_group
from lapis.results.atom_result import number_alike

MODEL = lapis.parse("""
Friends(person, person)
Smokes(person)
Rain
1 Friends(x, y) => Smokes(x)
0.2 Rain
""")


def answer_of(groups: Sequence[AtomGroup]) -> Answer:
    atoms = Atoms(tuple(groups))
    values = np.linspace(0.01, 0.99, len(atoms))
    return Answer(("exact",), True, 0.0, atoms, values, None, np.empty(0))


def pairs(constants: Sequence[str], world: str = "") -> AtomGroup:
    """All atoms P(x, y) over some constants."""
    domain = Domain("t", tuple(constants))
    size = len(constants)
    codes = np.array([(i, j) for i in range(size) for j in range(size)], np.int32)
    return predicate_group("P", codes.reshape(-1, 2), (domain, domain), ("t", "t"), world=world)


names = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4, unique=True)


@example([":", "FORALL", "Exist", "v", "_"])
@given(names)
def test_every_name_finds_its_atom(constants: list[str]) -> None:
    answer = answer_of([pairs(constants)])
    for index, name in enumerate(answer.atoms):
        assert answer[name] == answer.probability[index]
        assert answer[f" {name} "] == answer.probability[index]
    assert list(answer.marginals.values()) == answer.probability.tolist()


@given(names, names)
def test_worlds_never_overwrite_each_other(first: list[str], second: list[str]) -> None:
    answer = answer_of([pairs(first, "a.db"), pairs(second, "b.db")])
    assert len(answer.marginals) == len(answer) == len(first) ** 2 + len(second) ** 2
    for index, (world, name) in enumerate(zip(answer.world, answer.atoms, strict=True)):
        assert answer[world, name] == answer.probability[index]
        assert answer.marginals[world, name] == answer.probability[index]
    shared = set(first) & set(second)
    for constant in shared:
        with pytest.raises(lapis.LapisError, match=r"2 worlds: a\.db, b\.db"):
            answer[format_atom("P", [constant, constant])]


def test_lookups_however_they_are_written() -> None:
    answer = answer_of([pairs(["Ann", "bob", "Bob, the second"])])
    assert answer["P(Ann, bob)"] == answer['P( "Ann","bob" )'] == answer.probability[1]
    assert answer['P(bob, "Bob, the second")'] == answer.probability[5]


def test_ambiguous_and_missing_names_are_told() -> None:
    worlds = [lapis.Database.parse("Friends(A,B)", name=name) for name in ("one", "two")]
    answer = lapis.infer(MODEL, worlds, "Smokes")
    with pytest.raises(lapis.LapisError) as ambiguous:
        answer["Smokes(A)"]
    assert str(ambiguous.value) == (
        "'Smokes(A)' is in 2 worlds: one, two\n    give the world: answer[\"one\", 'Smokes(A)']"
    )
    with pytest.raises(lapis.LapisError) as missing:
        answer["one", "Rain"]
    assert str(missing.value) == (
        "'Rain' was not queried in 'one'\n    the queried predicates are: Smokes"
    )
    with pytest.raises(lapis.LapisError) as nowhere:
        answer["ones", "Smokes(A)"]
    assert str(nowhere.value) == "there is no world 'ones'\n    did you mean 'one'?"
    world = lapis.map(MODEL, worlds, "Smokes")
    assert world["two", "Smokes(A)"] is True
    assert len(world.atoms) == len(world) == 4


def test_frames_join_back_to_the_users_tables() -> None:
    import pandas

    people = pandas.DataFrame({"name": ["Ann", "Bob", "Cid"], "age": [30, 40, 50]})
    links = pandas.DataFrame({"who": ["Ann", "Bob"], "whom": ["Bob", "Cid"], "since": [1999, 2005]})
    data = lapis.Database.from_frames({"Friends": links[["who", "whom"]]})
    answer = lapis.infer(MODEL, data, ["Smokes", "Friends"])
    joined = people.merge(answer.table("Smokes").to_pandas(), left_on="name", right_on="person")
    assert joined["age"].tolist() == [30, 40, 50]
    assert joined["probability"].tolist() == [answer[f"Smokes({p})"] for p in joined["name"]]
    world = lapis.map(MODEL, data, ["Smokes"], open_predicates=["Friends"])
    assert list(world.frames()) == ["Smokes"]
    assert list(answer.frames()) == ["Smokes", "Friends"]
    assert list(answer.table("Friends").columns()) == [
        "person1", "person2", "probability", "stderr",
    ]  # fmt: skip


def test_one_frame_for_predicates_of_every_arity() -> None:
    data = lapis.Database.parse("Friends(A,B)")
    answer = lapis.infer(MODEL, data, ["Rain", "Smokes", "Friends(B,A)", "Smokes(x) ^ Rain"])
    frame = answer.to_polars()
    assert frame.columns == ["atom", "predicate", "arg1", "arg2", "probability", "stderr"]
    assert frame.rows()[0][:4] == ("Rain", "Rain", None, None)
    assert frame.rows()[3][:4] == ("Friends(B,A)", "Friends", "B", "A")
    formulas = frame.filter(frame["predicate"] == "Smokes(x) ^ Rain")
    assert formulas["arg1"].to_list() == ["A", "B"]
    assert answer.table("Smokes(x) ^ Rain").to_polars().columns == ["x", "probability", "stderr"]
    assert answer["Smokes(A) ^ Rain"] == formulas["probability"][0]


def test_columns_are_named_apart() -> None:
    assert number_alike(("t", "t", "t"), set()) == ["t1", "t2", "t3"]
    assert number_alike(("t", "t", "t1"), set()) == ["t1", "t2", "t1_"]
    assert number_alike(("probability",), {"probability"}) == ["probability1"]


def test_names_are_spelled_when_somebody_looks() -> None:
    spelled: list[Sequence[str]] = []

    def spell(constants: Sequence[str]) -> str:
        spelled.append(constants)
        return f"P({constants[0]})"

    size = 100_000
    domain = Domain("t", tuple(f"C{i}" for i in range(size)))
    codes = np.arange(size, dtype=np.int32).reshape(size, 1)
    answer = answer_of([AtomGroup("P", codes, (domain,), ("t",), spell)])
    assert "… and 99,940 more" in str(answer)
    assert len(spelled) == 60
    assert answer["P(C7)"] == answer.probability[7]
    rows = answer.document()["atoms"]
    assert next(rows)["atom"] == "P(C0)"
    assert len(spelled) <= 62
    assert answer.table("P").to_arrow().num_rows == size
    assert len(spelled) <= 62


def test_atoms_are_taken_in_any_order_and_selected() -> None:
    atoms = join_atoms(
        [Atoms((pairs("AB", "one"),)), Atoms((pairs("C", "two"), pairs("DE", "two")))]
    )
    everything = list(atoms)
    order = np.random.default_rng(0).permutation(len(atoms))
    assert atoms.take(order) == [everything[i] for i in order]
    chosen = order % 2 == 0
    assert list(atoms.select(chosen)) == [
        n for n, keep in zip(everything, chosen, strict=True) if keep
    ]


def test_answers_can_be_sent_to_other_processes() -> None:
    answer = lapis.infer(
        MODEL, lapis.Database.parse("Friends(A,B)"), ["Smokes", "Smokes(x) v Rain"]
    )
    again = pickle.loads(pickle.dumps(answer))
    assert again.atoms == answer.atoms
    assert again["Smokes(A) v Rain"] == answer["Smokes(A) v Rain"]


def test_an_empty_answer_is_an_answer() -> None:
    data = lapis.Database.parse("Smokes(A)")
    answer = lapis.infer(MODEL, data, "Friends(A,A)")
    assert len(answer) == 1
    nothing = answer_of([])
    assert nothing.to_pandas().empty
    assert "no queried atom is unknown" in str(nothing)


texts = st.text(max_size=5)


@given(st.lists(texts, min_size=1, max_size=4, unique=True), st.booleans(), st.integers(1, 7))
def test_blocks_of_json_are_the_entries_one_by_one(
    constants: list[str], divided: bool, block: int
) -> None:
    groups = [pairs(constants, "a.db"), pairs(constants[:1], 'b"%s' if divided else "a.db")]
    rain = predicate_group("Rain%", np.empty((1, 0), np.int32), (), (), world="a.db")
    atoms = Atoms((*groups, rain))
    values = np.linspace(0.0, 1.0, len(atoms))
    errors = np.where(np.arange(len(atoms)) % 3 == 0, np.nan, values / 7)
    ids = (np.arange(len(atoms)) % 2).astype(np.int8)
    answer = Answer(("exact", "gibbs"), False, None, atoms, values, errors, np.empty(0), ids)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lapis.results.columns.BLOCK", block)
        text = "".join(json_pieces({"atoms": answer.document()["atoms"]}))
    entries = list(answer.document()["atoms"])
    assert text == "".join(json_pieces({"atoms": iter(entries)}))
    assert [row["atom"] for row in json.loads(text)["atoms"]] == list(answer.atoms)
    assert {row["method"] for row in entries} <= {"exact", "gibbs"}
    assert all(("world" in row) == divided for row in entries)


@given(st.lists(texts, min_size=1, max_size=4, unique=True))
def test_frames_of_all_libraries_agree(constants: list[str]) -> None:
    others = Domain("other", tuple(reversed(constants)))
    codes = np.arange(len(constants), dtype=np.int32)[:, None]
    single = predicate_group("Q", codes, (others,), ("other",))
    answer = answer_of([pairs(constants), single])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lapis.results.columns.BLOCK", 3)
        rows = list(map(without_nan, answer.to_arrow().to_pylist()))
        assert list(map(without_nan, answer.to_polars().to_dicts())) == rows
        frame = answer.to_pandas()
    frame = frame.astype(object)
    assert frame.where(frame.notna(), None).to_dict("records") == rows
    expected = [*([a, b] for a in constants for b in constants), *([c, None] for c in others.names)]
    assert [[row["arg1"], row["arg2"]] for row in rows] == expected
    assert [row["atom"] for row in rows] == list(answer.atoms)


def without_nan(row: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value != value else value for name, value in row.items()}


def test_frames_of_nothing() -> None:
    answer = answer_of([])
    assert answer.to_arrow().num_rows == answer.to_polars().height == len(answer.to_pandas()) == 0


@pytest.mark.parametrize("key", [3, None, ("a.db", "P(A,A)", 1), ["P(A,A)"]])
def test_what_is_no_name_finds_nothing(key: str) -> None:
    with pytest.raises(lapis.LapisError, match=r"^look up an atom by its name, not by "):
        answer_of([pairs("A", "a.db")])[key]

"""Tables of a store as facts: codes of constants, counts and weights as from files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lapis
from lapis.data.database import Domain
from lapis.errors import LapisError
from lapis.problem.problem import build_problem
from lapis.stores import Store, StoredTable, fetch_all, fetch_number, open_store
from lapis.stores.store import ScratchTables
from lapis.stores.stored_database import open_tables

MODEL = """
Smokes(person)
Friends(person, person)
Likes(person, topic)
Rain()
1 Smokes(x)
1.5 Friends(x,y) ^ Smokes(x) => Smokes(y)
0.5 Likes(x,t) => EXIST y Friends(x,y)
-1 Rain() v Smokes(x)
"""
names = st.sampled_from(["Ann", "Bob", "o'Neil", '"; DROP TABLE t', "ÄÖ", "7", ""])
whole = st.integers(-3, 12)
wide = st.sampled_from([-(2**40), 0, 5, 2**53, 2**53 + 1])


def columns_of(rows: list[tuple[object, ...]], arity: int) -> dict[str, np.ndarray]:
    found = {}
    for place in range(arity):
        values = [row[place] for row in rows]
        is_whole = bool(values) and all(isinstance(value, int) for value in values)
        found[f"a {place}"] = np.array(values, np.int64 if is_whole else object)
    return found


@settings(
    deadline=None,
    max_examples=settings.default.max_examples // 5,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_the_facts_are_those_of_the_tables(store: Store, data: st.DataObject) -> None:
    people = data.draw(st.sampled_from([names, whole, wide]))
    smokes = data.draw(st.lists(st.tuples(people), min_size=1, max_size=6))
    friends = data.draw(st.lists(st.tuples(people, people), min_size=1, max_size=9))
    likes = data.draw(st.lists(st.tuples(people, names), min_size=1, max_size=6))
    tables = {"Smokes": smokes, "Friends": friends, "Likes": likes, "Rain": [("yes",)]}
    model = lapis.parse(MODEL)
    with ScratchTables(store) as scratch:
        loaded = {
            name: str(scratch.load(columns_of(rows, len(rows[0])))) for name, rows in tables.items()
        }
        there = build_problem(model, open_tables(store, loaded))
        for name, rows in tables.items():
            evidence = there.evidence[name]
            domains = [there.domains[t].constants for t in model.predicates[name].types]
            found = [
                tuple(d[code] for d, code in zip(domains, row, strict=True))
                for row in evidence.true.tolist()
            ]
            wanted = {tuple(map(str, row)) for row in rows} if name != "Rain" else {()}
            assert len(found) == len(wanted)
            assert set(found) == wanted
        every = {str(p) for p, *_ in smokes + friends + likes} | {str(p) for _, p in friends}
        person = there.domains["person"]
        assert len(person) == len(every)
        assert set(person.constants) == every
        assert all(person.constants[person.index[name]] == name for name in every)


def test_counts_and_weights_are_those_of_a_file(store: Store) -> None:
    model = lapis.parse(MODEL)
    draw = np.random.default_rng(0)
    smokes = draw.choice(30, 12, replace=False)
    friends = draw.integers(30, size=(90, 2))
    likes = np.stack([draw.integers(30, size=20), draw.integers(4, size=20)], axis=1)
    facts = [f"Smokes({p})" for p in smokes] + [f"Friends({p},{q})" for p, q in friends]
    facts += [f"Likes({p},{t})" for p, t in likes] + ["Rain()"]
    here = lapis.Database.parse(" ".join(facts))
    with ScratchTables(store) as scratch:
        tables = {
            "Smokes": f"SELECT p FROM {scratch.load({'p': smokes})}",
            "Friends": str(scratch.load({"p": friends[:, 0], "q": friends[:, 1]})),
            "Likes": str(scratch.load({"p": likes[:, 0], "t": likes[:, 1]})),
            "Rain": str(scratch.load({"n": np.ones(2, np.int64)})),
        }
        there = open_tables(store, tables)
        assert lapis.count(model, there).rows == lapis.count(model, here).rows
        for objective in ("pseudo", "weighted-pseudo"):
            found = lapis.learn(model, there, objective=objective)
            expected = lapis.learn(model, here, objective=objective)
            np.testing.assert_array_equal(found.weights, expected.weights)


def test_constants_of_the_model_come_first(store: Store) -> None:
    model = lapis.parse("person = {9, 1}\nSmokes(person)\nLikes(person, topic)\n1 Smokes(4)")
    with ScratchTables(store) as scratch:
        rows = scratch.load({"p": np.array([1, 5, 3])})
        problem = build_problem(model, open_tables(store, {"Smokes": str(rows)}))
        assert problem.domains["person"].constants == ("9", "1", "4", "3", "5")
        assert problem.domains["topic"].constants == ()
        assert problem.evidence["Smokes"].true.tolist() == [[1], [3], [4]]
        assert problem.evidence["Likes"].true.tolist() == []


def test_a_whole_number_is_one_constant_whatever_the_columns_type(store: Store) -> None:
    """As in files, 3.0 is the integer 3 next to integers, and NaN is missing."""
    model = lapis.parse("n = {2, 3}\nP(n)\nQ(n)\n1 P(x) => Q(x)")
    with ScratchTables(store) as scratch:
        reals = scratch.load({"x": np.array([3.0, -4.0, 2.5])})
        integers = scratch.load({"x": np.array([3, 7])})
        tables = {"P": str(reals), "Q": str(integers)}
        problem = build_problem(model, open_tables(store, tables))
        constants = problem.domains["n"].constants
        assert sorted(constants) == ["-4", "2", "2.5", "3", "7"]
        found = {
            name: sorted(constants[code] for (code,) in problem.evidence[name].true.tolist())
            for name in tables
        }
        assert found == {"P": ["-4", "2.5", "3"], "Q": ["3", "7"]}
        missing = f"SELECT CAST('NaN' AS {store.dialect.real}) AS x FROM {integers} t"
        with pytest.raises(LapisError, match="contains NULL, which is not a constant"):
            build_problem(model, open_tables(store, {"P": missing}))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"p": np.array(["A"], object), "q": np.array(["B"], object)},
            "Smokes has 1 argument, but its table has the columns p, q",
        ),
        (
            {"p": np.array([1.0, np.nan])},
            "a column of type 'person' contains NULL, which is not a constant",
        ),
    ],
)
def test_what_is_wrong_is_said(store: Store, columns: dict[str, np.ndarray], message: str) -> None:
    model = lapis.parse("Smokes(person)\n1 Smokes(x)")
    with ScratchTables(store) as scratch:
        tables = {"Smokes": str(scratch.load(columns))}
        with pytest.raises(LapisError) as caught:
            build_problem(model, open_tables(store, tables))
    assert caught.value.message == message


# Texts that Python or an engine reads as numbers, and numbers outside the range of doubles.
PLAIN = """5 -7 +5 .5 5. 00012 1e5 1E-5 1e100 1.5e300 -2.5e-310 4.9e-324 2e-324 1e400 -1e400 1e-400
12e4567 -12e45678901 0e99999 3e-99999 1e0000000005 1.7976931348623159e308 9007199254740993 inf -Inf
+Infinity nan NaN -nan 1_000 1e1_0 1__0 ٣ ３ ½ ² 0x10 0b1 1d 1f 1.5D e5 . - + -- +-5 --5 1e 1e+ true
1,5 Ann"""
WORDS = [
    *PLAIN.split(),
    "",
    " ",
    " 5 ",
    "\t5\n",
    "5\u00a0",
    "\u20035",
    "1 2",
    "5\x1f",
    "9" * 310,
    "0." + "0" * 330,
]


def test_a_name_is_the_number_that_it_is_in_memory(store: Store) -> None:
    here = Domain("t", tuple(WORDS)).numeric
    with ScratchTables(store) as scratch:
        names = scratch.load({"i": np.arange(len(WORDS)), "v": np.array(WORDS, object)})
        value = store.dialect.as_number("v")
        found = fetch_all(store, f"SELECT i, {value} AS n FROM {names} ORDER BY i")
        known = fetch_number(store, f"SELECT count({value}) AS n FROM {names}")
    np.testing.assert_array_equal(found["n"].astype(np.float64), here)
    assert (
        known == np.isfinite(here).sum() + np.isinf(here).sum()
    )  # NaN is the largest number of some engines


@pytest.mark.parametrize("width", [np.int8, np.int16, np.int32])
def test_integers_may_fill_their_columns(store: Store, width: type[np.signedinteger]) -> None:
    low, high = np.iinfo(width).min, min(np.iinfo(width).max, np.iinfo(width).min + 300)
    values = np.arange(low, high + 1).astype(width)
    model = lapis.parse("Smokes(person)\n1 Smokes(x)")
    with ScratchTables(store) as scratch:
        rows = scratch.load({"p": values})
        problem = build_problem(model, open_tables(store, {"Smokes": str(rows)}))
        assert problem.domains["person"].constants == tuple(map(str, range(low, high + 1)))
        assert len(problem.evidence["Smokes"].true) == len(values)


def test_integers_may_be_wider_than_64_bits() -> None:
    """In a column, or as a constant of the model next to a narrower column."""
    model = lapis.parse(f"Smokes(person)\n1 Smokes(x)\n1 Smokes({2**70})")
    with open_store("duckdb") as store:
        for kind, top in (("UBIGINT", 2**64 - 1), ("HUGEINT", 2**100), ("BIGINT", 2**63 - 1)):
            query = f"SELECT CAST({top} AS {kind}) AS p UNION ALL SELECT 5"
            problem = build_problem(model, open_tables(store, {"Smokes": query}))
            assert set(problem.domains["person"].constants) == {str(2**70), str(top), "5"}


def test_hidden_and_listed_facts_are_refused(store: Store) -> None:
    model = lapis.parse("Smokes(person)\nCancer(person)\n1 Smokes(x) => Cancer(x)")
    with ScratchTables(store) as scratch:
        data = open_tables(store, {"Smokes": str(scratch.load({"p": np.arange(3)}))})
        for partial in ({"unobserved": ["Cancer"]}, {"only_listed": True}):
            with pytest.raises(LapisError, match="an engine stores true facts only"):
                lapis.learn(model, data, "Smokes", objective="pseudo", **partial)  # type: ignore[arg-type]


@pytest.mark.parametrize(("last", "scanned"), [(4, 1), (5, 2)])
def test_one_column_that_has_all_integers_is_listed_alone(last: int, scanned: int) -> None:
    """Only the ranges of the other columns are read; all are listed if one is outside."""
    model = lapis.parse(MODEL)
    listed: list[str] = []
    with open_store("duckdb") as store:
        pairs = store.load("pairs", {"a": np.arange(10) % 5, "b": np.zeros(10, np.int64)})
        alone = store.load("alone", {"a": np.array([1, last])})
        create = store.create

        def recorded(name: str, select: str) -> StoredTable:
            if "GROUP BY v" in select:
                listed.append(select)
            return create(name, select)

        store.create = recorded  # type: ignore[method-assign]
        tables = {"Friends": str(pairs), "Smokes": str(alone)}
        problem = build_problem(model, open_tables(store, tables))
        assert problem.domains["person"].constants == tuple(map(str, range(last + 1)))
    assert len(listed) == scanned


def test_a_query_may_end_in_a_semicolon(store: Store) -> None:
    with ScratchTables(store) as scratch:
        pairs = scratch.load({"a": np.array([1, 2]), "b": np.array([2, 1])})
        problem = build_problem(
            lapis.parse(MODEL), open_tables(store, {"Friends": f" SELECT a, b FROM {pairs};\n"})
        )
        assert problem.evidence["Friends"].true.tolist() == [[0, 1], [1, 0]]


def test_what_begins_like_a_query_may_be_a_table_and_a_query_may_end_in_a_comment() -> None:
    with open_store("duckdb") as store:
        for name in ("selected", "with_others", "from_here", "values"):
            store.execute(f'CREATE TABLE "{name}" (a INTEGER, b INTEGER)')
        queries = ("SELECT 1 AS a, 2 AS b -- one", "(SELECT 1 AS a, 2 AS b)", "VALUES (1, 2)")
        tables = ("selected", "with_others", "from_here", '"values"', "FROM selected")
        for rows, texts in enumerate((tables, queries)):
            for text in texts:
                problem = build_problem(lapis.parse(MODEL), open_tables(store, {"Friends": text}))
                assert len(problem.evidence["Friends"].true) == rows


@pytest.mark.parametrize("text", ["no_such_table", "SELECT a, FROM nowhere"])
def test_a_table_that_cannot_be_read_is_named(store: Store, text: str) -> None:
    with pytest.raises(LapisError, match=r"^the facts of 'Friends' cannot be read: \w+: ") as error:
        open_tables(store, {"Friends": text})
    assert error.value.code == "data-table"


@pytest.mark.parametrize(
    "text", ["uuid()", "nextval('lapis.number')", "3 * nextval('lapis.number')"]
)
def test_rows_that_change_while_they_are_read_are_noticed(text: str) -> None:
    """Constants are read first: a later row would be lost, or have a wrong constant."""
    with open_store("duckdb") as store:
        store.execute("CREATE SEQUENCE lapis.number")
        data = open_tables(store, {"Smokes": f"SELECT {text} AS a FROM range(4)"})
        with pytest.raises(LapisError) as caught:
            lapis.count(lapis.parse("Smokes(person)\n1 Smokes(x)"), data)
    assert str(caught.value).splitlines() == [
        "the rows of Smokes changed while they were read",
        "    retry, or use a query with a deterministic result",
    ]


def test_money_is_read_as_it_is_written(postgres_url: str) -> None:
    """The driver returns integers, but the engine cannot cast the column to one."""
    with open_store(postgres_url) as store:
        data = open_tables(store, {"Price": "SELECT a::money AS a FROM (VALUES (1.5), (20)) t(a)"})
        model = lapis.parse("Price(amount)\n1 Price(x)")
        assert lapis.count(model, data)[0].true == 2
        assert set(data.bind(model).domains["amount"].constants) == {"$1.50", "$20.00"}

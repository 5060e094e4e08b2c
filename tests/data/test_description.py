"""Descriptions of databases as text and HTML."""

from __future__ import annotations

from lapis.data import Database

TEXT = "Friends(Ann,Bob) Friends(Ann,Cid) Friends(Bob,Cid) !Friends(Bob,Bob) ?Rain\n"


def test_description_counts_and_densities():
    rows = Database.parse(TEXT).describe().rows
    assert [tuple(row) for row in rows] == [
        ("Friends", ("Friends.0", "Friends.1"), 3, 1, 0, 3 / 4),
        ("Rain", (), 0, 0, 1, 0.0),
    ]


def test_description_prints_a_table():
    assert str(Database.parse(TEXT).describe()).split("\n") == [
        "predicate  types                 true  false  unknown  density",
        "Friends    Friends.0, Friends.1     3      1        0     0.75",
        "Rain       -                        0      0        1        0",
    ]


def test_density_of_an_empty_domain():
    data = Database.from_sql({"P": "SELECT 1 AS a WHERE false"})
    assert data.describe().rows[0].density is None
    assert str(data.describe()).endswith("-")


def test_html_is_escaped():
    html = Database.from_sql({"a<b": "SELECT 1"})._repr_html_()
    assert ">a&lt;b</td>" in html
    assert html.count("<tr>") == 2

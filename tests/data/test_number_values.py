"""Values of functions of numbers are read alike from every source, and wrong ones are refused."""

from __future__ import annotations

from pathlib import Path

import pandas
import pytest

import lapis

MODEL = """person = {Ann, Bob}
float sim(person, person)
float age(person)
Same(person, person)
1.5 sim(x, y) * Same(x, y)
0.5 age(x) > 40 ^ Same(x, x)
"""
FACTS = """sim(Ann,Ann) = 1
sim(Ann,Bob) = 0.5
sim(Bob,Ann) = 0.25
sim(Bob,Bob) = 1e-3
age(Ann) = 41
age(Bob) = 39.5
"""
SIM = pandas.DataFrame(
    {
        "one": ["Ann", "Ann", "Bob", "Bob"],
        "other": ["Ann", "Bob", "Ann", "Bob"],
        "sim": [1.0, 0.5, 0.25, 0.001],
    }
)
AGE = pandas.DataFrame({"person": ["Ann", "Bob"], "age": [41.0, 39.5]})


def log_partition(data: lapis.Database) -> float:
    found = lapis.infer(lapis.parse(MODEL), data, query="Same").log_partition
    assert found is not None
    return found


def test_both_notations_of_a_value() -> None:
    other = "\n".join(
        " = ".join(reversed(line.split(" = "))) if number % 2 else line
        for number, line in enumerate(FACTS.splitlines())
    )
    assert log_partition(lapis.Database.parse(other)) == log_partition(lapis.Database.parse(FACTS))


def test_spellings_of_a_number_are_one_number() -> None:
    other = FACTS.replace("0.5", "0.50").replace("1e-3", "0.001").replace("41", "41.0")
    assert log_partition(lapis.Database.parse(other)) == log_partition(lapis.Database.parse(FACTS))


@pytest.mark.parametrize("source", ["frames", "csv", "parquet", "sql"])
def test_tables(source: str, tmp_path: Path) -> None:
    expected = log_partition(lapis.Database.parse(FACTS))
    frames = {"sim": SIM, "age": AGE}
    if source == "frames":
        data = lapis.Database.from_frames(frames)
    elif source == "sql":
        rows = ", ".join(map(str, SIM.itertuples(index=False, name=None)))
        ages = ", ".join(map(str, AGE.itertuples(index=False, name=None)))
        data = lapis.Database.from_sql(
            {"sim": f"SELECT * FROM (VALUES {rows})", "age": f"SELECT * FROM (VALUES {ages})"}
        )
    else:
        for name, frame in frames.items():
            path = tmp_path / f"{name}.{source}"
            frame.to_csv(path, index=False) if source == "csv" else frame.to_parquet(path)
        data = lapis.Database.read(tmp_path)
    assert log_partition(data) == pytest.approx(expected, rel=1e-15)


def test_written_data_are_read_again(tmp_path: Path) -> None:
    data = lapis.Database.parse(FACTS)
    for path in (tmp_path / "facts.db", tmp_path / "tables"):
        data.write(path, format=None if path.suffix else "csv")
        assert log_partition(lapis.Database.read(path)) == log_partition(data)


HINT = (
    "the values of age are numbers; leave out a fact whose number is missing "
    '(missing="skip" leaves out its groundings)'
)
# The value of age(Bob), and the message.
REFUSED = {
    "age(Bob) = nan": '"nan" = age(Bob): "nan" is not a finite number',
    "age(Bob) = old": '"old" = age(Bob): "old" is not a finite number',
    "?age(Bob) = 39": "39 = age(Bob): a number is known: it has a value",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused_values(text: str) -> None:
    with pytest.raises(lapis.LapisError) as caught:
        log_partition(lapis.Database.parse(FACTS.replace("age(Bob) = 39.5", text)))
    marks = "^" * len(text)
    assert str(caught.value) == f"<data>:6:1: {REFUSED[text]}\n    {text}\n    {marks}\n    {HINT}"


def test_two_values() -> None:
    with pytest.raises(lapis.LapisError, match="age"):
        log_partition(lapis.Database.parse(FACTS + "age(Bob) = 12\n"))


def test_missing_values_of_frames_name_the_row() -> None:
    frame = AGE.assign(age=[41.0, float("nan")])
    with pytest.raises(lapis.LapisError, match=r"age: column 2 has 1 missing value.*row 2"):
        lapis.Database.from_frames({"sim": SIM, "age": frame})


MISSING = """m.mln:5:1: sim(Bob,Ann) has no value, but 'sim(x, y) * Same(x, y)' needs it
    1.5 sim(x, y) * Same(x, y)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^
    state it, restrict the formula to known numbers, as in sim(x, y) * (Near(x, y) ^ …), or leave out such groundings: --missing skip (missing="skip")"""  # noqa: E501


def test_a_missing_number_is_named_or_skipped() -> None:
    model = lapis.parse(MODEL, name="m.mln")
    data = lapis.Database.parse(FACTS.replace("sim(Bob,Ann) = 0.25\n", ""))
    with pytest.raises(lapis.LapisError) as caught:
        lapis.infer(model, data, query="Same")
    assert str(caught.value) == MISSING
    skipped = lapis.infer(model, data, query="Same", missing="skip")
    zero = lapis.Database.parse(FACTS.replace("0.25", "0"))
    assert skipped.log_partition == lapis.infer(model, zero, query="Same").log_partition


def test_numbers_are_needed_only_where_the_data_leave_a_formula_open() -> None:
    text = MODEL + "*Near(person, person)\n"
    data = lapis.Database.parse("sim(Ann,Bob) = 0.5 Near(Ann,Bob) age(Ann) = 41 age(Bob) = 2")
    for body in (
        "sim(x, y) * (Near(x, y) ^ Same(x, y))",
        "sim(x, y) * (x != y ^ Same(x, y) ^ Near(x, y))",
        "Near(x, y) => (sim(x, y) > 0.25 ^ Same(x, y))",
        "!Near(x, y) v sim(x, y) < 0.25 v Same(x, y)",
    ):
        model = lapis.parse(text.replace("sim(x, y) * Same(x, y)", body))
        assert lapis.infer(model, data, query="Same").exact
    for body in ("sim(x, y) * (Near(x, y) => Same(x, y))", "sim(x, y) > 0.25 ^ Same(x, y)"):
        model = lapis.parse(text.replace("sim(x, y) * Same(x, y)", body))
        with pytest.raises(lapis.LapisError, match=r"sim\(Ann,Ann\) has no value"):
            lapis.infer(model, data, query="Same")


def test_the_logarithm_of_zero() -> None:
    model = lapis.parse(MODEL.replace("sim(x, y) *", "log(sim(x, y)) *"))
    data = lapis.Database.parse(FACTS.replace("0.25", "0"))
    with pytest.raises(lapis.LapisError, match=r"not positive: 0 = sim\(Bob,Ann\)"):
        lapis.infer(model, data, query="Same")


@pytest.mark.parametrize("given", [{"query": "sim"}, {"open_predicates": ["age"]}])
def test_numbers_are_not_queried(given: dict[str, object]) -> None:
    with pytest.raises(lapis.LapisError, match="function of numbers, which are known"):
        lapis.infer(lapis.parse(MODEL), lapis.Database.parse(FACTS), **given)  # type: ignore[arg-type]

"""`lapis circuit compile`, as it is typed."""

from __future__ import annotations

import math

import pytest

from cli_run import Run

COINS = """variable a { type discrete [ 2 ] { h, t }; }
variable b { type discrete [ 2 ] { h, t }; }
probability ( a ) { table 0.25, 0.75; }
probability ( b | a ) { (h) 0.5, 0.5; (t) 0.1, 0.9; }
"""


def test_a_network_is_compiled(run: Run) -> None:
    run.write("coins.bif", COINS)
    whole = run.json("circuit", "compile", "coins.bif", "-o", "coins.ac")
    assert whole["log_partition"] == pytest.approx(0.0, abs=1e-12)
    assert (run.folder / "coins.ac").read_text().startswith("(2 2)\n")
    given = run.json("circuit", "compile", "coins.bif", "--evidence", "b=h")
    assert given["log_partition"] == pytest.approx(math.log(0.25 * 0.5 + 0.75 * 0.1))
    assert given["method"] in ("elimination", "search")


def test_rules_are_compiled(run: Run) -> None:
    exact = run.json("infer", "m.mln", "d.db", "-q", "Smokes,Cancer")
    found = run.json("circuit", "compile", "m.mln", "d.db", "-q", "Smokes,Cancer")
    assert found["log_partition"] == pytest.approx(exact["log_partition"])
    assert found["variables"] == len(exact["atoms"])


def test_marginals_need_no_circuit(run: Run) -> None:
    run.write("coins.bif", COINS)
    found = run.json("circuit", "marginals", "coins.bif", "--evidence", "b=h")
    p = 0.25 * 0.5 + 0.75 * 0.1
    assert found["log_probability"] == pytest.approx(math.log(p))
    assert found["distribution"] == {"a": pytest.approx({"h": 0.125 / p, "t": 0.075 / p})}
    exact = run.json("infer", "m.mln", "d.db", "-q", "Smokes,Cancer")
    found = run.json("circuit", "marginals", "m.mln", "d.db", "-q", "Smokes,Cancer")
    assert found["log_probability"] == pytest.approx(exact["log_partition"])
    for atom in exact["atoms"]:
        name = atom["atom"].replace(" ", "")
        states = next(s for v, s in found["distribution"].items() if v.replace(" ", "") == name)
        assert states["true"] == pytest.approx(atom["probability"])
    code, _, err = run("circuit", "compile", "coins.bif", "--max-edges", "5")
    assert (code, "circuit marginals (exact, no circuit)" in err) == (3, True)


def test_a_network_is_approximated(run: Run) -> None:
    run.write("coins.bif", COINS)
    found = run.json("circuit", "approximate", "coins.bif", "--evidence", "b=h", "-o", "c.npz")
    exact = math.log(0.25 * 0.5 + 0.75 * 0.1)
    assert found["parameters_by"] == "E"
    assert found["log_partition"] == pytest.approx(exact)
    weighed = run.json("circuit", "approximate", "coins.bif", "--evidence", "b=h", "--parameters",
                       "VI")  # fmt: skip
    assert weighed["parameters_by"] == "VI"
    assert weighed["log_partition_bound"] <= exact + 1e-9
    assert abs(weighed["log_partition_estimate"] - exact) < 0.05
    assert weighed["effective"] <= 1.0
    assert (run.folder / "c.npz").exists()
    plain = run.json("circuit", "approximate", "m.mln", "d.db", "-q", "Smokes", "--parameters", "F")
    assert plain["log_partition_bound"] is None


def test_what_is_refused(run: Run) -> None:
    run.write("coins.bif", COINS)
    code, _, err = run("circuit", "compile", "coins.bif", "--evidence", "b=x")
    assert (code, err) == (1, "error: unknown state of b 'x'\n    choose one of h, t\n")
    code, _, err = run("circuit", "compile", "coins.bif", "-q", "P")
    assert (code, err) == (
        1, "error: coins.bif: a network has no predicates to query or open\n",
    )  # fmt: skip
    code, _, err = run("circuit", "compile", "m.mln", "--evidence", "a=h")
    assert (code, err) == (
        1,
        "error: m.mln: evidence is for networks\n"
        "    pass the facts of a Markov logic model as data\n",
    )
    code, _, err = run("circuit", "compile", "coins.bif", "--max-edges", "5")
    assert code == 3
    assert err.startswith("error: no circuit of at most 5 edges was found")


def test_marginals_of_rules_are_no_probability_of_anything(run: Run) -> None:
    code, out, _ = run("circuit", "marginals", "m.mln", "d.db", "-q", "Smokes,Cancer")
    exact = run.json("infer", "m.mln", "d.db", "-q", "Smokes,Cancer")
    assert code == 0
    assert f"log Z = {exact['log_partition']:.6g}, exact" in out
    found = run.json("circuit", "marginals", "m.mln", "d.db", "-q", "Smokes,Cancer")
    assert found["log_partition"] == pytest.approx(exact["log_partition"])


@pytest.mark.parametrize("command", ["compile", "marginals", "approximate"])
def test_a_variable_has_one_state(run: Run, command: str) -> None:
    run.write("coins.bif", COINS)
    code, _, err = run("circuit", command, "coins.bif", "--evidence", "a=h,a=t")
    assert (code, err) == (1, "error: a is given two states, h and t\n")


ATOMS = """\
topic = {Math, "Art, old"}
Friends(person, person)
Class(person, topic!)
person Mother(person)
0.7 Friends(x, y) ^ Friends(y, x)
1 Class(x, Math) => Class(y, Math)
2 Mother(x) = y => Friends(x, y)
"""


def test_every_state_of_a_circuit_of_rules_can_be_named(run: Run) -> None:
    """Atoms have commas in their names, functions and blocks equality signs in states too."""
    run.write("atoms.mln", ATOMS)
    run.write("atoms.db", "Friends(Anna, Bob)")
    asked = "Friends,Class,Mother"
    run.json("circuit", "compile", "atoms.mln", "atoms.db", "-q", asked, "-o", "atoms.npz")
    shares = run.json("circuit", "query", "atoms.npz")["distribution"]
    assert len(shares) == 3 + 2 + 2
    texts = {f"{name}={state}": p for name, own in shares.items() for state, p in own.items()}
    for text, share in texts.items():
        for typed in (text, text.replace(",", " , ").replace("=", " = ")):
            found = run.json("circuit", "query", "atoms.npz", "-q", typed)
            assert found["probability"] == pytest.approx(share)
    given = ",".join(next(iter(own)).join((f"{name}=", "")) for name, own in shares.items())
    everything = run.json("circuit", "query", "atoms.npz", "--evidence", given)
    together = run.json("circuit", "query", "atoms.npz", "-q", given)
    assert everything["distribution"] == {}
    assert together["probability"] == pytest.approx(everything["probability"])
    (sample,) = run.json("circuit", "sample", "atoms.npz", "-n", "1", "--evidence", given)[
        "samples"
    ]
    assert sample == {name: next(iter(own)) for name, own in shares.items()}
    for typed, wrong in (
        ("Friends(Bob,Ann)", "unknown variable 'Friends(Bob,Ann)'"),
        ("Friends(Bob,Anna)=tru,x", "unknown state of Friends(Bob,Anna) 'tru'"),
    ):
        code, _, err = run("circuit", "query", "atoms.npz", "-q", typed)
        assert (code, err.splitlines()[0]) == (1, f"error: {wrong}")


def test_evidence_files_and_options_agree(run: Run) -> None:
    run.write("coins.bif", COINS)
    run.write("one.evid", "1 0 0\n")
    run.write("two.evid", "1 0 1\n")
    found = run.json("circuit", "marginals", "coins.bif", "one.evid", "--evidence", "a=h")
    assert found["log_probability"] == pytest.approx(math.log(0.25))
    code, _, err = run("circuit", "marginals", "coins.bif", "one.evid", "--evidence", "a=t")
    assert (code, err) == (1, "error: a is given two states, h and t\n")
    code, _, err = run("circuit", "marginals", "coins.bif", "one.evid", "two.evid")
    assert (code, err) == (1, "error: two.evid: a has another state in an earlier file\n")


def test_impossible_events_and_impossible_evidence_are_told_apart(run: Run) -> None:
    run.write("sure.bif", COINS.replace("(h) 0.5, 0.5", "(h) 1.0, 0.0"))
    run.json("circuit", "compile", "sure.bif", "-o", "sure.npz")
    impossible = run.json("circuit", "query", "sure.npz", "-q", "b=t", "--evidence", "a=h")
    assert (impossible["log_probability"], impossible["probability"]) == (None, 0.0)
    code, _, err = run("circuit", "query", "sure.npz", "-q", "b=t,b=h")
    assert (code, err) == (1, "error: b is given two states, t and h\n")
    run.write("q.csv", "a,b\n?,t\n?,h\nh,?\n")
    run.write("e.csv", "a,b\nh,?\nh,t\n?,?\n")
    asked = ("circuit", "query", "sure.npz", "--rows", "q.csv", "--evidence-rows", "e.csv")
    rows = run.json(*asked)["queries"]
    assert rows[:2] == [
        {"log_probability": None, "probability": 0.0},
        {"log_probability": None, "probability": None},
    ]
    assert rows[2]["probability"] == pytest.approx(0.25)
    _, out, _ = run(*asked)
    assert "mean log probability -inf, exact; 1 given impossible evidence" in out


def test_formulas_are_called_what_was_asked_and_what_defines_them_is_not_shown(run: Run) -> None:
    """They were called _query_1, and _exists_1 fails(0) stood among the marginals."""
    run.write(
        "q.mln", "p = {A, B}\nP(p)\nR(p, p)\n1 EXIST y (R(x,y) ^ P(y))\n0.5 P(x) v R(x,B)\n"
    )  # fmt: skip
    asked = "P,R,P(x) => EXIST y R(x,y)"
    expected = run.json("infer", "q.mln", "-q", asked, "--method", "exact")["atoms"]
    found = run.json("circuit", "marginals", "q.mln", "-q", asked)["distribution"]
    assert {name: own["true"] for name, own in found.items()} == pytest.approx(
        {row["atom"]: row["probability"] for row in expected}
    )
    run.json("circuit", "compile", "q.mln", "-q", asked, "-o", "q.npz")
    name = next(row["atom"] for row in expected if "EXIST" in row["atom"])
    answer = run.json("circuit", "query", "q.npz", "-q", f"{name}=true")
    assert answer["probability"] == pytest.approx(found[name]["true"])

"""The commands as a user runs them: output, JSON contract, exit codes, messages."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli_run import MODEL, Run
from lapis.cli.command_line import COMMANDS, WORLDS


def test_infer(run: Run) -> None:
    answer = run.json("infer", "m.mln", "d.db", "-q", "Smokes,Cancer")
    assert (answer["method"], answer["exact"]) == ("enumerate", True)
    found = {row["atom"]: row["probability"] for row in answer["atoms"]}
    odds = math.exp(1.1) * (math.exp(1.5) + 1) / (2 * math.exp(1.5))
    assert found["Smokes(Bob)"] == pytest.approx(odds / (1 + odds), abs=1e-12)
    assert found["Cancer(Anna)"] == pytest.approx(1 / (1 + math.exp(-1.5)), abs=1e-12)
    assert set(found) == {"Smokes(Bob)", "Cancer(Anna)", "Cancer(Bob)"}
    assert all(row["stderr"] is None for row in answer["atoms"])


def test_infer_prints_a_table_with_bars(run: Run) -> None:
    code, out, _ = run("infer", "m.mln", "d.db", "-q", "Smokes")
    assert code == 0
    assert "Smokes(Bob)" in out
    assert "█" in out
    assert "exact" in out


def test_a_plan_says_what_infer_then_did(run: Run) -> None:
    planned = run.json("plan", "m.mln", "d.db", "-q", "Smokes,Cancer")["steps"]
    answer = run.json("infer", "m.mln", "d.db", "-q", "Smokes,Cancer", "--plan")
    done = answer["plan"]["steps"]
    assert [step["solvers"] for step in planned] == [["ground"], ["enumerate"]]
    assert [step["status"] for step in planned] == ["planned", "planned"]
    for before, after in zip(planned, done, strict=True):
        assert (before["solvers"], before["atoms"]) == (after["solvers"], after["atoms"])
        assert after["status"] == "answered"
        assert after["measured_seconds"] >= 0.0
    assert done[-1]["methods"] == [answer["method"]]
    assert "plan" not in run.json("infer", "m.mln", "d.db", "-q", "Smokes,Cancer")


def test_plans_are_printed_above_the_answer(run: Run) -> None:
    code, out, _ = run("plan", "m.mln", "d.db", "-q", "Smokes")
    assert code == 0
    assert "tiny: all joint states" in out
    code, out, _ = run("infer", "m.mln", "d.db", "-q", "Smokes", "--plan")
    assert code == 0
    assert out.index("enumerate") < out.index("Smokes(Bob)")
    assert "took" in out


def test_a_plan_of_two_worlds_names_them(run: Run) -> None:
    run.write("e.db", "Friends(Carl, Dora)\n")
    steps = run.json("plan", "m.mln", "d.db", "e.db", "-q", "Smokes")["steps"]
    assert [step["world"] for step in steps] == ["d.db", "d.db", "e.db", "e.db"]


def test_infer_answers_single_atoms_even_where_they_are_known(run: Run) -> None:
    answer = run.json("infer", "m.mln", "d.db", "-q", "Smokes(Anna), Smokes(Bob)")
    assert [row["atom"] for row in answer["atoms"]] == ["Smokes(Anna)", "Smokes(Bob)"]
    assert answer["atoms"][0]["probability"] == 1.0


def test_formulas_are_answered_with_the_rest(run: Run) -> None:
    answer = run.json(
        "infer", "m.mln", "d.db", "-q", "Smokes,Cancer", "-q", "Smokes(x) ^ Cancer(x)"
    )
    found = {row["atom"]: row["probability"] for row in answer["atoms"]}
    given = 1 / (1 + math.exp(-1.5))
    assert found["Smokes(Bob) ^ Cancer(Bob)"] == pytest.approx(found["Smokes(Bob)"] * given)
    alone = run.json("infer", "m.mln", "d.db", "-q", "Smokes(x) ^ Cancer(x)")
    assert alone["atoms"][1]["probability"] == pytest.approx(found["Smokes(Bob) ^ Cancer(Bob)"])


def test_soft_evidence_is_an_unsure_observation(run: Run) -> None:
    model = run.write("s.mln", "t = {A, B}\nP(t)\n0.5 P(x)\n")
    answer = run.json("infer", model, "-q", "P", "--soft-evidence", "P(A)=0.7")
    odds = math.exp(0.5) * 0.7 / 0.3
    assert answer["atoms"][0]["probability"] == pytest.approx(odds / (1 + odds))


@pytest.mark.parametrize(
    ("arguments", "flag", "name"),
    [
        (
            ("infer", "-q", "Cancer", "--soft-evidence", "{}=0.3", "--soft-evidence", "{} = .4"),
            "--soft-evidence",
            "Cancer(Bob)",
        ),
        (
            (
                "learn",
                "--optimizer",
                "dn",
                "--optimizer-options",
                "{}=2",
                "--optimizer-options",
                "{}=3",
            ),
            "--optimizer-options",
            "damping",
        ),
        (("lift", "--sizes", "{}=3", "--sizes", "{}=4"), "--sizes", "person"),
    ],
)
def test_what_is_given_twice_is_refused(
    run: Run, arguments: tuple[str, ...], flag: str, name: str
) -> None:
    command, *flags = (text.format(name) for text in arguments)
    code, _, err = run(command, "m.mln", "d.db", *flags)
    assert code == 1
    assert f"{flag} is given twice for {name}" in err


MISPLACED = "    the model (.mln) comes first, then the data (.db, or tables)\n"


@pytest.mark.parametrize(
    "command", [name for name, command in COMMANDS.items() if WORLDS in command.arguments]
)
def test_a_model_in_the_place_of_data_is_told_as_that(run: Run, command: str) -> None:
    """A model of declarations could be read as facts."""
    for model in ("m.mln", run.write("declared.mln", "Smokes(person)\nCancer(person)\n")):
        code, out, err = run(*command.split(), "d.db", model)
        assert (code, out) == (1, "")
        assert err == f"error: {model}: this is a model, not data\n{MISPLACED}"


@pytest.mark.parametrize("command", ["check", "count", "ground", "infer", "map", "score", "lift"])
def test_data_in_the_place_of_a_model_is_told_as_that(run: Run, command: str) -> None:
    """Facts without signs could be read as declarations."""
    code, out, err = run(command, "d.db")
    assert (code, out) == (1, "")
    assert err == f"error: d.db: this is data, not a model\n{MISPLACED}"


def test_unknown_predicates_are_told_where_they_were_typed(run: Run) -> None:
    code, _, err = run("infer", "m.mln", "d.db", "-q", "Smokes", "--open", "Cancr")
    assert code == 1
    assert err == "error: unknown predicate 'Cancr' in --open\n    did you mean 'Cancer'?\n"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (
            "n.txt",
            "n.txt: unknown file format\n    "
            "write to a .wcnf, .uai, .json, .dot, .graphml or .svg file",
        ),
        ("nowhere/n.json", "nowhere/n.json: cannot be written: no folder nowhere"),
        ("taken.json", "taken.json: cannot be written: it is a folder"),
    ],
)
def test_where_a_network_cannot_go_is_told_before_it_is_ground(
    run: Run, place: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run.folder / "taken.json").mkdir()
    monkeypatch.setattr("lapis.problem.task.build_task", None)  # not reached
    code, out, err = run("ground", "m.mln", "d.db", "-q", "Smokes", "-o", place)
    assert (code, out, err) == (1, "", f"error: {message}\n")


def test_a_block_without_a_value_is_told_to_be_closed(run: Run) -> None:
    model = run.write("b.mln", "Topic(page, topic!)\nLong(page)\n1 Long(x) => Topic(x, A)\n")
    code, _, err = run("infer", model, run.write("b.db", "Long(P)\n"), "-q", "Long")
    assert code == 1
    assert err.splitlines()[-1] == (
        "    unmentioned atoms of Topic are false: state a value, mark some as unknown (?fact), "
        "or open the predicate (-q or --open Topic)"
    )
    assert run("infer", model, "b.db", "-q", "Long", "--open", "Topic")[0] == 0


def test_map(run: Run) -> None:
    world = run.json("map", "m.mln", "d.db", "-q", "Smokes,Cancer")
    assert world["optimal"] is True
    assert all(row["value"] for row in world["atoms"])
    assert world["score"] == pytest.approx(2 * 1.5 + 4 * 1.1)


def test_count(run: Run) -> None:
    rows = run.json("count", "m.mln", "d.db")["formulas"]
    assert [(row["true"], row["groundings"], row["exact"]) for row in rows] == [
        (1, 2, True),
        (3, 4, True),
    ]
    assert rows[0]["formula"] == "Smokes(x) => Cancer(x)"
    assert rows[0]["weight"] == 1.5


def test_count_with_plus_has_a_row_for_each_constant(run: Run) -> None:
    model = run.write("p.mln", "Friends(person, person)\nFriends(+x, y)\n")
    rows = run.json("count", model, run.write("p.db", "Friends(Anna,Bob)"))["formulas"]
    assert [(row["formula"], row["true"], row["groundings"]) for row in rows] == [
        ("Friends(Anna, y)", 1, 2),
        ("Friends(Bob, y)", 0, 2),
    ]


def test_count_by_ijgp_says_how_far_it_is_off(run: Run) -> None:
    rows = run.json(
        "count", "m.mln", "d.db", "--counts", "ijgp", "--ibound", "3", "--measure-error"
    )
    first = rows["formulas"][0]
    assert (first["true"], first["exact"], first["relative_error"]) == (1, True, 0.0)


@pytest.mark.parametrize("flags", ["--json", "--counts ijgp"])
def test_what_an_explanation_would_ignore_is_refused(run: Run, flags: str) -> None:
    code, out, err = run("count", "m.mln", "d.db", "--explain", *flags.split())
    assert (code, out) == (1, "")
    assert err == (
        "error: --explain prints the plans of exact counts, as text\n"
        f"    leave out {flags.split()[0]}, or --explain\n"
    )


def test_count_explains_its_plans(run: Run) -> None:
    code, out, _ = run("count", "m.mln", "d.db", "--explain")
    assert code == 0
    assert "Friends(x, y) ^ Smokes(x) => Smokes(y)" in out
    assert "join" in out


def test_ground_writes_the_network_whole(run: Run) -> None:
    sizes = run.json("ground", "m.mln", "d.db", "-q", "Smokes,Cancer", "-o", "net.json")
    assert (sizes["atoms"], sizes["clauses"]) == (3, 3)
    written = json.loads((run.folder / "net.json").read_text(encoding="utf-8"))
    assert sizes["constant_score"] == written["constant_score"] != 0.0
    for name in ("net.wcnf", "net.uai"):
        assert run("ground", "m.mln", "d.db", "-q", "Smokes", "-o", name)[0] == 0
        assert (run.folder / name).stat().st_size > 0


def test_ground_reuses_a_cached_network(run: Run) -> None:
    first = run.json("ground", "m.mln", "d.db", "-q", "Smokes", "--cache", "kept")
    assert len(list((run.folder / "kept").iterdir())) == 1
    assert run.json("ground", "m.mln", "d.db", "-q", "Smokes", "--cache", "kept") == first


def test_score(run: Run) -> None:
    result = run.json(
        "score", "m.mln", run.write("s.db", "Smokes(Anna)\nCancer(Anna)"), "-q", "Cancer"
    )
    assert result["cll"] == pytest.approx(-math.log(1 + math.exp(-1.5)))
    assert result["auc_pr"] == 1.0
    assert result["log_likelihood"] < 0
    assert result["pseudo_log_likelihood"] < 0


def test_several_files_are_several_worlds_unless_merged(run: Run) -> None:
    run.write("a.db", "Smokes(Anna)")
    run.write("b.db", "Smokes(Bob)")
    apart = run.json("count", "m.mln", "a.db", "b.db")["formulas"]
    merged = run.json("count", "m.mln", "a.db", "b.db", "--merge")["formulas"]
    assert [row["groundings"] for row in apart] == [2, 2]
    assert [row["groundings"] for row in merged] == [2, 4]
    answer = run.json("infer", "m.mln", "a.db", "b.db", "-q", "Cancer")
    assert [(row["atom"], row["world"]) for row in answer["atoms"]] == [
        ("Cancer(Anna)", "a.db"),
        ("Cancer(Bob)", "b.db"),
    ]


def test_check_explains_and_warns(run: Run) -> None:
    model = run.write(
        "w.mln", MODEL + "Unused(thing)\n2 Smokes(x) v !Smokes(x)\nEXIST y Smokes(x).\n"
    )
    code, out, err = run("check", model, "d.db")
    assert code == 0
    assert "if Smokes(x) then Cancer(x)" in out
    assert "4 groundings; as clauses: !Friends(x, y) v !Smokes(x) v Smokes(y)" in out
    assert "predicate 'Unused' is never used" in err
    assert "this weight on a formula is always true: it has no effect" in err
    assert "variable 'y' is used only in its quantifier" in err
    assert "type 'thing' has no constants" in err


def test_check_json(run: Run) -> None:
    report = run.json("check", "m.mln", "d.db")
    assert [formula["groundings"] for formula in report["formulas"]] == [2, 4]
    assert report["types"] == {"person": 2}
    assert report["warnings"] == []


def test_demo(run: Run) -> None:
    code, out, _ = run("demo")
    assert code == 0
    assert "Cancer(Anna)" in out
    assert "pseudo (exact), newton" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["infer", "none.mln", "-q", "P"], 1, "error: cannot read none.mln: No such file"),
        (["infer", "m.mln", "none.db", "-q", "Smokes"], 1, "none.db"),
        (["infer", "m.mln", "d.db", "-q", "Smoks"], 1, "did you mean 'Smokes'?"),
        (["infer", "m.mln", "d.db", "-q", "Smokes(Ann)"], 1, "did you mean 'Anna'?"),
        (["infer", "m.mln", "d.db", "-q", "Smokes(Anna,Bob)"], 1, "takes 1 argument"),
        (["infer", "m.mln", "d.db"], 1, "there is no query"),
        (["infer", "m.mln", "d.db", "-q", "Smokes", "--method", "magic"], 1, "unknown method"),
        (["ground", "m.mln", "d.db", "-q", "Smokes", "-o", "net.txt"], 1, "net.txt"),
        (["ground", "m.mln", "d.db", "-q", "Smokes", "--max-memory", "lots"], 1, "is not a size"),
        (["count", "m.mln", "d.db", "--counts", "guess"], 1, "unknown counts 'guess'"),
        (["count", "m.mln", "d.db", "--counts", "ijgp", "--ibound", "0"], 1, "at least 1"),
        (["infer"], 2, "error: missing MODEL"),
        (["nonsense"], 2, "error: no command 'nonsense'"),
        (["infr"], 2, "did you mean infer?"),
        (["circuit", "lern"], 2, "did you mean learn?"),
        (["infer", "m.mln", "--precison", "0.1"], 2, "did you mean --precision?"),
        (["infer", "m.mln", "--jobs", "two"], 2, "--jobs must be a whole number, not 'two'"),
        (["infer", "m.mln", "--precision"], 2, "error: --precision needs a value"),
        (["demo", "m.mln"], 2, "unexpected argument 'm.mln'"),
    ],
)
def test_mistakes_end_in_a_message(run: Run, arguments: list[str], code: int, message: str) -> None:
    found, out, err = run(*arguments)
    assert found == code
    assert message in err
    assert out == ""
    assert "Traceback" not in err


def test_words_stand_in_any_order(run: Run) -> None:
    usual = run.json("infer", "m.mln", "d.db", "-q", "Smokes", "--seed", "3")
    for words in (
        ("infer", "-q", "Smokes", "m.mln", "--seed=3", "d.db"),
        ("infer", "--seed", "3", "m.mln", "-qSmokes", "d.db"),
        ("infer", "m.mln", "--que", "Smokes", "d.db", "--seed", "3"),  # an unambiguous beginning
    ):
        assert run.json(*words) == usual


def test_help_and_version(run: Run) -> None:
    for words in ((), ("--help",), ("circuit",), ("field", "-h"), ("infer", "--help")):
        code, out, err = run(*words)
        assert (code, err) == (0, ""), words
        assert out.startswith("usage: lapis")
    assert run("--version")[1].split()[0] == "lapis"


def test_an_ambiguous_beginning_is_refused(run: Run) -> None:
    code, _, err = run("infer", "m.mln", "--num", "3")
    assert code == 2
    assert "ambiguous option: --num could match --num-chains, --num-draws" in err


def test_too_many_unknowns_is_not_possible(run: Run) -> None:
    facts = "\n".join(f"Friends(P{i},P{(i + 1) % 25})" for i in range(25))
    code, _, err = run(
        "infer", "m.mln", run.write("big.db", facts), "-q", "Smokes", "--method", "enumerate"
    )
    assert code == 3
    assert "25 unknown atoms" in err


def test_a_network_beyond_the_memory_is_refused_with_an_estimate(run: Run) -> None:
    facts = run.write("wide.db", "person = {1, ..., 3000}")
    code, _, err = run("ground", "m.mln", facts, "-q", "Friends", "--max-memory", "100MB")
    assert code == 3
    assert "9,000,000 unknown atoms" in err


def test_contradictions_are_the_users_to_mend(run: Run) -> None:
    model = run.write("c.mln", "P(t)\nt = {A}\nP(x).\n!P(x).\n")
    code, _, err = run("infer", model, "-q", "P")
    assert code == 1
    assert "no world satisfies" in err


def test_evidence_against_a_hard_rule_names_it(run: Run) -> None:
    model = run.write("c.mln", "P(t)\nQ(t)\nP(x) => Q(x).\n")
    code, _, err = run("infer", model, run.write("c.db", "P(A)\n!Q(A)"), "-q", "Q")
    assert code == 1
    assert "P(x) => Q(x)" in err


def test_map_of_a_maxsat_file(run: Run) -> None:
    world = run.json("map", run.write("f.wcnf", "h 1 2 0\n3 -1 0\n5 -2 0\n"))
    assert (world["optimal"], world["cost"], world["score"]) == (True, 3.0, 5.0)
    assert world["atoms"] == [{"atom": "x1", "value": True}, {"atom": "x2", "value": False}]
    code, _, err = run("map", run.write("bad.wcnf", "h 1 two 0\n"))
    assert code == 1
    assert "bad.wcnf:1" in err


@pytest.mark.parametrize("method", ["ilp", "maxwalksat", "icm", "exact"])
def test_map_methods(run: Run, method: str) -> None:
    world = run.json("map", "m.mln", "d.db", "-q", "Smokes,Cancer", "--method", method)
    assert world["score"] == pytest.approx(2 * 1.5 + 4 * 1.1)
    assert world["optimal"] or method in ("maxwalksat", "icm")


@pytest.mark.parametrize("method", ["exact", "bp", "gibbs", "mcsat", "tempering"])
def test_infer_methods(run: Run, method: str) -> None:
    answer = run.json("infer", "m.mln", "d.db", "-q", "Smokes,Cancer", "--method", method)
    odds = math.exp(1.1) * (math.exp(1.5) + 1) / (2 * math.exp(1.5))
    found = {row["atom"]: row["probability"] for row in answer["atoms"]}
    assert found["Smokes(Bob)"] == pytest.approx(odds / (1 + odds), abs=0.03)


@pytest.mark.parametrize("num_people", [2, 3000], ids=["at the end", "on the way"])
def test_output_that_cannot_be_written_is_told(tmp_path: Path, num_people: int) -> None:
    """Little output is written when the process ends: there it was an exception of Python's."""
    model, data = tmp_path / "m.mln", tmp_path / "d.db"
    model.write_text("P(t)\n1 P(x)\n")
    data.write_text("".join(f"?P(A{i})\n" for i in range(num_people)))
    words = [sys.executable, "-m", "lapis", "infer", str(model), str(data), "--json"]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    told = "error: output is incomplete: No space left on device\n"
    assert (ran.returncode, ran.stderr) == (1, told)
    # Nobody reads: no word about it.
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (1, "")

"""`lapis circuit`: what people type, what programs read, and what is refused."""

from __future__ import annotations

import csv
import io
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backend_bases import FigureCanvasBase

from cli_run import Run

COUNTS = {("no", "no"): 40, ("no", "yes"): 4, ("yes", "no"): 5, ("yes", "yes"): 11}


@pytest.fixture
def learned(run: Run) -> Run:
    rows = [f"{a},{b}\n" for (a, b), count in COUNTS.items() for _ in range(count)]
    run.write("t.csv", "smokes,cancer\n" + "".join(rows))
    run.json("circuit", "learn", "t.csv", "-o", "c.npz")
    return run


def wanted() -> dict[tuple[str, str], float]:
    """P(smokes) P(cancer | smokes), each with a count of 1 in total added."""
    found = {}
    for a, b in product(("no", "yes"), repeat=2):
        own = sum(count for (x, _), count in COUNTS.items() if x == a)
        found[a, b] = (own + 0.5) / 61 * (COUNTS[a, b] + 0.5) / (own + 1)
    return found


def reversed_wanted() -> dict[tuple[str, str], float]:
    """The same with the arc the other way round."""
    found = {}
    for a, b in product(("no", "yes"), repeat=2):
        own = sum(count for (_, y), count in COUNTS.items() if y == b)
        found[a, b] = (own + 0.5) / 61 * (COUNTS[a, b] + 0.5) / (own + 1)
    return found


def table_of(run: Run) -> dict[tuple[str, str], float]:
    """The learned distribution, by which arc the network has."""
    assert run("circuit", "learn", "t.csv", "--network", "net.txt")[0] == 0
    text = (run.folder / "net.txt").read_text()
    return wanted() if "( cancer | smokes )" in text else reversed_wanted()


def test_learn_tells_its_figures(learned: Run) -> None:
    table = table_of(learned)
    found = learned.json("circuit", "learn", "t.csv", "--valid", "t.csv")
    mean = sum(count * math.log(table[row]) for row, count in COUNTS.items()) / 60
    assert found["train_log_likelihood"] == pytest.approx(mean, abs=1e-10)
    assert found["valid_log_likelihood"] == pytest.approx(mean, abs=1e-10)
    assert (found["splits"], found["parameters"], found["converged"]) == (1, 6, True)
    assert found["edges"] == 20
    assert found["seconds"] >= 0
    small = learned.json("circuit", "learn", "t.csv", "--max-edges", "19", "--method", "greedy")
    assert (small["edges"], small["splits"], small["converged"]) == (14, 0, False)
    assert small["valid_log_likelihood"] is None
    for more in (("--num-components", "3"), ("--method", "tree"), ()):
        code, _, err = learned(
            "circuit", "learn", "t.csv", "--max-edges", "9", *more, "-o", "no.npz"
        )
        assert (code, err.splitlines()[0][:47]) == (
            3,
            "error: no circuit of at most 9 edges was found;",
        )
    assert not (learned.folder / "no.npz").exists()
    limited = learned.json("circuit", "learn", "t.csv", "--time-limit", "600")
    assert (limited["splits"], limited["converged"]) == (1, True)


def test_costs_are_chosen_by_held_out_rows(learned: Run) -> None:
    arguments = ("circuit", "learn", "t.csv", "--edge-costs", "9,0.1")
    found = learned.json(*arguments, "--valid", "t.csv")
    assert (found["edge_cost"], found["parameter_cost"], found["edges"]) == (0.1, 0.0, 20)
    assert [trial["edges"] for trial in found["trials"]] == [14, 20]
    assert found["trials"][1]["valid_log_likelihood"] == found["valid_log_likelihood"]
    out = learned(*arguments, "--valid", "t.csv")[1]
    assert "valid log likelihood" in out.splitlines()[1]
    code, _, err = learned(*arguments)
    assert (code, err) == (
        1,
        "error: several costs need held-out rows to choose between them\n"
        "    give valid, or one edge cost and one parameter cost\n",
    )
    for typed, wrong in (("1,x", "'1,x'\n    as in 1,0.5"), ("1,-2", "(1.0, -2.0)")):
        code, _, err = learned("circuit", "learn", "t.csv", "--edge-costs", typed)
        wanted = f"error: --edge-costs must be numbers of at least 0, not {wrong}\n"
        assert (code, err) == (1, wanted)


def test_a_mixture(learned: Run) -> None:
    found = learned.json(
        "circuit", "learn", "t.csv", "--num-components", "2", "--num-starts", "2", "-o", "m.npz",
        "--seed", "1",
    )  # fmt: skip
    assert learned.json("circuit", "info", "m.npz")["deterministic"] is False
    score = learned.json("circuit", "score", "m.npz", "t.csv")["log_likelihood"]
    assert score == pytest.approx(found["train_log_likelihood"], abs=1e-10)
    code, _, err = learned("circuit", "query", "m.npz", "--most-likely")
    assert (code, err) == (
        1,
        "error: this circuit does not support most likely states: it is not deterministic\n",
    )


def test_a_hidden_tree(learned: Run) -> None:
    """Two hidden states can say all of two binary variables: nearly the counts themselves."""
    arguments = ("circuit", "learn", "t.csv", "--method", "tree", "--num-components", "2")
    found = learned.json(*arguments, "-o", "h.npz", "--prior", "0.001")
    entropy = sum(n / 60 * math.log(n / 60) for n in COUNTS.values())
    assert found["train_log_likelihood"] == pytest.approx(entropy, abs=2e-3)
    assert (found["splits"], found["edge_cost"], found["trials"]) == (0, None, [])
    assert learned.json("circuit", "score", "h.npz", "t.csv")["log_likelihood"] == pytest.approx(
        found["train_log_likelihood"], abs=1e-9
    )


def test_missing_values(learned: Run) -> None:
    """Rows that show one variable only: the optimum is in closed form, P(a) from all, P(b | a)."""
    text = (learned.folder / "t.csv").read_text() + "yes,\nno,?\nyes,*\n" * 5
    learned.write("some.csv", text)
    arguments = ("circuit", "learn", "some.csv", "--prior", "1e-6", "--time-limit", "600")
    found = learned.json(*arguments, "-o", "some.npz", "--network", "some.txt")
    shown = {"no": 44 + 5, "yes": 16 + 10}
    total = sum(n * math.log(n / 75) for n in shown.values())
    for (a, _), n in COUNTS.items():
        total += n * math.log(n / sum(m for (x, _), m in COUNTS.items() if x == a))
    assert found["train_log_likelihood"] == pytest.approx(total / 75, abs=2e-5)
    assert "probability ( " in (learned.folder / "some.txt").read_text()


def test_score(learned: Run) -> None:
    table = table_of(learned)
    learned.write("s.csv", "cancer,smokes\nyes,yes\n?,no\n")
    found = learned.json("circuit", "score", "c.npz", "s.csv", "--per-example", "each.txt")
    each = [math.log(table["yes", "yes"]), math.log(table["no", "no"] + table["no", "yes"])]
    assert found == {"log_likelihood": pytest.approx(sum(each) / 2, abs=1e-10), "examples": 2}
    lines = (learned.folder / "each.txt").read_text().split()
    assert [float(line) for line in lines] == pytest.approx(each, abs=1e-10)


def test_one_query(learned: Run) -> None:
    table = table_of(learned)
    given = table["yes", "no"] + table["yes", "yes"]
    found = learned.json(
        "circuit", "query", "c.npz", "-q", "cancer=yes,cancer", "--evidence", "smokes=yes"
    )
    chance = table["yes", "yes"] / given
    assert found["log_probability"] == pytest.approx(math.log(chance), abs=1e-10)
    assert found["distribution"] == {"cancer": pytest.approx({"no": 1 - chance, "yes": chance})}
    found = learned.json("circuit", "query", "c.npz", "--evidence", "smokes=yes", "--most-likely")
    assert found["log_probability"] == pytest.approx(math.log(given), abs=1e-10)
    assert found["most_likely"] == {"smokes": "yes", "cancer": "yes"}
    assert math.exp(found["most_likely_log_probability"]) == pytest.approx(chance)
    code, out, _ = learned("circuit", "query", "c.npz")
    assert code == 0
    assert "smokes" in out
    assert "exact" in out


def test_a_file_of_queries(learned: Run) -> None:
    table = table_of(learned)
    learned.write("q.csv", "cancer\nyes\nno\n")
    learned.write("e.csv", "smokes\nyes\n*\n")
    arguments = ("circuit", "query", "c.npz", "--rows", "q.csv", "--header", "yes")
    found = learned.json(*arguments, "--evidence-rows", "e.csv")
    given = table["yes", "no"] + table["yes", "yes"]
    each = [
        math.log(table["yes", "yes"] / given), math.log(table["yes", "no"] + table["no", "no"])
    ]  # fmt: skip
    rows = [row["log_probability"] for row in found["queries"]]
    assert rows == pytest.approx(each, abs=1e-10)
    assert found["log_probability"] == pytest.approx(sum(each) / 2, abs=1e-10)
    learned.write("short.csv", "smokes\nyes\n")
    code, _, err = learned(*arguments, "--evidence-rows", "short.csv")
    assert (code, err) == (1, "error: q.csv has 2 rows, short.csv has 1\n")


def test_samples(learned: Run) -> None:
    code, out, _ = learned("circuit", "sample", "c.npz", "-n", "200", "--evidence", "smokes=yes")
    assert code == 0
    names, *rows = csv.reader(io.StringIO(out))
    assert names == ["smokes", "cancer"]
    assert len(rows) == 200
    assert {row[0] for row in rows} == {"yes"}
    assert {row[1] for row in rows} == {"no", "yes"}
    assert learned("circuit", "sample", "c.npz", "-n", "200", "-o", "s.csv")[1] == ""
    assert len((learned.folder / "s.csv").read_text().splitlines()) == 201
    assert len(learned.json("circuit", "sample", "c.npz", "-n", "3")["samples"]) == 3


def test_info_and_other_forms(learned: Run) -> None:
    table = table_of(learned)
    found = learned.json("circuit", "info", "c.npz", "-o", "c.ac", "--plot", "c.png")
    assert (found["variables"], found["edges"], found["deterministic"]) == (2, 20, True)
    entropy = -sum(p * math.log(p) for p in table.values())
    assert found["entropy"] == pytest.approx(entropy, abs=1e-10)
    assert (learned.folder / "c.png").read_bytes().startswith(b"\x89PNG")
    again = learned.json("circuit", "info", "c.ac")
    assert again["entropy"] == pytest.approx(entropy, abs=1e-10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("learn", "none.csv"), "none.csv: there is no such file"),
        (("learn", "t.csv", "-o", "c.txt"), "c.txt: circuits are written as .npz, .ac or .dot"),
        (("learn", "t.csv", "-o", "no/c.npz"), "no/c.npz: cannot be written: no folder no"),
        (("learn", "t.csv", "--method", "best"), "--method must be greedy or quick or tree, not "
         "'best'"),
        (("learn", "t.csv", "--num-components", "2", "--network", "n.txt"), "a circuit with hidden "
         "variables has no equivalent Bayesian network over its variables\n    write the circuit, "
         "or learn without num_components, num_starts and method tree"),
        (("learn", "t.csv", "--method", "tree", "--edge-costs", "1"), "method 'tree' does not read "
         "costs of edges and parameters\n    they belong to greedy, quick"),
        (("learn", "t.csv", "--prior", "thesi"), "prior must be thesis or libra, or a number above "
         "0, not 'thesi'\n    did you mean 'thesis'?"),
        (("learn", "t.csv", "--prior", "0"), "prior must be thesis or libra, or a number above 0, "
         "not '0'\n    as in 0.5: counts added to a distribution, in total"),
        (("learn", "t.csv", "--edge-costs", "0", "--max-edges", "9"), "max_edges limits a "
         "circuit, and with an edge cost of 0 no circuit is kept\n    leave it out, or pass it to "
         "compile, which makes a circuit of the network"),
        (("learn", "t.csv", "--edge-costs", "0", "--num-components", "2"), "with an edge cost of 0 "
         "no circuit is kept, and hidden or missing values need one\n    give an edge cost above "
         "0, or one component, one start and complete rows"),
        (("learn", "t.csv", "--num-components", "2", "-o", "n.tbn"), "a circuit with hidden "
         "variables has no equivalent Bayesian network over its variables\n    write the circuit, "
         "or learn without num_components, num_starts and method tree"),
        (("score", "none.tbn", "t.csv"), "none.tbn: there is no such file"),
        (("score", "t.csv", "t.csv"), "t.csv: this is not a circuit, or a damaged one\n    "
         "circuits are .npz files, as `lapis circuit learn -o` writes them, or .ac files"),
        (("query", "c.npz", "-q", "smoks"), "unknown variable 'smoks'\n    did you mean 'smokes'?"),
        (("query", "c.npz", "-q", "smokes=y"), "unknown state of smokes 'y'\n    choose one of no, "
         "yes"),
        (("query", "c.npz", "--evidence", "smokes"), "'smokes' is not a state of a variable\n    "
         "as in smoke=yes"),
        (("query", "c.npz", "--evidence-rows", "t.csv"),
         "--evidence-rows is the evidence for --rows"),
        (("query", "c.npz", "--rows", "t.csv", "--most-likely"), "a query stands in --query or in "
         "--rows, not in both"),
        (("info", "c.npz", "--plot", "c.txt"), "c.txt: the suffix must be a format of pictures"
         f"\n    one of {', '.join(sorted(FigureCanvasBase.filetypes))}"),
    ],
)  # fmt: skip
def test_mistakes(learned: Run, arguments: tuple[str, ...], message: str) -> None:
    code, _, err = learned("circuit", *arguments)
    assert (code, err) == (1, f"error: {message}\n")


def test_a_network_without_a_circuit(learned: Run) -> None:
    """Learned, scored, queried, sampled, measured and compiled; the distribution stays the same."""
    table = table_of(learned)
    found = learned.json("circuit", "learn", "t.csv", "--edge-costs", "0", "-o", "n.tbn")
    assert (found["edges"], found["leaves"], found["parameters"]) == (None, 3, 6)
    mean = sum(count * math.log(table[row]) for row, count in COUNTS.items()) / 60
    assert found["train_log_likelihood"] == pytest.approx(mean, abs=1e-10)
    score = learned.json("circuit", "score", "n.tbn", "t.csv")
    assert score["log_likelihood"] == pytest.approx(mean, abs=1e-10)
    info = learned.json("circuit", "info", "n.tbn", "-o", "again.tbn")
    assert info == {
        "variables": 2, "parameters": 6, "leaves": 3, "parents_mean": 0.5, "parents_max": 1,
        "treewidth_min_fill_bound": 1, "compiled_edges": 20, "compiled_edges_limit": 1_000_000,
        "compiled_by": info["compiled_by"],
    }  # fmt: skip
    assert (learned.folder / "again.tbn").read_text() == (learned.folder / "n.tbn").read_text()
    small = learned.json("circuit", "info", "n.tbn", "--max-edges", "19")
    assert (small["compiled_edges"], small["compiled_by"]) == (None, None)
    given = table["yes", "no"] + table["yes", "yes"]
    asked = learned.json(
        "circuit", "query", "n.tbn", "-q", "cancer=yes,cancer", "--evidence", "smokes=yes"
    )
    assert (asked["exact"], asked["method"], asked["converged"]) == (False, "gibbs", True)
    chance = table["yes", "yes"] / given
    assert abs(asked["probability"] - chance) < 4 * asked["stderr"]
    error = asked["distribution_stderr"]["cancer"]["no"]
    assert abs(asked["distribution"]["cancer"]["no"] - (1 - chance)) < 4 * error
    code, out, _ = learned("circuit", "query", "n.tbn", "--evidence", "smokes=yes")
    assert code == 0
    assert "not exact: 10,000 sweeps of Gibbs sampling" in out
    rows = learned.json("circuit", "query", "n.tbn", "--rows", "t.csv", "--num-sweeps", "500")
    assert len(rows["queries"]) == 60
    for one, (row, count) in zip(rows["queries"][::60], COUNTS.items(), strict=False):
        assert abs(one["probability"] - table[row]) < 4 * one["stderr"], count
    drawn = learned.json("circuit", "sample", "n.tbn", "-n", "4")
    assert (drawn["exact"], len(drawn["samples"])) == (True, 4)
    code, out, err = learned("circuit", "sample", "n.tbn", "-n", "5", "--evidence", "smokes=yes")
    assert err == "not exact: each sample is the end of a Gibbs chain of 100 sweeps\n"
    assert all(line.startswith("yes,") for line in out.splitlines()[1:])
    compiled = learned.json("circuit", "compile", "n.tbn", "-o", "n.npz")
    assert (compiled["edges"], compiled["width"]) == (20, 1)
    again = learned.json("circuit", "score", "n.npz", "t.csv")
    assert again["log_likelihood"] == pytest.approx(mean, abs=1e-10)
    assert learned.json("circuit", "info", "n.npz")["leaves"] == 3
    some = learned.json("circuit", "compile", "n.tbn", "--evidence", "smokes=yes")
    assert math.exp(some["log_partition"]) == pytest.approx(given, abs=1e-10)
    marginals = learned.json("circuit", "marginals", "n.tbn", "--evidence", "smokes=yes")
    assert marginals["distribution"]["cancer"]["yes"] == pytest.approx(chance, abs=1e-10)
    found = learned.json("circuit", "learn", "t.csv", "--edge-costs", "0", "-o", "k.npz")
    assert found["edges"] == 20
    learned.json("circuit", "info", "k.npz", "-o", "k.tbn")
    assert (learned.folder / "k.tbn").read_text() == (learned.folder / "n.tbn").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("query", "n.tbn", "--most-likely"), "the most likely states cannot be found by Gibbs "
         "sampling\n    compile the network, and query the circuit"),
        (("score", "n.tbn", "some.csv"), "some.csv has missing values; a network scores "
         "complete rows only\n    compile the network, and score by the circuit"),
        (("info", "n.tbn", "--plot", "n.png"), "only circuits are drawn"),
        (("info", "n.tbn", "-o", "n.npz"), "n.npz: networks are written as .tbn\n"
         "    `lapis circuit compile n.tbn -o n.npz` makes a circuit"),
        (("compile", "n.tbn", "-q", "smokes"), "n.tbn: a network with decision trees takes "
         "evidence, but no data and no queries"),
        (("score", "bad.tbn", "t.csv"), "bad.tbn:1:1: expected a block of a network\n"
         "    rain\n    ^^^^\n    a file has blocks `network`, `variable` and `probability`"),
    ],
)  # fmt: skip
def test_mistakes_with_networks(learned: Run, arguments: tuple[str, ...], message: str) -> None:
    learned.json("circuit", "learn", "t.csv", "--edge-costs", "0", "-o", "n.tbn")
    learned.write("some.csv", "smokes,cancer\nyes,\n")
    learned.write("bad.tbn", "rain\n")
    code, _, err = learned("circuit", *arguments)
    assert (code, err.removeprefix("error: ")) == (1, f"{message}\n")


def test_a_circuit_of_a_network_that_is_too_large(learned: Run) -> None:
    learned.json("circuit", "learn", "t.csv", "--edge-costs", "0", "-o", "n.tbn")
    code, _, err = learned("circuit", "compile", "n.tbn", "--max-edges", "15")
    assert code == 3
    assert err.startswith(
        "error: no circuit of at most 15 edges was found: 0 of 1 splits fit, the next gives 20 "
        "edges; treewidth at most 1\n"
    )


def test_impossible_evidence_is_said(run: Run) -> None:
    run.write("c.ac", "(2)\nv 0 0\nv 0 1\nn 0\nn 1\n* 0 2\n* 1 3\n+ 4 5\nEOF\n")
    code, _, err = run("circuit", "query", "c.ac", "--evidence", "x0=0")
    assert (code, err) == (1, "error: the evidence has probability 0\n")


def test_large_circuits_are_not_drawn(run: Run) -> None:
    rng = np.random.default_rng(0)
    np.save(Path("t.npy"), rng.integers(0, 2, (30, 240)))
    run.json("circuit", "learn", "t.npy", "-o", "c.npz", "--edge-costs", "9")
    code, _, err = run("circuit", "info", "c.npz", "--plot", "c.png")
    assert code == 3
    assert "nodes are too many to draw" in err

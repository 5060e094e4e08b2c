"""Every method finds rules planted in data; API, command line and files."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest

import lapis
from cli_run import Run
from lapis.data.archives import read_arrays
from lapis.errors import LapisWarning
from lapis.language.syntax import atoms
from lapis.methods import methods_of
from lapis.optimisation.checkpoint import write_archive
from lapis.runtime.progress import Progress
from lapis.structure.clause_scores import Scorer
from lapis.structure.ensemble import Ensemble

DECLARED = "r(a, b)\ns(b, c)\nt(a, c)\nu(a)"
MODEL = lapis.parse(DECLARED)


def planted(seed: int) -> lapis.Database:
    return lapis.Database.parse(planted_facts(seed))


def planted_facts(seed: int, noise: float = 0.02, size: int = 14) -> str:
    """Return facts of r(x,y) ^ s(y,z) => t(x,z), with some of t changed."""
    generator = np.random.default_rng(seed)
    r = generator.random((size, size)) < 0.12
    s = generator.random((size, size)) < 0.12
    t = (r.astype(int) @ s.astype(int) > 0) ^ (generator.random((size, size)) < noise)
    names = {"r": ("A", "B", r), "s": ("B", "C", s), "t": ("A", "C", t)}
    facts = [
        f"{'' if value else '!'}{name}({left}{i},{right}{j})"
        for name, (left, right, table) in names.items()
        for (i, j), value in np.ndenumerate(table)
    ]
    facts += [f"u(A{i})" for i in range(size) if generator.random() < 0.5]
    return " ".join(facts)


DATA = [planted(1), planted(2)]
METHODS = sorted({*methods_of("structure")} - {"lift-graph"})  # which learns clusters
OPTIONS = {"lhl": {"max_literals": 3, "min_support": 10}, "msl": {"max_literals": 3}}


@pytest.mark.parametrize("method", METHODS)
def test_rules_keep_within_the_limits(method: str) -> None:
    """The limits apply to the first pairs of beam search and to lifted paths, too."""
    own = {"min_support": 0, "max_atoms": 0, "dangling": "keep"} if method == "lhl" else {}
    found = lapis.learn_structure(
        MODEL, DATA[0], method=method, jobs=1, max_variables=2, max_literals=3,
        max_clauses=4, penalty=0.0, **own,
    )  # fmt: skip
    learned = [rule for rule in found.model.rules if " " in rule.text.replace(", ", ",")]
    assert learned or method == "busl"
    for rule in learned:
        assert len(rule.variables) <= 2
        assert len(list(atoms(rule.formula))) <= 3


@pytest.mark.parametrize("method", METHODS)
def test_a_planted_rule_is_found(method: str) -> None:
    found = lapis.learn_structure(
        MODEL, DATA, method=method, jobs=1, max_variables=3, **OPTIONS.get(method, {})
    )
    rule = next(rule for rule in found.rules if rule.text == "r(a, b) ^ s(b, c) => t(a, c)")
    assert rule.weight > 1
    assert rule.gain == max(each.gain for each in found.rules if each.gain is not None)
    assert found.value > found.unit_value
    score = lapis.score(found.model, DATA, likelihood=False)
    assert score.weighted_pseudo_log_likelihood == pytest.approx(found.value, abs=1e-8)


def sparse_world(seed: int) -> lapis.Database:
    """Return facts of the same rule with few true atoms, so that no pair of literals gains much."""
    generator = np.random.default_rng(seed)
    r, s = generator.random((2, 50, 50)) < 0.03
    t = (r.astype(int) @ s.astype(int) > 0) & (generator.random((50, 50)) < 0.9)
    t |= generator.random((50, 50)) < 0.01
    tables = {"r": ("A", "B", r), "s": ("B", "C", s), "t": ("A", "C", t)}
    return lapis.Database.parse(
        " ".join(
            f"{name}({left}{i},{right}{j})"
            for name, (left, right, table) in tables.items()
            for i, j in np.argwhere(table)
        )
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", [1, 2])
def test_defaults_find_a_rule_that_none_of_its_pairs_hints_at(method: str, seed: int) -> None:
    declared = lapis.parse("r(a, b)\ns(b, c)\nt(a, c)")
    found = lapis.learn_structure(declared, sparse_world(seed), method=method, jobs=1)
    said = {"r(a, b) ^ s(b, c) => t(a, c)", "r(a, b) ^ s(b, c) ^ t(a, c)"}
    assert said & {rule.text for rule in found.rules[:2]}


def test_redundant_rules_are_kept_on_request() -> None:
    """Constants with two r have all: a count of pairs predicts that better than a count of r."""
    facts = [f"r(A{i},B{j})" for i in range(12) for j in range(8) if i % 4 == 0 or i == j]
    data = lapis.Database.parse(" ".join(facts))
    declared, ask = lapis.parse("r(a, b)"), {"jobs": 1, "max_literals": 3, "max_clauses": 3}
    kept = lapis.learn_structure(declared, data, redundant="keep", **ask)
    found = lapis.learn_structure(declared, data, **ask)
    longer = "r(a, b1) ^ r(a, b2) => r(a, b3)"  # r(a, b1) => r(a, b2) says it too
    assert longer in [rule.text for rule in kept.rules]
    assert longer not in [rule.text for rule in found.rules]


def test_lhl_says_that_no_path_has_support() -> None:
    with pytest.warns(LapisWarning, match="paths has 50 true atoms for each"):
        found = lapis.learn_structure(MODEL, DATA[0], method="lhl", max_literals=3, jobs=1)
    assert all(rule.gain is None for rule in found.rules)


def test_paths_of_the_data_itself_lead_to_the_planted_rule() -> None:
    """LHL-FindPaths: hyperedges have no false atoms, so the first trial cannot explain any."""
    found = lapis.learn_structure(
        MODEL, DATA[0], method="lhl", lifting="ground", max_literals=3, min_support=10, jobs=1
    )
    assert "r(a, b) ^ s(b, c) => t(a, c)" in [rule.text for rule in found.rules]


@pytest.mark.parametrize("least", [0.0, 0.3, 1.0, 100.0])
def test_busl_drops_rules_under_the_least_weight(least: float) -> None:
    ask = {"method": "busl", "penalty": 0.001, "jobs": 1}
    found = lapis.learn_structure(MODEL, DATA, min_weight=least, **ask)
    weights = [abs(rule.weight) for rule in found.rules if rule.gain is not None]
    assert all(weight >= least for weight in weights)
    every = lapis.learn_structure(MODEL, DATA, **ask)
    light = [rule for rule in every.rules if rule.gain is not None and abs(rule.weight) < least]
    assert bool(light) == (least > 0)
    assert bool(weights) == (least < 100)
    score = lapis.score(found.model, DATA, likelihood=False)
    assert score.weighted_pseudo_log_likelihood == pytest.approx(found.value, abs=1e-8)


def held_out(way: str, databases: list[lapis.Database]) -> float:
    """Sum each world's weighted pseudo-log-likelihood with rules from the others."""
    total = 0.0
    for number, world in enumerate(databases):
        others = [each for at, each in enumerate(databases) if at != number]
        found = lapis.learn_structure(MODEL, others, method="busl", dangling=way, jobs=1)
        score = lapis.score(found.model, world, likelihood=False)
        assert score.weighted_pseudo_log_likelihood is not None
        total += score.weighted_pseudo_log_likelihood
    return total


@pytest.mark.parametrize("seed", range(2))
def test_best_of_dangling_is_what_predicts_worlds_left_out(seed: int) -> None:
    databases = [lapis.Database.parse(planted_facts(3 * seed + at, size=7)) for at in range(2)]
    way = max(("keep", "drop"), key=lambda each: held_out(each, databases))
    ask = {"method": "busl", "jobs": 1}
    best = lapis.learn_structure(MODEL, databases, dangling="best", **ask)
    same = lapis.learn_structure(MODEL, databases, dangling=way, **ask)
    assert best.text == same.text


def test_best_of_dangling_in_one_world_goes_by_the_penalised_value() -> None:
    ask = {"method": "busl", "jobs": 1, "penalty": 0.01}
    found = {
        way: lapis.learn_structure(MODEL, DATA[0], dangling=way, **ask)
        for way in ("keep", "drop", "best")
    }

    def worth(way: str) -> float:
        rules = [rule for rule in found[way].rules if rule.gain is not None]
        literals = sum(len(list(atoms(lapis.parse(f"{DECLARED}\n1 {r.text}").rules[0].formula)))
                       for r in rules)  # fmt: skip
        return found[way].value - 0.01 * literals

    assert worth("best") == max(worth("keep"), worth("drop"))


def test_counts_are_those_of_the_formula() -> None:
    found = lapis.learn_structure(MODEL, DATA, jobs=1, max_literals=3)
    text = "\n".join(f"1 {rule.text}" for rule in found.rules if rule.gain is not None)
    declared = "r(a, b)\ns(b, c)\nt(a, c)\nu(a)\n"
    counted = lapis.count(lapis.parse(declared + text), DATA).rows
    for rule, row in zip(found.rules, counted, strict=False):
        assert (rule.true, rule.groundings) == (row.true, row.groundings)


def test_rules_for_one_predicate_mention_it() -> None:
    found = lapis.learn_structure(MODEL, DATA, "t", jobs=1, max_literals=3)
    assert all("t(" in rule.text for rule in found.rules)
    assert any(rule.text == "r(a, b) ^ s(b, c) => t(a, c)" for rule in found.rules)


@pytest.mark.parametrize("final", ["lazy", "greedy", "l1", "l2"])
def test_every_last_step_keeps_the_planted_rule(final: str) -> None:
    found = lapis.learn_structure(MODEL, DATA, final=final, jobs=1, max_literals=3, max_clauses=20)
    assert "r(a, b) ^ s(b, c) => t(a, c)" in [rule.text for rule in found.rules]


def test_a_sample_of_the_atoms_finds_it_too_and_the_seed_decides() -> None:
    ask = {"sample_share": 0.7, "jobs": 1, "max_literals": 3}
    one = lapis.learn_structure(MODEL, DATA, random_state=5, **ask)
    two = lapis.learn_structure(MODEL, DATA, random_state=5, **ask)
    assert one.rules == two.rules
    assert "r(a, b) ^ s(b, c) => t(a, c)" in [rule.text for rule in one.rules]


def test_a_stop_gives_the_rules_so_far() -> None:
    calls = iter(range(10_000))
    found = lapis.learn_structure(
        MODEL, DATA, jobs=1, max_literals=3, stop=lambda: next(calls) > 40
    )
    assert found.interrupted
    assert "stopped" in found.text


SMALL = lapis.Database.parse(planted_facts(3, size=10))
LESS = {"lhl": {"lifting": "ground", "min_support": 2, "dangling": "keep"}}


@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_search_ends_as_if_it_had_never_stopped(method: str, tmp_path: Path) -> None:
    """The search is stopped three times, in different phases."""
    ask = {"method": method, "jobs": 1, "max_variables": 3, "max_clauses": 4, "max_literals": 3}
    ask |= LESS.get(method, {})
    looks: list[None] = []
    whole = lapis.learn_structure(
        MODEL, SMALL, checkpoint=tmp_path / "whole", stop=lambda: looks.append(None), **ask
    )
    place, recorded = tmp_path / "run", [0]
    for share in (0.2, 0.5, 0.8, 2.0):
        left = iter(range(round(share * len(looks))))
        found = lapis.learn_structure(
            MODEL, SMALL, checkpoint=place, stop=lambda rest=left: next(rest, None) is None, **ask
        )
        assert found.interrupted == (share < 1)
        with np.load(place) as archive:
            recorded.append(len(archive["log.digest"]))
    assert recorded == sorted(set(recorded))  # each run came further
    assert (found.rules, found.value) == (whole.rules, whole.value)
    assert (tmp_path / "whole").read_bytes() == place.read_bytes()


def test_a_finished_search_is_heard_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = {"jobs": 1, "max_literals": 3, "checkpoint": tmp_path / "run"}
    first = lapis.learn_structure(MODEL, SMALL, **ask)

    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Scorer, "score", fail)
    monkeypatch.setattr(Ensemble, "refit", fail)
    assert lapis.learn_structure(MODEL, SMALL, **ask).rules == first.rules


def test_checkpoints_of_other_searches_and_damaged_ones_are_refused(
    run: Run, tmp_path: Path
) -> None:
    run.write("d.mln", "r(a, b)\ns(b, c)\nt(a, c)\nu(a)\n")
    run.write("d.db", planted_facts(3, size=6))
    ask = [
        "structure",
        "d.mln",
        "d.db",
        "--max-literals",
        "2",
        "--jobs",
        "1",
        "--checkpoint",
        "run",
    ]
    assert run(*ask)[0] == 0
    hint = "    delete it, or name another file\n"
    code, _, err = run(*ask, "--penalty", "0.5")
    assert (code, err) == (
        1, "error: run: a checkpoint of other rules, data or options\n" + hint
    )  # fmt: skip
    content = (tmp_path / "run").read_bytes()
    for length in (0, len(content) // 2, len(content) - 9):
        (tmp_path / "run").write_bytes(content[:length])
        code, _, err = run(*ask)
        assert (code, err) == (1, "error: run: not a checkpoint, or a damaged one\n" + hint)
    code, _, err = run(*ask[:-1], "nowhere/run")
    assert (code, err) == (1, "error: nowhere/run: cannot be written: no folder nowhere\n")


def test_a_log_of_other_calls_is_refused(tmp_path: Path) -> None:
    """The file is of the same search but has other calls, as after a change of the code."""
    path = tmp_path / "run"
    lapis.learn_structure(MODEL, DATA, jobs=1, checkpoint=path)
    arrays = read_arrays(path)
    header = json.loads(str(arrays.pop("header")))
    arrays["log.digest"][0] += np.uint64(1)
    write_archive(path, header, arrays)
    with pytest.raises(lapis.LapisError, match="a checkpoint of another search"):
        lapis.learn_structure(MODEL, DATA, jobs=1, checkpoint=path)


def test_progress_says_what_is_done() -> None:
    events: list[Progress] = []
    lapis.learn_structure(MODEL, DATA, jobs=1, max_literals=3, progress=events.append)
    phases = {event.phase for event in events}
    assert {"scoring", "selecting"} <= phases
    scoring = [event for event in events if event.phase == "scoring"]
    assert scoring[-1].done == scoring[-1].total
    assert scoring[-1].figures["best"] > 0


def test_processes_find_the_same() -> None:
    """There are enough paths for two processes."""
    alone = lapis.learn_structure(MODEL, DATA[0], jobs=1, max_literals=4, max_clauses=2)
    shared = lapis.learn_structure(MODEL, DATA[0], jobs=2, max_literals=4, max_clauses=2)
    assert alone.rules == shared.rules


def test_the_command_writes_rules_that_can_be_read(run: Run, tmp_path: Path) -> None:
    run.write("d.mln", "r(a, b)\ns(b, c)\nt(a, c)\nu(a)\n")
    run.write("d.db", planted_facts(1))
    ask = ["structure", "d.mln", "d.db", "--max-literals", "3", "--jobs", "1"]
    code, out, _ = run(*ask, "--explain", "-o", "rules.mln", "--draw", "graph.svg")
    assert code == 0
    assert "if r(a, b) and s(b, c), then t(a, c)" in out
    assert "as in  r(" in out
    document = run.json(*ask)
    model = lapis.read(tmp_path / "rules.mln")
    assert [rule.text for rule in model.rules] == [r["formula"] for r in document["rules"]]
    assert document["interrupted"] is False
    assert (tmp_path / "graph.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("structure m.mln", "error: nothing to learn from\n    name data files\n"),
        (
            "structure m.mln d.db --method lhll",
            "error: unknown method 'lhll'\n    did you mean 'lhl'?\n",
        ),
        (
            "structure m.mln d.db --method msl --min-support 3",
            "error: method 'msl' does not read --min-support\n    it belongs to lhl\n",
        ),
        (
            "structure m.mln d.db --dangling maybe",
            "error: --dangling must be keep or drop or best, not 'maybe'\n",
        ),
    ],
)
def test_messages(typed: str, message: str, run: Run) -> None:
    code, out, err = run(*typed.split())
    assert (code, out, err) == (1, "", message)


def test_best_of_dangling_is_of_pseudo_likelihoods(run: Run) -> None:
    run.write("d.mln", DECLARED)
    run.write("d.db", planted_facts(3, size=6))
    typed = "structure d.mln d.db --dangling best --conditioning predicates"
    code, out, err = run(*typed.split())
    assert (code, out) == (1, "")
    assert err == (
        "error: --dangling best compares pseudo-likelihoods, which do not condition on predicates\n"
        "    use --dangling keep or drop, or --conditioning atoms\n"
    )


def test_blocks_are_refused() -> None:
    model = lapis.parse("Class(page, topic!)\nLink(page, page)")
    with pytest.raises(lapis.LapisError, match="'Class' has blocks"):
        lapis.learn_structure(model, lapis.Database.parse("Class(A,X) Link(A,A)"))


@pytest.mark.parametrize("method", ["busl", "lhl", "lift-graph"])
def test_methods_by_paths_say_that_they_find_no_rule_with_a_proposition(method: str) -> None:
    model = lapis.parse("r(a, b)\nu(a)\nRain")
    data = lapis.Database.parse("r(A,B) u(A) !u(C) Rain")
    own = {"min_support": 0} if method == "lhl" else {}
    with pytest.raises(lapis.LapisError) as refused:
        lapis.learn_structure(model, data, "Rain", method=method, jobs=1)
    kept = "" if method == "lift-graph" else ", but its unit clause"
    message = f"'Rain' has no arguments: {method} finds no rule with it{kept}"
    assert str(refused.value) == (
        f"<text>:3:1: {message}\n    Rain\n    ^^^^\n    use --method lapis"
    )
    with pytest.warns(LapisWarning, match=message):
        found = lapis.learn_structure(model, data, method=method, jobs=1, **own)
    texts = [rule.text for rule in found.rules if "Rain" in rule.text]
    assert texts == ([] if method == "lift-graph" else ["Rain"])


def test_rules_of_the_model_are_left_out_with_a_warning(run: Run, tmp_path: Path) -> None:
    """Their weights were not learned together with the new ones."""
    code, _, err = run("structure", "m.mln", "d.db", "-o", "out.mln")
    assert code == 0, err
    assert "m.mln:4:1: warning: 2 rules of the model are ignored" in err
    run.write("declared.mln", "Friends(person, person)\nSmokes(person)\nCancer(person)\n")
    run("structure", "declared.mln", "d.db", "-o", "same.mln")
    assert lapis.read(tmp_path / "out.mln").rules == lapis.read(tmp_path / "same.mln").rules


def test_data_without_constants_is_refused_and_nothing_written(run: Run, tmp_path: Path) -> None:
    run.write("e.mln", "r(a, b)\nu(a)\n")
    run.write("e.db", "")
    code, out, err = run("structure", "e.mln", "e.db", "-o", "out.mln")
    assert (code, out) == (1, "")
    assert err == (
        "error: there are no atoms to explain: the data names no constants\n"
        "    lapis check MODEL DATA shows what was read\n"
    )
    assert not (tmp_path / "out.mln").exists()


def test_an_interrupt_gives_the_rules_so_far() -> None:
    """Ctrl-C while clauses are scored."""

    def interrupt(event: Progress) -> None:
        if event.phase == "scoring":
            signal.raise_signal(signal.SIGINT)

    found = lapis.learn_structure(MODEL, DATA, jobs=1, max_literals=3, progress=interrupt)
    assert found.interrupted

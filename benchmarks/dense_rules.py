"""Rules of dense data: kinships, nations and umls, with held-out facts instead of folds.

    python benchmarks/dense_rules.py [kinships nations umls] [--systems lapis,lhl] [--out FOLDER]
                                     [--seconds N]

Rules are learned from the training facts. For each predicate the atoms that are not training facts
are predicted from the training facts of all predicates; the held-out facts are the true ones. CLL
and AUC are over all these atoms. These data have many dense relations, so clauses have at most two
literals; LHL has μ = 5 on nations, where no relation has more than a hundred facts.

With `--out` the twenty heaviest rules of each data set are written. `--seconds` ends a search (a
star marks such rules). Seconds are CPU seconds. Data are read from LAPIS_DATA.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from protocol import data_folder

import lapis
from lapis.errors import LapisWarning
from lapis.evaluation.metrics import average_precision, conditional_log_likelihood
from lapis.structure.learned_rules import LearnedRules

SECONDS = 5.0  # of sampling for a predicate
SETS = ("kinships", "nations", "umls")
SYSTEMS: dict[str, dict[str, Any]] = {
    "lapis": {"max_literals": 2, "dangling": "drop", "conditioning": "atoms"},
    "lhl": {"method": "lhl", "max_literals": 2},
}
LHL: dict[str, dict[str, Any]] = {"nations": {"min_support": 5}}


def run_set(name: str, system: str, seconds: float | None) -> LearnedRules:
    """Learn rules and print how they predict the atoms that are not training facts."""
    folder = data_folder(name)
    model = lapis.read(folder / f"{name}.mln")
    train, valid, test = (
        lapis.Database.read(folder / f"{x}.db") for x in ("train", "valid", "test")
    )
    own = LHL.get(name, {}) if system == "lhl" else {}
    began = time.process_time()
    found = lapis.learn_structure(model, train, jobs=1, time_limit=seconds, **SYSTEMS[system] | own)
    spent = time.process_time() - began
    held = true_atoms(model, valid) | true_atoms(model, test)
    probabilities, truths = [], []
    sampled = 0
    for predicate in model.predicates:
        rules = [rule for rule in found.model.rules if f"{predicate}(" in rule.text]
        answer = lapis.infer(  # the other rules are the same in all worlds
            found.model.with_rules(tuple(rules)), train, query=[predicate],
            time_limit=SECONDS, num_chains=2,
        )  # fmt: skip
        sampled += not answer.exact
        probabilities.append(answer.probability)
        truths += [name in held for name in answer.names]
    probability, truth = np.concatenate(probabilities), np.array(truths)
    near = np.clip(probability, 1e-6, 1 - 1e-6)
    cll = conditional_log_likelihood(np.log(near) - np.log1p(-near), truth)
    auc = average_precision(probability, truth) or 0.0
    print(f"{name} {system}: AUC {auc:.3f}, CLL {cll:.4f}, {len(truth):,} atoms, "
          f"{int(truth.sum()):,} true, {sampled} predicates sampled, {spent:.1f} s, "
          f"{found.summary()}{' *' if found.interrupted else ''}", flush=True)  # fmt: skip
    return found


def true_atoms(model: lapis.Model, database: lapis.Database) -> set[str]:
    problem = lapis.build_problem(model, database)
    names = problem.domains["entity"].constants
    return {
        f"{predicate}({names[left]},{names[right]})"
        for predicate in model.predicates
        for left, right in problem.evidence[predicate].true.tolist()
    }


def write_heaviest(folder: Path, name: str, system: str, found: LearnedRules) -> None:
    """Write the twenty heaviest rules."""
    rules = [rule for rule in found.rules if rule.gain is not None]
    stopped = ", stopped before the end" if found.interrupted else ""
    lines = [
        f"# {name}: the heaviest rules of {system}",
        "",
        f"{len(rules)} rules, score {found.unit_value:.4f} → {found.value:.4f}{stopped}.",
        "",
        "| weight | gain | support | rule |",
        "|---|---|---|---|",
        *(f"| {r.weight:.3f} | {r.gain:.4f} | {r.support:,} | `{r.text}` |" for r in rules[:20]),
        "",
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"rules-{name}-{system}.md").write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--systems", default="lapis,lhl")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=float)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", LapisWarning)
    for name in chosen.sets:
        for system in chosen.systems.split(","):
            found = run_set(name, system, chosen.seconds)
            if chosen.out is not None:
                write_heaviest(chosen.out, name, system, found)


if __name__ == "__main__":
    main()

"""Collective classification on WebKB: classes of pages from words and links, by PSCG.

    python benchmarks/webkb.py [--quick] [--out FOLDER]

The model is that of section 4.3.1 of Lowd's thesis: a weight for each word and class, present and
absent, and for each pair of classes of linked pages; in addition, for each pair of classes of one
page. The data has 774 words and 7 classes. One university is held out. In the data each class is a
predicate; here it is a constant, so that `+c` ranges over classes. Duplicate links are merged, and
their texts are dropped.

Expected counts are estimated by five Gibbs sweeps per iteration, the sampler that learning selects
for soft clauses of two atoms. Logistic regression on the words (the same model without its last two
rules, by L-BFGS) is run for comparison. Prior widths, 0.2 for words and 2 for the rest, are from
preliminary runs with cornell held out.

The thesis gives no figures, only curves over ten hours. Alchemy 2 was measured with 100 words and
756 weights on a similar machine. Data are read from LAPIS_DATA.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas
from learning_curve import (
    Learner,
    Other,
    Run,
    Task,
    describe_fold,
    draw_curves,
    new_judge,
    prepare,
    prior_by_rule,
    run_learner,
)
from protocol import MODELS, ROOT, data_folder, peak_memory

import lapis
from lapis.language.model import Rule

UNIVERSITIES = ("cornell", "texas", "washington", "wisconsin")
CLASSES = ("Course", "Department", "Faculty", "Person", "ResearchProject", "Staff", "Student")
PSCG = Learner("PSCG, words and links", "pscg", "gibbs", 80)
WORDS_ALONE = Learner("L-BFGS, words alone", "lbfgs", "exact", 200)
NUM_WORD_RULES = 3  # the rules that say nothing of two classes come first
ALCHEMY = Other(524.0, -0.217, 0.465)
ALCHEMY_NOTE = "Alchemy PSCG, 756 weights"
LOGISTIC = Other(None, -0.275, 0.468)
LOGISTIC_NOTE = "logistic regression, 100 words"


def read_university(name: str) -> lapis.Database:
    """Read the pages of one university, with classes as constants and links without duplicates."""
    tables = lapis.Database.read(data_folder("webkb") / f"{name}.db.gz").to_frames()
    classes = [
        pandas.DataFrame({"page": tables[name].iloc[:, 0], "class": name})
        for name in CLASSES
        if name in tables
    ]
    has = tables["Has"].set_axis(["word", "page"], axis=1)
    links = tables["LinkTo"].iloc[:, 1:].set_axis(["source", "target"], axis=1)
    links = links[links.source != links.target].drop_duplicates()
    labels = pandas.concat(classes)
    pages = pandas.unique(pandas.concat([labels.page, has.page, links.source, links.target]))
    frames = {
        "Class": labels,
        "Has": has,
        "Links": links,
        "Page": pandas.DataFrame({"page": pages}),
    }
    return lapis.Database.from_frames(frames)


def width(rule: Rule) -> float:
    return 0.2 if "Has" in rule.text else 2.0


def run_university(name: str, learners: Sequence[Learner], num_samples: int) -> list[Run]:
    """Run the learners with one university held out."""
    worlds = [read_university(university) for university in UNIVERSITIES]
    model = lapis.read(MODELS / "webkb.mln")
    runs = []
    for learner in learners:
        if learner == WORDS_ALONE:
            model = model.with_rules(model.rules[:NUM_WORD_RULES])
        fold = prepare(Task(model, worlds, ["Class"], UNIVERSITIES.index(name)))
        if learner == PSCG:
            print(f"\n{name} held out: {describe_fold(fold)}")
        judge = new_judge(fold, num_samples)
        run = run_learner(fold, learner, prior_by_rule(fold.parameters, width), judge)
        print(
            f"  {learner.name:22s} {run.seconds:7.1f} s ({run.setup_seconds:.1f} to ground) "
            f"{run.course.iterations:4d} iterations  CLL {run.final.cll:.4f}  "
            f"AUC {run.final.auc:.3f}  95 % of it after {run.seconds_to_share():.1f} s",
            flush=True,
        )
        runs.append(run)
    return runs


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="cornell held out only")
    options.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "out")
    chosen = options.parse_args()
    names = UNIVERSITIES[:1] if chosen.quick else UNIVERSITIES
    learners = (PSCG, WORDS_ALONE)
    runs = [run for name in names for run in run_university(name, learners, 300)]
    print("\nmean                       CLL    AUC  seconds  to 95 % of the AUC")
    for learner in learners:
        own = [run for run in runs if run.learner == learner]
        print(
            f"  {learner.name:22s} {np.mean([run.final.cll for run in own]):6.4f} "
            f"{np.mean([run.final.auc for run in own]):6.3f} "
            f"{np.mean([run.seconds for run in own]):8.1f} "
            f"{np.mean([run.seconds_to_share() for run in own]):8.1f}"
        )
    print(f"  {ALCHEMY_NOTE}: {ALCHEMY.cll} {ALCHEMY.auc} in {ALCHEMY.seconds:.0f} s")
    print(f"  {LOGISTIC_NOTE}: {LOGISTIC.cll} {LOGISTIC.auc}")
    others = {ALCHEMY_NOTE: ALCHEMY, LOGISTIC_NOTE: LOGISTIC}
    title = f"WebKB, classes of pages, held out: {', '.join(names)}"
    draw_curves(chosen.out / "webkb.png", title, runs, others)
    print(f"peak memory {peak_memory():.2f} GB")


if __name__ == "__main__":
    main()

"""Rules for one rare predicate: advisedBy in UW-CSE, each of the five areas held out in turn.

    python benchmarks/advised_by.py [AREA …]

Rules are learned on the other four areas with default options; the penalty of a literal is chosen
inside these four (`lapis.structure.penalty_choice`). All atoms of advisedBy in the held-out area
are predicted from the other predicates. AP is average precision, CLL the mean conditional
log-likelihood of all pairs of people. RDN-Boost was run on the same machine, with theory and ai
held out. Seconds are CPU seconds of one core. Development used graphics, language and systems only.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from protocol import data_folder

import lapis
from lapis.errors import LapisWarning

AREAS = ("ai", "graphics", "language", "systems", "theory")
RDN_BOOST = {"theory": 0.392, "ai": 0.154}  # AP


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("areas", nargs="*", metavar="AREA", help=", ".join(AREAS))
    areas = parser.parse_args().areas or AREAS
    folder = data_folder("uwcse")
    warnings.simplefilter("ignore", LapisWarning)
    model = lapis.read(folder / "uwcse.mln")
    worlds = {area: lapis.Database.read(folder / f"{area}.db") for area in AREAS}
    print("held out     AP  RDN-Boost      CLL  rules  nats a literal  seconds")
    found = []
    for area in areas:
        train = [world for name, world in worlds.items() if name != area]
        begin = time.process_time()
        learned = lapis.learn_structure(model, train, "advisedBy", jobs=1)
        seconds = time.process_time() - begin
        score = lapis.score(learned.model, worlds[area], "advisedBy", likelihood=False)
        assert score.auc_pr is not None
        other = RDN_BOOST.get(area)
        price = learned.penalties["advisedBy"].nats
        print(
            f"{area:9} {score.auc_pr:6.3f}  {'' if other is None else f'{other:9.3f}':9} "
            f"{score.cll:8.4f} {len(learned.rules) - 1:6} {price:15g} {seconds:8.1f}",
            flush=True,
        )
        found.append((area, score.auc_pr))
    print(f"\nmean of {len(found)} areas: AP {np.mean([ap for _, ap in found]):.3f}")
    both = [ap for area, ap in found if area in RDN_BOOST]
    if len(both) == len(RDN_BOOST):
        print(
            f"theory and ai: AP {np.mean(both):.3f}, RDN-Boost {np.mean([*RDN_BOOST.values()]):.3f}"
        )


if __name__ == "__main__":
    main()

"""Our own learner: everything that is connected, counted exactly, chosen by what it adds.

Counting makes scores cheap, so candidates need no clustering: all connected clauses of two and
three literals in the language (as MSL starts from), and longer ones along paths that the data shows
(as LHL finds, on the ground hypergraph). All are scored exactly; a candidate must beat its
sub-clauses. Clauses that a shorter one says as well (`is_condensed`) are left out: only their
counts differ, so that r(a, b) ^ r(a, c) ^ s(b) => t(a) may fit better than r(a, b) ^ s(b) =>
t(a), which is what was meant. The model then grows by the clause that adds most to what is there
(`select`, "lazy"), so that the second way of saying the same thing never enters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from lapis.structure.candidates import Search
from lapis.structure.clauses import Path, is_condensed
from lapis.structure.learners.msl import connected_paths
from lapis.structure.lift_graph import ground_graph
from lapis.structure.paths.find_paths import find_paths
from lapis.structure.scores import ClauseScore
from lapis.structure.select import Criteria, Selection, select


@dataclass(frozen=True)
class ForwardOptions(Criteria):
    penalty: float = 0.002
    final: str = "lazy"
    redundant: str = "drop"


def learn_forward(search: Search, **own: Any) -> Selection:
    """Rules by exact scores and forward selection."""
    options = ForwardOptions(**own)
    paths: dict[Path, None] = {}
    for path in connected_paths(search, min(3, options.max_length), options.max_variables):
        paths[path] = None
    if options.max_length > 3:
        found = find_paths(
            ground_graph(search.data), options.max_length, max_variables=options.max_variables,
            progress=search.progress, stop=search.stop,
        )  # fmt: skip
        paths.update((each.path, None) for each in found)
    scores: Iterable[ClauseScore] = chain.from_iterable(
        search.score_paths([p for p in paths if options.allows(p)])
    )
    if options.redundant != "keep":
        scores = (score for score in scores if is_condensed(score.candidate))
    return select(search, scores, options)

"""Approximate counting by iterative join-graph propagation, IJGP(i).

The number of groundings that a world makes false is the number of solutions of a constraint
network over the clause's logical variables (`encoding`). The network's literals are gathered in
clusters of at most i variables (`join_graph`), the clusters exchange messages (`propagation`, on
the sparse tables of `table` and `contraction`) until nothing changes, and the solution count is
read off their beliefs. `counter` does so for all clauses of a model and keeps the messages from
one world to the next, and on request compares its estimates with exact counts; `delta` gives the
change of the counts with one atom, `differences` that of many atoms at once, and `subtraction`
takes it from two estimated counts.
"""

from lapis.counting.ijgp.counter import IjgpCounter, count_ijgp
from lapis.counting.ijgp.differences import ijgp_delta
from lapis.counting.ijgp.propagation import IjgpSettings

__all__ = ["IjgpCounter", "IjgpSettings", "count_ijgp", "ijgp_delta"]

"""Approximate counting by iterative join-graph propagation, IJGP(i).

The groundings in which a clause is false are the solutions of a constraint network over the
clause's logical variables (`encoding`). The network's tables are grouped into clusters of at most i
variables (`join_graph`). The clusters exchange messages (`propagation`, on the sparse tables of
`table` and `contraction`) until they converge, and the number of solutions follows from the
beliefs. `counter` does so for all clauses of a model and keeps the messages from one world to the
next. `estimated_differences` gives the change of the counts with single atoms.
"""

from lapis.counting.ijgp.counter import IjgpCounter, count_ijgp
from lapis.counting.ijgp.propagation import IjgpSettings

__all__ = ["IjgpCounter", "IjgpSettings", "count_ijgp"]

"""Every method by task and name: what it does, when it is exact, which options it reads.

Each folder lists its own methods; importing this module registers all of them.

>>> from lapis import methods
>>> list(methods.methods_of("counts"))
['exact', 'ijgp']
>>> methods.find_method("map", "icm").help
'iterated conditional modes: each atom at its best given the others'
"""

from __future__ import annotations

from lapis.circuits.methods import METHODS as CIRCUITS
from lapis.counting.methods import METHODS as COUNTING
from lapis.fields.methods import METHODS as FIELDS
from lapis.inference.methods import METHODS as INFERENCE
from lapis.learning.methods import METHODS as LEARNING
from lapis.lifted.methods import METHODS as LIFTED
from lapis.optimisation.methods import METHODS as OPTIMISATION
from lapis.registry.method_table import Method, find_method, methods_of, register, tasks
from lapis.structure.methods import METHODS as STRUCTURE

__all__ = ["Method", "find_method", "methods_of", "tasks"]

register(*INFERENCE, *CIRCUITS, *LIFTED, *COUNTING, *LEARNING, *OPTIMISATION, *STRUCTURE, *FIELDS)

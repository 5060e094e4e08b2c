"""Running plans where a world is: here, on sparse factors, or on its store."""

from __future__ import annotations

import numpy as np

from lapis.relational import memory
from lapis.relational.answers import Product, list_rows, tabulate
from lapis.relational.factor import Factor
from lapis.relational.interpretation import Interpretation
from lapis.relational.plan import Plan
from lapis.stores.load_to_store import StoredWorld
from lapis.stores.store_engine import StoreEngine


def run(plan: Plan, world: Interpretation) -> list[Product]:
    """The answer to each term."""
    if isinstance(world, StoredWorld):
        return StoreEngine(world, world.store).run(plan)
    return memory.run(plan, world)


def count_table(plan: Plan, world: Interpretation) -> np.ndarray:
    """int64 or object[plan.shape], the number of groundings for each value of `plan.keep`."""
    return tabulate(plan, run(plan, world))


def count_rows(plan: Plan, world: Interpretation) -> Factor:
    """The number of groundings for each value of `plan.keep`, where there are any."""
    return list_rows(plan, run(plan, world))

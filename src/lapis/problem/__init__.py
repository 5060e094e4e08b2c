"""Model × worlds × query → what is known, open, asked and refused."""

from lapis.problem.problem import Evidence, Problem, WeightTable, build_problem
from lapis.problem.task import Inputs, Task, World, build_task, open_inputs

__all__ = [
    "Evidence",
    "Inputs",
    "Problem",
    "Task",
    "WeightTable",
    "World",
    "build_problem",
    "build_task",
    "open_inputs",
]

"""Model × worlds × query → what is known, open, asked and refused."""

from lapis.problem.problem import Evidence, Problem, WeightTable, build_problem

__all__ = ["Evidence", "Problem", "WeightTable", "build_problem"]

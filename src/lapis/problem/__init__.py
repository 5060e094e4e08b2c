"""Model × worlds × query → what is known, open, asked and refused."""

from lapis.problem.problem import Problem, build_problem

__all__ = ["Problem", "build_problem"]

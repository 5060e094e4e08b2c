"""Model × worlds × query → tasks: which atoms are true, false, unknown and queried."""

from lapis.problem.problem import Problem, build_problem

__all__ = ["Problem", "build_problem"]

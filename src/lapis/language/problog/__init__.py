"""ProbLog programs without function symbols, read as models of ground atoms."""

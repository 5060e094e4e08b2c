"""Paths of atoms: found in the data, and what atoms change in all clauses of one."""

"""Exact elimination of easy atoms: a core is left to other methods, the rest is recovered."""

"""Formulas → clauses with tied weights: rewriting passes, disjoint cubes, definitions."""

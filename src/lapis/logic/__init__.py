"""Formulas → clauses: rewriting, disjoint cubes, quantifiers."""

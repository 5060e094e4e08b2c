"""Bayesian networks with decision trees: as text, sampled, compiled."""

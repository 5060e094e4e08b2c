"""Moments of a network's statistics, for learning."""

"""Minimum cuts: most likely worlds of attractive networks, and atoms that are settled in others."""

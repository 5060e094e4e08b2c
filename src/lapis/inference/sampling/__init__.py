"""Markov chains over worlds, and how far their averages can be trusted."""

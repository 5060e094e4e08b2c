"""Belief propagation."""

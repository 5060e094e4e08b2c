"""Markov logic to fields, and back."""

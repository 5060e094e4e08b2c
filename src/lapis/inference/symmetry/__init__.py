"""Atoms that cannot be told apart: found by colours, proved by exchange, solved by counts."""

"""Counts and classes of atoms inside a database."""

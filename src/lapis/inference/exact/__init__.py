"""Exact inference: enumeration, junction trees, elimination orders."""

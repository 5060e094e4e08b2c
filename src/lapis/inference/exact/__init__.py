"""Exact inference: closed forms, enumeration and junction trees, component by component."""

"""Formats of data: texts of facts, tables and frames."""

"""Syntax tree → Model: names and types resolved, sugar removed."""

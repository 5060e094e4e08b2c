"""Conjunctions → plans → rows: join plans and count plans, run in memory or on an engine."""

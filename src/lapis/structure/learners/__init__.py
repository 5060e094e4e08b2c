"""Ways to search for rules; each gives a `Selection`."""

"""One family of results: what every answer, world, count, fit and score can do."""

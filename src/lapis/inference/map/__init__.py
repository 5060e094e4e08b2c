"""Most likely worlds."""

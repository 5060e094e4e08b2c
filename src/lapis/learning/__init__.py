"""Examples → weights: objectives, joined to an optimiser."""

"""Functions → maxima: first and second order, L1, bounds, logbook, checkpoints."""

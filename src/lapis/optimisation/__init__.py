"""Functions → maxima: first and second order, priors, L1, bounds, checkpoints."""

"""Expected counts and covariances of a network's statistics, exact or sampled."""

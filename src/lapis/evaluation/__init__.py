"""Predictions × truth → CLL, AUC-PR, likelihoods, cross-validation, plots."""

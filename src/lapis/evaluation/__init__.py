"""Predictions × truth → CLL, AUC-PR, AUC-ROC, likelihoods, cross-validation, plots."""

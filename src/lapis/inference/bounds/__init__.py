"""Certified bounds of marginals and of log Z."""

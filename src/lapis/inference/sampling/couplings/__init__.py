"""Samplers that move many atoms at once, along the couplings of pairs."""

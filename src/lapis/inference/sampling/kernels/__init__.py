"""The compiled loops of the samplers."""

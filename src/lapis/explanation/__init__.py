"""Explanations of answers: why an atom is as probable as it is."""

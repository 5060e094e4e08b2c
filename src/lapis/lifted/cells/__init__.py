"""Weighted model counting in the two-variable fragment, by the kinds of elements and pairs."""

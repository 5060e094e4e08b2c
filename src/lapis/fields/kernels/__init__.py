"""Kernels of fields: what one flip changes."""

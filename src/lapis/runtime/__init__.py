"""Compiled kernels, worker processes, memory, progress and cancellation."""

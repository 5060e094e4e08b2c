"""What every stage runs on: compiled kernels and worker processes."""

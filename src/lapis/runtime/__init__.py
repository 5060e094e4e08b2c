"""What every stage runs on: kernels."""

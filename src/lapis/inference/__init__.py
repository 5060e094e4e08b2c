"""Network → marginals, most likely worlds and moments, one algorithm a file."""

"""What flips change in a field, counted in classes without listing groundings."""

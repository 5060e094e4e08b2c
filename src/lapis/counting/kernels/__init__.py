"""What runs at every flip: relations that change, nested loops over them, chains of flips."""

"""Sum out first: what is easy is eliminated exactly, a core is sampled, the rest recovered."""

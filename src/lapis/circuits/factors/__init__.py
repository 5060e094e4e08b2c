"""Models as products of tables: Bayesian networks, Markov networks, ground Markov logic."""

"""Circuits from rows of data: LearnAC, mixtures, and the networks with trees behind them."""

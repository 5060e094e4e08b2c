"""Answers that follow changes of facts and weights."""

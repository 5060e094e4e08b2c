"""Rules from data: paths and their clauses, scored by weighted pseudo-likelihood."""

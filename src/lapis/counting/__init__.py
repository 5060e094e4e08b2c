"""clause × world → number of true groundings, in total or per ground atom.

Totals read in this order: `totals` (every rule of a model) → `relational.compile` (a conjunction
becomes signed terms of `relational.algebra`) → an engine. `derived` adds quantified subformulas to
the world, `path_counts` has sign patterns, `differences` what each ground atom changes; `ijgp`
guesses.
"""

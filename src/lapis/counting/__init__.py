"""clause × world → number of true groundings, in total or per ground atom.

Totals read in this order: `totals` (every rule of a model) → `plan` (`settle`, `expansion`,
`elimination`: a conjunction becomes signed terms of `algebra`) → `execute` or `sql` → `factor`
(`runs`, `row_keys`, `range_join`, and the kernels in `join`). `extensions` is the world that all
of them look at, `derived` adds quantified subformulas to it, `path` counts sign patterns.
"""

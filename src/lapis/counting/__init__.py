"""Clause × world → number of true groundings, in total or per ground atom.

- `complete_world`: the relations of a world, with quantified subformulas as derived predicates
- `totals`: exact counts of every rule, through plans of `relational`; `rule_counts` reports them
- `differences/`: how the counts change with each ground atom, in classes of equal atoms
- `flipping_world`: exact counts of a world whose atoms flip one at a time (`nested_loops`, kernels)
- `ijgp/`: estimated counts
"""

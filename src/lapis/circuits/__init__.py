"""Arithmetic circuits: learned, compiled, approximated, queried.

`lapis.circuits.circuit` is the data type, `lapis.circuits.evaluation` gives its values and
derivatives, `lapis.circuits.queries` what else can be asked, `lapis.circuits.files` keeps it.
`lapis.circuits.learning.learn` learns one, `lapis.circuits.learning.mixture` several together, and
`lapis.circuits.tree_networks.gibbs` is what the thesis compares them with.
"""

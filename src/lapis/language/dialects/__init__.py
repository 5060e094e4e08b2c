"""The notations of other systems, parsed to the same syntax trees.

A construct that is unambiguous beside our own grammar is read in every file. What is not, such as
upper-case variables, is read in files that the constructs of a system give away. Where the system
means something else by a construct, a warning of one line says so.
"""

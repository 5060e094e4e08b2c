"""Options and methods, read by the command line, the checks and the documentation.

`option_field` declares one option, `options` has the dataclass of each command, `method_table` has
the methods of each task and checks options against them.
"""

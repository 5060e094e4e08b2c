"""Options and methods in one place: the command line, the checks, the documentation read them.

`option` has what a field of a dataclass of options may say about itself, `options` the dataclass of
each command, `method` what a method is, `check` which options are refused.
"""

"""A model as the text of a file: declarations, then formulas with their weights.

Reading the text gives a model of the same meaning. Rules with plus variables whose weights differ
by constants are written out, a line for each; those of weight 0, which mean nothing, are only
counted. Constants stand behind @, not in the formula, which would add them to worlds without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lapis.language.model import Model, Rule
from lapis.language.parser import parse_formula
from lapis.language.printer import print_constants, print_settings, print_statement
from lapis.language.resolve import declaration
from lapis.language.syntax import Atom

WIDTH = 19  # of the weights' column


def print_model(model: Model, *, title: str = "", notes: Sequence[Sequence[str]] = ()) -> str:
    """The text of a model.

    `notes` holds, for each rule, a comment for each of its weights: one, or in the order of
    `instance_weights`. `title` is put in front, as comments.

    >>> from lapis.language import parse_model
    >>> text = "person = {Ann}\\nSmokes(person)\\nCancer(person)\\n1.5 Smokes(x) => Cancer(x)"
    >>> print(print_model(parse_model(text), notes=[["± 0.1"]]))
    person = {Ann}
    <BLANKLINE>
    Smokes(person)
    Cancer(person)
    <BLANKLINE>
    1.5             Smokes(x) => Cancer(x)  // ± 0.1
    <BLANKLINE>
    """
    heading = [f"// {line}".rstrip() for line in title.splitlines()]
    types = [
        f"{name} = {{{print_constants(constants)}}}"
        for name, constants in model.types.items()
        if constants
    ]
    predicates = [print_statement(declaration(p)) for p in model.predicates.values()]
    constraints = [print_statement(constraint) for constraint in model.constraints]
    rules = [
        line
        for number, rule in enumerate(model.rules)
        for line in rule_lines(rule, notes[number] if notes else ())
    ]
    parts = ["\n".join(part) for part in (heading, types, predicates, constraints, rules) if part]
    return "\n\n".join(parts) + "\n"


def rule_lines(rule: Rule, notes: Sequence[str]) -> Iterator[str]:
    if rule.instance_weights is None:
        yield line(rule, rule.text, rule.weight, notes[0] if notes else "")
        return
    # Constants without a weight of their own keep the rule's; where that is 0 nothing is lost.
    table = rule.instance_weights
    chosen = notes or [""] * len(table.value)
    dropped = 0
    for constants, weight, note in zip(table.constants, table.value, chosen, strict=True):
        if weight == 0.0 and not rule.weight:
            dropped += 1
        else:
            settings = print_settings(zip(rule.plus, constants, strict=True))
            yield line(rule, rule.text + settings, weight, note)
    if dropped:
        yield f"// {dropped:,} more of weight 0: {rule.text}"


def line(rule: Rule, text: str, weight: float | None, note: str) -> str:
    comment = f"  // {note}" if note else ""
    if rule.hard:
        return f"{text}.{comment}"
    if weight is None:
        bare = isinstance(parse_formula(text), Atom)  # which would read as a declaration
        return f"{f'({text})' if bare else text}{comment}"
    head = f"{'@fixed ' if rule.fixed else ''}{format_weight(weight)}"
    if rule.utility is not None:
        head += f":{rule.utility!r}"
    return f"{head:<{WIDTH}}  {text}{comment}"


def format_weight(weight: float) -> str:
    """As short as reads back to the same number."""
    short = f"{weight:.10g}"
    return short if float(short) == weight else repr(float(weight))

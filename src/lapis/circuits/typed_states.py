"""States of variables: by name, or as they are typed, `smoke=yes,cancer`.

Variables may be atoms, of several arguments or with a value of their own: names and states then
hold commas and equality signs (`Friends(Anna,Bob)=true`), so that what is known is looked for in
the text, the longest first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lapis.errors import LapisError, check_word

if TYPE_CHECKING:
    import numpy as np

Named = tuple[str, str | None]  # a variable, and a state if one is given
StatesLike = Mapping[str, str | int | bool] | Sequence[str] | str


def read_states(
    names: Sequence[str], states: Sequence[Sequence[str]], given: StatesLike
) -> list[Named]:
    """The variables and states that texts or a dictionary name, in order.

    >>> read_states(["F(A,B)", "rain"], [["no", "yes"]] * 2, ["rain, F(A, B) = yes"])
    [('rain', None), ('F(A,B)', 'yes')]
    >>> read_states(["coin", "rain"], [["0", "1"], ["no", "yes"]], {"coin": 1, "rain": "no"})
    [('coin', '1'), ('rain', 'no')]
    """
    if isinstance(given, Mapping):
        return [name_state(names, states, name, state) for name, state in given.items()]
    texts = [given] if isinstance(given, str) else given
    known: dict[str, Named] = {squeeze(name): (name, None) for name in names}
    for name, own in zip(names, states, strict=True):
        known |= {squeeze(f"{name}={state}"): (name, state) for state in own}
    found: list[Named] = []
    for text in texts:
        parts = [part for part in squeeze(text).split(",") if part]
        while parts:
            ends = range(len(parts), 0, -1)
            end = next((end for end in ends if ",".join(parts[:end]) in known), None)
            if end is None:
                raise unknown_state(names, states, unfinished(parts))
            found.append(known[",".join(parts[:end])])
            parts = parts[end:]
    return found


def name_state(
    names: Sequence[str], states: Sequence[Sequence[str]], name: str, state: str | int | bool
) -> Named:
    """A state of a variable, whose numbers and Booleans are named as tables name them."""
    check_word("variable", name, names, code="unknown-variable")
    own = states[names.index(name)]
    text = str(state).lower() if isinstance(state, bool) and "true" in own else state
    text = str(int(text)) if isinstance(text, bool) else str(text)
    check_word(f"state of {name}", text, own, code="unknown-state")
    return name, text


def row_of_states(
    names: Sequence[str],
    states: Sequence[Sequence[str]],
    given: Sequence[Named],
    known: Mapping[int, int] | None = None,
) -> np.ndarray:
    """int32[num_variables], the states given and those known, -1 for the rest."""
    import numpy as np

    row = np.full(len(names), -1, np.int32)
    for variable, code in (known or {}).items():
        row[variable] = code
    number = {name: variable for variable, name in enumerate(names)}
    for name, state in given:
        if state is None:
            raise no_state(name)
        variable = number[name]
        code = states[variable].index(state)
        if row[variable] not in (-1, code):
            raise LapisError(
                f"{name} is given two states, {states[variable][row[variable]]} and {state}",
                code="option-value",
            )
        row[variable] = code
    return row


def squeeze(text: str) -> str:
    """Without spaces around commas and equality signs."""
    return re.sub(r"\s*([,=])\s*", r"\1", text.strip())


def unfinished(parts: Sequence[str]) -> str:
    """The first of several names that are not known, up to a comma outside of parentheses."""
    piece = ""
    for part in parts:
        piece = f"{piece},{part}" if piece else part
        if piece.count("(") <= piece.count(")"):
            break
    return piece


def unknown_state(names: Sequence[str], states: Sequence[Sequence[str]], text: str) -> LapisError:
    """What is wrong with a text that is no variable, and no state of one."""
    fitting = [name for name in names if text.startswith(f"{squeeze(name)}=")]
    name = max(fitting, key=len, default=text.partition("=")[0])
    try:
        check_word("variable", name, names, code="unknown-variable")
        state = text.removeprefix(f"{squeeze(name)}=")
        check_word(f"state of {name}", state, states[names.index(name)], code="unknown-state")
    except LapisError as error:
        return error
    return no_state(text)


def no_state(text: str) -> LapisError:
    return LapisError(
        f"{text!r} is not a state of a variable", code="option-value", hint="as in smoke=yes"
    )

"""Names of variables and their states, as in `smoke=yes,cancer`.

Names of variables may be atoms, and contain commas and equality signs (`Friends(Anna,Bob)=true`).
So a text is matched against all known names and states, the longest first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, Union, cast

import numpy as np

from lapis.data.database import Database
from lapis.data.keys import contains, union
from lapis.errors import LapisError, check_word
from lapis.language.model import Model

if TYPE_CHECKING:
    from lapis.data.formats.table_files import Frame

TRUE_STATE, FALSE_STATE = "true", "false"  # of a variable without states of its own

Named = tuple[str, str | None]  # a variable, and a state if one is given
StatesLike = Mapping[str, str | int | bool] | Sequence[str] | str
# States of variables in each row: dictionaries, an array, or a frame.
EvidenceRows: TypeAlias = Union[Sequence[Mapping[str, str | int | bool]], np.ndarray, "Frame"]


def read_states(
    names: Sequence[str], states: Sequence[Sequence[str]], given: StatesLike
) -> list[Named]:
    """Parse the variables and states that texts or a dictionary name, in order.

    >>> read_states(["F(A,B)", "rain"], [["no", "yes"]] * 2, ["rain, F(A, B) = yes"])
    [('rain', None), ('F(A,B)', 'yes')]
    >>> read_states(["coin", "rain"], [["0", "1"], ["no", "yes"]], {"coin": 1, "rain": "no"})
    [('coin', '1'), ('rain', 'no')]
    """
    if isinstance(given, Mapping):
        return [name_state(names, states, name, state) for name, state in given.items()]
    texts = [given] if isinstance(given, str) else given
    if not texts:
        return []
    known: dict[str, Named] = {strip_spaces(name): (name, None) for name in names}
    for name, own in zip(names, states, strict=True):
        known |= {strip_spaces(f"{name}={state}"): (name, state) for state in own}
    found: list[Named] = []
    for text in texts:
        parts = [part for part in strip_spaces(text).split(",") if part]
        while parts:
            ends = range(len(parts), 0, -1)
            end = next((end for end in ends if ",".join(parts[:end]) in known), None)
            if end is None:
                raise unknown_state(names, states, first_name(parts))
            found.append(known[",".join(parts[:end])])
            parts = parts[end:]
    return found


def split_rows(given: StatesLike | EvidenceRows) -> tuple[StatesLike, EvidenceRows | None]:
    """Return evidence as states, or as rows of states.

    >>> split_rows("smoke=yes"), split_rows([{"smoke": "yes"}])
    (('smoke=yes', None), ((), [{'smoke': 'yes'}]))
    """
    if isinstance(given, np.ndarray) or hasattr(given, "columns"):
        return (), cast("EvidenceRows", given)
    if isinstance(given, Sequence) and given and all(isinstance(row, Mapping) for row in given):
        return (), cast("EvidenceRows", given)
    return cast("StatesLike", given), None


def list_states(given: StatesLike) -> Sequence[str] | str:
    """Return states that are given by name as texts; leave texts as they are.

    >>> list_states({"smoke": "yes", "alarm": True})
    ['smoke=yes', 'alarm=true']
    """
    if not isinstance(given, Mapping):
        return given
    return [
        f"{name}={str(state).lower() if isinstance(state, bool) else state}"
        for name, state in given.items()
    ]


def name_state(
    names: Sequence[str], states: Sequence[Sequence[str]], name: str, state: str | int | bool
) -> Named:
    """Check a state of a variable; numbers and Booleans become names of states."""
    check_word("variable", name, names, code="unknown-variable")
    own = states[names.index(name)]
    text = str(state).lower() if isinstance(state, bool) and "true" in own else state
    text = str(int(text)) if isinstance(text, bool) else str(text)
    check_word(f"state of {name}", text, own, code="unknown-state")
    return name, text


def strip_spaces(text: str) -> str:
    """Remove spaces around commas and equality signs."""
    if text.isalnum():
        return text
    return re.sub(r"\s*([,=])\s*", r"\1", text.strip())


def first_name(parts: Sequence[str]) -> str:
    """Join parts up to the first comma outside of parentheses."""
    piece = ""
    for part in parts:
        piece = f"{piece},{part}" if piece else part
        if piece.count("(") <= piece.count(")"):
            break
    return piece


def unknown_state(names: Sequence[str], states: Sequence[Sequence[str]], text: str) -> LapisError:
    """Return the error of a text that is no variable and no state of one."""
    fitting = [name for name in names if text.startswith(f"{strip_spaces(name)}=")]
    name = max(fitting, key=len, default=text.partition("=")[0])
    try:
        check_word("variable", name, names, code="unknown-variable")
        state = text.removeprefix(f"{strip_spaces(name)}=")
        check_word(f"state of {name}", state, states[names.index(name)], code="unknown-state")
    except LapisError as error:
        return error
    return no_state(text)


def no_state(text: str) -> LapisError:
    """Return the error of a text without a state."""
    return LapisError(
        f"{text!r} is not a state of a variable", code="option-value", hint="as in smoke=yes"
    )


def variable_states(model: Model) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the variables of a network or a ground program, and their states."""
    chosen = [predicate for predicate in model.predicates.values() if predicate.variable]
    states = [
        model.types[each.types[0]] if each.types else (FALSE_STATE, TRUE_STATE) for each in chosen
    ]
    return [each.name for each in chosen], states


def observe_states(model: Model, world: Database, evidence: StatesLike) -> Database:
    """Add observed states to data that is bound to the model."""
    names, states = variable_states(model)
    relations = dict(world.relations)
    for name, state in read_states(names, states, evidence):
        relation, types = relations[name], model.predicates[name].types
        if state is None and types:
            raise no_state(name)
        code = [] if not types else [world.domains[types[0]].index[state or ""]]
        row = np.array([code], np.int32)
        is_true = bool(types) or state != FALSE_STATE
        same, other = (relation.true, relation.false)[:: 1 if is_true else -1]
        others = same if types else np.empty((0, 0), np.int32)
        if contains(other, row)[0] or (len(others) and not contains(others, row)[0]):
            raise LapisError(
                f"the evidence gives {name} two states, one of them {state or TRUE_STATE}",
                code="contradictory-evidence",
            )
        if is_true:
            relations[name] = replace(relation, true=union(same, row))
        else:
            relations[name] = replace(relation, false=union(same, row))
    return replace(world, relations=relations)


def refuse_new_states(model: Model, world: Database) -> None:
    """Raise if data bound to the model has states that its variables do not have."""
    for predicate in model.predicates.values():
        for type_name in predicate.types if predicate.variable else ():
            own = model.types[type_name]
            for state in world.domains[type_name].constants[len(own) :]:
                check_word(f"state of {predicate.name}", state, own, code="unknown-state")

"""Refuse options: wrong by themselves, unknown, or not read by the method that was chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from numbers import Integral
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from lapis.errors import LapisError, suggestion
from lapis.registry.method import find_method, methods_of
from lapis.registry.option import options_of

if TYPE_CHECKING:
    import numpy as np
    from _typeshed import DataclassInstance

P = ParamSpec("P")
T = TypeVar("T")


def check_options(options: DataclassInstance, *, as_flags: bool = False) -> None:
    """Refuse values that are wrong by themselves, unknown methods, and options that are not read.

    Parameters
    ----------
    options
        An instance of a dataclass of `lapis.registry.options`.
    as_flags
        Whether messages name flags in place of keywords.

    Raises
    ------
    LapisError
        At the first mistake.
    """
    for option in options_of(type(options)):
        value = getattr(options, option.name)
        option.check(value, option.flag if as_flags else None)
        if option.task is not None and isinstance(value, str):
            find_method(option.task, value)
    for part in getattr(options, "parts", (type(options),)):
        refuse_unread(part, vars(options), as_flags=as_flags)


def refuse_unread(
    owner: type[DataclassInstance], values: Mapping[str, object], *, as_flags: bool = False
) -> None:
    """Refuse an option that was given to a method which does not read it.

    An option that no method of a task lists is read by all of them. Where the method is None, it
    is chosen later.
    """
    known = options_of(owner)
    tasks = [(option.name, option.task) for option in known if option.task is not None]
    for option in known:
        if values.get(option.name, option.default) == option.default:
            continue
        for name, task in tasks:
            readers = [m.name for m in methods_of(task).values() if option.name in m.options]
            chosen = values.get(name)
            if readers and chosen not in (None, *readers):
                raise LapisError(
                    f"{name} {chosen!r} does not read {option.flag if as_flags else option.name}",
                    code="unread-option",
                    hint=f"it belongs to {', '.join(readers)}",
                )


def known_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """Refuse keywords that a function does not have, with a suggestion.

    >>> @known_keywords
    ... def infer(model: str, *, precision: float = 0.01) -> float:
    ...     return precision
    >>> infer("m", precison=0.1)
    Traceback (most recent call last):
    lapis.errors.LapisError: infer has no keyword 'precison'
        did you mean 'precision'?
    """
    known = tuple(signature(function).parameters)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in known:
                raise LapisError(
                    f"{function.__name__} has no keyword {name!r}",
                    code="unknown-option",
                    hint=suggestion(name, known, f"it has {', '.join(known)}"),
                )
        return function(*args, **kwargs)

    return call


def seed_of(random_state: int | np.random.Generator) -> int:
    """A seed: the number itself, or one drawn from a generator.

    Raises LapisError for anything else.
    """
    if hasattr(random_state, "integers"):
        return int(random_state.integers(1 << 31))
    if not isinstance(random_state, Integral) or isinstance(random_state, bool) or random_state < 0:
        raise LapisError(
            "random_state must be a whole number of at least 0 or a numpy Generator, "
            f"not {random_state!r}",
            code="option-value",
        )
    return int(random_state)

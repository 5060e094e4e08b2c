"""Methods by task and name: each folder lists its own in `methods.py`, `lapis.methods` joins them.

A row says what a listing shows and where the code is, so that looking at the rows loads no method.
What is called, by task and `takes`:

    infer      network   (network, Options) → Marginals
               problem   (problem, Options) → (Network, Marginals), without grounding
               sampler   () → Sampler, whose chains run on the core that elimination leaves
    map        network   (network, method=, time_limit=, …) → MapResult
               problem   (problem, time_limit=, …) → (Network, MapResult)
    lift       problem   (problem, sizes of types, by classes?) → Lifted
    counts     problem   (problem, **options it reads) → rows
    optimizer            (**fixed, **own options) → Optimizer or Solver
    posterior            (target density, Sampling) → Draws
    field objective      (field_examples, num_samples, seed) → Objective
    field infer          (ground field, weights, Options) → Marginals
    field map            (ground field, weights, seed, Stop, progress) → (name, world, score, notes)
    structure            (search, **options it reads) → Selection

Rows of `objective` and `expectation` are choices without code of their own (`learning` builds one
objective from both), and so are `auto` and `exact` of `infer`, which `inference/plan.py` plans.

Refuse options: wrong by themselves, unknown, or not read by the method that was chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from inspect import signature
from numbers import Integral
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from lapis.errors import LapisError, check_word, suggestion
from lapis.registry.option_field import Option, options_of

if TYPE_CHECKING:
    import numpy as np
    from _typeshed import DataclassInstance

Takes = Literal["network", "problem", "sampler", "objective", "choice"]


@dataclass(frozen=True, slots=True)
class Method:
    """One way to do a task."""

    task: str
    name: str
    help: str
    entry: str = ""  # module:attribute of its own folder; "": a plain choice
    takes: Takes = "choice"
    exact: str = ""  # when its answers are exact: "always", "never", or where
    options: tuple[str, ...] = ()  # of the command, that it and not every method reads
    fixed: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))  # to the entry
    iterations: int = 0  # of an optimiser at most, where no limit is given

    def load(self) -> Any:
        """The function or class."""
        module, _, attribute = self.entry.partition(":")
        return getattr(import_module(module), attribute)

    def make(self, **own: object) -> Any:
        """An instance of the class, with options of its own."""
        self.check_own(own)
        return self.load()(**self.fixed, **own)

    @property
    def own(self) -> tuple[Option, ...]:
        """The options of the class: its fields with a `Help`."""
        return options_of(self.load()) if self.entry else ()

    def check_own(self, own: Mapping[str, object]) -> None:
        """Refuse options that the method does not have, and values that they cannot have."""
        if not own:
            return
        known = {option.name: option for option in self.own}
        for name, value in own.items():
            if name not in known:
                choice = f"it has {', '.join(known)}" if known else "it has none"
                raise LapisError(
                    f"{self.name} has no option {name!r}",
                    code="unknown-option",
                    hint=suggestion(name, known, choice),
                )
            known[name].check(value, f"{name} of {self.name}")


_BY_TASK: dict[str, dict[str, Method]] = {}


def register(*methods: Method) -> None:
    """Add methods to those that `find_method` finds."""
    for method in methods:
        _BY_TASK.setdefault(method.task, {})[method.name] = method


def tasks() -> tuple[str, ...]:
    """The tasks that have methods."""
    return tuple(_BY_TASK)


def methods_of(task: str) -> Mapping[str, Method]:
    """The methods of a task by name, in the order in which listings show them."""
    return MappingProxyType(_BY_TASK[task])


def find_method(task: str, name: str) -> Method:
    """The method of a name; raises LapisError with a suggestion where there is none.

    >>> find_method("infer", "gibs")
    Traceback (most recent call last):
    lapis.errors.LapisError: unknown method 'gibs'
        did you mean 'gibbs'?
    """
    what = OPTION_OF_TASK.get(task, "method")
    check_word(what, name, methods_of(task), code=f"unknown-{what}")
    return _BY_TASK[task][name]


# The option that names a method of the task, where it is not `method`.
OPTION_OF_TASK: Mapping[str, str] = {
    "counts": "counts",
    "objective": "objective",
    "expectation": "expectation",
    "optimizer": "optimizer",
    "posterior": "posterior_method",
    "field objective": "objective",
}


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

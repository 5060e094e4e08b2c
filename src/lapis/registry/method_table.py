"""The table of methods by task and name, and the checks of options against it.

Each folder lists its methods in `methods.py`; `lapis.methods` imports all of them. A row holds the
import path of the code, so listing methods loads none of them. The signature of an entry depends
on its task and `takes`:

    infer      network   (network, Options) → Marginals
               problem   (problem, Options) → (Network, Marginals), without grounding
               sampler   () → Sampler, whose chains run on the core that elimination leaves
    map        network   (network, method=, time_limit=, …) → MapResult
               problem   (problem, time_limit=, …) → (Network, MapResult)
    lift       problem   (problem, sizes of types, whether by classes) → Lifted
    counts     problem   (problem, **options it reads) → rows
    optimizer            (**fixed, **own options) → Optimizer or Solver
    posterior            (target density, Sampling) → Draws
    field objective      (field_examples, num_samples, seed) → Objective
    field infer          (ground field, weights, Options) → Marginals
    field map            (ground field, weights, seed, Stop, progress) → (name, world, score, notes)
    structure            (search, **options it reads) → Selection

Rows of `objective` and `expectation` are choices without code of their own (`learning` builds one
objective from both), and so are `auto` and `exact` of `infer`, which `inference/plan.py` plans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from inspect import signature
from numbers import Integral
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, cast

from lapis.errors import LapisError, check_word, suggestion
from lapis.registry.option_field import Option, options_of
from lapis.runtime.limits import limit_work
from lapis.runtime.progress_bars import shown_progress

if TYPE_CHECKING:
    import numpy as np
    from _typeshed import DataclassInstance

Takes = Literal["network", "problem", "sampler", "objective", "choice"]


@dataclass(frozen=True, slots=True)
class Method:
    """A registry row: one method of a task."""

    task: str
    name: str
    help: str
    entry: str = ""  # "module:attribute"; "": a choice without code
    takes: Takes = "choice"
    exact: str = ""  # "always", "never", or a condition
    options: tuple[str, ...] = ()  # of the command; read by this method, not by all
    # Arguments of the entry that are the same in every call.
    fixed: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    iterations: int = 0  # default limit of an optimiser

    def load(self) -> Callable[..., Any]:
        """Import the function or class."""
        module, _, attribute = self.entry.partition(":")
        return getattr(import_module(module), attribute)

    def make(self, **own: object) -> Any:  # noqa: ANN401  (the class is named by a text)
        """Create an instance of the class with options of its own."""
        self.check_own(own)
        return self.load()(**self.fixed, **own)

    @property
    def own(self) -> tuple[Option, ...]:
        """The options of the class."""
        return options_of(cast("type[DataclassInstance]", self.load())) if self.entry else ()

    def check_own(self, own: Mapping[str, object]) -> None:
        """Raise if the method lacks an option or a value is wrong."""
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
    """Add rows to the table."""
    for method in methods:
        _BY_TASK.setdefault(method.task, {})[method.name] = method


def tasks() -> tuple[str, ...]:
    """Return the tasks that have methods."""
    return tuple(_BY_TASK)


def methods_of(task: str) -> Mapping[str, Method]:
    """Return the methods of a task by name, in the order of listings."""
    return MappingProxyType(_BY_TASK[task])


def find_method(task: str, name: str) -> Method:
    """Return a method by name; raise LapisError with a suggestion if there is none.

    >>> find_method("infer", "gibs")
    Traceback (most recent call last):
    lapis.errors.LapisError: unknown method 'gibs'
        did you mean 'gibbs'?
    """
    what = OPTION_OF_TASK.get(task, "method")
    check_word(what, name, methods_of(task), code=f"unknown-{what}")
    return _BY_TASK[task][name]


# The option that names a method of the task, if it is not `method`.
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
    """Check values, names of methods, and that the chosen method reads each option given.

    Parameters
    ----------
    options
        An instance of a dataclass of `lapis.registry.options`.
    as_flags
        Whether messages name flags instead of keywords.

    Raises
    ------
    LapisError
        If a value is wrong, a method is unknown, or the method does not read an option.
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
    """Raise if an option is given that the chosen method does not read.

    An option that no method of a task lists is read by all of them. A method that is None is chosen
    later.
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


def front_door(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a public function: refuse unknown keywords, keep limits, show progress.

    >>> @front_door
    ... def infer(model: str, *, precision: float = 0.01) -> float:
    ...     return precision
    >>> infer("m", precison=0.1)
    Traceback (most recent call last):
    lapis.errors.LapisError: infer has no keyword 'precison'
        did you mean 'precision'?
    """
    defaults = {name: each.default for name, each in signature(function).parameters.items()}
    known = tuple(defaults)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in known:
                raise LapisError(
                    f"{function.__name__} has no keyword {name!r}",
                    code="unknown-option",
                    hint=suggestion(name, known, f"it has {', '.join(known)}"),
                )
        given = {**defaults, **kwargs}
        time_limit, max_memory = given.get("time_limit"), given.get("max_memory")
        with limit_work(  # values of other types are refused by `check_options`
            time_limit if isinstance(time_limit, int | float) else None,
            max_memory if isinstance(max_memory, int) else None,
        ):
            if "progress" not in defaults:
                return function(*args, **kwargs)
            with shown_progress(given["progress"], function.__name__) as report:
                kwargs["progress"] = report
                return function(*args, **kwargs)

    return call


def seed_of(random_state: int | np.random.Generator) -> int:
    """Return a seed: the number itself, or one drawn from a generator."""
    if hasattr(random_state, "integers"):
        return int(random_state.integers(1 << 31))
    if not isinstance(random_state, Integral) or isinstance(random_state, bool) or random_state < 0:
        raise LapisError(
            "random_state must be a whole number of at least 0 or a numpy Generator, "
            f"not {random_state!r}",
            code="option-value",
        )
    return int(random_state)

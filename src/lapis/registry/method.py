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
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal

from lapis.errors import LapisError, check_word, suggestion
from lapis.registry.option import Option, options_of

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

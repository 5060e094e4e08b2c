"""What a method is: its task, where it is, what it claims, which options it reads.

An entry is named as "module:attribute" and loaded when it is used, so that looking at the registry
costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal

from lapis.errors import LapisError, suggestion
from lapis.option import Option

Task = Literal[
    "infer", "map", "lift", "counts", "objective", "expectation", "optimizer", "posterior",
    "field infer",
    "field map", "field objective", "structure",
]  # fmt: skip
Takes = Literal["network", "problem", "sampler", "examples", "objective", "field"]


@dataclass(frozen=True, slots=True)
class Method:
    """One way to do a task."""

    task: Task
    name: str
    help: str
    entry: str  # module:attribute
    takes: Takes
    exact: str = ""  # when its answers are exact: "always", "never", or where
    options: tuple[str, ...] = ()  # of the command, that it and not every method reads
    own: tuple[Option, ...] = ()  # options of this method alone
    fixed: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))  # to the entry
    iterations: int = 0  # of an optimiser at most, unless told

    def load(self) -> Any:
        """The function or class behind the entry."""
        module, _, attribute = self.entry.partition(":")
        return getattr(import_module(module), attribute)

    def make(self, **own: object) -> Any:
        """What the entry makes, with options of its own."""
        self.check_own(own)
        return self.load()(**self.fixed, **own)

    def check_own(self, own: Mapping[str, object]) -> None:
        """Refuse options that the method does not have, and values that they cannot have."""
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

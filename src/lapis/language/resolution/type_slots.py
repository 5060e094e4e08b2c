"""Types of variables and of undeclared predicates' arguments, by unification.

Every argument position and every variable of a formula is a slot. Declared positions carry a
type; slots that must agree are merged; merging two different types is the user's mistake.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Slot = tuple[str, ...]  # ("type", name), ("argument", predicate, position), ("variable", …)


@dataclass
class TypeSlots:
    """Union–find over slots; a class that holds a declared type is of that type."""

    parent: dict[Slot, Slot] = field(default_factory=dict)

    def find(self, slot: Slot) -> Slot:
        root = slot
        while (above := self.parent.setdefault(root, root)) != root:
            root = above
        while slot != root:
            self.parent[slot], slot = root, self.parent[slot]
        return root

    def type_of(self, slot: Slot) -> str | None:
        root = self.find(slot)
        return root[1] if root[0] == "type" else None

    def unify(self, first: Slot, second: Slot) -> tuple[str, str] | None:
        """Merge two slots; returns the two types if they clash."""
        a, b = self.find(first), self.find(second)
        if a == b:
            return None
        if a[0] == "type" and b[0] == "type":
            return a[1], b[1]
        if a[0] == "type":
            self.parent[b] = a
        else:
            self.parent[a] = b
        return None

    def name_rest(self, slot: Slot, name: str) -> str:
        """The type of a slot, naming its class if it has none yet."""
        known = self.type_of(slot)
        if known is not None:
            return known
        self.parent[self.find(slot)] = self.find(("type", name))
        return name

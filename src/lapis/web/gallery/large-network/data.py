"""Make the data: 100,000 people in chance acquaintances, a third of whom have said what they do."""

import random
from collections.abc import Iterator

PEOPLE, FRIENDSHIPS, SAID = 100_000, 90_000, 33_000


def facts() -> Iterator[str]:
    """Yield the facts, the same each time."""
    chance = random.Random(1)
    pairs = {(chance.randrange(PEOPLE), chance.randrange(PEOPLE)) for _ in range(FRIENDSHIPS)}
    for one, other in sorted(pairs):
        if one != other:
            yield f"Friends(P{one},P{other})\nFriends(P{other},P{one})\n"
    for person in chance.sample(range(PEOPLE), SAID):
        yield f"{'' if chance.random() < 0.25 else '!'}Smokes(P{person})\n"
    yield f"person = {{{', '.join(f'P{n}' for n in range(PEOPLE))}}}\n"

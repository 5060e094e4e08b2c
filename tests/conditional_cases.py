"""Small models with data whose conditional likelihood can be enumerated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import lapis
from lapis.learning.examples import Example, build_examples
from lapis.learning.parameters import Parameters, share_parameters

SMOKING = """
Smokes(person)
Cancer(person)
Friends(person, person)
Smokes(x) => Cancer(x)
Friends(x, y) ^ Smokes(x) => Smokes(y)
Friends(x, +y) ^ Cancer(x)
Smokes(x)
"""
SMOKERS = (
    "Smokes(A) Cancer(A) Smokes(B) Friends(A,B) Friends(B,C) Smokes(D) Friends(C,D) Cancer(C)",
    "Smokes(E) Friends(E,A) Friends(A,F) Cancer(F) Cancer(E)",
)
TOPICS = """
topic = {Art, Maths, Law}
Topic(page, topic!)
Has(page, word)
Link(page, page)
Has(p, +w) => Topic(p, +t)
Link(p, q) ^ Topic(p, t) => Topic(q, t)
Topic(p, Law) => !Link(p, p)
"""
PAGES = (
    "Topic(P,Art) Topic(Q,Law) Topic(R,Art) Has(P,X) Has(Q,Y) Has(Q,X) Link(P,R) Link(R,Q)",
    "Topic(S,Maths) Topic(T,Maths) Has(S,Z) Has(T,Y) Link(T,S)",
)
HARD = """
A(thing)
B(thing)
C(thing, thing)
A(x) => B(x).
C(x, y) <=> C(y, x).
A(x) ^ C(x, y) => A(y)
EXIST y (C(x, y) ^ B(y)) => A(x)
B(x)
"""
THINGS = ("A(X) B(X) B(Y) C(X,Y) C(Y,X)", "B(U) C(U,U)")


def set_up(
    text: str, data: Sequence[str], asked: Sequence[str], hidden: Sequence[str] = ()
) -> tuple[list[Example], Parameters]:
    model = lapis.parse(text)
    examples = build_examples(
        model, [lapis.Database.parse(d) for d in data], asked, unobserved=hidden
    )
    return examples, share_parameters(model, [example.free for example in examples])


def random_weights(parameters: Parameters, seed: int, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=len(parameters)) * scale

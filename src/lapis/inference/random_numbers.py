"""Random numbers in kernels: xoshiro256++, one state for each chain.

Blackman and Vigna, Scrambled Linear Pseudorandom Number Generators, 2021. numba keeps one hidden
Mersenne Twister per thread, so a chain's numbers would depend on its thread. Here each chain has
its own four words, seeded from numpy's `SeedSequence`: the same seed gives the same chain on any
number of cores.
"""

from __future__ import annotations

import numpy as np

from lapis.runtime.kernels import entry, inner


def draw_uniform(rng: np.ndarray) -> float:
    """Return the next float in [0, 1) of a stream, outside kernels."""
    return float(_draw_uniform(rng))


def random_states(seed: int, num_streams: int) -> np.ndarray:
    """Return independent generator states, uint64[num_streams, 4]."""
    children = np.random.SeedSequence(seed).spawn(num_streams)
    return np.array([child.generate_state(4, np.uint64) for child in children]).reshape(-1, 4)


@inner
def next_state(one, two, three, four):  # type: ignore[no-untyped-def]
    """Return the next 64 random bits and the new state, for loops that keep it in registers."""
    mixed = one + four
    result = ((mixed << np.uint64(23)) | (mixed >> np.uint64(41))) + one
    shifted = two << np.uint64(17)
    three ^= one
    four ^= two
    two ^= three
    one ^= four
    three ^= shifted
    return result, one, two, three, (four << np.uint64(45)) | (four >> np.uint64(19))


@inner
def next_word(rng):  # type: ignore[no-untyped-def]
    """Return the next 64 random bits."""
    result, rng[0], rng[1], rng[2], rng[3] = next_state(rng[0], rng[1], rng[2], rng[3])
    return result


@inner
def as_uniform(word):  # type: ignore[no-untyped-def]
    """Return a float in [0, 1) made of 53 of these bits."""
    return float(word >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inner
def uniform(rng):  # type: ignore[no-untyped-def]
    """Return a random float in [0, 1) of 53 bits."""
    return as_uniform(next_word(rng))


@inner
def mix_bits(word):  # type: ignore[no-untyped-def]
    """Mix the bits of a uint64 by a bijection (the finaliser of splitmix64); 0 stays 0."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


mix_array = mix_bits.py_func  # type: ignore[attr-defined]  # of arrays


@entry
def _draw_uniform(rng):  # type: ignore[no-untyped-def]
    return uniform(rng)


@inner
def uniform_below(rng, bound):  # type: ignore[no-untyped-def]
    """Return a random integer in [0, bound), with a bias of at most bound / 2^53."""
    return int(uniform(rng) * bound)

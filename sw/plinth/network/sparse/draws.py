"""Random numbers by position: each follows from a seed and its own position alone.

So a process draws the weights of its own rows and nothing else, and any other division of the rows gives the same
network. The generator is SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014):
number p of the stream with key s is ``mix(s + (p + 1) * gamma)``, so that no number before it is needed.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_GAMMA, _MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

#: What a stream is drawn for; streams of one seed are apart.
WEIGHTS, PERMUTATION, DEGREES, COLUMNS = 1, 2, 3, 4


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output function, a bijection of 64 bits; works in place."""
    state ^= state >> np.uint64(30)
    state *= np.uint64(_FIRST)
    state ^= state >> np.uint64(27)
    state *= np.uint64(_SECOND)
    state ^= state >> np.uint64(31)
    return state


def stream(seed: int, *path: int) -> int:
    """The key of a stream: of a seed, and numbers that say what it is for, such as ``WEIGHTS`` and a layer."""
    key = seed & _MASK
    for number in path:
        key = int(_mix(np.array([(key + (number + 1) * _GAMMA) & _MASK], np.uint64))[0])
    return key


def bits(key: int, positions: NDArray[Any]) -> NDArray[np.uint64]:
    """64 random bits for each position, an integer from 0 on."""
    state = np.array(positions, np.uint64)
    state *= np.uint64(_GAMMA)
    state += np.uint64((key + _GAMMA) & _MASK)
    return _mix(state)


def symmetric(key: int, positions: NDArray[Any]) -> NDArray[np.float32]:
    """Uniform numbers in [-1, 1), multiples of 2^-23: float32 holds each exactly."""
    return (bits(key, positions) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)


def unit(key: int, positions: NDArray[Any]) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), multiples of 2^-53."""
    return (bits(key, positions) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permutation(key: int, count: int) -> NDArray[np.int64]:
    """A random permutation of 0 to ``count - 1``."""
    return np.argsort(bits(key, np.arange(count)), kind="stable")


def distinct(keys: NDArray[np.uint64], positions: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Element ``positions[k]`` of the random permutation of 0 to ``count - 1`` that ``keys[k]`` stands for.

    Positions that differ, under one key, give numbers that differ, and no other position needs to be looked at: a
    Feistel network of four rounds permutes the next power of four, and what it leads out of range goes through again.

    Parameters
    ----------
    keys : array
        ``[numbers]``, random.
    positions : array
        ``[numbers]``, each below ``count``.
    count : int
        1 to 2^31.
    """
    half = np.uint64((max(count - 1, 1).bit_length() + 1) // 2)
    low = np.uint64((1 << int(half)) - 1)
    numbers = np.array(positions, np.uint64)
    pending = np.arange(len(numbers))
    while len(pending):
        left, right, key = numbers[pending] >> half, numbers[pending] & low, keys[pending]
        for round_number in range(4):
            scrambled = _mix((right + np.uint64(round_number << 40)) * np.uint64(_GAMMA) + key)
            left, right = right, left ^ (scrambled & low)
        numbers[pending] = left << half | right
        pending = pending[numbers[pending] >= np.uint64(count)]
    return numbers.astype(np.int64)

"""Operands of updates: of all magnitudes, and those of ends, zeros and ties."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.formats import Q3_12, factor_word
from plinth_hw.isa.operations import OptimiserOperation

#: Pointers of an update.
VECTORS = ("gradient", "state", "state_low", "weights", "weights_low", "generator")

_EDGES = np.array([0, 1, 2, 0x7FFF, 0x7FFE, 0x8000, 0x8001, 0xFFFF, 0x4000, 0xC000], np.uint16)


def halves(rng: np.random.Generator, count: int) -> NDArray[np.uint16]:
    """Numbers, or low halves of some."""
    numbers = (rng.integers(-1 << 15, 1 << 15, count) >> rng.integers(0, 16, count)).astype(np.int16).view(np.uint16)
    return np.where(rng.random(count) < 0.3, rng.choice(_EDGES, count), numbers).astype(np.uint16)


def squares(rng: np.random.Generator, high: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """High halves of states as sums of squares are, but for a few below zero."""
    return np.where(rng.random(len(high)) < 0.9, high & 0x7FFF, high).astype(np.uint16)


def factor(rng: np.random.Generator) -> int:
    """A factor as tasks hold it: a likely one, or one of any size and sign."""
    if rng.random() < 0.7:
        return factor_word(Q3_12, float(rng.choice([1.0, 0.9, 0.01, -0.5, 0.125])))
    return int(rng.integers(0, 1 << 22))


def random_update(rng: np.random.Generator, beat_words: int, slots: int, slot_words: int, bases: list[int],
                  most: int = 300) -> tuple[int, dict[str, Any]]:
    """Operation and body of an update of up to ``most`` words, of odd rows and columns, whose vectors lie in different
    ones of the ``slots`` of memory; ``bases`` are whole beats."""
    rows = int(rng.choice([1, 1, 2, 5]))
    columns = int(rng.integers(1, most // rows + 1)) if rng.random() < 0.7 else int(rng.integers(1, 3 * beat_words))
    least, limit = -(-columns // beat_words), slot_words // rows // beat_words
    stride, state_stride = (int(rng.integers(least, min(limit, least + 3) + 1)) * beat_words for _ in range(2))
    places = rng.permutation(slots)
    body: dict[str, Any] = {
        "columns": columns, "rows": rows, "stride": stride, "state_stride": state_stride,
        "rate": factor(rng), "decay": factor(rng),
        "epsilon": max(1, int(rng.integers(1 << 32)) >> int(rng.integers(32))),
        **{flag: int(rng.integers(2)) for flag in ("wide_weights", "wide_state", "stochastic")}}
    for place, name in zip(places, VECTORS, strict=False):
        base = int(rng.integers(len(bases)))
        body[name] = {"offset": int(place) * slot_words - bases[base] + bases[-1], "base": base}
    return int(rng.integers(len(OptimiserOperation))), body

"""Strided blocks of a die's memory."""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.unsignedinteger]


def window(memory: Words, start: int, stride: int, rows: int, words: int) -> Words:
    """View of a strided block.

    Raises
    ------
    IndexError
        If it does not lie within the memory.
    """
    end = start + (rows - 1) * stride + words
    if end > memory.size:
        raise IndexError(f"the block from {start} to {end} lies beyond the memory of {memory.size} words")
    return np.lib.stride_tricks.as_strided(memory[start:], (rows, words),
                                           (stride * memory.itemsize, memory.itemsize))

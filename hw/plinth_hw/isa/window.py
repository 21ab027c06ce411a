"""How a host reads and writes a die's memory by its window registers: one way for all that reach registers only."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.formats import as_words, word_type
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import Register

Words = NDArray[np.unsignedinteger]


class WindowMemory:
    """Memory of a die behind WINDOW_ADDRESS and WINDOW_DATA.

    Where two words share an access, one that is written alone is read with its neighbour and written with it: nobody
    else should write that one meanwhile.

    Parameters
    ----------
    parameters : DieParameters
        Of a die with a window.
    read : callable
        Values of registers at byte addresses, in their order, after all writes.
    write : callable
        Writes registers, (byte address, value) each, in their order.

    Raises
    ------
    ValueError
        If the die has no window.
    """

    def __init__(self, parameters: DieParameters, read: Callable[[Sequence[int]], Sequence[int]],
                 write: Callable[[Sequence[tuple[int, int]]], None]):
        if not parameters.has_window:
            raise ValueError(f"dies of {parameters.name} have no memory window; choose window = True")
        self._word = word_type(parameters.memory_format)
        self._step = parameters.words_of(1)
        self._read, self._write = read, write

    def read(self, address: int, count: int) -> Words:
        """``count`` words from word address ``address``."""
        first, end = self._units(address, count)
        words = self._read_units(first, end - first)
        return words[address - first * self._step:][:count].copy()

    def write(self, address: int, words: Words) -> None:
        """Store words at word address ``address``; what is wider than a word as its words, low one first."""
        flat = as_words(words, self._word)
        first, end = self._units(address, flat.size)
        if first == end:
            return
        padded = np.zeros((end - first) * self._step, dtype=self._word)
        before, after = address - first * self._step, end * self._step - address - flat.size
        if before:
            padded[:self._step] = self._read_units(first, 1)
        if after:
            padded[-self._step:] = self._read_units(end - 1, 1)
        padded[before:before + flat.size] = flat
        self._write([(Register.WINDOW_ADDRESS, first * self._step),
                     *((Register.WINDOW_DATA, value) for value in padded.view(np.uint32).tolist())])

    def _units(self, address: int, count: int) -> tuple[int, int]:
        """The accesses that words take: the first one, and the one after the last."""
        return address // self._step, -(-(address + count) // self._step) if count else address // self._step

    def _read_units(self, first: int, count: int) -> Words:
        self._write([(Register.WINDOW_ADDRESS, first * self._step)])
        return np.array(self._read([Register.WINDOW_DATA] * count), dtype="<u4").view(self._word)

"""Memory of the dies of a step in numpy: an array a place, and views of their pieces."""

import mmap
from collections.abc import Callable
from contextlib import suppress
from itertools import filterfalse

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.runtime.overlay import PAGE, Overlay
from plinth.step.step import Step

Floats = NDArray[np.float32]
#: Work on views that were made before: called each time that it is done.
Kernel = Callable[[], object]


class Memory:
    """The memory of one die: for each place of a step an array of FP32 words, zeros at first, with those of a halo
    behind them.

    Parameters
    ----------
    step : Step
    overlay : Overlay
        Which places share memory, and which have halos.
    die : int
        Whose memory it is.
    """

    def __init__(self, step: Step, overlay: Overlay, die: int) -> None:
        sizes = {place.name: max(1, place.words) + overlay.behind(place.name, die) for place in step.places}
        firsts, end = dict(overlay.shared), overlay.shared_words
        # Those that are never written lie behind all others.
        for place in filter(overlay.written, overlay.separate):
            firsts[place.name] = end
            end += -(-sizes[place.name] // PAGE) * PAGE
        written_words = end
        for place in filterfalse(overlay.written, overlay.separate):
            firsts[place.name] = end
            end += -(-sizes[place.name] // PAGE) * PAGE
        # The system gives pages to what is written alone, where an allocator of arrays may write zeros itself.
        pages = mmap.mmap(-1, 4 * max(1, end), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if written_words and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):
                pages.madvise(mmap.MADV_HUGEPAGE, 0, 4 * written_words)
        words = np.frombuffer(pages, np.float32)
        self._places = {name: words[firsts[name]:][:size] for name, size in sizes.items()}

    def place(self, name: str) -> Floats:
        """The array of all words of a place."""
        return self._places[name]

    def view(self, buffer: Buffer) -> Floats:
        """A view ``[rows, columns]`` of a piece of a place, which writes go through."""
        return self.strided(buffer, (buffer.rows, buffer.columns), (buffer.stride, 1))

    def strided(self, buffer: Buffer, shape: tuple[int, ...], words: tuple[int, ...]) -> Floats:
        """A view of a place from a piece's first word on, with so many words from one element to the next along each
        axis.

        Raises
        ------
        IndexError
            If it ends behind its place.
        """
        place = self._places[buffer.place]
        if 0 in shape:
            return np.zeros(shape, dtype=np.float32)
        end = buffer.address + sum((size - 1) * step for size, step in zip(shape, words, strict=True)) + 1
        if buffer.address < 0 or end > len(place):
            raise IndexError(f"{buffer.name} ends {end - len(place)} words behind its place")
        view = np.lib.stride_tricks.as_strided(place[buffer.address:], shape, tuple(4 * step for step in words))
        # What lies dense is told to be so, for the kernels that look.
        dense = np.cumprod((1, *shape[:0:-1]))[::-1]
        return place[buffer.address:end].reshape(shape) if tuple(dense) == words else view

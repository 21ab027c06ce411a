"""Memory of the dies of a step in numpy: an array a place, and views of their pieces."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.runtime.overlay import Overlay
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
    overlay : Overlay or None
        Which places share memory, and which have halos; None: none do.
    die : int
        Whose memory it is.
    """

    def __init__(self, step: Step, overlay: Overlay | None = None, die: int = 0) -> None:
        shared = {} if overlay is None else overlay.shared
        together = np.zeros(0 if overlay is None else overlay.shared_words, dtype=np.float32)
        # The system gives memory to what is written.
        self._places = {}
        for place in step.places:
            words = max(1, place.words) + (0 if overlay is None else overlay.behind(place.name, die))
            self._places[place.name] = (together[shared[place.name]:][:words] if place.name in shared else
                                        np.zeros(words, dtype=np.float32))

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

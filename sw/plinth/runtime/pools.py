"""Max-pools and mean-pools in numpy, forward and backward, in the order of :mod:`plinth.step.layers.pool_programs`:
down the rows of a map, then across its columns.
"""


import numpy as np

from plinth.network.layers import MaxPool, MeanPool
from plinth.runtime.memory import Floats


def _taps(places: int, windows: int, kernel: int, stride: int, padding: int) -> list[tuple[slice, slice]]:
    """For each tap, the windows of which it lies in the map, and its places there."""
    taps = []
    for tap in range(kernel):
        inside = [number for number in range(windows) if 0 <= number * stride + tap - padding < places]
        if inside:
            first = inside[0] * stride + tap - padding
            taps.append((slice(inside[0], inside[-1] + 1), slice(first, first + stride * len(inside), stride)))
    return taps


class PoolKernel:
    """The kernel of a pooling layer over maps ``[image, row, column, channel]``.

    Parameters
    ----------
    source, middle, target : (height, width)
        Of the map, of what is pooled down its rows, and of that across its columns.
    """

    def __init__(self, layer: MaxPool | MeanPool, source: tuple[int, int], middle: tuple[int, int],
                 target: tuple[int, int]) -> None:
        self.largest = isinstance(layer, MaxPool)
        self._ways = [(axis, _taps(places, windows, layer.kernel[axis - 1], layer.stride[axis - 1],
                                   layer.padding[axis - 1]))
                      for axis, places, windows in ((1, source[0], middle[0]), (2, middle[1], target[1]))]
        self._shares: list[Floats] = []
        for (_, taps), windows in zip(self._ways, (middle[0], target[1]), strict=True):
            count = np.zeros(windows, dtype=np.float32)
            for over, _ in taps:
                count[over] += 1
            self._shares.append((1 / np.maximum(count, 1)).astype(np.float32))

    @staticmethod
    def _at(maps: Floats, axis: int, places: slice) -> Floats:
        return maps[:, places] if axis == 1 else maps[:, :, places]

    def _share(self, number: int) -> Floats:
        axis, shares = self._ways[number][0], self._shares[number]
        return shares.reshape((1, -1, 1, 1) if axis == 1 else (1, 1, -1, 1))

    def forward(self, source: Floats, middle: Floats, target: Floats) -> None:
        """Pool ``source`` into ``target``, by way of ``middle``."""
        for number, (inputs, outputs) in enumerate(((source, middle), (middle, target))):
            axis, taps = self._ways[number]
            join = np.maximum if self.largest else np.add
            (windows, places), *others = taps
            if self._at(outputs, axis, windows).shape == outputs.shape and others and others[0][0] == windows:
                # The first two taps of all windows.
                (_, second), *others = others
                join(self._at(inputs, axis, places), self._at(inputs, axis, second), out=outputs)
            else:
                outputs[...] = -np.inf if self.largest else 0
                others = taps
            for windows, places in others:
                into, of = self._at(outputs, axis, windows), self._at(inputs, axis, places)
                join(into, of, out=into)
            if not self.largest:
                np.multiply(outputs, self._share(number), out=outputs)

    def backward(self, maps: tuple[Floats, ...]) -> None:
        """Propagate the error of the pool's output to its input.

        Parameters
        ----------
        maps : seven arrays
            Source, middle, target; their errors, of the target's first: ``error, middle_error, source_error``; room
            for the rest of the target's error.
        """
        source, middle, target, error, middle_error, source_error, _ = maps
        for number, (inputs, out, dy, dx) in reversed(list(enumerate((
                (source, middle, middle_error, source_error), (middle, target, error, middle_error))))):
            axis, taps = self._ways[number]
            dx[...] = 0
            rest = dy if self.largest else dy * self._share(number)
            whole = all(self._at(out, axis, windows).shape == out.shape for windows, _ in taps)
            for tap, (windows, places) in enumerate(taps):
                into, left = self._at(dx, axis, places), self._at(rest, axis, windows)
                if not self.largest or (whole and tap == len(taps) - 1):
                    # What no tap before was as large as.
                    into += left
                    continue
                later = left * (self._at(out, axis, windows) > self._at(inputs, axis, places))
                into += left - later
                if whole:
                    rest = later
                    continue
                rest = rest.copy()
                self._at(rest, axis, windows)[...] = later

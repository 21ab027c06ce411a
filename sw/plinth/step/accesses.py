"""Find the tasks that a task waits for: others of its die that touched the same words."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Generic, TypeVar

from plinth.buffers import Buffer, Extent

When = TypeVar("When")


#: Words of a place, the first and the one behind the last, and until when they are touched.
_Access = tuple[int, int, When]


class _Place(Generic[When]):
    """What has touched a place, in order; ``written`` holds what has written alone, for that is all that a read waits
    for, and most tasks read."""

    def __init__(self) -> None:
        self.touched: list[_Access[When]] = []
        self.written: list[_Access[When]] = []

    def cover(self, low: int, high: int) -> None:
        """Forget what lies within these words."""
        for accesses in (self.touched, self.written):
            accesses[:] = [access for access in accesses if access[0] < low or high < access[1]]

    def add(self, access: _Access[When], writes: bool) -> None:
        """Note it behind all others."""
        self.touched.append(access)
        if writes:
            self.written.append(access)


class Accesses(Generic[When]):
    """What tasks of a die wait for: read after write, write after read, write after write.

    Places are told apart by their first and last word.
    """

    def __init__(self) -> None:
        self._places: defaultdict[str, _Place[When]] = defaultdict(_Place)

    def needed(self, reads: Iterable[Buffer | Extent], writes: Iterable[Buffer | Extent]) -> list[When]:
        """When everything that a task with these places waits for is done."""
        completions = []
        for buffers, own in ((reads, False), (writes, True)):
            for buffer in buffers:
                place = self._places[buffer.place]
                low, high = buffer.address, buffer.end
                completions += [when for first, end, when in (place.touched if own else place.written)
                                if first < high and low < end]
        return completions

    def touch(self, reads: Iterable[Buffer | Extent], writes: Iterable[Buffer | Extent], when: When) -> None:
        """Note a task that has waited for those before; what its writes cover is behind it."""
        for buffers, own in ((reads, False), (writes, True)):
            for buffer in buffers:
                place, low, high = self._places[buffer.place], buffer.address, buffer.end
                if own:
                    place.cover(low, high)
                place.add((low, high, when), own)

    def arrive(self, buffers: Iterable[Buffer], when: When) -> None:
        """Note what others write, beside all that is known."""
        for buffer in buffers:
            self._places[buffer.place].add((buffer.address, buffer.end, when), True)

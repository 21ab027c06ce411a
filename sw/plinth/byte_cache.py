"""A cache that is bounded by bytes: of what is large, and can be made again."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class ByteCache(Generic[Value]):
    """Values by keys: those that were asked for last, of at most so many bytes together, but one at least.

    Parameters
    ----------
    limit : int
        In bytes.
    size : callable
        Bytes of a value.
    """

    def __init__(self, limit: int, size: Callable[[Value], int]) -> None:
        self.limit, self._size = limit, size
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        #: Bytes of all values.
        self.held = 0

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key; it is made if it is not held."""
        if key in self._values:
            self._values.move_to_end(key)
            return self._values[key]
        value = make()
        self._values[key] = value
        self.held += self._size(value)
        while self.held > self.limit and len(self._values) > 1:
            self.held -= self._size(self._values.popitem(last=False)[1])
        return value

"""Slots for what several dies send: equal tensors one behind the other in one place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import overload

from plinth.buffers import Buffer
from plinth.step.tensors import Placed, Tensor, View
from plinth_hw.isa.parameters import DieParameters


@dataclass(frozen=True)
class Slot(Tensor):
    """A tensor that lies in a place with others."""

    #: The place, and the first word in it.
    whole: str = ""
    first: int = 0

    def buffer(self, die: int) -> Buffer:
        """Where it lies."""
        found = super().buffer(die)
        return Buffer(self.name, self.first, found.rows, found.columns, found.stride, packed=self.packed,
                      whole=self.whole)


class Slots(Sequence[Tensor]):
    """A place for several tensors that are like another one, each of which begins with a beat.

    Parameters
    ----------
    name : str
        Of the place; those of its slots have their numbers behind it.
    like : Tensor
        What each slot has room for.
    count : int
        Slots.
    """

    def __init__(self, parameters: DieParameters, name: str, like: Tensor, count: int):
        beat = parameters.beat_words
        self.name, self.slots = name, count
        self._like = {field.name: getattr(like, field.name) for field in fields(Tensor)}
        #: Words from a slot to the next.
        self.words = -(-max(1, like.place_words()) // beat) * beat
        self.packed = like.packed

    def __len__(self) -> int:
        return self.slots

    @overload
    def __getitem__(self, number: int) -> Tensor: ...

    @overload
    def __getitem__(self, number: slice) -> list[Tensor]: ...

    def __getitem__(self, number: int | slice) -> Tensor | list[Tensor]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(self.slots))]
        if not 0 <= number < self.slots:
            raise IndexError(number)
        return Slot(**(self._like | {"name": f"{self.name}{number}"}), whole=self.name, first=number * self.words)

    def buffer(self, die: int) -> Buffer:
        """All slots, one behind the other."""
        return Buffer(self.name, 0, 1, self.slots * self.words, self.slots * self.words)

    def buffers(self, die: int) -> list[Buffer]:
        """All that is summed, on a die."""
        return [self.buffer(die)]

    def place_words(self) -> int:
        """As :class:`~plinth.step.tensors.Reservable`."""
        return self.slots * self.words


class Summands(Sequence[Placed]):
    """What each of several dies has computed of a sum, by their numbers: their slots, but where a die's own lies."""

    def __init__(self, slots: Slots, own: Placed, number: Callable[[int], int]):
        self.slots, self._own, self._number = slots, own, number

    def __len__(self) -> int:
        return len(self.slots)

    @overload
    def __getitem__(self, number: int) -> Placed: ...

    @overload
    def __getitem__(self, number: slice) -> list[Placed]: ...

    def __getitem__(self, number: int | slice) -> Placed | list[Placed]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        slot, own, member = self.slots[number], self._own, self._number
        return View(slot, lambda die, buffer: own.buffer(die) if member(die) == number else buffer)

    def buffers(self, die: int) -> list[Buffer]:
        """All that is summed, on a die."""
        return [self.slots.buffer(die), self._own.buffer(die)]

"""Slots for what several dies send: equal tensors one behind the other in one place."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import overload

from plinth.buffers import Buffer
from plinth.partition.groups import ProcessGroups
from plinth.step.tensors import Placed, Tensor, View


@dataclass(frozen=True)
class Slot(Tensor):
    """A tensor that lies in a place with others."""

    #: The place, and the first word in it.
    whole: str = ""
    first: int = 0

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where it lies."""
        buffer = super().buffer(die)
        return Buffer(self.name, self.first, buffer.rows, buffer.columns, buffer.stride, packed=self.packed,
                      whole=self.whole)


@dataclass(frozen=True)
class Slots(Sequence[Tensor]):
    """A place for several tensors that are like another one.

    Parameters
    ----------
    name : str
        Of the place; those of its slots have their numbers behind it.
    like : Tensor
        What each slot has room for.
    slots : int
    beat_words : int
        Each begins with a beat.
    """

    name: str
    like: Tensor
    slots: int
    beat_words: int

    @property
    def packed(self) -> bool:
        """Elements lie two to a word."""
        return self.like.packed

    @cached_property
    def words(self) -> int:
        """Words from a slot to the next."""
        return -(-max(1, self.like.place_words()) // self.beat_words) * self.beat_words

    def __len__(self) -> int:
        return self.slots

    @overload
    def __getitem__(self, number: int) -> Tensor: ...

    @overload
    def __getitem__(self, number: slice) -> list[Tensor]: ...

    def __getitem__(self, number: int | slice) -> Tensor | list[Tensor]:
        if isinstance(number, slice):
            return [self[slot] for slot in range(*number.indices(self.slots))]
        if not 0 <= number < self.slots:
            raise IndexError(number)
        like = {field.name: getattr(self.like, field.name) for field in fields(Tensor)}
        return Slot(**(like | {"name": f"{self.name}{number}"}), whole=self.name, first=number * self.words)

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory with all slots, one behind the other."""
        return Buffer(self.name, 0, 1, self.slots * self.words, self.slots * self.words)

    def buffers(self, die: int) -> list[Buffer]:
        """The buffers of all that is summed, on a die."""
        return [self.buffer(die)]

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        return self.slots * self.words


@dataclass(frozen=True)
class Summand(View):
    """The slot of the member of a number, but for that member itself where its own lies."""

    own: Placed
    members: ProcessGroups
    number: int

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where it lies."""
        return (self.own if self.members.number(die) == self.number else self.of).buffer(die)


@dataclass(frozen=True)
class Summands(Sequence[Placed]):
    """What each of several dies has computed of a sum, by their numbers: their slots, but where a die's own lies."""

    slots: Slots
    own: Placed
    members: ProcessGroups

    def __len__(self) -> int:
        return len(self.slots)

    @overload
    def __getitem__(self, number: int) -> Placed: ...

    @overload
    def __getitem__(self, number: slice) -> list[Placed]: ...

    def __getitem__(self, number: int | slice) -> Placed | list[Placed]:
        if isinstance(number, slice):
            return [self[index] for index in range(*number.indices(len(self)))]
        return Summand(self.slots[number], self.own, self.members, number)

    def buffers(self, die: int) -> list[Buffer]:
        """The buffers of all that is summed, on a die."""
        return [self.slots.buffer(die), self.own.buffer(die)]

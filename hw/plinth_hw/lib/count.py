"""Counters and counts."""

from typing import Any

from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.utils import ceil_log2


def index_bits(count: int) -> int:
    """Bits of the index of one of ``count`` things, at least one."""
    return max(1, ceil_log2(count))


#: Bits whose parity, shifted in, makes a register of so many bits go through all values but 0.
_TAPS = {1: (0,), 2: (0, 1), 3: (1, 2), 4: (2, 3), 5: (2, 4), 6: (4, 5), 7: (5, 6), 8: (3, 4, 5, 7), 9: (4, 8),
         10: (6, 9), 11: (8, 10), 12: (3, 9, 10, 11), 13: (7, 10, 11, 12),
         14: (1, 11, 12, 13), 15: (13, 14), 16: (3, 12, 14, 15)}


def following(place: Value) -> Value:
    """The value after ``place`` in a cycle through all values, 0 included, of that many bits, at most 16.

    For places of a ring that only go round: a shift register, with a third of a counter's logic.
    """
    bits = len(place)
    return Cat(Cat(*(place[tap] for tap in _TAPS[bits])).xor() ^ ~place[:bits - 1].any(), place[:bits - 1])


def counted(count: Value) -> Value:
    """The value after ``count`` in a cycle through all values but that of all ones, beginning with 0.

    For counts that are only compared for equality: one look-up table, however long.
    """
    return Cat(~Cat(count[tap] for tap in _TAPS[len(count)]).xor(), count)[:len(count)]


def in_ring(place: Value, places: int) -> Value:
    """The value after ``place`` in a cycle through all values below ``places``, for places that are gone through in
    turn; ``place`` has just the bits of their :func:`index_bits`.

    As :func:`following` or :func:`counted` if ``places`` is a power of two or one less, else counting.
    """
    bits = len(place)
    if places == 1:
        return place
    if places == 1 << bits:
        return following(place)
    if places == (1 << bits) - 1:
        return counted(place)
    return Mux(place == places - 1, 0, place + 1)[:bits]


def count_bits(most: int) -> int:
    """Bits of counts by :func:`counted` of up to ``most``.

    Raises
    ------
    ValueError
        If it has none so long.
    """
    bits = max(2, (most + 1).bit_length())
    if bits not in _TAPS:
        raise ValueError(f"Counts go up to {(1 << max(_TAPS)) - 2}, not {most!r}")
    return bits


def count_of(number: int, bits: int, count: int = 0) -> int:
    """What :func:`counted` gives after so many steps."""
    for _ in range(number):
        odd = sum(count >> tap & 1 for tap in _TAPS[bits]) & 1
        count = (count << 1 | odd ^ 1) & (1 << bits) - 1
    return count


def stepped(count: Value, up: Value, down: Value) -> Value:
    """``count`` and one more for ``up``, one less for ``down``; in one adder."""
    return (count + Cat(up ^ down, (down & ~up).replicate(len(count) - 1)))[:len(count)]


class LapCounter:
    """Counts from 0 to a last number and from there to 0 again, and has in a register whether it is at the last.

    Parameters
    ----------
    bits : int
    name : str
        What is counted.
    last : Value
        The last number, of as many bits; stable from the start to the last step.

    Attributes
    ----------
    number, at_last : Signal
        The count; whether it is the last number.
    """

    def __init__(self, bits: int, name: str, last: Value):
        self.number, self.at_last = Signal(bits, name=name), Signal(name=f"{name}_at_last")
        self._last = last

    def start(self) -> list[Any]:
        """Assignments that make the count 0."""
        return [self.number.eq(0), self.at_last.eq(self._last == 0)]

    def step(self) -> list[Any]:
        """Assignments that count on."""
        return [self.number.eq(Mux(self.at_last, 0, self.number + 1)),
                self.at_last.eq(Mux(self.at_last, self._last == 0, self.number + 1 == self._last))]


def population(bits: Value) -> Value:
    """How many bits are set, as a tree."""
    if len(bits) == 1:
        return bits
    half = len(bits) // 2
    return population(bits[:half]) + population(bits[half:])

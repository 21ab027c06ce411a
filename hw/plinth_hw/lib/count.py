"""Counters and counts."""

from amaranth.hdl import Cat, Value
from amaranth.utils import ceil_log2


def index_bits(count: int) -> int:
    """Bits of the index of one of ``count`` things, at least one."""
    return max(1, ceil_log2(count))


#: Bits whose parity, shifted in, makes a register of so many bits go through all values but 0.
_TAPS = {1: (0,), 2: (0, 1), 3: (1, 2), 4: (2, 3), 5: (2, 4), 6: (4, 5), 7: (5, 6), 8: (3, 4, 5, 7), 9: (4, 8),
         10: (6, 9), 11: (8, 10), 12: (3, 9, 10, 11)}


def following(place: Value) -> Value:
    """The value after ``place`` in a cycle through all values, 0 included, of that many bits, at most 12.

    For places of a ring that only go round: a shift register, with a third of a counter's logic.
    """
    bits = len(place)
    return Cat(Cat(*(place[tap] for tap in _TAPS[bits])).xor() ^ ~place[:bits - 1].any(), place[:bits - 1])


def stepped(count: Value, up: Value, down: Value) -> Value:
    """``count`` and one more for ``up``, one less for ``down``; in one adder."""
    return (count + Cat(up ^ down, (down & ~up).replicate(len(count) - 1)))[:len(count)]


def population(bits: Value) -> Value:
    """How many bits are set, as a tree."""
    if len(bits) == 1:
        return bits
    half = len(bits) // 2
    return population(bits[:half]) + population(bits[half:])

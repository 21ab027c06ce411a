"""One of many values.

By conditions of which one holds at most: the OR of all values, each zero unless it is the one (:func:`one_of`); or,
a cycle later, the OR of a register for each value, zero unless it is the one (:func:`one_registered`), which needs no
logic in front of the OR: a register's reset takes the condition. By an index: a tree of multiplexers
(:func:`select`). Beside them numbers and masks of bits.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from plinth_hw.lib.count import index_bits


def one_of(wanted: Iterable[Value], values: Iterable[Any]) -> Value:
    """The one of ``values`` that is ``wanted``, or zero; the OR of them if several are."""
    return reduce(or_, (Mux(condition, value, 0) for condition, value in zip(wanted, values, strict=True)), Const(0, 0))


def one_registered(m: Module, name: str, wanted: Iterable[Value], values: Iterable[Any],
                   enable: Value | None = None) -> Value:
    """The one of ``values`` that was ``wanted`` a cycle ago, or zero; with ``enable``, in the last cycle that had it.

    After reset, and until the first ``enable``, it is anything.
    """
    words = [Value.cast(value) for value in values]
    registers = [Signal(len(word), name=f"{name}_{index}", reset_less=True) for index, word in enumerate(words)]
    takes = [register.eq(Mux(condition, word, 0))
             for register, condition, word in zip(registers, wanted, words, strict=True)]
    if enable is None:
        m.d.sync += takes
    else:
        with m.If(enable):
            m.d.sync += takes
    return reduce(or_, registers, Const(0, 0))


def select(values: Sequence[Value], index: Value) -> Value:
    """``values[index]`` as a tree of two-way multiplexers; any of them for an index that does not exist."""
    level = list(values)
    bit = 0
    while len(level) > 1:
        level = [Mux(index[bit], level[at + 1], level[at]) if at + 1 < len(level) else level[at]
                 for at in range(0, len(level), 2)]
        bit += 1
    return level[0]


def index_of(one_hot: Value) -> Value:
    """Number of the set bit; 0 if none is."""
    return Cat(Cat(one_hot[number] for number in range(len(one_hot)) if number >> bit & 1).any()
               for bit in range(index_bits(len(one_hot))))


def lowest(bits: Value) -> Value:
    """The lowest set bit alone; 0 if none is."""
    return bits & (~bits + 1)[:len(bits)]


def ones(count: Value, bits: int) -> Value:
    """So many bits, of which the first ``count`` are set."""
    return Cat(place < count for place in range(bits))


def leading(bits: Value) -> tuple[Value, Value]:
    """Whether a bit is set, and the number of the highest one, as a tree."""
    if len(bits) == 1:
        return bits, Const(0)
    half = 1 << (len(bits) - 1).bit_length() - 1
    (any_low, low), (any_high, high) = leading(bits[:half]), leading(bits[half:])
    number = any_high if half == 1 else Cat(Mux(any_high, high, low)[:half.bit_length() - 1], any_high)
    return any_low | any_high, number

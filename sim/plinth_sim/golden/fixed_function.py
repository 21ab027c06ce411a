"""Golden model of the function unit of fixed-point dies: Q3.12 in, Q3.12 out, by the integers of
:mod:`plinth_hw.isa.fixed_functions`."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa import fixed_functions as tables
from plinth_hw.isa.vector_body import VectorFunction

Integers = NDArray[np.int64]


@cache
def _columns(function: VectorFunction) -> tuple[Integers, Integers]:
    table = np.array(tables.lines(function), dtype=np.int64)
    return table[:, 0], table[:, 1]


def _curve(function: VectorFunction, place: Integers) -> Integers:
    knot, rise = _columns(function)
    segment, offset = place >> tables.OFFSET_BITS, place & (1 << tables.OFFSET_BITS) - 1
    return knot[segment] + (rise[segment] * offset >> tables.OFFSET_BITS)


def _shifted(value: Integers, places: Integers | int) -> Integers:
    """``floor(value / 2^places + 1 / 2)``, places at least 1."""
    return (value >> places - 1) + 1 >> 1


def evaluate(function: VectorFunction, words: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """``function`` of every word.

    Raises
    ------
    TypeError
        If ``words`` is not an array of uint16.
    """
    if words.dtype != np.uint16:
        raise TypeError(f"Function arguments must be uint16 bit patterns, not {words.dtype}")
    fmt = tables.FORMAT
    x = words.view(np.int16).astype(np.int64)
    size = np.abs(x)
    if function is VectorFunction.EXPONENTIAL:
        turns = x * tables.LOG2E >> 10
        power = turns >> tables.VALUE_BITS
        value = _curve(function, turns & (1 << tables.VALUE_BITS) - 1)
        units = np.where(power > 2, fmt.most, _shifted(value, tables.PLAIN_SHIFT - np.minimum(power, 2)))
    elif function is VectorFunction.RECIPROCAL:
        log = np.floor(np.log2(np.maximum(size, 1))).astype(np.int64)
        place = (np.maximum(size, 1) << tables.VALUE_BITS - log) - (1 << tables.VALUE_BITS)
        units = np.where(log < 9, 1 << 15, _shifted(_curve(function, place), np.maximum(log, 9) - 5))
        units = np.where(x < 0, -units, units)
    else:
        place = np.minimum(size, fmt.most) << tables.VALUE_BITS - 15
        units = _shifted(_curve(function, place), tables.PLAIN_SHIFT)
        odd = -units if function is VectorFunction.TANH else (1 << fmt.fraction_bits) - units
        units = np.where(x < 0, odd, units)
    return np.clip(units, fmt.least, fmt.most).astype(np.int16).view(np.uint16)

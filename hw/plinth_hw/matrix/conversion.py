# amaranth: UnusedElaboratable=no
# Units that share a module are elaborated once, however often they are placed.
"""Sums between memory and a matrix engine: fixed-point sums are longer than the numbers of memory, floating-point ones
as long.

Where both have the same format there is nothing to do, and no latency.
"""

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Cat, Const, Module, Value

from plinth_hw import emit
from plinth_hw.arith.fixed import FixedRounder
from plinth_hw.isa.formats import Fixed, identifiers
from plinth_hw.isa.parameters import DieParameters


def store_latency(parameters: DieParameters) -> int:
    """Cycles of :func:`to_memory`."""
    return FixedRounder.latency if isinstance(parameters.memory_format, Fixed) else 0


def to_memory(m: Module, platform: Any, parameters: DieParameters, words: Iterable[Value]) -> list[Value]:
    """Sums as words, fixed-point ones rounded to nearest even and saturated, ``store_latency`` cycles later."""
    sums, memory = parameters.sum_format, parameters.memory_format
    if not isinstance(memory, Fixed) or not isinstance(sums, Fixed):
        return list(words)
    found = []
    for number, word in enumerate(words):
        unit = FixedRounder(sums, memory)
        emit.place(m, platform, unit, name=f"to_memory_{number}", module=f"plinth_round_{identifiers(sums, memory)}")
        m.d.comb += unit.a.eq(word)
        found.append(unit.o)
    return found


def from_memory(parameters: DieParameters, words: Iterable[Value]) -> list[Value]:
    """Words as sums, exactly, in the same cycle."""
    sums, memory = parameters.sum_format, parameters.memory_format
    if not isinstance(memory, Fixed) or not isinstance(sums, Fixed):
        return list(words)
    finer, wider = sums.fraction_bits - memory.fraction_bits, sums.integer_bits - memory.integer_bits
    return [Cat(Const(0, finer), word, word[-1].replicate(wider)) for word in words]

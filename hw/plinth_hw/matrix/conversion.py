# amaranth: UnusedElaboratable=no
# Units that share a module are elaborated once, however often they are placed.
"""Words between memory and a matrix engine's array: fixed-point ones are longer there than in memory, floating-point
ones as long.

Where both have the same format there is nothing to do, and no latency.
"""

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Cat, Const, Module, Value

from plinth_hw import emit
from plinth_hw.arith.fixed import FixedRounder
from plinth_hw.isa.formats import Fixed, Format, identifiers
from plinth_hw.isa.parameters import DieParameters


def store_latency(parameters: DieParameters) -> int:
    """Cycles of :func:`to_memory`."""
    return FixedRounder.latency if isinstance(parameters.memory_format, Fixed) else 0


def to_memory(m: Module, platform: Any, parameters: DieParameters, array: Format,
              words: Iterable[Value]) -> list[Value]:
    """Words of the ``array``'s format as memory's, fixed-point ones rounded to nearest even and saturated,
    ``store_latency`` cycles later."""
    memory = parameters.memory_format
    if not isinstance(memory, Fixed) or not isinstance(array, Fixed):
        return list(words)
    rounded = []
    for number, word in enumerate(words):
        unit = FixedRounder(array, memory)
        emit.place(m, platform, unit, name=f"to_memory_{number}", module=f"plinth_round_{identifiers(array, memory)}")
        m.d.comb += unit.a.eq(word)
        rounded.append(unit.o)
    return rounded


def from_memory(parameters: DieParameters, array: Format, words: Iterable[Value]) -> list[Value]:
    """Memory's words in the ``array``'s format, exactly, in the same cycle."""
    memory = parameters.memory_format
    if not isinstance(memory, Fixed) or not isinstance(array, Fixed):
        return list(words)
    finer, wider = array.fraction_bits - memory.fraction_bits, array.integer_bits - memory.integer_bits
    return [Cat(Const(0, finer), word, word[-1].replicate(wider)) for word in words]

# amaranth: UnusedElaboratable=no
# Units that share a module are elaborated once, however often they are placed.
"""Sums between memory and a matrix engine that keeps them in another format: fixed point, where memory has FP32, or the
same fixed point as the operands have.

Where both have the same format there is nothing to do, and no latency.
"""

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Cat, Const, Module, Value

from plinth_hw import emit
from plinth_hw.arith.fixed import FixedRounder, FixedToFloat, FloatToFixed
from plinth_hw.isa.formats import FP32, Fixed, identifiers
from plinth_hw.isa.parameters import DieParameters


def store_latency(parameters: DieParameters) -> int:
    """Cycles of :func:`to_memory`."""
    if not isinstance(parameters.sum_format, Fixed):
        return 0
    return FixedRounder.latency if isinstance(parameters.memory_format, Fixed) else FixedToFloat.latency


def load_latency(parameters: DieParameters) -> int:
    """Cycles of :func:`from_memory`."""
    return FloatToFixed.latency if isinstance(parameters.sum_format, Fixed) and parameters.memory_format == FP32 else 0


def to_memory(m: Module, platform: Any, parameters: DieParameters, words: Iterable[Value]) -> list[Value]:
    """Sums as words, rounded to nearest even, and saturated in fixed point, ``store_latency`` cycles later."""
    sums, memory = parameters.sum_format, parameters.memory_format
    if not isinstance(sums, Fixed):
        return list(words)
    unit, module = (((lambda: FixedRounder(sums, memory)), f"plinth_round_{identifiers(sums, memory)}")
                    if isinstance(memory, Fixed) else
                    ((lambda: FixedToFloat(sums, FP32)), f"plinth_to_float_{identifiers(sums)}"))
    return [_placed(m, platform, unit(), f"to_memory_{number}", module, word) for number, word in enumerate(words)]


def from_memory(m: Module, platform: Any, parameters: DieParameters, words: Iterable[Value]) -> list[Value]:
    """Words as sums, rounded to nearest even and saturated where that is needed, ``load_latency`` cycles later."""
    sums, memory = parameters.sum_format, parameters.memory_format
    if not isinstance(sums, Fixed):
        return list(words)
    if isinstance(memory, Fixed):
        finer, wider = sums.fraction_bits - memory.fraction_bits, sums.integer_bits - memory.integer_bits
        return [Cat(Const(0, finer), word, word[-1].replicate(wider)) for word in words]
    return [_placed(m, platform, FloatToFixed(FP32, sums), f"from_memory_{number}",
                    f"plinth_to_fixed_{identifiers(sums)}", word) for number, word in enumerate(words)]


def _placed(m: Module, platform: Any, unit: Any, name: str, module: str, word: Value) -> Value:
    emit.place(m, platform, unit, name=name, module=module)
    m.d.comb += unit.a.eq(word)
    return unit.o

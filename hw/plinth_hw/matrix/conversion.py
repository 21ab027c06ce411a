# amaranth: UnusedElaboratable=no
# Units that share a module are elaborated once, however often they are placed.
"""Sums between memory, where they are FP32, and a matrix engine that keeps them in fixed point.

Where both have the same format there is nothing to do, and no latency.
"""

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Module, Value

from plinth_hw import emit
from plinth_hw.arith.fixed import FixedToFloat, FloatToFixed
from plinth_hw.isa.formats import FP32, Fixed, Format, identifiers


def store_latency(sums: Format) -> int:
    """Cycles of :func:`to_memory`."""
    return FixedToFloat.latency if isinstance(sums, Fixed) else 0


def load_latency(sums: Format) -> int:
    """Cycles of :func:`from_memory`."""
    return FloatToFixed.latency if isinstance(sums, Fixed) else 0


def to_memory(m: Module, platform: Any, sums: Format, words: Iterable[Value]) -> list[Value]:
    """Sums as FP32, rounded to nearest even, ``store_latency`` cycles later."""
    if not isinstance(sums, Fixed):
        return list(words)
    return [_placed(m, platform, FixedToFloat(sums, FP32), f"to_memory_{number}",
                    f"plinth_to_float_{identifiers(sums)}", word) for number, word in enumerate(words)]


def from_memory(m: Module, platform: Any, sums: Format, words: Iterable[Value]) -> list[Value]:
    """FP32 words as sums, rounded to nearest even and saturated, ``load_latency`` cycles later."""
    if not isinstance(sums, Fixed):
        return list(words)
    return [_placed(m, platform, FloatToFixed(FP32, sums), f"from_memory_{number}",
                    f"plinth_to_fixed_{identifiers(sums)}", word) for number, word in enumerate(words)]


def _placed(m: Module, platform: Any, unit: FixedToFloat | FloatToFixed, name: str, module: str, word: Value) -> Value:
    emit.place(m, platform, unit, name=name, module=module)
    m.d.comb += unit.a.eq(word)
    return unit.o

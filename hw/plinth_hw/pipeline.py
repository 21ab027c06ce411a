"""Registers in a row."""

from amaranth.hdl import Module, Signal, Value


def delayed(m: Module, name: str, value: Value, cycles: int) -> Value:
    """``value`` of ``cycles`` cycles before; zero until then."""
    for cycle in range(cycles):
        stage = Signal(len(value), name=f"{name}_delay_{cycle}")
        m.d.sync += stage.eq(value)
        value = stage
    return value

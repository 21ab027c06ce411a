"""Pieces that the floating-point units share: word-level shifts, counts and the packing of results.

All of them add combinational statements to the caller's module and return values; pipelining is the
caller's. Steps are written on whole words, not bits, so that a simulator evaluates few operations.
"""

from collections.abc import Iterable

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from plinth_hw.isa.formats import Float


def shift_right_sticky(m: Module, name: str, value: Value, amount: Value, kept: int,
                       unit_log2: int = 0) -> tuple[Value, Value]:
    """``value >> (amount << unit_log2)`` by powers of two, highest first, and the OR of all bits shifted out.

    The result has ``kept`` bits; the caller knows that higher ones are zero once shifted. Each level is only
    as wide as what can still reach the result.
    """
    lost = Const(0, 1)
    for level in reversed(range(len(amount))):
        step = 1 << (level + unit_log2)
        width = min(len(value), kept + step - (1 << unit_log2))
        taken = Signal(width, name=f"{name}_{step}")
        sticky = Signal(name=f"{name}_lost_{step}")
        m.d.comb += [
            taken.eq(Mux(amount[level], value[step:], value)),
            sticky.eq(lost | (amount[level] & value[:step].any())),
        ]
        value, lost = taken, sticky
    return value, lost


def leading_zeros(m: Module, name: str, value: Value, bits: int) -> Value:
    """Number of zeros above the highest one, as ``bits`` bits; all ones or less where there is no one.

    Halves the word ``bits`` times; ``value`` is at most ``2**bits`` bits wide and is padded below with ones.
    """
    width = 1 << bits
    rest: Value = Cat(Const(-1, width - len(value)), value)
    count: list[Value] = []
    for level in reversed(range(bits)):
        half = 1 << level
        empty = Signal(name=f"{name}_empty_{half}")
        m.d.comb += empty.eq(~rest[half:].any())
        count.insert(0, empty)
        if level:
            taken = Signal(half, name=f"{name}_{half}")
            m.d.comb += taken.eq(Mux(empty, rest[:half], rest[half:]))
            rest = taken
    return Cat(*count)


def normalise(m: Module, name: str, value: Value, exponent: Value,
              steps: Iterable[int]) -> tuple[Value, Value]:
    """``value`` shifted left by ``min(leading zeros, exponent)``, and ``exponent`` less the shift.

    Greedy: each step, a power of two, highest first, is taken if so many leading bits are zero and the
    exponent is at least as large. Where value is zero, the shift is ``min(sum of steps, exponent)``.
    """
    for step in steps:
        if step.bit_length() > len(exponent):
            continue
        move = Signal(name=f"{name}_move_{step}")
        shifted = Signal(len(value), name=f"{name}_shifted_{step}")
        rest = Signal(len(exponent), name=f"{name}_exponent_{step}")
        m.d.comb += [
            move.eq(~value[-step:].any() & (exponent >= step)),
            shifted.eq(Mux(move, value << step, value)),
            rest.eq(exponent - Mux(move, step, 0)),
        ]
        value, exponent = shifted, rest
    return value, exponent


def powers_of_two(bits: int) -> list[int]:
    """Steps that add up to every number of ``bits`` bits, highest first."""
    return [1 << i for i in reversed(range(bits))]


def special_or(fmt: Float, nan: Value, infinite: Value, sign: Value, magnitude: Value) -> Value:
    """The bits of a result: the quiet NaN, an infinity, or sign and finite magnitude."""
    special = nan | infinite
    top = fmt.fraction_bits - 1
    return Cat(Mux(special, 0, magnitude[:top]), Mux(special, nan, magnitude[top]),
               Mux(special, fmt.exponent_maximum, magnitude[top + 1:fmt.bits - 1]), sign & ~nan)

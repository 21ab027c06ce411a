"""The textbook multiplier and adder: what the tuned units are measured against.

Unpack, operate, normalise, round, pack, one step a register stage, IEEE-754 complete like
:mod:`plinth_hw.arith.multiplier` and :mod:`plinth_hw.arith.adder` and equal to them bit for bit. The
multiplication is left to synthesis, shifts are the language's own, and special cases are chosen at the
end. Nothing in the die uses these.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.formats import Float


class _Unpacked(data.StructLayout):
    """A number taken apart: significand with its leading bit, exponent with that of subnormals made 1."""

    def __init__(self, fmt: Float):
        super().__init__({"significand": fmt.fraction_bits + 1, "exponent": fmt.exponent_bits, "sign": 1,
                          "zero": 1, "infinite": 1, "nan": 1})


def _unpack(m: Module, fmt: Float, bits: Value, name: str) -> Any:
    fraction, exponent = bits[:fmt.fraction_bits], bits[fmt.fraction_bits:-1]
    number = Signal(_Unpacked(fmt), name=name)
    m.d.comb += [
        number.significand.eq(Cat(fraction, exponent != 0)),
        number.exponent.eq(Mux(exponent == 0, 1, exponent)),
        number.sign.eq(bits[-1]),
        number.zero.eq((exponent == 0) & (fraction == 0)),
        number.infinite.eq((exponent == fmt.exponent_maximum) & (fraction == 0)),
        number.nan.eq((exponent == fmt.exponent_maximum) & (fraction != 0)),
    ]
    return number


def _leading_zeros(m: Module, value: Value, name: str) -> Signal:
    count = Signal(range(len(value) + 1), name=name, init=len(value))
    m.d.comb += count.eq(len(value))
    for i in range(len(value)):
        with m.If(value[i]):
            m.d.comb += count.eq(len(value) - 1 - i)
    return count


def _round_and_pack(m: Module, fmt: Float, sign: Value, exponent: Value, significand: Value, guard: Value,
                    sticky: Value) -> Value:
    """Packs a significand that is normalised, or subnormal with exponent 1, after rounding it."""
    rounded = Signal(len(significand) + 1)
    carried = Signal(signed(len(exponent) + 2))
    packed = Signal(fmt.bits)
    m.d.comb += [
        rounded.eq(significand + (guard & (sticky | significand[0]))),
        carried.eq(exponent + rounded[-1]),
    ]
    with m.If(carried >= fmt.exponent_maximum):
        m.d.comb += packed.eq(Cat(Const(fmt.infinity, fmt.bits - 1), sign))
    with m.Elif(rounded[-1]):
        m.d.comb += packed.eq(Cat(rounded[1:-1], carried[:fmt.exponent_bits], sign))
    with m.Elif(rounded[-2]):
        m.d.comb += packed.eq(Cat(rounded[:-2], carried[:fmt.exponent_bits], sign))
    with m.Else():
        m.d.comb += packed.eq(Cat(rounded[:-2], Const(0, fmt.exponent_bits), sign))
    return packed


class ReferenceUnit(wiring.Component):
    """A unit of two operands of one format.

    Parameters
    ----------
    format : Float
        Format of operands and result.

    Members
    -------
    a, b : In
        Operands, taken every cycle.
    o : Out
        Result of the operands of ``latency`` cycles before.
    """

    #: Cycles from operands to result.
    latency: int

    def __init__(self, format: Float):
        self.format = format
        super().__init__({"a": In(format.bits), "b": In(format.bits), "o": Out(format.bits)})


def _register(shape: Any, name: str) -> Any:
    return Signal(shape, name=name, reset_less=True)


def _delayed(m: Module, value: Any, name: str) -> Any:
    taken = _register(value.shape(), name)
    m.d.sync += taken.eq(value)
    return taken


def _passed(m: Module, flags: dict[str, Value], stage: int) -> dict[str, Value]:
    """Flags of a stage, one register further."""
    return {name: _delayed(m, value, f"{name}_{stage}") for name, value in flags.items()}


class ReferenceMultiplier(ReferenceUnit):
    """``o = a * b``, rounded, five cycles later."""

    latency = 5

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fmt = self.format
        width, bits = fmt.fraction_bits + 1, fmt.bits
        exponent_shape = signed(fmt.exponent_bits + 2)

        # Stage 1: unpack and normalise both operands.
        a, b = _unpack(m, fmt, self.a, "a_unpacked"), _unpack(m, fmt, self.b, "b_unpacked")
        significands, exponents = [], []
        for name, number in (("a", a), ("b", b)):
            zeros = _leading_zeros(m, number.significand, f"{name}_zeros")
            significands.append(_delayed(m, (number.significand << zeros)[:width], f"{name}_significand"))
            exponent = _register(exponent_shape, f"{name}_exponent")
            m.d.sync += exponent.eq(number.exponent - zeros)
            exponents.append(exponent)
        flags: dict[str, Value] = _passed(m, {
            "sign": a.sign ^ b.sign,
            "nan": a.nan | b.nan | (a.infinite & b.zero) | (a.zero & b.infinite),
            "infinite": a.infinite | b.infinite,
            "zero": a.zero | b.zero,
        }, 1)

        # Stage 2: multiply.
        product_2 = _register(2 * width, "product_2")
        exponent_2 = _register(exponent_shape, "exponent_2")
        m.d.sync += [product_2.eq(significands[0] * significands[1]),
                     exponent_2.eq(exponents[0] + exponents[1] - fmt.bias)]
        flags = _passed(m, flags, 2)

        # Stage 3: normalise; what is below the format's range becomes subnormal.
        product_3 = _register(2 * width, "product_3")
        exponent_3 = _register(exponent_shape, "exponent_3")
        m.d.sync += [
            product_3.eq(Mux(product_2[-1], product_2, product_2 << 1)),
            exponent_3.eq(exponent_2 + product_2[-1]),
        ]
        flags = _passed(m, flags, 3)
        down = Signal(range(width + 3))
        with m.If(exponent_3 < 1 - (width + 1)):
            m.d.comb += down.eq(width + 2)
        with m.Elif(exponent_3 < 1):
            m.d.comb += down.eq(1 - exponent_3)
        padded = Signal(2 * width + width + 2)
        m.d.comb += padded.eq(Cat(Const(0, width + 2), product_3) >> down)
        significand_4 = _delayed(m, padded[-width:], "significand_4")
        guard_4 = _delayed(m, padded[-width - 1], "guard_4")
        sticky_4 = _delayed(m, padded[:-width - 1].any(), "sticky_4")
        exponent_4 = _register(exponent_shape, "exponent_4")
        m.d.sync += exponent_4.eq(Mux(exponent_3 < 1, 1, exponent_3))
        flags = _passed(m, flags, 4)

        # Stage 5: round and pack.
        packed = _round_and_pack(m, fmt, flags["sign"], exponent_4, significand_4, guard_4, sticky_4)
        with m.If(flags["nan"]):
            m.d.sync += self.o.eq(fmt.quiet_nan)
        with m.Elif(flags["infinite"]):
            m.d.sync += self.o.eq(Cat(Const(fmt.infinity, bits - 1), flags["sign"]))
        with m.Elif(flags["zero"]):
            m.d.sync += self.o.eq(Cat(Const(0, bits - 1), flags["sign"]))
        with m.Else():
            m.d.sync += self.o.eq(packed)
        return m


class ReferenceAdder(ReferenceUnit):
    """``o = a + b``, rounded, six cycles later."""

    latency = 6

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fmt = self.format
        width, bits = fmt.fraction_bits + 1, fmt.bits

        # Stage 1: unpack and swap, so that x has the larger magnitude.
        a, b = _unpack(m, fmt, self.a, "a_unpacked"), _unpack(m, fmt, self.b, "b_unpacked")
        swap = Signal()
        m.d.comb += swap.eq(self.a[:-1] < self.b[:-1])
        layout = _Unpacked(fmt)
        x, y = (_register(layout, name) for name in ("x_1", "y_1"))
        m.d.sync += [x.eq(Mux(swap, b.as_value(), a.as_value())), y.eq(Mux(swap, a.as_value(), b.as_value()))]

        # Stage 2: align; guard, round and sticky below.
        flags: dict[str, Value] = {
            "sign": x.sign,
            "subtract": x.sign ^ y.sign,
            "nan": x.nan | y.nan | (x.infinite & y.infinite & (x.sign ^ y.sign)),
            "infinite": x.infinite | y.infinite,
        }
        difference = Signal(fmt.exponent_bits)
        down = Signal(range(width + 4))
        m.d.comb += [difference.eq(x.exponent - y.exponent),
                     down.eq(Mux(difference > width + 2, width + 3, difference))]
        padded = Signal(2 * width + 3)
        m.d.comb += padded.eq(Cat(Const(0, width + 3), y.significand) >> down)
        x_2 = _delayed(m, Cat(Const(0, 3), x.significand), "x_2")
        y_2 = _delayed(m, Cat(padded[:width + 1].any(), padded[width + 1:]), "y_2")
        exponent_2 = _delayed(m, x.exponent, "exponent_2")
        flags = _passed(m, flags, 2)

        # Stage 3: add or subtract.
        sum_3 = Signal(width + 4, reset_less=True)
        with m.If(flags["subtract"]):
            m.d.sync += sum_3.eq(x_2 - y_2)
        with m.Else():
            m.d.sync += sum_3.eq(x_2 + y_2)
        exponent_3 = _delayed(m, exponent_2, "exponent_3")
        flags = _passed(m, flags, 3)

        # Stage 4: count leading zeros, no more than the exponent allows.
        zeros = _leading_zeros(m, sum_3, "zeros")
        up_4 = _delayed(m, Mux(zeros > exponent_3, exponent_3, zeros), "up_4")
        sum_4 = _delayed(m, sum_3, "sum_4")
        exponent_4 = _delayed(m, exponent_3, "exponent_4")
        flags = _passed(m, {**flags, "zero": sum_3 == 0}, 4)

        # Stage 5: normalise.
        sum_5 = _delayed(m, (sum_4 << up_4)[:width + 4], "sum_5")
        exponent_5 = Signal(signed(fmt.exponent_bits + 2), reset_less=True)
        m.d.sync += exponent_5.eq(exponent_4 + 1 - up_4)
        flags = _passed(m, flags, 5)

        # Stage 6: round and pack.
        packed = _round_and_pack(m, fmt, flags["sign"], exponent_5, sum_5[4:], sum_5[3], sum_5[:3].any())
        with m.If(flags["nan"]):
            m.d.sync += self.o.eq(fmt.quiet_nan)
        with m.Elif(flags["infinite"]):
            m.d.sync += self.o.eq(Cat(Const(fmt.infinity, bits - 1), flags["sign"]))
        with m.Elif(flags["zero"]):
            m.d.sync += self.o.eq(Cat(Const(0, bits - 1), flags["sign"] & ~flags["subtract"]))
        with m.Else():
            m.d.sync += self.o.eq(packed)
        return m

"""Fixed-point arithmetic: products, saturating sums, and the ways from and to floating point.

::

    multiply   a, b -> product -> o                                          2 cycles, exact
    add        a, b -> sum, saturate -> o                                    1 cycle
    to float   a -> magnitude -> shift by its leading zeros -> round -> o    3 cycles, to nearest even
    to fixed   a -> shift amount -> shift, sticky -> round, saturate -> o    3 cycles, to nearest even

One number a cycle, no stall. What is beyond a format becomes its least or largest number; NaN becomes 0. Numbers are
those of :class:`~plinth_hw.isa.formats.Fixed`, whose ``encode`` and ``decode`` are the golden models of both ways.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.common import leading_zeros, shift_right_sticky
from plinth_hw.isa.formats import Fixed, Float


def _formats(kind: type[Fixed] | type[Float], **formats: object) -> None:
    for name, fmt in formats.items():
        if not isinstance(fmt, kind):
            raise TypeError(f"{name.capitalize()} format must be a {kind.__name__}, not {fmt!r}")


def _saturated(value: Value, fmt: Fixed) -> Value:
    """A signed value, in units of the format's last place, as the format's nearest number."""
    negative = value[-1]
    above = value[fmt.bits - 1:]
    fits = above.all() | ~above.any()
    return Mux(fits, value[:fmt.bits], Cat((~negative).replicate(fmt.bits - 1), negative))


class FixedMultiplier(wiring.Component):
    """``o = a * b``.

    Parameters
    ----------
    a_format : Fixed
        Format of both operands.
    result_format : Fixed
        Format of the product; must hold every product.

    Members
    -------
    a, b : In
        Operands, taken every cycle.
    o : Out
        Product of the operands of ``latency`` cycles before.

    Attributes
    ----------
    latency : int
        Cycles from operands to product: 2.

    Raises
    ------
    TypeError
        If a format is not a :class:`Fixed`.
    ValueError
        If the result's format does not hold every product.
    """

    latency = 2

    def __init__(self, a_format: Fixed, result_format: Fixed):
        _formats(Fixed, operand=a_format, result=result_format)
        if (result_format.fraction_bits != 2 * a_format.fraction_bits
                or result_format.integer_bits <= 2 * a_format.integer_bits):
            raise ValueError(f"Result format must have {2 * a_format.fraction_bits} fraction bits and more than "
                             f"{2 * a_format.integer_bits} integer bits to hold products of {a_format}, not "
                             f"{result_format}")
        self._bits = 2 * a_format.bits
        super().__init__({"a": In(a_format.bits), "b": In(a_format.bits), "o": Out(result_format.bits)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        product, product_1 = (Signal(signed(self._bits), name=f"product_{stage}", reset_less=True)
                              for stage in (1, 2))
        m.d.sync += [product.eq(self.a.as_signed() * self.b.as_signed()), product_1.eq(product)]
        m.d.comb += self.o.eq(product_1)
        return m


class FixedAdder(wiring.Component):
    """``o = a + b``, saturated.

    Parameters
    ----------
    format : Fixed
        Format of operands and sum.

    Members
    -------
    a, b : In
        Operands, taken every cycle.
    o : Out
        Sum of the operands of the cycle before.

    Attributes
    ----------
    latency : int
        Cycles from operands to sum: 1.

    Raises
    ------
    TypeError
        If ``format`` is not a :class:`Fixed`.
    """

    latency = 1

    def __init__(self, format: Fixed):
        _formats(Fixed, adder=format)
        self._format = format
        super().__init__({"a": In(format.bits), "b": In(format.bits), "o": Out(format.bits)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        total = Signal(signed(self._format.bits + 1))
        o = Signal(self._format.bits, name="sum", reset_less=True)
        m.d.comb += [total.eq(self.a.as_signed() + self.b.as_signed()), self.o.eq(o)]
        m.d.sync += o.eq(_saturated(total, self._format))
        return m


class FixedToFloat(wiring.Component):
    """``o = a`` in floating point.

    Parameters
    ----------
    a_format : Fixed
    result_format : Float
        Its normal numbers must reach from the format's smallest to its largest.

    Members
    -------
    a : In
        Operand, taken every cycle.
    o : Out
        Result of the operand of ``latency`` cycles before; +0 for 0.

    Attributes
    ----------
    latency : int
        Cycles from operand to result: 3.

    Raises
    ------
    TypeError
        If the formats are of other kinds.
    ValueError
        If the result's exponent is too narrow.
    """

    latency = 3

    def __init__(self, a_format: Fixed, result_format: Float):
        _formats(Fixed, operand=a_format)
        _formats(Float, result=result_format)
        if max(a_format.fraction_bits, a_format.integer_bits + 2) >= result_format.bias:
            raise ValueError(f"Result format must reach from 2^-{a_format.fraction_bits} to "
                             f"2^{a_format.integer_bits}, which {result_format} does not")
        self._a_format = a_format
        self._result_format = result_format
        super().__init__({"a": In(a_format.bits), "o": Out(result_format.bits)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        width, result = self._a_format.bits, self._result_format
        # 1: sign and magnitude.
        sign_1, sign_2 = (Signal(name=f"sign_{stage}", reset_less=True) for stage in (1, 2))
        magnitude = Signal(width, reset_less=True)
        m.d.sync += [sign_1.eq(self.a[-1]), magnitude.eq(Mux(self.a[-1], -self.a, self.a))]
        # 2: the leading bit to the top. The exponent is one less than that of the result, for the leading bit adds one.
        zeros = leading_zeros(m, "zeros", magnitude)
        normal = Signal(width, reset_less=True)
        exponent = Signal(result.exponent_bits, reset_less=True)
        top = result.bias + self._a_format.integer_bits - 1
        m.d.sync += [normal.eq(magnitude << zeros), sign_2.eq(sign_1),
                     exponent.eq(Mux(magnitude.any(), top - zeros, 0))]
        # 3: fraction, guard bit and what is below.
        padded = Cat(Const(0, max(0, result.fraction_bits + 3 - width)), normal)
        below = len(padded) - result.fraction_bits - 1
        kept, rest = padded[below:], padded[:below]
        up = Signal()
        bits = Signal(result.bits - 1)
        m.d.comb += [
            up.eq(rest[-1] & (rest[:-1].any() | kept[0])),
            bits.eq(Cat(kept[:-1], exponent) + Cat(up, Const(0, result.fraction_bits - 1), kept[-1])),
        ]
        m.d.sync += self.o.eq(Cat(bits, sign_2))
        return m


class FloatToFixed(wiring.Component):
    """``o = a`` in fixed point.

    Parameters
    ----------
    a_format : Float
    result_format : Fixed
        At least as wide as the operand's significand and two bits.

    Members
    -------
    a : In
        Operand, taken every cycle.
    o : Out
        Result of the operand of ``latency`` cycles before.

    Attributes
    ----------
    latency : int
        Cycles from operand to result: 3.

    Raises
    ------
    TypeError
        If the formats are of other kinds.
    ValueError
        If the result's format is too narrow.
    """

    latency = 3

    def __init__(self, a_format: Float, result_format: Fixed):
        _formats(Float, operand=a_format)
        _formats(Fixed, result=result_format)
        if result_format.bits < a_format.fraction_bits + 3:
            raise ValueError(f"Result format must have at least {a_format.fraction_bits + 3} bits, not "
                             f"{result_format.bits}")
        self._a_format = a_format
        self._result_format = result_format
        super().__init__({"a": In(a_format.bits), "o": Out(result_format.bits)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        a, result = self._a_format, self._result_format
        fraction, exponent, sign = self.a[:a.fraction_bits], self.a[a.fraction_bits:-1], self.a[-1]
        # 1: by how much the significand, its leading bit below the sign, is to be shifted right; all of it is lost
        # where that is its width and one more.
        significand = Signal(a.fraction_bits + 1, reset_less=True)
        most = result.bits
        amount = Signal(range(most + 1), reset_less=True)
        sign_1, sign_2, nan_1, nan_2, large_1, large_2 = (
            Signal(name=f"{name}_{stage}", reset_less=True) for name in ("sign", "nan", "large") for stage in (1, 2))
        distance = Signal(Shape(a.exponent_bits + 2, signed=True))
        top = a.bias + result.integer_bits - 1
        m.d.comb += distance.eq(top - Mux(exponent.any(), exponent, 1))
        m.d.sync += [
            significand.eq(Cat(fraction, exponent.any())), sign_1.eq(sign),
            nan_1.eq(exponent.all() & fraction.any()), large_1.eq(distance < 0),
            amount.eq(Mux(distance > most, most, distance[:len(amount)])),
        ]
        # 2: shifted, with a guard bit.
        padding = result.bits - 1 - len(significand)
        shifted, lost = shift_right_sticky(m, "shift", Cat(Const(0, padding + 1), significand), amount, result.bits)
        shifted_2 = Signal(result.bits, reset_less=True)
        sticky = Signal(reset_less=True)
        m.d.sync += [shifted_2.eq(shifted), sticky.eq(lost), sign_2.eq(sign_1), nan_2.eq(nan_1),
                     large_2.eq(large_1)]
        # 3: rounded; what is large is known by its exponent, or by the carry.
        rounded = Signal(result.bits)
        up, limit = Signal(), Signal()
        m.d.comb += [
            up.eq(shifted_2[0] & (shifted_2[1] | sticky)), rounded.eq(shifted_2[1:] + up),
            limit.eq(large_2 | rounded[-1]),
        ]
        bound = Cat((~sign_2).replicate(result.bits - 1), sign_2)
        m.d.sync += self.o.eq(Mux(nan_2, 0, Mux(limit, bound, Mux(sign_2, -rounded, rounded)[:result.bits])))
        return m

"""Fixed-point arithmetic: products, saturating sums, multiples, and the ways from and to floating point.

::

    multiply   a, b -> product -> o                                                         2 cycles, exact
    add        a, b -> sum, saturate -> o                                                   1 cycle
    scale      a, factor -> product -> coarse shift -> fine shift -> round, saturate -> o   4 cycles, to nearest even
    round      a -> round -> saturate -> o                                                  2 cycles, to nearest even
    to float   a -> magnitude -> normalise by 16 -> by 4 -> by 1 -> round up? -> pack -> o  6 cycles, to nearest even
    to fixed   a -> shift amount -> coarse shift -> fine shift -> round -> saturate -> o    5 cycles, to nearest even

One number a cycle, no stall. What is beyond a format becomes its least or largest number; NaN becomes 0. Numbers are
those of :class:`~plinth_hw.isa.formats.Fixed`, whose ``encode`` and ``decode`` are the golden models of both ways.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.common import leading_groups, shift_right_sticky
from plinth_hw.isa.formats import Factor, Fixed, Float
from plinth_hw.lib.choice import select
from plinth_hw.shapes import shape_of


def _formats(kind: type[Fixed] | type[Float], **formats: object) -> None:
    for name, fmt in formats.items():
        if not isinstance(fmt, kind):
            raise TypeError(f"{name.capitalize()} format must be a {kind.__name__}, not {fmt!r}")


def beyond(value: Value, fmt: Fixed) -> Value:
    """Whether a signed value, in units of the format's last place, is beyond the format."""
    above = value[fmt.bits - 1:]
    return above.any() & ~above.all()


def saturated(value: Value, fmt: Fixed) -> Value:
    """A signed value, in units of the format's last place, as the format's nearest number."""
    negative = value[-1]
    return Mux(beyond(value, fmt), Cat((~negative).replicate(fmt.bits - 1), negative), value[:fmt.bits])


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
    subtracts : bool
        ``o = a - b`` instead.

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

    def __init__(self, format: Fixed, subtracts: bool = False):
        _formats(Fixed, adder=format)
        self._format = format
        self._subtracts = subtracts
        super().__init__({"a": In(format.bits), "b": In(format.bits), "o": Out(format.bits)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        total = Signal(signed(self._format.bits + 1))
        o = Signal(self._format.bits, name="sum", reset_less=True)
        a, b = self.a.as_signed(), self.b.as_signed()
        m.d.comb += [total.eq(a - b if self._subtracts else a + b), self.o.eq(o)]
        m.d.sync += o.eq(saturated(total, self._format))
        return m


class FixedScaler(wiring.Component):
    """``o = a * factor``, rounded once to nearest even, saturated.

    Parameters
    ----------
    format : Fixed
        Format of operand and result.
    tells : bool
        It has a member ``beyond``.

    Members
    -------
    a : In
        Operand, taken every cycle.
    factor : In
        With the operand: a :class:`~plinth_hw.isa.formats.Factor`.
    o : Out
        Result for the operand of ``latency`` cycles before.
    beyond : Out(1)
        With the result: it was beyond the format.

    Attributes
    ----------
    latency : int
        Cycles from operand to result: 4.

    Raises
    ------
    TypeError
        If ``format`` is not a :class:`Fixed`.
    """

    latency = 4

    def __init__(self, format: Fixed, tells: bool = False):
        _formats(Fixed, scaler=format)
        self._format = format
        self._tells = tells
        super().__init__({"a": In(format.bits), "factor": In(Factor.BITS), "o": Out(format.bits),
                          **({"beyond": Out(1)} if tells else {})})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        factor = data.View(shape_of(Factor), self.factor)
        product = Signal(signed(self._format.bits + len(factor.mantissa)), reset_less=True)
        m.d.sync += product.eq(self.a.as_signed() * factor.mantissa)
        # 2, 3: shifted right with a guard bit, and whether anything is lost below it.
        amounts = [Signal(len(factor.shift), name=f"amount_{stage}", reset_less=True) for stage in (1, 2)]
        turns = [Signal(name=f"turn_{stage}", reset_less=True) for stage in (1, 2, 3)]
        m.d.sync += [after.eq(before) for chain in ([factor.shift, *amounts], [factor.negative, *turns])
                     for before, after in pairwise(chain)]
        shifted, lost = Cat(Const(0, 1), product).as_signed(), Const(0, 1)
        for stage, (amount, places) in enumerate(((amounts[0][3:], 8), (amounts[1][:3], 1)), 2):
            cases = [amount * places for amount in range(1 << len(amount))]
            register = Signal.like(shifted, name=f"shifted_{stage}", reset_less=True)
            sticky = Signal(name=f"lost_{stage}", reset_less=True)
            m.d.sync += [register.eq(select([shifted >> case for case in cases], amount)),
                         sticky.eq(lost | select([shifted[:case].any() for case in cases], amount))]
            shifted, lost = register, sticky
        # 4: rounded, and turned for a negative factor: -(x + up) = ~x + ~up.
        rounded, up = Signal(signed(len(product) + 1)), Signal()
        turn = turns[-1]
        o = Signal(self._format.bits, name="scaled", reset_less=True)
        m.d.comb += [
            up.eq(shifted[0] & (shifted[1] | lost)), self.o.eq(o),
            rounded.eq(((shifted >> 1) ^ turn.replicate(len(shifted)).as_signed()) + (up ^ turn)),
        ]
        m.d.sync += o.eq(saturated(rounded, self._format))
        if self._tells:
            m.d.sync += self.beyond.eq(beyond(rounded, self._format))
        return m


class FixedRounder(wiring.Component):
    """``o = a`` with fewer fraction bits, rounded once to nearest even, saturated.

    Parameters
    ----------
    a_format, result_format : Fixed

    Members
    -------
    a : In
        Operand, taken every cycle.
    o : Out
        Result of the operand of ``latency`` cycles before.

    Attributes
    ----------
    latency : int
        Cycles from operand to result: 2.

    Raises
    ------
    TypeError
        If a format is not a :class:`Fixed`.
    ValueError
        If the result has not at least one fraction bit less.
    """

    latency = 2

    def __init__(self, a_format: Fixed, result_format: Fixed):
        _formats(Fixed, operand=a_format, result=result_format)
        if result_format.fraction_bits >= a_format.fraction_bits:
            raise ValueError(f"Result format must have less than {a_format.fraction_bits} fraction bits, not "
                             f"{result_format.fraction_bits}")
        self._a_format = a_format
        self._result_format = result_format
        super().__init__({"a": In(a_format.bits), "o": Out(result_format.bits)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        drop = self._a_format.fraction_bits - self._result_format.fraction_bits
        kept, rest = self.a[drop:].as_signed(), self.a[:drop]
        rounded = Signal(signed(len(kept) + 1), reset_less=True)
        o = Signal(self._result_format.bits, name="result", reset_less=True)
        m.d.sync += [rounded.eq(kept + (rest[-1] & (rest[:-1].any() | kept[0]))),
                     o.eq(saturated(rounded, self._result_format))]
        m.d.comb += self.o.eq(o)
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
        Cycles from operand to result: 6.

    Raises
    ------
    TypeError
        If the formats are of other kinds.
    ValueError
        If the result's exponent is too narrow, or the operand wider than 64 bits.
    """

    latency = 6

    def __init__(self, a_format: Fixed, result_format: Float):
        _formats(Fixed, operand=a_format)
        _formats(Float, result=result_format)
        if max(a_format.fraction_bits, a_format.integer_bits + 2) >= result_format.bias:
            raise ValueError(f"Result format must reach from 2^-{a_format.fraction_bits} to "
                             f"2^{a_format.integer_bits}, which {result_format} does not")
        if a_format.bits > 64:
            raise ValueError(f"Operand format must have at most 64 bits, not {a_format.bits}")
        self._a_format = a_format
        self._result_format = result_format
        super().__init__({"a": In(a_format.bits), "o": Out(result_format.bits)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        width, result = self._a_format.bits, self._result_format
        # 1: sign and magnitude.
        signs = [self.a[-1]]
        for stage in range(1, self.latency):
            signs.append(Signal(name=f"sign_{stage}", reset_less=True))
            m.d.sync += signs[-1].eq(signs[-2])
        magnitude = Signal(width, reset_less=True)
        m.d.sync += magnitude.eq(Mux(self.a[-1], -self.a, self.a))
        # 2, 3, 4: the leading bit to the top, by groups of 16, of 4 and of one. The exponent is one less than that of
        # the result, for the leading bit adds one; that of zero is zero.
        normal: Value = magnitude
        exponent: Value = Const(result.bias + self._a_format.integer_bits - 1, result.exponent_bits)
        for group in (16, 4, 1):
            groups = min(4, -(-width // group))
            empty = [~normal[max(0, width - (number + 1) * group):width - number * group].any()
                     for number in range(groups)]
            count = leading_groups(m, f"empty_{group}", empty)
            moved = [Cat(Const(0, group * number), normal)[:width] for number in range(groups)]
            further, less = (Signal(size, name=f"{name}_{group}", reset_less=True) for name, size in (
                ("normal", width), ("exponent", result.exponent_bits)))
            m.d.sync += [further.eq(select(_padded(moved, len(count)), count)), less.eq(exponent - count * group)]
            normal, exponent = further, less
        # 5: fraction, and whether it is rounded up.
        padded = Cat(Const(0, max(0, result.fraction_bits + 3 - width)), normal)
        below = len(padded) - result.fraction_bits - 1
        rest = padded[:below]
        kept = Signal(result.fraction_bits + 1, reset_less=True)
        field = Signal(result.exponent_bits, reset_less=True)
        up = Signal(reset_less=True)
        m.d.sync += [
            kept.eq(padded[below:]), field.eq(Mux(normal[-1], exponent, 0)),
            up.eq(rest[-1] & (rest[:-1].any() | padded[below])),
        ]
        # 6: the leading bit adds one to the exponent, as a carry does.
        bits = Signal(result.bits - 1)
        m.d.comb += bits.eq(Cat(kept[:-1], field) + Cat(up, Const(0, result.fraction_bits - 1), kept[-1]))
        m.d.sync += self.o.eq(Cat(bits, signs[-1]))
        return m


def _padded(cases: list[Value], bits: int) -> list[Value]:
    """As many cases as an index of so many bits has values; the last one again for those that do not occur."""
    return cases + [cases[-1]] * ((1 << bits) - len(cases))


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
        Cycles from operand to result: 5.

    Raises
    ------
    TypeError
        If the formats are of other kinds.
    ValueError
        If the result's format is too narrow.
    """

    latency = 5

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
        most = result.bits
        classes = data.StructLayout({"sign": 1, "nan": 1, "large": 1})
        kinds = [Signal(classes, name=f"kind_{stage}", reset_less=True) for stage in range(1, self.latency)]
        significand = Signal(a.fraction_bits + 1, reset_less=True)
        amount = Signal(range(most + 1), reset_less=True)
        distance = Signal(Shape(a.exponent_bits + 2, signed=True))
        m.d.comb += distance.eq(a.bias + result.integer_bits - 1 - Mux(exponent.any(), exponent, 1))
        m.d.sync += [
            significand.eq(Cat(fraction, exponent.any())), kinds[0].sign.eq(sign),
            kinds[0].nan.eq(exponent.all() & fraction.any()), kinds[0].large.eq(distance < 0),
            amount.eq(Mux(distance > most, most, distance[:len(amount)])),
            *(after.eq(before) for before, after in pairwise(kinds)),
        ]
        # 2, 3: shifted, with a guard bit.
        fine = min(3, len(amount) - 1)
        padding = result.bits - 1 - len(significand)
        coarse, lost_coarse = shift_right_sticky(m, "coarse", Cat(Const(0, padding + 1), significand), amount[fine:],
                                                 result.bits, fine)
        coarse_2 = Signal(len(coarse), reset_less=True)
        amount_2 = Signal(fine, reset_less=True)
        sticky_2, sticky_3 = (Signal(name=f"sticky_{stage}", reset_less=True) for stage in (2, 3))
        shifted, lost = shift_right_sticky(m, "fine", coarse_2, amount_2, result.bits)
        shifted_3 = Signal(result.bits, reset_less=True)
        m.d.sync += [coarse_2.eq(coarse), amount_2.eq(amount[:fine]), sticky_2.eq(lost_coarse),
                     shifted_3.eq(shifted), sticky_3.eq(lost | sticky_2)]
        # 4: rounded, and turned for its sign: -(x + up) = ~x + ~up.
        up = Signal()
        number = Signal(result.bits, reset_less=True)
        turn = kinds[2].sign
        m.d.comb += up.eq(shifted_3[0] & (shifted_3[1] | sticky_3))
        m.d.sync += number.eq((Cat(shifted_3[1:], 0) ^ turn.replicate(result.bits)) + (up ^ turn))
        # 5: what is large is known by its exponent, or by a carry into the sign.
        kind = kinds[3]
        limit = kind.large | (number[-1] & ~kind.sign)
        bound = Cat((~kind.sign).replicate(result.bits - 1), kind.sign)
        m.d.sync += self.o.eq(Mux(kind.nan, 0, Mux(limit, bound, number)))
        return m

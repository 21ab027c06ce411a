"""Fixed-point arithmetic: products, saturating sums, multiples, rounding.

::

    multiply   a, b -> product -> o                                                         2 cycles, exact
    add        a, b -> sum, saturate -> o; or exact, with a bit more                        1 cycle
    scale      a, factor -> product -> coarse shift -> fine shift -> round, saturate -> o   4 cycles, to nearest even
               of more than 18 bits: parts of the product, their sum; round, then saturate  6 cycles
    round      a -> round -> saturate -> o                                                  2 cycles, to nearest even

One number a cycle, no stall. What is beyond a format becomes its least or largest number. Numbers are those of
:class:`~plinth_hw.isa.formats.Fixed`.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.significand import ECP5_MULTIPLIER_BITS, mult18
from plinth_hw.isa.formats import Factor, Fixed
from plinth_hw.lib.choice import select
from plinth_hw.lib.delay import delayed
from plinth_hw.shapes import shape_of

#: Bits of the low part of an operand that takes more than one multiplier.
_PART_BITS = 17


def _formats(**formats: object) -> None:
    for name, fmt in formats.items():
        if not isinstance(fmt, Fixed):
            raise TypeError(f"{name.capitalize()} format must be a Fixed, not {fmt!r}")


def beyond(value: Value, fmt: Fixed) -> Value:
    """Whether a signed value, in units of the format's last place, is beyond the format."""
    above = value[fmt.bits - 1:]
    return above.any() & ~above.all()


def saturated(value: Value, fmt: Fixed) -> Value:
    """A signed value, in units of the format's last place, as the format's nearest number."""
    negative = value[-1]
    return Mux(beyond(value, fmt), Cat((~negative).replicate(fmt.bits - 1), negative), value[:fmt.bits])


class FixedMultiplier(wiring.Component):
    """``o = a * b``; on a platform whose ``family`` is ``"ecp5"``, in registers of a ``MULT18X18D``.

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
        _formats(operand=a_format, result=result_format)
        if (result_format.fraction_bits != 2 * a_format.fraction_bits
                or result_format.integer_bits <= 2 * a_format.integer_bits):
            raise ValueError(f"Result format must have {2 * a_format.fraction_bits} fraction bits and more than "
                             f"{2 * a_format.integer_bits} integer bits to hold products of {a_format}, not "
                             f"{result_format}")
        self._bits = 2 * a_format.bits
        super().__init__({"a": In(a_format.bits), "b": In(a_format.bits), "o": Out(result_format.bits)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        if getattr(platform, "family", None) == "ecp5" and self._bits <= 2 * ECP5_MULTIPLIER_BITS:
            m.d.comb += self.o.eq(mult18(m, "product", self.a.as_signed(), self.b.as_signed()).as_signed())
            return m
        product, product_1 = (Signal(signed(self._bits), name=f"product_{stage}", reset_less=True)
                              for stage in (1, 2))
        m.d.sync += [product.eq(self.a.as_signed() * self.b.as_signed()), product_1.eq(product)]
        m.d.comb += self.o.eq(product_1)
        return m


class FixedAdder(wiring.Component):
    """``o = a + b``, saturated, or with a bit more.

    Parameters
    ----------
    format : Fixed
        Format of operands and sum.
    subtracts : bool
        ``o = a - b`` instead.
    exact : bool
        The sum has one bit more than the format and is not saturated.
    tells : bool
        It has a member ``beyond``.

    Members
    -------
    a, b : In
        Operands, taken every cycle.
    o : Out
        Sum of the operands of the cycle before.
    beyond : Out(1)
        With the sum: it was beyond the format.

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

    def __init__(self, format: Fixed, subtracts: bool = False, exact: bool = False, tells: bool = False):
        _formats(adder=format)
        self._format = format
        self._subtracts = subtracts
        self._exact = exact
        self._tells = tells
        super().__init__({"a": In(format.bits), "b": In(format.bits), "o": Out(format.bits + exact),
                          **({"beyond": Out(1)} if tells else {})})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        total = Signal(signed(self._format.bits + 1))
        o = Signal(len(self.o), name="sum", reset_less=True)
        a, b = self.a.as_signed(), self.b.as_signed()
        m.d.comb += [total.eq(a - b if self._subtracts else a + b), self.o.eq(o)]
        m.d.sync += o.eq(total if self._exact else saturated(total, self._format))
        if self._tells:
            m.d.sync += self.beyond.eq(beyond(total, self._format))
        return m


class FixedScaler(wiring.Component):
    """``o = a * factor``, rounded once to nearest even, saturated.

    Parameters
    ----------
    format : Fixed
        Format of the operand, of 34 bits at most.
    tells : bool
        It has a member ``beyond``.
    result_format : Fixed or None
        Format of the result: as many fraction bits, or one less; None: that of the operand.

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
        Cycles from operand to result: 4, or 6 for operands of more than 18 bits.

    Raises
    ------
    TypeError
        If a format is not a :class:`Fixed`.
    ValueError
        If the operand is too wide, or the result has other fraction bits.
    """

    latency = 4

    def __init__(self, format: Fixed, tells: bool = False, result_format: Fixed | None = None):
        result = format if result_format is None else result_format
        _formats(scaler=format, result=result)
        if format.bits > 2 * _PART_BITS:
            raise ValueError(f"Scaled numbers must have at most {2 * _PART_BITS} bits, not {format.bits} as {format} "
                             "has")
        if format.fraction_bits - result.fraction_bits not in (0, 1):
            raise ValueError(f"Result format must have {format.fraction_bits} fraction bits or one less, not "
                             f"{result.fraction_bits}")
        self._format = format
        self._result = result
        self._tells = tells
        self._wide = format.bits > _PART_BITS + 1
        if self._wide:
            self.latency = FixedScaler.latency + 2
        super().__init__({"a": In(format.bits), "factor": In(Factor.BITS), "o": Out(result.bits),
                          **({"beyond": Out(1)} if tells else {})})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fmt, bits = self._result, self._result.bits
        factor = data.View(shape_of(Factor), self.factor)
        product = Signal(signed(self._format.bits + len(factor.mantissa)), reset_less=True)
        if self._wide:
            high, low = self.a[_PART_BITS:].as_signed(), self.a[:_PART_BITS]
            high_part = Signal(signed(len(product) - _PART_BITS), reset_less=True)
            low_part = Signal(_PART_BITS + len(factor.mantissa), reset_less=True)
            m.d.sync += [high_part.eq(high * factor.mantissa), low_part.eq(low * factor.mantissa),
                         product.eq(Cat(low_part[:_PART_BITS], high_part + low_part[_PART_BITS:]))]
        else:
            m.d.sync += product.eq(self.a.as_signed() * factor.mantissa)
        product_cycles = 2 if self._wide else 1
        amount = delayed(m, "amount", factor.shift, product_cycles)
        fine = delayed(m, "fine", amount[:3], 1)
        turn = delayed(m, "turn", factor.negative, product_cycles + 2)
        # Shifted right with a guard bit, whether anything is lost below it, and whether the number is beyond what the
        # bits that are kept can tell.
        dropped = self._format.fraction_bits - fmt.fraction_bits
        shifted, lost, over = Cat(Const(0, 1 - dropped), product).as_signed(), Const(0, 1), Const(0, 1)
        for name, places, step in (("coarse", amount[3:], 8), ("fine", fine, 1)):
            cases = [place * step for place in range(1 << len(places))]
            # The guard, a number with a bit more than the format, and what is still to be shifted out.
            kept = min(len(shifted), bits + 2 + step - 1)
            found = Signal(signed(len(shifted)), name=f"{name}_found")
            register = Signal(signed(kept), name=f"{name}_shifted", reset_less=True)
            sticky, gone = (Signal(name=f"{name}_{what}", reset_less=True) for what in ("lost", "beyond"))
            m.d.comb += found.eq(select([shifted >> case for case in cases], places))
            m.d.sync += [register.eq(Cat(found[:kept - 1], found[-1])),
                         gone.eq(over | (found[kept - 1:].any() & ~found[kept - 1:].all())),
                         sticky.eq(lost | select([shifted[:case].any() for case in cases], places))]
            shifted, lost, over = register, sticky, gone
        # Rounded, and turned for a negative factor: -(x + up) = ~x + ~up.
        rounded, up = Signal(signed(len(shifted) + 1)), Signal()
        o = Signal(bits, name="scaled", reset_less=True)
        m.d.comb += [
            up.eq(shifted[0] & (shifted[1] | lost)), self.o.eq(o),
            rounded.eq(((shifted >> 1) ^ turn.replicate(len(shifted)).as_signed()) + (up ^ turn)),
        ]
        value, negative = rounded, shifted[-1] ^ turn
        if self._wide:
            value, over, negative = (delayed(m, name, word, 1) for name, word in (
                ("rounded", rounded), ("over", over), ("negative", negative)))
        ends = over | beyond(value, fmt)
        m.d.sync += o.eq(Mux(ends, Cat((~negative).replicate(bits - 1), negative), value[:bits]))
        if self._tells:
            m.d.sync += self.beyond.eq(ends)
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
        _formats(operand=a_format, result=result_format)
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

"""Fixed-point arithmetic: products, saturating sums, multiples, rounding.

::

    multiply   a, b -> product -> o                                                         2 cycles, exact
    add        a, b -> sum, saturate -> o; or exact, with a bit more                        1 cycle
    scale      a, factor -> product -> coarse shift -> fine shift -> round, saturate -> o   4 cycles, to nearest even
               of more than 18 bits: parts of the product, their sum; round, then saturate  6 cycles
               operands in registers first; round, then saturate                            6 cycles
    round      a -> round -> saturate -> o                                                  2 cycles, to nearest even

One number a cycle, no stall. What is beyond a format becomes its least or largest number. Numbers are those of
:class:`~plinth_hw.isa.formats.Fixed`.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.carry import Digits, table_sum
from plinth_hw.arith.significand import ECP5_MULTIPLIER_BITS, mult18
from plinth_hw.isa.formats import Factor, Fixed
from plinth_hw.lib.choice import one_registered
from plinth_hw.lib.delay import delayed
from plinth_hw.shapes import shape_of

#: Bits of the low part of an operand that takes more than one multiplier.
_PART_BITS = 17


def _formats(**formats: object) -> None:
    for name, fmt in formats.items():
        if not isinstance(fmt, Fixed):
            raise TypeError(f"{name.capitalize()} format must be a Fixed, not {fmt!r}")


def _differ(word: Value) -> Value:
    """Whether not all bits are the same."""
    return word.any() & ~word.all() if len(word) > 1 else Const(0, 1)


def _part(value: Value, low: int, bits: int) -> Value:
    """So many bits of a signed value: those from place ``low`` on, the last of them the sign."""
    return Cat(Cat(value[low:], value[-1].replicate(bits))[:bits - 1], value[-1])


def beyond(value: Value, fmt: Fixed) -> Value:
    """Whether a signed value, in units of the format's last place, is beyond the format."""
    return _differ(value[fmt.bits - 1:])


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

    A shift by eights, then one by twos, each into a register for every amount, zero but for the one wanted; what is
    left of it, a place or none, is chosen in the carry chain that rounds. -x = ~(x - 1), so a result for a negative
    factor is one less and then turned, as are the format's ends: what is kept of a number beyond them is zero.

    Parameters
    ----------
    format : Fixed
        Format of the operand, of 34 bits at most.
    tells : bool
        It has a member ``beyond``.
    result_format : Fixed or None
        Format of the result: as many fraction bits, or one less; None: that of the operand.
    signed_mantissa : bool
        It has a member ``below``.
    registered : bool
        Operands, of 18 bits at most, go into registers first; on a platform whose ``family`` is ``"ecp5"`` those of a
        ``MULT18X18D``, as does the product. What saturates is found from a register behind the carry chain.

    Members
    -------
    a : In
        Operand, taken every cycle.
    factor : In
        With the operand: a :class:`~plinth_hw.isa.formats.Factor`.
    below : In(1)
        With the factor: its mantissa, not zero, stands for 2^16 less.
    o : Out
        Result for the operand of ``latency`` cycles before.
    beyond : Out(1)
        With the result: it was beyond the format.

    Attributes
    ----------
    latency : int
        Cycles from operand to result: 4, or 6 for operands of more than 18 bits, or if they are registered.

    Raises
    ------
    TypeError
        If a format is not a :class:`Fixed`.
    ValueError
        If the operand is too wide, also for registers, or the result has other fraction bits.
    """

    latency = 4

    def __init__(self, format: Fixed, tells: bool = False, result_format: Fixed | None = None,
                 signed_mantissa: bool = False, registered: bool = False):
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
        self._signed = signed_mantissa
        self._wide = format.bits > _PART_BITS + 1
        self._registered = registered
        if registered and self._wide:
            raise ValueError(f"Registered operands must have at most {_PART_BITS + 1} bits, not {format.bits} as "
                             f"{format} has")
        self.latency = FixedScaler.latency + 2 * (self._wide | registered)
        super().__init__({"a": In(format.bits), "factor": In(Factor.BITS), "o": Out(result.bits),
                          **({"beyond": Out(1)} if tells else {}), **({"below": In(1)} if signed_mantissa else {})})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        bits = self._result.bits
        factor = data.View(shape_of(Factor), self.factor)
        mantissa = Cat(factor.mantissa, self.below).as_signed() if self._signed else factor.mantissa
        product, cycles = self._product(m, platform, mantissa)
        shift = delayed(m, "shift", factor.shift, cycles)
        fine = delayed(m, "fine", shift[:3], 1)
        half = delayed(m, "half", fine[0], 1)
        turn = delayed(m, "turn", factor.negative, cycles + 2)

        # Shifted by eights, with a guard bit, whether anything is lost below it, and whether the number is beyond what
        # is kept: a number with two bits more than the format, and what is still to be shifted out.
        dropped = self._format.fraction_bits - self._result.fraction_bits
        guarded = Cat(Const(0, 1 - dropped), product).as_signed()
        kept = bits + 3 + 6
        wanted = [shift[3:] == eights for eights in range(4)]
        places = range(0, 32, 8)
        coarse, lost, over = Signal(kept, name="coarse"), Signal(name="lost"), Signal(name="over_coarse")
        m.d.comb += [
            coarse.eq(one_registered(m, "coarse", wanted, [_part(guarded, low, kept) for low in places])),
            lost.eq(one_registered(m, "lost", wanted, [guarded[:low].any() for low in places])),
            over.eq(one_registered(m, "over_coarse", wanted, [_differ(guarded[low + kept - 1:]) for low in places])),
        ]
        # Shifted by twos, whether it is rounded up, and whether the number is beyond what is kept.
        shown = Signal(8, name="shown")
        m.d.comb += shown.eq(Mux(fine[0], coarse[1:9], coarse[:8]))
        last_lost = lost | (fine[0] & coarse[0])
        # What saturates a cycle after it is rounded leaves that long to find numbers beyond.
        late = int(self._wide or self._registered)
        top, top_fine = (delayed(m, name, word, late) for name, word in (
            ("top", Cat(over, coarse[bits + 2:])), ("top_fine", fine[1:])))
        wanted, top_wanted = ([amount == twos for twos in range(4)] for amount in (fine[1:], top_fine))
        places = range(0, 8, 2)
        number, up, beyond_kept = Signal(bits + 3, name="number"), Signal(name="up"), Signal(name="over_fine")
        m.d.comb += [
            number.eq(one_registered(m, "fine", wanted, [_part(coarse, low, bits + 3) for low in places])),
            up.eq(one_registered(m, "up", wanted, [shown[low] & (shown[:low].any() | shown[low + 1] | last_lost)
                                                   for low in places])),
            beyond_kept.eq(one_registered(m, "over_fine", top_wanted, [top[0] | _differ(top[1 + low:])
                                                                       for low in places])),
        ]
        sign = number[-1]
        rounded: Value = table_sum(m, platform, "total", [
            Digits((turn, half, Cat(number[2:], sign), number[1:]), lambda t, h, x, y: (x & h) | (y & ~h),
                   lambda t, h, x, y: t)], carry=up)
        rounded, sign, turn = (delayed(m, name, word, late) for name, word in (
            ("rounded", rounded), ("sign", sign), ("last_turn", turn)))
        ends, o = Signal(name="ends"), Signal(bits, name="scaled", reset_less=True)
        turned, top_turned = Signal(name="turned", reset_less=True), Signal(name="top_turned", reset_less=True)
        m.d.comb += [ends.eq(beyond_kept | _differ(rounded[bits - 1:])),
                     self.o.eq(o ^ Cat(turned.replicate(bits - 1), top_turned))]
        m.d.sync += [o.eq(Mux(ends, 0, rounded[:bits])), turned.eq(turn ^ (ends & ~sign)),
                     top_turned.eq(turn ^ (ends & sign))]
        if self._tells:
            m.d.sync += self.beyond.eq(ends)
        return m

    def _product(self, m: Module, platform: Any, mantissa: Value) -> tuple[Value, int]:
        """Exact, and how many cycles later."""
        bits = self._format.bits + Factor.FIELDS["mantissa"].shape.bits
        a = self.a.as_signed()
        if self._registered and getattr(platform, "family", None) == "ecp5":
            factor = mantissa if self._signed else Cat(mantissa, Const(0, 1)).as_signed()
            return mult18(m, "product", a, factor)[:bits].as_signed(), 2
        product = Signal(signed(bits), reset_less=True)
        if self._registered:
            a, mantissa = (delayed(m, name, value, 1) for name, value in (("a", a), ("mantissa", mantissa)))
        if not self._wide:
            m.d.sync += product.eq(a * mantissa)
            return product, 1 + self._registered
        high, low = self.a[_PART_BITS:].as_signed(), self.a[:_PART_BITS]
        high_part = Signal(signed(len(product) - _PART_BITS), reset_less=True)
        low_part = Signal.like(low * mantissa, name="low_part", reset_less=True)
        m.d.sync += [high_part.eq(high * mantissa), low_part.eq(low * mantissa),
                     product.eq(Cat(low_part[:_PART_BITS], high_part + (low_part >> _PART_BITS)))]
        return product, 2


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

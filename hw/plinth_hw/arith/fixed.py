"""Fixed-point arithmetic: products, saturating sums, multiples, rounding.

::

    multiply   a, b -> product -> o                                                         2 cycles, exact
    add        a, b -> sum, saturate -> o                                                   1 cycle
    scale      a, factor -> product -> coarse shift -> fine shift -> round, saturate -> o   4 cycles, to nearest even
    round      a -> round -> saturate -> o                                                  2 cycles, to nearest even

One number a cycle, no stall. What is beyond a format becomes its least or largest number. Numbers are those of
:class:`~plinth_hw.isa.formats.Fixed`.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

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

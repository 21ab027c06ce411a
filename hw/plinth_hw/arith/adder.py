"""Floating-point adder: one IEEE-754 sum a cycle, rounded to nearest even.

::

    a, b -> compare, swap -> exponent difference, -> fine align, -> normalise  -> normalise -> round, -> o
                             coarse align            add            by 16, 8      by 4, 2, 1   pack

Six register stages, no stall: the sum of the operands of cycle t is at ``o`` from cycle t + 6, and every
cycle takes new operands. Subnormals are exact; every NaN is the format's quiet NaN. To subtract, flip the
sign of ``b``. ``x + (-0)`` is ``x``, bit for bit, for every x but NaN.

One path serves near and far operands. The sum is normalised by ``min(leading zeros, biased exponent)``, taken
greedily, one power of two a step: with ``shift`` so limited, ``exponent - shift`` plus the leading bit is the
result's exponent field for normal and subnormal numbers alike.

The larger of two numbers is the one of larger magnitude if that is positive, else the other one: one of them is
left out of the sum.
"""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.carry import Digits, table_sum
from plinth_hw.arith.common import empty_groups, leading_groups, shift_right_sticky, special_or
from plinth_hw.isa.formats import Float
from plinth_hw.lib.choice import select

#: Normalisation goes by groups of ``2**2`` places first, then by places.
_GROUP_LOG2 = 2


class FloatAdder(wiring.Component):
    """``o = a + b``.

    Parameters
    ----------
    format : Float
        Format of operands and sum.
    chooses : bool
        There is a member ``larger``.

    Members
    -------
    a, b : In
        Operands, taken every cycle.
    larger : In(1)
        With the operands: instead of their sum the larger of both is wanted; a NaN in either gives NaN, +0 is larger
        than -0.
    o : Out
        Sum of the operands of ``latency`` cycles before.

    Attributes
    ----------
    latency : int
        Cycles from operands to sum: 6 for every format.

    Raises
    ------
    TypeError
        If ``format`` is not a :class:`Float`.
    """

    def __init__(self, format: Float, *, chooses: bool = False):
        if not isinstance(format, Float):
            raise TypeError(f"Adder format must be a Float, not {format!r}")
        self._format = format
        self._chooses = chooses
        super().__init__({"a": In(format.bits), "b": In(format.bits), "o": Out(format.bits),
                          **({"larger": In(1)} if chooses else {})})

    @property
    def format(self) -> Float:
        """Format of operands and sum."""
        return self._format

    @property
    def latency(self) -> int:
        """Cycles from operands to sum."""
        return 6

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fmt = self._format
        fraction, exponent = fmt.fraction_bits, fmt.exponent_bits
        #: Guard, round and sticky below the significand.
        aligned = fraction + 1 + 3
        #: The carry above it.
        total = aligned + 1

        def register(width: int, name: str) -> Signal:
            return Signal(width, name=name, reset_less=True)

        # Stage 1: x has the larger magnitude; so if only one of both is normal, it is x.
        x = register(fmt.bits, "x_1")
        y = register(fmt.bits - 1, "y_1")
        subtract, x_normal, y_normal, larger = (register(1, f"{name}_1")
                                                for name in ("subtract", "x_normal", "y_normal", "larger"))
        swap, a_normal, b_normal = Signal(name="swap"), Signal(name="a_normal"), Signal(name="b_normal")
        m.d.comb += [
            swap.eq(self.a[:-1] < self.b[:-1]),
            a_normal.eq(self.a[fraction:-1].any()),
            b_normal.eq(self.b[fraction:-1].any()),
        ]
        m.d.sync += [
            x.eq(Mux(swap, self.b, self.a)),
            y.eq(Mux(swap, self.a, self.b)),
            subtract.eq(self.a[-1] ^ self.b[-1]),
            x_normal.eq(a_normal | b_normal),
            y_normal.eq(a_normal & b_normal),
            larger.eq(self.larger if self._chooses else 0),
        ]

        # Stage 2: exponent difference, alignment by its higher bits.
        x_exponent, y_exponent = x[fraction:-1], y[fraction:]
        x_special, y_special = Signal(name="x_special"), Signal(name="y_special")
        difference = Signal(exponent + 1)
        m.d.comb += [
            x_special.eq(x_exponent.all()),
            y_special.eq(y_exponent.all()),
            # A subnormal's exponent counts as 1: one less if only y is subnormal, brought in as a carry.
            difference.eq(Cat(Const(1, 1), x_exponent) + Cat(y_normal | ~x_normal, ~y_exponent)),
        ]
        levels = min(exponent, (aligned - 1).bit_length())
        amount = difference[1:]
        fine_levels = min(3, levels)
        y_significand = Cat(Const(0, 2), y[:fraction], y_normal)
        only_x, only_y = Signal(name="only_x"), Signal(name="only_y")
        m.d.comb += [only_x.eq(larger & ~x[-1]), only_y.eq(larger & x[-1])]
        coarse_amount = amount[fine_levels:levels] & ~only_y.replicate(levels - fine_levels)
        coarse, lost = Signal(fraction + 3, name="coarse"), Signal(name="lost")
        m.d.comb += [
            coarse.eq(y_significand >> Cat(Const(0, fine_levels), coarse_amount)),
            lost.eq(select([y_significand[:i << fine_levels].any() for i in range(1 << len(coarse_amount))],
                           coarse_amount)),
        ]
        far = only_x | (amount[levels:].any() & ~only_y)

        sign_2, subtract_2 = register(1, "sign_2"), register(1, "subtract_2")
        nan_2, infinite_2 = register(1, "nan_2"), register(1, "infinite_2")
        exponent_2 = register(exponent, "exponent_2")
        # The amount's middle bits are known in time for a register each, zero but for the one wanted: none has to be
        # chosen.
        middle = amount[1:fine_levels]
        x_2 = register(fraction + 1, "x_2")
        y_2 = [register(fraction + 3, f"y_2_{places}") for places in range(0, 1 << fine_levels, 2)]
        sticky_2, amount_2 = register(1, "sticky_2"), register(1, "amount_2")
        m.d.sync += [
            sign_2.eq(x[-1] & ~(only_y & subtract)),
            subtract_2.eq(subtract & ~larger),
            nan_2.eq(x_special & (x[:fraction].any() | (y_special & subtract & ~larger))),
            infinite_2.eq(Mux(only_y, y_special, x_special)),
            exponent_2.eq(Mux(only_y, y_exponent | ~y_normal, x_exponent | ~x_normal)),
            x_2.eq(Mux(only_y, 0, Cat(x[:fraction], x_normal))),
            *(moved.eq(Mux(far | (Mux(only_y, 0, middle) != index), 0, coarse)) for index, moved in enumerate(y_2)),
            sticky_2.eq(Mux(far, y.any(), lost) & ~larger),
            amount_2.eq(amount[0] & ~only_y),
        ]

        # Stage 3: fine alignment, sum.
        aligned_2, lost_2 = Signal(fraction + 3, name="aligned_2"), Signal(name="lost_2")
        m.d.comb += [
            aligned_2.eq(reduce(or_, (moved[2 * index:] for index, moved in enumerate(y_2)))),
            lost_2.eq(Cat(moved[:2 * index] for index, moved in enumerate(y_2)).any()),
        ]
        fine, lost = shift_right_sticky(m, "fine", aligned_2, amount_2, fraction + 3)
        addend = Signal(total)
        m.d.comb += addend.eq(Cat(sticky_2 | lost_2 | lost, fine) ^ subtract_2.replicate(total))
        # The lowest place carries the 1 of a subtraction in.
        total_sum = Cat(Const(1, 4), x_2) + Cat(subtract_2, addend)
        # The exponent, as far as it can limit the normalisation: by how many groups, and places beyond them.
        count = -(-total >> _GROUP_LOG2)
        limit_bits = (count - 1).bit_length() + _GROUP_LOG2
        limit = Signal(limit_bits)
        m.d.comb += limit.eq(exponent_2[:limit_bits] | exponent_2[limit_bits:].any().replicate(limit_bits))
        sign_3, subtract_3 = register(1, "sign_3"), register(1, "subtract_3")
        nan_3, infinite_3 = register(1, "nan_3"), register(1, "infinite_3")
        exponent_3 = register(exponent, "exponent_3")
        allowed_3, limit_3 = register(count, "allowed_3"), register(_GROUP_LOG2, "limit_3")
        sum_3 = register(total, "sum_3")
        m.d.sync += [
            sign_3.eq(sign_2), subtract_3.eq(subtract_2), nan_3.eq(nan_2), infinite_3.eq(infinite_2),
            exponent_3.eq(exponent_2),
            allowed_3.eq(Cat(limit[_GROUP_LOG2:] > number for number in range(count))),
            limit_3.eq(limit[:_GROUP_LOG2]),
            sum_3.eq(total_sum[1:]),
        ]

        # Stage 4: normalise by fours, by min(leading zeros, exponent) so that subnormals stay.
        empty = Cat(*empty_groups(m, "sum", sum_3, _GROUP_LOG2))
        zero = empty.all()
        # Whether the shift is of so many groups at least; one of zero may be of any.
        reached = [Const(1), *(Signal(name=f"reached_{number}") for number in range(1, count)), Const(0), Const(0)]
        m.d.comb += [reached[number].eq(empty[:number].all() & allowed_3[number - 1]) for number in range(1, count)]
        groups = Signal(limit_bits - _GROUP_LOG2)
        m.d.comb += groups.eq(reduce(or_, (
            Mux(reached[number] & ~reached[number + 1], number, 0) for number in range(1, count))))
        sign_4 = register(1, "sign_4")
        nan_4, infinite_4 = register(1, "nan_4"), register(1, "infinite_4")
        exponent_4 = register(exponent, "exponent_4")
        limit_4 = register(_GROUP_LOG2, "limit_4")
        # Registers for the groups by twos, of which only an odd one changes what the others hold.
        part = _GROUP_LOG2 + 1
        partly = Mux(groups[0], sum_3 << (1 << _GROUP_LOG2), sum_3)[:total]
        sums_4 = [register(total, f"sum_4_{number}") for number in range(-(-count // 2))]
        m.d.sync += [
            sign_4.eq(sign_3 & ~(zero & subtract_3)), nan_4.eq(nan_3), infinite_4.eq(infinite_3),
            exponent_4.eq(Mux(zero, 0, Cat(exponent_3[:_GROUP_LOG2], exponent_3[_GROUP_LOG2:] - groups))),
            limit_4.eq(Mux(zero, 0, Mux((allowed_3 & ~empty).any(), -1, limit_3))),
            *(moved.eq(Mux(reached[2 * number] & ~reached[2 * number + 2], partly << (number << part), 0))
              for number, moved in enumerate(sums_4)),
        ]

        # Stage 5: normalise by the rest, with a register for each number of places, zero but for the one wanted.
        sum_4 = Signal(total)
        m.d.comb += sum_4.eq(reduce(or_, sums_4))
        places = leading_groups(m, "places", [~bit for bit in reversed(sum_4[-1 << _GROUP_LOG2:])], limit_4)
        sign_5 = register(1, "sign_5")
        nan_5, infinite_5 = register(1, "nan_5"), register(1, "infinite_5")
        exponent_5 = register(exponent, "exponent_5")
        sums_5 = [register(total - 3, f"sum_5_{number}") for number in range(1 << _GROUP_LOG2)]
        sticky_5 = register(1, "sticky_5")
        m.d.sync += [
            sign_5.eq(sign_4), nan_5.eq(nan_4), infinite_5.eq(infinite_4),
            exponent_5.eq(exponent_4 - places),
            *(moved.eq(Mux(places == number, sum_4[3 - number:total - number], 0))
              for number, moved in enumerate(sums_5)),
            sticky_5.eq(select([sum_4[:3 - number].any() for number in range(1 << _GROUP_LOG2)], places)),
        ]

        # Stage 6: round and pack. exponent_5 is one less than the field when the leading bit is set.
        overflow, carry = Signal(name="overflow"), Signal(name="carry")
        low, guard, leading = (Cat(moved[bit] for moved in sums_5).any() for bit in (1, 0, -1))
        m.d.comb += [
            carry.eq(guard & (low | sticky_5)),
            overflow.eq(exponent_5 == fmt.exponent_maximum - 1),
        ]
        magnitude = table_sum(m, platform, "magnitude", [
            Digits(tuple(moved[1:-1] for moved in sums_5), lambda a, b, c, d: a | b | c | d),
            Digits((exponent_5[0], leading), lambda a, b: a, lambda a, b: b),
            Digits((exponent_5[1:],), lambda a: a),
        ], carry)
        m.d.sync += self.o.eq(special_or(fmt, nan_5, infinite_5 | overflow, sign_5, magnitude))
        return m

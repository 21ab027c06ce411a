"""Floating-point multiplier: one IEEE-754 product a cycle, rounded to nearest even or exact.

::

    a, b -> significands -> multiply, -> sum partials,      -> shift, -> round, -> o
            classify        count zeros  shift and exponent    sticky    pack

Five register stages, no stall: the product of the operands of cycle t is at ``o`` from cycle t + 5, and
every cycle takes new operands. Subnormals are exact on both sides; every NaN is the format's quiet NaN.

Subnormal operands are not normalised before the multiplication. With ``q = ea + eb - bias - 1`` (exponents
of subnormals are 1) the product is shifted left by ``s = min(z, q)``, to the right where that is negative;
z is the leading zeros of the operands, counted while the multiplier works. ``q - s`` plus the leading bits
is then the result's exponent field for normal and subnormal results alike.

One description serves every pair of formats. Where the result's format holds every product (FP16 x FP16 into
FP32) right shift, rounding and overflow have constant inputs and vanish.
"""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.carry import Digits, table_sum
from plinth_hw.arith.common import leading_zeros, shift_right_sticky, special_or
from plinth_hw.arith.significand import SignificandMultiplier
from plinth_hw.isa.formats import Float
from plinth_hw.lib.choice import select

#: High bits of the shift amount that are used as soon as they are known.
_HIGH_BITS = 2
#: Low bits of the shift amount, which are used last.
_FINE_BITS = 2


class FloatMultiplier(wiring.Component):
    """``o = a * b``.

    Parameters
    ----------
    a_format : Float
        Format of both operands.
    result_format : Float
        Format of the product.
    gated : bool
        There is a member ``wanted``.

    Members
    -------
    a, b : In
        Operands, taken every cycle.
    wanted : In(1)
        A cycle before the product: it is wanted, or else zero.
    o : Out
        Product of the operands of ``latency`` cycles before.

    Attributes
    ----------
    latency : int
        Cycles from operands to product: 5 for every pair of formats.

    Raises
    ------
    TypeError
        If a format is not a :class:`Float`.
    """

    def __init__(self, a_format: Float, result_format: Float, *, gated: bool = False):
        for name, fmt in (("Operand", a_format), ("Result", result_format)):
            if not isinstance(fmt, Float):
                raise TypeError(f"{name} format must be a Float, not {fmt!r}")
        self._a_format = a_format
        self._result_format = result_format
        self._gated = gated
        super().__init__({"a": In(a_format.bits), "b": In(a_format.bits), "o": Out(result_format.bits),
                          **({"wanted": In(1)} if gated else {})})

    @property
    def a_format(self) -> Float:
        """Format of both operands."""
        return self._a_format

    @property
    def result_format(self) -> Float:
        """Format of the product."""
        return self._result_format

    @property
    def latency(self) -> int:
        """Cycles from operands to product."""
        return SignificandMultiplier.latency + 3

    @property
    def _least_q(self) -> int:
        return 1 - 2 * self._a_format.bias + self._result_format.bias

    @property
    def _most_q(self) -> int:
        return self._least_q + 2 * (self._a_format.exponent_maximum - 2)

    @property
    def _counts_both(self) -> bool:
        """Whether zeros are counted of both operands, else of the smaller one alone.

        A product moves left by the lesser of its leading zeros and q. Of two subnormals there are at least two zeros,
        at least one of them counted of either, and q is the least one: where that is at most 1, it decides.
        """
        return self._least_q > 1

    @property
    def _most_zeros(self) -> int:
        return (2 if self._counts_both else 1) * self._a_format.fraction_bits

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        operand, result = self._a_format, self._result_format
        significand_bits = operand.fraction_bits + 1
        product_bits = 2 * significand_bits
        #: Two leading places, the fraction and the guard bit.
        kept = result.fraction_bits + 3

        def register(shape: Any, name: str) -> Signal:
            return Signal(shape, name=name, reset_less=True)

        # Stage 1: significands and classes.
        m.submodules.significands = significands = SignificandMultiplier(significand_bits)
        fields = {}
        for name, bits in (("a", self.a), ("b", self.b)):
            fraction, exponent = bits[:operand.fraction_bits], bits[operand.fraction_bits:-1]
            normal, special, nonzero = (Signal(name=f"{name}_{kind}")
                                        for kind in ("normal", "special", "nonzero"))
            m.d.comb += [normal.eq(exponent.any()), special.eq(exponent.all()), nonzero.eq(fraction.any())]
            fields[name] = (Cat(fraction, normal), exponent | ~normal, normal, special, nonzero)
        a_significand, a_exponent, a_normal, a_special, a_nonzero = fields["a"]
        b_significand, b_exponent, b_normal, b_special, b_nonzero = fields["b"]
        sign_1, nan_1, infinite_1 = (register(1, f"{name}_1") for name in ("sign", "nan", "infinite"))
        a_exponent_1 = register(operand.exponent_bits, "a_exponent_1")
        # The constant of q is a multiple of a power of two, below which it costs nothing.
        offset = self._least_q - 2
        free = max(0, (offset & -offset).bit_length() - 1)
        offset_bits = 1 + max(-offset, offset + (1 << operand.exponent_bits)).bit_length()
        b_offset_1 = register(signed(offset_bits), "b_offset_1")
        m.d.comb += [significands.a.eq(a_significand), significands.b.eq(b_significand)]
        m.d.sync += [
            sign_1.eq(self.a[-1] ^ self.b[-1]),
            nan_1.eq((a_special & (a_nonzero | ~(b_normal | b_nonzero)))
                     | (b_special & (b_nonzero | ~(a_normal | a_nonzero)))),
            infinite_1.eq(a_special | b_special),
            a_exponent_1.eq(a_exponent),
            b_offset_1.eq(((b_exponent[free:] + (offset >> free)) << free) | b_exponent[:free]),
        ]
        counted_1 = []
        for name, value in ((("a", a_significand), ("b", b_significand)) if self._counts_both else
                            (("small", Mux(a_normal, b_significand, a_significand)),)):
            counted = register(significand_bits, f"{name}_significand_1")
            m.d.sync += counted.eq(value)
            counted_1.append(counted)

        # Stage 2: q, and leading zeros beside the multiplication.
        shift_bits = self._most_zeros.bit_length()
        q_shape = signed(1 + max(abs(self._least_q), self._most_q).bit_length())
        sign_2, nan_2, infinite_2 = (register(1, f"{name}_2") for name in ("sign", "nan", "infinite"))
        q_2, zeros_2 = register(q_shape, "q_2"), register(shift_bits, "zeros_2")
        counts = [leading_zeros(m, f"zeros_{i}", value) for i, value in enumerate(counted_1)]
        m.d.sync += [
            sign_2.eq(sign_1), nan_2.eq(nan_1), infinite_2.eq(infinite_1),
            q_2.eq(a_exponent_1 + b_offset_1),
            zeros_2.eq(sum(counts[1:], start=counts[0])),
        ]

        # Stage 3: s = min(zeros, q), as the right shift most_left - s of a product placed most_left higher.
        most_left = (1 << shift_bits) - 1
        right_bits = shift_bits
        if self._least_q < self._most_zeros:
            right_bits = max(shift_bits, (most_left + kept).bit_length())
        sign_3, nan_3, infinite_3 = (register(1, f"{name}_3") for name in ("sign", "nan", "infinite"))
        low_bits = right_bits - _HIGH_BITS
        amount_3 = register(low_bits, "amount_3")
        exponent_3 = register(self._most_q.bit_length(), "exponent_3")
        limited, vanishing = Signal(name="limited"), Signal(name="vanishing")
        least_shift = most_left - ((1 << right_bits) - 1)
        if self._least_q < self._most_zeros:
            m.d.comb += [limited.eq(q_2 < zeros_2), vanishing.eq(q_2 < least_shift)]
        amount = Signal(right_bits)
        m.d.comb += amount.eq(Mux(vanishing, -1, most_left - Mux(limited, q_2, zeros_2)))
        # The product has a register for each value of the amount's high bits, zero but for the one wanted: none has
        # to be chosen.
        products_3 = [register(product_bits, f"product_3_{i}") for i in range(1 << _HIGH_BITS)]
        m.d.sync += [
            sign_3.eq(sign_2), nan_3.eq(nan_2), infinite_3.eq(infinite_2), amount_3.eq(amount),
            exponent_3.eq(Mux(limited, 0, q_2 - zeros_2)),
            *(product.eq(Mux(amount[low_bits:] == i, significands.o, 0)) for i, product in enumerate(products_3)),
        ]

        # Stage 4: shift.
        padding = max(0, kept - product_bits)
        below = max(0, product_bits - kept)
        placed = [Cat(Const(0, padding + most_left), product) for product in products_3]
        unit = 1 << low_bits
        coarse, lost_3 = Signal(kept + unit - 1, name="coarse"), Signal(name="lost_3")
        m.d.comb += [
            coarse.eq(reduce(or_, (product[below + i * unit:] for i, product in enumerate(placed)))),
            lost_3.eq(Cat(product[:below + i * unit] for i, product in enumerate(placed)).any()),
        ]
        # The amount's low bits are used like its high ones.
        fine = amount_3[:_FINE_BITS]
        fines = range(1 << len(fine))
        middle, lost = shift_right_sticky(m, "shift", coarse, amount_3[len(fine):], kept + fines[-1], len(fine))
        sign_4, nan_4, infinite_4 = (register(1, f"{name}_4") for name in ("sign", "nan", "infinite"))
        products_4 = [register(kept, f"product_4_{i}") for i in fines]
        sticky_4 = register(1, "sticky_4")
        exponent_4 = register(len(exponent_3), "exponent_4")
        overflow_4, overflow_high_4 = register(1, "overflow_4"), register(1, "overflow_high_4")
        m.d.sync += [
            sign_4.eq(sign_3), nan_4.eq(nan_3), infinite_4.eq(infinite_3),
            *(product.eq(Mux(fine == i, middle[i:i + kept], 0)) for i, product in enumerate(products_4)),
            sticky_4.eq(lost | lost_3 | select([middle[:i].any() for i in fines], fine)),
            exponent_4.eq(exponent_3),
            overflow_4.eq(exponent_3 >= result.exponent_maximum - 1),
            overflow_high_4.eq(exponent_3 == result.exponent_maximum - 2),
        ]

        # Stage 5: round and pack. The field is exponent_4 plus the two leading places.
        product_4 = Signal(kept)
        m.d.comb += product_4.eq(reduce(or_, products_4))
        high, some = product_4[-1], product_4[-2:].any()
        carry, overflow = Signal(name="carry"), Signal(name="overflow")
        m.d.comb += [
            carry.eq(Mux(high, product_4[1] & (product_4[2] | product_4[0] | sticky_4),
                         product_4[0] & (product_4[1] | sticky_4))),
            overflow.eq((some & overflow_4) | (high & overflow_high_4)),
        ]
        if padding:
            magnitude: Value = Signal(result.bits - 1)
            fraction = Mux(high, product_4[2:-1], product_4[1:-2])
            m.d.comb += magnitude.eq((Mux(some, exponent_4, 0) << result.fraction_bits)
                                     + Cat(fraction, some & ~high, high) + carry)
        else:
            magnitude = table_sum(m, platform, "magnitude", [
                Digits((product_4[1:-2], product_4[2:-1], high), lambda a, b, c: (a & ~c) | (b & c)),
                Digits((exponent_4[0], some, high), lambda a, b, c: a & b, lambda a, b, c: b & ~c),
                Digits((exponent_4[1], some, high), lambda a, b, c: a & b, lambda a, b, c: c),
                Digits((exponent_4[2:result.exponent_bits], some), lambda a, b: a & b),
            ], carry)
        m.d.sync += self.o.eq(Mux(self.wanted if self._gated else 1,
                                  special_or(result, nan_4, infinite_4 | overflow, sign_4, magnitude), 0))
        return m

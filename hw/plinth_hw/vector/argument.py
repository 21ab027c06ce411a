"""Argument reduction of the function unit: stages 1 to 4, from FP32 to an entry of a table and a place in its segment.

::

    i --> x log2(e), or normalise by eights --> choose, find the leading one --> align --> align, negate --> turns
                       1                                      2                    3            4

EXPONENTIAL multiplies by log2(e), shifts the product to the right and splits it into a power of two and the table's
argument. The other functions shift the number: RECIPROCAL and INVERSE_ROOT until its leading one is above the point,
TANH, without that one, to the segments of its binade.
"""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.common import empty_groups, leading_groups
from plinth_hw.isa.functions import (
    ENTRY_BITS,
    LOG2E,
    LOG2E_BITS,
    SEGMENT_BITS,
    TANH_BLOCKS,
    TANH_DIFFERENCE,
    TANH_LOWEST,
    TANH_SEGMENTS,
    TANH_TWO,
    TANH_ZERO,
    VALUE_BITS,
    first_entry,
)
from plinth_hw.isa.vector_body import VectorFunction
from plinth_hw.shapes import shape_of

#: Biased exponent of the largest argument of EXPONENTIAL that is not taken as infinite.
_LARGEST = 133
#: log2 of the places by which the first stage normalises.
_GROUP_LOG2 = 3
#: Right shift of a number with its leading one in the uppermost of as many places to the argument of its table: the one
#: is then above the point, and a power of two.
_NORMAL_DISTANCE = (1 << _GROUP_LOG2) - 1
#: Bits of log2(e) that the lower of two multipliers takes.
_LOW_BITS = 18
#: Bits of a significand, and of its product with log2(e).
_MANTISSA_BITS, _PRODUCT_BITS = 24, 24 + LOG2E_BITS + 1
#: Low bits of the product that no argument needs.
_PRODUCT_DROP = LOG2E_BITS - VALUE_BITS - (_LARGEST - 150)
#: Bits of what is aligned.
_WIDTH = _PRODUCT_BITS - _PRODUCT_DROP
assert _NORMAL_DISTANCE == _WIDTH - 1 - VALUE_BITS


class Context(data.Struct):
    """What travels beside the value of a function."""

    sign: unsigned(1)
    #: Exponent of the result, biased, without the power of two that stands above the argument's point.
    exponent: signed(10)
    nan: unsigned(1)
    infinite: unsigned(1)
    zero: unsigned(1)
    #: TANH: the value has two bits above the point, and ``exponent`` is that of the upper one.
    wide: unsigned(1)
    #: An argument so small that TANH is the argument; the value is then aligned to the upper bit.
    tiny: unsigned(1)


class ArgumentReduction(wiring.Component):
    """What the tables take, four cycles after the argument, one argument a cycle.

    Members
    -------
    function : In(VectorFunction)
        With ``i``.
    i : In(32)
        FP32 argument.
    turns : Out(signed)
        ``VALUE_BITS`` of segment and offset, with a power of two above them.
    code : Out
        Makes an entry's number among all of the segment's, by exclusive or.
    fraction : Out(23)
        The fraction where TANH adds it, or zero.
    context : Out(Context)
        What the result depends on besides.
    """

    def __init__(self) -> None:
        super().__init__({"function": In(shape_of(VectorFunction)), "i": In(32), "turns": Out(signed(_WIDTH + 1)),
                          "code": Out(ENTRY_BITS), "fraction": Out(23), "context": Out(Context)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fraction, exponent, sign = self.i[:23], self.i[23:31], self.i[31]
        is_reciprocal = Signal()
        is_tanh = Signal()
        is_root = Signal()
        subnormal = Signal()
        special = Signal()
        context_1, context_2, context_3, context_4 = (
            Signal(Context, name=f"context_{stage}", reset_less=True) for stage in range(1, 5))
        m.d.comb += [
            is_reciprocal.eq(self.function == VectorFunction.RECIPROCAL),
            is_tanh.eq(self.function == VectorFunction.TANH),
            is_root.eq(self.function == VectorFunction.INVERSE_ROOT),
            subnormal.eq(exponent == 0), special.eq(exponent == 255),
        ]
        # 1: products with log2(e); the number, a subnormal moved up by eights. Its leading one, which only TANH lacks,
        # ends above the point and adds one to the exponent.
        mantissa = Signal(_MANTISSA_BITS)
        product_low = Signal(_MANTISSA_BITS + _LOW_BITS, reset_less=True)
        product_high = Signal(_PRODUCT_BITS - _LOW_BITS, reset_less=True)
        normal = Signal(_MANTISSA_BITS, reset_less=True)
        groups_1, groups_2 = Signal(2, reset_less=True, name="groups_1"), Signal(2, reset_less=True, name="groups_2")
        distance = Signal(6, reset_less=True)
        exponential_1 = Signal(reset_less=True)
        reciprocal_1, reciprocal_2, root_1, root_2 = (Signal(name=name, reset_less=True) for name in (
            "reciprocal_1", "reciprocal_2", "root_1", "root_2"))
        difference = Signal(reset_less=True)
        code_1, code_2, code_3, code_4 = (
            Signal(ENTRY_BITS, name=f"code_{stage}", reset_less=True) for stage in range(1, 5))
        block = Signal(data.StructLayout({"distance": 4, "code": 8}), reset_less=True)
        tanh_1, flat = Signal(reset_less=True, name="tanh_1"), Signal(reset_less=True, name="flat")
        tiny = Signal()
        least_one = Signal(8)
        below = Signal(signed(10))
        large = Signal()
        groups = leading_groups(m, "leading", empty_groups(
            m, "leading", Cat(fraction, ~subnormal | is_tanh), _GROUP_LOG2))
        m.d.comb += [
            mantissa.eq(Cat(fraction, ~subnormal)), least_one.eq(Cat(exponent[0] | subnormal, exponent[1:])),
            below.eq(_LARGEST - least_one), large.eq(below < 0), tiny.eq(exponent < 127 + TANH_LOWEST),
        ]
        m.d.sync += [
            product_low.eq(mantissa * (LOG2E & ((1 << _LOW_BITS) - 1))),
            product_high.eq(mantissa * (LOG2E >> _LOW_BITS)),
            normal.eq(Cat(fraction, ~subnormal & ~is_tanh) << (groups << _GROUP_LOG2)), groups_1.eq(groups),
            distance.eq(Mux(below > 63, 63, below[:6])),
            exponential_1.eq(~is_reciprocal & ~is_tanh & ~is_root), reciprocal_1.eq(is_reciprocal), root_1.eq(is_root),
            difference.eq(is_tanh & (exponent <= 127 + TANH_DIFFERENCE)),
            tanh_1.eq(is_tanh), block.eq(self._tanh_block(fraction, exponent)),
            flat.eq(tiny | (Cat(fraction[22], exponent) > Cat(Const(0, 1), Const(127 + max(TANH_SEGMENTS), 8)))),
            code_1.eq(first_entry(VectorFunction.EXPONENTIAL)),
            context_1.nan.eq(special & fraction.any()), context_1.sign.eq(sign), context_1.exponent.eq(127),
            context_1.zero.eq(0), context_1.infinite.eq(0),
            context_1.wide.eq(is_tanh), context_1.tiny.eq(tiny),
        ]
        with m.If(is_reciprocal):
            m.d.sync += [
                context_1.zero.eq(special), context_1.exponent.eq(252 - least_one),
                code_1.eq(first_entry(VectorFunction.RECIPROCAL)),
            ]
        with m.Elif(is_root):
            zero = subnormal & ~fraction.any()
            m.d.sync += [
                context_1.zero.eq(special), context_1.infinite.eq(zero), context_1.exponent.eq(
                    189 - least_one[1:] - least_one[0]),
                code_1.eq(first_entry(VectorFunction.INVERSE_ROOT) | ~least_one[0] << SEGMENT_BITS),
            ]
            with m.If(sign & ~zero):
                m.d.sync += context_1.nan.eq(1)
        with m.Elif(is_tanh):
            m.d.sync += code_1.eq(first_entry(VectorFunction.TANH) | Mux(subnormal, TANH_ZERO, TANH_TWO))
            with m.If(exponent < 127):
                m.d.sync += context_1.exponent.eq(least_one)
        with m.Else():
            m.d.sync += [context_1.zero.eq(large & sign), context_1.infinite.eq(large & ~sign)]
        # 2: their sum, less the bits that no argument needs; the distance of TANH and of numbers with a leading one.
        product = Signal(_PRODUCT_BITS)
        # Bits of the distance that are known a stage ahead choose between registers that are zero but for one.
        reduced = [Signal(_WIDTH, name=f"reduced_{places}", reset_less=True)
                   for places in range(0, 64, 16)]
        distance_2 = Signal(4, reset_less=True)
        high = Signal(2)
        exponential_2 = Signal(reset_less=True)
        fraction_2, fraction_3, fraction_4 = (
            Signal(23, name=f"fraction_{stage}", reset_less=True) for stage in (2, 3, 4))
        m.d.comb += [
            product.eq(product_low + (product_high << _LOW_BITS)), high.eq(Mux(exponential_1, distance[4:], 0)),
        ]
        upper = _WIDTH - _MANTISSA_BITS
        zeros = leading_groups(m, "zeros", [~bit for bit in reversed(normal[-1 << _GROUP_LOG2:])])
        m.d.sync += [
            *(register.eq(Mux(high == index, Mux(exponential_1, product[_PRODUCT_DROP:], normal << upper), 0))
              for index, register in enumerate(reduced)),
            distance_2.eq(Mux(exponential_1, distance, _NORMAL_DISTANCE - zeros)),
            exponential_2.eq(exponential_1), context_2.eq(context_1), code_2.eq(code_1), groups_2.eq(groups_1),
            reciprocal_2.eq(reciprocal_1), root_2.eq(root_1), fraction_2.eq(Mux(difference, normal[:23], 0)),
        ]
        with m.If(tanh_1):
            m.d.sync += distance_2.eq(block.distance | flat.replicate(4))
            with m.If(~flat):
                m.d.sync += code_2.eq(block.code | first_entry(VectorFunction.TANH))
        # 3, 4: align, then the sign. Functions but EXPONENTIAL keep theirs in the context. A subnormal's leading zeros
        # raise the exponent by as many, or by half of them, rounded up, and with INVERSE_ROOT change its parity.
        raised = Cat(~distance_2[:_GROUP_LOG2], groups_2)
        odd = root_2 & raised[0]
        moved = Signal(_WIDTH)
        coarse = [Signal(_WIDTH, name=f"coarse_{places}", reset_less=True) for places in range(0, 8, 2)]
        distance_3 = Signal(reset_less=True)
        exponential_3 = Signal(reset_less=True)
        fine = Signal(_WIDTH)
        negative = Signal()
        turns = Signal(signed(_WIDTH + 1), reset_less=True)
        m.d.comb += [
            moved.eq(reduce(or_, (value[16 * index:] for index, value in enumerate(reduced)))
                     >> Cat(Const(0, 3), distance_2[3])),
            fine.eq(reduce(or_, (value[2 * index:] for index, value in enumerate(coarse))) >> distance_3),
            negative.eq(context_3.sign & exponential_3),
        ]
        m.d.sync += [
            *(register.eq(Mux(distance_2[1:3] == index, moved, 0)) for index, register in enumerate(coarse)),
            distance_3.eq(distance_2[0]),
            exponential_3.eq(exponential_2), context_3.eq(context_2), fraction_3.eq(fraction_2),
            context_3.exponent.eq(
                context_2.exponent + (Mux(reciprocal_2, raised, 0) | Mux(root_2, raised[1:], 0)) + odd),
            code_3.eq(code_2 ^ odd << SEGMENT_BITS),
            turns.eq((fine ^ negative.replicate(len(turns))).as_signed() + negative),
            context_4.eq(context_3), code_4.eq(code_3), fraction_4.eq(fraction_3),
            context_4.sign.eq(context_3.sign & ~exponential_3),
        ]
        m.d.comb += [
            self.context.eq(context_4), self.code.eq(code_4), self.turns.eq(turns), self.fraction.eq(fraction_4),
        ]
        return m

    def _tanh_block(self, fraction: Any, exponent: Any) -> Any:
        """Distance and code of TANH's block, for exponents that have one."""
        # The low bits of their exponents tell the binades apart.
        binades = len(TANH_SEGMENTS)
        index = Cat(fraction[22], exponent[:binades.bit_length() - 1])
        assert 1 << len(index) == 2 * binades
        words = [0] * (2 * binades)
        for (power, half), block in TANH_BLOCKS.items():
            words[(127 + power) % binades << 1 | half] = _NORMAL_DISTANCE + SEGMENT_BITS - block.bits | block.code << 4
        return Array(Const(word, 12) for word in words)[index]

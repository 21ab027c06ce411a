"""Function unit: one table-driven function value a cycle, in integer arithmetic.

::

    i --> x log2(e) -> align, negate -> table -> c2 d -> + c1 -> (..) d -> + c0 -> shift, round --> o
      1      2            3, 4            5        6       7       8         9        10, 11

Eleven register stages, no stall. A function is a table of quadratics in :mod:`plinth_hw.isa.functions`
and a way to reduce its argument: EXPONENTIAL multiplies by log2(e) and splits into a power of two and
the table's argument; RECIPROCAL and INVERSE_ROOT normalise the fraction and compute the exponent; TANH aligns the
fraction to the segments of its binade. Further functions are a table, an entry here and one in the golden model
``golden/function.py``, which this unit equals bit for bit.
"""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.carry import Digits, table_sum
from plinth_hw.arith.common import empty_groups, leading_groups, shift_right_sticky
from plinth_hw.isa.formats import FP32
from plinth_hw.isa.functions import (
    C0_BITS,
    C1_BITS,
    C2_BITS,
    ENTRY_BITS,
    LOG2E,
    LOG2E_BITS,
    OFFSET_BITS,
    QUADRATIC_DROP,
    QUADRATIC_SHIFT,
    SEGMENT_BITS,
    TABLES,
    TANH_BLOCKS,
    TANH_DIFFERENCE,
    TANH_LOWEST,
    TANH_SEGMENTS,
    TANH_TWO,
    TANH_ZERO,
    VALUE_BITS,
    coefficients,
    first_entry,
)
from plinth_hw.isa.tasks import VectorFunction
from plinth_hw.lib.choice import select
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
#: Bits of the offset that the lower of two multipliers takes.
_OFFSET_LOW_BITS = 11


class _Context(data.Struct):
    """What travels beside the value."""

    sign: unsigned(1)
    #: Exponent of the result, biased, without the turns of EXPONENTIAL.
    exponent: signed(10)
    nan: unsigned(1)
    infinite: unsigned(1)
    zero: unsigned(1)
    #: TANH: the value has two bits above the point, and ``exponent`` is that of the upper one.
    wide: unsigned(1)
    #: An argument so small that TANH is the argument; the value is then aligned to the upper bit.
    tiny: unsigned(1)


class FunctionUnit(wiring.Component):
    """``o = function(i)``.

    Members
    -------
    function : In(VectorFunction)
        With ``i``.
    i : In(32)
        FP32 argument, taken every cycle.
    wanted : In(1)
        A cycle before the value: it is wanted, or else zero.
    o : Out(32)
        FP32 value for the argument of ``latency`` cycles before.

    Attributes
    ----------
    latency : int
        11 cycles.
    """

    latency = 11

    def __init__(self) -> None:
        super().__init__({"function": In(shape_of(VectorFunction)), "i": In(32), "wanted": In(1), "o": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        context, code, turns, fraction = self._reduce(m)
        value, context, power = self._interpolate(m, turns, code, fraction, context)
        self._round(m, platform, value, context, power)
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

    def _reduce(self, m: Module) -> tuple[Any, Any, Any, Any]:
        """Stages 1 to 4: the argument of the table, with a power of two above it; the code that makes an entry's
        number of it; and the fraction where TANH adds it."""
        fraction, exponent, sign = self.i[:23], self.i[23:31], self.i[31]
        is_reciprocal = Signal()
        is_tanh = Signal()
        is_root = Signal()
        subnormal = Signal()
        special = Signal()
        context_1, context_2, context_3, context_4 = (
            Signal(_Context, name=f"context_{stage}", reset_less=True) for stage in range(1, 5))
        m.d.comb += [
            is_reciprocal.eq(self.function == VectorFunction.RECIPROCAL),
            is_tanh.eq(self.function == VectorFunction.TANH),
            is_root.eq(self.function == VectorFunction.INVERSE_ROOT),
            subnormal.eq(exponent == 0), special.eq(exponent == 255),
        ]
        # 1: products with log2(e); a subnormal moved up by eights, but for TANH. TANH lacks the leading one.
        mantissa = Signal(24)
        product_low = Signal(24 + _LOW_BITS, reset_less=True)
        product_high = Signal(24 + LOG2E_BITS + 1 - _LOW_BITS, reset_less=True)
        normal = Signal(24, reset_less=True)
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
        product = Signal(24 + LOG2E_BITS + 1)
        drop = LOG2E_BITS - VALUE_BITS - (_LARGEST - 150)
        # Bits of the distance that are known a stage ahead choose between registers that are zero but for one.
        reduced = [Signal(len(product) - drop, name=f"reduced_{places}", reset_less=True)
                   for places in range(0, 64, 16)]
        distance_2 = Signal(4, reset_less=True)
        high = Signal(2)
        exponential_2 = Signal(reset_less=True)
        fraction_2, fraction_3, fraction_4 = (
            Signal(23, name=f"fraction_{stage}", reset_less=True) for stage in (2, 3, 4))
        m.d.comb += [
            product.eq(product_low + (product_high << _LOW_BITS)), high.eq(Mux(exponential_1, distance[4:], 0)),
        ]
        width = len(reduced[0])
        assert width - 1 - VALUE_BITS == _NORMAL_DISTANCE
        zeros = leading_groups(m, "zeros", [~bit for bit in reversed(normal[-1 << _GROUP_LOG2:])])
        m.d.sync += [
            *(register.eq(Mux(high == index, Mux(exponential_1, product[drop:], normal << (width - len(normal))), 0))
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
        moved = Signal(width)
        coarse = [Signal(width, name=f"coarse_{places}", reset_less=True) for places in range(0, 8, 2)]
        distance_3 = Signal(reset_less=True)
        exponential_3 = Signal(reset_less=True)
        fine = Signal(width)
        negative = Signal()
        turns = Signal(signed(width + 1), reset_less=True)
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
        return context_4, code_4, turns, fraction_4

    def _interpolate(self, m: Module, turns: Any, code: Any, fraction: Any,
                     context: Any) -> tuple[Any, Any, Any]:
        """Stages 5 to 9: the quadratic, with the context and the turns beside it."""
        # One word an entry; the functions' tables lie one after another.
        entry = data.StructLayout({"c0": unsigned(C0_BITS), "c1": signed(C1_BITS), "c2": unsigned(C2_BITS)})
        rows = [dict(c._asdict()) for function in TABLES for c in coefficients(function)]
        m.submodules.table = table = Memory(shape=entry, depth=len(rows), init=rows)
        port = table.read_port()
        offset = turns[:OFFSET_BITS]
        m.d.comb += port.addr.eq(turns[OFFSET_BITS:VALUE_BITS] ^ code)
        assert port.addr.shape().width == len(code)

        stages = 5
        contexts = [context]
        powers = [turns[VALUE_BITS:].as_signed()]
        for stage in range(stages):
            next_context = Signal(_Context, name=f"context_{5 + stage}", reset_less=True)
            next_power = Signal(signed(len(powers[0])), name=f"power_{5 + stage}", reset_less=True)
            m.d.sync += [next_context.eq(contexts[-1]), next_power.eq(powers[-1])]
            contexts.append(next_context)
            powers.append(next_power)

        offset_5, offset_6, offset_7 = (
            Signal(OFFSET_BITS, name=f"offset_{stage}", reset_less=True) for stage in (5, 6, 7))
        c0_6, c0_7, c0_8 = (Signal(C0_BITS, name=f"c0_{stage}", reset_less=True) for stage in (6, 7, 8))
        c1_6 = Signal(signed(C1_BITS), reset_less=True)
        fraction_5, fraction_6 = (Signal(23, name=f"fraction_{stage}", reset_less=True) for stage in (5, 6))
        bend = Signal(signed(C2_BITS + 1))
        quadratic = Signal(C2_BITS + OFFSET_BITS - QUADRATIC_DROP, reset_less=True)
        slope = Signal(signed(C1_BITS + 1), reset_less=True)
        low = Signal(signed(C1_BITS + 2 + _OFFSET_LOW_BITS), reset_less=True)
        high = Signal(signed(C1_BITS + 2 + OFFSET_BITS - _OFFSET_LOW_BITS), reset_less=True)
        linear = Signal(signed(C1_BITS + 2 + OFFSET_BITS))
        value = Signal(C0_BITS, reset_less=True)
        m.d.comb += [
            linear.eq(low + (high << _OFFSET_LOW_BITS)),
            bend.eq(Cat(quadratic[QUADRATIC_SHIFT:], 0) ^ contexts[2].wide.replicate(len(bend))),
        ]
        m.d.sync += [
            offset_5.eq(offset), fraction_5.eq(fraction),
            # 6
            quadratic.eq(port.data.c2 * offset_5[QUADRATIC_DROP:]),
            c0_6.eq(port.data.c0), c1_6.eq(port.data.c1), offset_6.eq(offset_5), fraction_6.eq(fraction_5),
            # 7
            slope.eq(c1_6 + bend), c0_7.eq(c0_6 + (fraction_6 << (VALUE_BITS - 22))), offset_7.eq(offset_6),
            # 8
            low.eq(slope * offset_7[:_OFFSET_LOW_BITS]), high.eq(slope * offset_7[_OFFSET_LOW_BITS:]),
            c0_8.eq(c0_7),
            # 9
            value.eq(c0_8 + (linear >> OFFSET_BITS)),
        ]
        return value, contexts[-1], powers[-1]

    def _round(self, m: Module, platform: Any, value: Any, context: Any, power: Any) -> None:
        """Stages 10 and 11: to FP32, subnormals included."""
        guard_bits = VALUE_BITS - 23
        exponent = Signal(signed(12))
        distance = Signal(signed(12))
        shift = Signal(5)
        lower = Signal()
        m.d.comb += [
            exponent.eq(context.exponent + power),
            distance.eq(1 - exponent),
            lower.eq(context.wide & ~value[-1] & ~context.tiny),
            # The exponent of a wide value is 1 at least, so that its distance is none.
            shift.eq(Mux(distance < 0, 0, Mux(distance > 31, 31, distance[:5])) | (context.wide & ~lower)),
        ]
        # By the shift's low bits with a register for each value, zero but for the one wanted.
        fine = shift[:2]
        kept, lost = shift_right_sticky(m, "round", value, shift[2:], len(value), 2)
        moved = [Signal(len(value), name=f"moved_{places}", reset_less=True) for places in range(4)]
        sticky = Signal(reset_less=True)
        field = Signal(9, reset_less=True)
        zero, infinite, nan, sign = (Signal(name=name, reset_less=True)
                                     for name in ("zero", "infinite", "nan", "sign"))
        m.d.sync += [
            *(register.eq(Mux(fine == places, kept[places:], 0)) for places, register in enumerate(moved)),
            sticky.eq(lost | select([kept[:places].any() for places in range(4)], fine)),
            # Less one, or less two.
            field.eq(Mux(distance >= 0, 0, exponent + Cat(~lower, Const(-1, len(exponent) - 1)))),
            zero.eq(context.zero), nan.eq(context.nan), sign.eq(context.sign),
            infinite.eq(context.infinite | (exponent > 254)),
        ]
        up = Signal()
        rest = reduce(or_, (register[:guard_bits + 1] for register in moved))
        m.d.comb += up.eq(rest[-2] & (rest[:-2].any() | sticky | rest[-1]))
        # The leading bit of the significand adds one to the exponent field.
        leading = reduce(or_, (register[guard_bits + 23:] for register in moved))
        assert len(leading) == 2
        magnitude = table_sum(m, platform, "magnitude", [
            Digits(tuple(register[guard_bits:guard_bits + 23] for register in moved), lambda a, b, c, d: a | b | c | d),
            Digits((field[:2], leading), lambda a, b: a, lambda a, b: b),
            Digits((field[2:8],), lambda a: a),
        ], up)
        with m.If(~self.wanted):
            m.d.sync += self.o.eq(0)
        with m.Elif(nan):
            m.d.sync += self.o.eq(FP32.quiet_nan)
        with m.Elif(zero):
            m.d.sync += self.o.eq(Cat(Const(0, 31), sign))
        with m.Elif(infinite):
            m.d.sync += self.o.eq(Cat(Const(FP32.infinity, 31), sign))
        with m.Else():
            m.d.sync += self.o.eq(Cat(magnitude, sign))

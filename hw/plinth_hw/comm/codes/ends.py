"""What is known of words by their fills: from where to where they are (:mod:`plinth_hw.isa.codes`).

::

    fill --> register --> above level? --> size --> kind, or region --> near, quantum --> adder --> far --> low, high
                                                                          +---> delay -------> near ---^

An arrow is a register. A quantum D of regions is a power of two; a magnitude's size is its seven bits that count, in
units of D. Regions of n steps each begin at sizes 0, n, 3 n and 7 n.

Throughput: a flit of fills in two cycles. Latency: that of the adder, and five cycles.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.adder import FloatAdder
from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.codes.block import BIASED, LEVEL
from plinth_hw.comm.codes.regions import NUMBER, SIZE, beyond, sized
from plinth_hw.isa.codes import BIAS, EXPONENT_BITS, FRACTION_BITS, REGION_BITS
from plinth_hw.isa.formats import FP32
from plinth_hw.lib.choice import select
from plinth_hw.lib.count import stepped
from plinth_hw.lib.delay import DelayLine, delayed
from plinth_hw.lib.fifo import FIFO

#: Flits that are under way, more than half the cycles of latency.
PLACES = 16
#: Bits of a level's distance below that of the task.
SHIFT_BITS = 3


class FillEnds(wiring.Component):
    """Gives both ends of fills.

    Parameters
    ----------
    words : ArrayLayout
        Of a flit.

    Members
    -------
    level : In
        Of fills; a scale with ``regions``. Stable from the cycle before the first fill while there is something under
        way.
    regions : In
        As ``level``: log2 n, if fills are of regions, else 0.
    i : In stream of ``fills`` and a ``shift``
        By which their level is below ``level``.
    o : Out stream of ``words``
        Of each flit its words' highest values, then the lowest, as :func:`plinth_sim.golden.codes.ends`, or
        :func:`plinth_sim.golden.regions.fill_ends`.
    """

    def __init__(self, words: data.ArrayLayout):
        self.words = words
        fills = data.StructLayout({"fills": words, "shift": SHIFT_BITS})
        super().__init__({"level": In(LEVEL), "regions": In(NUMBER), "i": In(stream.Signature(fills)),
                          "o": Out(stream.Signature(words))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        left = Signal(range(PLACES + 1), init=PLACES, name="left")
        m.submodules.ends = ends = FIFO(data.ArrayLayout(self.words, 2), PLACES)
        takes, gives, second = Signal(name="takes"), Signal(name="gives"), Signal(name="second")
        m.d.comb += [
            self.i.ready.eq(left != 0), takes.eq(self.i.valid & self.i.ready),
            self.o.valid.eq(ends.o.valid), self.o.payload.eq(Mux(second, ends.o.payload[1], ends.o.payload[0])),
            ends.o.ready.eq(self.o.ready & second), gives.eq(ends.o.valid & ends.o.ready),
        ]
        m.d.sync += left.eq(stepped(left, gives, takes))
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += second.eq(~second)
        base, level = (Signal(BIASED, name=name, reset_less=True) for name in ("biased_level", "level_0"))
        fills = Signal(self.words, name="fills_0", reset_less=True)
        m.d.sync += [base.eq(self.level + BIAS), level.eq(base - self.i.payload.shift), fills.eq(self.i.payload.fills)]
        levels = [level, *(delayed(m, f"level_{stages}", level, stages, reset_less=True) for stages in (1, 2))]
        cycles = 0
        for lane in range(self.words.length):
            high, low, cycles = self._lane(m, str(lane), fills[lane], levels)
            m.d.comb += [ends.i.payload[0][lane].eq(high), ends.i.payload[1][lane].eq(low)]
        m.d.comb += ends.i.valid.eq(delayed(m, "taken", takes, 1 + cycles))
        return m

    def _lane(self, m: Module, lane: str, fill_0: Value, levels: list[Signal]) -> tuple[Value, Value, int]:
        """The highest and the lowest value of a fill, and how many cycles later; ``levels``: its level, now and one and
        two cycles later."""
        def register(shape: int, name: str) -> Signal:
            return Signal(shape, name=f"{name}_{lane}", reset_less=True)

        # How far the exponent is above the level.
        fill_1, above, zero_1, half = (register(bits, name) for bits, name in (
            (WORD, "fill_1"), (BIASED, "above"), (1, "zero_1"), (1, "half")))
        m.d.sync += [
            fill_1.eq(fill_0), above.eq(fill_0[FRACTION_BITS:-1] - levels[0]), zero_1.eq(fill_0[:-1] == 0),
            half.eq(fill_0[:FRACTION_BITS] == 1 << FRACTION_BITS - 1),
        ]
        # Kinds; the magnitude in units of a quantum of regions.
        fill_2, zero_2, large, is_small, size, far = (register(bits, name) for bits, name in (
            (WORD, "fill_2"), (1, "zero_2"), (1, "large"), (1, "is_small"), (SIZE, "size"), (1, "far")))
        m.d.sync += [
            fill_2.eq(fill_1), zero_2.eq(zero_1), large.eq(~above[-1]), is_small.eq(above.all() & half),
            size.eq(sized(fill_1, above)), far.eq(beyond(above)),
        ]
        near, quantum, kept, negative, unsent = (register(bits, name) for bits, name in (
            (WORD, "near"), (WORD, "quantum"), (WORD, "kept"), (1, "negative"), (1, "unsent")))
        own, sign = fill_2[FRACTION_BITS:-1], fill_2[-1]
        of_regions, step = self.regions != 0, self._step(m, lane, size, far, sign, levels[2])
        zero = Cat(Const(0, WORD - 1), sign)
        is_unsent = ~(of_regions | zero_2 | large | is_small)
        known = Mux(large | zero_2 | of_regions, fill_2, zero)
        # Of a fill of which nothing was sent, the power of two above it is kept.
        m.d.sync += [
            near.eq(known), quantum.eq(Mux(zero_2 & ~of_regions, zero, Cat(Const(0, FRACTION_BITS), step, sign))),
            kept.eq(Mux(is_unsent, Cat(Const(0, FRACTION_BITS), (own + 1)[:EXPONENT_BITS], Const(0, 1)), known)),
            negative.eq(sign), unsent.eq(is_unsent),
        ]
        m.submodules[f"adder_{lane}"] = adder = FloatAdder(FP32)
        m.submodules[f"delay_{lane}"] = delay = DelayLine(WORD + 2, adder.latency)
        m.d.comb += [adder.a.eq(near), adder.b.eq(quantum), delay.i.eq(Cat(kept, negative, unsent))]
        kept, negative, unsent = delay.o[:WORD], delay.o[WORD], delay.o[WORD + 1]
        high = Mux(unsent | negative, kept, adder.o)
        low = Mux(unsent, Cat(kept[:-1], Const(1, 1)), Mux(negative, adder.o, kept))
        return high, low, 3 + adder.latency

    def _step(self, m: Module, lane: str, size: Value, far: Value, negative: Value, level: Value) -> Value:
        """Exponent of the quantum that is added to a fill: its level, and of regions one more for each that lies below
        the fill; what is beyond all of them goes to infinity."""
        numbers = [bits - 3 for bits in REGION_BITS]
        steps, reached = Signal(SIZE, name=f"steps_{lane}"), Signal(3, name=f"reached_{lane}")
        # Where a region's last step, or of negative words the last two, are given up for what is beyond.
        limit = Signal(SIZE, name=f"limit_{lane}")
        m.d.comb += [
            steps.eq(size >> self.regions), reached.eq(Cat(steps >= (1 << region) - 1 for region in (1, 2, 3))),
            limit.eq(select([Const(0), *(Mux(negative, (15 << number) - 16, (15 << number) - 8) for number in numbers)],
                            self.regions)),
        ]
        region = Cat((reached[0] & ~reached[1]) | reached[2], reached[1])
        of_regions = self.regions != 0
        return Mux(of_regions & (far | (size >= limit)), (1 << EXPONENT_BITS) - 1,
                   (level + Mux(of_regions, region, 0))[:EXPONENT_BITS])

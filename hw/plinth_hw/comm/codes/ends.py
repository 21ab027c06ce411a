"""What is known of words by their fills: from where to where they are (:mod:`plinth_hw.isa.codes`).

::

    fill --> kind, or region --> near ------------------> low, high
                           +---> near --+--> adder --> far --^
                           quantum -----+

Throughput: a flit of fills in two cycles. Latency: that of the adder, and two cycles.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.adder import FloatAdder
from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.codes.block import BIASED, LEVEL
from plinth_hw.comm.codes.block_decode import kinds
from plinth_hw.comm.codes.regions import NUMBER, placed
from plinth_hw.isa.codes import BIAS, EXPONENT_BITS, FRACTION_BITS
from plinth_hw.isa.formats import FP32
from plinth_hw.lib.count import stepped
from plinth_hw.lib.delay import delayed
from plinth_hw.lib.fifo import FIFO

#: Flits that are under way, more than the adder's latency.
PLACES = 16


class FillEnds(wiring.Component):
    """Gives both ends of fills.

    Parameters
    ----------
    words : ArrayLayout
        Of a flit.

    Members
    -------
    i : In stream of ``fills`` and their ``level``
        With ``regions``, log2 n, they are fills of these, at a scale in place of a level.
    o : Out stream of ``words``
        Of each flit its words' highest values, then the lowest, as :func:`plinth_sim.golden.codes.ends`, or
        :func:`plinth_sim.golden.regions.fill_ends`.
    """

    def __init__(self, words: data.ArrayLayout):
        self.words = words
        fills = data.StructLayout({"fills": words, "level": LEVEL, "regions": NUMBER})
        super().__init__({"i": In(stream.Signature(fills)), "o": Out(stream.Signature(words))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self.words.length
        level, left = Signal(BIASED, name="biased_level"), Signal(range(PLACES + 1), init=PLACES, name="left")
        m.submodules.ends = ends = FIFO(data.ArrayLayout(self.words, 2), PLACES)
        takes, gives, second = Signal(name="takes"), Signal(name="gives"), Signal(name="second")
        m.d.comb += [
            level.eq(self.i.payload.level + BIAS), self.i.ready.eq(left != 0), takes.eq(self.i.valid & self.i.ready),
            self.o.valid.eq(ends.o.valid), self.o.payload.eq(Mux(second, ends.o.payload[1], ends.o.payload[0])),
            ends.o.ready.eq(self.o.ready & second), gives.eq(ends.o.valid & ends.o.ready),
        ]
        m.d.sync += left.eq(stepped(left, gives, takes))
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += second.eq(~second)
        latency = 0
        for lane in range(lanes):
            fill = self.i.payload.fills[lane]
            own, negative = fill[FRACTION_BITS:WORD - 1], fill[-1]
            zero, large, is_small = kinds(fill, level)
            number = self.i.payload.regions
            of_regions, position = number != 0, placed(m, f"fill_{lane}", fill, level, number)
            unsent, exact = ~(of_regions | zero | large | is_small), zero & ~of_regions
            # What is beyond all regions goes to infinity.
            step = Mux(position.beyond, (1 << EXPONENT_BITS) - 1, (level + position.region)[:EXPONENT_BITS])
            quantum = Cat(Const(0, FRACTION_BITS), Mux(of_regions, step, level[:EXPONENT_BITS]), negative)
            m.submodules[f"adder_{lane}"] = adder = FloatAdder(FP32)
            around = Cat(Const(0, FRACTION_BITS), (own + 1)[:EXPONENT_BITS], Const(0, 1))
            near = Mux(large | zero | of_regions, fill, Cat(Const(0, WORD - 1), negative))
            m.d.comb += [adder.a.eq(near), adder.b.eq(Mux(exact, Cat(Const(0, WORD - 1), negative), quantum))]
            latency = adder.latency
            kept = delayed(m, f"kept_{lane}", Cat(near, around, negative, unsent), latency)
            near, around, negative, unsent = kept[:WORD], kept[WORD:2 * WORD], kept[2 * WORD], kept[2 * WORD + 1]
            high = Mux(unsent, around, Mux(negative, near, adder.o))
            low = Mux(unsent, Cat(around[:-1], Const(1, 1)), Mux(negative, adder.o, near))
            m.d.comb += [ends.i.payload[0][lane].eq(high), ends.i.payload[1][lane].eq(low)]
        m.d.comb += ends.i.valid.eq(delayed(m, "taken", takes, latency))
        return m

"""Fills of the first part of a code (:mod:`plinth_hw.isa.codes`).

::

    bits --> header, signs, planes --> significands --> flits of fills
             header, words -------------------^

A word's significand is shifted in from its leading bit on. A block is given while the next one comes in.

Throughput: a flit a cycle, and a block in as many cycles as it has planes, and two; an escape in 18. Latency: last
plane of a block to its first flit two cycles.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import COUNT, WORD
from plinth_hw.comm.codes.block import BIASED, LEVEL, run_flit_layout
from plinth_hw.isa.codes import ABOVE, BIAS, BLOCK, ESCAPE, EXPONENT_BITS, FLOOR, FRACTION_BITS, HEADER_BITS
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import select
from plinth_hw.lib.count import index_bits

#: Bits of how far a leading bit is above the level.
_SHIFT = ABOVE.bit_length()
#: Of a word, as planes make it: ``exponent`` field of its leading bit, 0 before that; ``bits`` behind it, the last one
#: lowest.
_FILL = data.StructLayout({"negative": unsigned(1), "exponent": unsigned(EXPONENT_BITS), "bits": unsigned(ABOVE)})


class Bits(wiring.Signature):
    """Bits that wait, as of :class:`~plinth_hw.comm.codes.bits.BitReader`, seen from who takes them."""

    def __init__(self) -> None:
        super().__init__({"peek": In(WORD), "count": In(range(2 * WORD + 1)), "take": Out(COUNT)})


def small(level: Value) -> Value:
    """Magnitude of the fill of a sent word below the quantum, of a biased level."""
    return Cat(Const(0, FRACTION_BITS - 1), Const(1, 1), (level - 1)[:EXPONENT_BITS])


def kinds(fill: Value, level: Value) -> tuple[Value, Value, Value]:
    """Whether a fill says, at a biased level, that its word is exactly zero; has an exponent of at least the level; was
    sent and is below the quantum. Else nothing was sent of its block."""
    magnitude = fill[:WORD - 1]
    return magnitude == 0, fill[FRACTION_BITS:WORD - 1] >= level, magnitude == small(level)


class BlockDecoder(wiring.Component):
    """Decodes runs.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    level : In
        Stable while there is something under way.
    run : In stream
        How many words it has, at least 1.
    bits : Out(Bits)
    o : Out stream of :func:`~plinth_hw.comm.codes.block.run_flit_layout`
        Without a mask.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({"level": In(LEVEL), "run": In(stream.Signature(unsigned(WORD))), "bits": Out(Bits()),
                          "o": Out(stream.Signature(run_flit_layout(parameters)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits, level = self.bits, Signal(BIASED, name="biased_level")
        header, left = Signal(HEADER_BITS, name="header"), Signal(range(ABOVE + 2), name="planes_left")
        plane, number = Signal(EXPONENT_BITS, name="plane"), Signal(index_bits(BLOCK), name="number")
        fills = [Signal(_FILL, name=f"fill_{at}", reset_less=True) for at in range(BLOCK)]
        words = Signal(data.ArrayLayout(WORD, BLOCK), name="escaped", reset_less=True)
        exponent, planes = Signal(BIASED, name="exponent"), Signal(range(ABOVE + 2), name="planes")
        # Words of the run whose blocks have begun.
        begun = Signal(WORD, name="begun")
        # A block is whole, and goes on.
        whole, goes = Signal(name="whole"), Signal(name="goes")
        head = bits.peek[:HEADER_BITS]
        m.d.comb += [level.eq(self.level + BIAS), exponent.eq(level - FLOOR - 1 + head),
                     planes.eq(Mux((head != ESCAPE) & (exponent >= level), exponent - level + 1, 0))]
        with m.FSM():
            with m.State("HEADER"):
                sent = planes != 0
                need = Mux(sent, HEADER_BITS + BLOCK, HEADER_BITS)
                with m.If(self.run.valid & (begun < self.run.payload) & (bits.count >= need)):
                    m.d.comb += bits.take.eq(need)
                    m.d.sync += [begun.eq(begun + BLOCK), header.eq(head), left.eq(planes),
                                 plane.eq(exponent), number.eq(0),
                                 *(fill.eq(_FILL.const({})) for fill in fills),
                                 *(fill.negative.eq(bits.peek[HEADER_BITS + at]) for at, fill in enumerate(fills))]
                    m.next = "WHOLE"
                    with m.If(head == ESCAPE):
                        m.next = "WORDS"
                    with m.Elif(sent):
                        m.next = "PLANES"
            with m.State("PLANES"), m.If(bits.count >= BLOCK):
                m.d.comb += bits.take.eq(BLOCK)
                m.d.sync += [left.eq(left - 1), plane.eq(plane - 1)]
                for fill, bit in zip(fills, bits.peek[:BLOCK], strict=True):
                    with m.If(fill.exponent != 0):
                        m.d.sync += fill.bits.eq(Cat(bit, fill.bits))
                    with m.Elif(bit):
                        m.d.sync += fill.exponent.eq(plane)
                with m.If(left == 1):
                    m.next = "WHOLE"
            with m.State("WORDS"), m.If(bits.count >= WORD):
                m.d.comb += bits.take.eq(WORD)
                m.d.sync += [words.eq(Cat(words.as_value()[WORD:], bits.peek)), number.eq(number + 1)]
                with m.If(number.all()):
                    m.next = "WHOLE"
            with m.State("WHOLE"):
                m.d.comb += whole.eq(1)
                with m.If(goes):
                    m.next = "HEADER"
        with m.If(self.run.valid & self.run.ready):
            m.d.sync += begun.eq(0)
        self._give(m, level, header, fills, words, plane, whole, goes)
        return m

    def _give(self, m: Module, level: Signal, header: Signal, fills: list[Signal], words: Signal, plane: Signal,
              whole: Signal, goes: Signal) -> None:
        """Flits of a block."""
        lanes = self.parameters.flit_words
        sectors = BLOCK // lanes
        held = [Signal(_FILL, name=f"held_{at}", reset_less=True) for at in range(BLOCK)]
        escaped = Signal(data.ArrayLayout(WORD, BLOCK), name="held_words", reset_less=True)
        kind, around = Signal(HEADER_BITS, name="kind"), Signal(EXPONENT_BITS, name="around")
        place, busy, done = Signal(index_bits(sectors), name="place"), Signal(name="busy"), Signal(name="done")
        gone, left = Signal(WORD, name="gone"), Signal(WORD, name="left")
        flit = self.o.payload
        ends = left <= lanes
        sent = Signal(name="sent")
        m.d.comb += [
            self.o.valid.eq(busy), flit.words.eq(Mux(ends, left, lanes)), flit.ends.eq(ends),
            left.eq(self.run.payload - gone), sent.eq(kind > FLOOR),
            done.eq(self.o.ready & busy & (ends | (place == sectors - 1))),
            goes.eq(whole & (~busy | done)), self.run.ready.eq(self.o.ready & busy & ends),
        ]
        for lane in range(lanes):
            fill = data.View(_FILL, select([held[first + lane].as_value() for first in range(0, BLOCK, lanes)], place))
            own = select([escaped[first + lane] for first in range(0, BLOCK, lanes)], place)
            # The last plane is the level's: the leading bit goes up.
            fraction = (fill.bits << (FRACTION_BITS + level - fill.exponent)[:_SHIFT])[:FRACTION_BITS]
            hidden = small(level)
            word = Signal(WORD, name=f"word_{lane}")
            with m.If(kind == ESCAPE):
                large = (own[FRACTION_BITS:WORD - 1] >= level) | (own[:WORD - 1] == 0)
                m.d.comb += word.eq(Mux(large, own, Cat(hidden, own[-1])))
            with m.Elif(kind == 0):
                m.d.comb += word.eq(0)
            with m.Elif(~sent):
                m.d.comb += word.eq(Cat(Const(0, FRACTION_BITS), around))
            with m.Else():
                m.d.comb += word.eq(Cat(
                    Mux(fill.exponent != 0, Cat(fraction, fill.exponent), hidden), fill.negative))
            m.d.comb += flit.data[lane].eq(word)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [place.eq(place + 1), gone.eq(Mux(ends, 0, gone + lanes))]
        with m.If(done):
            m.d.sync += busy.eq(0)
        with m.If(goes):
            m.d.sync += [busy.eq(1), place.eq(0), kind.eq(header), around.eq(plane), escaped.eq(words),
                         *(register.eq(fill) for register, fill in zip(held, fills, strict=True))]

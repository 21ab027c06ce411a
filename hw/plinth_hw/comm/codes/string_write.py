"""Words of a string as packets, with its length behind them.

::

    word --> lanes of a flit --> flits from the place's second word on, then one with the length for the first

Throughput: a word a cycle, and each run two cycles more. Latency: last word of a flit to the flit one cycle. Packets do
not cross multiples of ``packet_words``.
"""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.comm.codes.bits import PACKED, WORD
from plinth_hw.comm.run_reader import packet_words
from plinth_hw.comm.tile_read import PieceUse, tile_flit_layout
from plinth_hw.isa.parameters import DieParameters


def _flit_layout(parameters: DieParameters) -> data.StructLayout:
    """What differs from flit to flit."""
    whole = tile_flit_layout(parameters)
    return data.StructLayout({name: whole[name].shape for name in ("data", "words", "address", "tail")})


class StringWriter(wiring.Component):
    """Gives strings.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    place : In
        First word of the run's string; stable until it has been given.
    room : In(32)
        Words of that place; likewise.
    i : In stream of :data:`~plinth_hw.comm.codes.bits.PACKED`
    o : Out stream of :func:`~plinth_hw.comm.tile_read.tile_flit_layout`
        Each packet is one that ``last`` marks.
    given : Out(1)
        Pulse: all of a run's string has been given.
    full : Out(1)
        With it: the place has not room for the string, of which what goes beyond and the length were not given.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "place": In(unsigned(parameters.address_bits)), "room": In(WORD), "i": In(stream.Signature(PACKED)),
            "o": Out(stream.Signature(tile_flit_layout(parameters))), "given": Out(1), "full": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lane_bits, reach_bits = exact_log2(self.parameters.flit_words), exact_log2(packet_words(self.parameters))
        packed, flit = self.i.payload, Signal(_flit_layout(self.parameters), name="flit")
        # Words that came, which is also that of the place before the next one's.
        count, inside = Signal(WORD, name="count"), Signal(name="inside")
        address, first = Signal.like(self.place, name="address"), Signal.like(self.place, name="first")
        lanes = Signal(range(self.parameters.flit_words + 1), name="lanes")
        kept = Signal.like(flit.data, name="kept")
        fits, closes, free, takes = (Signal(name=name) for name in ("fits", "closes", "free", "takes"))
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready), address.eq(self.place + count + 1), fits.eq(count + 1 < self.room),
            closes.eq(packed.last | address[:reach_bits].all() | (count + 2 == self.room)),
            takes.eq(self.i.valid & self.i.ready),
        ]
        lane = address[:lane_bits] if lane_bits else 0
        whole = address[:lane_bits].all() if lane_bits else 1
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.FSM():
            with m.State("WORDS"):
                m.d.comb += self.i.ready.eq(free)
                with m.If(takes & packed.there):
                    m.d.sync += count.eq(count + 1)
                    with m.If(fits):
                        m.d.sync += [kept[lane].eq(packed.word), lanes.eq(Mux(whole | closes, 0, lanes + 1)),
                                     inside.eq(~closes)]
                        with m.If(~inside):
                            m.d.sync += first.eq(address)
                        with m.If(whole | closes):
                            m.d.sync += [flit.data.eq(kept), flit.data[lane].eq(packed.word), flit.words.eq(lanes + 1),
                                         flit.address.eq(Mux(inside, first, address)), flit.tail.eq(closes),
                                         self.o.valid.eq(1)]
                with m.If(takes & packed.last):
                    m.next = "LENGTH"
            with m.State("LENGTH"):
                with m.If(free):
                    m.d.comb += [self.given.eq(1), self.full.eq(count >= self.room)]
                    m.d.sync += count.eq(0)
                    m.next = "WORDS"
                with m.If(free & ~self.full):
                    m.d.sync += [flit.data[self.place[:lane_bits] if lane_bits else 0].eq(count), flit.words.eq(1),
                                 flit.address.eq(self.place), flit.tail.eq(1), self.o.valid.eq(1)]
        m.d.comb += [*(self.o.payload[name].eq(flit[name]) for name, _ in flit.shape()),
                     self.o.payload.tag.use.eq(PieceUse.TILE), self.o.payload.tag.last.eq(1)]
        return m

"""Masks that came in strings, between the packets of the runs that they are of.

::

    map --> FIFO --> packet of a word --+--> o
    packets ----------------------------+

Throughput: a flit a cycle. Latency: map to its packet one cycle, and what is left of the packet that is under way;
packets none. The FIFO holds all masks of a packet's words, so that these can come while it is full.
"""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.skip_code import MAP
from plinth_hw.comm.codes.walk import GROUP, side_layout
from plinth_hw.comm.run_reader import packet_words
from plinth_hw.comm.tile_read import PieceUse, tile_flit_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.fifo import FIFO


class MaskStore(wiring.Component):
    """Gives masks.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    start : In(1)
        Pulse: masks of the first run come next.
    place : In, :func:`~plinth_hw.comm.codes.walk.side_layout`
        Of masks; stable until all of them have been given.
    map : In stream of :data:`~plinth_hw.comm.codes.skip_code.MAP`
    i, o : In and Out stream of :func:`~plinth_hw.comm.tile_read.tile_flit_layout`
        Each packet is one that ``last`` marks.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        flit = stream.Signature(tile_flit_layout(parameters))
        super().__init__({"start": In(1), "place": In(side_layout(parameters)), "map": In(stream.Signature(MAP)),
                          "i": In(flit), "o": Out(flit)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # A packet may begin within 32 words, and the decoder is up to four masks ahead of it.
        m.submodules.masks = masks = FIFO(MAP, packet_words(self.parameters) // GROUP + 6)
        wiring.connect(m, wiring.flipped(self.map), masks.i)
        row, at = (Signal(unsigned(self.parameters.address_bits), name=name) for name in ("row", "at"))
        # A packet of a run is offered, and not at its end; a mask goes.
        inside, of_mask = Signal(name="inside"), Signal(name="of_mask")
        flit = self.o.payload
        m.d.comb += [
            of_mask.eq(masks.o.valid & ~inside), self.o.valid.eq(of_mask | self.i.valid),
            masks.o.ready.eq(of_mask & self.o.ready), self.i.ready.eq(~of_mask & self.o.ready), flit.eq(self.i.payload),
        ]
        with m.If(of_mask):
            m.d.comb += [flit.data.as_value().eq(masks.o.payload.word.replicate(self.parameters.flit_words)),
                         flit.words.eq(1), flit.address.eq(at), flit.tail.eq(1), flit.tag.use.eq(PieceUse.TILE),
                         flit.tag.last.eq(1)]
        with m.Elif(self.i.valid):
            m.d.sync += inside.eq(~(self.i.ready & self.i.payload.tail))
        with m.If(self.start):
            m.d.sync += [row.eq(self.place.first), at.eq(self.place.first)]
        with m.Elif(masks.o.valid & masks.o.ready):
            following = row + self.place.stride
            m.d.sync += at.eq(Mux(masks.o.payload.ends, following, at + 1))
            with m.If(masks.o.payload.ends):
                m.d.sync += row.eq(following)
        return m

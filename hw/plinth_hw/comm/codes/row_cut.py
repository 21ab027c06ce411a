"""Flits of a row to packets of where it goes.

::

    flit --> sector --> Aligner --> o
    row --> pieces, each in one packet's reach --^

Throughput: a flit a cycle; one more a packet whose row does not begin with a flit there, and one a row. Latency: flit
to flit one cycle, of a row's first one two.
"""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from plinth_hw.comm.align import Aligner
from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.codes.block import run_flit_layout
from plinth_hw.comm.run_reader import packet_words
from plinth_hw.comm.tile_read import PieceUse, tile_flit_layout, tile_tag_layout
from plinth_hw.isa.parameters import DieParameters


class CodeRowCut(wiring.Component):
    """Cuts rows.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    place : In
        First word of where the row goes; stable from its first flit on ``i`` until ``given``, which may come after the
        next row's first flit is offered.
    words : In(32)
        Of the row, at least 1; likewise.
    i : In stream of :func:`~plinth_hw.comm.codes.block.run_flit_layout`
        Whose ``ends`` is the row's.
    o : Out stream of :func:`~plinth_hw.comm.tile_read.tile_flit_layout`
        Each packet is one that ``last`` marks.
    given : Out(1)
        Pulse: ``place`` and ``words`` of the row are done with.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "place": In(unsigned(parameters.address_bits)), "words": In(WORD),
            "i": In(stream.Signature(run_flit_layout(parameters))),
            "o": Out(stream.Signature(tile_flit_layout(parameters))), "given": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters, reach = self.parameters, packet_words(self.parameters)
        lane_bits = exact_log2(parameters.flit_words)
        # The last flit of a piece has the next one's first words as well; it is the row's last piece.
        note = data.StructLayout({"keeps": unsigned(1), "ends": unsigned(1)})
        m.submodules.aligner = aligner = Aligner(parameters, tile_tag_layout(parameters), note)
        connect(m, aligner.o, flipped(self.o))
        done, left, room = Signal(WORD, name="done"), Signal(WORD, name="left"), Signal(range(reach + 1), name="room")
        # Of the row a piece has been cut; all have.
        inside, finished = Signal(name="inside"), Signal(name="finished")
        ends, address = Signal(name="ends"), Signal(parameters.address_bits, name="address")
        piece = aligner.piece.payload
        m.d.comb += [
            left.eq(self.words - done), address.eq(self.place + done), piece.run.address.eq(address),
            room.eq(reach - address[:exact_log2(reach)]), ends.eq(left <= room),
            piece.run.words.eq(Mux(ends, left, room)), piece.origin.eq(done[:lane_bits]), piece.tail.eq(1),
            piece.tag.use.eq(PieceUse.TILE), piece.tag.last.eq(1),
            piece.note.keeps.eq(~ends & ((done + room)[:lane_bits] != 0)), piece.note.ends.eq(ends),
            aligner.piece.valid.eq((self.i.valid | inside) & ~finished), aligner.sector.eq(self.i.payload.data),
            aligner.sector_valid.eq(self.i.valid), self.given.eq(aligner.given & aligner.note.ends),
            self.i.ready.eq(aligner.sector_taken & ~(aligner.sector_last & aligner.note.keeps)),
        ]
        with m.If(aligner.piece.valid & aligner.piece.ready):
            m.d.sync += [done.eq(Mux(ends, 0, done + room)), inside.eq(~ends), finished.eq(ends)]
        with m.If(self.given):
            m.d.sync += finished.eq(0)
        return m

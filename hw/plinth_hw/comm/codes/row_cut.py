"""Flits of a row to packets of where it goes.

::

    flit --> sector --> Aligner --> o
    row --> pieces, each in one packet's reach --^

Throughput: a flit a cycle; one more a packet whose row does not begin with a flit there, and four a row. Latency: flit
to flit one cycle, of a row's first one five.
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
        # The next piece's address, the words from there on, and the lane of the first one; words up to the end of the
        # packet's reach, no more of which are the row's.
        address, left = Signal(parameters.address_bits, name="address"), Signal(WORD, name="left")
        lane, room = Signal(lane_bits, name="lane"), Signal(range(reach + 1), name="room")
        ends, behind = Signal(name="ends"), Signal.like(room, name="lane_behind")
        # The row is cut: all pieces have been.
        finished, piece = Signal(name="finished"), aligner.piece.payload
        m.d.comb += [
            piece.run.address.eq(address), piece.run.words.eq(Mux(ends, left, room)), piece.origin.eq(lane),
            piece.tail.eq(1), piece.tag.use.eq(PieceUse.TILE), piece.tag.last.eq(1), behind.eq(lane + room),
            piece.note.keeps.eq(~ends & (behind[:lane_bits] != 0)), piece.note.ends.eq(ends),
            aligner.sector.eq(self.i.payload.data), aligner.sector_valid.eq(self.i.valid),
            self.given.eq(aligner.given & aligner.note.ends),
            self.i.ready.eq(aligner.sector_taken & ~(aligner.sector_last & aligner.note.keeps)),
        ]
        with m.FSM():
            with m.State("ROW"):
                m.d.sync += [address.eq(self.place), left.eq(self.words), lane.eq(0)]
                with m.If(self.i.valid & ~finished):
                    m.next = "ROOM"
            with m.State("ROOM"):
                reaches = reach - address[:exact_log2(reach)]
                m.d.sync += [room.eq(reaches), ends.eq(left <= reaches)]
                m.next = "PIECE"
            with m.State("PIECE"):
                m.d.comb += aligner.piece.valid.eq(1)
                with m.If(aligner.piece.ready):
                    m.d.sync += [address.eq(address + room), left.eq(left - room), lane.eq(behind)]
                    m.next = "ROOM"
                    with m.If(ends):
                        m.d.sync += finished.eq(1)
                        m.next = "ROW"
        with m.If(self.given):
            m.d.sync += finished.eq(0)
        return m

"""Stages between the reading of tiles and packets: windows of a map become tiles, or tiles become a map.

::

    block --+--> PlaceWalk --+--> piece --> (TileRead) --> flit --+
            |   (of source)  +--> order --> zeros ----------------+--> TileTransform --+
            |                                                                          v
            +--> PlaceWalk (of destination) --> pieces -----------------------------> Aligner --> flits of packets

A block is one window of at most a beat of channels. Its places are read one by one, zeros come in for those outside the
map; what the transform makes of it goes, place by place, to where the destination's lattice says, aligned as memory
there, and what lies outside the destination's map is dropped. A place is a packet, or two where it crosses a multiple
of ``packet_words``.

Throughput: a flit a cycle in, or out, whichever are more, less one a place that lies across flits, as long as the
blocks that are on their way (:data:`~plinth_hw.comm.block_turn.BLOCKS`) last for the latency. Latency: that of
:class:`~plinth_hw.comm.tile_transform.TileTransform`, of reading, and 5 cycles. Source: MPT section VI.A; DESIGN "One
transfer pipeline".
"""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.comm.align import Aligner
from plinth_hw.comm.block_turn import BLOCKS
from plinth_hw.comm.place_walk import PlaceWalk, block_layout, lattice_layout, members_layout
from plinth_hw.comm.run_reader import packet_words
from plinth_hw.comm.tile_read import PIECES, PieceUse, tile_flit_layout, tile_piece_layout, tile_tag_layout
from plinth_hw.comm.tile_transform import TileTransform, tile_block_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.winograd import Matrix
from plinth_hw.lib.choice import select
from plinth_hw.lib.count import stepped
from plinth_hw.lib.fifo import FIFO, Storage


class TileStages(wiring.Component):
    """Makes blocks' places of others.

    Parameters
    ----------
    parameters : DieParameters
    matrices : sequence of Matrix
        As of :class:`~plinth_hw.comm.tile_transform.TileTransform`.

    Members
    -------
    start : In(1)
        Pulse, while ``idle``, before the first block of a task.
    source, destination : In, :func:`~plinth_hw.comm.place_walk.lattice_layout`
        Stable from ``start`` until ``idle``.
    members : In, :func:`~plinth_hw.comm.place_walk.members_layout`
        Dies that places go to, if these are several; stable likewise.
    down, across, down_first, marks : In
        As of a transform, and of its block; stable likewise. A block has as many places as the matrices have columns
        at the source, and as they have rows at the destination.
    block : In stream of ``source`` and ``destination`` (addresses), ``words``, ``ends_tile``, ``ends_row``
        As of :func:`~plinth_hw.comm.place_walk.block_layout`.
    piece : Out stream of :func:`~plinth_hw.comm.tile_read.tile_piece_layout`
        Each a packet of its own, from lane 0 on.
    flit : In stream of :func:`~plinth_hw.comm.tile_read.tile_flit_layout`
        What was read of them.
    o : Out stream of :func:`~plinth_hw.comm.tile_read.tile_flit_layout`
        Each packet is one that ``last`` marks.
    idle : Out(1)
        Of all blocks that were taken everything has been given.
    """

    def __init__(self, parameters: DieParameters, matrices: Sequence[Matrix]):
        self.parameters = parameters
        self.matrices = tuple(matrices)
        self.places = max(max(len(matrix), len(matrix[0])) for matrix in matrices)
        number = tile_block_layout(parameters, len(matrices))["down"].shape
        lattice, address = lattice_layout(parameters), unsigned(parameters.address_bits)
        super().__init__({
            "start": In(1), "source": In(lattice), "destination": In(lattice),
            "members": In(members_layout(parameters)),
            "down": In(number), "across": In(number), "down_first": In(1),
            **({"marks": In(1)} if parameters.codes else {}),
            "block": In(stream.Signature(data.StructLayout({
                "source": address, "destination": address, "words": block_layout(parameters)["words"].shape,
                "ends_tile": unsigned(1), "ends_row": unsigned(1)}))),
            "piece": Out(stream.Signature(tile_piece_layout(parameters))),
            "flit": In(stream.Signature(tile_flit_layout(parameters))),
            "o": Out(stream.Signature(tile_flit_layout(parameters))), "idle": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters, lane_bits = self.parameters, exact_log2(self.parameters.flit_words)
        m.submodules.transform = transform = TileTransform(parameters, self.matrices)
        m.submodules.reads = reads = PlaceWalk(parameters, self.places)
        m.submodules.writes = writes = PlaceWalk(parameters, self.places, spreads=True)
        m.submodules.written = written = FIFO(block_layout(parameters), BLOCKS)
        wiring.connect(m, written.o, writes.block)
        block, count = self.block.payload, Signal(range(BLOCKS + 1), name="count")
        takes, ends = Signal(name="takes"), Signal(name="ends")
        columns, rows = [len(matrix[0]) - 1 for matrix in self.matrices], [len(matrix) - 1 for matrix in self.matrices]
        sides = ((reads, reads.block, self.source, block.source, columns),
                 (writes, written.i, self.destination, block.destination, rows))
        receivers = (reads.block, written.i, transform.block)
        m.d.comb += [
            writes.members.eq(self.members),
            takes.eq(self.block.valid & self.block.ready), self.idle.eq((count == 0) & ~self.o.valid),
            self.block.ready.eq((count != BLOCKS) & reads.block.ready & written.i.ready & transform.block.ready),
            *(receiver.valid.eq(takes) for receiver in receivers),
            *(transform.block.payload[name].eq(getattr(self, name)) for name in ("down", "across", "down_first")),
            transform.block.payload.sectors.eq((block.words - 1) >> lane_bits),
        ]
        for walk, walk_block, lattice, address, last in sides:
            m.d.comb += [walk.start.eq(self.start), walk.lattice.eq(lattice), walk_block.payload.address.eq(address),
                         walk.last_down.eq(select(last, self.down)), walk.last_across.eq(select(last, self.across)),
                         *(walk_block.payload[name].eq(block[name]) for name in ("words", "ends_tile", "ends_row"))]
        if parameters.codes:
            m.d.comb += transform.marks.eq(self.marks)
        m.d.sync += count.eq(stepped(count, takes, ends))
        self._read(m, reads, transform)
        self._write(m, writes, transform, ends)
        return m

    def _read(self, m: Module, walk: PlaceWalk, transform: TileTransform) -> None:
        """Places of the source, or zeros, in their order."""
        lane_bits = exact_log2(self.parameters.flit_words)
        place, piece = walk.o.payload, self.piece.payload
        m.submodules.order = order = FIFO(data.StructLayout({
            "inside": unsigned(1), "sectors": transform.block.payload.sectors.shape()}), PIECES, Storage.SECTIONS)
        m.d.comb += [
            piece.source.eq(place.address), piece.run.words.eq(place.words), piece.use.eq(PieceUse.TILE),
            piece.tail.eq(1),
            self.piece.valid.eq(walk.o.valid & place.inside & order.i.ready),
            order.i.payload.inside.eq(place.inside), order.i.payload.sectors.eq((place.words - 1) >> lane_bits),
            order.i.valid.eq(walk.o.valid & (self.piece.ready | ~place.inside)),
            walk.o.ready.eq(order.i.ready & (self.piece.ready | ~place.inside)),
        ]
        head, zeros, last = order.o.payload, Signal.like(order.o.payload.sectors), Signal(name="last_sector")
        moves = Signal(name="moves")
        m.d.comb += [
            transform.i.payload.as_value().eq(Mux(head.inside, self.flit.payload.data.as_value(), 0)),
            transform.i.valid.eq(order.o.valid & (self.flit.valid | ~head.inside)),
            moves.eq(transform.i.valid & transform.i.ready), self.flit.ready.eq(moves & head.inside),
            last.eq(zeros == head.sectors), order.o.ready.eq(moves & last),
        ]
        with m.If(moves):
            m.d.sync += zeros.eq(Mux(last, 0, zeros + 1))

    def _write(self, m: Module, walk: PlaceWalk, transform: TileTransform, ends: Signal) -> None:
        """Places of the destination, in one packet or two, or nowhere."""
        parameters, reach = self.parameters, packet_words(self.parameters)
        lane_bits, reach_bits = exact_log2(parameters.flit_words), exact_log2(reach)
        # Of a piece: its last sector has the next one's first words as well; it ends its block.
        note = data.StructLayout({"keeps": unsigned(1), "ends": unsigned(1)})
        m.submodules.places = places = FIFO(walk.o.payload.shape(), 2, Storage.HEAD)
        m.submodules.aligner = aligner = Aligner(parameters, tile_tag_layout(parameters), note)
        m.submodules.pieces = pieces = FIFO(aligner.piece.payload.shape(), 2, Storage.HEAD)
        wiring.connect(m, walk.o, places.i)
        wiring.connect(m, pieces.o, aligner.piece)
        wiring.connect(m, aligner.o, wiring.flipped(self.o))
        place, piece = places.o.payload, pieces.i.payload
        room, rest = Signal(reach_bits + 1, name="room"), Signal.like(place.words, name="rest")
        crosses, second = Signal(name="crosses"), Signal(name="second")
        m.d.comb += [
            room.eq(reach - place.address[:reach_bits]), crosses.eq(place.inside & (place.words > room)),
            rest.eq(place.words - room), piece.note.keeps.eq(crosses & ~second & (room[:lane_bits] != 0)),
            piece.note.ends.eq(place.last & (second | ~crosses)), piece.dropped.eq(~place.inside),
            # What is dropped goes to no lane: it has as many flits as sectors.
            piece.run.address.eq(Mux(second, (place.address[reach_bits:] + 1) << reach_bits,
                                     Mux(place.inside, place.address, 0))),
            piece.run.words.eq(Mux(second, rest, Mux(crosses, room, place.words))),
            piece.origin.eq(Mux(second, room[:lane_bits], 0)), piece.tail.eq(1),
            piece.tag.use.eq(PieceUse.TILE), piece.tag.last.eq(1), piece.tag.die.eq(place.die),
            pieces.i.valid.eq(places.o.valid), places.o.ready.eq(pieces.i.ready & (second | ~crosses)),
            aligner.sector.eq(transform.o.payload), aligner.sector_valid.eq(transform.o.valid),
            transform.o.ready.eq(aligner.sector_taken & ~(aligner.sector_last & aligner.note.keeps)),
            ends.eq(aligner.given & aligner.note.ends),
        ]
        with m.If(pieces.i.valid & pieces.i.ready):
            m.d.sync += second.eq(crosses & ~second)

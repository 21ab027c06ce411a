"""Reads the pieces of a tile and gives them as the flits of packets, aligned as their destination.

::

    piece --> slice --+--> RunReader --sectors--> Aligner --> flit
                      |     (memory)                 ^
                      +--> pieces FIFO --------------+

A piece is a run of words in both memories; one piece or several whose words follow each other in the destination
become a packet. A beat in which one piece ends and the next begins is read once, by the last of the pieces that share
it.

Throughput: that of :class:`~plinth_hw.comm.align.Aligner`. Latency: piece to request one cycle; first beat of the
memory to flit one cycle, and those of :class:`RunReader`.
"""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.comm.align import Aligner, aligned_flit_layout
from plinth_hw.comm.run_reader import RunReader, packet_buffer_beats, run_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import index_bits
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.memory.port import TASK_BITS, ReadPort

#: Pieces, and beats at least, asked for but not yet given: more than cycles of a memory's latency, as a piece may be a
#: word.
PIECES = 64


class PieceUse(enum.Enum, shape=unsigned(2)):
    """What a piece is for."""

    #: Words of the tile.
    TILE = 0
    #: Numbers of rows; of a run that is coded, a word of its mask.
    INDEX = 1
    #: Nothing to read: the end of the task, which advances counter ``address``.
    ARRIVAL = 2


def tile_piece_layout(parameters: DieParameters) -> data.StructLayout:
    """``source``: first word read; ``run``: where the words go; ``use``; ``last``: last words of its task; ``tail``:
    the next piece's words are no more of this packet; ``more``: they follow these in the source."""
    return data.StructLayout({
        "source": unsigned(parameters.address_bits), "run": run_layout(parameters), "use": PieceUse,
        "last": unsigned(1), "tail": unsigned(1), "more": unsigned(1),
    })


def tile_tag_layout(parameters: DieParameters) -> data.StructLayout:
    """``use`` and ``last`` of a piece; with transforms, which ``die`` a place goes to, where tiles go to several."""
    return data.StructLayout({"use": PieceUse, "last": unsigned(1),
                              **({"die": unsigned(parameters.die_bits)} if parameters.transforms else {})})


def tile_flit_layout(parameters: DieParameters) -> data.StructLayout:
    """A flit of a packet (:func:`~plinth_hw.comm.align.aligned_flit_layout`) with the tag of its piece."""
    return aligned_flit_layout(parameters, tile_tag_layout(parameters))


class TileRead(wiring.Component):
    """Reads pieces.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    piece : In stream of :func:`tile_piece_layout`
    task : In
        Of the pieces, as of requests.
    read : Out(ReadPort)
    o : Out stream of :func:`tile_flit_layout`
    idle : Out(1)
        No piece is under way.
    """

    def __init__(self, parameters: DieParameters):
        self._parameters = parameters
        super().__init__({
            "piece": In(stream.Signature(tile_piece_layout(parameters))),
            "task": In(TASK_BITS), "read": Out(ReadPort(parameters)),
            "o": Out(stream.Signature(tile_flit_layout(parameters))),
            "idle": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters = self._parameters
        flit_words = parameters.flit_words
        lane_bits, beat_bits = exact_log2(flit_words), exact_log2(parameters.beat_words)
        m.submodules.reader = reader = RunReader(parameters, max(PIECES, 2 * packet_buffer_beats(parameters)))
        wiring.connect(m, reader.port, wiring.flipped(self.read))
        shape = data.StructLayout({
            "place": unsigned(index_bits(parameters.beat_words)), "run": run_layout(parameters), "use": PieceUse,
            "last": unsigned(1), "tail": unsigned(1), "keeps": unsigned(1)})
        m.submodules.pieces = pieces = FIFO(shape, max(PIECES, parameters.beat_words), Storage.SECTIONS)
        # How far a piece reaches is found out from a register.
        m.submodules.given = given = FIFO(tile_piece_layout(parameters), 2, Storage.HEAD)
        wiring.connect(m, wiring.flipped(self.piece), given.i)
        piece, queued = given.o.payload, pieces.i.payload
        # Where the piece ends, in words from its first beat on; it ends within a beat, which it reads unless the
        # next piece does.
        source_end = Signal(len(piece.run.words) + 1)
        within, reads_last, reads = Signal(name="within"), Signal(name="reads_last"), Signal(name="reads")
        m.d.comb += [
            source_end.eq(piece.source[:beat_bits] + piece.run.words), within.eq(source_end[:beat_bits].any()),
            reads_last.eq(within & ~piece.more),
            reads.eq((piece.use != PieceUse.ARRIVAL) & (reads_last | source_end[beat_bits:].any())),
            reader.command.valid.eq(given.o.valid & reads & pieces.i.ready),
            reader.command.payload.address.eq(piece.source[beat_bits:]),
            reader.command.payload.beats_rest.eq(source_end[beat_bits:] - ~reads_last),
            reader.task.eq(self.task),
            given.o.ready.eq(pieces.i.ready & (reader.command.ready | ~reads)),
            pieces.i.valid.eq(given.o.valid & (reader.command.ready | ~reads)),
            queued.place.eq(piece.source[:beat_bits]),
            *(queued[name].eq(piece[name]) for name in ("run", "use", "last", "tail")),
            queued.keeps.eq(within & piece.more),
        ]

        # The current piece, and its sectors, which lie in beats one behind the other.
        note = data.StructLayout({"sector": unsigned(index_bits(parameters.beat_words // flit_words)),
                                  "keeps": unsigned(1)})
        m.submodules.aligner = aligner = Aligner(parameters, tile_tag_layout(parameters), note)
        head, part, current = pieces.o.payload, aligner.piece.payload, aligner.note
        sector = Signal(index_bits(parameters.beat_words // flit_words), name="sector")
        following_sector = Signal.like(sector, name="following_sector")
        m.d.comb += [
            part.origin.eq(head.place[:lane_bits]), part.run.eq(head.run), part.tail.eq(head.tail),
            part.empty.eq(head.use == PieceUse.ARRIVAL), part.tag.use.eq(head.use), part.tag.last.eq(head.last),
            part.note.sector.eq(head.place[lane_bits:]), part.note.keeps.eq(head.keeps),
            aligner.piece.valid.eq(pieces.o.valid), pieces.o.ready.eq(aligner.piece.ready),
            sector.eq(Mux(aligner.sector_first, current.sector, following_sector)), reader.sector.eq(sector),
            aligner.sector.eq(reader.o), aligner.sector_valid.eq(reader.valid),
            reader.pop.eq(aligner.sector_taken & Mux(aligner.sector_last, ~current.keeps,
                                                     sector == parameters.beat_words // flit_words - 1)),
            self.idle.eq(given.empty & pieces.empty & aligner.idle),
        ]
        with m.If(aligner.sector_taken):
            m.d.sync += following_sector.eq((sector + 1)[:beat_bits - lane_bits])
        wiring.connect(m, aligner.o, wiring.flipped(self.o))
        return m

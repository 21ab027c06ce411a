"""Reads the pieces of a tile and gives them as the flits of packets, aligned as their destination.

::

    piece --+--> RunReader --> sector --> rotate --+--> merge --> flit
            |     (memory)                |       |
            +--> pieces FIFO              +--> sector before

A piece is a run of words in both memories; one piece or several whose words follow each other in the destination
become a packet. With s and d the low parts of its source and destination addresses, every sector read is rotated by
(s - d) mod F, F = ``flit_words``, and a flit takes its lanes from two successive ones; one that a piece leaves
unfinished waits for the lanes of the next. A beat in which one piece ends and the next begins is read once, by the last
of the pieces that share it.

Throughput: a flit a cycle, and each of a packet's pieces a cycle at least, one more where s > d and the piece lies in
two sectors or more. Latency: first beat of the memory to flit one cycle, and those of :class:`RunReader`.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.comm.flit import payload_layout
from plinth_hw.comm.run_reader import RunReader, packet_buffer_beats, run_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import index_bits
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.lib.rotator import rotate
from plinth_hw.memory.port import TASK_BITS, ReadPort

#: Pieces, and beats at least, asked for but not yet given: more than cycles of a memory's latency, as a piece may be a
#: word.
PIECES = 64


class PieceUse(enum.Enum, shape=unsigned(2)):
    """What a piece is for."""

    #: Words of the tile.
    TILE = 0
    #: Numbers of rows.
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


def tile_flit_layout(parameters: DieParameters) -> data.StructLayout:
    """A flit of a packet: ``data``, and in how many lanes (``words``); ``address`` of the packet's first word; ``use``
    and ``last`` of the piece; ``tail``: it is the packet's last flit."""
    return data.StructLayout({
        "data": payload_layout(parameters),
        "words": unsigned(parameters.flit_words.bit_length()),
        "address": unsigned(parameters.address_bits), "use": PieceUse, "last": unsigned(1), "tail": unsigned(1),
    })


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
        lane_bits, width = exact_log2(flit_words), index_bits(flit_words)
        beat_bits, sectors_log2 = exact_log2(parameters.beat_words), exact_log2(parameters.beat_words // flit_words)
        m.submodules.reader = reader = RunReader(parameters, max(PIECES, 2 * packet_buffer_beats(parameters)))
        wiring.connect(m, reader.port, wiring.flipped(self.read))
        shape = data.StructLayout({
            "place": unsigned(index_bits(parameters.beat_words)), "run": run_layout(parameters), "use": PieceUse,
            "last": unsigned(1), "tail": unsigned(1), "keeps": unsigned(1)})
        m.submodules.pieces = pieces = FIFO(shape, max(PIECES, parameters.beat_words), Storage.SECTIONS)
        piece, given = self.piece.payload, pieces.i.payload
        # Where the piece ends, in words from its first beat on; it ends within a beat, which it reads unless the
        # next piece does.
        source_end = Signal(len(piece.run.words) + 1)
        within, reads_last, reads = Signal(name="within"), Signal(name="reads_last"), Signal(name="reads")
        m.d.comb += [
            source_end.eq(piece.source[:beat_bits] + piece.run.words), within.eq(source_end[:beat_bits].any()),
            reads_last.eq(within & ~piece.more),
            reads.eq((piece.use != PieceUse.ARRIVAL) & (reads_last | source_end[beat_bits:].any())),
            reader.command.valid.eq(self.piece.valid & reads & pieces.i.ready),
            reader.command.payload.address.eq(piece.source[beat_bits:]),
            reader.command.payload.beats_rest.eq(source_end[beat_bits:] - ~reads_last),
            reader.task.eq(self.task),
            self.piece.ready.eq(pieces.i.ready & (reader.command.ready | ~reads)),
            pieces.i.valid.eq(self.piece.valid & (reader.command.ready | ~reads)),
            given.place.eq(piece.source[:beat_bits]),
            *(given[name].eq(piece[name]) for name in ("run", "use", "last", "tail")),
            given.keeps.eq(within & piece.more),
        ]

        # The piece at the head: where it begins in a higher lane than its destination, a sector is read before the
        # first flit, unless that is all; the last flit may need none. So its flits and the sectors that it reads
        # differ by one at most, and their parities tell which are more.
        head = pieces.o.payload
        origin, destination = Signal(width, name="origin"), Signal(width, name="destination")
        flits, made = Signal(len(head.run.words), name="flits"), Signal(len(head.run.words), name="made")
        left = Signal.like(flits, name="left")
        odd_sectors, shift = Signal(name="odd_sectors"), Signal(width, name="shift")
        opens, fresh = Signal(init=1, name="opens"), Signal(init=1, name="fresh")
        step, primes, prime = Signal(name="step"), Signal(name="primes"), Signal(name="prime")
        last, spare, needs = Signal(name="last"), Signal(name="spare"), Signal(name="needs")
        alone, unfinished, sectors_end = Signal(name="alone"), Signal(name="unfinished"), Signal(name="sectors_end")
        sector = Signal(index_bits(parameters.beat_words // flit_words), name="sector")
        following_sector = Signal.like(sector, name="following_sector")
        arrival = head.use == PieceUse.ARRIVAL
        free = ~self.o.valid | self.o.ready
        begin, end = Signal(width, name="begin"), Signal(width + 1, name="end")
        word_end = Signal(width)
        m.d.comb += [
            origin.eq(head.place[:lane_bits]), destination.eq(head.run.address[:lane_bits]),
            shift.eq((origin - destination)[:lane_bits]),
            flits.eq((destination + head.run.words + (flit_words - 1)) >> lane_bits), left.eq(flits - made),
            odd_sectors.eq(((origin + head.run.words + (flit_words - 1)) >> lane_bits)[0]),
            alone.eq((flits == 1) & odd_sectors), primes.eq((origin > destination) & ~alone),
            spare.eq(flits[0] ^ primes ^ odd_sectors),
            prime.eq(~arrival & primes & opens),
            last.eq(arrival | (~prime & (left == 1))),
            needs.eq(~arrival & ~(last & spare)),
            sectors_end.eq(~prime & (left == Mux(spare, 2, 1))),
            step.eq(pieces.o.valid & (prime | free) & (reader.valid | ~needs)),
            sector.eq(Mux(opens, head.place[lane_bits:], following_sector)), reader.sector.eq(sector),
            reader.pop.eq(step & needs & Mux(sectors_end, ~head.keeps, sector == (1 << sectors_log2) - 1)),
            pieces.o.ready.eq(step & last),
            self.idle.eq(pieces.empty & ~self.o.valid),

            begin.eq(Mux(fresh, destination, 0)),
            word_end.eq((destination + head.run.words)[:lane_bits]),
            end.eq(Mux(last & (word_end != 0), word_end, flit_words)),
            unfinished.eq(last & ~head.tail & (word_end != 0)),
        ]
        with m.If(step):
            m.d.sync += [opens.eq(last), fresh.eq(last | prime),
                         following_sector.eq((sector + 1)[:sectors_log2])]
            with m.If(last):
                m.d.sync += made.eq(0)
            with m.Elif(~prime):
                m.d.sync += made.eq(made + 1)
        rotated = Signal(reader.o.shape())
        before = Signal.like(rotated)
        m.d.comb += rotated.as_value().eq(Cat(*rotate(
            m, "sector", [reader.o[lane] for lane in range(flit_words)], shift, 0, lane_bits, up=False)))
        with m.If(step & needs):
            m.d.sync += before.eq(rotated)

        #: A packet goes on from the piece before; a flit does.
        inside, begun = Signal(name="inside"), Signal(name="begun")
        with m.If(free):
            m.d.sync += self.o.valid.eq(step & ~prime & ~unfinished)
        with m.If(step & ~prime):
            payload = self.o.payload
            m.d.sync += [
                begun.eq(unfinished), payload.words.eq(Mux(begun, payload.words, 0) + end - begin),
                payload.use.eq(head.use), payload.last.eq(head.last), payload.tail.eq(last & head.tail),
            ]
            with m.If(last):
                m.d.sync += inside.eq(~head.tail)
            with m.If(~inside):
                m.d.sync += payload.address.eq(head.run.address)
            for lane in range(flit_words):
                from_before = ~alone & (shift != 0) & (shift + lane < flit_words)
                with m.If(lane >= begin):
                    m.d.sync += payload.data[lane].eq(Mux(from_before, before[lane], rotated[lane]))
        return m

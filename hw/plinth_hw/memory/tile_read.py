"""Reads the pieces of a tile and gives them as the flits of packets, aligned as their destination.

::

    piece --+--> SlotReader --> slot --> rotate --+--> merge --> flit
            |     (memory)                |       |
            +--> pieces FIFO              +--> slot before

A piece is a run of words that is read in one go and becomes one packet. With s and d the low parts of its source and
destination addresses, every slot read is rotated by (s - d) mod F, F = ``flit_words``, and a flit takes its lanes
from two successive ones. Throughput: a flit a cycle, less one a piece where s > d. Latency: first beat of the
memory to flit 2 cycles.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.queue import Queue
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.memory.port import ReadPort
from plinth_hw.memory.scratchpad import rotate
from plinth_hw.memory.slots import RUNS, SlotReader, buffer_beats, covered, log2, place_bits, run_layout


class PieceUse(enum.Enum, shape=unsigned(2)):
    """What a piece is for."""

    #: Words of the tile.
    TILE = 0
    #: Numbers of rows.
    INDEX = 1
    #: Nothing to read: the end of the task, which advances counter ``address``.
    ARRIVAL = 2


def piece_layout(parameters: DieParameters) -> data.StructLayout:
    """``source``: first word read; ``run``: where the words go; ``use``; ``last``: last words of its task."""
    return data.StructLayout({
        "source": unsigned(parameters.address_bits), "run": run_layout(parameters), "use": PieceUse,
        "last": unsigned(1),
    })


def slot_flit_layout(parameters: DieParameters) -> data.StructLayout:
    """A flit of a piece: ``data``, and in how many lanes (``words``); ``address``, ``use``, ``last`` of the piece;
    ``tail``: it is the piece's last flit."""
    return data.StructLayout({
        "data": data.ArrayLayout(unsigned(32), parameters.flit_words),
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
    piece : In stream of :func:`piece_layout`
    read : Out(ReadPort)
    o : Out stream of :func:`slot_flit_layout`
    idle : Out(1)
        No piece is under way.
    """

    def __init__(self, parameters: DieParameters):
        self._parameters = parameters
        super().__init__({
            "piece": In(stream.Signature(piece_layout(parameters))),
            "read": Out(ReadPort(parameters)),
            "o": Out(stream.Signature(slot_flit_layout(parameters))),
            "idle": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters = self._parameters
        flit_words = parameters.flit_words
        lane_bits, width = log2(flit_words), place_bits(flit_words)
        m.submodules.reader = reader = SlotReader(parameters, 2 * buffer_beats(parameters))
        wiring.connect(m, reader.port, wiring.flipped(self.read))
        shape = data.StructLayout({
            "lane": unsigned(width), "run": run_layout(parameters), "use": PieceUse, "last": unsigned(1)})
        m.submodules.pieces = pieces = Queue(shape, RUNS)
        has_words = Signal()
        m.d.comb += [
            has_words.eq(self.piece.payload.use != PieceUse.ARRIVAL),
            reader.command.valid.eq(self.piece.valid & has_words & pieces.i.ready),
            reader.command.payload.address.eq(self.piece.payload.source),
            reader.command.payload.words.eq(self.piece.payload.run.words),
            self.piece.ready.eq(Mux(has_words, reader.command.ready, pieces.i.ready)),
            pieces.i.valid.eq(self.piece.valid & self.piece.ready),
            pieces.i.payload.lane.eq(self.piece.payload.source[:lane_bits]),
            pieces.i.payload.run.eq(self.piece.payload.run),
            pieces.i.payload.use.eq(self.piece.payload.use), pieces.i.payload.last.eq(self.piece.payload.last),
        ]

        # The piece at the head: a slot more is read than flits are made if it begins in a higher lane, and the
        # last flit may need none.
        head = pieces.o.payload
        destination = head.run.address[:lane_bits]
        _, flits = covered(head.run, flit_words)
        source_run = Signal(run_layout(parameters))
        m.d.comb += [source_run.address.eq(head.lane), source_run.words.eq(head.run.words)]
        _, slots = covered(source_run, flit_words)
        shift = Signal(width)
        step, made = Signal(), Signal(len(flits))
        primed, prime, last, needs = Signal(), Signal(), Signal(), Signal()
        arrival = head.use == PieceUse.ARRIVAL
        free = ~self.o.valid | self.o.ready
        m.d.comb += [
            shift.eq((head.lane - destination)[:lane_bits]),
            prime.eq(~arrival & (head.lane > destination) & ~primed),
            last.eq(arrival | (~prime & (made + 1 == flits))),
            needs.eq(~arrival & ~(last & (made + 1 + primed > slots))),
            step.eq(pieces.o.valid & (prime | free) & (reader.o.valid | ~needs)),
            reader.o.ready.eq(pieces.o.valid & (prime | free) & needs),
            pieces.o.ready.eq(step & last),
            self.idle.eq(~pieces.o.valid & ~self.o.valid),
        ]
        turned = Signal(reader.o.payload.shape())
        before = Signal.like(turned)
        m.d.comb += turned.as_value().eq(Cat(*rotate(
            m, "slot", [reader.o.payload[lane] for lane in range(flit_words)], shift, 0, lane_bits, up=False)))
        with m.If(step & needs):
            m.d.sync += before.eq(turned)

        begin, end = Signal(width), Signal(width + 1)
        word_end = Signal(width)
        m.d.comb += [
            begin.eq(Mux(made == 0, destination, 0)),
            word_end.eq((destination + head.run.words)[:lane_bits]),
            end.eq(Mux(last & (word_end != 0), word_end, flit_words)),
        ]
        with m.If(step):
            m.d.sync += [made.eq(Mux(last, 0, made + ~prime)), primed.eq((primed | prime) & ~last)]
        with m.If(free):
            m.d.sync += self.o.valid.eq(step & ~prime)
        with m.If(step & ~prime):
            payload = self.o.payload
            m.d.sync += [
                payload.words.eq(end - begin), payload.address.eq(head.run.address), payload.use.eq(head.use),
                payload.last.eq(head.last), payload.tail.eq(last),
            ]
            for lane in range(flit_words):
                from_before = (shift != 0) & (shift + lane < flit_words)
                m.d.sync += payload.data[lane].eq(Mux(from_before, before[lane], turned[lane]))
        return m

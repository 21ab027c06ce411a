"""Reads a message's words ahead of their use, and hands them out flit by flit.

::

    schedule --> request --+--> read.request
                           +--> order FIFO ------+
                           +--> chunk FIFO a lane|--------------+
                  read.data --> beat FIFO of the lane in turn --> slicer --> start, add, weight

Three lanes: START has the words that this member sends first, ADD those it adds to what arrives, WEIGHT the
weights that the update of its own chunks needs. A request goes out only when its lane has room for all its
beats, so memory is never kept waiting. Requests keep the order of use, hence a full lane cannot hold up one
that the block waits for. A piece a cycle and lane; a beat follows a beat without a gap.
"""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.message import (
    MEMBER_BITS,
    STAGE_BITS,
    Schedule,
    chunk_flits,
    log2,
    message_layout,
    piece_layout,
)
from plinth_hw.comm.queue import Queue
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.memory.port import MAX_BEATS, ReadPort, beat_layout

#: Cycles from a request to its data that a lane bridges at a flit a cycle, and its least number of beats.
LATENCY_CYCLES = 64
LANE_BEATS = 16
#: Requests that may wait for data.
REQUESTS = 32


class Lane(enum.Enum, shape=unsigned(2)):
    """What a read is for."""

    #: Words that start a chain of sums, or a gather.
    START = 0
    #: Words that are added to what arrives.
    ADD = 1
    #: Weights of the own chunks.
    WEIGHT = 2


def chunk_beats(parameters: DieParameters) -> int:
    """Beats of a full chunk."""
    return max(1, parameters.chunk_words // parameters.beat_words)


def check(parameters: DieParameters) -> None:
    """Refuse a die whose chunks or flits do not fit its memory port.

    Raises
    ------
    ValueError
        If a chunk has more beats than a memory request, or a flit more words than a beat.
    """
    if chunk_beats(parameters) > MAX_BEATS:
        raise ValueError(f"chunk_words must be at most {MAX_BEATS * parameters.beat_words}, "
                         f"{MAX_BEATS} beats, not {parameters.chunk_words}")
    if parameters.flit_words > parameters.beat_words:
        raise ValueError(f"flit_words must be at most beat_words = {parameters.beat_words}, "
                         f"not {parameters.flit_words}")


def buffer_beats(parameters: DieParameters) -> int:
    """Beats that a buffer between a block and memory holds: two chunks, and what a link at full rate takes
    while memory answers; a power of two."""
    words = 2 * parameters.chunk_words + LATENCY_CYCLES * parameters.flit_words
    beats = max(LANE_BEATS, -(-words // parameters.beat_words))
    return 1 << (beats - 1).bit_length()


def chunk_place(parameters: DieParameters, base: Any, chunk: Any) -> tuple[Any, Any]:
    """Beat address of a chunk, and the flit within that beat in which it begins."""
    beat_log2, chunk_log2 = log2(parameters.beat_words), log2(parameters.chunk_words)
    if chunk_log2 >= beat_log2:
        return base + (chunk << (chunk_log2 - beat_log2)), 0
    part = beat_log2 - chunk_log2
    return base + chunk[part:], chunk[:part] << log2(chunk_flits(parameters))


def chunk_size(parameters: DieParameters, short: Any, last_words: Any) -> Any:
    """Words of a chunk minus one."""
    return Mux(short, last_words, parameters.chunk_words - 1)


def flits_in_beat(parameters: DieParameters) -> int:
    """Flits that fill a beat."""
    return parameters.beat_words // parameters.flit_words


class _Slicer(wiring.Component):
    """A lane: buffer of beats, and the chunks cut into pieces."""

    def __init__(self, parameters: DieParameters):
        self._parameters = parameters
        self._depth = buffer_beats(parameters)
        super().__init__({
            "chunk": In(stream.Signature(data.StructLayout({
                "place": unsigned(max(1, log2(flits_in_beat(parameters)))),
                "size": unsigned(max(1, log2(parameters.chunk_words))),
            }))),
            "beat": In(beat_layout(parameters)), "beat_valid": In(1),
            "popped": Out(1),
            "o": Out(stream.Signature(piece_layout(parameters))),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        words, slices = self._parameters.flit_words, flits_in_beat(self._parameters)
        flit_log2 = log2(words)
        m.submodules.chunks = chunks = Queue(self.chunk.payload.shape(), self._depth)
        m.submodules.beats = beats = SyncFIFOBuffered(width=self.beat.shape().size, depth=self._depth)
        wiring.connect(m, wiring.flipped(self.chunk), chunks.i)
        chunk, piece = chunks.o.payload, self.o.payload
        beat = data.View(data.ArrayLayout(32 * words, slices), beats.r_data)
        done, place = Signal(range(max(2, chunk_flits(self._parameters)))), Signal.like(chunk.place)
        step = Signal()
        last_flit = chunk.size[flit_log2:]
        m.d.comb += [
            beats.w_data.eq(self.beat), beats.w_en.eq(self.beat_valid),
            self.o.valid.eq(chunks.o.valid & beats.r_rdy),
            step.eq(self.o.valid & self.o.ready),
            # A chunk begins within a beat only if it is smaller than one, and then it is alone in it.
            place.eq(chunk.place + done),
            piece.data.eq(beat[place] if slices > 1 else beat[0]),
            piece.tail.eq(done == last_flit),
            piece.words.eq(Mux(piece.tail, chunk.size[:flit_log2], words - 1)),
            chunks.o.ready.eq(step & piece.tail),
            beats.r_en.eq(step & (piece.tail | (place == slices - 1 if slices > 1 else 1))),
            self.popped.eq(beats.r_en),
        ]
        with m.If(step):
            m.d.sync += done.eq(Mux(piece.tail, 0, done + 1))
        return m


class Prefetch(wiring.Component):
    """Reads what one block needs of a message.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    start : In(1)
        Pulse: a new message, while ``idle``.
    message : In, :func:`message_layout`
        Held from ``start`` on.
    owner, stages : In
        See :class:`Schedule`.
    adds_only : In(1)
        The first stage belongs to the lane ADD.
    idle : Out(1)
        All has been asked for.
    read : Out(ReadPort)
    o_start, o_add, o_weight : Out streams of :func:`piece_layout`

    Raises
    ------
    ValueError
        If a chunk has more beats than a memory request, or a flit more words than a beat.
    """

    def __init__(self, parameters: DieParameters):
        check(parameters)
        self._parameters = parameters
        piece = stream.Signature(piece_layout(parameters))
        super().__init__({
            "start": In(1),
            "message": In(message_layout(parameters)),
            "owner": In(MEMBER_BITS),
            "stages": In(STAGE_BITS),
            "adds_only": In(1),
            "idle": Out(1),
            "read": Out(ReadPort(parameters)),
            **{f"o_{lane.name.lower()}": Out(piece) for lane in Lane},
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parameters, message = self._parameters, self.message
        depth, beat_log2 = buffer_beats(parameters), log2(parameters.beat_words)
        m.submodules.schedule = schedule = Schedule(parameters)
        step = schedule.o.payload
        size = Signal(max(1, log2(parameters.chunk_words)))
        beats = Signal(range(chunk_beats(parameters) + 1))
        weight_next, has_weight, gone = Signal(), Signal(), Signal()
        lane = Signal(Lane)
        address, place = chunk_place(parameters, Mux(weight_next, message.destination, message.source),
                                     step.chunk)
        m.d.comb += [
            schedule.start.eq(self.start),
            schedule.chunks.eq(message.chunks), schedule.members.eq(message.members),
            schedule.owner.eq(self.owner), schedule.stages.eq(self.stages),
            self.idle.eq(schedule.idle),
            size.eq(chunk_size(parameters, step.short, message.last_words)),
            beats.eq((size >> beat_log2) + 1),
            # The own chunks come in the final stage of a round; a gather has no weights.
            has_weight.eq(message.update & ~message.gather & step.final),
            lane.eq(Mux(weight_next, Lane.WEIGHT,
                        Mux(step.first & ~self.adds_only, Lane.START, Lane.ADD))),
            schedule.o.ready.eq(gone & (weight_next | ~has_weight)),
        ]
        with m.If(gone):
            m.d.sync += weight_next.eq(~weight_next & has_weight)

        order_shape = data.StructLayout({"lane": Lane, "beats": beats.shape()})
        m.submodules.order = order = Queue(order_shape, REQUESTS)
        request = self.read.request
        rooms, slicers = [], []
        for number in Lane:
            m.submodules[f"lane_{number.name.lower()}"] = slicer = _Slicer(parameters)
            slicers.append(slicer)
            rooms.append(Signal(range(depth + 1), init=depth, name=f"room_{number.name.lower()}"))
        permit = Signal()
        m.d.comb += [
            permit.eq((Array(rooms)[lane.as_value()] >= beats) & order.i.ready),
            request.payload.address.eq(address), request.payload.beats.eq(beats),
            request.valid.eq(schedule.o.valid & permit),
            gone.eq(request.valid & request.ready),
            order.i.valid.eq(gone), order.i.payload.lane.eq(lane), order.i.payload.beats.eq(beats),
        ]

        # Data come in the order of the requests, and there is room for them.
        taken, arrives = Signal.like(beats), Signal()
        m.d.comb += [
            self.read.data.ready.eq(1),
            arrives.eq(self.read.data.valid),
            order.o.ready.eq(arrives & (taken + 1 == order.o.payload.beats)),
        ]
        with m.If(arrives):
            m.d.sync += taken.eq(Mux(order.o.ready, 0, taken + 1))
        for number, slicer, room in zip(Lane, slicers, rooms, strict=True):
            mine = Signal(name=f"takes_{number.name.lower()}")
            m.d.comb += [
                mine.eq(gone & (lane == number)),
                slicer.chunk.valid.eq(mine),
                slicer.chunk.payload.place.eq(place), slicer.chunk.payload.size.eq(size),
                slicer.beat.eq(self.read.data.payload),
                slicer.beat_valid.eq(arrives & (order.o.payload.lane == number)),
            ]
            m.d.sync += room.eq(room + slicer.popped - Mux(mine, beats, 0))
            wiring.connect(m, slicer.o, wiring.flipped(getattr(self, f"o_{number.name.lower()}")))
        return m

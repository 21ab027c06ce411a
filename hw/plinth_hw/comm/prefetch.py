"""Reads a message's words ahead of their use, and hands them out flit by flit.

::

    i --> request --+--> read.request
                    +--> order FIFO --------+
             read.data --> beat FIFO of the lane in turn --> flit --> o_start, o_add

Three lanes: words that this member sends first, those it adds to what arrives, and the weights that the update of
its own chunks needs. No more chunks are asked for than a lane has room for, so whatever comes finds room and memory is
never kept waiting. Requests keep the order of use, hence a full lane cannot hold up one that the block waits for. A
sector a cycle and lane; a beat follows a beat without a gap.
"""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from plinth_hw.comm.message import sector_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import select
from plinth_hw.lib.count import stepped
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.lib.ram import SECTION
from plinth_hw.memory.port import MAX_BEATS, TASK_BITS, ReadPort, beat_layout, request_layout

#: Cycles from a request to its data that a lane bridges at a flit a cycle, and its least number of beats.
LATENCY_CYCLES = 64
LANE_BEATS = 2 * SECTION


class ReadUse(enum.Enum, shape=unsigned(2)):
    """What a read is for."""

    #: Words that start a chain of sums, or a gather.
    START = 0
    #: Words that are added to what arrives.
    ADD = 1
    #: Weights of the own chunks, each behind its ADD.
    WEIGHT = 2


def chunk_beats(parameters: DieParameters) -> int:
    """Beats of a full chunk."""
    return parameters.chunk_words // parameters.beat_words


def check(parameters: DieParameters) -> None:
    """Refuse a die whose chunks or flits do not fit its memory port.

    Raises
    ------
    ValueError
        If a chunk is less than a beat or more than a memory request, or a flit has more words than a beat.
    """
    if not parameters.beat_words <= parameters.chunk_words <= MAX_BEATS * parameters.beat_words:
        raise ValueError(f"chunk_words must be from {parameters.beat_words} to "
                         f"{MAX_BEATS * parameters.beat_words}, {MAX_BEATS} beats, not {parameters.chunk_words}")
    if parameters.flit_words > parameters.beat_words:
        raise ValueError(f"flit_words must be at most beat_words = {parameters.beat_words}, "
                         f"not {parameters.flit_words}")


def buffer_beats(parameters: DieParameters) -> int:
    """Beats that a buffer between a block and memory holds: two chunks, and what a link at full rate takes
    while memory answers; a power of two."""
    words = 2 * parameters.chunk_words + LATENCY_CYCLES * parameters.flit_words
    beats = max(LANE_BEATS, -(-words // parameters.beat_words))
    return 1 << ceil_log2(beats)


def buffer_chunks(parameters: DieParameters) -> int:
    """Full chunks that such a buffer holds; a power of two."""
    return buffer_beats(parameters) // chunk_beats(parameters)


def chunk_size(parameters: DieParameters, short: Any, last_words: Any) -> Any:
    """Words of a chunk minus one."""
    return Mux(short, last_words, parameters.chunk_words - 1)


def flits_in_beat(parameters: DieParameters) -> int:
    """Flits that fill a beat."""
    return parameters.beat_words // parameters.flit_words


def flit_number(parameters: DieParameters) -> range:
    """Numbers of the flits of a beat, as the shape of a signal."""
    return range(max(2, flits_in_beat(parameters)))


def read_layout(parameters: DieParameters) -> data.StructLayout:
    """A chunk to read."""
    return data.StructLayout({
        "address": request_layout(parameters)["address"].shape,
        "lane": ReadUse,
        #: this is the message's last chunk
        "short": unsigned(1),
        #: weights for these words follow
        "weighted": unsigned(1),
    })


def local_layout(parameters: DieParameters) -> data.StructLayout:
    """Own words of a flit, and their weights if they are ``weighted``."""
    sector = sector_layout(parameters)
    return data.StructLayout({"sector": sector, "w": sector["data"].shape})


def _mark_layout() -> data.StructLayout:
    """What is known of a beat of words."""
    return data.StructLayout({
        #: last of its chunk
        "last": unsigned(1),
        #: its chunk is the message's last one
        "short": unsigned(1),
        #: weights for it follow
        "weighted": unsigned(1),
    })


class _Slicer(wiring.Component):
    """Chunks of own words, with or without weights, cut into sectors. Two places give them: whether they are taken is
    known late, and decides nothing here in the same cycle. ``asked``: another chunk will come, for which there is
    ``room``."""

    def __init__(self, parameters: DieParameters, weights: bool):
        self._parameters = parameters
        self._lanes = ("words", "weights") if weights else ("words",)
        super().__init__({
            "asked": In(1), "room": Out(1),
            "last_words": In(exact_log2(parameters.chunk_words)),
            "beat": In(beat_layout(parameters)), "mark": In(_mark_layout()),
            **{f"{lane}_valid": In(1) for lane in self._lanes},
            "o": Out(stream.Signature(local_layout(parameters))),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parameters = self._parameters
        flit_log2, beat_log2 = exact_log2(parameters.flit_words), exact_log2(parameters.beat_words)
        slices = flits_in_beat(parameters)
        # What marks a sector decides in the cycle in which it is there, and is in a register. Its many bits of data are
        # in either place: no register of theirs has to hear in time that the one before was taken.
        sector_shape = sector_layout(parameters)
        marks = data.StructLayout({name: sector_shape[name].shape for name in ("words", "tail")})
        flit = sector_shape["data"].shape
        m.submodules.sectors = sectors = FIFO(marks, 2, Storage.HEAD)
        m.submodules.flits = given = FIFO(data.ArrayLayout(flit, len(self._lanes)), 2)
        m.d.comb += [
            self.o.valid.eq(sectors.o.valid), sectors.o.ready.eq(self.o.ready), given.o.ready.eq(self.o.ready),
            *(self.o.payload.sector[name].eq(sectors.o.payload[name]) for name in ("words", "tail")),
            self.o.payload.sector.data.eq(given.o.payload[0]),
        ]
        if "weights" in self._lanes:
            m.d.comb += self.o.payload.w.eq(given.o.payload[1])
        sector = sectors.i.payload
        flits = data.ArrayLayout(flit, slices)
        depth = buffer_beats(parameters)
        m.submodules.words = words = FIFO(data.StructLayout({"flits": flits, "mark": _mark_layout()}), depth,
                                          Storage.SECTIONS)
        taken, mark, present = [(words, words.o.payload.flits)], words.o.payload.mark, words.o.valid
        m.d.comb += [words.i.payload.flits.eq(self.beat), words.i.payload.mark.eq(self.mark)]
        if "weights" in self._lanes:
            m.submodules.weights = weights = FIFO(flits, depth, Storage.SECTIONS)
            taken.append((weights, weights.o.payload))
            m.d.comb += weights.i.payload.eq(self.beat)
            present &= weights.o.valid | ~mark.weighted

        place, ending = Signal(flit_number(parameters), name="place"), Signal(flit_number(parameters), name="ending")
        step, tail, beat_ends = Signal(name="step"), Signal(name="tail"), Signal(name="beat_ends")
        # Chunks that were asked for, and whose last flit has not been offered before; it is now.
        held, offered = Signal(range(buffer_chunks(parameters) + 1), name="held"), Signal(name="offered")
        fresh = Signal()
        m.d.comb += [
            sectors.i.valid.eq(present), given.i.valid.eq(present), step.eq(present & sectors.i.ready),
            # The last flit of a last beat.
            ending.eq(Mux(mark.short, self.last_words[flit_log2:beat_log2], slices - 1)),
            tail.eq(mark.last & (place == ending)),
            beat_ends.eq(tail | (place == slices - 1)),
            offered.eq(self.o.valid & self.o.payload.sector.tail & fresh),
            self.room.eq((held != buffer_chunks(parameters)) | offered),
            sector.tail.eq(tail),
            sector.words.eq(Mux(tail & mark.short, self.last_words[:flit_log2], parameters.flit_words - 1)),
        ]
        m.d.sync += [fresh.eq(~self.o.valid | self.o.ready), held.eq(stepped(held, self.asked, offered))]
        with m.If(step):
            m.d.sync += place.eq(Mux(beat_ends, 0, place + 1))
        for lane, (beats, beat), out in zip(self._lanes, taken, given.i.payload, strict=True):
            m.d.comb += [
                beats.i.valid.eq(getattr(self, f"{lane}_valid")),
                beats.o.ready.eq(step & beat_ends & (1 if lane == "words" else mark.weighted)),
                out.as_value().eq(select([beat[number].as_value() for number in range(slices)], place)),
            ]
        return m


class Prefetch(wiring.Component):
    """Reads what one block needs of a message.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    i : In stream of :func:`read_layout`
        What to read, in the order of use.
    task : In
        Of requests.
    last_words : In
        Words of a short chunk minus one.
    read : Out(ReadPort)
    o_start, o_add : Out streams of :func:`local_layout`

    Raises
    ------
    ValueError
        If a chunk is less than a beat or more than a memory request, or a flit has more words than a beat.
    """

    def __init__(self, parameters: DieParameters):
        check(parameters)
        self._parameters = parameters
        local = stream.Signature(local_layout(parameters))
        super().__init__({
            "i": In(stream.Signature(read_layout(parameters))),
            "last_words": In(exact_log2(parameters.chunk_words)), "task": In(TASK_BITS),
            "read": Out(ReadPort(parameters)),
            "o_start": Out(local), "o_add": Out(local),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parameters, wanted, request = self._parameters, self.i.payload, self.read.request
        beat_log2 = exact_log2(parameters.beat_words)
        m.submodules.start = start = _Slicer(parameters, weights=False)
        m.submodules.add = add = _Slicer(parameters, weights=True)
        # Of all chunks that have been asked for.
        order_shape = data.StructLayout({"lane": ReadUse, "last": max(1, exact_log2(chunk_beats(parameters))),
                                         "short": 1, "weighted": 1})
        m.submodules.order = order = FIFO(order_shape, 4 * buffer_chunks(parameters))
        last_beat, room = Signal(order.i.payload.last.shape(), name="last_beat"), Signal(name="room")
        gone = Signal()
        m.d.comb += [
            last_beat.eq(chunk_size(parameters, wanted.short, self.last_words)[beat_log2:]),
            # Weights have room where their words had.
            room.eq(Array((start.room, add.room, 1, 1))[wanted.lane.as_value()]),
            request.valid.eq(self.i.valid & room), self.i.ready.eq(request.ready & room),
            request.payload.address.eq(wanted.address), request.payload.beats.eq(last_beat + 1),
            request.payload.task.eq(self.task), gone.eq(request.valid & request.ready),
            order.i.valid.eq(gone),
            order.i.payload.lane.eq(wanted.lane), order.i.payload.last.eq(last_beat),
            order.i.payload.short.eq(wanted.short), order.i.payload.weighted.eq(wanted.weighted),
        ]

        # Data come in the order of the requests.
        beat, arriving = Signal.like(last_beat, name="beat"), order.o.payload
        m.d.comb += [
            self.read.data.ready.eq(1),
            order.o.ready.eq(self.read.data.valid & (beat == arriving.last)),
        ]
        with m.If(self.read.data.valid):
            m.d.sync += beat.eq(Mux(order.o.ready, 0, beat + 1))
        for slicer, lane, out in ((start, ReadUse.START, self.o_start), (add, ReadUse.ADD, self.o_add)):
            m.d.comb += [
                slicer.asked.eq(gone & (wanted.lane == lane)),
                slicer.last_words.eq(self.last_words), slicer.beat.eq(self.read.data.payload),
                slicer.mark.last.eq(order.o.ready), slicer.mark.short.eq(arriving.short),
                slicer.mark.weighted.eq(arriving.weighted),
                slicer.words_valid.eq(self.read.data.valid & (arriving.lane == lane)),
            ]
            wiring.connect(m, slicer.o, wiring.flipped(out))
        m.d.comb += add.weights_valid.eq(self.read.data.valid & (arriving.lane == ReadUse.WEIGHT))
        return m

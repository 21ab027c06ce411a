"""Collects the sectors of chunks in beats and writes them, a request a chunk.

::

    i (sectors) --> flit memories --> beat FIFO --> write.data
    address -----> request FIFO -----------------> write.request     once all its beats are there

A sector a cycle; a request goes out only when its data are there, so memory is never kept waiting.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.comm.message import sector_layout
from plinth_hw.comm.prefetch import buffer_beats, buffer_chunks, chunk_beats, flit_number, flits_in_beat
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.lib.ram import SECTION
from plinth_hw.memory.port import TASK_BITS, WritePort, request_layout


def unanswered_bits(parameters: DieParameters) -> int:
    """Bits of the count of requests without a response: those that wait, and three times as many."""
    return exact_log2(4 * buffer_chunks(parameters))


class WriteBack(wiring.Component):
    """Writes chunks.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    address : In
        Beat address of the chunk to which the sector on ``i`` belongs.
    i : In stream of :func:`sector_layout`
        A chunk's sectors in order; ``ready`` does not depend on ``valid``.
    task : In
        Of requests; constant while not ``idle``.
    idle : Out(1)
        Memory holds all chunks that were taken.
    write : Out(WritePort)
        Words without a strobe hold anything.
    """

    def __init__(self, parameters: DieParameters):
        self._parameters = parameters
        super().__init__({
            "address": In(request_layout(parameters)["address"].shape),
            "i": In(stream.Signature(sector_layout(parameters))),
            "task": In(TASK_BITS), "idle": Out(1),
            "write": Out(WritePort(parameters)),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parameters, sector = self._parameters, self.i.payload
        slices, depth = flits_in_beat(parameters), SECTION
        m.submodules.beats = beats = FIFO(self.write.data.payload.shape(), buffer_beats(parameters) - depth,
                                          Storage.SECTIONS)
        # A request takes as long as the beats do from the flit memories on: the last one comes a cycle after it.
        m.submodules.requests = requests = FIFO(
            request_layout(parameters), max(beats.depth, buffer_chunks(parameters)), Storage.SECTIONS)
        beat = beats.i
        put, taken = Signal(range(2 * depth), name="put"), Signal(range(2 * depth), name="taken")
        flit = Signal(flit_number(parameters))
        number = Signal(range(max(2, chunk_beats(parameters))))
        unanswered = Signal(unanswered_bits(parameters))
        # A flit's beat has a place, and another request an answer's.
        room, counted = Signal(init=1, name="room"), Signal(init=1, name="counted")
        step, full, ends = Signal(name="step"), Signal(name="full"), Signal(name="ends")
        m.d.comb += [
            self.i.ready.eq(room & requests.i.ready & counted),
            step.eq(self.i.valid & self.i.ready),
            full.eq(sector.tail | (flit == slices - 1)),
            ends.eq(step & sector.tail),
            requests.i.valid.eq(ends),
            requests.i.payload.address.eq(self.address), requests.i.payload.beats.eq(number + 1),
            requests.i.payload.task.eq(self.task),
            self.write.request.payload.eq(requests.o.payload),
            self.write.request.valid.eq(requests.o.valid),
            requests.o.ready.eq(self.write.request.ready),
            beat.valid.eq(put != taken),
            self.idle.eq(unanswered == 0),
        ]
        with m.If(step):
            m.d.sync += flit.eq(Mux(full, 0, flit + 1))
        filled, gone, following = Signal(name="filled"), Signal(name="gone"), Signal.like(put, name="following")
        m.d.comb += [filled.eq(step & full), gone.eq(beat.valid & beat.ready), following.eq(put + 1)]
        with m.If(filled):
            m.d.sync += [put.eq(following), number.eq(Mux(sector.tail, 0, number + 1))]
        with m.If(gone):
            m.d.sync += taken.eq(taken + 1)
        with m.If(filled & ~gone):
            m.d.sync += room.eq((following ^ taken) != depth)
        with m.Elif(gone & ~filled):
            m.d.sync += room.eq(1)
        with m.If(ends ^ self.write.response):
            m.d.sync += [unanswered.eq(unanswered + Mux(ends, 1, -1)),
                         counted.eq(~ends | (unanswered != (1 << len(unanswered)) - 2))]

        # Number of a beat's last word, and a memory for each of its flits.
        m.submodules.last_words = last_words = Memory(shape=exact_log2(parameters.beat_words), depth=depth, init=[])
        write, read = last_words.write_port(), last_words.read_port(domain="comb")
        m.d.comb += [
            write.addr.eq(put), write.en.eq(step), read.addr.eq(taken),
            write.data.eq(Cat(sector.words[:exact_log2(parameters.flit_words)], flit)),
            *(bit.eq(word <= read.data) for word, bit in enumerate(beat.payload.strobe)),
        ]
        for place in range(slices):
            m.submodules[f"flit_{place}"] = words = Memory(shape=sector.data.shape(), depth=depth, init=[])
            write, read = words.write_port(), words.read_port(domain="comb")
            m.d.comb += [
                write.addr.eq(put), write.en.eq(step & (flit == place)), read.addr.eq(taken),
                write.data.eq(sector.data),
                beat.payload.data.as_value().word_select(place, len(sector.data.as_value())).eq(read.data),
            ]
        wiring.connect(m, beats.o, wiring.flipped(self.write.data))
        return m

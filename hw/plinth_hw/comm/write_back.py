"""Collects the pieces of chunks into beats and writes them, a request a chunk.

::

    i (pieces) --> beat register --> beat FIFO ------> write.data
    chunk ------------------------> request FIFO ----> write.request     once all its beats are in the FIFO

A piece a cycle; a request goes out only when its data are there, so memory is never kept waiting.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.message import count_bits, log2, piece_layout
from plinth_hw.comm.prefetch import buffer_beats, chunk_beats, chunk_place, flits_in_beat
from plinth_hw.comm.queue import Queue
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.memory.port import WritePort, request_layout

#: Chunks that may wait for the memory to take their request.
REQUESTS = 16
#: Bits of the count of requests without a response.
UNANSWERED_BITS = 16


class WriteBack(wiring.Component):
    """Writes chunks.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    base : In
        Beat address of chunk 0.
    chunk : In
        Number of the chunk to which the piece on ``i`` belongs.
    i : In stream of :func:`piece_layout`
        A chunk's pieces in order; ``ready`` does not depend on ``valid``.
    idle : Out(1)
        Memory holds all that was taken.
    write : Out(WritePort)
    """

    def __init__(self, parameters: DieParameters):
        self._parameters = parameters
        super().__init__({
            "base": In(parameters.address_bits - log2(parameters.beat_words)),
            "chunk": In(count_bits(parameters)),
            "i": In(stream.Signature(piece_layout(parameters))),
            "idle": Out(1),
            "write": Out(WritePort(parameters)),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parameters = self._parameters
        words, slices = parameters.flit_words, flits_in_beat(parameters)
        depth = buffer_beats(parameters)
        beat_shape = self.write.data.payload.shape()
        m.submodules.beats = beats = SyncFIFOBuffered(width=beat_shape.size, depth=depth)
        m.submodules.requests = requests = Queue(request_layout(parameters), REQUESTS)

        collected_shape = data.ArrayLayout(data.StructLayout({
            "data": data.ArrayLayout(unsigned(32), words), "strobe": unsigned(words)}), slices)
        collected, merged = Signal(collected_shape), Signal(collected_shape)
        place, pieces = Signal(range(max(2, slices))), Signal(range(max(2, slices)))
        beats_before = Signal(range(max(2, chunk_beats(parameters))))
        address, first_place = chunk_place(parameters, self.base, self.chunk)
        piece = self.i.payload
        full, step, ends = Signal(), Signal(), Signal()
        m.d.comb += [
            place.eq(first_place + pieces),
            full.eq(piece.tail | (place == slices - 1)),
            self.i.ready.eq(~full | (beats.w_rdy & requests.i.ready)),
            step.eq(self.i.valid & self.i.ready),
            ends.eq(step & piece.tail),
            merged.eq(collected),
            beats.w_en.eq(step & full),
            requests.i.valid.eq(ends),
            requests.i.payload.address.eq(address),
            requests.i.payload.beats.eq(beats_before + 1),
        ]
        for number in range(slices):
            with m.If(place == number):
                m.d.comb += merged[number].data.eq(piece.data)
                for word in range(words):
                    m.d.comb += merged[number].strobe[word].eq((word <= piece.words) if words > 1 else 1)
        with m.If(step):
            with m.If(full):
                m.d.sync += [collected.eq(0), pieces.eq(0),
                             beats_before.eq(Mux(piece.tail, 0, beats_before + 1))]
            with m.Else():
                m.d.sync += [collected.eq(merged), pieces.eq(pieces + 1)]

        beat = Signal(beat_shape)
        for number in range(slices):
            for word in range(words):
                m.d.comb += [
                    beat.data[number * words + word].eq(merged[number].data[word]),
                    beat.strobe[number * words + word].eq(merged[number].strobe[word]),
                ]
        unanswered = Signal(UNANSWERED_BITS)
        sent = Signal()
        m.d.comb += [
            beats.w_data.eq(beat),
            self.write.data.payload.eq(beats.r_data), self.write.data.valid.eq(beats.r_rdy),
            beats.r_en.eq(self.write.data.ready),
            self.write.request.payload.eq(requests.o.payload),
            self.write.request.valid.eq(requests.o.valid),
            requests.o.ready.eq(self.write.request.ready),
            sent.eq(requests.i.valid & requests.i.ready),
            self.idle.eq((unanswered == 0) & (pieces == 0) & (beats_before == 0)),
        ]
        m.d.sync += unanswered.eq(unanswered + sent - self.write.response)
        return m

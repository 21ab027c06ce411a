"""Writes updated blocks to memory.

::

    write (blocks of vectors) --> port.request
    places of the ring ---------> memory of new values --> port.data

A request, and its data, are given once the whole block is updated, so memory is never kept waiting. A beat a cycle, and
a cycle more for each request.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.memory.port import WritePort, beat_layout
from plinth_hw.optimiser.walk import BEATS_BITS, PLACE_BITS, WRITTEN, write_layout

#: Bits of the count of requests without a response.
_UNANSWERED_BITS = 6
#: Blocks that may wait, at most.
WRITES = 32


class BlockWrites(wiring.Component):
    """Writes blocks.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    i : In stream of :func:`write_layout`
    updated : In(1)
        Pulse: a block more is updated.
    end_lane : In
        Lane of the last word of a row; constant while not ``idle``.
    task : In
        As of requests.
    vector, place : Out
        What is read.
    read : Out(1)
        ``beat`` is that of ``vector`` at ``place`` from the next cycle on, until the next read.
    beat : In
    generator : In(32)
        State of the generator of random bits.
    free : Out
        First place that may still be read, with the parity of its lap.
    port : Out(WritePort)
    idle : Out(1)
        Memory holds all that has come.
    """

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        super().__init__({
            "i": In(stream.Signature(write_layout(parameters))), "updated": In(1),
            "end_lane": In(exact_log2(parameters.beat_words)), "task": In(4),
            "vector": Out(range(len(WRITTEN))), "place": Out(PLACE_BITS), "read": Out(1), "free": Out(PLACE_BITS + 1),
            "generator": In(32),            "beat": In(beat_layout(parameters)),
            "port": Out(WritePort(parameters)), "idle": Out(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        port, block, beat = self.port, self.i.payload, self.beat.as_value()
        updated, unanswered = Signal(range(WRITES + 1)), Signal(_UNANSWERED_BITS)
        active, requested, sent = Signal(name="active"), Signal(name="requested"), Signal(name="sent")
        left, begins, valid = Signal(BEATS_BITS, name="left"), Signal(name="begins"), Signal(name="valid")
        strobe = Signal(self.parameters.beat_words)
        place, is_generator = Signal(PLACE_BITS + 1), Signal(name="is_generator")
        generator_words = len(self.generator) // self.parameters.word_bits
        m.d.comb += [
            begins.eq(~active & self.i.valid & (~block.first | (updated != 0))),
            self.read.eq(active & (left != 0) & (~valid | port.data.ready)),
            port.request.valid.eq(active & ~requested & ~unanswered.all()),
            port.request.payload.address.eq(block.address), port.request.payload.beats.eq(block.beats),
            port.request.payload.task.eq(self.task),
            sent.eq(port.request.valid & port.request.ready),
            self.i.ready.eq(active & (requested | sent) & ((left == 0) | ((left == 1) & self.read))),
            port.data.valid.eq(valid), port.data.payload.strobe.eq(strobe),
            port.data.payload.data.eq(Cat(Mux(is_generator, self.generator, beat[:len(self.generator)]),
                                          beat[len(self.generator):])),
            self.idle.eq(~self.i.valid & ~valid & (unanswered == 0)),
            self.vector.eq(block.vector), self.place.eq(place),
        ]
        m.d.sync += [
            updated.eq(updated + self.updated - (begins & block.first)), requested.eq(~begins & (requested | sent)),
            active.eq(begins | (active & ~self.i.ready)), unanswered.eq(unanswered + sent - port.response),
            valid.eq(self.read | (valid & ~port.data.ready)),
        ]
        with m.If(begins):
            m.d.sync += left.eq(block.beats)
            # All vectors of a block have the same places.
            with m.If(block.first):
                m.d.sync += self.free.eq(place)
            with m.Elif(~block.generator):
                m.d.sync += place.eq(self.free)
        with m.If(self.read):
            ends = (left == 1) & block.row_last & ~block.generator
            m.d.sync += [left.eq(left - 1), place.eq(place + ~block.generator), is_generator.eq(block.generator),
                         strobe.eq(Cat((~ends | (lane <= self.end_lane)) & (~block.generator | (lane < generator_words))
                                       for lane in range(self.parameters.beat_words)))]
        return m

"""Writes updated blocks to memory.

::

    write (blocks of vectors) --> register --> port.request
    places of the ring ---------> memory of new values --> register --> port.data

A request, and its data, are given once the whole block is updated, so memory is never kept waiting. A beat a cycle, and
a cycle more for each request. Latency: a block to its request a cycle, to its first beat three.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.memory.port import WritePort, beat_layout
from plinth_hw.optimiser.walk import BEATS_BITS, PLACE_BITS, WRITES, WRITTEN, write_layout

#: Bits of the count of requests without a response.
_UNANSWERED_BITS = 6


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
            "generator": In(32), "beat": In(beat_layout(parameters)),
            "port": Out(WritePort(parameters)), "idle": Out(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        port, arriving, block = self.port, self.i.payload, Signal.like(self.i.payload, name="block", reset_less=True)
        updated, unanswered = Signal(range(WRITES + 1)), Signal(_UNANSWERED_BITS)
        begins, asks, reads = Signal(name="begins"), Signal(name="asks"), Signal(name="reads")
        left, last, place = Signal(BEATS_BITS, name="left"), Signal(name="last"), Signal(PLACE_BITS + 1)
        # A beat, and its strobes, fetched from memory; then given.
        fetched, moves, ends, of_generator = (
            Signal(name=name) for name in ("fetched", "moves", "ends", "of_generator"))
        m.d.comb += [
            begins.eq(self.i.valid & ~asks & ~reads & ~unanswered.all() & (~arriving.first | (updated != 0))),
            self.i.ready.eq(begins), last.eq(left == 1),
            port.request.valid.eq(asks), port.request.payload.address.eq(block.address),
            port.request.payload.beats.eq(block.beats), port.request.payload.task.eq(self.task),
            moves.eq(~port.data.valid | port.data.ready), self.read.eq(reads & (~fetched | moves)),
            self.vector.eq(block.vector), self.place.eq(place),
            # Each request that is not answered, its beats on their way with it.
            self.idle.eq(~self.i.valid & (unanswered == 0)),
        ]
        m.d.sync += [
            asks.eq(begins | (asks & ~port.request.ready)), reads.eq(begins | (reads & ~(self.read & last))),
            fetched.eq(self.read | (fetched & ~moves)), updated.eq(updated + self.updated - (begins & arriving.first)),
            unanswered.eq(unanswered + begins - port.response),
        ]
        with m.If(begins):
            m.d.sync += [block.eq(arriving), left.eq(arriving.beats)]
            # All vectors of a block have the same places.
            with m.If(arriving.first):
                m.d.sync += self.free.eq(place)
            with m.Elif(~arriving.generator):
                m.d.sync += place.eq(self.free)
        with m.If(self.read):
            m.d.sync += [left.eq(left - 1), place.eq(place + ~block.generator),
                         ends.eq(last & block.row_last), of_generator.eq(block.generator)]
        beat, lanes = self.beat.as_value(), range(self.parameters.beat_words)
        state_bits = len(self.generator)
        with m.If(moves):
            m.d.sync += [
                port.data.valid.eq(fetched),
                port.data.payload.data.eq(Cat(Mux(of_generator, self.generator, beat[:state_bits]), beat[state_bits:])),
                port.data.payload.strobe.eq(Cat(
                    Mux(of_generator, lane < state_bits // self.parameters.word_bits, ~ends | (lane <= self.end_lane))
                    for lane in lanes)),
            ]
        return m

"""Instructions of a vector task: read from the body, one ahead of the one that runs.

An instruction takes 10 cycles to read: its word, its three regions and its immediate.
"""

from typing import Any

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.tasks import VectorInstruction, VectorOp, VectorRegion
from plinth_hw.shapes import shape_of
from plinth_hw.vector.body import (
    BODY_BITS,
    IMMEDIATE_BASE,
    PROGRAM_BASE,
    REGION_BASE,
    BodyReadPort,
    next_of,
    read_word,
)


class Decoded(data.Struct):
    """An instruction with all that it names."""

    op: shape_of(VectorOp)
    #: Number of the function table.
    function: unsigned(3)
    lanes_along_rows: unsigned(1)
    immediate: unsigned(32)
    dst: shape_of(VectorRegion)
    a: shape_of(VectorRegion)
    b: shape_of(VectorRegion)


class InstructionFetch(wiring.Component):
    """Reads the program of a task.

    Members
    -------
    start : In(1)
        Read ``count`` instructions of the body at ``place``, which holds until the last one is taken.
    place, count : In
    body : Out(BodyReadPort)
    o : Out stream of Decoded
    """

    def __init__(self) -> None:
        super().__init__({
            "start": In(1), "place": In(BODY_BITS), "count": In(5),
            "body": Out(BodyReadPort()), "o": Out(stream.Signature(Decoded)),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        index = Signal.like(self.body.index)
        left = Signal.like(self.count)
        word = Signal(shape_of(VectorInstruction))
        instruction = Signal(shape_of(VectorInstruction))
        decoded = self.o.payload
        m.d.comb += [self.body.place.eq(self.place), word.eq(self.body.data)]

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [index.eq(PROGRAM_BASE), left.eq(self.count)]
                with m.If(self.start & (self.count != 0)):
                    m.next = "WORD"
            read_word(m, self.body, "WORD", index, [
                index.eq(index + 1), instruction.eq(word), decoded.op.eq(word.op),
                decoded.function.eq(word.b), decoded.lanes_along_rows.eq(word.lanes_along_rows),
            ], "DST")
            read_word(m, self.body, "DST", REGION_BASE + instruction.dst, [decoded.dst.eq(self.body.data)], "A")
            read_word(m, self.body, "A", REGION_BASE + instruction.a, [decoded.a.eq(self.body.data)], "B")
            read_word(m, self.body, "B", REGION_BASE + instruction.b, [decoded.b.eq(self.body.data)], "IMMEDIATE")
            read_word(m, self.body, "IMMEDIATE", IMMEDIATE_BASE + instruction.immediate,
                      [decoded.immediate.eq(self.body.data)], "OFFER")
            with m.State("OFFER"):
                m.d.comb += self.o.valid.eq(1)
                next_of(m, self.o.ready, left, "WORD")
        return m

"""Instructions of a vector task: read from the body, one ahead of the one that runs.

An instruction takes 10 cycles to read: its word, its three regions and its immediate.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.vector_body import VECTOR_INSTRUCTIONS, VectorInstruction, VectorOp, VectorRegion
from plinth_hw.shapes import shape_of
from plinth_hw.vector.body import BODY_BITS, BodyReadPort, EntryReader
from plinth_hw.vector.checks import IMMEDIATE_BASE, PROGRAM_BASE, REGION_BASE


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
        m.submodules.entries = entries = EntryReader(5, VECTOR_INSTRUCTIONS)
        wiring.connect(m, entries.read, wiring.flipped(self.body))
        index = Signal.like(entries.index)
        instruction = Signal(shape_of(VectorInstruction))
        regions = Signal(3 * len(instruction.dst), name="regions")
        decoded, word = self.o.payload, self.body.data
        m.d.comb += [
            entries.start.eq(self.start), entries.count.eq(self.count), entries.place.eq(self.place),
            entries.taken.eq(self.o.ready), self.o.valid.eq(entries.offers), instruction.eq(word),
        ]
        immediate = Signal.like(instruction.immediate, name="immediate")
        with m.If(entries.comes), m.Switch(entries.word):
            with m.Case(0):
                m.d.sync += [
                    index.eq(index + 1), immediate.eq(instruction.immediate), decoded.op.eq(instruction.op),
                    regions.eq(Cat(instruction.dst, instruction.a, instruction.b)),
                    decoded.function.eq(instruction.b), decoded.lanes_along_rows.eq(instruction.lanes_along_rows),
                ]
            with m.Case(4):
                m.d.sync += decoded.immediate.eq(word)
            with m.Default():
                # From one to the other, the destination's first.
                m.d.sync += [decoded.b.eq(word), decoded.a.eq(decoded.b), decoded.dst.eq(decoded.a),
                             regions.eq(regions >> len(instruction.dst))]
        with m.If(self.start):
            m.d.sync += index.eq(PROGRAM_BASE)
        with m.Switch(entries.word):
            with m.Case(0):
                m.d.comb += entries.index.eq(index)
            with m.Case(4):
                m.d.comb += entries.index.eq(IMMEDIATE_BASE + immediate)
            with m.Default():
                m.d.comb += entries.index.eq(REGION_BASE + regions[:len(instruction.dst)])
        return m

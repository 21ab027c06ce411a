"""Checks of the bodies of vector tasks, as their words come.

::

    word --> register --> counts, moves, instructions --> register --> error
     |          |                        ^
     |          |                        +-- marks of regions, in a memory; which of them are written, which stored
     v          v                                      ^
    sizes --> lines --> register --> a line beyond the last one

A body is unfit, too, that reads or stores a region before anything in it writes that: the scratchpad holds what an
earlier task left there or, after power-up, anything.

What makes a body unfit is known ``BodyChecks.latency`` cycles after its last word has come.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.arith.carry import Digits, table_sum
from plinth_hw.arith.common import at_least
from plinth_hw.control.engine import BodyWord
from plinth_hw.isa.descriptors import BODY_WORDS
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.operations import ErrorCode, VectorOperation
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.vector_body import (
    VECTOR_IMMEDIATES,
    VECTOR_INSTRUCTIONS,
    VECTOR_LOADS,
    VECTOR_REGIONS,
    VECTOR_STORES,
    VectorBody,
    VectorInstruction,
    VectorMove,
    VectorOp,
    VectorRegion,
)
from plinth_hw.lib.ram import LUT_RAM
from plinth_hw.shapes import shape_of
from plinth_hw.vector.units import units

#: First word of each part of a body.
REGION_BASE = 2
LOAD_BASE = REGION_BASE + VECTOR_REGIONS
MOVE_WORDS = VectorMove.BITS // WORD_BITS
STORE_BASE = LOAD_BASE + MOVE_WORDS * VECTOR_LOADS
IMMEDIATE_BASE = STORE_BASE + MOVE_WORDS * VECTOR_STORES
PROGRAM_BASE = IMMEDIATE_BASE + VECTOR_IMMEDIATES
assert PROGRAM_BASE + VECTOR_INSTRUCTIONS == BODY_WORDS
assert VectorBody.FIELDS["program"].offset == 32 * PROGRAM_BASE

#: Instructions with two source regions.
TWO_SOURCES = (VectorOp.ADD, VectorOp.SUB, VectorOp.MUL, VectorOp.MAX, VectorOp.RELU_MASK)
#: Instructions that reduce.
REDUCTIONS = (VectorOp.SUM, VectorOp.MAXIMUM)


class Summary(data.Struct):
    """What the stages need of a task beside its words."""

    error: shape_of(ErrorCode)
    rows: unsigned(16)
    columns: unsigned(16)
    loads: unsigned(3)
    stores: unsigned(2)
    instructions: unsigned(5)


class _Marks(data.Struct):
    """Of a region; ``unfit``: it ends beyond the half."""

    is_row: unsigned(1)
    is_column: unsigned(1)
    unfit: unsigned(1)


class BodyChecks(wiring.Component):
    """Checks bodies.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    i_valid, i : In(1), In(BodyWord)
        A word comes; those of a body in ascending order.
    operation : In(4)
        That of the body.
    summary : Out(Summary)
        From ``latency`` cycles after the body's last word on. Of an unfit task it says the error and that there is
        nothing to do.
    """

    #: Cycles to the register of words, to that of what they say, to that of the error.
    latency = 3

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({"i_valid": In(1), "i": In(BodyWord), "operation": In(4), "summary": Out(Summary)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        index, counts = self.i.index, Signal(Summary, name="counts")
        word, faulty = Signal(32, name="given"), Signal(name="faulty")
        # Of the word a cycle before: it is unfit; it is an instruction, to be looked at.
        bad, judged = Signal(name="bad"), Signal(name="judged")
        # Regions that loads and instructions so far write, and those that are stored, a bit each; one of these is none
        # of those.
        written, stored, unwritten = (
            Signal(VECTOR_REGIONS, name="written"), Signal(VECTOR_REGIONS, name="stored"), Signal(name="unwritten"))
        is_counts, is_region, is_move, is_store, is_instruction = (
            Signal(name=f"is_{part}") for part in ("counts", "region", "move", "store", "instruction"))
        numbers = range(MOVE_WORDS - 1, MOVE_WORDS * (VECTOR_LOADS + VECTOR_STORES), MOVE_WORDS)
        m.d.sync += [
            word.eq(self.i.word), is_counts.eq(self.i_valid & (index == 1)),
            is_region.eq(self.i_valid & (index >= REGION_BASE) & (index < LOAD_BASE)),
            is_move.eq(self.i_valid & Cat(index == LOAD_BASE + number for number in numbers).any()),
            is_store.eq(index >= STORE_BASE), is_instruction.eq(self.i_valid & (index >= PROGRAM_BASE)),
        ]
        m.d.comb += self.summary.eq(counts)
        m.submodules.marks = marks = Memory(shape=_Marks, depth=VECTOR_REGIONS, init=[], attrs=LUT_RAM)
        m.d.sync += faulty.eq(faulty | bad | (judged & self._bad_instruction(
            m, marks, data.View(shape_of(VectorInstruction), word), written)))
        m.d.sync += unwritten.eq((stored & ~written).any())
        number = Signal(range(VECTOR_REGIONS), name="number")
        with m.If(self.i_valid & (index == 0)):
            rows, columns = self.i.word[:16], self.i.word[16:]
            m.d.sync += [counts.rows.eq(rows), counts.columns.eq(columns), faulty.eq(~rows.any() | ~columns.any()),
                         number.eq(0), written.eq(0), stored.eq(0)]
        wrong = self.operation != VectorOperation.PROGRAM.value
        with m.If(wrong | faulty | unwritten):
            m.d.comb += [self.summary.error.eq(Mux(wrong, ErrorCode.BAD_OPERATION, ErrorCode.BAD_OPERAND)),
                         *(getattr(self.summary, part).eq(0) for part in ("loads", "stores", "instructions"))]

        write = marks.write_port()
        m.d.comb += write.addr.eq(number)
        with m.If(write.en):
            m.d.sync += number.eq(number + 1)
        self._mark(m, platform, write, counts, is_region, data.View(shape_of(VectorRegion), word))

        # Of moves and instructions those that are used: one bit of each move, in order, and how many are left.
        moves, left = Signal(VECTOR_LOADS + VECTOR_STORES, name="moves"), Signal.like(counts.instructions, name="left")
        loads, stores, instructions = word[:4], word[4:8], word[8:16]
        m.d.sync += [bad.eq(0), judged.eq(0)]
        with m.If(is_counts):
            m.d.sync += [
                counts.loads.eq(loads), counts.stores.eq(stores), counts.instructions.eq(instructions),
                left.eq(instructions),
                moves.eq(Cat(count > number for count, most in ((loads, VECTOR_LOADS), (stores, VECTOR_STORES))
                             for number in range(most))),
                bad.eq((loads > VECTOR_LOADS) | (stores > VECTOR_STORES) | (instructions > VECTOR_INSTRUCTIONS)),
            ]
        used = left.any()
        moved = marks.read_port(domain="comb")
        packed = Const(0, 1) if units(self.parameters).packs else word[4]
        m.d.comb += moved.addr.eq(word)
        with m.If(is_move):
            m.d.sync += [moves.eq(moves >> 1), bad.eq(moves[0] & (word[3] | packed | moved.data.unfit))]
            with m.If(moves[0] & ~is_store):
                m.d.sync += written.bit_select(word[:3], 1).eq(1)
            with m.If(moves[0] & is_store):
                m.d.sync += stored.bit_select(word[:3], 1).eq(1)
        with m.If(is_instruction):
            m.d.sync += [left.eq(left - used), judged.eq(used)]
            with m.If(used):
                m.d.sync += written.bit_select(data.View(shape_of(VectorInstruction), word).dst, 1).eq(1)
        return m

    def _mark(self, m: Module, platform: Any, marks: Any, counts: Any, is_region: Signal, region: Any) -> None:
        """Marks of the region at hand, a cycle later."""
        lane_bits = exact_log2(self.parameters.beat_words)
        capacity = self.parameters.vector_buffer_words // self.parameters.beat_words
        bits = capacity.bit_length()
        rows, columns = counts.rows, counts.columns
        column_groups = Signal(17 - lane_bits, name="column_groups")
        full_lines = Signal(len(rows) + len(column_groups))
        m.d.sync += [column_groups.eq((columns + (self.parameters.beat_words - 1))[lane_bits:]),
                     full_lines.eq(rows * column_groups)]
        # Lines: of a full region, zero if it is none; of a row or a column, less one if it has a part of a group, zero
        # if it is neither. And what is to be added, and whether there are far too many.
        line, full, side = Signal(bits, name="line"), Signal(bits, name="full"), Signal(bits, name="side")
        more, far, is_row, is_column = (Signal(name=name) for name in ("more", "far", "is_row", "is_column"))
        row_groups = rows[lane_bits:]
        is_full = ~region.is_row & ~region.is_column
        m.d.sync += [
            marks.en.eq(is_region), line.eq(region.line), full.eq(Mux(is_full, full_lines, 0)),
            side.eq(Mux(region.is_row != region.is_column, Mux(region.is_row, column_groups, row_groups), 0)),
            more.eq(region.is_column & (region.is_row | rows[:lane_bits].any())),
            far.eq(region.line[bits:].any() | (is_full & full_lines[bits:].any())
                   | (region.is_row & ~region.is_column & column_groups[bits:].any())
                   | (region.is_column & ~region.is_row & row_groups[bits:].any())),
            is_row.eq(region.is_row), is_column.eq(region.is_column),
        ]
        end = table_sum(m, platform, "end", [
            Digits((Cat(line, Const(0, 1)), Cat(full, Const(0, 1)), Cat(side, Const(0, 1))),
                   lambda x, f, s: x, lambda x, f, s: f | s)], more)
        m.d.comb += [marks.data.is_row.eq(is_row), marks.data.is_column.eq(is_column),
                     marks.data.unfit.eq(far | at_least(end, capacity + 1))]

    def _bad_instruction(self, m: Module, marks: Memory, instruction: Any, written: Signal) -> Value:
        """Whether the instruction of the cycle before is unfit; ``written`` by what is before it."""
        own = units(self.parameters)
        code = instruction.as_value()[:5]
        regions = {name: Signal(_Marks, name=f"marks_{name}") for name in ("dst", "a", "b")}
        for name, region in regions.items():
            port = marks.read_port(domain="comb")
            m.d.comb += port.addr.eq(getattr(instruction, name))
            m.d.sync += region.eq(port.data)
        dst, a, b = regions.values()
        no_a, no_b = Signal(name="no_a"), Signal(name="no_b")
        m.d.sync += [no_a.eq(~written.bit_select(instruction.a, 1)), no_b.eq(~written.bit_select(instruction.b, 1))]
        known, reduces, two_sources = Signal(name="known"), Signal(name="reduces"), Signal(name="two_sources")
        shape_bad = Signal()
        m.d.sync += [
            known.eq((code < len(VectorOp)) & ~Cat(code == op.value for op in own.lacking).any()
                     & ((code != VectorOp.FUNCTION.value)
                        | Cat(instruction.b == function.value for function in own.functions).any())),
            reduces.eq(Cat(code == op.value for op in REDUCTIONS).any()),
            two_sources.eq(Cat(code == op.value for op in TWO_SOURCES).any()),
        ]
        lost_row, lost_column = dst.is_row & ~a.is_row, dst.is_column & ~a.is_column
        with m.If(reduces):
            # Exactly one dimension less, and none gained.
            m.d.comb += shape_bad.eq((lost_row == lost_column) | (a.is_row & ~dst.is_row)
                                     | (a.is_column & ~dst.is_column))
        with m.Else():
            m.d.comb += shape_bad.eq(lost_row | lost_column | (two_sources & (
                (dst.is_row & ~b.is_row) | (dst.is_column & ~b.is_column))))
        return ~known | shape_bad | dst.unfit | a.unfit | no_a | (two_sources & (b.unfit | no_b))
